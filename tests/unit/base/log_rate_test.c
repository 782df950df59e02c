/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * log_rate_test.c -- at most some lines a second, then one with the exact number of the others, at a
 * time that the test says; the same for a transport
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log_rate.h"
#include "rdma/rate.h"

#define MS(ms) ((uint64_t)(ms)*OL_NS_PER_MS)

/* What was logged */
static struct {
	unsigned lines;
	int level;
	unsigned long long more; /* the sum of what lines say about lines left out */
	char last[OL_LOG_LINE_MAX];
} said;

static void take(int level, const char *text)
{
	unsigned long long more;
	int end = 0;

	said.lines++;
	said.level = level;
	if (sscanf(text, "%llu more of these in %n", &more, &end) == 1 && end > 0)
		said.more += more;
	snprintf(said.last, sizeof(said.last), "%s", text);
}

static void sink(void *ctx, enum ol_log_level level, const char *text)
{
	(void)ctx;
	take((int)level, text);
}

static void xport_log(void *arg, enum ol_xport_log_level level, const char *text)
{
	(void)arg;
	take((int)level, text);
}

static const struct ol_xport_opts opts = { .log = xport_log };

static int setup(void **state)
{
	(void)state;
	memset(&said, 0, sizeof(said));
	ol_log_set(sink, OL_LOG_INFO, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ol_log_set(NULL, OL_LOG_INFO, NULL);
	return 0;
}

static void a_second_has_some_lines_and_one_with_the_number_of_the_others(void **state)
{
	const uint64_t start = 12345;
	struct ol_log_rate rate = { .lines_max = 3 };

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		ol_log_rated(&rate, start + MS(i), OL_LOG_WARN, "peer %u knocks", i);
	assert_int_equal(said.lines, 3);
	assert_string_equal(said.last, "peer 2 knocks");
	ol_log_rate_tick(&rate, start + MS(1000) - 1);
	assert_int_equal(said.lines, 3);
	ol_log_rate_tick(&rate, start + MS(1000));
	assert_int_equal(said.lines, 4);
	assert_string_equal(said.last, "997 more of these in 1.0 s: peer 3 knocks");
	assert_int_equal(said.level, OL_LOG_WARN);
	for (unsigned i = 1; i < 10; i++)
		ol_log_rate_tick(&rate, start + MS(1000 * i));
	assert_int_equal(said.lines, 4); /* it is told once */
}

static void a_line_that_follows_tells_it_too(void **state)
{
	struct ol_log_rate rate = { 0 };

	(void)state;
	for (unsigned i = 0; i < OL_LOG_RATE_STRANGER + 5; i++)
		ol_log_rated(&rate, 0, OL_LOG_ERROR, "line %u", i);
	ol_log_rated(&rate, MS(2500), OL_LOG_INFO, "later");
	assert_int_equal(said.lines, OL_LOG_RATE_STRANGER + 2);
	assert_int_equal(said.more, 5);
	assert_string_equal(said.last, "later");
}

/* Five seconds of 5,000 lines each, hence windows of 1, 2 and 4 s: every line is told, or is in a number. */
static void no_line_is_lost_from_the_count(void **state)
{
	struct ol_log_rate rate = { 0 };
	const unsigned floods = 25000;

	(void)state;
	for (unsigned i = 0; i < floods; i++) {
		ol_log_rated(&rate, MS(i) / 5, OL_LOG_WARN, "line");
		if (i % 50 == 0)
			ol_log_rate_tick(&rate, MS(i) / 5);
	}
	ol_log_rate_tick(&rate, MS(7000) - 1);
	assert_int_equal(said.lines, 3 * OL_LOG_RATE_STRANGER + 2);
	ol_log_rate_tick(&rate, MS(7000));
	assert_int_equal(said.lines, 3 * (OL_LOG_RATE_STRANGER + 1));
	assert_int_equal(said.more, floods - 3 * OL_LOG_RATE_STRANGER);
	/* a calm window, and the next lasts for a second again */
	ol_log_rated(&rate, MS(8000), OL_LOG_WARN, "line");
	ol_log_rate_tick(&rate, MS(16000));
	for (unsigned i = 0; i < OL_LOG_RATE_STRANGER + 1; i++)
		ol_log_rated(&rate, MS(20000), OL_LOG_WARN, "line");
	ol_log_rate_tick(&rate, MS(21000));
	assert_string_equal(said.last, "1 more of these in 1.0 s: line");
}

static void few_lines_are_all_told_and_nothing_else(void **state)
{
	struct ol_log_rate rate = { .lines_max = OL_LOG_RATE_MEMBER };

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		ol_log_rated(&rate, MS(100 * i), OL_LOG_WARN, "line");
	ol_log_rate_tick(&rate, MS(20000));
	assert_int_equal(said.lines, 100);
	assert_int_equal(said.more, 0);
}

static void what_nobody_wants_to_see_is_not_counted_and_debug_is_not_limited(void **state)
{
	struct ol_log_rate rate = { 0 };

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		ol_log_rated(&rate, MS(i), OL_LOG_DEBUG, "line");
	assert_int_equal(said.lines, 0);
	ol_log_level_set(OL_LOG_DEBUG);
	for (unsigned i = 0; i < 100; i++)
		ol_log_rated(&rate, MS(i), OL_LOG_DEBUG, "line");
	assert_int_equal(said.lines, 100);
	ol_log_rate_tick(&rate, MS(5000));
	assert_int_equal(said.lines, 100);
}

static void a_time_before_the_window_does_not_end_it(void **state)
{
	struct ol_log_rate rate = { 0 };
	struct ol_xport_rate xrate = { 0 };

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		ol_log_rated(&rate, MS(5000), OL_LOG_WARN, "line");
		ol_log_rate_tick(&rate, MS(4999));
	}
	assert_int_equal(said.lines, OL_LOG_RATE_STRANGER);
	for (unsigned i = 0; i < 100; i++) {
		ol_xport_log_rated(&opts, &xrate, MS(5000), OL_XPORT_LOG_WARN, "line");
		ol_xport_rate_tick(&opts, &xrate, MS(4999));
	}
	assert_int_equal(said.lines, OL_LOG_RATE_STRANGER + OL_XPORT_RATE_LINES);
}

