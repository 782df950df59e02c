/* SPDX-License-Identifier: BSD-3-Clause */

/* withdraw.c -- gradients that stop waiting, as their worker says so or has gone */

#include "server/withdraw.h"

#include "base/clock.h"
#include "server/follow.h"
#include "server/ingest.h"
#include "wire/seq.h"

uint32_t ol_withdraw_others(struct ol_landed *list, uint32_t count, uint32_t session)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (list[i].session != session || ol_follow_is_orphan(list[i]))
			list[kept++] = list[i];
	}
	return kept;
}

bool ol_withdraw_is(struct ol_ingest *ingest, struct ol_landed landed)
{
	return !ol_follow_keeps(ingest) &&
	       ol_seq_contains(ingest->sessions->all[landed.session].withdrawn_seq,
			       ol_ingest_slot(ingest, landed)->seq);
}

void ol_withdraw_held(struct ol_ingest *ingest, struct ol_session *session, uint64_t now_ns)
{
	uint32_t index = (uint32_t)(session - ingest->sessions->all), i = 0;
	struct ol_landed landed;

	while (i < ingest->batch_count && ingest->batch[i].session != index)
		i++;
	if (ingest->step_ready || i == ingest->batch_count) /* ready: it is about to take effect */
		return;
	landed = ingest->batch[i];
	ingest->batch_count = ol_withdraw_others(ingest->batch, ingest->batch_count, index);
	/* for the policy, the worker is present and has given no gradient */
	ol_policy_on_leave(ingest->policy, session->worker);
	ol_policy_on_join(ingest->policy, session->worker);
	ol_ingest_resolve(ingest, landed, OL_E_LATE, now_ns);
}

/* What is withdrawn takes effect, as other shards have it in force: of ssp, which shard 0 alone holds back */
static bool takes_effect(const struct ol_ingest *ingest)
{
	return ingest->opts->consistency == OL_CONSISTENCY_SSP && ingest->opts->shard_count > 1;
}

void ol_withdraw_waiting(struct ol_ingest *ingest, struct ol_landed landed, uint64_t now_ns)
{
	const uint32_t worker = ingest->sessions->all[landed.session].worker;

	if (!takes_effect(ingest)) {
		ol_ingest_resolve(ingest, landed, OL_E_LATE, now_ns);
		return;
	}
	/* for the policy, the worker waits no longer, and is where the slowest is */
	ol_policy_on_leave(ingest->policy, worker);
	ol_policy_on_join(ingest->policy, worker);
	ingest->parked[ingest->parked_count++] = landed;
	ol_ingest_requeue(ingest);
}

static void parked_withdraw(struct ol_ingest *ingest, const struct ol_session *session,
			    uint64_t now_ns)
{
	uint32_t index = (uint32_t)(session - ingest->sessions->all);

	for (uint32_t i = 0; i < ingest->parked_count; i++) {
		if (ingest->parked[i].session == index)
			ol_ingest_resolve(ingest, ingest->parked[i], OL_E_LATE, now_ns);
	}
	ingest->parked_count = ol_withdraw_others(ingest->parked, ingest->parked_count, index);
}

void ol_ingest_on_withdraw(struct ol_ingest *ingest, struct ol_session *session, uint64_t now_ns)
{
	session->withdrawn_seq = session->last_seq; /* pushes in the queue too */
	if (!ol_follow_keeps(ingest)) { /* else other shards may have taken them: later */
		ol_withdraw_held(ingest, session, now_ns);
		if (takes_effect(ingest))
			ol_ingest_requeue(ingest);
		else
			parked_withdraw(ingest, session, now_ns);
	}
	ol_ingest_progress(ingest, now_ns);
}

void ol_withdraw_drop(struct ol_ingest *ingest)
{
	uint64_t now_ns = ol_clock_ns();

	for (uint32_t i = ingest->batch_count; i-- > 0;) {
		struct ol_landed landed = ingest->batch[i];

		if (ol_withdraw_is(ingest, landed))
			ol_withdraw_held(ingest, &ingest->sessions->all[landed.session], now_ns);
	}
}
