/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * word_whole.c -- hardware property: an aligned 8-byte word that a peer writes, or reads while the
 * CPU stores it, is seen whole, never half old and half new; and whole words never go back. The
 * transport does not promise the first: on verbs it is only reported (rdma_rxe copies with the
 * kernel's memcpy, byte by byte on some processors), on shm it must hold.
 */
#include <string.h>

#include "rdma/order.h"
#include "support/check.h"
#include "support/xport_pair.h"

enum {
	SOURCES = 4096,
	ROUNDS = 200000,
	CHANGES = 50,
};

/* Both halves carry the number, so a mixture shows. */
static uint64_t twin(uint32_t number)
{
	return (uint64_t)number << 32 | number;
}

static bool is_twin(uint64_t word)
{
	return word >> 32 == (word & 0xffffffff);
}

/* Words that were seen, and how many of them were mixed. */
static struct {
	uint64_t seen;
	uint64_t mixed;
	uint64_t example;
	uint64_t last;
} tally;

/* word_seen -- counts; true if the word is whole, and then it is no older than the last one */
static bool word_seen(uint64_t word)
{
	tally.seen++;
	if (!is_twin(word)) {
		tally.mixed++;
		tally.example = word;
		return false;
	}
	check_msg(word >= tally.last, "the word went back from %#jx to %#jx", (uintmax_t)tally.last,
		  (uintmax_t)word);
	tally.last = word;
	return true;
}

static void tally_report(void)
{
	xp_note("%ju of %ju words were half old, half new%s%#jx", (uintmax_t)tally.mixed,
		(uintmax_t)tally.seen, tally.mixed > 0 ? ", as in " : ": ",
		(uintmax_t)tally.example);
	check(tally.mixed == 0 || !xp_is_shm());
}

static void write_words(struct xp_side *side)
{
	uint32_t rounds = xp_rounds(ROUNDS);
	struct ol_xport_rkey key;
	struct xp_event event;
	struct xp_mem src;

	xp_side_b_open(side, NULL);
	check(side->end.caps.inflight_max < SOURCES);
	xp_mem_open(&src, &side->end, side->conn, SOURCES * 8, OL_XPORT_ACCESS_LOCAL);
	xp_recv(side, &key, sizeof(key));
	for (uint32_t round = 1; round <= rounds; round++) {
		uint64_t word = twin(round);
		uint64_t off = round % SOURCES * 8;
		struct ol_xport_write write = xp_write(&src, off, 8, key, 0);

		memcpy(src.p + off, &word, 8);
		if (round % 2 == 0) {
			write.segs[0].region = NULL;
			write.segs[0].off = (uintptr_t)&word;
			write.flags = OL_XPORT_INLINE;
		}
		if (round % 16 == 1)
			write.flags |= OL_XPORT_SIGNALED;
		xp_post_write(side->conn, &write);
		while (xp_take(&side->end, OL_XPORT_DONE, NULL, &event))
			check_eq(event.ev.status, 0);
	}
	xp_side_close(side);
	xp_mem_close(&src);
}

static void watch_word(struct xp_side *side)
{
	uint32_t rounds = xp_rounds(ROUNDS);
	struct xp_mem mem;
	unsigned looks = 0;

	xp_side_a_open(side, NULL);
	xp_mem_open(&mem, &side->end, side->conn, 64, OL_XPORT_ACCESS_PEER_WRITE);
	xp_send(side, &mem.key, sizeof(mem.key));
	while (tally.last != twin(rounds)) {
		word_seen(ol_word_load((_Atomic uint64_t *)(void *)mem.p));
		if (++looks % 256 == 0)
			xp_relax();
	}
	tally_report();
	xp_side_close(side);
	xp_mem_close(&mem);
}

static void store_words(struct xp_side *side)
{
	struct xp_event event;
	struct xp_mem mem;
	uint32_t number = 0;

	xp_side_a_open(side, NULL);
	xp_mem_open(&mem, &side->end, side->conn, 64, OL_XPORT_ACCESS_PEER_READ);
	xp_send(side, &mem.key, sizeof(mem.key));
	do {
		for (unsigned i = 0; i < 256 && number < UINT32_MAX; i++)
			ol_word_store((_Atomic uint64_t *)(void *)mem.p, twin(++number));
		xp_relax();
	} while (!xp_take(&side->end, OL_XPORT_DOORBELL_RUNG, NULL, &event));
	xp_side_close(side);
	xp_mem_close(&mem);
}

static void read_word(struct xp_side *side)
{
	uint32_t rounds = xp_rounds(ROUNDS / 4);
	struct ol_xport_rkey key;
	struct xp_mem mem;
	uint64_t changes = 0;
	uint64_t last = 0;

	xp_side_b_open(side, NULL);
	xp_mem_open(&mem, &side->end, side->conn, 64, OL_XPORT_ACCESS_LOCAL);
	xp_recv(side, &key, sizeof(key));
	/* on, until the owner has been at work in between: on a busy machine that takes a while */
	for (uint32_t round = 0; round < rounds || changes < CHANGES; round++) {
		struct ol_xport_read read = xp_read(&mem, 0, 8, key, 0);
		uint64_t word;

		read.flags = OL_XPORT_SIGNALED;
		xp_post_read(side->conn, &read);
		xp_wait_done(&side->end, side->conn, 0);
		memcpy(&word, mem.p, 8);
		changes += word != last;
		last = word;
		word_seen(word);
	}
	tally_report();
	xp_bell(side->conn, 0);
	xp_side_close(side);
	xp_mem_close(&mem);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run2("a word that a peer writes is seen whole", watch_word, write_words, false);
	xp_run2("a word that a peer reads is seen whole", store_words, read_word, false);
	return xp_result();
}
