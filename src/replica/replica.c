/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * replica.c -- a server's place in its shard's chain: adopts views, carries out the chain's actions
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/defaults.h"
#include "base/log.h"
#include "base/probe.h"
#include "rdma/order.h"
#include "replica/replica.h"
#include "replication/coord/lease.h"
#include "wire/auth.h"

enum {
	RETRY_MIN_MS = 2, /* between attempts to reach a successor */
	RETRY_MAX_MS = 128,
	WAITING_S = 10, /* between two log lines that it waits for a view */
	KNOCK_MAX_MS = 500, /* until an attempt to reach a neighbour is made anew: in a cut network
			       the manager of connections waits for seconds */
	PROVE_MAX_MS = 1000, /* the same, as a neighbour may make memory: more than OL_HOLD_MS */
	KNOCKS_A_LEASE = 4, /* at least */
	PROOFS_A_LEASE = 2,
	DOUBTS_A_LEASE = 2, /* the rest of it is for a new connection */
};

/* A session outlives heartbeats that are missed: neighbours notice sooner, and an ensemble that is
 * slow for a moment must not cost all replicas their lease at once. */
static uint32_t session_ms(const struct ol_replica *replica)
{
	return ol_lease_session_ms(replica->opts->lease_ms);
}

static bool coord_cancelled(void *arg)
{
	const struct ol_replica *replica = arg;

	return ol_cancelled(replica->opts->cancel_fd);
}

static void coord_log(void *arg, const char *text)
{
	(void)arg;
	ol_log(OL_LOG_WARN, "coordinator: %s", text);
}

/* From the coordination handle's thread */
static void coord_notify(void *arg)
{
	const struct ol_replica *replica = arg;
	uint64_t one = 1;
	ssize_t written = write(replica->wake_fd, &one, sizeof(one));

	(void)written; /* fails only after 2^64 writes */
}

/* An existing chain must be of this job, and each of its replicas of a version that meets this build's */
static int view_check(struct ol_replica *replica, char *err, size_t err_bytes)
{
	const struct ol_member *self = &replica->self, *other = NULL;
	const struct ol_coord_state *state = &replica->state;
	const struct ol_view *view = &state->view;

	if (state->version == 0 || view->epoch == 0)
		return 0;
	for (uint32_t i = 0; other == NULL && i < view->count + view->joining; i++) {
		if (!ol_membership_is_same_job(replica, &view->replicas[i]))
			other = &view->replicas[i];
	}
	if (other == NULL)
		return 0;
	if (!ol_member_meets(other, self)) {
		snprintf(
			err, err_bytes,
			"%s: the chain of shard %u is of another version: server %s speaks protocols "
			"%u to %u, this one %u to %u; upgrade by one version after the other",
			replica->opts->coordinator, replica->opts->shard, other->addr,
			other->oldest, other->proto, self->oldest, self->proto);
		return OL_E_WIRE;
	}
	snprintf(err, err_bytes,
		 "%s: the chain of shard %u is of another job: server %s was started with another "
		 "model, optimizer, number of workers, transport, lease, job key or the like; give "
		 "this job another name, or remove that one, if none of its servers runs (outlast "
		 "coord --remove)",
		 replica->opts->coordinator, replica->opts->shard, other->addr);
	return OL_E_GEOMETRY;
}

/*
 * The newest of its folder's checkpoints is of another history than the first view that it sees: the one before it is
 * registered, if there is one
 */
static void folder_warn(struct ol_replica *replica, const struct ol_view *view)
{
	const uint32_t epoch = replica->self.folder_epoch;
	const char *then = "once this server is registered the chain goes on above it";

	if (replica->folder_warned || replica->chain.view.epoch != 0 || view->epoch == 0 ||
	    epoch < view->founded || replica->folder_history == 0 ||
	    replica->folder_history == view->history || view->history == replica->self.id)
		return;
	replica->folder_warned = true;
	if (epoch < view->epoch)
		then = "what the chain saves is above it";
	else if (epoch - view->epoch >= OL_EPOCH_LEAP_MAX)
		then = "too far ahead for the chain to follow, so move them away";
	ol_log(OL_LOG_WARN,
	       "server %s: shard %u: its folder has checkpoints of epoch %u, of another history than the "
	       "chain's, which is at epoch %u: %s%s",
	       replica->addr, replica->opts->shard, epoch, view->epoch, then,
	       replica->self.saved_version == OL_SAVED_FOREIGN && replica->self.saved_epoch == 0
		       ? "; it founds no chain with them"
		       : "");
}

