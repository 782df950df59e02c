/* SPDX-License-Identifier: BSD-3-Clause */

/* answers_test.c -- an answer settles its push once, and a record that is no answer settles none */
#include "unit/worker/worker_util.h"

enum {
	EPOCH = 3,
	WINDOW = 2,
	NOBODYS_SLOT = 40
};

static int world_open(void **unused)
{
	(void)unused;
	world_init();
	world.opts.servers = world.puppets[A].addr;
	world.opts.window = WINDOW;
	world.level = OL_LEVEL_APPLIED;
	puppet_publish(&world.puppets[A], 1, 4.0f, 0);
	open_welcomed(EPOCH);
	check_ok(world.open_rc);
	return 0;
}

static int world_close(void **unused)
{
	(void)unused;
	world_fini();
	return 0;
}

static void ack(const struct puppet_push *push)
{
	puppet_ack(&world.puppets[A], OL_ROLE_WORKER, push->seq, push->slot, 0);
}

static void not_whole(const struct puppet_push *push)
{
	world.puppets[A].torn = true;
	ack(push);
	world.puppets[A].torn = false;
}

static void of_another_epoch(const struct puppet_push *push)
{
	world.puppets[A].sessions[OL_ROLE_WORKER].epoch++;
	ack(push);
	world.puppets[A].sessions[OL_ROLE_WORKER].epoch--;
}

static void of_a_push_before(const struct puppet_push *push)
{
	struct puppet_push before = *push;

	before.seq--;
	ack(&before);
}

static void of_nobodys_slot(const struct puppet_push *push)
{
	struct puppet_push nobodys = *push;

	nobodys.slot = NOBODYS_SLOT;
	ack(&nobodys);
}

static void (*const wrong[])(const struct puppet_push *push) = {
	not_whole,
	of_another_epoch,
	of_a_push_before,
	of_nobodys_slot,
};

enum {
	WRONG = sizeof(wrong) / sizeof(wrong[0])
};

/* Whatever it has said until now, the worker has read: a push that came later is answered */
static void heard(void)
{
	struct puppet *a = &world.puppets[A];
	unsigned before = a->push_count;
	struct ol_op op;

	push(2.0f, &op);
	until(a->push_count == before + 1);
	ack(&a->pushes[before]);
	until(op.done);
	check_ok(op.status);
}

static void what_is_no_answer_settles_nothing(void **unused)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op op;

	(void)unused;
	heard(); /* so that there is a push before */
	push(1.0f, &op);
	until(a->push_count == 2);
	for (unsigned i = 0; i < WRONG; i++) {
		wrong[i](&a->pushes[1]);
		heard();
		assert_false(op.done);
		assert_int_equal(link_stat().applied, 2 + i);
	}
	ack(&a->pushes[1]);
	until(op.done);
	check_ok(op.status);
	assert_int_equal(link_stat().applied, 2 + WRONG);
}

static void an_answer_counts_once(void **unused)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op op;

	(void)unused;
	push(1.0f, &op);
	until(a->push_count == 1);
	for (unsigned i = 0; i < 3; i++)
		ack(&a->pushes[0]);
	until(op.done);
	heard();
	assert_int_equal(link_stat().applied, 2);
	assert_int_equal(link_stat().pending, 0);
}

#define test(name) cmocka_unit_test_setup_teardown(name, world_open, world_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(what_is_no_answer_settles_nothing),
		test(an_answer_counts_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
