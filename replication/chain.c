/* SPDX-License-Identifier: BSD-3-Clause */

/* chain.c -- the state machine of chain.h; README.md gives the reasons */

#include "replication/chain.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static bool role_is_full(enum ol_chain_role role)
{
	return role != OL_CHAIN_NONE && role != OL_CHAIN_JOINING;
}

static bool member_is_same(const struct ol_member *a, const struct ol_member *b)
{
	return a != NULL && b != NULL && a->id == b->id;
}

/* Assert the invariants, which hold after every event, whatever a peer sends */
static void chain_check(const struct ol_chain *chain)
{
	assert(!chain->loaded || chain->applied <= chain->received);
	assert(chain->acked <= chain->received);
	assert(chain->forwarded <= chain->received);
	assert(chain->succ_acked <= chain->received);
	assert(chain->committed <= chain->received);
	assert(chain->floor <= chain->received);
	(void)chain;
}

void ol_chain_init(struct ol_chain *chain, uint64_t id, uint32_t slots)
{
	*chain = (struct ol_chain){ .id = id, .slots = slots, .ack_every = 1 };
}

uint64_t ol_chain_newest_free(const struct ol_chain *chain)
{
	uint64_t free = chain->applied;

	if (!chain->loaded)
		return chain->acked;
	if (role_is_full(chain->role))
		free = min_u64(free, chain->committed);
	if (chain->succ_held)
		free = min_u64(free, chain->succ_acked);
	return free;
}

uint64_t ol_chain_oldest_kept(const struct ol_chain *chain)
{
	uint64_t written = chain->received > chain->slots ? chain->received - chain->slots : 0;

	return max_u64(chain->acked, written);
}

static void forget_successor(struct ol_chain *chain)
{
	chain->succ_up = false;
	chain->succ_full = false;
	chain->succ_held = false;
	chain->succ_told = false;
	chain->handoff = false;
	chain->forwarded = 0;
	chain->succ_acked = 0;
}

/* Forget the replica's state, as it belongs to no history any more */
static void forget_history(struct ol_chain *chain)
{
	chain->loaded = false;
	chain->received = 0;
	chain->applied = 0;
	chain->committed = 0;
	chain->acked = 0;
	chain->floor = 0;
}

/* True if `view` leaves this replica out, or makes it begin anew */
static bool is_removed(const struct ol_chain *chain, const struct ol_view *view,
		       enum ol_chain_role role)
{
	if (chain->role == OL_CHAIN_NONE)
		return false;
	if (role == OL_CHAIN_NONE)
		return true;
	return role_is_full(chain->role) &&
	       (role == OL_CHAIN_JOINING || view->history != chain->view.history);
}

/* Connect to a joining successor only with weights to offer */
static bool can_connect(const struct ol_chain *chain)
{
	return ol_view_successor(&chain->view, chain->id) != NULL &&
	       (chain->succ_full || chain->loaded);
}

int ol_chain_on_view(struct ol_chain *chain, const struct ol_view *view,
		     struct ol_chain_links *ret_links)
{
	enum ol_chain_role role = ol_view_role(view, chain->id);
	const struct ol_member *pred = ol_view_predecessor(&chain->view, chain->id);
	const struct ol_member *succ = ol_view_successor(&chain->view, chain->id);
	const struct ol_member *next_succ = ol_view_successor(view, chain->id);
	bool full = next_succ != NULL && role_is_full(ol_view_role(view, next_succ->id));
	bool was_tail = ol_chain_is_tail(chain);
	bool out, keep_pred, keep_succ;

	*ret_links = (struct ol_chain_links){ .connect = false };
	if (chain->view.epoch != 0 && !ol_view_follows(&chain->view, view))
		return -ESTALE;
	out = is_removed(chain, view, role);
	keep_pred = !out && member_is_same(pred, ol_view_predecessor(view, chain->id));
	/* a successor that was full and now joins again begins anew */
	keep_succ = !out && member_is_same(succ, next_succ) && (full || !chain->succ_full);
	ret_links->fence_predecessor = pred != NULL && !keep_pred;
	ret_links->fence_successor = succ != NULL && !keep_succ;
	if (ret_links->fence_predecessor)
		chain->pred_up = false;
	if (!keep_succ)
		forget_successor(chain);
	if (out || (chain->role == OL_CHAIN_JOINING && view->history != chain->view.history))
		forget_history(chain);
	chain->view = *view;
	chain->role = out ? OL_CHAIN_NONE : role;
	chain_check(chain);
	if (out)
		return OL_CHAIN_REMOVED;
	chain->succ_full = full;
	if (full && keep_succ) {
		/* it has become the tail, and will not acknowledge again what it has applied */
		if (chain->handoff)
			chain->committed = max_u64(chain->committed, chain->succ_acked);
		chain->succ_held = false;
		chain->handoff = false;
	}
	if (ol_chain_is_tail(chain)) {
		/* the tails of views that were skipped had no more than this */
		chain->floor = chain->received;
		if (!was_tail)
			chain->committed = max_u64(chain->committed, chain->applied);
	}
	chain_check(chain);
	ret_links->connect = !keep_succ && can_connect(chain);
	return 0;
}

