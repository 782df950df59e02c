/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * p2_doorbell_after_payload.c -- a doorbell is rung once its write and all writes before it on the
 * connection are readable at the peer, with imm unchanged, one bell for each, in order.
 */
#include <string.h>

#include "support/check.h"
#include "support/xport_pair.h"

enum {
	PARTS = 8, /* writes before the bell's own */
	PART_BYTES = 512,
	OWN_OFF = PARTS * PART_BYTES,
	OWN_MAX = 65536,
	SLOTS = 32,
	SLOT_BYTES = 4096,
};

/* What round n sends: a function of n, so that both sides know it. */
static uint32_t own_bytes(uint32_t round)
{
	uint64_t dice = xp_mix(round);

	return (uint32_t)(dice % ((2U << (dice >> 32) % 16) + 1)); /* 0 to 64 KiB */
}

static unsigned part_count(uint32_t round)
{
	return (unsigned)(xp_mix(round + 77) % (PARTS + 1));
}

static void round_send(struct xp_side *side, const struct xp_mem *src, struct ol_xport_rkey key,
		       uint32_t round)
{
	uint32_t bytes = own_bytes(round);
	struct ol_xport_write own = xp_write(src, OWN_OFF, bytes, key, OWN_OFF);

	for (unsigned i = 0; i < part_count(round); i++) {
		struct ol_xport_write part =
			xp_write(src, i * PART_BYTES, PART_BYTES, key, i * PART_BYTES);

		xp_fill(src->p + i * PART_BYTES, PART_BYTES, round * 16 + i);
		xp_post_write(side->conn, &part);
	}
	xp_fill(src->p + OWN_OFF, bytes, round);
	if (bytes == 0)
		own.seg_count = 0;
	if (bytes > 0 && bytes <= side->end.caps.inline_max && round % 2 == 0)
		own.flags |= OL_XPORT_INLINE;
	if (round % 3 == 0 && bytes > 0) { /* the bell apart, behind the data */
		xp_post_write(side->conn, &own);
		own = (struct ol_xport_write){ 0 };
	}
	own.flags |= OL_XPORT_DOORBELL;
	own.imm = round * 0x9e3779b1U;
	xp_post_write(side->conn, &own);
}

static void lockstep_send(struct xp_side *side)
{
	unsigned rounds = xp_rounds(5000);
	struct ol_xport_rkey key;
	struct xp_mem src;

	xp_side_b_open(side, NULL);
	xp_mem_open(&src, &side->end, side->conn, OWN_OFF + OWN_MAX, OL_XPORT_ACCESS_LOCAL);
	xp_recv(side, &key, sizeof(key));
	for (uint32_t round = 1; round <= rounds; round++) {
		round_send(side, &src, key, round);
		xp_wait_bell(&side->end, side->conn, round);
	}
	xp_side_close(side);
	xp_mem_close(&src);
}

static void lockstep_check(struct xp_side *side)
{
	unsigned rounds = xp_rounds(5000);
	struct xp_mem mem;

	xp_side_a_open(side, NULL);
	xp_mem_open(&mem, &side->end, side->conn, OWN_OFF + OWN_MAX, OL_XPORT_ACCESS_PEER_WRITE);
	xp_send(side, &mem.key, sizeof(mem.key));
	for (uint32_t round = 1; round <= rounds; round++) {
		xp_wait_bell(&side->end, side->conn, round * 0x9e3779b1U);
		for (unsigned i = 0; i < part_count(round); i++)
			xp_check_fill(mem.p + i * PART_BYTES, PART_BYTES, round * 16 + i,
				      "write before the bell");
		xp_check_fill(mem.p + OWN_OFF, own_bytes(round), round, "the bell's own write");
		memset(mem.p, 0, OWN_OFF + OWN_MAX);
		xp_bell(side->conn, round);
	}
	xp_side_close(side);
	xp_mem_close(&mem);
}

/* A window of slots in flight, as a worker's pushes are. */
static void window_send(struct xp_side *side)
{
	unsigned rounds = xp_rounds(50000);
	struct ol_xport_rkey key;
	struct xp_mem src;
	uint32_t credits = SLOTS;

	xp_side_b_open(side, NULL);
	xp_mem_open(&src, &side->end, side->conn, SLOTS * SLOT_BYTES, OL_XPORT_ACCESS_LOCAL);
	xp_recv(side, &key, sizeof(key));
	for (uint32_t round = 1; round <= rounds; round++) {
		uint64_t off = round % SLOTS * SLOT_BYTES;
		uint32_t bytes = 1 + (uint32_t)(xp_mix(round) % SLOT_BYTES);
		struct ol_xport_write write = xp_write(&src, off, bytes, key, off);

		if (credits == 0)
			credits = xp_wait(&side->end, OL_XPORT_DOORBELL_RUNG, side->conn).ev.imm;
		credits--;
		xp_fill(src.p + off, bytes, round);
		write.flags = OL_XPORT_DOORBELL;
		write.imm = round;
		xp_post_write(side->conn, &write);
	}
	xp_side_close(side);
	xp_mem_close(&src);
}

static void window_check(struct xp_side *side)
{
	unsigned rounds = xp_rounds(50000);
	struct xp_mem mem;

	xp_side_a_open(side, NULL);
	xp_mem_open(&mem, &side->end, side->conn, SLOTS * SLOT_BYTES, OL_XPORT_ACCESS_PEER_WRITE);
	xp_send(side, &mem.key, sizeof(mem.key));
	for (uint32_t round = 1; round <= rounds; round++) {
		uint32_t bytes = 1 + (uint32_t)(xp_mix(round) % SLOT_BYTES);

		xp_wait_bell(&side->end, side->conn, round);
		xp_check_fill(mem.p + round % SLOTS * SLOT_BYTES, bytes, round, "slot at its bell");
		if (round % (SLOTS / 2) == 0 && round + SLOTS / 2 > SLOTS)
			xp_bell(side->conn, SLOTS / 2);
	}
	xp_side_close(side);
	xp_mem_close(&mem);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run2("a bell is rung when its payload is readable", lockstep_check, lockstep_send,
		false);
	xp_run2("each bell of a full window is rung when its payload is readable", window_check,
		window_send, false);
	return xp_result();
}
