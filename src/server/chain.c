/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain.c -- a server as the host of a replica: makes entries of steps, weights of entries, and
 * tells workers of commits
 *
 *	head    batch -> gathered into the ring -> forwarded -> applied
 *	others  ring -> forwarded -> applied
 *	tail    applied -> an ack to each worker whose gradient is in it
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/probe.h"
#include "base/status.h"
#include "rdma/order.h"
#include "server/serve.h"
#include "wire/auth.h"

enum {
	PARTED_MIN = 2 * OL_PART_FLOATS, /* of a payload that is worth parts */
	PIECE_FLOATS = 4 * OL_PART_FLOATS, /* summed up, forwarded and applied at a time */
};

/* ---- called by the replica ---- */

static struct ol_session *predecessor_of(struct ol_server *server)
{
	return &server->sessions.all[server->sessions.replica_first];
}

static struct ol_replica_content snapshot_newest(void *arg)
{
	const struct ol_server *server = arg;

	return (struct ol_replica_content){ .version = server->store.version,
					    .snapshot = server->store.snapshot };
}

/* The predecessor's snapshot is a mirror like a worker's */
static void predecessor_load(void *arg, const struct ol_chain_hello *hello, uint64_t now_ns)
{
	struct ol_server *server = arg;
	struct ol_session *session = predecessor_of(server);
	uint64_t table = ol_layout_table_bytes(&server->store.geo);
	uint64_t vector = ol_layout_vector_bytes(&server->store.geo);

	session->hello = (struct ol_hello){
		.mirror = hello->board,
		.mirror_epoch = hello->content_epoch,
		.mirror_version = hello->content_version,
		.table_off = hello->content_off,
		.weights_off = hello->content_off + table,
		.state_off = hello->content_off + table + vector,
	};
	ol_restore_from_session(&server->restoring, session);
	ol_serve_restore(server, now_ns);
}

/* Apply floats first … entering.first of the next entry's payload */
static void entering_go_on(struct ol_server *server, uint64_t first)
{
	struct ol_entering *entering = &server->entering;
	const struct ol_span span = { first, entering->first - first };

	ol_turn_spend(&server->turn, OL_TURN_APPLY, span.len * OL_ELEM_BYTES);
	ol_store_enter_part(&server->store,
			    ol_ring_payload(&server->replica.ring, entering->version), span,
			    entering->target);
	entering->first = first;
}

static void entering_begin(struct ol_server *server, uint64_t version, uint64_t stamp, int target)
{
	server->entering = (struct ol_entering){ .version = version,
						 .stamp = stamp,
						 .first = server->store.geo.shard_len,
						 .target = (unsigned)target };
	ol_store_begin(&server->store, (unsigned)target);
}

static void payload_apply(void *arg, const struct ol_payload *payload)
{
	struct ol_server *server = arg;
	int target;

	if (payload->version != server->store.version + 1 || ol_store_needs_whole(&server->store) ||
	    !ol_turn_has_room(&server->turn, OL_TURN_APPLY))
		return;
	if (server->entering.stamp != payload->stamp) {
		target = ol_ingest_spare(&server->ingest);
		if (target < 0)
			return;
		if (server->store.next != NULL)
			ol_store_rule_next(&server->store, NULL);
		entering_begin(server, payload->version, payload->stamp, target);
	}
	if (payload->first < server->entering.first)
		entering_go_on(server, payload->first);
}

