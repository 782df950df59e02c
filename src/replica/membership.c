/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * membership.c -- suspects replicas, and proposes the next view
 *
 * A replica of the view is suspected when its neighbours could not reach it for a lease, or nobody
 * listens at its address any more, or its heartbeat stood still (ol_membership_suspect()), or when
 * it has had no session at the coordinator for the lease. A connection that broke is made anew
 * first: a network that is away for less than the lease costs no replica its place. A replica that suspects another computes the next view and proposes
 * it. A false suspicion costs the suspect its place and nothing else, as it is fenced off.
 */

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "rdma/order.h"
#include "replica/replica.h"
#include "replication/coord/lease.h"

enum {
	PROPOSE_MS = 50 /* until the same proposal is made again */
};

bool ol_membership_is_same_job(const struct ol_replica *replica, const struct ol_member *member)
{
	return member->job == replica->self.job && ol_member_meets(member, &replica->self);
}

static bool is_registered(const struct ol_replica *replica, uint64_t id)
{
	for (uint32_t i = 0; i < replica->state.member_count; i++) {
		if (replica->state.members[i].id == id)
			return true;
	}
	return false;
}

bool ol_membership_is_gone(const struct ol_replica *replica, uint64_t id)
{
	return replica->state.connected && replica->state.lease_ns == UINT64_MAX &&
	       !is_registered(replica, id);
}

/*
 * Is this replica of the view alive? The coordinator's sessions and the neighbours' suspicions
 * decide. Suspicions count only at a full replica: another one could found a chain anew while the
 * replica that has everything still serves (coord/lease.h).
 */
static bool member_is_alive(struct ol_replica *replica, uint32_t at, uint32_t lease_ms,
			    uint64_t now_ns)
{
	const struct ol_member *member = &replica->chain.view.replicas[at];
	bool here = is_registered(replica, member->id);
	bool counts =
		replica->chain.role != OL_CHAIN_NONE && replica->chain.role != OL_CHAIN_JOINING;
	bool for_life = replica->state.lease_ns == UINT64_MAX;
	uint64_t absence_ms = counts ? lease_ms : ol_lease_absence_ms(lease_ms, for_life);

	if (member->id == replica->self.id)
		return true;
	if (counts && (member->id == replica->suspects[0] || member->id == replica->suspects[1]))
		return false;
	if (here) {
		replica->absent_ns[at] = 0;
		return true;
	}
	if (!replica->state.connected)
		replica->absent_ns[at] = 0;
	else if (replica->absent_ns[at] == 0)
		replica->absent_ns[at] = now_ns;
	return replica->absent_ns[at] == 0 ||
	       now_ns - replica->absent_ns[at] < absence_ms * OL_NS_PER_MS;
}

static bool member_is_buried(const struct ol_replica *replica, uint64_t id)
{
	for (uint32_t i = 0; i < OL_REPLICAS_MAX; i++) {
		if (replica->buried[i] == id)
			return true;
	}
	return false;
}

/* Remember the replicas that are in the view in force and not in the next */
static void members_bury(struct ol_replica *replica, const struct ol_view *next)
{
	const struct ol_view *view = &replica->chain.view;

	for (uint32_t i = 0; i < view->count + view->joining; i++) {
		if (ol_view_find(next, view->replicas[i].id) < 0)
			replica->buried[replica->buried_next++ % OL_REPLICAS_MAX] =
				view->replicas[i].id;
	}
}

/*
 * Is this replica connected with its neighbours? If not, it adds no members. Assume a head that is
 * cut off from all others, while these reach each other: the replicas that it removes one by one
 * would come back faster, and nothing would be committed meanwhile.
 */
static bool neighbours_are_linked(const struct ol_replica *replica)
{
	const struct ol_chain *chain = &replica->chain;
	const struct ol_member *pred = ol_view_predecessor(&chain->view, replica->self.id);

	return (pred == NULL || chain->pred_up) &&
	       (!chain->succ_full || replica->succ.dial.state == OL_DIAL_LIVE);
}

static uint32_t alive_list(struct ol_replica *replica, struct ol_member *alive, uint64_t now_ns)
{
	const struct ol_view *view = &replica->chain.view;
	uint32_t count = 0;

	for (uint32_t i = 0; i < view->count + view->joining; i++) {
		if (member_is_alive(replica, i, replica->opts->lease_ms, now_ns))
			alive[count++] = view->replicas[i];
	}
	for (uint32_t i = 0; neighbours_are_linked(replica) && i < replica->state.member_count;
	     i++) {
		const struct ol_member *member = &replica->state.members[i];

		if (ol_view_find(view, member->id) >= 0 || member_is_buried(replica, member->id))
			continue;
		if (ol_membership_is_same_job(replica, member)) {
			alive[count++] = *member;
		} else if (!replica->strangers) {
			replica->strangers = true;
			ol_log(OL_LOG_WARN,
			       "server %s: %s is registered for shard %u, but is of another job or "
			       "build: it is ignored",
			       replica->addr, member->addr, replica->opts->shard);
		}
	}
	return count;
}