int ol_replica_open(struct ol_replica *replica, char *err, size_t err_bytes)
{
	struct ol_coord_opts copts = {
		.addr = replica->opts->coordinator,
		.job = replica->opts->job != NULL ? replica->opts->job : OL_DEFAULT_JOB,
		.shard_count = replica->opts->shard_count,
		.watched = UINT64_C(1) << replica->opts->shard,
		.lease_ms = session_ms(replica),
		.lease_whole = replica->opts->refound != 0,
		.open_timeout_ms = replica->opts->coordinator_timeout_ms,
		.mac = ol_auth_coord_mac,
		.owner_mac = ol_auth_coord_owner_mac,
		.mac_arg = replica->job_key,
		.keyless = replica->job_key[0] == '\0',
		.notify = coord_notify,
		.notify_arg = replica,
		.cancelled = coord_cancelled,
		.cancelled_arg = replica,
		.log = coord_log,
	};
	int rc;

	ol_chain_init(&replica->chain, replica->self.id, replica->ring.slots);
	/* parts of a payload wait for acks (OL_PARTED_ENTRIES), and beside one an ack costs nothing */
	if (ol_layout_vector_bytes(replica->geo) <= OL_PART_BYTES && replica->ring.slots >= 4)
		replica->chain.ack_every = replica->ring.slots / 4;
	replica->succ.pinned = -1;
	replica->dialer = (struct ol_dialer){ .ops = replica->ops,
					      .xport = replica->xport,
					      .job_key = replica->job_key,
					      .inbox = replica->inbox,
					      .retry_min_ms = RETRY_MIN_MS,
					      .retry_max_ms = RETRY_MAX_MS,
					      .salt = (uint32_t)replica->self.id };
	ol_word_store(&replica->board->replica, replica->self.id);
	ol_word_store(&replica->board->ring_slots, replica->ring.slots);
	rc = ol_slab_create(OL_PAGE_BYTES, replica->node, false, &replica->work);
	if (rc == 0)
		rc = replica->ops->reg(replica->xport, NULL, replica->work, 0, OL_PAGE_BYTES,
				       OL_XPORT_ACCESS_LOCAL, &replica->work_region);
	if (rc != 0) {
		snprintf(err, err_bytes, "no memory for heartbeats: %s", ol_strerror(rc));
		return rc;
	}
	rc = ol_coord_open(&copts, &replica->coord, err, err_bytes);
	if (rc != 0)
		return rc;
	ol_coord_look(replica->coord, replica->opts->shard, &replica->state);
	rc = view_check(replica, err, err_bytes);
	if (rc == 0)
		rc = replica->host->folder(replica->arg, err, err_bytes);
	if (rc != 0)
		return rc;
	if (replica->state.version != 0)
		folder_warn(replica, &replica->state.view);
	/* older than what the chain saves from now on, whatever its next epochs are */
	if (replica->state.version != 0 && replica->folder_history == replica->state.view.history)
		replica->self.folder_epoch = 0;
	return ol_coord_join(replica->coord, replica->opts->shard, &replica->self);
}

void ol_replica_leave(struct ol_replica *replica)
{
	ol_coord_close(replica->coord);
	replica->coord = NULL;
}

void ol_replica_close(struct ol_replica *replica)
{
	ol_replica_leave(replica);
	ol_successor_drop(replica);
	ol_predecessor_forget(replica);
	if (replica->work_region != NULL)
		replica->ops->dereg(replica->work_region);
	ol_slab_destroy(replica->work);
	if (replica->ring.ops != NULL)
		ol_ring_close(&replica->ring);
}

void ol_replica_end(struct ol_replica *replica, int rc)
{
	if (replica->end_rc == 0)
		replica->end_rc = rc;
}

