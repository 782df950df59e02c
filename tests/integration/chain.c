/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain.c -- chains of real processes through random failures: every gradient that is pushed takes
 * effect once, no version that was told is taken back, replicas are the same bit for bit, and a
 * synchronous run ends at the very weights of one that was left alone
 *
 * A schedule a seed: --seed N replays one, --runs N does more of them. OL_LOG=debug shows what goes
 * on, OL_TRANSPORT chooses the transport.
 */

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "support/check.h"
#include "support/havoc.h"
#include "support/tally.h"

enum {
	REPLICAS = 3,
	LEASE_MS = 200,
	BEAT_MS = 20,
	WAIT_MS = 50, /* op_timeout_ms: a wait is a moment only */
	RUNS = 24, /* of each kind */
	STEPS = 250, /* sync */
};

/* What workers and the process that kills tell each other */
static struct board {
	atomic_ulong pushes; /* of all, or steps */
	atomic_int enough; /* workers: come to an end */
	atomic_int ended; /* workers that have */
	atomic_int leave;
	char said[TALLY_WORKERS][128]; /* a version that was older than one told before */
	atomic_ulong sum[TALLY_WORKERS]; /* of the last weights */
} * board;

static struct ol_server_opts server_opts(unsigned seed)
{
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.param_count = TALLY_PARAMS;
	opts.workers = TALLY_WORKERS;
	opts.workers_max = TALLY_WORKERS;
	opts.window = 2 + seed % 7;
	opts.rule.lr = 1.0f;
	opts.replicas = REPLICAS;
	opts.lease_ms = LEASE_MS;
	opts.heartbeat_ms = BEAT_MS;
	opts.refound = 1;
	opts.restore = OL_RESTORE_MIRROR;
	opts.restore_workers = TALLY_WORKERS;
	return opts;
}

static struct ol_worker *worker_open(const struct job *job, long id, bool state)
{
	struct ol_worker_opts opts;

	ol_worker_opts_init(&opts);
	opts.outage = OL_OUTAGE_WAIT;
	opts.outage_timeout_ms = 0;
	opts.op_timeout_ms = WAIT_MS;
	opts.lease_ms = job->opts.lease_ms;
	opts.mirror_state = state;
	return job_worker_with(job, (int)id, opts);
}

static int async_worker(const struct job *job, long id)
{
	struct tally tally = { .worker = worker_open(job, id, false), .id = (uint32_t)id };
	unsigned flight = 1 + (job->opts.window + (unsigned)id) % TALLY_FLIGHT_MAX;

	while (!atomic_load(&board->enough)) {
		int rc = tally.pushed - tally.done < flight ? tally_push(&tally) : -EAGAIN;

		if (rc == 0)
			atomic_fetch_add(&board->pushes, 1);
		check(rc == 0 || rc == -EAGAIN || rc == -ENOBUFS);
		if (rc == -ENOBUFS || tally.pushed % (3 + flight) == 0)
			tally_pull(&tally);
		if (rc != 0)
			tally_wait(&tally);
		else
			tally_look(&tally);
	}
	tally_end(&tally);
	memcpy(board->said[id], tally.said, sizeof(tally.said));
	atomic_fetch_add(&board->ended, 1);
	while (!atomic_load(&board->leave)) /* its mirror stays, and it follows views */
		tally_wait(&tally);
	ol_worker_close(tally.worker);
	return 0;
}

/* A gradient that depends on the weights and on who computes it when */
static void gradient(float *grad, const float *weights, uint32_t id, uint64_t step)
{
	uint32_t mix = (uint32_t)step * 2654435761u + id * 40503u;

	for (uint32_t e = 0; e < TALLY_PARAMS; e++) {
		mix = mix * 1664525u + 1013904223u;
		grad[e] = 0.3f * weights[e] + (float)(mix >> 16 & 0xff) / 77.0f - 1.6f;
	}
}

static uint64_t sum_of(const float *weights)
{
	const uint8_t *at = (const void *)weights;
	uint64_t sum = 1;

	for (size_t i = 0; i < TALLY_PARAMS * sizeof(*weights); i++)
		sum = (sum ^ at[i]) * UINT64_C(1099511628211);
	return sum;
}

static int wait_done(struct ol_worker *worker, struct ol_op *op)
{
	while (!op->done)
		(void)ol_worker_wait(worker, op);
	return op->status;
}

static int sync_worker(const struct job *job, long id)
{
	struct ol_worker *worker = worker_open(job, id, true);
	struct ol_push_info info = { .samples = 1, .loss = 1.0f };

	for (uint64_t step = 0; step < STEPS; step++) {
		struct ol_op pull = { 0 }, push = { 0 };
		float *grad;
		int rc;

		check_ok(ol_pull(worker, 0, &pull));
		check_ok(wait_done(worker, &pull));
		check_eq(pull.version, step);
		rc = ol_grad_acquire(worker, &grad);
		check_ok(rc);
		gradient(grad, ol_weights(worker, &info.base_version), (uint32_t)id, step);
		check_ok(ol_push(worker, grad, &info, &push));
		check_ok(wait_done(worker, &push));
		check_eq(push.version, step + 1);
		atomic_fetch_add(&board->pushes, 1);
	}
	{
		struct ol_op pull = { 0 };

		check_ok(ol_pull(worker, OL_PULL_NEWEST, &pull));
		check_ok(wait_done(worker, &pull));
		check_eq(pull.version, STEPS);
	}
	atomic_store(&board->sum[id], sum_of(ol_weights(worker, NULL)));
	atomic_fetch_add(&board->ended, 1);
	while (!atomic_load(&board->leave))
		(void)ol_worker_poll(worker);
	ol_worker_close(worker);
	return 0;
}

