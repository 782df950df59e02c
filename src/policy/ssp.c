/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * ssp.c -- bounded staleness: a gradient waits while its worker is ahead of the slowest by more
 * than a bound
 *
 * A worker's clock counts its gradients that were let through. When it joins, its clock is set to
 * the slowest. With a bound of 0 all workers go in lock step.
 */
#include <errno.h>
#include <stdlib.h>

#include "policy/kind.h"

static int ssp_init(struct ol_policy *policy)
{
	policy->k = 1;
	policy->own = calloc(policy->opts.workers_max, sizeof(uint64_t));
	return policy->own == NULL ? -ENOMEM : 0;
}

static void ssp_fini(struct ol_policy *policy)
{
	free(policy->own);
}

/* The slowest clock of the other workers present; the worker's own if there is none */
static uint64_t slowest(const struct ol_policy *policy, uint32_t worker)
{
	const uint64_t *clocks = policy->own;
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < policy->opts.workers_max; i++) {
		if (i != worker && policy->present[i] && clocks[i] < least)
			least = clocks[i];
	}
	return least != UINT64_MAX ? least : clocks[worker];
}

static void ssp_on_join(struct ol_policy *policy, uint32_t worker)
{
	uint64_t *clocks = policy->own;

	clocks[worker] = slowest(policy, worker);
}

static enum ol_verdict ssp_on_gradient(struct ol_policy *policy, const struct ol_arrival *arrival)
{
	uint64_t *clock = (uint64_t *)policy->own + arrival->worker;
	uint64_t least = slowest(policy, arrival->worker);

	if (*clock >= least && *clock - least > policy->opts.staleness)
		return OL_VERDICT_WAIT;
	++*clock;
	return ol_policy_step_now(policy, arrival);
}

const struct ol_policy_kind ol_policy_ssp = {
	.one_decides = true,
	.fault = ol_policy_no_fault,
	.init = ssp_init,
	.fini = ssp_fini,
	.on_join = ssp_on_join,
	.on_gradient = ssp_on_gradient,
	.on_update = ol_policy_no_update,
	.get_stat = ol_policy_no_stat,
};
