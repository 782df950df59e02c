/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * times_test.c -- the slow push beside the histogram: the slowest one stays for a while, and a look that
 * tears it finds none
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/hist.h"
#include "server/times.h"
#include "wire/seq.h"
#include "wire/wire.h"

enum {
	TAG = 77
};

static struct ol_board board;
static struct ol_times times;
static uint64_t now_ns;

static int times_begin(void **unused)
{
	(void)unused;
	memset(&board, 0, sizeof(board));
	now_ns = 100 * OL_NS_PER_S;
	return ol_times_open(&times, 4);
}

static int times_end(void **unused)
{
	(void)unused;
	ol_times_close(&times);
	return 0;
}

/* A push takes so many ms, and ends now */
static void takes(uint32_t worker, uint64_t count, uint64_t ms)
{
	ol_times_add(&times, worker, ol_seq_make(TAG, count), now_ns - ms * OL_NS_PER_MS);
	ol_times_apply(&times);
	ol_times_take(&times, &board, now_ns);
}

static void assert_slow(uint64_t worker, uint64_t push, uint64_t ms)
{
	struct ol_server_stat stat;

	ol_board_stat(&board, &stat);
	assert_int_equal(stat.slow_worker, worker);
	assert_int_equal(stat.slow_push, push);
	assert_int_equal(stat.slow_ns, ms * OL_NS_PER_MS);
}

static void the_slowest_stays_for_a_while(void **state)
{
	struct ol_server_stat stat;
	const uint64_t wall_ns = ol_clock_wall_ns();

	(void)state;
	assert_slow(0, 0, 0);
	takes(3, 1, 20);
	assert_slow(3, 1, 20);
	ol_board_stat(&board, &stat);
	assert_in_range(stat.slow_at_ns, wall_ns, ol_clock_wall_ns());
	takes(4, 1, 10);
	assert_slow(3, 1, 20);
	takes(5, 9, 30);
	assert_slow(5, 9, 30);
	now_ns += 14 * OL_NS_PER_S;
	takes(4, 2, 29);
	assert_slow(5, 9, 30);
	now_ns += 2 * OL_NS_PER_S;
	takes(4, 3, 1);
	assert_slow(4, 3, 1);
	takes(3, 2, 2);
	assert_slow(3, 2, 2);
	ol_board_stat(&board, &stat);
	assert_int_equal(ol_hist_count(&stat.push_applied), 6);
}

/* Pushes that end together are each looked at */
static void the_slowest_of_a_step_is_shown(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		ol_times_add(&times, i, ol_seq_make(TAG, 10 + i),
			     now_ns - (i == 2 ? 50 : i) * OL_NS_PER_MS);
	ol_times_apply(&times);
	ol_times_take(&times, &board, now_ns);
	assert_slow(2, 12, 50);
}

static void what_is_torn_is_none(void **state)
{
	uint64_t before[OL_BOARD_SLOW_WORDS];

	(void)state;
	takes(3, 1, 20);
	for (unsigned i = 0; i < OL_BOARD_SLOW_WORDS; i++)
		before[i] = board.push_slow[i];
	takes(4, 9, 30);
	assert_slow(4, 9, 30);
	for (unsigned i = 0; i + 1 < OL_BOARD_SLOW_WORDS; i++) {
		struct ol_board torn = board;

		torn.push_slow[i] = before[i];
		if (before[i] != board.push_slow[i]) {
			struct ol_server_stat stat;

			ol_board_stat(&torn, &stat);
			assert_int_equal(stat.slow_push, 0);
			assert_int_equal(stat.slow_ns, 0);
		}
	}
}

#define test(name) cmocka_unit_test_setup_teardown(name, times_begin, times_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(the_slowest_stays_for_a_while),
		test(the_slowest_of_a_step_is_shown),
		test(what_is_torn_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
