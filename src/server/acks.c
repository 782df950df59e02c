/* SPDX-License-Identifier: BSD-3-Clause */

/* acks.c -- what workers hear of their pushes, that they are held and what became of them: now, or when the queue of sends has
 * room */

#include "server/ingest.h"

/* True for a peer that rang for a pin and has none now */
static bool is_unpinned(const struct ol_ingest *ingest, const struct ol_session *session)
{
	const struct ol_places *pinning = &ingest->sessions->pinning;

	return pinning->count > 0 &&
	       ol_places_has(pinning, (uint32_t)(session - ingest->sessions->all)) &&
	       ol_pins_word(session) == 0;
}

/* What a slot's worker is to hear waits for room in the queue of sends */
static void owe(struct ol_ingest *ingest, struct ol_session *session, bool *due, uint64_t now_ns)
{
	if (*due)
		return;
	*due = true;
	if (session->owed_count++ == 0)
		session->owed_since_ns = now_ns;
	ingest->sessions->owed_total++;
	ol_places_add(&ingest->sessions->owing, (uint32_t)(session - ingest->sessions->all));
}

static void owe_end(struct ol_ingest *ingest, struct ol_session *session, bool *due)
{
	if (!*due)
		return;
	*due = false;
	ingest->sessions->owed_total--;
	if (--session->owed_count == 0)
		ol_places_remove(&ingest->sessions->owing,
				 (uint32_t)(session - ingest->sessions->all));
}

void ol_acks_drop(struct ol_ingest *ingest, struct ol_session *session, struct ol_slot_state *state)
{
	owe_end(ingest, session, &state->owed);
	owe_end(ingest, session, &state->held_due);
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
		owe(ingest, session, &state->owed, now_ns);
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
	owe(ingest, session, &state->owed, now_ns);
}

static bool held_post(struct ol_ingest *ingest, struct ol_session *session, uint32_t slot)
{
	const struct ol_xport_write write = {
		.flags = OL_XPORT_DOORBELL,
		.imm = ol_bell_make(OL_BELL_HELD, ol_held_arg(slot, session->slots[slot].seq)),
	};

	if (ingest->ops->post_write(session->conn, &write) != 0)
		return false;
	owe_end(ingest, session, &session->slots[slot].held_due);
	return true;
}

void ol_acks_held(struct ol_ingest *ingest, struct ol_session *session, uint32_t slot,
		  uint64_t now_ns)
{
	if (session->owed_count > 0 || !held_post(ingest, session, slot))
		owe(ingest, session, &session->slots[slot].held_due, now_ns);
}

/* False: there is no room for all */
static bool helds_flush(struct ol_ingest *ingest, struct ol_session *session)
{
	for (uint32_t slot = 0; slot <= ingest->opts->window; slot++) {
		if (session->slots[slot].held_due && !held_post(ingest, session, slot))
			return false;
	}
	return true;
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
		uint64_t left = helds_flush(ingest, session) ? session->owed_count : 0;

		/* in the order of their numbers, up to one for which there is no room */
		while (left > 0) {
			ol_ingest_ack(ingest, session, owed_first(ingest, session), now_ns);
			left = session->owed_count < left ? session->owed_count : 0;
		}
	}
}
