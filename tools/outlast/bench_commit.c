/* SPDX-License-Identifier: BSD-3-Clause */

/* bench_commit.c -- `outlast bench commit`: a push until every replica of a chain has it */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/alternate.h"
#include "bench/chain.h"
#include "bench/pattern.h"
#include "bench/pingpong.h"
#include "bench/table.h"
#include "outlast/bench.h"
#include "outlast/cmd.h"

enum {
	SAMPLES_MAX = 4 << 20,
	ROUNDS = 20,
	WINDOW = 16, /* pushes whose buffers are kept until a pull, which is not timed */
	CONNECT_TIMEOUT_MS = 15000,
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

#define AT(member) .offset = offsetof(struct commit_conf, member)

static const struct ol_conf_field fields[] = {
	{ .help = "what", .type = OL_CONF_GROUP },
	{ .name = "size",
	  .dflt = "64,4K,64K,1M",
	  .help = "bytes of gradient: one, a list, or a range 8..64M (-s)",
	  AT(size),
	  .type = OL_CONF_STR },
	{ .name = "replicas",
	  .dflt = "1,2,3",
	  .help = "lengths of the chain, 1 to 8, one after the other",
	  AT(replicas),
	  .type = OL_CONF_STR },
	{ .name = "iters",
	  .dflt = "0",
	  .help = "timed pushes of each size and length; 0: as many as --seconds allow (-n)",
	  AT(iters),
	  .type = OL_CONF_U64,
	  .max = 1 << 28 },
	{ .name = "seconds",
	  .dflt = "1",
	  .help = "time for each size and length, and half as much for a baseline",
	  AT(seconds),
	  .type = OL_CONF_F64,
	  .f64_min = 0.001,
	  .f64_max = 86400 },
	{ .name = "warmup",
	  .dflt = "1000",
	  .help = "pushes before, not timed; at most a quarter of --seconds",
	  AT(warmup),
	  .type = OL_CONF_U64,
	  .max = 1 << 28 },
	{ .name = "baseline",
	  .dflt = "false",
	  .help = "a message from process to process through shared memory, there and back, before "
		  "the chains of a size and after; one way is half",
	  AT(baseline),
	  .type = OL_CONF_BOOL },
	{ .name = "threads",
	  .dflt = "false",
	  .help = "servers are threads of one process, on one processor: where to switch between "
		  "processes costs more than a message, as in an emulated machine",
	  AT(threads),
	  .type = OL_CONF_BOOL },
	BENCH_CHAIN_FIELDS_OF("true", "5000"),
	BENCH_PLACE_FIELDS,
};

struct commit {
	struct commit_conf conf;
	struct bench_sizes sizes;
	uint32_t lengths[OL_CHAIN_MAX];
	unsigned length_count;
	struct bench_ends ends;
	int cpus[OL_CHAIN_MAX];
	struct bench_chain chain;
	json_t *report;
	char err[BENCH_ERR_MAX];
};

static struct bench_plan plan_of(const struct commit *commit, double seconds)
{
	return (struct bench_plan){ .iters = commit->conf.iters,
				    .ns = (uint64_t)(seconds * 1e9),
				    .warmup = commit->conf.warmup,
				    .rounds = ROUNDS,
				    .samples_max = SAMPLES_MAX };
}

/* One way of the baseline, halved in each figure; once before the chains and once after */
static int baseline_run(struct commit *commit, uint64_t bytes, struct bench_summary *ret_summary)
{
	struct bench_plan plan = plan_of(commit, commit->conf.seconds / BASELINE_SHARE);
	struct bench_pingpong pingpong;
	struct bench_arm arm = { .name = "ping-pong",
				 .step = bench_pingpong_step,
				 .arg = &pingpong };
	int rc = bench_pingpong_start(bytes, commit->cpus[0], &pingpong);

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

static int pushes_run(struct commit *commit, uint64_t bytes, struct bench_client *client,
		      uint32_t replicas, json_t *list)
{
	struct bench_plan plan = plan_of(commit, commit->conf.seconds);
	struct bench_arm arm = {
		.name = "commit", .step = bench_push_step, .rest = bench_push_rest, .arg = client
	};
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

static int length_run(struct commit *commit, uint64_t bytes, uint32_t replicas, json_t *list)
{
	struct bench_peer_opts opts;
	struct bench_client client;
	uint32_t window = bench_window(WINDOW, bytes);
	int rc = bench_chain_open(&commit->chain, replicas, bytes, window, commit->err);

	if (rc != 0)
		return rc;
	opts = bench_chain_opts(&commit->chain);
	rc = bench_client_open(&opts, NULL, bytes, window, CONNECT_TIMEOUT_MS, &client,
			       commit->err);
	if (rc == 0) {
		rc = pushes_run(commit, bytes, &client, replicas, list);
		bench_client_close(&client);
	}
	bench_chain_close(&commit->chain);
	return rc;
}

/* The better of two runs is what the machine allows */
static void ratios(struct commit *commit, const struct bench_summary sums[2], json_t *list)
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
		uint32_t replicas = commit->lengths[i];
		double us = json_real_value(json_object_get(figures, "t_typical_us"));
		double ratio = us / (one_way_us * (replicas + 1));

		printf("#        %u replica%s: typical is %.2f times %u one-way trips\n", replicas,
		       replicas == 1 ? "" : "s", ratio, replicas + 1);
		json_object_set_new(figures, "one_way_us", json_real(one_way_us));
		json_object_set_new(figures, "ratio", json_real(ratio));
	}
	fflush(stdout);
}

static int size_run(struct commit *commit, uint64_t bytes)
{
	struct bench_summary sums[2];
	json_t *list = json_array();
	int rc = commit->conf.baseline ? baseline_run(commit, bytes, &sums[0]) : 0;

	for (unsigned i = 0; i < commit->length_count && rc == 0; i++)
		rc = length_run(commit, bytes, commit->lengths[i], list);
	if (rc == 0 && commit->conf.baseline)
		rc = baseline_run(commit, bytes, &sums[1]);
	if (rc == 0 && commit->conf.baseline)
		ratios(commit, sums, list);
	json_array_extend(json_object_get(commit->report, "results"), list);
	json_decref(list);
	return rc;
}

static void head_print(const struct commit *commit)
{
	printf("# outlast bench commit: from acquiring the gradient buffer until its worker knows "
	       "that every replica has it\n"
	       "# full trips, never halved; one push at a time; the payload is in the lent buffer "
	       "already\n"
	       "# between %d pushes (fewer where they are large) a pull frees the buffers: not "
	       "timed\n",
	       WINDOW);
	bench_chain_print(&commit->ends, commit->cpus, commit->lengths[commit->length_count - 1],
			  &commit->chain);
	if (commit->conf.threads)
		printf("# the servers are threads of one process\n");
	printf("# warm-up: %llu pushes each, not counted; no other sample is left out\n",
	       (unsigned long long)commit->conf.warmup);
	printf(" #replicas");
	bench_table_lat_head(stdout);
}

static int commit_run(struct commit *commit)
{
	int rc = bench_chain_ends(&commit->conf.chain, &commit->ends, commit->cpus, commit->err);

	for (unsigned i = 1; i < OL_CHAIN_MAX && commit->conf.threads; i++)
		commit->cpus[i] = commit->cpus[0];
	if (rc == 0)
		rc = bench_chain_start(&commit->ends.opts, commit->cpus, &commit->chain,
				       commit->err);
	if (rc != 0)
		return rc;
	commit->chain.threads = commit->conf.threads;
	commit->report = bench_chain_report("commit", &commit->ends, commit->cpus, &commit->chain);
	json_object_set_new(commit->report, "warmup",
			    json_integer((json_int_t)commit->conf.warmup));
	json_object_set_new(commit->report, "threads", json_boolean(commit->conf.threads));
	json_object_set_new(commit->report, "results", json_array());
	head_print(commit);
	for (unsigned i = 0; i < commit->sizes.count && rc == 0; i++)
		rc = size_run(commit, commit->sizes.bytes[i]);
	if (rc == 0)
		rc = bench_report_write(&commit->conf.chain.place, commit->report, commit->err);
	json_decref(commit->report);
	bench_chain_stop(&commit->chain);
	return rc;
}

/* "1,2,3" */
static int lengths_parse(struct commit *commit)
{
	const char *at = commit->conf.replicas;

	for (;;) {
		char *end;
		unsigned long value = strtoul(at, &end, 10);

		if (end == at || value < 1 || value > OL_CHAIN_MAX ||
		    commit->length_count == OL_CHAIN_MAX)
			return -EINVAL;
		commit->lengths[commit->length_count++] = (uint32_t)value;
		if (*end == '\0')
			return 0;
		if (*end != ',')
			return -EINVAL;
		at = end + 1;
	}
}

static int conf_check(struct commit *commit, struct ol_conf *conf)
{
	if (bench_sizes_parse(commit->conf.size, &commit->sizes, commit->err,
			      sizeof(commit->err)) != 0)
		return ol_conf_fail(conf, "size", commit->err);
	if (lengths_parse(commit) != 0)
		return ol_conf_fail(conf, "replicas",
				    "is not a list of at most 8 numbers from 1 to 8, like 1,2,3");
	return 0;
}

int bench_commit(int argc, char **argv)
{
	static const struct ol_conf_spec spec = {
		.program = "outlast bench commit",
		.purpose = "Latency of a push until every replica of a chain has it.",
		.examples = "  outlast bench commit --size 64,4K --replicas 1,2,3 --baseline\n"
			    "  outlast bench commit --size 4M --replicas 3 --json commit.json\n",
		.fields = fields,
		.field_count = sizeof(fields) / sizeof(fields[0]),
	};
	static struct commit commit;
	struct ol_conf *conf;
	int code, rc;

	if (bench_conf_load(&spec, &commit.conf, argc, argv, &conf, &code) == 0) {
		if (conf_check(&commit, conf) != 0) {
			fprintf(stderr, "%s\n", ol_conf_error(conf));
			code = OL_EXIT_USAGE;
		} else {
			rc = commit_run(&commit);
			code = rc == 0 ? OL_EXIT_OK : bench_fail("commit", rc, commit.err);
		}
	}
	ol_conf_destroy(conf);
	return code;
}
