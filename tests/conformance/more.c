/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * more.c -- a post with OL_XPORT_MORE may wait for the next post or poll, and is otherwise as any
 * other: there before the next bell, same bytes, one DONE each, failed or not, and the same back-pressure
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "support/check.h"
#include "support/xport_pair.h"

enum {
	AREA = 8192,
	CONNS = 12,
	INFLIGHT = 16,
	POSTS_MAX = 100000, /* without a poll, an end must come before this */
};

struct stage {
	struct xp_pair pair;
	struct xp_mem own;
	struct xp_mem dst;
};

static void stage_open(struct stage *stage, const struct ol_xport_opts *opts)
{
	xp_pair_open(&stage->pair, opts);
	xp_mem_open(&stage->own, &stage->pair.b, stage->pair.b_conn, 3 * AREA,
		    OL_XPORT_ACCESS_LOCAL);
	xp_mem_open(&stage->dst, &stage->pair.a, stage->pair.a_conn, AREA,
		    OL_XPORT_ACCESS_PEER_WRITE | OL_XPORT_ACCESS_PEER_READ);
}

static void stage_close(struct stage *stage)
{
	xp_mem_close(&stage->own);
	xp_mem_close(&stage->dst);
	xp_pair_close(&stage->pair);
}

/* One write of a list, behind the one before it, in memory and in the model of what is to be. */
static void write_one(struct stage *stage, uint64_t dice, unsigned index)
{
	struct ol_xport_write write =
		xp_write(&stage->own, 64 * index, 64, stage->dst.key, 64 * index);
	uint64_t words[8];

	write.flags = OL_XPORT_MORE | (dice % 5 == 0 ? OL_XPORT_SIGNALED : 0U);
	write.cookie = index;
	xp_fill(stage->own.p + 64 * index, 64, dice);
	memcpy(stage->own.p + AREA + 64 * index, stage->own.p + 64 * index, 64);
	if (dice % 3 == 0) {
		memcpy(words, stage->own.p + 64 * index, sizeof(words));
		write.flags |= OL_XPORT_INLINE;
		write.segs[0].region = NULL;
		write.segs[0].off = (uintptr_t)words;
	}
	xp_post_write(stage->pair.b_conn, &write);
	memset(words, XP_GUARD, sizeof(words)); /* the buffer is free on return, MORE or not */
}

static void writes_before_a_bell(void)
{
	unsigned rounds = xp_rounds(3000);
	struct stage stage;

	stage_open(&stage, NULL);
	for (uint64_t round = 0; round < rounds; round++) {
		unsigned count = 1 + (unsigned)(xp_mix(round) % 20);

		memset(stage.dst.p, XP_GUARD, AREA);
		memset(stage.own.p + AREA, XP_GUARD, AREA);
		for (unsigned i = 0; i < count; i++)
			write_one(&stage, xp_mix(round << 8 | i), i);
		xp_bell(stage.pair.b_conn, (uint32_t)round);
		xp_wait_bell(&stage.pair.a, stage.pair.a_conn, (uint32_t)round);
		check_msg(memcmp(stage.dst.p, stage.own.p + AREA, AREA) == 0,
			  "round %ju: %u writes left something else", (uintmax_t)round, count);
		for (unsigned i = 0; i < count; i++) {
			if (xp_mix(round << 8 | i) % 5 == 0)
				xp_wait_done(&stage.pair.b, stage.pair.b_conn, i);
		}
	}
	xp_quiet(&stage.pair.b, NULL, 2);
	stage_close(&stage);
}

/* Two reads as a pull has them: the first says MORE, the second ends the list. */
static void reads_in_a_list(void)
{
	unsigned rounds = xp_rounds(3000);
	struct stage stage;

	stage_open(&stage, NULL);
	for (uint64_t round = 0; round < rounds; round++) {
		uint32_t bytes = 8 + (uint32_t)(xp_mix(round) % 4000);
		struct ol_xport_read data = xp_read(&stage.own, 0, bytes, stage.dst.key, 0);
		struct ol_xport_read line = xp_read(&stage.own, AREA, 64, stage.dst.key, 4096);

		xp_fill(stage.dst.p, bytes, round);
		xp_fill(stage.dst.p + 4096, 64, ~round);
		memset(stage.own.p, XP_GUARD, 2 * (size_t)AREA);
		data.flags = OL_XPORT_MORE;
		line.flags = OL_XPORT_SIGNALED | OL_XPORT_AFTER_READS;
		line.cookie = round;
		xp_post_read(stage.pair.b_conn, &data);
		xp_post_read(stage.pair.b_conn, &line);
		xp_wait_done(&stage.pair.b, stage.pair.b_conn, round);
		xp_check_fill(stage.own.p, bytes, round, "data");
		xp_check_fill(stage.own.p + AREA, 64, ~round, "line");
	}
	stage_close(&stage);
}

