/* SPDX-License-Identifier: BSD-3-Clause */

/* policy.c -- the parts that all policies share: which workers are present, which gradients held */

#include "outlast_policy.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/sized.h"
#include "policy/kind.h"

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

/* The kind that the options name; NULL, with the fault: they are not valid */
static const struct ol_policy_kind *kind_of(const struct ol_policy_opts *opts,
					    const char **ret_fault)
{
#define X(name, id) [OL_WAIT_##name] = &ol_policy_##id,
	static const struct ol_policy_kind *const syncs[] = { OL_WAIT_MAP(X) };
#undef X

	if (opts->consistency == OL_CONSISTENCY_ASYNC)
		return &ol_policy_async;
	if (opts->consistency == OL_CONSISTENCY_SSP)
		return &ol_policy_ssp;
	*ret_fault = "consistency is neither async, sync nor ssp";
	if (opts->consistency != OL_CONSISTENCY_SYNC)
		return NULL;
	*ret_fault = "wait has no such value";
	return opts->wait < sizeof(syncs) / sizeof(syncs[0]) ? syncs[opts->wait] : NULL;
}

static const char *late_fault(const struct ol_policy_kind *kind, const struct ol_policy_opts *opts)
{
	if ((unsigned)opts->late > OL_LATE_AGED)
		return "late has no such value";
	if (opts->late != OL_LATE_DROP && !kind->carries)
		return "late is next or aged, which is for steps of sync that do not wait for every worker";
	return NULL;
}

const char *ol_policy_fault(const struct ol_policy_opts *opts)
{
	const char *fault = NULL;
	const struct ol_policy_kind *kind = kind_of(opts, &fault);

	if (kind == NULL)
		return fault;
	if (opts->consistency != OL_CONSISTENCY_SYNC && opts->wait != OL_WAIT_ALL)
		return "wait is for sync only";
	fault = late_fault(kind, opts);
	return fault != NULL ? fault : kind->fault(opts);
}

bool ol_policy_one_decides(const struct ol_policy_opts *opts)
{
	const char *fault;
	const struct ol_policy_kind *kind = kind_of(opts, &fault);

	return kind != NULL && kind->one_decides;
}

const char *ol_policy_no_fault(const struct ol_policy_opts *opts)
{
	(void)opts;
	return NULL;
}

int ol_policy_one_init(struct ol_policy *policy)
{
	policy->k = 1;
	return 0;
}

void ol_policy_no_fini(struct ol_policy *policy)
{
	(void)policy;
}

void ol_policy_no_join(struct ol_policy *policy, uint32_t worker)
{
	(void)policy, (void)worker;
}

void ol_policy_no_update(struct ol_policy *policy, const struct ol_update *update)
{
	(void)policy, (void)update;
}

void ol_policy_no_stat(const struct ol_policy *policy, struct ol_policy_stat *stat)
{
	(void)policy, (void)stat;
}

int ol_policy_create(const struct ol_policy_opts *given, struct ol_policy **ret_policy)
{
	const struct ol_policy_kind *kind;
	struct ol_policy *policy;
	struct ol_policy_opts opts;
	const char *fault;
	int rc = -ENOMEM;

	ol_policy_opts_init(&opts);
	if (ol_sized_take(&opts, sizeof(opts), given, given->size) != NULL)
		return -EINVAL;
	kind = kind_of(&opts, &fault);
	if (kind == NULL || opts.workers_max == 0 || late_fault(kind, &opts) != NULL ||
	    kind->fault(&opts) != NULL)
		return -EINVAL;
	policy = calloc(1, sizeof(*policy));
	if (policy == NULL)
		return -ENOMEM;
	policy->kind = kind;
	policy->opts = opts;
	policy->loss = NAN;
	policy->held = calloc(opts.workers_max, sizeof(*policy->held));
	policy->held_loss = calloc(opts.workers_max, sizeof(*policy->held_loss));
	policy->held_factor = calloc(opts.workers_max, sizeof(*policy->held_factor));
	policy->present = calloc(opts.workers_max, sizeof(*policy->present));
	if (policy->held != NULL && policy->held_loss != NULL && policy->held_factor != NULL &&
	    policy->present != NULL)
		rc = kind->init(policy);
	if (rc != 0) {
		ol_policy_destroy(policy);
		return rc;
	}
	policy->h = policy->k;
	*ret_policy = policy;
	return 0;
}

