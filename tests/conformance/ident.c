/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * ident.c -- both ends see the same connecting end and the same accepting one, no two connections have
 * the same, and what a seal writes is what arrives
 */
#include <errno.h>
#include <string.h>

#include "support/check.h"
#include "support/xport_pair.h"

enum {
	CONNS = 6,
	PRIV_BYTES = 40,
};

struct sealed {
	struct ol_xport_ident ident;
	unsigned calls;
};

/* The ident behind what was given to connect() */
static void seal(void *arg, const struct ol_xport_ident *ident, void *priv, uint32_t priv_len)
{
	struct sealed *sealed = arg;

	check_eq(priv_len, PRIV_BYTES);
	xp_check_fill(priv, 8, 7, "given to connect()");
	sealed->ident = *ident;
	sealed->calls++;
	memcpy((uint8_t *)priv + 8, ident->bytes, sizeof(ident->bytes));
}

static void both_see_the_same(void)
{
	struct ol_xport_conn *a_conns[CONNS], *b_conns[CONNS];
	struct ol_xport_ident seen[CONNS], own, acceptor;
	uint8_t priv[PRIV_BYTES] = { 0 };
	struct xp_end a, b;

	xp_end_open(&a, NULL);
	xp_end_open(&b, NULL);
	xp_end_listen(&a);
	xp_fill(priv, 8, 7);
	for (unsigned i = 0; i < CONNS; i++) {
		struct sealed sealed = { .calls = 0 };
		const struct ol_xport_seal how = { .make = seal, .arg = &sealed };
		struct xp_event event;

		check_ok(b.ops->connect(b.xport, a.addr, priv, sizeof(priv), &how, &b_conns[i]));
		event = xp_wait(&a, OL_XPORT_CONN_REQUEST, NULL);
		a_conns[i] = event.ev.conn;
		check_eq(sealed.calls, 1);
		a.ops->ident(a_conns[i], &seen[i]);
		check(memcmp(&seen[i], &sealed.ident, sizeof(seen[i])) == 0);
		check(memcmp(event.priv + 8, seen[i].bytes, sizeof(seen[i].bytes)) == 0);
		for (unsigned j = 0; j < i; j++)
			check(memcmp(&seen[i], &seen[j], sizeof(seen[i])) != 0);
		check_ok(a.ops->acceptor(a_conns[i], &acceptor));
		check_ok(a.ops->accept(a_conns[i], NULL, 0));
		xp_wait(&b, OL_XPORT_CONN_UP, b_conns[i]);
		xp_wait(&a, OL_XPORT_CONN_UP, a_conns[i]);
		check_ok(b.ops->acceptor(b_conns[i], &own));
		check(memcmp(&own, &acceptor, sizeof(own)) == 0);
		check(memcmp(&own, &seen[i], sizeof(own)) != 0);
		check_ok(a.ops->acceptor(a_conns[i], &own));
		check(memcmp(&own, &acceptor, sizeof(own)) == 0);
		b.ops->ident(b_conns[i], &own);
		check(memcmp(&own, &seen[i], sizeof(own)) == 0);
		a.ops->ident(a_conns[i], &own);
		check(memcmp(&own, &seen[i], sizeof(own)) == 0);
		check_eq(sealed.calls, 1);
	}
	for (unsigned i = 0; i < CONNS; i++) {
		xp_conn_free(&b, b_conns[i]);
		xp_conn_free(&a, a_conns[i]);
	}
	xp_end_close(&b);
	xp_end_close(&a);
}

/* What was prepared for a request is gone when it is refused, and its end is told as ever. */
static void prepared_and_refused(void)
{
	struct ol_xport_ident acceptor;
	struct ol_xport_conn *conn;
	struct xp_event event;
	struct xp_end a, b;

	xp_end_open(&a, NULL);
	xp_end_open(&b, NULL);
	xp_end_listen(&a);
	for (unsigned i = 0; i < 2; i++) {
		check_ok(b.ops->connect(b.xport, a.addr, "knock", 5, NULL, &conn));
		event = xp_wait(&a, OL_XPORT_CONN_REQUEST, NULL);
		check_ok(a.ops->acceptor(event.ev.conn, &acceptor));
		if (i == 0)
			a.ops->reject(event.ev.conn, "no", 2);
		else
			xp_conn_free(&a, event.ev.conn);
		event = xp_wait(&b, OL_XPORT_CONN_DOWN, conn);
		check_eq(event.ev.status, -ECONNREFUSED);
		check(i == 1 || memcmp(event.priv, "no", 2) == 0);
		xp_conn_free(&b, conn);
	}
	xp_end_close(&b);
	xp_end_close(&a);
}

/* An attempt that reaches nobody calls the seal at most once, and never after its end. */
static void nobody_there(void)
{
	struct sealed sealed = { .calls = 0 };
	const struct ol_xport_seal how = { .make = seal, .arg = &sealed };
	char addr[OL_XPORT_ADDR_MAX];
	uint8_t priv[PRIV_BYTES] = { 0 };
	struct ol_xport_conn *conn;
	struct xp_end a, b;

	xp_end_open(&a, NULL);
	xp_end_open(&b, NULL);
	xp_end_listen(&a);
	memcpy(addr, a.addr, sizeof(addr));
	xp_end_close(&a);
	xp_fill(priv, 8, 7);
	check_ok(b.ops->connect(b.xport, addr, priv, sizeof(priv), &how, &conn));
	xp_wait(&b, OL_XPORT_CONN_DOWN, conn);
	check(sealed.calls <= 1);
	xp_conn_free(&b, conn);
	xp_end_close(&b);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("both ends see the same connecting end, and no two connections have the same",
		both_see_the_same);
	xp_run1("a request that is prepared and then refused", prepared_and_refused);
	xp_run1("a seal without a listener", nobody_there);
	return xp_result();
}