static OL_HOT int entry_apply(void *arg, uint64_t version)
{
	struct ol_server *server = arg;
	struct ol_replica *replica = &server->replica;
	struct ol_store *store = &server->store;
	const struct ol_entry_head *head = ol_ring_head(&replica->ring, version);
	const struct ol_entry_part *parts = ol_ring_parts(&replica->ring, version);
	const struct ol_rule *rule = ol_ring_rule(&replica->ring, version);
	int target;

	if (!ol_turn_has_room(&server->turn, OL_TURN_APPLY))
		return -EAGAIN;
	/* what was entered before the entry was whole was entered by the rule before */
	if (server->entering.version != version || rule != NULL ||
	    server->entering.stamp <= replica->void_stamp) {
		target = ol_ingest_target(&server->ingest, replica->now_ns);
		if (target < 0)
			return -EAGAIN;
		if (rule != NULL || store->next != NULL)
			ol_store_rule_next(store, rule);
		entering_begin(server, version, 0, target);
	}
	entering_go_on(server, 0);
	for (uint32_t i = 0; i < head->parts; i++) {
		server->ingest.contributions[i] = (struct ol_contribution){
			.seq = parts[i].seq,
			.grads = parts[i].grads,
			.worker = parts[i].worker,
		};
	}
	ol_store_publish(store, server->ingest.contributions, head->parts, server->entering.target);
	ol_ingest_updated(&server->ingest, head->parts,
			  version == server->ordered ? &store->norms : NULL, replica->now_ns);
	if (ol_word_load(&store->board->first_applied_ns) == 0)
		ol_word_store(&store->board->first_applied_ns, replica->now_ns);
	ol_times_apply_entry(&server->ingest.times, version, head->parts);
	for (uint32_t i = 0; i < head->parts; i++) {
		struct ol_slot_state state = {
			.base_version = parts[i].base_version,
			.samples = parts[i].samples,
			.grads = parts[i].grads,
			.queued = parts[i].queued != 0,
		};

		memcpy(&state.loss, &parts[i].loss_bits, sizeof(state.loss));
		ol_ingest_count(&server->ingest, &state, version - 1);
		ol_probe5(push_applied, server->opts.shard, parts[i].worker, parts[i].seq, version,
			  replica->chain.role);
	}
	ol_probe2(entry_applied, server->opts.shard, version);
	ol_serve_save(server, replica->now_ns);
	return 0;
}

/* The session on which a worker gets acks of commits: the one on which it pushes, if this is a
 * chain of one; else its reader session, which ends once it pushes here */
static struct ol_session *mailbox_of(struct ol_server *server, uint32_t worker)
{
	struct ol_session *session = &server->sessions.all[worker];

	if (server->replica.chain.role == OL_CHAIN_ONLY && session->state == OL_SESSION_LIVE)
		return session;
	session = &server->sessions.all[server->sessions.reader_first + worker];
	return session->state == OL_SESSION_LIVE ? session : NULL;
}

static void commit_tell(void *arg, uint64_t version)
{
	struct ol_server *server = arg;
	struct ol_replica *replica = &server->replica;
	const struct ol_entry_head *head = ol_ring_head(&replica->ring, version);
	const struct ol_entry_part *parts = ol_ring_parts(&replica->ring, version);

	for (uint32_t i = 0; i < head->parts; i++) {
		struct ol_session *session = mailbox_of(server, parts[i].worker);
		struct ol_slot_state *state;

		ol_probe4(push_committed, server->opts.shard, parts[i].worker, parts[i].seq,
			  version);
		/* a worker that connects later learns it from its welcome; a gradient of zeros (follow.h) is
		 * nobody's */
		if (session == NULL || parts[i].grads == 0 || parts[i].slot > server->opts.window)
			continue;
		state = &session->slots[parts[i].slot];
		/* The worker's next push is there: the tail of a view that this server has yet to see
		 * has told it of this one. */
		if (state->busy)
			continue;
		state->seq = parts[i].seq;
		state->status = 0;
		ol_ingest_ack(&server->ingest, session, parts[i].slot, replica->now_ns);
	}
	ol_serve_save(server, replica->now_ns);
}

/*
 * End the connections that the new role no longer allows. If another server has become the tail, no
 * peer may read weights here, as entries applied from now on are not committed. A head that is left
 * alone has committed all its entries, and a new welcome says so.
 */
static void sessions_review(struct ol_server *server, enum ol_chain_role was)
{
	enum ol_chain_role role = server->replica.chain.role;

	if (was == role ||
	    (was != OL_CHAIN_ONLY && was != OL_CHAIN_TAIL &&
	     !(was == OL_CHAIN_HEAD && role == OL_CHAIN_ONLY)) ||
	    (was == OL_CHAIN_TAIL && role == OL_CHAIN_ONLY))
		return;
	for (uint32_t i = 0; i < server->sessions.count; i++) {
		struct ol_session *session = &server->sessions.all[i];

		if (session->state == OL_SESSION_LIVE && session->role != OL_ROLE_REPLICA)
			ol_serve_end(server, session, NULL, false);
	}
}

static void periodic_viewed(void *arg, enum ol_chain_role was)
{
	struct ol_server *server = arg;
	const struct ol_chain *chain = &server->replica.chain;

	(void)was;
	if (chain->role != OL_CHAIN_NONE)
		server->opts.epoch = chain->view.epoch;
}

