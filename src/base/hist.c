/* SPDX-License-Identifier: BSD-3-Clause */

/* hist.c -- counts, bounds and quantiles of a histogram of times */

#include "base/hist.h"

#include <math.h>

uint64_t ol_hist_bound(unsigned bucket)
{
	const unsigned at = bucket - 1;

	if (bucket == 0)
		return UINT64_C(1) << OL_HIST_LOW;
	if (bucket >= OL_LATENCY_BUCKETS - 1)
		return UINT64_MAX;
	return (uint64_t)(OL_HIST_EACH + 1 + at % OL_HIST_EACH)
	       << (OL_HIST_LOW - 2 + at / OL_HIST_EACH);
}

void ol_hist_add(struct ol_latency *hist, uint64_t ns)
{
	hist->sum_ns += ns;
	hist->buckets[ol_hist_bucket(ns)]++;
}

uint64_t ol_hist_count(const struct ol_latency *hist)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < OL_LATENCY_BUCKETS; i++)
		count += hist->buckets[i];
	return count;
}

uint64_t ol_hist_quantile(const struct ol_latency *hist, double q)
{
	const double rank = fmax(1.0, q * (double)ol_hist_count(hist));
	double before = 0.0;
	uint64_t low = 0;

	for (unsigned i = 0; i < OL_LATENCY_BUCKETS; i++) {
		const double here = (double)hist->buckets[i];
		const uint64_t bound = ol_hist_bound(i);

		if (before + here >= rank && bound != UINT64_MAX)
			return low + (uint64_t)((double)(bound - low - 1) * (rank - before) / here);
		if (before + here >= rank)
			return low;
		before += here;
		low = bound;
	}
	return 0;
}
