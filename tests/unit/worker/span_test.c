/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * span_test.c -- a push or a pull of a span touches its shards and no other one, and what is kept,
 * queued, finite or lost is asked of each shard by itself
 *
 * The servers A and B are puppets, of a shard each: the test decides what they send, and when.
 */

#include <errno.h>
#include <math.h>
#include <string.h>

#include "outlast_span.h"
#include "rdma/order.h"
#include "unit/worker/worker_util.h"
#include "wire/bounds.h"
#include "worker/worker_internal.h"

enum {
	EPOCH = 1,
	FIRST_B = OL_SHARD_ALIGN,
	PARAMS = FIRST_B + PUPPET_LEN,
	LONG = 2 * OL_PART_FLOATS /* floats of a shard that is sent in parts */
};

static int world_open(void **unused)
{
	(void)unused;
	world_init();
	world.opts.outage = OL_OUTAGE_WAIT;
	return 0;
}

static int world_close(void **unused)
{
	(void)unused;
	world_fini();
	return 0;
}

static struct ol_shard_info shard(uint32_t which)
{
	struct ol_shard_info info;

	check_ok(ol_shard_info(world.worker, which, &info));
	return info;
}

/* Open the worker at A and B, which have weights 4, and pull them */
static void worker_open(void)
{
	two_shards_open(EPOCH);
	puppet_publish(&world.puppets[A], 1, 4.0f, 0);
	puppet_publish(&world.puppets[B], 1, 4.0f, 0);
	pull(OL_PULL_NEWEST);
}

static struct ol_push_info info_of(uint32_t which)
{
	return (struct ol_push_info){ .samples = 1, .base_version = shard(which).version };
}

/* Start a push of one shard: all `value`, and NaN everywhere else */
static void push_shard(uint32_t which, float value, struct ol_op *op)
{
	const struct ol_push_info info = info_of(which);
	const struct ol_shard_info place = shard(which);
	float *grad;

	*op = (struct ol_op){ 0 };
	check_ok(ol_grad_try_acquire(world.worker, &grad));
	for (uint64_t i = 0; i < PARAMS; i++)
		grad[i] = i >= place.first && i < place.first + place.count ? value : NAN;
	check_ok(ol_push_span(world.worker, grad, place.first, place.count, &info, op));
}

static void answer(uint32_t which, unsigned push, int status)
{
	struct puppet *puppet = &world.puppets[which];

	until(puppet->push_count > push);
	puppet_ack(puppet, OL_ROLE_WORKER, puppet->pushes[push].seq, puppet->pushes[push].slot,
		   status);
}

static int pull_shard(uint32_t which, unsigned flags, struct ol_op *op)
{
	*op = (struct ol_op){ 0 };
	return ol_pull_span(world.worker, flags, shard(which).first, shard(which).count, op);
}

/* Its status */
static int pulled(uint32_t which, unsigned flags)
{
	static struct ol_op op;

	check_ok(pull_shard(which, flags, &op));
	until(op.done);
	return op.status;
}

static float weight(uint32_t which)
{
	return ol_weights(world.worker, NULL)[shard(which).first];
}

static void lost(uint32_t which)
{
	world.puppets[which].foreign = true; /* so that it is not asked again at once */
	puppet_cut(&world.puppets[which], OL_ROLE_WORKER);
	until(stage_stat(world.worker, which).down);
}

/* The server is there again, and has pushes up to seq */
static void back(uint32_t which, uint64_t seq)
{
	struct puppet *puppet = &world.puppets[which];

	puppet->foreign = false;
	until(puppet_waits(puppet, OL_ROLE_WORKER));
	puppet_welcome(puppet, OL_ROLE_WORKER, EPOCH, seq);
	until(!stage_stat(world.worker, which).down);
}