static void strict_viewed(void *arg, enum ol_chain_role was)
{
	periodic_viewed(arg, was);
	sessions_review(arg, was);
}

static int chain_found(void *arg, char *err, size_t err_bytes)
{
	struct ol_server *server = arg;
	const struct ol_view *view = &server->replica.chain.view;
	int rc = ol_serve_begin(server, err, err_bytes);

	server->founded_ns = ol_clock_ns();
	/* its first history: nothing can be newer than the first weights */
	server->restoring.sources.begins = view->history == view->origin;
	return rc;
}

static void waiting_welcome(void *arg)
{
	ol_serve_welcome_all(arg);
}

static void predecessor_drop(void *arg, const char *why, bool lies)
{
	ol_serve_end(arg, predecessor_of(arg), why, lies);
}

/*
 * Which of its folder's checkpoints it would found a chain with. Those of the history of the chain that the coordinator has, or of
 * what that began with; of a chain that the coordinator does not know, the newest one's. What lies behind a header is not read: that
 * may take longer than others wait for this server.
 */
static void saved_look(struct ol_server *server, const struct ol_ckpt_meta *newest)
{
	struct ol_replica *replica = &server->replica;
	const struct ol_server_opts *opts = &server->opts;
	const struct ol_view *view = &replica->state.view;
	struct ol_ckpt_meta meta = ol_save_meta(&server->saving), any = meta;
	const bool known = replica->state.version != 0 && view->epoch != 0;
	const bool is_there =
		ol_ckpt_newest_sound(opts->checkpoint_dir, opts->restore_version, &any);

	if (known) {
		meta.of_history = view->history;
		meta.of_founded = view->founded;
		meta.of_epoch = newest->epoch;
	} else if (is_there) {
		meta.of_history = any.history;
		meta.of_founded = any.founded;
		meta.of_epoch = any.epoch;
	}
	replica->of_history = meta.of_history;
	replica->of_founded = meta.of_founded;
	replica->of_epoch = meta.of_epoch;
	if (ol_ckpt_newest_sound(opts->checkpoint_dir, opts->restore_version, &meta)) {
		replica->self.saved_epoch = meta.epoch;
		replica->self.saved_version = meta.version;
	} else if (known && is_there && opts->restore == OL_RESTORE_CHECKPOINT &&
		   any.history != 0 && any.history != view->history && any.epoch >= view->founded) {
		replica->self.saved_version = OL_SAVED_FOREIGN;
	}
}

/* A view has an epoch above the checkpoints in the folders of its members, so that those to come are newer */
static int folder_look(void *arg, char *err, size_t err_bytes)
{
	struct ol_server *server = arg;
	struct ol_replica *replica = &server->replica;
	const struct ol_server_opts *opts = &server->opts;
	struct ol_ckpt_meta newest = ol_save_meta(&server->saving), sound = newest;

	if (opts->checkpoint_dir == NULL || !ol_ckpt_newest(opts->checkpoint_dir, &newest))
		return 0;
	if (newest.epoch >= OL_FOLDER_EPOCH_MAX) {
		snprintf(
			err, err_bytes,
			"%s: the newest checkpoint of shard %u is of epoch %u, behind which there is no room for "
			"others: move it away, or give another folder",
			opts->checkpoint_dir, opts->shard, newest.epoch);
		return OL_E_NO_CHECKPOINT;
	}
	replica->self.folder_epoch = newest.epoch;
	if (ol_ckpt_newest_sound(opts->checkpoint_dir, 0, &sound) && sound.epoch == newest.epoch &&
	    sound.version == newest.version)
		replica->folder_history = sound.history;
	if (opts->restore == OL_RESTORE_CHECKPOINT || opts->restore == OL_RESTORE_FRESHEST)
		saved_look(server, &newest);
	return 0;
}

static const struct ol_replica_host strict_host = {
	.folder = folder_look,
	.content = snapshot_newest,
	.load = predecessor_load,
	.apply = entry_apply,
	.apply_part = payload_apply,
	.committed = commit_tell,
	.viewed = strict_viewed,
	.found = chain_found,
	.progressed = waiting_welcome,
	.drop = predecessor_drop,
};

static const struct ol_replica_host periodic_host = {
	.folder = folder_look,
	.content = snapshot_newest,
	.load = predecessor_load,
	.apply = entry_apply,
	.apply_part = payload_apply,
	.committed = commit_tell,
	.viewed = periodic_viewed,
	.found = chain_found,
	.progressed = waiting_welcome,
	.drop = predecessor_drop,
};

