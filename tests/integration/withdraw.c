/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * withdraw.c -- only the gradients that a worker withdraws are late, at every shard; steps still
 * wait for that worker, and its later pushes are held again. OL_TRANSPORT shm or verbs
 */

#include "support/check.h"
#include "support/stage.h"

enum {
	LEN = 4000,
	SHARDS = 2,
	FIRST = 0,
	OTHER = 1,
	POLLS = 1000
};

static void step(struct ol_worker *worker)
{
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	check_ok(job_push(worker, 1.0f));
}

static uint64_t version(struct ol_worker *worker)
{
	uint64_t at;

	check_ok(job_pull(worker, OL_PULL_NEWEST));
	(void)ol_weights(worker, &at);
	return at;
}

/* One for a step that the other worker has not given to: it is held */
static void hold_one(struct ol_worker *worker, struct ol_op *op)
{
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	*op = (struct ol_op){ .level = OL_LEVEL_APPLIED };
	check_ok(job_push_start(worker, 1.0f, op));
	for (unsigned i = 0; i < POLLS; i++)
		check(ol_worker_poll(worker) >= 0 && !op->done);
}

static void check_counts(struct ol_worker *worker, uint64_t applied, uint64_t late)
{
	for (uint32_t k = 0; k < SHARDS; k++) {
		struct ol_link_stat stat = stage_stat(worker, k);

		check_eq(stat.applied, applied);
		check_eq(stat.late, late);
		check_eq(stat.pending + stat.lost, 0);
	}
}

static void first(struct ol_worker *worker)
{
	struct ol_op op;

	step(worker);
	check_ok(ol_withdraw(worker)); /* nothing is held: nothing happens */
	stage_meet();
	hold_one(worker, &op); /* it is held all the same */
	check_ok(ol_withdraw(worker));
	check_eq(stage_done(worker, &op), OL_E_LATE);
	stage_flush(worker); /* the first shard that drops it has ended the op */
	check_counts(worker, 1, 1);
	check_eq(version(worker), 1);
	stage_meet(); /* the other gives to the step, which waits for this one */
	stage_meet();
	check_eq(version(worker), 1);
	step(worker);
	check_eq(version(worker), 2);
	stage_flush(worker);
	check_counts(worker, 2, 1);
}

static void other(struct ol_worker *worker)
{
	struct ol_op op;

	step(worker);
	stage_meet();
	stage_meet();
	hold_one(worker, &op);
	stage_meet();
	check_ok(stage_done(worker, &op));
	check_eq(version(worker), 2);
	check_ok(ol_withdraw(worker)); /* what took effect has taken effect */
	stage_flush(worker);
	check_counts(worker, 2, 0);
}

static int story(const struct job *job, long id)
{
	struct ol_worker *worker = job_worker(job, (int)id);
	struct ol_server_stat stat;

	if (id == FIRST)
		first(worker);
	else
		other(worker);
	stage_meet();
	for (uint32_t k = 0; k < SHARDS; k++) {
		check_ok(ol_stat(worker, k, &stat));
		check_eq(stat.dropped_late, 1);
		check_eq(stat.applied, 4);
	}
	stage_meet();
	ol_worker_close(worker);
	return 0;
}

int main(void)
{
	struct ol_server_opts opts;

	setvbuf(stdout, NULL, _IOLBF, 0);
	job_transport();
	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.window = JOB_WINDOW;
	opts.param_count = LEN;
	opts.shard_count = SHARDS;
	opts.workers = opts.workers_max = 2;
	opts.consistency = OL_CONSISTENCY_SYNC;
	stage_play(opts, 100.0f, 2, story, "what is withdrawn is late, and nothing else is");
	return 0;
}
