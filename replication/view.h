/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * view.h -- who is in a chain: values, and the rules by which one view follows another
 *
 * A view names the replicas of one shard's chain, from head to tail, under an epoch that only ever
 * grows. It lives in the coordinator and changes by compare-and-set alone, so of two servers that
 * want different successors of a view one gets its way. The rules are a pure function: whoever
 * sees a reason for a change works out the next view and proposes it.
 *
 *	full replica    has every entry that was ever committed; counts for the chain
 *	joining         at most one, behind the tail: is being brought up to date; counts for
 * nothing
 */
#ifndef OL_REPLICATION_VIEW_H
#define OL_REPLICATION_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	OL_REPLICAS_MAX = 8, /* of a chain */
	OL_MEMBERS_MAX = 16, /* servers that offer themselves for one shard */
	OL_ENDPOINT_MAX = 128, /* text of an address, with its end */
	OL_MEMBER_TEXT_MAX = 256,
	OL_VIEW_TEXT_MAX = 4096,
};

/* A server that offers itself for a shard. */
struct ol_member {
	uint64_t id; /* of one process: random, never 0; a server that is started again has
		      another */
	uint64_t job; /* digest of what replicas must agree on; others are never taken */
	uint32_t proto; /* wire protocol that it speaks */
	uint32_t rank; /* of those that wait, the lowest is taken first */
	char addr[OL_ENDPOINT_MAX]; /* where it listens: no blanks, no control characters */
};

struct ol_view {
	uint32_t epoch; /* 0: there is none yet */
	uint32_t founded; /* epoch in which this history began: its first replica took its weights
			     from wherever it could, not from the chain */
	/*
	 * Which history that is: a random number, that of the process that founded it (no process
	 * founds two). And the first that this chain ever had where its views are: epochs follow
	 * each other under one origin, and versions within one history. Numbers of different
	 * origins are never compared: whoever holds views has lost its memory in between.
	 */
	uint64_t history;
	uint64_t origin;
	uint32_t shard_count; /* of the job */
	uint32_t wanted; /* replicas that the chain should have */
	uint32_t every; /* 0: strict. N: the head sends its state every N versions and waits for
			   nobody; workers pull from the head */
	uint32_t count; /* full replicas */
	uint32_t joining; /* 1: replicas[count] is joining; else 0 */
	struct ol_member replicas[OL_REPLICAS_MAX]; /* head first */
};

enum ol_chain_role {
	OL_CHAIN_NONE, /* not in the view */
	OL_CHAIN_JOINING, /* behind the tail, being brought up to date */
	OL_CHAIN_HEAD, /* orders pushes */
	OL_CHAIN_MIDDLE,
	OL_CHAIN_TAIL, /* commits; answers pulls; writes mailboxes */
	OL_CHAIN_ONLY, /* head and tail at once */
};

/* ol_chain_role_str -- "head" and so on; never NULL */
const char *ol_chain_role_str(enum ol_chain_role role);

/* ol_view_same -- are they one: the same epoch of the same chain, with the same replicas? */
bool ol_view_same(const struct ol_view *a, const struct ol_view *b);
/* ol_view_find -- place of a replica, full or joining; -1: not in the view */
int ol_view_find(const struct ol_view *view, uint64_t id);
enum ol_chain_role ol_view_role(const struct ol_view *view, uint64_t id);
/* NULL: there is none. The tail's successor is the one that joins. */
const struct ol_member *ol_view_predecessor(const struct ol_view *view, uint64_t id);
const struct ol_member *ol_view_successor(const struct ol_view *view, uint64_t id);

/* What the next view is made from. */
struct ol_view_rule {
	uint32_t shard_count;
	uint32_t wanted; /* replicas, 1 … OL_REPLICAS_MAX */
	uint32_t every; /* for the first view */
	/*
	 * What becomes of a chain all of whose full replicas are gone. false: it waits for them,
	 * for ever: nobody else has what was committed. true: one that waits founds the chain anew.
	 * Safe only where a server that cannot renew its lease ends itself.
	 */
	bool refound;
};

/*
 * ol_view_next -- the view that should follow; false: this one should stay (ret_next is untouched)
 *
 * alive: the members that can be reached, in any order. caught_up: id of the joining replica if
 * it has all that is committed, and nothing is committed any more without it; else 0. Only the
 * tail can know.
 *
 *  1. No view yet: when `wanted` members are alive, the one with the lowest (rank, id) founds it.
 *  2. Full replicas that are not alive leave, but never the last one: if none is alive, the view
 *     stays, or is founded anew by the lowest that is alive (rule->refound).
 *  3. A joining one that is not alive leaves; one that has caught up becomes the tail.
 *  4. While there are fewer than `wanted` and none is joining, the lowest that is alive and not in
 *     the view joins.
 *
 * The epoch of the result is one more. Members of another job or protocol than the view's are not
 * taken.
 */
bool ol_view_next(const struct ol_view *view, const struct ol_member *alive, uint32_t alive_count,
		  uint64_t caught_up, const struct ol_view_rule *rule, struct ol_view *ret_next);

/* ol_view_follows -- may `next` take the place of `view` in the coordinator? Of the same origin,
 * and a later epoch */
bool ol_view_follows(const struct ol_view *view, const struct ol_view *next);

/*
 * As text, one "word value" a line, that a person can read in the coordinator. encode returns the
 * length without the end, never more than OL_VIEW_TEXT_MAX - 1; decode: 0, or -EINVAL if it is not
 * such a text, whole and within every limit.
 */
size_t ol_view_encode(const struct ol_view *view, char text[OL_VIEW_TEXT_MAX]);
int ol_view_decode(const char *text, size_t bytes, struct ol_view *ret_view);
size_t ol_member_encode(const struct ol_member *member, char text[OL_MEMBER_TEXT_MAX]);
int ol_member_decode(const char *text, size_t bytes, struct ol_member *ret_member);

#endif /* OL_REPLICATION_VIEW_H */
