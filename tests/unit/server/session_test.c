/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * session_test.c -- when registering memory takes long, a peer that is told to come back finds its
 * memory made, and is admitted, however long that took
 *
 * The test plays the transport, the time is a number, and the memory thread's work is done when the
 * test says so.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "server/server.h"

enum {
	WORKERS = 2,
	OBSERVERS = 2,
	SESSIONS = WORKERS + OBSERVERS + WORKERS + OL_PREDECESSORS_MAX,
	WINDOW = 2,
	LEASE_MS = 1000,
	HOLD_MS = LEASE_MS / 4,
};

#define MS(count) ((uint64_t)(count)*OL_NS_PER_MS)

static const char key[] = "the key";
static const uint64_t start = MS(1000000);

/* ---- the transport ---- */

struct ol_xport_later {
	bool ran;
	size_t bytes;
};

struct ol_xport_region {
	size_t bytes;
	const struct ol_xport_conn *conn;
};

static struct {
	struct ol_xport_conn conns[8]; /* one an attempt to come in */
	unsigned conn_count;
	unsigned begun, ran, given, dropped; /* registrations */
	struct ol_wire_reject rejected; /* the last one */
	unsigned rejects;
	const struct ol_xport_conn *accepted;
	struct ol_wire_accept accept;
	int accept_rc;
	int run_rc; /* of registering */
	unsigned freed; /* connections that were not rejected */
} net;

static int reg_begin(struct ol_xport *xport, unsigned access, struct ol_xport_later **ret_later)
{
	(void)xport;
	assert_int_equal(access & ~(unsigned)OL_XPORT_ACCESS_RELAXED, OL_XPORT_ACCESS_PEER_WRITE);
	*ret_later = calloc(1, sizeof(**ret_later));
	assert_non_null(*ret_later);
	net.begun++;
	return 0;
}

static int reg_run(struct ol_xport_later *later, struct ol_slab *slab, size_t off, size_t bytes)
{
	assert_false(later->ran); /* once */
	assert_true(off + bytes <= slab->bytes);
	later->ran = true;
	later->bytes = bytes;
	net.ran++;
	return net.run_rc;
}

static int reg_end(struct ol_xport_later *later, struct ol_xport_conn *conn,
		   struct ol_xport_region **ret_region)
{
	struct ol_xport_region *region = malloc(sizeof(*region));

	assert_non_null(region);
	assert_true(later->ran);
	*region = (struct ol_xport_region){ .bytes = later->bytes, .conn = conn };
	*ret_region = region;
	free(later);
	net.given++;
	return 0;
}

static void drop(struct ol_xport_later *later)
{
	free(later);
	net.dropped++;
}

static void dereg(struct ol_xport_region *region)
{
	free(region);
}

static struct ol_xport_rkey rkey(const struct ol_xport_region *region,
				 const struct ol_xport_conn *conn)
{
	assert_true(region->conn == NULL || region->conn == conn);
	return (struct ol_xport_rkey){ .addr = 1 << 20, .bytes = region->bytes };
}

static int accept_peer(struct ol_xport_conn *conn, const void *priv, uint32_t priv_len)
{
	assert_int_equal(ol_wire_accept_decode(priv, priv_len, &net.accept), 0);
	net.accepted = conn;
	return net.accept_rc;
}

static void reject(struct ol_xport_conn *conn, const void *priv, uint32_t priv_len)
{
	(void)conn;
	assert_int_equal(ol_wire_reject_decode(priv, priv_len, &net.rejected), 0);
	net.rejects++;
}

static void conn_free(struct ol_xport_conn *conn)
{
	(void)conn;
	net.freed++;
}

static const struct ol_xport_ops ops = {
	.name = "slow",
	.reg_begin = reg_begin,
	.reg_run = reg_run,
	.reg_end = reg_end,
	.strip = ol_xport_no_strip,
	.drop = drop,
	.dereg = dereg,
	.rkey = rkey,
	.accept = accept_peer,
	.reject = reject,
	.conn_free = conn_free,
};

