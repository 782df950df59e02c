/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outage.c -- when servers are killed at random moments, no gradient is lost or doubled: real
 * processes, OL_TRANSPORT shm or verbs; OL_KILLS kills (100, 30 under a sanitizer), OL_SEED a seed to try again
 *
 * Gradients are small whole numbers and the learning rate is a power of two, so sums are exact in
 * any order: the weights must equal the sums by the applied tables, bit for bit.
 */

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "support/check.h"
#include "support/job.h"

enum {
	SLICE_MS = 20, /* of a wait: then what else there is to do is looked after */
	LEN = 3000, /* two shards: 2048 and 952 */
	WORKERS = 2,
	MOVED_LEASE_MS = 2000,
	STEPS_A_KILL = 40, /* pushes between two kills, at most */
	SYNC_STEPS = 400,
	SYNC_KILLS = 10,
	SAMPLES_MAX = 1000,
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	KILLS = 30
#else
	KILLS = 100
#endif
};

/* Times of one kind, in ns; those of one writer */
struct times {
	_Atomic unsigned count;
	uint64_t ns[SAMPLES_MAX];
};

/* What the workers tell the process that kills */
struct board {
	_Atomic unsigned pushes; /* of all workers */
	_Atomic unsigned acks; /* of these, applied by a server that was there */
	_Atomic int enough; /* workers: come to an end */
	_Atomic uint64_t step_max; /* sync workers: no further yet */
	_Atomic unsigned long hash[WORKERS];
	_Atomic int in; /* workers that are connected */
	_Atomic uint64_t killed_ns; /* CLOCK_MONOTONIC: the last kill … */
	_Atomic uint64_t back_ns; /* … and when a server listened again */
	struct times detected; /* from the kill to worker 0's knowing */
	struct times recovered; /* from listening to the first gradient applied */
	_Atomic int noticed; /* a worker has seen that a heartbeat stands still */
	_Atomic int moved; /* shard 0 is elsewhere: addr */
	char addr[96];
};

static struct board *board;
static unsigned seed;

static unsigned kills_wanted(void)
{
	const char *text = getenv("OL_KILLS");

	return text != NULL ? (unsigned)strtoul(text, NULL, 10) : KILLS;
}

static void wait_until(_Atomic unsigned *count, unsigned until)
{
	while (atomic_load(count) < until)
		sched_yield();
}

/* Until a count has gone up by 1 to `span` */
static void wait_for(_Atomic unsigned *count, unsigned span)
{
	wait_until(count, atomic_load(count) + 1 + (unsigned)rand_r(&seed) % span);
}

static void all_in_wait(void)
{
	while (atomic_load(&board->in) < WORKERS)
		sched_yield();
}

static struct ol_server_opts server_opts(enum ol_consistency consistency, uint32_t shards)
{
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.window = JOB_WINDOW;
	opts.param_count = LEN;
	opts.shard_count = shards;
	opts.consistency = consistency;
	opts.workers = WORKERS;
	opts.workers_max = WORKERS;
	opts.rule.lr = 0.5f;
	opts.rule.sum = 1;
	opts.replay = OL_REPLAY_EACH; /* what was summed up counts in full */
	return opts;
}

static struct ol_worker_opts worker_opts(enum ol_outage outage)
{
	struct ol_worker_opts opts;

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.outage = outage;
	return opts;
}

/* What a shard's weights must be: worker k only ever pushes gradients of all k + 1 */
static void check_weights(struct ol_worker *worker, uint32_t shards)
{
	const float *weights = ol_weights(worker, NULL);

	for (uint32_t s = 0; s < shards; s++) {
		uint64_t first, count;
		float want = 100.0f;

		for (uint32_t k = 0; k < WORKERS; k++)
			want -= 0.5f * (float)(k + 1) * (float)ol_applied_grads(worker, s, k);
		check(ol_shard_span(LEN, shards, s, &first, &count) == 0);
		for (uint64_t i = first; i < first + count; i++)
			check(weights[i] == want);
	}
}

static void flush(struct ol_worker *worker)
{
	struct ol_op op = { 0 }, pull = { 0 };

	check_ok(ol_flush(worker, &op));
	while (!op.done)
		(void)ol_worker_wait_for(worker, &op, SLICE_MS);
	check_ok(op.status);
	check_ok(ol_pull(worker, OL_PULL_NEWEST, &pull));
	while (!pull.done)
		(void)ol_worker_wait_for(worker, &pull, SLICE_MS);
	check_ok(pull.status);
	check(!pull.local);
}

