/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * loop.h -- a worker's training loop
 *
 * Pull, acquire a buffer, compute the gradient in it, push, wait until it is applied; while the
 * servers apply, the next batch is drawn.
 *
 * POSITION. A worker's n-th gradient, from 0, is computed on its n-th batch. Asynchronous: n begins
 * with the number of its gradients at the servers, and then counts up, so a restarted worker does
 * not repeat itself: if its last process died between its pushes to two shards, the one that has more
 * counts. Synchronous: n is the version of the weights pulled. So after a rollback, or after such a
 * death, the same batches come again, and the run ends at the same weights, bit for bit. A step whose
 * gradients were all dropped makes no version, but n counts it (and a rollback does not undo that).
 *
 * THE END. A worker that has finished stays: a server that comes back empty may need its last
 * weights, or its gradients again. `train` orders "end" once all workers have finished. If a
 * synchronous job is rolled back meanwhile, the worker goes on.
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
	/* A wait looks for orders this often. */
	OL_LOOP_LOOK_UP_MS = 20,
	/* How long the loop still waits for a push after a signal. */
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
	uint64_t interrupted; /* gradients begun, and dropped for newer weights */
	uint64_t delay_ns; /* of --delay, so far */
	float loss; /* of the last gradient */
};

/* What a worker does with a gradient that will be late, as its step has been made */
enum ol_on_late {
	OL_ON_LATE_WAIT, /* finishes and pushes it; goes on with the newest weights it was told
			  of */
	OL_ON_LATE_PULL, /* the same, but asks the servers for the newest version */
	OL_ON_LATE_INTERRUPT /* checks during the delay, drops it and begins anew */
};

/* What a worker waits for from other workers or servers */
enum ol_loop_wait {
	OL_LOOP_WAITS_NOT,
	OL_LOOP_WAITS_PUSH,
	OL_LOOP_WAITS_PULL,
	OL_LOOP_WAITS_BUFFER,
	OL_LOOP_WAITS_ROOM,
	OL_LOOP_WAITS_FLUSH
};

/*
 * The caller sets the members before stat, and keeps the struct until the worker is closed: a
 * loop that was told to quit leaves ops in flight.
 */
struct ol_loop {
	struct ol_worker *worker;
	struct ol_job *job;
	struct ol_control *control;
	uint32_t worker_id; /* chooses the batches */
	uint32_t shards;
	bool by_version; /* all workers share the job's steps; else each worker has its own */
	bool sync;
	double pace; /* gradients a second at most; 0: no limit */
	uint64_t steps; /* to compute from the first position on; 0: only control decides */
	enum ol_on_late on_late;
	const struct ol_delay *delay;
	uint32_t workers; /* all workers, for a delay's slow part */
	uint64_t seed; /* of delays */
	void (*looked)(void *arg); /* called at each look at orders; or NULL */
	void *looked_arg;

	struct ol_loop_stat stat; /* up to date even after an error */
	struct ol_op pull;
	struct ol_op push;
	struct ol_op flush;
	bool began; /* there has been a pull */
	bool joined; /* a push of it has been applied at all shards */
	bool news; /* a server went or came since the last pull */
	enum ol_loop_wait waits; /* the present wait, as reported to the parent */
	bool flushing;
	bool flush_open; /* the last flush has not ended */
	uint64_t since; /* gradients computed since weights came from all servers */
	uint64_t drawn; /* the batch drawn is of this position, … */
	bool has_drawn; /* … if there is one */
	uint64_t base[OL_LOOP_SHARDS_MAX]; /* its gradients at each shard before it started */
	uint32_t base_epochs[OL_LOOP_SHARDS_MAX]; /* of these weights */
	struct {
		uint32_t outages; /* that the parent knows of */
		bool down;
		bool unsettled; /* since an outage: its queue is not fully applied */
	} links[OL_LOOP_SHARDS_MAX];
	unsigned down; /* links, while it computes */
	bool resting; /* it has finished: outages do not count */
	uint64_t down_from_ns; /* while a link is down */
	uint64_t down_computed;
	uint64_t pace_ns; /* earliest time of the next gradient */
	uint64_t said_ns; /* when it last reported to the parent */
};

/*
 * ol_loop_run -- compute gradients until control ends it
 *
 * Returns 0; -ECANCELED (told to quit in a wait); or the error of ol_job_begin(), a pull or a push
 */
int ol_loop_run(struct ol_loop *loop);

/* ol_loop_pull_newest -- pull the newest weights, and wait for them; errors as above */
int ol_loop_pull_newest(struct ol_loop *loop);

/* ol_loop_link -- the counts of the shard with the fewest of this worker's gradients */
struct ol_link_stat ol_loop_link(const struct ol_loop *loop);

/* ol_loop_json -- the figures as an object, with all links if wanted; NULL: no memory */
json_t *ol_loop_json(const struct ol_loop *loop, bool links);

#endif /* CMD_LOOP_H */
