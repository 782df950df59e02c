/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * p4_back_pressure.c -- -EAGAIN from a post is back-pressure: it comes when neither side polls,
 * polling ends it, and a post that got it has posted nothing
 */
#include <errno.h>
#include <string.h>

#include "support/check.h"
#include "support/xport_pair.h"

enum {
	INFLIGHT = 16,
	BELLS = 16,
	POSTS_MAX = 100000, /* without a poll, an end must come before this */
	CANARY_OFF = 4096,
};

static struct ol_xport_opts small_opts(void)
{
	struct ol_xport_opts opts = xp_opts();

	opts.inflight_max = INFLIGHT;
	opts.doorbells_max = BELLS;
	return opts;
}

/* Posts signaled writes or reads until -EAGAIN, then some more; returns how many were taken. */
static unsigned fill(struct xp_pair *pair, const struct xp_mem *src, struct ol_xport_rkey key,
		     bool reads)
{
	struct ol_xport_write write = xp_write(src, 0, 64, key, 0);
	struct ol_xport_read read = xp_read(src, 64, 64, key, 0);
	unsigned posted = 0;
	int rc = 0;

	write.flags = read.flags = OL_XPORT_SIGNALED;
	while (posted < POSTS_MAX) {
		write.cookie = read.cookie = posted;
		rc = reads ? pair->b.ops->post_read(pair->b_conn, &read)
			   : pair->b.ops->post_write(pair->b_conn, &write);
		if (rc != 0)
			break;
		posted++;
	}
	check_eq(rc, -EAGAIN);
	check_msg(posted >= pair->b.caps.inflight_max, "full after %u, caps.inflight_max is %u",
		  posted, pair->b.caps.inflight_max);
	/* These fail: none of it may be seen, not in memory, not as DONE, not as a bell. */
	write.dst_off = CANARY_OFF;
	write.flags |= OL_XPORT_DOORBELL;
	read.segs[0].off = CANARY_OFF;
	write.cookie = read.cookie = POSTS_MAX;
	for (unsigned i = 0; i < 100; i++) {
		rc = reads ? pair->b.ops->post_read(pair->b_conn, &read)
			   : pair->b.ops->post_write(pair->b_conn, &write);
		check_eq(rc, -EAGAIN);
	}
	return posted;
}

static void full(bool reads)
{
	struct ol_xport_opts opts = small_opts();
	struct xp_pair pair;
	struct xp_mem src;
	struct xp_mem dst;

	xp_pair_open(&pair, &opts);
	xp_mem_open(&src, &pair.b, pair.b_conn, 8192, OL_XPORT_ACCESS_LOCAL);
	xp_mem_open(&dst, &pair.a, pair.a_conn, 8192,
		    OL_XPORT_ACCESS_PEER_WRITE | OL_XPORT_ACCESS_PEER_READ);
	for (unsigned round = 0; round < 20; round++) {
		unsigned posted;

		xp_fill(src.p, 64, round);
		memset(src.p + CANARY_OFF, XP_GUARD, 64);
		memset(dst.p + CANARY_OFF, XP_GUARD, 64);
		posted = fill(&pair, &src, dst.key, reads);
		for (unsigned i = 0; i < posted; i++)
			xp_wait_done(&pair.b, pair.b_conn, i);
		xp_bell(pair.b_conn, round);
		xp_wait_bell(&pair.a, pair.a_conn, round);
		xp_quiet(&pair.b, NULL, 2);
		xp_quiet(&pair.a, NULL, 1);
		xp_check_bytes(src.p + CANARY_OFF, 64, XP_GUARD, "target of reads not posted");
		xp_check_bytes(dst.p + CANARY_OFF, 64, XP_GUARD, "target of writes not posted");
		if (round == 0)
			xp_note("taken without a poll: %u, caps.inflight_max %u", posted,
				pair.b.caps.inflight_max);
	}
	xp_mem_close(&src);
	xp_mem_close(&dst);
	xp_pair_close(&pair);
}