/* ---- the server ---- */

static struct ol_server server;
static _Alignas(OL_LINE_BYTES) struct ol_board board;
static struct ol_session sessions[SESSIONS];
static struct ol_proof proofs[OL_PROOFS];
static struct ol_slab public_slab = { .node = OL_SLAB_NODE_ANY };
static struct ol_xport_region public_region;
static char logged[OL_LOG_LINE_MAX]; /* the last line */
static unsigned lines; /* logged */

static void take_line(void *arg, enum ol_log_level level, const char *text)
{
	(void)arg;
	(void)level;
	snprintf(logged, sizeof(logged), "%s", text);
	lines++;
}

static int setup(void **state)
{
	(void)state;
	memset(&net, 0, sizeof(net));
	memset(&board, 0, sizeof(board));
	memset(sessions, 0, sizeof(sessions));
	memset(proofs, 0, sizeof(proofs));
	memset(&server, 0, sizeof(server));
	logged[0] = '\0';
	lines = 0;
	ol_log_sink_set(take_line, NULL);
	server.ops = &ops;
	server.opts.workers_max = WORKERS;
	server.opts.window = WINDOW;
	server.opts.lease_ms = LEASE_MS;
	server.store.board = &board;
	server.store.geo = (struct ol_geometry){ .param_count = 16,
						 .shard_len = 16,
						 .shard_count = 1,
						 .workers_max = WORKERS,
						 .window = WINDOW,
						 .consistency = OL_CONSISTENCY_ASYNC };
	server.public_slab = &public_slab;
	server.public_region = &public_region;
	public_region.bytes = ol_layout_public_bytes(&server.store.geo);
	server.sessions.all = sessions;
	server.sessions.count = SESSIONS;
	server.sessions.reader_first = WORKERS + OBSERVERS;
	server.sessions.replica_first = server.sessions.reader_first + WORKERS;
	server.sessions.proofs = proofs;
	server.kind = &ol_chain_strict;
	server.replica.ring.keeps = true;
	assert_int_equal(ol_slab_create(ol_layout_ring_bytes(&server.store.geo), OL_SLAB_NODE_ANY,
					false, &server.replica.ring.slab),
			 0);
	snprintf(server.job_key, sizeof(server.job_key), "%s", key);
	ol_serve_join(&server);
	/* a memory thread that does what work() makes it do, and nothing else */
	server.memory.ops = &ops;
	server.memory.on = true;
	pthread_mutex_init(&server.memory.lock, NULL);
	sem_init(&server.memory.wake, 0, 0);
	server.memory.wake_fd = eventfd(0, EFD_CLOEXEC);
	return server.memory.wake_fd < 0 ? -1 : 0;
}

/* All that the thread has to do, and all that the loop has to do then */
static void work(uint64_t now_ns)
{
	while (ol_memory_work(&server.memory) || ol_memory_has_news(&server.memory))
		ol_server_on_memory(&server, now_ns);
}

static int teardown(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SESSIONS; i++) {
		if (sessions[i].state == OL_SESSION_FREE)
			continue;
		sessions[i].state = OL_SESSION_MAKING; /* it was never more to the rest of it */
		ol_session_end(&server.sessions, &sessions[i]);
	}
	work(start);
	assert_int_equal(net.begun, net.given + net.dropped);
	pthread_mutex_destroy(&server.memory.lock);
	sem_destroy(&server.memory.wake);
	close(server.memory.wake_fd);
	ol_slab_destroy(server.replica.ring.slab);
	ol_log_sink_set(NULL, NULL);
	return 0;
}

