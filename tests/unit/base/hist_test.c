/* SPDX-License-Identifier: BSD-3-Clause */

/* hist_test.c -- each time has its bucket, and a quantile is in the right one */
#include "base/hist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000000)

static void a_bucket_begins_where_the_one_before_ends(void **state)
{
	uint64_t low = 0;

	(void)state;
	for (unsigned i = 0; i < OL_LATENCY_BUCKETS; i++) {
		const uint64_t bound = ol_hist_bound(i);
		const uint64_t last = bound != UINT64_MAX ? bound - 1 : INT64_MAX;

		assert_true(bound > low);
		assert_int_equal(ol_hist_bucket(low), i);
		assert_int_equal(ol_hist_bucket(last), i);
		low = bound;
	}
	assert_int_equal(ol_hist_bucket(INT64_MAX), OL_LATENCY_BUCKETS - 1);
	assert_int_equal(ol_hist_bound(OL_LATENCY_BUCKETS - 1), UINT64_MAX);
}

static void buckets_span_from_a_microsecond_to_a_minute(void **state)
{
	(void)state;
	assert_int_equal(ol_hist_bound(0), 1024);
	assert_int_equal(ol_hist_bound(1), 1280);
	assert_int_equal(ol_hist_bound(4), 2048);
	assert_int_equal(ol_hist_bound(5), 2560);
	assert_true(ol_hist_bound(OL_LATENCY_BUCKETS - 2) > 60 * SECOND);
	assert_int_equal(ol_hist_bucket(999), 0);
	assert_int_equal(ol_hist_bucket(100 * SECOND), OL_LATENCY_BUCKETS - 1);
}

static void no_bucket_is_wider_than_a_quarter_of_its_beginning(void **state)
{
	(void)state;
	for (unsigned i = 1; i < OL_LATENCY_BUCKETS - 1; i++) {
		const uint64_t low = ol_hist_bound(i - 1);

		assert_true(ol_hist_bound(i) - low <= low / 4);
	}
}

static void count_and_sum_are_those_of_the_times(void **state)
{
	struct ol_latency hist = { 0 };
	uint64_t sum = 0;

	(void)state;
	assert_int_equal(ol_hist_count(&hist), 0);
	for (uint64_t ns = 1; ns < 100 * SECOND; ns += ns / 7 + 1) {
		ol_hist_add(&hist, ns);
		sum += ns;
	}
	ol_hist_add(&hist, 0);
	assert_int_equal(hist.sum_ns, sum);
	assert_true(ol_hist_count(&hist) > 100);
	assert_true(hist.buckets[0] > 0);
	assert_true(hist.buckets[OL_LATENCY_BUCKETS - 1] > 0);
}

/* Of the times 1 … 1000 us, the q-th is known */
static void a_quantile_is_within_a_bucket_of_the_true_one(void **state)
{
	static const double qs[] = { 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0 };
	struct ol_latency hist = { 0 };

	(void)state;
	for (uint64_t us = 1; us <= 1000; us++)
		ol_hist_add(&hist, us * 1000);
	for (unsigned i = 0; i < sizeof(qs) / sizeof(qs[0]); i++) {
		const uint64_t want = (uint64_t)(qs[i] * 1000.0 + 0.5) * 1000;
		const uint64_t got = ol_hist_quantile(&hist, qs[i]);

		assert_int_equal(ol_hist_bucket(got), ol_hist_bucket(want));
	}
}

static void quantiles_of_few_times_and_of_none(void **state)
{
	struct ol_latency hist = { 0 };

	(void)state;
	assert_int_equal(ol_hist_quantile(&hist, 0.5), 0);
	ol_hist_add(&hist, 5000);
	assert_int_equal(ol_hist_bucket(ol_hist_quantile(&hist, 0.0)), ol_hist_bucket(5000));
	assert_int_equal(ol_hist_bucket(ol_hist_quantile(&hist, 1.0)), ol_hist_bucket(5000));
	ol_hist_add(&hist, 1000 * SECOND);
	assert_int_equal(ol_hist_quantile(&hist, 1.0), ol_hist_bound(OL_LATENCY_BUCKETS - 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bucket_begins_where_the_one_before_ends),
		cmocka_unit_test(buckets_span_from_a_microsecond_to_a_minute),
		cmocka_unit_test(no_bucket_is_wider_than_a_quarter_of_its_beginning),
		cmocka_unit_test(count_and_sum_are_those_of_the_times),
		cmocka_unit_test(a_quantile_is_within_a_bucket_of_the_true_one),
		cmocka_unit_test(quantiles_of_few_times_and_of_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
