/* SPDX-License-Identifier: BSD-3-Clause */

/* key_test.c -- a key of fewer than 128 bits is refused; a secret leaves the environment for good */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/key.h"

/* count times c, refused or not */
static const char *fault_of(char c, size_t count)
{
	char key[2 * OL_JOB_KEY_MAX];

	memset(key, c, count);
	key[count] = '\0';
	return ol_key_fault(key);
}

static void no_key_is_no_fault(void **unused)
{
	(void)unused;
	assert_null(ol_key_fault(NULL));
	assert_null(ol_key_fault(""));
}

static void a_key_of_fewer_than_128_bits_is_refused(void **unused)
{
	static const struct {
		char c;
		size_t bytes; /* the fewest that are enough */
	} kinds[] = { { '7', 32 }, { 'e', 32 }, { 'F', 32 }, { 'g', 22 }, { 'Z', 22 },
		      { '/', 22 }, { '_', 22 }, { ' ', 16 }, { '!', 16 }, { '\xe9', 16 } };

	(void)unused;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		for (size_t bytes = 1; bytes < kinds[i].bytes; bytes++)
			assert_non_null(strstr(fault_of(kinds[i].c, bytes), "128 bits"));
		for (size_t bytes = kinds[i].bytes; bytes < OL_JOB_KEY_MAX; bytes++)
			assert_null(fault_of(kinds[i].c, bytes));
		assert_non_null(strstr(fault_of(kinds[i].c, OL_JOB_KEY_MAX), "longer than 255"));
	}
}

static void one_character_of_another_kind_makes_the_whole_key_that_kind(void **unused)
{
	(void)unused;
	assert_non_null(ol_key_fault("0123456789abcdef012345"));
	assert_null(ol_key_fault("0123456789abcdefg12345"));
	assert_non_null(ol_key_fault("0123456789abcdeg"));
	assert_null(ol_key_fault("0123456789abcde!"));
}

static void a_wiped_variable_is_gone_and_its_bytes_are_zero(void **unused)
{
	char *value;

	(void)unused;
	assert_int_equal(setenv("OL_KEY_TEST", "secret", 1), 0);
	value = getenv("OL_KEY_TEST");
	ol_key_env_wipe("OL_KEY_TEST");
	assert_null(getenv("OL_KEY_TEST"));
	assert_memory_equal(value, "\0\0\0\0\0\0", 6); /* the C library keeps the string */
	ol_key_env_wipe("OL_KEY_TEST");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_key_is_no_fault),
		cmocka_unit_test(a_key_of_fewer_than_128_bits_is_refused),
		cmocka_unit_test(one_character_of_another_kind_makes_the_whole_key_that_kind),
		cmocka_unit_test(a_wiped_variable_is_gone_and_its_bytes_are_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
