/* SPDX-License-Identifier: BSD-3-Clause */

/* rule.c -- from options to the rule of version 0 */

#include "server/rule.h"

#include <float.h>
#include <string.h>

static bool is_in(float value, float from, float to)
{
	return value >= from && value <= to; /* no NaN is */
}

static const char *schedule_fault(const struct ol_server_opts *opts)
{
	if ((unsigned)opts->schedule > OL_SCHEDULE_POLYNOMIAL)
		return "schedule has no such value";
	if (opts->schedule != OL_SCHEDULE_CONSTANT && opts->schedule_length == 0)
		return "schedule_length is 0: say how many steps the schedule takes";
	if (!is_in(opts->warmup_from, 0.0f, 1.0f))
		return "warmup_from is not between 0 and 1";
	if (!is_in(opts->lr_floor, 0.0f, 1.0f))
		return "lr_floor is not between 0 and 1: it is a part of the learning rate";
	if (opts->schedule == OL_SCHEDULE_STEP &&
	    (!is_in(opts->lr_gamma, 0.0f, 1e3f) || opts->lr_gamma == 0.0f))
		return "lr_gamma is not above 0";
	if (opts->schedule == OL_SCHEDULE_POLYNOMIAL &&
	    (opts->lr_power == 0 || opts->lr_power > OL_RULE_POWER_MAX))
		return "lr_power is not between 1 and 16";
	if (!is_in(opts->clip_value, 0.0f, FLT_MAX))
		return "clip_value is not a finite number from 0 on";
	if (!is_in(opts->clip_norm, 0.0f, FLT_MAX))
		return "clip_norm is not a finite number from 0 on";
	if (opts->clip_norm > 0.0f && opts->shard_count > 1)
		return "clip_norm with several shards: no server has the whole gradient; clip it in "
		       "the workers, or by clip_value";
	return NULL;
}

const char *ol_server_rule_fault(const struct ol_server_opts *opts)
{
	const struct ol_update_rule *rule = &opts->rule;
	bool adam = rule->optimizer == OL_OPTIMIZER_ADAM || rule->optimizer == OL_OPTIMIZER_ADAMW;

	if (!is_in(rule->lr, 0.0f, FLT_MAX))
		return "rule.lr is not a finite number from 0 on";
	if (!is_in(rule->weight_decay, 0.0f, FLT_MAX))
		return "rule.weight_decay is not a finite number from 0 on";
	if (!adam && rule->optimizer != OL_OPTIMIZER_SGD && !is_in(rule->momentum, 0.0f, 1.0f))
		return "rule.momentum is not between 0 and 1";
	if (adam && (!is_in(rule->beta1, 0.0f, 1.0f) || rule->beta1 == 1.0f ||
		     !is_in(rule->beta2, 0.0f, 1.0f) || rule->beta2 == 1.0f))
		return "rule.beta1 or rule.beta2 is not from 0 on and below 1";
	if (adam && (!is_in(rule->epsilon, 0.0f, FLT_MAX) || rule->epsilon == 0.0f))
		return "rule.epsilon is not a finite number above 0";
	if (opts->replay == OL_REPLAY_CLIP &&
	    (!is_in(opts->replay_clip, 0.0f, FLT_MAX) || opts->replay_clip == 0.0f))
		return "replay_clip is not a finite number above 0";
	if (opts->rule_groups == 0 || opts->rule_groups > OL_RULE_GROUPS_MAX)
		return "rule_groups is not between 1 and 64";
	return schedule_fault(opts);
}

void ol_server_rule_make(const struct ol_server_opts *opts, const struct ol_geometry *geo,
			 struct ol_rule *ret_rule)
{
	ol_rule_first(&opts->rule, geo, ret_rule);
	ret_rule->groups[0].clip_value = opts->clip_value;
	ret_rule->groups[0].clip_norm = opts->clip_norm;
	ret_rule->schedule = (uint32_t)opts->schedule;
	ret_rule->warmup = opts->warmup;
	ret_rule->warmup_from = opts->warmup > 0 ? opts->warmup_from : 0.0f;
	switch (opts->schedule) {
	case OL_SCHEDULE_CONSTANT:
		break;
	case OL_SCHEDULE_COSINE:
		ret_rule->floor = opts->lr_floor;
		break;
	case OL_SCHEDULE_STEP:
		ret_rule->gamma = opts->lr_gamma;
		break;
	case OL_SCHEDULE_POLYNOMIAL:
		ret_rule->floor = opts->lr_floor;
		ret_rule->power = opts->lr_power;
		break;
	}
	if (opts->schedule != OL_SCHEDULE_CONSTANT)
		ret_rule->length = opts->schedule_length;
}
