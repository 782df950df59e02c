/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * clock.h -- monotonic time in nanoseconds
 *
 * State machines take the time as an argument. Only their drivers, and code that measures time, read
 * the clock.
 */
#ifndef OL_BASE_CLOCK_H
#define OL_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define OL_NS_PER_US UINT64_C(1000)
#define OL_NS_PER_MS UINT64_C(1000000)
#define OL_NS_PER_S  UINT64_C(1000000000)

/* ol_clock_ns -- nanoseconds since some moment; the same for every process until a reboot */
static inline uint64_t ol_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * OL_NS_PER_S + (uint64_t)now.tv_nsec;
}

#endif /* OL_BASE_CLOCK_H */
