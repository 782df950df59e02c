/* SPDX-License-Identifier: BSD-3-Clause */

/* ingest.h -- from a doorbell to a step, and to an acknowledgement */
#ifndef OL_SERVER_INGEST_H
#define OL_SERVER_INGEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/turn.h"
#include "outlast_policy.h"
#include "server/early.h"
#include "server/follow.h"
#include "server/options.h"
#include "server/pins.h"
#include "server/save.h"
#include "server/session.h"
#include "server/times.h"
#include "store/store.h"

struct ol_ingest;

/* How a step is made whose gradients are not whole yet */
struct ol_early_steps {
	/* A step may be begun now, and has what it needs */
	bool (*begin)(struct ol_ingest *ingest);
	/* Do that span of ingest->early's contributions; false: one is not finite */
	bool (*part)(struct ol_ingest *ingest, struct ol_span span);
	/* What was begun is thrown away */
	void (*drop)(struct ol_ingest *ingest);
};

/* How a chain makes a step. A server alone is a chain of one, so there is always a table: each
 * function is called with the arg of struct ol_ingest. */
struct ol_steps {
	const struct ol_early_steps *early;
	/* This server itself answers a push that comes a second time */
	bool (*answers)(const void *arg);
	/* Carry out the actions that the chain asks for */
	void (*progress)(void *arg, uint64_t now_ns);
	/* Make a step of the batch; false: not now */
	bool (*step)(void *arg, uint64_t now_ns);
};

struct ol_ingest {
	const struct ol_server_opts *opts;
	const struct ol_xport_ops *ops;
	struct ol_store *store;
	struct ol_sessions *sessions;
	struct ol_policy *policy;
	struct ol_saving *saving; /* pins the snapshot that a checkpoint is copied from */
	const struct ol_replica *replica; /* pins the snapshot that a successor reads */
	struct ol_turn *turn;
	const struct ol_steps *steps;
	void *arg;

	/* Landed and not yet judged by the policy, oldest first: a ring with room for all slots. */
	struct ol_landed *queue;
	uint32_t queue_size;
	uint32_t queue_head;
	uint32_t queue_count;

	/* Landed; the policy judges them again after the next step, join or leave */
	struct ol_landed *parked;
	uint32_t parked_count;

	/* Gradients of the next step, by worker; step_ready: the policy has said STEP. */
	struct ol_landed *batch;
	struct ol_contribution *contributions;
	uint32_t batch_count;
	bool step_ready;
	struct ol_pins pins; /* of readers */
	struct ol_early early;
	struct ol_follow follow;
	struct ol_rule rule; /* that the batch brings … */
	bool has_rule; /* … if it brings one that changes something: set by ol_ingest_gather() */

	struct ol_times times;
	float loss; /* exponential average */
	uint64_t loss_count;
};

/* ol_ingest_newest -- the newest version that a worker can know of: in a chain the tail may be ahead of this store */
static inline uint64_t ol_ingest_newest(const struct ol_ingest *ingest)
{
	const uint64_t received = ingest->replica->chain.received;

	return received > ingest->store->version ? received : ingest->store->version;
}

/* ol_ingest_open -- room for all that may land; -ENOMEM */
int ol_ingest_open(struct ol_ingest *ingest);
void ol_ingest_close(struct ol_ingest *ingest);

/* ol_ingest_on_push -- NULL; or the push's fault */
const char *ol_ingest_on_push(struct ol_ingest *ingest, struct ol_session *session, uint32_t slot,
			      uint64_t now_ns);
/* ol_ingest_on_join -- a worker may push from now on */
void ol_ingest_on_join(struct ol_ingest *ingest, const struct ol_session *session, uint64_t now_ns);
/* ol_ingest_on_decision -- a worker has written a decision, at a place. NULL; or its fault */
const char *ol_ingest_on_decision(struct ol_ingest *ingest, struct ol_session *session,
				  uint32_t place, uint64_t now_ns);
/* ol_ingest_on_gone -- shard 0 has dropped the push in a slot, its worker says. NULL; or the bell's fault */
const char *ol_ingest_on_gone(struct ol_ingest *ingest, struct ol_session *session, uint32_t slot,
			      uint64_t now_ns);
/* ol_ingest_on_withdraw -- drop the worker's gradients that wait for others, as late; or let them take effect, if
 * other shards have them in force */
