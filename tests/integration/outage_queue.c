/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outage_queue.c -- a queue for a server is bounded and counted by its setting, and becomes a step
 * by the replay policy: real processes, OL_TRANSPORT shm or verbs
 *
 * Gradients are small whole numbers and the learning rate is a power of two: sums are exact.
 */

#include <errno.h>
#include <math.h>
#include <string.h>

#include "support/check.h"
#include "support/stage.h"

enum {
	LEN = 3000, /* two shards: 2048 and 952 */
	VECTOR_BYTES = 12032, /* of one shard of LEN: padded to 64 */
	FEW = 3,
	MANY = 60, /* above the published rule's 50 */
	QUEUE_MAX = 5
};

static const float first_weight = 100.0f;
static const float lr = 0.5f;

static struct ol_server_opts server_opts(uint32_t workers)
{
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.window = JOB_WINDOW;
	opts.param_count = LEN;
	opts.workers = workers;
	opts.workers_max = workers;
	opts.rule.lr = lr;
	opts.replay = OL_REPLAY_EACH;
	return opts;
}

/* A worker that goes on, with weights */
static struct ol_worker *open_with(const struct job *job, long id, struct ol_worker_opts opts)
{
	struct ol_worker *worker = job_worker_with(job, (int)id, opts);

	check_ok(job_pull(worker, OL_PULL_NEWEST));
	return worker;
}

static struct ol_worker_opts worker_opts(enum ol_outage outage, enum ol_queue queue)
{
	struct ol_worker_opts opts;

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.outage = outage;
	opts.queue = queue;
	opts.queue_max = QUEUE_MAX;
	return opts;
}

/* Push while there is no server: nothing waits */
static void push_local(struct ol_worker *worker, float value)
{
	struct ol_op op = { 0 };

	check_ok(stage_push(worker, value, &op));
	check(op.done && op.local);
	check_ok(op.status);
}

static void check_weights(const struct ol_worker *worker, uint64_t first, uint64_t end, float want)
{
	const float *weights = ol_weights(worker, NULL);

	for (uint64_t i = first; i < end; i++)
		check_msg(weights[i] == want, "weight %lu is %.9g, not %.9g", (unsigned long)i,
			  (double)weights[i], (double)want);
}

static void check_end(struct ol_worker *worker, uint32_t id, uint64_t applied)
{
	struct ol_link_stat stat = stage_stat(worker, 0);

	check_eq(stat.pending, 0);
	check_eq(stat.queued, 0);
	check_eq(stat.lost, 0);
	check_eq(stat.applied, applied);
	check_eq(ol_applied_grads(worker, 0, id), applied);
}

/* What its server would drop does not get into the queue, and spoils nothing there */
static int nonfinite_story(const struct job *job, long id)
{
	struct ol_worker_opts opts = worker_opts(OL_OUTAGE_CONTINUE, OL_QUEUE_FOLD);
	struct ol_op op = { 0 };
	struct ol_worker *worker;

	opts.local_progress = 1;
	worker = open_with(job, id, opts);
	stage_kill(0);
	stage_down(worker, 0);
	push_local(worker, 1.0f);
	check_ok(stage_push(worker, NAN, &op));
	check(op.done);
	check_eq(op.status, OL_E_NONFINITE);
	push_local(worker, 1.0f);
	check_weights(worker, 0, LEN, first_weight - 2 * lr);
	check_eq(stage_stat(worker, 0).queued, 2);
	stage_restart(0, OL_RESTORE_MIRROR);
	stage_flush(worker);
	check_weights(worker, 0, LEN, first_weight - 2 * lr);
	check_eq(stage_stat(worker, 0).nonfinite, 1);
	check_end(worker, 0, 2);
	ol_worker_close(worker);
	return 0;
}

