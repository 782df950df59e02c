/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * relaxed.c -- relaxed ordering is asked for as the setting says, only for regions that allow it; a
 * doorbell and a read's DONE cover all that came before all the same
 */
#include <infiniband/verbs.h>

#include "support/check.h"
#include "support/wrap.h"
#include "support/xport_pair.h"

enum {
	BYTES = 64 << 10,
	PIECES = 16,
	ROUNDS = 50,
};

static unsigned last; /* access flags of the last registration */

WRAP(struct ibv_mr *, ibv_reg_mr_iova2, struct ibv_pd *pd, void *addr, size_t bytes, uint64_t iova,
     unsigned access)
{
	last = access;
	return __real_ibv_reg_mr_iova2(pd, addr, bytes, iova, access);
}

static void mem_is(struct xp_mem *mem, struct xp_end *end, struct ol_xport_conn *conn,
		   unsigned access, bool relaxed)
{
	last = 0;
	xp_mem_open(mem, end, conn, BYTES, access);
	if (!xp_is_shm())
		check_eq((last & IBV_ACCESS_RELAXED_ORDERING) != 0, relaxed);
}

static void covered(struct xp_pair *pair, struct xp_mem *src, struct xp_mem *dst,
		    struct xp_mem *back, uint64_t round)
{
	const uint32_t piece = BYTES / PIECES;
	struct ol_xport_read read = xp_read(back, 0, BYTES, dst->key, 0);

	xp_fill(src->p, BYTES, round);
	for (uint32_t i = 0; i < PIECES; i++) {
		struct ol_xport_write write = xp_write(src, i * piece, piece, dst->key, i * piece);

		write.flags = i + 1 < PIECES ? 0 : OL_XPORT_DOORBELL;
		write.imm = (uint32_t)round;
		xp_post_write(pair->b_conn, &write);
	}
	xp_wait_bell(&pair->a, pair->a_conn, (uint32_t)round);
	xp_check_fill(dst->p, BYTES, round, "what the doorbell covers");
	read.flags = OL_XPORT_SIGNALED;
	read.cookie = round;
	xp_post_read(pair->b_conn, &read);
	xp_wait_done(&pair->b, pair->b_conn, round);
	xp_check_fill(back->p, BYTES, round, "what was read");
}

static void with(enum ol_xport_choice choice, bool relaxed)
{
	const unsigned peer = OL_XPORT_ACCESS_PEER_READ | OL_XPORT_ACCESS_PEER_WRITE;
	struct ol_xport_opts opts = xp_opts();
	struct xp_mem src, dst, back, words;
	struct xp_pair pair;

	opts.relaxed_ordering = choice;
	xp_pair_open(&pair, &opts);
	mem_is(&dst, &pair.a, pair.a_conn, peer | OL_XPORT_ACCESS_RELAXED, relaxed);
	mem_is(&words, &pair.a, pair.a_conn, peer, false);
	mem_is(&src, &pair.b, NULL, OL_XPORT_ACCESS_RELAXED, relaxed);
	mem_is(&back, &pair.b, NULL, OL_XPORT_ACCESS_LOCAL, false);
	for (uint64_t round = 1; round <= xp_rounds(ROUNDS); round++)
		covered(&pair, &src, &dst, &back, round);
	xp_mem_close(&back);
	xp_mem_close(&src);
	xp_mem_close(&words);
	xp_mem_close(&dst);
	xp_pair_close(&pair);
}

static void on(void)
{
	with(OL_XPORT_ON, true);
}

static void off(void)
{
	with(OL_XPORT_OFF, false);
}

/* The device of these tests is rdma_rxe */
static void automatic(void)
{
	with(OL_XPORT_AUTO, false);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("with relaxed ordering only regions that allow it get it", on);
	xp_run1("without it none does", off);
	xp_run1("rdma_rxe has no PCIe to relax", automatic);
	return xp_result();
}
