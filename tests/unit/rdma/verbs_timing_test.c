/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * verbs_timing_test.c -- a queue pair's timers add up to the retry timeout, and never have the values
 * that mean "for ever" or a default
 */
#include <errno.h>
/* cmocka.h wants these before it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rdma/verbs/timing.h"

static uint64_t silence_us(const struct ol_verbs_timing *timing)
{
	return ol_verbs_ack_us(timing->ack_timeout) * (timing->retry_count + 1u);
}

static void codes_mean_what_the_specification_says(void **state)
{
	(void)state;
	assert_int_equal(ol_verbs_ack_us(1), 8);
	assert_int_equal(ol_verbs_ack_us(14), 67108);
	assert_int_equal(ol_verbs_ack_us(19), 2147483);
	assert_int_equal(ol_verbs_ack_us(31), 8796093022);
}

static void half_a_second_is_seven_tries_of_67_ms(void **state)
{
	const struct ol_verbs_timing timing = ol_verbs_timing(500);

	(void)state;
	assert_int_equal(timing.ack_timeout, 14);
	assert_int_equal(timing.retry_count, 6);
}

static void silence_stays_below_what_was_asked_and_near_it(void **state)
{
	(void)state;
	for (uint32_t ms = 10; ms <= 600000; ms += 1 + ms / 16) {
		const struct ol_verbs_timing timing = ol_verbs_timing(ms);

		assert_true(silence_us(&timing) <= (uint64_t)ms * 1000);
		assert_true(silence_us(&timing) * 2 > (uint64_t)ms * 1000);
	}
}

static void no_value_means_for_ever_or_default(void **state)
{
	static const uint32_t extremes[] = { 1, 2, 5, 7, 100, 65535, UINT32_MAX };

	(void)state;
	for (size_t i = 0; i < sizeof(extremes) / sizeof(extremes[0]); i++) {
		const struct ol_verbs_timing timing = ol_verbs_timing(extremes[i]);

		assert_in_range(timing.ack_timeout, 8, 31); /* 0 is for ever */
		assert_in_range(timing.retry_count, 1, 6); /* 7 may be */
		assert_in_range(timing.rnr_retry_count, 1, 6); /* 7 is */
		assert_in_range(timing.rnr_timer, 1, 31); /* 0 is 655 ms */
	}
}

static void more_silence_never_means_shorter_timers(void **state)
{
	struct ol_verbs_timing last = ol_verbs_timing(1);

	(void)state;
	for (uint32_t ms = 2; ms < 20000; ms++) {
		const struct ol_verbs_timing timing = ol_verbs_timing(ms);

		assert_true(silence_us(&timing) >= silence_us(&last));
		assert_true(timing.rnr_timer >= last.rnr_timer);
		last = timing;
	}
}

/* As UCX has it: seven tries of a second. A network that is away for 3 s has long been asked again */
static void the_default_outlasts_a_network_that_is_away(void **state)
{
	struct ol_xport_opts opts;
	struct ol_verbs_timing timing;

	(void)state;
	ol_xport_opts_init(&opts);
	timing = ol_verbs_timing(opts.retry_timeout_ms);
	assert_int_equal(timing.ack_timeout, 18);
	assert_int_equal(timing.retry_count, 6);
	assert_int_equal(ol_verbs_silence_ms(&timing), 7516);
	assert_int_equal(ol_verbs_rnr_us(timing.rnr_timer), 7680); /* not longer with the rest */
}

static void what_is_set_takes_the_place_of_what_is_derived(void **state)
{
	const struct ol_verbs_timing derived = ol_verbs_timing(8000);
	struct ol_verbs_timing timing = derived;

	(void)state;
	assert_int_equal(ol_verbs_timing_set(&timing, &(struct ol_xport_wire){ 0 }), 0);
	assert_memory_equal(&timing, &derived, sizeof(timing));
	assert_int_equal(ol_verbs_timing_set(&timing, &(struct ol_xport_wire){ .ack_timeout = 20,
									       .retries = 2,
									       .rnr_timer = 31,
									       .rnr_retries = 1 }),
			 0);
	assert_int_equal(timing.ack_timeout, 20);
	assert_int_equal(timing.retry_count, 2);
	assert_int_equal(timing.rnr_timer, 31);
	assert_int_equal(timing.rnr_retry_count, 1);
	assert_int_equal(ol_verbs_silence_ms(&timing), 12884);
}

static void what_means_for_ever_cannot_be_set(void **state)
{
	static const struct ol_xport_wire wrong[] = {
		{ .ack_timeout = 32 }, { .retries = 7 }, { .rnr_timer = 32 }, { .rnr_retries = 7 }
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct ol_verbs_timing timing = ol_verbs_timing(500);

		assert_int_equal(ol_verbs_timing_set(&timing, &wrong[i]), -EINVAL);
		assert_int_equal(timing.retry_count, 6);
	}
}

static void what_is_not_set_is_filled_in(void **state)
{
	struct ol_xport_wire wire = { .retries = 2, .traffic_class = 9 };

	(void)state;
	assert_int_equal(ol_xport_wire_fill(500, &wire), 0);
	assert_int_equal(wire.ack_timeout, 14);
	assert_int_equal(wire.retries, 2);
	assert_int_equal(wire.rnr_timer, 19);
	assert_int_equal(wire.rnr_retries, 6);
	assert_int_equal(wire.traffic_class, 9);
	wire.retries = 7;
	assert_int_equal(ol_xport_wire_fill(500, &wire), -EINVAL);
}

static void an_mtu_is_a_code(void **state)
{
	(void)state;
	for (unsigned code = 1; code <= 5; code++)
		assert_int_equal(ol_verbs_mtu_code(ol_verbs_mtu_bytes(code)), code);
	assert_int_equal(ol_verbs_mtu_bytes(5), 4096);
	assert_int_equal(ol_verbs_mtu_code(1500), 0);
	assert_int_equal(ol_verbs_mtu_bytes(6), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes_mean_what_the_specification_says),
		cmocka_unit_test(half_a_second_is_seven_tries_of_67_ms),
		cmocka_unit_test(silence_stays_below_what_was_asked_and_near_it),
		cmocka_unit_test(no_value_means_for_ever_or_default),
		cmocka_unit_test(more_silence_never_means_shorter_timers),
		cmocka_unit_test(the_default_outlasts_a_network_that_is_away),
		cmocka_unit_test(what_is_set_takes_the_place_of_what_is_derived),
		cmocka_unit_test(what_means_for_ever_cannot_be_set),
		cmocka_unit_test(what_is_not_set_is_filled_in),
		cmocka_unit_test(an_mtu_is_a_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
