/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * shm_util.h -- ends of the shared-memory transport for its unit tests, and a peer that lies
 *
 * Waiting polls every end given until the condition holds or a deadline fails the test.
 */
#ifndef OL_TESTS_UNIT_RDMA_SHM_UTIL_H
#define OL_TESTS_UNIT_RDMA_SHM_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "rdma/shm/msg.h"
#include "rdma/slab.h"
#include "rdma/transport.h"
#include "support/packet.h"
#include "unit/rdma/fds.h"

#define X (&ol_xport_shm)

enum {
	WAIT_S = 20,
	RW = OL_XPORT_ACCESS_PEER_READ | OL_XPORT_ACCESS_PEER_WRITE,
};

struct end {
	struct ol_xport *xport;
	struct ol_xport_conn *conn;
	char addr[OL_XPORT_ADDR_MAX];
	unsigned warns; /* lines at warn or error */
	char last[256]; /* the last of them */
};

static inline uint64_t test_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static inline void end_log(void *arg, enum ol_xport_log_level level, const char *text)
{
	struct end *end = arg;

	assert_null(strchr(text, '\n'));
	if (level > OL_XPORT_LOG_WARN)
		return;
	end->warns++;
	snprintf(end->last, sizeof(end->last), "%s", text);
}

static inline void end_open(struct end *end, const struct ol_xport_opts *opts)
{
	struct ol_xport_opts own;

	memset(end, 0, sizeof(*end));
	ol_xport_opts_init(&own);
	if (opts != NULL)
		own = *opts;
	own.log = end_log;
	own.log_arg = end;
	assert_int_equal(X->open(&own, &end->xport), 0);
}

static inline void end_listen(struct end *end)
{
	assert_int_equal(X->listen(end->xport, "@", end->addr), 0);
}

static inline void end_close(struct end *end)
{
	X->close(end->xport);
	end->xport = NULL;
}

/* next -- the next event of end, polling other as well (NULL: nobody), which must have none */
static inline struct ol_xport_event next(struct end *end, struct end *other)
{
	uint64_t until = test_now_ms() + WAIT_S * 1000;
	struct ol_xport_event event;

	while (X->poll(end->xport, &event, 1) == 0) {
		if (test_now_ms() > until)
			fail_msg("no event within %d s", WAIT_S);
		if (other != NULL)
			assert_int_equal(X->poll(other->xport, &event, 1), 0);
	}
	return event;
}

/* want -- the next event is of type */
static inline struct ol_xport_event want(struct end *end, struct end *other,
					 enum ol_xport_event_type type)
{
	struct ol_xport_event event = next(end, other);

	assert_int_equal(event.type, type);
	return event;
}

/* drained -- end has looked at its sockets many times, and there was no event */
static inline void drained(struct end *end)
{
	struct ol_xport_event event;
	int i;

	for (i = 0; i < 2000; i++)
		assert_int_equal(X->poll(end->xport, &event, 1), 0);
}

/* join -- b connects to a, both up */
static inline void join(struct end *a, struct end *b)
{
	struct ol_xport_event event;

	assert_int_equal(X->connect(b->xport, a->addr, NULL, 0, NULL, &b->conn), 0);
	event = want(a, b, OL_XPORT_CONN_REQUEST);
	a->conn = event.conn;
	assert_int_equal(X->accept(a->conn, NULL, 0), 0);
	want(b, a, OL_XPORT_CONN_UP);
	want(a, b, OL_XPORT_CONN_UP);
}

static inline void pair_open(struct end *a, struct end *b, const struct ol_xport_opts *opts)
{
	end_open(a, opts);
	end_open(b, opts);
	end_listen(a);
	join(a, b);
}

static inline void pair_close(struct end *a, struct end *b)
{
	end_close(b);
	end_close(a);
}

/* Memory of one end, one region over it. */
struct mem {
	struct ol_slab *slab;
	struct ol_xport_region *region;
	struct ol_xport_rkey key;
	uint8_t *p;
};

