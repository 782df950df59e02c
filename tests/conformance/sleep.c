/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * sleep.c -- after arm() has returned 0 every event makes event_fd() readable: even if both sides
 * sleep whenever they can, no wake-up is lost, for any kind of event; and an idle transport lets its
 * owner sleep
 */
#include <poll.h>

#include "support/check.h"
#include "support/xport_pair.h"

enum {
	LOST_MS = 8000, /* asleep for so long: the wake-up is lost */
	WINDOW = 16,
};

static const uint32_t NEWS = 1U << 31;

/* Sleeps of this process, and how many ended with nothing to poll. */
static struct {
	uint64_t slept;
	uint64_t for_nothing;
} count;

/* sleep_poll -- poll, asleep until there is something; events go to the end's queue */
static void sleep_poll(struct xp_end *end)
{
	uint64_t deadline = xp_now_ms() + LOST_MS;

	while (!xp_progress_end(end)) {
		struct pollfd pfd = { .fd = end->ops->event_fd(end->xport), .events = POLLIN };
		int rc = end->ops->arm(end->xport);

		check(pfd.fd >= 0);
		check_msg(xp_now_ms() < deadline, "arm() says events, poll() has none");
		if (rc == 1)
			continue;
		check_eq(rc, 0);
		rc = poll(&pfd, 1, LOST_MS);
		if (rc == 0)
			check_msg(false, "slept %d ms, and %s", LOST_MS,
				  xp_progress_end(end) ? "an event was there: wake-up lost"
						       : "nothing came: lost at the other side");
		check_eq(rc, 1);
		count.slept++;
		if (xp_progress_end(end))
			return;
		count.for_nothing++;
	}
}

/* take -- next event of type, asleep until it is there */
static struct xp_event take(struct xp_end *end, enum ol_xport_event_type type)
{
	struct xp_event event;

	while (!xp_take(end, type, NULL, &event))
		sleep_poll(end);
	return event;
}

/* Between a poll and the next arm(), for up to some microseconds. */
static void dawdle(uint64_t seed)
{
	_Atomic uint64_t turns = xp_mix(seed) % 2000;

	while (turns > 0)
		turns--;
}

static void ping_pong(struct xp_side *side, bool first)
{
	uint32_t rounds = xp_rounds(20000);

	for (uint32_t round = 0; round < rounds; round++) {
		if (first)
			xp_bell(side->conn, round);
		if (round % 2 == 0)
			dawdle(round * 2 + first);
		check_eq(take(&side->end, OL_XPORT_DOORBELL_RUNG).ev.imm, round);
		if (!first)
			xp_bell(side->conn, round);
	}
	xp_note("%u rounds: slept %ju times, woken for nothing %ju times", rounds,
		(uintmax_t)count.slept, (uintmax_t)count.for_nothing);
	check(count.slept > 0);
	xp_side_close(side);
}

static void ping(struct xp_side *side)
{
	xp_side_a_open(side, NULL);
	ping_pong(side, true);
}

static void pong(struct xp_side *side)
{
	xp_side_b_open(side, NULL);
	ping_pong(side, false);
}

/* Both ring in bursts while they have credit; a bell with NEWS set says how many have been seen. */
static void both_ways(struct xp_side *side, uint64_t seed)
{
	uint32_t bells = 2 * xp_rounds(20000);
	uint32_t seen_by_peer = 0;
	uint32_t rung = 0;
	uint32_t seen = 0;

	while (seen < bells || rung < bells) {
		uint32_t burst = 1 + (uint32_t)(xp_mix(seed + rung) % 4);
		struct xp_event event;

		for (; burst > 0 && rung < bells && rung - seen_by_peer < WINDOW; burst--)
			xp_bell(side->conn, rung++);
		if (!xp_take(&side->end, OL_XPORT_DOORBELL_RUNG, NULL, &event)) {
			if (rung < bells && rung - seen_by_peer < WINDOW)
				continue;
			if (rung == bells && seen == bells)
				break;
			event = take(&side->end, OL_XPORT_DOORBELL_RUNG);
		}
		if ((event.ev.imm & NEWS) != 0) {
			seen_by_peer = event.ev.imm & ~NEWS;
			continue;
		}
		check_eq(event.ev.imm, seen);
		if (++seen % (WINDOW / 2) == 0)
			xp_bell(side->conn, seen | NEWS);
		dawdle(seed + seen);
	}
	xp_note("slept %ju times, woken for nothing %ju times", (uintmax_t)count.slept,
		(uintmax_t)count.for_nothing);
	xp_side_close(side);
}