static void a_span_is_made_of_whole_shards(void **state)
{
	static const uint64_t wrong[][2] = { { 0, 0 },
					     { 0, 1 },
					     { 1, FIRST_B },
					     { 0, FIRST_B + 1 },
					     { FIRST_B, 1 },
					     { FIRST_B, PUPPET_LEN + 1 },
					     { PARAMS, 1 },
					     { FIRST_B, UINT64_MAX },
					     { UINT64_MAX, 1 + FIRST_B } };
	struct ol_push_info info = { .samples = 1 };
	struct ol_shard_info none;
	static struct ol_op op = { 0 };
	float *grad;

	(void)state;
	worker_open();
	assert_int_equal(shard(A).first, 0);
	assert_int_equal(shard(A).count, FIRST_B);
	assert_int_equal(shard(B).first, FIRST_B);
	assert_int_equal(shard(B).count, PUPPET_LEN);
	assert_int_equal(ol_shard_info(world.worker, 2, &none), -EINVAL);
	info.base_version = 1;
	check_ok(ol_grad_try_acquire(world.worker, &grad));
	memset(grad, 0, PARAMS * sizeof(*grad));
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(
			ol_push_span(world.worker, grad, wrong[i][0], wrong[i][1], &info, &op),
			-EINVAL);
		assert_int_equal(ol_pull_span(world.worker, 0, wrong[i][0], wrong[i][1], &op),
				 -EINVAL);
	}
	info.base_version = OL_VERSION_MAX + 1;
	assert_int_equal(ol_push_span(world.worker, grad, FIRST_B, PUPPET_LEN, &info, &op),
			 -EINVAL);
	info.base_version = 1;
	check_ok(ol_push_span(world.worker, grad, 0, PARAMS, &info, &op)); /* it is still lent */
	answer(A, 0, 0);
	answer(B, 0, 0);
	until(op.done);
	check_ok(op.status);
}

static void a_push_of_a_span_leaves_the_other_shard_alone(void **state)
{
	struct puppet *a = &world.puppets[A], *b = &world.puppets[B];
	static struct ol_op op;

	(void)state;
	worker_open();
	puppet_publish(a, 7, 4.0f, 0);
	(void)ol_newest(world.worker);
	until(shard(A).newest == 7);
	push_shard(B, 2.0f, &op);
	until(b->push_count == 1);
	assert_true(b->pushes[0].value == 2.0f);
	puppet_publish(b, 3, 4.0f, 1);
	answer(B, 0, 0);
	until(op.done);
	check_ok(op.status);
	assert_int_equal(op.version, 3); /* of B, which is the first shard of this span */
	assert_int_equal(a->push_count, 0);
	assert_int_equal(stage_stat(world.worker, A).pushed, 0);
	assert_int_equal(stage_stat(world.worker, B).applied, 1);
	push_shard(A, 5.0f, &op);
	answer(A, 0, 0);
	until(op.done);
	assert_int_equal(a->pushes[0].seq, 1);
	assert_int_equal(op.version, 7);
	assert_int_equal(b->push_count, 1);
}

static void the_span_alone_is_to_be_finite(void **state)
{
	const uint64_t bases[] = { 1, 1 };
	const struct ol_push_info info = { .samples = 1, .base_versions = bases };
	static struct ol_op op = { 0 };
	float *grad;

	(void)state;
	worker_open();
	push_shard(A, NAN, &op);
	answer(A, 0, OL_E_NONFINITE); /* its header came, and says so */
	until(op.done);
	assert_int_equal(op.status, OL_E_NONFINITE);
	assert_true(ol_worker_hdr(world.worker, 0, A)->flags & OL_PUSH_VOID);
	/* what was announced is looked at as a whole: it does not count for a span */
	check_ok(ol_grad_try_acquire(world.worker, &grad));
	memset(grad, 0, PARAMS * sizeof(*grad));
	grad[FIRST_B] = NAN;
	check_ok(ol_grad_ready(world.worker, grad, 1));
	check_ok(ol_push_span(world.worker, grad, 0, FIRST_B, &info, &op));
	until(world.puppets[A].push_count == 2);
	assert_false(ol_worker_hdr(world.worker, 0, A)->flags & OL_PUSH_VOID);
}