static inline void mem_open(struct mem *mem, struct end *end, struct ol_xport_conn *conn,
			    size_t bytes, unsigned access)
{
	assert_int_equal(ol_slab_create(bytes, OL_SLAB_NODE_ANY, false, &mem->slab), 0);
	assert_int_equal(X->reg(end->xport, conn, mem->slab, 0, bytes, access, &mem->region), 0);
	mem->key = X->rkey(mem->region, conn);
	mem->p = mem->slab->addr;
}

static inline void mem_close(struct mem *mem)
{
	X->dereg(mem->region);
	ol_slab_destroy(mem->slab);
}

/* bell -- a doorbell without data */
static inline int bell(struct ol_xport_conn *conn, uint32_t imm)
{
	const struct ol_xport_write write = { .flags = OL_XPORT_DOORBELL, .imm = imm };

	return X->post_write(conn, &write);
}

/* put -- bytes at src to off of key, signaled with cookie 1 */
static inline int put(struct ol_xport_conn *conn, struct ol_xport_rkey key, uint64_t off,
		      const void *src, uint32_t bytes)
{
	const struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)src, .bytes = bytes } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | OL_XPORT_SIGNALED,
		.dst = key,
		.dst_off = off,
		.cookie = 1,
	};

	return X->post_write(conn, &write);
}

/* fetch -- bytes at off of key into mem, signaled with cookie 2 */
static inline int fetch(struct ol_xport_conn *conn, const struct mem *mem, uint32_t bytes,
			struct ol_xport_rkey key, uint64_t off)
{
	const struct ol_xport_read read = {
		.segs = { { .region = mem->region, .bytes = bytes } },
		.seg_count = 1,
		.flags = OL_XPORT_SIGNALED,
		.src = key,
		.src_off = off,
		.cookie = 2,
	};

	return X->post_read(conn, &read);
}

/* A peer that speaks for itself: a socket, and messages as a test wants them. */

/* raw_socket -- connected to addr, an abstract name with "@" */
static inline int raw_socket(const char *addr)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(sock >= 0);
	memcpy(name.sun_path + 1, addr + 1, strlen(addr) - 1);
	assert_int_equal(
		connect(sock, (const struct sockaddr *)&name,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(addr))),
		0);
	return sock;
}

/* raw_listen -- a socket that a transport can connect to; addr: where */
static inline int raw_listen(char addr[OL_XPORT_ADDR_MAX])
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t bytes = sizeof(name);
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(sock >= 0);
	assert_int_equal(bind(sock, (const struct sockaddr *)&name, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(sock, 4), 0);
	assert_int_equal(getsockname(sock, (struct sockaddr *)&name, &bytes), 0);
	snprintf(addr, OL_XPORT_ADDR_MAX, "@%.*s",
		 (int)(bytes - offsetof(struct sockaddr_un, sun_path) - 1), name.sun_path + 1);
	return sock;
}

static inline void raw_send(int sock, const void *data, size_t bytes, const int *fds,
			    unsigned fd_count)
{
	assert_int_equal(packet_send(sock, data, bytes, fds, fd_count), (ssize_t)bytes);
}

static inline struct ol_shm_msg raw_msg(enum ol_shm_msg_type type)
{
	return (struct ol_shm_msg){ .magic = OL_SHM_MSG_MAGIC,
				    .proto = OL_SHM_MSG_PROTO,
				    .type = (uint16_t)type };
}

static inline void raw_say(int sock, const struct ol_shm_msg *msg, const int *fds,
			   unsigned fd_count)
{
	raw_send(sock, msg, ol_shm_msg_bytes(msg), fds, fd_count);
}

/* raw_hear -- the next message for sock while end polls, and its descriptors; false: it is over */
static inline bool raw_hear(int sock, struct end *end, struct ol_shm_msg *ret_msg, int ret_fds[2])
{
	uint64_t until = test_now_ms() + WAIT_S * 1000;
	struct ol_xport_event event;
	unsigned fd_count;
	ssize_t got;

	for (;;) {
		got = packet_take(sock, ret_msg, sizeof(*ret_msg), ret_fds, &fd_count);
		if (got >= 0)
			return got > 0;
		assert_true(test_now_ms() < until);
		assert_int_equal(X->poll(end->xport, &event, 1), 0);
	}
}

#endif /* OL_TESTS_UNIT_RDMA_SHM_UTIL_H */
