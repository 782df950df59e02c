/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * clock_test.c -- the clock runs forward, at one nanosecond a nanosecond
 */
#include "base/clock.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void time_never_goes_back(void **state)
{
	uint64_t before = ol_clock_ns();

	(void)state;
	for (int i = 0; i < 100000; i++) {
		uint64_t now = ol_clock_ns();

		assert_true(now >= before);
		before = now;
	}
}

static void a_pause_of_20_ms_takes_at_least_that(void **state)
{
	uint64_t before = ol_clock_ns(), after;

	(void)state;
	poll(NULL, 0, 20);
	after = ol_clock_ns();
	assert_true(after - before >= 20 * OL_NS_PER_MS);
	assert_true(after - before < 60 * OL_NS_PER_S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_never_goes_back),
		cmocka_unit_test(a_pause_of_20_ms_takes_at_least_that),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
