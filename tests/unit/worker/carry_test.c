/* SPDX-License-Identifier: BSD-3-Clause */

/* carry_test.c -- where shard 0 decides the steps of two shards, it gets a gradient once the other one has said that it has
 * it; and the parts of what waits in an outage of one stay together */

#include <errno.h>

#include "support/wrap.h"
#include "unit/worker/worker_util.h"
#include "worker/worker_internal.h"

enum {
	EPOCH = 1,
	STEPS = 300, /* of everybody: enough for what may happen to happen */
	KEPT_MAX = 8
};

/* The test stands between the worker and its transport, which is shm: reads of A take as long as it says */
static struct {
	const struct ol_xport_ops *real;
	struct ol_xport_ops ops;
	bool keeps; /* they are made once the test lets go … */
	unsigned passes; /* … but so many are made at once, … */
	unsigned takes; /* … and no more than so many of the others are taken */
	struct ol_xport_read kept[KEPT_MAX];
	unsigned kept_count;
} seam;

WRAP(const struct ol_xport_ops *, ol_xport_find, const char *name)
{
	seam.real = __real_ol_xport_find(name);
	return seam.ops.open != NULL ? &seam.ops : seam.real;
}

static struct ol_xport_conn *conn_of_a(void)
{
	return world.worker->links[A].reader->dial.conn;
}

static int seam_read(struct ol_xport_conn *conn, const struct ol_xport_read *read)
{
	if (!seam.keeps || conn != conn_of_a())
		return seam.real->post_read(conn, read);
	if (seam.passes > 0) {
		seam.passes--;
		return seam.real->post_read(conn, read);
	}
	if (seam.kept_count == seam.takes)
		return -EAGAIN;
	check(seam.kept_count < KEPT_MAX);
	seam.kept[seam.kept_count++] = *read;
	return 0;
}

static void reads_keep(unsigned passes, unsigned takes)
{
	seam.keeps = true;
	seam.passes = passes;
	seam.takes = takes;
	seam.kept_count = 0;
}

static void reads_let_go(void)
{
	seam.keeps = false;
	for (unsigned i = 0; i < seam.kept_count; i++)
		check_ok(seam.real->post_read(conn_of_a(), &seam.kept[i]));
}

