/* SPDX-License-Identifier: BSD-3-Clause */

/* groups.h -- what a rule says of one step of one shard: spans, each with its numbers */
#ifndef OL_STORE_GROUPS_H
#define OL_STORE_GROUPS_H

#include <stdbool.h>
#include <stdint.h>

#include "outlast_server.h"
#include "wire/layout.h"
#include "wire/rule.h"

/* A span of the shard that is updated by the same numbers */
struct ol_group {
	uint64_t first, end; /* floats of the shard */
	struct ol_update_rule rule; /* with the schedule's learning rate */
	float clip; /* struct ol_kernel_args */
	float clip_norm; /* 0: none */
	float shrink; /* of this step, once its gradient is known; 0: none */
};

struct ol_groups {
	uint32_t count; /* those that the shard has a part of */
	bool varies; /* at another version they may be others */
	bool needs_whole; /* a group's gradient must be whole before any of it is applied */
	struct ol_group of[OL_RULE_GROUPS_MAX];
};

/* ol_groups_make -- for the step from `version` on. base: what is constant for the job; rule: valid */
void ol_groups_make(struct ol_groups *groups, const struct ol_geometry *geo,
		    const struct ol_update_rule *base, const struct ol_rule *rule,
		    uint64_t version);

#endif /* OL_STORE_GROUPS_H */