static void view_log(const struct ol_replica *replica)
{
	const struct ol_view *view = &replica->chain.view;
	const struct ol_member *pred = ol_view_predecessor(view, replica->self.id);
	const struct ol_member *succ = ol_view_successor(view, replica->self.id);

	ol_log(OL_LOG_INFO, "server %s: shard %u, epoch %u: %s of %u%s%s%s%s%s", replica->addr,
	       replica->opts->shard, view->epoch, ol_chain_role_str(replica->chain.role),
	       view->count, view->joining ? " and 1 joining" : "",
	       pred != NULL ? "; predecessor " : "", pred != NULL ? pred->addr : "",
	       succ != NULL ? "; successor " : "", succ != NULL ? succ->addr : "");
}

/*
 * If this server founds the chain, first or anew: find the first weights. The founding view may have been
 * followed by an operator's before it was adopted. A process founds one history at most.
 */
static void chain_found(struct ol_replica *replica)
{
	char err[256];
	int rc;

	if (replica->founds || replica->chain.view.history != replica->self.id ||
	    replica->chain.role != OL_CHAIN_ONLY)
		return;
	replica->founds = true;
	rc = replica->host->found(replica->arg, err, sizeof(err));
	if (rc == 0)
		return;
	ol_log(OL_LOG_ERROR, "server %s: %s", replica->addr, err);
	ol_replica_end(replica, rc);
}

/* The coordinator has a view that is neither this replica's nor follows it: it lost its memory */
static bool coord_contradicts(const struct ol_replica *replica)
{
	const struct ol_view *ours = &replica->chain.view, *theirs = &replica->state.view;

	return ours->epoch != 0 && replica->state.version != 0 &&
	       (theirs->origin != ours->origin ||
		(theirs->epoch == ours->epoch && !ol_view_same(ours, theirs)));
}

/* True if this replica has the committed state */
static bool holds_committed(const struct ol_replica *replica)
{
	return replica->chain.role != OL_CHAIN_NONE && replica->chain.role != OL_CHAIN_JOINING &&
	       replica->chain.loaded;
}

/*
 * A replica that has the committed state stays in its view, as the other view's chain lacks that
 * state. Workers that know this history stay with it. A replica without it ends, and begins again
 * as a new process.
 */
static void contradiction_handle(struct ol_replica *replica)
{

	if (holds_committed(replica)) {
		if (!replica->contradicted)
			ol_log(OL_LOG_ERROR,
			       "server %s: shard %u: the coordinator has forgotten this chain (epoch %u, "
			       "history %016llx) and has another: this server goes on with what it "
			       "holds, and its chain cannot change any more; begin the job again",
			       replica->addr, replica->opts->shard, replica->chain.view.epoch,
			       (unsigned long long)replica->chain.view.history);
		replica->contradicted = true;
		return;
	}
	ol_log(OL_LOG_WARN,
	       "server %s: shard %u: the coordinator has forgotten the chain of epoch %u and has "
	       "another: this server holds nothing of it and ends",
	       replica->addr, replica->opts->shard, replica->chain.view.epoch);
	ol_replica_end(replica, OL_E_FENCED);
}

/*
 * The job was removed, or the coordinator has lost it. A server that was in no chain holds nothing, and would
 * wait for ever; as another process it begins the job anew.
 */
static bool waits_in_vain(struct ol_replica *replica)
{
	if (!ol_coord_is_lost(&replica->state) || replica->chain.role != OL_CHAIN_NONE ||
	    replica->proposed.founded != 0)
		return false;
	ol_log(OL_LOG_WARN,
	       "server %s: shard %u: the coordinator does not keep this job any more, and this server "
	       "holds nothing of it: it ends; started again, it begins the job anew",
	       replica->addr, replica->opts->shard);
	ol_replica_end(replica, OL_E_FENCED);
	return true;
}

static void connect_successor(struct ol_replica *replica, uint64_t now_ns)
{

	ol_successor_connect(replica, ol_view_successor(&replica->chain.view, replica->self.id),
			     now_ns);
}

