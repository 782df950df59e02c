/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * turn_test.c -- a turn of the server's loop ends after so many bytes of gradients; later turns
 * handle the rest in the order of arrival
 */

#include <errno.h>

#include "base/clock.h"
#include "rdma/order.h"
#include "unit/server/live_util.h"
#include "wire/bounds.h"

enum {
	WORKERS = 2,
	WINDOW = 4,
	PUSHES = WORKERS * WINDOW,
	LEN = 16, /* floats: a gradient is a line */
	TURN_PUSHES = 3, /* so many end a turn */
	CHUNK = 1 << 20, /* an entry leaves in writes of this length */
	ENTRY = 5 * CHUNK,
	SLOTS = 2,
};

static struct ol_entry_head heads[SLOTS];
static struct ol_entry_part parts[SLOTS];

/* What was written to peers, in this order */
static struct {
	uint32_t count;
	const struct ol_xport_conn *conn[PUSHES];
	uint32_t slot[PUSHES];
	bool rung; /* the last one had a bell */
} written;

static int post_write(struct ol_xport_conn *conn, const struct ol_xport_write *write)
{
	assert_in_range(written.count, 0, PUSHES - 1);
	written.conn[written.count] = conn;
	written.slot[written.count++] = ol_bell_arg(write->imm);
	written.rung = (write->flags & OL_XPORT_DOORBELL) != 0;
	return 0;
}

static int setup(void **state)
{
	static const float weights[LEN];
	struct ol_server_opts opts;

	(void)state;
	memset(&written, 0, sizeof(written));
	ol_server_opts_init(&opts);
	opts.param_count = LEN;
	live_open(WORKERS, WINDOW, &opts, weights, post_write);
	server->turn.bytes_max = TURN_PUSHES * ol_layout_vector_bytes(&server->store.geo);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	server->replica.succ.dial.conn = NULL;
	live_close();
	return 0;
}

/* A gradient of this number has landed, and its bell rings; the fault that is found */
static const char *push_of(uint32_t worker, uint32_t slot, uint64_t seq)
{
	return live_push(worker, slot, (struct ol_push_hdr){ .seq = seq, .weight = 1.0f }, 0);
}

static void push(uint32_t worker, uint32_t slot)
{
	assert_null(push_of(worker, slot, ol_seq_make(1 + worker, 1 + slot)));
}

/* A checkpoint with such a number is refused: so a worker that lies must not bring one in */
static void what_a_checkpoint_may_not_hold_is_not_taken_in(void **state)
{
	struct ol_applied *applied = &server->store.parts[server->store.snapshot].applied[0];

	(void)state;
	assert_string_equal(push_of(0, 0, UINT64_MAX), "push with an impossible sequence number");
	assert_string_equal(push_of(0, 0, ol_seq_make(0, 1)),
			    "push with an impossible sequence number");
	assert_string_equal(push_of(0, 0, ol_seq_make(1, 0)),
			    "push with an impossible sequence number");
	applied->grads = OL_GRADS_PUSH_MAX + 1;
	assert_string_equal(push_of(0, 0, ol_seq_make(1, 1)),
			    "push of more gradients than a worker can compute");
	applied->grads = OL_GRADS_PUSH_MAX;
	assert_null(push_of(0, 0, ol_seq_make(1, OL_SEQ_COUNT_MAX)));
	assert_int_equal(server->store.version, 1);
	assert_null(ol_applied_fault(&server->store.parts[server->store.snapshot].applied[0]));
}

/* All push all they may, one after the other, within a turn */
static void crowd(void)
{
	for (uint32_t i = 0; i < PUSHES; i++)
		push(i % WORKERS, i / WORKERS);
}

static void next_turn(void)
{
	ol_turn_begin(&server->turn);
	ol_ingest_progress(&server->ingest, 0);
}

static void a_turn_ends_after_so_many_bytes(void **state)
{
	(void)state;
	crowd();
	assert_int_equal(server->store.version, TURN_PUSHES);
	assert_true(server->turn.left);
	assert_true(ol_ingest_waits(&server->ingest));
	ol_ingest_progress(&server->ingest, 0); /* the same turn */
	assert_int_equal(server->store.version, TURN_PUSHES);
	next_turn();
	assert_int_equal(server->store.version, 2 * TURN_PUSHES);
	assert_true(server->turn.left);
	next_turn();
	assert_int_equal(server->store.version, PUSHES);
	assert_false(server->turn.left);
	assert_false(ol_ingest_waits(&server->ingest));
}

static void nobody_is_passed_over(void **state)
{
	(void)state;
	crowd();
	while (server->turn.left)
		next_turn();
	assert_int_equal(written.count, PUSHES);
	for (uint32_t i = 0; i < PUSHES; i++) {
		assert_ptr_equal(written.conn[i], &conns[i % WORKERS]);
		assert_int_equal(written.slot[i], i / WORKERS);
	}
}

