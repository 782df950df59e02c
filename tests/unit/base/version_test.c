/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * version_test.c -- the library, its header and the build have the same version
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "outlast.h"

static void the_library_says_what_its_header_says(void **state)
{
	uint32_t number = 0;
	char text[32];

	(void)state;
	assert_string_equal(ol_version(&number), OL_VERSION_STRING);
	assert_int_equal(number, OL_VERSION_NUMBER);
	assert_ptr_equal(ol_version(NULL), ol_version(NULL));
	snprintf(text, sizeof(text), "%u.%u.%u", number / 1000000, number / 1000 % 1000,
		 number % 1000);
	assert_string_equal(text, OL_VERSION_STRING);
}

static void the_installed_package_says_it_too(void **state)
{
	char path[4096], line[256], want[64], found[256] = "";
	FILE *file;

	(void)state;
	if (getenv("OUTLAST_BUILD") == NULL)
		skip();
	snprintf(path, sizeof(path), "%s/outlast.pc", getenv("OUTLAST_BUILD"));
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file) != NULL) {
		if (strncmp(line, "Version:", strlen("Version:")) == 0)
			memcpy(found, line, sizeof(found));
	}
	fclose(file);
	snprintf(want, sizeof(want), "Version: %s\n", OL_VERSION_STRING);
	assert_string_equal(found, want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_library_says_what_its_header_says),
		cmocka_unit_test(the_installed_package_says_it_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
