/* SPDX-License-Identifier: BSD-3-Clause */

/* rule.c -- checks of a rule, and the factor of its schedule */

#include "wire/rule.h"

#include <math.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/power.h"
#include "wire/bounds.h"

static_assert(sizeof(struct ol_rule_group) == 48, "a group is part of the wire protocol");
static_assert(offsetof(struct ol_rule, groups) == OL_LINE_BYTES, "so is what stands before them");

static bool is_adam(enum ol_optimizer optimizer)
{
	return optimizer == OL_OPTIMIZER_ADAM || optimizer == OL_OPTIMIZER_ADAMW;
}

void ol_rule_first(const struct ol_update_rule *from, const struct ol_geometry *geo,
		   struct ol_rule *ret_rule)
{
	const bool adam = is_adam(from->optimizer);

	memset(ret_rule, 0, ol_layout_rule_bytes(geo));
	ret_rule->group_count = 1;
	ret_rule->groups[0] = (struct ol_rule_group){
		.lr = from->lr,
		.momentum = adam || from->optimizer == OL_OPTIMIZER_SGD ? 0.0f : from->momentum,
		.weight_decay = from->weight_decay,
		.beta1 = adam ? from->beta1 : 0.0f,
		.beta2 = adam ? from->beta2 : 0.0f,
		.epsilon = adam ? from->epsilon : 0.0f,
	};
}

/* False for a NaN too */
static bool is_in(float value, float min, float max)
{
	return value >= min && value <= max;
}

/* Only Adam and AdamW keep two vectors of state */
static bool is_adams(const struct ol_geometry *geo)
{
	return geo->state_vectors == 2;
}

static const char *group_fault(const struct ol_rule_group *group, const struct ol_geometry *geo)
{
	const float most = 3.0e38f;

	if (!is_in(group->lr, 0.0f, most))
		return "lr";
	if (!is_in(group->momentum, 0.0f, 1.0f))
		return "momentum";
	if (!is_in(group->weight_decay, 0.0f, most))
		return "weight_decay";
	if (!is_in(group->beta1, 0.0f, 1.0f) || group->beta1 == 1.0f)
		return "beta1";
	if (!is_in(group->beta2, 0.0f, 1.0f) || group->beta2 == 1.0f)
		return "beta2";
	if (!is_in(group->epsilon, 0.0f, most) || (is_adams(geo) && group->epsilon == 0.0f))
		return "epsilon";
	if (!is_in(group->clip_value, 0.0f, most))
		return "clip_value";
	if (!is_in(group->clip_norm, 0.0f, most) || (geo->shard_count > 1 && group->clip_norm > 0))
		return "clip_norm";
	return group->reserved[0] != 0 || group->reserved[1] != 0 ? "reserved" : NULL;
}

static const char *schedule_fault(const struct ol_rule *rule)
{
	if (rule->schedule > OL_SCHEDULE_POLYNOMIAL)
		return "schedule";
	if (rule->warmup > OL_VERSION_MAX)
		return "warmup";
	if (rule->length > OL_VERSION_MAX ||
	    (rule->schedule != OL_SCHEDULE_CONSTANT && rule->length == 0))
		return "length";
	if (rule->begin > OL_VERSION_MAX && rule->begin != OL_RULE_NOW)
		return "begin";
	if (!is_in(rule->warmup_from, 0.0f, 1.0f))
		return "warmup_from";
	if (!is_in(rule->floor, 0.0f, 1.0f))
		return "floor";
	if (!is_in(rule->gamma, 0.0f, 1e3f) ||
	    (rule->schedule == OL_SCHEDULE_STEP && rule->gamma == 0.0f))
		return "gamma";
	if (rule->power > OL_RULE_POWER_MAX ||
	    (rule->schedule == OL_SCHEDULE_POLYNOMIAL && rule->power == 0))
		return "power";
	return rule->reserved != 0 ? "reserved" : NULL;
}