void ol_ingest_on_withdraw(struct ol_ingest *ingest, struct ol_session *session, uint64_t now_ns);
/* ol_ingest_forget -- remove this session's gradients from queue, park and batch */
void ol_ingest_forget(struct ol_ingest *ingest, struct ol_session *session);
/* ol_ingest_waits -- true if work is left that needs only time, or another poll */
bool ol_ingest_waits(const struct ol_ingest *ingest);
/* ol_ingest_due_ns -- when a step is due that waits for time alone; UINT64_MAX: none does. In a chain
 * the held gradients may be in an entry, with nothing left in the batch. */
static inline uint64_t ol_ingest_due_ns(const struct ol_ingest *ingest)
{
	if (ingest->step_ready)
		return UINT64_MAX;
	if (ol_follow_keeps(ingest))
		return ol_follow_due_ns(ingest);
	return ingest->batch_count == 0 ? UINT64_MAX : ol_policy_due_ns(ingest->policy);
}
/* ol_ingest_progress -- make the steps that can be made, post the acks that can be posted */
void ol_ingest_progress(struct ol_ingest *ingest, uint64_t now_ns);

/* ol_ingest_requeue -- put parked gradients at the front of the queue again, in the order in which they came */
void ol_ingest_requeue(struct ol_ingest *ingest);

/* For the code that makes a step: */

/* ol_ingest_target -- a snapshot that may be overwritten; -1: none yet. ol_ingest_spare -- the same
 * for a step that is begun early: it takes none from a reader that pins for too long */
int ol_ingest_target(struct ol_ingest *ingest, uint64_t now_ns);
int ol_ingest_spare(const struct ol_ingest *ingest);
/* ol_ingest_slot -- what is known of a landed gradient; ol_ingest_batch -- it is in the next step. The batch is
 * in worker order, so that sums are a function of the gradients alone */
struct ol_slot_state *ol_ingest_slot(const struct ol_ingest *ingest, struct ol_landed landed);
/* ol_ingest_base -- the version that a gradient was computed at, which a server that went back may not have yet */
static inline uint64_t ol_ingest_base(const struct ol_slot_state *state)
{
	return state->base_version + state->ahead;
}
void ol_ingest_batch(struct ol_ingest *ingest, struct ol_landed landed);
/* ol_ingest_gradient -- where a gradient has landed */
const void *ol_ingest_gradient(const struct ol_ingest *ingest, struct ol_landed landed);
/* ol_ingest_early -- steps that are begun in a snapshot */
extern const struct ol_early_steps ol_ingest_early;
/* ol_ingest_gather -- fill in contributions from the batch */
void ol_ingest_gather(struct ol_ingest *ingest);
/* ol_ingest_rule -- the rule that the gathered batch brings, which is news; NULL: none */
static inline const struct ol_rule *ol_ingest_rule(const struct ol_ingest *ingest)
{
	return ingest->has_rule ? &ingest->rule : NULL;
}
/* ol_ingest_apply -- make a version of the batch and answer its pushes; false: not now */
bool ol_ingest_apply(struct ol_ingest *ingest, uint64_t now_ns);
/* ol_ingest_updated -- tell the policy: a step of count gradients was made, or dropped (0); norms,
 * if known */
void ol_ingest_updated(struct ol_ingest *ingest, uint32_t count, const struct ol_norms *norms,
		       uint64_t now_ns);
/* ol_ingest_count -- count a gradient that was applied to weights of `version` */
void ol_ingest_count(struct ol_ingest *ingest, const struct ol_slot_state *state, uint64_t version);
/* ol_ingest_ack -- answer a push with its slot's status, now or when the queue has room */
void ol_ingest_ack(struct ol_ingest *ingest, struct ol_session *session, uint32_t slot,
		   uint64_t now_ns);
void ol_ingest_resolve(struct ol_ingest *ingest, struct ol_landed landed, int status,
		       uint64_t now_ns);

/* acks.c: ol_acks_end -- the slot's ack is written, or not wanted any more; ol_acks_flush -- post those that are owed,
 * as far as there is room */
void ol_acks_drop(struct ol_ingest *ingest, struct ol_session *session,
		  struct ol_slot_state *state);
static inline void ol_acks_end(struct ol_ingest *ingest, struct ol_session *session,
			       struct ol_slot_state *state)
{
	if (state->owed || state->held_due)
		ol_acks_drop(ingest, session, state);
}
void ol_acks_flush(struct ol_ingest *ingest, uint64_t now_ns);
/* ol_acks_held -- the push in a slot is here: its worker is told, before it is resolved */
void ol_acks_held(struct ol_ingest *ingest, struct ol_session *session, uint32_t slot,
		  uint64_t now_ns);

#endif /* OL_SERVER_INGEST_H */
