/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * p7_fence.c -- after conn_free() and dereg() return, no write under the old key reaches memory
 * that is still read, although the writer goes on as fast as it can; and the old key does not work
 * on a later connection of the same writer. With caps.fence_keeps the written memory itself may
 * still be read.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdma/order.h"
#include "support/check.h"
#include "support/xport_pair.h"

enum {
	MEM_BYTES = 1 << 20,
	OP_BYTES = 4096,
	OPS = MEM_BYTES / OP_BYTES,
	WATCH_MS = 200, /* rxe was seen to land a write 8.6 ms after a weaker fence */
	FENCES = 6,
};

/* What the writer is told for each fence. */
struct fence_keys {
	struct ol_xport_rkey old;
	struct ol_xport_rkey own; /* of the new connection */
};

/* unchanged -- mem stays as it is now for ms */
static void unchanged(const uint8_t *mem, unsigned ms, const char *what)
{
	uint8_t *before = malloc(MEM_BYTES);
	uint64_t until = xp_now_ms() + ms;

	check(before != NULL);
	memcpy(before, mem, MEM_BYTES);
	do {
		check_msg(memcmp(before, mem, MEM_BYTES) == 0, "%s changed after the fence", what);
		xp_progress();
		xp_relax();
	} while (xp_now_ms() < until);
	free(before);
}

static void written_wait(const struct xp_mem *mem)
{
	uint64_t deadline = xp_now_ms() + XP_WAIT_MS;
	_Atomic uint64_t *last = (_Atomic uint64_t *)(void *)(mem->p + MEM_BYTES - 8);

	while (ol_word_load(last) == 0) {
		check_msg(xp_now_ms() < deadline, "the writer does not write");
		xp_relax();
	}
}

/* A writer of a new connection with the old key. The memory behind its own key must not change. */
static void old_key_again(struct xp_side *side, const struct ol_xport_rkey *old)
{
	struct xp_end *end = &side->end;
	struct fence_keys keys = { .old = *old };
	struct xp_mem fresh;

	side->conn = xp_wait(end, OL_XPORT_CONN_REQUEST, NULL).ev.conn;
	check_ok(end->ops->accept(side->conn, NULL, 0));
	xp_wait(end, OL_XPORT_CONN_UP, side->conn);
	xp_mem_open(&fresh, end, side->conn, MEM_BYTES, OL_XPORT_ACCESS_PEER_WRITE);
	keys.own = fresh.key;
	xp_send(side, &keys, sizeof(keys));
	if (memcmp(&keys.own, old, sizeof(*old)) == 0)
		xp_note("the new key is the old one: the writer does not try it");
	else
		xp_wait_down(end, side->conn);
	unchanged(fresh.p, 20, "memory of the next connection");
	xp_check_bytes(fresh.p, MEM_BYTES, 0, "memory of the next connection");
	xp_sync(side);
	xp_conn_free(end, side->conn);
	side->conn = NULL;
	xp_mem_close(&fresh);
}

static void fence_once(struct xp_side *side, bool dereg_first)
{
	struct xp_end *end = &side->end;
	struct ol_xport_rkey old;
	struct xp_mem mem;
	struct xp_mem next;

	side->conn = xp_wait(end, OL_XPORT_CONN_REQUEST, NULL).ev.conn;
	check_ok(end->ops->accept(side->conn, NULL, 0));
	xp_wait(end, OL_XPORT_CONN_UP, side->conn);
	xp_mem_open(&mem, end, side->conn, MEM_BYTES, OL_XPORT_ACCESS_PEER_WRITE);
	old = mem.key;
	xp_send(side, &old, sizeof(old));
	written_wait(&mem);

	if (dereg_first)
		end->ops->dereg(mem.region);
	xp_conn_free(end, side->conn);
	if (!dereg_first)
		end->ops->dereg(mem.region);
	mem.region = NULL;
	side->conn = NULL;
	if (end->caps.fence_keeps)
		unchanged(mem.p, WATCH_MS, "fenced memory");
	xp_mem_close(&mem);
	/* Most likely at the old address, with the old descriptor. */
	xp_mem_open(&next, end, NULL, MEM_BYTES,
		    OL_XPORT_ACCESS_PEER_WRITE | OL_XPORT_ACCESS_PEER_READ);
	unchanged(next.p, xp_is_shm() ? WATCH_MS : 50, "memory of the next epoch");
	xp_check_bytes(next.p, MEM_BYTES, 0, "memory of the next epoch");
	xp_sync(side);
	old_key_again(side, &old);
	xp_check_bytes(next.p, MEM_BYTES, 0, "memory of the next epoch");
	xp_mem_close(&next);
}

