/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outage_test.c -- while a worker's server is gone, each gradient waits, is summed up, is dropped or
 * is refused by the options, and is counted in one place
 *
 * The servers A and B are puppets: the test decides what they send, and when. A server is gone until
 * it sends its welcome.
 */

#include <errno.h>
#include <math.h>
#include <string.h>

#include "unit/worker/worker_util.h"
#include "worker/worker_internal.h"

enum {
	EPOCH = 1
};

static int world_open(void **unused)
{
	(void)unused;
	world_init();
	world.opts.servers = world.puppets[A].addr;
	world.opts.outage = OL_OUTAGE_CONTINUE;
	return 0;
}

static int world_close(void **unused)
{
	(void)unused;
	world_fini();
	return 0;
}

/* Open the worker at A, which has weights 4, and pull them */
static void worker_open(void)
{
	puppet_publish(&world.puppets[A], 1, 4.0f, 0);
	open_welcomed(EPOCH);
	check_ok(world.open_rc);
	pull(OL_PULL_NEWEST);
}

static void gone(void)
{
	puppet_cut(&world.puppets[A], OL_ROLE_WORKER);
	until(link_stat().down);
}

/* The server is there again, and has taken worker 0's pushes up to seq */
static void back(unsigned which, uint64_t seq)
{
	until(puppet_waits(&world.puppets[which], OL_ROLE_WORKER));
	puppet_welcome(&world.puppets[which], OL_ROLE_WORKER, EPOCH, seq);
	until(!link_stat().down);
}

static float weight(void)
{
	return ol_weights(world.worker, NULL)[0];
}

static void ack_all(struct puppet *puppet)
{
	for (unsigned i = 0; i < puppet->push_count; i++)
		puppet_ack(puppet, OL_ROLE_WORKER, puppet->pushes[i].seq, puppet->pushes[i].slot,
			   0);
}

/* The newest of what was pushed is acknowledged, and in weights of that version */
static void taken(struct puppet *puppet, uint64_t version)
{
	const struct puppet_push *last = &puppet->pushes[puppet->push_count - 1];
	uint64_t applied = link_stat().applied;

	puppet_publish(puppet, version, 4.0f, last->seq);
	puppet_ack(puppet, OL_ROLE_WORKER, last->seq, last->slot, 0);
	until(link_stat().applied > applied);
}

static void weights_follow_the_own_gradients_until_the_server_is_back(void **state)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op first, second;

	(void)state;
	a->lr = 0.5f;
	world.opts.local_progress = 1;
	worker_open();
	gone();
	push(2.0f, &first);
	assert_true(first.done && first.local);
	assert_true(weight() == 3.0f);
	push(4.0f, &second);
	assert_true(weight() == 1.0f);
	pull(0); /* gives the same: there is nothing newer */
	assert_true(weight() == 1.0f);
	back(A, 0);
	until(a->push_count == 1);
	assert_true(a->pushes[0].value == 6.0f); /* both, summed up */
	assert_true(weight() == 1.0f);
	puppet_publish(a, 2, 2.5f, 1);
	ack_all(a);
	until(link_stat().applied == 2);
	pull(OL_PULL_NEWEST);
	assert_true(weight() == 2.5f); /* the server's again */
}

/* The server comes back for the moment; does the worker offer it the weights that it has read? */
static bool offers_its_mirror(void)
{
	bool offers;

	gone();
	until(puppet_waits(&world.puppets[A], OL_ROLE_WORKER));
	offers = world.puppets[A].sessions[OL_ROLE_WORKER].hello.mirror.bytes != 0;
	back(A, 0);
	return offers;
}

/* Once a server goes on with older weights the newer ones are gone, until others were read */
static void weights_that_were_given_up_are_not_offered_again(void **state)
{
	(void)state;
	worker_open();
	puppet_publish(&world.puppets[A], 5, 4.0f, 0);
	pull(OL_PULL_NEWEST);
	puppet_publish(&world.puppets[A], 1, 4.0f, 0);
	assert_true(offers_its_mirror());
	for (unsigned i = 0; i < 3; i++)
		assert_false(offers_its_mirror());
	pull(OL_PULL_NEWEST);
	assert_true(offers_its_mirror());
}

