/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * doorbell_payload.c -- hardware property: when a doorbell's completion is polled, the first and
 * the last byte of the payload written before it are in memory, whatever the payload's size.
 */
#include "support/check.h"
#include "support/xport_pair.h"

enum {
	SIZE_MAX_BYTES = 65536,
	SLOTS = 8,
	ROUNDS = 20000,
};

static uint32_t size_of(uint32_t round)
{
	static const uint32_t sizes[] = { 1,    2,    63,   64,   65,   255,  511,   512,
					  1023, 1024, 4095, 4096, 4097, 9000, 16384, 65536 };

	return sizes[xp_mix(round) % (sizeof(sizes) / sizeof(sizes[0]))];
}

static uint8_t mark_of(uint32_t round)
{
	return (uint8_t)(1 + round % 251);
}

static void write_all(struct xp_side *side)
{
	uint32_t rounds = xp_rounds(ROUNDS);
	struct ol_xport_rkey key;
	struct xp_mem src;
	uint32_t seen = 0;

	xp_side_b_open(side, NULL);
	xp_mem_open(&src, &side->end, side->conn, SLOTS * SIZE_MAX_BYTES, OL_XPORT_ACCESS_LOCAL);
	xp_recv(side, &key, sizeof(key));
	for (uint32_t round = 0; round < rounds; round++) {
		uint64_t off = (uint64_t)(round % SLOTS) * SIZE_MAX_BYTES;
		uint32_t bytes = size_of(round);
		struct ol_xport_write write = xp_write(&src, off, bytes, key, off);

		while (round - seen == SLOTS) {
			xp_wait_bell(&side->end, side->conn, seen);
			seen++;
		}
		src.p[off] = mark_of(round);
		src.p[off + bytes - 1] = mark_of(round);
		if (round % 2 == 0) { /* the bell apart */
			xp_post_write(side->conn, &write);
			xp_bell(side->conn, round);
		} else {
			write.flags = OL_XPORT_DOORBELL;
			write.imm = round;
			xp_post_write(side->conn, &write);
		}
	}
	xp_side_close(side);
	xp_mem_close(&src);
}

static void look_at_ends(struct xp_side *side)
{
	uint32_t rounds = xp_rounds(ROUNDS);
	struct xp_mem mem;

	xp_side_a_open(side, NULL);
	xp_mem_open(&mem, &side->end, side->conn, SLOTS * SIZE_MAX_BYTES,
		    OL_XPORT_ACCESS_PEER_WRITE);
	xp_send(side, &mem.key, sizeof(mem.key));
	for (uint32_t round = 0; round < rounds; round++) {
		uint8_t *slot = mem.p + (uint64_t)(round % SLOTS) * SIZE_MAX_BYTES;
		uint32_t bytes = size_of(round);

		xp_wait_bell(&side->end, side->conn, round);
		check_msg(slot[bytes - 1] == mark_of(round), "round %u: last byte of %u missing",
			  round, bytes);
		check_msg(slot[0] == mark_of(round), "round %u: first byte of %u missing", round,
			  bytes);
		slot[bytes - 1] = 0;
		slot[0] = 0;
		xp_bell(side->conn, round);
	}
	xp_side_close(side);
	xp_mem_close(&mem);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run2("the first and the last byte are there at the bell", look_at_ends, write_all,
		false);
	return xp_result();
}