static int world_open(void **unused)
{
	(void)unused;
	memset(&seam, 0, sizeof(seam));
	world_init();
	seam.ops = *__real_ol_xport_find("shm");
	seam.ops.post_read = seam_read;
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

/* B is lost while the worker waits for A: a pull whose first `passes` reads there are made, `takes` more are posted, and
 * whose next ones are not taken yet */
static void reads_under_way(struct ol_op *op, unsigned passes, unsigned takes)
{
	struct puppet *b = &world.puppets[B];

	world.opts.outage = OL_OUTAGE_CONTINUE;
	two_shards_open(EPOCH);
	puppet_knows(b, EPOCH);
	until(b->decisions > 0);
	pull(OL_PULL_NEWEST);
	steps();
	reads_keep(passes, takes);
	check_ok(ol_pull(world.worker, OL_PULL_NEWEST, op));
	until(seam.kept_count == takes);
	puppet_cut(b, OL_ROLE_WORKER);
	until(puppet_waits(b, OL_ROLE_WORKER));
	steps();
	assert_false(op->done);
}

/* No read of the last pull may be taken for one of the next, or write into its weights */
static void the_last_weights_wait_for(unsigned passes, unsigned takes)
{
	struct puppet *a = &world.puppets[A], *b = &world.puppets[B];
	struct ol_op op = { 0 };
	const float *weights;
	uint64_t version;

	reads_under_way(&op, passes, takes);
	puppet_welcome(b, OL_ROLE_WORKER, EPOCH, 0); /* it is back before the reads have ended */
	steps();
	assert_false(op.done);
	reads_let_go();
	until(op.done);
	assert_true(op.status == 0 && op.local);
	(void)ol_weights(world.worker, &version);
	assert_int_equal(version, 0);
	puppet_publish(a, 1, 1.0f, 0);
	puppet_publish(b, 1, 1.0f, 0);
	pull(OL_PULL_NEWEST);
	weights = ol_weights(world.worker, &version);
	assert_int_equal(version, 1);
	assert_true(weights[0] == 1.0f && weights[OL_SHARD_ALIGN] == 1.0f);
}

static void the_last_weights_wait_for_a_line_that_is_being_read(void **state)
{
	(void)state;
	the_last_weights_wait_for(0, 1);
}

static void the_last_weights_wait_for_weights_that_are_being_read(void **state)
{
	(void)state;
	the_last_weights_wait_for(1, 2);
}

static void also_if_no_answer_is_asked_for_yet(void **state)
{
	(void)state;
	the_last_weights_wait_for(1, 1);
}

/* The optimizer's state is read by itself */
static void also_if_a_part_of_them_is_not(void **state)
{
	(void)state;
	for (unsigned i = A; i <= B; i++)
		world.puppets[i].geo.state_vectors = 1;
	world.opts.mirror_state = 1;
	the_last_weights_wait_for(1, 1);
}

static void what_is_being_read_ends_with_its_server(void **state)
{
	struct ol_op op = { 0 };

	(void)state;
	reads_under_way(&op, 1, 2);
	puppet_cut(&world.puppets[A], OL_ROLE_WORKER);
	until(op.done);
	assert_true(op.status == 0 && op.local);
}

/*
 * A buffer whose gradient is in the mirror at B, and was applied at A, but its ack came after the pull. Another
 * one is lent too, as an outage has left the first behind. Then B is lost again: until it is back no pull frees either.
 */
static void buffers_are_lent_whatever_a_shard_keeps_that_is_there(void **state)
{
	static struct ol_op ops[2];
	struct puppet *a = &world.puppets[A], *b = &world.puppets[B];
	struct ol_link_stat stat;
	float *grad;

	(void)state;
	world.opts.outage = OL_OUTAGE_CONTINUE;
	world.opts.window = 2;
	two_shards_open(EPOCH);
	puppet_knows(b, EPOCH);
	pull(OL_PULL_NEWEST);
	push(1.0f, &ops[0]);
	until(b->push_count == 1);
	puppet_cut(b, OL_ROLE_WORKER);
	until(puppet_waits(b, OL_ROLE_WORKER));
	puppet_welcome(b, OL_ROLE_WORKER, EPOCH, 0);
	until(b->push_count == 2);
	puppet_held(b, b->pushes[1].seq, b->pushes[1].slot);
	until(a->push_count == 1);
	puppet_publish(a, 1, 1.0f, 1);
	puppet_publish(b, 1, 1.0f, 1);
	puppet_ack(b, OL_ROLE_WORKER, 1, b->pushes[1].slot, 0);
	steps();
	pull(OL_PULL_NEWEST);
	puppet_ack(a, OL_ROLE_WORKER, 1, a->pushes[0].slot, 0);
	steps();
	push(1.0f, &ops[1]);
	until(b->push_count == 3);
	puppet_cut(b, OL_ROLE_WORKER);
	until(puppet_waits(b, OL_ROLE_WORKER));
	for (unsigned i = 0; i < 3; i++) {
		push(1.0f, &ops[0]);
		assert_true(ops[0].done && ops[0].local);
	}
	check_ok(ol_link_get_stat(world.worker, A, &stat));
	assert_int_equal(stat.queued, 3);
	check_ok(ol_grad_acquire(world.worker, &grad));
	check_ok(ol_grad_release(world.worker, grad));
}

/* A has applied what is in the slot of the queues, behind which more waits; but B is lost again */
static void a_flush_makes_no_pulls_that_read_nothing(void **state)
{
	static struct ol_op op, flush;
	struct puppet *a = &world.puppets[A], *b = &world.puppets[B];

	(void)state;
	world.opts.outage = OL_OUTAGE_CONTINUE;
	two_shards_open(EPOCH);
	puppet_knows(b, EPOCH);
	pull(OL_PULL_NEWEST);
	puppet_cut(b, OL_ROLE_WORKER);
	until(puppet_waits(b, OL_ROLE_WORKER));
	push(1.0f, &op);
	puppet_welcome(b, OL_ROLE_WORKER, EPOCH, 0);
	check_ok(ol_flush(world.worker, &flush));
	until(b->push_count == 1);
	puppet_held(b, 1, b->pushes[0].slot);
	until(a->push_count == 1);
	puppet_cut(b, OL_ROLE_WORKER);
	until(puppet_waits(b, OL_ROLE_WORKER));
	puppet_ack(a, OL_ROLE_WORKER, 1, a->pushes[0].slot, 0);
	push(1.0f, &op);
	assert_true(op.done && op.local);
	steps();
	assert_false(flush.done);
	assert_int_equal(world.worker->own_pull.done, 0);
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
		TEST(the_last_weights_wait_for_a_line_that_is_being_read),
		TEST(the_last_weights_wait_for_weights_that_are_being_read),
		TEST(also_if_no_answer_is_asked_for_yet),
		TEST(also_if_a_part_of_them_is_not),
		TEST(what_is_being_read_ends_with_its_server),
		TEST(buffers_are_lent_whatever_a_shard_keeps_that_is_there),
		TEST(a_flush_makes_no_pulls_that_read_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