static void the_oldest_make_room_and_are_counted(void **state)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op ops[3];

	(void)state;
	world.opts.queue = OL_QUEUE_DROP_OLDEST;
	world.opts.queue_max = 2;
	worker_open();
	gone();
	for (unsigned i = 0; i < 3; i++) {
		push((float)(i + 1), &ops[i]);
		assert_true(ops[i].done && ops[i].local);
	}
	assert_int_equal(link_stat().queue_dropped, 1);
	assert_int_equal(link_stat().queued, 2);
	back(A, 0);
	until(a->push_count == 1);
	assert_true(a->pushes[0].value == 2.0f);
	taken(a, 2);
	pull(OL_PULL_NEWEST);
	until(a->push_count == 2);
	assert_true(a->pushes[1].value == 3.0f);
	taken(a, 3);
	assert_int_equal(link_stat().applied, 2);
	assert_int_equal(link_stat().pending, 0);
}

/* What is queued leaves one after the other, each when a pull has brought the one before */
static void two_wait_in_the_queue(void)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op ops[2];

	world.opts.queue = OL_QUEUE_WAIT;
	world.opts.queue_max = 2;
	world.opts.window = 2;
	worker_open();
	gone();
	push(1.0f, &ops[0]);
	push(2.0f, &ops[1]);
	back(A, 0);
	until(a->push_count == 1);
	taken(a, 2);
	assert_true(a->push_count == 1 && link_stat().queued == 1);
}

static void a_wait_pulls_where_only_a_pull_helps(void **state)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op op;

	(void)state;
	two_wait_in_the_queue();
	push(3.0f, &op);
	until(a->push_count == 2);
	assert_true(a->pushes[1].value == 3.0f);
	while (a->push_count < 3) {
		assert_int_equal(ol_worker_wait_for(world.worker, &op, 20), -EAGAIN);
		puppet_poll(a);
	}
	assert_true(a->pushes[2].value == 2.0f);
	assert_int_equal(link_stat().queued, 0);
	puppet_ack(a, OL_ROLE_WORKER, a->pushes[1].seq, a->pushes[1].slot, 0);
	until(op.done);
}

static void a_caller_pulls_while_the_library_does(void **state)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op flush = { 0 }, op = { 0 }, other = { 0 };
	uint64_t version;

	(void)state;
	two_wait_in_the_queue();
	check_ok(ol_flush(world.worker, &flush)); /* it pulls */
	check_ok(ol_pull(world.worker, OL_PULL_NEWEST, &op));
	assert_int_equal(ol_pull(world.worker, OL_PULL_NEWEST, &other), -EBUSY);
	until(op.done);
	check_ok(op.status);
	(void)ol_weights(world.worker, &version);
	assert_int_equal(version, 2);
	until(a->push_count == 2);
	taken(a, 3);
	until(flush.done);
}

static void a_buffer_that_only_a_pull_frees_is_said_to_be(void **state)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op op;
	float *grad;

	(void)state;
	two_wait_in_the_queue();
	push(3.0f, &op); /* in one of two; the other is for the time of an outage */
	until(a->push_count == 2);
	assert_int_equal(ol_grad_try_acquire(world.worker, &grad), -ENOBUFS);
	puppet_publish(a, 3, 4.0f, 1);
	pull(OL_PULL_NEWEST);
	until(a->push_count == 3);
	/* now time does: an ack comes */
	assert_int_equal(ol_grad_try_acquire(world.worker, &grad), -EAGAIN);
	puppet_ack(a, OL_ROLE_WORKER, a->pushes[1].seq, a->pushes[1].slot, 0);
	until(op.done);
	assert_int_equal(ol_grad_try_acquire(world.worker, &grad), -ENOBUFS);
}

