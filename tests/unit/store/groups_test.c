/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * groups_test.c -- each group is updated by its own numbers, in one piece, in parts and from a sum
 * alike; a rule that changes is that of its step and of those after it, in every snapshot
 */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/store.h"

enum {
	LEN = 200000, /* several pieces of an update */
	GROUPS = 3,
	WORKERS = 2,
	FIRST_1 = 777, /* not where a block or a line begins */
	FIRST_2 = 140001,
};

static struct ol_geometry geo;
static float initial[LEN], grad[WORKERS][LEN], sum[LEN];

struct replica {
	struct ol_store store;
	void *memory;
};

static struct replica replica_make(enum ol_optimizer optimizer)
{
	const struct ol_update_rule rule = { .optimizer = optimizer,
					     .lr = 0.5f,
					     .momentum = 0.5f,
					     .beta1 = 0.5f,
					     .beta2 = 0.75f,
					     .epsilon = 1e-3f };
	struct replica replica;

	geo = (struct ol_geometry){ .param_count = LEN,
				    .shard_len = LEN,
				    .shard_count = 1,
				    .workers_max = WORKERS,
				    .window = 1,
				    .groups = GROUPS,
				    .state_vectors = ol_rule_state_vectors(optimizer),
				    .consistency = OL_CONSISTENCY_SYNC };
	for (uint32_t i = 0; i < LEN; i++) {
		initial[i] = (float)(i % 17) * 0.25f;
		for (uint32_t k = 0; k < WORKERS; k++)
			grad[k][i] = (float)((i * 7 + k * 3) % 29) * 0.125f - 1.5f;
	}
	replica.memory = aligned_alloc(OL_PAGE_BYTES, ol_layout_public_bytes(&geo));
	assert_non_null(replica.memory);
	memset(replica.memory, 0, ol_layout_public_bytes(&geo));
	assert_int_equal(ol_store_init(&replica.store, &geo, &rule, replica.memory, initial), 0);
	return replica;
}

static void replica_free(struct replica *replica)
{
	free(replica->memory);
}

static struct ol_rule three_groups(const struct ol_store *store)
{
	struct ol_rule rule = { .group_count = GROUPS };

	for (uint32_t i = 0; i < GROUPS; i++)
		rule.groups[i] = ol_store_rule(store)->groups[0];
	rule.groups[1].first = FIRST_1;
	rule.groups[1].lr = 0.25f;
	rule.groups[1].weight_decay = 0.5f;
	rule.groups[2].first = FIRST_2;
	rule.groups[2].lr = 0.0f;
	rule.groups[2].clip_value = 0.75f;
	assert_null(ol_rule_fault(&rule, &geo));
	return rule;
}

static void contributions_make(struct ol_contribution *contributions, uint64_t seq)
{
	for (uint32_t k = 0; k < WORKERS; k++)
		contributions[k] = (struct ol_contribution){
			.grad = grad[k], .seq = seq, .grads = 1, .scale = 1.0f, .worker = k
		};
}

static void step(struct ol_store *store, const struct ol_rule *rule)
{
	struct ol_contribution contributions[WORKERS];

	contributions_make(contributions, store->version + 1);
	ol_store_rule_next(store, rule);
	assert_int_equal(
		ol_store_apply(store, contributions, WORKERS, (unsigned)ol_store_target(store, 0)),
		WORKERS);
}

/* The same, as a chain does it: a sum, then parts of it or all at once */
static void step_by_sum(struct ol_store *store, const struct ol_rule *rule, bool parts)
{
	struct ol_contribution contributions[WORKERS];
	const unsigned target = (unsigned)ol_store_target(store, 0);

	contributions_make(contributions, store->version + 1);
	assert_int_equal(ol_store_gather(store, contributions, WORKERS, sum), WORKERS);
	ol_store_rule_next(store, rule);
	ol_store_begin(store, target);
	if (parts) {
		ol_store_enter_part(store, sum, (struct ol_span){ 100000, LEN - 100000 }, target);
		ol_store_enter_part(store, sum, (struct ol_span){ 500, 99500 }, target);
		ol_store_enter_part(store, sum, (struct ol_span){ 0, 500 }, target);
	} else {
		ol_store_enter_part(store, sum, (struct ol_span){ 0, LEN }, target);
	}
	ol_store_publish(store, contributions, WORKERS, target);
}