static int fold_story(const struct job *job, long id)
{
	struct ol_worker *worker =
		open_with(job, id, worker_opts(OL_OUTAGE_CONTINUE, OL_QUEUE_FOLD));
	struct ol_server_stat stat;
	float want = first_weight;

	for (unsigned round = 0; round < 2; round++) {
		stage_kill(0);
		stage_down(worker, 0);
		for (unsigned i = 1; i <= 200; i++) {
			push_local(worker, (float)(i % 4 + 1));
			want -= lr * (float)(i % 4 + 1);
			check_eq(stage_stat(worker, 0).queue_bytes, VECTOR_BYTES);
			check_eq(stage_stat(worker, 0).queued, i);
		}
		stage_restart(0, OL_RESTORE_MIRROR);
		stage_flush(worker);
		check_weights(worker, 0, LEN, want);
		check_end(worker, 0, 200 * (round + 1));
		check_eq(stage_stat(worker, 0).queued_total, 200 * (round + 1));
		check_eq(stage_stat(worker, 0).queue_bytes, VECTOR_BYTES);
		check_ok(ol_stat(worker, 0, &stat));
		check_eq(stat.replayed, 200);
		check_eq(stat.version, round + 1); /* one step for all of them */
	}
	ol_worker_close(worker);
	return 0;
}

static int drop_story(const struct job *job, long id)
{
	struct ol_worker *worker =
		open_with(job, id, worker_opts(OL_OUTAGE_CONTINUE, OL_QUEUE_DROP_OLDEST));
	float want = first_weight;

	stage_kill(0);
	stage_down(worker, 0);
	for (unsigned i = 1; i <= 12; i++) {
		struct ol_link_stat stat;

		push_local(worker, (float)i);
		stat = stage_stat(worker, 0);
		check_eq(stat.pending, i < QUEUE_MAX ? i : QUEUE_MAX);
		check_eq(stat.queued, stat.pending);
		check_eq(stat.queue_dropped, i - stat.pending);
		check(stat.queue_bytes <= QUEUE_MAX * VECTOR_BYTES);
		if (i > 12 - QUEUE_MAX)
			want -= lr * (float)i;
	}
	stage_restart(0, OL_RESTORE_MIRROR);
	stage_flush(worker);
	check_weights(worker, 0, LEN, want);
	check_end(worker, 0, QUEUE_MAX);
	check_eq(stage_stat(worker, 0).pushed, 12);
	check_eq(stage_stat(worker, 0).queue_dropped, 12 - QUEUE_MAX);
	ol_worker_close(worker);
	return 0;
}

static int wait_story(const struct job *job, long id)
{
	struct ol_worker *worker =
		open_with(job, id, worker_opts(OL_OUTAGE_CONTINUE, OL_QUEUE_WAIT));
	struct ol_op ops[2] = { { 0 } };
	float want = first_weight;

	stage_kill(0);
	stage_down(worker, 0);
	for (unsigned i = 1; i <= QUEUE_MAX; i++) {
		push_local(worker, (float)i);
		want -= lr * (float)i;
	}
	for (unsigned i = 0; i < 2; i++) {
		check_ok(stage_push(worker, 7.0f, &ops[i]));
		want -= lr * 7.0f;
	}
	for (unsigned i = 0; i < 1000; i++)
		check(ol_worker_poll(worker) >= 0);
	check(!ops[0].done && !ops[1].done);
	check_eq(stage_stat(worker, 0).queued, QUEUE_MAX);
	check_eq(stage_stat(worker, 0).pending, QUEUE_MAX + 2);
	stage_restart(0, OL_RESTORE_MIRROR);
	check_ok(stage_done(worker, &ops[0]));
	check_ok(stage_done(worker, &ops[1]));
	check(!ops[0].local && !ops[1].local);
	stage_flush(worker);
	check_weights(worker, 0, LEN, want);
	check_end(worker, 0, QUEUE_MAX + 2);
	ol_worker_close(worker);
	return 0;
}

