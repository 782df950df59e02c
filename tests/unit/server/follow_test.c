/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * follow_test.c -- a gradient that missed its step waits at another shard than 0 for the decision that has it, with
 * the factor of that step, whoever was told of what, and whether its worker is there or not
 */

#include "base/clock.h"
#include "unit/server/live_util.h"

enum {
	WORKERS = 3,
	WINDOW = 2,
	LEN = 1024, /* of a shard */
	SHARDS = 2,
	WAIT_MS = 1000,
	NO_ACK = 1,
};

static uint32_t tags[WORKERS]; /* of their processes … */
static uint32_t count[WORKERS]; /* … and their pushes */
static int statuses[WORKERS][WINDOW + 1]; /* of the last ack, by slot */
static uint64_t now_ns;

static int post_write(struct ol_xport_conn *conn, const struct ol_xport_write *write)
{
	if (ol_bell_kind(write->imm) == OL_BELL_ACK)
		statuses[conn - conns][ol_bell_arg(write->imm)] =
			((const struct ol_ack *)(uintptr_t)write->segs[0].off)->status;
	return 0;
}

/* A process of a worker is there */
static void join(uint32_t worker)
{
	tags[worker] += WORKERS;
	count[worker] = 0;
	for (uint32_t i = 0; i <= WINDOW; i++)
		statuses[worker][i] = NO_ACK;
	live_join(worker);
}

static void leave(uint32_t worker)
{
	ol_ingest_forget(&server->ingest, &server->sessions.all[worker]);
	server->sessions.all[worker] = (struct ol_session){ 0 };
	ol_ingest_progress(&server->ingest, now_ns);
}

