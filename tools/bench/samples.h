/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * samples.h -- all times of a run, their statistics, in perftest's columns and as JSON
 *
 * Every sample is kept, so order statistics are exact. Quantiles are nearest rank: the smallest
 * sample that a share q of all samples does not exceed.
 */
#ifndef BENCH_SAMPLES_H
#define BENCH_SAMPLES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct bench_samples {
	uint64_t *ns;
	size_t count;
	size_t max;
};

/* In nanoseconds. All 0 for no samples. */
struct bench_summary {
	uint64_t count;
	uint64_t min;
	uint64_t p50;
	uint64_t p99;
	uint64_t p999;
	uint64_t max;
	double avg;
	double stdev; /* of the sample, n - 1; 0 for one */
};

/* The rates of a run with a window */
struct bench_rate {
	uint64_t count;
	double avg_per_s; /* messages */
	double peak_per_s; /* over the best stretch of consecutive completions */
};

/* bench_samples_init -- room for max samples, touched; -ENOMEM */
int bench_samples_init(struct bench_samples *samples, size_t max);
void bench_samples_fini(struct bench_samples *samples);

static inline bool bench_samples_full(const struct bench_samples *samples)
{
	return samples->count == samples->max;
}

/* bench_samples_add -- samples must not be full */
static inline void bench_samples_add(struct bench_samples *samples, uint64_t ns)
{
	samples->ns[samples->count++] = ns;
}

/* bench_summary_make -- sorts the samples: write them out first if their order matters */
void bench_summary_make(struct bench_samples *samples, struct bench_summary *ret_summary);

/* bench_quantile -- of count sorted samples; 0 if there are none */
uint64_t bench_quantile(const uint64_t *sorted, size_t count, double q);

/*
 * bench_rate_make -- rates from the times of completions since the start, in order
 *
 * stretch: completions in the stretch for the peak; at most count.
 */
void bench_rate_make(const struct bench_samples *completions, size_t stretch,
		     struct bench_rate *ret_rate);

/* bench_samples_write -- one number a line, after a prefix, in the order taken; -EIO */
int bench_samples_write(const struct bench_samples *samples, FILE *out, const char *prefix);

/*
 * Results in perftest's columns: times are microseconds, of full round trips; perftest halves those
 * of writes. MB is 2^20 bytes and Mpps 10^6 messages a second.
 */
void bench_table_lat_head(FILE *out);
void bench_table_lat_row(FILE *out, uint64_t bytes, const struct bench_summary *summary);
void bench_table_bw_head(FILE *out);
void bench_table_bw_row(FILE *out, uint64_t bytes, const struct bench_rate *rate);

/* bench_summary_json, bench_rate_json -- the row as an object; NULL: no memory */
json_t *bench_summary_json(const struct bench_summary *summary);
json_t *bench_rate_json(uint64_t bytes, const struct bench_rate *rate);

#endif /* BENCH_SAMPLES_H */