static void who_withdraws_says_so_once_a_push(void **state)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op op;

	(void)state;
	worker_open();
	check_ok(ol_withdraw(world.worker));
	check_ok(ol_withdraw(world.worker));
	until(a->withdrawals == 1);
	push(1.0f, &op);
	check_ok(ol_withdraw(world.worker));
	until(a->push_count == 1 && a->withdrawals == 2);
	gone();
	check_ok(ol_withdraw(world.worker)); /* nobody is there to hear it */
	back(A, 0);
	until(a->push_count == 2); /* pushed again, and held again */
	assert_int_equal(a->withdrawals, 2);
	check_ok(ol_withdraw(world.worker));
	until(a->withdrawals == 3);
}

/* What a shard is offered that comes back is the copy of the last pull that it was there for */
static void a_mirror_says_whose_history_a_shard_is_that_was_gone(void **state)
{
	struct puppet *a = &world.puppets[A], *b = &world.puppets[B];
	uint64_t whole;
	const struct ol_hello *hello = &b->sessions[OL_ROLE_WORKER].hello;

	(void)state;
	two_shards_open(EPOCH);
	puppet_publish(a, 1, 4.0f, 0);
	puppet_publish(b, 1, 4.0f, 0);
	pull(OL_PULL_NEWEST);
	b->foreign = true; /* so that it is not asked again at once */
	puppet_cut(b, OL_ROLE_WORKER);
	until(stage_stat(world.worker, B).down);
	for (unsigned version = 2; version < 5; version++) { /* into each mirror */
		puppet_publish(a, version, 4.0f, 0);
		pull(OL_PULL_NEWEST);
	}
	(void)ol_weights(world.worker, &whole);
	assert_int_equal(whole, 1); /* that every shard has */
	b->foreign = false;
	until(puppet_waits(b, OL_ROLE_WORKER));
	assert_true(hello->mirror.bytes != 0);
	assert_int_equal(hello->mirror_version, 1);
	assert_int_equal(hello->mirror_epoch, EPOCH);
	assert_int_equal(hello->mirror_history, b->id);
}

static void answer(struct puppet *puppet, unsigned push, int status)
{
	until(puppet->push_count > push);
	puppet_ack(puppet, OL_ROLE_WORKER, puppet->pushes[push].seq, puppet->pushes[push].slot,
		   status);
}

/* A pull brings the weights of the shards that are there; of the others the own ones stay */
static void own_weights_stay_where_the_server_is_gone(void **state)
{
	struct puppet *a = &world.puppets[A], *b = &world.puppets[B];
	const float *weights;
	struct ol_op op;

	(void)state;
	world.opts.local_progress = 1;
	a->lr = b->lr = 0.5f;
	two_shards_open(EPOCH);
	puppet_publish(a, 1, 4.0f, 0);
	puppet_publish(b, 1, 4.0f, 0);
	pull(OL_PULL_NEWEST);
	a->foreign = true;
	puppet_cut(a, OL_ROLE_WORKER);
	until(stage_stat(world.worker, A).down);
	push(2.0f, &op);
	answer(b, 0, 0);
	until(op.done);
	assert_true(op.local);
	puppet_publish(b, 2, 7.0f, 1);
	pull(OL_PULL_NEWEST);
	weights = ol_weights(world.worker, NULL);
	assert_true(weights[0] == 3.0f);
	assert_true(weights[OL_SHARD_ALIGN] == 7.0f);
}

