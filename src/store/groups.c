/* SPDX-License-Identifier: BSD-3-Clause */

/* groups.c -- a rule at one version, cut to a shard */

#include "store/groups.h"

static struct ol_update_rule numbers_of(const struct ol_update_rule *base,
					const struct ol_rule_group *group, double factor)
{
	struct ol_update_rule rule = *base;

	rule.lr = ol_rule_times(group->lr, factor);
	rule.momentum = group->momentum;
	rule.beta1 = group->beta1;
	rule.beta2 = group->beta2;
	rule.epsilon = group->epsilon;
	rule.weight_decay = group->weight_decay;
	return rule;
}

void ol_groups_make(struct ol_groups *groups, const struct ol_geometry *geo,
		    const struct ol_update_rule *base, const struct ol_rule *rule, uint64_t version)
{
	const double factor = ol_rule_factor(rule, version);
	const uint64_t shard_end = geo->shard_first + geo->shard_len;

	groups->count = 0;
	groups->varies = ol_rule_varies(rule);
	groups->needs_whole = false;
	for (uint32_t i = 0; i < rule->group_count; i++) {
		const struct ol_rule_group *from = &rule->groups[i];
		uint64_t first = from->first, end = geo->param_count;

		if (i + 1 < rule->group_count)
			end = from[1].first;
		first = first > geo->shard_first ? first : geo->shard_first;
		end = end < shard_end ? end : shard_end;
		if (first >= end)
			continue;
		groups->of[groups->count++] = (struct ol_group){
			.first = first - geo->shard_first,
			.end = end - geo->shard_first,
			.rule = numbers_of(base, from, factor),
			.clip = from->clip_value,
			.clip_norm = from->clip_norm,
		};
		groups->needs_whole = groups->needs_whole || from->clip_norm > 0.0f;
	}
}
