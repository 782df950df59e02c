/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * conn_private_data.c -- private data travels with connect, accept and reject: none, some, as much
 * as allowed; more is refused. (A transport may pad the data at the end.)
 */
#include <errno.h>
#include <string.h>

#include "support/check.h"
#include "support/xport_pair.h"

static const uint32_t connect_sizes[] = { 0, 1, 7, OL_XPORT_PRIV_CONNECT_MAX };
static const uint32_t accept_sizes[] = { 0, 1, 57, OL_XPORT_PRIV_ACCEPT_MAX };
static const uint32_t reject_sizes[] = { 0, 1, 57, OL_XPORT_PRIV_REJECT_MAX };

static void priv_check(const struct xp_event *event, uint32_t bytes, uint64_t seed,
		       const char *what)
{
	check_msg(event->ev.priv_len >= bytes, "%s: %u bytes arrived of %u", what,
		  event->ev.priv_len, bytes);
	xp_check_fill(event->priv, bytes, seed, what);
	if (xp_is_shm())
		check_eq(event->ev.priv_len, bytes);
}

static void there_and_back(void)
{
	uint8_t priv[OL_XPORT_PRIV_ACCEPT_MAX];
	struct xp_end a;
	struct xp_end b;

	xp_end_open(&a, NULL);
	xp_end_open(&b, NULL);
	xp_end_listen(&a);
	for (uint64_t i = 0; i < 16; i++) {
		uint32_t there = connect_sizes[i / 4];
		uint32_t back = accept_sizes[i % 4];
		struct ol_xport_conn *b_conn;
		struct xp_event event;
		struct ol_xport_conn *a_conn;

		xp_fill(priv, there, i);
		check_ok(b.ops->connect(b.xport, a.addr, there > 0 ? priv : NULL, there, NULL,
					&b_conn));
		memset(priv, 0xee, sizeof(priv)); /* priv is copied */
		event = xp_wait(&a, OL_XPORT_CONN_REQUEST, NULL);
		priv_check(&event, there, i, "with connect");
		a_conn = event.ev.conn;
		xp_fill(priv, back, i + 100);
		check_ok(a.ops->accept(a_conn, back > 0 ? priv : NULL, back));
		memset(priv, 0xee, sizeof(priv));
		event = xp_wait(&b, OL_XPORT_CONN_UP, b_conn);
		priv_check(&event, back, i + 100, "with accept");
		xp_wait(&a, OL_XPORT_CONN_UP, a_conn);
		xp_conn_free(&b, b_conn);
		xp_conn_free(&a, a_conn);
	}
	xp_end_close(&b);
	xp_end_close(&a);
}

static void no_and_why(void)
{
	uint8_t priv[OL_XPORT_PRIV_REJECT_MAX];
	struct xp_end a;
	struct xp_end b;

	xp_end_open(&a, NULL);
	xp_end_open(&b, NULL);
	xp_end_listen(&a);
	for (uint64_t i = 0; i < 4; i++) {
		uint32_t bytes = reject_sizes[i];
		struct ol_xport_conn *b_conn;
		struct xp_event event;

		check_ok(b.ops->connect(b.xport, a.addr, NULL, 0, NULL, &b_conn));
		event = xp_wait(&a, OL_XPORT_CONN_REQUEST, NULL);
		xp_fill(priv, bytes, i);
		xp_reject(&a, event.ev.conn, bytes > 0 ? priv : NULL, bytes);
		event = xp_wait(&b, OL_XPORT_CONN_DOWN, b_conn);
		check_eq(event.ev.status, -ECONNREFUSED);
		priv_check(&event, bytes, i, "with reject");
		if (bytes == 0)
			xp_note("rejected without a reason: priv_len %u", event.ev.priv_len);
		xp_quiet(&a, NULL, 5);
		xp_conn_free(&b, b_conn);
	}
	xp_end_close(&b);
	xp_end_close(&a);
}

static void too_much(void)
{
	uint8_t priv[OL_XPORT_PRIV_ACCEPT_MAX + 1] = { 0 };
	struct ol_xport_conn *b_conn = NULL;
	struct ol_xport_conn *a_conn;
	struct xp_end a;
	struct xp_end b;

	xp_end_open(&a, NULL);
	xp_end_open(&b, NULL);
	xp_end_listen(&a);
	check_eq(
		b.ops->connect(b.xport, a.addr, priv, OL_XPORT_PRIV_CONNECT_MAX + 1, NULL, &b_conn),
		-EINVAL);
	check(b_conn == NULL); /* outputs are written on success only */
	xp_quiet(&a, NULL, 20);
	check_ok(b.ops->connect(b.xport, a.addr, NULL, 0, NULL, &b_conn));
	a_conn = xp_wait(&a, OL_XPORT_CONN_REQUEST, NULL).ev.conn;
	check_eq(a.ops->accept(a_conn, priv, OL_XPORT_PRIV_ACCEPT_MAX + 1), -EINVAL);
	check_ok(a.ops->accept(a_conn, priv, OL_XPORT_PRIV_ACCEPT_MAX)); /* still a request */
	xp_wait(&a, OL_XPORT_CONN_UP, a_conn);
	xp_wait(&b, OL_XPORT_CONN_UP, b_conn);
	xp_conn_free(&a, a_conn);
	xp_conn_free(&b, b_conn);
	xp_end_close(&b);
	xp_end_close(&a);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("private data travels with connect and accept", there_and_back);
	xp_run1("private data travels with reject", no_and_why);
	xp_run1("too much private data is refused", too_much);
	return xp_result();
}
