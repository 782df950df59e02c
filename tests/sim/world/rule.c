/* SPDX-License-Identifier: BSD-3-Clause */

/* rule.c -- the rule as a function of the version: groups, schedules, clipping, every third version
 * another */

#include "sim/world/rule.h"

#include <string.h>

#include "sim/world/cluster.h"
#include "store/kernels.h"

enum {
	RULE_STEPS = 3, /* versions between two changes */
};

struct ol_update_rule cluster_rule(void)
{
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.rule.optimizer = cluster.scenario.optimizer;
	opts.rule.lr = cluster.scenario.exact ? 0.05f : 1.0f;
	opts.rule.sum = !cluster.scenario.exact || cluster.scenario.age < CLUSTER_AGE_QUORUM ||
			cluster.scenario.window % 2 != 0;
	return opts.rule;
}

bool rules_change(void)
{
	return cluster.scenario.exact && cluster.scenario.age >= CLUSTER_AGE_RULES &&
	       cluster.scenario.pushes % 2 == 1;
}

static void schedule_at(uint64_t turn, struct ol_rule *rule)
{
	rule->schedule = (uint32_t)(turn % 4);
	rule->begin = turn % 2 == 0 ? OL_RULE_NOW : turn * RULE_STEPS;
	rule->length = rule->schedule == OL_SCHEDULE_CONSTANT ? 0 : 1 + turn % 5;
	rule->warmup = turn % 3;
	rule->warmup_from = 0.5f;
	rule->floor = 0.25f;
	rule->gamma = 0.5f;
	rule->power = 2;
}

void rule_at(uint64_t version, struct ol_rule *ret_rule)
{
	const uint64_t turn = version / RULE_STEPS;
	const unsigned vectors = ol_rule_state_vectors(cluster.scenario.optimizer);
	struct ol_rule rule = { .group_count = 1 + (uint32_t)(turn % CLUSTER_GROUPS) };

	for (uint32_t i = 0; i < rule.group_count; i++) {
		rule.groups[i] = (struct ol_rule_group){
			.first = i * cluster.params / (CLUSTER_GROUPS + 1),
			.lr = 0.01f * (float)(1 + (turn + i) % 7),
			.momentum = vectors == 1 ? 0.5f : 0.0f,
			.weight_decay = i == 0 ? 0.125f : 0.0f,
			.beta1 = vectors == 2 ? 0.5f : 0.0f,
			.beta2 = vectors == 2 ? 0.75f : 0.0f,
			.epsilon = 0.01f,
			.clip_value = turn % 5 == 1 ? 0.5f : 0.0f,
		};
		if (cluster.scenario.shards == 1 && turn % 4 == 3)
			rule.groups[i].clip_norm = 2.0f;
	}
	schedule_at(turn, &rule);
	*ret_rule = rule;
}
