/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * weighted.c -- a synchronous step is the weighted mean of its gradients, and a run with weights is a
 * function of its seed, bit for bit: also when the server, or a chain's head, is killed on the way.
 * Equal weights give the bits of none. What an outage summed up has the weight of its gradients.
 */

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "support/check.h"
#include "support/stage.h"

enum {
	LEN = 3000,
	WORKERS = 3,
	STEPS = 60,
	KILLS = 3,
	QUEUED = 3
};

enum weights {
	WEIGHTS_NONE,
	WEIGHTS_EQUAL,
	WEIGHTS_DIFFER
};

/* What the workers of a run tell its parent */
static struct board {
	enum weights weights;
	atomic_ulong pushes;
	atomic_uint done;
	float last[WORKERS][LEN];
} * board;

static float undisturbed[3][LEN]; /* by enum weights */

static uint32_t mix(uint32_t a, uint32_t b, uint32_t c)
{
	uint64_t x = ((uint64_t)a << 40) ^ ((uint64_t)b << 20) ^ c;

	x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return (uint32_t)(x >> 33);
}

static float weight_of(uint32_t worker, uint64_t version)
{
	switch (board->weights) {
	case WEIGHTS_NONE:
		break;
	case WEIGHTS_EQUAL:
		return 40961.3f;
	case WEIGHTS_DIFFER:
		return 0.5f + (float)(mix(worker, (uint32_t)version, 77) % 5000);
	}
	return 0.0f;
}

/* A gradient of its worker, the version and the weights; all gradients go by here */
static int push_one(struct ol_worker *worker, uint32_t id)
{
	struct ol_push_info info = { .samples = 1 };
	struct ol_op op = { 0 };
	const float *weights;
	float *grad;

	check_ok(ol_grad_acquire(worker, &grad));
	weights = ol_weights(worker, &info.base_version);
	for (uint32_t i = 0; i < LEN; i++)
		grad[i] = 0.3f * weights[i] +
			  (float)(mix(id, (uint32_t)info.base_version, i) % 2000) / 1000.0f - 1.0f;
	info.weight = weight_of(id, info.base_version);
	check_ok(ol_push(worker, grad, &info, &op));
	atomic_fetch_add(&board->pushes, 1);
	return stage_done(worker, &op);
}

static int train(const struct job *job, long id)
{
	struct ol_worker_opts opts;
	struct ol_worker *worker;
	uint64_t version;

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.outage = OL_OUTAGE_WAIT;
	opts.mirror_state = 1;
	worker = job_worker_with(job, (int)id, opts);
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	for (ol_weights(worker, &version); version < STEPS; ol_weights(worker, &version)) {
		check_ok(push_one(worker, (uint32_t)id));
		check_ok(job_pull(worker, 0));
	}
	check_eq(version, STEPS);
	check_eq(ol_applied_grads(worker, 0, (uint32_t)id), STEPS);
	memcpy(board->last[id], ol_weights(worker, NULL), LEN * sizeof(float));
	/* its mirror may be all that there is */
	atomic_fetch_add(&board->done, 1);
	while (atomic_load(&board->done) < WORKERS)
		ol_worker_poll(worker);
	ol_worker_close(worker);
	return 0;
}

static void run(enum weights weights, uint32_t replicas, unsigned kills, unsigned seed)
{
	struct ol_server_opts opts;
	pid_t pids[WORKERS];
	struct job job;

	memset(board, 0, sizeof(*board));
	memset(&job, 0, sizeof(job));
	board->weights = weights;
	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.param_count = LEN;
	opts.consistency = OL_CONSISTENCY_SYNC;
	opts.workers = opts.workers_max = opts.restore_workers = WORKERS;
	opts.window = 2;
	opts.rule.optimizer = OL_OPTIMIZER_NESTEROV;
	opts.rule.lr = 0.07f;
	opts.replicas = replicas;
	if (replicas > 1)
		job_start_chain(&job, opts, 0.25f);
	else
		job_start(&job, opts, 0.25f);
	for (int k = 0; k < WORKERS; k++)
		pids[k] = job_fork(train, &job, k);
	for (unsigned i = 0; i < kills; i++) {
		unsigned long at = (i + 1) * WORKERS * STEPS / (kills + 2) + mix(seed, i, 1) % 12;

		while (atomic_load(&board->pushes) < at)
			check_ok(kill(pids[0], 0));
		job_kill_orderer(&job);
	}
	for (int k = 0; k < WORKERS; k++)
		job_join(pids[k]);
	job_stop(&job);
	for (int k = 1; k < WORKERS; k++)
		check(memcmp(board->last[k], board->last[0], sizeof(board->last[0])) == 0);
}

