/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * old_key.c -- hardware property: a key is dead once dereg() has returned, even if its connection
 * is up and its peer has writes in flight; and a region registered in its place has another key
 */
#include <errno.h>
#include <string.h>

#include "rdma/order.h"
#include "support/check.h"
#include "support/xport_pair.h"

enum {
	BYTES = 65536,
	OP_BYTES = 512,
	WATCH_MS = 30,
	LATE_MS = 1000,
	ROUNDS = 20,
};

static void writer(struct xp_side *side)
{
	struct ol_xport_rkey key;
	struct xp_mem src;

	xp_end_open(&side->end, NULL);
	xp_recv(side, side->end.addr, sizeof(side->end.addr));
	xp_mem_open(&src, &side->end, NULL, OP_BYTES, OL_XPORT_ACCESS_LOCAL);
	memset(src.p, 0x77, OP_BYTES);
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct xp_event event;
		uint64_t at = 0;
		int rc = 0;

		check_ok(side->end.ops->connect(side->end.xport, side->end.addr, NULL, 0, NULL,
						&side->conn));
		xp_wait(&side->end, OL_XPORT_CONN_UP, side->conn);
		xp_recv(side, &key, sizeof(key));
		while (!xp_take(&side->end, OL_XPORT_CONN_DOWN, side->conn, &event)) {
			struct ol_xport_write write = xp_write(&src, 0, OP_BYTES, key, at);

			rc = side->end.ops->post_write(side->conn, &write);
			if (rc == 0)
				at = (at + OP_BYTES) % BYTES;
			else
				xp_relax();
		}
		check_eq(event.ev.status, -EACCES);
		xp_conn_free(&side->end, side->conn);
		side->conn = NULL;
		xp_sync(side);
	}
	xp_side_close(side);
	xp_mem_close(&src);
}

static void revoke_once(struct xp_side *side)
{
	static uint8_t before[BYTES];
	struct xp_end *end = &side->end;
	uint64_t until;
	struct xp_mem mem;
	struct xp_mem next;
	struct ol_xport_rkey old;

	side->conn = xp_wait(end, OL_XPORT_CONN_REQUEST, NULL).ev.conn;
	check_ok(end->ops->accept(side->conn, NULL, 0));
	xp_wait(end, OL_XPORT_CONN_UP, side->conn);
	xp_mem_open(&mem, end, side->conn, BYTES, OL_XPORT_ACCESS_PEER_WRITE);
	old = mem.key;
	xp_send(side, &old, sizeof(old));
	while (ol_word_load((_Atomic uint64_t *)(void *)(mem.p + BYTES - 8)) == 0)
		xp_relax();

	end->ops->dereg(mem.region); /* the connection is up, the writer busy */
	mem.region = NULL;
	if (!xp_is_shm()) {
		memcpy(before, mem.p, BYTES);
		for (until = xp_now_ms() + WATCH_MS; xp_now_ms() < until; xp_relax())
			check_msg(memcmp(before, mem.p, BYTES) == 0, "written after dereg()");
	}
	xp_mem_close(&mem);
	xp_mem_open(&next, end, side->conn, BYTES, OL_XPORT_ACCESS_PEER_WRITE);
	check_msg(next.key.rkey != old.rkey, "the next region has the key of the last: %#x",
		  old.rkey);
	xp_wait_down(end, side->conn);
	for (until = xp_now_ms() + WATCH_MS; xp_now_ms() < until; xp_relax())
		xp_progress();
	xp_check_bytes(next.p, BYTES, 0, "the region in the old one's place");
	xp_conn_free(end, side->conn);
	side->conn = NULL;
	xp_mem_close(&next);
	xp_sync(side);
}

static void owner(struct xp_side *side)
{
	xp_end_open(&side->end, NULL);
	xp_end_listen(&side->end);
	xp_send(side, side->end.addr, sizeof(side->end.addr));
	for (unsigned round = 0; round < ROUNDS; round++)
		revoke_once(side);
	xp_side_close(side);
}

/* It knows that its write was refused, and then looks a second later: a live peer refused it. */
static void late_writer(struct xp_side *side)
{
	struct ol_xport_write write;
	struct ol_xport_rkey key;
	struct xp_event event;
	struct xp_mem src;
	uint64_t until;

	xp_side_b_open(side, NULL);
	xp_mem_open(&src, &side->end, NULL, OP_BYTES, OL_XPORT_ACCESS_LOCAL);
	xp_recv(side, &key, sizeof(key));
	write = xp_write(&src, 0, OP_BYTES, key, 0);
	write.flags = OL_XPORT_SIGNALED;
	check_ok(side->end.ops->post_write(side->conn, &write));
	event = xp_wait(&side->end, OL_XPORT_DONE, side->conn);
	check_eq(event.ev.status, -EACCES);
	for (until = xp_now_ms() + LATE_MS; xp_now_ms() < until; xp_relax())
		;
	event = xp_wait(&side->end, OL_XPORT_CONN_DOWN, side->conn);
	check_eq(event.ev.status, -EACCES);
	xp_side_close(side);
	xp_mem_close(&src);
}

static void patient_owner(struct xp_side *side)
{
	struct xp_end *end = &side->end;
	struct ol_xport_rkey key;
	struct xp_mem mem;

	xp_side_a_open(side, NULL);
	xp_mem_open(&mem, end, side->conn, BYTES, OL_XPORT_ACCESS_PEER_WRITE);
	key = mem.key;
	end->ops->dereg(mem.region);
	mem.region = NULL;
	xp_send(side, &key, sizeof(key));
	xp_wait_down(end, side->conn);
	xp_side_close(side);
	xp_mem_close(&mem);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run2("a key is dead after dereg()", owner, writer, false);
	if (!xp_is_shm()) /* whose mappings outlive dereg() */
		xp_run2("who looks late hears that it was refused", patient_owner, late_writer,
			false);
	return xp_result();
}
