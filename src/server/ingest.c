/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * ingest.c -- from a doorbell to an acknowledgement
 *
 *	bell -> header checked -> queue -> policy -> batch -> store -> ack
 *
 * A slot is busy from its bell until its ack is posted. Every push is acknowledged exactly once,
 * applied or not. The gradient is not copied to another buffer: the update reads it in its slot.
 */

#include "server/ingest.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/probe.h"
#include "policy/kind.h"
#include "policy/replay.h"
#include "rdma/order.h"
#include "server/withdraw.h"
#include "wire/format.h"
#include "wire/seq.h"

struct ol_slot_state *ol_ingest_slot(const struct ol_ingest *ingest, struct ol_landed landed)
{
	if (ol_follow_is_orphan(landed))
		return &ol_follow_of(&ingest->follow, landed)->state;
	return &ingest->sessions->all[landed.session].slots[landed.slot];
}

/* The format of a landed gradient */
static uint32_t format_of(const struct ol_ingest *ingest, struct ol_landed landed)
{
	if (ol_follow_is_orphan(landed))
		return ol_follow_of(&ingest->follow, landed)->format;
	return ingest->sessions->all[landed.session].hello.format;
}

static inline uint8_t *slot_memory(const struct ol_ingest *ingest, struct ol_landed landed)
{
	return (uint8_t *)ingest->sessions->all[landed.session].landing->addr +
	       ol_layout_slot_off(&ingest->store->geo, landed.slot);
}

/* Bytes of a gradient of this worker */
static uint64_t payload_bytes(const struct ol_ingest *ingest, const struct ol_session *session)
{
	return ol_format_bytes(session->hello.format, ingest->store->geo.shard_len);
}

const void *ol_ingest_gradient(const struct ol_ingest *ingest, struct ol_landed landed)
{
	if (ol_follow_is_orphan(landed))
		return ol_follow_of(&ingest->follow, landed)->gradient;
	return slot_memory(ingest, landed) + ol_layout_vector_bytes(&ingest->store->geo) -
	       payload_bytes(ingest, &ingest->sessions->all[landed.session]);
}

/* A place in the queue, which may be past its end by less than its size */
static struct ol_landed *queue_at(const struct ol_ingest *ingest, uint32_t at)
{
	return &ingest->queue[at < ingest->queue_size ? at : at - ingest->queue_size];
}

static void queue_put(struct ol_ingest *ingest, struct ol_landed landed)
{
	*queue_at(ingest, ingest->queue_head + ingest->queue_count++) = landed;
}

int ol_ingest_open(struct ol_ingest *ingest)
{
	size_t workers = ingest->opts->workers_max;
	const bool decided = ol_server_decided(ingest->opts);
	int rc;

	ingest->queue_size = ingest->opts->workers_max * (ingest->opts->window + 1);
	if (decided)
		ingest->queue_size *= 1 + OL_ORPHANS;
	ingest->queue = calloc(ingest->queue_size, sizeof(*ingest->queue));
	ingest->batch = calloc(workers, sizeof(*ingest->batch));
	ingest->parked = calloc(ingest->queue_size, sizeof(*ingest->parked));
	ingest->contributions = calloc(workers, sizeof(*ingest->contributions));
	if (ingest->queue == NULL || ingest->batch == NULL || ingest->parked == NULL ||
	    ingest->contributions == NULL)
		return -ENOMEM;
	rc = ol_times_open(&ingest->times, ingest->queue_size);
	if (rc == 0)
		rc = ol_early_open(&ingest->early, ingest->opts->workers_max);
	return rc == 0 ? ol_follow_open(ingest, decided) : rc;
}

void ol_ingest_close(struct ol_ingest *ingest)
{
	ol_follow_close(ingest);
	ol_early_close(&ingest->early);
	ol_times_close(&ingest->times);
	free(ingest->contributions);
	free(ingest->batch);
	free(ingest->parked);
	free(ingest->queue);
}