static void a_gradient_longer_than_a_turn_is_applied(void **state)
{
	(void)state;
	server->turn.bytes_max = 1;
	crowd();
	for (uint32_t version = 1; version < PUSHES; version++) {
		assert_int_equal(server->store.version, version);
		assert_true(server->turn.left);
		next_turn();
	}
	assert_int_equal(server->store.version, PUSHES);
	assert_false(server->turn.left);
}

/* Entries of no gradient, and of so many bytes */
static void ring_lay(uint64_t bytes)
{
	server->replica.ring = (struct ol_ring){ .payload_bytes = bytes,
						 .stride = OL_PAGE_BYTES,
						 .slots = SLOTS,
						 .parts_max = 1,
						 .slab = &landing[0],
						 .heads = heads,
						 .parts = parts };
}

static void an_entry_is_applied_in_a_turn_that_has_room(void **state)
{
	(void)state;
	ring_lay(LEN * sizeof(float));
	ol_turn_spend(&server->turn, OL_TURN_APPLY, server->turn.bytes_max);
	assert_int_equal(ol_chain_strict.host->apply(server, 1), -EAGAIN);
	assert_true(server->turn.left);
	assert_int_equal(server->store.version, 0);
	ol_turn_begin(&server->turn);
	assert_int_equal(ol_chain_strict.host->apply(server, 1), 0);
	assert_int_equal(server->store.version, 1);
}

static void a_long_entry_is_forwarded_in_several_turns(void **state)
{
	(void)state;
	ring_lay(ENTRY);
	server->replica.succ.dial.conn = &conns[0];
	server->turn.bytes_max = 2 * CHUNK;
	for (uint32_t turn = 1; turn <= 2; turn++) {
		assert_int_equal(ol_successor_forward(&server->replica, 1), -EAGAIN);
		assert_int_equal(written.count, 2 * turn);
		assert_false(written.rung);
		assert_true(server->turn.left);
		ol_turn_begin(&server->turn);
	}
	assert_int_equal(ol_successor_forward(&server->replica, 1), 0);
	assert_int_equal(written.count, ENTRY / CHUNK + 1);
	assert_true(written.rung);
	assert_int_equal(server->replica.succ.posted, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Of a session that has nothing to do a step reads nothing: here it has no memory */
static void a_step_looks_at_no_idle_session(void **state)
{
	const uint32_t first = server->opts.workers_max; /* of observers */

	(void)state;
	server->turn.bytes_max = UINT64_MAX;
	for (uint32_t i = first; i < server->sessions.count; i++)
		server->sessions.all[i] =
			(struct ol_session){ .state = OL_SESSION_LIVE, .role = OL_ROLE_OBSERVER };
	crowd();
	assert_int_equal(server->store.version, PUSHES);
	assert_true(server->sessions.count > first);
}

static _Atomic uint64_t *pin_word(uint32_t worker)
{
	struct ol_pin *pin =
		(struct ol_pin *)(void *)((uint8_t *)landing[worker].addr + OL_PIN_OFF);

	return &pin->version_plus_1;
}

/* A pin is looked at from its bell on, until an ack is posted to its peer when it is gone: so a step
 * costs nothing for those who read and are not overtaken. */
static void a_pin_counts_from_its_bell_to_an_ack(void **state)
{
	const struct ol_places *pinning = &server->sessions.pinning;

	(void)state;
	server->turn.bytes_max = UINT64_MAX;
	server->opts.pin_timeout_ms = UINT32_MAX;
	ol_word_store(pin_word(1), 1); /* version 0 */
	push(0, 0);
	push(0, 1);
	assert_int_equal(ol_store_find(&server->store, 0), 0);
	ol_session_pins(&server->sessions, &server->sessions.all[1]);
	push(0, 2);
	push(0, 3);
	assert_int_equal(server->store.version, 4);
	assert_int_equal(ol_store_find(&server->store, 0), 0); /* not written over */
	push(1, 0); /* it gets an ack, and its pin goes on */
	assert_int_equal(pinning->count, 1);
	assert_int_equal(ol_store_find(&server->store, 0), 0);
	ol_word_store(pin_word(1), 0);
	assert_int_equal(pinning->count, 1);
	push(1, 1);
	assert_int_equal(pinning->count, 0);
	push(1, 2);
	assert_int_equal(ol_store_find(&server->store, 0), -1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(what_a_checkpoint_may_not_hold_is_not_taken_in),
		TEST(a_turn_ends_after_so_many_bytes),
		TEST(nobody_is_passed_over),
		TEST(a_gradient_longer_than_a_turn_is_applied),
		TEST(a_step_looks_at_no_idle_session),
		TEST(a_pin_counts_from_its_bell_to_an_ack),
		TEST(an_entry_is_applied_in_a_turn_that_has_room),
		TEST(a_long_entry_is_forwarded_in_several_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