bool ol_chain_on_load(struct ol_chain *chain, uint64_t version)
{
	bool was_loaded = chain->loaded;

	if (chain->role == OL_CHAIN_JOINING && version < chain->acked)
		return false;
	chain->loaded = true;
	chain->applied = version;
	chain->received = max_u64(chain->received, version);
	chain->acked = max_u64(chain->acked, version);
	if (ol_chain_is_tail(chain)) {
		chain->committed = version;
		chain->floor = chain->received;
	}
	chain_check(chain);
	return !was_loaded && !chain->succ_full && can_connect(chain);
}

int ol_chain_on_hello(struct ol_chain *chain, uint64_t content, uint64_t *ret_have)
{
	bool joins = chain->role == OL_CHAIN_JOINING;

	if (ol_view_predecessor(&chain->view, chain->id) == NULL || (!joins && !chain->loaded))
		return -EPROTO;
	if (joins) {
		/* the tail knows what this replica has applied, and sends the rest again */
		if (chain->applied < content) {
			chain->loaded = false;
			chain->applied = 0; /* the weights are too old, and will be read anew */
		}
		chain->received = chain->loaded ? chain->applied : content;
		chain->acked = chain->received;
	}
	chain_check(chain);
	*ret_have = chain->received;
	return chain->loaded ? 0 : OL_CHAIN_LOAD;
}

void ol_chain_on_predecessor(struct ol_chain *chain, bool up)
{
	chain->pred_up = up;
	chain->ack_due = up;
}

int ol_chain_on_entry(struct ol_chain *chain, uint64_t version)
{
	if (!chain->pred_up || version != chain->received + 1 ||
	    version > chain->acked + chain->slots)
		return -EPROTO;
	chain->received = version;
	chain_check(chain);
	return 0;
}

int ol_chain_on_offer(struct ol_chain *chain, uint64_t content)
{
	if (chain->succ_full || ol_view_successor(&chain->view, chain->id) == NULL)
		return 0;
	if (!chain->loaded || content < ol_chain_oldest_kept(chain) || content > chain->applied)
		return -EPROTO;
	if (!chain->succ_held)
		chain->succ_acked = content;
	chain->succ_held = true;
	chain_check(chain);
	return 0;
}

int ol_chain_on_successor_up(struct ol_chain *chain, uint64_t have)
{
	if (ol_view_successor(&chain->view, chain->id) == NULL || have > chain->received ||
	    have < ol_chain_oldest_kept(chain))
		return -EPROTO;
	if (chain->succ_full && have < chain->committed)
		return -EPROTO;
	if (chain->handoff && have < chain->succ_acked)
		return -EPROTO;
	chain->succ_up = true;
	chain->succ_told = false;
	chain->forwarded = have;
	if (!chain->succ_full && !chain->handoff) {
		chain->succ_held = true;
		/* in a handoff only an ack counts: the joining replica may have a successor by
		 * now, which has less */
		chain->succ_acked = have;
	}
	chain_check(chain);
	return 0;
}

void ol_chain_on_successor_down(struct ol_chain *chain)
{
	chain->succ_up = false;
	chain->succ_told = false;
	if (!chain->handoff)
		chain->succ_held = false;
}

int ol_chain_on_ack(struct ol_chain *chain, uint64_t version)
{
	if (!chain->succ_up || version > chain->forwarded)
		return -EPROTO;
	chain->succ_told = true;
	chain->succ_acked = max_u64(chain->succ_acked, version);
	if (chain->succ_full)
		chain->committed = max_u64(chain->committed, version);
	else
		chain->handoff = true;
	chain_check(chain);
	return 0;
}

