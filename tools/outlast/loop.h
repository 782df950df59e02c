/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * loop.h -- a worker's training loop
 *
 * Acquire a buffer, pull, compute the gradient in it, push, wait until it is applied; while the
 * servers apply, the next batch is drawn.
 */
#ifndef OUTLAST_LOOP_H
#define OUTLAST_LOOP_H

#include <jansson.h>
#include <stdint.h>

#include "outlast.h"
#include "outlast/control.h"
#include "outlast/job.h"

enum {
	/* What ol_worker_opts.op_timeout_ms is to be: a wait looks up for orders this often. */
	OL_LOOP_LOOK_UP_MS = 100,
	/* How long a push is still waited for after a signal. */
	OL_LOOP_GRACE_MS = 2000
};

struct ol_loop_stat {
	uint64_t computed;
	uint64_t applied;
	uint64_t dropped_nonfinite;
	uint64_t dropped_late;
	uint64_t unresolved; /* given up while in flight */
	uint64_t version; /* newest seen */
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t grad_ns; /* of these, computing gradients */
	float loss; /* of the last gradient */
};

/*
 * The caller sets the first four and keeps it all until the worker is closed: a loop that was told
 * to quit leaves ops in flight.
 */
struct ol_loop {
	struct ol_worker *worker;
	struct ol_job *job;
	struct ol_control *control;
	uint32_t worker_id; /* chooses the batches */
	struct ol_loop_stat stat; /* up to date whatever a call returned */
	struct ol_op pull;
	struct ol_op push;
	uint64_t said_ns; /* when the parent last heard from us */
};

/*
 * ol_loop_run -- compute gradients until control says that it is enough
 *
 * Returns 0; -ECANCELED (told to quit in a wait); or what a pull or push failed with
 */
int ol_loop_run(struct ol_loop *loop);

/* ol_loop_pull_newest -- the newest weights there are, waited for; errors as above */
int ol_loop_pull_newest(struct ol_loop *loop);

/* ol_loop_json -- the figures as an object; NULL: no memory */
json_t *ol_loop_json(const struct ol_loop_stat *stat);

#endif /* OUTLAST_LOOP_H */