static void workers_start(struct havoc *havoc, int (*fn)(const struct job *job, long id))
{
	memset(board, 0, sizeof(*board));
	for (uint32_t i = 0; i < TALLY_WORKERS; i++)
		havoc->workers[i] = job_fork(fn, &havoc->job, i);
}

static void workers_end(struct havoc *havoc)
{
	while (atomic_load(&board->ended) < TALLY_WORKERS)
		havoc_tend(havoc);
	havoc_same(havoc);
	atomic_store(&board->leave, 1);
	for (uint32_t i = 0; i < TALLY_WORKERS; i++) {
		job_join(havoc->workers[i]);
		havoc->workers[i] = 0;
	}
}

/* Until so many more pushes, or steps, are done; they may be waiting for what is due */
static void pushes_wait(struct havoc *havoc, unsigned long more)
{
	unsigned long until = atomic_load(&board->pushes) + more;

	while (atomic_load(&board->pushes) < until && atomic_load(&board->ended) == 0)
		havoc_tend(havoc);
}

/* Kills alone leave a chain its history as long as one replica is left */
static void history_check(struct havoc *havoc, unsigned seed)
{
	struct ol_chain_info info = havoc_view(havoc, 0);

	for (uint32_t i = 0; i < TALLY_WORKERS; i++)
		check_msg(info.founded != 1 || board->said[i][0] == '\0', "seed %u: %s", seed,
			  board->said[i]);
	check_msg(info.founded == 1 || havoc->all_lost || havoc->fenced > 0,
		  "seed %u: epoch %u: founded anew in %u, though a replica was left", seed,
		  info.epoch, info.founded);
}

static void async_schedule(unsigned seed)
{
	struct ol_server_opts opts = server_opts(seed);
	struct havoc havoc;
	unsigned events;

	if (seed % 2 == 0)
		opts.lease_ms = 1000; /* kills only: nobody is taken for dead who is not */
	havoc_start(&havoc, seed, opts);
	workers_start(&havoc, async_worker);
	events = 1 + havoc_rand(&havoc, 5);
	for (unsigned i = 0; i < events; i++) {
		pushes_wait(&havoc, 1 + havoc_rand(&havoc, 60));
		havoc_random(&havoc, 0, seed % 2 == 1);
		if (havoc_rand(&havoc, 2) == 0)
			havoc_full(&havoc);
	}
	pushes_wait(&havoc, 20);
	atomic_store(&board->enough, 1);
	workers_end(&havoc);
	history_check(&havoc, seed);
	havoc_end(&havoc);
	printf("ok async, seed %u: %u kills, %u stops, %u left out; %lu pushes\n", seed,
	       havoc.kills, havoc.stops, havoc.fenced, atomic_load(&board->pushes));
}

static uint64_t sync_schedule(unsigned seed, uint32_t replicas)
{
	struct ol_server_opts opts = server_opts(seed);
	struct havoc havoc;
	unsigned events;

	opts.consistency = OL_CONSISTENCY_SYNC;
	opts.rule.optimizer = OL_OPTIMIZER_MOMENTUM;
	opts.rule.lr = 0.01f;
	opts.replicas = replicas;
	opts.lease_ms = seed % 2 == 1 ? LEASE_MS : 1000;
	havoc_start(&havoc, seed, opts);
	workers_start(&havoc, sync_worker);
	events = replicas > 1 ? 1 + havoc_rand(&havoc, 5) : 0;
	for (unsigned i = 0; i < events; i++) {
		pushes_wait(&havoc, 1 + havoc_rand(&havoc, TALLY_WORKERS * STEPS / 5));
		havoc_random(&havoc, 0, seed % 2 == 1);
		if (havoc_rand(&havoc, 2) == 0)
			havoc_full(&havoc);
	}
	workers_end(&havoc);
	history_check(&havoc, seed);
	havoc_end(&havoc);
	check_eq(atomic_load(&board->sum[0]), atomic_load(&board->sum[1]));
	if (replicas > 1)
		printf("ok sync, seed %u: %u kills, %u stops, %u left out\n", seed, havoc.kills,
		       havoc.stops, havoc.fenced);
	return atomic_load(&board->sum[0]);
}

int main(int argc, char **argv)
{
	struct havoc_seeds seeds = havoc_seeds(argc, argv, RUNS);
	uint64_t whole;

	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	check(board != MAP_FAILED);
	whole = sync_schedule(0, 1);
	for (unsigned seed = seeds.first; seed <= seeds.last; seed++) {
		fprintf(stderr, "seed %u\n", seed);
		async_schedule(seed);
		check_eq(sync_schedule(seed, REPLICAS), whole);
	}
	return 0;
}
