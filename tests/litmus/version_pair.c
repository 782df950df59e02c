/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * version_pair.c -- hardware property: a snapshot is not torn if its version was published before
 * its payload was read, and its begin and end words, read behind a fence after the payload, both
 * have that version; even while its owner rewrites three such buffers in turn as fast as it can
 *
 * Two wrong readers must see torn snapshots, or the test would prove nothing: one ignores the
 * words; the other accepts a version that was not yet published when it began, whose words may both
 * be right by the time they are read.
 *
 *	offset     size   field     stored
 *	0          8      begin     before the payload changes
 *	64         32768  payload   every word is the version
 *	32832      8      end       after the payload is whole
 */
#include <string.h>

#include "rdma/order.h"
#include "support/check.h"
#include "support/xport_pair.h"

enum {
	BUFFERS = 3,
	PAYLOAD = 32768,
	PAYLOAD_OFF = 64,
	END_OFF = PAYLOAD_OFF + PAYLOAD,
	BUFFER = END_OFF + 64,
	BOARD_OFF = BUFFERS * BUFFER, /* the version published last */
	MEM = BOARD_OFF + 64,
	ROUNDS = 20000,
};

static _Atomic uint64_t *word_at(const struct xp_mem *mem, size_t off)
{
	return (_Atomic uint64_t *)(void *)(mem->p + off);
}

static void publish(const struct xp_mem *mem, uint64_t version)
{
	size_t at = version % BUFFERS * BUFFER;

	ol_word_begin(word_at(mem, at), version);
	for (size_t off = 0; off < PAYLOAD; off += 8)
		memcpy(mem->p + at + PAYLOAD_OFF + off, &version, 8);
	ol_word_store(word_at(mem, at + END_OFF), version);
	ol_word_store(word_at(mem, BOARD_OFF), version);
}

static void update(struct xp_side *side)
{
	struct xp_event event;
	struct xp_mem mem;
	uint64_t version = 0;

	xp_side_a_open(side, NULL);
	xp_mem_open(&mem, &side->end, side->conn, MEM, OL_XPORT_ACCESS_PEER_READ);
	xp_send(side, &mem.key, sizeof(mem.key));
	do {
		for (unsigned i = 0; i < 64; i++)
			publish(&mem, ++version);
	} while (!xp_take(&side->end, OL_XPORT_DOORBELL_RUNG, NULL, &event));
	xp_note("%ju versions", (uintmax_t)version);
	xp_side_close(side);
	xp_mem_close(&mem);
}

static bool torn(const struct xp_mem *mem)
{
	const uint8_t *payload = mem->p + PAYLOAD_OFF;

	return memcmp(payload, payload + 8, PAYLOAD - 8) != 0;
}

static void words_read(struct xp_side *side, const struct xp_mem *mem, struct ol_xport_rkey key,
		       uint64_t at)
{
	struct ol_xport_read payload = xp_read(mem, PAYLOAD_OFF, PAYLOAD, key, at + PAYLOAD_OFF);
	struct ol_xport_read begin = xp_read(mem, 0, 8, key, at);
	struct ol_xport_read end = xp_read(mem, END_OFF, 8, key, at + END_OFF);

	begin.flags = OL_XPORT_AFTER_READS;
	end.flags = OL_XPORT_AFTER_READS | OL_XPORT_SIGNALED;
	xp_post_read(side->conn, &payload);
	xp_post_read(side->conn, &begin);
	xp_post_read(side->conn, &end);
	xp_wait_done(&side->end, side->conn, 0);
}

static uint64_t version_read(struct xp_side *side, const struct xp_mem *mem,
			     struct ol_xport_rkey key)
{
	struct ol_xport_read board = xp_read(mem, BOARD_OFF, 8, key, BOARD_OFF);
	uint64_t version;

	board.flags = OL_XPORT_SIGNALED;
	xp_post_read(side->conn, &board);
	xp_wait_done(&side->end, side->conn, 0);
	memcpy(&version, mem->p + BOARD_OFF, 8);
	return version;
}

static void snapshots_read(struct xp_side *side)
{
	unsigned rounds = xp_rounds(ROUNDS);
	unsigned whole = 0;
	unsigned tears = 0;
	unsigned too_early = 0;
	struct ol_xport_rkey key;
	struct xp_mem mem;

	xp_side_b_open(side, NULL);
	xp_mem_open(&mem, &side->end, side->conn, MEM, OL_XPORT_ACCESS_LOCAL);
	xp_recv(side, &key, sizeof(key));
	for (unsigned round = 0; round < rounds; round++) {
		uint64_t version = version_read(side, &mem, key);
		uint64_t begin;
		uint64_t end;

		/*
		 * In turn: the version published last; the next one, which is the reader in the
		 * wrong; the oldest one, whose buffer is the next to be written.
		 */
		if (round % 2 == 1)
			version++;
		else if (round % 4 == 2 && version > BUFFERS)
			version -= BUFFERS - 1;
		words_read(side, &mem, key, version % BUFFERS * BUFFER);
		memcpy(&begin, mem.p, 8);
		memcpy(&end, mem.p + END_OFF, 8);
		tears += torn(&mem);
		if (begin != version || end != version)
			continue;
		if (round % 2 == 1) {
			too_early += torn(&mem);
			continue;
		}
		whole++;
		check_msg(!torn(&mem), "version %ju passed and is torn", (uintmax_t)version);
		check(memcmp(mem.p + PAYLOAD_OFF, &version, 8) == 0);
	}
	xp_bell(side->conn, 0);
	xp_note("%u reads: %u proved whole; torn when the words are ignored: %u, when the version "
		"was not yet published: %u",
		rounds, whole, tears, too_early);
	if (xp_is_shm()) {
		check(whole > 0);
		check_msg(tears > 0, "no tear in %u reads: the words were not tested", rounds);
	}
	xp_side_close(side);
	xp_mem_close(&mem);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run2("a snapshot between equal words is untorn", update, snapshots_read, false);
	return xp_result();
}
