/* SPDX-License-Identifier: BSD-3-Clause */

/* carry_test.c -- where shard 0 decides the steps of two shards, it gets a gradient once the other one has said that it has
 * it; and the parts of what waits in an outage of one stay together */

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

/* What is pushed while one is away waits for both, and comes to both as one push with one number */
static void what_waits_for_one_shard_waits_for_both(void **state)
{
	static struct ol_op ops[2], flush;
	struct puppet *a = &world.puppets[A], *b = &world.puppets[B];
	struct ol_link_stat stats[2];

	(void)state;
	world.opts.outage = OL_OUTAGE_CONTINUE;
	two_shards_open(EPOCH);
	puppet_knows(b, EPOCH);
	puppet_cut(b, OL_ROLE_WORKER);
	until(puppet_waits(b, OL_ROLE_WORKER));
	for (unsigned i = 0; i < 2; i++) {
		push((float)(i + 1), &ops[i]);
		assert_true(ops[i].done && ops[i].local);
	}
	check_ok(ol_flush(world.worker, &flush));
	steps();
	assert_int_equal(a->push_count + b->push_count, 0);
	for (unsigned i = A; i <= B; i++)
		check_ok(ol_link_get_stat(world.worker, i, &stats[i]));
	assert_int_equal(stats[A].queued, 2);
	assert_int_equal(stats[B].queued, 2);
	puppet_welcome(b, OL_ROLE_WORKER, EPOCH, 0);
	puppet_knows(b, EPOCH);
	until(b->push_count == 1);
	steps();
	assert_int_equal(a->push_count, 0);
	puppet_held(b, b->pushes[0].seq, b->pushes[0].slot);
	until(a->push_count == 1);
	assert_int_equal(a->pushes[0].seq, b->pushes[0].seq);
	assert_true(a->pushes[0].value == 3.0f); /* the sum */
	for (unsigned i = A; i <= B; i++)
		puppet_ack(&world.puppets[i], OL_ROLE_WORKER, 1, world.puppets[i].pushes[0].slot,
			   OL_E_LATE);
	until(flush.done);
}

/* Weights are of one version: those of a shard that is there are no newer */
static void a_pull_reads_no_shard_while_one_is_away(void **state)
{
	struct puppet *a = &world.puppets[A], *b = &world.puppets[B];
	struct ol_op op = { 0 };
	uint64_t version;

	(void)state;
	world.opts.outage = OL_OUTAGE_CONTINUE;
	two_shards_open(EPOCH);
	pull(OL_PULL_NEWEST);
	puppet_publish(a, 1, 1.0f, 1);
	puppet_cut(b, OL_ROLE_WORKER);
	until(puppet_waits(b, OL_ROLE_WORKER));
	check_ok(ol_pull(world.worker, OL_PULL_NEWEST, &op));
	until(op.done);
	assert_true(op.status == 0 && op.local);
	(void)ol_weights(world.worker, &version);
	assert_int_equal(version, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(that_it_has_left_does_not_count),
		TEST(nor_does_it_before_shard_0_is_introduced),
		TEST(what_is_said_of_another_push_does_not_count),
		TEST(what_the_other_shard_has_dropped_it_has_had),
		TEST(a_shard_that_comes_back_is_waited_for_again),
		TEST(what_waits_for_one_shard_waits_for_both),
		TEST(a_pull_reads_no_shard_while_one_is_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
