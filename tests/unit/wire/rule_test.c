/* SPDX-License-Identifier: BSD-3-Clause */

/* rule_test.c -- a schedule's factors are those of its formula, and no rule is taken that a server
 * cannot compute with */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/bounds.h"
#include "wire/rule.h"

enum {
	GROUPS = 3
};

static const struct ol_geometry geo = { .param_count = 1000,
					.shard_len = 1000,
					.shard_count = 1,
					.workers_max = 1,
					.window = 1,
					.groups = GROUPS,
					.state_vectors = 2 };

static struct ol_rule rule_of(enum ol_schedule schedule)
{
	struct ol_rule rule = { .group_count = 2,
				.schedule = schedule,
				.warmup = 10,
				.length = 100,
				.warmup_from = 0.25f,
				.floor = 0.125f,
				.gamma = 0.5f,
				.power = 2 };

	rule.groups[0] = (struct ol_rule_group){
		.lr = 0.5f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-8f
	};
	rule.groups[1] = rule.groups[0];
	rule.groups[1].first = 500;
	return rule;
}

/* By the C library, in the formula's own words */
static double expected(const struct ol_rule *rule, uint64_t t)
{
	const double pi = 3.14159265358979323846;
	const double part = fmin(1.0, ((double)t - 10.0) / 100.0);

	if (t < 10)
		return 0.25 + 0.75 * (double)t / 10.0;
	switch ((enum ol_schedule)rule->schedule) {
	case OL_SCHEDULE_CONSTANT:
		return 1.0;
	case OL_SCHEDULE_COSINE:
		return 0.125 + 0.875 * (1.0 + cos(pi * part)) / 2.0;
	case OL_SCHEDULE_STEP:
		return pow(0.5, floor(((double)t - 10.0) / 100.0));
	case OL_SCHEDULE_POLYNOMIAL:
		return 0.125 + 0.875 * pow(1.0 - part, 2.0);
	}
	return NAN;
}

static void factors_are_those_of_the_formula(void **state)
{
	(void)state;
	for (int kind = OL_SCHEDULE_CONSTANT; kind <= OL_SCHEDULE_POLYNOMIAL; kind++) {
		struct ol_rule rule = rule_of((enum ol_schedule)kind);

		rule.begin = 40;
		for (uint64_t t = 0; t < 400; t++) {
			assert_true(fabs(ol_rule_factor(&rule, 40 + t) - expected(&rule, t)) <
				    1e-14);
			assert_true(ol_rule_lr(&rule, 1, 40 + t) ==
				    (float)(0.5 * ol_rule_factor(&rule, 40 + t)));
		}
		assert_true(ol_rule_factor(&rule, 3) == 0.25); /* before it begins */
		assert_true(ol_rule_varies(&rule));
		assert_true(ol_rule_lr(&rule, 2, 0) == 0.0f);
	}
}

static void a_schedule_that_never_ends_keeps_its_last_factor(void **state)
{
	struct ol_rule rule = rule_of(OL_SCHEDULE_COSINE);

	(void)state;
	assert_true(ol_rule_factor(&rule, OL_VERSION_MAX) == 0.125);
	rule.schedule = OL_SCHEDULE_STEP;
	assert_true(ol_rule_factor(&rule, OL_VERSION_MAX) == 0.0);
	rule = rule_of(OL_SCHEDULE_CONSTANT);
	rule.warmup = 0;
	assert_false(ol_rule_varies(&rule));
	assert_true(ol_rule_factor(&rule, 7) == 1.0);
}

/* What is changed in a good rule, and the field that is at fault then */
static void faults_are_found_and_named(void **state)
{
	const struct ol_rule good = rule_of(OL_SCHEDULE_POLYNOMIAL);
	struct ol_geometry two = geo;
	struct ol_rule bad;

	(void)state;
	assert_null(ol_rule_fault(&good, &geo));
#define WITH(field, value, name) \
	(bad = good, bad.field = (value), assert_string_equal(ol_rule_fault(&bad, &geo), name))
	WITH(version, OL_VERSION_MAX + 1, "version");
	WITH(begin, OL_VERSION_MAX + 1, "begin");
	WITH(group_count, 0, "group_count");
	WITH(group_count, GROUPS + 1, "group_count");
	WITH(group_count, UINT32_MAX, "group_count");
	WITH(schedule, 4, "schedule");
	WITH(warmup, UINT64_MAX, "warmup");
	WITH(length, 0, "length");
	WITH(warmup_from, NAN, "warmup_from");
	WITH(floor, 1.5f, "floor");
	WITH(gamma, -1.0f, "gamma");
	WITH(power, 0, "power");
	WITH(power, 17, "power");
	WITH(reserved, 1, "reserved");
	WITH(groups[0].first, 1, "first");
	WITH(groups[1].first, 0, "first");
	WITH(groups[1].first, 1000, "first");
	WITH(groups[1].lr, NAN, "lr");
	WITH(groups[1].lr, INFINITY, "lr");
	WITH(groups[1].momentum, 1.5f, "momentum");
	WITH(groups[1].weight_decay, -1.0f, "weight_decay");
	WITH(groups[1].beta1, 1.0f, "beta1");
	WITH(groups[1].beta2, NAN, "beta2");
	WITH(groups[1].epsilon, 0.0f, "epsilon");
	WITH(groups[1].clip_value, -1.0f, "clip_value");
	WITH(groups[1].clip_norm, INFINITY, "clip_norm");
	WITH(groups[1].reserved[1], 1, "reserved");
	bad = good;
	bad.begin = OL_RULE_NOW;
	bad.groups[1].clip_norm = 1.0f;
	assert_null(ol_rule_fault(&bad, &geo));
	assert_null(ol_rule_useless(&good, &geo));
	two.state_vectors = 1; /* momentum: no betas */
	assert_string_equal(ol_rule_useless(&good, &two), "beta1");
	two.state_vectors = 2;
	bad.groups[1].momentum = 0.5f; /* Adam has none */
	assert_string_equal(ol_rule_useless(&bad, &geo), "momentum");
	bad.groups[1].momentum = 0.0f;
	two.shard_count = 2; /* no server has the whole gradient */
	assert_string_equal(ol_rule_fault(&bad, &two), "clip_norm");
}

static void only_what_changes_something_is_news(void **state)
{
	const struct ol_rule now = rule_of(OL_SCHEDULE_COSINE);
	struct ol_rule next = now;

	(void)state;
	next.version = 77;
	assert_false(ol_rule_is_news(&now, &next));
	next.begin = OL_RULE_NOW;
	assert_false(ol_rule_is_news(&now, &next));
	next.begin = 5;
	assert_true(ol_rule_is_news(&now, &next));
	next = now;
	next.groups[1].lr = 0.25f;
	assert_true(ol_rule_is_news(&now, &next));
	next = now;
	next.group_count = 1;
	assert_true(ol_rule_is_news(&now, &next));
	next = now;
	next.groups[2].lr = 1.0f; /* behind the last group */
	assert_false(ol_rule_is_news(&now, &next));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(factors_are_those_of_the_formula),
		cmocka_unit_test(a_schedule_that_never_ends_keeps_its_last_factor),
		cmocka_unit_test(faults_are_found_and_named),
		cmocka_unit_test(only_what_changes_something_is_news),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
