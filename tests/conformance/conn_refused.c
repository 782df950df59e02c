/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * conn_refused.c -- a connect that cannot succeed ends in time, in a CONN_DOWN with the reason; an
 * acceptor survives a peer that gives up; limits on connections hold
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "support/check.h"
#include "support/xport_pair.h"

/* free_address -- one that had a listener a moment ago and has none now */
static void free_address(char addr[OL_XPORT_ADDR_MAX])
{
	struct xp_end end;

	xp_end_open(&end, NULL);
	xp_end_listen(&end);
	memcpy(addr, end.addr, OL_XPORT_ADDR_MAX);
	xp_end_close(&end);
}

static void nobody_listens(void)
{
	char addr[OL_XPORT_ADDR_MAX];
	struct ol_xport_conn *conn;
	struct xp_end end;

	free_address(addr);
	xp_end_open(&end, NULL);
	for (unsigned i = 0; i < 5; i++) {
		struct xp_event event;

		check_ok(end.ops->connect(end.xport, addr, "hello", 5, NULL, &conn));
		event = xp_wait(&end, OL_XPORT_CONN_DOWN, conn);
		check_eq(event.ev.status, -ECONNREFUSED);
		xp_quiet(&end, NULL, 5);
		xp_conn_free(&end, conn);
	}
	if (xp_is_shm()) {
		check_ok(end.ops->connect(end.xport, "/nowhere/at/all", NULL, 0, NULL, &conn));
		check_eq(xp_wait_down(&end, conn), -ECONNREFUSED);
		xp_conn_free(&end, conn);
	}
	xp_end_close(&end);
}

/* Nonsense is refused at once or ends in CONN_DOWN; it never crashes and never connects. */
static void bad_addresses(void)
{
	static const char *const shm_bad[] = { "", "/nowhere/at/all/x" };
	static const char *const verbs_bad[] = {
		"",
		":",
		"no-port",
		"127.0.0.1:",
		"127.0.0.1:x",
		"127.0.0.1:70000",
		"127.0.0.1:-1",
		"256.1.1.1:99",
		":::::::",
	};
	const char *const *bad = xp_is_shm() ? shm_bad : verbs_bad;
	size_t count = xp_is_shm() ? 2 : sizeof(verbs_bad) / sizeof(verbs_bad[0]);
	char long_addr[400];
	struct xp_end end;

	memset(long_addr, 'x', sizeof(long_addr));
	long_addr[0] = '@';
	long_addr[sizeof(long_addr) - 1] = '\0';
	xp_end_open(&end, NULL);
	for (size_t i = 0; i <= count; i++) {
		const char *addr = i < count ? bad[i] : long_addr;
		char ret_addr[OL_XPORT_ADDR_MAX] = "untouched";
		struct ol_xport_conn *conn = NULL;
		int rc = end.ops->connect(end.xport, addr, NULL, 0, NULL, &conn);

		check(rc <= 0);
		if (rc == 0) {
			check(xp_wait_down(&end, conn) < 0);
			xp_conn_free(&end, conn);
		} else {
			check(conn == NULL);
		}
		check_msg(end.ops->listen(end.xport, addr, ret_addr) < 0, "listening at '%s'",
			  addr);
		check(strcmp(ret_addr, "untouched") == 0);
	}
	xp_quiet(&end, NULL, 5);
	xp_end_close(&end);
}

static void address_in_use(void)
{
	char ret_addr[OL_XPORT_ADDR_MAX];
	struct xp_end a;
	struct xp_end b;

	xp_end_open(&a, NULL);
	xp_end_open(&b, NULL);
	xp_end_listen(&a);
	check_eq(b.ops->listen(b.xport, a.addr, ret_addr), -EADDRINUSE);
	xp_end_close(&a);
	check_ok(b.ops->listen(b.xport, a.addr, ret_addr)); /* free again */
	xp_end_close(&b);
}

/* Nobody answers the request: the connect times out, and answering it late does no harm. */
static void no_answer(bool accept)
{
	struct ol_xport_opts opts = xp_opts();
	struct ol_xport_conn *a_conn;
	struct ol_xport_conn *b_conn;
	struct xp_event event;
	uint64_t began;
	struct xp_end a;
	struct xp_end b;

	xp_end_open(&a, NULL);
	opts.connect_timeout_ms = 300;
	xp_end_open(&b, &opts);
	xp_end_listen(&a);
	began = xp_now_ms();
	check_ok(b.ops->connect(b.xport, a.addr, NULL, 0, NULL, &b_conn));
	while (!xp_take(&b, OL_XPORT_CONN_DOWN, b_conn, &event)) {
		check_msg(xp_now_ms() < began + 10000, "a connect nobody answers does not end");
		xp_pause();
	}
	check_eq(event.ev.status, -ETIMEDOUT);
	check(xp_now_ms() >= began + 250);
	xp_conn_free(&b, b_conn);
	a_conn = xp_wait(&a, OL_XPORT_CONN_REQUEST, NULL).ev.conn;
	if (accept) {
		int rc = a.ops->accept(a_conn, "late", 4);

		if (rc == 0)
			xp_note("late accept: taken, then CONN_DOWN %d", xp_wait_down(&a, a_conn));
		else
			xp_note("late accept: returned %d", rc);
		xp_conn_free(&a, a_conn);
	} else {
		xp_reject(&a, a_conn, "late", 4);
	}
	xp_quiet(&a, NULL, 20);
	xp_quiet(&b, NULL, 1);
	xp_connect(&a, &b, &a_conn, &b_conn); /* both are as good as new */
	xp_conn_free(&a, a_conn);
	xp_conn_free(&b, b_conn);
	xp_end_close(&b);
	xp_end_close(&a);
}

