/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * view.h -- who is in a chain: values, and the rules by which one view follows another
 *
 * A view names the replicas of one shard's chain, from head to tail, under an epoch that only ever
 * grows. It lives in the coordinator and changes only by compare-and-set: if two servers propose
 * different successors of a view, one succeeds. The rules are a pure function: a server that sees a
 * reason for a change computes the next view and proposes it.
 *
 *	full replica    has every entry that was ever committed
 *	joining         at most one, behind the tail: is being brought up to date
 */
#ifndef OL_REPLICATION_VIEW_H
#define OL_REPLICATION_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	OL_REPLICAS_MAX = 8, /* of a chain */
	OL_MEMBERS_MAX = 16, /* servers registered for one shard */
	/* a server with checkpoints of this epoch or a later one does not start */
	OL_FOLDER_EPOCH_MAX = UINT32_MAX >> 2,
	OL_EPOCH_LEAP_MAX = 1 << 16, /* by how much who joins can raise a view's epoch, at most */
	OL_ENDPOINT_MAX = 128, /* text of an address, with its end */
	OL_MEMBER_TEXT_MAX = 256,
	OL_VIEW_TEXT_MAX = 4096,
};

/* What it was told to restore, a checkpoint, it has of another history only (saved_version) */
#define OL_SAVED_FOREIGN UINT64_MAX

/* A server that is registered for a shard. */
struct ol_member {
	uint64_t id; /* of one process: random, never 0; a restarted server has another */
	uint64_t job; /* digest of the options that replicas must share; others never join */
	uint32_t proto; /* of the wire, the newest that it speaks */
	uint32_t oldest; /* … and the oldest */
	uint32_t rank; /* of the waiting members, the one with the lowest joins first */
	uint32_t
		saved_epoch; /* of the newest checkpoint that it would begin a history with; 0: it has none … */
	uint64_t
		saved_version; /* … and its version; of none, OL_SAVED_FOREIGN: it never founds a chain anew */
	/* of the newest checkpoint in its folder, whole or not, and whatever it would begin with; 0: there is none, or
	 * it is of the history that the chain had when this member came */
	uint32_t folder_epoch;
	uint32_t zero; /* views are compared as bytes: there is no padding */
	char addr[OL_ENDPOINT_MAX]; /* where it listens: no blanks, no control characters */
};

/* ol_member_meets -- is there a protocol that both speak? */
static inline bool ol_member_meets(const struct ol_member *a, const struct ol_member *b)
{
	return a->proto >= b->oldest && b->proto >= a->oldest;
}

/* ol_members_have -- is a member of this id among them? */
static inline bool ol_members_have(const struct ol_member *members, uint32_t count, uint64_t id)
{
	for (uint32_t i = 0; i < count; i++) {
		if (members[i].id == id)
			return true;
	}
	return false;
}

struct ol_view {
	uint32_t epoch; /* 0: no view yet */
	uint32_t founded; /* epoch in which this history began: its first replica restored its
			     weights, and did not take them from the chain */
	/*
	 * history: id of the process that founded it, a random number (no process founds two).
	 * origin: the chain's first history at this coordinator. Epochs are compared only under one
	 * origin, versions only within one history. A new origin means that the coordinator has
	 * lost its memory.
	 */
	uint64_t history;
	uint64_t origin;
	uint32_t shard_count; /* of the job */
	uint32_t wanted; /* replicas that the chain should have */
	uint64_t
		order; /* number of the last operator's order, in this view or an earlier one; 0: none */
	uint64_t left; /* id of the last replica that was ordered to leave; 0: none */
	uint32_t every; /* 0: strict. N: successors read the head's state every N versions, and the
			   head does not wait; workers pull from the head */
	uint32_t count; /* full replicas */
	uint32_t joining; /* 1: replicas[count] is joining; else 0 */
	struct ol_member replicas[OL_REPLICAS_MAX]; /* head first */
};

enum ol_chain_role {
	OL_CHAIN_NONE, /* not in the view */
	OL_CHAIN_JOINING, /* behind the tail, being brought up to date */
	OL_CHAIN_HEAD, /* orders pushes */
	OL_CHAIN_MIDDLE,
	OL_CHAIN_TAIL, /* commits, serves pulls, acknowledges pushes */
	OL_CHAIN_ONLY, /* head and tail at once */
};

/* ol_chain_role_str -- "head" and so on; never NULL */
const char *ol_chain_role_str(enum ol_chain_role role);

