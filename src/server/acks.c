/* SPDX-License-Identifier: BSD-3-Clause */

/* acks.c -- acknowledgements of pushes: now, or when the queue of sends has room */

#include "server/ingest.h"

/* True for a peer that rang for a pin and has none now */
static bool is_unpinned(const struct ol_ingest *ingest, const struct ol_session *session)
{
	const struct ol_places *pinning = &ingest->sessions->pinning;

	return pinning->count > 0 &&
	       ol_places_has(pinning, (uint32_t)(session - ingest->sessions->all)) &&
	       ol_pins_word(session) == 0;
}

void ol_acks_end(struct ol_ingest *ingest, struct ol_session *session, struct ol_slot_state *state)
{
	if (!state->owed)
		return;
	state->owed = false;
	ingest->sessions->owed_total--;
	if (--session->owed_count == 0)
		ol_places_remove(&ingest->sessions->owing,
				 (uint32_t)(session - ingest->sessions->all));
}

/* The slot's ack waits for room in the queue of sends */
static void owed_add(struct ol_ingest *ingest, struct ol_session *session,
		     struct ol_slot_state *state, uint64_t now_ns)
{
	if (state->owed)
		return;
	state->owed = true;
	if (session->owed_count++ == 0)
		session->owed_since_ns = now_ns;
	ingest->sessions->owed_total++;
	ol_places_add(&ingest->sessions->owing, (uint32_t)(session - ingest->sessions->all));
}

/* A chain's worker takes a number that its acks skip for one that an earlier head dropped: none goes
 * ahead of those that wait. */
void ol_ingest_ack(struct ol_ingest *ingest, struct ol_session *session, uint32_t slot,
		   uint64_t now_ns)
{
	const uint32_t index = (uint32_t)(session - ingest->sessions->all);
	struct ol_slot_state *state = &session->slots[slot];
	bool unpinned;
	struct ol_ack ack = {
		.seq = state->seq,
		.version = ingest->store->version,
		.snapshot = ingest->store->snapshot,
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

	if (!state->owed && session->owed_count > 0) {
		owed_add(ingest, session, state, now_ns);
		return;
	}
	ol_record_seal(&ack);
	unpinned = is_unpinned(ingest, session); /* before its peer can have the ack */
	if (ingest->ops->post_write(session->conn, &write) == 0) {
		if (unpinned)
			ol_places_remove(&ingest->sessions->pinning, index);
		state->busy = false;
		ol_acks_end(ingest, session, state);
		return;
	}
	/* a full queue: progress() tries again; or a broken connection, about to be reported */
	owed_add(ingest, session, state, now_ns);
}

/* The slot whose ack is to go first, of those that are owed; there is one */
static uint32_t owed_first(const struct ol_ingest *ingest, const struct ol_session *session)
{
	uint32_t first = UINT32_MAX;

	for (uint32_t slot = 0; slot <= ingest->opts->window; slot++) {
		if (session->slots[slot].owed &&
		    (first == UINT32_MAX || session->slots[slot].seq < session->slots[first].seq))
			first = slot;
	}
	return first;
}

void ol_acks_flush(struct ol_ingest *ingest, uint64_t now_ns)
{
	const struct ol_places *owing = &ingest->sessions->owing;

	for (uint32_t i = 0; (i = ol_places_next(owing, i)) < owing->size; i++) {
		struct ol_session *session = &ingest->sessions->all[i];
		uint64_t left = session->owed_count;

		/* in the order of their numbers, up to one for which there is no room */
		while (left > 0) {
			ol_ingest_ack(ingest, session, owed_first(ingest, session), now_ns);
			left = session->owed_count < left ? session->owed_count : 0;
		}
	}
}
