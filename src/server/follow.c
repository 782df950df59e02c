/* SPDX-License-Identifier: BSD-3-Clause */

/* follow.c -- makes the steps that another shard has made */

#include "server/follow.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "rdma/order.h"
#include "server/ingest.h"
#include "wire/format.h"
#include "wire/seq.h"

/* A step is on its way down the chain: what the next one lacks is not known */
static bool is_between(const struct ol_ingest *ingest)
{
	return ol_ingest_newest(ingest) > ingest->store->version;
}

int ol_follow_open(struct ol_ingest *ingest, bool on)
{
	struct ol_follow *follow = &ingest->follow;

	follow->on = on;
	if (!on)
		return 0;
	follow->seqs = calloc(ingest->opts->workers_max, sizeof(*follow->seqs));
	follow->lost = calloc(ingest->opts->workers_max, sizeof(*follow->lost));
	follow->newest_seqs = calloc(ingest->opts->workers_max, sizeof(*follow->newest_seqs));
	follow->came_ns = calloc(ingest->opts->workers_max, sizeof(*follow->came_ns));
	return follow->seqs != NULL && follow->lost != NULL && follow->newest_seqs != NULL &&
			       follow->came_ns != NULL
		       ? 0
		       : -ENOMEM;
}

int ol_follow_start(struct ol_ingest *ingest)
{
	struct ol_follow *follow = &ingest->follow;

	if (follow->on)
		follow->table = malloc(ol_layout_table_bytes(&ingest->store->geo));
	return follow->on && follow->table == NULL ? -ENOMEM : 0;
}

static void orphan_empty(struct ol_orphan *orphan)
{
	free(orphan->own);
	free(orphan->rule);
	*orphan = (struct ol_orphan){ 0 };
}

void ol_follow_close(struct ol_ingest *ingest)
{
	struct ol_follow *follow = &ingest->follow;

	for (uint32_t i = 0; i < follow->orphan_count; i++)
		orphan_empty(&follow->orphans[i]);
	free(follow->orphans);
	free(follow->zeros);
	free(follow->table);
	free(follow->lost);
	free(follow->newest_seqs);
	free(follow->came_ns);
	free(follow->seqs);
}

bool ol_follow_is_due(const struct ol_ingest *ingest)
{
	return ingest->follow.on && ingest->follow.version > ol_ingest_newest(ingest);
}

bool ol_follow_keeps(const struct ol_ingest *ingest)
{
	return ingest->follow.on &&
	       (ingest->opts->shard != 0 || ingest->follow.newest > ol_ingest_newest(ingest));
}

/* ---- decisions ---- */

/* Copy a decision, as the worker may still write there. False: it is not whole */
static bool decision_copy(struct ol_ingest *ingest, const struct ol_session *session,
			  uint32_t place, struct ol_decision *ret_decision)
{
	const struct ol_geometry *geo = &ingest->store->geo;
	const uint64_t bytes = ol_layout_table_bytes(geo);
	const uint8_t *at = (const uint8_t *)session->landing->addr +
			    ol_layout_decision_off(geo, session->slot_count, place);

	memcpy(ret_decision, at, sizeof(*ret_decision));
	if (!ol_record_whole(ret_decision))
		return false;
	memcpy(ingest->follow.table, at + sizeof(*ret_decision), bytes);
	return ol_record_crc(ingest->follow.table, bytes) == ret_decision->table_crc;
}

/* It is ahead, and no decision that is nearer is known */
static bool is_nearest(const struct ol_ingest *ingest, uint64_t version)
{
	return version > ol_ingest_newest(ingest) &&
	       (!ol_follow_is_due(ingest) || version < ingest->follow.version);
}

/* Does it say anything that this server does not know? */
static bool is_news(const struct ol_ingest *ingest, const struct ol_decision *decision)
{
	const struct ol_follow *follow = &ingest->follow;
	const uint32_t known = follow->founded[decision->shard];

	if (decision->founded < known) /* of a history that was given up */
		return false;
	return (decision->shard == 0 && decision->founded > known) ||
	       is_nearest(ingest, decision->version) ||
	       (decision->version > follow->newest && decision->version > ol_ingest_newest(ingest));
}

