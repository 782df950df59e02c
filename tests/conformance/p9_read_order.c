/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * p9_read_order.c -- a read with OL_XPORT_AFTER_READS starts once earlier reads of the connection
 * are done
 */
#include <stdatomic.h>
#include <string.h>

#include "rdma/order.h"
#include "support/check.h"
#include "support/xport_pair.h"

enum {
	BLOCK = 8192,
	BLOCK_OFF = 64,
	CHANGES = 200,
};

/*
 * The owner counts: the word first, then all of the block. Whoever reads the block and after it the
 * word finds a word that is at least as new as every part of the block. Both halves of a word hold
 * the number: one whose halves differ was read while it was stored, byte by byte, and says nothing.
 */
static uint64_t twin(uint64_t number)
{
	return number << 32 | number;
}

static bool is_twin(uint64_t word)
{
	return word >> 32 == (word & 0xffffffff);
}

static void count_up(struct xp_side *side)
{
	_Atomic uint64_t *word;
	_Atomic uint64_t *block;
	struct xp_mem mem;
	uint64_t number = 0;
	uint8_t byte;
	bool stop = false;

	xp_side_a_open(side, NULL);
	xp_mem_open(&mem, &side->end, side->conn, BLOCK_OFF + BLOCK, OL_XPORT_ACCESS_PEER_READ);
	xp_send(side, &mem.key, sizeof(mem.key));
	word = (_Atomic uint64_t *)(void *)mem.p;
	block = (_Atomic uint64_t *)(void *)(mem.p + BLOCK_OFF);
	while (!stop) {
		ol_word_begin(word, twin(++number));
		for (unsigned i = 0; i < BLOCK / 8; i++)
			ol_word_store(&block[i], twin(number));
		if (number % 16 == 0) {
			struct xp_event event;

			xp_relax();
			stop = xp_take(&side->end, OL_XPORT_DOORBELL_RUNG, NULL, &event);
		}
	}
	byte = 1;
	xp_send(side, &byte, 1);
	xp_side_close(side);
	xp_mem_close(&mem);
}

static void read_both(struct xp_side *side)
{
	unsigned rounds = xp_rounds(20000);
	struct ol_xport_rkey key;
	struct xp_mem mem;
	uint64_t changes = 0;
	uint64_t last = 0;
	uint8_t byte;

	xp_side_b_open(side, NULL);
	xp_mem_open(&mem, &side->end, side->conn, BLOCK_OFF + BLOCK, OL_XPORT_ACCESS_LOCAL);
	xp_recv(side, &key, sizeof(key));
	/* on, until the owner has been at work in between: on a busy machine that takes a while */
	for (unsigned round = 0; round < rounds || changes < CHANGES; round++) {
		struct ol_xport_read block = xp_read(&mem, BLOCK_OFF, BLOCK, key, BLOCK_OFF);
		struct ol_xport_read word = xp_read(&mem, 0, 8, key, 0);
		uint64_t newest;

		word.flags = OL_XPORT_SIGNALED | OL_XPORT_AFTER_READS;
		word.cookie = round;
		xp_post_read(side->conn, &block);
		xp_post_read(side->conn, &word);
		xp_wait_done(&side->end, side->conn, round);
		memcpy(&newest, mem.p, 8);
		if (!is_twin(newest))
			continue;
		for (unsigned i = 0; i < BLOCK; i += 8) {
			uint64_t value;

			memcpy(&value, mem.p + BLOCK_OFF + i, 8);
			check_msg(!is_twin(value) || value <= newest,
				  "round %u: the block has %#jx, the word read after it %#jx",
				  round, (uintmax_t)value, (uintmax_t)newest);
		}
		changes += newest != last;
		last = newest;
	}
	xp_note("the word had changed in %ju rounds", (uintmax_t)changes);
	xp_bell(side->conn, 0);
	xp_recv(side, &byte, 1);
	xp_side_close(side);
	xp_mem_close(&mem);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run2("a read behind AFTER_READS starts when earlier reads are done", count_up, read_both,
		false);
	return xp_result();
}
