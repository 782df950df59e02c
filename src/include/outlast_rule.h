/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outlast_rule.h -- the rule that servers update weights by, and how a worker changes it
 *
 * ERRORS, THREADS, FORKS and SIZES are as in outlast.h.
 */
#ifndef OUTLAST_RULE_H
#define OUTLAST_RULE_H

#include "outlast.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the learning rate changes from step to step: a factor on that of every group. */
enum ol_schedule {
	OL_SCHEDULE_CONSTANT, /* 1 */
	OL_SCHEDULE_COSINE, /* from 1 to `floor` in `length` steps, then floor (Loshchilov and Hutter
			       2017) */
	OL_SCHEDULE_STEP, /* times `gamma` every `length` steps */
	OL_SCHEDULE_POLYNOMIAL, /* from 1 to `floor` in `length` steps: floor + (1 - floor) (1 - t /
				   length)^power, then floor */
};

enum {
	OL_RULE_GROUPS_MAX = 64
};

/* The numbers by which a span of the job's vector is updated. What the job's optimizer does not use
 * must be 0, as ol_rule_get() returns it (epsilon apart). Its size is fixed. */
struct ol_rule_group {
	uint64_t first; /* float that it begins at; it ends where the next group begins */
	float lr;
	float momentum;
	float weight_decay;
	float beta1;
	float beta2;
	float epsilon;
	float clip_value; /* each element of the gradient is cut to -clip_value … clip_value; 0: none */
	/* If the Euclidean norm of the group's gradient is larger, the gradient is scaled down to it.
	   0: none. With several shards it must be 0, as no server has the whole gradient. */
	float clip_norm;
	uint32_t reserved[2]; /* 0 */
};

/*
 * What a job's servers update weights by. It is part of the weights' state: in each snapshot,
 * checkpoint and mirror, and on every replica. So a server that comes back goes on by it.
 *
 * The step that makes version v + 1 is made at t = v - begin. In the first `warmup` steps the factor
 * grows from warmup_from to 1, linearly; then the schedule begins. The gradient of a step, its mean
 * or sum, is clipped by norm, then by value, before weight decay is added.
 */
struct ol_rule {
	uint64_t version; /* changes until now. 0: what the servers' options say */
	uint64_t
		begin; /* version at which the schedule begins; OL_RULE_NOW: the one that the rule is
			   first used at, unless it changes nothing else */
	uint32_t group_count; /* 1 … OL_RULE_GROUPS_MAX; no more than the servers have room for */
	uint32_t schedule; /* enum ol_schedule */
	uint64_t warmup; /* steps */
	uint64_t length; /* steps; 1 or more, unless the schedule is constant */
	float warmup_from; /* 0 … 1 */
	float floor; /* 0 … 1: COSINE, POLYNOMIAL */
	float gamma; /* above 0: STEP */
	uint32_t power; /* 1 … 16: POLYNOMIAL */
	uint64_t reserved; /* 0 */
	struct ol_rule_group groups[OL_RULE_GROUPS_MAX]; /* the first begins at 0; in order */
};

#define OL_RULE_NOW UINT64_MAX

/*
 * ol_rule_get -- the rule of the weights that ol_weights() returns, at the first shard
 *
 * ol_rule_lr() says what its schedule makes of it.
 *
 * Blocks: never. Errors: -EAGAIN (nothing is pulled yet)
 */
OL_API int ol_rule_get_sized(const struct ol_worker *worker, struct ol_rule *ret_rule,
			     size_t rule_bytes);
static inline int ol_rule_get(const struct ol_worker *worker, struct ol_rule *ret_rule)
{
	return ol_rule_get_sized(worker, ret_rule, sizeof(*ret_rule));
}

/*
 * ol_rule_set -- change the rule: this worker's next push brings it to the servers
 *
 * If that push is applied, its step, and those after it, are made by the rule; so it changes once. If
 * it is dropped, the next push brings the rule. If several gradients of one step bring a rule, that of
 * the largest worker id is taken. A rule that changes nothing is not a change. rule->version is not
 * looked at. A gradient that is taken into a later step (late=next) takes its rule along.
 *
 * A rule that travels with a push is kept, pushed again and queued as its gradient is: a run that
 * waits for all workers is a function of its seed and of these calls, whatever servers die. With
 * several shards and steps that do not wait for all, shards may take rules of two workers in
 * different orders.
 *
 * Blocks: never. Errors: -EINVAL (a value is out of range), -ENOSPC (more groups than the servers have
 * room for), -EOPNOTSUPP (clip_norm with several shards), -EPERM (an observer)
 */
OL_API int ol_rule_set_sized(struct ol_worker *worker, const struct ol_rule *rule,
			     size_t rule_bytes);
static inline int ol_rule_set(struct ol_worker *worker, const struct ol_rule *rule)
{
	return ol_rule_set_sized(worker, rule, sizeof(*rule));
}

/* ol_rule_lr -- a group's learning rate for the step from `version` on; 0: no such group */
OL_API float ol_rule_lr(const struct ol_rule *rule, uint32_t group, uint64_t version);

#ifdef __cplusplus
}
#endif

#endif /* OUTLAST_RULE_H */
