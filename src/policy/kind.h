/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * kind.h -- a policy: one table of functions, and the state that all policies share
 *
 * policy.c keeps the workers present and passes each event to the table. No other file distinguishes
 * policies. A new policy is a file with such a table, and a line in OL_WAIT_MAP (outlast_server.h).
 */
#ifndef OL_POLICY_KIND_H
#define OL_POLICY_KIND_H

#include <stdbool.h>
#include <stdint.h>

#include "outlast_policy.h"

/* A worker's gradient for the next step */
enum ol_held {
	OL_HELD_NONE,
	OL_HELD_FRESH, /* computed at the published version */
	OL_HELD_CARRIED, /* it missed its step, and is of the next one (OL_LATE_NEXT) */
	OL_HELD_OLD, /* it waited in a queue for its server, or its server was lost: of what weights is not known */
};

/* Every member is set; to ol_policy_no_*() if a policy has no work there. */
struct ol_policy_kind {
	bool is_single; /* every gradient is a step by itself, whatever else arrives */
	bool wants_norms; /* struct ol_update must have them */
	bool waits_for_absent; /* a step also waits for workers that are not connected */
	bool carries; /* OL_LATE_NEXT is for it */
	bool one_decides; /* it decides by one server's events: of several shards shard 0 does */

	/* The fault of its options, in the terms of struct ol_server_opts; NULL: none */
	const char *(*fault)(const struct ol_policy_opts *opts);
	/* Sets policy->k and allocates policy->own; fini() follows a failed init(), too */
	int (*init)(struct ol_policy *policy);
	void (*fini)(struct ol_policy *policy);

	/* The worker is not in policy->present yet */
	void (*on_join)(struct ol_policy *policy, uint32_t worker);
	enum ol_verdict (*on_gradient)(struct ol_policy *policy, const struct ol_arrival *arrival);
	void (*on_update)(struct ol_policy *policy, const struct ol_update *update);
	/* Adds to the members that policy.c has filled in */
	void (*get_stat)(const struct ol_policy *policy, struct ol_policy_stat *stat);
};

struct ol_policy {
	const struct ol_policy_kind *kind;
	struct ol_policy_opts opts;
	uint32_t k; /* of the next step, if so many workers are present */
	uint32_t least; /* no step has fewer, however few are present; 0: no such bound */
	uint32_t held_count;
	uint32_t present_count;
	uint32_t h; /* gradients of the last step */
	uint64_t version;
	uint64_t late;
	uint64_t carried;
	double loss; /* of the last step */

	/* by worker */
	uint8_t *held; /* enum ol_held */
	float *held_loss;
	float *held_factor; /* on the gradient in its step: below 1 if it was carried, of OL_LATE_AGED */
	bool *present;

	/* Set by a kind that has `least`: when a step is made of so many, or more */
	uint64_t due_ns;
	uint64_t stepped_ns; /* the last step was made, or dropped */

	void *own; /* the kind's private state */
};

extern const struct ol_policy_kind ol_policy_async;
extern const struct ol_policy_kind ol_policy_ssp;
#define X(name, id) extern const struct ol_policy_kind ol_policy_##id;
OL_WAIT_MAP(X)
#undef X

/*
 * ol_policy_fault -- the fault of a policy's options, in the terms of struct ol_server_opts; NULL:
 * none
 */
const char *ol_policy_fault(const struct ol_policy_opts *opts);

/* ol_policy_one_decides -- of several shards shard 0 decides by this policy; opts without a fault */
bool ol_policy_one_decides(const struct ol_policy_opts *opts);

/* ol_policy_wait_for -- how many gradients the next step waits for; ol_policy_get_stat() says it too */
uint32_t ol_policy_wait_for(const struct ol_policy *policy);

/* ol_policy_waits_for_all -- how many gradients make a step, if it is one of each worker, whatever
 * happens; 0: it is not */
uint32_t ol_policy_waits_for_all(const struct ol_policy *policy);

/* Members for policies without work there; ol_policy_one_init: k is 1 */
const char *ol_policy_no_fault(const struct ol_policy_opts *opts);
int ol_policy_one_init(struct ol_policy *policy);
void ol_policy_no_fini(struct ol_policy *policy);
void ol_policy_no_join(struct ol_policy *policy, uint32_t worker);
void ol_policy_no_update(struct ol_policy *policy, const struct ol_update *update);
void ol_policy_no_stat(const struct ol_policy *policy, struct ol_policy_stat *stat);

/* ol_policy_step_now -- make a step of one gradient, with its loss */
enum ol_verdict ol_policy_step_now(struct ol_policy *policy, const struct ol_arrival *arrival);

#endif /* OL_POLICY_KIND_H */
