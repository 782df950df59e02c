/* SPDX-License-Identifier: BSD-3-Clause */

/* rails_test.c -- a list of devices gives its names, or is refused whole */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rails.h"

static void a_list_gives_its_names(void **unused)
{
	struct ol_rails rails;

	(void)unused;
	assert_int_equal(ol_rails_parse(NULL, &rails), 0);
	assert_int_equal(rails.count, 0);
	assert_int_equal(ol_rails_parse("mlx5_0", &rails), 0);
	assert_int_equal(rails.count, 1);
	assert_string_equal(rails.names[0], "mlx5_0");
	assert_int_equal(ol_rails_parse("mlx5_1,mlx5_0", &rails), 0);
	assert_int_equal(rails.count, 2);
	assert_string_equal(rails.names[0], "mlx5_1");
	assert_string_equal(rails.names[1], "mlx5_0");
	assert_int_equal(ol_rails_parse("a,b,c,d,e,f,g,h", &rails), 0);
	assert_int_equal(rails.count, OL_RAILS_MAX);
}

static void a_wrong_list_is_refused_whole(void **unused)
{
	static const char *const wrong[] = { "",      ",",    "a,",
					     ",a",    "a,,b", "a,a",
					     "a,b,a", "a, b", "a,b,c,d,e,f,g,h,i" };
	char longest[2 * OL_RAIL_NAME_MAX];
	struct ol_rails rails;

	(void)unused;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(ol_rails_parse(wrong[i], &rails), -EINVAL);
		assert_int_equal(rails.count, 0);
	}
	memset(longest, 'x', sizeof(longest));
	longest[OL_RAIL_NAME_MAX - 1] = '\0';
	assert_int_equal(ol_rails_parse(longest, &rails), 0);
	longest[OL_RAIL_NAME_MAX - 1] = 'x';
	longest[OL_RAIL_NAME_MAX] = '\0';
	assert_int_equal(ol_rails_parse(longest, &rails), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_gives_its_names),
		cmocka_unit_test(a_wrong_list_is_refused_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
