/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * conn_killed.c -- when a peer is killed with SIGKILL, whatever both sides are doing, the survivor
 * soon gets CONN_DOWN and all its signaled operations are reported; and it can serve the next peer.
 * The same holds if a forked child of the peer lives on.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/check.h"
#include "support/xport_pair.h"

enum {
	BYTES = 65536,
	DOWN_MS = 5000, /* until the survivor knows */
};

/* down_wait -- posts on (if busy) until CONN_DOWN; checks that all was reported */
static int down_wait(struct xp_side *side, const struct xp_mem *own,
		     const struct ol_xport_rkey *key, bool reads)
{
	uint64_t began = xp_now_ms();
	struct xp_event event;
	unsigned posted = 0;
	unsigned done = 0;
	int status;

	while (!xp_take(&side->end, OL_XPORT_CONN_DOWN, side->conn, &event)) {
		check_msg(xp_now_ms() < began + DOWN_MS, "the peer's death is not noticed");
		if (key != NULL) {
			struct ol_xport_write write = xp_write(own, 0, BYTES, *key, 0);
			struct ol_xport_read read = xp_read(own, 0, BYTES, *key, 0);
			int rc;

			write.flags = read.flags = OL_XPORT_SIGNALED;
			rc = reads ? side->end.ops->post_read(side->conn, &read)
				   : side->end.ops->post_write(side->conn, &write);
			posted += rc == 0;
		}
		while (xp_take(&side->end, OL_XPORT_DONE, side->conn, &event))
			done++;
		xp_relax();
	}
	status = event.ev.status;
	while (xp_take(&side->end, OL_XPORT_DONE, side->conn, &event))
		done++;
	check_eq(done, posted);
	xp_note("CONN_DOWN %d after %ju ms, %u operations", status,
		(uintmax_t)(xp_now_ms() - began), posted);
	return status;
}

static void drop_bells(struct xp_side *side)
{
	struct xp_event event;

	while (xp_take(&side->end, OL_XPORT_DOORBELL_RUNG, NULL, &event))
		;
}

/* The survivor: gives its key, gets one, kills. */
static void survive(struct xp_side *side, bool posts, bool reads, bool idle)
{
	struct ol_xport_rkey key;
	struct xp_mem mem;
	int status;

	xp_side_a_open(side, NULL);
	xp_mem_open(&mem, &side->end, side->conn, BYTES,
		    OL_XPORT_ACCESS_PEER_WRITE | OL_XPORT_ACCESS_PEER_READ);
	xp_send(side, &mem.key, sizeof(mem.key));
	xp_recv(side, &key, sizeof(key));
	check_ok(kill(side->other, SIGKILL));
	status = down_wait(side, &mem, posts ? &key : NULL, reads);
	if (idle)
		check_eq(status, 0);
	drop_bells(side);
	xp_quiet(&side->end, NULL, 50);
	xp_conn_free(&side->end, side->conn);
	xp_mem_close(&mem);
	xp_end_close(&side->end);
}

static void survive_idle(struct xp_side *side)
{
	survive(side, false, false, true);
}

static void survive_written_to(struct xp_side *side)
{
	survive(side, false, false, false);
}

static void survive_writing(struct xp_side *side)
{
	survive(side, true, false, false);
}

static void survive_reading(struct xp_side *side)
{
	survive(side, true, true, false);
}

/* A child, as a data loader is, which ends when the survivor's process has */
static void child_leave(struct xp_side *side)
{
	char byte;

	fflush(stdout);
	switch (fork()) {
	case -1:
		check_ok(-errno);
		break;
	case 0:
		alarm(XP_DEADLINE_S);
		while (read(side->fd, &byte, 1) > 0)
			;
		_exit(0);
	default:
		break;
	}
}

static void victim(struct xp_side *side, bool writes, bool forks)
{
	struct ol_xport_rkey key;
	struct xp_mem mem;
	uint32_t bells = 0;

	xp_side_b_open(side, NULL);
	xp_mem_open(&mem, &side->end, side->conn, BYTES,
		    OL_XPORT_ACCESS_PEER_WRITE | OL_XPORT_ACCESS_PEER_READ);
	xp_recv(side, &key, sizeof(key));
	if (forks)
		child_leave(side);
	xp_send(side, &mem.key, sizeof(mem.key));
	for (;;) {
		struct ol_xport_write write = xp_write(&mem, 0, BYTES, key, 0);

		if (bells < 8)
			write.flags = OL_XPORT_DOORBELL;
		if (writes && side->end.ops->post_write(side->conn, &write) == 0)
			bells++;
		xp_progress();
		xp_relax();
	}
}

static void victim_idle(struct xp_side *side)
{
	victim(side, false, false);
}

static void victim_writing(struct xp_side *side)
{
	victim(side, true, false);
}

static void victim_forking(struct xp_side *side)
{
	victim(side, false, true);
}

/* Killed while its request waits for an answer; the acceptor then serves somebody else. */
static void request_orphaned(struct xp_side *side)
{
	struct xp_end *end = &side->end;
	struct ol_xport_conn *own_far;
	struct ol_xport_conn *own_near;
	struct xp_event event;
	struct xp_end near;
	uint64_t deadline;
	int rc;

	xp_end_open(end, NULL);
	xp_end_listen(end);
	xp_send(side, end->addr, sizeof(end->addr));
	side->conn = xp_wait(end, OL_XPORT_CONN_REQUEST, NULL).ev.conn;
	check_ok(kill(side->other, SIGKILL));
	rc = end->ops->accept(side->conn, NULL, 0);
	deadline = xp_now_ms() + DOWN_MS;
	while (rc == 0 && !xp_take(end, OL_XPORT_CONN_DOWN, side->conn, &event)) {
		check_msg(xp_now_ms() < deadline, "the death of a peer not yet accepted");
		xp_pause();
	}
	xp_conn_free(end, side->conn);
	xp_end_open(&near, NULL);
	xp_connect(end, &near, &own_far, &own_near);
	xp_bell(own_near, 5);
	xp_wait_bell(end, own_far, 5);
	xp_conn_free(&near, own_near);
	xp_conn_free(end, own_far);
	xp_end_close(&near);
	xp_end_close(end);
}

static void requester(struct xp_side *side)
{
	struct xp_event event;

	xp_end_open(&side->end, NULL);
	xp_recv(side, side->end.addr, sizeof(side->end.addr));
	check_ok(side->end.ops->connect(side->end.xport, side->end.addr, NULL, 0, NULL,
					&side->conn));
	for (;;) {
		(void)xp_take(&side->end, OL_XPORT_CONN_DOWN, side->conn, &event);
		xp_pause();
	}
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	for (unsigned i = 0; i < 2; i++) {
		xp_run2("an idle peer is killed, and the survivor hears it", survive_idle,
			victim_idle, true);
		xp_run2("a peer is killed while it writes, and the survivor hears it",
			survive_written_to, victim_writing, true);
		xp_run2("a peer is killed while it is written to, and the writer hears it",
			survive_writing, victim_idle, true);
		xp_run2("a peer is killed while it is read from, and the reader hears it",
			survive_reading, victim_idle, true);
		xp_run2("a peer is killed while both write, and the survivor hears it",
			survive_writing, victim_writing, true);
		xp_run2("an idle peer is killed and its child lives on, and the survivor hears it",
			survive_idle, victim_forking, true);
		xp_run2("a peer is killed and its child lives on, and the writer hears it",
			survive_writing, victim_forking, true);
		xp_run2("a peer is killed before it is accepted, and the acceptor can go on",
			request_orphaned, requester, true);
	}
	return xp_result();
}