/* May this server propose? A replica that counts may; others only where none does. */
static bool may_propose(const struct ol_replica *replica, const struct ol_member *alive,
			uint32_t alive_count)
{
	const struct ol_view *view = &replica->chain.view;

	if (replica->chain.role != OL_CHAIN_NONE && replica->chain.role != OL_CHAIN_JOINING)
		return true;
	for (uint32_t i = 0; i < alive_count; i++) {
		int at = ol_view_find(view, alive[i].id);

		if (at >= 0 && (uint32_t)at < view->count)
			return false;
	}
	return true;
}

/* Periodic: a replica that has read weights once may be a full one */
uint64_t ol_membership_caught_up(const struct ol_replica *replica)
{
	uint64_t id = replica->succ.told ? replica->succ.member.id : 0;

	if (!replica->periodic)
		id = ol_chain_caught_up(&replica->chain);
	return id != 0 && neighbours_are_linked(replica) ? id : 0;
}

void ol_membership_propose(struct ol_replica *replica, uint64_t now_ns)
{
	struct ol_member alive[OL_MEMBERS_MAX + OL_REPLICAS_MAX];
	struct ol_view_rule rule = {
		.shard_count = replica->opts->shard_count,
		.wanted = replica->opts->replicas,
		.every = replica->opts->replicate_every,
		.refound = replica->opts->refound != 0,
	};
	uint32_t count = alive_list(replica, alive, now_ns);
	struct ol_view next;

	if (replica->coord == NULL || !replica->state.connected ||
	    !ol_view_same(&replica->state.view, &replica->chain.view) ||
	    !may_propose(replica, alive, count) ||
	    !ol_view_next(&replica->chain.view, alive, count, ol_membership_caught_up(replica),
			  &rule, &next))
		return;
	/* only the founder itself proposes a founding view: it surely lives */
	if (next.founded == next.epoch && next.replicas[0].id != replica->self.id)
		return;
	if (replica->proposed_version == replica->state.version + 1 &&
	    memcmp(&next, &replica->proposed, sizeof(next)) == 0 &&
	    now_ns - replica->proposed_ns < PROPOSE_MS * OL_NS_PER_MS)
		return;
	if (replica->proposed_version != replica->state.version + 1)
		ol_word_store(&replica->board->proposed_ns, now_ns);
	replica->proposed = next;
	replica->proposed_version = replica->state.version + 1;
	replica->proposed_ns = now_ns;
	ol_coord_propose(replica->coord, replica->opts->shard, replica->state.version, &next);
}

void ol_membership_suspect(struct ol_replica *replica, enum ol_neighbour who, const char *why,
			   uint64_t now_ns)
{
	/* without a reason the process has ended, which needs no warning */
	enum ol_log_level level = why == NULL ? OL_LOG_INFO : OL_LOG_WARN;
	const struct ol_member *member =
		who == OL_NEIGHBOUR_SUCCESSOR
			? ol_view_successor(&replica->chain.view, replica->self.id)
			: ol_view_predecessor(&replica->chain.view, replica->self.id);

	if (member == NULL || replica->suspects[who] == member->id)
		return;
	ol_log_rated(&replica->breaks, now_ns, level,
		     "server %s: shard %u: %s %s is suspected to be dead: %s", replica->addr,
		     replica->opts->shard,
		     who == OL_NEIGHBOUR_SUCCESSOR ? "successor" : "predecessor", member->addr,
		     why != NULL ? why : "it left");
	ol_counter_add(&replica->board->suspicions, 1);
	replica->suspects[who] = member->id;
	ol_membership_propose(replica, now_ns);
}

/* Keep the suspicion of a replica that stays the neighbour: it has not answered since. Drop a
 * joining replica's suspicion of its tail. */
static void suspects_review(struct ol_replica *replica, const struct ol_view *next)
{
	const struct ol_member *succ = ol_view_successor(next, replica->self.id);
	const struct ol_member *pred = ol_view_predecessor(next, replica->self.id);
	bool joined = replica->chain.role == OL_CHAIN_JOINING;

	if (joined || succ == NULL || succ->id != replica->suspects[OL_NEIGHBOUR_SUCCESSOR])
		replica->suspects[OL_NEIGHBOUR_SUCCESSOR] = 0;
	if (joined || pred == NULL || pred->id != replica->suspects[OL_NEIGHBOUR_PREDECESSOR])
		replica->suspects[OL_NEIGHBOUR_PREDECESSOR] = 0;
}

void ol_membership_on_view(struct ol_replica *replica, const struct ol_view *next)
{
	suspects_review(replica, next);
	memset(replica->absent_ns, 0, sizeof(replica->absent_ns));
	members_bury(replica, next);
}
