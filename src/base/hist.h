/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * hist.h -- a histogram of times: struct ol_latency of outlast.h
 *
 * Buckets are log-linear: four to each power of two, of equal width. A bucket is at most a quarter as
 * wide as its lower bound, so a quantile is known to 25 %. Their bounds are the same in every process,
 * so histograms of many can be added up.
 *
 *	bucket            ns
 *	0                 below 2^10
 *	1 + 4 o + s       from (4 + s) 2^(8 + o) to below (5 + s) 2^(8 + o); o: 0 … 25, s: 0 … 3
 *	105               2^36 (68.7 s) or more
 */
#ifndef OL_BASE_HIST_H
#define OL_BASE_HIST_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "outlast.h"

enum {
	OL_HIST_LOW = 10, /* powers of two: bucket 0 ends … */
	OL_HIST_HIGH = 36, /* … the last one begins */
	OL_HIST_EACH = 4, /* buckets of a power of two */
};

static_assert(OL_LATENCY_BUCKETS == (OL_HIST_HIGH - OL_HIST_LOW) * OL_HIST_EACH + 2, "buckets");

/* ol_hist_bucket -- the bucket of a time below 2^63 ns */
static inline unsigned ol_hist_bucket(uint64_t ns)
{
	const double real = (double)(int64_t)ns;
	uint64_t bits;
	int64_t bucket;

	/* a double begins with its power of two, behind which are the bits that say which of four */
	memcpy(&bits, &real, sizeof(bits));
	bucket = (int64_t)(bits >> 50) - (OL_HIST_EACH * (1023 + OL_HIST_LOW) - 1);
	if (bucket < 0)
		return 0;
	return bucket < OL_LATENCY_BUCKETS ? (unsigned)bucket : OL_LATENCY_BUCKETS - 1;
}

/* ol_hist_bound -- times in this bucket and those before are below so many ns; UINT64_MAX: the last */
uint64_t ol_hist_bound(unsigned bucket);

/* ol_hist_add -- one time more */
void ol_hist_add(struct ol_latency *hist, uint64_t ns);

/* ol_hist_count -- how many times there are */
uint64_t ol_hist_count(const struct ol_latency *hist);

/*
 * ol_hist_quantile -- a time that is in the same bucket as the quantile q (0 … 1), in ns
 *
 * Within a bucket times are taken to be spread evenly. 0: there are none. Of the last bucket it is
 * the lower bound.
 */
uint64_t ol_hist_quantile(const struct ol_latency *hist, double q);

#endif /* OL_BASE_HIST_H */