/* Two pulls have the same shard furthest behind, and another version of the other one */
static void the_base_of_a_span_is_that_of_its_shards(void **state)
{
	struct puppet *a = &world.puppets[A], *b = &world.puppets[B];
	const uint64_t bases[] = { 1, 1 };
	struct ol_push_info info = { .samples = 1, .base_version = 1 };
	static struct ol_op ops[4] = { 0 };
	uint64_t whole;
	float *grad;

	(void)state;
	worker_open();
	for (uint64_t version = 5; version < 8; version++) { /* older than any mirror: B's push */
		puppet_publish(a, version, 4.0f, 0);
		check_ok(pulled(A, OL_PULL_NEWEST));
	}
	(void)ol_weights(world.worker, &whole);
	assert_int_equal(whole, 1);
	assert_int_equal(shard(A).version, 7);
	assert_int_equal(shard(B).version, 1);
	push_shard(A, 1.0f, &ops[0]);
	until(a->push_count == 1);
	assert_int_equal(a->pushes[0].base_version, 7);
	/* computed at the first weights, which no mirror has any more */
	check_ok(ol_grad_try_acquire(world.worker, &grad));
	memset(grad, 0, PARAMS * sizeof(*grad));
	check_ok(ol_push_span(world.worker, grad, 0, FIRST_B, &info, &ops[1]));
	until(a->push_count == 2);
	assert_int_equal(a->pushes[1].base_version, 1);
	/* one number would name A's 7; so said they are as they were */
	check_ok(ol_grad_try_acquire(world.worker, &grad));
	memset(grad, 0, PARAMS * sizeof(*grad));
	info.base_versions = bases;
	check_ok(ol_push(world.worker, grad, &info, &ops[2]));
	until(a->push_count == 3 && b->push_count == 1);
	assert_int_equal(a->pushes[2].base_version, 1);
	assert_int_equal(b->pushes[0].base_version, 1);
	info.base_versions = NULL;
	check_ok(ol_grad_try_acquire(world.worker, &grad));
	memset(grad, 0, PARAMS * sizeof(*grad));
	check_ok(ol_push(world.worker, grad, &info, &ops[3]));
	until(a->push_count == 4 && b->push_count == 2);
	assert_int_equal(a->pushes[3].base_version, 7); /* as of the last pull */
	assert_int_equal(b->pushes[1].base_version, 1);
}

static void a_pull_of_a_span_reads_it_alone(void **state)
{
	struct puppet *a = &world.puppets[A], *b = &world.puppets[B];
	uint64_t whole;
	static struct ol_op op;

	(void)state;
	two_shards_open(EPOCH);
	puppet_publish(a, 1, 4.0f, 0);
	puppet_publish(b, 1, 4.0f, 0);
	assert_int_equal(pull_shard(A, 0, &op), -ENODATA);
	pull(OL_PULL_NEWEST);
	puppet_publish(a, 3, 5.0f, 0);
	puppet_publish(b, 2, 6.0f, 0);
	check_ok(pull_shard(A, OL_PULL_NEWEST, &op));
	assert_int_equal(pull_shard(B, 0, &op), -EBUSY);
	until(op.done);
	assert_int_equal(op.version, 3);
	assert_true(weight(A) == 5.0f && weight(B) == 4.0f);
	(void)ol_weights(world.worker, &whole);
	assert_int_equal(whole, 1);
	for (unsigned i = 0; i < 12; i++) { /* in every order, into each mirror */
		struct puppet *puppet = i * i % 5 < 2 ? a : b;
		uint32_t which = puppet == a ? A : B, other = puppet == a ? B : A;
		float stays = weight(other);

		puppet_publish(puppet, puppet->version + 1, 10.0f + (float)i, 0);
		check_ok(pulled(which, OL_PULL_NEWEST));
		assert_true(weight(which) == 10.0f + (float)i);
		assert_true(weight(other) == stays);
		assert_int_equal(shard(which).version, puppet->version);
	}
	assert_int_equal(a->version + b->version, 3 + 2 + 12);
}

/* What a read that was torn has left of a shard is not taken for its last weights */
static void a_pull_that_failed_leaves_nothing_in_the_next_one(void **state)
{
	struct puppet *b = &world.puppets[B];
	struct ol_board *board;
	static struct ol_op op = { 0 };

	(void)state;
	world.opts.pull_retries_max = 0;
	worker_open();
	puppet_publish(b, 2, 9.0f, 0);
	(void)ol_newest(world.worker);
	until(shard(B).newest == 2);
	board = b->memory->addr;
	ol_word_store(&board->line.begin[2], 4); /* it is overwritten by the next one */
	check_ok(ol_pull(world.worker, 0, &op));
	until(op.done);
	assert_int_equal(op.status, OL_E_TORN);
	assert_true(weight(B) == 4.0f);
	check_ok(pulled(A, 0));
	assert_true(weight(B) == 4.0f);
	assert_int_equal(shard(B).version, 1);
}

