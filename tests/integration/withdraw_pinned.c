/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * withdraw_pinned.c -- a withdrawn gradient is dropped, and not held, in this case: a complete step
 * waits for readers' pins; one worker withdraws, which is too late; then the other worker dies, and
 * with it the step, while the first has pushed again
 */

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/check.h"
#include "support/peer.h"

enum {
	LEN = 64,
	STEPS = 3,
	PIN_MS = 60000, /* longer than the test: a pin ends when the reader takes it away */
	DEADLINE_S = 60
};

static int pushed[2]; /* the other worker has given to the step */

static struct ol_worker *trained(const struct job *job, int id)
{
	struct ol_worker *worker = job_worker(job, id);

	for (unsigned i = 0; i < STEPS; i++) {
		check_ok(job_pull(worker, OL_PULL_NEWEST));
		check_ok(job_push(worker, 1.0f));
	}
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	return worker;
}

static int other(const struct job *job, long unused)
{
	struct ol_worker *worker = trained(job, 1);
	struct ol_op op = { .level = OL_LEVEL_PLACED };

	(void)unused;
	check_ok(job_push_start(worker, 1.0f, &op));
	while (!op.done)
		check(ol_worker_poll(worker) >= 0);
	check_eq(write(pushed[1], "", 1), 1);
	pause();
	return 1; /* it is killed */
}

static void live_until(struct ol_worker *worker, const struct job *job, uint32_t workers)
{
	struct ol_worker *observer = job_worker(job, -1);
	struct ol_server_stat stat;

	do {
		check(ol_worker_poll(worker) >= 0);
		check_ok(ol_stat(observer, 0, &stat));
	} while (stat.workers != workers);
	ol_worker_close(observer);
}

static int one(const struct job *job, long other_pid)
{
	struct ol_worker *worker = trained(job, 0);
	struct ol_op op = { .level = OL_LEVEL_APPLIED }, next = { .level = OL_LEVEL_APPLIED };
	struct peer readers[2], heard, last;
	char byte;

	for (unsigned i = 0; i < 2; i++) { /* every snapshot but the published one */
		peer_observe(&readers[i], job);
		peer_pin(&readers[i], STEPS - i); /* versions STEPS - 1 - i */
	}
	/* the server has heard of the pins before it lets this one in */
	peer_observe(&heard, job);
	peer_close(&heard);
	check_ok(job_push_start(worker, 1.0f, &op));
	check_eq(read(pushed[0], &byte, 1), 1);
	check_ok(ol_withdraw(worker));
	check_ok(job_push_start(worker, 1.0f, &next));
	peer_observe(&last,
		     job); /* the server has heard what was said before it lets this one in */
	check_eq(op.done, 0);
	check_ok(kill((pid_t)other_pid, SIGKILL));
	live_until(worker, job, 1);
	for (unsigned i = 0; i < 2; i++)
		peer_close(&readers[i]);
	alarm(DEADLINE_S);
	while (!op.done)
		check(ol_worker_poll(worker) >= 0);
	check_eq(op.status, OL_E_LATE);
	check_ok(ol_withdraw(worker));
	while (!next.done)
		check(ol_worker_poll(worker) >= 0);
	check_eq(next.status, OL_E_LATE);
	peer_close(&last);
	ol_worker_close(worker);
	return 0;
}

int main(void)
{
	struct ol_server_opts opts;
	struct job job;
	pid_t pid;

	check_ok(pipe(pushed));
	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.window = JOB_WINDOW;
	opts.param_count = LEN;
	opts.workers = opts.workers_max = 2;
	opts.observers_max = 4;
	opts.consistency = OL_CONSISTENCY_SYNC;
	opts.pin_timeout_ms = PIN_MS;
	job_start(&job, opts, 0.0f);
	pid = job_fork(other, &job, 0);
	job_join(job_fork(one, &job, pid));
	check_eq(waitpid(pid, NULL, 0), pid);
	job_stop(&job);
	return 0;
}
