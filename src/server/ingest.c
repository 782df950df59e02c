/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * ingest.c -- from a doorbell to an acknowledgement
 *
 *	bell -> header checked -> queue -> policy -> batch -> store -> ack
 *
 * A slot is busy from its bell until its ack is posted. Every push is acknowledged exactly once,
 * applied or not; the gradient itself is never copied: the update reads it where it landed.
 */

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "policy/replay.h"
#include "rdma/order.h"
#include "server/server_internal.h"
#include "wire/seq.h"

static struct ol_slot_state *landed_slot(struct ol_server *server, struct ol_landed landed)
{
	return &server->sessions[landed.session].slots[landed.slot];
}

static uint8_t *slot_memory(struct ol_server *server, struct ol_landed landed)
{
	return (uint8_t *)server->sessions[landed.session].landing->addr +
	       ol_layout_slot_off(&server->store.geo, landed.slot);
}

void ol_ingest_ack(struct ol_server *server, struct ol_session *session, uint32_t slot,
		   uint64_t now_ns)
{
	struct ol_slot_state *state = &session->slots[slot];
	struct ol_ack ack = {
		.seq = state->seq,
		.version = server->store.version,
		.snapshot = server->store.snapshot,
		.status = state->status,
		.epoch = session->epoch,
	};
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)&ack, .bytes = sizeof(ack) } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | OL_XPORT_DOORBELL,
		.imm = ol_bell_make(OL_BELL_ACK, slot),
		.dst = session->acks,
		.dst_off = slot * sizeof(ack),
	};

	ol_record_seal(&ack);
	if (server->ops->post_write(session->conn, &write) == 0) {
		state->busy = false;
		if (!state->owed)
			return;
		state->owed = false;
		session->owed_count--;
		server->owed_total--;
		return;
	}
	/* a full queue, tried again by progress(); a broken connection, about to be reported */
	if (state->owed)
		return;
	state->owed = true;
	if (session->owed_count++ == 0)
		session->owed_since_ns = now_ns;
	server->owed_total++;
}

void ol_ingest_resolve(struct ol_server *server, struct ol_landed landed, int status,
		       uint64_t now_ns)
{
	struct ol_board *board = server->store.board;
	struct ol_slot_state *state = landed_slot(server, landed);

	assert(state->busy && !state->owed);
	state->status = status;
	if (status == OL_E_NONFINITE)
		ol_counter_add(&board->dropped_nonfinite, state->grads);
	else if (status == OL_E_LATE)
		ol_counter_add(&board->dropped_late, state->grads);
	ol_ingest_ack(server, &server->sessions[landed.session], landed.slot, now_ns);
}

/* The newest version that a worker can know of: in a chain the tail may be ahead of this store */
static uint64_t newest(const struct ol_server *server)
{
	return ol_replica_strict(server) && server->replica.chain.received > server->store.version
		       ? server->replica.chain.received
		       : server->store.version;
}

/* What the header of a push must be; NULL, or what is wrong with it */
static const char *header_fault(const struct ol_server *server, const struct ol_session *session,
				const struct ol_push_hdr *hdr)
{
	if (!ol_record_whole(hdr))
		return "push header with a wrong checksum";
	if (hdr->epoch != session->epoch)
		return "push of another epoch";
	if (hdr->payload_bytes != ol_layout_vector_bytes(&server->store.geo))
		return "push of another length than the shard";
	if (ol_seq_tag(hdr->seq) == 0 || ol_seq_count(hdr->seq) == 0)
		return "push with a sequence number that cannot be";
	if (session->numbered && ol_seq_tag(hdr->seq) != ol_seq_tag(session->last_seq))
		return "push with the sequence number of another process";
	/* what a policy has dropped is not pushed again: there may be gaps */
	if (ol_seq_contains(session->last_seq, hdr->seq) &&
	    !ol_seq_contains(ol_store_applied(&server->store, session->worker).seq, hdr->seq))
		return "push with a sequence number out of turn";
	if (hdr->grads == 0)
		return "push of no gradient";
	if (hdr->base_version > newest(server))
		return "push computed at a version that does not exist";
	return NULL;
}