static void fencer(struct xp_side *side)
{
	xp_end_open(&side->end, NULL);
	xp_end_listen(&side->end);
	xp_send(side, side->end.addr, sizeof(side->end.addr));
	for (unsigned i = 0; i < FENCES; i++)
		fence_once(side, i % 2 == 1);
	xp_side_close(side);
}

/* Writes for all it is worth until the connection is down; returns the status of that. */
static int write_until_down(struct xp_side *side, const struct xp_mem *src,
			    struct ol_xport_rkey key)
{
	struct xp_event event;
	uint64_t deadline = xp_now_ms() + XP_WAIT_MS;
	uint64_t number = 0;
	int rc = 0;

	while (!xp_take(&side->end, OL_XPORT_CONN_DOWN, side->conn, &event)) {
		struct ol_xport_write write =
			xp_write(src, 0, OP_BYTES, key, number % OPS * OP_BYTES);

		check_msg(xp_now_ms() < deadline, "%d ms after the fence the writer knows nothing",
			  XP_WAIT_MS);
		for (unsigned i = 0; i < 8; i++) {
			rc = side->end.ops->post_write(side->conn, &write);
			if (rc == 0)
				write.dst_off = ++number % OPS * OP_BYTES;
		}
		if (rc != 0)
			xp_relax();
	}
	rc = side->end.ops->post_write(side->conn,
				       &(struct ol_xport_write){ .flags = OL_XPORT_DOORBELL });
	check(rc < 0 && rc != -EAGAIN);
	return event.ev.status;
}

static void connect_again(struct xp_side *side)
{
	check_ok(side->end.ops->connect(side->end.xport, side->end.addr, NULL, 0, NULL,
					&side->conn));
	xp_wait(&side->end, OL_XPORT_CONN_UP, side->conn);
}

static void disconnect_now(struct xp_side *side)
{
	xp_conn_free(&side->end, side->conn);
	side->conn = NULL;
}

static void writer(struct xp_side *side)
{
	struct ol_xport_rkey key;
	struct fence_keys keys;
	struct xp_mem src;

	xp_end_open(&side->end, NULL);
	xp_recv(side, side->end.addr, sizeof(side->end.addr));
	xp_mem_open(&src, &side->end, NULL, OP_BYTES, OL_XPORT_ACCESS_LOCAL);
	memset(src.p, 0x5a, OP_BYTES);
	for (unsigned i = 0; i < FENCES; i++) {
		int status;

		connect_again(side);
		xp_recv(side, &key, sizeof(key));
		status = write_until_down(side, &src, key);
		if (i < 2)
			xp_note("a writer that is fenced out sees CONN_DOWN with %d", status);
		disconnect_now(side);
		xp_sync(side);
		connect_again(side);
		xp_recv(side, &keys, sizeof(keys));
		if (memcmp(&keys.own, &keys.old, sizeof(keys.old)) != 0)
			check_eq(write_until_down(side, &src, keys.old), -EACCES);
		xp_sync(side);
		disconnect_now(side);
	}
	xp_side_close(side);
	xp_mem_close(&src);
}

/* The reader has not heard yet that its connection was freed. */
static void read_after_fence(void)
{
	struct xp_pair pair;
	struct xp_mem shared, own;
	struct xp_event event;

	xp_pair_open(&pair, NULL);
	xp_mem_open(&shared, &pair.a, pair.a_conn, OP_BYTES, OL_XPORT_ACCESS_PEER_READ);
	xp_mem_open(&own, &pair.b, NULL, OP_BYTES, OL_XPORT_ACCESS_LOCAL);
	memset(shared.p, 1, OP_BYTES);
	for (unsigned i = 0; i < 2; i++) {
		struct ol_xport_read read = xp_read(&own, 0, OP_BYTES, shared.key, 0);

		read.flags = OL_XPORT_SIGNALED;
		if (i == 1) {
			xp_conn_free(&pair.a, pair.a_conn);
			memset(shared.p, 2, OP_BYTES);
		}
		if (pair.b.ops->post_read(pair.b_conn, &read) != 0)
			break; /* it has heard */
		event = xp_wait(&pair.b, OL_XPORT_DONE, pair.b_conn);
		check_msg((event.ev.status == 0) == (i == 0), "read %u: status %d", i,
			  event.ev.status);
	}
	xp_wait_down(&pair.b, pair.b_conn);
	xp_conn_free(&pair.b, pair.b_conn);
	xp_mem_close(&own);
	xp_mem_close(&shared);
	xp_end_close(&pair.b);
	xp_end_close(&pair.a);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("a read after the fence fails", read_after_fence);
	xp_run2("a busy writer reaches nothing after the fence", fencer, writer, false);
	return xp_result();
}