static struct ol_xport_conn *say(struct ol_wire_connect *msg, uint64_t now_ns)
{
	struct ol_xport_conn *conn = &net.conns[net.conn_count++];
	uint8_t bytes[OL_WIRE_CONNECT_BYTES];
	struct ol_xport_event event = { .type = OL_XPORT_CONN_REQUEST,
					.conn = conn,
					.priv = bytes,
					.priv_len = sizeof(bytes) };

	assert_true(net.conn_count <= sizeof(net.conns) / sizeof(net.conns[0]));
	ol_wire_connect_encode(msg, bytes);
	ol_server_on_event(&server, &event, now_ns);
	return conn;
}

/* A peer knocks and proves that it knows the key: the connection that waits for an answer then */
static struct ol_xport_conn *come(enum ol_wire_role role, bool queues, uint64_t now_ns)
{
	struct ol_wire_connect msg = {
		.kind = OL_CONNECT_KNOCK, .role = role, .worker = 1, .queues = queues
	};

	net.conn_count = net.conn_count > 6 ? 0 : net.conn_count;
	assert_int_equal(ol_auth_random(msg.nonce, sizeof(msg.nonce)), 0);
	say(&msg, now_ns);
	assert_int_equal(net.rejected.code, OL_REJECT_CHALLENGE);
	msg.kind = OL_CONNECT_PROOF;
	ol_auth_proof(key, net.rejected.nonce, &msg);
	return say(&msg, now_ns);
}

static void sessions_tick(uint64_t now_ns)
{
	for (uint32_t i = 0; i < SESSIONS; i++) {
		bool lies;
		const char *why = ol_session_tick(&server.sessions, &sessions[i], now_ns, &lies);

		if (why != NULL)
			ol_serve_end(&server, &sessions[i], why, lies);
	}
}

/* It comes, waits for as long as a peer may, and is told to come back */
static void come_in_vain(enum ol_wire_role role, bool queues, uint64_t now_ns)
{
	unsigned rejects;

	come(role, queues, now_ns);
	rejects = net.rejects;
	sessions_tick(now_ns + MS(HOLD_MS));
	assert_int_equal(net.rejects, rejects);
	sessions_tick(now_ns + MS(HOLD_MS) + 1);
	assert_int_equal(net.rejects, rejects + 1);
	assert_int_equal(net.rejected.code, OL_REJECT_LATER);
}

static const enum ol_wire_role roles[] = { OL_ROLE_WORKER, OL_ROLE_OBSERVER, OL_ROLE_READER,
					   OL_ROLE_REPLICA };

/* ---- the tests ---- */

static void who_proves_its_key_too_late_knocks_again(void **state)
{
	const uint64_t slot_ns = MS(OL_CHALLENGE_SLOT_MS);
	struct ol_wire_connect msg = { .kind = OL_CONNECT_KNOCK, .role = OL_ROLE_WORKER };
	struct ol_wire_connect other;

	(void)state;
	assert_int_equal(ol_auth_random(msg.nonce, sizeof(msg.nonce)), 0);
	say(&msg, start);
	msg.kind = OL_CONNECT_PROOF;
	other = msg;
	ol_auth_proof(key, net.rejected.nonce, &msg);
	ol_auth_proof("another", net.rejected.nonce, &other);

	say(&msg, start + 2 * slot_ns);
	assert_int_equal(net.rejected.code, OL_REJECT_LATER);
	assert_true(net.rejected.delay_ms > 0);
	say(&msg, start + (OL_CHALLENGE_SLOTS - 1) * slot_ns);
	assert_int_equal(net.rejected.code, OL_REJECT_LATER);
	assert_int_equal(board.refused, 0);
	say(&msg, start + OL_CHALLENGE_SLOTS * slot_ns);
	assert_int_equal(net.rejected.code, OL_REJECT_AUTH);

	/* but whose key is another is told so, early or late */
	say(&other, start);
	assert_int_equal(net.rejected.code, OL_REJECT_AUTH);
	say(&other, start + 2 * slot_ns);
	assert_int_equal(net.rejected.code, OL_REJECT_AUTH);
	assert_int_equal(board.sent_away, 2);
}

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

