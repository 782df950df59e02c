/* SPDX-License-Identifier: BSD-3-Clause */

/* counters_test.c -- a server's counters survive the way to JSON and back */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/counters.h"

static const struct ol_server_stat all = {
	.version = UINT64_C(1) << 40,
	.applied = 7,
	.dropped_nonfinite = 8,
	.dropped_late = 9,
	.duplicates = 10,
	.staleness_sum = 11,
	.samples = 12,
	.bytes_in = UINT64_C(1) << 45,
	.refused = 13,
	.violations = 14,
	.replayed = 15,
	.restored_version = 16,
	.restored_lost = 37,
	.ready_ns = 17,
	.checkpoints = 18,
	.checkpoint_bytes = 19,
	.epoch = 20,
	.workers = 21,
	.replica = 22,
	.received = 23,
	.committed = 24,
	.forwarded = 25,
	.forwarded_bytes = 26,
	.resent = 27,
	.resync_bytes = 28,
	.resync_ns = 29,
	.views = 30,
	.suspicions = 31,
	.proposed_ns = 38,
	.adopted_ns = 39,
	.linked_ns = 40,
	.role = OL_REPLICA_MIDDLE,
	.ring_slots = 32,
	.ring_used = 33,
	.wait_for = 34,
	.turn_max_ns = 35,
	.sent_away = 36,
	.early_bytes = 41,
	.early_void_bytes = 42,
	.conns = 43,
	.regions = 44,
	.region_bytes = 45,
	.writes = 46,
	.write_bytes = 47,
	.doorbells = 48,
	.reads = 49,
	.read_bytes = 50,
	.rung = 51,
	.busy = 52,
	.carried = 53,
	.beat_ns = 54,
	.checkpoint_ns = 55,
	.loss = 0.5f,
};

static void what_goes_in_comes_out(void **state)
{
	struct ol_server_stat got;
	json_t *json = ol_counters_json(&all), *again;

	(void)state;
	assert_non_null(json);
	assert_string_equal(json_string_value(json_object_get(json, "role")), "middle");
	assert_int_equal(json_object_size(json), 54);
	ol_counters_take(json, &got);
	assert_int_equal(got.version, UINT64_C(1) << 40);
	assert_int_equal(got.workers, 21);
	assert_int_equal(got.restored_lost, 37);
	assert_int_equal(got.ring_used, 33);
	assert_int_equal(got.wait_for, 34);
	assert_int_equal(got.turn_max_ns, 35);
	assert_int_equal(got.sent_away, 36);
	assert_int_equal(got.early_bytes, 41);
	assert_int_equal(got.early_void_bytes, 42);
	assert_int_equal(got.conns, 43);
	assert_int_equal(got.regions, 44);
	assert_int_equal(got.region_bytes, 45);
	assert_int_equal(got.writes, 46);
	assert_int_equal(got.write_bytes, 47);
	assert_int_equal(got.doorbells, 48);
	assert_int_equal(got.reads, 49);
	assert_int_equal(got.read_bytes, 50);
	assert_int_equal(got.rung, 51);
	assert_int_equal(got.busy, 52);
	assert_int_equal(got.carried, 53);
	assert_int_equal(got.beat_ns, 54);
	assert_int_equal(got.checkpoint_ns, 55);
	assert_int_equal(got.linked_ns, 40);
	got.replica = 1; /* a random number of 64 bits is left out */
	again = ol_counters_json(&got);
	assert_true(json_equal(json, again));
	json_decref(json);
	json_decref(again);
}

static void every_role_has_a_name_of_its_own(void **state)
{
	(void)state;
	for (uint32_t a = OL_REPLICA_NONE; a <= OL_REPLICA_ONLY; a++) {
		struct ol_server_stat stat = { .replica = 1, .role = a }, got;
		json_t *json = ol_counters_json(&stat);

		ol_counters_take(json, &got);
		assert_int_equal(got.role, a);
		json_decref(json);
		for (uint32_t b = OL_REPLICA_NONE; b < a; b++)
			assert_string_not_equal(ol_role_str(a), ol_role_str(b));
	}
	assert_string_equal(ol_role_str(77), "unknown");
}

static void a_server_by_itself_says_nothing_of_chains(void **state)
{
	struct ol_server_stat stat = { .version = 3, .loss = NAN }, got;
	json_t *json = ol_counters_json(&stat);

	(void)state;
	assert_null(json_object_get(json, "role"));
	assert_null(json_object_get(json, "forwarded"));
	assert_true(json_is_null(json_object_get(json, "loss")));
	ol_counters_take(json, &got);
	assert_int_equal(got.version, 3);
	assert_int_equal(got.role, OL_REPLICA_NONE);
	json_decref(json);
}

static void what_is_missing_or_foreign_is_zero(void **state)
{
	json_t *json = json_pack("{s:s, s:s}", "version", "many", "role", "king");
	struct ol_server_stat got;

	(void)state;
	ol_counters_take(json, &got);
	assert_int_equal(got.version, 0);
	assert_int_equal(got.role, OL_REPLICA_NONE);
	assert_int_equal(got.forwarded_bytes, 0);
	json_decref(json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_goes_in_comes_out),
		cmocka_unit_test(every_role_has_a_name_of_its_own),
		cmocka_unit_test(a_server_by_itself_says_nothing_of_chains),
		cmocka_unit_test(what_is_missing_or_foreign_is_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
