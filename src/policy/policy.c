/* SPDX-License-Identifier: BSD-3-Clause */

/* policy.c -- which gradients make a step: who is there, what is held, and whom to ask for k */

#include "outlast_policy.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/sized.h"
#include "policy/dbw.h"
#include "policy/gain.h"
#include "policy/ssp.h"
#include "policy/times.h"

enum {
	WINDOW_MAX = 1 << 20, /* gradients */
	ADASYNC_WINDOW = 5 /* updates */
};

/* What a worker has given to the next step */
enum held {
	HELD_NONE,
	HELD_FRESH, /* computed at the published version */
	HELD_OLD, /* what waited for its server */
};

struct ol_policy {
	struct ol_policy_opts opts;
	uint32_t k; /* of the next step, if so many workers are there */
	uint32_t held_count;
	uint32_t present_count;
	uint32_t h; /* gradients of the last step */
	uint64_t version;
	uint64_t late;
	double loss; /* of the last step */

	/* by worker */
	uint8_t *held; /* enum held */
	float *held_loss;
	bool *present;

	struct ol_ssp ssp; /* SSP */
	struct ol_times *times; /* DBW, DBW_BLIND */
	struct ol_gain gain; /* DBW */
	struct ol_adasync adasync; /* ADASYNC */
};

void ol_policy_opts_init_sized(struct ol_policy_opts *opts, size_t opts_bytes)
{
	const struct ol_policy_opts defaults = {
		.size = opts_bytes,
		.consistency = OL_CONSISTENCY_ASYNC,
		.workers = 1,
		.workers_max = 1,
		.k = 1,
		.lr = 0.01,
		.window = 48,
		.smoothness_window = 800,
		.decay = 0.95,
		.loss_ratio = 1.01,
		.share = 1.0,
	};

	ol_sized_give(opts, opts_bytes, &defaults, sizeof(defaults));
}

static bool waits(const struct ol_policy *policy, enum ol_wait wait)
{
	return policy->opts.consistency == OL_CONSISTENCY_SYNC && policy->opts.wait == wait;
}

static bool estimates_can_be(const struct ol_policy_opts *opts)
{
	return opts->window >= 1 && opts->window <= WINDOW_MAX && opts->smoothness_window >= 1 &&
	       opts->smoothness_window <= WINDOW_MAX && opts->decay > 0.0 && opts->decay <= 1.0;
}

static bool sync_can_be(const struct ol_policy_opts *opts)
{
	if (opts->workers == 0 || opts->workers > opts->workers_max)
		return false;
	switch (opts->wait) {
	case OL_WAIT_ALL:
		return true;
	case OL_WAIT_FIXED:
		return opts->k >= 1 && opts->k <= opts->workers;
	case OL_WAIT_DBW:
		return estimates_can_be(opts) && opts->lr > 0.0 && isfinite(opts->lr) &&
		       opts->loss_ratio >= 1.0 && opts->share > 0.0 && opts->share <= 1.0;
	case OL_WAIT_DBW_BLIND:
		return estimates_can_be(opts);
	case OL_WAIT_ADASYNC:
		return estimates_can_be(opts) && opts->k >= 1 && opts->k <= opts->workers;
	}
	return false;
}

static bool opts_can_be(const struct ol_policy_opts *opts)
{
	if (opts->workers_max == 0)
		return false;
	switch (opts->consistency) {
	case OL_CONSISTENCY_ASYNC:
	case OL_CONSISTENCY_SSP:
		return true;
	case OL_CONSISTENCY_SYNC:
		return sync_can_be(opts);
	}
	return false;
}

static int parts_start(struct ol_policy *policy)
{
	const struct ol_policy_opts *opts = &policy->opts;
	int rc = 0;

	policy->held = calloc(opts->workers_max, sizeof(*policy->held));
	policy->held_loss = calloc(opts->workers_max, sizeof(*policy->held_loss));
	policy->present = calloc(opts->workers_max, sizeof(*policy->present));
	if (policy->held == NULL || policy->held_loss == NULL || policy->present == NULL)
		return -ENOMEM;
	if (opts->consistency == OL_CONSISTENCY_SSP)
		return ol_ssp_init(&policy->ssp, opts->workers_max, opts->staleness);
	if (waits(policy, OL_WAIT_DBW) || waits(policy, OL_WAIT_DBW_BLIND))
		rc = ol_times_create(opts->workers, opts->workers_max, opts->decay, &policy->times);
	if (rc == 0 && waits(policy, OL_WAIT_DBW))
		rc = ol_gain_init(&policy->gain, opts);
	return rc;
}

