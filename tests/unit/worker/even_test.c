/* SPDX-License-Identifier: BSD-3-Clause */

/* even_test.c -- an observer of a synchronous job, or a worker that asks for it, reads one version of all
 * shards, or says that it cannot */

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

/* A worker, whose last process has died when only shard A had all of its gradients */
static void worker_joins(uint64_t a, uint64_t b)
{
	world.opts.observer = OL_OBSERVER_NO;
	two_shards_open(EPOCH);
	for (uint64_t version = 1; version <= a; version++)
		publish(A, version);
	for (uint64_t version = 1; version <= b; version++)
		publish(B, version);
}

static void base_is(uint32_t which, uint64_t version)
{
	const struct puppet *puppet = &world.puppets[which];

	until(puppet->push_count > 0);
	assert_int_equal(puppet->pushes[puppet->push_count - 1].base_version, version);
}

/* At the weights pulled last */
static void pushed(struct ol_op *op)
{
	world.level = OL_LEVEL_APPLIED;
	push(1.0f, op);
}

static void a_worker_that_asks_for_it_reads_the_version_before_the_step(void **state)
{
	(void)state;
	worker_joins(2, 1);
	check_ok(pulled(OL_PULL_EVEN));
	are(1, 1);
	check_ok(pulled(0)); /* it does not ask */
	are(2, 1);
	check_ok(pulled(OL_PULL_EVEN)); /* as if it had not read that */
	are(1, 1);
}

static void it_does_not_read_while_its_gradient_is_on_its_way(void **state)
{
	struct ol_op push_op, op = { 0 };

	(void)state;
	worker_joins(2, 1);
	check_ok(pulled(OL_PULL_EVEN));
	pushed(&push_op);
	base_is(A, 1);
	base_is(B, 1);
	puppet_ack(&world.puppets[A], OL_ROLE_WORKER, 1, world.puppets[A].pushes[0].slot,
		   OL_E_LATE);
	until(push_op.done);
	assert_int_equal(push_op.status, OL_E_LATE);
	check_ok(ol_pull(world.worker, OL_PULL_EVEN, &op));
	for (unsigned i = 0; i < 100; i++)
		step();
	assert_false(op.done);
	puppet_publish(&world.puppets[B], 2, 2.0f, 1);
	puppet_ack(&world.puppets[B], OL_ROLE_WORKER, 1, world.puppets[B].pushes[0].slot, 0);
	until(op.done);
	check_ok(op.status);
	are(2, 2);
}

static void a_version_that_is_gone_is_not_waited_for(void **state)
{
	static struct ol_op op; /* it ends with the worker */
	struct ol_shard_info info;

	(void)state;
	worker_joins(5, 1);
	check_ok(pulled(OL_PULL_EVEN));
	are(5, 1);
	check_ok(ol_shard_info(world.worker, 0, &info));
	assert_int_equal(info.version, 1); /* who says the bases itself says these */
	pushed(&op);
	base_is(A, 1); /* where its step is made it is late */
	base_is(B, 1);
}

static void in_an_outage_a_worker_that_goes_on_reads_what_there_is(void **state)
{
	struct ol_op op = { 0 };
	struct ol_board *board;

	(void)state;
	world.opts.outage = OL_OUTAGE_CONTINUE;
	worker_joins(1, 1);
	check_ok(pulled(OL_PULL_EVEN));
	publish(B, 2);
	board = world.puppets[A].memory->addr;
	ol_word_store(&board->line.begin[1], 5); /* so that A does not answer */
	check_ok(ol_pull(world.worker, OL_PULL_EVEN, &op));
	for (unsigned i = 0; i < 5; i++)
		step();
	assert_false(op.done);
	puppet_cut(&world.puppets[A], OL_ROLE_WORKER);
	until(op.done);
	check_ok(op.status);
	assert_int_equal(op.local, 1);
	are(1, 2);
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
		test(a_worker_that_asks_for_it_reads_the_version_before_the_step),
		test(it_does_not_read_while_its_gradient_is_on_its_way),
		test(a_version_that_is_gone_is_not_waited_for),
		test(in_an_outage_a_worker_that_goes_on_reads_what_there_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
