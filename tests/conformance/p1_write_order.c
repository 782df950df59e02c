/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * p1_write_order.c -- two writes posted on one connection become visible to the peer's CPU in the
 * order posted: plain, inline, of one segment or two, small or large. No doorbell is involved.
 */
#include <stdatomic.h>
#include <string.h>

#include "rdma/order.h"
#include "support/check.h"
#include "support/xport_pair.h"

enum {
	LINES = 8, /* words written in turn, a cache line each */
	LINE_BYTES = 64,
	SOURCES = 4096, /* more than can be in flight: a source is free when its turn comes again */
	BLOCK_MAX = 65536,
	ACK_OFF = 0,
};

static _Atomic uint64_t *word_at(const struct xp_mem *mem, size_t off)
{
	return (_Atomic uint64_t *)(void *)(mem->p + off);
}

/* One write of number into line: inline, plain, or as two segments of four bytes. */
static void line_write(struct xp_side *side, const struct xp_mem *src, struct ol_xport_rkey key,
		       unsigned line, uint64_t number)
{
	uint64_t slot = (number * LINES + line) % SOURCES * 8;
	struct ol_xport_write write = xp_write(src, slot, 8, key, line * LINE_BYTES);

	memcpy(src->p + slot, &number, 8);
	if (line % 3 == 1) {
		write.flags = OL_XPORT_INLINE;
		write.segs[0].region = NULL;
		write.segs[0].off = (uintptr_t)&number;
	}
	if (line % 3 == 2) {
		write.segs[0].bytes = 4;
		write.segs[1] = write.segs[0];
		write.segs[1].off = slot + 4;
		write.seg_count = 2;
	}
	if (line == 0 && number % 8 == 0)
		write.flags |= OL_XPORT_SIGNALED;
	xp_post_write(side->conn, &write);
}

static void numbers_write(struct xp_side *side)
{
	unsigned rounds = xp_rounds(100000);
	struct ol_xport_rkey key;
	struct xp_event event;
	struct xp_mem src;

	xp_side_b_open(side, NULL);
	check(side->end.caps.inflight_max < SOURCES);
	xp_mem_open(&src, &side->end, side->conn, SOURCES * 8, OL_XPORT_ACCESS_LOCAL);
	xp_recv(side, &key, sizeof(key));
	for (uint64_t number = 1; number <= rounds; number++) {
		for (unsigned line = 0; line < LINES; line++)
			line_write(side, &src, key, line, number);
		while (xp_take(&side->end, OL_XPORT_DONE, side->conn, &event))
			check_eq(event.ev.status, 0);
	}
	xp_side_close(side);
	xp_mem_close(&src);
}

static void numbers_watch(struct xp_side *side)
{
	uint64_t rounds = xp_rounds(100000);
	struct xp_mem mem;
	uint64_t looks = 0;
	uint64_t last;

	xp_side_a_open(side, NULL);
	xp_mem_open(&mem, &side->end, side->conn, LINES * LINE_BYTES, OL_XPORT_ACCESS_PEER_WRITE);
	xp_send(side, &mem.key, sizeof(mem.key));
	do {
		/* backwards, so that what is looked at later was written earlier */
		uint64_t first = ol_word_load(word_at(&mem, 0));
		uint64_t newer = ol_word_load(word_at(&mem, (LINES - 1) * LINE_BYTES));

		last = newer;
		check_msg(newer + 1 >= first, "the last line is at %ju when the first is at %ju",
			  (uintmax_t)newer, (uintmax_t)first);
		for (unsigned line = LINES - 1; line-- > 0;) {
			uint64_t value = ol_word_load(word_at(&mem, line * LINE_BYTES));

			check_msg(value >= newer,
				  "line %u is at %ju when the one after it was at %ju", line,
				  (uintmax_t)value, (uintmax_t)newer);
			newer = value;
		}
		if (++looks % 64 == 0)
			xp_relax();
	} while (last < rounds);
	check_eq(last, rounds);
	xp_side_close(side);
	xp_mem_close(&mem);
}

/* A block of round bytes long, then a word: when the word is there, so is the block. */
static uint32_t block_bytes(uint64_t round)
{
	uint64_t dice = xp_mix(round);

	return 1 + (uint32_t)(dice % (1U << (dice >> 32) % 17));
}

static void block_write(struct xp_side *side, const struct xp_mem *mem, struct ol_xport_rkey key,
			uint64_t round)
{
	uint32_t bytes = block_bytes(round);
	struct ol_xport_write block = xp_write(mem, 64, bytes, key, 64 + round % 64);
	struct ol_xport_write word = {
		.segs = { { .off = (uintptr_t)&round, .bytes = 8 } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE,
		.dst = key,
	};

	xp_fill(mem->p + 64, bytes, round);
	if (bytes > 1 && round % 2 == 0) {
		block.segs[0].bytes = bytes / 2;
		block.segs[1] = block.segs[0];
		block.segs[1].off = 64 + bytes / 2;
		block.segs[1].bytes = bytes - bytes / 2;
		block.seg_count = 2;
	}
	xp_post_write(side->conn, &block);
	xp_post_write(side->conn, &word);
}

/* The side's memory: a word that the peer writes (numbers of rounds), then a block. */
static void word_wait(struct xp_mem *mem, uint64_t number)
{
	uint64_t deadline = xp_now_ms() + XP_WAIT_MS;

	while (ol_word_load(word_at(mem, ACK_OFF)) != number) {
		check_msg(xp_now_ms() < deadline, "the word of round %ju does not come",
			  (uintmax_t)number);
		if (!xp_progress())
			xp_relax();
	}
}

static void blocks(struct xp_side *side, bool writes)
{
	unsigned rounds = xp_rounds(3000);
	struct ol_xport_rkey key;
	struct xp_mem mem;

	xp_mem_open(&mem, &side->end, side->conn, 64 + 64 + BLOCK_MAX + 64,
		    OL_XPORT_ACCESS_PEER_WRITE);
	xp_send(side, &mem.key, sizeof(mem.key));
	xp_recv(side, &key, sizeof(key));
	for (uint64_t round = 1; round <= rounds; round++) {
		uint32_t bytes = block_bytes(round);
		struct ol_xport_write ack = {
			.segs = { { .off = (uintptr_t)&round, .bytes = 8 } },
			.seg_count = 1,
			.flags = OL_XPORT_INLINE,
			.dst = key,
		};

		if (writes) {
			block_write(side, &mem, key, round);
			word_wait(&mem, round);
			continue;
		}
		word_wait(&mem, round);
		xp_check_fill(mem.p + 64 + round % 64, bytes, round,
			      "block when its word is there");
		xp_check_bytes(mem.p + 64 + round % 64 + bytes, 64, 0, "behind the block");
		memset(mem.p + 64, 0, 64 + BLOCK_MAX);
		xp_post_write(side->conn, &ack);
	}
	xp_side_close(side);
	xp_mem_close(&mem);
}

static void blocks_write(struct xp_side *side)
{
	xp_side_b_open(side, NULL);
	blocks(side, true);
}

static void blocks_check(struct xp_side *side)
{
	xp_side_a_open(side, NULL);
	blocks(side, false);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run2("words written one by one appear in the order posted", numbers_watch, numbers_write,
		false);
	xp_run2("a block is whole when the word behind it appears", blocks_check, blocks_write,
		false);
	return xp_result();
}
