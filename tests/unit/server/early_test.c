/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * early_test.c -- a step that is begun while its gradients arrive has the bits of one that is not, and
 * holds no float of another gradient, whatever its workers do meanwhile
 */

#include <errno.h>
#include <math.h>

#include "rdma/order.h"
#include "unit/server/live_util.h"

enum {
	WORKERS = 2,
	WINDOW = 2,
	UNITS = 3, /* of a gradient; the last is not whole */
	LEN = (UNITS - 1) * OL_PART_FLOATS + 100,
	STRIDE = LEN * 4 + 2 * OL_PAGE_BYTES,
};

static uint32_t count[WORKERS]; /* of pushes */
static int statuses[WORKERS][WINDOW + 1]; /* of the last ack, by slot */
static float *plain; /* weights without parts */
static float weights[WORKERS]; /* of their gradients */

static int post_write(struct ol_xport_conn *conn, const struct ol_xport_write *write)
{
	const struct ol_ack *ack = (const struct ol_ack *)(uintptr_t)write->segs[0].off;

	statuses[conn - conns][ol_bell_arg(write->imm)] = ack->status;
	return 0;
}

static void begin(enum ol_consistency consistency)
{
	static const float first[LEN];
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.param_count = LEN;
	opts.consistency = consistency;
	opts.rule.optimizer = OL_OPTIMIZER_MOMENTUM;
	opts.rule.lr = 0.1f;
	opts.rule.momentum = 0.9f;
	live_open(WORKERS, WINDOW, &opts, first, post_write);
	server->sessions.live_workers = WORKERS;
	memset(count, 0, sizeof(count));
	for (uint32_t i = 0; i < WORKERS; i++)
		weights[i] = 1.0f;
}

static struct ol_session *session(uint32_t worker)
{
	return &server->sessions.all[worker];
}

/* Floats from `first` on land of the gradient with this seed */
static void land(uint32_t worker, uint32_t slot, uint32_t seed, uint64_t first)
{
	float *grad = gradient_of(worker, slot);

	for (uint64_t i = first; i < LEN; i++)
		grad[i] = (float)((i * 7 + seed * 13) % 101) / 50.0f - 1.0f;
}

static void part_flagged(uint32_t worker, uint32_t slot, uint32_t seed, uint64_t units,
			 uint32_t flag)
{
	land(worker, slot, seed, units * OL_PART_FLOATS);
	assert_null(ol_early_on_part(&server->ingest, session(worker),
				     ol_part_make(slot, units) | flag));
}

/* The same, and it is announced */
static void part(uint32_t worker, uint32_t slot, uint32_t seed, uint64_t units)
{
	part_flagged(worker, slot, seed, units, 0);
}

static void cancel(uint32_t worker, uint32_t slot)
{
	assert_null(ol_early_on_part(&server->ingest, session(worker),
				     ol_part_make(slot, OL_PART_CANCEL)));
}

/* All of it has landed, computed at that version, and its bell rings */
static void push_at(uint32_t worker, uint32_t slot, uint32_t seed, uint64_t version)
{
	land(worker, slot, seed, 0);
	assert_null(live_push(worker, slot,
			      (struct ol_push_hdr){ .seq = ol_seq_make(1 + worker, ++count[worker]),
						    .base_version = version,
						    .weight = weights[worker] },
			      0));
}

static void push(uint32_t worker, uint32_t slot, uint32_t seed)
{
	push_at(worker, slot, seed, server->store.version);
}

static uint64_t worked(void)
{
	return server->store.board->early_bytes;
}

static uint64_t in_vain(void)
{
	return server->store.board->early_void_bytes;
}

/* The weights of two synchronous steps of gradients 1 and 2, then 3 and 4, without parts */
static int setup(void **state)
{
	(void)state;
	begin(OL_CONSISTENCY_SYNC);
	for (uint32_t step = 0; step < 2; step++) {
		push(0, 0, 2 * step + 1);
		push(1, 0, 2 * step + 2);
	}
	assert_int_equal(server->store.version, 2);
	plain = malloc(LEN * sizeof(float));
	assert_non_null(plain);
	memcpy(plain, ol_store_weights(&server->store), LEN * sizeof(float));
	assert_int_equal(worked(), 0);
	live_close();
	begin(OL_CONSISTENCY_SYNC);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	live_close();
	free(plain);
	return 0;
}

