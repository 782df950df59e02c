/* SPDX-License-Identifier: BSD-3-Clause */

/* watch_test.c -- a heartbeat is read a few times a lease, and judged by when the read was posted */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "link/watch.h"
#include "wire/wire.h"

enum {
	LEASE_MS = 100
};

#define MS(count) ((uint64_t)(count)*OL_NS_PER_MS)

static uint32_t reads;
static int read_rc;
static struct ol_xport_read last;

static int post_read(struct ol_xport_conn *conn, const struct ol_xport_read *read)
{
	(void)conn;
	last = *read;
	reads++;
	return read_rc;
}

static const struct ol_xport_ops ops = { .post_read = post_read };
static struct ol_watch watch;
static struct ol_watch_with with;

static int setup(void **state)
{
	(void)state;
	reads = 0;
	read_rc = 0;
	watch = (struct ol_watch){ 0 };
	with = (struct ol_watch_with){
		.ops = &ops, .off = 64, .cookie = 7, .lease_ns = MS(LEASE_MS)
	};
	return 0;
}

static void it_is_read_four_times_a_lease(void **state)
{
	(void)state;
	for (uint64_t ms = 1000; ms < 1000 + LEASE_MS; ms++) {
		assert_int_equal(ol_watch_tick(&watch, &with, MS(ms)), OL_WATCH_FINE);
		if (watch.posted)
			ol_watch_on_beat(&watch, 0, ms, MS(ms));
	}
	assert_int_equal(reads, 4);
	assert_int_equal(last.src_off, OL_BOARD_STAT_OFF);
	assert_int_equal(last.segs[0].off, 64);
	assert_int_equal(last.cookie, 7);
}

static void without_a_lease_nothing_is_read(void **state)
{
	(void)state;
	with.lease_ns = 0;
	assert_int_equal(ol_watch_tick(&watch, &with, MS(1000)), OL_WATCH_FINE);
	assert_int_equal(reads, 0);
}

static void a_word_that_stays_is_a_loop_that_stands_still(void **state)
{
	(void)state;
	ol_watch_on_beat(&watch, 0, 5, MS(1000));
	watch.post_ns = MS(1000 + LEASE_MS - 1);
	assert_int_equal(ol_watch_tick(&watch, &with, MS(1000 + LEASE_MS)), OL_WATCH_FINE);
	watch.post_ns = MS(1000 + LEASE_MS);
	ol_watch_on_beat(&watch, 0, 5, MS(1000 + LEASE_MS));
	assert_int_equal(ol_watch_tick(&watch, &with, MS(1000 + LEASE_MS)), OL_WATCH_STILL);
	ol_watch_on_beat(&watch, 0, 6, MS(1000 + LEASE_MS));
	assert_int_equal(ol_watch_tick(&watch, &with, MS(1000 + LEASE_MS)), OL_WATCH_FINE);
}

/* This end stood still itself: the word that it knows is old, and so is its question */
static void an_end_that_was_away_asks_first(void **state)
{
	(void)state;
	ol_watch_on_beat(&watch, 0, 5, MS(1000));
	watch.post_ns = MS(1000);
	assert_int_equal(ol_watch_tick(&watch, &with, MS(1000 + 10 * LEASE_MS)), OL_WATCH_FINE);
	assert_int_equal(reads, 1);
}

/* Not the other end, while it is heard */
static void a_read_that_does_not_end_makes_the_connection_doubtful_first(void **state)
{
	(void)state;
	with.doubt_ns = MS(LEASE_MS / 2);
	assert_int_equal(ol_watch_tick(&watch, &with, MS(1000)), OL_WATCH_FINE);
	assert_false(ol_watch_is_due(&watch, MS(1000 + LEASE_MS / 2)));
	assert_int_equal(ol_watch_tick(&watch, &with, MS(1000 + LEASE_MS / 2)), OL_WATCH_FINE);
	assert_true(ol_watch_is_due(&watch, MS(1000 + LEASE_MS / 2) + 1));
	assert_int_equal(ol_watch_tick(&watch, &with, MS(1000 + LEASE_MS / 2) + 1), OL_WATCH_DOUBT);
	watch.heard_ns = MS(1000 + LEASE_MS / 2);
	assert_int_equal(ol_watch_tick(&watch, &with, MS(1000 + LEASE_MS)), OL_WATCH_FINE);
	assert_int_equal(ol_watch_tick(&watch, &with, MS(1000 + LEASE_MS) + 1), OL_WATCH_SILENT);
}

static void a_read_that_does_not_end_is_silence(void **state)
{
	(void)state;
	assert_int_equal(ol_watch_tick(&watch, &with, MS(1000)), OL_WATCH_FINE);
	assert_true(watch.posted);
	assert_int_equal(ol_watch_tick(&watch, &with, MS(1000 + LEASE_MS)), OL_WATCH_FINE);
	assert_int_equal(ol_watch_tick(&watch, &with, MS(1000 + LEASE_MS + 1)), OL_WATCH_SILENT);
}

static void a_read_that_is_not_posted_is_tried_again(void **state)
{
	(void)state;
	read_rc = -EAGAIN;
	(void)ol_watch_tick(&watch, &with, MS(1000));
	assert_false(watch.posted);
	read_rc = 0;
	(void)ol_watch_tick(&watch, &with, MS(1000 + LEASE_MS / 4));
	assert_true(watch.posted);
}

/* Other posts fill the queue for longer than a lease: nobody was asked */
static void a_queue_that_stays_full_is_no_silence(void **state)
{
	(void)state;
	(void)ol_watch_tick(&watch, &with, MS(1000));
	ol_watch_on_beat(&watch, 0, 5, MS(1000));
	read_rc = -EAGAIN;
	for (uint64_t ms = 1000; ms < 1000 + 3 * LEASE_MS; ms += 5)
		assert_int_equal(ol_watch_tick(&watch, &with, MS(ms)), OL_WATCH_FINE);
	assert_true(reads > 8);
}

static void a_read_that_failed_says_nothing(void **state)
{
	(void)state;
	watch.posted = true;
	ol_watch_on_beat(&watch, -EIO, 5, MS(1000));
	assert_false(watch.posted);
	assert_int_equal(watch.beat_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(it_is_read_four_times_a_lease, setup),
		cmocka_unit_test_setup(without_a_lease_nothing_is_read, setup),
		cmocka_unit_test_setup(a_word_that_stays_is_a_loop_that_stands_still, setup),
		cmocka_unit_test_setup(an_end_that_was_away_asks_first, setup),
		cmocka_unit_test_setup(a_read_that_does_not_end_makes_the_connection_doubtful_first,
				       setup),
		cmocka_unit_test_setup(a_read_that_does_not_end_is_silence, setup),
		cmocka_unit_test_setup(a_read_that_is_not_posted_is_tried_again, setup),
		cmocka_unit_test_setup(a_queue_that_stays_full_is_no_silence, setup),
		cmocka_unit_test_setup(a_read_that_failed_says_nothing, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
