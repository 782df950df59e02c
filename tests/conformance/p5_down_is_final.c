/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * p5_down_is_final.c -- after CONN_DOWN no event of that connection follows, every signaled
 * operation has been reported once before it, failed or not, and posts fail for good.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/xport_pair.h"

enum {
	OPS = 64,
	OP_BYTES = 16384,
	COOKIE_BAD = 1000,
};

struct tally {
	unsigned posted;
	unsigned seen[2 * COOKIE_BAD];
	int status[2 * COOKIE_BAD];
};

/* post_some -- count signaled writes, reads and bells in turn, without a poll; a refusal ends it */
static void post_some(struct xp_pair *pair, const struct xp_mem *src, struct ol_xport_rkey key,
		      unsigned count, struct tally *tally)
{
	for (unsigned i = 0; i < count; i++) {
		struct ol_xport_write write = xp_write(src, 0, OP_BYTES, key, 0);
		struct ol_xport_read read = xp_read(src, OP_BYTES, OP_BYTES, key, OP_BYTES);
		int rc;

		write.flags = OL_XPORT_SIGNALED;
		read.flags = OL_XPORT_SIGNALED;
		write.cookie = read.cookie = tally->posted;
		if (i % 16 == 15) {
			write.flags |= OL_XPORT_DOORBELL;
			write.seg_count = 0;
		}
		rc = i % 4 == 1 ? pair->b.ops->post_read(pair->b_conn, &read)
				: pair->b.ops->post_write(pair->b_conn, &write);
		if (rc != 0)
			return;
		tally->posted++;
	}
}

/* down_check -- waits for CONN_DOWN at b; all that was posted has then been reported, once */
static int down_check(struct xp_pair *pair, struct tally *tally)
{
	uint64_t deadline = xp_now_ms() + XP_WAIT_MS;
	struct ol_xport_write bell = { .flags = OL_XPORT_DOORBELL };
	struct xp_event event;
	int status;

	while (!xp_take(&pair->b, OL_XPORT_CONN_DOWN, pair->b_conn, &event)) {
		check_msg(xp_now_ms() < deadline, "no CONN_DOWN within %d ms", XP_WAIT_MS);
		xp_relax();
	}
	status = event.ev.status;
	while (xp_take(&pair->b, OL_XPORT_DONE, pair->b_conn, &event)) {
		check(event.ev.cookie < 2 * COOKIE_BAD);
		check_eq(tally->seen[event.ev.cookie]++, 0);
		tally->status[event.ev.cookie] = event.ev.status;
	}
	for (unsigned i = 0; i < tally->posted; i++)
		check_msg(tally->seen[i] == 1, "operation %u of %u was not reported", i,
			  tally->posted);
	for (unsigned i = 0; i < 10; i++) {
		int rc = pair->b.ops->post_write(pair->b_conn, &bell);

		check_msg(rc < 0 && rc != -EAGAIN, "a post after CONN_DOWN returned %d", rc);
	}
	xp_quiet(&pair->b, NULL, 100);
	return status;
}

/* How the connection ends. Before it, OPS operations are posted at b. */
enum ending {
	END_BY_PEER,
	END_BY_SELF,
	END_BY_VIOLATION,
	END_BY_PEER_FREE,
};

static void violate(struct xp_pair *pair, const struct xp_mem *src, struct ol_xport_rkey key,
		    struct tally *tally)
{
	struct ol_xport_write bad = xp_write(src, 0, 64, key, key.bytes);
	unsigned before = tally->posted;
	int rc;

	bad.flags = OL_XPORT_SIGNALED;
	bad.cookie = COOKIE_BAD;
	rc = pair->b.ops->post_write(pair->b_conn, &bad);
	check_msg(rc == 0 || rc == -EACCES, "a write beyond the region's end: post returned %d",
		  rc);
	tally->seen[COOKIE_BAD] = 0;
	post_some(pair, src, key, OPS, tally);
	check_eq(down_check(pair, tally), -EACCES);
	if (rc == 0) {
		check_eq(tally->seen[COOKIE_BAD], 1);
		check_eq(tally->status[COOKIE_BAD], -EACCES);
	}
	for (unsigned i = 0; i < before; i++)
		check_eq(tally->status[i], 0);
	for (unsigned i = before; i < tally->posted; i++)
		check_eq(tally->status[i], -ECONNABORTED);
}

