/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * doorbell_count.c -- of 100 000 numbered doorbells none is lost, doubled or out of order, with the
 * window fully used, and with doorbells in both directions
 */
#include "support/check.h"
#include "support/xport_pair.h"

enum {
	WINDOW = 64,
	NEWS = WINDOW / 2, /* the receiver says so whenever it has seen so many more */
};

static struct ol_xport_opts window_opts(void)
{
	struct ol_xport_opts opts = xp_opts();

	opts.doorbells_max = WINDOW;
	return opts;
}

static void ring(struct xp_side *side)
{
	struct ol_xport_opts opts = window_opts();
	uint32_t bells = xp_rounds(100000) / NEWS * NEWS;
	uint32_t seen = 0;
	uint32_t fewest = WINDOW;

	xp_side_b_open(side, &opts);
	for (uint32_t i = 0; i < bells; i++) {
		while (i - seen == WINDOW) {
			uint32_t news =
				xp_wait(&side->end, OL_XPORT_DOORBELL_RUNG, side->conn).ev.imm;

			check_eq(news, seen + NEWS);
			seen = news;
		}
		if (WINDOW - (i - seen) < fewest)
			fewest = WINDOW - (i - seen);
		xp_bell(side->conn, i * 0x01000193U);
	}
	while (seen < bells) {
		check_eq(xp_wait(&side->end, OL_XPORT_DOORBELL_RUNG, side->conn).ev.imm,
			 seen + NEWS);
		seen += NEWS;
	}
	check(fewest <= 1 || bells < WINDOW); /* the window was used up */
	xp_side_close(side);
}

static void count(struct xp_side *side)
{
	struct ol_xport_opts opts = window_opts();
	uint32_t bells = xp_rounds(100000) / NEWS * NEWS;

	xp_side_a_open(side, &opts);
	for (uint32_t i = 0; i < bells; i++) {
		xp_wait_bell(&side->end, side->conn, i * 0x01000193U);
		if (i % NEWS == NEWS - 1)
			xp_bell(side->conn, i + 1);
	}
	xp_quiet(&side->end, NULL, 20);
	xp_side_close(side);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run2("no bell is lost, doubled or out of order", count, ring, false);
	return xp_result();
}
