/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * loop.c -- the README's training loop, which checks only for negative codes, sees none through any
 * sequence of kills and restores; every gradient is in the weights once
 *
 * [--seed N] [--kills N]; OL_TRANSPORT shm or verbs. Servers die of SIGKILL at random moments, also
 * while another is gone, and come back empty after a random time. With SYNC and CONTINUE there is
 * one server: several would reach different versions, and a worker that ends would leave another one
 * waiting at the server that is ahead.
 */

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/check.h"
#include "support/job.h"
#include "wire/layout.h"

enum {
	SHARDS = 2,
	WORKERS = 2,
	LEN = 4000,
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	KILLS = 15,
#else
	KILLS = 50,
#endif
	UP_MAX_MS = 120, /* between a server's start and the next kill, at most */
	DOWN_MAX_MS = 60,
	AHEAD = 2000 /* steps from the newest seen to the last, so that no worker is past it */
};

static struct shared {
	_Atomic uint64_t end; /* the version at which workers stop; with ASYNC any but UINT64_MAX */
	_Atomic uint64_t versions[WORKERS];
	_Atomic uint64_t steps[WORKERS];
} * shared;

static const struct play {
	const char *name;
	enum ol_outage outage;
	enum ol_consistency consistency;
	uint32_t shards;
} plays[] = {
	{ "wait", OL_OUTAGE_WAIT, OL_CONSISTENCY_ASYNC, SHARDS },
	{ "continue", OL_OUTAGE_CONTINUE, OL_CONSISTENCY_ASYNC, SHARDS },
	{ "wait, sync", OL_OUTAGE_WAIT, OL_CONSISTENCY_SYNC, SHARDS },
	{ "continue, sync", OL_OUTAGE_CONTINUE, OL_CONSISTENCY_SYNC, 1 },
}, *play;
static struct pollfd workers[WORKERS]; /* readable when one has ended */

/* True when a worker with weights of this version has done its part */
static bool at_end(uint64_t version)
{
	uint64_t end = atomic_load(&shared->end);

	return play->consistency == OL_CONSISTENCY_SYNC ? version >= end : end != UINT64_MAX;
}

/* The six calls. Returns the first negative code, or 0 when it is told to stop */
static int loop(struct ol_worker *worker, long id)
{
	struct ol_push_info info = { .samples = 1 };
	struct ol_op op = { 0 };
	const float *weights;
	float *grad;
	int rc;

	for (;;) {
		if ((rc = ol_pull(worker, 0, &op)) < 0 || (rc = ol_worker_wait(worker, &op)) < 0 ||
		    (rc = ol_grad_acquire(worker, &grad)) < 0)
			return rc;
		weights = ol_weights(worker, &info.base_version);
		if (at_end(info.base_version))
			return ol_grad_release(worker, grad);
		atomic_store(&shared->versions[id], info.base_version);
		for (int i = 0; i < LEN; i++)
			grad[i] = weights[i] < 1e30f ? 1.0f : 0.0f; /* a gradient needs weights */
		if ((rc = ol_push(worker, grad, &info, &op)) < 0 ||
		    (rc = ol_worker_wait(worker, &op)) < 0)
			return rc;
		atomic_fetch_add(&shared->steps[id], 1);
	}
}

/* A caller that holds all buffers is told so at once, instead of waiting for itself */
static void all_lent(struct ol_worker *worker)
{
	float *grads[OL_WINDOW_MAX];
	struct ol_job_info info;
	uint32_t count = 0;
	int rc;

	ol_worker_info(worker, &info);
	while ((rc = ol_grad_acquire(worker, &grads[count])) == 0)
		count++;
	check_eq(rc, -EBUSY);
	check_eq(count, info.window - (play->outage == OL_OUTAGE_CONTINUE));
	while (count > 0)
		check_ok(ol_grad_release(worker, grads[--count]));
}

static int work(const struct job *job, long id)
{
	struct ol_worker_opts opts;
	struct ol_link_stat stat;
	struct ol_worker *worker;
	struct ol_op op = { 0 };
	int rc;

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.outage = play->outage;
	worker = job_worker_with(job, (int)id, opts);
	all_lent(worker);
	rc = loop(worker, id);
	check_msg(rc == 0, "worker %ld: the loop saw %d (%s) after %llu steps", id, rc,
		  ol_strerror(rc), (unsigned long long)shared->steps[id]);
	for (uint32_t i = 0; i < play->shards; i++) {
		check_ok(ol_link_get_stat(worker, i, &stat));
		check_eq(stat.late, 0);
	}
	check_ok(ol_withdraw(worker)); /* a queue may have come after the last step */
	check_ok(ol_flush(worker, &op));
	check_ok(ol_worker_wait(worker, &op));
	for (uint32_t i = 0; i < play->shards; i++) {
		check_ok(ol_link_get_stat(worker, i, &stat));
		check_eq(stat.pushed, shared->steps[id]);
		check_eq(stat.applied + stat.late, stat.pushed);
		check_msg(stat.late == 0 || play->consistency == OL_CONSISTENCY_SYNC,
			  "worker %ld: %llu gradients are late", id, (unsigned long long)stat.late);
		check_eq(stat.lost + stat.nonfinite + stat.queue_dropped + stat.pending, 0);
	}
	ol_worker_close(worker);
	return 0;
}

