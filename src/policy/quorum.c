/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * quorum.c -- a step of a quorum, and of those that come within a grace time after it
 *
 * A step is made of the gradients of all workers that are present, but of k at least; or, when the
 * grace is over, of the k or more that have come. The grace begins when the k-th comes, or with the
 * step before, if the k-th has waited for that.
 */
#include "policy/sync.h"

#define NS_PER_MS UINT64_C(1000000)

static int quorum_init(struct ol_policy *policy)
{
	policy->k = policy->opts.workers;
	policy->least = policy->opts.k;
	return 0;
}

static enum ol_verdict quorum_on_gradient(struct ol_policy *policy,
					  const struct ol_arrival *arrival)
{
	enum ol_verdict verdict = ol_sync_on_gradient(policy, arrival);
	uint64_t from_ns = arrival->now_ns;

	if (verdict != OL_VERDICT_HOLD)
		return verdict;
	if (from_ns < policy->stepped_ns)
		from_ns = policy->stepped_ns;
	if (policy->held_count == policy->least)
		policy->due_ns = from_ns + policy->opts.grace_ms * NS_PER_MS;
	return ol_policy_due_ns(policy) <= from_ns ? OL_VERDICT_STEP : OL_VERDICT_HOLD;
}

static void quorum_on_update(struct ol_policy *policy, const struct ol_update *update)
{
	ol_sync_on_update(policy, update);
	policy->stepped_ns = update->now_ns;
}

const struct ol_policy_kind ol_policy_quorum = {
	.carries = true,
	.one_decides = true,
	.fault = ol_sync_k_fault,
	.init = quorum_init,
	.fini = ol_policy_no_fini,
	.on_join = ol_policy_no_join,
	.on_gradient = quorum_on_gradient,
	.on_update = quorum_on_update,
	.get_stat = ol_policy_no_stat,
};