/* The factor that a policy must give a delta of m ones, by other means than the server's */
static float factor(const struct job *job, uint32_t m, uint64_t staleness)
{
	double h = 0.0, norm = sqrt((double)LEN) * m;

	for (uint32_t i = m; i > 0; i--)
		h += 1.0 / i;
	switch (job->opts.replay) {
	case OL_REPLAY_EACH:
		return 1.0f;
	case OL_REPLAY_MEAN:
		return (float)(1.0 / m);
	case OL_REPLAY_SUM:
		return m > 50 ? 1e-3f / lr : 1.0f;
	case OL_REPLAY_CLIP:
		return (float)(job->opts.replay_clip / norm);
	case OL_REPLAY_STALENESS:
		return (float)(h / m / (double)(staleness > 1 ? staleness : 1));
	}
	return 0.0f;
}

/* After an outage of m gradients: the step, and no more than float's last bits beside it */
static void check_step(struct ol_worker *worker, float before, uint32_t m, float scale)
{
	float got = before - ol_weights(worker, NULL)[0], want = lr * scale * (float)m;

	check_msg(fabsf(got - want) <= 2e-5f, "m %u: the step is %.9g, not %.9g", m, (double)got,
		  (double)want);
	check_weights(worker, 0, LEN, ol_weights(worker, NULL)[0]);
}

static int policy_story(const struct job *job, long id)
{
	struct ol_worker *worker =
		open_with(job, id, worker_opts(OL_OUTAGE_CONTINUE, OL_QUEUE_FOLD));
	static const uint32_t counts[] = { FEW, MANY };

	for (unsigned i = 0; i < 2; i++) {
		float before = ol_weights(worker, NULL)[0];

		stage_kill(0);
		stage_down(worker, 0);
		for (uint32_t k = 0; k < counts[i]; k++)
			push_local(worker, 1.0f);
		stage_restart(0, OL_RESTORE_MIRROR);
		stage_flush(worker);
		check_step(worker, before, counts[i], factor(job, counts[i], 0));
	}
	check_end(worker, 0, FEW + MANY);
	ol_worker_close(worker);
	return 0;
}

/* Worker 1 is back first, and makes a step of its delta and three more; then comes worker 0's */
static int staleness_story(const struct job *job, long id)
{
	struct ol_worker *worker =
		open_with(job, id, worker_opts(OL_OUTAGE_CONTINUE, OL_QUEUE_FOLD));
	uint32_t m = id == 0 ? MANY : FEW;

	stage_meet();
	if (id == 0)
		stage_kill(0);
	stage_meet();
	stage_down(worker, 0);
	for (uint32_t k = 0; k < m; k++)
		push_local(worker, 1.0f);
	stage_meet();
	if (id == 0) {
		stage_restart(0, OL_RESTORE_MIRROR);
		stage_meet();
		stage_meet();
		stage_flush(worker);
		check_step(worker, first_weight - lr * factor(job, FEW, 0) * FEW - 3 * lr, MANY,
			   factor(job, MANY, 4));
		check_end(worker, 0, MANY);
	} else {
		stage_meet();
		stage_flush(worker);
		check_step(worker, first_weight, FEW, factor(job, FEW, 0));
		for (unsigned k = 0; k < 3; k++) {
			check_ok(job_push(worker, 1.0f));
			check_ok(job_pull(worker, 0));
		}
		check_end(worker, 1, FEW + 3);
		stage_meet();
	}
	ol_worker_close(worker);
	return 0;
}

