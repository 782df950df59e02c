/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * session_test.c -- when registering memory takes long, a peer that is told to come back finds its
 * memory made, and is admitted, however long that took
 */

#include "unit/server/session_util.h"

/* ---- the tests ---- */

static void who_comes_back_is_in_at_once_when_its_memory_is_registered(void **state)
{
	for (unsigned i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
		const struct ol_xport_conn *conn;

		come_in_vain(roles[i], false, start);
		work(start + MS(LEASE_MS));
		assert_null(net.accepted);
		conn = come(roles[i], false, start + MS(LEASE_MS));
		assert_ptr_equal(net.accepted, conn);
		assert_int_equal(net.begun, 1);
		assert_int_equal(net.ran, 1);
		assert_int_equal(net.dropped, 0);
		teardown(state);
		setup(state);
	}
}

static void who_comes_back_too_early_waits_for_the_same_registration(void **state)
{
	for (unsigned i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
		const struct ol_xport_conn *conn;

		come_in_vain(roles[i], false, start);
		come_in_vain(roles[i], false, start + MS(LEASE_MS));
		conn = come(roles[i], false, start + MS(2 * LEASE_MS));
		assert_null(net.accepted);
		work(start + MS(2 * LEASE_MS));
		assert_ptr_equal(net.accepted, conn);
		assert_int_equal(net.begun, 1);
		assert_int_equal(net.ran, 1);
		teardown(state);
		setup(state);
	}
}

static void who_comes_back_is_told_that_there_is_no_memory(void **state)
{
	for (unsigned i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
		const struct ol_memory_job *slots;
		const struct ol_xport_conn *conn;

		net.run_rc = -ENOMEM;
		come_in_vain(roles[i], false, start);
		work(start + MS(LEASE_MS));
		slots = roles[i] == OL_ROLE_WORKER ? sessions[1].memory : NULL;
		assert_true(slots == NULL || slots->slab == NULL); /* nothing scarce is kept */
		come(roles[i], false, start + MS(LEASE_MS));
		assert_null(net.accepted);
		assert_int_equal(net.rejected.code, OL_REJECT_RESOURCES);
		assert_int_equal(board.refused, 1);
		assert_non_null(strstr(logged, "no memory for its landing slots"));
		net.run_rc = 0; /* the next time there is some */
		conn = come(roles[i], false, start + MS(2 * LEASE_MS));
		work(start + MS(2 * LEASE_MS));
		assert_ptr_equal(net.accepted, conn);
		teardown(state);
		setup(state);
	}
}

static void who_breaks_off_leaves_nothing(void **state)
{
	struct ol_xport_event down = { .type = OL_XPORT_CONN_DOWN };

	(void)state;
	down.conn = come(OL_ROLE_WORKER, false, start);
	ol_server_on_event(&server, &down, start);
	assert_int_equal(net.freed, 1);
	work(start);
	assert_int_equal(net.dropped, 1);
	assert_int_equal(sessions[1].state, OL_SESSION_FREE);
}

static void who_never_comes_back_leaves_nothing_after_a_while(void **state)
{
	uint64_t done = start + MS(LEASE_MS);

	for (unsigned i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
		come_in_vain(roles[i], false, start);
		sessions_tick(start + MS(2 * OL_RESERVED_MS)); /* it is being made */
		work(done + MS(2 * OL_RESERVED_MS));
		sessions_tick(done + MS(3 * OL_RESERVED_MS));
		assert_int_equal(net.dropped, 0);
		sessions_tick(done + MS(3 * OL_RESERVED_MS) + 1);
		work(done);
		assert_int_equal(net.dropped, 1);
		teardown(state);
		setup(state);
	}
}