const char *ol_rule_fault(const struct ol_rule *rule, const struct ol_geometry *geo)
{
	const char *fault = schedule_fault(rule);

	if (rule->version > OL_VERSION_MAX)
		return "version";
	if (rule->group_count == 0 || rule->group_count > geo->groups)
		return "group_count";
	for (uint32_t i = 0; fault == NULL && i < rule->group_count; i++) {
		if (i == 0 ? rule->groups[0].first != 0
			   : rule->groups[i].first <= rule->groups[i - 1].first ||
				     rule->groups[i].first >= geo->param_count)
			return "first";
		fault = group_fault(&rule->groups[i], geo);
	}
	return fault;
}

const char *ol_rule_useless(const struct ol_rule *rule, const struct ol_geometry *geo)
{
	for (uint32_t i = 0; i < rule->group_count; i++) {
		const struct ol_rule_group *group = &rule->groups[i];

		if (group->momentum != 0.0f && geo->state_vectors != 1)
			return "momentum";
		if ((group->beta1 != 0.0f || group->beta2 != 0.0f) && !is_adams(geo))
			return "beta1";
	}
	return NULL;
}

bool ol_rule_is_news(const struct ol_rule *now, const struct ol_rule *next)
{
	const size_t from = offsetof(struct ol_rule, group_count);

	return now->group_count != next->group_count ||
	       (next->begin != OL_RULE_NOW && now->begin != next->begin) ||
	       memcmp((const uint8_t *)now + from, (const uint8_t *)next + from,
		      ol_rule_bytes_used(next) - from) != 0;
}

/* cos(pi x) of an x from 0 to 1, by its Taylor series within a quarter turn: to 1e-15 */
static double cos_pi(double x)
{
	const double pi = 3.14159265358979323846;
	const bool second = x > 0.5;
	const double y = pi * (second ? 1.0 - x : x), y2 = y * y;
	double sum = 0.0;

	for (int k = 22; k > 0; k -= 2)
		sum = (1.0 - sum) * y2 / (double)(k * (k - 1));
	return second ? sum - 1.0 : 1.0 - sum;
}

double ol_rule_factor(const struct ol_rule *rule, uint64_t version)
{
	const double floor = (double)rule->floor, from = (double)rule->warmup_from;
	uint64_t t = version > rule->begin ? version - rule->begin : 0;
	double part;

	if (t < rule->warmup)
		return from + (1.0 - from) * ((double)t / (double)rule->warmup);
	t -= rule->warmup;
	part = rule->length == 0 || t >= rule->length ? 1.0 : (double)t / (double)rule->length;
	switch ((enum ol_schedule)rule->schedule) {
	case OL_SCHEDULE_CONSTANT:
		return 1.0;
	case OL_SCHEDULE_COSINE:
		return floor + (1.0 - floor) * (1.0 + cos_pi(part)) / 2.0;
	case OL_SCHEDULE_STEP:
		return ol_power((double)rule->gamma, rule->length == 0 ? 0 : t / rule->length);
	case OL_SCHEDULE_POLYNOMIAL:
		return floor + (1.0 - floor) * ol_power(1.0 - part, rule->power);
	}
	return 1.0;
}

float ol_rule_lr(const struct ol_rule *rule, uint32_t group, uint64_t version)
{
	if (group >= rule->group_count || group >= OL_RULE_GROUPS_MAX)
		return 0.0f;
	return ol_rule_times(rule->groups[group].lr, ol_rule_factor(rule, version));
}

bool ol_rule_digest(const void *rule, const struct ol_geometry *geo,
		    uint64_t ret_words[OL_RULE_DIGEST_WORDS])
{
	uint8_t sum[EVP_MAX_MD_SIZE];
	unsigned bytes = 0;

	if (EVP_Digest(rule, ol_layout_rule_bytes(geo), sum, &bytes, EVP_sha256(), NULL) != 1)
		return false;
	memcpy(ret_words, sum, OL_RULE_DIGEST_WORDS * sizeof(*ret_words));
	for (unsigned i = 0; i < OL_RULE_DIGEST_WORDS; i++)
		ret_words[i] >>= 4;
	return true;
}
