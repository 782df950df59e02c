/* SPDX-License-Identifier: BSD-3-Clause */

/* mutate_decided.c -- steps of several shards that are not decided once, or not for all of them */

#include "server/ingest.h"
#include "sim/world/cluster.h"
#include "sim/world/mutate.h"
#include "sim/world/turns.h"
#include "sim/world/wrap.h"
#include "worker/worker_internal.h"

WRAP(bool, ol_follow_keeps, const struct ol_ingest *ingest);
WRAP(bool, ol_follow_orphan, struct ol_ingest *ingest, struct ol_landed *landed);
WRAP(enum ol_verdict, ol_follow_judge, const struct ol_ingest *ingest, struct ol_landed landed);
WRAP(bool, ol_carry_may_send, const struct ol_link *link, uint32_t index);
WRAP(void, ol_push_on_placed, struct ol_link *link, uint32_t arg, int status);

bool __wrap_ol_follow_keeps(const struct ol_ingest *ingest)
{
	return !mutation(MUTATE_DECIDES_ALONE) && __real_ol_follow_keeps(ingest);
}

/* It was computed at older weights than the next step is made of */
static bool missed_a_step(const struct ol_ingest *ingest, struct ol_landed landed)
{
	return cluster.scenario.late != OL_LATE_DROP &&
	       ol_ingest_base(ol_ingest_slot(ingest, landed)) < ol_ingest_newest(ingest);
}

enum ol_verdict __wrap_ol_follow_judge(const struct ol_ingest *ingest, struct ol_landed landed)
{
	const enum ol_verdict verdict = __real_ol_follow_judge(ingest, landed);

	if (verdict != OL_VERDICT_WAIT || !mutation(MUTATE_CARRIES_ALONE) ||
	    !ol_follow_is_due(ingest) || !missed_a_step(ingest, landed))
		return verdict;
	for (uint32_t i = 0; i < ingest->batch_count; i++) {
		if (ingest->batch[i].session == landed.session)
			return verdict;
	}
	return OL_VERDICT_HOLD;
}

bool __wrap_ol_follow_orphan(struct ol_ingest *ingest, struct ol_landed *landed)
{
	if (mutation(MUTATE_NO_ORPHANS) ||
	    (mutation(MUTATE_CARRIED_DIES) && missed_a_step(ingest, *landed)))
		return false;
	if (__real_ol_follow_orphan(ingest, landed))
		return true;
	turns_unkept();
	return false;
}

bool __wrap_ol_carry_may_send(const struct ol_link *link, uint32_t index)
{
	if (turns_decided())
		turns_on_send(ol_worker_hdr(link->worker, index, link->index)->seq);
	if (mutation(MUTATE_FIRST_SHARD_FIRST) && link->worker->introduced)
		return true;
	if (mutation(MUTATE_NO_INTRODUCTION) &&
	    (link->worker->grads[index].unplaced & ~UINT64_C(1)) == 0)
		return true;
	return __real_ol_carry_may_send(link, index);
}

void __wrap_ol_push_on_placed(struct ol_link *link, uint32_t arg, int status)
{
	struct ol_grad *grad = &link->worker->grads[arg >> 24];

	__real_ol_push_on_placed(link, arg, status);
	if (mutation(MUTATE_LEFT_COUNTS) && status == 0 &&
	    arg == ol_placed_arg(arg >> 24, grad->generation))
		grad->unplaced &= ~(UINT64_C(1) << link->index);
}
