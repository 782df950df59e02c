/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * hist.c -- how times are distributed, in constant memory
 *
 *	bucket index                 values
 *	0 .. 127                     itself
 *	128 (s + 1) + i, i < 128     [(128 + i) << s, (129 + i) << s)     s = 0 .. 56
 */
#include "base/hist.h"

#include <math.h>
#include <string.h>

void ol_hist_init(struct ol_hist *hist)
{
	memset(hist, 0, sizeof(*hist));
	hist->min = UINT64_MAX;
}

unsigned ol_hist_bucket_index(uint64_t value)
{
	unsigned shift;

	if (value < OL_HIST_SUB_COUNT)
		return (unsigned)value;
	shift = 63U - (unsigned)__builtin_clzll(value) - OL_HIST_SUB_BITS;
	return shift * OL_HIST_SUB_COUNT + (unsigned)(value >> shift);
}

uint64_t ol_hist_bucket_top(unsigned index)
{
	unsigned shift;
	uint64_t base;

	if (index < OL_HIST_SUB_COUNT)
		return index;
	shift = index / OL_HIST_SUB_COUNT - 1;
	base = OL_HIST_SUB_COUNT + index % OL_HIST_SUB_COUNT;
	return (base << shift) + ((UINT64_C(1) << shift) - 1);
}

void ol_hist_record(struct ol_hist *hist, uint64_t value)
{
	double delta = (double)value - hist->mean;

	hist->buckets[ol_hist_bucket_index(value)]++;
	hist->count++;
	hist->mean += delta / (double)hist->count;
	hist->squares += delta * ((double)value - hist->mean);
	if (value < hist->min)
		hist->min = value;
	if (value > hist->max)
		hist->max = value;
}

void ol_hist_merge(struct ol_hist *hist, const struct ol_hist *from)
{
	double count = (double)hist->count, from_count = (double)from->count;
	double delta = from->mean - hist->mean;

	if (from->count == 0)
		return;
	for (unsigned i = 0; i < OL_HIST_BUCKET_COUNT; i++)
		hist->buckets[i] += from->buckets[i];
	hist->squares += from->squares + delta * delta * count * from_count / (count + from_count);
	hist->mean += delta * from_count / (count + from_count);
	hist->count += from->count;
	if (from->min < hist->min)
		hist->min = from->min;
	if (from->max > hist->max)
		hist->max = from->max;
}

uint64_t ol_hist_quantile(const struct ol_hist *hist, double q)
{
	uint64_t rank, seen = 0, top;

	if (hist->count == 0)
		return 0;
	if (!(q > 0.0))
		return hist->min;
	if (q >= 1.0)
		return hist->max;

	rank = (uint64_t)ceil(q * (double)hist->count);
	for (unsigned i = 0; i < OL_HIST_BUCKET_COUNT; i++) {
		seen += hist->buckets[i];
		if (seen >= rank) {
			top = ol_hist_bucket_top(i);
			return top < hist->max ? top : hist->max;
		}
	}
	return hist->max;
}

double ol_hist_mean(const struct ol_hist *hist)
{
	return hist->count > 0 ? hist->mean : 0.0;
}

double ol_hist_stddev(const struct ol_hist *hist)
{
	return hist->count > 1 ? sqrt(hist->squares / (double)(hist->count - 1)) : 0.0;
}

uint64_t ol_hist_min(const struct ol_hist *hist)
{
	return hist->count > 0 ? hist->min : 0;
}

uint64_t ol_hist_max(const struct ol_hist *hist)
{
	return hist->max;
}