void ol_ingest_on_push(struct ol_server *server, struct ol_session *session, uint32_t slot,
		       uint64_t now_ns)
{
	struct ol_landed landed = { .session = (uint32_t)(session - server->sessions),
				    .slot = slot };
	struct ol_slot_state *state;
	struct ol_push_hdr hdr;
	const char *fault;

	if (slot >= session->slot_count) {
		ol_session_violation(server, session, "doorbell for a slot that it does not have");
		return;
	}
	state = &session->slots[slot];
	if (state->busy) {
		ol_session_violation(server, session, "doorbell for a slot that is in use");
		return;
	}
	memcpy(&hdr, slot_memory(server, landed) + ol_layout_vector_bytes(&server->store.geo),
	       sizeof(hdr));
	fault = header_fault(server, session, &hdr);
	if (fault != NULL) {
		ol_session_violation(server, session, fault);
		return;
	}
	state->busy = true;
	state->seq = hdr.seq;
	state->base_version = hdr.base_version;
	state->loss = hdr.loss;
	state->samples = hdr.samples;
	state->grads = hdr.grads;
	state->landed_ns = now_ns;
	state->queued = (hdr.flags & OL_PUSH_QUEUED) != 0;
	state->path = (hdr.flags & OL_PUSH_PATH) != 0;
	state->is_void = (hdr.flags & OL_PUSH_VOID) != 0;
	ol_counter_add(&server->store.board->bytes_in, hdr.payload_bytes + sizeof(hdr));
	if (ol_seq_contains(session->last_seq, hdr.seq)) {
		ol_counter_add(&server->store.board->duplicates, 1);
		if (ol_replica_strict(server) && server->replica.chain.role != OL_CHAIN_ONLY)
			state->busy = false; /* what became of it is the tail's to say */
		else
			ol_ingest_resolve(server, landed, 0, now_ns);
		return;
	}
	assert(server->queue_count < server->queue_size);
	session->last_seq = hdr.seq;
	session->numbered = true;
	server->queue[(server->queue_head + server->queue_count++) % server->queue_size] = landed;
	ol_ingest_progress(server, now_ns);
}

/* Into the batch, which is in worker order: sums are a function of the gradients alone. */
static void batch_insert(struct ol_server *server, struct ol_landed landed)
{
	uint32_t at = server->batch_count++;

	while (at > 0 && server->batch[at - 1].session > landed.session) {
		server->batch[at] = server->batch[at - 1];
		at--;
	}
	server->batch[at] = landed;
}

/* Those of `count` in list, in their order, that are not of a session. How many. */
static uint32_t keep_others(struct ol_landed *list, uint32_t count, uint32_t session)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (list[i].session != session)
			list[kept++] = list[i];
	}
	return kept;
}

/* Its worker has withdrawn it, whatever that has pushed since */
static bool is_withdrawn(struct ol_server *server, struct ol_landed landed)
{
	return ol_seq_contains(server->sessions[landed.session].withdrawn_seq,
			       landed_slot(server, landed)->seq);
}

/* What a worker withdraws, and holds nobody up any more: it came too late for a step */
static void held_withdraw(struct ol_server *server, struct ol_session *session, uint64_t now_ns)
{
	uint32_t index = (uint32_t)(session - server->sessions), i = 0;
	struct ol_landed landed;

	while (i < server->batch_count && server->batch[i].session != index)
		i++;
	if (server->step_ready || i == server->batch_count) /* it is about to take effect */
		return;
	landed = server->batch[i];
	server->batch_count = keep_others(server->batch, server->batch_count, index);
	/* it has given nothing, and is still there */
	ol_policy_on_leave(server->policy, session->worker);
	ol_policy_on_join(server->policy, session->worker);
	ol_ingest_resolve(server, landed, OL_E_LATE, now_ns);
}

static void parked_withdraw(struct ol_server *server, const struct ol_session *session,
			    uint64_t now_ns)
{
	uint32_t index = (uint32_t)(session - server->sessions);

	for (uint32_t i = 0; i < server->parked_count; i++) {
		if (server->parked[i].session == index)
			ol_ingest_resolve(server, server->parked[i], OL_E_LATE, now_ns);
	}
	server->parked_count = keep_others(server->parked, server->parked_count, index);
}

