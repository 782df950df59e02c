/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * quorum.c -- with steps of a quorum and a grace every gradient is applied once, or late once, whatever
 * server is killed when; no step is below the quorum; and who is slow by less than the grace is in.
 * Where late gradients are of the next step, none is late before the job's end.
 *
 * All elements of worker k's gradients are k + 1, the rule sums, and the learning rate is a power of
 * two: the weights must equal the sums by the applied tables, bit for bit.
 */

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "support/check.h"
#include "support/stage.h"

enum {
	LEN = 3000,
	WORKERS = 4,
	QUORUM = 2,
	STEPS = 120,
	KILLS = 3,
	GRACE_MS = 100
};

/* What the workers of a run tell its parent */
static struct board {
	atomic_ulong pushes;
	atomic_ulong late[WORKERS];
	atomic_ulong applied[WORKERS];
	atomic_uint done;
} * board;

static uint64_t random_state;

static uint32_t random_below(uint32_t end)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(random_state >> 33) % end;
}

static struct ol_server_opts quorum_opts(uint32_t grace_ms)
{
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.param_count = LEN;
	opts.consistency = OL_CONSISTENCY_SYNC;
	opts.wait = OL_WAIT_QUORUM;
	opts.wait_k = QUORUM;
	opts.grace_ms = grace_ms;
	opts.workers = opts.workers_max = opts.restore_workers = WORKERS;
	opts.window = 2;
	opts.rule.lr = 0.5f;
	opts.rule.sum = 1;
	return opts;
}

/* The weights are what the table says, and no step had fewer than a quorum's gradients */
static void check_weights(const struct ol_worker *worker)
{
	uint64_t version, grads = 0;
	const float *weights = ol_weights(worker, &version);
	float want = 0.0f;

	for (uint32_t k = 0; k < WORKERS; k++) {
		want -= 0.5f * (float)(k + 1) * (float)ol_applied_grads(worker, 0, k);
		grads += ol_applied_grads(worker, 0, k);
	}
	for (uint64_t i = 0; i < LEN; i++)
		check(weights[i] == want);
	check(grads >= QUORUM * version && grads <= WORKERS * version);
}

/* Sometimes a gradient takes longer than a grace */
static void compute(struct ol_worker *worker, uint32_t id)
{
	uint64_t end_ns = ol_clock_ns() + random_below(id == WORKERS - 1 ? 4000000 : 1000000);

	while (ol_clock_ns() < end_ns)
		ol_worker_poll(worker);
}

static void account(struct ol_worker *worker, uint32_t id, uint64_t pushed)
{
	struct ol_link_stat stat = stage_stat(worker, 0);

	check_eq(stat.pushed, pushed);
	check_eq(stat.pushed, stat.applied + stat.late);
	check_eq(stat.applied, ol_applied_grads(worker, 0, id));
	check_eq(stat.pending + stat.lost + stat.nonfinite + stat.queue_dropped, 0);
	atomic_store(&board->applied[id], stat.applied);
	atomic_store(&board->late[id], stat.late);
}

static bool withdraws(struct ol_worker *worker, struct ol_op *op)
{
	while (ol_worker_wait_for(worker, op, 20) == -EAGAIN) {
		if (ol_newest(worker) >= STEPS)
			check_ok(ol_withdraw(worker)); /* nobody makes its step */
	}
	return op->status == 0;
}

/* Applied, or late; a gradient that is of the next step is late only if its worker withdraws it */
static void resolved(struct ol_worker *worker, const struct job *job, struct ol_op *op)
{
	if (withdraws(worker, op))
		return;
	check_eq(op->status, OL_E_LATE);
	check(job->opts.late == OL_LATE_DROP || ol_newest(worker) >= STEPS);
}