int ol_chain_may_order(const struct ol_chain *chain)
{
	if (!ol_chain_is_head(chain) || !chain->loaded)
		return -EPERM;
	if (chain->received != chain->applied || (chain->succ_full && !chain->succ_up) ||
	    chain->received >= ol_chain_newest_free(chain) + chain->slots)
		return -EAGAIN;
	return 0;
}

int ol_chain_order(struct ol_chain *chain, uint64_t *ret_version)
{
	int rc = ol_chain_may_order(chain);

	if (rc != 0)
		return rc;
	*ret_version = ++chain->received;
	chain_check(chain);
	return 0;
}

static bool can_forward(const struct ol_chain *chain)
{
	return chain->succ_up && chain->forwarded < chain->received;
}

static bool can_apply(const struct ol_chain *chain)
{
	uint64_t limit = chain->received;

	if (!chain->loaded || chain->role == OL_CHAIN_NONE)
		return false;
	if (chain->succ_full)
		limit = chain->forwarded;
	else if (chain->handoff)
		limit = min_u64(limit, chain->succ_acked);
	return chain->applied < limit;
}

/* How many slots an ack must free */
static uint64_t ack_worth(const struct ol_chain *chain)
{
	return chain->role == OL_CHAIN_TAIL && !chain->ack_all ? chain->ack_every : 1;
}

static bool can_ack(const struct ol_chain *chain)
{
	return chain->pred_up && chain->loaded &&
	       (chain->ack_due || ol_chain_newest_free(chain) >= chain->acked + ack_worth(chain));
}

/* Everything received is forwarded, applied and acknowledged, as far as there are neighbours: most answers are this one */
static bool is_at_rest(const struct ol_chain *chain)
{
	return chain->applied == chain->received &&
	       (!chain->succ_up || chain->forwarded == chain->received) &&
	       (!chain->pred_up ||
		(chain->received < chain->acked + ack_worth(chain) && !chain->ack_due));
}

bool ol_chain_next_action(const struct ol_chain *chain, unsigned not_now,
			  struct ol_chain_action *ret_action)
{
	if (is_at_rest(chain))
		return false;
	*ret_action = (struct ol_chain_action){ .commits = false };
	if ((not_now & OL_CHAIN_FORWARD) == 0 && can_forward(chain)) {
		ret_action->what = OL_CHAIN_FORWARD;
		ret_action->version = chain->forwarded + 1;
	} else if ((not_now & OL_CHAIN_APPLY) == 0 && can_apply(chain)) {
		ret_action->what = OL_CHAIN_APPLY;
		ret_action->version = chain->applied + 1;
		ret_action->commits = ol_chain_is_tail(chain);
	} else if ((not_now & OL_CHAIN_ACK) == 0 && can_ack(chain)) {
		ret_action->what = OL_CHAIN_ACK;
		ret_action->version = max_u64(ol_chain_newest_free(chain), chain->acked);
	} else {
		return false;
	}
	return true;
}

void ol_chain_on_done(struct ol_chain *chain, const struct ol_chain_action *action)
{
	switch (action->what) {
	case OL_CHAIN_FORWARD:
		chain->forwarded = action->version;
		break;
	case OL_CHAIN_APPLY:
		chain->applied = action->version;
		if (action->commits)
			chain->committed = max_u64(chain->committed, action->version);
		break;
	case OL_CHAIN_ACK:
		chain->acked = action->version;
		chain->ack_due = false;
		chain->ack_all = false;
		break;
	}
	chain_check(chain);
}

void ol_chain_settle(struct ol_chain *chain)
{
	chain->ack_all = chain->loaded && ol_chain_newest_free(chain) > chain->acked;
}

bool ol_chain_serves_push(const struct ol_chain *chain)
{
	return ol_chain_is_head(chain) && chain->loaded && chain->applied == chain->received;
}

bool ol_chain_serves_pull(const struct ol_chain *chain)
{
	return ol_chain_is_tail(chain) && chain->loaded && chain->applied >= chain->floor;
}

uint64_t ol_chain_caught_up(const struct ol_chain *chain)
{
	const struct ol_member *succ;

	/* on a new link it may have to read weights again, until it acknowledges an entry */
	if (!chain->handoff || !chain->succ_told ||
	    chain->succ_acked < max_u64(chain->committed, chain->floor))
		return 0;
	succ = ol_view_successor(&chain->view, chain->id);
	return succ != NULL ? succ->id : 0;
}
