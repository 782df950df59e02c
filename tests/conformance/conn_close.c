/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * conn_close.c -- any order of ending works: close() with connections that are up, requested or
 * connecting; conn_free() of a request, during a connect, with operations in flight; dereg() before
 * or after conn_free(). The peer is told, and nothing leaks.
 */
#include <errno.h>
#include <string.h>

#include "support/check.h"
#include "support/xport_pair.h"

static void close_connected(void)
{
	for (unsigned i = 0; i < 4; i++) {
		struct xp_pair pair;
		struct xp_end *first = i % 2 == 0 ? &pair.a : &pair.b;
		struct xp_end *second = i % 2 == 0 ? &pair.b : &pair.a;

		xp_pair_open(&pair, NULL);
		if (i >= 2) {
			xp_bell(pair.a_conn, 1);
			xp_bell(pair.b_conn, 1);
		}
		xp_end_close(first);
		check_eq(xp_wait_down(second, i % 2 == 0 ? pair.b_conn : pair.a_conn), 0);
		if (i == 3)
			xp_conn_free(second, pair.a_conn);
		xp_end_close(second); /* with a connection that is down and not freed */
	}
}

static void close_with_request(void)
{
	struct ol_xport_conn *conn;
	struct xp_end a;
	struct xp_end b;
	int status;

	for (unsigned polled = 0; polled < 2; polled++) {
		xp_end_open(&a, NULL);
		xp_end_open(&b, NULL);
		xp_end_listen(&a);
		check_ok(b.ops->connect(b.xport, a.addr, NULL, 0, NULL, &conn));
		if (polled != 0)
			xp_wait(&a, OL_XPORT_CONN_REQUEST, NULL);
		xp_end_close(&a);
		status = xp_wait_down(&b, conn);
		xp_note("the acceptor closed before an answer: CONN_DOWN %d", status);
		check(status < 0);
		xp_conn_free(&b, conn);
		xp_end_close(&b);
	}
}

static void close_connecting(void)
{
	struct ol_xport_conn *conn;
	struct xp_event event;
	struct xp_end a;
	struct xp_end b;

	xp_end_open(&a, NULL);
	xp_end_listen(&a);
	for (unsigned i = 0; i < 5; i++) {
		xp_end_open(&b, NULL);
		check_ok(b.ops->connect(b.xport, a.addr, NULL, 0, NULL, &conn));
		for (unsigned polls = 0; polls < i; polls++)
			xp_progress_end(&b);
		if (i % 2 == 1)
			xp_conn_free(&b, conn);
		xp_end_close(&b);
		/* a may have heard of it or not; if so, it is answered like any other */
		for (unsigned tries = 0; tries < 100; tries++) {
			if (xp_take(&a, OL_XPORT_CONN_REQUEST, NULL, &event)) {
				xp_reject(&a, event.ev.conn, NULL, 0);
				break;
			}
		}
	}
	xp_end_close(&a);
}

static void request_freed(void)
{
	struct ol_xport_conn *conn;
	struct xp_event event;
	struct xp_end a;
	struct xp_end b;
	int status;

	xp_end_open(&a, NULL);
	xp_end_open(&b, NULL);
	xp_end_listen(&a);
	for (unsigned i = 0; i < 5; i++) {
		check_ok(b.ops->connect(b.xport, a.addr, NULL, 0, NULL, &conn));
		event = xp_wait(&a, OL_XPORT_CONN_REQUEST, NULL);
		if (i == 4)
			a.ops->disconnect(event.ev.conn);
		xp_conn_free(&a, event.ev.conn);
		status = xp_wait_down(&b, conn);
		if (i == 0)
			xp_note("a request freed without an answer: CONN_DOWN %d", status);
		check(status < 0);
		xp_quiet(&a, NULL, 5);
		xp_conn_free(&b, conn);
	}
	xp_end_close(&b);
	xp_end_close(&a);
}

/* accept() and at once conn_free(), or the connecting side frees at its CONN_UP. */
static void freed_at_once(void)
{
	struct ol_xport_conn *a_conn;
	struct ol_xport_conn *conn;
	struct xp_end a;
	struct xp_end b;

	xp_end_open(&a, NULL);
	xp_end_open(&b, NULL);
	xp_end_listen(&a);
	for (unsigned i = 0; i < 10; i++) {
		struct xp_event event;

		check_ok(b.ops->connect(b.xport, a.addr, NULL, 0, NULL, &conn));
		a_conn = xp_wait(&a, OL_XPORT_CONN_REQUEST, NULL).ev.conn;
		check_ok(a.ops->accept(a_conn, NULL, 0));
		if (i % 2 == 0) {
			xp_conn_free(&a, a_conn);
			while (!xp_take(&b, OL_XPORT_CONN_DOWN, conn, &event))
				xp_pause();
			(void)xp_take(&b, OL_XPORT_CONN_UP, conn, &event);
			xp_conn_free(&b, conn);
		} else {
			xp_wait(&b, OL_XPORT_CONN_UP, conn);
			xp_conn_free(&b, conn);
			while (!xp_take(&a, OL_XPORT_CONN_DOWN, a_conn, &event))
				xp_pause();
			(void)xp_take(&a, OL_XPORT_CONN_UP, a_conn, &event);
			xp_conn_free(&a, a_conn);
		}
		xp_quiet(&a, NULL, 5);
		xp_quiet(&b, NULL, 1);
	}
	xp_end_close(&b);
	xp_end_close(&a);
}