void ol_policy_destroy(struct ol_policy *policy)
{
	if (policy == NULL)
		return;
	policy->kind->fini(policy);
	free(policy->held);
	free(policy->held_loss);
	free(policy->held_factor);
	free(policy->present);
	free(policy);
}

uint32_t ol_policy_wait_for(const struct ol_policy *policy)
{
	uint32_t k = policy->k;

	if (policy->kind->waits_for_absent || policy->present_count == 0)
		return k;
	if (policy->present_count < k)
		k = policy->present_count;
	return k > policy->least ? k : policy->least;
}

bool ol_policy_ready(const struct ol_policy *policy)
{
	return policy->held_count > 0 && policy->held_count >= ol_policy_wait_for(policy);
}

uint64_t ol_policy_due_ns(const struct ol_policy *policy)
{
	if (ol_policy_ready(policy))
		return 0;
	return policy->least > 0 && policy->held_count >= policy->least ? policy->due_ns
									: UINT64_MAX;
}

enum ol_verdict ol_policy_step_now(struct ol_policy *policy, const struct ol_arrival *arrival)
{
	if (isfinite(arrival->loss))
		policy->loss = (double)arrival->loss;
	return OL_VERDICT_STEP;
}

enum ol_verdict ol_policy_on_gradient(struct ol_policy *policy, const struct ol_arrival *arrival)
{
	if (arrival->worker >= policy->opts.workers_max) {
		policy->late++;
		return OL_VERDICT_LATE;
	}
	/* a worker that pushes is present */
	ol_policy_on_join(policy, arrival->worker);
	return policy->kind->on_gradient(policy, arrival);
}

void ol_policy_on_update(struct ol_policy *policy, const struct ol_update *update)
{
	policy->kind->on_update(policy, update);
}

void ol_policy_on_join(struct ol_policy *policy, uint32_t worker)
{
	if (worker >= policy->opts.workers_max || policy->present[worker])
		return;
	policy->kind->on_join(policy, worker);
	policy->present[worker] = true;
	policy->present_count++;
}

void ol_policy_on_leave(struct ol_policy *policy, uint32_t worker)
{
	if (worker >= policy->opts.workers_max)
		return;
	policy->present_count -= policy->present[worker];
	policy->present[worker] = false;
	policy->held_count -= policy->held[worker] != OL_HELD_NONE;
	policy->held[worker] = OL_HELD_NONE;
}

bool ol_policy_single(const struct ol_policy *policy)
{
	return policy->kind->is_single;
}

uint32_t ol_policy_waits_for_all(const struct ol_policy *policy)
{
	return policy->kind->waits_for_absent ? policy->opts.workers : 0;
}

bool ol_policy_wants_norms(const struct ol_policy *policy)
{
	return policy->kind->wants_norms;
}

void ol_policy_get_stat_sized(const struct ol_policy *policy, struct ol_policy_stat *ret_stat,
			      size_t stat_bytes)
{
	struct ol_policy_stat stat = {
		.k = ol_policy_wait_for(policy),
		.present = policy->present_count,
		.late = policy->late,
		.carried = policy->carried,
		.norm2 = NAN,
		.variance = NAN,
		.smoothness = NAN,
		.loss = policy->loss,
		.gain = NAN,
		.seconds = NAN,
	};

	policy->kind->get_stat(policy, &stat);
	ol_sized_give(ret_stat, stat_bytes, &stat, sizeof(stat));
}
