/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * hist_test.c -- a quantile is within 1/128 of the exact one, whatever the distribution
 */
#include "base/hist.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
	SAMPLES = 20011
};

static struct ol_hist hist, half, whole;
static uint64_t values[SAMPLES];

/* splitmix64: the same numbers on every machine */
static uint64_t next_random(uint64_t *seed)
{
	uint64_t z = (*seed += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void assert_near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-9 * fabs(want) + 1e-12))
		fail_msg("got %.17g, want %.17g", got, want);
}

/* Compares hist, which holds values[], with values[] sorted. */
static void check_against_exact(void)
{
	static const double qs[] = { 0.0, 1e-6, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0 };
	double mean = 0.0, squares = 0.0;

	qsort(values, SAMPLES, sizeof(values[0]), by_value);
	for (size_t i = 0; i < sizeof(qs) / sizeof(qs[0]); i++) {
		double rank = ceil(qs[i] * SAMPLES);
		uint64_t exact = values[rank < 1.0 ? 0 : (size_t)rank - 1];
		uint64_t got = ol_hist_quantile(&hist, qs[i]);

		assert_true(got >= exact);
		assert_true(got - exact <= exact / 128);
	}
	for (size_t i = 0; i < SAMPLES; i++)
		mean += (double)values[i] / SAMPLES;
	for (size_t i = 0; i < SAMPLES; i++)
		squares += ((double)values[i] - mean) * ((double)values[i] - mean);
	assert_int_equal(hist.count, SAMPLES);
	assert_true(ol_hist_min(&hist) == values[0]);
	assert_true(ol_hist_max(&hist) == values[SAMPLES - 1]);
	assert_near(ol_hist_mean(&hist), mean);
	assert_near(ol_hist_stddev(&hist), sqrt(squares / (SAMPLES - 1)));
}

static void every_value_lies_in_a_bucket_no_wider_than_stated(void **state)
{
	uint64_t seed = 1, bottom = 0;

	(void)state;
	for (unsigned i = 0; i < OL_HIST_BUCKET_COUNT; i++) { /* no gap, no overlap */
		uint64_t top = ol_hist_bucket_top(i);

		assert_int_equal(ol_hist_bucket_index(bottom), i);
		assert_int_equal(ol_hist_bucket_index(top), i);
		assert_true(top - bottom <= bottom / OL_HIST_SUB_COUNT);
		bottom = top + 1;
	}
	assert_true(bottom == 0); /* wrapped: the last bucket ends at UINT64_MAX */
	for (int i = 0; i < SAMPLES; i++) {
		uint64_t value = next_random(&seed) >> (next_random(&seed) & 63);

		assert_true(ol_hist_bucket_top(ol_hist_bucket_index(value)) >= value);
	}
}

static void an_empty_histogram_answers_zero(void **state)
{
	(void)state;
	ol_hist_init(&hist);
	assert_true(ol_hist_quantile(&hist, 0.5) == 0);
	assert_true(ol_hist_min(&hist) == 0);
	assert_true(ol_hist_max(&hist) == 0);
	assert_true(ol_hist_mean(&hist) == 0.0);
	assert_true(ol_hist_stddev(&hist) == 0.0);
}

static void one_value_is_every_quantile(void **state)
{
	(void)state;
	ol_hist_init(&hist);
	ol_hist_record(&hist, 1234567);
	assert_true(ol_hist_quantile(&hist, 0.0) == 1234567);
	assert_true(ol_hist_quantile(&hist, 0.5) == 1234567);
	assert_true(ol_hist_quantile(&hist, 1.0) == 1234567);
	assert_true(ol_hist_stddev(&hist) == 0.0);
}

