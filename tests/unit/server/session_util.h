/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * session_util.h -- a server's sessions, with a transport that the test plays
 *
 * The time is a number, and the memory thread's work is done when the test says so.
 */
#ifndef OL_TESTS_UNIT_SERVER_SESSION_UTIL_H
#define OL_TESTS_UNIT_SERVER_SESSION_UTIL_H

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
	CONNS = 32,
};

#define MS(count) ((uint64_t)(count)*OL_NS_PER_MS)

static const char key[] = "the key of this job";
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
	struct ol_xport_conn conns[CONNS]; /* one an attempt to come in */
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

static inline int reg_begin(struct ol_xport *xport, unsigned access,
			    struct ol_xport_later **ret_later)
{
	(void)xport;
	assert_int_equal(access & ~(unsigned)OL_XPORT_ACCESS_RELAXED, OL_XPORT_ACCESS_PEER_WRITE);
	*ret_later = calloc(1, sizeof(**ret_later));
	assert_non_null(*ret_later);
	net.begun++;
	return 0;
}

static inline int reg_run(struct ol_xport_later *later, struct ol_slab *slab, size_t off,
			  size_t bytes)
{
	assert_false(later->ran); /* once */
	assert_true(off + bytes <= slab->bytes);
	later->ran = true;
	later->bytes = bytes;
	net.ran++;
	return net.run_rc;
}

static inline int reg_end(struct ol_xport_later *later, struct ol_xport_conn *conn,
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

static inline void drop(struct ol_xport_later *later)
{
	free(later);
	net.dropped++;
}

static inline void dereg(struct ol_xport_region *region)
{
	free(region);
}

static inline struct ol_xport_rkey rkey(const struct ol_xport_region *region,
					const struct ol_xport_conn *conn)
{
	assert_true(region->conn == NULL || region->conn == conn);
	return (struct ol_xport_rkey){ .addr = 1 << 20, .bytes = region->bytes };
}

static inline int accept_peer(struct ol_xport_conn *conn, const void *priv, uint32_t priv_len)
{
	assert_int_equal(ol_wire_accept_decode(priv, priv_len, &net.accept), 0);
	net.accepted = conn;
	return net.accept_rc;
}

static inline void reject(struct ol_xport_conn *conn, const void *priv, uint32_t priv_len)
{
	(void)conn;
	assert_int_equal(ol_wire_reject_decode(priv, priv_len, &net.rejected), 0);
	net.rejects++;
}

static inline void conn_free(struct ol_xport_conn *conn)
{
	(void)conn;
	net.freed++;
}

static const struct ol_xport_ident peer_ident = { .bytes = { 5 } };

static void ident_of(const struct ol_xport_conn *conn, struct ol_xport_ident *ret_ident)
{
	(void)conn;
	*ret_ident = peer_ident;
}

static const struct ol_xport_ident own_ident = { .bytes = { 6 } };

static int acceptor_of(struct ol_xport_conn *conn, struct ol_xport_ident *ret_ident)
{
	(void)conn;
	*ret_ident = own_ident;
	return 0;
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
	.ident = ident_of,
	.acceptor = acceptor_of,
	.conn_free = conn_free,
};

/* ---- the server ---- */

static struct ol_server server;
static _Alignas(OL_LINE_BYTES) struct ol_board board;
static struct ol_session *sessions; /* the server's */
static struct ol_slab public_slab = { .node = OL_SLAB_NODE_ANY };
static struct ol_xport_region public_region;
static char logged[OL_LOG_LINE_MAX]; /* the last line */
static unsigned lines; /* logged */

static inline void take_line(void *arg, enum ol_log_level level, const char *text)
{
	(void)arg;
	(void)level;
	snprintf(logged, sizeof(logged), "%s", text);
	lines++;
}

static inline int setup(void **state)
{
	(void)state;
	memset(&net, 0, sizeof(net));
	memset(&board, 0, sizeof(board));
	memset(&server, 0, sizeof(server));
	logged[0] = '\0';
	lines = 0;
	ol_log_sink_set(take_line, NULL);
	server.ops = &ops;
	server.opts.workers_max = WORKERS;
	server.opts.observers_max = OBSERVERS;
	server.opts.window = WINDOW;
	server.opts.lease_ms = LEASE_MS;
	server.store.board = &board;
	server.store.geo = (struct ol_geometry){ .param_count = 16,
						 .shard_len = 16,
						 .shard_count = 1,
						 .workers_max = WORKERS,
						 .groups = 1,
						 .window = WINDOW,
						 .consistency = OL_CONSISTENCY_ASYNC };
	server.public_slab = &public_slab;
	server.public_region = &public_region;
	public_region.bytes = ol_layout_public_bytes(&server.store.geo);
	server.kind = &ol_chain_strict;
	server.replica.ring.keeps = true;
	assert_int_equal(ol_slab_create(ol_layout_ring_bytes(&server.store.geo), OL_SLAB_NODE_ANY,
					false, &server.replica.ring.slab),
			 0);
	snprintf(server.job_key, sizeof(server.job_key), "%s", key);
	ol_serve_join(&server);
	assert_int_equal(ol_sessions_open(&server.sessions, 1, OL_PREDECESSORS_MAX), 0);
	sessions = server.sessions.all;
	assert_int_equal(server.sessions.count, SESSIONS);
	/* a memory thread that does what work() makes it do, and nothing else */
	server.memory.ops = &ops;
	server.memory.on = true;
	pthread_mutex_init(&server.memory.lock, NULL);
	sem_init(&server.memory.wake, 0, 0);
	server.memory.wake_fd = eventfd(0, EFD_CLOEXEC);
	return server.memory.wake_fd < 0 ? -1 : 0;
}

/* All that the thread has to do, and all that the loop has to do then */
static inline void work(uint64_t now_ns)
{
	while (ol_memory_work(&server.memory) || ol_memory_has_news(&server.memory))
		ol_server_on_memory(&server, now_ns);
}

static inline int teardown(void **state)
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
	assert_int_equal(server.sessions.taken.count, 0);
	assert_int_equal(server.sessions.pinning.count, 0);
	assert_int_equal(server.sessions.slot_bytes, 0);
	for (unsigned i = 0; i <= OL_ROLE_REPLICA; i++)
		assert_int_equal(server.sessions.budgets[i].used, 0);
	ol_sessions_close(&server.sessions);
	pthread_mutex_destroy(&server.memory.lock);
	sem_destroy(&server.memory.wake);
	close(server.memory.wake_fd);
	ol_slab_destroy(server.replica.ring.slab);
	ol_log_sink_set(NULL, NULL);
	return 0;
}

