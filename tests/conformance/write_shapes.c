/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * write_shapes.c -- of every write, inline or not, with a region or without, of no, one or two
 * segments, at any alignment, exactly the bytes asked for land, in the order of the segments
 */
#include <errno.h>
#include <string.h>

#include "support/check.h"
#include "support/xport_pair.h"

enum {
	AREA = 16384,
	GUARD = 64,
};

struct stage {
	struct xp_pair pair;
	struct xp_mem one;
	struct xp_mem two;
	struct xp_mem dst;
};

static void stage_open(struct stage *stage)
{
	xp_pair_open(&stage->pair, NULL);
	xp_mem_open(&stage->one, &stage->pair.b, NULL, AREA, OL_XPORT_ACCESS_LOCAL);
	xp_mem_open(&stage->two, &stage->pair.b, stage->pair.b_conn, AREA, OL_XPORT_ACCESS_LOCAL);
	xp_mem_open(&stage->dst, &stage->pair.a, stage->pair.a_conn, 3 * AREA,
		    OL_XPORT_ACCESS_PEER_WRITE | OL_XPORT_ACCESS_PEER_READ);
}

static void stage_close(struct stage *stage)
{
	xp_mem_close(&stage->one);
	xp_mem_close(&stage->two);
	xp_mem_close(&stage->dst);
	xp_pair_close(&stage->pair);
}

/* What one round does: two pieces, from two regions, to one place. */
struct shape {
	uint32_t bytes[2];
	uint64_t off[2];
	uint64_t dst_off;
	bool inlined;
	bool no_region;
};

static struct shape shape_of(uint64_t round, uint32_t inline_max)
{
	uint64_t dice = xp_mix(round);
	struct shape shape = {
		.inlined = round % 3 == 0,
		.no_region = round % 6 == 0,
		.off = { xp_mix(dice) % 129, xp_mix(dice + 1) % 129 },
		.dst_off = GUARD + xp_mix(dice + 2) % 257,
	};
	uint32_t limit = 1U << (dice >> 20) % 14;

	if (shape.inlined)
		limit = inline_max / 2;
	shape.bytes[0] = 1 + (uint32_t)(dice % limit);
	shape.bytes[1] = round % 2 == 0 ? 0 : 1 + (uint32_t)((dice >> 32) % limit);
	return shape;
}

static void shape_write(struct stage *stage, uint64_t round, const struct shape *shape)
{
	const struct xp_mem *mems[2] = { &stage->one, &stage->two };
	struct ol_xport_write write = {
		.seg_count = shape->bytes[1] > 0 ? 2 : 1,
		.flags = OL_XPORT_DOORBELL | (shape->inlined ? OL_XPORT_INLINE : 0),
		.imm = (uint32_t)round,
		.dst = stage->dst.key,
		.dst_off = shape->dst_off,
	};

	for (unsigned i = 0; i < write.seg_count; i++) {
		uint8_t *at = mems[i]->p + shape->off[i];

		xp_fill(at, shape->bytes[i], round * 2 + i);
		write.segs[i] = (struct ol_xport_seg){
			.region = shape->no_region ? NULL : mems[i]->region,
			.off = shape->no_region ? (uintptr_t)at : shape->off[i],
			.bytes = shape->bytes[i],
		};
	}
	xp_post_write(stage->pair.b_conn, &write);
	if (shape->inlined) {
		memset(stage->one.p, 0xee, AREA);
		memset(stage->two.p, 0xee, AREA);
	}
}

static void all_shapes(void)
{
	unsigned rounds = xp_rounds(10000);
	struct stage stage;

	stage_open(&stage);
	for (uint64_t round = 1; round <= rounds; round++) {
		struct shape shape = shape_of(round, stage.pair.b.caps.inline_max);
		uint8_t *at = stage.dst.p + shape.dst_off;

		memset(at - GUARD, XP_GUARD, GUARD + AREA + GUARD);
		shape_write(&stage, round, &shape);
		xp_wait_bell(&stage.pair.a, stage.pair.a_conn, (uint32_t)round);
		xp_check_fill(at, shape.bytes[0], round * 2, "first segment");
		xp_check_fill(at + shape.bytes[0], shape.bytes[1], round * 2 + 1, "second segment");
		xp_check_bytes(at - GUARD, GUARD, XP_GUARD, "before the write");
		xp_check_bytes(at + shape.bytes[0] + shape.bytes[1], GUARD, XP_GUARD,
			       "behind the write");
	}
	stage_close(&stage);
}