static void same_weights(const struct ol_store *a, const struct ol_store *b)
{
	assert_int_equal(a->version, b->version);
	assert_memory_equal(ol_store_content(a, a->snapshot), ol_store_content(b, b->snapshot),
			    ol_layout_content_bytes(&geo));
}

static void each_group_has_its_numbers(void **state)
{
	struct replica replica = replica_make(OL_OPTIMIZER_SGD);
	const struct ol_rule rule = three_groups(&replica.store);
	const float *w;

	(void)state;
	step(&replica.store, &rule);
	w = ol_store_weights(&replica.store);
	for (uint32_t i = 0; i < LEN; i++) {
		float g = (grad[0][i] + grad[1][i]) * 0.5f, lr = 0.5f;

		if (i >= FIRST_1 && i < FIRST_2) {
			g = g + 0.5f * initial[i];
			lr = 0.25f;
		}
		if (i >= FIRST_2)
			lr = 0.0f;
		assert_true(w[i] == initial[i] - lr * g);
	}
	replica_free(&replica);
}

static void one_pass_parts_and_a_sum_give_the_same_bits(void **state)
{
	(void)state;
	for (int optimizer = OL_OPTIMIZER_SGD; optimizer <= OL_OPTIMIZER_ADAMW; optimizer++) {
		struct replica a = replica_make((enum ol_optimizer)optimizer);
		struct replica b = replica_make((enum ol_optimizer)optimizer);
		struct replica c = replica_make((enum ol_optimizer)optimizer);
		struct ol_rule rule = three_groups(&a.store);

		for (unsigned i = 0; i < 6; i++) {
			const struct ol_rule *next = i % 2 == 1 ? &rule : NULL;

			rule.groups[2].lr = 0.125f * (float)i;
			step(&a.store, next);
			step_by_sum(&b.store, next, true);
			step_by_sum(&c.store, next, false);
			same_weights(&a.store, &b.store);
			same_weights(&a.store, &c.store);
			assert_int_equal(ol_store_rule(&a.store)->version, (i + 1) / 2);
		}
		replica_free(&a);
		replica_free(&b);
		replica_free(&c);
	}
}

static void a_schedule_counts_versions(void **state)
{
	struct replica replica = replica_make(OL_OPTIMIZER_SGD);
	struct ol_rule rule = *ol_store_rule(&replica.store);
	float before[2];

	(void)state;
	rule.schedule = OL_SCHEDULE_STEP;
	rule.length = 2;
	rule.gamma = 0.5f;
	rule.begin = 1;
	step(&replica.store, NULL);
	for (unsigned t = 0; t < 9; t++) {
		const float *w = ol_store_weights(&replica.store);
		const float g = (grad[0][1] + grad[1][1]) * 0.5f;

		before[0] = w[1];
		step(&replica.store, t == 0 ? &rule : NULL);
		before[1] = ol_store_weights(&replica.store)[1];
		assert_true(before[1] == before[0] - ldexpf(0.5f, -(int)(t / 2)) * g);
		assert_int_equal(ol_store_rule(&replica.store)->version, 1);
	}
	replica_free(&replica);
}

