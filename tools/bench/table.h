/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * table.h -- results in perftest's columns, and as JSON
 *
 * Times are microseconds. MB is 2^20 bytes and Mpps 10^6 messages a second, as in perftest. Times
 * are those of full round trips; perftest halves those of writes.
 */
#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/samples.h"

void bench_table_lat_head(FILE *out);
void bench_table_lat_row(FILE *out, uint64_t bytes, const struct bench_summary *summary);
void bench_table_bw_head(FILE *out);
void bench_table_bw_row(FILE *out, uint64_t bytes, const struct bench_rate *rate);

/* bench_mb_per_s -- MB as above */
double bench_mb_per_s(uint64_t bytes, double messages_per_s);

/* bench_summary_json, bench_rate_json -- the row as an object; NULL: no memory */
json_t *bench_summary_json(const struct bench_summary *summary);
json_t *bench_rate_json(uint64_t bytes, const struct bench_rate *rate);

#endif /* BENCH_TABLE_H */