/* Each goes its own way during the outage; the mean of both ways is where the job goes on */
static int path_story(const struct job *job, long id)
{
	struct ol_worker_opts opts = worker_opts(OL_OUTAGE_CONTINUE, OL_QUEUE_FOLD);
	float own = id == 0 ? 2.0f : 6.0f, want = first_weight;
	struct ol_worker *worker;
	uint64_t version;

	opts.local_progress = 1;
	worker = open_with(job, id, opts);
	stage_meet();
	if (id == 0)
		stage_kill(0);
	stage_meet();
	stage_down(worker, 0);
	check_weights(worker, 0, LEN, want);
	for (uint32_t k = 0; k < MANY; k++) {
		push_local(worker, own);
		want -= lr * own;
		check_weights(worker, 0, LEN, want);
		check_ok(job_pull(worker, 0));
		check_weights(worker, 0, LEN, want); /* a pull does not throw it away */
		ol_weights(worker, &version);
		check_eq(version, 0);
	}
	stage_meet();
	if (id == 0)
		stage_restart(0, OL_RESTORE_MIRROR);
	stage_flush(worker);
	stage_meet(); /* both deltas are applied */
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	check_weights(worker, 0, LEN, first_weight - lr * MANY * (2.0f + 6.0f) / 2);
	check_end(worker, (uint32_t)id, MANY);
	ol_worker_close(worker);
	return 0;
}

/* One of two servers is gone: a pull says so, and brings what the other has */
static int age_story(const struct job *job, long id)
{
	struct ol_worker *worker =
		open_with(job, id, worker_opts(OL_OUTAGE_CONTINUE, OL_QUEUE_FOLD));
	struct ol_op pull = { 0 }, push = { 0 };
	uint64_t age = 0;

	stage_kill(0);
	stage_down(worker, 0);
	for (unsigned i = 1; i <= 5; i++) {
		check_ok(stage_push(worker, 1.0f, &push));
		check_ok(stage_done(worker, &push));
		check_eq(push.local, 1);
		check_ok(ol_pull(worker, OL_PULL_NEWEST, &pull));
		check_ok(stage_done(worker, &pull));
		check_eq(pull.local, 1);
		check_eq(pull.version, 0); /* of the shard furthest behind */
		check(pull.age_ns > age);
		age = pull.age_ns;
		check_weights(worker, 0, 2048, first_weight);
		check_weights(worker, 2048, LEN, first_weight - lr * (float)i);
	}
	stage_restart(0, OL_RESTORE_MIRROR);
	stage_flush(worker); /* local is 0 again, age too */
	check_weights(worker, 0, LEN, first_weight - lr * 5);
	check_end(worker, 0, 5);
	check_eq(stage_stat(worker, 1).outages, 0);
	ol_worker_close(worker);
	return 0;
}

static int flush_story(const struct job *job, long id)
{
	struct ol_worker *worker =
		open_with(job, id, worker_opts(OL_OUTAGE_CONTINUE, OL_QUEUE_FOLD));
	struct ol_op op = { 0 }, other = { 0 };

	check_ok(ol_flush(worker, &op)); /* nothing is on its way */
	check(op.done && op.status == 0);
	stage_kill(0);
	check_ok(ol_flush(worker, &op)); /* no poll has told it that the server died */
	if (op.done && strcmp(job_transport(), "shm") != 0) {
		stage_down(worker,
			   0); /* a network tells it later: until then nothing is on its way */
		check_ok(ol_flush(worker, &op));
	}
	check(!op.done);
	stage_down(worker, 0);
	push_local(worker, 1.0f);
	check_eq(ol_flush(worker, &other), -EBUSY);
	for (unsigned i = 0; i < 1000; i++)
		check(ol_worker_poll(worker) >= 0);
	check(!op.done);
	stage_restart(0, OL_RESTORE_MIRROR);
	check_ok(stage_done(worker, &op));
	check_eq(stage_stat(worker, 0).pending, 0);
	stage_flush(worker);
	check_weights(worker, 0, LEN, first_weight - lr);
	ol_worker_close(worker);
	return 0;
}

/*
 * A server stands still, pushes fill the window; then it dies: there is a buffer for the next
 * gradient at once, and for every one after it.
 */
