/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * entries.c -- what a chain decides, done: a step becomes an entry; entries are forwarded, applied,
 * and told of
 *
 *	head    batch -> gathered into the ring -> forwarded -> applied
 *	others  ring -> forwarded -> applied
 *	tail    applied -> an ack to each worker whose gradient is in it
 */

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "rdma/order.h"
#include "server/server_internal.h"

int ol_entry_apply(struct ol_server *server, uint64_t version)
{
	struct ol_replica *replica = &server->replica;
	struct ol_store *store = &server->store;
	const struct ol_entry_head *head = ol_ring_head(&replica->ring, version);
	const struct ol_entry_part *parts = ol_ring_parts(&replica->ring, version);
	int target = -1;

	if (ol_turn_may(server, OL_TURN_APPLY))
		target = ol_ingest_target(server, replica->now_ns);
	if (target < 0)
		return -EAGAIN;
	ol_turn_spend(server, OL_TURN_APPLY, ol_layout_vector_bytes(&store->geo));
	for (uint32_t i = 0; i < head->parts; i++) {
		server->contributions[i] = (struct ol_contribution){
			.seq = parts[i].seq,
			.grads = parts[i].grads,
			.worker = parts[i].worker,
		};
	}
	ol_store_enter(store, ol_ring_payload(&replica->ring, version), server->contributions,
		       head->parts, (unsigned)target);
	ol_ingest_updated(server, head->parts, version == server->ordered ? &store->norms : NULL,
			  replica->now_ns);
	if (ol_word_load(&store->board->first_applied_ns) == 0)
		ol_word_store(&store->board->first_applied_ns, replica->now_ns);
	for (uint32_t i = 0; i < head->parts; i++) {
		struct ol_slot_state state = {
			.base_version = parts[i].base_version,
			.samples = parts[i].samples,
			.grads = parts[i].grads,
			.queued = parts[i].queued != 0,
		};

		memcpy(&state.loss, &parts[i].loss_bits, sizeof(state.loss));
		ol_ingest_count(server, &state, version - 1);
	}
	ol_save_progress(server, replica->now_ns);
	return 0;
}

/* Where a worker hears of commits: of a chain of one where it pushes, or else as a reader, which it
 * is no longer once it pushes here */
static struct ol_session *mailbox_of(struct ol_server *server, uint32_t worker)
{
	struct ol_session *session = &server->sessions[worker];

	if (server->replica.chain.role == OL_CHAIN_ONLY && session->state == OL_SESSION_LIVE)
		return session;
	session = &server->sessions[server->reader_first + worker];
	return session->state == OL_SESSION_LIVE ? session : NULL;
}

bool ol_entry_leased(struct ol_server *server)
{
	uint64_t now_ns;

	if (server->end_rc != 0 || !server->opts.refound)
		return server->end_rc == 0;
	now_ns = ol_clock_ns();
	if (now_ns >= server->replica.state.lease_ns)
		ol_replica_lease_check(server, now_ns);
	return server->end_rc == 0;
}

void ol_entry_commit(struct ol_server *server, uint64_t version)
{
	struct ol_replica *replica = &server->replica;
	const struct ol_entry_head *head = ol_ring_head(&replica->ring, version);
	const struct ol_entry_part *parts = ol_ring_parts(&replica->ring, version);

	if (!ol_entry_leased(server))
		return;
	for (uint32_t i = 0; i < head->parts; i++) {
		struct ol_session *session = mailbox_of(server, parts[i].worker);
		struct ol_slot_state *state;

		/* one that connects later is told by its welcome */
		if (session == NULL || parts[i].slot > server->opts.window)
			continue;
		state = &session->slots[parts[i].slot];
		state->seq = parts[i].seq;
		state->status = 0;
		ol_ingest_ack(server, session, parts[i].slot, replica->now_ns);
	}
}

int ol_entry_ack(struct ol_server *server, uint64_t version)
{
	return ol_entry_leased(server) ? ol_predecessor_ack(server, version) : OL_E_FENCED;
}

/* Those of the batch that are in the sum, as parts of the entry. How many. */
static uint32_t parts_make(struct ol_server *server, struct ol_entry_part *parts)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < server->batch_count; i++) {
		const struct ol_landed *landed = &server->batch[i];
		const struct ol_slot_state *state =
			&server->sessions[landed->session].slots[landed->slot];
		struct ol_entry_part *part = &parts[count];

		if (server->contributions[i].status != 0)
			continue;
		*part = (struct ol_entry_part){
			.seq = state->seq,
			.base_version = state->base_version,
			.worker = server->contributions[i].worker,
			.slot = landed->slot,
			.grads = state->grads,
			.samples = state->samples,
			.queued = state->queued,
		};
		memcpy(&part->loss_bits, &state->loss, sizeof(part->loss_bits));
		count++;
	}
	return count;
}

/* What was dropped is answered here; what is in the entry by the tail. Its slot is free: the
 * gradient is in the ring. */
static void batch_resolve(struct ol_server *server, uint64_t now_ns)
{
	uint32_t count = server->batch_count;

	server->batch_count = 0;
	server->step_ready = false;
	for (uint32_t i = 0; i < count; i++) {
		struct ol_landed landed = server->batch[i];

		if (server->contributions[i].status != 0)
			ol_ingest_resolve(server, landed, server->contributions[i].status, now_ns);
		else
			server->sessions[landed.session].slots[landed.slot].busy = false;
	}
}

bool ol_entry_order(struct ol_server *server, uint64_t now_ns)
{
	struct ol_replica *replica = &server->replica;
	uint64_t version = replica->chain.received + 1;
	struct ol_ring *ring = &replica->ring;
	uint32_t parts;

	if (ol_chain_may_order(&replica->chain) != 0)
		return false;
	if (ol_store_gather(&server->store, server->contributions, server->batch_count,
			    ol_ring_payload(ring, version)) == 0) {
		batch_resolve(server, now_ns);
		ol_ingest_updated(server, 0, NULL, now_ns);
		return true;
	}
	parts = parts_make(server, ol_ring_parts(ring, version));
	ol_ring_seal(ring, version, server->opts.epoch, parts);
	batch_resolve(server, now_ns);
	server->ordered = version;
	(void)ol_chain_order(&replica->chain, &version);
	ol_replica_progress(server, now_ns);
	return true;
}