static void who_is_refused_again_and_again_fills_no_log(void **state)
{
	struct ol_wire_connect msg = { .kind = OL_CONNECT_PROOF, .role = OL_ROLE_WORKER };

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		net.conn_count = 0;
		say(&msg, start + MS(i));
		assert_int_equal(net.rejected.code, OL_REJECT_AUTH);
	}
	assert_int_equal(board.refused, 100);
	assert_int_equal(lines, 1);
	/* another reason is another line */
	sessions[1].state = OL_SESSION_LIVE;
	come(OL_ROLE_WORKER, false, start + MS(200));
	assert_int_equal(net.rejected.code, OL_REJECT_WORKER_BUSY);
	sessions[1].state = OL_SESSION_FREE;
	assert_int_equal(lines, 2);

	net.conn_count = 0;
	say(&msg, start + MS(OL_REFUSALS_MS) - 1);
	assert_int_equal(lines, 2);
	say(&msg, start + MS(OL_REFUSALS_MS));
	assert_int_equal(lines, 3);
	assert_non_null(strstr(logged, "100 more like it"));
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

static void (*const lies[])(struct ol_hello *hello) = {
	NULL, /* not whole */
	no_magic,
	no_memory_for_acks,
	an_epoch_too_late,
	a_version_too_late,
	a_mirror_of_an_epoch_too_late,
};

/* With a mirror */
static void hear(enum ol_wire_role role, void (*lie)(struct ol_hello *hello), bool whole)
{
	struct ol_xport_event rung = { .type = OL_XPORT_DOORBELL_RUNG,
				       .imm = ol_bell_make(OL_BELL_HELLO, 0) };
	struct ol_hello hello = { .magic = OL_WIRE_MAGIC,
				  .acks = { .addr = 1 << 20, .bytes = OL_ACKS_BYTES },
				  .mirror = { .addr = 1 << 20, .bytes = 1 << 20 },
				  .mirror_version = 5 };
	struct ol_session *session;

	rung.conn = come(role, false, start);
	work(start);
	assert_ptr_equal(net.accepted, rung.conn);
	session = rung.conn->user;
	if (lie != NULL)
		lie(&hello);
	ol_record_seal(&hello);
	hello.crc ^= !whole;
	memcpy((uint8_t *)session->landing->addr + OL_HELLO_OFF, &hello, sizeof(hello));
	ol_server_on_event(&server, &rung, start);
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
		cmocka_unit_test_setup_teardown(who_proves_its_key_too_late_knocks_again, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			who_comes_back_is_in_at_once_when_its_memory_is_registered, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			who_comes_back_too_early_waits_for_the_same_registration, setup, teardown),
		cmocka_unit_test_setup_teardown(who_comes_back_is_told_that_there_is_no_memory,
						setup, teardown),
		cmocka_unit_test_setup_teardown(who_is_refused_again_and_again_fills_no_log, setup,
						teardown),
		cmocka_unit_test_setup_teardown(who_breaks_off_leaves_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(who_never_comes_back_leaves_nothing_after_a_while,
						setup, teardown),
		cmocka_unit_test_setup_teardown(memory_of_one_observer_serves_the_next, setup,
						teardown),
		cmocka_unit_test_setup_teardown(memory_with_other_slots_is_not_given, setup,
						teardown),
		cmocka_unit_test_setup_teardown(who_left_before_it_was_accepted_is_not_refused,
						setup, teardown),
		cmocka_unit_test_setup_teardown(who_is_silent_for_too_long_is_let_go, setup,
						teardown),
		cmocka_unit_test_setup_teardown(who_cannot_be_accepted_is_told_and_the_log_says_why,
						setup, teardown),
		cmocka_unit_test_setup_teardown(who_says_what_cannot_be_is_cut_off, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_no_peer_rings_is_cut_off, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
