/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * weigh_test.c -- a step is the weighted mean of the gradients that are in it, bit for bit today's
 * where all weights are equal; and who is left out counts for nothing
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
#include "store/weigh.h"

enum {
	LEN = 70,
	COUNT = 5
};

static struct ol_store store;
static struct ol_geometry geo = { .param_count = LEN,
				  .shard_len = LEN,
				  .shard_count = 1,
				  .workers_max = COUNT,
				  .window = 2,
				  .groups = 1,
				  .consistency = OL_CONSISTENCY_SYNC };
static float grads[COUNT][LEN];
static void *memory;

static void begin(uint32_t sum)
{
	struct ol_update_rule rule = { .optimizer = OL_OPTIMIZER_SGD, .lr = 0.3f, .sum = sum };
	static const float first[LEN];

	free(memory);
	memory = aligned_alloc(4096, ol_layout_public_bytes(&geo));
	assert_non_null(memory);
	memset(memory, 0, ol_layout_public_bytes(&geo));
	assert_int_equal(ol_store_init(&store, &geo, &rule, memory, first), 0);
	for (int k = 0; k < COUNT; k++) {
		for (int i = 0; i < LEN; i++)
			grads[k][i] = (float)((i * 37 + k * 11) % 97) / 31.0f - 1.5f;
	}
}

static int teardown(void **state)
{
	(void)state;
	free(memory);
	return 0;
}

/* A step from these gradients with these weights; returns how many are in it */
static unsigned step(const unsigned *which, const float *weights, unsigned count)
{
	struct ol_contribution c[COUNT];

	for (unsigned i = 0; i < count; i++)
		c[i] = (struct ol_contribution){ .grad = grads[which[i]],
						 .seq = 1,
						 .grads = 1,
						 .scale = 1.0f,
						 .weight = weights[i],
						 .worker = which[i] };
	return ol_store_apply(&store, c, count, (unsigned)ol_store_target(&store, 0));
}

static void weights_are_to(double divisor, const float *weights)
{
	for (int i = 0; i < LEN; i++) {
		double sum = 0.0;

		for (int k = 0; k < COUNT; k++)
			sum += (double)weights[k] * (double)grads[k][i];
		assert_true(fabs((double)ol_store_weights(&store)[i] + 0.3 * sum / divisor) <
			    1e-5 * (1.0 + fabs(sum / divisor)));
	}
}

static const unsigned all[COUNT] = { 0, 1, 2, 3, 4 };

static void equal_weights_give_the_bits_of_none(void **unused)
{
	static const float each[] = { 1.0f, 3.0f, 0.1f, 16777213.0f, 1.1e-18f, 9.9e17f };
	float none[COUNT] = { 0 }, same[COUNT], plain[LEN];

	(void)unused;
	begin(0);
	assert_int_equal(step(all, none, COUNT), COUNT);
	memcpy(plain, ol_store_weights(&store), sizeof(plain));
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		for (int k = 0; k < COUNT; k++)
			same[k] = each[i];
		begin(0);
		assert_int_equal(step(all, same, COUNT), COUNT);
		assert_memory_equal(ol_store_weights(&store), plain, sizeof(plain));
	}
}

static void equal_weights_of_any_number_have_factors_of_one(void **unused)
{
	static struct ol_contribution many[1024];
	static float scales[1024];

	(void)unused;
	for (unsigned n = 1; n <= 1024; n++) {
		many[n - 1] = (struct ol_contribution){ .scale = 1.0f, .weight = 16777213.0f };
		ol_weigh(many, NULL, n, false, scales);
		assert_true(ol_weights_even(many, n, false));
		for (unsigned i = 0; i < n; i++)
			assert_true(scales[i] == 1.0f);
	}
	assert_false(ol_weights_even(many, 2, true));
}

static void a_mean_is_weighted_and_a_sum_too(void **unused)
{
	static const float weights[COUNT] = { 1.0f, 2048.0f, 0.5f, 100.0f, 7.0f };

	(void)unused;
	begin(0);
	assert_int_equal(step(all, weights, COUNT), COUNT);
	weights_are_to(2156.5, weights);
	begin(1);
	assert_int_equal(step(all, weights, COUNT), COUNT);
	weights_are_to(1.0, weights);
}

static void a_step_of_one_is_its_gradient(void **unused)
{
	static const unsigned one[1] = { 3 };
	static const float weight[1] = { 12345.678f }, none[1] = { 0.0f };
	float plain[LEN];

	(void)unused;
	begin(0);
	assert_int_equal(step(one, none, 1), 1);
	memcpy(plain, ol_store_weights(&store), sizeof(plain));
	begin(0);
	assert_int_equal(step(one, weight, 1), 1);
	assert_memory_equal(ol_store_weights(&store), plain, sizeof(plain));
	begin(1);
	assert_int_equal(step(one, weight, 1), 1);
	assert_memory_not_equal(ol_store_weights(&store), plain, sizeof(plain));
}

/* The others have the mean that they have without it, bit for bit; also in a payload for a chain */
static void what_is_not_finite_counts_for_nothing(void **unused)
{
	static const unsigned three[3] = { 0, 2, 4 };
	static const float weights[COUNT] = { 1.0f, 2048.0f, 0.5f, 100.0f, 7.0f };
	static const float left[3] = { 1.0f, 0.5f, 7.0f };
	float without[LEN], sum[LEN];
	struct ol_contribution c[COUNT];

	(void)unused;
	begin(0);
	assert_int_equal(step(three, left, 3), 3);
	memcpy(without, ol_store_weights(&store), sizeof(without));
	begin(0);
	grads[1][LEN - 1] = NAN;
	grads[3][0] = INFINITY;
	assert_int_equal(step(all, weights, COUNT), 3);
	assert_memory_equal(ol_store_weights(&store), without, sizeof(without));
	for (unsigned i = 0; i < COUNT; i++)
		c[i] = (struct ol_contribution){
			.grad = grads[i], .scale = 1.0f, .weight = weights[i], .is_void = i == 3
		};
	begin(0);
	grads[1][LEN - 1] = NAN;
	assert_int_equal(ol_store_gather(&store, c, COUNT, sum), 3);
	ol_store_begin(&store, 1);
	ol_store_enter_part(&store, sum, (struct ol_span){ 0, LEN }, 1);
	ol_store_publish(&store, c, COUNT, 1);
	assert_memory_equal(ol_store_weights(&store), without, sizeof(without));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_weights_give_the_bits_of_none),
		cmocka_unit_test(equal_weights_of_any_number_have_factors_of_one),
		cmocka_unit_test(a_mean_is_weighted_and_a_sum_too),
		cmocka_unit_test(a_step_of_one_is_its_gradient),
		cmocka_unit_test(what_is_not_finite_counts_for_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
