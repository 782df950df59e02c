/* SPDX-License-Identifier: BSD-3-Clause */

/* samples.c -- all times of a run, their statistics, in perftest's columns and as JSON */

#include "bench/samples.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int bench_samples_init(struct bench_samples *samples, size_t max)
{
	*samples = (struct bench_samples){ .max = max };
	samples->ns = malloc(max * sizeof(*samples->ns));
	if (samples->ns == NULL)
		return -ENOMEM;
	memset(samples->ns, 0xff, max * sizeof(*samples->ns)); /* no page fault while timing */
	return 0;
}

void bench_samples_fini(struct bench_samples *samples)
{
	free(samples->ns);
	*samples = (struct bench_samples){ 0 };
}

static int compare_ns(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

uint64_t bench_quantile(const uint64_t *sorted, size_t count, double q)
{
	size_t rank;

	if (count == 0)
		return 0;
	rank = (size_t)ceil(q * (double)count);
	if (rank < 1)
		rank = 1;
	return sorted[(rank < count ? rank : count) - 1];
}

void bench_summary_make(struct bench_samples *samples, struct bench_summary *ret_summary)
{
	size_t count = samples->count;
	double sum = 0.0, squares = 0.0;

	*ret_summary = (struct bench_summary){ .count = count };
	if (count == 0)
		return;
	qsort(samples->ns, count, sizeof(*samples->ns), compare_ns);
	for (size_t i = 0; i < count; i++)
		sum += (double)samples->ns[i];
	ret_summary->avg = sum / (double)count;
	for (size_t i = 0; i < count; i++) {
		double off = (double)samples->ns[i] - ret_summary->avg;

		squares += off * off;
	}
	ret_summary->stdev = count > 1 ? sqrt(squares / (double)(count - 1)) : 0.0;
	ret_summary->min = samples->ns[0];
	ret_summary->p50 = bench_quantile(samples->ns, count, 0.5);
	ret_summary->p99 = bench_quantile(samples->ns, count, 0.99);
	ret_summary->p999 = bench_quantile(samples->ns, count, 0.999);
	ret_summary->max = samples->ns[count - 1];
}

void bench_rate_make(const struct bench_samples *completions, size_t stretch,
		     struct bench_rate *ret_rate)
{
	size_t count = completions->count;
	const uint64_t *at = completions->ns;

	*ret_rate = (struct bench_rate){ .count = count };
	if (count == 0)
		return;
	if (stretch < 1 || stretch > count)
		stretch = count;
	if (at[count - 1] > 0)
		ret_rate->avg_per_s = (double)count * 1e9 / (double)at[count - 1];
	for (size_t last = stretch - 1; last < count; last++) {
		uint64_t begin = last >= stretch ? at[last - stretch] : 0;
		double rate =
			at[last] > begin ? (double)stretch * 1e9 / (double)(at[last] - begin) : 0.0;

		if (rate > ret_rate->peak_per_s)
			ret_rate->peak_per_s = rate;
	}
}

int bench_samples_write(const struct bench_samples *samples, FILE *out, const char *prefix)
{
	for (size_t i = 0; i < samples->count; i++)
		fprintf(out, "%s%llu\n", prefix, (unsigned long long)samples->ns[i]);
	return ferror(out) ? -EIO : 0;
}

static double us(double ns)
{
	return ns / 1e3;
}

void bench_table_lat_head(FILE *out)
{
	fprintf(out, " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    "
		     "t_avg[usec]    t_stdev[usec]   99%% percentile[usec]   "
		     "99.9%% percentile[usec]\n");
}

void bench_table_lat_row(FILE *out, uint64_t bytes, const struct bench_summary *s)
{
	fprintf(out, " %-8llu %-10llu %-14.2f %-14.2f %-16.2f %-14.2f %-16.2f %-22.2f %-.2f\n",
		(unsigned long long)bytes, (unsigned long long)s->count, us((double)s->min),
		us((double)s->max), us((double)s->p50), us(s->avg), us(s->stdev),
		us((double)s->p99), us((double)s->p999));
	fflush(out);
}

void bench_table_bw_head(FILE *out)
{
	fprintf(out, " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   "
		     "MsgRate[Mpps]\n");
}

static double mb_per_s(uint64_t bytes, double messages_per_s)
{
	return (double)bytes * messages_per_s / (1 << 20);
}

void bench_table_bw_row(FILE *out, uint64_t bytes, const struct bench_rate *rate)
{
	fprintf(out, " %-10llu %-14llu %-18.2f %-20.2f %-.6f\n", (unsigned long long)bytes,
		(unsigned long long)rate->count, mb_per_s(bytes, rate->peak_per_s),
		mb_per_s(bytes, rate->avg_per_s), rate->avg_per_s / 1e6);
	fflush(out);
}

json_t *bench_summary_json(const struct bench_summary *s)
{
	return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "iterations",
			 (json_int_t)s->count, "t_min_us", us((double)s->min), "t_max_us",
			 us((double)s->max), "t_typical_us", us((double)s->p50), "t_avg_us",
			 us(s->avg), "t_stdev_us", us(s->stdev), "p99_us", us((double)s->p99),
			 "p999_us", us((double)s->p999));
}

json_t *bench_rate_json(uint64_t bytes, const struct bench_rate *rate)
{
	return json_pack("{s:I, s:f, s:f, s:f}", "iterations", (json_int_t)rate->count,
			 "bw_peak_mb_per_s", mb_per_s(bytes, rate->peak_per_s),
			 "bw_average_mb_per_s", mb_per_s(bytes, rate->avg_per_s), "msg_rate_mpps",
			 rate->avg_per_s / 1e6);
}