static inline struct ol_xport_conn *say(struct ol_wire_connect *msg, uint64_t now_ns)
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
static struct ol_wire_connect last_proof;

static inline struct ol_xport_conn *come_as(uint32_t worker, enum ol_wire_role role, bool queues,
					    uint64_t now_ns)
{
	struct ol_wire_connect msg = {
		.kind = OL_CONNECT_KNOCK, .role = role, .worker = worker, .queues = queues
	};

	net.conn_count = net.conn_count > CONNS - 2 ? 0 : net.conn_count;
	assert_int_equal(ol_auth_random(msg.nonce, sizeof(msg.nonce)), 0);
	ol_auth_knock(key, &msg);
	say(&msg, now_ns);
	assert_int_equal(net.rejected.code, OL_REJECT_CHALLENGE);
	assert_true(ol_auth_reject_holds(key, &msg, &net.rejected));
	msg.kind = OL_CONNECT_PROOF;
	msg.made_ns = net.rejected.made_ns;
	ol_auth_proof(key, net.rejected.nonce, peer_ident.bytes, &msg);
	ol_sessions_turn(&server.sessions);
	last_proof = msg;
	return say(&msg, now_ns);
}

static inline struct ol_xport_conn *come(enum ol_wire_role role, bool queues, uint64_t now_ns)
{
	return come_as(1, role, queues, now_ns);
}

static inline void sessions_tick(uint64_t now_ns)
{
	for (uint32_t i = 0; i < SESSIONS; i++) {
		bool lies;
		const char *why = ol_session_tick(&server.sessions, &sessions[i], now_ns, &lies);

		if (why != NULL)
			ol_serve_end(&server, &sessions[i], why, lies);
	}
}

/* It comes, waits for as long as a peer may, and is told to come back */
static inline void come_in_vain(enum ol_wire_role role, bool queues, uint64_t now_ns)
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

#endif /* OL_TESTS_UNIT_SERVER_SESSION_UTIL_H */