void ol_ingest_resolve(struct ol_ingest *ingest, struct ol_landed landed, int status,
		       uint64_t now_ns)
{
	struct ol_board *board = ingest->store->board;
	struct ol_slot_state *state = ol_ingest_slot(ingest, landed);

	if (ol_follow_is_orphan(landed)) {
		ol_follow_free(ingest, landed);
		return;
	}
	assert(state->busy && !state->owed);
	state->status = status;
	if (status != 0) {
		ol_probe4(push_dropped, ingest->opts->shard,
			  ingest->sessions->all[landed.session].worker, state->seq, status);
		if (status == OL_E_NONFINITE)
			ol_counter_add(&board->dropped_nonfinite, state->grads);
		else if (status == OL_E_LATE)
			ol_counter_add(&board->dropped_late, state->grads);
	}
	ol_ingest_ack(ingest, &ingest->sessions->all[landed.session], landed.slot, now_ns);
}

/* The fault of a push's header; NULL: none */
static const char *header_fault(const struct ol_ingest *ingest, const struct ol_session *session,
				const struct ol_push_hdr *hdr)
{
	if (!ol_record_whole(hdr))
		return "push header with a wrong checksum";
	if (hdr->epoch != session->epoch)
		return "push of another epoch";
	if (hdr->payload_bytes != payload_bytes(ingest, session))
		return "push of another length than the shard";
	if (!ol_seq_possible(hdr->seq))
		return "push with an impossible sequence number";
	if (session->numbered && ol_seq_tag(hdr->seq) != ol_seq_tag(session->last_seq))
		return "push with the sequence number of another process";
	/* a gradient that a policy dropped is not pushed again, so numbers may have gaps */
	if (ol_seq_contains(session->last_seq, hdr->seq) &&
	    !ol_seq_contains(ol_store_applied(ingest->store, session->worker).seq, hdr->seq))
		return "push with a sequence number out of turn";
	if (hdr->grads == 0)
		return "push of no gradient";
	if (!ol_weight_possible(hdr->weight))
		return "push with an impossible weight";
	if (ol_store_applied(ingest->store, session->worker).grads > OL_GRADS_PUSH_MAX)
		return "push of more gradients than a worker can compute";
	if (hdr->base_version > ol_ingest_newest(ingest))
		return "push computed at a version that does not exist";
	return NULL;
}

/* Copy the rule behind a push's header, then check it: the worker may still write there */
static __attribute__((noinline)) bool rule_take(const struct ol_ingest *ingest,
						const struct ol_session *session, uint32_t slot)
{
	const struct ol_geometry *geo = &ingest->store->geo;
	const struct ol_landed landed = { (uint32_t)(session - ingest->sessions->all), slot };
	struct ol_rule *rule = ol_session_rule(session, slot);

	memcpy(rule,
	       slot_memory(ingest, landed) + ol_layout_vector_bytes(geo) +
		       sizeof(struct ol_push_hdr),
	       session->rule_bytes);
	return ol_rule_fault(rule, geo) == NULL && ol_rule_useless(rule, geo) == NULL;
}

/* The weights have this push already */
static void again_resolve(struct ol_ingest *ingest, struct ol_landed landed, uint64_t now_ns)
{
	ol_counter_add(&ingest->store->board->duplicates, 1);
	if (ol_follow_is_orphan(landed) || ingest->steps->answers(ingest->arg))
		ol_ingest_resolve(ingest, landed, 0, now_ns);
	else
		ol_ingest_slot(ingest, landed)->busy = false; /* the tail answers it */
}

/* Its orphan was in a step that was on its way when its worker pushed it once more */
static bool is_again(const struct ol_ingest *ingest, struct ol_landed landed)
{
	return ol_follow_keeps(ingest) && !ol_ingest_slot(ingest, landed)->gone &&
	       ol_seq_contains(ol_store_applied(ingest->store, landed.session).seq,
			       ol_ingest_slot(ingest, landed)->seq);
}