static void memory_of_one_observer_serves_the_next(void **state)
{
	const struct ol_xport_conn *conn;

	(void)state;
	come(OL_ROLE_OBSERVER, false, start);
	come(OL_ROLE_OBSERVER, false, start);
	sessions_tick(start + MS(HOLD_MS) + 1);
	work(start);
	conn = come(OL_ROLE_OBSERVER, false, start);
	assert_ptr_equal(net.accepted, conn);
	conn = come(OL_ROLE_OBSERVER, false, start);
	assert_ptr_equal(net.accepted, conn);
	assert_int_equal(net.begun, OBSERVERS);
	come(OL_ROLE_OBSERVER, false, start);
	assert_int_equal(net.rejected.code, OL_REJECT_FULL);
}

/* The next process of a worker's id: what was promised to the last one has not its slots */
static void memory_with_other_slots_is_not_given(void **state)
{
	for (unsigned made = 0; made < 2; made++) {
		for (unsigned queues = 0; queues < 2; queues++) {
			uint64_t bytes =
				ol_layout_landing_bytes(&server.store.geo, WINDOW + queues);
			const struct ol_xport_conn *conn;

			come_in_vain(OL_ROLE_WORKER, queues == 0, start);
			if (made)
				work(start);
			conn = come(OL_ROLE_WORKER, queues != 0, start);
			assert_null(net.accepted);
			work(start);
			assert_ptr_equal(net.accepted, conn);
			assert_int_equal(net.accept.landing_key.bytes, bytes);
			assert_int_equal(sessions[1].slot_count, WINDOW + queues);
			assert_int_equal(sessions[1].landing->bytes, bytes);
			assert_int_equal(net.dropped, 1);
			teardown(state);
			setup(state);
		}
	}
}

static void who_left_before_it_was_accepted_is_not_refused(void **state)
{
	(void)state;
	net.accept_rc = -ECONNABORTED;
	come(OL_ROLE_WORKER, false, start);
	work(start);
	assert_non_null(net.accepted);
	assert_int_equal(net.freed, 1);
	assert_int_equal(net.rejected.code, OL_REJECT_CHALLENGE);
	assert_int_equal(board.refused, 0);
	assert_string_equal(logged, "");
	assert_int_equal(sessions[1].state, OL_SESSION_FREE);
}

static void who_cannot_be_accepted_is_told_and_the_log_says_why(void **state)
{
	(void)state;
	net.accept_rc = -ENOMEM;
	come(OL_ROLE_WORKER, false, start);
	work(start);
	assert_int_equal(net.rejected.code, OL_REJECT_RESOURCES);
	assert_int_equal(board.refused, 1);
	assert_non_null(strstr(logged, "cannot be made"));
	assert_null(strstr(logged, "slots"));
	assert_int_equal(sessions[1].state, OL_SESSION_FREE);
}

/* Whose write is never told of is gone, but where no time is set nobody waits for that */
static void who_is_silent_for_too_long_is_let_go(void **state)
{
	struct ol_session *session = &sessions[WORKERS];
	const uint32_t ticks = OL_SILENCES_MAX + 1; /* the last of them is not yet too long */

	(void)state;
	session->role = OL_ROLE_OBSERVER;
	session->state = OL_SESSION_LIVE;
	session->probing = true;
	server.opts.heartbeat_ms = 10;
	for (uint32_t i = 0; i < 10 * ticks; i++)
		sessions_tick(start);
	assert_int_equal(session->state, OL_SESSION_LIVE);
	ol_session_on_probe(session);
	session->probing = true;
	server.opts.retry_timeout_ms = 10;
	for (uint32_t i = 0; i < ticks; i++)
		sessions_tick(start);
	assert_int_equal(session->state, OL_SESSION_LIVE);
	sessions_tick(start);
	assert_int_equal(session->state, OL_SESSION_FREE);
	assert_non_null(strstr(logged, "never completed a write"));
}