static void a_long_line_is_cut_off_in_the_number_s_line(void **state)
{
	struct ol_log_rate rate = { 0 };
	char text[2 * OL_LOG_RATE_LIKE_MAX];

	(void)state;
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	for (unsigned i = 0; i < OL_LOG_RATE_STRANGER + 1; i++)
		ol_log_rated(&rate, 0, OL_LOG_WARN, "%s", text);
	assert_string_equal(said.last, text);
	ol_log_rate_tick(&rate, MS(1000));
	assert_int_equal(strlen(strchr(said.last, 'x')), OL_LOG_RATE_LIKE_MAX - 1);
}

static void a_transport_s_lines_are_limited_alike(void **state)
{
	struct ol_xport_rate rate = { 0 };
	const unsigned floods = 25000;

	(void)state;
	assert_int_equal(ol_xport_rate_due_ns(&rate), 0);
	for (unsigned i = 0; i < floods; i++) {
		ol_xport_log_rated(&opts, &rate, MS(i) / 5, OL_XPORT_LOG_WARN, "line %u", i);
		if (i == OL_XPORT_RATE_LINES - 1)
			assert_int_equal(ol_xport_rate_due_ns(&rate), 0);
		if (i == OL_XPORT_RATE_LINES)
			assert_int_equal(ol_xport_rate_due_ns(&rate), MS(1000));
	}
	ol_xport_rate_tick(&opts, &rate, MS(6999));
	assert_int_equal(ol_xport_rate_due_ns(&rate), MS(7000));
	ol_xport_rate_tick(&opts, &rate, MS(7000));
	assert_int_equal(ol_xport_rate_due_ns(&rate), 0);
	ol_xport_rate_tick(&opts, &rate, MS(9000));
	assert_int_equal(said.lines, 3 * (OL_XPORT_RATE_LINES + 1));
	assert_int_equal(said.more, floods - 3 * OL_XPORT_RATE_LINES);
	for (unsigned i = 0; i < 100; i++)
		ol_xport_log_rated(&opts, &rate, MS(9000), OL_XPORT_LOG_INFO, "line");
	assert_int_equal(said.lines, 3 * (OL_XPORT_RATE_LINES + 1) + 100);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_second_has_some_lines_and_one_with_the_number_of_the_others),
		TEST(a_line_that_follows_tells_it_too),
		TEST(no_line_is_lost_from_the_count),
		TEST(few_lines_are_all_told_and_nothing_else),
		TEST(what_nobody_wants_to_see_is_not_counted_and_debug_is_not_limited),
		TEST(a_time_before_the_window_does_not_end_it),
		TEST(a_long_line_is_cut_off_in_the_number_s_line),
		TEST(a_transport_s_lines_are_limited_alike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