const char *ol_ingest_on_push(struct ol_ingest *ingest, struct ol_session *session, uint32_t slot,
			      uint64_t now_ns)
{
	struct ol_landed landed = { .session = (uint32_t)(session - ingest->sessions->all),
				    .slot = slot };
	struct ol_slot_state *state;
	struct ol_push_hdr hdr;
	const char *fault;
	bool has_rule;

	if (slot >= session->slot_count)
		return "doorbell for a slot that it does not have";
	state = &session->slots[slot];
	if (state->busy)
		return "doorbell for a slot that is in use";
	memcpy(&hdr, slot_memory(ingest, landed) + ol_layout_vector_bytes(&ingest->store->geo),
	       sizeof(hdr));
	fault = header_fault(ingest, session, &hdr);
	if (fault != NULL)
		return fault;
	has_rule = (hdr.flags & OL_PUSH_RULE) != 0;
	if (has_rule && !rule_take(ingest, session, slot))
		return "push with an impossible rule";
	ol_acks_end(ingest, session, state); /* of the push before: its worker has it from a tail */
	state->busy = true;
	state->seq = hdr.seq;
	state->base_version = hdr.base_version;
	state->ahead = ingest->follow.on ? hdr.ahead : 0;
	state->loss = hdr.loss;
	state->samples = hdr.samples;
	state->grads = hdr.grads;
	state->weight = hdr.weight;
	state->last_version = hdr.last_version;
	state->landed_ns = now_ns;
	state->queued = (hdr.flags & OL_PUSH_QUEUED) != 0;
	state->path = (hdr.flags & OL_PUSH_PATH) != 0;
	state->is_void = (hdr.flags & OL_PUSH_VOID) != 0;
	state->again = (hdr.flags & OL_PUSH_AGAIN) != 0;
	state->mean = (hdr.flags & OL_PUSH_MEAN) != 0;
	state->has_rule = has_rule;
	state->gone = false;
	ol_counter_add(&ingest->store->board->bytes_in, hdr.payload_bytes + sizeof(hdr));
	ol_early_on_push(ingest, session, slot);
	if (ol_seq_contains(session->last_seq, hdr.seq)) {
		again_resolve(ingest, landed, now_ns);
		return NULL;
	}
	assert(ingest->queue_count < ingest->queue_size);
	session->last_seq = hdr.seq;
	session->numbered = true;
	ol_probe4(push_landed, ingest->opts->shard, session->worker, hdr.seq, hdr.base_version);
	if (!ingest->follow.on || !ol_follow_takes(ingest, session, landed, now_ns))
		queue_put(ingest, landed);
	ol_ingest_progress(ingest, now_ns);
	return NULL;
}

/* Insert into the batch in worker order, so that sums are a function of the gradients alone. */
void ol_ingest_batch(struct ol_ingest *ingest, struct ol_landed landed)
{
	uint32_t at = ingest->batch_count++;

	while (at > 0 && ingest->batch[at - 1].session > landed.session) {
		ingest->batch[at] = ingest->batch[at - 1];
		at--;
	}
	ingest->batch[at] = landed;
}

/* Its worker's job is where it ends: a step of it would be one that nobody wants */
static bool is_over(const struct ol_ingest *ingest, const struct ol_slot_state *state)
{
	return state->last_version != 0 && ingest->store->version >= state->last_version;
}

/* The policy says what becomes of a gradient, or the step that another shard has made */
static enum ol_verdict judge(struct ol_ingest *ingest, struct ol_landed landed)
{
	const struct ol_slot_state *state = ol_ingest_slot(ingest, landed);
	const struct ol_arrival arrival = {
		.base_version = ol_ingest_base(state),
		.version = ingest->store->version,
		.now_ns = state->landed_ns,
		.worker = landed.session,
		.loss = state->loss,
		.queued = state->queued,
		.again = state->again,
	};

	if (ol_follow_keeps(ingest))
		return ol_follow_judge(ingest, landed);
	/* shard 0 followed others, and decides again: its worker is gone */
	if (ol_follow_is_orphan(landed))
		return OL_VERDICT_LATE;
	return ol_policy_on_gradient(ingest->policy, &arrival);
}

void ol_ingest_requeue(struct ol_ingest *ingest)
{
	while (ingest->parked_count > 0) {
		ingest->queue_head =
			(ingest->queue_head == 0 ? ingest->queue_size : ingest->queue_head) - 1;
		ingest->queue[ingest->queue_head] = ingest->parked[--ingest->parked_count];
		ingest->queue_count++;
	}
}

