/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * byte_order.c -- hardware property: the order in which the bytes of one write become visible. It
 * is only reported; the test fails only if caps.write_in_order is set without address order.
 */
#include "rdma/order.h"
#include "support/check.h"
#include "support/xport_pair.h"

enum {
	WORDS = 8192,
	BYTES = WORDS * 8,
	ROUNDS = 4000,
	BUFFERS = 2,
};

static void write_rounds(struct xp_side *side)
{
	unsigned rounds = xp_rounds(ROUNDS);
	struct ol_xport_rkey key;
	struct xp_mem src;

	xp_side_b_open(side, NULL);
	xp_mem_open(&src, &side->end, side->conn, BYTES, OL_XPORT_ACCESS_LOCAL);
	xp_recv(side, &key, sizeof(key));
	for (uint64_t round = 1; round <= rounds; round++) {
		struct ol_xport_write write = xp_write(&src, 0, BYTES, key, 0);

		for (unsigned i = 0; i < WORDS; i++)
			((uint64_t *)(void *)src.p)[i] = round;
		write.flags = OL_XPORT_DOORBELL;
		xp_post_write(side->conn, &write);
		xp_wait(&side->end, OL_XPORT_DOORBELL_RUNG, side->conn);
	}
	xp_side_close(side);
	xp_mem_close(&src);
}

static void look(struct xp_side *side)
{
	unsigned rounds = xp_rounds(ROUNDS);
	unsigned later_first = 0;
	unsigned between = 0;
	bool in_order;
	struct xp_mem mem;
	_Atomic uint64_t *words;

	xp_side_a_open(side, NULL);
	in_order = side->end.caps.write_in_order != 0;
	xp_mem_open(&mem, &side->end, side->conn, BYTES, OL_XPORT_ACCESS_PEER_WRITE);
	words = (_Atomic uint64_t *)(void *)mem.p;
	xp_send(side, &mem.key, sizeof(mem.key));
	for (uint64_t round = 1; round <= rounds; round++) {
		struct xp_event event;

		while (!xp_take(&side->end, OL_XPORT_DOORBELL_RUNG, NULL, &event)) {
			/* a later word new, and behind that an earlier one still old */
			for (unsigned i = 0; i < 64; i++) {
				unsigned late = WORDS - 1 - (unsigned)(xp_mix(round + i) % 4096);
				bool late_new = ol_word_load(&words[late]) == round;
				bool early_new = ol_word_load(&words[late / 2]) == round;

				later_first += late_new && !early_new;
				between += early_new && !late_new;
			}
			xp_relax();
		}
		xp_bell(side->conn, 0);
	}
	xp_note("64 KiB writes, %u: seen half there %u times, later half first %u times; "
		"caps.write_in_order %d",
		rounds, between, later_first, in_order);
	check_msg(!in_order || later_first == 0, "address order is promised and not kept");
	xp_side_close(side);
	xp_mem_close(&mem);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run2("bytes of one write become visible in an order", look, write_rounds, false);
	return xp_result();
}