static void a_server_of_another_shard_delays_no_pull(void **state)
{
	static struct ol_op op;

	(void)state;
	worker_open();
	lost(B);
	puppet_publish(&world.puppets[A], 2, 5.0f, 0);
	check_ok(pulled(A, OL_PULL_NEWEST));
	assert_true(weight(A) == 5.0f && weight(B) == 4.0f);
	check_ok(pull_shard(B, 0, &op));
	for (unsigned i = 0; i < 100; i++)
		step();
	assert_false(op.done);
	puppet_publish(&world.puppets[B], 2, 6.0f, 0);
	back(B, 0);
	until(op.done);
	check_ok(op.status);
	assert_true(weight(B) == 6.0f);
	lost(A);
	check_ok(pull_shard(A, 0, &op));
	lost(B); /* in a pull that does not read it */
	back(A, 0);
	until(op.done);
	check_ok(op.status);
}

static void only_the_span_must_not_go_back(void **state)
{
	(void)state;
	worker_open();
	puppet_publish(&world.puppets[A], 5, 5.0f, 0);
	check_ok(pulled(A, OL_PULL_NEWEST));
	lost(A);
	puppet_publish(&world.puppets[A], 3, 3.0f, 0);
	back(A, 0);
	check_ok(pulled(B, OL_PULL_NEWEST | OL_PULL_FORWARD));
	assert_int_equal(pulled(A, OL_PULL_NEWEST | OL_PULL_FORWARD), OL_E_HISTORY);
	assert_true(weight(A) == 5.0f);
	check_ok(pulled(A, OL_PULL_NEWEST));
	assert_true(weight(A) == 3.0f);
}

static void a_push_is_kept_until_its_span_was_pulled(void **state)
{
	static struct ol_op op;
	float *grad;

	(void)state;
	world.opts.window = 1;
	worker_open();
	push_shard(A, 1.0f, &op);
	until(world.puppets[A].push_count == 1);
	puppet_publish(&world.puppets[A], 2, 5.0f, 1);
	answer(A, 0, 0);
	until(op.done);
	assert_int_equal(ol_grad_try_acquire(world.worker, &grad), -ENOBUFS);
	check_ok(pulled(B, OL_PULL_NEWEST));
	assert_int_equal(ol_grad_try_acquire(world.worker, &grad), -ENOBUFS);
	check_ok(pulled(A, 0));
	check_ok(ol_grad_try_acquire(world.worker, &grad));
}

/* The mirror has a push of a history that was given up; in the present one it was made again since */
static void old_weights_that_stay_free_no_buffer(void **state)
{
	static struct ol_op op;
	float *grad;

	(void)state;
	world.opts.window = 1;
	worker_open();
	push_shard(A, 1.0f, &op);
	until(world.puppets[A].push_count == 1);
	puppet_publish(&world.puppets[A], 2, 5.0f, 1);
	check_ok(pulled(A, OL_PULL_NEWEST)); /* before it is acknowledged */
	lost(A);
	puppet_publish(&world.puppets[A], 2, 4.0f, 0); /* with another worker's in its place */
	back(A, 0);
	answer(A, 1, 0); /* pushed again */
	until(op.done);
	check_ok(pulled(B, 0));
	assert_int_equal(ol_grad_try_acquire(world.worker, &grad), -ENOBUFS);
	puppet_publish(&world.puppets[A], 3, 5.0f, 1);
	check_ok(pulled(A, OL_PULL_NEWEST));
	check_ok(ol_grad_try_acquire(world.worker, &grad));
}

static void a_loss_at_another_shard_ends_no_push_of_a_span(void **state)
{
	static struct ol_op whole, op;

	(void)state;
	world.opts.window = 1;
	worker_open();
	push(1.0f, &whole);
	until(world.puppets[A].push_count == 1 && world.puppets[B].push_count == 1);
	puppet_publish(&world.puppets[A], 2, 5.0f, 1);
	puppet_publish(&world.puppets[B], 2, 5.0f, 1);
	answer(A, 0, 0);
	answer(B, 0, 0);
	until(whole.done);
	pull(OL_PULL_NEWEST); /* from here on the mirror alone has it */
	push_shard(B, 1.0f, &op); /* in the same buffer */
	until(world.puppets[B].push_count == 2);
	lost(A);
	puppet_publish(&world.puppets[A], 0, 4.0f, 0);
	back(A, 0);
	assert_int_equal(stage_stat(world.worker, A).lost, 1);
	assert_false(op.done);
	answer(B, 1, 0);
	until(op.done);
	check_ok(op.status);
}

