/* SPDX-License-Identifier: BSD-3-Clause */

/* selector_test.c -- a selector selects its fraction of the floats with any blocks, takes the
 * largest distance first, and leaves no block out for ever */

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "outlast_policy.h"

enum {
	BLOCKS = 10
};

#define assert_near(a, b, margin) assert_true(fabs((a) - (b)) <= (margin))

static const uint64_t even[BLOCKS] = { 8, 8, 8, 8, 8, 8, 8, 8, 8, 8 };
/* one of them is most of the vector, as a layer may be */
static const uint64_t uneven[BLOCKS] = { 1, 500, 3, 20, 7, 64, 2, 90, 33, 5 };

static struct ol_selector *make(enum ol_selection selection, const uint64_t *lengths,
				double fraction, uint64_t seed)
{
	struct ol_selector *selector;

	assert_int_equal(ol_selector_create(selection, lengths, BLOCKS, fraction, seed, &selector),
			 0);
	return selector;
}

static void largest_distance_goes_first(void **unused)
{
	const double distance[BLOCKS] = { 1, 9, 2, 8, 3, 7, 4, 6, 5, 0 };
	struct ol_selector *selector = make(OL_SELECT_PRIORITY, even, 0.3, 0);
	uint32_t chosen[BLOCKS];

	(void)unused;
	for (int turn = 0; turn < 3; turn++) {
		assert_int_equal(ol_selector_turn(selector, distance, chosen), 3);
		assert_int_equal(chosen[0], 1);
		assert_int_equal(chosen[1], 3);
		assert_int_equal(chosen[2], 5);
	}
	ol_selector_destroy(selector);
}

static void ties_go_to_who_was_saved_longest_ago(void **unused)
{
	double distance[BLOCKS] = { 0 };
	struct ol_selector *selector = make(OL_SELECT_PRIORITY, even, 0.1, 0);
	uint32_t chosen[BLOCKS];

	(void)unused;
	distance[7] = 1.0;
	assert_int_equal(ol_selector_turn(selector, distance, chosen), 1);
	assert_int_equal(chosen[0], 7);
	distance[7] = 0.0;
	for (uint32_t turn = 0; turn < 2 * BLOCKS; turn++) {
		static const uint32_t order[BLOCKS] = { 0, 1, 2, 3, 4, 5, 6, 8, 9, 7 };

		assert_int_equal(ol_selector_turn(selector, distance, chosen), 1);
		assert_int_equal(chosen[0], order[turn % BLOCKS]);
	}
	ol_selector_destroy(selector);
}

static void what_is_no_number_goes_last(void **unused)
{
	double distance[BLOCKS] = { 0 };
	struct ol_selector *selector = make(OL_SELECT_PRIORITY, even, 0.1, 0);
	uint32_t chosen[BLOCKS];

	(void)unused;
	distance[0] = NAN;
	distance[4] = INFINITY;
	assert_int_equal(ol_selector_turn(selector, distance, chosen), 1);
	assert_int_equal(chosen[0], 4);
	distance[4] = 0.0;
	for (uint32_t turn = 0; turn < 3 * BLOCKS; turn++) {
		assert_int_equal(ol_selector_turn(selector, distance, chosen), 1);
		assert_int_not_equal(chosen[0], 0);
	}
	ol_selector_destroy(selector);
}

static void round_robin_covers_all_before_any_twice(void **unused)
{
	struct ol_selector *selector = make(OL_SELECT_ROUND_ROBIN, uneven, 0.125, 0);
	uint32_t times[BLOCKS] = { 0 }, chosen[BLOCKS];

	(void)unused;
	for (int turn = 0; turn < 800; turn++) {
		uint32_t count = ol_selector_turn(selector, NULL, chosen);

		for (uint32_t i = 0; i < count; i++) {
			times[chosen[i]]++;
			if (i > 0)
				assert_true(chosen[i] > chosen[i - 1]);
		}
		for (uint32_t i = 0; i < BLOCKS; i++)
			assert_in_range(times[i], times[BLOCKS - 1], times[BLOCKS - 1] + 1);
	}
	for (uint32_t i = 0; i < BLOCKS; i++)
		assert_in_range(times[i], 99, 101);
	ol_selector_destroy(selector);
}