static void small_values_are_exact(void **state)
{
	(void)state;
	ol_hist_init(&hist);
	for (uint64_t i = 1; i <= 100; i++)
		ol_hist_record(&hist, i);
	assert_true(ol_hist_quantile(&hist, 0.5) == 50);
	assert_true(ol_hist_quantile(&hist, 0.99) == 99);
	assert_true(ol_hist_quantile(&hist, -1.0) == 1);
	assert_true(ol_hist_quantile(&hist, 2.0) == 100);
	assert_true(ol_hist_quantile(&hist, (double)NAN) == 1);
}

static void quantiles_of_uniform_times_are_near_the_exact_ones(void **state)
{
	uint64_t seed = 2;

	(void)state;
	ol_hist_init(&hist);
	for (int i = 0; i < SAMPLES; i++) {
		values[i] = next_random(&seed) % 1000000;
		ol_hist_record(&hist, values[i]);
	}
	check_against_exact();
}

static void quantiles_over_all_magnitudes_are_near_the_exact_ones(void **state)
{
	uint64_t seed = 3;

	(void)state;
	ol_hist_init(&hist);
	for (int i = 0; i < SAMPLES; i++) {
		values[i] = next_random(&seed) >> (next_random(&seed) & 63);
		ol_hist_record(&hist, values[i]);
	}
	check_against_exact();
}

static void the_deviation_of_large_near_equal_times_is_not_lost(void **state)
{
	uint64_t seed = 4;

	(void)state;
	ol_hist_init(&hist);
	for (int i = 0; i < SAMPLES; i++) {
		values[i] = UINT64_C(1000000000000) + next_random(&seed) % 100;
		ol_hist_record(&hist, values[i]);
	}
	assert_true(ol_hist_stddev(&hist) > 28.0 && ol_hist_stddev(&hist) < 30.0);
}

static void merging_is_the_same_as_recording_all(void **state)
{
	uint64_t seed = 5;

	(void)state;
	ol_hist_init(&hist);
	ol_hist_init(&half);
	ol_hist_init(&whole);
	for (int i = 0; i < SAMPLES; i++) {
		uint64_t value = next_random(&seed) >> (next_random(&seed) % 60);

		ol_hist_record(&whole, value);
		ol_hist_record(i % 3 == 0 ? &half : &hist, value);
	}
	ol_hist_merge(&hist, &half);
	assert_true(hist.count == whole.count);
	assert_true(hist.min == whole.min);
	assert_true(hist.max == whole.max);
	assert_near(ol_hist_mean(&hist), ol_hist_mean(&whole));
	assert_near(ol_hist_stddev(&hist), ol_hist_stddev(&whole));
	assert_memory_equal(hist.buckets, whole.buckets, sizeof(hist.buckets));
}

static void merging_with_an_empty_one_changes_nothing(void **state)
{
	(void)state;
	ol_hist_init(&hist);
	ol_hist_init(&half);
	ol_hist_record(&hist, 40);
	ol_hist_record(&hist, 60);
	ol_hist_merge(&hist, &half);
	assert_true(hist.count == 2 && ol_hist_mean(&hist) == 50.0 && ol_hist_min(&hist) == 40);
	ol_hist_merge(&half, &hist);
	assert_true(half.count == 2 && ol_hist_mean(&half) == 50.0 && ol_hist_max(&half) == 60);
	ol_hist_init(&half);
	ol_hist_init(&hist);
	ol_hist_merge(&hist, &half);
	assert_true(ol_hist_mean(&hist) == 0.0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_value_lies_in_a_bucket_no_wider_than_stated),
		cmocka_unit_test(an_empty_histogram_answers_zero),
		cmocka_unit_test(one_value_is_every_quantile),
		cmocka_unit_test(small_values_are_exact),
		cmocka_unit_test(quantiles_of_uniform_times_are_near_the_exact_ones),
		cmocka_unit_test(quantiles_over_all_magnitudes_are_near_the_exact_ones),
		cmocka_unit_test(the_deviation_of_large_near_equal_times_is_not_lost),
		cmocka_unit_test(merging_is_the_same_as_recording_all),
		cmocka_unit_test(merging_with_an_empty_one_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
