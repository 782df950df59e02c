/* SPDX-License-Identifier: BSD-3-Clause */

/* even_test.c -- an observer of a synchronous job reads one version of all shards, or says that it cannot */

#include "outlast_span.h"
#include "rdma/order.h"
#include "unit/worker/worker_util.h"

enum {
	EPOCH = 1,
	FIRST_B = OL_SHARD_ALIGN,
};

static int world_open(void **unused)
{
	(void)unused;
	world_init();
	world.opts.outage = OL_OUTAGE_WAIT;
	world.opts.observer = OL_OBSERVER_READS;
	for (unsigned i = A; i <= B; i++)
		world.puppets[i].geo.consistency = OL_CONSISTENCY_SYNC;
	return 0;
}

static int world_close(void **unused)
{
	(void)unused;
	world_fini();
	return 0;
}

/* The weights of version v are v */
static void publish(uint32_t which, uint64_t version)
{
	puppet_publish(&world.puppets[which], version, (float)version, 0);
}

static int pulled(unsigned flags)
{
	static struct ol_op op;

	op = (struct ol_op){ 0 };
	check_ok(ol_pull(world.worker, flags, &op));
	until(op.done);
	return op.status;
}

/* What was pulled last is of these versions */
static void are(uint64_t a, uint64_t b)
{
	uint64_t version;
	const float *weights = ol_weights(world.worker, &version);

	assert_int_equal(version, a < b ? a : b);
	assert_true(weights[0] == (float)a);
	assert_true(weights[FIRST_B] == (float)b);
}

static void a_shard_that_is_ahead_is_read_where_it_was(void **state)
{
	(void)state;
	two_shards_open(EPOCH);
	for (uint64_t version = 1; version < 9; version++) {
		publish(A, version);
		publish(B, version);
		check_ok(pulled(0));
		are(version, version);
		publish(version % 2 == 0 ? A : B, version + 1);
		check_ok(pulled(OL_PULL_FORWARD));
		are(version, version);
	}
}

static void shards_that_stay_apart_are_read_at_their_newest(void **state)
{
	(void)state;
	two_shards_open(EPOCH);
	for (uint64_t version = 1; version <= 6; version++)
		publish(A, version);
	publish(B, 2);
	check_ok(pulled(0));
	are(6, 2);
	for (uint64_t version = 3; version < 6; version++) { /* none goes back */
		publish(B, version);
		check_ok(pulled(OL_PULL_FORWARD));
		are(6, version);
	}
	publish(B, 6);
	publish(A, 7);
	check_ok(pulled(OL_PULL_FORWARD));
	are(6, 6);
}

static void a_pull_that_finds_no_version_in_both_ends(void **state)
{
	(void)state;
	world.opts.pull_retries_max = 2;
	two_shards_open(EPOCH);
	for (uint64_t version = 1; version <= 6; version++)
		publish(A, version);
	publish(B, 2);
	assert_int_equal(pulled(0), OL_E_TORN);
	publish(B, 6);
	check_ok(pulled(0));
	are(6, 6);
}

static void a_line_that_is_never_whole_ends_it(void **state)
{
	struct ol_board *board = world.puppets[B].memory->addr;

	(void)state;
	world.opts.pull_retries_max = 3;
	two_shards_open(EPOCH);
	publish(A, 1);
	publish(B, 1);
	board = world.puppets[B].memory->addr;
	ol_word_store(&board->line.begin[1], 5);
	assert_int_equal(pulled(0), OL_E_TORN);
	publish(B, 1);
	check_ok(pulled(0));
	are(1, 1);
}

static void a_server_that_goes_and_comes_back_is_asked_again(void **state)
{
	static struct ol_op op;

	(void)state;
	two_shards_open(EPOCH);
	publish(A, 1);
	publish(B, 1);
	check_ok(ol_pull(world.worker, 0, &op));
	puppet_cut(&world.puppets[B], OL_ROLE_OBSERVER);
	for (unsigned i = 0; i < 100; i++)
		step();
	publish(A, 2);
	until(puppet_waits(&world.puppets[B], OL_ROLE_OBSERVER));
	puppet_welcome(&world.puppets[B], OL_ROLE_OBSERVER, EPOCH, 0);
	until(op.done);
	check_ok(op.status);
	are(1, 1);
}

/* Shard A is further on, and has the older version still: the caller gets that one of both, not a mixture */
static void a_server_that_comes_back_with_older_weights(void **state)
{
	(void)state;
	two_shards_open(EPOCH);
	for (uint64_t version = 1; version <= 5; version++) {
		publish(A, version);
		publish(B, version);
	}
	check_ok(pulled(0));
	are(5, 5);
	puppet_cut(&world.puppets[B], OL_ROLE_OBSERVER);
	until(puppet_waits(&world.puppets[B], OL_ROLE_OBSERVER));
	publish(B, 4);
	puppet_welcome(&world.puppets[B], OL_ROLE_OBSERVER, EPOCH + 1, 4);
	assert_int_equal(pulled(OL_PULL_FORWARD), OL_E_HISTORY);
	are(5, 5);
	publish(A, 6);
	check_ok(pulled(0));
	are(4, 4);
	publish(B, 5);
	check_ok(pulled(OL_PULL_FORWARD));
	are(5, 5);
}

#define test(f) cmocka_unit_test_setup_teardown(f, world_open, world_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(a_shard_that_is_ahead_is_read_where_it_was),
		test(shards_that_stay_apart_are_read_at_their_newest),
		test(a_pull_that_finds_no_version_in_both_ends),
		test(a_line_that_is_never_whole_ends_it),
		test(a_server_that_goes_and_comes_back_is_asked_again),
		test(a_server_that_comes_back_with_older_weights),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
