/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * worker.c -- a worker from open to close against a server that does not fail; and one that pushes
 * and pulls while it reconnects
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "nth/frame/warm.h"
#include "nth/scenarios.h"
#include "support/check.h"
#include "support/job.h"

enum {
	PARAMS = 3000,
	SHARDS = 2,
	AGAIN_PUSHES = 4,
};

static struct job job;

static void start(void)
{
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.param_count = PARAMS;
	opts.shard_count = SHARDS;
	opts.workers_max = 2;
	job_start(&job, opts, 1.0f);
}

static void end(void)
{
	job_stop(&job);
}

static int pull(struct ol_worker *worker)
{
	struct ol_op op = { .user = NULL };
	int rc = ol_pull(worker, OL_PULL_NEWEST, &op);

	return rc == 0 ? ol_worker_wait(worker, &op) : rc;
}

/* grad_get -- a buffer, as soon as there is one; what keeps them goes with a pull */
static int grad_get(struct ol_worker *worker, unsigned attempt, float **ret_grad)
{
	uint64_t until_ns = ol_clock_ns() + nth_patience_ms(attempt) * OL_NS_PER_MS;
	int rc = ol_grad_try_acquire(worker, ret_grad);

	while ((rc == -EAGAIN || rc == -ENOBUFS) && ol_clock_ns() < until_ns) {
		rc = rc == -ENOBUFS ? pull(worker) : ol_worker_poll(worker);
		if (rc >= 0)
			rc = ol_grad_try_acquire(worker, ret_grad);
	}
	return rc;
}

static int push(struct ol_worker *worker, unsigned attempt, struct ol_op *op)
{
	struct ol_push_info info = { .samples = 1 };
	float *grad;
	int rc = grad_get(worker, attempt, &grad);

	if (rc != 0)
		return rc;
	ol_weights(worker, &info.base_version);
	for (unsigned i = 0; i < PARAMS; i++)
		grad[i] = 1.0f;
	*op = (struct ol_op){ .level = OL_LEVEL_APPLIED };
	rc = ol_push(worker, grad, &info, op);
	if (rc != 0)
		ol_grad_release(worker, grad);
	return rc;
}

static int worker_open(struct ol_worker_opts *opts, unsigned attempt, struct ol_worker **ret_worker,
		       char text[RUN_TEXT_MAX])
{
	opts->servers = job.addrs;
	opts->transport = job.opts.transport;
	opts->job_key = NULL;
	opts->connect_timeout_ms = opts->op_timeout_ms = nth_patience_ms(attempt);
	return ol_worker_open(opts, ret_worker, text, RUN_TEXT_MAX);
}

static int run(unsigned attempt, char text[RUN_TEXT_MAX])
{
	struct ol_server_stat stat;
	struct ol_worker_opts opts;
	struct ol_worker *worker;
	struct ol_op op;
	int rc;

	ol_worker_opts_init(&opts);
	rc = worker_open(&opts, attempt, &worker, text);
	if (rc != 0)
		return rc;
	rc = pull(worker);
	if (rc == 0)
		rc = push(worker, attempt, &op);
	if (rc == 0)
		rc = ol_worker_wait(worker, &op);
	if (rc == 0)
		rc = pull(worker);
	if (rc == 0)
		rc = ol_stat(worker, 1, &stat);
	snprintf(text, RUN_TEXT_MAX, "%s", rc != 0 ? ol_status_str(rc) : "");
	ol_worker_close(worker);
	return rc;
}

/* Push and pull while shard 0 connects again; CONTINUE: nothing of it waits */
static int again(struct ol_worker *worker, unsigned attempt)
{
	struct ol_op ops[AGAIN_PUSHES], op = { .user = NULL };
	int rc = ol_worker_redirect(worker, 0, job.addr[0]);

	for (unsigned i = 0; rc == 0 && i < AGAIN_PUSHES; i++) {
		rc = push(worker, attempt, &ops[i]);
		if (rc == 0)
			rc = ol_worker_wait(worker, &ops[i]);
		if (rc == 0)
			rc = pull(worker);
	}
	if (rc == 0)
		rc = ol_flush(worker, &op);
	return rc == 0 ? ol_worker_wait(worker, &op) : rc;
}

static int again_run(unsigned attempt, char text[RUN_TEXT_MAX])
{
	struct ol_worker_opts opts;
	struct ol_link_stat stat;
	struct ol_worker *worker;
	int rc;

	ol_worker_opts_init(&opts);
	opts.outage = OL_OUTAGE_CONTINUE;
	opts.outage_timeout_ms = nth_patience_ms(attempt);
	opts.queue = OL_QUEUE_DROP_OLDEST;
	rc = worker_open(&opts, attempt, &worker, text);
	if (rc != 0)
		return rc;
	rc = pull(worker);
	if (rc == 0)
		rc = again(worker, attempt);
	snprintf(text, RUN_TEXT_MAX, "%s", rc != 0 ? ol_status_str(rc) : "");
	for (uint32_t i = 0; rc == 0 && i < SHARDS; i++) {
		if (ol_link_get_stat(worker, i, &stat) != 0 || stat.applied != AGAIN_PUSHES)
			run_wrong("shard %u has %ju of %d gradients", i, (uintmax_t)stat.applied,
				  AGAIN_PUSHES);
	}
	ol_worker_close(worker);
	return rc;
}

const struct run_scenario nth_worker = {
	.name = "worker", .start = start, .end = end, .before = warm_transport, .run = run
};
const struct run_scenario nth_worker_again = { .name = "worker-again",
					       .start = start,
					       .end = end,
					       .before = warm_transport,
					       .run = again_run };