static void queue_to_batch(struct ol_server *server, uint64_t now_ns)
{
	/* what a policy is asked is which step comes next: no other may be under way */
	while (server->queue_count > 0 && !server->step_ready &&
	       newest(server) == server->store.version) {
		struct ol_landed landed = server->queue[server->queue_head];
		struct ol_session *session = &server->sessions[landed.session];
		struct ol_slot_state *state = landed_slot(server, landed);
		struct ol_arrival arrival = {
			.base_version = state->base_version,
			.version = server->store.version,
			.now_ns = state->landed_ns,
			.worker = session->worker,
			.loss = state->loss,
			.queued = state->queued,
		};

		server->queue_head = (server->queue_head + 1) % server->queue_size;
		server->queue_count--;
		switch (ol_policy_on_gradient(server->policy, &arrival)) {
		case OL_VERDICT_HOLD:
			batch_insert(server, landed);
			if (is_withdrawn(server, landed))
				held_withdraw(server, session, now_ns);
			break;
		case OL_VERDICT_STEP:
			batch_insert(server, landed);
			server->step_ready = true;
			break;
		case OL_VERDICT_LATE:
			ol_ingest_resolve(server, landed, OL_E_LATE, now_ns);
			break;
		case OL_VERDICT_WAIT:
			if (is_withdrawn(server, landed))
				ol_ingest_resolve(server, landed, OL_E_LATE, now_ns);
			else
				server->parked[server->parked_count++] = landed;
			break;
		}
	}
}

/* What was parked is next in turn again, in the order it came */
static void unpark(struct ol_server *server)
{
	while (server->parked_count > 0) {
		server->queue_head =
			(server->queue_head + server->queue_size - 1) % server->queue_size;
		server->queue[server->queue_head] = server->parked[--server->parked_count];
		server->queue_count++;
	}
}

static void wait_for_show(struct ol_server *server)
{
	struct ol_policy_stat stat;

	ol_policy_get_stat(server->policy, &stat);
	ol_word_store(&server->store.board->wait_for, stat.k);
}

void ol_ingest_updated(struct ol_server *server, uint32_t count, const struct ol_norms *norms,
		       uint64_t now_ns)
{
	struct ol_update update = {
		.version = server->store.version,
		.now_ns = now_ns,
		.count = count,
		.norm2_sum = norms != NULL ? norms->sum : NAN,
		.norm2_mean = norms != NULL ? norms->mean : NAN,
	};

	ol_policy_on_update(server->policy, &update);
	wait_for_show(server);
	unpark(server);
}

void ol_ingest_on_join(struct ol_server *server, const struct ol_session *session)
{
	ol_policy_on_join(server->policy, session->worker);
	wait_for_show(server);
	unpark(server);
}

/* The snapshots that must stay as they are, however long that takes */
static unsigned held_mask(struct ol_server *server)
{
	return ol_save_pinned(server) | ol_successor_pinned(server);
}

/* The snapshots that readers hold, by the pin words in their control pages */
static unsigned pinned_mask(struct ol_server *server)
{
	unsigned mask = held_mask(server);

	for (uint32_t i = 0; i < server->session_count; i++) {
		const struct ol_session *session = &server->sessions[i];
		const struct ol_pin *word;
		uint64_t pin;
		int at;

		if (session->state != OL_SESSION_LIVE || session->role == OL_ROLE_REPLICA)
			continue;
		word = (const struct ol_pin *)(const void *)((const uint8_t *)
								     session->landing->addr +
							     OL_PIN_OFF);
		pin = ol_word_load(&word->version_plus_1);
		at = pin != 0 ? ol_store_find(&server->store, pin - 1) : -1;
		if (at >= 0)
			mask |= 1u << at;
	}
	return mask;
}

/* Readers hold a step up for a bounded time only. */
int ol_ingest_target(struct ol_server *server, uint64_t now_ns)
{
	int target = ol_store_target(&server->store, pinned_mask(server));

	if (target < 0 && server->blocked_ns == 0)
		server->blocked_ns = now_ns;
	if (target < 0 && now_ns - server->blocked_ns >= server->opts.pin_timeout_ms * OL_NS_PER_MS)
		target = ol_store_target(&server->store, held_mask(server));
	if (target >= 0)
		server->blocked_ns = 0;
	return target;
}

void ol_ingest_count(struct ol_server *server, const struct ol_slot_state *state, uint64_t version)
{
	struct ol_board *board = server->store.board;
	uint64_t bits = 0;

	ol_counter_add(&board->applied, state->grads);
	if (state->queued)
		ol_counter_add(&board->replayed, state->grads);
	ol_counter_add(&board->samples, state->samples);
	ol_counter_add(&board->staleness_sum, version - state->base_version);
	if (!isfinite(state->loss))
		return;
	server->loss = server->loss_count++ == 0
			       ? state->loss
			       : server->loss + (state->loss - server->loss) / 32.0f;
	memcpy(&bits, &server->loss, sizeof(server->loss));
	ol_word_store(&board->loss_bits, bits);
}

