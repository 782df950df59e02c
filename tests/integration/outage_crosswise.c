/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outage_crosswise.c -- when one of two servers comes back one step behind one worker, but not the
 * other, the two workers do not wait for each other for ever. OL_TRANSPORT shm or verbs
 *
 * The live server holds the fast worker's next gradient until the slow one pushes. The server that
 * came back holds the slow worker's last gradient until the fast one pushes, and the slow one waits
 * for that in a pull. The fast one goes on in its second buffer. With a window of one it has none:
 * then the held gradient is withdrawn, which its caller was told is lost.
 */

#include <errno.h>

#include "support/check.h"
#include "support/stage.h"

enum {
	LEN = 4000,
	SHARDS = 2,
	FAST = 0,
	LATE = 2, /* first of the words that say how many were, at each shard of each worker */
	VERSION = 4 /* of both shards, in the end */
};

static bool all_are_there(void)
{
	return *stage_word(0) != 0 && *stage_word(1) != 0;
}

/* Steps, until both workers have seen that version; then one may be left that the other has no
 * gradient for, and op in flight */
static void train_on(struct ol_worker *worker, long id, struct ol_op *op)
{
	while (!all_are_there()) {
		uint64_t version;
		int rc;

		*op = (struct ol_op){ .level = OL_LEVEL_APPLIED };
		check_ok(job_pull(worker, OL_PULL_NEWEST));
		(void)ol_weights(worker, &version);
		if (version >= VERSION)
			*stage_word((unsigned)id) = version;
		/* what one shard dropped may be held at the other until the other worker has given
		   there (poll), and be applied there then (pull) */
		while ((rc = job_push_start(worker, 1.0f, op)) == -EAGAIN && !all_are_there())
			check(ol_worker_poll(worker) >= 0);
		if (rc == -EAGAIN || rc == -ENOBUFS)
			continue;
		check_ok(rc);
		while (!op->done && !all_are_there())
			check(ol_worker_poll(worker) >= 0);
		check_msg(!op->done || op->status == 0 || op->status == OL_E_LATE, "worker %ld: %s",
			  id, ol_strerror(op->status));
	}
}

/* What is late is counted once, at its shard and by its worker */
static void check_counts(const struct job *job, struct ol_worker *worker, long id)
{
	struct ol_server_stat stat;

	stage_meet();
	check_ok(ol_withdraw(worker)); /* a step may be left that the other gives nothing to */
	stage_flush(worker);
	if (id == FAST && job->opts.window == 1)
		check(stage_stat(worker, 1).late >= 1);
	for (uint32_t k = 0; k < SHARDS; k++) {
		check_eq(stage_stat(worker, k).pending, 0);
		*stage_word(LATE + 2 * k + (unsigned)id) = stage_stat(worker, k).late;
	}
	stage_meet();
	for (uint32_t k = 0; k < SHARDS; k++) {
		check_ok(ol_stat(worker, k, &stat));
		check_eq(stat.dropped_late,
			 *stage_word(LATE + 2 * k) + *stage_word(LATE + 2 * k + 1));
	}
}

static int story(const struct job *job, long id)
{
	struct ol_op op = { .level = OL_LEVEL_APPLIED };
	struct ol_worker_opts opts;
	struct ol_worker *worker;

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.outage = OL_OUTAGE_WAIT;
	worker = job_worker_with(job, (int)id, opts);
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	check_ok(job_push(worker, 1.0f));
	if (id == FAST) {
		check_ok(job_pull(worker, OL_PULL_NEWEST));
		check_ok(job_push_start(worker, 1.0f, &op));
		check(!op.done);
	}
	stage_meet();
	if (id == FAST)
		stage_kill(0);
	stage_meet();
	stage_down(worker, 0); /* before the slow one pulls what is left of it */
	stage_meet();
	if (id == FAST) {
		stage_restart(0, OL_RESTORE_NONE); /* the first weights */
		check_eq(stage_done(worker, &op), OL_E_LOST);
	}
	train_on(worker, id, &op);
	if (id == FAST)
		check(stage_stat(worker, 0).lost == 2 && stage_stat(worker, 1).lost == 0);
	else
		check(stage_stat(worker, 0).lost == 0 && stage_stat(worker, 0).resent >= 1);
	check_counts(job, worker, id);
	ol_worker_close(worker);
	return 0;
}

int main(void)
{
	struct ol_server_opts opts;

	setvbuf(stdout, NULL, _IOLBF, 0);
	job_transport();
	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.param_count = LEN;
	opts.shard_count = SHARDS;
	opts.workers = opts.workers_max = 2;
	opts.consistency = OL_CONSISTENCY_SYNC;
	opts.window = 2;
	stage_play(opts, 100.0f, 2, story, "workers of two histories do not wait crosswise");
	opts.window = 1;
	stage_play(opts, 100.0f, 2, story, "nor where one buffer is all that they have");
	return 0;
}
