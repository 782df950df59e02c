/* SPDX-License-Identifier: BSD-3-Clause */

/* size_test.c -- sizes are parsed as written, and a word that is no size is refused by name */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/size.h"

static void check_list(const char *text, unsigned count, const uint64_t *bytes)
{
	struct bench_sizes sizes = { 0 };
	char err[128] = "";

	assert_int_equal(bench_sizes_parse(text, &sizes, err, sizeof(err)), 0);
	assert_string_equal(err, "");
	assert_int_equal(sizes.count, count);
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(sizes.bytes[i], bytes[i]);
}

static void units_are_powers_of_1024(void **state)
{
	(void)state;
	check_list("64", 1, (const uint64_t[]){ 64 });
	check_list("64B", 1, (const uint64_t[]){ 64 });
	check_list("4K", 1, (const uint64_t[]){ 4096 });
	check_list("4k", 1, (const uint64_t[]){ 4096 });
	check_list("4KiB", 1, (const uint64_t[]){ 4096 });
	check_list("1MiB", 1, (const uint64_t[]){ 1 << 20 });
	check_list("2G", 1, (const uint64_t[]){ (uint64_t)2 << 30 });
	check_list("16G", 1, (const uint64_t[]){ BENCH_SIZE_MAX });
}

static void lists_keep_their_order_and_ranges_double(void **state)
{
	(void)state;
	check_list("64,4K,1M", 3, (const uint64_t[]){ 64, 4096, 1 << 20 });
	check_list("8..64", 4, (const uint64_t[]){ 8, 16, 32, 64 });
	check_list("12..52", 3, (const uint64_t[]){ 12, 24, 48 });
	check_list("64..64,8", 2, (const uint64_t[]){ 64, 8 });
}

static void all_is_24_sizes(void **state)
{
	struct bench_sizes sizes;
	char err[128];

	(void)state;
	assert_int_equal(bench_sizes_parse("8..64M", &sizes, err, sizeof(err)), 0);
	assert_int_equal(sizes.count, 24);
	assert_int_equal(sizes.bytes[0], 8);
	assert_int_equal(sizes.bytes[23], 64 << 20);
}

static void what_is_no_size_is_refused(void **state)
{
	static const char *const bad[] = { "",
					   ",",
					   "64,",
					   "x",
					   "-8",
					   "0",
					   "2",
					   "6",
					   "4T",
					   "4Ki",
					   "4KB",
					   "4 K",
					   "17G",
					   "64..8",
					   "..8",
					   "8..",
					   "8...16",
					   "1e3",
					   "99999999999999999999",
					   "64,6",
					   "0x40",
					   "8.5" };
	struct bench_sizes sizes = { .count = 77 };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char err[128] = "";

		if (bench_sizes_parse(bad[i], &sizes, err, sizeof(err)) != -EINVAL)
			fail_msg("\"%s\" was taken for a size", bad[i]);
		assert_non_null(strstr(err, "size \""));
		assert_int_equal(sizes.count, 77); /* outputs on success only */
	}
}

static void an_error_names_the_word(void **state)
{
	struct bench_sizes sizes;
	char err[128];

	(void)state;
	assert_int_equal(bench_sizes_parse("64,4T,8", &sizes, err, sizeof(err)), -EINVAL);
	assert_string_equal(err,
			    "size \"4T\": not a size like 64, 4K or 1MiB: a multiple of 4 bytes, "
			    "at most 16 GiB");
}

static void more_sizes_than_fit_are_refused(void **state)
{
	struct bench_sizes sizes;
	char err[128], text[BENCH_SIZES_MAX * 2 + 3] = "4";

	(void)state;
	for (unsigned i = 1; i < BENCH_SIZES_MAX; i++)
		memcpy(text + strlen(text), ",4", 3);
	assert_int_equal(bench_sizes_parse(text, &sizes, err, sizeof(err)), 0);
	assert_int_equal(sizes.count, BENCH_SIZES_MAX);
	memcpy(text + strlen(text), ",4", 3);
	assert_int_equal(bench_sizes_parse(text, &sizes, err, sizeof(err)), -EINVAL);
	assert_string_equal(err, "more than 64 sizes");
}

static void check_format(uint64_t bytes, const char *want)
{
	char text[BENCH_SIZE_TEXT_MAX];

	bench_size_format(bytes, text);
	assert_string_equal(text, want);
}

static void sizes_print_in_the_largest_unit(void **state)
{
	(void)state;
	check_format(0, "0 B");
	check_format(64, "64 B");
	check_format(1023, "1023 B");
	check_format(1024, "1 KiB");
	check_format(1536, "1.50 KiB");
	check_format(64 << 20, "64 MiB");
	check_format((uint64_t)3 << 30, "3 GiB");
	check_format(UINT64_MAX, "17179869184.00 GiB");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(units_are_powers_of_1024),
		cmocka_unit_test(lists_keep_their_order_and_ranges_double),
		cmocka_unit_test(all_is_24_sizes),
		cmocka_unit_test(what_is_no_size_is_refused),
		cmocka_unit_test(an_error_names_the_word),
		cmocka_unit_test(more_sizes_than_fit_are_refused),
		cmocka_unit_test(sizes_print_in_the_largest_unit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
