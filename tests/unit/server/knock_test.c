/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * knock_test.c -- who knocks costs a server no memory, a proof is good once, and who is refused is
 * told which limit it met
 */

#include "server/knock.h"
#include "unit/server/session_util.h"

static void who_proves_its_key_too_late_knocks_again(void **state)
{
	struct ol_wire_connect msg = { .kind = OL_CONNECT_KNOCK, .role = OL_ROLE_WORKER };
	struct ol_wire_connect other;

	(void)state;
	assert_int_equal(ol_auth_random(msg.nonce, sizeof(msg.nonce)), 0);
	ol_auth_knock(key, &msg);
	say(&msg, start);
	msg.kind = OL_CONNECT_PROOF;
	msg.made_ns = net.rejected.made_ns;
	other = msg;
	ol_auth_proof(key, net.rejected.nonce, peer_ident.bytes, &msg);
	ol_auth_proof("another", net.rejected.nonce, peer_ident.bytes, &other);

	say(&msg, start + MS(OL_CHALLENGE_MS) + 1);
	assert_int_equal(net.rejected.code, OL_REJECT_LATER);
	assert_true(net.rejected.delay_ms > 0);
	say(&msg, start + MS(OL_CHALLENGE_LATE_MS) - 1);
	assert_int_equal(net.rejected.code, OL_REJECT_LATER);
	assert_int_equal(board.refused, 0);
	say(&msg, start + MS(OL_CHALLENGE_LATE_MS));
	assert_int_equal(net.rejected.code, OL_REJECT_AUTH);

	/* but whose key is another is told so, early or late */
	say(&other, start);
	assert_int_equal(net.rejected.code, OL_REJECT_AUTH);
	say(&other, start + MS(OL_CHALLENGE_MS) + 1);
	assert_int_equal(net.rejected.code, OL_REJECT_AUTH);
	assert_int_equal(board.sent_away, 2);
}

/* Also one that was answered with a refusal, and also much later */
static void a_proof_is_good_once(void **state)
{
	for (unsigned i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
		for (unsigned refused = 0; refused < 2; refused++) {
			const struct ol_xport_conn *conn;

			server.memory.making = refused ? OL_ADMISSIONS_MAX : 0;
			conn = come(roles[i], false, start);
			assert_true(refused ? net.rejected.code == OL_REJECT_LATER
					    : conn->user != NULL);
			server.memory.making = refused ? 0 : 1;
			work(start);
			net.rejected.code = OL_REJECT_LATER;
			assert_null(say(&last_proof, start)->user);
			assert_int_equal(net.rejected.code, OL_REJECT_AUTH);
			assert_null(say(&last_proof, start + MS(OL_CHALLENGE_MS))->user);
			assert_int_equal(net.rejected.code, OL_REJECT_AUTH);
			teardown(state);
			setup(state);
		}
	}
}

/* Two processes of one id knock; the later challenge is answered first */
static void who_was_overtaken_knocks_again(void **state)
{
	struct ol_wire_connect first = { .kind = OL_CONNECT_KNOCK, .role = OL_ROLE_WORKER };

	(void)state;
	first.worker = 1;
	assert_int_equal(ol_auth_random(first.nonce, sizeof(first.nonce)), 0);
	ol_auth_knock(key, &first);
	say(&first, start);
	first.kind = OL_CONNECT_PROOF;
	first.made_ns = net.rejected.made_ns;
	ol_auth_proof(key, net.rejected.nonce, peer_ident.bytes, &first);
	come(OL_ROLE_WORKER, false, start);
	say(&first, start);
	assert_int_equal(net.rejected.code, OL_REJECT_LATER);
	assert_int_equal(net.rejected.delay_ms, OL_OVERTAKEN_MS);
	assert_int_equal(board.refused, 0);
}

/* The challenge of a peer of this role that has the nonce n; its proof is in *ret_proof */
static void challenged(enum ol_wire_role role, uint8_t n, struct ol_wire_connect *ret_proof)
{
	struct ol_wire_connect msg = { .kind = OL_CONNECT_KNOCK, .role = role, .nonce = { n } };

	ol_auth_knock(key, &msg);
	say(&msg, start);
	assert_int_equal(net.rejected.code, OL_REJECT_CHALLENGE);
	msg.kind = OL_CONNECT_PROOF;
	msg.made_ns = net.rejected.made_ns;
	ol_auth_proof(key, net.rejected.nonce, peer_ident.bytes, &msg);
	ol_sessions_turn(&server.sessions);
	*ret_proof = msg;
}