static void queue_to_batch(struct ol_ingest *ingest, uint64_t now_ns)
{
	/* the policy decides about the next step, so no other may be in progress */
	while (ingest->queue_count > 0 && !ingest->step_ready &&
	       ol_ingest_newest(ingest) == ingest->store->version) {
		struct ol_landed landed = ingest->queue[ingest->queue_head];
		struct ol_session *session = &ingest->sessions->all[landed.session];
		const struct ol_slot_state *state = ol_ingest_slot(ingest, landed);

		if (++ingest->queue_head == ingest->queue_size)
			ingest->queue_head = 0;
		ingest->queue_count--;
		if (is_again(ingest, landed)) {
			again_resolve(ingest, landed, now_ns);
			continue;
		}
		if (is_over(ingest, state)) {
			ol_ingest_resolve(ingest, landed, OL_E_LATE, now_ns);
			continue;
		}
		switch (judge(ingest, landed)) {
		case OL_VERDICT_HOLD:
			ol_ingest_batch(ingest, landed);
			if (ol_withdraw_is(ingest, landed))
				ol_withdraw_held(ingest, session, now_ns);
			break;
		case OL_VERDICT_STEP:
			ol_ingest_batch(ingest, landed);
			ingest->step_ready = true;
			break;
		case OL_VERDICT_LATE:
			ol_ingest_resolve(ingest, landed,
					  state->is_void && ol_follow_keeps(ingest) ? OL_E_NONFINITE
										    : OL_E_LATE,
					  now_ns);
			break;
		case OL_VERDICT_WAIT:
			if (ol_withdraw_is(ingest, landed))
				ol_withdraw_waiting(ingest, landed, now_ns);
			else
				ingest->parked[ingest->parked_count++] = landed;
			break;
		}
	}
}

static void wait_for_show(struct ol_ingest *ingest)
{
	ol_word_store(&ingest->store->board->wait_for, ol_policy_wait_for(ingest->policy));
}

void ol_ingest_updated(struct ol_ingest *ingest, uint32_t count, const struct ol_norms *norms,
		       uint64_t now_ns)
{
	struct ol_update update = {
		.version = ingest->store->version,
		.now_ns = now_ns,
		.count = count,
		.norm2_sum = norms != NULL ? norms->sum : NAN,
		.norm2_mean = norms != NULL ? norms->mean : NAN,
	};

	ol_policy_on_update(ingest->policy, &update);
	ingest->follow.since_ns = now_ns;
	wait_for_show(ingest);
	ol_ingest_requeue(ingest);
}

void ol_ingest_on_join(struct ol_ingest *ingest, const struct ol_session *session, uint64_t now_ns)
{
	ol_policy_on_join(ingest->policy, session->worker);
	ol_follow_on_join(ingest, session->worker, now_ns);
	wait_for_show(ingest);
	ol_ingest_requeue(ingest);
}

/* The snapshots that must stay as they are, however long that takes */
static unsigned held_mask(const struct ol_ingest *ingest)
{
	return ol_save_pinned(ingest->saving) | ol_successor_pinned(ingest->replica);
}

static unsigned pinned_mask(const struct ol_ingest *ingest, unsigned *ret_kinds)
{
	*ret_kinds = 0;
	if (ingest->sessions->pinning.count == 0) /* as almost always */
		return 0;
	return ol_pins_mask(&ingest->pins, ingest->sessions, ingest->store, ret_kinds);
}

int ol_ingest_spare(const struct ol_ingest *ingest)
{
	unsigned kinds;

	return ol_store_target(ingest->store, held_mask(ingest) | pinned_mask(ingest, &kinds));
}

/* Readers may delay a step for a bounded time only. */
int ol_ingest_target(struct ol_ingest *ingest, uint64_t now_ns)
{
	const uint64_t timeout_ns = ingest->opts->pin_timeout_ms * OL_NS_PER_MS;
	const unsigned held = held_mask(ingest);
	unsigned kinds;
	int target, without;

	target = ol_store_target(ingest->store, held | pinned_mask(ingest, &kinds));
	if (target < 0) {
		without = ol_store_target(ingest->store, held);
		if (ol_pins_wait(&ingest->pins, without >= 0 ? kinds : 0, timeout_ns, now_ns))
			target = without;
	}
	if (target >= 0 && ol_pins_owe(&ingest->pins))
		ol_pins_pass(&ingest->pins, timeout_ns, now_ns);
	return target;
}

/* Steps made since the weights that a gradient was computed at, where the next one is made of `version` */
static uint64_t age_at(const struct ol_slot_state *state, uint64_t version)
{
	const uint64_t base = ol_ingest_base(state);

	return version > base ? version - base : 0;
}