int ol_policy_create(const struct ol_policy_opts *given, struct ol_policy **ret_policy)
{
	struct ol_policy *policy;
	struct ol_policy_opts known;
	const struct ol_policy_opts *opts = &known;
	int rc;

	ol_policy_opts_init(&known);
	if (ol_sized_take(&known, sizeof(known), given, given->size) != NULL)
		return -EINVAL;
	if (!opts_can_be(opts))
		return -EINVAL;
	policy = calloc(1, sizeof(*policy));
	if (policy == NULL)
		return -ENOMEM;
	policy->opts = *opts;
	policy->loss = NAN;
	rc = parts_start(policy);
	if (rc != 0) {
		ol_policy_destroy(policy);
		return rc;
	}
	policy->k = opts->consistency != OL_CONSISTENCY_SYNC ? 1 : opts->workers;
	if (waits(policy, OL_WAIT_FIXED) || waits(policy, OL_WAIT_ADASYNC))
		policy->k = opts->k;
	policy->h = policy->k;
	policy->adasync = (struct ol_adasync){ .k = opts->k,
					       .workers = opts->workers,
					       .window = ADASYNC_WINDOW };
	*ret_policy = policy;
	return 0;
}

void ol_policy_destroy(struct ol_policy *policy)
{
	if (policy == NULL)
		return;
	ol_ssp_fini(&policy->ssp);
	ol_gain_fini(&policy->gain);
	ol_times_destroy(policy->times);
	free(policy->held);
	free(policy->held_loss);
	free(policy->present);
	free(policy);
}

/* How many gradients the next step waits for */
static uint32_t wait_for(const struct ol_policy *policy)
{
	if (waits(policy, OL_WAIT_ALL) || policy->present_count == 0)
		return policy->k;
	return policy->present_count < policy->k ? policy->present_count : policy->k;
}

bool ol_policy_ready(const struct ol_policy *policy)
{
	return policy->held_count > 0 && policy->held_count >= wait_for(policy);
}

static enum ol_verdict sync_on_gradient(struct ol_policy *policy, const struct ol_arrival *arrival)
{
	if (policy->times != NULL && !arrival->queued)
		ol_times_on_gradient(policy->times, arrival->worker, arrival->base_version,
				     arrival->now_ns);
	/* a second gradient for the same step comes too late for it, as one for an older step
	 * does */
	if ((arrival->base_version != arrival->version && !arrival->queued) ||
	    policy->held[arrival->worker] != HELD_NONE) {
		if (waits(policy, OL_WAIT_DBW) && !arrival->queued &&
		    arrival->base_version < policy->version)
			ol_gain_on_late(&policy->gain, policy->version - 1 - arrival->base_version,
					(double)arrival->loss);
		policy->late++;
		return OL_VERDICT_LATE;
	}
	policy->held[arrival->worker] = arrival->queued ? HELD_OLD : HELD_FRESH;
	policy->held_loss[arrival->worker] = arrival->loss;
	policy->held_count++;
	return ol_policy_ready(policy) ? OL_VERDICT_STEP : OL_VERDICT_HOLD;
}

enum ol_verdict ol_policy_on_gradient(struct ol_policy *policy, const struct ol_arrival *arrival)
{
	if (arrival->worker >= policy->opts.workers_max) {
		policy->late++;
		return OL_VERDICT_LATE;
	}
	/* who pushes is there */
	ol_policy_on_join(policy, arrival->worker);
	if (policy->opts.consistency == OL_CONSISTENCY_SYNC)
		return sync_on_gradient(policy, arrival);
	if (policy->opts.consistency == OL_CONSISTENCY_SSP &&
	    !ol_ssp_admit(&policy->ssp, arrival->worker, policy->present))
		return OL_VERDICT_WAIT;
	if (isfinite(arrival->loss))
		policy->loss = (double)arrival->loss;
	return OL_VERDICT_STEP;
}

