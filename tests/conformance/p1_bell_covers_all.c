/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * p1_bell_covers_all.c -- when a doorbell rings, every post before it on the connection is there,
 * whole: plain, inline, of one segment or two, small or large, held back or not. Nothing is looked
 * at before, as nothing is promised then.
 */
#include <string.h>

#include "support/check.h"
#include "support/xport_pair.h"

enum {
	SETS = 16, /* places that are written in turn; as many may be in flight */
	LINES = 8, /* words of a set, a cache line each */
	LINE_BYTES = 64,
	BLOCK_OFF = LINES * LINE_BYTES,
	BLOCK_MAX = 8192,
	SET_BYTES = BLOCK_OFF + BLOCK_MAX,
};

static uint64_t word_of(uint64_t round, unsigned line)
{
	return xp_mix(round * LINES + line);
}

static uint32_t block_bytes(uint64_t round)
{
	uint64_t dice = xp_mix(round);

	return 2 + (uint32_t)(dice % (1U << (dice >> 32) % 14)) % (BLOCK_MAX - 2);
}

/* A word, inline out of no region, plain, or as two segments of four bytes. */
static void line_write(struct xp_side *side, const struct xp_mem *src, struct ol_xport_rkey key,
		       uint64_t set, uint64_t round, unsigned line)
{
	const uint64_t off = set + line * LINE_BYTES;
	const uint64_t word = word_of(round, line);
	struct ol_xport_write write = xp_write(src, off, 8, key, off);

	memcpy(src->p + off, &word, 8);
	if (line % 3 == 1) {
		write.flags = OL_XPORT_INLINE;
		write.segs[0].region = NULL;
		write.segs[0].off = (uintptr_t)&word;
	}
	if (line % 3 == 2) {
		write.segs[0].bytes = 4;
		write.segs[1] = write.segs[0];
		write.segs[1].off = off + 4;
		write.seg_count = 2;
	}
	if (line % 2 == 0)
		write.flags |= OL_XPORT_MORE;
	xp_post_write(side->conn, &write);
}

static void block_write(struct xp_side *side, const struct xp_mem *src, struct ol_xport_rkey key,
			uint64_t set, uint64_t round)
{
	const uint64_t off = set + BLOCK_OFF;
	const uint32_t bytes = block_bytes(round);
	struct ol_xport_write block = xp_write(src, off, bytes, key, off);

	xp_fill(src->p + off, bytes, round);
	block.segs[0].bytes = bytes / 2;
	block.segs[1] = block.segs[0];
	block.segs[1].off = off + bytes / 2;
	block.segs[1].bytes = bytes - bytes / 2;
	block.seg_count = 2;
	if (round % 2 == 0) { /* the bell is that of the block; else it comes alone */
		block.flags = OL_XPORT_DOORBELL;
		block.imm = (uint32_t)round;
	}
	xp_post_write(side->conn, &block);
	if (round % 2 != 0)
		xp_bell(side->conn, (uint32_t)round);
}

static void sets_write(struct xp_side *side)
{
	const unsigned rounds = xp_rounds(20000);
	struct ol_xport_rkey key;
	unsigned credits = SETS;
	struct xp_mem src;

	xp_side_b_open(side, NULL);
	xp_mem_open(&src, &side->end, side->conn, SETS * SET_BYTES, OL_XPORT_ACCESS_LOCAL);
	xp_recv(side, &key, sizeof(key));
	for (uint64_t round = 1; round <= rounds; round++) {
		const uint64_t set = round % SETS * SET_BYTES;

		if (credits == 0)
			credits = xp_wait(&side->end, OL_XPORT_DOORBELL_RUNG, side->conn).ev.imm;
		credits--;
		for (unsigned line = 0; line < LINES; line++)
			line_write(side, &src, key, set, round, line);
		block_write(side, &src, key, set, round);
	}
	xp_side_close(side);
	xp_mem_close(&src);
}

static void sets_check(struct xp_side *side)
{
	const unsigned rounds = xp_rounds(20000);
	struct xp_mem mem;

	xp_side_a_open(side, NULL);
	xp_mem_open(&mem, &side->end, side->conn, SETS * SET_BYTES, OL_XPORT_ACCESS_PEER_WRITE);
	xp_send(side, &mem.key, sizeof(mem.key));
	for (uint64_t round = 1; round <= rounds; round++) {
		uint8_t *set = mem.p + round % SETS * SET_BYTES;

		xp_wait_bell(&side->end, side->conn, (uint32_t)round);
		for (unsigned line = 0; line < LINES; line++) {
			uint64_t word;

			memcpy(&word, set + line * LINE_BYTES, 8);
			check_msg(word == word_of(round, line), "line %u of round %ju has %#jx",
				  line, (uintmax_t)round, (uintmax_t)word);
		}
		xp_check_fill(set + BLOCK_OFF, block_bytes(round), round, "block at its bell");
		memset(set, 0, SET_BYTES);
		if (round % (SETS / 2) == 0 && round > SETS / 2)
			xp_bell(side->conn, SETS / 2);
	}
	xp_side_close(side);
	xp_mem_close(&mem);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run2("when a bell rings, all posts before it are there", sets_check, sets_write, false);
	return xp_result();
}
