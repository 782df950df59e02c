/* SPDX-License-Identifier: BSD-3-Clause */

/* drill_text_test.c -- lists mean what a person wrote, quantiles are nearest rank */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "outlast/drill_text.h"

static void lists_and_ranges_give_each_number_once(void **state)
{
	struct drill_numbers n;

	(void)state;
	assert_true(drill_numbers_parse("0,1,2", 16, &n));
	assert_int_equal(n.count, 3);
	assert_int_equal(n.value[2], 2);
	assert_true(drill_numbers_parse("3..6,1", 16, &n));
	assert_int_equal(n.count, 5);
	assert_int_equal(n.value[0], 3);
	assert_int_equal(n.value[3], 6);
	assert_int_equal(n.value[4], 1);
	assert_true(drill_numbers_parse("18446744073709551615", UINT64_MAX, &n));
	assert_true(n.value[0] == UINT64_MAX);
	assert_true(
		drill_numbers_parse("18446744073709551614..18446744073709551615", UINT64_MAX, &n));
	assert_int_equal(n.count, 2);
}

static void what_is_no_list_of_numbers_is_refused(void **state)
{
	static const char *const bad[] = { "",
					   ",",
					   "1,",
					   ",1",
					   "1,,2",
					   "x",
					   "1x",
					   "-1",
					   " 1",
					   "1 ",
					   "1,2,1",
					   "17",
					   "1..x",
					   "2..1",
					   "1...2",
					   "1..3,2",
					   "1..99999",
					   "0x2",
					   "..3",
					   "1.5",
					   "+1",
					   "1..2..3",
					   "99999999999999999999" };
	struct drill_numbers n = { .count = 77 };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (drill_numbers_parse(bad[i], 16, &n))
			fail_msg("\"%s\" is a list of %zu", bad[i], n.count);
	}
	assert_int_equal(n.count, 77);
}

static void a_list_is_never_longer_than_its_limit(void **state)
{
	struct drill_numbers n;

	(void)state;
	assert_true(drill_numbers_parse("1..64", UINT64_MAX, &n));
	assert_int_equal(n.count, DRILL_LIST_MAX);
	assert_false(drill_numbers_parse("1..65", UINT64_MAX, &n));
	assert_false(drill_numbers_parse("1..64,65", UINT64_MAX, &n));
}

static void words_come_one_by_one(void **state)
{
	const char *list = "a,bc,,d";
	char word[3];

	(void)state;
	assert_true(drill_item(&list, word, sizeof(word)));
	assert_string_equal(word, "a");
	assert_true(drill_item(&list, word, sizeof(word)));
	assert_string_equal(word, "bc");
	assert_true(drill_item(&list, word, sizeof(word)));
	assert_string_equal(word, "");
	assert_true(drill_item(&list, word, sizeof(word)));
	assert_string_equal(word, "d");
	assert_false(drill_item(&list, word, sizeof(word)));
}

static void quantiles_are_nearest_rank(void **state)
{
	double values[] = { 40.0, 15.0, 50.0, 20.0, 35.0 };

	(void)state;
	assert_true(fabs(drill_quantile(values, 5, 0.30) - 20.0) <= 1e-12);
	assert_true(fabs(drill_quantile(values, 5, 0.50) - 35.0) <= 1e-12);
	assert_true(fabs(drill_quantile(values, 5, 1.00) - 50.0) <= 1e-12);
	assert_true(fabs(drill_quantile(values, 5, 0.00) - 15.0) <= 1e-12);
	assert_true(isnan(drill_quantile(values, 0, 0.5)));
}

static void text_grows_whole(void **state)
{
	struct drill_text text = { 0 };

	(void)state;
	for (int i = 0; i < 5000; i++)
		drill_add(&text, "%d,", i % 10);
	assert_int_equal(text.len, 10000);
	assert_int_equal(strlen(text.bytes), 10000);
	assert_memory_equal(text.bytes + 9996, "8,9,", 5);
	assert_false(text.failed);
	drill_text_fini(&text);
	assert_null(text.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_and_ranges_give_each_number_once),
		cmocka_unit_test(what_is_no_list_of_numbers_is_refused),
		cmocka_unit_test(a_list_is_never_longer_than_its_limit),
		cmocka_unit_test(words_come_one_by_one),
		cmocka_unit_test(quantiles_are_nearest_rank),
		cmocka_unit_test(text_grows_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
