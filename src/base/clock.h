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

/*
 * ol_clock_measure_ns -- the same, for figures on which nothing else depends
 *
 * A function of its own: in a simulation it takes no time, so figures that are added later do not change
 * what happens with a seed.
 */
uint64_t ol_clock_measure_ns(void);

/* ol_clock_wall_ns -- likewise, since 1970: for figures that people compare between hosts */
uint64_t ol_clock_wall_ns(void);

#endif /* OL_BASE_CLOCK_H */