/* Both ends agree on what became of every gradient */
static void check_accounts(struct ol_worker *worker, uint32_t shards, uint32_t id, uint64_t lost)
{
	struct ol_link_stat stat;

	for (uint32_t s = 0; s < shards; s++) {
		check_ok(ol_link_get_stat(worker, s, &stat));
		check_eq(stat.lost, lost);
		check_eq(stat.pending, 0);
		check_eq(stat.queued, 0);
		check_eq(stat.pushed, stat.applied + stat.queue_dropped + stat.lost);
		check_msg(
			ol_applied_grads(worker, s, id) == stat.applied,
			"seed %u: shard %u has %lu gradients of worker %u (last %lu), which knows "
			"of %lu; %lu resent, %u outages",
			seed, s, (unsigned long)ol_applied_grads(worker, s, id), id,
			(unsigned long)ol_applied(worker, s, id), (unsigned long)stat.applied,
			(unsigned long)stat.resent, stat.outages);
	}
}

/* A server has gone elsewhere: that is known at some time in the middle of a wait */
static bool moved; /* this worker knows */

static void moved_look(struct ol_worker *worker)
{
	struct ol_link_stat stat;

	check_ok(ol_link_get_stat(worker, 0, &stat));
	if (stat.down && stat.reason == OL_E_FENCED)
		atomic_store(&board->noticed, 1);
	if (moved || !atomic_load(&board->moved))
		return;
	moved = true;
	check_ok(ol_worker_redirect(worker, 0, board->addr));
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void times_add(struct times *times, uint64_t from_ns, uint64_t to_ns)
{
	unsigned count = atomic_load(&times->count);

	if (from_ns == 0 || count == SAMPLES_MAX)
		return;
	times->ns[count] = to_ns > from_ns ? to_ns - from_ns : 0;
	atomic_store(&times->count, count + 1);
}

static int times_order(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

static void times_show(const char *what, struct times *times)
{
	unsigned count = atomic_load(&times->count);

	if (count == 0)
		return;
	qsort(times->ns, count, sizeof(times->ns[0]), times_order);
	printf("%s: %u times, p50 %.2f ms, p99 %.2f ms, max %.2f ms\n", what, count,
	       (double)times->ns[count / 2] / 1e6, (double)times->ns[count * 99 / 100] / 1e6,
	       (double)times->ns[count - 1] / 1e6);
}

/* One worker's measurements of what has happened since it looked last */
static void times_look(struct ol_worker *worker, uint32_t *outages, uint64_t *applied_ns)
{
	struct ol_server_stat server;
	struct ol_link_stat link;

	check_ok(ol_link_get_stat(worker, 0, &link));
	if (link.outages == *outages + 1 && link.down_ns >= atomic_load(&board->killed_ns))
		times_add(&board->detected, atomic_load(&board->killed_ns), link.down_ns);
	*outages = link.outages;
	if (link.outages == 0 || link.down || ol_stat(worker, 0, &server) != 0 ||
	    server.first_applied_ns == 0 || server.first_applied_ns == *applied_ns ||
	    atomic_load(&board->back_ns) < atomic_load(&board->killed_ns))
		return;
	*applied_ns = server.first_applied_ns;
	times_add(&board->recovered, atomic_load(&board->back_ns), server.first_applied_ns);
}

static int push_value(struct ol_worker *worker, float value)
{
	struct ol_op op = { .level = OL_LEVEL_APPLIED };
	struct ol_push_info info = { .samples = 1, .loss = 1.0f };
	float *grad;
	int rc;

	while ((rc = ol_grad_try_acquire(worker, &grad)) == -EAGAIN || rc == -ENOBUFS) {
		check(ol_worker_poll(worker) >= 0);
		if (rc == -ENOBUFS)
			check_ok(job_pull(worker, 0));
	}
	if (rc != 0)
		return rc;
	for (int i = 0; i < LEN; i++)
		grad[i] = value;
	ol_weights(worker, &info.base_version);
	rc = ol_push(worker, grad, &info, &op);
	while (rc == 0 && !op.done) {
		(void)ol_worker_wait_for(worker, &op, SLICE_MS);
		moved_look(worker);
	}
	atomic_fetch_add(&board->pushes, 1);
	atomic_fetch_add(&board->acks, !op.local);
	return rc != 0 ? rc : op.status;
}

/* Goes on whatever its servers do */
static int continue_worker(const struct job *job, long id)
{
	struct ol_worker *worker = job_worker_with(job, (int)id, worker_opts(OL_OUTAGE_CONTINUE));
	uint64_t applied_ns = 0;
	uint32_t outages = 0;

	atomic_fetch_add(&board->in, 1);
	while (!atomic_load(&board->enough)) {
		check_ok(job_pull(worker, 0));
		check_weights(worker, job->shard_count);
		check_ok(push_value(worker, (float)(id + 1)));
		if (id == 0 && job->shard_count == 1)
			times_look(worker, &outages, &applied_ns);
	}
	flush(worker);
	check_weights(worker, job->shard_count);
	check_accounts(worker, job->shard_count, (uint32_t)id, 0);
	ol_worker_close(worker);
	return 0;
}

static void nothing_is_lost(uint32_t shards, unsigned kills)
{
	pid_t pids[WORKERS];
	struct job job;

	atomic_store(&board->enough, 0);
	atomic_store(&board->in, 0);
	job_start(&job, server_opts(OL_CONSISTENCY_ASYNC, shards), 100.0f);
	for (int k = 0; k < WORKERS; k++)
		pids[k] = job_fork(continue_worker, &job, k);
	job.opts.restore = OL_RESTORE_MIRROR;
	all_in_wait();
	for (unsigned i = 0; i < kills; i++) {
		uint32_t shard = (uint32_t)rand_r(&seed) % shards;

		/* mostly when it serves, now and then while it restores */
		if (i % 4 != 0)
			wait_for(&board->acks, STEPS_A_KILL);
		atomic_store(&board->killed_ns, now_ns());
		job_kill(&job, shard);
		wait_for(&board->pushes, STEPS_A_KILL);
		job_restart(&job, shard, false);
		atomic_store(&board->back_ns, now_ns());
	}
	atomic_store(&board->enough, 1);
	for (int k = 0; k < WORKERS; k++)
		job_join(pids[k]);
	job_stop(&job);
	printf("ok %u kills of %u servers, async, continue: nothing lost\n", kills, shards);
}

/* A gradient that depends on the weights and the step, so that any difference grows */
static void grad_fill(float *grad, const float *weights, uint64_t step, long id)
{
	for (int i = 0; i < LEN; i++)
		grad[i] = 0.01f * weights[i] + 0.001f * (float)(id + 1) * (float)(step % 17 + 1);
}

static int push_step(struct ol_worker *worker, long id)
{
	struct ol_op op = { .level = OL_LEVEL_APPLIED };
	struct ol_push_info info = { .samples = 1, .loss = 1.0f };
	const float *weights = ol_weights(worker, &info.base_version);
	float *grad;

	check_ok(ol_grad_try_acquire(worker, &grad));
	grad_fill(grad, weights, info.base_version, id);
	check_ok(ol_push(worker, grad, &info, &op));
	return ol_worker_wait(worker, &op);
}

static unsigned long hash_of(const float *weights)
{
	const unsigned char *bytes = (const unsigned char *)weights;
	unsigned long hash = 14695981039346656037ul;

	for (size_t i = 0; i < LEN * sizeof(float); i++)
		hash = (hash ^ bytes[i]) * 1099511628211ul;
	return hash;
}

static int sync_worker(const struct job *job, long id)
{
	struct ol_worker_opts opts = worker_opts(OL_OUTAGE_WAIT);
	struct ol_worker *worker;
	uint64_t version = 0;
	int rc;

	opts.mirror_state = 1;
	worker = job_worker_with(job, (int)id, opts);
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	while (version < SYNC_STEPS) {
		while (version >= atomic_load(&board->step_max)) {
			check(ol_worker_poll(worker) >= 0);
			sched_yield();
		}
		rc = push_step(worker, id);
		check_msg(rc == 0, "step %lu: %s", (unsigned long)version, ol_strerror(rc));
		check_ok(job_pull(worker, 0));
		ol_weights(worker, &version);
		atomic_fetch_add(&board->pushes, 1);
	}
	atomic_store(&board->hash[id], hash_of(ol_weights(worker, NULL)));
	ol_worker_close(worker);
	return 0;
}

/* The weights after SYNC_STEPS steps, with so many kills on the way */
static unsigned long sync_run(enum ol_optimizer optimizer, uint32_t shards, unsigned kills)
{
	struct ol_server_opts opts = server_opts(OL_CONSISTENCY_SYNC, shards);
	pid_t pids[WORKERS];
	struct job job;

	opts.rule.optimizer = optimizer;
	opts.rule.lr = 0.0123f;
	opts.rule.sum = 0;
	atomic_store(&board->pushes, 0);
	atomic_store(&board->step_max, 0);
	job_start(&job, opts, 1.0f);
	for (int k = 0; k < WORKERS; k++)
		pids[k] = job_fork(sync_worker, &job, k);
	job.opts.restore = OL_RESTORE_MIRROR;
	for (unsigned i = 0; i < kills; i++) {
		uint32_t shard = (uint32_t)rand_r(&seed) % shards;
		unsigned until = atomic_load(&board->pushes) + 1 +
				 (unsigned)rand_r(&seed) % (SYNC_STEPS * WORKERS / SYNC_KILLS / 2);

		/* the workers are never done before all kills are */
		atomic_store(&board->step_max, until / WORKERS + 2);
		wait_until(&board->pushes, until);
		job_kill(&job, shard);
		job_restart(&job, shard, false);
	}
	atomic_store(&board->step_max, SYNC_STEPS);
	for (int k = 0; k < WORKERS; k++)
		job_join(pids[k]);
	job_stop(&job);
	check_eq(atomic_load(&board->hash[0]), atomic_load(&board->hash[1]));
	return atomic_load(&board->hash[0]);
}

static void bits_are_the_same(enum ol_optimizer optimizer, uint32_t shards)
{
	unsigned long quiet = sync_run(optimizer, shards, 0);
	unsigned long killed = sync_run(optimizer, shards, SYNC_KILLS);

	check_msg(quiet == killed, "weights differ after kills: seed %u, optimizer %d, shards %u",
		  seed, (int)optimizer, shards);
	printf("ok %d kills of %u servers, sync, wait, optimizer %d: the same bits\n", SYNC_KILLS,
	       shards, (int)optimizer);
}

static int move_worker(const struct job *job, long id)
{
	struct ol_worker_opts opts = worker_opts(OL_OUTAGE_WAIT);
	struct ol_worker *worker;

	opts.lease_ms = MOVED_LEASE_MS;
	worker = job_worker_with(job, (int)id, opts);
	atomic_fetch_add(&board->in, 1);
	while (!moved) {
		struct ol_op pull = { 0 };

		check_ok(ol_pull(worker, OL_PULL_NEWEST, &pull));
		while (!pull.done) {
			(void)ol_worker_wait_for(worker, &pull, SLICE_MS);
			moved_look(worker);
		}
		check_ok(pull.status);
		check_weights(worker, 1);
		check_ok(push_value(worker, (float)(id + 1)));
	}
	flush(worker);
	check_weights(worker, 1);
	check_accounts(worker, 1, (uint32_t)id, 0);
	ol_worker_close(worker);
	return 0;
}

/* Stopped for longer than its lease, another takes over elsewhere; then it wakes up: and is
 * fenced */
static void a_stopped_server_is_fenced(void)
{
	struct ol_server_opts opts = server_opts(OL_CONSISTENCY_ASYNC, 1);
	pid_t pids[WORKERS], old;
	struct job job;

	opts.lease_ms = MOVED_LEASE_MS;
	atomic_store(&board->moved, 0);
	atomic_store(&board->noticed, 0);
	atomic_store(&board->in, 0);
	job_start(&job, opts, 100.0f);
	for (int k = 0; k < WORKERS; k++)
		pids[k] = job_fork(move_worker, &job, k);
	all_in_wait(); /* a stopped server lets nobody in */
	wait_for(&board->pushes, STEPS_A_KILL);
	old = job.servers[0];
	kill(old, SIGSTOP);
	while (!atomic_load(&board->noticed))
		sched_yield();
	job.opts.restore = OL_RESTORE_MIRROR;
	job.opts.lease_ms = JOB_LEASE_MS;
	snprintf(board->addr, sizeof(board->addr), "%s", job_restart(&job, 0, true));
	atomic_store(&board->moved, 1);
	for (int k = 0; k < WORKERS; k++)
		job_join(pids[k]);
	kill(old, SIGCONT);
	job_fenced(old);
	job_stop(&job);
	printf("ok a stopped server is fenced\n");
}

int main(void)
{
	const char *text = getenv("OL_SEED");
	bool quick = kills_wanted() < 100;

	setvbuf(stdout, NULL, _IOLBF, 0);
	job_transport();
	seed = text != NULL ? (unsigned)strtoul(text, NULL, 10) : (unsigned)getpid();
	printf("seed %u\n", seed);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	check(board != MAP_FAILED);
	nothing_is_lost(1, kills_wanted());
	times_show("a killed server is noticed", &board->detected);
	times_show("first gradient, from listening again", &board->recovered);
	if (!quick)
		nothing_is_lost(2, kills_wanted() / 2);
	bits_are_the_same(OL_OPTIMIZER_SGD, 1);
	bits_are_the_same(OL_OPTIMIZER_MOMENTUM, 2);
	if (!quick)
		bits_are_the_same(OL_OPTIMIZER_ADAM, 1);
	a_stopped_server_is_fenced();
	return 0;
}
