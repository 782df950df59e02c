/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outage_adrift.c -- when one of two servers is back, and at each server a worker waits for the other
 * worker, queued gradients are sent even though the window is full, so both go on. OL_TRANSPORT shm
 * or verbs
 *
 * One of worker A's buffers is freed only by a pull; the other waits for B at the server that lived.
 * Worker B has pushed to the server that is back, where a step waits for A's queue.
 */

#include <errno.h>

#include "support/check.h"
#include "support/stage.h"

enum {
	LEN = 4000,
	A = 0,
	B = 1
};

static float *acquire(struct ol_worker *worker)
{
	float *grad;
	int rc;

	while ((rc = ol_grad_try_acquire(worker, &grad)) != 0) {
		check_msg(rc == -EAGAIN || rc == -ENOBUFS, "acquire: %s", ol_strerror(rc));
		if (rc == -ENOBUFS)
			check_ok(job_pull(worker, 0));
		check(ol_worker_poll(worker) >= 0);
	}
	return grad;
}

static void push(struct ol_worker *worker, struct ol_op *op)
{
	struct ol_push_info info = { .samples = 1 };
	float *grad = acquire(worker);

	for (unsigned i = 0; i < LEN; i++)
		grad[i] = 1.0f;
	*op = (struct ol_op){ .level = OL_LEVEL_APPLIED };
	(void)ol_weights(worker, &info.base_version);
	check_ok(ol_push(worker, grad, &info, op));
}

/* Server 0 is gone while both make a step at server 1, and A begins one more */
static void apart(struct ol_worker *worker, long id, struct ol_op *op)
{
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	check_ok(job_push(worker, 1.0f));
	if (id == B) /* its mirror is what server 0 will begin with, and has A's push */
		check_ok(job_pull(worker, OL_PULL_NEWEST));
	stage_meet();
	if (id == A)
		stage_kill(0);
	stage_down(worker, 0);
	stage_meet();
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	push(worker, op);
	check_ok(stage_done(worker, op));
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	if (id == A)
		push(worker, op);
	stage_meet();
}

static int story(const struct job *job, long id)
{
	struct ol_worker_opts opts;
	struct ol_worker *worker;
	struct ol_link_stat stat;
	struct ol_op op;

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.outage = OL_OUTAGE_CONTINUE;
	opts.window = 2;
	worker = job_worker_with(job, (int)id, opts);
	apart(worker, id, &op);
	if (id == A)
		stage_restart(0, OL_RESTORE_MIRROR);
	stage_up(worker, 0);
	if (id == B) {
		check_ok(job_pull(worker, OL_PULL_NEWEST));
		push(worker, &op);
		while (stage_stat(worker, 1).applied < 3)
			check(ol_worker_poll(worker) >= 0);
	} else {
		check_ok(stage_done(worker, &op));
		/* a queue leaves with a push or while its caller waits: if op went into it, by this */
		stage_flush(worker);
	}
	stage_meet();
	/* B's last is late at server 0, or held there for a step that A gives nothing to */
	check_ok(ol_withdraw(worker));
	stage_flush(worker);
	check(op.done && (op.status == 0 || (id == B && op.status == OL_E_LATE)));
	stat = stage_stat(worker, 0);
	check(stat.lost == 0 && stat.queued == 0 && stat.pending == 0);
	check_eq(stat.applied + stat.late, 3);
	check(id == B || stat.late == 0);
	stat = stage_stat(worker, 1);
	check_eq(stat.applied, 3);
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
	opts.shard_count = 2;
	opts.workers = opts.workers_max = opts.restore_workers = 2;
	opts.window = 2;
	opts.consistency = OL_CONSISTENCY_SYNC;
	stage_play(opts, 100.0f, 2, story, "a queue leaves, whatever holds the window");
	return 0;
}
