/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * rest.c -- a synchronous step does not wait for a worker that rests, or has rested and left; it
 * does wait for one that is silent or dead. OL_TRANSPORT shm or verbs
 */

#include "support/check.h"
#include "support/stage.h"

enum {
	LEN = 4000,
	STAYS = 0,
	RESTS = 1
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

/* One more than the others make: held until nobody is left who could give to its step */
static void hold_one(struct ol_worker *worker, struct ol_op *op)
{
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	*op = (struct ol_op){ .level = OL_LEVEL_APPLIED };
	check_ok(job_push_start(worker, 1.0f, op));
}

/* Steps go on without the one that rests, wait for it again once it pushes, and end without it */
static int come_and_go(const struct job *job, long id)
{
	struct ol_worker *worker = job_worker(job, (int)id);
	struct ol_op op;

	step(worker);
	stage_meet();
	if (id == STAYS) {
		hold_one(worker, &op);
		for (unsigned i = 0; i < 1000; i++)
			check(ol_worker_poll(worker) >= 0 && !op.done);
	}
	stage_meet();
	if (id == RESTS)
		check_ok(ol_rest(worker));
	else
		check_ok(stage_done(worker, &op));
	stage_meet();
	check_eq(version(worker), 2);
	stage_meet();
	if (id == RESTS) /* by which it is awake */
		hold_one(worker, &op);
	stage_meet();
	if (id == STAYS)
		step(worker);
	else
		check_ok(stage_done(worker, &op));
	check_eq(version(worker), 3);
	stage_meet();
	if (id == RESTS) {
		check_ok(ol_rest(worker));
		stage_flush(worker);
		ol_worker_close(worker);
		return 0;
	}
	step(worker);
	step(worker);
	check_eq(version(worker), 5);
	ol_worker_close(worker);
	return 0;
}

/* Each ends with what the other would have to give to; both rest, and both are done */
static int end_together(const struct job *job, long id)
{
	struct ol_worker *worker = job_worker(job, (int)id);
	struct ol_op op;

	step(worker);
	stage_meet();
	if (id == STAYS)
		hold_one(worker, &op);
	check_ok(ol_rest(worker));
	stage_flush(worker);
	if (id == STAYS)
		check(op.done && op.status == 0);
	stage_meet();
	check_eq(version(worker), 2);
	ol_worker_close(worker);
	return 0;
}

/* Who dies without a word is waited for: a run is a function of its seed, whoever is killed */
static int die(const struct job *job, long id)
{
	struct ol_worker *worker = job_worker(job, (int)id);
	struct ol_op op;

	step(worker);
	stage_meet();
	if (id == RESTS) { /* its connection ends, and it comes back */
		ol_worker_close(worker);
		worker = job_worker(job, (int)id);
		stage_meet();
		step(worker);
	} else {
		stage_meet();
		hold_one(worker, &op);
		check_ok(stage_done(worker, &op));
	}
	check_eq(version(worker), 2);
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
	opts.param_count = LEN;
	opts.shard_count = 2;
	opts.workers = opts.workers_max = 2;
	opts.consistency = OL_CONSISTENCY_SYNC;
	stage_play(opts, 100.0f, 2, come_and_go, "steps go on without a worker that rests");
	stage_play(opts, 100.0f, 2, end_together, "two that rest wait for neither");
	stage_play(opts, 100.0f, 2, die, "one that left without a rest is waited for");
	return 0;
}