static void a_turn_gives_out_its_fraction(void **unused)
{
	static const enum ol_selection all[] = { OL_SELECT_PRIORITY, OL_SELECT_ROUND_ROBIN,
						 OL_SELECT_RANDOM };
	static const double fractions[] = { 1.0, 0.5, 0.25, 0.125, 0.01 };
	double total = 0.0;

	(void)unused;
	for (uint32_t i = 0; i < BLOCKS; i++)
		total += (double)uneven[i];
	for (uint32_t at = 0; at < 15; at++) {
		double fraction = fractions[at % 5], given = 0.0;
		struct ol_selector *selector = make(all[at / 5], uneven, fraction, 1);
		uint32_t turns = (uint32_t)(200 / fraction);

		for (uint32_t turn = 0; turn < turns; turn++) {
			double distance[BLOCKS];
			uint32_t chosen[BLOCKS], count;

			for (uint32_t i = 0; i < BLOCKS; i++)
				distance[i] = (turn * (i + 3)) % 17;
			count = ol_selector_turn(selector, distance, chosen);
			for (uint32_t i = 0; i < count; i++)
				given += (double)uneven[chosen[i]];
			/* never off by more than half of a block */
			assert_near(given, fraction * total * (turn + 1), 250.0 + 1e-6);
		}
		assert_near(given / (fraction * total * turns), 1.0, 0.01);
		ol_selector_destroy(selector);
	}
}

static void all_of_it_is_every_block(void **unused)
{
	struct ol_selector *selector = make(OL_SELECT_RANDOM, uneven, 1.0, 5);
	uint32_t chosen[BLOCKS];

	(void)unused;
	for (int turn = 0; turn < 50; turn++) {
		assert_int_equal(ol_selector_turn(selector, NULL, chosen), BLOCKS);
		for (uint32_t i = 0; i < BLOCKS; i++)
			assert_int_equal(chosen[i], i);
	}
	ol_selector_destroy(selector);
}

static void random_is_a_function_of_its_seed(void **unused)
{
	struct ol_selector *a = make(OL_SELECT_RANDOM, even, 0.2, 1);
	struct ol_selector *b = make(OL_SELECT_RANDOM, even, 0.2, 1);
	struct ol_selector *c = make(OL_SELECT_RANDOM, even, 0.2, 2);
	uint32_t times[BLOCKS] = { 0 }, same = 0;

	(void)unused;
	for (int turn = 0; turn < 5000; turn++) {
		uint32_t of_a[BLOCKS], of_b[BLOCKS], of_c[BLOCKS];

		assert_int_equal(ol_selector_turn(a, NULL, of_a), 2);
		assert_int_equal(ol_selector_turn(b, NULL, of_b), 2);
		assert_int_equal(ol_selector_turn(c, NULL, of_c), 2);
		assert_int_equal(of_a[0], of_b[0]);
		assert_int_equal(of_a[1], of_b[1]);
		same += of_a[0] == of_c[0] && of_a[1] == of_c[1];
		times[of_a[0]]++;
		times[of_a[1]]++;
	}
	assert_in_range(same, 1, 500); /* one pair in 45 */
	for (uint32_t i = 0; i < BLOCKS; i++)
		assert_in_range(times[i], 850, 1150); /* 1000, by 28 */
	ol_selector_destroy(a);
	ol_selector_destroy(b);
	ol_selector_destroy(c);
}

static void impossible_settings_are_refused(void **unused)
{
	static const uint64_t empty[] = { 4, 0, 4 };
	struct ol_selector *selector;

	(void)unused;
	assert_int_equal(ol_selector_create(OL_SELECT_FULL, even, BLOCKS, 0.5, 0, &selector),
			 -EINVAL);
	assert_int_equal(ol_selector_create(OL_SELECT_PRIORITY, even, 0, 0.5, 0, &selector),
			 -EINVAL);
	assert_int_equal(ol_selector_create(OL_SELECT_PRIORITY, NULL, 4, 0.5, 0, &selector),
			 -EINVAL);
	assert_int_equal(ol_selector_create(OL_SELECT_PRIORITY, even, BLOCKS, 0.0, 0, &selector),
			 -EINVAL);
	assert_int_equal(ol_selector_create(OL_SELECT_PRIORITY, even, BLOCKS, 1.01, 0, &selector),
			 -EINVAL);
	assert_int_equal(ol_selector_create(OL_SELECT_PRIORITY, even, BLOCKS, NAN, 0, &selector),
			 -EINVAL);
	assert_int_equal(ol_selector_create(OL_SELECT_RANDOM, empty, 3, 0.5, 0, &selector),
			 -EINVAL);
	ol_selector_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(largest_distance_goes_first),
		cmocka_unit_test(ties_go_to_who_was_saved_longest_ago),
		cmocka_unit_test(what_is_no_number_goes_last),
		cmocka_unit_test(round_robin_covers_all_before_any_twice),
		cmocka_unit_test(a_turn_gives_out_its_fraction),
		cmocka_unit_test(all_of_it_is_every_block),
		cmocka_unit_test(random_is_a_function_of_its_seed),
		cmocka_unit_test(impossible_settings_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
