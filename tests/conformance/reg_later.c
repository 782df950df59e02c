/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * reg_later.c -- a region that another thread has registered works for the request that it is given
 * to, even if that came after the original request was gone; regions for every connection work
 * there too. drop() frees all of it, with a connection or without
 */
#include <errno.h>
#include <pthread.h>

#include "support/check.h"
#include "support/xport_pair.h"

enum {
	BYTES = 1 << 16,
	PIECE = 4096,
	OFF = 8192,
	BELL = 7,
};

static struct {
	struct xp_end a; /* the acceptor */
	struct xp_end b;
	struct xp_mem common;
	struct ol_slab *slab; /* to be registered */
	struct ol_xport_later *later;
} play;

/* False: registering is quick here, and nobody needs another thread for it */
static bool begin(int shared_domain)
{
	struct ol_xport_opts opts = xp_opts();
	int rc;

	opts.shared_domain = shared_domain;
	xp_end_open(&play.a, &opts);
	xp_end_listen(&play.a);
	xp_end_open(&play.b, &opts);
	xp_mem_open(&play.common, &play.a, NULL, BYTES, OL_XPORT_ACCESS_PEER_READ);
	xp_fill(play.common.p, BYTES, 1);
	check_ok(ol_slab_create(BYTES, OL_SLAB_NODE_ANY, false, &play.slab));
	rc = play.a.ops->reg_begin(play.a.xport, OL_XPORT_ACCESS_PEER_WRITE, &play.later);
	if (rc == 0)
		return true;
	check_eq(rc, -EOPNOTSUPP);
	check(xp_is_shm());
	xp_note("reg() is quick on this transport");
	return false;
}

static void end(void)
{
	xp_mem_close(&play.common);
	xp_end_close(&play.b);
	xp_end_close(&play.a);
	ol_slab_destroy(play.slab);
}

static void *run(void *unused)
{
	(void)unused;
	check_ok(play.a.ops->reg_run(play.later, play.slab, 0, BYTES));
	return NULL;
}

/* In a thread of its own, while the transport is polled */
static void run_beside(void)
{
	pthread_t thread;

	check_ok(pthread_create(&thread, NULL, run, NULL));
	xp_progress();
	check_ok(pthread_join(thread, NULL));
}

static struct ol_xport_conn *request(struct ol_xport_conn **ret_b)
{
	check_ok(play.b.ops->connect(play.b.xport, play.a.addr, NULL, 0, NULL, ret_b));
	return xp_wait(&play.a, OL_XPORT_CONN_REQUEST, NULL).ev.conn;
}

static void is_reached(struct ol_xport_conn *conn, const struct ol_xport_region *region,
		       struct ol_xport_conn *b_conn)
{
	struct xp_mem mem;
	struct ol_xport_write write;
	struct ol_xport_read read;

	xp_mem_open(&mem, &play.b, NULL, BYTES, OL_XPORT_ACCESS_LOCAL);
	xp_fill(mem.p, PIECE, 2);
	write = xp_write(&mem, 0, PIECE, play.a.ops->rkey(region, conn), OFF);
	write.flags = OL_XPORT_DOORBELL;
	write.imm = BELL;
	xp_post_write(b_conn, &write);
	xp_wait_bell(&play.a, conn, BELL);
	xp_check_fill((const uint8_t *)play.slab->addr + OFF, PIECE, 2, "what was registered");
	xp_check_bytes(play.slab->addr, OFF, 0, "what is before it");
	read = xp_read(&mem, 0, BYTES, xp_key(&play.common, conn), 0);
	read.flags = OL_XPORT_SIGNALED;
	read.cookie = 3;
	xp_post_read(b_conn, &read);
	xp_wait_done(&play.b, b_conn, 3);
	xp_check_fill(mem.p, BYTES, 1, "what is for every connection");
	xp_mem_close(&mem);
}

static void given_to_another_request(int shared_domain)
{
	struct ol_xport_conn *conn, *b_conn;
	struct ol_xport_region *region;

	if (begin(shared_domain)) {
		conn = request(&b_conn);
		run_beside();
		xp_reject(&play.a, conn, NULL, 0);
		check_eq(xp_wait_down(&play.b, b_conn), -ECONNREFUSED);
		xp_conn_free(&play.b, b_conn);

		conn = request(&b_conn);
		check_ok(play.a.ops->reg_end(play.later, conn, &region));
		check_ok(play.a.ops->accept(conn, NULL, 0));
		xp_wait(&play.a, OL_XPORT_CONN_UP, conn);
		xp_wait(&play.b, OL_XPORT_CONN_UP, b_conn);
		is_reached(conn, region, b_conn);
		play.later = play.a.ops->strip(conn, region, 0);
		xp_conn_free(&play.a, conn);
		play.a.ops->dereg(region);
		play.a.ops->drop(play.later);
		xp_wait_down(&play.b, b_conn);
		xp_conn_free(&play.b, b_conn);
	}
	end();
}

static void given_with_domains(void)
{
	given_to_another_request(0);
}

static void given_in_one_domain(void)
{
	given_to_another_request(1);
}

static void dropped(void)
{
	unsigned lines;

	if (begin(0)) {
		lines = play.a.log_lines;
		play.a.ops->drop(play.later); /* nothing was registered yet */
		check_ok(play.a.ops->reg_begin(play.a.xport, OL_XPORT_ACCESS_PEER_WRITE,
					       &play.later));
		run_beside();
		play.a.ops->drop(play.later);
		check_eq(play.a.log_lines, lines); /* the adapter has taken all of it back */
	}
	end();
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("a region begun for one request serves a later one", given_with_domains);
	xp_run1("a region begun for one request serves a later one in a shared domain",
		given_in_one_domain);
	xp_run1("a region that is dropped leaves nothing", dropped);
	return xp_result();
}