/* ---- opening ---- */

/* A digest of the job key and the options on which replicas of a chain must agree */
static int job_digest(const struct ol_server *server, uint64_t *ret_number)
{
	const struct ol_server_opts *opts = &server->opts;
	struct {
		struct ol_geometry geo;
		struct ol_update_rule rule;
		struct ol_rule first;
		uint32_t workers;
		uint32_t replay;
		uint32_t every;
		uint32_t slots;
		uint32_t wait;
		uint32_t wait_k;
		uint32_t grace_ms;
		uint32_t late;
		uint32_t late_steps;
		uint32_t staleness;
		uint32_t refound; /* who waits for leases, and how long: */
		uint32_t lease_ms;
		float clip;
		char transport[16];
	} all;
	uint8_t mac[OL_MAC_BYTES];
	uint64_t number;
	int rc;

	memset(&all, 0, sizeof(all)); /* padding too */
	all.geo = server->store.geo;
	all.rule = opts->rule;
	all.first = server->store.first;
	all.workers = opts->workers;
	all.replay = (uint32_t)opts->replay;
	all.wait = (uint32_t)opts->wait;
	all.wait_k = opts->wait_k;
	all.grace_ms = opts->grace_ms;
	all.late = (uint32_t)opts->late;
	all.late_steps = opts->late_steps;
	all.staleness = opts->staleness;
	all.every = opts->replicate_every;
	all.slots = server->replica.ring.slots;
	all.refound = opts->refound != 0;
	all.lease_ms = opts->lease_ms;
	all.clip = opts->replay_clip;
	snprintf(all.transport, sizeof(all.transport), "%s", server->ops->name);
	rc = ol_auth_mac(server->job_key, &all, sizeof(all), mac);
	if (rc != 0)
		return rc;
	memcpy(&number, mac, sizeof(number));
	*ret_number = number | 1;
	return 0;
}

static int chain_open(struct ol_server *server, char *err, size_t err_bytes)
{
	struct ol_replica *replica = &server->replica;
	char text[OL_STATUS_TEXT_MAX];
	int rc;

	server->restoring.chain = server->restoring.active = true;
	rc = ol_ring_open(&replica->ring, server->ops, server->xport, &server->memory,
			  &server->store.geo, server->caps.numa_node);
	if (rc != 0) {
		snprintf(err, err_bytes, "no memory for the ring of the chain: %s",
			 ol_status_text(rc, text));
		return rc;
	}
	replica->self = (struct ol_member){ .id = server->incarnation,
					    .proto = ol_wire_own.proto,
					    .oldest = ol_wire_own.oldest,
					    .rank = server->opts.rank };
	snprintf(replica->self.addr, sizeof(replica->self.addr), "%s", server->addr);
	rc = job_digest(server, &replica->self.job);
	if (rc == 0)
		return ol_replica_open(replica, err, err_bytes);
	snprintf(err, err_bytes, "no digest of the job can be made: the crypto library fails");
	return rc;
}

static int periodic_open(struct ol_server *server, char *err, size_t err_bytes)
{
	server->replica.periodic = true;
	return chain_open(server, err, err_bytes);
}

/* ---- steps ---- */

/* Make the entry's parts of the gradients that are in the sum. Returns how many. */
static uint32_t parts_make(struct ol_server *server, uint64_t version)
{
	struct ol_entry_part *parts = ol_ring_parts(&server->replica.ring, version);
	uint32_t count = 0;

	ol_times_order(&server->ingest.times, version);
	for (uint32_t i = 0; i < server->ingest.batch_count; i++) {
		const struct ol_landed landed = server->ingest.batch[i];
		const struct ol_slot_state *state = ol_ingest_slot(&server->ingest, landed);
		struct ol_entry_part *part = &parts[count];

		if (server->ingest.contributions[i].status != 0)
			continue;
		*part = (struct ol_entry_part){
			.seq = state->seq,
			.base_version = ol_ingest_base(state),
			.worker = server->ingest.contributions[i].worker,
			.slot = ol_follow_is_orphan(landed)
					? ol_follow_of(&server->ingest.follow, landed)->slot
					: landed.slot,
			.grads = state->grads,
			.samples = state->samples,
			.queued = state->queued,
		};
		memcpy(&part->loss_bits, &state->loss, sizeof(part->loss_bits));
		ol_probe4(push_ordered, server->opts.shard, part->worker, part->seq, version);
		ol_times_add(&server->ingest.times, part->worker, part->seq, state->landed_ns);
		count++;
	}
	return count;
}