static void are_plain(void)
{
	assert_int_equal(server->store.version, 2);
	assert_memory_equal(ol_store_weights(&server->store), plain, LEN * sizeof(float));
}

static void what_all_have_is_done_and_the_bits_are_the_same(void **state)
{
	const uint64_t tail = (LEN - 2 * OL_PART_FLOATS) * 4;

	(void)state;
	part(0, 0, 1, 1);
	assert_int_equal(worked(), 0); /* the other one has nothing yet */
	part(1, 0, 2, 2);
	assert_int_equal(worked(), 2 * tail);
	push(1, 0, 2); /* the first to be whole */
	assert_int_equal(worked(), 2 * (tail + OL_PART_FLOATS * 4));
	assert_int_equal(server->store.version, 0);
	push(0, 0, 1);
	assert_int_equal(server->store.version, 1);
	push(0, 1, 3); /* whole before the other one begins */
	part(1, 1, 4, 1);
	assert_int_equal(worked(), 4 * (tail + OL_PART_FLOATS * 4));
	push(1, 1, 4);
	are_plain();
	assert_int_equal(in_vain(), 0);
}

/* Gradient 9 is given back, and another one comes in its slot */
static void a_buffer_that_is_given_back_leaves_nothing(void **state)
{
	(void)state;
	part(0, 0, 1, 1);
	part(1, 0, 9, 1);
	assert_true(worked() > 0);
	cancel(1, 0);
	assert_int_equal(in_vain(), worked());
	part(1, 0, 2, 2);
	push(0, 0, 1);
	push(1, 0, 2);
	push(0, 0, 3);
	push(1, 0, 4);
	are_plain();
}

/* A worker fills two buffers at a time, and pushes them in the other order */
static void buffers_that_are_filled_at_a_time_are_not_mixed_up(void **state)
{
	(void)state;
	part(0, 0, 1, 1);
	part(1, 0, 9, 2);
	part(1, 1, 2, 1);
	part(1, 0, 9, 1);
	push(1, 1, 2);
	push(0, 0, 1);
	assert_int_equal(server->store.version, 1);
	assert_true(in_vain() > 0);
	cancel(1, 0);
	push(0, 0, 3);
	push(1, 0, 4);
	are_plain();
}

/* Its gradient of an older version was late, and its slot is filled anew */
static void a_gradient_that_was_late_leaves_nothing(void **state)
{
	(void)state;
	push(0, 0, 1);
	push(1, 0, 2);
	part(0, 0, 3, 1);
	part(1, 0, 9, 1);
	push_at(1, 0, 9, 0);
	assert_int_equal(statuses[1][0], OL_E_LATE);
	part(1, 0, 4, 1);
	push(0, 0, 3);
	push(1, 0, 4);
	are_plain();
	assert_true(in_vain() > 0);
}

static void a_worker_that_leaves_takes_its_part_along(void **state)
{
	struct ol_session was;

	(void)state;
	part(0, 0, 1, 1);
	part(1, 0, 9, 1);
	was = *session(1);
	ol_ingest_forget(&server->ingest, session(1));
	*session(1) = was;
	assert_int_equal(in_vain(), worked());
	assert_int_equal(server->sessions.arriving.count, 1);
	push(0, 0, 1);
	push(1, 0, 2);
	push(0, 0, 3);
	push(1, 0, 4);
	are_plain();
}

static void a_part_that_is_not_finite_is_dropped_with_its_gradient(void **state)
{
	(void)state;
	push(0, 0, 1);
	push(1, 0, 2);
	land(1, 0, 9, 0);
	gradient_of(1, 0)[LEN - 1] = NAN;
	part(0, 0, 3, 1);
	assert_null(ol_early_on_part(&server->ingest, session(1), ol_part_make(0, 2)));
	assert_int_equal(in_vain(), worked());
	/* nothing is begun again at this version: it would be in vain each time */
	assert_null(ol_early_on_part(&server->ingest, session(1), ol_part_make(0, 1)));
	assert_int_equal(in_vain(), worked());
	cancel(1, 0);
	push(0, 0, 3);
	push(1, 0, 4);
	are_plain();
}

