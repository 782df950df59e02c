/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * wait_version.c -- a wait for a version ends when the version is there, asks seldom, never goes
 * back, and says so when a server came back with less
 *
 * not under asan, tsan: its subject is how often a wait asks, and integration-readers waits there
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/check.h"
#include "support/job.h"
#include "worker/worker_internal.h"

enum {
	LEN = 1000,
	STEPS = 20,
	STEP_MS = 25,
	ASKS_MAX = 14, /* a step: 8 by the rule, the rest for a machine that is late */
	SHORT_MS = 300,
	LONG_MS = 20000,
	BEHIND = 6, /* versions after the loss, before the job is as far again */
};

static unsigned asked;
static struct ol_xport_ops counted;
static const struct ol_xport_ops *real;

static int post_read_counted(struct ol_xport_conn *conn, const struct ol_xport_read *read)
{
	asked++;
	return real->post_read(conn, read);
}

/* From now on count what the worker reads */
static void count_reads(struct ol_worker *worker)
{
	real = worker->ops;
	counted = *real;
	counted.post_read = post_read_counted;
	worker->ops = &counted;
	asked = 0;
}

static int train(const struct job *job, long steps)
{
	struct ol_worker *worker = job_worker(job, 0);

	for (long i = 0; i < steps; i++) {
		poll(NULL, 0, STEP_MS); /* the step's pace is what is waited for */
		check_ok(job_pull(worker, 0));
		check_ok(job_push(worker, -1.0f));
	}
	ol_worker_close(worker);
	return 0;
}

static struct ol_worker *reader_open(const struct job *job)
{
	struct ol_worker_opts opts;

	ol_worker_opts_init(&opts);
	opts.outage = OL_OUTAGE_WAIT;
	return job_worker_with(job, -1, opts);
}

static void check_weights(struct ol_worker *reader, uint64_t least)
{
	uint64_t version;
	const float *weights;

	check_ok(job_pull(reader, OL_PULL_NEWEST));
	weights = ol_weights(reader, &version);
	check(version >= least);
	check(weights[0] == (float)version && weights[LEN - 1] == (float)version);
}

/* Each version is seen, with few questions */
static void waits_follow_steps(const struct job *job, struct ol_worker *reader)
{
	pid_t worker = job_fork(train, job, STEPS);
	unsigned most = ASKS_MAX * STEPS;

	check_eq(ol_wait_version(reader, 1, LONG_MS), 0);
	check_weights(reader, 1);
	count_reads(reader);
	for (uint64_t version = 2; version <= STEPS; version++) {
		check_eq(ol_wait_version(reader, version, LONG_MS), 0);
		check(ol_newest(reader) >= version);
	}
	reader->ops = real;
	printf("%u questions for %d steps\n", asked, STEPS - 1);
	check(asked >= STEPS - 1); /* else it would not be asking */
	check_msg(asked <= most + LONG_MS / 50, "%u questions", asked);
	job_join(worker);
	check_weights(reader, STEPS);
}

static void waits_end(struct ol_worker *reader)
{
	uint64_t before_ns;

	check_eq(ol_wait_version(reader, 0, 0), 0);
	check_eq(ol_wait_version(reader, 1, 0), -ETIMEDOUT);
	before_ns = ol_clock_ns();
	count_reads(reader);
	check_eq(ol_wait_version(reader, 1, SHORT_MS), -ETIMEDOUT);
	reader->ops = real;
	check(ol_clock_ns() - before_ns >= SHORT_MS * OL_NS_PER_MS);
	/* no step is made: the time between two questions grows */
	check_msg(asked <= 60, "%u questions in %d ms", asked, SHORT_MS);
	check_eq(ol_wait_version(reader, OL_VERSION_MAX + 1, 0), -EINVAL);
}

/* What the reader has seen stays a lower bound when the server comes back with less */
static void waits_never_go_back(struct job *job, struct ol_worker *reader)
{
	job_kill(job, 0);
	job->opts.restore = OL_RESTORE_NONE;
	job->opts.epoch++;
	job_restart(job, 0, false);
	job_join(job_fork(train, job, BEHIND));
	check_eq(ol_wait_version(reader, 1, SHORT_MS), OL_E_HISTORY);
	check_eq(ol_wait_version(reader, 0, 0), OL_E_HISTORY);
	job_join(job_fork(train, job, STEPS - BEHIND));
	check_eq(ol_wait_version(reader, 1, LONG_MS), 0);
	check_weights(reader, STEPS);
}

int main(void)
{
	struct ol_server_opts opts;
	struct ol_worker *reader;
	struct job job;

	ol_server_opts_init(&opts);
	opts.param_count = LEN;
	opts.rule.lr = 1.0f;
	job_start(&job, opts, 0.0f);
	/* shm: this process has no transport of its own before the servers are forked */
	reader = reader_open(&job);
	waits_end(reader);
	waits_follow_steps(&job, reader);
	waits_never_go_back(&job, reader);
	ol_worker_close(reader);
	job_stop(&job);
	return 0;
}