/* What the gradients held, and the update, say of the step that they became */
static struct ol_gain_input step_read(const struct ol_policy *policy,
				      const struct ol_update *update)
{
	struct ol_gain_input input = {
		.count = update->count,
		.norm2_sum = update->norm2_sum,
		.norm2_mean = update->norm2_mean,
	};

	for (uint32_t i = 0; i < policy->opts.workers_max; i++) {
		double loss = (double)policy->held_loss[i], off = loss - input.loss;

		/* computed elsewhere, it says nothing of here; and the norms cannot be told
		 * apart */
		if (policy->held[i] == HELD_OLD)
			input.norm2_sum = NAN;
		if (policy->held[i] != HELD_FRESH || !isfinite(loss))
			continue;
		input.losses++;
		input.loss += off / input.losses;
		input.loss_spread += off * (loss - input.loss);
	}
	if (input.losses == 0)
		input.loss = NAN;
	return input;
}

static void choose(struct ol_policy *policy)
{
	const struct ol_gain *gain = waits(policy, OL_WAIT_DBW) ? &policy->gain : NULL;

	if (policy->times != NULL)
		policy->k = ol_dbw_choose(policy->times, gain, policy->h, policy->present_count);
	if (waits(policy, OL_WAIT_ADASYNC))
		policy->k = ol_adasync_choose(&policy->adasync, policy->loss);
}

static void sync_on_update(struct ol_policy *policy, const struct ol_update *update)
{
	struct ol_gain_input input = step_read(policy, update);

	for (uint32_t i = 0; i < policy->opts.workers_max; i++)
		policy->held[i] = HELD_NONE;
	policy->held_count = 0;
	if (policy->times != NULL)
		ol_times_on_update(policy->times, update->version, update->now_ns, update->count);
	if (update->count == 0)
		return;
	policy->h = update->count;
	policy->loss = input.losses > 0 ? input.loss : policy->loss;
	if (waits(policy, OL_WAIT_DBW)) {
		if (update->version != policy->version + 1)
			ol_gain_restart(&policy->gain);
		ol_gain_on_step(&policy->gain, &input);
	}
	policy->version = update->version;
	choose(policy);
}

void ol_policy_on_update(struct ol_policy *policy, const struct ol_update *update)
{
	if (policy->opts.consistency == OL_CONSISTENCY_SYNC)
		sync_on_update(policy, update);
}

void ol_policy_on_join(struct ol_policy *policy, uint32_t worker)
{
	if (worker >= policy->opts.workers_max || policy->present[worker])
		return;
	if (policy->opts.consistency == OL_CONSISTENCY_SSP)
		ol_ssp_on_join(&policy->ssp, worker, policy->present);
	policy->present[worker] = true;
	policy->present_count++;
}

void ol_policy_on_leave(struct ol_policy *policy, uint32_t worker)
{
	if (worker >= policy->opts.workers_max)
		return;
	policy->present_count -= policy->present[worker];
	policy->present[worker] = false;
	policy->held_count -= policy->held[worker] != HELD_NONE;
	policy->held[worker] = HELD_NONE;
}

bool ol_policy_single(const struct ol_policy *policy)
{
	return policy->opts.consistency == OL_CONSISTENCY_ASYNC;
}

bool ol_policy_wants_norms(const struct ol_policy *policy)
{
	return waits(policy, OL_WAIT_DBW);
}

void ol_policy_get_stat_sized(const struct ol_policy *policy, struct ol_policy_stat *ret_stat,
			      size_t stat_bytes)
{
	struct ol_policy_stat stat = {
		.k = wait_for(policy),
		.present = policy->present_count,
		.late = policy->late,
		.norm2 = NAN,
		.variance = NAN,
		.smoothness = NAN,
		.loss = policy->loss,
		.gain = NAN,
		.seconds = NAN,
	};

	if (policy->times != NULL)
		stat.seconds = ol_times_expect(policy->times, policy->h,
					       ol_times_level(policy->times, stat.k));
	if (waits(policy, OL_WAIT_DBW)) {
		stat.norm2 = policy->gain.norm2;
		stat.variance = policy->gain.variance;
		stat.smoothness = policy->gain.smoothness;
		stat.gain = ol_gain_expect(&policy->gain, stat.k);
	}
	ol_sized_give(ret_stat, stat_bytes, &stat, sizeof(stat));
}
