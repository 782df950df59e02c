/* SPDX-License-Identifier: BSD-3-Clause */

/* lines_test.c -- lines come out of a pipe whole, however they were written into it */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "launch/lines.h"

enum {
	LINE = 8
};

static struct launch_lines lines;
static int end;

static void begin(size_t max)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(launch_lines_init(&lines, fds[0], max), 0);
	end = fds[1];
}

static void said(const char *text)
{
	assert_int_equal(write(end, text, strlen(text)), (ssize_t)strlen(text));
	assert_true(launch_lines_read(&lines));
}

static void taken(const char *want)
{
	const char *line = launch_lines_take(&lines);

	if (want == NULL)
		assert_null(line);
	else
		assert_string_equal(line, want);
}

static void finish(void)
{
	close(end);
	assert_true(launch_lines_read(&lines));
	assert_int_equal(lines.fd, -1);
}

static void pieces_make_a_line(void **state)
{
	(void)state;
	begin(64);
	assert_false(launch_lines_read(&lines));
	said("ab");
	taken(NULL);
	said("c\nde\n\nf");
	taken("abc");
	taken("de");
	taken("");
	taken(NULL);
	finish();
	taken("f"); /* without an end of its own */
	taken(NULL);
	launch_lines_fini(&lines);
}

static void a_long_line_comes_in_pieces(void **state)
{
	(void)state;
	begin(LINE);
	said("0123456789");
	taken("01234567");
	taken(NULL);
	assert_true(launch_lines_read(&lines));
	taken(NULL);
	said("\nx\n");
	taken("89");
	taken("x");
	taken(NULL);
	finish();
	taken(NULL);
	launch_lines_fini(&lines);
}

static void a_progress_bar_has_lines(void **state)
{
	(void)state;
	begin(64);
	lines.breaks_at_cr = true;
	said("10 %\r20 %\rdone\n");
	taken("10 %");
	taken("20 %");
	taken("done");
	taken(NULL);
	finish();
	launch_lines_fini(&lines);
}

static void an_object_is_a_line(void **state)
{
	json_t *object;

	(void)state;
	begin(64);
	assert_int_equal(launch_say(end, json_pack("{s:s}", "a", "b\nc")), 0);
	assert_true(launch_lines_read(&lines));
	object = json_loads(launch_lines_take(&lines), 0, NULL);
	assert_string_equal(json_string_value(json_object_get(object, "a")), "b\nc");
	json_decref(object);
	taken(NULL);
	finish();
	launch_lines_fini(&lines);
}

static void any_bytes_are_text(void **state)
{
	char good[] = "gr\xc3\xbc\xc3\x9f", bad[] = "a\xff"
						    "b\xc3";
	json_t *text = launch_text(good);

	(void)state;
	assert_string_equal(json_string_value(text), "gr\xc3\xbc\xc3\x9f");
	json_decref(text);
	text = launch_text(bad);
	assert_string_equal(json_string_value(text), "a?b?");
	json_decref(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_make_a_line),
		cmocka_unit_test(a_long_line_comes_in_pieces),
		cmocka_unit_test(a_progress_bar_has_lines),
		cmocka_unit_test(an_object_is_a_line),
		cmocka_unit_test(any_bytes_are_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