/* 0, or why no server's word for it can be found */
static int decision_check(const struct ol_ingest *ingest, const struct ol_decision *decision)
{
	const struct ol_vouched what = { .history = decision->history,
					 .founded = decision->founded,
					 .version = decision->version };
	struct ol_geometry geo = ingest->store->geo;

	geo.shard = decision->shard;
	return ol_voucher_check(ingest->sessions->job_key, &geo, &what, ingest->follow.table);
}

/* The last push of each worker in the decision that was read last */
static void seqs_read(struct ol_ingest *ingest, uint64_t *ret_seqs)
{
	for (uint32_t i = 0; i < ingest->opts->workers_max; i++)
		ret_seqs[i] = ol_applied_of(ingest->follow.table, i).seq;
}

/* Others are ahead, and no decision is followed */
static bool is_far(const struct ol_ingest *ingest)
{
	return ingest->follow.on && !ol_follow_is_due(ingest) &&
	       ingest->follow.newest > ol_ingest_newest(ingest);
}

static void decision_take(struct ol_ingest *ingest, const struct ol_decision *decision,
			  uint64_t now_ns)
{
	struct ol_follow *follow = &ingest->follow;

	follow->version = decision->version;
	follow->since_ns = now_ns;
	seqs_read(ingest, follow->seqs);
}

static void newest_note(struct ol_ingest *ingest, const struct ol_decision *decision,
			uint64_t now_ns)
{
	struct ol_follow *follow = &ingest->follow;

	follow->newest = decision->version;
	if (!ol_follow_is_due(ingest))
		follow->since_ns = now_ns;
	seqs_read(ingest, follow->newest_seqs);
}

bool ol_follow_far(struct ol_ingest *ingest, uint64_t now_ns)
{
	struct ol_follow *follow = &ingest->follow;

	if (!is_far(ingest))
		return false;
	follow->version = follow->newest;
	follow->since_ns = now_ns;
	memcpy(follow->seqs, follow->newest_seqs,
	       ingest->opts->workers_max * sizeof(*follow->seqs));
	return true;
}

void ol_follow_on_join(struct ol_ingest *ingest, uint32_t worker, uint64_t now_ns)
{
	if (ingest->follow.on)
		ingest->follow.came_ns[worker] = now_ns;
}

const char *ol_follow_on_decision(struct ol_ingest *ingest, const struct ol_session *session,
				  uint32_t place, uint64_t now_ns, bool *ret_news)
{
	struct ol_follow *follow = &ingest->follow;
	struct ol_decision decision;
	bool near;
	int rc;

	*ret_news = false;
	if (!follow->on || session->slot_count == 0)
		return "decision in a job in which each shard makes its own steps";
	if (place >= OL_DECISION_PLACES)
		return "decision at no place of one";
	if (!decision_copy(ingest, session, place, &decision))
		return NULL; /* it is being written again, and another bell follows */
	if (decision.shard >= ingest->opts->shard_count || decision.shard == ingest->opts->shard ||
	    decision.version > OL_VERSION_MAX)
		return "decision of an impossible shard or version";
	if (!is_news(ingest, &decision))
		return NULL;
	rc = decision_check(ingest, &decision);
	if (rc == -EACCES)
		return "decision for which no server vouches";
	if (rc != 0)
		return NULL;
	follow->founded[decision.shard] = decision.founded;
	near = place == 0 && is_nearest(ingest, decision.version);
	*ret_news = near || decision.version > follow->newest;
	if (decision.version > follow->newest)
		newest_note(ingest, &decision, now_ns);
	if (near)
		decision_take(ingest, &decision, now_ns);
	return NULL;
}

const char *ol_follow_on_again(struct ol_ingest *ingest, struct ol_session *session,
			       uint64_t now_ns)
{
	if (!ingest->follow.on)
		return "end of pushes again in a job in which each shard makes its own steps";
	if (!session->again) /* what came before it may not have been looked at */
		ol_follow_on_join(ingest, session->worker, now_ns);
	session->again = true;
	return NULL;
}