void ol_ingest_on_part(struct ol_server *server, struct ol_session *session, uint32_t arg)
{
	struct ol_early *early = &server->early;
	struct ol_landed landed = { .session = (uint32_t)(session - server->sessions),
				    .slot = ol_part_slot(arg) };
	uint64_t first = ol_part_first(arg);
	const float *grad;
	int target;

	if (landed.slot >= session->slot_count || session->slots[landed.slot].busy) {
		ol_session_violation(server, session, "part of a slot that it may not write");
		return;
	}
	if (ol_part_is_cancel(arg)) {
		if (early->landed.session == landed.session && early->landed.slot == landed.slot)
			early->active = false;
		return;
	}
	/* with several workers another's push would often come first, and the work be in vain */
	if (ol_replica_strict(server) || !ol_policy_single(server->policy) ||
	    server->live_workers > 1 || server->queue_count + server->batch_count > 0)
		return;
	if (!early->active) {
		target = ol_store_target(&server->store, pinned_mask(server));
		if (target < 0)
			return;
		*early = (struct ol_early){ .active = true,
					    .landed = landed,
					    .version = server->store.version,
					    .first = server->store.geo.shard_len,
					    .target = (unsigned)target };
		ol_store_begin(&server->store, early->target);
	}
	if (early->landed.session != landed.session || early->landed.slot != landed.slot ||
	    first >= early->first)
		return;
	grad = (const float *)(const void *)slot_memory(server, landed);
	early->active =
		ol_store_part(&server->store, grad, first, early->first - first, early->target);
	early->first = first;
}

/* Finish what was begun on parts of this very gradient. False: it was not, or is worthless now. */
static bool early_finish(struct ol_server *server, struct ol_contribution *contribution)
{
	struct ol_early *early = &server->early;
	struct ol_landed landed = server->batch[0];
	bool ours = early->active && server->batch_count == 1 && contribution->scale == 1.0f &&
		    !contribution->is_void && early->version == server->store.version &&
		    early->landed.session == landed.session && early->landed.slot == landed.slot;

	early->active = false;
	if (!ours ||
	    !ol_store_part(&server->store, contribution->grad, 0, early->first, early->target))
		return false;
	ol_store_publish(&server->store, contribution, 1, early->target);
	return true;
}

/* Workers whose ways are added up; a synchronous mean divides by them already */
static uint32_t ways(const struct ol_server *server)
{
	if (server->opts.consistency == OL_CONSISTENCY_SYNC && !server->opts.rule.sum)
		return 1;
	return server->live_workers > server->opts.workers ? server->live_workers
							   : server->opts.workers;
}

/* The factor on what has landed: 1, unless it was summed up during an outage */
static float scale_of(struct ol_server *server, const struct ol_slot_state *state,
		      const float *grad)
{
	struct ol_delta delta = {
		.staleness = server->store.version - state->base_version,
		.grads = state->grads,
		.ways = ways(server),
		.lr = server->opts.rule.lr,
		.clip = server->opts.replay_clip,
		.path = state->path,
	};

	if (!state->queued)
		return 1.0f;
	if (server->opts.replay == OL_REPLAY_CLIP)
		delta.norm = ol_store_norm(&server->store, grad);
	return ol_replay_scale(server->opts.replay, &delta);
}

static void batch_to_contributions(struct ol_server *server)
{
	for (uint32_t i = 0; i < server->batch_count; i++) {
		struct ol_landed landed = server->batch[i];
		const struct ol_slot_state *state = landed_slot(server, landed);
		const float *grad = (const float *)(const void *)slot_memory(server, landed);

		server->contributions[i] = (struct ol_contribution){
			.grad = grad,
			.seq = state->seq,
			.grads = state->grads,
			.scale = scale_of(server, state, grad),
			.is_void = state->is_void,
			.worker = server->sessions[landed.session].worker,
		};
	}
}

static uint64_t step_bytes(const struct ol_server *server)
{
	return server->batch_count * ol_layout_vector_bytes(&server->store.geo);
}

/* One step from the batch. False: not now: this turn has done enough, the snapshots are pinned, or
 * the chain is behind. */