static void what_one_shard_dropped_is_withdrawn_where_it_holds_the_last_buffer(void **state)
{
	struct puppet *a = &world.puppets[A], *b = &world.puppets[B];
	struct ol_op first, second;
	float *grad;

	(void)state;
	world.opts.outage = OL_OUTAGE_WAIT;
	world.opts.window = 2;
	two_shards_open(EPOCH);
	push(1.0f, &first);
	push(2.0f, &second);
	answer(a, 1, OL_E_LATE);
	until(second.done);
	assert_int_equal(second.status, OL_E_LATE);
	/* the caller waits for the first: what frees that is not its end */
	assert_int_equal(ol_grad_try_acquire(world.worker, &grad), -EAGAIN);
	answer(a, 0, OL_E_LATE);
	until(first.done);
	assert_int_equal(a->withdrawals + b->withdrawals, 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(ol_grad_try_acquire(world.worker, &grad), -EAGAIN);
	until(b->withdrawals == 1);
	answer(b, 1, OL_E_LATE);
	until(ol_grad_try_acquire(world.worker, &grad) == 0);
	assert_int_equal(b->withdrawals, 1);
	assert_int_equal(stage_stat(world.worker, 0).late, 2);
	assert_int_equal(stage_stat(world.worker, 1).late, 1);
}

static void with_a_buffer_more_nothing_is_withdrawn(void **state)
{
	struct puppet *a = &world.puppets[A], *b = &world.puppets[B];
	struct ol_op ops[2];
	float *grad;

	(void)state;
	world.opts.window = 2;
	two_shards_open(EPOCH);
	for (unsigned i = 0; i < 2; i++) {
		push(1.0f, &ops[i]);
		answer(a, i, OL_E_LATE);
		until(ops[i].done);
		assert_int_equal(ops[i].status, OL_E_LATE);
	}
	until(b->push_count == 2);
	for (unsigned i = 0; i < 3; i++) {
		if (ol_grad_try_acquire(world.worker, &grad) == 0)
			check_ok(ol_grad_release(world.worker, grad));
		step();
	}
	assert_int_equal(a->withdrawals + b->withdrawals, 0);
}

/* The server of a shard dies, and is there again with a version that has pushes up to seq */
static void comes_back(unsigned which, uint64_t version, uint64_t seq)
{
	struct puppet *puppet = &world.puppets[which];

	puppet_cut(puppet, OL_ROLE_WORKER);
	until(stage_stat(world.worker, which).down);
	puppet_publish(puppet, version, 4.0f, seq);
	until(puppet_waits(puppet, OL_ROLE_WORKER));
	puppet_welcome(puppet, OL_ROLE_WORKER, EPOCH, seq);
	until(!stage_stat(world.worker, which).down);
}

static void a_pull_does_not_wait_for_what_another_shard_has_dropped(void **state)
{
	struct puppet *a = &world.puppets[A], *b = &world.puppets[B];
	struct ol_op first, second, weights = { 0 };

	(void)state;
	world.opts.outage = OL_OUTAGE_WAIT;
	two_shards_open(EPOCH);
	push(1.0f, &first);
	push(2.0f, &second);
	until(a->push_count == 2 && b->push_count == 2);
	answer(b, 0, 0);
	answer(b, 1, 0);
	until(stage_stat(world.worker, 1).applied == 2);
	answer(a, 1, OL_E_LATE);
	until(second.done);
	comes_back(B, 0, 0); /* both are pushed again, and held */
	check_ok(ol_pull(world.worker, 0, &weights));
	until(b->push_count == 4);
	assert_int_equal(b->withdrawals, 0); /* the caller waits for the first */
	answer(a, 0, OL_E_LATE);
	until(b->withdrawals == 1);
	assert_false(weights.done);
	answer(b, 2, OL_E_LATE);
	answer(b, 3, OL_E_LATE);
	until(weights.done);
	check_ok(weights.status);
	assert_int_equal(b->withdrawals, 1);
	assert_int_equal(stage_stat(world.worker, 1).late, 0);
	assert_int_equal(stage_stat(world.worker, 1).lost,
			 2); /* its caller was told that they are applied */
}

static void a_pull_does_not_wait_for_what_was_never_applied(void **state)
{
	struct puppet *b = &world.puppets[B];
	static struct ol_op first, weights; /* the first is in flight when the worker is closed */

	(void)state;
	world.opts.outage = OL_OUTAGE_WAIT;
	two_shards_open(EPOCH);
	push(1.0f, &first);
	until(b->push_count == 1);
	comes_back(B, 0, 0);
	until(b->push_count == 2); /* and held: its step waits for others */
	check_ok(ol_pull(world.worker, 0, &weights));
	until(weights.done);
	check_ok(weights.status);
	assert_int_equal(b->withdrawals, 0);
	assert_false(first.done);
}

static void a_push_that_one_shard_loses_is_done(void **state)
{
	struct puppet *a = &world.puppets[A], *b = &world.puppets[B];
	struct ol_op op;

	(void)state;
	world.opts.outage = OL_OUTAGE_WAIT;
	two_shards_open(EPOCH);
	push(1.0f, &op);
	until(a->push_count == 1 && b->push_count == 1);
	puppet_publish(a, 1, 4.0f, 1);
	answer(a, 0, 0);
	until(stage_stat(world.worker, 0).applied == 1);
	pull(OL_PULL_NEWEST); /* from here on the mirror alone has it */
	assert_false(op.done);
	comes_back(A, 0, 0);
	until(op.done);
	assert_int_equal(op.status, OL_E_LOST);
	assert_int_equal(stage_stat(world.worker, 0).lost, 1);
	assert_int_equal(stage_stat(world.worker, 1).pending, 1);
}

static void a_queue_that_is_full_keeps_a_push_waiting(void **state)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op first, second;

	(void)state;
	world.opts.queue = OL_QUEUE_WAIT;
	world.opts.queue_max = 1;
	worker_open();
	gone();
	push(1.0f, &first);
	assert_true(first.done && first.local);
	push(2.0f, &second);
	assert_false(second.done);
	assert_int_equal(link_stat().queued, 1);
	assert_int_equal(link_stat().pending, 2);
	back(A, 0);
	until(a->push_count == 1); /* what has a buffer goes first, the queue when it is resolved */
	assert_true(a->pushes[0].value == 2.0f);
	ack_all(a);
	until(second.done);
	until(a->push_count == 2);
	puppet_ack(a, OL_ROLE_WORKER, a->pushes[1].seq, a->pushes[1].slot, 0);
	until(link_stat().applied == 2);
	assert_int_equal(second.status, 0);
	assert_int_equal(link_stat().applied, 2);
}

