/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * early.c -- summing up and applying gradients while they arrive
 *
 * Which gradients a step will be made of is known before they are whole in two cases:
 *
 *	each gradient is a step by itself   the one that has landed furthest. Beside other workers
 *	                                    only one whose worker has pushed already: others will
 *	                                    hardly overtake it. One that was overtaken is not begun
 *	                                    again
 *	a step waits for all workers        the batch's, and one of each other worker
 *
 * Gradients arrive from their ends downwards, so one number says what of a gradient is here.
 */

#include "server/early.h"

#include <errno.h>
#include <stdlib.h>

#include "policy/kind.h"
#include "rdma/order.h"
#include "server/ingest.h"
#include "store/weigh.h"

int ol_early_open(struct ol_early *early, uint32_t workers_max)
{
	early->of = calloc(workers_max, sizeof(*early->of));
	early->contributions = calloc(workers_max, sizeof(*early->contributions));
	return early->of != NULL && early->contributions != NULL ? 0 : -ENOMEM;
}

void ol_early_close(struct ol_early *early)
{
	free(early->of);
	free(early->contributions);
}

static uint64_t bytes_of(const struct ol_early *early, uint64_t floats)
{
	return floats * OL_ELEM_BYTES * early->count;
}

static void early_drop(struct ol_ingest *ingest)
{
	struct ol_early *early = &ingest->early;

	if (!early->active)
		return;
	early->active = false;
	for (uint32_t i = 0; i < early->count; i++) {
		struct ol_arriving *arriving =
			&ingest->sessions->all[early->of[i].landed.session].arriving;

		arriving->tried = arriving->tried || arriving->stamp == early->of[i].stamp;
	}
	ol_counter_add(&ingest->store->board->early_void_bytes,
		       bytes_of(early, ingest->store->geo.shard_len - early->first));
	ingest->steps->early->drop(ingest);
}

static bool is_arriving(const struct ol_ingest *ingest, const struct ol_session *session)
{
	return ol_places_has(&ingest->sessions->arriving,
			     (uint32_t)(session - ingest->sessions->all));
}

void ol_early_on_push(struct ol_ingest *ingest, struct ol_session *session, uint32_t slot)
{
	struct ol_slot_state *state = &session->slots[slot];

	state->stamp = ++ingest->early.stamps;
	state->parts = 0;
	if (ingest->sessions->arriving.count == 0 || !is_arriving(ingest, session) ||
	    session->arriving.slot != slot)
		return;
	state->stamp = session->arriving.stamp;
	ol_places_remove(&ingest->sessions->arriving, (uint32_t)(session - ingest->sessions->all));
}

void ol_early_forget(struct ol_ingest *ingest, struct ol_session *session)
{
	const struct ol_early *early = &ingest->early;
	const uint32_t index = (uint32_t)(session - ingest->sessions->all);

	ol_places_remove(&ingest->sessions->arriving, index);
	for (uint32_t i = 0; early->active && i < early->count; i++) {
		if (early->of[i].landed.session == index)
			early_drop(ingest);
	}
}

/* Add a gradient to those of the step */
static void early_add(struct ol_ingest *ingest, struct ol_landed landed, uint64_t stamp)
{
	struct ol_early *early = &ingest->early;

	early->of[early->count] = (struct ol_early_part){ landed, stamp };
	early->contributions[early->count++] = (struct ol_contribution){
		.grad = ol_ingest_gradient(ingest, landed),
		.scale = 1.0f,
		.worker = ingest->sessions->all[landed.session].worker,
		.format = (uint8_t)ingest->sessions->all[landed.session].hello.format,
	};
}

static void add_arriving(struct ol_ingest *ingest, uint32_t index)
{
	const struct ol_arriving *arriving = &ingest->sessions->all[index].arriving;

	early_add(ingest, (struct ol_landed){ index, arriving->slot }, arriving->stamp);
}

/* The gradient that has landed furthest, of those that make a step each */
static bool find_one(struct ol_ingest *ingest)
{
	const struct ol_sessions *sessions = ingest->sessions;
	const struct ol_places *arriving = &sessions->arriving;
	uint32_t best = arriving->size;

	if (ingest->batch_count > 0)
		return false;
	for (uint32_t i = 0; (i = ol_places_next(arriving, i)) < arriving->size; i++) {
		const struct ol_arriving *one = &sessions->all[i].arriving;

		if (!one->tried && (one->follows || sessions->live_workers == 1) &&
		    (best == arriving->size || one->first < sessions->all[best].arriving.first))
			best = i;
	}
	if (best == arriving->size)
		return false;
	add_arriving(ingest, best);
	return true;
}

static const struct ol_slot_state *slot_of(const struct ol_ingest *ingest, struct ol_landed landed)
{
	return &ingest->sessions->all[landed.session].slots[landed.slot];
}

/* A gradient of the batch, if it can be part of the step as it is */
static bool add_held(struct ol_ingest *ingest, struct ol_landed landed)
{
	const struct ol_slot_state *state = slot_of(ingest, landed);

	early_add(ingest, landed, state->stamp);
	return !state->queued && !state->is_void;
}