void ol_follow_show(struct ol_ingest *ingest)
{
	_Atomic uint64_t *word = &ingest->store->board->line.decider;

	if (ingest->follow.newest <= ol_ingest_newest(ingest) && !is_between(ingest))
		ol_word_store(word, ingest->follow.founded[0]);
}

/* ---- gradients ---- */

/* The decision has a push of this worker that the published weights lack, and that is not given up. A shard that
 * has given up some may have fewer than these weights */
static bool is_in_coming(const struct ol_ingest *ingest, uint32_t worker)
{
	const uint64_t seq = ingest->follow.seqs[worker];

	return seq != 0 && !ol_seq_contains(ol_store_applied(ingest->store, worker).seq, seq) &&
	       !ol_seq_contains(ingest->follow.lost[worker], seq);
}

static bool in_batch(const struct ol_ingest *ingest, uint32_t worker)
{
	for (uint32_t i = 0; i < ingest->batch_count; i++) {
		if (ingest->batch[i].session == worker)
			return true;
	}
	return false;
}

/*
 * It is in no step that is still to be made here. A later process of its worker has a gradient in a step: shard 0 had
 * ended this one by then. Or its step has been made, and it is dropped there. Time says nothing: its worker may live,
 * and be away from here alone.
 */
static bool is_left_behind(const struct ol_ingest *ingest, const struct ol_orphan *orphan)
{
	const uint64_t applied = ol_store_applied(ingest->store, orphan->worker).seq;

	return (orphan->successor != 0 && orphan->successor == ol_seq_tag(applied)) ||
	       (ingest->opts->late == OL_LATE_DROP && !orphan->state.again &&
		ol_ingest_base(&orphan->state) < ol_ingest_newest(ingest));
}

enum ol_verdict ol_follow_judge(const struct ol_ingest *ingest, struct ol_landed landed)
{
	const struct ol_slot_state *state = ol_ingest_slot(ingest, landed);
	const uint64_t taken = ingest->follow.seqs[landed.session];
	const bool decided = ol_follow_is_due(ingest) && is_in_coming(ingest, landed.session) &&
			     ol_seq_contains(taken, state->seq);
	const bool next = ingest->follow.version == ol_ingest_newest(ingest) + 1;

	/* what is not finite is in no step */
	if (decided && !state->is_void && (state->seq == taken || (!next && !state->gone)))
		return (next || ol_ingest_base(state) <= ol_ingest_newest(ingest)) &&
				       !in_batch(ingest, landed.session)
			       ? OL_VERDICT_HOLD
			       : OL_VERDICT_WAIT;
	if ((decided && next) || state->gone ||
	    ol_seq_contains(ingest->follow.lost[landed.session], state->seq) ||
	    (ol_follow_is_orphan(landed) &&
	     (state->is_void || is_left_behind(ingest, ol_follow_of(&ingest->follow, landed)))))
		return OL_VERDICT_LATE;
	return OL_VERDICT_WAIT;
}

/* A gradient of this worker is here, for a later step than the next */
static bool is_for_later(const struct ol_ingest *ingest, uint32_t worker)
{
	for (uint32_t i = 0; i < ingest->parked_count; i++) {
		if (ingest->parked[i].session == worker &&
		    ol_seq_contains(ingest->follow.seqs[worker],
				    ol_ingest_slot(ingest, ingest->parked[i])->seq))
			return true;
	}
	return false;
}

static bool is_missing(const struct ol_ingest *ingest, uint32_t worker)
{
	return is_in_coming(ingest, worker) && !in_batch(ingest, worker) &&
	       !is_for_later(ingest, worker);
}

/* What is missing of a worker never comes: its id has another process, or it keeps the push no more */
static bool never_comes(const struct ol_ingest *ingest, uint32_t worker)
{
	const struct ol_session *session = &ingest->sessions->all[worker];
	const uint64_t seq = ingest->follow.seqs[worker];

	return session->state == OL_SESSION_LIVE && session->hello.tag != 0 &&
	       (session->hello.tag != ol_seq_tag(seq) ||
		ol_seq_contains(session->hello.gone_seq, seq));
}

