/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * loop.h -- a worker's training loop
 *
 * Pull, acquire a buffer, compute the gradient in it, push, wait until it is applied; while the
 * servers apply, the next batch is drawn.
 *
 * POSITION. A worker's n-th gradient, from 0, is computed on its n-th batch. Asynchronous, n is
 * what the servers have of it when it starts, and its own count from there on: who is started again
 * does not repeat itself. Synchronous, n is the version of the weights pulled: after a rollback the
 * same batches come again, and the run ends at the same weights, bit for bit. A step whose
 * gradients were all dropped makes no version; n goes on all the same (and is not taken back by a
 * rollback).
 *
 * THE END. A worker that has finished stays: its last weights are what a server that comes back
 * empty begins with, and its gradients might be wanted again. `train` says "end" once everyone has
 * finished; if a synchronous job is thrown back meanwhile, the worker goes on.
 */
#ifndef CMD_LOOP_H
#define CMD_LOOP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/control.h"
#include "cmd/delay.h"
#include "cmd/job.h"
#include "outlast.h"

enum {
	/* A wait looks up for orders this often. */
	OL_LOOP_LOOK_UP_MS = 20,
	/* How long a push is still waited for after a signal. */
	OL_LOOP_GRACE_MS = 2000,
	OL_LOOP_SHARDS_MAX = 64
};

struct ol_loop_stat {
	uint64_t computed;
	uint64_t position;
	uint64_t barren; /* sync: steps whose gradients were all dropped */
	uint64_t version; /* pulled last */
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t grad_ns; /* of these, computing gradients */
	uint64_t before_ns; /* from the start to the first outage, */
	uint64_t before_computed; /* and computed until then */
	uint64_t outage_ns; /* while a server was missing, */
	uint64_t outage_computed; /* and computed meanwhile */
	uint64_t queue_bytes_max;
	uint64_t interrupted; /* begun, and thrown away for newer weights */
	uint64_t delay_ns; /* of --delay, so far */
	float loss; /* of the last gradient */
};

/* What a worker does about a gradient that will be late: the step that it was for has been made. */
enum ol_on_late {
	OL_ON_LATE_WAIT, /* finishes and pushes it; goes on with the newest weights it was told
			  of */
	OL_ON_LATE_PULL, /* the same, but asks the servers which are the newest */
	OL_ON_LATE_INTERRUPT /* looks meanwhile, throws it away and begins anew */
};

/* What a worker waits for, that others or servers have to give. */
enum ol_loop_wait {
	OL_LOOP_WAITS_NOT,
	OL_LOOP_WAITS_PUSH,
	OL_LOOP_WAITS_PULL,
	OL_LOOP_WAITS_BUFFER,
	OL_LOOP_WAITS_ROOM,
	OL_LOOP_WAITS_FLUSH
};

/*
 * The caller sets the first thirteen and keeps it all until the worker is closed: a loop that was
 * told to quit leaves ops in flight.
 */
struct ol_loop {
	struct ol_worker *worker;
	struct ol_job *job;
	struct ol_control *control;
	uint32_t worker_id; /* chooses the batches */
	uint32_t shards;
	bool by_version; /* steps are the job's, whoever makes them; else each worker has its own */
	bool sync;
	double pace; /* gradients a second at most; 0: no limit */
	uint64_t steps; /* to compute from the first position on; 0: control alone decides */
	enum ol_on_late on_late;
	const struct ol_delay *delay;
	uint32_t workers; /* of whom some are slow */
	uint64_t seed; /* of delays */

	struct ol_loop_stat stat; /* up to date whatever a call returned */
	struct ol_op pull;
	struct ol_op push;
	struct ol_op flush;
	bool began; /* there has been a pull */
	bool news; /* a server went or came since the last pull */
	enum ol_loop_wait waits; /* what it asked for is not there yet; the parent knows */
	bool flushing;
	bool flush_open; /* the last one was left before its end */
	uint64_t since; /* gradients computed since weights came from all servers */
	uint64_t drawn; /* the batch drawn is of this position, … */
	bool has_drawn; /* … if there is one */
	uint64_t base[OL_LOOP_SHARDS_MAX]; /* what shards had of this worker before it started */
	struct {
		uint32_t outages; /* that the parent knows of */
		bool down;
		bool unsettled; /* since an outage: what waited for the server is not resolved */
	} links[OL_LOOP_SHARDS_MAX];
	unsigned down; /* links, while it computes */
	bool resting; /* it has finished: no server keeps it waiting */
	uint64_t down_from_ns; /* while a link is down */
	uint64_t down_computed;
	uint64_t pace_ns; /* no gradient before */
	uint64_t said_ns; /* when the parent last heard from us */
};

/*
 * ol_loop_run -- compute gradients until control says that it is enough
 *
 * Returns 0; -ECANCELED (told to quit in a wait); what ol_job_begin() says; or what a pull or push
 * failed with
 */
int ol_loop_run(struct ol_loop *loop);

/* ol_loop_pull_newest -- the newest weights there are, waited for; errors as above */
int ol_loop_pull_newest(struct ol_loop *loop);

/* ol_loop_link -- what became of the gradients at the shard that has least of them */
struct ol_link_stat ol_loop_link(const struct ol_loop *loop);

/* ol_loop_json -- the figures as an object, with all links if wanted; NULL: no memory */
json_t *ol_loop_json(const struct ol_loop *loop, bool links);

#endif /* CMD_LOOP_H */