static void what_no_server_would_take_is_not_queued(void **state)
{
	struct ol_op op;

	(void)state;
	worker_open();
	gone();
	push(NAN, &op);
	assert_true(op.done);
	assert_int_equal(op.status, OL_E_NONFINITE);
	push(INFINITY, &op);
	assert_int_equal(op.status, OL_E_NONFINITE);
	assert_int_equal(link_stat().nonfinite, 2);
	assert_int_equal(link_stat().queued, 0);
}

static void what_a_job_allows_is_queued(void **state)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op op;

	(void)state;
	a->nonfinite = 1;
	worker_open();
	gone();
	push(INFINITY, &op);
	assert_int_equal(op.status, 0);
	assert_int_equal(link_stat().queued, 1);
	back(A, 0);
	until(a->push_count == 1);
	assert_true(isinf(a->pushes[0].value));
}

static void a_flush_is_one_at_a_time_and_waits_for_the_server(void **state)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op op, flush = { 0 }, other = { 0 };

	(void)state;
	worker_open();
	check_ok(ol_flush(world.worker, &flush));
	assert_true(flush.done); /* there was nothing */
	gone();
	push(1.0f, &op);
	check_ok(ol_flush(world.worker, &flush));
	assert_int_equal(ol_flush(world.worker, &other), -EBUSY);
	assert_false(flush.done);
	back(A, 0);
	until(a->push_count == 1);
	assert_false(flush.done);
	ack_all(a);
	until(flush.done);
	assert_int_equal(flush.status, 0);
}

