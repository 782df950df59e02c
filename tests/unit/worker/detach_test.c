/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * detach_test.c -- after a wait that gave up the library does not use the op any more: its memory may
 * be freed, and its push or pull goes on and is counted
 *
 * Each op has a page of its own, which is unmapped after the wait, so an access ends the test. The
 * server is a puppet of the same thread, so no wait is answered before it gives up.
 */

#include <errno.h>
#include <sys/mman.h>

#include "unit/worker/worker_util.h"

enum {
	EPOCH = 1,
	PAGE = 4096,
	GIVE_UP_MS = 20
};

static int world_open(void **unused)
{
	(void)unused;
	world_init();
	world.opts.servers = world.puppets[A].addr;
	world.opts.outage = OL_OUTAGE_WAIT;
	world.opts.op_timeout_ms = GIVE_UP_MS;
	puppet_publish(&world.puppets[A], 1, 4.0f, 0);
	open_welcomed(EPOCH);
	check_ok(world.open_rc);
	pull(OL_PULL_NEWEST);
	return 0;
}

static int world_close(void **unused)
{
	(void)unused;
	world_fini();
	return 0;
}

static struct ol_op *op_map(void)
{
	struct ol_op *op =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(op, MAP_FAILED);
	return op;
}

/* Wait for it in vain; then it is the caller's, who gives its memory away */
static void give_up(struct ol_op *op)
{
	assert_int_equal(ol_worker_wait(world.worker, op), -ETIMEDOUT);
	assert_true(op->done);
	assert_int_equal(op->status, -ETIMEDOUT);
	assert_int_equal(ol_worker_wait(world.worker, op), -ETIMEDOUT);
	check_ok(munmap(op, PAGE));
}

static void gone(void)
{
	puppet_cut(&world.puppets[A], OL_ROLE_WORKER);
	until(link_stat().down);
}

static void back(uint64_t seq)
{
	until(puppet_waits(&world.puppets[A], OL_ROLE_WORKER));
	puppet_welcome(&world.puppets[A], OL_ROLE_WORKER, EPOCH, seq);
	until(!link_stat().down);
}

/* Push `nth` of the puppet's story is in weights of that version, and acknowledged */
static void take(unsigned nth, uint64_t version)
{
	struct puppet *a = &world.puppets[A];

	until(a->push_count == nth);
	puppet_publish(a, version, 3.0f, a->pushes[nth - 1].seq);
	puppet_ack(a, OL_ROLE_WORKER, a->pushes[nth - 1].seq, a->pushes[nth - 1].slot, 0);
}

static void a_push_takes_effect_and_is_counted(void **state)
{
	struct ol_op *op = op_map();

	(void)state;
	push(1.0f, op);
	give_up(op);
	assert_int_equal(link_stat().pending, 1);
	take(1, 2);
	until(link_stat().applied == 1);
	assert_int_equal(link_stat().pending, 0);
	assert_int_equal(ol_worker_poll(world.worker), 0); /* no op of a caller's has ended */
}

static void a_push_is_pushed_again_to_a_server_that_comes_back(void **state)
{
	struct ol_op *op = op_map();

	(void)state;
	push(1.0f, op);
	until(world.puppets[A].push_count == 1);
	gone();
	give_up(op);
	back(0);
	take(2, 2);
	until(link_stat().applied == 1);
	assert_int_equal(link_stat().resent, 1);
}

static void a_pull_ends_by_itself_and_the_next_begins_then(void **state)
{
	struct ol_op *first = op_map(), *second = op_map();
	uint64_t version;

	(void)state;
	gone();
	check_ok(ol_pull(world.worker, 0, first));
	give_up(first);
	check_ok(ol_pull(world.worker, 0, second));
	give_up(second);
	puppet_publish(&world.puppets[A], 2, 3.0f, 0);
	back(0);
	pull(OL_PULL_NEWEST);
	assert_true(ol_weights(world.worker, &version)[0] == 3.0f);
	assert_int_equal(version, 2);
}

static void a_flush_is_forgotten_and_can_be_asked_for_again(void **state)
{
	struct ol_op *op = op_map(), push_op, flush = { 0 };

	(void)state;
	push(1.0f, &push_op);
	check_ok(ol_flush(world.worker, op));
	give_up(op);
	check_ok(ol_flush(world.worker, &flush));
	take(1, 2);
	until(flush.done && push_op.done);
	check_ok(flush.status);
	check_ok(push_op.status);
}

static void a_close_ends_the_ops_of_others_only(void **state)
{
	struct ol_op *pushed = op_map(), *pulled = op_map(), *flushed = op_map();
	struct ol_op other;

	(void)state;
	push(1.0f, pushed);
	push(1.0f, &other);
	gone();
	check_ok(ol_pull(world.worker, 0, pulled));
	check_ok(ol_flush(world.worker, flushed));
	give_up(pushed);
	give_up(pulled);
	give_up(flushed);
	assert_false(other.done);
	ol_worker_close(world.worker);
	world.worker = NULL;
	assert_int_equal(other.status, -ECANCELED);
}

static void a_wait_for_a_while_leaves_the_op_in_flight(void **state)
{
	struct ol_op op;

	(void)state;
	push(1.0f, &op);
	assert_int_equal(ol_worker_wait_for(world.worker, &op, GIVE_UP_MS), -EAGAIN);
	assert_false(op.done);
	take(1, 2);
	until(op.done);
	check_ok(op.status);
	assert_int_equal(ol_worker_wait_for(world.worker, &op, GIVE_UP_MS), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_open, world_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_push_takes_effect_and_is_counted),
		TEST(a_push_is_pushed_again_to_a_server_that_comes_back),
		TEST(a_pull_ends_by_itself_and_the_next_begins_then),
		TEST(a_flush_is_forgotten_and_can_be_asked_for_again),
		TEST(a_close_ends_the_ops_of_others_only),
		TEST(a_wait_for_a_while_leaves_the_op_in_flight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
