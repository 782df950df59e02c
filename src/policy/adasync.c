/* SPDX-License-Identifier: BSD-3-Clause */

/* adasync.c -- a step of more gradients as the loss falls: AdaSync (Dutta, Wang, Joshi 2021) */

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "policy/sync.h"

enum {
	WINDOW = 5 /* updates */
};

struct adasync {
	uint32_t count; /* losses seen, up to WINDOW */
	double first; /* mean of the first losses */
	double loss; /* smoothed */
};

static const char *adasync_fault(const struct ol_policy_opts *opts)
{
	const char *fault = ol_sync_k_fault(opts);

	return fault != NULL ? fault : ol_sync_estimates_fault(opts);
}

static int adasync_init(struct ol_policy *policy)
{
	policy->own = calloc(1, sizeof(struct adasync));
	return policy->own == NULL ? -ENOMEM : ol_sync_k_init(policy);
}

static void adasync_fini(struct ol_policy *policy)
{
	free(policy->own);
}

/* k for the next step, after a step of this mean loss (NaN: not known). k0: the first step's k */
static uint32_t choose(struct adasync *adasync, double loss, uint32_t k0, uint32_t workers)
{
	bool first = adasync->count < WINDOW;
	double k = k0;

	if (isfinite(loss)) {
		adasync->count += first;
		adasync->loss += (loss - adasync->loss) / adasync->count;
		if (first)
			adasync->first = adasync->loss;
	}
	if (adasync->count == 0 || !(adasync->first > 0.0))
		return k0;
	k = ceil(k * sqrt(adasync->first / adasync->loss));
	if (!(k < workers)) /* also true if the loss is not above 0 */
		return workers;
	return k > 1.0 ? (uint32_t)k : 1;
}

static void adasync_on_update(struct ol_policy *policy, const struct ol_update *update)
{
	(void)ol_sync_step(policy, update);
	if (update->count > 0)
		policy->k = choose(policy->own, policy->loss, policy->opts.k, policy->opts.workers);
}

const struct ol_policy_kind ol_policy_adasync = {
	.carries = true,
	.one_decides = true,
	.fault = adasync_fault,
	.init = adasync_init,
	.fini = adasync_fini,
	.on_join = ol_policy_no_join,
	.on_gradient = ol_sync_on_gradient,
	.on_update = adasync_on_update,
	.get_stat = ol_policy_no_stat,
};
