/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * kind.h -- what a policy is made of: one table of functions, and what all policies share
 *
 * policy.c keeps who is there and hands each event to the table. No other file tells policies
 * apart. A new policy is a file with such a table, and a line in OL_WAIT_MAP (outlast_server.h).
 */
#ifndef OL_POLICY_KIND_H
#define OL_POLICY_KIND_H

#include <stdbool.h>
#include <stdint.h>

#include "outlast_policy.h"

/* What a worker has given to the next step */
enum ol_held {
	OL_HELD_NONE,
	OL_HELD_FRESH, /* computed at the published version */
	OL_HELD_OLD, /* what waited for its server */
};

/* Every member is set; ol_policy_no_*() where a policy has nothing to do. */
struct ol_policy_kind {
	bool is_single; /* every gradient is a step by itself, whatever else arrives */
	bool wants_norms; /* struct ol_update must have them */
	bool waits_for_absent; /* a step waits for workers that are not there, too */
	bool needs_one_shard; /* it decides by what only one server sees; several would decide
				 differently, and workers would wait crosswise */

	/* What is wrong with its options, in the words of struct ol_server_opts; NULL: nothing */
	const char *(*fault)(const struct ol_policy_opts *opts);
	/* Sets policy->k and allocates policy->own; fini() follows a failed init(), too */
	int (*init)(struct ol_policy *policy);
	void (*fini)(struct ol_policy *policy);

	/* The worker is not in policy->present yet */
	void (*on_join)(struct ol_policy *policy, uint32_t worker);
	enum ol_verdict (*on_gradient)(struct ol_policy *policy, const struct ol_arrival *arrival);
	void (*on_update)(struct ol_policy *policy, const struct ol_update *update);
	/* Adds to what policy.c has filled in */
	void (*get_stat)(const struct ol_policy *policy, struct ol_policy_stat *stat);
};

struct ol_policy {
	const struct ol_policy_kind *kind;
	struct ol_policy_opts opts;
	uint32_t k; /* of the next step, if so many workers are there */
	uint32_t held_count;
	uint32_t present_count;
	uint32_t h; /* gradients of the last step */
	uint64_t version;
	uint64_t late;
	double loss; /* of the last step */

	/* by worker */
	uint8_t *held; /* enum ol_held */
	float *held_loss;
	bool *present;

	void *own; /* what the kind alone knows */
};

extern const struct ol_policy_kind ol_policy_async;
extern const struct ol_policy_kind ol_policy_ssp;
#define X(name, id) extern const struct ol_policy_kind ol_policy_##id;
OL_WAIT_MAP(X)
#undef X

/*
 * ol_policy_fault -- what is wrong with the options of the policy of one of so many shards, in the
 * words of struct ol_server_opts; NULL: nothing
 */
const char *ol_policy_fault(const struct ol_policy_opts *opts, uint32_t shard_count);

/* What a policy has that has nothing to do there; ol_policy_one_init: k is 1 */
const char *ol_policy_no_fault(const struct ol_policy_opts *opts);
int ol_policy_one_init(struct ol_policy *policy);
void ol_policy_no_fini(struct ol_policy *policy);
void ol_policy_no_join(struct ol_policy *policy, uint32_t worker);
void ol_policy_no_update(struct ol_policy *policy, const struct ol_update *update);
void ol_policy_no_stat(const struct ol_policy *policy, struct ol_policy_stat *stat);

/* ol_policy_step_now -- a gradient that is a step by itself: its loss is the step's */
enum ol_verdict ol_policy_step_now(struct ol_policy *policy, const struct ol_arrival *arrival);

#endif /* OL_POLICY_KIND_H */