/* Nothing follows: a poll of the poster hands it over, and arm() does not let it sleep on it. */
static void a_poll_is_enough(void)
{
	unsigned rounds = xp_rounds(500);
	struct stage stage;

	stage_open(&stage, NULL);
	for (uint32_t round = 0; round < rounds; round++) {
		struct ol_xport_write write = xp_write(&stage.own, 0, 64, stage.dst.key, 0);
		struct xp_end *end = &stage.pair.b;
		struct pollfd fd = { .fd = end->ops->event_fd(end->xport), .events = POLLIN };

		xp_fill(stage.own.p, 64, round);
		write.flags = OL_XPORT_MORE | OL_XPORT_SIGNALED | OL_XPORT_DOORBELL;
		write.cookie = write.imm = round;
		xp_post_write(stage.pair.b_conn, &write);
		if (round % 2 == 0 && end->ops->arm(end->xport) == 0)
			check_eq(poll(&fd, 1, XP_WAIT_MS), 1);
		xp_progress_end(end);
		xp_wait_bell(&stage.pair.a, stage.pair.a_conn, round);
		xp_check_fill(stage.dst.p, 64, round, "what a poll handed over");
		xp_wait_done(end, stage.pair.b_conn, round);
	}
	stage_close(&stage);
}

static void back_pressure(void)
{
	struct ol_xport_opts opts = xp_opts();
	struct stage stage;

	opts.inflight_max = INFLIGHT;
	stage_open(&stage, &opts);
	for (unsigned round = 0; round < 20; round++) {
		struct ol_xport_write write = xp_write(&stage.own, 0, 64, stage.dst.key, 0);
		unsigned posted = 0;
		int rc;

		write.flags = OL_XPORT_MORE | OL_XPORT_SIGNALED;
		do {
			write.cookie = posted;
			rc = stage.pair.b.ops->post_write(stage.pair.b_conn, &write);
			posted += rc == 0;
		} while (rc == 0 && posted < POSTS_MAX);
		check_eq(rc, -EAGAIN);
		check(posted >= stage.pair.b.caps.inflight_max);
		for (unsigned i = 0; i < posted; i++)
			xp_wait_done(&stage.pair.b, stage.pair.b_conn, i);
		xp_quiet(&stage.pair.b, NULL, 2);
	}
	stage_close(&stage);
}

static void many_connections(void)
{
	struct ol_xport_conn *near[CONNS];
	struct ol_xport_conn *far[CONNS];
	struct ol_xport_write bell = { .flags = OL_XPORT_DOORBELL | OL_XPORT_MORE };
	struct xp_end a;
	struct xp_end b;

	xp_end_open(&a, NULL);
	xp_end_open(&b, NULL);
	xp_end_listen(&a);
	for (unsigned i = 0; i < CONNS; i++)
		xp_connect(&a, &b, &far[i], &near[i]);
	for (uint32_t round = 0; round < 100; round++) {
		for (uint32_t i = 0; i < 3 * CONNS; i++) {
			bell.imm = round << 8 | i;
			xp_post_write(near[i % CONNS], &bell);
		}
		/* one that is freed takes what it holds with it, and nothing of the others */
		if (round % 10 == 9) {
			xp_conn_free(&b, near[round % CONNS]);
			xp_wait_down(&a, far[round % CONNS]);
			xp_conn_free(&a, far[round % CONNS]);
		}
		for (uint32_t i = 0; i < 3 * CONNS; i++) {
			if (round % 10 != 9 || i % CONNS != round % CONNS)
				xp_wait_bell(&a, far[i % CONNS], round << 8 | i);
		}
		if (round % 10 == 9)
			xp_connect(&a, &b, &far[round % CONNS], &near[round % CONNS]);
	}
	xp_end_close(&b);
	xp_end_close(&a);
}

/* What is held when its connection ends is reported once, then the end, and no more. */
static void the_end(bool by_violation)
{
	struct stage stage;
	struct ol_xport_write write;
	struct xp_event event;
	uint64_t accepted = 0;
	int rc = 0;

	stage_open(&stage, NULL);
	write = xp_write(&stage.own, 0, 64, stage.dst.key, 0);
	write.flags = OL_XPORT_MORE | OL_XPORT_SIGNALED;
	if (by_violation)
		write.dst.rkey ^= 0x5a5a5a;
	while (accepted < 5 && rc == 0) {
		write.cookie = accepted;
		rc = stage.pair.b.ops->post_write(stage.pair.b_conn, &write);
		accepted += rc == 0;
	}
	check(rc == 0 || (by_violation && accepted > 0 && rc == -ENOTCONN));
	if (!by_violation)
		stage.pair.b.ops->disconnect(stage.pair.b_conn);
	for (uint64_t i = 0; i < accepted; i++) {
		event = xp_wait(&stage.pair.b, OL_XPORT_DONE, stage.pair.b_conn);
		check_eq(event.ev.cookie, i);
		check(!by_violation || event.ev.status != 0);
		check(!by_violation || i != 0 || event.ev.status == -EACCES);
	}
	check_eq(xp_wait_down(&stage.pair.b, stage.pair.b_conn), by_violation ? -EACCES : 0);
	xp_wait_down(&stage.pair.a, stage.pair.a_conn);
	stage_close(&stage);
}

static void disconnected(void)
{
	the_end(false);
}

static void violated(void)
{
	the_end(true);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("writes that may wait are there when the bell behind them rings",
		writes_before_a_bell);
	xp_run1("reads that may wait bring their bytes", reads_in_a_list);
	xp_run1("a poll hands over what waits", a_poll_is_enough);
	xp_run1("what waits counts for back-pressure", back_pressure);
	xp_run1("many connections may have posts that wait", many_connections);
	xp_run1("what waits at a disconnect is reported once", disconnected);
	xp_run1("what waits at a violation is reported once", violated);
	return xp_result();
}
