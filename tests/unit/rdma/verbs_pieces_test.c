/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * verbs_pieces_test.c -- what a device does not take as one request is copied, split or followed by
 * a send, in order, and none of it is lost or doubled when the device takes only a part
 *
 * A connection is put together by hand; its queue pair is a table of ours that keeps what is posted.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rdma/verbs/internal.h"
#include "support/check.h"

enum {
	INFLIGHT = 16,
	POSTED_MAX = 512,
	BOUNCE_LKEY = 77,
	REGION_LKEY = 55,
	REGION_BYTES = 4096,
	RKEY = 99,
	PEER = 0x10000,
};

/* A request as the adapter got it: where it reads from, and what was there then. */
struct posted {
	struct ibv_send_wr wr;
	struct ibv_sge sge; /* the first */
	uint8_t first[8];
};

static struct {
	struct ibv_context ctx;
	struct ibv_qp qp;
	struct ibv_mr own_mr, region_mr;
	struct ibv_mr *region_mrs[1];
	struct ol_xport xport;
	struct ol_verbs_conn conn;
	struct ol_verbs_op ops[64];
	struct ol_xport_region region;
	uint8_t bounces[OL_VERBS_BOUNCES * OL_VERBS_INLINE_FLOOR];
	uint8_t memory[REGION_BYTES];
	struct posted posted[POSTED_MAX];
	unsigned count;
	unsigned takes; /* requests that the adapter still takes */
} bench;

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **ret_bad)
{
	(void)qp;
	for (; wr != NULL; wr = wr->next) {
		struct posted *posted = &bench.posted[bench.count];

		if (bench.takes == 0) {
			*ret_bad = wr;
			return ENOMEM;
		}
		bench.takes--;
		check(bench.count++ < POSTED_MAX);
		posted->wr = *wr;
		if (wr->num_sge == 0)
			continue;
		posted->sge = wr->sg_list[0];
		if (posted->sge.length >= 4)
			memcpy(posted->first, (const void *)(uintptr_t)posted->sge.addr,
			       posted->sge.length < 8 ? posted->sge.length : 8);
	}
	return 0;
}

static struct ol_verbs_conn *bench_open(struct ol_verbs_lacks lacks)
{
	struct ol_verbs_conn *conn = &bench.conn;

	memset(&bench, 0, sizeof(bench));
	bench.takes = POSTED_MAX;
	bench.ctx.ops.post_send = post_send;
	bench.qp.context = &bench.ctx;
	bench.own_mr.lkey = BOUNCE_LKEY;
	bench.region_mr.lkey = REGION_LKEY;
	bench.region_mrs[0] = &bench.region_mr;
	bench.xport.lacks = lacks;
	bench.xport.lacks.scatter |= lacks.gather;
	bench.xport.pieces_max = 1U + bench.xport.lacks.scatter + lacks.imm;
	bench.xport.caps.inline_max = OL_VERBS_INLINE_FLOOR;
	bench.xport.caps.write_max = 1 << 20;
	bench.xport.signal_every = INFLIGHT / OL_VERBS_SIGNALS + 1;
	bench.xport.ring = bench.xport.pieces_max * INFLIGHT + bench.xport.signal_every - 1;
	bench.region =
		(struct ol_xport_region){ .xport = &bench.xport,
					  .common = true,
					  .span = ol_verbs_span_own(bench.memory, REGION_BYTES),
					  .inline_bytes = REGION_BYTES,
					  .mrs = bench.region_mrs };
	conn->base.xport = &bench.xport;
	conn->state = OL_VERBS_UP;
	conn->qp = &bench.qp;
	conn->ops = bench.ops;
	conn->ops_mask = sizeof(bench.ops) / sizeof(bench.ops[0]) - 1;
	conn->own.memory = conn->own.bounces = bench.bounces;
	conn->own.mr = &bench.own_mr;
	return conn;
}

