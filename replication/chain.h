/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain.h -- one replica's part in one shard's chain (van Renesse and Schneider, OSDI 2004)
 *
 * A state machine without I/O: events go in by ol_chain_on_*(), actions come out by the ops. It
 * knows versions, not payloads: entry v is whatever lies in slot v mod slots of the ring.
 *
 *	received    newest entry in the ring; a head has ordered it
 *	forwarded   newest entry handed to the successor: never over received
 *	applied     newest entry in the weights: with a full successor never over forwarded
 *	succ_acked  newest entry that the successor has applied, as it says
 *	committed   newest entry known to be applied by the tail
 *
 * Every full replica has what its successors have, so what the tail has applied all have. A slot is
 * free when its entry is committed and the successor has it.
 *
 * A chain grows at its end: the tail forwards to the one that joins, which is behind it, and goes
 * on committing by itself. When it is close, the tail begins the handoff: from then on it commits
 * only what the joining one has applied too; when that is everything, the joining one has caught
 * up, and the next view may make it the tail. So at no time is anything committed that a full
 * replica does not have.
 */
#ifndef OL_REPLICATION_CHAIN_H
#define OL_REPLICATION_CHAIN_H

#include "replication/view.h"

/* Called by the chain. None may call back into it. All are set. */
struct ol_chain_ops {
	/* forward -- hand entry `version` to the successor. 0, or -EAGAIN: not now, progress()
	   tries again. A link that broke is reported by on_successor_down(). */
	int (*forward)(void *env, uint64_t version);
	/* apply -- in order, each once. 0, or -EAGAIN: not now */
	int (*apply)(void *env, uint64_t version);
	/* committed -- by the tail: entry `version` is; tell its workers. In order, each once, but
	   for those that a replica had applied before it became the tail: welcomes tell of them */
	void (*commit)(void *env, uint64_t version);
	/* ack -- tell the predecessor: all up to `version` is applied (by a tail or one that
	   joins) or committed (by others). 0, or -EAGAIN: not now */
	int (*ack)(void *env, uint64_t version);
	/* fence -- cut off this end of a link to whoever was predecessor (successor) before: when
	   it returns nothing written by it can take effect. Entries received stay. */
	void (*fence_predecessor)(void *env);
	void (*fence_successor)(void *env);
	/* connect -- begin a link to the successor; on_successor_up() when it says what it has */
	void (*connect)(void *env, const struct ol_member *successor);
};

struct ol_chain {
	const struct ol_chain_ops *ops;
	void *env;
	uint64_t id; /* of this replica */
	uint32_t slots; /* of the ring */
	struct ol_view view; /* adopted */
	enum ol_chain_role role;
	bool loaded; /* it has weights: `applied` means something */
	bool succ_up; /* the successor said what it has, on this link */
	bool succ_full; /* the successor is a full replica */
	bool handoff; /* commits wait for the one that joins */
	bool pred_up; /* acks can be given */
	uint64_t received;
	uint64_t forwarded;
	uint64_t applied;
	uint64_t succ_acked;
	uint64_t committed;
	uint64_t acked; /* last told to the predecessor */
};

void ol_chain_init(struct ol_chain *chain, uint64_t id, uint32_t slots,
		   const struct ol_chain_ops *ops, void *env);

/*
 * ol_chain_on_view -- adopt a view: fence first, then act in it
 *
 * Whoever is no longer the neighbour is fenced off before anything else. Returns 0; -ESTALE for a
 * view that is not newer than the one in force (nothing happens); OL_CHAIN_REMOVED if this replica
 * was in the last view and is not in this one: both its neighbours are fenced off, it must not act
 * any more.
 */
enum {
	OL_CHAIN_REMOVED = 1
};
int ol_chain_on_view(struct ol_chain *chain, const struct ol_view *view);

/* ol_chain_on_load -- the replica has weights of `version`: found, or read from its predecessor.
 * What lies in the ring above it is then applied. */
void ol_chain_on_load(struct ol_chain *chain, uint64_t version);

/* ol_chain_on_predecessor -- a link from the predecessor is there (true), or it is gone */
void ol_chain_on_predecessor(struct ol_chain *chain, bool up);

/*
 * ol_chain_on_entry -- entry `version` is in the ring, whole, from the predecessor
 *
 * 0, or -EPROTO: it is not the next one, does not fit the ring, or there is no predecessor: the
 * link is to be cut.
 */
int ol_chain_on_entry(struct ol_chain *chain, uint64_t version);

/*
 * ol_chain_on_successor_up -- it is there, and has all up to `have`: of a joining one, the version
 * that it is about to read. -EPROTO: it cannot be brought up to date from there, cut it.
 */
int ol_chain_on_successor_up(struct ol_chain *chain, uint64_t have);
void ol_chain_on_successor_down(struct ol_chain *chain);
/* -EPROTO: of an entry that it was not given */
int ol_chain_on_ack(struct ol_chain *chain, uint64_t version);

/*
 * ol_chain_order -- the head puts a new entry into the ring: its version, 1 + received
 *
 * 0: into *ret_version; the entry is in its slot already, or put there before progress(). -EAGAIN:
 * the ring is full, the one before is not yet applied, or there is no successor to forward to;
 * -EPERM: not the head, or without weights.
 */
int ol_chain_may_order(const struct ol_chain *chain);
int ol_chain_order(struct ol_chain *chain, uint64_t *ret_version);

/* ol_chain_progress -- forward, apply, commit, acknowledge whatever can be; call after any event */
void ol_chain_progress(struct ol_chain *chain);
/* ol_chain_waits -- true if progress() may do more without another event */
bool ol_chain_waits(const struct ol_chain *chain);

/* ol_chain_serves_push / _pull -- workers may be let in: it is the head (the tail), has weights,
 * and they contain all that it has received */
bool ol_chain_serves_push(const struct ol_chain *chain);
bool ol_chain_serves_pull(const struct ol_chain *chain);

/* ol_chain_caught_up -- id of the one that joins, if it has; else 0. For ol_view_next(). */
uint64_t ol_chain_caught_up(const struct ol_chain *chain);

static inline bool ol_chain_is_head(const struct ol_chain *chain)
{
	return chain->role == OL_CHAIN_HEAD || chain->role == OL_CHAIN_ONLY;
}

static inline bool ol_chain_is_tail(const struct ol_chain *chain)
{
	return chain->role == OL_CHAIN_TAIL || chain->role == OL_CHAIN_ONLY;
}

#endif /* OL_REPLICATION_CHAIN_H */
