/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * replica_util.h -- a replica for tests of its decisions
 *
 * The test plays the coordinator, the time is a number, and connections have no other end. Included
 * by one file of a program.
 */
#ifndef OL_TESTS_UNIT_REPLICA_REPLICA_UTIL_H
#define OL_TESTS_UNIT_REPLICA_REPLICA_UTIL_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "rdma/order.h"
#include "server/server.h"

enum {
	SELF = 20, /* ids: A < SELF < B < C */
	A = 10,
	B = 30,
	C = 40,
	JOB = 7,
	PROTO = 3,
	LEASE_MS = 100,
	SESSION_MS = 1000, /* three leases, and at least this */
};

#define MS(count) ((uint64_t)(count)*OL_NS_PER_MS)

static const uint64_t start = MS(1000000);

/* ---- the coordinator ---- */

static struct {
	struct ol_coord_state state;
	uint64_t generation;
	uint32_t proposals;
	uint64_t version; /* that the last one was to replace */
	struct ol_view proposed;
} coord;

static int open_rc = -EIO; /* of ol_coord_open() */

int ol_coord_open(const struct ol_coord_opts *opts, struct ol_coord **ret_coord, char *err,
		  size_t err_bytes)
{
	(void)opts;
	(void)err;
	(void)err_bytes;
	*ret_coord = (struct ol_coord *)&coord; /* never looked into */
	return open_rc;
}

void ol_coord_close(struct ol_coord *handle)
{
	(void)handle;
}

int ol_coord_join(struct ol_coord *handle, uint32_t shard, const struct ol_member *member)
{
	(void)handle;
	(void)shard;
	(void)member;
	return 0;
}

uint64_t ol_coord_generation(const struct ol_coord *handle)
{
	(void)handle;
	return coord.generation;
}

void ol_coord_look(struct ol_coord *handle, uint32_t shard, struct ol_coord_state *ret_state)
{
	(void)handle;
	(void)shard;
	*ret_state = coord.state;
}

void ol_coord_propose(struct ol_coord *handle, uint32_t shard, uint64_t version,
		      const struct ol_view *next)
{
	(void)handle;
	(void)shard;
	coord.proposals++;
	coord.version = version;
	coord.proposed = *next;
}

/* ---- the server ---- */

static struct ol_server server;
static uint32_t wanted; /* replicas of a chain */
static _Alignas(OL_LINE_BYTES) struct ol_board board;
static _Alignas(OL_LINE_BYTES) uint8_t beats[OL_PAGE_BYTES];
static struct ol_slab work = { .addr = beats }, slab;
static uint32_t reads;
static int read_rc, write_rc, connect_rc;
static uint32_t calls; /* of connect() */
static struct ol_xport_conn called; /* what it gives */

static inline int post_read(struct ol_xport_conn *conn, const struct ol_xport_read *read)
{
	(void)conn;
	assert_int_equal(read->cookie, OL_REPLICA_COOKIE_BEAT);
	reads++;
	return read_rc;
}

static inline int post_write(struct ol_xport_conn *conn, const struct ol_xport_write *write)
{
	(void)conn;
	(void)write;
	return write_rc;
}

static inline int no_connect(struct ol_xport *xport, const char *addr, const void *priv,
			     uint32_t priv_len, const struct ol_xport_seal *seal,
			     struct ol_xport_conn **ret_conn)
{
	(void)seal;
	(void)xport;
	(void)addr;
	(void)priv;
	(void)priv_len;
	calls++;
	*ret_conn = &called;
	return connect_rc;
}

static inline void conn_free(struct ol_xport_conn *conn)
{
	(void)conn;
}

static inline void query(const struct ol_xport *xport, struct ol_xport_caps *ret_caps)
{
	(void)xport;
	*ret_caps = (struct ol_xport_caps){ .fence_keeps = 0 };
}

static const struct ol_xport_ops ops = { .name = "none",
					 .query = query,
					 .post_read = post_read,
					 .post_write = post_write,
					 .connect = no_connect,
					 .conn_free = conn_free };

