/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * spans.c -- workers exchange one shard after the other, each push on its way while the next shard is
 * computed, and end with the same bits if servers are killed and restored from mirrors. OL_TRANSPORT
 * shm or verbs
 *
 * Step s of a job is step s / SHARDS of shard s % SHARDS. A gradient is a function of its shard's
 * weights, of its worker and of the step.
 */

#include <math.h>

#include "outlast_span.h"
#include "support/bits.h"
#include "support/check.h"
#include "support/stage.h"

enum {
	SHARDS = 3,
	WORKERS = 2,
	STEPS = 12, /* of each shard */
	LEN = 3 * 4096 + 100
};

/* Which servers die, and in which step of the job: while its push is on the way */
struct plan {
	const char *name;
	struct {
		unsigned step;
		uint32_t shard;
	} kills[4];
	unsigned kill_count;
};

static const struct plan plans[] = {
	{ .name = "spans: undisturbed" },
	{ .name = "spans: the server of a span that is being pushed is killed, and of one that is not",
	  .kills = { { 10, 10 % SHARDS }, { 19, (19 + 1) % SHARDS } },
	  .kill_count = 2 },
	{ .name = "spans: every server is killed, the first and the last step included",
	  .kills = { { 0, 0 }, { 16, 0 }, { 16, 1 }, { SHARDS * STEPS - 1, 2 } },
	  .kill_count = 4 },
};
static const struct plan *plan;

/* One worker's view of the shards */
struct exchange {
	struct ol_worker *worker;
	long id;
	struct ol_shard_info at[SHARDS]; /* as of the last pull of each */
	struct ol_op pushes[SHARDS]; /* the last of each */
};

static void push_begin(struct exchange *exchange, uint32_t k)
{
	const struct ol_shard_info *at = &exchange->at[k];
	const struct ol_push_info info = { .samples = 1, .base_versions = &at->version };
	const float *weights = ol_weights(exchange->worker, NULL);
	float *grad;

	check_ok(ol_grad_acquire(exchange->worker, &grad));
	for (uint64_t i = 0; i < LEN; i++)
		grad[i] = NAN;
	for (uint64_t i = at->first; i < at->first + at->count; i++)
		grad[i] = 0.125f * weights[i] + bits_noise(exchange->id, at->version, i);
	exchange->pushes[k] = (struct ol_op){ .level = OL_LEVEL_APPLIED };
	check_ok(ol_push_span(exchange->worker, grad, at->first, at->count, &info,
			      &exchange->pushes[k]));
}

/* Wait for the shard's push, and read what it made */
static void push_end(struct exchange *exchange, uint32_t k)
{
	struct ol_op op = { 0 };

	check_ok(stage_done(exchange->worker, &exchange->pushes[k]));
	check_ok(ol_pull_span(exchange->worker, OL_PULL_NEWEST, exchange->at[k].first,
			      exchange->at[k].count, &op));
	check_ok(stage_done(exchange->worker, &op));
	check_ok(ol_shard_info(exchange->worker, k, &exchange->at[k]));
	check_eq(op.version, exchange->at[k].version);
}

static void kills_make(unsigned step)
{
	for (unsigned i = 0; i < plan->kill_count; i++) {
		if (plan->kills[i].step != step)
			continue;
		stage_kill(plan->kills[i].shard);
		stage_restart(plan->kills[i].shard, OL_RESTORE_MIRROR);
	}
}

static void weights_check(struct exchange *exchange)
{
	stage_flush(exchange->worker);
	for (uint32_t k = 0; k < SHARDS; k++) {
		const struct ol_link_stat stat = stage_stat(exchange->worker, k);

		check_ok(ol_shard_info(exchange->worker, k, &exchange->at[k]));
		check_eq(exchange->at[k].version, STEPS);
		check_eq(stat.pushed, STEPS);
		check_eq(stat.applied, STEPS);
		for (uint32_t id = 0; id < WORKERS; id++)
			check_eq(ol_applied(exchange->worker, k, id), STEPS);
	}
	bits_note(exchange->id, ol_weights(exchange->worker, NULL), LEN);
}

static int story(const struct job *job, long id)
{
	struct exchange exchange = { .id = id };
	struct ol_worker_opts opts;

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.outage = OL_OUTAGE_WAIT;
	opts.mirror_state = 1;
	exchange.worker = job_worker_with(job, (int)id, opts);
	check_ok(job_pull(exchange.worker, OL_PULL_NEWEST));
	for (uint32_t k = 0; k < SHARDS; k++)
		check_ok(ol_shard_info(exchange.worker, k, &exchange.at[k]));
	stage_meet();
	for (unsigned step = 0; step <= SHARDS * STEPS; step++) {
		if (step < SHARDS * STEPS)
			push_begin(&exchange, step % SHARDS);
		if (id == 0 && step < SHARDS * STEPS)
			kills_make(step);
		if (step > 0)
			push_end(&exchange, (step - 1) % SHARDS);
	}
	weights_check(&exchange);
	__atomic_fetch_add(stage_word(0), 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(stage_word(0), __ATOMIC_SEQ_CST) <
	       WORKERS) /* its mirror is needed */
		check(ol_worker_poll(exchange.worker) >= 0);
	ol_worker_close(exchange.worker);
	return 0;
}

int main(void)
{
	struct ol_server_opts opts = bits_opts(LEN, SHARDS, WORKERS);

	setvbuf(stdout, NULL, _IOLBF, 0);
	job_transport();
	bits_begin(WORKERS);
	opts.restore_workers = WORKERS;
	for (unsigned i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		plan = &plans[i];
		stage_play(opts, 1.0f, WORKERS, story, plan->name);
		printf("   %s\n", bits_check());
	}
	return 0;
}
