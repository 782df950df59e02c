/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain.h -- one replica's part in one shard's chain (van Renesse and Schneider, OSDI 2004)
 *
 * A state machine without I/O and without callbacks: events go in through ol_chain_on_*(), actions
 * come out in a struct, and the driver carries them out. The chain knows versions, not payloads:
 * entry v lies in slot v mod slots of the ring.
 *
 *	received    newest entry in the ring; a head has ordered it
 *	forwarded   newest entry sent to the successor
 *	applied     newest entry in the weights. With a full successor not above forwarded, except
 *	            for entries that were forwarded to the successor before
 *	succ_acked  newest entry that the successor no longer needs, as it reports
 *	committed   newest entry known to be applied by the tail
 *
 * None of these is ever above received, except applied while there are no weights. Builds with
 * assertions check this after every event.
 *
 * Every full replica has the entries of its successors, so all have what the tail has applied: the
 * tail commits by applying. A slot is free when its entry is committed, applied here, and not
 * needed by a joining replica.
 *
 * A chain grows at its end. The tail offers its weights to the joining replica behind it; from then
 * on it keeps and forwards all later entries, and goes on committing by itself. The joining
 * replica's first ack begins the handoff: now the tail applies, and so commits and shows, only
 * entries that the joining replica has applied. When that has applied all of them, it has caught
 * up, and the next view may make it the tail. So an entry is never committed that a full replica
 * lacks. A handoff ends with a view, never with a link: the view that makes the joining replica the
 * tail may be in force before this replica knows it.
 *
 * The driver must:
 *  - adopt views in the order of their epochs (it may skip some), and propose only a successor of
 *    the adopted view, by compare-and-set against that view;
 *  - after on_view(), before any action: if the role is no longer head or only, end the connections
 *    over which workers push; if it is no longer tail or only, end the connections over which
 *    workers could read weights (when ONLY becomes HEAD, that is their one connection), as entries
 *    applied from now on are not committed; begin sessions only while serves_push() / _pull();
 *  - have one link to a neighbour at a time: before it welcomes a new link of the same predecessor,
 *    fence the old one and call on_predecessor(false); entries whose bell rang, and that were not
 *    passed on, are forgotten;
 *  - propose a first view only as its founder: nobody could replace a founder that is gone by then;
 *  - answer a hello only in a view of at least its epoch, in which its sender is the predecessor;
 *  - try a broken link again until fence_successor, whether its other end is suspected or not.
 */
#ifndef OL_REPLICATION_CHAIN_H
#define OL_REPLICATION_CHAIN_H

#include "replication/view.h"

/* What a view requires of the links to the neighbours: in this order, before anything else */
struct ol_chain_links {
	/* Cut off this end of the link to the former predecessor (successor). After that, nothing
	   that the predecessor writes takes effect. Received entries stay. */
	bool fence_predecessor;
	bool fence_successor;
	/* Begin a link to the view's successor; on_successor_up() when it reports what it has. A
	   joining successor is connected to only when there are weights to offer. */
	bool connect;
};

enum ol_chain_what {
	OL_CHAIN_FORWARD = 1, /* send entry `version` to the successor */
	OL_CHAIN_APPLY = 2, /* put entry `version` into the weights: in order, each once */
	OL_CHAIN_ACK = 4, /* tell the predecessor that the slots of all up to `version` are free */
};

struct ol_chain_action {
	enum ol_chain_what what;
	/* APPLY at the tail: once it is done the entry is committed, and its workers must be told.
	   For entries that the replica had applied before it became the tail, welcomes do that. */
	bool commits;
	uint64_t version;
};

struct ol_chain {
	uint64_t id; /* of this replica */
	uint32_t slots; /* of the ring */
	uint32_t ack_every; /* entries, of a tail: see ol_chain_settle(); at most half of slots */
	struct ol_view view; /* adopted */
	enum ol_chain_role role;
	bool loaded; /* it has weights: `applied` means something */
	bool succ_up; /* the successor reported on this link what it has */
	bool succ_full; /* the successor is a full replica */
	bool succ_held; /* entries that the joining replica has not acknowledged are kept for it */
	bool succ_told; /* the joining replica has acknowledged an entry on this link: it has
			   weights */
	bool handoff; /* commits wait for the joining replica */
	bool pred_up; /* acks can be sent */
	bool ack_due; /* an ack must be sent even without a new entry: the link is new */
	bool ack_all; /* the tail's next ack does not wait until it frees many slots */
	uint64_t received;
	uint64_t forwarded;
	uint64_t applied;
	uint64_t succ_acked;
	uint64_t committed;
	uint64_t acked; /* last sent to a predecessor: later entries may overwrite all up to it */
	uint64_t floor; /* newest entry that an earlier tail may have committed */
};

void ol_chain_init(struct ol_chain *chain, uint64_t id, uint32_t slots);