static void full_of_writes(void)
{
	full(false);
}

static void full_of_reads(void)
{
	full(true);
}

/* post_own -- as xp_post_write(), but only the poster's end is polled */
static void post_own(struct xp_pair *pair, const struct ol_xport_write *write)
{
	uint64_t deadline = xp_now_ms() + XP_WAIT_MS;
	int rc;

	while ((rc = pair->b.ops->post_write(pair->b_conn, write)) != 0) {
		check_eq(rc, -EAGAIN);
		check(xp_now_ms() < deadline);
		xp_progress_end(&pair->b);
	}
}

/* A peer that does not poll still takes doorbells_max bells and any number of plain writes. */
static void peer_does_not_poll(void)
{
	struct ol_xport_opts opts = small_opts();
	struct xp_pair pair;
	struct xp_mem src;
	struct xp_mem dst;

	xp_pair_open(&pair, &opts);
	xp_mem_open(&src, &pair.b, pair.b_conn, 4096, OL_XPORT_ACCESS_LOCAL);
	xp_mem_open(&dst, &pair.a, pair.a_conn, 4096, OL_XPORT_ACCESS_PEER_WRITE);
	for (unsigned round = 0; round < 10; round++) {
		for (unsigned i = 0; i < 500; i++) {
			struct ol_xport_write write = xp_write(&src, 0, 64, dst.key, 0);

			post_own(&pair, &write);
		}
		for (uint32_t i = 0; i < BELLS; i++) {
			struct ol_xport_write bell = { .flags = OL_XPORT_DOORBELL, .imm = i };

			post_own(&pair, &bell);
		}
		for (uint32_t i = 0; i < BELLS; i++)
			xp_wait_bell(&pair.a, pair.a_conn, i);
	}
	xp_mem_close(&src);
	xp_mem_close(&dst);
	xp_pair_close(&pair);
}

/* Too many bells: back-pressure or the end of the connection, but none lost on the way. */
static void too_many_bells(void)
{
	struct ol_xport_opts opts = small_opts();
	struct xp_pair pair;
	struct xp_event event;
	uint64_t until;
	uint32_t rung = 0;
	uint32_t seen = 0;
	int rc = 0;

	xp_pair_open(&pair, &opts);
	for (until = xp_now_ms() + 100; rung < 8 * BELLS && xp_now_ms() < until;) {
		struct ol_xport_write bell = { .flags = OL_XPORT_DOORBELL, .imm = rung };

		rc = pair.b.ops->post_write(pair.b_conn, &bell);
		if (rc == 0)
			rung++;
		else if (rc != -EAGAIN)
			break;
		xp_progress_end(&pair.b);
	}
	for (until = xp_now_ms() + 20000; xp_now_ms() < until && seen < rung; xp_relax()) {
		while (xp_take(&pair.a, OL_XPORT_DOORBELL_RUNG, NULL, &event))
			check_eq(event.ev.imm, seen++);
		if (pair.a.down_count > 0)
			break;
	}
	xp_note("doorbells_max %d, peer not polling: %u taken, last answer %d, %u arrived, %s",
		BELLS, rung, rc, seen,
		pair.a.down_count + pair.b.down_count > 0 ? "connection ended" : "connection up");
	check_msg(seen == rung || pair.a.down_count + pair.b.down_count > 0,
		  "%u bells taken, %u arrived, connection up", rung, seen);
	xp_pair_close(&pair);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("a queue full of writes answers -EAGAIN until it is polled", full_of_writes);
	xp_run1("a queue full of reads answers -EAGAIN until it is polled", full_of_reads);
	xp_run1("a peer that does not poll takes its bells and any number of writes",
		peer_does_not_poll);
	xp_run1("more bells than fit are held back or end the connection, and none is lost on the way",
		too_many_bells);
	return xp_result();
}