void ol_ingest_count(struct ol_ingest *ingest, const struct ol_slot_state *state, uint64_t version)
{
	struct ol_board *board = ingest->store->board;
	const uint64_t age = age_at(state, version);
	uint64_t bits = 0;

	ol_counter_add(&board->applied, state->grads);
	if (state->queued)
		ol_counter_add(&board->replayed, state->grads);
	else if (ingest->opts->consistency == OL_CONSISTENCY_SYNC && /* else it misses no step */
		 (ingest->opts->late != OL_LATE_DROP || state->again) && age != 0)
		ol_counter_add(&board->carried, state->grads);
	ol_counter_add(&board->samples, state->samples);
	ol_counter_add(&board->staleness_sum, age);
	if (!isfinite(state->loss))
		return;
	ingest->loss = ingest->loss_count++ == 0
			       ? state->loss
			       : ingest->loss + (state->loss - ingest->loss) / 32.0f;
	memcpy(&bits, &ingest->loss, sizeof(ingest->loss));
	ol_word_store(&board->loss_bits, bits);
}

static bool early_begin(struct ol_ingest *ingest)
{
	int target = ol_ingest_spare(ingest);

	if (target < 0)
		return false;
	ingest->early.target = (unsigned)target;
	ol_store_begin(ingest->store, ingest->early.target);
	return true;
}

static bool early_part(struct ol_ingest *ingest, struct ol_span span)
{
	const struct ol_early *early = &ingest->early;

	return ol_store_part(ingest->store, early->contributions, early->count, span,
			     early->target);
}

static void early_drop(struct ol_ingest *ingest)
{
	(void)ingest; /* the next update takes the snapshot */
}

const struct ol_early_steps ol_ingest_early = {
	.begin = early_begin,
	.part = early_part,
	.drop = early_drop,
};

/* Finish the step that was begun early. False: none was begun of these gradients and this rule, or one
 * is not finite */
static bool early_finish(struct ol_ingest *ingest, uint32_t count)
{
	const struct ol_span rest = { .len = ol_early_take(ingest) };

	if (rest.len == ingest->store->geo.shard_len || ingest->has_rule ||
	    !ol_store_part(ingest->store, ingest->contributions, count, rest, ingest->early.target))
		return false;
	ol_store_publish(ingest->store, ingest->contributions, count, ingest->early.target);
	return true;
}

/* Workers whose local paths are added up; a synchronous mean divides by them already */
static uint32_t local_paths(const struct ol_ingest *ingest)
{
	if (ingest->opts->consistency == OL_CONSISTENCY_SYNC && !ingest->opts->rule.sum)
		return 1;
	/* the same at all shards that make a step together */
	return ingest->sessions->live_workers > ingest->opts->workers && !ingest->follow.on
		       ? ingest->sessions->live_workers
		       : ingest->opts->workers;
}

/*
 * The factor on a gradient that missed its step. What is pushed again had one, and is none. But of several shards
 * each has the factor by itself: so it is a function of the step and of the gradient's version alone, whoever was
 * told of what.
 */
static float age_scale(const struct ol_ingest *ingest, const struct ol_slot_state *state)
{
	if (ingest->opts->late != OL_LATE_AGED || (state->again && !ingest->follow.on))
		return 1.0f;
	return 1.0f / (1.0f + (float)age_at(state, ol_ingest_newest(ingest)));
}

/* The factor on a landed gradient: 1, unless it was summed during an outage. A worker that changes the
 * gradient after its norm was taken pushes another one, as it may. */
static float scale_of(struct ol_ingest *ingest, const struct ol_slot_state *state, const void *grad,
		      uint32_t format)
{
	const float sum = state->mean ? (float)state->grads : 1.0f;
	struct ol_delta delta;

	if (!state->queued)
		return sum * age_scale(ingest, state);
	delta = (struct ol_delta){
		.staleness = age_at(state, ingest->store->version),
		.grads = state->grads,
		.ways = local_paths(ingest),
		.lr = ol_rule_lr(ol_store_rule(ingest->store), 0, ingest->store->version),
		.clip = ingest->opts->replay_clip,
		.path = state->path,
	};
	if (ingest->opts->replay == OL_REPLAY_CLIP)
		delta.norm = sum * ol_store_norm(ingest->store, grad, format);
	return sum * ol_replay_scale(ingest->opts->replay, &delta);
}