/* Its connection may be dead at the other end, where it is made anew */
static void who_is_silent_makes_room_for_itself(void **state)
{
	const uint64_t probes_ms = OL_SILENCES_WANTED * OL_PROBE_MS;
	struct ol_xport_conn *conn;
	struct ol_session *session;

	(void)state;
	server.opts.heartbeat_ms = 10;
	server.opts.retry_timeout_ms = 8000;
	conn = come(OL_ROLE_READER, false, start);
	work(start);
	session = conn->user;
	session->state = OL_SESSION_LIVE;
	session->probing = true;
	for (uint64_t ms = 0; ms <= 2 * probes_ms; ms += 10)
		sessions_tick(start);
	assert_int_equal(session->state, OL_SESSION_LIVE); /* nobody wants its place */
	(void)come(OL_ROLE_READER, false, start);
	assert_true(session->is_wanted);
	ol_session_on_probe(session); /* it lives */
	session->probing = true;
	for (uint64_t ms = 0; ms <= 2 * probes_ms; ms += 10)
		sessions_tick(start);
	assert_int_equal(session->state, OL_SESSION_LIVE);
	ol_session_on_probe(session);
	session->probing = true;
	(void)come(OL_ROLE_READER, false, start);
	for (uint64_t ms = 0; ms <= probes_ms; ms += 10)
		sessions_tick(start);
	assert_int_equal(session->state, OL_SESSION_LIVE);
	sessions_tick(start);
	assert_int_equal(session->state, OL_SESSION_FREE);
	assert_non_null(strstr(logged, "connects anew"));
}

/* ---- what a peer that is in says of itself ---- */

static void no_magic(struct ol_hello *hello)
{
	hello->magic++;
}

static void no_memory_for_acks(struct ol_hello *hello)
{
	hello->acks.bytes = OL_ACKS_BYTES - 1;
}

static void an_epoch_too_late(struct ol_hello *hello)
{
	hello->epoch = OL_EPOCH_MAX;
}

static void a_version_too_late(struct ol_hello *hello)
{
	hello->mirror_version = OL_VERSION_MAX + 1;
}

static void a_mirror_of_an_epoch_too_late(struct ol_hello *hello)
{
	hello->mirror_epoch = OL_EPOCH_MAX;
}

static void an_unknown_format(struct ol_hello *hello)
{
	hello->format = OL_FORMAT_INT8 + 1;
}

static void (*const lies[])(struct ol_hello *hello) = {
	NULL, /* not whole */
	no_magic,
	no_memory_for_acks,
	an_epoch_too_late,
	a_version_too_late,
	a_mirror_of_an_epoch_too_late,
	an_unknown_format,
};

/* With a mirror */
static struct ol_session *hear_as(uint32_t worker, enum ol_wire_role role,
				  void (*lie)(struct ol_hello *hello), bool whole)
{
	struct ol_xport_event rung = { .type = OL_XPORT_DOORBELL_RUNG,
				       .imm = ol_bell_make(OL_BELL_HELLO, 0) };
	struct ol_hello hello = { .magic = OL_WIRE_MAGIC,
				  .acks = { .addr = 1 << 20, .bytes = OL_ACKS_BYTES },
				  .mirror = { .addr = 1 << 20, .bytes = 1 << 20 },
				  .mirror_version = 5 };
	struct ol_session *session;

	rung.conn = come_as(worker, role, false, start);
	work(start);
	assert_ptr_equal(net.accepted, rung.conn);
	session = rung.conn->user;
	if (lie != NULL)
		lie(&hello);
	ol_record_seal(&hello);
	hello.crc ^= !whole;
	memcpy((uint8_t *)session->landing->addr + OL_HELLO_OFF, &hello, sizeof(hello));
	ol_server_on_event(&server, &rung, start);
	return session;
}

static void hear(enum ol_wire_role role, void (*lie)(struct ol_hello *hello), bool whole)
{
	(void)hear_as(1, role, lie, whole);
}

static void first_weights(struct ol_hello *hello)
{
	hello->init = 7;
}

