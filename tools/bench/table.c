/* SPDX-License-Identifier: BSD-3-Clause */

/* table.c -- results in perftest's columns, and as JSON */

#include "bench/table.h"

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

double bench_mb_per_s(uint64_t bytes, double messages_per_s)
{
	return (double)bytes * messages_per_s / (1 << 20);
}

void bench_table_bw_row(FILE *out, uint64_t bytes, const struct bench_rate *rate)
{
	fprintf(out, " %-10llu %-14llu %-18.2f %-20.2f %-.6f\n", (unsigned long long)bytes,
		(unsigned long long)rate->count, bench_mb_per_s(bytes, rate->peak_per_s),
		bench_mb_per_s(bytes, rate->avg_per_s), rate->avg_per_s / 1e6);
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
			 "bw_peak_mb_per_s", bench_mb_per_s(bytes, rate->peak_per_s),
			 "bw_average_mb_per_s", bench_mb_per_s(bytes, rate->avg_per_s),
			 "msg_rate_mpps", rate->avg_per_s / 1e6);
}
