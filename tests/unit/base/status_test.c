/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * status_test.c -- every code has a text of its own, and an unknown code does not crash
 */
#include "base/status.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "outlast.h"

static void success_is_not_an_error(void **state)
{
	(void)state;
	assert_string_equal(ol_status_str(0), "success");
	assert_string_equal(ol_status_str(17), "success");
}

static void errno_codes_have_the_c_librarys_text(void **state)
{
	(void)state;
	assert_string_equal(ol_status_str(-ENOENT), strerror(ENOENT));
	assert_string_equal(ol_status_str(-ETIMEDOUT), strerror(ETIMEDOUT));
}

static void own_codes_have_the_text_of_the_map(void **state)
{
	(void)state;
#define X(name, value, text) assert_string_equal(ol_status_str(OL_E_##name), text);
	OL_STATUS_MAP(X)
#undef X
}

static void own_codes_and_texts_are_distinct(void **state)
{
	static const int codes[] = {
#define X(name, value, text) value,
		OL_STATUS_MAP(X)
#undef X
	};
	size_t count = sizeof(codes) / sizeof(codes[0]);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		for (size_t j = 0; j < i; j++) {
			assert_int_not_equal(codes[i], codes[j]);
			assert_string_not_equal(ol_status_str(codes[i]), ol_status_str(codes[j]));
		}
	}
}

static void what_is_no_code_says_so(void **state)
{
	(void)state;
	assert_string_equal(ol_status_str(-999), "unknown status code");
	assert_string_equal(ol_status_str(-1999), "unknown status code");
	assert_string_equal(ol_status_str(INT_MIN), "unknown status code");
}

/* What ol_status_text() says of code where this process has `limit` of `resource` */
static void text_under(__rlimit_resource_t resource, rlim_t limit, int code,
		       char text[OL_STATUS_TEXT_MAX])
{
	struct rlimit before, now;

	assert_int_equal(getrlimit(resource, &before), 0);
	now = (struct rlimit){ .rlim_cur = limit, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(resource, &now), 0);
	assert_ptr_equal(ol_status_text(code, text), text);
	assert_int_equal(setrlimit(resource, &before), 0);
}

static void a_lack_of_something_names_the_limit(void **state)
{
	char text[OL_STATUS_TEXT_MAX];

	(void)state;
	text_under(RLIMIT_NOFILE, 64, -EMFILE, text);
	assert_string_equal(text, "Too many open files (this process may open 64: ulimit -n)");
	text_under(RLIMIT_FSIZE, 1024000, -EFBIG, text);
	assert_string_equal(text, "File too large (this process may make files of 1.024 MB, and "
				  "shared memory counts as one: ulimit -f)");
	text_under(RLIMIT_FSIZE, 1024000, -EMFILE - 1, text);
	assert_string_equal(text, ol_status_str(-EMFILE - 1));
	assert_string_equal(ol_status_text(OL_E_FULL, text), ol_status_str(OL_E_FULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(success_is_not_an_error),
		cmocka_unit_test(errno_codes_have_the_c_librarys_text),
		cmocka_unit_test(own_codes_have_the_text_of_the_map),
		cmocka_unit_test(own_codes_and_texts_are_distinct),
		cmocka_unit_test(what_is_no_code_says_so),
		cmocka_unit_test(a_lack_of_something_names_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
