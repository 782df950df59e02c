/* SPDX-License-Identifier: BSD-3-Clause */

/* replay_test.c -- each replay policy scales the sum of a delta by its published rule */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "policy/replay.h"

static struct ol_delta delta_of(uint32_t grads)
{
	return (struct ol_delta){ .grads = grads, .ways = 4, .lr = 0.01f, .clip = 1.0f };
}

static void each_is_the_sum(void **state)
{
	struct ol_delta delta = delta_of(234);

	(void)state;
	assert_float_equal(ol_replay_scale(OL_REPLAY_EACH, &delta), 1.0, 0);
}

static void mean_is_one_step_and_a_mean_of_paths(void **state)
{
	struct ol_delta delta = delta_of(200);

	(void)state;
	assert_float_equal(ol_replay_scale(OL_REPLAY_MEAN, &delta), 0.005, 1e-7);
	delta.path = true;
	assert_float_equal(ol_replay_scale(OL_REPLAY_MEAN, &delta), 0.25, 0);
}

static void sum_turns_the_rate_down_above_fifty(void **state)
{
	struct ol_delta delta = delta_of(50);

	(void)state;
	assert_float_equal(ol_replay_scale(OL_REPLAY_SUM, &delta), 1.0, 0);
	delta.grads = 51;
	assert_float_equal(ol_replay_scale(OL_REPLAY_SUM, &delta), 0.1, 1e-7);
	delta.lr = 0.0005f; /* never up */
	assert_float_equal(ol_replay_scale(OL_REPLAY_SUM, &delta), 1.0, 0);
}

static void clip_bounds_the_norm(void **state)
{
	struct ol_delta delta = delta_of(10);

	(void)state;
	delta.norm = 0.5f;
	assert_float_equal(ol_replay_scale(OL_REPLAY_CLIP, &delta), 1.0, 0);
	delta.norm = 8.0f;
	assert_float_equal(ol_replay_scale(OL_REPLAY_CLIP, &delta), 0.125, 0);
}

static void staleness_is_a_harmonic_mean(void **state)
{
	struct ol_delta delta = delta_of(3);
	double exact = 0.0;

	(void)state;
	assert_float_equal(ol_replay_scale(OL_REPLAY_STALENESS, &delta), (1.0 + 0.5 + 1.0 / 3) / 3,
			   1e-6);
	delta.staleness = 5;
	assert_float_equal(ol_replay_scale(OL_REPLAY_STALENESS, &delta), (1.0 + 0.5 + 1.0 / 3) / 15,
			   1e-6);
	for (int i = 1; i <= 5000; i++)
		exact += 1.0 / i;
	delta = delta_of(5000);
	assert_float_equal(ol_replay_scale(OL_REPLAY_STALENESS, &delta), exact / 5000, 1e-7);
}

static void one_gradient_is_as_it_always_was(void **state)
{
	struct ol_delta delta = delta_of(1);

	(void)state;
	assert_float_equal(ol_replay_scale(OL_REPLAY_EACH, &delta), 1.0, 0);
	assert_float_equal(ol_replay_scale(OL_REPLAY_MEAN, &delta), 1.0, 0);
	assert_float_equal(ol_replay_scale(OL_REPLAY_SUM, &delta), 1.0, 0);
	assert_float_equal(ol_replay_scale(OL_REPLAY_STALENESS, &delta), 1.0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_is_the_sum),
		cmocka_unit_test(mean_is_one_step_and_a_mean_of_paths),
		cmocka_unit_test(sum_turns_the_rate_down_above_fifty),
		cmocka_unit_test(clip_bounds_the_norm),
		cmocka_unit_test(staleness_is_a_harmonic_mean),
		cmocka_unit_test(one_gradient_is_as_it_always_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
