/* SPDX-License-Identifier: BSD-3-Clause */

/* commit.c -- `outlast bench commit`: a push until every replica of a chain has it */

#include <errno.h>
#include <stdlib.h>

#include "bench/alternate.h"
#include "bench/baseline.h"
#include "bench/bench.h"

enum {
	SAMPLES_MAX = 4 << 20,
	ROUNDS = 20,
	WINDOW = 16, /* pushes until a pull frees their buffers, which is not timed */
	BASELINE_SHARE = 4, /* of --seconds, before the chains and after */
};

struct commit_conf {
	struct bench_chain_conf chain;
	const char *size;
	const char *replicas;
	uint64_t iters;
	uint64_t warmup;
	double seconds;
	bool baseline;
	bool threads;
};

static const struct ol_conf_field fields[] = {
	OL_ROW_GROUP("what"),
	OL_ROW_STR(commit_conf, size, "64,4K,64K,1M",
		   "bytes of gradient: one, a list, or a range 8..64M (-s)"),
	OL_ROW_STR(commit_conf, replicas, "1,2,3",
		   "lengths of the chain, 1 to 8, one after the other"),
	OL_ROW_U64(commit_conf, iters, "0", 0, 1 << 28,
		   "timed pushes of each size and length; 0: as many as --seconds allow (-n)"),
	OL_ROW_F64(commit_conf, seconds, "1", 0.001, 86400,
		   "time for each size and length, and half as much for a baseline"),
	OL_ROW_U64(commit_conf, warmup, "1000", 0, 1 << 28,
		   "pushes before, not timed; at most a quarter of --seconds"),
	OL_ROW_BOOL(
		commit_conf, baseline, "false",
		"a message from process to process through shared memory, there and back, before "
		"the chains of a size and after; one way is half"),
	OL_ROW_BOOL(commit_conf, threads, "false",
		    "servers are threads of one process, on one processor: where to switch between "
		    "processes costs more than a message, as in an emulated machine"),
	BENCH_CHAIN_FIELDS_OF("true", "5000"),
	BENCH_PLACE_FIELDS,
};

static struct commit {
	struct bench_run run;
	struct commit_conf conf;
	uint32_t lengths[OL_CHAIN_MAX];
	unsigned length_count;
} commit;

static struct bench_plan plan_of(double seconds)
{
	return (struct bench_plan){ .iters = commit.conf.iters,
				    .ns = (uint64_t)(seconds * 1e9),
				    .warmup = commit.conf.warmup,
				    .rounds = ROUNDS,
				    .samples_max = SAMPLES_MAX };
}

/* Measure the baseline; one way is half of each figure. Once before the chains and once after */
static int baseline_run(uint64_t bytes, struct bench_summary *ret_summary)
{
	struct bench_plan plan = plan_of(commit.conf.seconds / BASELINE_SHARE);
	struct bench_pingpong pingpong;
	struct bench_arm arm = { .name = "ping-pong",
				 .step = bench_pingpong_step,
				 .arg = &pingpong };
	int rc = bench_pingpong_start(bytes, commit.run.cpus[0], &pingpong);

	if (rc != 0)
		return rc;
	rc = bench_alternate(&arm, 1, &plan);
	bench_pingpong_stop(&pingpong);
	for (size_t i = 0; i < arm.samples.count; i++)
		arm.samples.ns[i] /= 2;
	if (rc == 0)
		bench_summary_make(&arm.samples, ret_summary);
	bench_samples_fini(&arm.samples);
	return rc;
}

/* Time pushes to an open chain */
static int pushes_run(uint64_t bytes, uint32_t replicas, json_t *list)
{
	struct bench_plan plan = plan_of(commit.conf.seconds);
	struct bench_arm arm = { .name = "commit",
				 .step = bench_push_step,
				 .rest = bench_push_rest,
				 .arg = &commit.run.client };
	struct bench_summary summary;
	json_t *figures;
	int rc = bench_alternate(&arm, 1, &plan);

	if (rc == 0) {
		bench_summary_make(&arm.samples, &summary);
		printf(" %-8u", replicas);
		bench_table_lat_row(stdout, bytes, &summary);
		figures = bench_summary_json(&summary);
		json_object_set_new(figures, "bytes", json_integer((json_int_t)bytes));
		json_object_set_new(figures, "replicas", json_integer(replicas));
		json_array_append_new(list, figures);
	}
	bench_samples_fini(&arm.samples);
	return rc;
}