static struct ol_xport_write write_of(uint32_t first, uint32_t second, unsigned flags)
{
	return (struct ol_xport_write){
		.segs = { { .region = &bench.region, .off = 0, .bytes = first },
			  { .region = &bench.region, .off = 2048, .bytes = second } },
		.seg_count = second != 0 ? 2 : first != 0,
		.flags = flags,
		.imm = 0x01020304,
		.dst = { .addr = PEER, .bytes = REGION_BYTES, .rkey = RKEY },
		.dst_off = 256,
		.cookie = 42,
	};
}

static int post(struct ol_verbs_conn *conn, uint32_t first, uint32_t second, unsigned flags)
{
	const struct ol_xport_write write = write_of(first, second, flags);

	return ol_verbs_post_write(&conn->base, &write);
}

static void a_device_that_lacks_nothing_gets_the_post_as_it_is(void **state)
{
	struct ol_verbs_conn *conn = bench_open((struct ol_verbs_lacks){ .inline_granted = 256 });

	(void)state;
	assert_int_equal(post(conn, 100, 64, OL_XPORT_INLINE | OL_XPORT_DOORBELL), 0);
	assert_int_equal(bench.count, 1);
	assert_int_equal(bench.posted[0].wr.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	assert_int_equal(bench.posted[0].wr.num_sge, 2);
	assert_int_equal(bench.posted[0].wr.send_flags, IBV_SEND_INLINE);
	assert_int_equal(conn->bounce_head, 0);
}

static void foreign_memory_is_no_source_of_inline_data(void **state)
{
	static const uint32_t granted[] = { 256, 0 };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct ol_verbs_conn *conn =
			bench_open((struct ol_verbs_lacks){ .inline_granted = granted[i] });

		bench.region.inline_bytes = 0;
		assert_int_equal(post(conn, 100, 0, OL_XPORT_INLINE), -EINVAL);
		assert_int_equal(bench.count, 0);
		assert_int_equal(conn->bounce_head, 0);
		assert_int_equal(post(conn, 100, 0, 0), 0);
		assert_int_equal(bench.count, 1);
	}
}

static void more_than_the_device_copies_is_copied_here(void **state)
{
	struct ol_verbs_conn *conn = bench_open((struct ol_verbs_lacks){ .inline_granted = 32 });
	uint8_t own[64];
	struct ol_xport_write write = write_of(0, 0, OL_XPORT_INLINE);
	const uint8_t *copy;

	(void)state;
	memset(own, 7, sizeof(own));
	memset(bench.memory, 9, 100);
	write.segs[0] = (struct ol_xport_seg){ .off = (uintptr_t)own, .bytes = sizeof(own) };
	write.segs[1] = (struct ol_xport_seg){ .region = &bench.region, .bytes = 100 };
	write.seg_count = 2;
	assert_int_equal(ol_verbs_post_write(&conn->base, &write), 0);
	memset(own, 0, sizeof(own));
	assert_int_equal(bench.count, 1);
	assert_int_equal(bench.posted[0].wr.num_sge, 1);
	assert_int_equal(bench.posted[0].wr.send_flags & IBV_SEND_INLINE, 0);
	assert_int_equal(bench.posted[0].sge.lkey, BOUNCE_LKEY);
	assert_int_equal(bench.posted[0].sge.length, 164);
	copy = (const void *)(uintptr_t)bench.posted[0].sge.addr;
	assert_true(copy[0] == 7 && copy[63] == 7 && copy[64] == 9 && copy[163] == 9);
	assert_int_equal(post(conn, 32, 0, OL_XPORT_INLINE), 0); /* that much it copies itself */
	assert_int_equal(bench.posted[1].wr.send_flags & IBV_SEND_INLINE, IBV_SEND_INLINE);
	assert_int_equal(post(conn, 257, 0, OL_XPORT_INLINE), -EINVAL);
}