static void a_span_waits_in_its_own_queue(void **state)
{
	static struct ol_op op;

	(void)state;
	world.opts.outage = OL_OUTAGE_CONTINUE;
	world.opts.local_progress = 1;
	world.puppets[A].lr = world.puppets[B].lr = 0.5f;
	worker_open();
	lost(A);
	push_shard(A, 2.0f, &op);
	assert_true(op.done && op.local);
	assert_int_equal(stage_stat(world.worker, A).queued, 1);
	assert_int_equal(stage_stat(world.worker, B).pushed, 0);
	assert_true(weight(A) == 3.0f && weight(B) == 4.0f);
	puppet_publish(&world.puppets[B], 2, 7.0f, 0);
	check_ok(pulled(B, OL_PULL_NEWEST));
	assert_true(weight(A) == 3.0f && weight(B) == 7.0f);
	check_ok(pulled(A, 0)); /* there are no others */
	assert_true(weight(A) == 3.0f && weight(B) == 7.0f);
	back(A, 0);
	puppet_publish(&world.puppets[A], 2, 3.5f, 1);
	answer(A, 0, 0); /* the queue has left */
	until(stage_stat(world.worker, A).applied == 1);
	puppet_publish(&world.puppets[B], 3, 8.0f, 0);
	check_ok(pulled(B, OL_PULL_NEWEST));
	assert_true(weight(A) == 3.0f && weight(B) == 8.0f); /* not yet those from before */
	check_ok(pulled(A, OL_PULL_NEWEST));
	assert_true(weight(A) == 3.5f && weight(B) == 8.0f);
}

static void parts_of_other_shards_are_taken_back(void **state)
{
	static const uint64_t first[] = { 0, LONG };
	static char servers[2 * OL_XPORT_ADDR_MAX];
	struct puppet *a = &world.puppets[A], *b = &world.puppets[B];
	struct ol_push_info info = { .samples = 1 };
	static struct ol_op op = { 0 };
	float *grad;

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		struct ol_geometry *geo = &world.puppets[i].geo;

		puppet_size(&world.puppets[i], LONG);
		geo->param_count = 2 * LONG;
		geo->shard = i;
		geo->shard_count = 2;
		geo->shard_first = first[i];
	}
	snprintf(servers, sizeof(servers), "%s,%s", a->addr, b->addr);
	world.opts.servers = servers;
	open_welcomed(EPOCH);
	check_ok(world.open_rc);
	check_ok(ol_grad_try_acquire(world.worker, &grad));
	memset(grad, 0, 2 * LONG * sizeof(*grad));
	check_ok(ol_grad_ready(world.worker, grad, OL_PART_FLOATS)); /* half of A, all of B */
	until(a->parts == 1);
	assert_int_equal(a->part_first, OL_PART_FLOATS);
	check_ok(ol_push_span(world.worker, grad, LONG, LONG, &info, &op));
	until(a->parts == 2 && b->push_count == 1);
	assert_int_equal(a->part_first, ol_part_first(ol_part_make(0, OL_PART_CANCEL)));
	assert_int_equal(a->push_count, 0);
}

static void what_is_left_over_of_other_shards_stays(void **state)
{
	float before[PARAMS];
	static struct ol_op op;

	(void)state;
	world.opts.gradient_format = OL_FORMAT_INT8;
	worker_open();
	for (uint64_t i = 0; i < PARAMS; i++)
		world.worker->residual[i] = before[i] = 0.25f;
	push_shard(B, 3.0f, &op);
	assert_memory_equal(world.worker->residual, before, FIRST_B * sizeof(float));
	assert_true(world.worker->residual[FIRST_B] != before[FIRST_B]);
}

#define test(name) cmocka_unit_test_setup_teardown(name, world_open, world_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(a_span_is_made_of_whole_shards),
		test(a_push_of_a_span_leaves_the_other_shard_alone),
		test(the_span_alone_is_to_be_finite),
		test(the_base_of_a_span_is_that_of_its_shards),
		test(a_pull_of_a_span_reads_it_alone),
		test(a_pull_that_failed_leaves_nothing_in_the_next_one),
		test(a_server_of_another_shard_delays_no_pull),
		test(only_the_span_must_not_go_back),
		test(a_push_is_kept_until_its_span_was_pulled),
		test(old_weights_that_stay_free_no_buffer),
		test(a_loss_at_another_shard_ends_no_push_of_a_span),
		test(a_span_waits_in_its_own_queue),
		test(parts_of_other_shards_are_taken_back),
		test(what_is_left_over_of_other_shards_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
