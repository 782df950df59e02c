/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * backup.c -- with steps that do not wait for all workers, a late gradient is dropped and counted
 * once, or is of the next step, an applied one is in the weights once, and lost workers are not waited for. Also when a
 * chain's head dies, and with bounded staleness.
 *
 * All elements of worker k's gradients are k + 1, the rule sums, and the learning rate is a power of
 * two: the weights must equal the sums by the applied tables, bit for bit.
 */

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "support/check.h"
#include "support/job.h"

enum {
	LEN = 3000,
	WORKERS = 3,
	STEPS = 150,
	BOUND = 2
};

/* What the workers of a story tell each other */
static struct board {
	atomic_ulong done[WORKERS]; /* pushes that took effect, by worker */
	atomic_ulong late[WORKERS];
	atomic_uint in;
	atomic_bool enough;
} * board;

static struct ol_server_opts backup_opts(enum ol_wait wait)
{
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.param_count = LEN;
	opts.consistency = OL_CONSISTENCY_SYNC;
	opts.workers = WORKERS;
	opts.workers_max = WORKERS;
	opts.window = 2;
	opts.rule.lr = 0.5f;
	opts.rule.sum = 1;
	opts.wait = wait;
	opts.wait_k = 2;
	opts.grace_ms = 1;
	return opts;
}

static void check_weights(const struct ol_worker *worker)
{
	const float *weights = ol_weights(worker, NULL);
	float want = 0.0f;

	for (uint32_t k = 0; k < WORKERS; k++)
		want -= 0.5f * (float)(k + 1) * (float)ol_applied_grads(worker, 0, k);
	for (uint64_t i = 0; i < LEN; i++)
		check(weights[i] == want);
}

/* What the library says of this worker's gradients is what came of them. */
static void check_accounts(struct ol_worker *worker, uint64_t late, uint32_t id)
{
	struct ol_link_stat stat;

	check_ok(ol_link_get_stat(worker, 0, &stat));
	check_eq(stat.pushed, stat.applied + stat.late);
	check_eq(stat.applied, ol_applied_grads(worker, 0, id));
	check_eq(stat.pending + stat.lost + stat.nonfinite, 0);
	check_eq(stat.late, late);
}

/*
 * Until the servers have published another version than the weights are of: it will be late. Who
 * chooses how many to wait for may wait for this one: then only for a while.
 */
static void dawdle(struct ol_worker *worker, bool chosen)
{
	unsigned patience = 500;
	uint64_t version;

	ol_weights(worker, &version);
	while (ol_newest(worker) <= version && !atomic_load(&board->enough)) {
		ol_worker_poll(worker);
		if (chosen && --patience == 0)
			return;
	}
}

static bool nobody_late(void)
{
	return atomic_load(&board->late[WORKERS - 1]) == 0;
}

static int train(const struct job *job, long id)
{
	struct ol_worker_opts opts;
	struct ol_worker *worker;
	uint64_t late = 0, version = 0;

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	if (job->coordinator_addr[0] != '\0')
		opts.outage = OL_OUTAGE_WAIT;
	worker = job_worker_with(job, (int)id, opts);
	atomic_fetch_add(&board->in, 1);
	while (atomic_load(&board->in) < WORKERS)
		ol_worker_poll(worker);
	while (version < STEPS || (job->opts.wait == OL_WAIT_FIXED && nobody_late())) {
		int rc;

		check_ok(job_pull(worker, OL_PULL_NEWEST));
		check_weights(worker);
		ol_weights(worker, &version);
		if (job->opts.wait == OL_WAIT_QUORUM && version >= STEPS)
			break; /* the others may have left: no step has fewer than two */
		if (id == WORKERS - 1 && version % 3 != 0)
			dawdle(worker, job->opts.wait != OL_WAIT_FIXED);
		rc = job_push(worker, (float)(id + 1));
		check(rc == 0 || rc == OL_E_LATE);
		late += rc == OL_E_LATE;
		atomic_fetch_add(rc == 0 ? &board->done[id] : &board->late[id], 1);
	}
	atomic_store(&board->enough, true);
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	check_weights(worker);
	check_accounts(worker, late, (uint32_t)id);
	check(late == 0 || job->opts.late == OL_LATE_DROP);
	ol_worker_close(worker);
	return 0;
}

static int count(const struct job *job, long unused)
{
	struct ol_worker *reader = job_worker(job, -1);
	unsigned long late = 0, done = 0;
	struct ol_server_stat stat;

	(void)unused;
	for (int k = 0; k < WORKERS; k++) {
		late += atomic_load(&board->late[k]);
		done += atomic_load(&board->done[k]);
	}
	check_ok(ol_stat(reader, 0, &stat));
	check_eq(stat.dropped_late, late);
	check_eq(stat.applied, done);
	check(stat.wait_for >= 1 && stat.wait_for <= WORKERS);
	printf("%lu took effect, %lu came late; waits for %u in the end\n", done, late,
	       stat.wait_for);
	ol_worker_close(reader);
	return 0;
}