/* Compare with the better of the two baseline runs */
static void ratios(const struct bench_summary sums[2], json_t *list)
{
	const struct bench_summary *base = &sums[sums[1].p50 < sums[0].p50];
	double one_way_us = (double)base->p50 / 1e3;
	json_t *figures;
	size_t i;

	printf("#        one way through shared memory: %.3f us typical (%.3f before, %.3f after), "
	       "%.3f at least\n",
	       one_way_us, (double)sums[0].p50 / 1e3, (double)sums[1].p50 / 1e3,
	       (double)base->min / 1e3);
	json_array_foreach(list, i, figures)
	{
		uint32_t replicas = commit.lengths[i];
		double us = json_real_value(json_object_get(figures, "t_typical_us"));
		double ratio = us / (one_way_us * (replicas + 1));

		printf("#        %u replica%s: typical is %.2f times %u one-way trips\n", replicas,
		       replicas == 1 ? "" : "s", ratio, replicas + 1);
		json_object_set_new(figures, "one_way_us", json_real(one_way_us));
		json_object_set_new(figures, "ratio", json_real(ratio));
	}
	fflush(stdout);
}

static int size_run(struct bench_run *run, uint64_t bytes)
{
	struct bench_summary sums[2];
	json_t *list = json_array();
	int rc = commit.conf.baseline ? baseline_run(bytes, &sums[0]) : 0;

	for (unsigned i = 0; i < commit.length_count && rc == 0; i++) {
		rc = bench_servers_open(run, commit.lengths[i], bytes, bench_window(WINDOW, bytes));
		if (rc == 0)
			rc = bench_servers_close(run, pushes_run(bytes, commit.lengths[i], list));
	}
	if (rc == 0 && commit.conf.baseline)
		rc = baseline_run(bytes, &sums[1]);
	if (rc == 0 && commit.conf.baseline)
		ratios(sums, list);
	json_array_extend(json_object_get(run->report, "results"), list);
	json_decref(list);
	return rc;
}

static void begin(struct bench_run *run)
{
	printf("# outlast bench commit: from acquiring the gradient buffer until its worker knows "
	       "that every replica has it\n"
	       "# full trips, never halved; one push at a time; the payload is in the lent buffer "
	       "already\n"
	       "# between %d pushes (fewer where they are large) a pull frees the buffers: not "
	       "timed\n",
	       WINDOW);
	bench_chain_print(run, commit.lengths[commit.length_count - 1]);
	if (commit.conf.threads)
		printf("# the servers are threads of one process\n");
	printf("# warm-up: %llu pushes each, not counted; no other sample is left out\n",
	       (unsigned long long)commit.conf.warmup);
	printf(" #replicas");
	bench_table_lat_head(stdout);
	json_object_update_new(run->report, json_pack("{s:I, s:b, s:[]}", "warmup",
						      (json_int_t)commit.conf.warmup, "threads",
						      (int)commit.conf.threads, "results"));
}

/* "1,2,3" */
static int lengths_parse(void)
{
	const char *at = commit.conf.replicas;

	for (;;) {
		char *end;
		unsigned long value = strtoul(at, &end, 10);

		if (end == at || value < 1 || value > OL_CHAIN_MAX ||
		    commit.length_count == OL_CHAIN_MAX)
			return -EINVAL;
		commit.lengths[commit.length_count++] = (uint32_t)value;
		if (*end == '\0')
			return 0;
		if (*end != ',')
			return -EINVAL;
		at = end + 1;
	}
}

static int check(struct bench_run *run, struct ol_conf *conf)
{
	run->threads = commit.conf.threads;
	if (lengths_parse() != 0)
		return ol_conf_fail(conf, "replicas",
				    "is not a list of at most 8 numbers from 1 to 8, like 1,2,3");
	return bench_sizes_take(run, conf, commit.conf.size);
}

const struct bench_measure bench_commit = {
	.name = "commit",
	.summary = "a gradient, until every replica of a chain has it",
	.purpose = "Latency of a push until every replica of a chain has it.",
	.examples = "  outlast bench commit --size 64,4K --replicas 1,2,3 --baseline\n"
		    "  outlast bench commit --size 4M --replicas 3 --json commit.json\n",
	.fields = OL_FIELDS(fields),
	.conf = &commit.conf,
	.run = &commit.run,
	.chain = true,
	.check = check,
	.begin = begin,
	.size = size_run,
};