/* Every gradient is in the weights once: they were 0, and each took 1 off */
static int look(const struct job *job, long arg)
{
	struct ol_worker *worker = job_worker(job, -1);
	uint64_t steps = shared->steps[0] + shared->steps[1];
	const float *weights;

	(void)arg;
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	weights = ol_weights(worker, NULL);
	for (int i = 0; i < LEN; i++)
		check_msg(weights[i] == -(float)steps, "weight %d is %g after %llu gradients", i,
			  (double)weights[i], (unsigned long long)steps);
	ol_worker_close(worker);
	return 0;
}

/* So long, unless a worker ends, which none may */
static void watch(int ms)
{
	check_msg(poll(workers, WORKERS, ms) == 0, "a worker ended");
}

/* Shard by shard, at random moments; one may die while the other is gone */
static void kills(struct job *job, unsigned seed, unsigned count)
{
	bool gone[SHARDS] = { false };
	unsigned random = seed;

	for (unsigned done = 0; done < count || gone[0] || gone[1];) {
		uint32_t shard = (uint32_t)rand_r(&random) % play->shards;

		if (gone[shard]) {
			watch(rand_r(&random) % (DOWN_MAX_MS + 1));
			(void)job_restart(job, shard, false);
		} else if (done < count) {
			watch(rand_r(&random) % (UP_MAX_MS + 1));
			job_kill(job, shard);
			done++;
		} else {
			continue;
		}
		gone[shard] = !gone[shard];
	}
}

static void play_run(unsigned seed, unsigned count)
{
	bool sync = play->consistency == OL_CONSISTENCY_SYNC;
	struct ol_server_opts opts;
	pid_t pids[WORKERS];
	struct job job;
	uint64_t end;

	memset(shared, 0, sizeof(*shared));
	shared->end = UINT64_MAX;
	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.window = JOB_WINDOW;
	opts.param_count = LEN;
	opts.shard_count = play->shards;
	opts.workers_max = WORKERS;
	opts.observers_max = 1;
	opts.consistency = play->consistency;
	opts.workers = WORKERS;
	opts.rule.optimizer = OL_OPTIMIZER_SGD;
	opts.rule.lr = sync ? 1e-6f : 1.0f;
	opts.replay = OL_REPLAY_EACH; /* a queue counts as its gradients do */
	opts.restore_workers = WORKERS;
	opts.restore_wait_ms = 60000;
	job_start(&job, opts, 0.0f);
	job.opts.restore = OL_RESTORE_MIRROR;
	for (long i = 0; i < WORKERS; i++) {
		pids[i] = job_fork(work, &job, i);
		workers[i] = (struct pollfd){ .fd = (int)syscall(SYS_pidfd_open, pids[i], 0),
					      .events = POLLIN };
		check(workers[i].fd >= 0);
	}
	while (shared->steps[0] == 0 || shared->steps[1] == 0)
		watch(1);
	kills(&job, seed, count);
	end = shared->versions[0] > shared->versions[1] ? shared->versions[0] : shared->versions[1];
	atomic_store(&shared->end, end + AHEAD);
	for (long i = 0; i < WORKERS; i++)
		job_join(pids[i]);
	for (long i = 0; i < WORKERS; i++)
		close(workers[i].fd);
	if (!sync) /* there a step is a mean, and a queue its own share of it */
		job_join(job_fork(look, &job, 0));
	job_stop(&job);
	printf("%s: %u kills, %llu + %llu steps, seed %u\n", play->name, count,
	       (unsigned long long)shared->steps[0], (unsigned long long)shared->steps[1], seed);
}

int main(int argc, char **argv)
{
	unsigned seed = 1, count = KILLS;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--seed") == 0)
			seed = (unsigned)strtoul(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--kills") == 0)
			count = (unsigned)strtoul(argv[i + 1], NULL, 10);
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	check_ok(ol_log_set(NULL, OL_LOG_WARN, NULL)); /* not each of 100 restores */
	job_transport();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	check(shared != MAP_FAILED);
	for (size_t i = 0; i < sizeof(plays) / sizeof(plays[0]); i++) {
		play = &plays[i];
		play_run(seed, count);
	}
	return 0;
}