static int setup(void **state)
{
	static const float first[LEN];
	struct ol_server_opts opts;

	(void)state;
	ol_server_opts_init(&opts);
	opts.shard_count = SHARDS;
	opts.shard = 1;
	opts.consistency = OL_CONSISTENCY_SYNC;
	opts.wait = OL_WAIT_FIXED;
	opts.wait_k = 1;
	opts.late = OL_LATE_AGED;
	opts.rule.lr = 1.0f;
	opts.rule.sum = 1;
	opts.restore_wait_ms = WAIT_MS;
	opts.param_count = SHARDS * LEN;
	live_open(WORKERS, WINDOW, &opts, first, post_write);
	now_ns = ol_clock_ns();
	for (uint32_t i = 0; i < WORKERS; i++) {
		tags[i] = 1 + i;
		join(i);
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	live_close();
	return 0;
}

/* A gradient of ones that was computed at a version has landed; its number */
static uint64_t push_flagged(uint32_t worker, uint32_t slot, uint64_t version, uint32_t flags)
{
	float *gradient = gradient_of(worker, slot);
	uint64_t seq = ol_seq_make(tags[worker], ++count[worker]);

	for (uint32_t i = 0; i < LEN; i++)
		gradient[i] = -1.0f;
	statuses[worker][slot] = NO_ACK;
	assert_null(live_push(
		worker, slot,
		(struct ol_push_hdr){
			.seq = seq, .base_version = version, .flags = flags, .weight = 1.0f },
		now_ns));
	return seq;
}

static uint64_t push(uint32_t worker, uint32_t slot, uint64_t version)
{
	return push_flagged(worker, slot, version, 0);
}

/* Shard 0 has made the next step, and a worker says so: of this push, and of no other */
static void decide(uint64_t seq, uint32_t worker)
{
	struct ol_follow *follow = &server->ingest.follow;

	follow->version = follow->newest = server->store.version + 1;
	follow->since_ns = now_ns;
	for (uint32_t i = 0; i < WORKERS; i++)
		follow->seqs[i] = ol_store_applied(&server->store, i).seq;
	follow->seqs[worker] = seq;
	ol_ingest_requeue(&server->ingest);
	ol_ingest_progress(&server->ingest, now_ns);
	assert_int_equal(server->store.version, follow->version);
}

static float weight(void)
{
	return ol_store_weights(&server->store)[0];
}

static uint64_t parked(void)
{
	return server->ingest.parked_count;
}

static void what_missed_its_step_is_of_the_one_that_has_it(void **state)
{
	uint64_t own, first, second;

	(void)state;
	own = push(0, 0, 0);
	first = push(1, 0, 0);
	second = push(1, 1, 0);
	assert_int_equal(server->store.version, 0); /* here nobody decides */
	decide(own, 0);
	assert_int_equal(statuses[0][0], 0);
	assert_int_equal(statuses[1][0], NO_ACK);
	decide(push(0, 1, 1), 0);
	assert_float_equal(weight(), 2.0f, 0.0f);
	decide(first, 1); /* two steps later */
	assert_float_equal(weight(), 2.0f + 1.0f / 3.0f, 0.0f);
	assert_int_equal(statuses[1][0], 0);
	assert_int_equal(statuses[1][1], NO_ACK); /* a gradient of a worker a step */
	decide(second, 1);
	assert_float_equal(weight(), 2.0f + 1.0f / 3.0f + 1.0f / 4.0f, 0.0f);
	assert_int_equal(server->store.board->carried, 2);
	assert_int_equal(parked(), 0);
}

static void what_a_later_decision_passes_over_is_late(void **state)
{
	uint64_t second;

	(void)state;
	(void)push(1, 0, 0);
	second = push(1, 1, 0);
	decide(second, 1); /* shard 0 has dropped the first: it was too old there */
	assert_int_equal(statuses[1][0], OL_E_LATE);
	assert_int_equal(statuses[1][1], 0);
	assert_float_equal(weight(), 1.0f, 0.0f);
}

static void what_is_pushed_again_has_the_factor_that_it_has_elsewhere(void **state)
{
	uint64_t again;

	(void)state;
	decide(push(0, 0, 0), 0);
	again = push_flagged(1, 0, 0, OL_PUSH_AGAIN);
	decide(again, 1);
	assert_float_equal(weight(), 1.5f, 0.0f);
}

static void what_missed_its_step_waits_although_its_worker_is_gone(void **state)
{
	uint64_t own, left;

	(void)state;
	own = push(0, 0, 0);
	left = push(1, 0, 0);
	decide(own, 0);
	leave(1);
	decide(push(0, 0, 1), 0);
	assert_int_equal(parked(), 1);
	decide(left, 1);
	assert_float_equal(weight(), 2.0f + 1.0f / 3.0f, 0.0f);
	assert_int_equal(server->store.board->restored_lost, 0);
}

/* A gradient of its worker's next process is in a step: shard 0 had ended the one before. That it was pushed is not
 * enough, as a chain of shard 0 may have a step on its way down that is not read yet */
static void what_was_in_no_step_goes_when_a_step_has_another_process(void **state)
{
	uint64_t left, next;

	(void)state;
	left = push(1, 0, 0);
	leave(1);
	join(1);
	next = push(1, 0, 0);
	(void)push(2, 0, 0);
	assert_int_equal(parked(), 3);
	decide(left, 1);
	assert_float_equal(weight(), 1.0f, 0.0f);
	decide(next, 1);
	assert_float_equal(weight(), 1.5f, 0.0f);
	(void)push(1, 1, 0);
	leave(1);
	join(1);
	assert_int_equal(parked(), 2);
	decide(push(1, 0, 2), 1);
	assert_int_equal(parked(), 1);
}

/* Its connection to this shard is gone, for longer than any wait; shard 0 has it for a later step all the while */
static void what_a_worker_has_left_waits_however_long(void **state)
{
	uint64_t first, second;

	(void)state;
	first = push(1, 0, 0);
	second = push(1, 1, 0);
	leave(1);
	now_ns = ol_clock_ns() + 20 * WAIT_MS * OL_NS_PER_MS;
	decide(first, 1);
	assert_int_equal(parked(), 1);
	assert_float_equal(weight(), 1.0f, 0.0f);
	now_ns += 20 * WAIT_MS * OL_NS_PER_MS;
	decide(push(0, 0, 1), 0);
	assert_int_equal(parked(), 1);
	now_ns += 20 * WAIT_MS * OL_NS_PER_MS;
	decide(second, 1);
	assert_int_equal(parked(), 0);
	assert_float_equal(weight(), 2.0f + 1.0f / 3.0f, 1e-6f);
	assert_int_equal(server->store.board->restored_lost, 0);
}

/* Each process leaves all that it may: those of the oldest go when there are more than two */
static void there_is_room_for_two_processes(void **state)
{
	uint64_t kept = 0;

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		(void)push(1, 0, 0);
		kept = push(1, 1, 0);
		leave(1);
		join(1);
		assert_true(parked() <= OL_ORPHANS * (WINDOW + 1));
	}
	leave(1);
	decide(kept, 1);
	assert_float_equal(weight(), 1.0f, 0.0f);
}

static void the_same_process_takes_its_place_again(void **state)
{
	uint64_t seq;

	(void)state;
	seq = push(1, 0, 0);
	leave(1);
	tags[1] -= WORKERS;
	join(1);
	assert_int_equal(push(1, 0, 0), seq);
	assert_int_equal(parked(), 1);
	decide(seq, 1);
	assert_int_equal(statuses[1][0], 0);
	assert_float_equal(weight(), 1.0f, 0.0f);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	static const struct CMUnitTest tests[] = {
		TEST(what_missed_its_step_is_of_the_one_that_has_it),
		TEST(what_a_later_decision_passes_over_is_late),
		TEST(what_is_pushed_again_has_the_factor_that_it_has_elsewhere),
		TEST(what_missed_its_step_waits_although_its_worker_is_gone),
		TEST(what_was_in_no_step_goes_when_a_step_has_another_process),
		TEST(what_a_worker_has_left_waits_however_long),
		TEST(there_is_room_for_two_processes),
		TEST(the_same_process_takes_its_place_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
