/* SPDX-License-Identifier: BSD-3-Clause */

/* clock.c -- looks at clocks that only measure */

#include "base/clock.h"

uint64_t ol_clock_measure_ns(void)
{
	return ol_clock_ns();
}

uint64_t ol_clock_wall_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * OL_NS_PER_S + (uint64_t)now.tv_nsec;
}
