/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * update.c -- how fast a server's update rules are, beside a triad of the same bytes in the same run
 *
 *	bench-update [--size BYTES,...] [--threads N,...] [--gradients N] [--seconds S] [--json FILE]
 *
 * An update reads its gradients, weights and state, and writes weights and state. The triad is
 * w2 = w - lr * g over three vectors that have as many bytes in all (STREAM's triad, McCalpin 1995).
 * Its vectors rotate as snapshots do, on the same kind of memory, and it is cut into pieces for the same
 * threads. Steps of both are timed in turns. GB/s counts bytes read and written by the formula, no line that a processor fetches besides.
 */

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench/alternate.h"
#include "bench/baseline.h"
#include "bench/host.h"
#include "bench/size.h"
#include "server/pool.h"
#include "store/store.h"

enum {
	GRADIENTS_MAX = 16,
	COUNTS_MAX = 8, /* numbers of threads */
	TRIAD_PIECE = 1 << 16, /* floats */
	ROUNDS = 8,
	SAMPLES_MAX = 1 << 20,
	WARMUP = 6, /* each vector of a rotation twice */
};

static const enum ol_optimizer rules[] = { OL_OPTIMIZER_SGD, OL_OPTIMIZER_MOMENTUM,
					   OL_OPTIMIZER_NESTEROV, OL_OPTIMIZER_ADAM,
					   OL_OPTIMIZER_ADAMW };

struct set {
	struct bench_sizes sizes;
	struct bench_sizes threads;
	unsigned gradients;
	double seconds; /* of each arm */
	const char *json;
};

/* One arm: an update, or the triad beside it */
struct work {
	struct ol_pool *pool;
	/* update */
	struct ol_store store;
	struct ol_geometry geo;
	struct ol_contribution contributions[GRADIENTS_MAX];
	uint8_t *memory;
	size_t memory_bytes;
	/* triad */
	struct bench_baseline vectors;
	float *to;
	const float *from;
};

static uint8_t *map(size_t bytes)
{
	uint8_t *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	(void)madvise(memory, bytes, MADV_HUGEPAGE);
	return memory;
}

static void run(void *arg, ol_store_piece_fn *piece, void *piece_arg, unsigned count)
{
	const struct work *work = arg;

	ol_pool_run(work->pool, piece, piece_arg, count, NULL, NULL);
}

/* Bytes that one update reads and writes */
static uint64_t bytes_of(enum ol_optimizer rule, uint64_t vector, unsigned gradients)
{
	return vector * (gradients + 2 * (1 + (uint64_t)ol_rule_state_vectors(rule)));
}

static int update_make(struct work *work, enum ol_optimizer optimizer, uint64_t vector,
		       unsigned gradients)
{
	const struct ol_update_rule rule = { .optimizer = optimizer,
					     .lr = 1e-9f,
					     .momentum = 0.9f,
					     .beta1 = 0.9f,
					     .beta2 = 0.999f,
					     .epsilon = 1e-8f };
	const uint64_t len = vector / sizeof(float);
	float *grads;

	work->geo = (struct ol_geometry){ .param_count = len,
					  .shard_len = len,
					  .shard_count = 1,
					  .workers_max = gradients,
					  .window = 1,
					  .groups = 1,
					  .state_vectors = ol_rule_state_vectors(optimizer),
					  .consistency = OL_CONSISTENCY_SYNC };
	work->memory_bytes = ol_layout_public_bytes(&work->geo) + gradients * vector;
	work->memory = map(work->memory_bytes);
	if (work->memory == NULL)
		return -ENOMEM;
	grads = (float *)(void *)(work->memory + ol_layout_public_bytes(&work->geo));
	for (uint64_t i = 0; i < gradients * len; i++)
		grads[i] = 0.5f;
	if (ol_store_init(&work->store, &work->geo, &rule, work->memory, grads) != 0)
		return -EINVAL;
	work->store.run = run;
	work->store.run_arg = work;
	for (unsigned k = 0; k < gradients; k++)
		work->contributions[k] = (struct ol_contribution){
			.grad = grads + k * len, .seq = 1, .grads = 1, .scale = 1.0f, .worker = k
		};
	return 0;
}

static int update_step(void *arg)
{
	struct work *work = arg;
	unsigned target = (unsigned)ol_store_target(&work->store, 0), count = work->geo.workers_max;

	return ol_store_apply(&work->store, work->contributions, count, target) == count ? 0 : -EIO;
}

static void triad_piece(void *arg, unsigned index)
{
	const struct work *work = arg;
	const size_t at = (size_t)index * TRIAD_PIECE;
	const size_t left = work->vectors.len - at;

	bench_pass(work->to + at, work->from + at, work->vectors.grad + at, 1e-9f,
		   left < TRIAD_PIECE ? left : TRIAD_PIECE);
}

static int triad_step(void *arg)
{
	struct work *work = arg;
	struct bench_baseline *b = &work->vectors;

	work->from = b->weights[b->turn % 3];
	b->turn++;
	work->to = b->weights[b->turn % 3];
	ol_pool_run(work->pool, triad_piece, work,
		    (unsigned)((b->len + TRIAD_PIECE - 1) / TRIAD_PIECE), NULL, NULL);
	return 0;
}

static void work_free(struct work *work)
{
	if (work->memory != NULL)
		munmap(work->memory, work->memory_bytes);
	bench_baseline_fini(&work->vectors);
	ol_pool_destroy(work->pool);
	*work = (struct work){ 0 };
}

/* Both arms of one row */
static int works_make(struct work works[2], enum ol_optimizer rule, uint64_t vector,
		      unsigned gradients, unsigned threads)
{
	int rc = ol_pool_create(threads, NULL, &works[0].pool);

	if (rc == 0)
		rc = ol_pool_create(threads, NULL, &works[1].pool);
	if (rc == 0)
		rc = update_make(&works[0], rule, vector, gradients);
	if (rc == 0)
		rc = bench_baseline_init(&works[1].vectors,
					 bytes_of(rule, vector, gradients) / 3 & ~(uint64_t)63);
	return rc;
}

static int row(const struct set *set, enum ol_optimizer rule, uint64_t vector, unsigned threads,
	       json_t *rows)
{
	struct work works[2] = { 0 };
	struct bench_arm arms[2] = { { .name = "update", .step = update_step, .arg = &works[0] },
				     { .name = "triad", .step = triad_step, .arg = &works[1] } };
	const struct bench_plan plan = { .ns = (uint64_t)(set->seconds * 1e9),
					 .warmup = WARMUP,
					 .rounds = ROUNDS,
					 .samples_max = SAMPLES_MAX };
	const double bytes = (double)bytes_of(rule, vector, set->gradients);
	struct bench_summary summary[2];
	char size[BENCH_SIZE_TEXT_MAX];
	int rc = works_make(works, rule, vector, set->gradients, threads);

	if (rc == 0)
		rc = bench_alternate(arms, 2, &plan);
	for (unsigned i = 0; i < 2 && rc == 0; i++)
		bench_summary_make(&arms[i].samples, &summary[i]);
	if (rc == 0) {
		const double update = (double)summary[0].p50, triad = (double)summary[1].p50;

		bench_size_format(vector, size);
		printf("%-9s %-9s %7u %9.2f %9.2f %9.3f %9.2f\n", size, ol_rule_name(rule), threads,
		       bytes / update, bytes / triad, update / ((double)vector / sizeof(float)),
		       triad / update);
		fflush(stdout);
		json_array_append_new(rows, json_pack("{s:I, s:s, s:i, s:i, s:o, s:o, s:f}",
						      "bytes", (json_int_t)vector, "rule",
						      ol_rule_name(rule), "threads", (int)threads,
						      "gradients", (int)set->gradients, "update",
						      bench_summary_json(&summary[0]), "triad",
						      bench_summary_json(&summary[1]), "of_triad",
						      triad / update));
	}
	for (unsigned i = 0; i < 2; i++) {
		bench_samples_fini(&arms[i].samples);
		work_free(&works[i]);
	}
	return rc;
}

static int table(const struct set *set, json_t *rows)
{
	int rc = 0;

	printf("# vector width %s, largest cache %llu MiB, %u gradient%s an update; medians\n"
	       "%-9s %-9s %7s %9s %9s %9s %9s\n",
	       ol_kernels_best()->isa, (unsigned long long)(ol_kernels_cache_bytes() >> 20),
	       set->gradients, set->gradients == 1 ? "" : "s", "vector", "rule", "threads", "GB/s",
	       "triad", "ns/param", "of triad");
	for (unsigned s = 0; s < set->sizes.count && rc == 0; s++)
		for (unsigned t = 0; t < set->threads.count && rc == 0; t++)
			for (size_t r = 0; r < sizeof(rules) / sizeof(rules[0]) && rc == 0; r++)
				rc = row(set, rules[r], set->sizes.bytes[s],
					 (unsigned)set->threads.bytes[t], rows);
	return rc;
}

static int wrong(const char *what, const char *value)
{
	fprintf(stderr, "bench-update: --%s: \"%s\" is no such value\n", what, value);
	return 2;
}

/* 1,2,4: bench_sizes_parse() takes multiples of 4 only */
static bool threads_parse(const char *text, struct bench_sizes *ret)
{
	char *end;

	for (*ret = (struct bench_sizes){ 0 }; ret->count < COUNTS_MAX; text = end + 1) {
		const unsigned long value = strtoul(text, &end, 10);

		if (end == text || value == 0 || value > OL_POOL_THREADS_MAX)
			return false;
		ret->bytes[ret->count++] = value;
		if (*end != ',')
			return *end == '\0';
	}
	return false;
}

static int set_take(struct set *set, int argc, char **argv)
{
	static const struct option options[] = { { "size", required_argument, NULL, 's' },
						 { "threads", required_argument, NULL, 't' },
						 { "gradients", required_argument, NULL, 'g' },
						 { "seconds", required_argument, NULL, 'd' },
						 { "json", required_argument, NULL, 'j' },
						 { NULL, 0, NULL, 0 } };
	char err[128];
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 's' && bench_sizes_parse(optarg, &set->sizes, err, sizeof(err)) != 0)
			return wrong("size", optarg);
		if (option == 't' && !threads_parse(optarg, &set->threads))
			return wrong("threads", optarg);
		if (option == 'g')
			set->gradients = (unsigned)strtoul(optarg, NULL, 10);
		if (set->gradients < 1 || set->gradients > GRADIENTS_MAX)
			return wrong("gradients", optarg);
		if (option == 'd')
			set->seconds = strtod(optarg, NULL);
		if (!(set->seconds > 0 && set->seconds < 3600))
			return wrong("seconds", optarg);
		if (option == 'j')
			set->json = optarg;
		if (option == '?')
			return 2;
	}
	return optind == argc ? 0 : wrong("size", argv[optind]);
}

int main(int argc, char **argv)
{
	struct set set = { .sizes = { 3, { 64 << 10, 16 << 20, 64 << 20 } },
			   .threads = { 2, { 1, 2 } },
			   .gradients = 1,
			   .seconds = 1 };
	json_t *report = json_object(), *rows = json_array();
	int rc = set_take(&set, argc, argv);

	if (rc == 0) {
		json_object_set_new(report, "environment", bench_env_json());
		rc = table(&set, rows) == 0 ? 0 : 1;
	}
	json_object_set_new(report, "rows", rows);
	if (rc == 0 && set.json != NULL && json_dump_file(report, set.json, JSON_INDENT(1)) != 0) {
		fprintf(stderr, "bench-update: cannot write %s\n", set.json);
		rc = 1;
	}
	json_decref(report);
	return rc;
}
