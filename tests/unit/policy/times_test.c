/* SPDX-License-Identifier: BSD-3-Clause */

/* times_test.c -- the expected time of a step uses every landed gradient, late ones too; the time of
 * a k that was never used lies between its neighbours; strange versions do no harm */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "policy/times.h"

#define assert_near(a, b, margin) assert_true(fabs((a) - (b)) <= (margin))

enum {
	SECOND = 1000000000
};

static bool carries;

static struct ol_times *make(uint32_t workers, double decay)
{
	struct ol_times *times;

	assert_int_equal(ol_times_create(workers, workers, decay, carries, &times), 0);
	return times;
}

/* An update of h gradients, and the gradients of the next step landing a second apart */
static void step(struct ol_times *times, uint64_t version, uint32_t h, uint32_t landing)
{
	uint64_t now_ns = version * 100 * SECOND;

	ol_times_on_update(times, version, now_ns, h);
	for (uint32_t i = 0; i < landing; i++)
		ol_times_on_gradient(times, i, version, version,
				     now_ns + (i + 1) * (uint64_t)SECOND);
}

static void fit(struct ol_times *times, uint64_t version)
{
	ol_times_on_update(times, version, version * 100 * SECOND, 1);
}

static double expect(const struct ol_times *times, uint32_t h, uint32_t k)
{
	return ol_times_expect(times, h, ol_times_level(times, k));
}

static void every_gradient_that_lands_is_a_sample(void **unused)
{
	struct ol_times *times = make(4, 1.0);

	(void)unused;
	assert_true(isnan(expect(times, 4, 4)) != 0);
	step(times, 1, 4, 4);
	step(times, 2, 4, 4);
	fit(times, 3);
	for (uint32_t k = 1; k <= 4; k++) {
		assert_near(expect(times, 4, k), k, 1e-9);
		assert_true(ol_times_seen(times, 4, ol_times_level(times, k)));
		assert_false(ol_times_seen(times, 3, ol_times_level(times, k)));
	}
	ol_times_destroy(times);
}

static void late_gradients_are_samples_of_the_step_they_missed(void **unused)
{
	struct ol_times *times = make(3, 1.0);

	(void)unused;
	ol_times_on_update(times, 1, 0, 2);
	ol_times_on_gradient(times, 0, 1, 1, SECOND);
	ol_times_on_update(times, 2, SECOND, 1);
	ol_times_on_gradient(times, 1, 1, 1, 3 * (uint64_t)SECOND); /* two steps late */
	ol_times_on_update(times, 3, 4 * (uint64_t)SECOND, 1);
	ol_times_on_gradient(times, 2, 1, 1, 7 * (uint64_t)SECOND);
	ol_times_on_gradient(times, 2, 1, 1, 9 * (uint64_t)SECOND); /* the same one's second */
	ol_times_on_update(times, 4, 10 * (uint64_t)SECOND, 1);
	assert_near(expect(times, 2, 1), 1.0, 1e-9);
	assert_near(expect(times, 2, 2), 3.0, 1e-9);
	assert_near(expect(times, 2, 3), 7.0, 1e-9);
	ol_times_destroy(times);
}

static void rows_keep_their_order_and_fill_their_gaps(void **unused)
{
	struct ol_times *times = make(4, 1.0);

	(void)unused;
	ol_times_on_update(times, 1, 0, 4);
	ol_times_on_gradient(times, 0, 1, 1, 1 * (uint64_t)SECOND);
	ol_times_on_gradient(times, 1, 1, 1, 2 * (uint64_t)SECOND);
	ol_times_on_update(times, 2, 10 * (uint64_t)SECOND, 1);
	ol_times_on_gradient(times, 0, 2, 2, 15 * (uint64_t)SECOND);
	ol_times_on_gradient(times, 1, 2, 2, 17 * (uint64_t)SECOND);
	fit(times, 3);
	assert_near(expect(times, 4, 2), 2.0, 1e-9);
	assert_near(expect(times, 1, 1), 5.0, 1e-9);
	assert_near(expect(times, 2, 1), 3.0, 1e-9); /* never seen: between 1 and 5 */
	for (uint32_t h = 1; h <= 4; h++) {
		for (uint32_t k = 1; k <= 4; k++) {
			if (k > 1)
				assert_true(expect(times, h, k) >= expect(times, h, k - 1));
			if (h > 1)
				assert_true(expect(times, h, k) <= expect(times, h - 1, k));
		}
	}
	ol_times_destroy(times);
}