static int buffers_story(const struct job *job, long id)
{
	struct ol_worker_opts opts = worker_opts(OL_OUTAGE_CONTINUE, OL_QUEUE_FOLD);
	struct ol_op ops[4] = { { 0 } };
	uint32_t window = job->opts.window, flying = 0;
	struct ol_worker *worker;
	int rc;

	opts.lease_ms = 0; /* it is the kill that ends it */
	worker = open_with(job, id, opts);
	for (unsigned round = 0; round < 2; round++) {
		memset(ops, 0, sizeof(ops));
		stage_pause(0);
		for (flying = 0; (rc = stage_push(worker, 1.0f, &ops[flying])) == 0;)
			flying++;
		check_eq(rc, -EAGAIN);
		check_eq(flying, window - 1);
		stage_kill(0);
		stage_down(worker, 0);
		for (uint32_t i = 0; i < flying; i++)
			check(ops[i].done && ops[i].status == 0 && ops[i].local);
		for (unsigned i = 0; i < 20; i++)
			push_local(worker, 1.0f);
		check_eq(stage_stat(worker, 0).pending, flying + 20);
		stage_restart(0, OL_RESTORE_MIRROR);
		stage_flush(worker);
	}
	check_weights(worker, 0, LEN, first_weight - lr * (float)(2 * (flying + 20)));
	check_end(worker, 0, 2 * (flying + 20));
	ol_worker_close(worker);
	return 0;
}

/* Who never pulls has every buffer kept in the end, and is told so */
static int kept_story(const struct job *job, long id)
{
	struct ol_worker *worker = job_worker_with(
		job, (int)id,
		worker_opts(id == 0 ? OL_OUTAGE_CONTINUE : OL_OUTAGE_WAIT, OL_QUEUE_FOLD));
	uint32_t most = job->opts.window - (id == 0); /* one is for the time of an outage */
	struct ol_op op = { 0 };

	for (unsigned round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < most; i++) {
			check_ok(stage_push(worker, 1.0f, &op));
			check_ok(stage_done(worker, &op));
		}
		check_eq(stage_push(worker, 1.0f, &op), -ENOBUFS);
		check_ok(job_pull(worker, 0));
	}
	check_end(worker, (uint32_t)id, 2 * most);
	ol_worker_close(worker);
	return 0;
}

/* With one of two servers gone for a while, it is the pull from the other that gives buffers
 * back */
static int kept_apart_story(const struct job *job, long id)
{
	struct ol_worker_opts opts = worker_opts(OL_OUTAGE_CONTINUE, OL_QUEUE_FOLD);
	struct ol_op held = { 0 }, op = { 0 };
	struct ol_worker *worker;

	opts.window = 2;
	opts.lease_ms = 0;
	worker = open_with(job, id, opts);
	stage_pause(0);
	check_ok(stage_push(worker, 1.0f, &held));
	stage_kill(0);
	stage_down(worker, 0);
	check(held.local);
	for (unsigned i = 0; i < 10; i++) {
		check_ok(stage_push(worker, 1.0f, &op));
		check_ok(stage_done(worker, &op));
		check_eq(stage_push(worker, 1.0f, &op), -ENOBUFS);
		check_ok(job_pull(worker, 0));
	}
	stage_restart(0, OL_RESTORE_MIRROR);
	stage_flush(worker);
	check_weights(worker, 0, LEN, first_weight - lr * 11);
	check_end(worker, 0, 11);
	ol_worker_close(worker);
	return 0;
}

