/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * conn_many.c -- 32 connections, made at once, ring doorbells and write, each to its own place;
 * every event names its connection, and at each end CONN_UP comes before any doorbell
 */
#include <string.h>

#include "support/check.h"
#include "support/xport_pair.h"

enum {
	CONNS = 32,
	ENDS = 4,
	SLOT = 256,
	DEPTH = 4, /* bells of a connection not answered yet */
};

struct line {
	struct xp_end *end; /* the connecting end */
	struct ol_xport_conn *near; /* at the connecting end */
	struct ol_xport_conn *far; /* at the accepting end */
	struct ol_xport_rkey key; /* of the accepting end's memory */
	uint32_t rung;
	uint32_t seen;
	uint32_t answered;
	bool up;
};

static struct line lines[CONNS];
static struct xp_end acceptor;
static struct xp_end connectors[ENDS];

static void connect_all(struct xp_mem *mem)
{
	for (unsigned i = 0; i < CONNS; i++) {
		struct line *line = &lines[i];

		line->end = &connectors[i % ENDS];
		check_ok(acceptor.ops->connect(line->end->xport, acceptor.addr, &i, sizeof(i), NULL,
					       &line->near));
		line->near->user = line;
	}
	for (unsigned got = 0; got < CONNS; got++) {
		struct xp_event event = xp_wait(&acceptor, OL_XPORT_CONN_REQUEST, NULL);
		unsigned index;

		check(event.ev.priv_len >= sizeof(index));
		memcpy(&index, event.priv, sizeof(index));
		check(index < CONNS);
		check(lines[index].far == NULL);
		lines[index].far = event.ev.conn;
		event.ev.conn->user = &lines[index];
		lines[index].key = xp_key(mem, event.ev.conn);
		check_ok(acceptor.ops->accept(event.ev.conn, NULL, 0));
	}
	/* A bell right behind the connecting side's CONN_UP must not overtake the other one. */
	for (unsigned i = 0; i < CONNS; i++) {
		xp_wait(lines[i].end, OL_XPORT_CONN_UP, lines[i].near);
		xp_bell(lines[i].near, 0);
		lines[i].rung = 1;
	}
}

static void far_event(const struct xp_event *event, const struct xp_mem *mem)
{
	struct line *line = event->ev.conn->user;
	size_t index = (size_t)(line - lines);

	if (event->ev.type == OL_XPORT_CONN_UP) {
		check(!line->up);
		line->up = true;
		return;
	}
	check_eq(event->ev.type, OL_XPORT_DOORBELL_RUNG);
	check_msg(line->up, "connection %zu: a bell before CONN_UP", index);
	check_eq(event->ev.imm, line->seen);
	if (line->seen > 0)
		xp_check_fill(mem->p + (index * DEPTH + line->seen % DEPTH) * SLOT, SLOT,
			      index << 32 | line->seen, "slot of the connection");
	line->seen++;
	xp_bell(line->far, line->seen);
}

static void near_step(struct line *line, const struct xp_mem *src, uint32_t rounds)
{
	size_t index = (size_t)(line - lines);
	uint64_t off = (index * DEPTH + line->rung % DEPTH) * SLOT;
	struct ol_xport_write write;
	struct xp_event event;

	while (xp_take(line->end, OL_XPORT_DOORBELL_RUNG, line->near, &event))
		check_eq(event.ev.imm, ++line->answered);
	if (line->rung == rounds || line->rung - line->answered == DEPTH)
		return;
	write = xp_write(src, off, SLOT, line->key, off);
	write.flags = OL_XPORT_DOORBELL;
	write.imm = line->rung;
	xp_fill(src->p + off, SLOT, index << 32 | line->rung);
	xp_post_write(line->near, &write);
	line->rung++;
}

static bool all_answered(uint32_t rounds)
{
	for (unsigned i = 0; i < CONNS; i++)
		if (lines[i].answered < rounds)
			return false;
	return true;
}

static void bells_ring(const struct ol_xport_opts *opts, uint32_t rounds)
{
	struct xp_mem srcs[ENDS];
	struct xp_mem mem;

	memset(lines, 0, sizeof(lines));
	xp_end_open(&acceptor, opts);
	xp_end_listen(&acceptor);
	xp_mem_open(&mem, &acceptor, NULL, CONNS * DEPTH * SLOT, OL_XPORT_ACCESS_PEER_WRITE);
	for (unsigned i = 0; i < ENDS; i++) {
		xp_end_open(&connectors[i], opts);
		xp_mem_open(&srcs[i], &connectors[i], NULL, CONNS * DEPTH * SLOT,
			    OL_XPORT_ACCESS_LOCAL);
	}
	connect_all(&mem);
	while (!all_answered(rounds)) {
		uint64_t deadline = xp_now_ms() + XP_WAIT_MS;

		while (acceptor.queue_count == 0 && !xp_progress()) {
			check_msg(xp_now_ms() < deadline, "nothing happens any more");
			xp_pause();
		}
		for (; acceptor.queue_count > 0; acceptor.queue_count--) {
			far_event(&acceptor.queue[0], &mem);
			memmove(&acceptor.queue[0], &acceptor.queue[1],
				(acceptor.queue_count - 1) * sizeof(acceptor.queue[0]));
		}
		for (unsigned i = 0; i < CONNS; i++)
			near_step(&lines[i], &srcs[i % ENDS], rounds);
	}
	for (unsigned i = 0; i < CONNS; i++) {
		xp_conn_free(i % 2 == 0 ? &acceptor : lines[i].end,
			     i % 2 == 0 ? lines[i].far : lines[i].near);
		xp_wait_down(i % 2 == 0 ? lines[i].end : &acceptor,
			     i % 2 == 0 ? lines[i].near : lines[i].far);
		xp_conn_free(i % 2 == 0 ? lines[i].end : &acceptor,
			     i % 2 == 0 ? lines[i].near : lines[i].far);
	}
	for (unsigned i = 0; i < ENDS; i++) {
		xp_mem_close(&srcs[i]);
		xp_end_close(&connectors[i]);
	}
	xp_mem_close(&mem);
	xp_end_close(&acceptor);
}

static void bells_from_all(void)
{
	bells_ring(NULL, xp_rounds(500));
}

/* So deep that on verbs the device's completion queues hold a few connections each. */
static void bells_of_deep_connections(void)
{
	struct ol_xport_opts opts = xp_opts();

	opts.inflight_max = 2048;
	opts.doorbells_max = 512;
	opts.connect_timeout_ms =
		XP_WAIT_MS; /* queues of this depth take long to make where all is emulated */
	bells_ring(&opts, xp_rounds(100));
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("32 connections ring and write, each into its own place", bells_from_all);
	xp_run1("so do 32 that need more than one queue", bells_of_deep_connections);
	return xp_result();
}
