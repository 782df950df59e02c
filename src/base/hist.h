/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * hist.h -- how times are distributed, in constant memory
 *
 * A log-linear histogram of 64-bit values, nanoseconds by custom: below 128 every value has a
 * bucket of its own, above that every power of two is cut into 128 equal buckets. Hence a bucket is
 * never wider than 1/128 of the values in it: the stated resolution of every quantile. Count,
 * minimum, maximum, mean and standard deviation are exact (but for floating point).
 */
#ifndef OL_BASE_HIST_H
#define OL_BASE_HIST_H

#include <stdint.h>

enum {
	OL_HIST_SUB_BITS = 7,
	OL_HIST_SUB_COUNT = 1 << OL_HIST_SUB_BITS, /* 1 / relative resolution */
	OL_HIST_BUCKET_COUNT = (64 - OL_HIST_SUB_BITS + 1) * OL_HIST_SUB_COUNT
};

/* Some 58 KiB: in static or allocated memory, not on a stack. */
struct ol_hist {
	uint64_t count;
	uint64_t min; /* UINT64_MAX while empty */
	uint64_t max;
	double mean;
	double squares; /* sum of (value - mean)^2 */
	uint64_t buckets[OL_HIST_BUCKET_COUNT];
};

/* ol_hist_init -- empty it; also to use it again */
void ol_hist_init(struct ol_hist *hist);

/* ol_hist_record -- add one value; never blocks or allocates */
void ol_hist_record(struct ol_hist *hist, uint64_t value);

/* ol_hist_merge -- add all that from holds; the same as recording its values, but for rounding */
void ol_hist_merge(struct ol_hist *hist, const struct ol_hist *from);

/*
 * ol_hist_quantile -- the value that a share q of all values does not exceed (nearest rank)
 *
 * Never below the exact one, and above it by less than 1/128 of it. q is cut to 0..1; 0 gives the
 * minimum and 1 the maximum, both exact. 0 from an empty histogram.
 */
uint64_t ol_hist_quantile(const struct ol_hist *hist, double q);

/* ol_hist_mean, ol_hist_stddev (of the sample, n - 1), ol_hist_min, ol_hist_max: 0 while empty */
double ol_hist_mean(const struct ol_hist *hist);
double ol_hist_stddev(const struct ol_hist *hist);
uint64_t ol_hist_min(const struct ol_hist *hist);
uint64_t ol_hist_max(const struct ol_hist *hist);

/* ol_hist_bucket_index, ol_hist_bucket_top -- a value's bucket; the largest value of a bucket */
unsigned ol_hist_bucket_index(uint64_t value);
uint64_t ol_hist_bucket_top(unsigned index);

#endif /* OL_BASE_HIST_H */