static void story_begin(struct job *job)
{
	memset(board, 0, sizeof(*board));
	memset(job, 0, sizeof(*job));
}

static void the_first_ones_make_a_step(enum ol_wait wait, enum ol_late late)
{
	struct ol_server_opts opts = backup_opts(wait);
	pid_t pids[WORKERS];
	struct job job;

	story_begin(&job);
	opts.late = late;
	job_start(&job, opts, 0.0f);
	for (int k = 0; k < WORKERS; k++)
		pids[k] = job_fork(train, &job, k);
	for (int k = 0; k < WORKERS; k++)
		job_join(pids[k]);
	job_join(job_fork(count, &job, 0));
	job_stop(&job);
}

/* The head dies on the way: what was late stays late, what took effect stays in. */
static void a_chain_does_so_too(void)
{
	struct ol_server_opts opts = backup_opts(OL_WAIT_FIXED);
	struct ol_chain_info info;
	pid_t pids[WORKERS];
	struct job job;

	story_begin(&job);
	opts.replicas = 3;
	job_start_chain(&job, opts, 0.0f);
	for (int k = 0; k < WORKERS; k++)
		pids[k] = job_fork(train, &job, k);
	while (atomic_load(&board->done[0]) < STEPS / 3)
		check_ok(kill(pids[0], 0));
	info = job_chain(&job, 0, 0);
	job_kill(&job, (uint32_t)job_server_at(&job, &info, 0));
	for (int k = 0; k < WORKERS; k++)
		job_join(pids[k]);
	job_stop(&job);
}

static int push_one(const struct job *job, long id)
{
	struct ol_worker *worker = job_worker(job, (int)id);

	atomic_fetch_add(&board->in, 1);
	while (atomic_load(&board->in) < WORKERS)
		ol_worker_poll(worker);
	check_eq(job_push(worker, (float)(id + 1)), 0);
	check_ok(job_pull(worker, 0));
	check(ol_weights(worker, NULL)[0] == -0.5f * 3.0f);
	ol_worker_close(worker);
	return 0;
}

static int only_be_there(const struct job *job, long id)
{
	struct ol_worker *worker = job_worker(job, (int)id);

	atomic_fetch_add(&board->in, 1);
	while (!atomic_load(&board->enough))
		ol_worker_poll(worker);
	ol_worker_close(worker);
	return 0;
}

/* Both gradients have landed, and are no step yet */
static int two_have_landed(const struct job *job, long unused)
{
	struct ol_worker *reader = job_worker(job, -1);
	struct ol_server_stat stat;

	(void)unused;
	do {
		check_ok(ol_stat(reader, 0, &stat));
	} while (stat.bytes_in < 2 * LEN * sizeof(float));
	check_eq(stat.version, 0);
	check_eq(stat.wait_for, WORKERS);
	ol_worker_close(reader);
	return 0;
}

/* Three are waited for, and the third dies: the gradients of the two that are left are a step. */
static void the_dead_are_not_waited_for(void)
{
	struct ol_server_opts opts = backup_opts(OL_WAIT_FIXED);
	pid_t pids[WORKERS];
	struct job job;

	story_begin(&job);
	opts.wait_k = WORKERS;
	job_start(&job, opts, 0.0f);
	pids[0] = job_fork(push_one, &job, 0);
	pids[1] = job_fork(push_one, &job, 1);
	pids[2] = job_fork(only_be_there, &job, 2);
	while (atomic_load(&board->in) < WORKERS)
		check_ok(kill(pids[2], 0));
	job_join(job_fork(two_have_landed, &job, 0));
	check_ok(kill(pids[2], SIGKILL));
	check(waitpid(pids[2], NULL, 0) == pids[2]);
	job_join(pids[0]);
	job_join(pids[1]);
	job_stop(&job);
}

/* Pushes as fast as the window lets it, and says how many took effect */
static int run_ahead(const struct job *job, long id)
{
	struct ol_worker *worker = job_worker(job, (int)id);
	struct ol_push_info info = { .samples = 1 };
	struct ol_op ops[2] = { { 0 } };
	float *grad;

	atomic_fetch_add(&board->in, 1);
	for (uint64_t i = 0; !atomic_load(&board->enough); i++) {
		struct ol_op *op = &ops[i % 2];

		while (i >= 2 && !op->done && !atomic_load(&board->enough))
			ol_worker_poll(worker);
		if (i >= 2 && op->done) {
			check_ok(op->status);
			atomic_fetch_add(&board->done[id], 1);
		}
		if (ol_grad_try_acquire(worker, &grad) != 0)
			break;
		for (int k = 0; k < LEN; k++)
			grad[k] = (float)(id + 1);
		check_ok(ol_push(worker, grad, &info, op));
	}
	ol_worker_close(worker);
	return 0;
}