/* As torch.nn.utils.clip_grad_norm_() */
static void a_norm_is_that_of_the_whole_group(void **state)
{
	struct replica a = replica_make(OL_OPTIMIZER_MOMENTUM);
	struct replica b = replica_make(OL_OPTIMIZER_MOMENTUM);
	struct ol_rule rule = three_groups(&a.store);
	double norm2 = 0.0;
	float factor;

	(void)state;
	for (uint32_t i = FIRST_1; i < FIRST_2; i++) {
		const double g = (double)((grad[0][i] + grad[1][i]) * 0.5f);

		norm2 += g * g;
	}
	factor = (float)(10.0 / (sqrt(norm2) + 1e-6));
	rule.groups[0].clip_norm = 1e9f; /* far above */
	rule.groups[1].weight_decay = 0.0f;
	rule.groups[1].clip_norm = 10.0f;
	assert_false(ol_store_needs_whole(&a.store));
	step(&a.store, &rule);
	assert_true(ol_store_needs_whole(&a.store));
	step_by_sum(&b.store, &rule, false);
	same_weights(&a.store, &b.store);
	for (uint32_t i = FIRST_1 - 10; i < FIRST_1 + 10; i++) {
		const float g = (grad[0][i] + grad[1][i]) * 0.5f;
		const float w =
			i < FIRST_1 ? initial[i] - 0.5f * g : initial[i] - 0.25f * (g * factor);

		assert_true(fabsf(ol_store_weights(&a.store)[i] - w) <= 1e-6f);
	}
	step(&a.store, NULL);
	step_by_sum(&b.store, NULL, false);
	same_weights(&a.store, &b.store);
	replica_free(&a);
	replica_free(&b);
}

static void a_rule_whose_step_is_dropped_changes_nothing(void **state)
{
	struct replica replica = replica_make(OL_OPTIMIZER_ADAM);
	struct replica other = replica_make(OL_OPTIMIZER_ADAM);
	struct ol_contribution bad = {
		.grad = grad[0], .grads = 1, .scale = 1.0f, .is_void = true
	};
	const struct ol_rule rule = three_groups(&replica.store);

	(void)state;
	ol_store_rule_next(&replica.store, &rule);
	assert_int_equal(ol_store_apply(&replica.store, &bad, 1,
					(unsigned)ol_store_target(&replica.store, 0)),
			 0);
	assert_int_equal(ol_store_rule(&replica.store)->version, 0);
	step(&replica.store, NULL);
	step(&other.store, NULL);
	same_weights(&replica.store, &other.store);
	replica_free(&replica);
	replica_free(&other);
}

static void restored_weights_bring_their_rule(void **state)
{
	struct replica from = replica_make(OL_OPTIMIZER_ADAM);
	struct replica to = replica_make(OL_OPTIMIZER_ADAM);
	struct ol_rule rule = three_groups(&from.store);

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		rule.groups[0].lr += 0.125f;
		step(&from.store, i < 3 ? &rule : NULL);
		step(&to.store,
		     i == 1 ? &rule : NULL); /* of another history, some versions alike */
	}
	memcpy(ol_store_content(&to.store, 1), ol_store_content(&from.store, from.store.snapshot),
	       ol_layout_content_bytes(&geo));
	ol_store_restore(&to.store, 1, from.store.version, true);
	for (unsigned i = 0; i < 4; i++) {
		same_weights(&from.store, &to.store);
		step(&from.store, NULL);
		step(&to.store, NULL);
	}
	replica_free(&from);
	replica_free(&to);
}

/* A restored rule of version 0 is no state: what the options say is in force */
static void version_0_is_what_the_options_say(void **state)
{
	struct replica replica = replica_make(OL_OPTIMIZER_SGD);
	struct ol_rule options = *ol_store_rule(&replica.store);

	(void)state;
	step(&replica.store, NULL);
	memset(replica.store.parts[replica.store.snapshot].rule, 0, ol_layout_rule_bytes(&geo));
	options.groups[0].lr = 2.0f;
	ol_store_rule_first(&replica.store, &options);
	assert_true(ol_store_rule(&replica.store)->groups[0].lr == 2.0f);
	ol_store_restore(&replica.store, replica.store.snapshot, 1, true);
	assert_true(ol_store_rule(&replica.store)->groups[0].lr == 2.0f);
	for (uint32_t i = 0; i < OL_SNAPSHOTS; i++)
		assert_true(replica.store.parts[i].rule->groups[0].lr == 2.0f);
	replica_free(&replica);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_group_has_its_numbers),
		cmocka_unit_test(one_pass_parts_and_a_sum_give_the_same_bits),
		cmocka_unit_test(a_schedule_counts_versions),
		cmocka_unit_test(a_norm_is_that_of_the_whole_group),
		cmocka_unit_test(a_rule_whose_step_is_dropped_changes_nothing),
		cmocka_unit_test(restored_weights_bring_their_rule),
		cmocka_unit_test(version_0_is_what_the_options_say),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