static void view_adopt(struct ol_replica *replica, uint64_t now_ns)
{
	const struct ol_view *view = &replica->state.view;
	enum ol_chain_role was = replica->chain.role;
	struct ol_chain_links links;
	bool leaves = view->left == replica->self.id;
	int rc;

	if (replica->state.version == 0 ||
	    (replica->chain.view.epoch != 0 && !ol_view_follows(&replica->chain.view, view)))
		return;
	replica->now_ns = now_ns;
	replica->adopted_ns = now_ns;
	folder_warn(replica, view);
	ol_membership_on_view(replica, view);
	rc = ol_chain_on_view(&replica->chain, view, &links);
	ol_probe6(view_adopted, replica->opts->shard, view->epoch, replica->chain.role, view->count,
		  replica->chain.received, replica->chain.committed);
	if (links.fence_predecessor)
		ol_predecessor_drop(replica);
	if (links.fence_successor)
		ol_successor_drop(replica);
	if (replica->ring.oldest > replica->chain.received + 1)
		replica->ring.oldest = 0; /* another history: versions begin again */
	ol_counter_add(&replica->board->views, 1);
	ol_word_store(&replica->board->adopted_ns, now_ns);
	if (rc == OL_CHAIN_REMOVED) {
		ol_log(leaves ? OL_LOG_INFO : OL_LOG_WARN,
		       "server %s: shard %u, epoch %u: the chain goes on without this server, "
		       "which %s",
		       replica->addr, replica->opts->shard, view->epoch,
		       leaves ? "was ordered to leave" : "ends");
		ol_replica_end(replica, leaves ? OL_REPLICA_LEFT : OL_E_FENCED);
		return;
	}
	if (replica->chain.role != OL_CHAIN_NONE)
		ol_word_store(&replica->board->epoch, view->epoch);
	ol_word_store(&replica->board->role, (uint64_t)replica->chain.role);
	view_log(replica);
	replica->host->viewed(replica->arg, was);
	if (links.connect)
		connect_successor(replica, now_ns);
	chain_found(replica);
}

bool ol_replica_has_news(const struct ol_replica *replica)
{
	return ol_coord_generation(replica->coord) != replica->generation;
}

void ol_replica_view_read(struct ol_replica *replica, uint64_t now_ns)
{
	uint64_t generation = ol_coord_generation(replica->coord);

	if (generation == replica->generation)
		return;
	replica->generation = generation;
	ol_coord_look(replica->coord, replica->opts->shard, &replica->state);
	if (waits_in_vain(replica))
		return;
	if (coord_contradicts(replica))
		contradiction_handle(replica);
	else
		view_adopt(replica, now_ns);
	if (replica->end_rc != 0)
		return;
	ol_predecessor_tick(replica, now_ns);
	ol_replica_progress(replica, now_ns);
	ol_membership_propose(replica, now_ns);
}

bool ol_replica_serves(const struct ol_replica *replica, enum ol_wire_role role)
{
	const struct ol_chain *chain = &replica->chain;

	switch (role) {
	case OL_ROLE_WORKER:
		return ol_chain_serves_push(chain);
	case OL_ROLE_READER:
		return ol_chain_serves_pull(chain);
	case OL_ROLE_OBSERVER:
		return true; /* observers read the board of any server */
	case OL_ROLE_REPLICA:
		break;
	}
	return false; /* predecessor.c welcomes it */
}

bool ol_replica_waits(const struct ol_replica *replica)
{
	struct ol_chain_action action;

	return !replica->periodic && ol_chain_next_action(&replica->chain, 0, &action);
}

static int carry_out(struct ol_replica *replica, const struct ol_chain_action *action)
{
	int rc = -EAGAIN;

	switch (action->what) {
	case OL_CHAIN_FORWARD:
		rc = ol_successor_forward(replica, action->version);
		break;
	case OL_CHAIN_APPLY:
		rc = replica->host->apply(replica->arg, action->version);
		break;
	case OL_CHAIN_ACK:
		rc = ol_replica_is_leased(replica) ? ol_predecessor_ack(replica, action->version)
						   : OL_E_FENCED;
		break;
	}
	if (rc != 0)
		return rc;
	ol_chain_on_done(&replica->chain, action);
	if (action->commits && ol_replica_is_leased(replica)) {
		ol_probe2(entry_committed, replica->opts->shard, action->version);
		replica->host->committed(replica->arg, action->version);
	}
	return 0;
}