static void two_segments_are_two_requests_where_one_has_room(void **state)
{
	struct ol_verbs_conn *conn =
		bench_open((struct ol_verbs_lacks){ .inline_granted = 256, .gather = true });
	const struct posted *posted = bench.posted;

	(void)state;
	assert_int_equal(post(conn, 1000, 500, OL_XPORT_DOORBELL | OL_XPORT_SIGNALED), 0);
	assert_int_equal(bench.count, 2);
	assert_int_equal(posted[0].wr.opcode, IBV_WR_RDMA_WRITE);
	assert_int_equal(posted[0].wr.wr.rdma.remote_addr, PEER + 256);
	assert_int_equal(posted[0].sge.length, 1000);
	assert_int_equal(posted[0].wr.send_flags & IBV_SEND_SIGNALED, 0);
	assert_int_equal(posted[1].wr.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	assert_int_equal(posted[1].wr.imm_data, htonl(0x01020304));
	assert_int_equal(posted[1].wr.wr.rdma.remote_addr, PEER + 256 + 1000);
	assert_int_equal(posted[1].sge.addr, (uintptr_t)bench.memory + 2048);
	assert_int_equal(posted[1].sge.length, 500);
	assert_int_equal(posted[1].wr.send_flags & IBV_SEND_SIGNALED, IBV_SEND_SIGNALED);
	/* of the two, the caller hears once */
	assert_false(conn->ops[0].signaled);
	assert_true(conn->ops[1].signaled && conn->ops[1].cookie == 42);
}

static void a_read_into_two_segments_is_two_where_one_has_room(void **state)
{
	struct ol_verbs_conn *conn =
		bench_open((struct ol_verbs_lacks){ .inline_granted = 256, .scatter = true });
	const struct ol_xport_write like = write_of(100, 200, 0);
	struct ol_xport_read read = { .segs = { like.segs[0], like.segs[1] },
				      .seg_count = 2,
				      .flags = OL_XPORT_SIGNALED | OL_XPORT_AFTER_READS,
				      .src = like.dst,
				      .src_off = like.dst_off };

	(void)state;
	bench.xport.fence_flags = IBV_SEND_FENCE;
	assert_int_equal(ol_verbs_post_read(&conn->base, &read), 0);
	assert_int_equal(post(conn, 100, 200, 0), 0);
	assert_int_equal(bench.count, 3); /* a write still takes two */
	assert_int_equal(bench.posted[0].wr.opcode, IBV_WR_RDMA_READ);
	assert_int_equal(bench.posted[0].wr.send_flags, IBV_SEND_FENCE);
	assert_int_equal(bench.posted[1].wr.opcode, IBV_WR_RDMA_READ);
	assert_int_equal(bench.posted[1].wr.send_flags, IBV_SEND_SIGNALED);
	assert_int_equal(bench.posted[1].wr.wr.rdma.remote_addr, PEER + 256 + 100);
	assert_int_equal(bench.posted[1].sge.length, 200);
}

static void without_immediates_a_doorbell_is_sent_behind_its_write(void **state)
{
	struct ol_verbs_conn *conn =
		bench_open((struct ol_verbs_lacks){ .inline_granted = 80, .imm = true });
	const struct posted *posted = bench.posted;
	uint32_t imm = htonl(0x01020304);

	(void)state;
	assert_int_equal(post(conn, 1000, 500, OL_XPORT_DOORBELL), 0);
	assert_int_equal(post(conn, 0, 0, OL_XPORT_DOORBELL), 0);
	assert_int_equal(bench.count, 3);
	assert_int_equal(posted[0].wr.opcode, IBV_WR_RDMA_WRITE);
	assert_int_equal(posted[0].wr.num_sge, 2);
	for (unsigned i = 1; i < 3; i++) {
		assert_int_equal(posted[i].wr.opcode, IBV_WR_SEND);
		assert_int_equal(posted[i].sge.length, OL_VERBS_BELL_BYTES);
		assert_memory_equal(posted[i].first, &imm, sizeof(imm));
	}
	assert_int_equal(conn->head, 3);
}

static void a_device_that_copies_nothing_sends_its_bells_from_a_copy(void **state)
{
	struct ol_verbs_conn *conn = bench_open(
		(struct ol_verbs_lacks){ .inline_granted = 0, .imm = true, .gather = true });
	uint32_t imm = htonl(0x01020304);

	(void)state;
	assert_int_equal(post(conn, 100, 64, OL_XPORT_DOORBELL | OL_XPORT_INLINE), 0);
	assert_int_equal(bench.count, 2); /* what is copied is one segment */
	assert_int_equal(bench.posted[0].sge.length, 164);
	assert_int_equal(bench.posted[1].sge.lkey, BOUNCE_LKEY);
	assert_memory_equal(bench.posted[1].first, &imm, sizeof(imm));
	assert_int_equal(post(conn, 1000, 500, OL_XPORT_DOORBELL), 0);
	assert_int_equal(bench.count, 5);
}

static void what_the_device_does_not_take_is_not_posted(void **state)
{
	struct ol_verbs_conn *conn =
		bench_open((struct ol_verbs_lacks){ .inline_granted = 0, .imm = true });

	(void)state;
	bench.takes = 0;
	assert_int_equal(post(conn, 100, 0, OL_XPORT_DOORBELL | OL_XPORT_INLINE), -EAGAIN);
	assert_int_equal(conn->head, 0);
	assert_int_equal(conn->bounce_head, 0);
	assert_int_equal(conn->held_count, 0);
}

static void what_was_taken_in_part_is_posted_whole(void **state)
{
	struct ol_verbs_conn *conn = bench_open(
		(struct ol_verbs_lacks){ .inline_granted = 8, .imm = true, .gather = true });
	const uint32_t imm = htonl(0x01020304);

	(void)state;
	bench.takes = 1;
	assert_int_equal(post(conn, 1000, 500, OL_XPORT_DOORBELL), 0);
	assert_int_equal(bench.count, 1);
	assert_true(conn->in_holders); /* the next poll goes on */
	bench.takes = 1;
	assert_int_equal(post(conn, 2000, 0, 0), -EAGAIN); /* behind the other's second half */
	assert_int_equal(bench.count, 2);
	bench.takes = POSTED_MAX;
	ol_verbs_held_flush(conn);
	assert_int_equal(bench.count, 3);
	assert_int_equal(bench.posted[1].sge.length, 500);
	assert_int_equal(bench.posted[2].wr.opcode, IBV_WR_SEND);
	assert_memory_equal(bench.posted[2].first, &imm, sizeof(imm));
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(bench.posted[i].wr.wr_id, i);
	assert_int_equal(conn->head, 3);
}

static void copies_run_out_and_come_back(void **state)
{
	struct ol_verbs_conn *conn = bench_open((struct ol_verbs_lacks){ .inline_granted = 0 });
	unsigned posted = 0;
	unsigned signals = 0;

	(void)state;
	bench.xport.ring = 64; /* the copies are what is short */
	bench.xport.signal_every = 1000;
	while (post(conn, 8, 0, OL_XPORT_INLINE) == 0)
		posted++;
	assert_int_equal(post(conn, 8, 0, OL_XPORT_INLINE), -EAGAIN);
	assert_true(posted >= OL_VERBS_BOUNCES - 2 && posted <= OL_VERBS_BOUNCES);
	for (unsigned i = 0; i < bench.count; i++)
		signals += (bench.posted[i].wr.send_flags & IBV_SEND_SIGNALED) != 0;
	assert_true(signals >= 3); /* else no completion would ever free them */
	/* the completion of the tenth */
	conn->tail = 10;
	conn->bounce_tail = conn->ops[9].bounce_head;
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(post(conn, 8, 0, OL_XPORT_INLINE), 0);
	assert_int_equal(post(conn, 8, 0, OL_XPORT_INLINE), -EAGAIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_that_lacks_nothing_gets_the_post_as_it_is),
		cmocka_unit_test(foreign_memory_is_no_source_of_inline_data),
		cmocka_unit_test(more_than_the_device_copies_is_copied_here),
		cmocka_unit_test(two_segments_are_two_requests_where_one_has_room),
		cmocka_unit_test(a_read_into_two_segments_is_two_where_one_has_room),
		cmocka_unit_test(without_immediates_a_doorbell_is_sent_behind_its_write),
		cmocka_unit_test(a_device_that_copies_nothing_sends_its_bells_from_a_copy),
		cmocka_unit_test(what_the_device_does_not_take_is_not_posted),
		cmocka_unit_test(what_was_taken_in_part_is_posted_whole),
		cmocka_unit_test(copies_run_out_and_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