static void a_server_may_come_back_elsewhere(void **state)
{
	struct puppet *a = &world.puppets[A], *b = &world.puppets[B];
	char long_addr[OL_XPORT_ADDR_MAX + 1];
	struct ol_op op;

	(void)state;
	worker_open();
	memset(long_addr, 'x', sizeof(long_addr) - 1);
	long_addr[sizeof(long_addr) - 1] = '\0';
	assert_int_equal(ol_worker_redirect(world.worker, 0, long_addr), -EINVAL);
	assert_int_equal(ol_worker_redirect(world.worker, 0, ""), -EINVAL);
	assert_int_equal(ol_worker_redirect(world.worker, 0, "junk"), -EINVAL);
	assert_int_equal(ol_worker_redirect(world.worker, 0, "@"), -EINVAL);
	assert_int_equal(ol_worker_redirect(world.worker, 0, "@a,@b"), -EINVAL);
	assert_int_equal(ol_worker_redirect(world.worker, 0, "@a|"), -EINVAL);
	assert_int_equal(ol_worker_redirect(world.worker, 0, "10.0.0.1:7471"), -EINVAL);
	assert_int_equal(ol_worker_redirect(world.worker, 1, b->addr), -EINVAL);
	assert_true(puppet_connected(a, OL_ROLE_WORKER));
	check_ok(ol_worker_redirect(world.worker, 0, b->addr));
	push(1.0f, &op);
	assert_true(op.done && op.local);
	puppet_publish(b, 1, 4.0f, 0);
	back(B, 0);
	until(b->push_count == 1);
	until(!puppet_connected(a, OL_ROLE_WORKER));
	assert_int_equal(a->push_count, 0);
	assert_int_equal(link_stat().outages, 1);
}

static void a_server_that_does_not_come_back_in_time_ends_it(void **state)
{
	struct ol_link_stat none;
	struct ol_op op = { 0 };
	float *grad;

	(void)state;
	world.opts.outage_timeout_ms = 1;
	worker_open();
	gone();
	until(ol_grad_try_acquire(world.worker, &grad) == OL_E_NO_SERVER);
	assert_int_equal(ol_flush(world.worker, &op), OL_E_NO_SERVER);
	assert_int_equal(ol_worker_redirect(world.worker, 0, world.puppets[B].addr),
			 OL_E_NO_SERVER);
	assert_string_equal(ol_link_head(&world.worker->links[0])->addrs, world.puppets[A].addr);
	assert_int_equal(ol_link_get_stat(world.worker, 1, &none), -EINVAL);
}

static void who_ends_with_its_server_is_not_sent_elsewhere(void **state)
{
	(void)state;
	world.opts.outage = OL_OUTAGE_END;
	worker_open();
	assert_int_equal(ol_worker_redirect(world.worker, 0, world.puppets[B].addr), -EPERM);
}

#define test(name) cmocka_unit_test_setup_teardown(name, world_open, world_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(weights_follow_the_own_gradients_until_the_server_is_back),
		test(weights_that_were_given_up_are_not_offered_again),
		test(the_oldest_make_room_and_are_counted),
		test(a_queue_that_is_full_keeps_a_push_waiting),
		test(a_wait_pulls_where_only_a_pull_helps),
		test(a_caller_pulls_while_the_library_does),
		test(a_buffer_that_only_a_pull_frees_is_said_to_be),
		test(who_withdraws_says_so_once_a_push),
		test(a_mirror_says_whose_history_a_shard_is_that_was_gone),
		test(own_weights_stay_where_the_server_is_gone),
		test(what_one_shard_dropped_is_withdrawn_where_it_holds_the_last_buffer),
		test(with_a_buffer_more_nothing_is_withdrawn),
		test(a_pull_does_not_wait_for_what_another_shard_has_dropped),
		test(a_pull_does_not_wait_for_what_was_never_applied),
		test(a_push_that_one_shard_loses_is_done),
		test(what_no_server_would_take_is_not_queued),
		test(what_a_job_allows_is_queued),
		test(a_flush_is_one_at_a_time_and_waits_for_the_server),
		test(a_server_may_come_back_elsewhere),
		test(a_server_that_does_not_come_back_in_time_ends_it),
		test(who_ends_with_its_server_is_not_sent_elsewhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