static void chain_progress(struct ol_replica *replica)
{
	struct ol_chain_action action;
	unsigned not_now = 0;

	while (replica->end_rc == 0 && ol_chain_next_action(&replica->chain, not_now, &action)) {
		if (carry_out(replica, &action) != 0)
			not_now |= action.what;
	}
	if (replica->end_rc == 0)
		ol_payload_progress(replica);
}

OL_HOT void ol_replica_progress(struct ol_replica *replica, uint64_t now_ns)
{
	struct ol_board *board = replica->board;
	uint64_t used;

	replica->now_ns = now_ns;
	if (replica->periodic)
		ol_successor_offer(replica, now_ns);
	else
		chain_progress(replica);
	if (replica->end_rc != 0)
		return;
	if (ol_membership_caught_up(replica) != 0)
		ol_membership_propose(replica, now_ns);
	used = replica->chain.received - replica->chain.committed;
	ol_word_store(&board->received, replica->chain.received);
	ol_word_store(&board->committed, replica->chain.committed);
	ol_word_store(&board->ring_used, used);
	replica->host->progressed(replica->arg);
}

void ol_replica_on_ready(struct ol_replica *replica, uint64_t version, uint64_t now_ns)
{
	struct ol_board *board = replica->board;

	if (replica->load_ns != 0) {
		ol_counter_add(&board->resync_bytes, ol_layout_content_bytes(replica->geo));
		ol_word_store(&board->resync_ns, now_ns - replica->load_ns);
		ol_log(replica->periodic ? OL_LOG_DEBUG : OL_LOG_INFO,
		       "server %s: shard %u: read version %llu of its predecessor", replica->addr,
		       replica->opts->shard, (unsigned long long)version);
	}
	replica->load_ns = 0;
	if (ol_chain_on_load(&replica->chain, version))
		connect_successor(replica, now_ns);
	if (replica->periodic)
		replica->pred.ack_due = ol_predecessor_ack(replica, version) != 0;
	ol_replica_progress(replica, now_ns);
}

/*
 * Without a lease another server may have founded the chain anew. A new session after a lost one
 * does not help: a spare that saw the end, and not yet the return, counts from the end.
 */
void ol_replica_lease_check(struct ol_replica *replica, uint64_t now_ns)
{
	bool at_stake = replica->chain.role != OL_CHAIN_NONE || replica->proposed.founded != 0;

	if (!replica->opts->refound)
		return;
	ol_coord_look(replica->coord, replica->opts->shard, &replica->state);
	if (!at_stake)
		replica->losses = replica->state.losses;
	if (replica->chain.role == OL_CHAIN_NONE && replica->losses == replica->state.losses)
		return;
	if (now_ns < replica->state.lease_ns && replica->losses == replica->state.losses)
		return;
	ol_log(OL_LOG_WARN,
	       "server %s: shard %u: its session with the coordinator has ended, which lasts for "
	       "%u ms without an answer: it ends",
	       replica->addr, replica->opts->shard, session_ms(replica));
	ol_replica_end(replica, OL_E_FENCED);
}

bool ol_replica_is_leased(struct ol_replica *replica)
{
	uint64_t now_ns;

	if (replica->end_rc != 0 || !replica->opts->refound)
		return replica->end_rc == 0;
	now_ns = ol_clock_ns();
	if (now_ns >= replica->state.lease_ns)
		ol_replica_lease_check(replica, now_ns);
	return replica->end_rc == 0;
}

static void waiting_log(struct ol_replica *replica, uint64_t now_ns)
{
	uint32_t here = replica->state.member_count;

	if (replica->chain.view.epoch != 0 ||
	    (replica->waiting_ns != 0 && now_ns - replica->waiting_ns < WAITING_S * OL_NS_PER_S))
		return;
	if (replica->waiting_ns != 0 && here < replica->opts->replicas)
		ol_log(OL_LOG_WARN,
		       "server %s: shard %u: %u of %u servers are here; the chain begins with %u more",
		       replica->addr, replica->opts->shard, here, replica->opts->replicas,
		       replica->opts->replicas - here);
	replica->waiting_ns = now_ns;
}