static void a_push_of_several_gradients_is_not_begun(void **state)
{
	(void)state;
	session(0)->slots[0].queued = true;
	part(0, 0, 1, 1);
	push(0, 0, 1);
	session(0)->slots[0].queued = true; /* it has a factor */
	part(1, 0, 2, 1);
	assert_int_equal(worked(), 0);
}

static void a_part_of_a_slot_that_is_not_free_is_a_fault(void **state)
{
	(void)state;
	push(0, 0, 1);
	assert_non_null(ol_early_on_part(&server->ingest, session(0), ol_part_make(0, 1)));
	assert_non_null(ol_early_on_part(&server->ingest, session(0), ol_part_make(WINDOW, 1)));
	/* beyond its end: there is nothing */
	assert_null(ol_early_on_part(&server->ingest, session(1), ol_part_make(0, UNITS)));
	assert_int_equal(server->sessions.arriving.count, 0);
}

/* A worker that announces and cancels for ever costs no more than one that sends a gradient */
static void announcements_are_bounded(void **state)
{
	const uint64_t once = (uint64_t)2 * (LEN - OL_PART_FLOATS) * 4;

	(void)state;
	part(0, 0, 1, 1);
	for (unsigned i = 0; i < 3 * OL_PARTS_MAX; i++) {
		part(1, 0, 9, 1);
		cancel(1, 0);
	}
	assert_int_equal(worked(), OL_PARTS_MAX * once);
	push(1, 0, 2);
	push(0, 0, 1);
	part(1, 0, 4, 1); /* after a push it may again */
	assert_int_equal(server->sessions.arriving.count, 1);
	push(1, 0, 4);
	push(0, 0, 3);
	are_plain();
}

static void what_a_turn_has_no_room_for_is_done_in_the_next(void **state)
{
	(void)state;
	part(0, 0, 1, 1);
	server->turn.bytes_max = 1;
	part(1, 0, 2, 2);
	part(1, 0, 2, 1);
	assert_int_equal(worked(), 2 * (LEN - 2 * OL_PART_FLOATS) * 4);
	assert_true(ol_ingest_waits(&server->ingest));
	ol_turn_begin(&server->turn);
	ol_ingest_progress(&server->ingest, 0);
	assert_int_equal(worked(), 2 * (LEN - OL_PART_FLOATS) * 4);
	assert_false(ol_ingest_waits(&server->ingest));
	server->turn.bytes_max = UINT64_MAX;
	push(0, 0, 1);
	push(1, 0, 2);
	push(0, 0, 3);
	push(1, 0, 4);
	are_plain();
}

/* A head's ring is renewed between two parts of a payload: what was in it is summed up again */
static void a_payload_whose_ring_is_renewed_is_made_anew(void **state)
{
	const struct ol_early_steps *steps = ol_chain_strict.steps.early;
	struct ol_replica *replica = &server->replica;
	struct ol_ring was = replica->ring;
	struct ol_span tail = { 2 * OL_PART_FLOATS, LEN - 2 * OL_PART_FLOATS };
	struct ol_span next = { OL_PART_FLOATS, OL_PART_FLOATS }, both;

	(void)state;
	replica->ring.slab = &landing[1];
	replica->ring.slots = 1;
	replica->chain.loaded = false; /* nothing is applied */
	land(0, 0, 1, 0);
	server->ingest.early.contributions[0] =
		(struct ol_contribution){ .grad = gradient_of(0, 0), .scale = 1.0f };
	server->ingest.early.count = 1;
	assert_true(steps->part(&server->ingest, tail));
	ol_payload_drop(replica);
	assert_false(steps->part(&server->ingest, next));
	both = (struct ol_span){ next.first, next.len + tail.len };
	assert_true(steps->part(&server->ingest, both));
	assert_false(steps->part(&server->ingest, next)); /* it is there */
	replica->ring = was;
	server->ingest.early.count = 0;
}