static void end_with(enum ending ending)
{
	struct tally *tally = calloc(1, sizeof(*tally));
	struct xp_event event;
	struct xp_pair pair;
	struct xp_mem src;
	struct xp_mem dst;

	check(tally != NULL);
	xp_pair_open(&pair, NULL);
	xp_mem_open(&src, &pair.b, pair.b_conn, 2 * OP_BYTES, OL_XPORT_ACCESS_LOCAL);
	xp_mem_open(&dst, &pair.a, pair.a_conn, 2 * OP_BYTES,
		    OL_XPORT_ACCESS_PEER_WRITE | OL_XPORT_ACCESS_PEER_READ);
	post_some(&pair, &src, dst.key, OPS, tally);
	check_eq(tally->posted, OPS);
	switch (ending) {
	case END_BY_PEER:
		pair.a.ops->disconnect(pair.a_conn);
		check_eq(down_check(&pair, tally), 0);
		xp_wait_down(&pair.a, pair.a_conn);
		break;
	case END_BY_SELF:
		pair.b.ops->disconnect(pair.b_conn);
		check_eq(down_check(&pair, tally), 0);
		check_eq(xp_wait_down(&pair.a, pair.a_conn), 0);
		break;
	case END_BY_VIOLATION:
		violate(&pair, &src, dst.key, tally);
		xp_wait_down(&pair.a, pair.a_conn);
		break;
	case END_BY_PEER_FREE:
		xp_conn_free(&pair.a, pair.a_conn);
		pair.a_conn = NULL;
		xp_note("status when the peer frees: %d", down_check(&pair, tally));
		break;
	}
	while (xp_take(&pair.a, OL_XPORT_DOORBELL_RUNG, NULL, &event))
		;
	xp_quiet(&pair.a, NULL, 20);
	xp_mem_close(&src);
	xp_mem_close(&dst);
	xp_pair_close(&pair);
	free(tally);
}

static void by_peer(void)
{
	end_with(END_BY_PEER);
}

static void by_self(void)
{
	end_with(END_BY_SELF);
}

static void by_violation(void)
{
	end_with(END_BY_VIOLATION);
}

static void by_peer_free(void)
{
	end_with(END_BY_PEER_FREE);
}

/* A bell that was rung and then a polite goodbye: the bell is not lost. */
static void bells_before_goodbye(void)
{
	struct xp_pair pair;
	struct xp_event event;
	uint32_t seen = 0;

	xp_pair_open(&pair, NULL);
	for (uint32_t i = 0; i < 20; i++) {
		struct ol_xport_write bell = { .flags = OL_XPORT_DOORBELL | OL_XPORT_SIGNALED,
					       .imm = i,
					       .cookie = i };

		check_ok(pair.b.ops->post_write(pair.b_conn, &bell));
	}
	for (uint32_t i = 0; i < 20; i++) { /* a does not poll */
		uint64_t deadline = xp_now_ms() + XP_WAIT_MS;

		while (pair.b.queue_count <= i) {
			check(xp_now_ms() < deadline);
			xp_progress_end(&pair.b);
		}
	}
	for (uint32_t i = 0; i < 20; i++)
		xp_wait_done(&pair.b, pair.b_conn, i);
	pair.b.ops->disconnect(pair.b_conn);
	xp_wait_down(&pair.b, pair.b_conn);
	check_eq(xp_wait_down(&pair.a, pair.a_conn), 0);
	while (xp_take(&pair.a, OL_XPORT_DOORBELL_RUNG, NULL, &event))
		check_eq(event.ev.imm, seen++);
	check_eq(seen, 20);
	xp_pair_close(&pair);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("nothing follows CONN_DOWN when the peer disconnects", by_peer);
	xp_run1("nothing follows CONN_DOWN when this side disconnects", by_self);
	xp_run1("nothing follows CONN_DOWN after a violation", by_violation);
	xp_run1("nothing follows CONN_DOWN when the peer frees the connection", by_peer_free);
	xp_run1("bells rung before a disconnect come before CONN_DOWN", bells_before_goodbye);
	return xp_result();
}