/* The head answers dropped gradients, the tail those in the entry. Their slots are free: the
 * gradients are in the ring. */
static void batch_resolve(struct ol_server *server, uint64_t now_ns)
{
	uint32_t count = server->ingest.batch_count;

	server->ingest.batch_count = 0;
	server->ingest.step_ready = false;
	for (uint32_t i = 0; i < count; i++) {
		struct ol_landed landed = server->ingest.batch[i];

		if (server->ingest.contributions[i].status != 0)
			ol_ingest_resolve(&server->ingest, landed,
					  server->ingest.contributions[i].status, now_ns);
		else if (ol_follow_is_orphan(landed))
			ol_follow_free(&server->ingest, landed);
		else
			server->sessions.all[landed.session].slots[landed.slot].busy = false;
	}
}

static bool strict_begin(struct ol_ingest *ingest)
{
	const struct ol_server *server = ingest->arg;

	return server->store.geo.shard_len >= PARTED_MIN &&
	       ol_chain_may_order(&server->replica.chain) == 0;
}

/* The next span of the next payload. False: a gradient is not finite there; or what follows the span is
 * not in the ring any more, as that was renewed */
static bool payload_gather(struct ol_server *server, const struct ol_contribution *contributions,
			   uint32_t count, struct ol_span span)
{
	struct ol_replica *replica = &server->replica;
	const uint64_t version = replica->chain.received + 1;

	if (span.first + span.len != ol_payload_first(replica) ||
	    !ol_store_gather_part(&server->store, contributions, count, span,
				  ol_ring_payload(&replica->ring, version)))
		return false;
	ol_payload_made(replica, span.first);
	return true;
}

static bool strict_part(struct ol_ingest *ingest, struct ol_span span)
{
	return payload_gather(ingest->arg, ingest->early.contributions, ingest->early.count, span);
}

static void strict_drop(struct ol_ingest *ingest)
{
	struct ol_server *server = ingest->arg;

	ol_payload_drop(&server->replica);
}

static const struct ol_early_steps strict_early = {
	.begin = strict_begin,
	.part = strict_part,
	.drop = strict_drop,
};

/* Make the batch's payload piece by piece, each forwarded and applied while it is in the caches. False: this
 * is not for a payload that is short, has norms, or a gradient in it that is not finite */
static bool payload_make_long(struct ol_server *server)
{
	struct ol_ingest *ingest = &server->ingest;
	const uint64_t len = server->store.geo.shard_len;
	const uint64_t piece =
		server->pool != NULL ? ol_payload_part(&server->replica) : PIECE_FLOATS;
	uint64_t first = ol_early_take(ingest);

	if (len < PARTED_MIN || server->store.want_norms)
		return false;
	for (uint32_t i = 0; i < ingest->batch_count; i++) {
		if (ingest->contributions[i].is_void)
			return false;
	}
	while (first > 0) {
		struct ol_span span = { .first = (first - 1) / piece * piece };

		span.len = first - span.first;
		first = span.first;
		if (!payload_gather(server, ingest->contributions, ingest->batch_count, span))
			return false;
	}
	return true;
}

/* Make the batch's payload, and say in ingest->contributions whose gradients are in it. Returns how many are */
static uint32_t payload_make(struct ol_server *server)
{
	struct ol_ingest *ingest = &server->ingest;
	struct ol_replica *replica = &server->replica;

	if (payload_make_long(server))
		return ingest->batch_count;
	ol_payload_drop(replica);
	return ol_store_gather(&server->store, ingest->contributions, ingest->batch_count,
			       ol_ring_payload(&replica->ring, replica->chain.received + 1));
}

static bool strict_step(void *arg, uint64_t now_ns)
{
	struct ol_server *server = arg;
	struct ol_replica *replica = &server->replica;
	struct ol_ingest *ingest = &server->ingest;
	uint64_t version = replica->chain.received + 1;
	uint32_t parts;

	if (ol_chain_may_order(&replica->chain) != 0)
		return false;
	ol_ingest_gather(ingest);
	if (payload_make(server) == 0) {
		batch_resolve(server, now_ns);
		ol_ingest_updated(ingest, 0, NULL, now_ns);
		return true;
	}
	parts = parts_make(server, version);
	ol_ring_seal(&replica->ring, version, server->opts.epoch, parts, ol_ingest_rule(ingest));
	batch_resolve(server, now_ns);
	server->ordered = version;
	(void)ol_chain_order(&replica->chain, &version);
	ol_replica_progress(replica, now_ns);
	return true;
}