static inline struct ol_member member_of(uint64_t id)
{
	return (struct ol_member){ .id = id, .job = JOB, .proto = PROTO, .addr = "there" };
}

/* A view of these replicas, 0 at the end; the last `joining` of them joins */
static inline struct ol_view view_of(uint32_t epoch, uint32_t joining, const uint64_t *ids)
{
	struct ol_view view = { .epoch = epoch, .founded = 1, .shard_count = 1, .wanted = wanted };
	uint32_t count = 0;

	for (; ids[count] != 0; count++)
		view.replicas[count] = member_of(ids[count]);
	view.count = count - joining;
	view.joining = joining;
	return view;
}

#define IDS(...) ((const uint64_t[]){ __VA_ARGS__, 0 })

static inline void registered(const uint64_t *ids)
{
	coord.state.member_count = 0;
	for (; *ids != 0; ids++)
		coord.state.members[coord.state.member_count++] = member_of(*ids);
	coord.generation++;
}

/* The coordinator has this view, and all of it are registered; the server hears of it */
static inline void adopt(uint32_t epoch, uint32_t joining, const uint64_t *ids, uint64_t now_ns)
{
	coord.state.view = view_of(epoch, joining, ids);
	coord.state.version = epoch;
	registered(ids);
	ol_replica_view_read(&server.replica, now_ns);
}

/* Both neighbours, where there are any, are connected */
static inline void connect_all(void)
{
	server.replica.chain.pred_up = true;
	server.replica.chain.succ_up = true;
	server.replica.succ.dial.state = OL_DIAL_LIVE;
	server.replica.succ.dial.watch.posted = true; /* no heartbeat is due */
	server.replica.succ.dial.watch.post_ns = start;
}

static inline int setup(void **state)
{
	(void)state;
	memset(&server, 0, sizeof(server));
	memset(&coord, 0, sizeof(coord));
	memset(&board, 0, sizeof(board));
	memset(beats, 0, sizeof(beats));
	reads = 0;
	read_rc = 0;
	write_rc = 0;
	connect_rc = -EAGAIN;
	calls = 0;
	wanted = 3;
	server.ops = &ops;
	server.opts =
		(struct ol_server_opts){ .shard_count = 1, .replicas = 3, .lease_ms = LEASE_MS };
	server.store.board = &board;
	server.public_slab = &slab;
	server.kind = &ol_chain_strict;
	server.replica.coord = (struct ol_coord *)&coord; /* never looked into */
	server.replica.self = member_of(SELF);
	server.replica.ring.slots = 4;
	server.replica.ring.keeps = true;
	server.replica.work = &work;
	ol_serve_join(&server);
	server.replica.succ.pinned = -1;
	server.replica.dialer = (struct ol_dialer){ .ops = &ops,
						    .job_key = server.job_key,
						    .inbox = &server.inbox,
						    .retry_min_ms = 2,
						    .retry_max_ms = 128 };
	ol_chain_init(&server.replica.chain, SELF, 4);
	coord.state.connected = true;
	return 0;
}

/* The view that is proposed now; anything asked before does not count */
static inline const struct ol_view *proposes(uint64_t now_ns)
{
	coord.proposals = 0;
	server.replica.proposed_version = 0;
	server.replica.succ.dial.watch.post_ns = now_ns;
	ol_replica_tick(&server.replica, now_ns);
	return coord.proposals > 0 ? &coord.proposed : NULL;
}

static inline void assert_view(const struct ol_view *view, uint32_t epoch, uint32_t joining,
			       const uint64_t *ids)
{
	uint32_t count = 0;

	assert_non_null(view);
	assert_int_equal(view->epoch, epoch);
	assert_int_equal(view->joining, joining);
	for (; ids[count] != 0; count++)
		assert_int_equal(view->replicas[count].id, ids[count]);
	assert_int_equal(view->count + joining, count);
}

#endif /* OL_TESTS_UNIT_REPLICA_REPLICA_UTIL_H */
