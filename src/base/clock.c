/* SPDX-License-Identifier: BSD-3-Clause */

/* clock.c -- a look at the clock that only measures */

#include "base/clock.h"

uint64_t ol_clock_measure_ns(void)
{
	return ol_clock_ns();
}