static int train(const struct job *job, long id)
{
	struct ol_op push[2], flush = { 0 };
	struct ol_worker_opts opts;
	struct ol_worker *worker;
	uint64_t version, pushed = 0;
	uint32_t ahead;

	random_state += (uint64_t)id * 77 + 1;
	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.outage = OL_OUTAGE_WAIT;
	worker = job_worker_with(job, (int)id, opts);
	for (;;) {
		check_ok(job_pull(worker, OL_PULL_NEWEST));
		check_weights(worker);
		ol_weights(worker, &version);
		if (version >= STEPS)
			break;
		compute(worker, (uint32_t)id);
		/* the second one waits for the step after the next */
		ahead = job->opts.late == OL_LATE_NEXT ? random_below(2) : 0;
		for (uint32_t i = 0; i <= ahead; i++) {
			push[i] = (struct ol_op){ 0 };
			check_ok(job_push_start(worker, (float)(id + 1), &push[i]));
			pushed++;
			atomic_fetch_add(&board->pushes, 1);
		}
		for (uint32_t i = 0; i <= ahead; i++)
			resolved(worker, job, &push[i]);
	}
	check_ok(ol_flush(worker, &flush));
	check(withdraws(worker, &flush));
	atomic_fetch_add(&board->done, 1); /* its mirror may be all that there is */
	while (atomic_load(&board->done) < WORKERS)
		ol_worker_poll(worker);
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	check_weights(worker);
	account(worker, (uint32_t)id, pushed);
	ol_worker_close(worker);
	return 0;
}

static int count(const struct job *job, long kills)
{
	struct ol_worker *reader = job_worker(job, -1);
	unsigned long late = 0, applied = 0;
	struct ol_server_stat stat;

	for (int k = 0; k < WORKERS; k++) {
		late += atomic_load(&board->late[k]);
		applied += atomic_load(&board->applied[k]);
	}
	check_eq(atomic_load(&board->pushes), applied + late);
	check_ok(ol_stat(reader, 0, &stat));
	if (kills == 0) /* a new server counts anew */
		check(stat.dropped_late == late && stat.applied == applied);
	check((stat.carried != 0) == (job->opts.late == OL_LATE_NEXT));
	printf("%lu pushed, %lu applied in %lu steps, %lu late; the last server carried %lu\n",
	       (unsigned long)atomic_load(&board->pushes), applied, (unsigned long)stat.version,
	       late, (unsigned long)stat.carried);
	ol_worker_close(reader);
	return 0;
}

static void run(struct ol_server_opts opts, unsigned kills, uint64_t seed)
{
	pid_t pids[WORKERS];
	struct job job;

	memset(board, 0, sizeof(*board));
	memset(&job, 0, sizeof(job));
	random_state = seed;
	if (opts.replicas > 1)
		job_start_chain(&job, opts, 0.0f);
	else
		job_start(&job, opts, 0.0f);
	for (int k = 0; k < WORKERS; k++)
		pids[k] = job_fork(train, &job, k);
	for (unsigned i = 0; i < kills; i++) {
		/* at least a quorum of pushes makes a step, so the job is not at its end */
		unsigned long at = (i + 1) * QUORUM * STEPS / (kills + 2) + random_below(20);

		while (atomic_load(&board->pushes) < at)
			check_ok(kill(pids[0], 0));
		job_kill_orderer(&job);
	}
	for (int k = 0; k < WORKERS; k++)
		job_join(pids[k]);
	job_join(job_fork(count, &job, kills));
	job_stop(&job);
}

static void every_gradient_has_one_fate(void)
{
	struct ol_server_opts opts = quorum_opts(1);

	opts.replicas = 1;
	run(opts, 0, 1);
	for (uint64_t seed = 2; seed < 5; seed++)
		run(opts, KILLS, seed);
	printf("ok a server is killed\n");
	opts.replicas = 3;
	run(opts, 2, 5);
	printf("ok heads are killed\n");
	opts.late = OL_LATE_NEXT;
	run(opts, 2, 6);
	opts.replicas = 1;
	run(opts, 0, 7);
	for (uint64_t seed = 8; seed < 10; seed++)
		run(opts, KILLS, seed);
	printf("ok what is late is of the next step\n");
}

static void push_and_wait(struct ol_worker *worker, float value)
{
	struct ol_op op = { 0 };

	check_ok(stage_push(worker, value, &op));
	check_ok(stage_done(worker, &op));
}

/* Two of four push. The step is made a grace later, no sooner; a third one that comes meanwhile is in;
 * of one worker alone no step is made, however long it waits */