/* True if a full replica is registered: it proposes views */
static bool somebody_proposes(const struct ol_replica *replica)
{
	const struct ol_view *view = &replica->chain.view;

	for (uint32_t i = 0; i < replica->state.member_count; i++) {
		int at = ol_view_find(view, replica->state.members[i].id);

		if (at >= 0 && (uint32_t)at < view->count)
			return true;
	}
	return false;
}

/*
 * If the chain lacks a replica and does not admit this server, the server was removed from a view
 * that it never heard of. Only a new process would be admitted, so it ends.
 */
static void passed_over_check(struct ol_replica *replica, uint64_t now_ns)
{
	const struct ol_view *view = &replica->chain.view;

	if (replica->chain.role != OL_CHAIN_NONE || view->epoch == 0 || view->joining ||
	    view->count >= view->wanted || !replica->state.connected ||
	    !somebody_proposes(replica) ||
	    now_ns - replica->adopted_ns < session_ms(replica) * OL_NS_PER_MS)
		return;
	ol_log(OL_LOG_WARN,
	       "server %s: shard %u, epoch %u: the chain has %u of %u replicas and does not admit "
	       "this server, which heard nothing when a view left it out: it ends, and one that "
	       "is started anew is admitted",
	       replica->addr, replica->opts->shard, view->epoch, view->count, view->wanted);
	ol_replica_end(replica, OL_E_FENCED);
}

void ol_replica_tick(struct ol_replica *replica, uint64_t now_ns)
{
	ol_replica_view_read(replica, now_ns);
	if (replica->end_rc == 0)
		ol_replica_lease_check(replica, now_ns);
	if (replica->end_rc == 0)
		passed_over_check(replica, now_ns);
	if (replica->end_rc != 0)
		return;
	ol_log_rate_tick(&replica->breaks, now_ns);
	ol_successor_tick(replica, now_ns);
	ol_predecessor_tick(replica, now_ns);
	ol_chain_settle(&replica->chain);
	ol_replica_progress(replica, now_ns);
	ol_membership_propose(replica, now_ns);
	waiting_log(replica, now_ns);
}

uint64_t ol_replica_lease_ns(const struct ol_replica *replica)
{
	return replica->opts->lease_ms * OL_NS_PER_MS;
}

bool ol_replica_gave_up(const struct ol_replica *replica, const struct ol_dial *dial,
			uint64_t now_ns)
{
	bool knocks = dial->state == OL_DIAL_KNOCKING;
	uint64_t most_ns = (knocks ? KNOCK_MAX_MS : PROVE_MAX_MS) * OL_NS_PER_MS;
	uint64_t part_ns =
		ol_replica_lease_ns(replica) / (knocks ? KNOCKS_A_LEASE : PROOFS_A_LEASE);

	return now_ns - dial->since_ns > (part_ns < most_ns ? part_ns : most_ns);
}

static uint64_t beat_off(enum ol_neighbour who)
{
	return (uint64_t)who * OL_LINE_BYTES;
}

static struct ol_watch *watch_of(struct ol_replica *replica, enum ol_neighbour who)
{
	return who == OL_NEIGHBOUR_SUCCESSOR ? &replica->succ.dial.watch : &replica->pred.watch;
}

enum ol_watch_says ol_replica_watch(struct ol_replica *replica, enum ol_neighbour who,
				    struct ol_xport_conn *conn, struct ol_xport_rkey board,
				    uint64_t now_ns)
{
	struct ol_watch_with with = {
		.ops = replica->ops,
		.conn = conn,
		.region = replica->work_region,
		.off = beat_off(who),
		.board = board,
		.cookie = OL_REPLICA_COOKIE_BEAT,
		.lease_ns = replica->opts->lease_ms * OL_NS_PER_MS,
		.doubt_ns = replica->opts->lease_ms * OL_NS_PER_MS / DOUBTS_A_LEASE,
	};

	return ol_watch_tick(watch_of(replica, who), &with, now_ns);
}

void ol_replica_on_beat(struct ol_replica *replica, enum ol_neighbour who, int status,
			uint64_t now_ns)
{
	const uint8_t *work = replica->work->addr;
	const _Atomic uint64_t *word =
		(const _Atomic uint64_t *)(const void *)(work + beat_off(who));

	ol_watch_on_beat(watch_of(replica, who), status, ol_word_load(word), now_ns);
}