static bool is_run_of(enum weights weights)
{
	return memcmp(board->last[0], undisturbed[weights], sizeof(undisturbed[0])) == 0;
}

static void undisturbed_runs(void)
{
	for (enum weights i = WEIGHTS_NONE; i <= WEIGHTS_DIFFER; i++) {
		run(i, 1, 0, 0);
		memcpy(undisturbed[i], board->last[0], sizeof(undisturbed[i]));
	}
	check(is_run_of(WEIGHTS_DIFFER));
	check(!is_run_of(WEIGHTS_NONE));
	check(memcmp(undisturbed[WEIGHTS_EQUAL], undisturbed[WEIGHTS_NONE],
		     sizeof(undisturbed[0])) == 0);
	printf("ok equal weights give the bits of none\n");
}

static void push_weighted(struct ol_worker *worker, float value, float weight)
{
	struct ol_push_info info = { .samples = 1, .weight = weight };
	struct ol_op op = { 0 };
	float *grad;

	check_ok(ol_grad_acquire(worker, &grad));
	ol_weights(worker, &info.base_version);
	for (uint32_t i = 0; i < LEN; i++)
		grad[i] = value;
	check_ok(ol_push(worker, grad, &info, &op));
	check(op.done && op.local);
	check_ok(op.status);
}

/* Three gradients wait for a server, and become one step: their weighted mean */
static int queue_story(const struct job *job, long id)
{
	static const float values[QUEUED] = { 3.0f, -1.0f, 7.0f }, weights[QUEUED] = { 5, 100, 20 };
	struct ol_worker_opts opts;
	struct ol_worker *worker;
	double sum = 0.0, total = 0.0;

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.outage = OL_OUTAGE_CONTINUE;
	worker = job_worker_with(job, (int)id, opts);
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	stage_kill(0);
	stage_down(worker, 0);
	for (int i = 0; i < QUEUED; i++) {
		push_weighted(worker, values[i], weights[i]);
		sum += (double)values[i] * (double)weights[i];
		total += (double)weights[i];
	}
	stage_restart(0, OL_RESTORE_MIRROR);
	stage_flush(worker);
	check_eq(ol_applied_grads(worker, 0, 0), QUEUED);
	check(fabs((double)ol_weights(worker, NULL)[LEN - 1] - (1.0 - 0.5 * sum / total)) < 1e-6);
	ol_worker_close(worker);
	return 0;
}

/* Neither starts a push; the buffer stays lent */
static int refused_story(const struct job *job, long id)
{
	static const float wrong[] = { -1.0f, NAN, INFINITY, 1e19f, 1e-19f };
	struct ol_worker *worker = job_worker(job, (int)id);
	struct ol_push_info info = { .samples = 1 };
	struct ol_op op = { 0 };
	float *grad;

	check_ok(ol_grad_acquire(worker, &grad));
	memset(grad, 0, LEN * sizeof(float));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		info.weight = wrong[i];
		check_eq(ol_push(worker, grad, &info, &op), -EINVAL);
	}
	info.weight = 1e18f;
	check_ok(ol_push(worker, grad, &info, &op));
	check_ok(stage_done(worker, &op));
	ol_worker_close(worker);
	return 0;
}

int main(void)
{
	struct ol_server_opts opts;

	setvbuf(stdout, NULL, _IOLBF, 0);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	check(board != MAP_FAILED);
	undisturbed_runs();
	for (unsigned seed = 1; seed <= 2; seed++) {
		run(WEIGHTS_DIFFER, 1, KILLS, seed);
		check(is_run_of(WEIGHTS_DIFFER));
	}
	printf("ok a server is killed, and no bit changes\n");
	run(WEIGHTS_DIFFER, 3, 1, 3);
	check(is_run_of(WEIGHTS_DIFFER));
	printf("ok a head is killed, and no bit changes\n");
	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.param_count = LEN;
	opts.window = JOB_WINDOW;
	opts.workers_max = 1;
	opts.rule.lr = 0.5f;
	stage_play(opts, 1.0f, 1, queue_story, "a queue keeps weights");
	stage_play(opts, 1.0f, 1, refused_story, "impossible weights are refused");
	return 0;
}
