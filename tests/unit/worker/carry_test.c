/* SPDX-License-Identifier: BSD-3-Clause */

/* carry_test.c -- where shard 0 decides the steps of two shards, it gets a gradient once the other one has said that it has it */

#include "unit/worker/worker_util.h"

enum {
	EPOCH = 1,
	STEPS = 300, /* of everybody: enough for what may happen to happen */
};

static int world_open(void **unused)
{
	(void)unused;
	world_init();
	world.opts.outage = OL_OUTAGE_WAIT;
	for (unsigned i = A; i <= B; i++) {
		world.puppets[i].geo.consistency = OL_CONSISTENCY_SYNC;
		world.puppets[i].geo.decided = 1;
	}
	return 0;
}

static int world_close(void **unused)
{
	(void)unused;
	world_fini();
	return 0;
}

static void steps(void)
{
	for (unsigned i = 0; i < STEPS; i++)
		step();
}

/* A worker whose push has landed at B, and who has introduced A there */
static const struct puppet_push *pushed(struct ol_op *op)
{
	two_shards_open(EPOCH);
	push(1.0f, op);
	until(world.puppets[B].push_count == 1 && world.puppets[B].decisions > 0);
	return &world.puppets[B].pushes[0];
}

static void resolved(struct ol_op *op)
{
	for (unsigned i = A; i <= B; i++) {
		const struct puppet_push *last = &world.puppets[i].pushes[0];

		puppet_publish(&world.puppets[i], 1, 1.0f, 1);
		puppet_ack(&world.puppets[i], OL_ROLE_WORKER, last->seq, last->slot, 0);
	}
	until(op->done);
	check_ok(op->status);
}

/* A gets it once B has said that it has it, and not before */
static void waits_until_held(struct ol_op *op, const struct puppet_push *other)
{
	steps();
	assert_int_equal(world.puppets[A].push_count, 0);
	puppet_held(&world.puppets[B], other->seq, other->slot);
	until(world.puppets[A].push_count == 1);
	resolved(op);
}

static void that_it_has_left_does_not_count(void **state)
{
	static struct ol_op op;
	const struct puppet_push *other = pushed(&op);

	(void)state;
	puppet_knows(&world.puppets[B], EPOCH);
	waits_until_held(&op, other);
}

static void nor_does_it_before_shard_0_is_introduced(void **state)
{
	static struct ol_op op;
	const struct puppet_push *other = pushed(&op);

	(void)state;
	puppet_held(&world.puppets[B], other->seq, other->slot);
	steps();
	assert_int_equal(world.puppets[A].push_count, 0);
	puppet_knows(&world.puppets[B], EPOCH);
	until(world.puppets[A].push_count == 1);
	resolved(&op);
}

static void what_is_said_of_another_push_does_not_count(void **state)
{
	static struct ol_op op;
	const struct puppet_push *other = pushed(&op);

	(void)state;
	puppet_knows(&world.puppets[B], EPOCH);
	puppet_held(&world.puppets[B], other->seq + 1, other->slot);
	puppet_held(&world.puppets[B], other->seq, other->slot + 1);
	puppet_held(&world.puppets[B], other->seq, 127); /* no slot */
	waits_until_held(&op, other);
}

static void what_the_other_shard_has_dropped_it_has_had(void **state)
{
	static struct ol_op op;
	const struct puppet_push *other = pushed(&op);

	(void)state;
	puppet_knows(&world.puppets[B], EPOCH);
	puppet_ack(&world.puppets[B], OL_ROLE_WORKER, other->seq, other->slot, OL_E_NONFINITE);
	until(world.puppets[A].push_count == 1);
	puppet_ack(&world.puppets[A], OL_ROLE_WORKER, world.puppets[A].pushes[0].seq,
		   world.puppets[A].pushes[0].slot, OL_E_NONFINITE);
	until(op.done);
	assert_int_equal(op.status, OL_E_NONFINITE);
}

/* It came back without the push: it is to say so anew */
static void a_shard_that_comes_back_is_waited_for_again(void **state)
{
	static struct ol_op op;
	const struct puppet_push *other = pushed(&op);

	(void)state;
	puppet_held(&world.puppets[B], other->seq, other->slot);
	steps();
	puppet_cut(&world.puppets[B], OL_ROLE_WORKER);
	until(puppet_waits(&world.puppets[B], OL_ROLE_WORKER));
	puppet_welcome(&world.puppets[B], OL_ROLE_WORKER, EPOCH, 0);
	puppet_knows(&world.puppets[B], EPOCH);
	until(world.puppets[B].push_count == 2);
	steps();
	assert_int_equal(world.puppets[A].push_count, 0);
	puppet_held(&world.puppets[B], world.puppets[B].pushes[1].seq,
		    world.puppets[B].pushes[1].slot);
	until(world.puppets[A].push_count == 1);
	resolved(&op);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_open, world_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(that_it_has_left_does_not_count),
		TEST(nor_does_it_before_shard_0_is_introduced),
		TEST(what_is_said_of_another_push_does_not_count),
		TEST(what_the_other_shard_has_dropped_it_has_had),
		TEST(a_shard_that_comes_back_is_waited_for_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