static void accept_too_late(void)
{
	no_answer(true);
}

static void reject_too_late(void)
{
	no_answer(false);
}

/* The peer frees its connection while it is a request here. */
static void peer_gave_up(void)
{
	struct ol_xport_conn *a_conn;
	struct ol_xport_conn *b_conn;
	struct xp_end a;
	struct xp_end b;

	xp_end_open(&a, NULL);
	xp_end_open(&b, NULL);
	xp_end_listen(&a);
	for (unsigned i = 0; i < 6; i++) {
		struct xp_event event;
		int rc;

		check_ok(b.ops->connect(b.xport, a.addr, NULL, 0, NULL, &b_conn));
		event = xp_wait(&a, OL_XPORT_CONN_REQUEST, NULL);
		a_conn = event.ev.conn;
		if (i % 2 == 0)
			b.ops->disconnect(b_conn);
		xp_conn_free(&b, b_conn);
		if (i / 2 == 1)
			xp_progress();
		if (i / 2 == 2) { /* answered before anybody could notice: a later notice counts */
			xp_reject(&a, a_conn, NULL, 0);
			xp_quiet(&a, NULL, 20);
			continue;
		}
		rc = a.ops->accept(a_conn, NULL, 0);
		if (rc == 0)
			while (!xp_take(&a, OL_XPORT_CONN_DOWN, a_conn, &event))
				xp_pause();
		xp_conn_free(&a, a_conn);
	}
	xp_connect(&a, &b, &a_conn, &b_conn);
	xp_bell(b_conn, 1);
	xp_wait_bell(&a, a_conn, 1);
	xp_conn_free(&a, a_conn);
	xp_conn_free(&b, b_conn);
	xp_end_close(&b);
	xp_end_close(&a);
}

/* conns_max connections are held, one more is not, and room is room again. */
static void too_many(bool at_acceptor)
{
	enum {
		MAX = 4
	};
	struct ol_xport_opts opts = xp_opts();
	struct ol_xport_conn *a_conns[MAX];
	struct ol_xport_conn *b_conns[MAX];
	struct ol_xport_conn *extra = NULL;
	struct xp_event event;
	struct xp_end a;
	struct xp_end b;
	int rc;

	opts.conns_max = MAX;
	xp_end_open(&a, at_acceptor ? &opts : NULL);
	xp_end_open(&b, at_acceptor ? NULL : &opts);
	xp_end_listen(&a);
	for (unsigned i = 0; i < MAX; i++)
		xp_connect(&a, &b, &a_conns[i], &b_conns[i]);
	rc = b.ops->connect(b.xport, a.addr, NULL, 0, NULL, &extra);
	check(rc <= 0);
	check(at_acceptor ? rc == 0 : rc < 0);
	if (rc == 0) {
		event = xp_wait(&b, OL_XPORT_CONN_DOWN, extra);
		xp_note("beyond the acceptor's conns_max: CONN_DOWN %d", event.ev.status);
		check(event.ev.status == -EUSERS); /* and not as where nobody listens */
		xp_conn_free(&b, extra);
	} else {
		xp_note("beyond the own conns_max: connect returns %d", rc);
		check(extra == NULL);
	}
	xp_quiet(&a, NULL, 5);
	for (unsigned i = 0; i < MAX; i++) {
		xp_bell(b_conns[i], i);
		xp_wait_bell(&a, a_conns[i], i);
		xp_conn_free(&b, b_conns[i]);
		xp_conn_free(&a, a_conns[i]);
		xp_connect(&a, &b, &a_conns[i], &b_conns[i]);
	}
	for (unsigned i = 0; i < MAX; i++) {
		xp_conn_free(&b, b_conns[i]);
		xp_conn_free(&a, a_conns[i]);
	}
	xp_end_close(&b);
	xp_end_close(&a);
}

static void too_many_here(void)
{
	too_many(true);
}

static void too_many_there(void)
{
	too_many(false);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("a connect to where nobody listens is refused", nobody_listens);
	xp_run1("a bad address is refused", bad_addresses);
	xp_run1("an address in use is refused", address_in_use);
	xp_run1("a request that timed out may be accepted, and both ends serve on",
		accept_too_late);
	xp_run1("a request that timed out may be rejected, and both ends serve on",
		reject_too_late);
	xp_run1("an acceptor survives a peer that gave up", peer_gave_up);
	xp_run1("the acceptor holds its limit on connections", too_many_here);
	xp_run1("the connector holds its limit on connections", too_many_there);
	return xp_result();
}