static int grace_story(const struct job *job, long id)
{
	struct ol_worker *worker = job_worker(job, (int)id);
	struct ol_server_stat stat;
	struct ol_op op = { 0 };
	uint64_t begin_ns;

	check_ok(job_pull(worker, 0));
	stage_meet();
	begin_ns = ol_clock_ns();
	if (id < QUORUM) {
		push_and_wait(worker, (float)(id + 1));
		check(ol_clock_ns() - begin_ns >= GRACE_MS * OL_NS_PER_MS);
	} else if (id == QUORUM) {
		do {
			check_ok(ol_stat(worker, 0, &stat));
		} while (stat.bytes_in < 2 * LEN * sizeof(float));
		push_and_wait(worker, (float)(id + 1));
	}
	stage_meet();
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	check_weights(worker);
	check_ok(ol_stat(worker, 0, &stat));
	check(stat.version == 1 && stat.applied == QUORUM + 1);
	stage_meet();
	if (id == 0) {
		check_ok(stage_push(worker, 1.0f, &op));
		check_eq(ol_worker_wait_for(worker, &op, 2 * GRACE_MS), -EAGAIN);
	}
	stage_meet();
	if (id == 1)
		push_and_wait(worker, 2.0f);
	check(id != 0 || stage_done(worker, &op) == 0);
	ol_worker_close(worker);
	return 0;
}

static int push_last(struct ol_worker *worker, float value, uint64_t last_version)
{
	struct ol_push_info info = { .last_version = last_version };
	struct ol_op op = { 0 };
	float *grad;

	check_ok(ol_grad_acquire(worker, &grad));
	for (uint64_t i = 0; i < LEN; i++)
		grad[i] = value;
	check_ok(ol_push(worker, grad, &info, &op));
	return stage_done(worker, &op);
}

/* A quorum makes the job's last step. Another quorum, which comes too late for it, makes no step behind
 * it if its gradients say where the job ends, and one if they do not */
static int end_story(const struct job *job, long id)
{
	struct ol_worker *worker = job_worker(job, (int)id);
	struct ol_server_stat stat;

	check_ok(job_pull(worker, 0));
	stage_meet();
	if (id < QUORUM)
		check_ok(push_last(worker, (float)(id + 1), 1));
	stage_meet();
	if (id >= QUORUM)
		check_eq(push_last(worker, (float)(id + 1), 1), OL_E_LATE);
	stage_meet();
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	check_weights(worker);
	check_ok(ol_stat(worker, 0, &stat));
	check(stat.version == 1 && stat.applied == QUORUM && stat.dropped_late == QUORUM);
	stage_meet();
	if (id >= QUORUM)
		check_ok(push_last(worker, (float)(id + 1), id == QUORUM ? 0 : 2));
	stage_meet();
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	check_weights(worker);
	check_ok(ol_stat(worker, 0, &stat));
	check(stat.version == 2 && stat.applied == 2 * QUORUM);
	ol_worker_close(worker);
	return 0;
}

/* A quorum makes a step of mean 1; the other workers' gradients, of 2 each, missed it. They are the next step, and of
 * one step's age, so their mean is 1, too: 1 / (1 + 1) of it */
static int aged_story(const struct job *job, long id)
{
	struct ol_worker *worker = job_worker(job, (int)id);
	const float *weights;
	uint64_t version;

	check_ok(job_pull(worker, 0));
	stage_meet();
	if (id < QUORUM)
		push_and_wait(worker, 1.0f);
	stage_meet();
	if (id >= QUORUM)
		push_and_wait(worker, 2.0f);
	stage_meet();
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	weights = ol_weights(worker, &version);
	check_eq(version, 2);
	for (uint64_t i = 0; i < LEN; i++)
		check(weights[i] == -2.0f * job->opts.rule.lr);
	ol_worker_close(worker);
	return 0;
}

int main(void)
{
	struct ol_server_opts opts = quorum_opts(0);

	setvbuf(stdout, NULL, _IOLBF, 0);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	check(board != MAP_FAILED);
	every_gradient_has_one_fate();
	stage_play(quorum_opts(GRACE_MS), 0.0f, WORKERS, grace_story, "the grace");
	opts.late = OL_LATE_NEXT;
	stage_play(opts, 0.0f, WORKERS, end_story, "the end");
	opts.late = OL_LATE_AGED;
	opts.rule.sum = 0;
	stage_play(opts, 0.0f, WORKERS, aged_story, "late gradients count less");
	return 0;
}