/* Two steps of gradients 1 to 4; with_parts: announced before they are whole */
static void two_steps(bool with_parts)
{
	for (uint32_t step = 0; step < 2; step++) {
		for (uint32_t k = 0; k < WORKERS && with_parts; k++)
			part(k, 0, 2 * step + k + 1, 1);
		for (uint32_t k = 0; k < WORKERS; k++)
			push(k, 0, 2 * step + k + 1);
	}
	assert_int_equal(server->store.version, 2);
}

static void equal_weights_change_no_bit(void **state)
{
	(void)state;
	weights[0] = weights[1] = 4096.1f;
	two_steps(true);
	are_plain();
	assert_int_equal(in_vain(), 0);
}

/* Weights of a step that is begun are not known yet: if they differ, it is made anew, and the next
 * one is not begun */
static void weights_that_differ_are_known_when_gradients_are_whole(void **state)
{
	const float differ[WORKERS] = { 4096.1f, 100.0f };
	float *with = malloc(LEN * sizeof(float));

	(void)state;
	assert_non_null(with);
	memcpy(weights, differ, sizeof(differ));
	two_steps(true);
	assert_int_equal(in_vain(), worked());
	assert_int_equal(worked(), 2 * (LEN - OL_PART_FLOATS) * 4);
	memcpy(with, ol_store_weights(&server->store), LEN * sizeof(float));
	live_close();
	begin(OL_CONSISTENCY_SYNC);
	memcpy(weights, differ, sizeof(differ));
	two_steps(false);
	assert_memory_equal(ol_store_weights(&server->store), with, LEN * sizeof(float));
	assert_memory_not_equal(ol_store_weights(&server->store), plain, LEN * sizeof(float));
	free(with);
}

/* Beside others only what is pushed already is begun, and it may be overtaken all the same */
static void asynchronous_gradients_are_begun_one_at_a_time(void **state)
{
	(void)state;
	live_close();
	begin(OL_CONSISTENCY_ASYNC);
	part(0, 0, 1, 1);
	assert_int_equal(worked(), 0);
	part_flagged(1, 0, 2, 2, OL_PART_FOLLOWS);
	assert_int_equal(worked(), (LEN - 2 * OL_PART_FLOATS) * 4);
	push(0, 0, 1);
	assert_int_equal(in_vain(), (LEN - 2 * OL_PART_FLOATS) * 4);
	part_flagged(1, 0, 2, 1, OL_PART_FOLLOWS); /* overtaken once: not begun again */
	assert_int_equal(worked(), (LEN - 2 * OL_PART_FLOATS) * 4);
	push(1, 0, 2);
	assert_int_equal(server->store.version, 2);
	assert_int_equal(in_vain(), (LEN - 2 * OL_PART_FLOATS) * 4);
	server->sessions.live_workers = 1; /* alone: any part */
	part(0, 1, 3, 1);
	assert_true(server->ingest.early.active);
	push(0, 1, 3);
	assert_int_equal(server->store.version, 3);
	assert_int_equal(in_vain(), (LEN - 2 * OL_PART_FLOATS) * 4);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	static const struct CMUnitTest tests[] = {
		TEST(what_all_have_is_done_and_the_bits_are_the_same),
		TEST(a_buffer_that_is_given_back_leaves_nothing),
		TEST(buffers_that_are_filled_at_a_time_are_not_mixed_up),
		TEST(a_gradient_that_was_late_leaves_nothing),
		TEST(a_worker_that_leaves_takes_its_part_along),
		TEST(a_part_that_is_not_finite_is_dropped_with_its_gradient),
		TEST(a_push_of_several_gradients_is_not_begun),
		TEST(a_part_of_a_slot_that_is_not_free_is_a_fault),
		TEST(announcements_are_bounded),
		TEST(what_a_turn_has_no_room_for_is_done_in_the_next),
		TEST(a_payload_whose_ring_is_renewed_is_made_anew),
		TEST(equal_weights_change_no_bit),
		TEST(weights_that_differ_are_known_when_gradients_are_whole),
		TEST(asynchronous_gradients_are_begun_one_at_a_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