static void both_ways_a(struct xp_side *side)
{
	xp_side_a_open(side, NULL);
	both_ways(side, 1);
}

static void both_ways_b(struct xp_side *side)
{
	xp_side_b_open(side, NULL);
	both_ways(side, 2);
}

/* Every kind of event, each awaited asleep. */
static void all_kinds_a(struct xp_side *side)
{
	struct xp_end *end = &side->end;
	unsigned rounds = xp_rounds(100);

	xp_end_open(end, NULL);
	xp_end_listen(end);
	xp_send(side, end->addr, sizeof(end->addr));
	for (unsigned round = 0; round < rounds; round++) {
		struct xp_mem mem;

		side->conn = take(end, OL_XPORT_CONN_REQUEST).ev.conn;
		xp_mem_open(&mem, end, side->conn, 4096, OL_XPORT_ACCESS_PEER_READ);
		check_ok(end->ops->accept(side->conn, &mem.key, sizeof(mem.key)));
		take(end, OL_XPORT_CONN_UP);
		take(end, OL_XPORT_DOORBELL_RUNG);
		if (round % 2 == 0)
			end->ops->disconnect(side->conn);
		take(end, OL_XPORT_CONN_DOWN);
		xp_conn_free(end, side->conn);
		side->conn = NULL;
		xp_mem_close(&mem);
	}
	xp_side_close(side);
}

static void all_kinds_b(struct xp_side *side)
{
	struct xp_end *end = &side->end;
	unsigned rounds = xp_rounds(100);
	struct ol_xport_rkey key;
	struct xp_mem mem;

	xp_end_open(end, NULL);
	xp_recv(side, end->addr, sizeof(end->addr));
	xp_mem_open(&mem, end, NULL, 4096, OL_XPORT_ACCESS_LOCAL);
	for (unsigned round = 0; round < rounds; round++) {
		struct ol_xport_read read;
		struct xp_event event;

		check_ok(end->ops->connect(end->xport, end->addr, NULL, 0, NULL, &side->conn));
		event = take(end, OL_XPORT_CONN_UP);
		check(event.ev.priv_len >= sizeof(key));
		for (unsigned i = 0; i < sizeof(key); i++)
			((uint8_t *)&key)[i] = event.priv[i];
		read = xp_read(&mem, 0, 4096, key, 0);
		read.flags = OL_XPORT_SIGNALED;
		xp_post_read(side->conn, &read);
		check_eq(take(end, OL_XPORT_DONE).ev.status, 0);
		xp_bell(side->conn, round);
		if (round % 2 == 1)
			end->ops->disconnect(side->conn);
		take(end, OL_XPORT_CONN_DOWN);
		xp_conn_free(end, side->conn);
		side->conn = NULL;
	}
	xp_side_close(side);
	xp_mem_close(&mem);
}

/* An idle end can sleep, and is not woken all the time. */
static void idle(void)
{
	struct xp_pair pair;
	struct xp_end *ends[2] = { &pair.a, &pair.b };

	xp_pair_open(&pair, NULL);
	for (unsigned i = 0; i < 2; i++) {
		struct xp_end *end = ends[i];
		uint64_t until = xp_now_ms() + 1000;
		unsigned wakes = 0;

		for (until = xp_now_ms() + 300; xp_now_ms() < until;) {
			struct pollfd pfd = { .fd = end->ops->event_fd(end->xport),
					      .events = POLLIN };
			int rc = end->ops->arm(end->xport);

			if (rc == 0)
				rc = poll(&pfd, 1, 100);
			wakes += rc != 0;
			check(!xp_progress_end(end));
		}
		xp_note("idle for 300 ms: kept from sleep or woken %u times", wakes);
		check(wakes < 30);
	}
	xp_pair_close(&pair);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("an idle end lets its owner sleep", idle);
	xp_run2("no wake-up is lost when bells go to and fro", ping, pong, false);
	xp_run2("no wake-up is lost when bells go both ways at once", both_ways_a, both_ways_b,
		false);
	xp_run2("every kind of event wakes a sleeper", all_kinds_a, all_kinds_b, false);
	return xp_result();
}