static bool periodic_step(void *arg, uint64_t now_ns)
{
	struct ol_server *server = arg;

	if (!ol_ingest_apply(&server->ingest, now_ns))
		return false;
	ol_successor_offer(&server->replica, now_ns);
	return true;
}

/* Only the tail answers pushes */
static bool strict_answers(const void *arg)
{
	const struct ol_server *server = arg;

	return server->replica.chain.role == OL_CHAIN_ONLY;
}

static bool periodic_answers(const void *arg)
{
	(void)arg;
	return true;
}

static void strict_progress(void *arg, uint64_t now_ns)
{
	struct ol_server *server = arg;

	/* what changes the chain has carried out its actions; those that had to wait are left */
	if (ol_replica_waits(&server->replica))
		ol_replica_progress(&server->replica, now_ns);
}

static void periodic_progress(void *arg, uint64_t now_ns)
{
	struct ol_server *server = arg;

	ol_replica_progress(&server->replica, now_ns);
}

/* ---- views ---- */

/* The epoch is the view's */
static uint32_t epoch_of(const struct ol_server *server, enum ol_restore from, uint32_t epoch)
{
	(void)from;
	(void)epoch;
	return server->opts.epoch;
}

static void history_of(const struct ol_server *server, struct ol_vouched *ret_what)
{
	const struct ol_view *view = &server->replica.chain.view;

	*ret_what = (struct ol_vouched){ .history = view->history, .founded = view->founded };
}

static void on_ready(struct ol_server *server, uint64_t now_ns)
{
	ol_replica_on_ready(&server->replica, server->store.version, now_ns);
}

static bool has_news(const struct ol_server *server)
{
	return ol_replica_has_news(&server->replica);
}

static void view_read(struct ol_server *server, uint64_t now_ns)
{
	ol_replica_view_read(&server->replica, now_ns);
}

static void chain_tick(struct ol_server *server, uint64_t now_ns)
{
	ol_replica_tick(&server->replica, now_ns);
}

/* Does this replica write checkpoints? */
static bool is_writer(const struct ol_server *server)
{
	switch (server->replica.chain.role) {
	case OL_CHAIN_TAIL:
	case OL_CHAIN_ONLY:
		return true;
	case OL_CHAIN_HEAD:
	case OL_CHAIN_MIDDLE:
		return server->opts.checkpoint_by == OL_CHECKPOINT_BY_EACH;
	case OL_CHAIN_NONE:
	case OL_CHAIN_JOINING:
		break;
	}
	return false;
}

static uint64_t strict_saves(const struct ol_server *server)
{
	return is_writer(server) ? server->replica.chain.committed : OL_SAVE_NONE;
}

/* The last replica of a chain that is never founded anew: only it has the committed state */
static bool is_last(const struct ol_server *server)
{
	return !server->opts.refound && server->replica.chain.role == OL_CHAIN_ONLY;
}

enum {
	CHAIN_PEERS = 4, /* predecessor, successor, a worker, a reader */
	/* entries with some parts one way, acks the other */
	CHAIN_DOORBELLS = OL_RING_SLOTS_MAX + (OL_PARTED_ENTRIES + 1) * OL_PARTS_MAX + 4,
};

/* Common to strict and periodic chains */
#define OF_BOTH \
	.predecessors = OL_PREDECESSORS_MAX, .readers = 1, .peers_min = CHAIN_PEERS, \
	.doorbells_min = CHAIN_DOORBELLS, .epoch = epoch_of, .history = history_of, \
	.on_ready = on_ready, .has_news = has_news, .look = view_read, .tick = chain_tick, \
	.is_last = is_last

const struct ol_chain_kind ol_chain_strict = {
	.steps = { .early = &strict_early,
		   .answers = strict_answers,
		   .progress = strict_progress,
		   .step = strict_step },
	.host = &strict_host,
	.open = chain_open,
	.saves = strict_saves,
	OF_BOTH,
};

const struct ol_chain_kind ol_chain_periodic = {
	.steps = { .early = &ol_ingest_early,
		   .answers = periodic_answers,
		   .progress = periodic_progress,
		   .step = periodic_step },
	.host = &periodic_host,
	.open = periodic_open,
	OF_BOTH,
};
