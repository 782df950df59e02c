/* SPDX-License-Identifier: BSD-3-Clause */

/* policy.c -- async, and sync over k workers */

#include "policy/policy.h"

#include <errno.h>
#include <stdlib.h>

struct ol_policy {
	enum ol_consistency consistency;
	uint32_t wait_for; /* gradients a step */
	uint32_t workers_max;
	uint32_t held_count;
	bool held[]; /* by worker */
};

int ol_policy_create(enum ol_consistency consistency, uint32_t workers, uint32_t workers_max,
		     struct ol_policy **ret_policy)
{
	struct ol_policy *policy;

	if (workers_max == 0)
		return -EINVAL;
	if (consistency == OL_CONSISTENCY_SYNC && (workers == 0 || workers > workers_max))
		return -EINVAL;
	policy = calloc(1, sizeof(*policy) + workers_max * sizeof(policy->held[0]));
	if (policy == NULL)
		return -ENOMEM;
	policy->consistency = consistency;
	policy->wait_for = workers;
	policy->workers_max = workers_max;
	*ret_policy = policy;
	return 0;
}

void ol_policy_destroy(struct ol_policy *policy)
{
	free(policy);
}

static enum ol_verdict sync_on_gradient(struct ol_policy *policy, const struct ol_arrival *arrival)
{
	/* a second gradient for the same step comes too late for it, as one for an older step does
	 */
	if ((arrival->base_version != arrival->version && !arrival->queued) ||
	    policy->held[arrival->worker])
		return OL_VERDICT_LATE;
	policy->held[arrival->worker] = true;
	policy->held_count++;
	return policy->held_count >= policy->wait_for ? OL_VERDICT_STEP : OL_VERDICT_HOLD;
}

enum ol_verdict ol_policy_on_gradient(struct ol_policy *policy, const struct ol_arrival *arrival)
{
	switch (policy->consistency) {
	case OL_CONSISTENCY_ASYNC:
		break;
	case OL_CONSISTENCY_SYNC:
		return sync_on_gradient(policy, arrival);
	}
	return OL_VERDICT_STEP;
}

void ol_policy_on_update(struct ol_policy *policy, uint64_t version, uint64_t now_ns)
{
	(void)version;
	(void)now_ns;
	for (uint32_t i = 0; i < policy->workers_max; i++)
		policy->held[i] = false;
	policy->held_count = 0;
}

bool ol_policy_single(const struct ol_policy *policy)
{
	return policy->consistency == OL_CONSISTENCY_ASYNC;
}

void ol_policy_on_leave(struct ol_policy *policy, uint32_t worker)
{
	if (!policy->held[worker])
		return;
	policy->held[worker] = false;
	policy->held_count--;
}
