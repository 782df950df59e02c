/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * conn_end.c -- disconnect from either side, from both at once, or twice: one CONN_DOWN with
 * status 0 at each side, and posts fail from the call on.
 */
#include <errno.h>

#include "support/check.h"
#include "support/xport_pair.h"

static void post_fails(struct ol_xport_conn *conn)
{
	struct ol_xport_write bell = { .flags = OL_XPORT_DOORBELL };
	int rc = xp_ops()->post_write(conn, &bell);

	check_msg(rc < 0 && rc != -EAGAIN, "a post after disconnect() returned %d", rc);
}

/* by: 1 the acceptor, 2 the connector, 3 both at once; busy: with operations in flight */
static void end_by(unsigned by, bool busy, unsigned times)
{
	struct xp_pair pair;
	struct xp_mem src;
	struct xp_mem dst;

	xp_pair_open(&pair, NULL);
	xp_mem_open(&src, &pair.b, NULL, 65536, OL_XPORT_ACCESS_LOCAL);
	xp_mem_open(&dst, &pair.a, pair.a_conn, 65536, OL_XPORT_ACCESS_PEER_WRITE);
	for (unsigned i = 0; busy && i < 32; i++) {
		struct ol_xport_write write = xp_write(&src, 0, 65536, dst.key, 0);

		xp_post_write(pair.b_conn, &write);
	}
	for (unsigned i = 0; i < times; i++) {
		if ((by & 1) != 0) {
			pair.a.ops->disconnect(pair.a_conn);
			post_fails(pair.a_conn);
		}
		if ((by & 2) != 0) {
			pair.b.ops->disconnect(pair.b_conn);
			post_fails(pair.b_conn);
		}
	}
	check_eq(xp_wait_down(&pair.a, pair.a_conn), 0);
	check_eq(xp_wait_down(&pair.b, pair.b_conn), 0);
	post_fails(pair.a_conn);
	post_fails(pair.b_conn);
	xp_quiet(&pair.a, NULL, 30);
	xp_quiet(&pair.b, NULL, 1);
	xp_mem_close(&src);
	xp_mem_close(&dst);
	xp_pair_close(&pair);
}

static void by_acceptor(void)
{
	end_by(1, false, 1);
	end_by(1, true, 1);
}

static void by_connector(void)
{
	end_by(2, false, 1);
	end_by(2, true, 1);
}

static void by_both(void)
{
	for (unsigned i = 0; i < 5; i++) {
		end_by(3, false, 1);
		end_by(3, true, 1);
	}
}

static void twice(void)
{
	end_by(1, false, 2);
	end_by(2, false, 2);
	end_by(3, false, 2);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("the acceptor disconnects, and each side hears it once", by_acceptor);
	xp_run1("the connector disconnects, and each side hears it once", by_connector);
	xp_run1("both disconnect at once, and each hears it once", by_both);
	xp_run1("a second disconnect changes nothing", twice);
	return xp_result();
}