/* A gradient of the batch brings a rule: is it news? One that is none does not undo another's */
static __attribute__((noinline)) void rule_gather(struct ol_ingest *ingest, struct ol_landed landed)
{
	const struct ol_rule *brought =
		ol_follow_is_orphan(landed)
			? ol_follow_of(&ingest->follow, landed)->rule
			: ol_session_rule(&ingest->sessions->all[landed.session], landed.slot);

	if (!ol_rule_is_news(ol_store_rule(ingest->store), brought))
		return;
	ingest->has_rule = true;
	memcpy(&ingest->rule, brought, ol_rule_bytes_used(brought));
	if (brought->begin == OL_RULE_NOW)
		ingest->rule.begin = ingest->store->version;
}

void ol_ingest_gather(struct ol_ingest *ingest)
{
	ingest->has_rule = false;
	ol_turn_spend(ingest->turn, OL_TURN_STEP,
		      ingest->batch_count * ol_layout_vector_bytes(&ingest->store->geo));
	for (uint32_t i = 0; i < ingest->batch_count; i++) {
		struct ol_landed landed = ingest->batch[i];
		const struct ol_slot_state *state = ol_ingest_slot(ingest, landed);
		const uint32_t format = format_of(ingest, landed);
		const void *grad = ol_ingest_gradient(ingest, landed);

		if (state->has_rule && !state->is_void)
			rule_gather(ingest, landed); /* the last worker's is taken */
		ingest->contributions[i] = (struct ol_contribution){
			.grad = grad,
			.seq = state->seq,
			.grads = state->grads,
			.scale = scale_of(ingest, state, grad, format),
			.weight = state->weight,
			.is_void = state->is_void,
			.worker = landed.session,
			.format = (uint8_t)format,
		};
	}
}

bool ol_ingest_apply(struct ol_ingest *ingest, uint64_t now_ns)
{
	uint64_t version = ingest->store->version;
	uint32_t count = ingest->batch_count, applied = count;
	int target = ol_ingest_target(ingest, now_ns);

	if (target < 0)
		return false;
	ol_ingest_gather(ingest);
	if (ingest->has_rule)
		ol_store_rule_next(ingest->store, &ingest->rule);
	if (!early_finish(ingest, count))
		applied = ol_store_apply(ingest->store, ingest->contributions, count,
					 (unsigned)target);
	if (ingest->has_rule)
		ol_store_rule_next(ingest->store, NULL); /* also if nothing was applied */
	ingest->batch_count = 0;
	ingest->step_ready = false;
	ol_ingest_updated(ingest, applied, &ingest->store->norms, now_ns);
	if (ingest->store->version != version) {
		ol_probe2(entry_committed, ingest->opts->shard, ingest->store->version);
		if (ol_word_load(&ingest->store->board->first_applied_ns) == 0)
			ol_word_store(&ingest->store->board->first_applied_ns, now_ns);
	}
	for (uint32_t i = 0; i < count; i++) {
		const struct ol_slot_state *state = ol_ingest_slot(ingest, ingest->batch[i]);
		int status = ingest->contributions[i].status;

		if (status == 0) {
			ol_probe5(push_applied, ingest->opts->shard,
				  ingest->contributions[i].worker, state->seq,
				  ingest->store->version, ingest->replica->chain.role);
			ol_ingest_count(ingest, state, version);
			ol_times_add(&ingest->times, ingest->contributions[i].worker, state->seq,
				     state->landed_ns);
			ol_probe4(push_committed, ingest->opts->shard,
				  ingest->contributions[i].worker, state->seq,
				  ingest->store->version);
		}
		ol_ingest_resolve(ingest, ingest->batch[i], status, now_ns);
	}
	ol_times_apply(&ingest->times);
	return true;
}

bool ol_ingest_waits(const struct ol_ingest *ingest)
{
	return ingest->sessions->owed_total > 0 || ingest->step_ready || ingest->queue_count > 0 ||
	       ingest->early.behind || ol_replica_waits(ingest->replica);
}

/* What waits for a step is judged anew, by what has been decided meanwhile */
static void batch_requeue(struct ol_ingest *ingest)
{
	ol_ingest_requeue(ingest);
	while (ingest->batch_count > 0) {
		const struct ol_landed landed = ingest->batch[--ingest->batch_count];

		if (!ol_follow_is_orphan(landed)) { /* for the policy it has given nothing */
			ol_policy_on_leave(ingest->policy, landed.session);
			ol_policy_on_join(ingest->policy, landed.session);
		}
		ingest->parked[ingest->parked_count++] = landed;
		ol_ingest_requeue(ingest);
	}
	ingest->step_ready = false;
}