/* ol_view_same -- both are the same epoch of the same chain, with the same replicas */
bool ol_view_same(const struct ol_view *a, const struct ol_view *b);
/* ol_view_find -- place of a replica, full or joining; -1: not in the view */
int ol_view_find(const struct ol_view *view, uint64_t id);
enum ol_chain_role ol_view_role(const struct ol_view *view, uint64_t id);
/* NULL: none. The tail's successor is the joining replica. */
const struct ol_member *ol_view_predecessor(const struct ol_view *view, uint64_t id);
const struct ol_member *ol_view_successor(const struct ol_view *view, uint64_t id);

/* The options that the next view depends on. */
struct ol_view_rule {
	uint32_t shard_count;
	uint32_t wanted; /* replicas, 1 … OL_REPLICAS_MAX */
	uint32_t every; /* for the first view */
	/*
	 * What happens when all full replicas are gone. false: the chain waits for them for ever,
	 * as no other server has the committed state. true: a waiting member founds the chain anew.
	 * This is safe only if a server that cannot renew its lease ends itself.
	 */
	bool refound;
};

/*
 * ol_view_next -- the view that should follow; false: this one should stay (ret_next is untouched)
 *
 * alive: the members that are alive, in any order. caught_up: id of the joining replica if it has
 * every committed entry, and no entry is committed without it any more; else 0. Only the tail
 * knows this.
 *
 *  1. No view yet: when `wanted` members are alive, the one with the newest checkpoint founds it, of
 *     several such (or where there is none) the one with the lowest (rank, id).
 *  2. Full replicas that are not alive leave, but never the last one: if none is alive, the view
 *     stays, or is founded anew by a member that is alive, chosen in the same way (rule->refound).
 *  3. A joining replica that is not alive leaves; one that has caught up becomes the tail.
 *  4. While the chain has fewer than `wanted` and none is joining, the lowest member that is alive
 *     and not in the view joins.
 *
 *  5. An epoch is above the checkpoints in the folders of all members that are alive, also of those that
 *     wait: what the chain saves from then on is newer than what an abandoned history has left there, so
 *     that nobody begins with that. For this alone a view is followed by one of the same replicas.
 *
 * Else the epoch of the result is one higher.
 * Members of another job or protocol than the view's are ignored.
 */
bool ol_view_next(const struct ol_view *view, const struct ol_member *alive, uint32_t alive_count,
		  uint64_t caught_up, const struct ol_view_rule *rule, struct ol_view *ret_next);

/* What an operator orders of a chain (`outlast chain`): one joins, and one more is wanted from then on; or
 * one leaves, and one less is wanted */
struct ol_view_order {
	uint64_t
		number; /* random, not 0: whoever sees it in a view knows that the order is carried out */
	uint64_t join; /* id of a member, whatever its rank; 0: none */
	uint64_t leave; /* id of a replica, or of one that was and is gone; 0: none */
};

/*
 * ol_view_ordered -- the view that carries out an order; *ret_next is written if 0 is returned
 *
 * alive: the members that are registered. Whoever joins does so as by rule 4, and is never made full
 * here. The servers go on from that view by their own rules, and keep the order's number. A replica
 * that leaves is fenced off like one that was suspected, and knows from `left` that it was not.
 *
 * Returns 0; -EALREADY: who is to join is a replica; -EINVAL: not one of the two, no number, there is
 * no view, or wanted would be 0 or above OL_REPLICAS_MAX; -EBUSY: without `leave` no full replica that
 * is alive would be left; -EAGAIN: another replica is joining; -ENOENT: `join` is not alive; -EPERM: it
 * is of another job or protocol.
 */
int ol_view_ordered(const struct ol_view *view, const struct ol_view_order *order,
		    const struct ol_member *alive, uint32_t alive_count, struct ol_view *ret_next);

/* ol_view_follows -- `next` may replace `view` in the coordinator: it has the same origin and a
 * later epoch */
bool ol_view_follows(const struct ol_view *view, const struct ol_view *next);

/*
 * Views and members as text, one "word value" a line, for people who look into the coordinator.
 * encode returns the length without the end, at most OL_VIEW_TEXT_MAX - 1; decode returns 0, or
 * -EINVAL if the text is not whole, not of this form, or beyond a limit.
 */
size_t ol_view_encode(const struct ol_view *view, char text[OL_VIEW_TEXT_MAX]);
int ol_view_decode(const char *text, size_t bytes, struct ol_view *ret_view);
size_t ol_member_encode(const struct ol_member *member, char text[OL_MEMBER_TEXT_MAX]);
int ol_member_decode(const char *text, size_t bytes, struct ol_member *ret_member);

#endif /* OL_REPLICATION_VIEW_H */