static void first_weights_are_worker_0s_and_asked_for(void **state)
{
	for (uint32_t i = 0; i < 4; i++) {
		const uint32_t worker = i % 2, asked = i / 2;
		const bool heard = worker == 0 && asked;
		const struct ol_session *session;

		server.opts.init_worker = asked;
		server.restoring.active = server.restoring.chain = true; /* it waits */
		session = hear_as(worker, OL_ROLE_WORKER, first_weights, true);
		assert_true(net.accept.init == (asked ? OL_INIT_AWAITED : 0));
		assert_int_equal(session->state, OL_SESSION_JOINED);
		assert_int_equal(session->hello.init, heard ? 7 : 0);
		assert_int_equal(session->hello.mirror.bytes != 0, heard);
		assert_int_equal(board.violations, 0);
		teardown(state);
		setup(state);
	}
}

static void who_says_what_cannot_be_is_cut_off(void **state)
{
	for (unsigned i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		hear(OL_ROLE_READER, lies[i], lies[i] != NULL);
		assert_int_equal(board.violations, 1);
		assert_int_equal(net.freed, 1);
		assert_int_equal(server.sessions.joined_count, 0);
		teardown(state);
		setup(state);
	}
	hear(OL_ROLE_OBSERVER, NULL, true); /* which has no mirror */
	assert_int_equal(board.violations, 1);
	assert_int_equal(net.freed, 1);
}

static void what_no_peer_rings_is_cut_off(void **state)
{
	static const struct {
		enum ol_session_state at;
		uint32_t bell;
	} rings[] = {
		{ OL_SESSION_ACCEPTED, OL_BELL_PUSH }, /* before it said hello */
		{ OL_SESSION_LIVE, OL_BELL_WITHDRAW }, /* a reader has pushed nothing */
		{ OL_SESSION_LIVE, OL_BELL_ACK },
		{ OL_SESSION_LIVE, OL_BELL_ENTRY },
		{ OL_SESSION_LIVE, 0 },
	};

	for (unsigned i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
		struct ol_xport_event rung = { .type = OL_XPORT_DOORBELL_RUNG,
					       .imm = ol_bell_make(rings[i].bell, 0) };
		struct ol_session *session;

		rung.conn = come(OL_ROLE_READER, false, start);
		work(start);
		session = rung.conn->user;
		session->state = rings[i].at;
		ol_server_on_event(&server, &rung, start);
		assert_int_equal(board.violations, 1);
		assert_int_equal(net.freed, 1);
		teardown(state);
		setup(state);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			who_comes_back_is_in_at_once_when_its_memory_is_registered, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			who_comes_back_too_early_waits_for_the_same_registration, setup, teardown),
		cmocka_unit_test_setup_teardown(who_comes_back_is_told_that_there_is_no_memory,
						setup, teardown),
		cmocka_unit_test_setup_teardown(who_breaks_off_leaves_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(who_never_comes_back_leaves_nothing_after_a_while,
						setup, teardown),
		cmocka_unit_test_setup_teardown(memory_of_one_observer_serves_the_next, setup,
						teardown),
		cmocka_unit_test_setup_teardown(memory_with_other_slots_is_not_given, setup,
						teardown),
		cmocka_unit_test_setup_teardown(who_left_before_it_was_accepted_is_not_refused,
						setup, teardown),
		cmocka_unit_test_setup_teardown(who_is_silent_makes_room_for_itself, setup,
						teardown),
		cmocka_unit_test_setup_teardown(who_is_silent_for_too_long_is_let_go, setup,
						teardown),
		cmocka_unit_test_setup_teardown(who_cannot_be_accepted_is_told_and_the_log_says_why,
						setup, teardown),
		cmocka_unit_test_setup_teardown(first_weights_are_worker_0s_and_asked_for, setup,
						teardown),
		cmocka_unit_test_setup_teardown(who_says_what_cannot_be_is_cut_off, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_no_peer_rings_is_cut_off, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
