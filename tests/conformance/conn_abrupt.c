/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * conn_abrupt.c -- connections are freed again and again while doorbells that their peers rang wait
 * to be polled; all the same the next peer can ring as often as was agreed
 */
#include "support/check.h"
#include "support/xport_pair.h"

enum {
	CONNS = 2,
	BELLS = 64, /* agreed */
	UNPOLLED = BELLS - 1,
};

/* b rings, and knows that the bells have arrived, while a does not poll. */
static void ring_unpolled(struct xp_end *b, struct ol_xport_conn *conn)
{
	uint64_t deadline = xp_now_ms() + XP_WAIT_MS;

	for (unsigned i = 0; i < UNPOLLED; i++) {
		struct ol_xport_write write = {
			.flags = OL_XPORT_DOORBELL | (i + 1 == UNPOLLED ? OL_XPORT_SIGNALED : 0),
			.imm = i,
			.cookie = i,
		};

		check_ok(b->ops->post_write(conn, &write));
	}
	while (b->queue_count == 0) {
		check_msg(xp_now_ms() < deadline, "the bells do not arrive");
		(void)xp_progress_end(b);
		xp_pause();
	}
	xp_wait_done(b, conn, UNPOLLED - 1);
}

static void ends_again_and_again(void)
{
	struct ol_xport_opts opts = xp_opts();
	struct ol_xport_conn *a_conn;
	struct ol_xport_conn *b_conn;
	struct xp_end a;
	struct xp_end b;

	opts.conns_max = CONNS;
	opts.doorbells_max = BELLS;
	xp_end_open(&a, &opts);
	xp_end_open(&b, &opts);
	xp_end_listen(&a);
	for (unsigned i = 0; i < xp_rounds(200); i++) {
		xp_connect(&a, &b, &a_conn, &b_conn);
		ring_unpolled(&b, b_conn);
		xp_conn_free(&a, a_conn);
		xp_conn_free(&b, b_conn);
	}
	xp_connect(&a, &b, &a_conn, &b_conn);
	for (uint32_t i = 0; i < 4 * BELLS; i++) {
		xp_bell(b_conn, i);
		xp_wait_bell(&a, a_conn, i);
	}
	xp_conn_free(&a, a_conn);
	xp_conn_free(&b, b_conn);
	xp_end_close(&b);
	xp_end_close(&a);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("a peer that comes after many abrupt ends can ring", ends_again_and_again);
	return xp_result();
}