/* Gradients of `id` in the weights, once there are at least so many, … */
static uint64_t await(struct ol_worker *reader, uint32_t id, uint64_t grads)
{
	do {
		check_ok(job_pull(reader, OL_PULL_NEWEST));
		check_weights(reader);
	} while (ol_applied_grads(reader, 0, id) < grads);
	return ol_applied_grads(reader, 0, id);
}

/*
 * The slow one pushes a few; the quick one gives one more when it is as far ahead as the bound lets
 * it be, and gets there.
 */
static int be_slow(const struct job *job, long id)
{
	struct ol_worker *worker = job_worker(job, (int)id);

	atomic_fetch_add(&board->in, 1);
	while (atomic_load(&board->in) < 2)
		ol_worker_poll(worker);
	for (uint64_t i = 0; i < 20; i++) {
		uint64_t ahead = await(worker, 0, i + BOUND + 1);

		check(ahead - ol_applied_grads(worker, 0, (uint32_t)id) <= BOUND + 1);
		check_ok(job_push(worker, (float)(id + 1)));
	}
	ol_worker_close(worker);
	return 0;
}

/* Who is ahead waits for the slowest, and for nobody once that one has left. */
static void who_is_ahead_waits(void)
{
	struct ol_server_opts opts = backup_opts(OL_WAIT_ALL);
	pid_t quick, slow;
	struct job job;

	story_begin(&job);
	opts.consistency = OL_CONSISTENCY_SSP;
	opts.staleness = BOUND;
	job_start(&job, opts, 0.0f);
	slow = job_fork(be_slow, &job, 1);
	while (atomic_load(&board->in) < 1)
		check_ok(kill(slow, 0));
	quick = job_fork(run_ahead, &job, 0);
	job_join(slow);
	while (atomic_load(&board->done[0]) < 100)
		check_ok(kill(quick, 0));
	atomic_store(&board->enough, true);
	job_join(quick);
	job_stop(&job);
}

static void check_refused(const struct ol_server_opts *opts, const char *says)
{
	struct ol_server *server = NULL;
	char err[256] = "";

	check_eq(ol_server_open(opts, NULL, &server, err, sizeof(err)), -EINVAL);
	check_msg(strstr(err, says) != NULL, "said \"%s\", not \"%s\"", err, says);
	check(server == NULL && strchr(err, '\n') == NULL);
}

/* One line each */
static void what_cannot_be_is_refused(void)
{
	struct ol_server_opts good = backup_opts(OL_WAIT_FIXED), opts = good;

	opts.wait_k = 0;
	check_refused(&opts, "wait_k is not between 1 and workers");
	opts.wait_k = WORKERS + 1;
	check_refused(&opts, "wait_k is not between 1 and workers");
	opts = good;
	opts.consistency = OL_CONSISTENCY_SSP;
	check_refused(&opts, "wait is for sync");
	opts = good;
	opts.wait = (enum ol_wait)99;
	check_refused(&opts, "wait has no such value");
	opts = backup_opts(OL_WAIT_DBW);
	opts.rule.lr = 0.0f;
	check_refused(&opts, "lr is not above 0");
	opts.rule.lr = NAN;
	check_refused(&opts, "lr is not above 0");
}

int main(void)
{
	static const struct {
		const char *name;
		enum ol_wait wait;
		enum ol_late late;
	} waits[] = { { "the first two", OL_WAIT_FIXED, OL_LATE_DROP },
		      { "dbw", OL_WAIT_DBW, OL_LATE_DROP },
		      { "dbw, blind", OL_WAIT_DBW_BLIND, OL_LATE_DROP },
		      { "adasync", OL_WAIT_ADASYNC, OL_LATE_DROP },
		      { "a quorum", OL_WAIT_QUORUM, OL_LATE_DROP },
		      { "dbw, late is next", OL_WAIT_DBW, OL_LATE_NEXT },
		      { "dbw, blind, late is next", OL_WAIT_DBW_BLIND, OL_LATE_NEXT },
		      { "adasync, late is next", OL_WAIT_ADASYNC, OL_LATE_NEXT } };

	setvbuf(stdout, NULL, _IOLBF, 0);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	check(board != MAP_FAILED);
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		the_first_ones_make_a_step(waits[i].wait, waits[i].late);
		printf("ok %s\n", waits[i].name);
	}
	what_cannot_be_is_refused();
	printf("ok refusals\n");
	the_dead_are_not_waited_for();
	printf("ok the dead\n");
	a_chain_does_so_too();
	printf("ok chain\n");
	who_is_ahead_waits();
	printf("ok bounded staleness\n");
	return 0;
}
