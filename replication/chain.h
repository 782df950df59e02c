/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain.h -- one replica's part in one shard's chain (van Renesse and Schneider, OSDI 2004)
 *
 * A state machine without I/O, which calls nobody: events go in by ol_chain_on_*(); what is to be
 * done comes out in a struct, and whoever drives the chain does it. The chain knows versions, not
 * payloads: entry v is whatever lies in slot v mod slots of the ring.
 *
 *	received    newest entry in the ring; a head has ordered it
 *	forwarded   newest entry handed to the successor: never over received
 *	applied     newest entry in the weights: with a full successor not over forwarded, but for
 *	            what had been forwarded to the one before
 *	succ_acked  newest entry that the successor has no more need of, as it says
 *	committed   newest entry known to be applied by the tail
 *
 * None of these is ever over received, but for applied where there are no weights; builds that have
 * assertions check this after every event.
 *
 * Every full replica has what its successors have, so what the tail has applied all have: the tail
 * commits by applying. A slot is free when its entry is committed, applied here, and not needed by
 * one that joins.
 *
 * A chain grows at its end: the tail offers its weights to the one that joins, which is behind it,
 * and from then on keeps and forwards what comes after them; it goes on committing by itself.
 * With the first ack of the joining one the handoff begins: from then on the tail applies, and so
 * commits and shows, only what the joining one has applied before; when that is everything, the
 * joining one has caught up, and the next view may make it the tail. So at no time is anything
 * committed that a full replica does not have. A handoff ends with a view, never with a link: the
 * view that makes the joining one the tail may be in force before this one has heard of it.
 *
 * What whoever drives it must do:
 *  - adopt views in the order of their epochs (some may be left out), and propose only what follows
 *    the view that is adopted, by compare-and-set against that very one;
 *  - after on_view(), before any action: where the role is no longer head or only, end what workers
 *    push over; where it is no longer tail or only, end whatever workers could read weights over
 *    (when ONLY becomes HEAD that is their one connection): what is applied from now on is not
 *    committed. New sessions only while serves_push() / _pull();
 *  - one link to a neighbour at a time: before a new one of the same predecessor is welcomed, the
 *    old one is fenced and on_predecessor(false) called; what it rang for and was not passed on is
 *    forgotten;
 *  - propose a first view only if it is its founder: of one that is gone by then, nobody could take
 *    the place;
 *  - answer a hello only in a view of at least its epoch, in which its sender is the predecessor;
 *  - a link that broke is tried again until fence_successor(), whether its end is suspected or not.
 */
#ifndef OL_REPLICATION_CHAIN_H
#define OL_REPLICATION_CHAIN_H

#include "replication/view.h"

/* What a view asks of the links to the neighbours: to be done in this order, before anything else */
struct ol_chain_links {
	/* Cut off this end of the link to whoever was predecessor (successor) before: once that is
	   done nothing written by it can take effect. Entries received stay. */
	bool fence_predecessor;
	bool fence_successor;
	/* Begin a link to the successor of the view; on_successor_up() when it says what it has. To
	   one that joins only when there are weights to offer. */
	bool connect;
};

enum ol_chain_what {
	OL_CHAIN_FORWARD = 1, /* hand entry `version` to the successor */
	OL_CHAIN_APPLY = 2, /* put entry `version` into the weights: in order, each once */
	OL_CHAIN_ACK = 4, /* tell the predecessor: slots of all up to `version` are free; freed() */
};

struct ol_chain_action {
	enum ol_chain_what what;
	/* Of an APPLY, at the tail: once it is done the entry is committed, so its workers are
	   told. Entries that a replica had applied before it became the tail are left out: welcomes
	   tell of them. */
	bool commits;
	uint64_t version;
};

