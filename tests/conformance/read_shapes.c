/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * read_shapes.c -- a read fetches exactly the bytes asked for, scattered over its segments in order,
 * at any alignment, and writes nothing beside them; the peer's memory does not change
 */
#include <errno.h>
#include <string.h>

#include "support/check.h"
#include "support/xport_pair.h"

enum {
	AREA = 65536,
	GUARD = 64,
};

static void all_shapes(void)
{
	unsigned rounds = xp_rounds(5000);
	struct xp_pair pair;
	struct xp_mem mems[2];
	struct xp_mem src;
	struct ol_xport_read bad;

	xp_pair_open(&pair, NULL);
	for (unsigned i = 0; i < 2; i++)
		xp_mem_open(&mems[i], &pair.b, NULL, 2 * AREA, OL_XPORT_ACCESS_LOCAL);
	xp_mem_open(&src, &pair.a, pair.a_conn, 3 * AREA, OL_XPORT_ACCESS_PEER_READ);
	for (uint64_t i = 0; i < 3 * AREA; i += 8)
		xp_fill(src.p + i, 8, i);
	for (uint64_t round = 1; round <= rounds; round++) {
		uint64_t dice = xp_mix(round);
		uint32_t limit = 1U << (dice >> 20) % 17;
		uint64_t src_off = xp_mix(dice) % AREA;
		uint64_t at = src_off;
		struct ol_xport_read read = {
			.seg_count = 1 + (unsigned)(round % 2),
			.flags = OL_XPORT_SIGNALED | (round % 3 == 0 ? OL_XPORT_AFTER_READS : 0),
			.src = src.key,
			.src_off = src_off,
			.cookie = round,
		};

		for (unsigned i = 0; i < read.seg_count; i++) {
			read.segs[i].region = mems[i].region;
			read.segs[i].off = GUARD + xp_mix(dice + i) % 127;
			read.segs[i].bytes = 1 + (uint32_t)((dice >> 8 * i) % limit);
			memset(mems[i].p, XP_GUARD, read.segs[i].off + read.segs[i].bytes + GUARD);
		}
		xp_post_read(pair.b_conn, &read);
		xp_wait_done(&pair.b, pair.b_conn, round);
		for (unsigned i = 0; i < read.seg_count; i++) {
			uint8_t *got = mems[i].p + read.segs[i].off;
			uint32_t bytes = read.segs[i].bytes;

			check_msg(memcmp(got, src.p + at, bytes) == 0,
				  "round %ju: segment %u of %u bytes", (uintmax_t)round, i, bytes);
			xp_check_bytes(got - GUARD, GUARD, XP_GUARD, "before the segment");
			xp_check_bytes(got + bytes, GUARD, XP_GUARD, "behind the segment");
			at += bytes;
		}
	}
	for (uint64_t i = 0; i < 3 * AREA; i += 8)
		xp_check_fill(src.p + i, 8, i, "the peer's memory");

	bad = xp_read(&mems[0], 0, 8, src.key, 0);
	bad.seg_count = 0;
	check_eq(pair.b.ops->post_read(pair.b_conn, &bad), -EINVAL);
	bad.seg_count = OL_XPORT_SEGS_MAX + 1;
	check_eq(pair.b.ops->post_read(pair.b_conn, &bad), -EINVAL);
	xp_bell(pair.b_conn, 9);
	xp_wait_bell(&pair.a, pair.a_conn, 9);
	xp_quiet(&pair.b, NULL, 5);
	for (unsigned i = 0; i < 2; i++)
		xp_mem_close(&mems[i]);
	xp_mem_close(&src);
	xp_pair_close(&pair);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("a read of any shape brings exactly its bytes", all_shapes);
	return xp_result();
}