/* No server for longer than the worker is willing to wait: everything ends, and says why */
static int deadline_story(const struct job *job, long id)
{
	bool goes_on = id == 0;
	struct ol_worker_opts opts =
		worker_opts(goes_on ? OL_OUTAGE_CONTINUE : OL_OUTAGE_WAIT, OL_QUEUE_WAIT);
	struct ol_op push = { 0 }, waits = { 0 }, pull = { 0 }, flush = { 0 };
	struct ol_worker *worker;
	float *grad;

	opts.outage_timeout_ms = 300;
	opts.queue_max = 1;
	worker = open_with(job, id, opts);
	stage_meet();
	if (id == 0)
		stage_kill(0);
	stage_meet();
	stage_down(worker, 0);
	check_ok(stage_push(worker, 1.0f, &push));
	check_eq(push.done, goes_on);
	check_ok(stage_push(worker, 1.0f, &waits));
	check(!waits.done);
	check_ok(ol_grad_try_acquire(worker, &grad));
	check_ok(ol_pull(worker, 0, &pull));
	check_eq(pull.done, goes_on);
	check_ok(ol_flush(worker, &flush));
	check_eq(stage_done(worker, &flush), OL_E_NO_SERVER);
	check_eq(stage_done(worker, &waits), OL_E_NO_SERVER);
	check_eq(stage_done(worker, &push), goes_on ? 0 : OL_E_NO_SERVER);
	check_eq(stage_done(worker, &pull), goes_on ? 0 : OL_E_NO_SERVER);
	check_eq(ol_push(worker, grad, &(struct ol_push_info){ 0 }, &push), OL_E_NO_SERVER);
	check_ok(ol_grad_release(worker, grad));
	check_eq(ol_grad_try_acquire(worker, &grad), OL_E_NO_SERVER);
	check_eq(ol_pull(worker, 0, &pull), OL_E_NO_SERVER);
	check_eq(ol_flush(worker, &flush), OL_E_NO_SERVER);
	check_eq(stage_stat(worker, 0).pending, 2);
	ol_worker_close(worker);
	stage_meet();
	if (id == 0)
		stage_restart(0, OL_RESTORE_NONE); /* so that the job ends well */
	return 0;
}

static void run(struct ol_server_opts opts, uint32_t workers,
		int (*story)(const struct job *job, long id), const char *name)
{
	stage_play(opts, first_weight, workers, story, name);
}

static void policies(void)
{
	static const char *const names[] = { "each", "mean", "sum", "clip", "staleness" };

	for (int replay = OL_REPLAY_EACH; replay <= OL_REPLAY_STALENESS; replay++) {
		struct ol_server_opts opts = server_opts(1);
		char name[64];

		opts.replay = (enum ol_replay)replay;
		opts.replay_clip = 64.0f;
		snprintf(name, sizeof(name), "replay %s", names[replay]);
		run(opts, 1, policy_story, name);
	}
}

int main(void)
{
	struct ol_server_opts opts;

	setvbuf(stdout, NULL, _IOLBF, 0);
	job_transport();
	run(server_opts(1), 1, fold_story, "a folded queue is of constant size");
	run(server_opts(1), 1, drop_story, "the oldest make room, and are counted");
	run(server_opts(1), 1, wait_story, "a push waits at the queue's limit");
	policies();
	opts = server_opts(2);
	opts.replay = OL_REPLAY_STALENESS;
	opts.restore_workers = 1;
	run(opts, 2, staleness_story, "replay staleness, two workers");
	opts = server_opts(2);
	opts.replay = OL_REPLAY_MEAN;
	run(opts, 2, path_story, "local progress, and the mean of two ways");
	opts = server_opts(1);
	opts.shard_count = 2;
	run(opts, 1, age_story, "pulls say that they are local, and how old");
	run(opts, 1, kept_apart_story, "with one of two servers gone a pull frees buffers");
	run(server_opts(1), 1, flush_story, "a flush ends when all is resolved");
	run(server_opts(1), 1, nonfinite_story, "a NaN does not get into the queue");
	for (uint32_t window = 2; window <= 4; window++) {
		char name[64];

		opts = server_opts(1);
		opts.window = window;
		snprintf(name, sizeof(name), "window %u: always a buffer in an outage", window);
		run(opts, 1, buffers_story, name);
	}
	run(server_opts(2), 2, kept_story, "who never pulls is told to");
	run(server_opts(2), 2, deadline_story, "an outage ends at its deadline");
	return 0;
}