/* Exactly inline_max, as one segment and as two; one byte more is refused. */
static void inline_limit(void)
{
	struct stage stage;
	struct ol_xport_write write;
	uint32_t max;

	stage_open(&stage);
	max = stage.pair.b.caps.inline_max;
	check(max >= 16 && max <= AREA / 2);
	xp_note("inline_max %u, write_max %ju, inflight_max %u, in order %u", max,
		(uintmax_t)stage.pair.b.caps.write_max, stage.pair.b.caps.inflight_max,
		stage.pair.b.caps.write_in_order);
	xp_fill(stage.one.p, max + 8, 1);
	write = xp_write(&stage.one, 0, max, stage.dst.key, 64);
	write.flags = OL_XPORT_INLINE | OL_XPORT_DOORBELL;
	xp_post_write(stage.pair.b_conn, &write);
	xp_wait_bell(&stage.pair.a, stage.pair.a_conn, 0);
	xp_check_fill(stage.dst.p + 64, max, 1, "inline_max bytes");
	write.segs[0].bytes = max - 5;
	write.segs[1] = write.segs[0];
	write.segs[1].off = max - 5;
	write.segs[1].bytes = 5;
	write.seg_count = 2;
	memset(stage.dst.p, 0, AREA);
	xp_post_write(stage.pair.b_conn, &write);
	xp_wait_bell(&stage.pair.a, stage.pair.a_conn, 0);
	xp_check_fill(stage.dst.p + 64, max, 1, "inline_max bytes of two segments");
	xp_check_bytes(stage.dst.p + 64 + max, 64, 0, "behind the write");

	write.segs[1].bytes = 6;
	check_eq(stage.pair.b.ops->post_write(stage.pair.b_conn, &write), -EINVAL);
	write.segs[0].bytes = max + 1;
	write.seg_count = 1;
	check_eq(stage.pair.b.ops->post_write(stage.pair.b_conn, &write), -EINVAL);
	write.segs[0].bytes = 8;
	write.seg_count = OL_XPORT_SEGS_MAX + 1;
	check_eq(stage.pair.b.ops->post_write(stage.pair.b_conn, &write), -EINVAL);
	xp_bell(stage.pair.b_conn, 9); /* and the connection is none the worse for it */
	xp_wait_bell(&stage.pair.a, stage.pair.a_conn, 9);
	xp_quiet(&stage.pair.b, NULL, 5);
	stage_close(&stage);
}

/* A bell needs no destination; signaled, it is reported; imm is any 32 bits. */
static void bell_alone(void)
{
	static const uint32_t imms[] = { 0, 1, 0x80000000, 0xffffffff, 0x12345678 };
	struct stage stage;

	stage_open(&stage);
	memset(stage.dst.p, XP_GUARD, AREA);
	for (unsigned i = 0; i < 5; i++) {
		struct ol_xport_write bell = {
			.flags = OL_XPORT_DOORBELL | OL_XPORT_SIGNALED |
				 (i % 2 == 1 ? OL_XPORT_INLINE : 0),
			.imm = imms[i],
			.cookie = (uint64_t)-1 - i,
		};

		xp_post_write(stage.pair.b_conn, &bell);
		xp_wait_bell(&stage.pair.a, stage.pair.a_conn, imms[i]);
		xp_wait_done(&stage.pair.b, stage.pair.b_conn, (uint64_t)-1 - i);
	}
	xp_check_bytes(stage.dst.p, AREA, XP_GUARD, "memory nobody wrote");
	stage_close(&stage);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("a write of any shape lands exactly its bytes", all_shapes);
	xp_run1("inline writes up to the limit land, and longer ones are refused", inline_limit);
	xp_run1("a bell needs no payload", bell_alone);
	return xp_result();
}