/*
 * ol_chain_on_view -- adopt a view
 *
 * What the driver must do with the links goes into *ret_links. Returns 0; -ESTALE for a view that
 * does not follow the one in force (nothing happens); OL_CHAIN_REMOVED if this replica was in the
 * last view and is not in this one, or was full and now joins again. Then both neighbours must be
 * fenced off, its state is void, and it must not act any more.
 *
 * The state of a replica that was joining is void in a view of another history: loaded is false
 * then. If it is the founder, on_load() follows.
 */
enum {
	OL_CHAIN_REMOVED = 1
};
int ol_chain_on_view(struct ol_chain *chain, const struct ol_view *view,
		     struct ol_chain_links *ret_links);

/*
 * ol_chain_on_load -- the replica has weights of `version`
 *
 * The weights were restored, before or after the view, or read from the predecessor: exactly those
 * of its last hello (older ones are ignored). Later entries in the ring are then applied. True: now
 * there are weights to offer to the view's successor, which joins: connect to it.
 */
bool ol_chain_on_load(struct ol_chain *chain, uint64_t version);

/*
 * ol_chain_on_hello -- the predecessor offers weights of version `content`: what to answer
 *
 * 0: this replica has all entries up to *ret_have, and needs no weights. OL_CHAIN_LOAD: it joins
 * and has no weights, or too old ones; *ret_have is `content`, and on_load() must follow. A joining
 * replica may have entries that the tail waits for, so a new link alone is no reason to read
 * weights. -EPROTO: no predecessor is expected here. May be called again, until
 * on_predecessor(true).
 */
enum {
	OL_CHAIN_LOAD = 1
};
int ol_chain_on_hello(struct ol_chain *chain, uint64_t content, uint64_t *ret_have);

/* ol_chain_on_predecessor -- true: its hello was answered, entries may come; false: the link is
 * gone */
void ol_chain_on_predecessor(struct ol_chain *chain, bool up);

/*
 * ol_chain_on_entry -- entry `version` is in the ring, whole, from the predecessor
 *
 * 0, or -EPROTO: it is not the next one, does not fit the ring, or there is no predecessor: cut the
 * link.
 */
int ol_chain_on_entry(struct ol_chain *chain, uint64_t version);

/*
 * ol_chain_on_offer -- weights of version `content` are about to be offered in a hello
 *
 * For a joining replica later entries are kept from now on, until on_successor_down(). For a full
 * one this has no effect. -EPROTO: the weights are too old already.
 */
int ol_chain_on_offer(struct ol_chain *chain, uint64_t content);

/*
 * ol_chain_on_successor_up -- the successor is connected and has all entries up to `have`; of a
 * joining one, `have` is the version that it is about to read. -EPROTO: the entries after `have`
 * are gone: cut the link.
 */
int ol_chain_on_successor_up(struct ol_chain *chain, uint64_t have);
void ol_chain_on_successor_down(struct ol_chain *chain);
/* -EPROTO: the successor was not sent that entry */
int ol_chain_on_ack(struct ol_chain *chain, uint64_t version);

/*
 * ol_chain_order -- the head puts a new entry into the ring: its version, 1 + received
 *
 * 0: into *ret_version; the entry must be in its slot before the next action is asked for. -EAGAIN:
 * the ring is full, the entry before is not yet applied, or there is no successor to forward to;
 * -EPERM: not the head, or without weights.
 */
int ol_chain_may_order(const struct ol_chain *chain);
int ol_chain_order(struct ol_chain *chain, uint64_t *ret_version);

/*
 * ol_chain_next_action -- the next action; call it after any event, until it returns false
 *
 * not_now: kinds of action to leave out, as they cannot be done just now (enum ol_chain_what,
 * or'ed). A broken link is reported by on_successor_down().
 */
bool ol_chain_next_action(const struct ol_chain *chain, unsigned not_now,
			  struct ol_chain_action *ret_action);
/* ol_chain_on_done -- the action is done; tell workers of a commit after this call */
void ol_chain_on_done(struct ol_chain *chain, const struct ol_chain_action *action);

/*
 * ol_chain_settle -- let the tail acknowledge all it can: call it at each heartbeat
 *
 * Between heartbeats a tail acknowledges once for ack_every entries, as an ack costs its sender and
 * each replica above a message, and only frees slots. The others acknowledge at once what is
 * acknowledged to them, so that the delays of a long chain do not add up to a ring. ack_every is 1
 * after ol_chain_init(); the driver may set more.
 */
void ol_chain_settle(struct ol_chain *chain);

/* ol_chain_newest_free -- newest entry whose slot is free: no replica asks for it again */
uint64_t ol_chain_newest_free(const struct ol_chain *chain);
/* ol_chain_oldest_kept -- oldest version from which a successor can go on: all later entries are in
 * the ring, and stay */
uint64_t ol_chain_oldest_kept(const struct ol_chain *chain);

/* ol_chain_serves_push / _pull -- workers may be let in: this is the head (the tail) and has
 * weights that contain every entry it has received (that was ever committed) */
bool ol_chain_serves_push(const struct ol_chain *chain);
bool ol_chain_serves_pull(const struct ol_chain *chain);

/* ol_chain_caught_up -- id of the joining replica, if it has caught up; else 0: for
 * ol_view_next() */
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
