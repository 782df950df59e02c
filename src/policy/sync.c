/* SPDX-License-Identifier: BSD-3-Clause */

/* sync.c -- a step of the first k gradients of a version: of every worker, or of a fixed k */

#include "policy/sync.h"

#include <math.h>

enum {
	WINDOW_MAX = 1 << 20 /* gradients */
};

const char *ol_sync_fault(const struct ol_policy_opts *opts)
{
	if (opts->workers == 0 || opts->workers > opts->workers_max)
		return "workers is not between 1 and workers_max";
	return NULL;
}

const char *ol_sync_k_fault(const struct ol_policy_opts *opts)
{
	const char *fault = ol_sync_fault(opts);

	if (fault == NULL && (opts->k == 0 || opts->k > opts->workers))
		fault = "wait_k is not between 1 and workers";
	return fault;
}

const char *ol_sync_estimates_fault(const struct ol_policy_opts *opts)
{
	if (opts->window == 0 || opts->window > WINDOW_MAX || opts->smoothness_window == 0 ||
	    opts->smoothness_window > WINDOW_MAX)
		return "a window is not between 1 and 2^20";
	if (!(opts->decay > 0.0 && opts->decay <= 1.0))
		return "decay is not above 0 and at most 1";
	return NULL;
}

int ol_sync_init(struct ol_policy *policy)
{
	policy->k = policy->opts.workers;
	return 0;
}

int ol_sync_k_init(struct ol_policy *policy)
{
	policy->k = policy->opts.k;
	return 0;
}

/* Of a gradient of older weights than the published ones */
static bool is_too_old(const struct ol_policy *policy, const struct ol_arrival *arrival)
{
	return !arrival->again && policy->opts.late_steps != 0 &&
	       arrival->base_version < arrival->version &&
	       arrival->version - arrival->base_version > policy->opts.late_steps;
}

static void hold(struct ol_policy *policy, const struct ol_arrival *arrival, bool old)
{
	enum ol_held held = old ? OL_HELD_CARRIED : OL_HELD_FRESH;
	float factor = 1.0f;

	if (arrival->queued || (old && arrival->again))
		held = OL_HELD_OLD;
	else if (old && policy->opts.late == OL_LATE_AGED)
		factor = 1.0f / (1.0f + (float)(arrival->version - arrival->base_version));
	policy->held[arrival->worker] = (uint8_t)held;
	policy->held_loss[arrival->worker] = arrival->loss;
	policy->held_factor[arrival->worker] = factor;
	policy->held_count++;
}

enum ol_verdict ol_sync_on_gradient(struct ol_policy *policy, const struct ol_arrival *arrival)
{
	const bool next = policy->opts.late != OL_LATE_DROP || arrival->again;
	/* a server that went back may be asked about what was computed at weights that it has yet to make */
	const bool old = arrival->base_version < arrival->version && !arrival->queued;
	const bool second = policy->held[arrival->worker] != OL_HELD_NONE;

	/* a worker's second gradient for the same step is late, as is one for an older step */
	if (next ? old && is_too_old(policy, arrival) : old || second) {
		policy->late++;
		return OL_VERDICT_LATE;
	}
	if (second)
		return OL_VERDICT_WAIT;
	policy->carried += old;
	hold(policy, arrival, old);
	return ol_policy_ready(policy) ? OL_VERDICT_STEP : OL_VERDICT_HOLD;
}

/* The measurements of a step, from the gradients held and the update */
static struct ol_gain_input step_read(const struct ol_policy *policy,
				      const struct ol_update *update)
{
	struct ol_gain_input input = {
		.count = update->count,
		.norm2_sum = update->norm2_sum,
		.norm2_mean = update->norm2_mean,
		.factor = 1.0,
		.factor2 = 1.0,
	};
	uint32_t held = 0;

	for (uint32_t i = 0; i < policy->opts.workers_max; i++) {
		double loss = (double)policy->held_loss[i], off = loss - input.loss;
		double factor = (double)policy->held_factor[i];

		/* a queued gradient was computed at other weights: its loss does not count here,
		 * and its norm cannot be taken out of the sum */
		if (policy->held[i] == OL_HELD_OLD)
			input.norm2_sum = NAN;
		if (policy->held[i] != OL_HELD_NONE) {
			input.factor += (factor - input.factor) / ++held;
			input.factor2 += (factor * factor - input.factor2) / held;
		}
		/* that of a carried one is of the step which it missed */
		if (policy->held[i] != OL_HELD_FRESH || !isfinite(loss))
			continue;
		input.losses++;
		input.loss += off / input.losses;
		input.loss_spread += off * (loss - input.loss);
	}
	if (input.losses == 0)
		input.loss = NAN;
	return input;
}

/* The mean loss of the gradients of a step, also of those that missed theirs; NaN: none is known */
static double step_loss(const struct ol_policy *policy)
{
	double mean = NAN;
	uint32_t count = 0;

	for (uint32_t i = 0; i < policy->opts.workers_max; i++) {
		double loss = (double)policy->held_loss[i];

		if ((policy->held[i] == OL_HELD_FRESH || policy->held[i] == OL_HELD_CARRIED) &&
		    isfinite(loss))
			mean = count++ == 0 ? loss : mean + (loss - mean) / count;
	}
	return mean;
}

struct ol_gain_input ol_sync_step(struct ol_policy *policy, const struct ol_update *update)
{
	struct ol_gain_input input = step_read(policy, update);
	double loss = step_loss(policy);

	for (uint32_t i = 0; i < policy->opts.workers_max; i++)
		policy->held[i] = OL_HELD_NONE;
	policy->held_count = 0;
	if (update->count == 0)
		return input;
	policy->h = update->count;
	policy->loss = isnan(loss) ? policy->loss : loss;
	policy->version = update->version;
	return input;
}

void ol_sync_on_update(struct ol_policy *policy, const struct ol_update *update)
{
	(void)ol_sync_step(policy, update);
}

const struct ol_policy_kind ol_policy_all = {
	.waits_for_absent = true,
	.fault = ol_sync_fault,
	.init = ol_sync_init,
	.fini = ol_policy_no_fini,
	.on_join = ol_policy_no_join,
	.on_gradient = ol_sync_on_gradient,
	.on_update = ol_sync_on_update,
	.get_stat = ol_policy_no_stat,
};

const struct ol_policy_kind ol_policy_fixed = {
	.carries = true,
	.one_decides = true,
	.fault = ol_sync_k_fault,
	.init = ol_sync_k_init,
	.fini = ol_policy_no_fini,
	.on_join = ol_policy_no_join,
	.on_gradient = ol_sync_on_gradient,
	.on_update = ol_sync_on_update,
	.get_stat = ol_policy_no_stat,
};