struct ol_chain {
	uint64_t id; /* of this replica */
	uint32_t slots; /* of the ring */
	struct ol_view view; /* adopted */
	enum ol_chain_role role;
	bool loaded; /* it has weights: `applied` means something */
	bool succ_up; /* the successor said what it has, on this link */
	bool succ_full; /* the successor is a full replica */
	bool succ_held; /* what the joining one has not acknowledged is kept for it */
	bool succ_told; /* the joining one has acknowledged something on this link: it has
			 weights */
	bool handoff; /* commits wait for the one that joins */
	bool pred_up; /* acks can be given */
	bool ack_due; /* even if there is nothing new: the link is */
	uint64_t received;
	uint64_t forwarded;
	uint64_t applied;
	uint64_t succ_acked;
	uint64_t committed;
	uint64_t acked; /* last told to a predecessor: later entries may overwrite all up to it */
	uint64_t floor; /* newest entry that an earlier tail may have committed */
};

void ol_chain_init(struct ol_chain *chain, uint64_t id, uint32_t slots);

/*
 * ol_chain_on_view -- adopt a view
 *
 * What it asks of the links goes into *ret_links. Returns 0; -ESTALE for a view that does not
 * follow the one in force (nothing happens); OL_CHAIN_REMOVED if this replica was in the last view
 * and is not in this one, or counted and now joins again: both its neighbours are to be fenced off,
 * what it has is worth nothing, it must not act any more.
 *
 * Nor is what one that joined has worth anything in a view of another history: loaded is false
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
 * They were found, before or after the view; or read from its predecessor, exactly those of its
 * last hello (older ones are ignored). What lies in the ring above it is then applied. True: there
 * is something to offer now to the successor of the view, which joins: connect to it.
 */
bool ol_chain_on_load(struct ol_chain *chain, uint64_t version);

/*
 * ol_chain_on_hello -- the predecessor offers weights of `content`: what to answer
 *
 * 0: this replica has all up to *ret_have, and needs no weights. OL_CHAIN_LOAD: it joins and has
 * none, or too old ones: *ret_have is `content`, on_load() is to follow. One that joins may hold
 * what the tail waits for, so it never reads weights because of a new link alone. -EPROTO: no
 * predecessor is expected here. May be called again, until on_predecessor(true).
 */
enum {
	OL_CHAIN_LOAD = 1
};
int ol_chain_on_hello(struct ol_chain *chain, uint64_t content, uint64_t *ret_have);

/* ol_chain_on_predecessor -- its hello was answered: entries may come (true); the link is gone */
void ol_chain_on_predecessor(struct ol_chain *chain, bool up);

/*
 * ol_chain_on_entry -- entry `version` is in the ring, whole, from the predecessor
 *
 * 0, or -EPROTO: it is not the next one, does not fit the ring, or there is no predecessor: the
 * link is to be cut.
 */
int ol_chain_on_entry(struct ol_chain *chain, uint64_t version);

/*
 * ol_chain_on_offer -- weights of `content` are about to be offered in a hello
 *
 * To one that joins: what comes after them is kept from now on, so that it can follow, until
 * on_successor_down(). To a full one this is nothing. -EPROTO: they are too old already.
 */
int ol_chain_on_offer(struct ol_chain *chain, uint64_t content);

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

/*
 * ol_chain_next_action -- what to do next; to be asked after any event, until it answers false
 *
 * not_now: what could not be done just now (of enum ol_chain_what, or'ed); it is left out. A link
 * that broke is reported by on_successor_down().
 */
bool ol_chain_next_action(const struct ol_chain *chain, unsigned not_now,
			  struct ol_chain_action *ret_action);
/* ol_chain_on_done -- it is done; tell of a commit after this */
void ol_chain_on_done(struct ol_chain *chain, const struct ol_chain_action *action);

/* ol_chain_newest_free -- newest entry whose slot is free: it is never asked for again */
uint64_t ol_chain_newest_free(const struct ol_chain *chain);
/* ol_chain_oldest_kept -- oldest version from which a successor can go on: all after it are in the ring,
 * and stay */
uint64_t ol_chain_oldest_kept(const struct ol_chain *chain);

/* ol_chain_serves_push / _pull -- workers may be let in: it is the head (the tail), has weights,
 * and they contain all that it has received (all that was ever committed) */
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