static void a_server_that_ends_forgets_its_secret(void **state)
{
	const uint8_t none[OL_SECRET_BYTES] = { 0 };
	struct ol_sessions own = { .opts = &server.opts };

	(void)state;
	assert_int_equal(ol_knock_open(&own), 0);
	assert_memory_not_equal(own.secret, none, sizeof(none));
	ol_knock_close(&own);
	assert_memory_equal(own.secret, none, sizeof(none));
}

/* Whatever nonce an observer takes */
static void an_observer_does_not_overtake_a_predecessor(void **state)
{
	struct ol_wire_connect replica, observer;

	(void)state;
	challenged(OL_ROLE_REPLICA, 3, &replica);
	challenged(OL_ROLE_OBSERVER, 3, &observer);
	assert_non_null(say(&observer, start)->user);
	assert_non_null(say(&replica, start)->user);
}

/* However often they come, their proofs use up nothing that the next one needs */
static void a_storm_is_told_to_come_back_soon(void **state)
{
	(void)state;
	server.memory.making = OL_ADMISSIONS_MAX;
	for (unsigned i = 0; i < 6000; i++) {
		come(i % 2 == 0 ? OL_ROLE_WORKER : OL_ROLE_OBSERVER, false, start + i);
		assert_int_equal(net.rejected.code, OL_REJECT_LATER);
		assert_in_range(net.rejected.delay_ms, 1, OL_MEMORY_WAIT_MAX_MS);
	}
	server.memory.making = 0;
	assert_non_null(come(OL_ROLE_WORKER, false, start)->user);
}

static void a_turn_handles_a_few_requests(void **state)
{
	struct ol_wire_connect msg = { .kind = OL_CONNECT_KNOCK, .role = OL_ROLE_WORKER };
	struct ol_xport_event down = { .type = OL_XPORT_CONN_DOWN };
	struct ol_requests *requests = &server.sessions.requests;

	(void)state;
	for (unsigned i = 0; i < 3 * OL_REQUESTS_TURN; i++)
		down.conn = say(&msg, start);
	assert_int_equal(net.rejects, OL_REQUESTS_TURN);
	ol_sessions_serve(&server.sessions, start);
	assert_int_equal(net.rejects, OL_REQUESTS_TURN); /* not in this turn */
	ol_server_on_event(&server, &down, start); /* the last one has no patience */
	assert_int_equal(net.freed, 1);
	ol_sessions_turn(&server.sessions);
	say(&msg, start); /* and who comes now is the last */
	assert_int_equal(net.rejects, OL_REQUESTS_TURN);
	ol_sessions_serve(&server.sessions, start);
	assert_int_equal(net.rejects, 2 * OL_REQUESTS_TURN);
	ol_sessions_turn(&server.sessions);
	ol_sessions_serve(&server.sessions, start);
	ol_sessions_turn(&server.sessions);
	ol_sessions_serve(&server.sessions, start);
	assert_int_equal(requests->count, 0);
	assert_int_equal(net.rejects, 3 * OL_REQUESTS_TURN);
}

static void requests_that_wait_are_bounded(void **state)
{
	struct ol_wire_connect msg = { .kind = OL_CONNECT_KNOCK, .role = OL_ROLE_WORKER };

	(void)state;
	for (unsigned i = 0; i < OL_REQUESTS_TURN + OL_REQUESTS_MAX; i++) {
		net.conn_count = 0;
		say(&msg, start);
	}
	assert_int_equal(net.rejects, OL_REQUESTS_TURN);
	net.conn_count = 0;
	say(&msg, start);
	assert_int_equal(net.rejects, OL_REQUESTS_TURN + 1);
	assert_int_equal(net.rejected.code, OL_REJECT_LATER);
}

static void refused_for(enum ol_wire_limit limit, uint32_t number, const char *what)
{
	char text[OL_REJECT_TEXT_MAX];

	assert_int_equal(net.rejected.code, OL_REJECT_FULL);
	assert_int_equal(net.rejected.limit, limit);
	assert_int_equal(net.rejected.number, number);
	assert_non_null(strstr(ol_wire_reject_text(&net.rejected, text), what));
	assert_non_null(strstr(logged, text));
}