static void old_samples_fade(void **unused)
{
	struct ol_times *keeps = make(1, 1.0), *fades = make(1, 0.9);

	(void)unused;
	for (uint64_t version = 1; version <= 100; version++) {
		uint64_t seconds = version <= 50 ? 1 : 5;

		ol_times_on_update(keeps, version, version * 10 * SECOND, 1);
		ol_times_on_update(fades, version, version * 10 * SECOND, 1);
		ol_times_on_gradient(keeps, 0, version, version, (version * 10 + seconds) * SECOND);
		ol_times_on_gradient(fades, 0, version, version, (version * 10 + seconds) * SECOND);
	}
	fit(keeps, 101);
	fit(fades, 101);
	assert_near(expect(keeps, 1, 1), 3.0, 1e-9);
	assert_near(expect(fades, 1, 1), 5.0, 0.05);
	ol_times_destroy(keeps);
	ol_times_destroy(fades);
}

static void a_step_takes_some_time(void **unused)
{
	struct ol_times *times = make(1, 1.0);

	(void)unused;
	ol_times_on_update(times, 1, SECOND, 1);
	ol_times_on_gradient(times, 0, 1, 1, SECOND);
	fit(times, 2);
	assert_true(expect(times, 1, 1) > 0.0);
	ol_times_destroy(times);
}

static void strange_versions_and_times_are_no_samples(void **unused)
{
	struct ol_times *times = make(2, 1.0);

	(void)unused;
	ol_times_on_gradient(times, 0, 0, 0, SECOND); /* nothing is known of any step */
	ol_times_on_update(times, 5, 5 * (uint64_t)SECOND, 2);
	ol_times_on_gradient(times, 0, 4, 4, 6 * (uint64_t)SECOND);
	ol_times_on_gradient(times, 0, UINT64_MAX, UINT64_MAX, 6 * (uint64_t)SECOND);
	ol_times_on_gradient(times, 0, 5 + 1024, 5 + 1024, 6 * (uint64_t)SECOND);
	ol_times_on_gradient(times, 0, 5, 5, SECOND); /* before it began */
	ol_times_on_update(times, 6, 6 * (uint64_t)SECOND, 0); /* a step that was dropped */
	ol_times_on_gradient(times, 0, 6, 6, 7 * (uint64_t)SECOND);
	ol_times_on_update(times, 3, 7 * (uint64_t)SECOND, 2); /* restored */
	ol_times_on_gradient(times, 0, 5, 5, 8 * (uint64_t)SECOND);
	fit(times, 4);
	assert_true(isnan(expect(times, 2, 1)) != 0);
	ol_times_on_gradient(times, 0, 3, 3, 9 * (uint64_t)SECOND);
	fit(times, 5);
	assert_near(expect(times, 2, 1), 2.0, 1e-9);
	ol_times_destroy(times);
}

static void levels_are_dense_below_and_few(void **unused)
{
	static const uint32_t all[] = { 1, 2, 15, 16, 17, 18, 64, 256, 1000 };

	(void)unused;
	for (uint32_t at = 0; at < 9; at++) {
		uint32_t workers = all[at];
		struct ol_times *times = make(workers, 1.0);
		uint32_t levels = ol_times_levels(times);

		assert_int_equal(ol_times_k(times, 0), 1);
		assert_int_equal(ol_times_k(times, levels - 1), workers);
		assert_true(levels <= 16 || levels < 16.0 + 10.0 * log(workers / 16.0) + 2.0);
		for (uint32_t k = 1; k <= workers; k++) {
			uint32_t below = ol_times_k(times, ol_times_level(times, k));

			assert_true(below <= k);
			assert_true(k <= 16 ? below == k : below * 9 >= k * 8);
		}
		assert_int_equal(ol_times_level(times, 0), 0);
		assert_int_equal(ol_times_level(times, workers + 1), levels - 1);
		ol_times_destroy(times);
	}
}

