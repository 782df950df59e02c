/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * loop.c -- a worker's training loop
 */
#include "outlast/loop.h"

#include <errno.h>
#include <math.h>

#include "base/clock.h"

static bool give_up(const struct ol_control *control)
{
	if (control->quit)
		return true;
	return control->signal != 0 &&
	       ol_clock_ns() - control->signal_ns > OL_LOOP_GRACE_MS * OL_NS_PER_MS;
}

/* Until op is done; a wait for slower workers has no limit but an order. */
static int op_wait(struct ol_loop *loop, struct ol_op *op)
{
	for (;;) {
		int rc = ol_worker_wait(loop->worker, op);

		if (op->done)
			return op->status;
		if (rc != -ETIMEDOUT)
			return rc;
		ol_control_poll(loop->control, 0);
		if (give_up(loop->control))
			return -ECANCELED;
	}
}

int ol_loop_pull_newest(struct ol_loop *loop)
{
	int rc = ol_pull(loop->worker, OL_PULL_NEWEST, &loop->pull);

	return rc != 0 ? rc : op_wait(loop, &loop->pull);
}

/* What became of a push. Nonzero: the loop cannot go on. */
static int push_account(struct ol_loop_stat *stat, const struct ol_op *op, int rc)
{
	if (!op->done || (rc != 0 && rc != OL_E_NONFINITE && rc != OL_E_LATE)) {
		stat->unresolved++;
		return rc;
	}
	if (op->version > stat->version)
		stat->version = op->version;
	if (rc == OL_E_NONFINITE)
		stat->dropped_nonfinite++;
	else if (rc == OL_E_LATE)
		stat->dropped_late++;
	else
		stat->applied++;
	return 0;
}

/* One gradient, at the weights that are being pulled. The batch for it has been drawn. */
static int step(struct ol_loop *loop)
{
	struct ol_loop_stat *stat = &loop->stat;
	struct ol_push_info info = { .samples = loop->job->batch_count };
	const float *weights;
	uint64_t begin_ns;
	float *grad;
	int rc;

	rc = ol_grad_acquire(loop->worker, &grad);
	if (rc == 0)
		rc = op_wait(loop, &loop->pull);
	if (rc != 0)
		return rc;
	weights = ol_weights(loop->worker, &info.base_version);
	begin_ns = ol_clock_ns();
	ol_job_grad(loop->job, weights, grad, &info.loss);
	stat->grad_ns += ol_clock_ns() - begin_ns;
	stat->loss = info.loss;
	loop->push = (struct ol_op){ .level = OL_LEVEL_APPLIED };
	rc = ol_push(loop->worker, grad, &info, &loop->push);
	if (rc != 0)
		return rc;
	stat->computed++;
	ol_job_draw(loop->job, loop->worker_id, stat->computed);
	return push_account(stat, &loop->push, op_wait(loop, &loop->push));
}

static void hold(struct ol_loop *loop)
{
	ol_control_say(loop->control, "hold",
		       json_pack("{s:I}", "computed", (json_int_t)loop->stat.computed));
	while (loop->control->hold && !give_up(loop->control))
		ol_control_poll(loop->control, OL_LOOP_LOOK_UP_MS);
}

/* A sign of life for the parent's report, now and then */
static void step_say(struct ol_loop *loop)
{
	uint64_t now_ns;

	if (loop->control->parent_fd < 0)
		return;
	now_ns = ol_clock_ns();
	if (now_ns - loop->said_ns < OL_NS_PER_S)
		return;
	loop->said_ns = now_ns;
	ol_control_say(loop->control, "step",
		       json_pack("{s:I}", "computed", (json_int_t)loop->stat.computed));
}

static int loop_turn(struct ol_loop *loop)
{
	unsigned flags = OL_PULL_NEWEST; /* the first time nothing newer than 0 is known */

	ol_job_draw(loop->job, loop->worker_id, 0);
	for (;;) {
		int rc;

		ol_control_poll(loop->control, 0);
		if (loop->control->hold)
			hold(loop);
		if (loop->stat.computed >= loop->control->stop_at || loop->control->quit)
			return 0;
		rc = ol_pull(loop->worker, flags, &loop->pull);
		if (rc == 0)
			rc = step(loop);
		if (rc != 0)
			return rc;
		flags = 0;
		step_say(loop);
	}
}

/* What is final of a gradient goes ahead while the rest is computed */
static void ready(void *arg, float *grad, size_t first)
{
	struct ol_loop *loop = arg;

	(void)ol_grad_ready(loop->worker, grad, first);
}

int ol_loop_run(struct ol_loop *loop)
{
	int rc;

	learn_model_ready_set(loop->job->model, ready, loop);

	loop->stat = (struct ol_loop_stat){ .start_ns = ol_clock_ns() };
	loop->said_ns = loop->stat.start_ns;
	rc = loop_turn(loop);
	learn_model_ready_set(loop->job->model, NULL, NULL);
	loop->stat.end_ns = ol_clock_ns();
	return rc;
}

json_t *ol_loop_json(const struct ol_loop_stat *stat)
{
	double wall_s = (double)(stat->end_ns - stat->start_ns) / 1e9;
	double grad_s = (double)stat->grad_ns / 1e9;

	/* JSON has no NaN: a loss that is none becomes null */
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:o}", "computed",
			 (json_int_t)stat->computed, "applied", (json_int_t)stat->applied,
			 "dropped_nonfinite", (json_int_t)stat->dropped_nonfinite, "dropped_late",
			 (json_int_t)stat->dropped_late, "unresolved", (json_int_t)stat->unresolved,
			 "start_s", (double)stat->start_ns / 1e9, "wall_s", wall_s, "gradient_s",
			 grad_s, "gradients_per_s",
			 wall_s > 0.0 ? (double)stat->computed / wall_s : 0.0, "loss",
			 isfinite(stat->loss) ? json_real((double)stat->loss) : json_null());
}