/* A step is due that waits for time alone. True: what waits is to be judged anew first */
static bool time_is_up(struct ol_ingest *ingest, uint64_t now_ns)
{
	if (ol_follow_far(ingest, now_ns)) {
		batch_requeue(ingest);
		return true;
	}
	ingest->step_ready = !ol_follow_is_due(ingest) || ol_follow_fill(ingest);
	return false;
}

void ol_ingest_progress(struct ol_ingest *ingest, uint64_t now_ns)
{
	bool again;

	if (ingest->sessions->owed_total > 0)
		ol_acks_flush(ingest, now_ns);
	ingest->steps->progress(ingest->arg, now_ns);
	do {
		queue_to_batch(ingest, now_ns);
		again = !ingest->step_ready && ol_ingest_due_ns(ingest) <= now_ns &&
			time_is_up(ingest, now_ns);
	} while (again || (ingest->step_ready && ol_turn_has_room(ingest->turn, OL_TURN_STEP) &&
			   ingest->steps->step(ingest->arg, now_ns)));
	ol_early_progress(ingest);
	if (ingest->follow.on)
		ol_follow_show(ingest);
}

/* The held gradients make a step now, without another one. In a chain they may be in an entry
 * already. */
static void waits_changed(struct ol_ingest *ingest)
{
	wait_for_show(ingest);
	if (ingest->batch_count > 0 && ol_policy_ready(ingest->policy))
		ingest->step_ready = true;
	ol_ingest_requeue(ingest);
}

const char *ol_ingest_on_decision(struct ol_ingest *ingest, struct ol_session *session,
				  uint32_t place, uint64_t now_ns)
{
	bool news;
	const char *fault = ol_follow_on_decision(ingest, session, place, now_ns, &news);

	if (news)
		batch_requeue(ingest);
	if (fault == NULL)
		ol_ingest_progress(ingest, now_ns);
	return fault;
}

const char *ol_ingest_on_gone(struct ol_ingest *ingest, struct ol_session *session, uint32_t slot,
			      uint64_t now_ns)
{
	if (!ingest->follow.on || slot >= session->slot_count)
		return "withdrawal of a slot that no other shard decides about";
	session->slots[slot].gone = true;
	ol_ingest_requeue(ingest);
	ol_ingest_progress(ingest, now_ns);
	return NULL;
}

/* The gradients of a session that is about to go are kept, as shard 0 may have taken them */
static void session_orphan(struct ol_ingest *ingest, uint32_t index)
{
	ol_ingest_requeue(ingest);
	for (uint32_t i = 0; i < ingest->queue_count; i++) {
		struct ol_landed *landed = queue_at(ingest, ingest->queue_head + i);

		if (landed->session == index && !ol_follow_is_orphan(*landed))
			(void)ol_follow_orphan(ingest, landed);
	}
	for (uint32_t i = 0; i < ingest->batch_count; i++) {
		if (ingest->batch[i].session == index && !ol_follow_is_orphan(ingest->batch[i]))
			(void)ol_follow_orphan(ingest, &ingest->batch[i]);
	}
}

void ol_ingest_forget(struct ol_ingest *ingest, struct ol_session *session)
{
	uint32_t index = (uint32_t)(session - ingest->sessions->all), kept = 0, batch_count;

	if (ol_follow_keeps(ingest))
		session_orphan(ingest, index);

	ol_early_forget(ingest, session);
	for (uint32_t i = 0; i < ingest->queue_count; i++) {
		struct ol_landed landed = *queue_at(ingest, ingest->queue_head + i);

		if (landed.session != index || ol_follow_is_orphan(landed))
			*queue_at(ingest, ingest->queue_head + kept++) = landed;
	}
	ingest->queue_count = kept;
	ingest->parked_count = ol_withdraw_others(ingest->parked, ingest->parked_count, index);
	batch_count = ingest->batch_count;
	ingest->batch_count = ol_withdraw_others(ingest->batch, batch_count, index);
	if (ingest->batch_count != batch_count)
		ingest->step_ready = false;
	ol_policy_on_leave(ingest->policy, session->worker);
	waits_changed(ingest);
	ol_withdraw_drop(ingest);
}