static void what_is_carried_is_a_sample_of_every_step_that_it_could_be_of(void **unused)
{
	struct ol_times *times;

	(void)unused;
	carries = true;
	times = make(3, 1.0);
	carries = false;
	ol_times_on_update(times, 1, 0, 1);
	ol_times_on_gradient(times, 0, 1, 1, SECOND);
	ol_times_on_update(times, 2, SECOND, 2);
	ol_times_on_gradient(times, 1, 1, 2, 4 * (uint64_t)SECOND);
	ol_times_on_update(times, 3, 4 * (uint64_t)SECOND, 3);
	ol_times_on_gradient(times, 2, 1, 3, 10 * (uint64_t)SECOND);
	ol_times_on_gradient(times, 2, 3, 3, 11 * (uint64_t)SECOND); /* it has given one */
	ol_times_on_update(times, 4, 12 * (uint64_t)SECOND, 3);
	assert_near(expect(times, 1, 1), 1.0, 1e-9);
	assert_near(expect(times, 1, 2), 4.0, 1e-9);
	assert_near(expect(times, 1, 3), 10.0, 1e-9);
	assert_near(expect(times, 2, 1), 3.0, 1e-9);
	assert_near(expect(times, 2, 2), 9.5, 0.6); /* 9, and no less than after one */
	assert_near(expect(times, 3, 1), 6.0, 1e-9);
	assert_false(ol_times_seen(times, 3, ol_times_level(times, 2)));
	ol_times_destroy(times);
}

static void what_has_waited_for_its_step_takes_no_time(void **unused)
{
	struct ol_times *times;

	(void)unused;
	carries = true;
	times = make(2, 1.0);
	carries = false;
	ol_times_on_update(times, 5, 0, 2);
	ol_times_on_gradient(times, 0, 5, 5, SECOND);
	ol_times_on_update(times, 6, 3 * (uint64_t)SECOND, 2);
	ol_times_on_gradient(times, 0, 5, 6, 2 * (uint64_t)SECOND); /* its second */
	/* far older than what is remembered */
	ol_times_on_gradient(times, 1, 5, 5 + ((uint64_t)1 << 40), 9 * (uint64_t)SECOND);
	ol_times_on_update(times, 7, 9 * (uint64_t)SECOND, 2);
	assert_near(expect(times, 2, 1), 0.5, 1e-3);
	assert_false(ol_times_seen(times, 2, ol_times_level(times, 2)));
	ol_times_destroy(times);
}

/* The more begin anew, the longer: without carrying it is the other way round */
static void carried_ones_turn_the_order_of_rows(void **unused)
{
	(void)unused;
	for (int i = 0; i < 2; i++) {
		struct ol_times *times;

		carries = i == 0;
		times = make(4, 1.0);
		ol_times_on_update(times, 1, 0, 1);
		ol_times_on_gradient(times, 0, 1, 1, SECOND);
		ol_times_on_update(times, 2, SECOND, 4);
		ol_times_on_gradient(times, 0, 2, 2, 3 * (uint64_t)SECOND);
		fit(times, 3);
		for (unsigned round = 0; round < 200; round++) /* a sweep each */
			fit(times, 4 + round);
		assert_near(expect(times, 1, 1), carries ? 1.0 : 1.5, 0.01);
		assert_near(expect(times, 4, 1), carries ? 2.0 : 1.5, 0.01);
		ol_times_destroy(times);
	}
	carries = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_gradient_that_lands_is_a_sample),
		cmocka_unit_test(late_gradients_are_samples_of_the_step_they_missed),
		cmocka_unit_test(rows_keep_their_order_and_fill_their_gaps),
		cmocka_unit_test(old_samples_fade),
		cmocka_unit_test(a_step_takes_some_time),
		cmocka_unit_test(strange_versions_and_times_are_no_samples),
		cmocka_unit_test(levels_are_dense_below_and_few),
		cmocka_unit_test(what_is_carried_is_a_sample_of_every_step_that_it_could_be_of),
		cmocka_unit_test(what_has_waited_for_its_step_takes_no_time),
		cmocka_unit_test(carried_ones_turn_the_order_of_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
