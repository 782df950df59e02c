/* SPDX-License-Identifier: BSD-3-Clause */

/* samples_test.c -- a run's statistics follow from its samples, in cases computed by hand */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/samples.h"

static void make(struct bench_samples *samples, size_t count, const uint64_t *ns)
{
	assert_int_equal(bench_samples_init(samples, count), 0);
	for (size_t i = 0; i < count; i++)
		bench_samples_add(samples, ns[i]);
	assert_true(bench_samples_full(samples));
}

static void nothing_gives_zeros(void **state)
{
	struct bench_samples samples;
	struct bench_summary summary;
	struct bench_rate rate;

	(void)state;
	assert_int_equal(bench_samples_init(&samples, 4), 0);
	assert_false(bench_samples_full(&samples));
	bench_summary_make(&samples, &summary);
	bench_rate_make(&samples, 1, &rate);
	assert_int_equal(summary.count, 0);
	assert_int_equal(summary.max, 0);
	assert_true(summary.avg == 0.0 && rate.avg_per_s == 0.0 && rate.peak_per_s == 0.0);
	bench_samples_fini(&samples);
}

static void one_sample_is_every_quantile(void **state)
{
	struct bench_samples samples;
	struct bench_summary s;

	(void)state;
	make(&samples, 1, (const uint64_t[]){ 42 });
	bench_summary_make(&samples, &s);
	assert_int_equal(s.min, 42);
	assert_int_equal(s.p50, 42);
	assert_int_equal(s.p999, 42);
	assert_int_equal(s.max, 42);
	assert_true(s.avg == 42.0 && s.stdev == 0.0);
	bench_samples_fini(&samples);
}

static void a_known_set_gives_its_figures(void **state)
{
	struct bench_samples samples;
	struct bench_summary s;

	(void)state;
	make(&samples, 8, (const uint64_t[]){ 9, 4, 2, 4, 5, 7, 4, 5 });
	bench_summary_make(&samples, &s);
	assert_int_equal(s.count, 8);
	assert_int_equal(s.min, 2);
	assert_int_equal(s.p50, 4); /* nearest rank: the 4th of 2 4 4 4 5 5 7 9 */
	assert_int_equal(s.p99, 9);
	assert_int_equal(s.max, 9);
	assert_true(s.avg == 5.0);
	assert_true(fabs(s.stdev - sqrt(32.0 / 7.0)) < 1e-12);
	bench_samples_fini(&samples);
}

static void ranks_of_a_thousand_are_exact(void **state)
{
	struct bench_samples samples;
	struct bench_summary s;

	(void)state;
	assert_int_equal(bench_samples_init(&samples, 1000), 0);
	for (uint64_t i = 1000; i > 0; i--)
		bench_samples_add(&samples, i);
	bench_summary_make(&samples, &s);
	assert_int_equal(s.p50, 500);
	assert_int_equal(s.p99, 990);
	assert_int_equal(s.p999, 999);
	assert_int_equal(s.max, 1000);
	bench_samples_fini(&samples);
}

static void quantiles_end_at_minimum_and_maximum(void **state)
{
	const uint64_t sorted[] = { 1, 2, 3, 4 };

	(void)state;
	assert_int_equal(bench_quantile(sorted, 4, 0.0), 1);
	assert_int_equal(bench_quantile(sorted, 4, 0.25), 1);
	assert_int_equal(bench_quantile(sorted, 4, 0.26), 2);
	assert_int_equal(bench_quantile(sorted, 4, 1.0), 4);
	assert_int_equal(bench_quantile(sorted, 0, 0.5), 0);
}

/* Completions at 100, 200, 250, 300, 350, 500: 6 in 500 ns; the best 3 lie in 150 ns */
static void a_peak_is_the_best_stretch(void **state)
{
	struct bench_samples samples;
	struct bench_rate rate;

	(void)state;
	make(&samples, 6, (const uint64_t[]){ 100, 200, 250, 300, 350, 500 });
	bench_rate_make(&samples, 3, &rate);
	assert_int_equal(rate.count, 6);
	assert_true(fabs(rate.avg_per_s - 6e9 / 500.0) < 1.0);
	assert_true(fabs(rate.peak_per_s - 3e9 / 150.0) < 1.0);
	bench_rate_make(&samples, 1000, &rate); /* longer than there is: all of it */
	assert_true(fabs(rate.peak_per_s - rate.avg_per_s) < 1.0);
	bench_samples_fini(&samples);
}

static void raw_keeps_the_order(void **state)
{
	struct bench_samples samples;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	(void)state;
	assert_non_null(out);
	make(&samples, 3, (const uint64_t[]){ 30, 10, 20 });
	assert_int_equal(bench_samples_write(&samples, out, "64 "), 0);
	fclose(out);
	assert_string_equal(text, "64 30\n64 10\n64 20\n");
	free(text);
	bench_samples_fini(&samples);
}

static void raw_says_that_the_disk_is_full(void **state)
{
	struct bench_samples samples;
	FILE *out = fopen("/dev/full", "we");

	(void)state;
	if (out == NULL)
		skip();
	setvbuf(out, NULL, _IONBF, 0);
	make(&samples, 1, (const uint64_t[]){ 1 });
	assert_true(bench_samples_write(&samples, out, "") < 0);
	fclose(out);
	bench_samples_fini(&samples);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_gives_zeros),
		cmocka_unit_test(one_sample_is_every_quantile),
		cmocka_unit_test(a_known_set_gives_its_figures),
		cmocka_unit_test(ranks_of_a_thousand_are_exact),
		cmocka_unit_test(quantiles_end_at_minimum_and_maximum),
		cmocka_unit_test(a_peak_is_the_best_stretch),
		cmocka_unit_test(raw_keeps_the_order),
		cmocka_unit_test(raw_says_that_the_disk_is_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