static bool step(struct ol_server *server, uint64_t now_ns)
{
	uint64_t version = server->store.version;
	uint32_t count = server->batch_count, applied = 1;
	int target;

	if (!ol_turn_may(server, OL_TURN_STEP))
		return false;
	if (ol_replica_strict(server)) {
		if (ol_chain_may_order(&server->replica.chain) != 0)
			return false;
		ol_turn_spend(server, OL_TURN_STEP, step_bytes(server));
		batch_to_contributions(server);
		return ol_entry_order(server, now_ns);
	}
	target = ol_ingest_target(server, now_ns);
	if (target < 0)
		return false;
	ol_turn_spend(server, OL_TURN_STEP, step_bytes(server));
	batch_to_contributions(server);
	if (!early_finish(server, server->contributions))
		applied = ol_store_apply(&server->store, server->contributions, count,
					 (unsigned)target);
	server->batch_count = 0;
	server->step_ready = false;
	ol_ingest_updated(server, applied, &server->store.norms, now_ns);
	if (server->store.version != version &&
	    ol_word_load(&server->store.board->first_applied_ns) == 0)
		ol_word_store(&server->store.board->first_applied_ns, now_ns);
	for (uint32_t i = 0; i < count; i++) {
		int status = server->contributions[i].status;

		if (status == 0)
			ol_ingest_count(server, landed_slot(server, server->batch[i]), version);
		ol_ingest_resolve(server, server->batch[i], status, now_ns);
	}
	ol_save_progress(server, now_ns);
	if (server->replica.periodic)
		ol_successor_offer(server, now_ns);
	return true;
}

static void acks_flush(struct ol_server *server, uint64_t now_ns)
{
	for (uint32_t i = 0; i < server->session_count && server->owed_total > 0; i++) {
		struct ol_session *session = &server->sessions[i];

		for (uint32_t slot = 0; session->owed_count > 0 && slot < OL_SLOTS_MAX; slot++) {
			if (session->slots[slot].owed)
				ol_ingest_ack(server, session, slot, now_ns);
		}
	}
}

bool ol_ingest_waits(const struct ol_server *server)
{
	return server->owed_total > 0 || server->step_ready || server->queue_count > 0 ||
	       ol_replica_waits(server);
}

void ol_ingest_progress(struct ol_server *server, uint64_t now_ns)
{
	if (server->owed_total > 0)
		acks_flush(server, now_ns);
	if (server->replica.on)
		ol_replica_progress(server, now_ns);
	do {
		queue_to_batch(server, now_ns);
	} while (server->step_ready && step(server, now_ns));
}

/* What is held makes a step now, without another gradient: in a chain it may be in an entry
 * already, and on its way */
static void waits_changed(struct ol_server *server)
{
	wait_for_show(server);
	if (server->batch_count > 0 && ol_policy_ready(server->policy))
		server->step_ready = true;
	unpark(server);
}

void ol_ingest_on_withdraw(struct ol_server *server, struct ol_session *session, uint64_t now_ns)
{
	session->withdrawn_seq = session->last_seq; /* also what is in the queue */
	held_withdraw(server, session, now_ns);
	parked_withdraw(server, session, now_ns);
	ol_ingest_progress(server, now_ns);
}

/* A step that was about to be made is not: what its workers have withdrawn meanwhile waits for
 * nobody */
static void withdrawn_drop(struct ol_server *server)
{
	uint64_t now_ns = ol_clock_ns();

	for (uint32_t i = server->batch_count; i-- > 0;) {
		struct ol_landed landed = server->batch[i];

		if (is_withdrawn(server, landed))
			held_withdraw(server, &server->sessions[landed.session], now_ns);
	}
}

void ol_ingest_forget(struct ol_server *server, struct ol_session *session)
{
	uint32_t index = (uint32_t)(session - server->sessions), kept = 0, batch_count;

	for (uint32_t i = 0; i < server->queue_count; i++) {
		struct ol_landed landed =
			server->queue[(server->queue_head + i) % server->queue_size];

		if (landed.session != index)
			server->queue[(server->queue_head + kept++) % server->queue_size] = landed;
	}
	server->queue_count = kept;
	server->parked_count = keep_others(server->parked, server->parked_count, index);
	batch_count = server->batch_count;
	server->batch_count = keep_others(server->batch, batch_count, index);
	if (server->batch_count != batch_count)
		server->step_ready = false;
	ol_policy_on_leave(server->policy, session->worker);
	waits_changed(server);
	withdrawn_drop(server);
	if (server->early.landed.session == index)
		server->early.active = false;
}