/* One of each worker: the batch's first, else one that arrives */
static bool find_all(struct ol_ingest *ingest, uint32_t all)
{
	const struct ol_places *arriving = &ingest->sessions->arriving;
	uint32_t held = 0, i = ol_places_next(arriving, 0);

	if (ingest->sessions->live_workers != all || ingest->batch_count + arriving->count < all)
		return false;
	while (ingest->early.count < all && (held < ingest->batch_count || i < arriving->size)) {
		if (held == ingest->batch_count || i < ingest->batch[held].session) {
			add_arriving(ingest, i);
			i = ol_places_next(arriving, i + 1);
			continue;
		}
		if (i == ingest->batch[held].session) /* its worker's next gradient */
			i = ol_places_next(arriving, i + 1);
		if (!add_held(ingest, ingest->batch[held++]))
			return false;
	}
	return ingest->early.count == all && held == ingest->batch_count && i == arriving->size;
}

static bool early_begin(struct ol_ingest *ingest)
{
	struct ol_early *early = &ingest->early;
	const uint32_t all = ol_policy_waits_for_all(ingest->policy);

	if (ingest->queue_count > 0 || ingest->step_ready || ingest->follow.on ||
	    ingest->store->want_norms || early->uneven || ol_store_needs_whole(ingest->store) ||
	    early->spoiled == ingest->store->version + 1)
		return false;
	early->count = 0;
	if (all > 0 ? !find_all(ingest, all)
		    : !ol_policy_single(ingest->policy) || !find_one(ingest))
		return false;
	if (!ingest->steps->early->begin(ingest))
		return false;
	early->active = true;
	early->version = ingest->store->version;
	early->first = ingest->store->geo.shard_len;
	return true;
}

/* From where on all gradients of the step have landed; shard_len: one of them is gone */
static uint64_t first_landed(const struct ol_ingest *ingest)
{
	const struct ol_early *early = &ingest->early;
	uint64_t first = 0;

	for (uint32_t i = 0; i < early->count; i++) {
		const struct ol_landed landed = early->of[i].landed;
		const struct ol_session *session = &ingest->sessions->all[landed.session];
		const struct ol_slot_state *state = slot_of(ingest, landed);

		if (is_arriving(ingest, session) && session->arriving.stamp == early->of[i].stamp) {
			if (session->arriving.first > first)
				first = session->arriving.first;
		} else if (!state->busy || state->stamp != early->of[i].stamp) {
			return ingest->store->geo.shard_len;
		}
	}
	return first;
}

void ol_early_progress(struct ol_ingest *ingest)
{
	struct ol_early *early = &ingest->early;
	struct ol_span span;

	early->behind = false;
	if (ingest->sessions->arriving.count == 0 || ingest->steps->early == NULL)
		return;
	if (early->active && early->version != ingest->store->version)
		early_drop(ingest);
	if (!early->active && !early_begin(ingest))
		return;
	span.first = first_landed(ingest);
	if (span.first == ingest->store->geo.shard_len)
		early_drop(ingest);
	if (span.first >= early->first)
		return;
	early->behind = !ol_turn_has_room(ingest->turn, OL_TURN_STEP);
	if (early->behind)
		return;
	span.len = early->first - span.first;
	ol_turn_spend(ingest->turn, OL_TURN_STEP, bytes_of(early, span.len));
	ol_counter_add(&ingest->store->board->early_bytes, bytes_of(early, span.len));
	early->first = span.first;
	if (ingest->steps->early->part(ingest, span))
		return;
	early->spoiled = early->version + 1;
	early_drop(ingest);
}

uint64_t ol_early_take(struct ol_ingest *ingest)
{
	struct ol_early *early = &ingest->early;
	bool ours;

	/* a step of one has a weight only where the rule sums */
	early->uneven = (ingest->batch_count > 1 || ingest->store->rule.sum != 0) &&
			!ol_weights_even(ingest->contributions, ingest->batch_count,
					 ingest->store->rule.sum != 0);
	ours = early->active && early->count == ingest->batch_count &&
	       early->version == ingest->store->version && !early->uneven;
	for (uint32_t i = 0; ours && i < early->count; i++)
		ours = early->of[i].landed.session == ingest->batch[i].session &&
		       early->of[i].landed.slot == ingest->batch[i].slot &&
		       early->of[i].stamp == slot_of(ingest, ingest->batch[i])->stamp &&
		       ingest->contributions[i].scale == 1.0f && !ingest->contributions[i].is_void;
	if (!ours) {
		early_drop(ingest);
		return ingest->store->geo.shard_len;
	}
	early->active = false;
	return early->first;
}

const char *ol_early_on_part(struct ol_ingest *ingest, struct ol_session *session, uint32_t arg)
{
	struct ol_arriving *arriving = &session->arriving;
	const uint32_t slot = ol_part_slot(arg);
	const uint64_t first = ol_part_first(arg);
	bool known;

	if (slot >= session->slot_count || session->slots[slot].busy)
		return "part of a slot that it may not write";
	known = is_arriving(ingest, session) && arriving->slot == slot;
	if (ol_part_is_cancel(arg)) {
		if (known)
			ol_early_forget(ingest, session);
		return NULL;
	}
	/* an honest worker rings no more; those of a liar must not cost a pass over the shard each */
	if (first >= (known ? arriving->first : ingest->store->geo.shard_len) ||
	    session->slots[slot].parts >= OL_PARTS_MAX)
		return NULL;
	session->slots[slot].parts++;
	if (!known) /* what was announced of another slot is forgotten */
		*arriving = (struct ol_arriving){ .slot = slot, .stamp = ++ingest->early.stamps };
	arriving->first = first;
	arriving->follows = ol_part_follows(arg);
	ol_places_add(&ingest->sessions->arriving, (uint32_t)(session - ingest->sessions->all));
	ol_early_progress(ingest);
	return NULL;
}