/* A device with few connections: whoever comes first, the others have their places */
static void no_role_takes_the_place_of_another(void **state)
{
	(void)state;
	ol_sessions_budget(&server.sessions, 4); /* a predecessor, a worker and reader, a look */
	assert_non_null(come(OL_ROLE_OBSERVER, false, start)->user);
	assert_null(come(OL_ROLE_OBSERVER, false, start)->user);
	refused_for(OL_LIMIT_CONNECTIONS, 1, "connections for 1 peers");
	assert_non_null(come_as(0, OL_ROLE_WORKER, false, start)->user);
	assert_null(come_as(1, OL_ROLE_WORKER, false, start)->user);
	refused_for(OL_LIMIT_CONNECTIONS, 1, "connections for 1 peers");
	assert_non_null(come_as(1, OL_ROLE_READER, false, start)->user);
	assert_null(come_as(0, OL_ROLE_READER, false, start)->user);
	assert_non_null(come(OL_ROLE_REPLICA, false, start)->user);
	work(start);
	/* who leaves makes room for another of its role */
	ol_session_end(&server.sessions, &sessions[0]);
	assert_non_null(come_as(1, OL_ROLE_WORKER, false, start + MS(OL_LOG_RATE_MS))->user);
}

static void budgets_add_up(void **state)
{
	const struct ol_budget *budgets = server.sessions.budgets;

	(void)state;
	for (uint32_t conns = 0; conns <= SESSIONS + 2; conns++) {
		uint32_t all = 0;

		ol_sessions_budget(&server.sessions, conns);
		for (unsigned i = 0; i <= OL_ROLE_REPLICA; i++)
			all += budgets[i].most;
		assert_true(all <= conns && all <= SESSIONS);
		assert_true(conns < SESSIONS || all == SESSIONS);
		assert_int_equal(budgets[OL_ROLE_WORKER].most, budgets[OL_ROLE_READER].most);
		assert_int_equal(budgets[OL_ROLE_REPLICA].most, conns > 0);
	}
}

static void slots_beyond_the_limit_are_not_made(void **state)
{
	uint64_t bytes = ol_layout_landing_bytes(&server.store.geo, WINDOW);

	(void)state;
	server.opts.slot_memory_max = 2 * bytes - 1;
	assert_non_null(come_as(0, OL_ROLE_WORKER, false, start)->user);
	assert_null(come_as(1, OL_ROLE_WORKER, false, start)->user);
	refused_for(OL_LIMIT_SLOT_MEMORY, 0, "slot_memory_max");
	assert_non_null(come(OL_ROLE_OBSERVER, false, start)->user); /* it has no slots */
	work(start);
	ol_session_end(&server.sessions, &sessions[0]);
	assert_int_equal(server.sessions.slot_bytes, 0);
	assert_non_null(come_as(1, OL_ROLE_WORKER, false, start)->user);
}

static void who_is_refused_again_and_again_fills_no_log(void **state)
{
	struct ol_wire_connect msg = { .kind = OL_CONNECT_PROOF, .role = OL_ROLE_WORKER };

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		net.conn_count = 0;
		ol_sessions_turn(&server.sessions);
		say(&msg, start + MS(i));
		assert_int_equal(net.rejected.code, OL_REJECT_AUTH);
	}
	assert_int_equal(board.refused, 100);
	assert_int_equal(lines, OL_LOG_RATE_STRANGER);
	/* another reason is another line */
	sessions[1].state = OL_SESSION_LIVE;
	come(OL_ROLE_WORKER, false, start + MS(200));
	assert_int_equal(net.rejected.code, OL_REJECT_WORKER_BUSY);
	sessions[1].state = OL_SESSION_FREE;
	assert_int_equal(lines, OL_LOG_RATE_STRANGER + 1);

	net.conn_count = 0;
	ol_sessions_turn(&server.sessions);
	say(&msg, start + MS(OL_LOG_RATE_MS) - 1);
	ol_knock_tick(&server.sessions, start + MS(OL_LOG_RATE_MS) - 1);
	assert_int_equal(lines, OL_LOG_RATE_STRANGER + 1);
	ol_knock_tick(&server.sessions, start + MS(OL_LOG_RATE_MS));
	assert_int_equal(lines, OL_LOG_RATE_STRANGER + 2);
	assert_non_null(strstr(logged, "99 more of these in 1.0 s: "));
	ol_knock_tick(&server.sessions, start + 2 * MS(OL_LOG_RATE_MS));
	assert_int_equal(lines, OL_LOG_RATE_STRANGER + 2); /* the other reason had one line */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(who_proves_its_key_too_late_knocks_again),
		TEST(a_proof_is_good_once),
		TEST(who_was_overtaken_knocks_again),
		TEST(a_server_that_ends_forgets_its_secret),
		TEST(an_observer_does_not_overtake_a_predecessor),
		TEST(a_storm_is_told_to_come_back_soon),
		TEST(a_turn_handles_a_few_requests),
		TEST(requests_that_wait_are_bounded),
		TEST(no_role_takes_the_place_of_another),
		TEST(budgets_add_up),
		TEST(slots_beyond_the_limit_are_not_made),
		TEST(who_is_refused_again_and_again_fills_no_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