/* Operations in flight, then conn_free(): no event, and the memory can go at once. */
static void freed_in_flight(void)
{
	for (unsigned i = 0; i < 8; i++) {
		struct xp_pair pair;
		struct xp_mem src;
		struct xp_mem dst;

		xp_pair_open(&pair, NULL);
		xp_mem_open(&src, &pair.b, pair.b_conn, 1 << 20, OL_XPORT_ACCESS_LOCAL);
		xp_mem_open(&dst, &pair.a, pair.a_conn, 1 << 20,
			    OL_XPORT_ACCESS_PEER_WRITE | OL_XPORT_ACCESS_PEER_READ);
		for (unsigned op = 0; op < 16; op++) {
			struct ol_xport_write write = xp_write(&src, 0, 1 << 20, dst.key, 0);
			struct ol_xport_read read = xp_read(&src, 0, 1 << 20, dst.key, 0);

			write.flags = read.flags = OL_XPORT_SIGNALED;
			if (op % 4 == 3)
				xp_post_read(pair.b_conn, &read);
			else
				xp_post_write(pair.b_conn, &write);
		}
		if (i % 4 == 0) { /* regions first */
			xp_mem_close(&src);
			xp_mem_close(&dst);
		}
		xp_conn_free(i % 2 == 0 ? &pair.b : &pair.a,
			     i % 2 == 0 ? pair.b_conn : pair.a_conn);
		if (i % 2 == 0)
			pair.b_conn = NULL;
		else
			pair.a_conn = NULL;
		xp_quiet(i % 2 == 0 ? &pair.b : &pair.a, NULL, 10);
		if (i % 4 != 0) {
			xp_mem_close(&src);
			xp_mem_close(&dst);
		}
		xp_pair_close(&pair);
	}
}

/* Region for a request that is not accepted yet: its key goes out with accept(). */
static void region_before_accept(void)
{
	struct ol_xport_conn *a_conn;
	struct ol_xport_conn *b_conn;
	struct ol_xport_write write;
	struct ol_xport_rkey key;
	struct xp_event event;
	struct xp_mem mem;
	struct xp_end a;
	struct xp_end b;

	xp_end_open(&a, NULL);
	xp_end_open(&b, NULL);
	xp_end_listen(&a);
	for (unsigned i = 0; i < 3; i++) {
		check_ok(b.ops->connect(b.xport, a.addr, NULL, 0, NULL, &b_conn));
		a_conn = xp_wait(&a, OL_XPORT_CONN_REQUEST, NULL).ev.conn;
		xp_mem_open(&mem, &a, a_conn, 4096, OL_XPORT_ACCESS_PEER_WRITE);
		if (i == 2) {
			xp_reject(&a, a_conn, NULL, 0);
			xp_mem_close(&mem);
			check_eq(xp_wait_down(&b, b_conn), -ECONNREFUSED);
			xp_conn_free(&b, b_conn);
			continue;
		}
		check_ok(a.ops->accept(a_conn, &mem.key, sizeof(mem.key)));
		event = xp_wait(&b, OL_XPORT_CONN_UP, b_conn);
		check(event.ev.priv_len >= sizeof(key));
		memcpy(&key, event.priv, sizeof(key));
		write = (struct ol_xport_write){
			.segs = { { .off = (uintptr_t) "landed", .bytes = 7 } },
			.seg_count = 1,
			.flags = OL_XPORT_INLINE | OL_XPORT_DOORBELL,
			.dst = key,
		};
		xp_post_write(b_conn, &write);
		xp_wait_bell(&a, a_conn, 0);
		check(memcmp(mem.p, "landed", 7) == 0);
		if (i == 0)
			xp_mem_close(&mem);
		xp_conn_free(&a, a_conn);
		if (i == 1)
			xp_mem_close(&mem);
		xp_conn_free(&b, b_conn);
	}
	xp_end_close(&b);
	xp_end_close(&a);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("close() may come while connections are up", close_connected);
	xp_run1("close() may come before a request is answered", close_with_request);
	xp_run1("close() may come while a connect is under way", close_connecting);
	xp_run1("a request may be freed without an answer", request_freed);
	xp_run1("a connection may be freed right behind accept() or CONN_UP", freed_at_once);
	xp_run1("a connection may be freed with operations in flight", freed_in_flight);
	xp_run1("a region made for a request serves the connection, and may go before or after it",
		region_before_accept);
	return xp_result();
}