/* Its worker is here and may have it. It may wait for another shard that is gone: it pushes to shard 0 last */
static bool may_come(const struct ol_ingest *ingest, uint32_t worker)
{
	const struct ol_session *session = &ingest->sessions->all[worker];

	return session->state == OL_SESSION_LIVE && session->hello.tag != 0 && !session->again;
}

uint64_t ol_follow_due_ns(const struct ol_ingest *ingest)
{
	const struct ol_follow *follow = &ingest->follow;
	const uint64_t wait_ns = ingest->opts->restore_wait_ms * OL_NS_PER_MS;
	uint64_t due_ns = 0;

	if (is_between(ingest))
		return UINT64_MAX;
	if (!ol_follow_is_due(ingest))
		return is_far(ingest) ? follow->since_ns + wait_ns : UINT64_MAX;
	for (uint32_t i = 0; i < ingest->opts->workers_max; i++) {
		uint64_t since_ns = follow->came_ns[i] > follow->since_ns ? follow->came_ns[i]
									  : follow->since_ns;

		if (!is_missing(ingest, i) || never_comes(ingest, i))
			continue;
		since_ns += may_come(ingest, i) ? OL_FOLLOW_PATIENCE * wait_ns : wait_ns;
		due_ns = since_ns > due_ns ? since_ns : due_ns;
	}
	return due_ns;
}

/* ---- orphans ---- */

/* A free place; NULL: no memory */
static struct ol_orphan *orphan_make(struct ol_ingest *ingest, uint32_t *ret_slot)
{
	struct ol_follow *follow = &ingest->follow;
	const uint32_t count = follow->orphan_count;
	struct ol_orphan *more;
	uint32_t i = 0;

	while (i < count && follow->orphans[i].used)
		i++;
	if (i == count) {
		more = realloc(follow->orphans, (count + 1) * sizeof(*more));
		if (more == NULL)
			return NULL;
		more[count] = (struct ol_orphan){ 0 };
		follow->orphans = more;
		follow->orphan_count++;
	}
	*ret_slot = OL_ORPHAN_SLOT + i;
	return &follow->orphans[i];
}

/* What the oldest process of a worker has left goes, but for what a decision has, where there is no room for one more */
static bool room_make(struct ol_ingest *ingest, uint32_t worker, uint32_t tag)
{
	const struct ol_follow *follow = &ingest->follow;
	const struct ol_orphan *oldest = NULL;
	uint32_t count = 0;

	for (uint32_t i = 0; i < follow->orphan_count; i++) {
		const struct ol_orphan *one = &follow->orphans[i];

		if (!one->used || one->worker != worker || one->state.gone)
			continue;
		count++;
		if (ol_seq_tag(one->state.seq) != tag &&
		    (oldest == NULL || one->since_ns < oldest->since_ns))
			oldest = one;
	}
	if (count < OL_ORPHANS * (ingest->opts->window + 1))
		return true;
	if (oldest == NULL)
		return false;
	for (uint32_t i = 0; i < follow->orphan_count; i++) {
		struct ol_orphan *one = &follow->orphans[i];

		if (one->used && one->worker == worker &&
		    ol_seq_tag(one->state.seq) == ol_seq_tag(oldest->state.seq))
			one->state.gone = true;
	}
	ol_ingest_requeue(ingest);
	return true;
}

bool ol_follow_orphan(struct ol_ingest *ingest, struct ol_landed *landed)
{
	const struct ol_session *session = &ingest->sessions->all[landed->session];
	const uint64_t bytes = ol_format_bytes(session->hello.format, ingest->store->geo.shard_len);
	struct ol_orphan made = { .used = true,
				  .worker = landed->session,
				  .slot = landed->slot,
				  .format = session->hello.format,
				  .since_ns = ol_clock_ns(),
				  .state = session->slots[landed->slot] };
	struct ol_orphan *orphan;
	uint32_t slot = 0;

	if (!room_make(ingest, landed->session, ol_seq_tag(made.state.seq)))
		return false;
	made.gradient = made.own = malloc(bytes);
	if (made.state.has_rule)
		made.rule = malloc(session->rule_bytes);
	orphan = made.own != NULL && (made.rule != NULL || !made.state.has_rule)
			 ? orphan_make(ingest, &slot)
			 : NULL;
	if (orphan == NULL) {
		orphan_empty(&made);
		return false;
	}
	memcpy(made.own, ol_ingest_gradient(ingest, *landed), bytes);
	if (made.rule != NULL)
		memcpy(made.rule, ol_session_rule(session, landed->slot), session->rule_bytes);
	*orphan = made;
	landed->slot = slot;
	return true;
}

