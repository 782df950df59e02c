/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * write_big.c -- writes and reads of up to caps.write_max bytes arrive whole: a little over 8 MiB,
 * in the largest pieces allowed; one byte more than write_max is refused
 */
#include <errno.h>
#include <string.h>

#include "support/check.h"
#include "support/xport_pair.h"

enum {
	BYTES = (8 << 20) + 12345,
};

static void pieces(struct xp_pair *pair, const struct xp_mem *own, struct ol_xport_rkey key,
		   uint32_t piece, bool reads)
{
	for (uint64_t off = 0; off < BYTES; off += piece) {
		uint32_t bytes = BYTES - off < piece ? (uint32_t)(BYTES - off) : piece;
		struct ol_xport_write write = xp_write(own, off, bytes, key, off);
		struct ol_xport_read read = xp_read(own, off, bytes, key, off);

		if (off + bytes == BYTES) {
			write.flags = OL_XPORT_DOORBELL;
			read.flags = OL_XPORT_SIGNALED;
			read.cookie = piece;
		}
		if (reads)
			xp_post_read(pair->b_conn, &read);
		else
			xp_post_write(pair->b_conn, &write);
	}
	if (reads)
		xp_wait_done(&pair->b, pair->b_conn, piece);
	else
		xp_wait_bell(&pair->a, pair->a_conn, 0);
}

static void there_and_back(void)
{
	struct xp_pair pair;
	struct xp_mem own;
	struct xp_mem far;
	uint32_t sizes[3] = { 0, (3 << 20) + 1, 65536 - 3 };

	xp_pair_open(&pair, NULL);
	xp_mem_open(&own, &pair.b, pair.b_conn, BYTES, OL_XPORT_ACCESS_LOCAL);
	xp_mem_open(&far, &pair.a, pair.a_conn, BYTES,
		    OL_XPORT_ACCESS_PEER_WRITE | OL_XPORT_ACCESS_PEER_READ);
	sizes[0] = pair.b.caps.write_max < BYTES ? (uint32_t)pair.b.caps.write_max : BYTES;
	for (unsigned i = 0; i < 3; i++) {
		uint32_t piece = sizes[i] < sizes[0] ? sizes[i] : sizes[0];

		xp_fill(own.p, BYTES, i);
		pieces(&pair, &own, far.key, piece, false);
		xp_check_fill(far.p, BYTES, i, "what was written");
		xp_fill(far.p, BYTES, i + 100);
		pieces(&pair, &own, far.key, piece, true);
		xp_check_fill(own.p, BYTES, i + 100, "what was read");
	}
	if (pair.b.caps.write_max < BYTES) {
		uint32_t more = (uint32_t)pair.b.caps.write_max + 1;
		struct ol_xport_write write = xp_write(&own, 0, more, far.key, 0);
		struct ol_xport_read read = xp_read(&own, 0, more, far.key, 0);

		check_eq(pair.b.ops->post_write(pair.b_conn, &write), -EINVAL);
		check_eq(pair.b.ops->post_read(pair.b_conn, &read), -EINVAL);
		write.segs[0].bytes = more - 8;
		write.segs[1] = write.segs[0];
		write.segs[1].bytes = 8;
		write.seg_count = 2;
		check_eq(pair.b.ops->post_write(pair.b_conn, &write), -EINVAL);
		xp_bell(pair.b_conn, 3);
		xp_wait_bell(&pair.a, pair.a_conn, 3);
	}
	xp_mem_close(&own);
	xp_mem_close(&far);
	xp_pair_close(&pair);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("the largest writes and reads arrive whole", there_and_back);
	return xp_result();
}