void ol_follow_free(struct ol_ingest *ingest, struct ol_landed orphan)
{
	orphan_empty(ol_follow_of(&ingest->follow, orphan));
}

/* Put `landed` in the place of its orphan in a list */
static bool list_adopt(struct ol_ingest *ingest, struct ol_landed *list, uint32_t count,
		       struct ol_landed landed)
{
	const uint64_t seq = ol_ingest_slot(ingest, landed)->seq;

	for (uint32_t i = 0; i < count; i++) {
		if (list[i].session != landed.session || !ol_follow_is_orphan(list[i]) ||
		    ol_ingest_slot(ingest, list[i])->seq != seq)
			continue;
		ol_follow_free(ingest, list[i]);
		list[i] = landed;
		return true;
	}
	return false;
}

/* Another process of its worker has pushed */
static void successor_note(struct ol_ingest *ingest, struct ol_landed landed)
{
	const uint32_t tag = ol_seq_tag(ol_ingest_slot(ingest, landed)->seq);
	struct ol_follow *follow = &ingest->follow;

	for (uint32_t i = 0; i < follow->orphan_count; i++) {
		struct ol_orphan *orphan = &follow->orphans[i];

		if (orphan->used && orphan->worker == landed.session &&
		    ol_seq_tag(orphan->state.seq) != tag)
			orphan->successor = tag;
	}
}

bool ol_follow_takes(struct ol_ingest *ingest, struct ol_session *session, struct ol_landed landed,
		     uint64_t now_ns)
{
	if (ingest->opts->shard != 0)
		ol_acks_held(ingest, session, landed.slot, now_ns);
	if (ingest->follow.orphan_count == 0)
		return false;
	if (list_adopt(ingest, ingest->batch, ingest->batch_count, landed) ||
	    list_adopt(ingest, ingest->parked, ingest->parked_count, landed))
		return true;
	successor_note(ingest, landed);
	return false;
}

/* A gradient of zeros, which counts as none: it makes a version */
static bool zeros_insert(struct ol_ingest *ingest)
{
	struct ol_follow *follow = &ingest->follow;
	struct ol_landed landed = { 0 };
	struct ol_orphan *orphan;

	if (follow->zeros == NULL)
		follow->zeros = calloc(1, ol_layout_vector_bytes(&ingest->store->geo));
	orphan = follow->zeros != NULL ? orphan_make(ingest, &landed.slot) : NULL;
	if (orphan == NULL)
		return false;
	*orphan = (struct ol_orphan){ .used = true,
				      .format = OL_FORMAT_FP32,
				      .gradient = follow->zeros,
				      .state = { .seq = ol_store_applied(ingest->store, 0).seq,
						 .base_version = ol_ingest_newest(ingest),
						 .loss = NAN,
						 .weight = 1.0f,
						 .landed_ns = follow->since_ns,
						 .busy = true } };
	ol_ingest_batch(ingest, landed);
	return true;
}

bool ol_follow_fill(struct ol_ingest *ingest)
{
	struct ol_follow *follow = &ingest->follow;

	for (uint32_t i = 0; i < ingest->opts->workers_max; i++) {
		if (!is_missing(ingest, i))
			continue;
		follow->lost[i] = follow->seqs[i];
		ol_counter_add(&ingest->store->board->restored_lost, 1);
		ol_log(OL_LOG_WARN,
		       "server %s: step %llu of shard %u lacks the gradient of worker %u, which "
		       "other shards have: it was lost with a server",
		       ingest->sessions->addr, (unsigned long long)ol_ingest_newest(ingest) + 1,
		       ingest->opts->shard, i);
	}
	return ingest->batch_count > 0 || zeros_insert(ingest);
}
