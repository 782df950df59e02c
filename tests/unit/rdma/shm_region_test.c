/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * shm_region_test.c -- a peer reaches the regions registered for it, with their rights, and not a
 * byte more; its mappings stay
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "unit/rdma/shm_util.h"

/* refused -- the op just posted by b to a completes with -EACCES and ends both ends */
static void refused(struct end *a, struct end *b, uint64_t cookie)
{
	struct ol_xport_event event;

	event = want(b, NULL, OL_XPORT_DONE);
	assert_int_equal(event.status, -EACCES);
	assert_int_equal(event.cookie, cookie);
	assert_int_equal(want(b, NULL, OL_XPORT_CONN_DOWN).status, -EACCES);
	assert_int_equal(want(a, NULL, OL_XPORT_CONN_DOWN).status, -EACCES);
	assert_int_equal(a->warns, 1);
	assert_int_equal(b->warns, 1);
}

static void writes_and_reads_of_every_size_arrive_whole(void **state)
{
	const uint32_t sizes[] = { 257, 4096, 65536, 1 << 20 };
	struct ol_xport_write write = { .seg_count = 1, .flags = OL_XPORT_SIGNALED };
	struct mem there;
	struct mem here;
	struct end a;
	struct end b;
	uint32_t size;
	size_t i;

	(void)state;
	pair_open(&a, &b, NULL);
	mem_open(&there, &a, NULL, 2 << 20, RW);
	mem_open(&here, &b, NULL, 2 << 20, OL_XPORT_ACCESS_LOCAL);
	for (i = 0; i < 256 + 4 + 1; i++) {
		size = i <= 256 ? (uint32_t)i : sizes[i - 257];
		memset(there.p, 0, size + 32);
		memset(here.p, (int)(i % 255 + 1), size + 64);
		write.segs[0] = (struct ol_xport_seg){ here.region, i % 7, size };
		write.dst = there.key;
		write.dst_off = 8 + i % 5;
		assert_int_equal(X->post_write(b.conn, &write), 0);
		assert_int_equal(want(&b, &a, OL_XPORT_DONE).status, 0);
		assert_int_equal(there.p[8 + i % 5 - 1], 0);
		assert_memory_equal(there.p + 8 + i % 5, here.p, size);
		assert_int_equal(there.p[8 + i % 5 + size], 0);
		memset(here.p, 0, size + 1);
		assert_int_equal(fetch(b.conn, &here, size, there.key, 8 + i % 5), 0);
		assert_int_equal(want(&b, &a, OL_XPORT_DONE).status, 0);
		assert_memory_equal(there.p + 8 + i % 5, here.p, size);
		assert_int_equal(here.p[size], 0);
	}
	mem_close(&there);
	mem_close(&here);
	pair_close(&a, &b);
}

static void a_region_in_the_middle_of_a_slab_on_huge_pages_is_reached(void **state)
{
	const size_t off = (2 << 20) + 4096;
	struct ol_xport_region *region;
	struct ol_slab *slab;
	struct end a;
	struct end b;
	uint8_t *p;

	(void)state;
	pair_open(&a, &b, NULL);
	assert_int_equal(ol_slab_create(8 << 20, OL_SLAB_NODE_ANY, true, &slab), 0);
	assert_int_equal(X->reg(a.xport, NULL, slab, off, 3 << 20, RW, &region), 0);
	p = (uint8_t *)slab->addr + off;
	assert_int_equal(put(b.conn, X->rkey(region, a.conn), 0, "first", 5), 0);
	assert_int_equal(put(b.conn, X->rkey(region, a.conn), (3 << 20) - 4, "last", 4), 0);
	assert_memory_equal(p, "first", 5);
	assert_memory_equal(p + (3 << 20) - 4, "last", 4);
	assert_int_equal(p[-1], 0);
	assert_int_equal(p[3 << 20], 0);
	X->dereg(region);
	want(&b, NULL, OL_XPORT_DONE);
	want(&b, NULL, OL_XPORT_DONE);
	drained(&b); /* told that the region is gone: unmaps it */
	ol_slab_destroy(slab);
	pair_close(&a, &b);
}

static void segments_land_one_behind_the_other_and_reads_scatter(void **state)
{
	struct ol_xport_write write = { .seg_count = 2 };
	struct ol_xport_read read = { .seg_count = 2, .flags = OL_XPORT_SIGNALED, .cookie = 9 };
	struct mem there;
	struct mem here;
	struct end a;
	struct end b;

	(void)state;
	pair_open(&a, &b, NULL);
	mem_open(&there, &a, a.conn, 4096, RW);
	mem_open(&here, &b, b.conn, 4096, OL_XPORT_ACCESS_LOCAL);
	memcpy(here.p, "abcdefgh", 8);
	write.segs[0] = (struct ol_xport_seg){ here.region, 4, 4 };
	write.segs[1] = (struct ol_xport_seg){ here.region, 0, 4 };
	write.dst = there.key;
	write.dst_off = 100;
	assert_int_equal(X->post_write(b.conn, &write), 0);
	assert_memory_equal(there.p + 100, "efghabcd", 8);
	read.segs[0] = (struct ol_xport_seg){ here.region, 2000, 2 };
	read.segs[1] = (struct ol_xport_seg){ here.region, 3000, 6 };
	read.src = there.key;
	read.src_off = 100;
	assert_int_equal(X->post_read(b.conn, &read), 0);
	assert_int_equal(want(&b, NULL, OL_XPORT_DONE).cookie, 9);
	assert_memory_equal(here.p + 2000, "ef", 2);
	assert_memory_equal(here.p + 3000, "ghabcd", 6);
	mem_close(&there);
	mem_close(&here);
	pair_close(&a, &b);
}

static void a_key_moved_inside_its_region_reaches_just_that(void **state)
{
	struct ol_xport_rkey key;
	struct mem there;
	struct end a;
	struct end b;

	(void)state;
	pair_open(&a, &b, NULL);
	mem_open(&there, &a, NULL, 4096, RW);
	key = there.key;
	key.addr += 1000;
	key.bytes -= 1000;
	assert_int_equal(put(b.conn, key, 24, "x", 1), 0);
	assert_int_equal(there.p[1024], 'x');
	mem_close(&there);
	pair_close(&a, &b);
}

/* One violation: a region of 100 bytes at 1000 of a slab, rights, what is tried. */
struct violation {
	const char *name;
	unsigned access;
	bool read;
	uint64_t addr_add;
	uint64_t off;
	uint32_t bytes;
	uint32_t rkey_add;
};

static void violations_end_the_connection_and_change_nothing(void **state)
{
	static const struct violation all[] = {
		{ "write without the right", OL_XPORT_ACCESS_PEER_READ, false, 0, 0, 8, 0 },
		{ "read without the right", OL_XPORT_ACCESS_PEER_WRITE, true, 0, 0, 8, 0 },
		{ "write to a local region", OL_XPORT_ACCESS_LOCAL, false, 0, 0, 8, 0 },
		{ "write over the end", RW, false, 0, 96, 5, 0 },
		{ "write behind the end", RW, false, 0, 100, 1, 0 },
		{ "write before the start", RW, false, (uint64_t)-1, 0, 8, 0 },
		{ "write at an offset that wraps", RW, false, 0, (uint64_t)-1, 8, 0 },
		{ "read over the end", RW, true, 0, 93, 8, 0 },
		{ "read far away", RW, true, 1ULL << 40, 0, 8, 0 },
		{ "write to a key that is not", RW, false, 0, 0, 8, 1 },
		{ "read from a key that is not", RW, true, 0, 0, 8, 77 },
	};
	const struct violation *v;
	struct ol_xport_region *region;
	struct ol_xport_rkey key;
	struct ol_slab *slab;
	struct mem here;
	struct end a;
	struct end b;
	size_t i;
	size_t k;

	(void)state;
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		v = &all[i];
		pair_open(&a, &b, NULL);
		assert_int_equal(ol_slab_create(4096, OL_SLAB_NODE_ANY, false, &slab), 0);
		memset(slab->addr, 0x5a, 4096);
		assert_int_equal(X->reg(a.xport, NULL, slab, 1000, 100, v->access, &region), 0);
		key = X->rkey(region, a.conn);
		assert_int_equal(key.bytes, 100);
		mem_open(&here, &b, NULL, 4096, OL_XPORT_ACCESS_LOCAL);
		key.addr += v->addr_add;
		key.rkey += v->rkey_add;
		if (v->read)
			assert_int_equal(fetch(b.conn, &here, v->bytes, key, v->off), 0);
		else
			assert_int_equal(put(b.conn, key, v->off, "outlast!", v->bytes), 0);
		refused(&a, &b, v->read ? 2 : 1);
		for (k = 0; k < 4096; k++) {
			assert_int_equal(((const uint8_t *)slab->addr)[k], 0x5a);
			assert_int_equal(here.p[k], 0);
		}
		mem_close(&here);
		X->dereg(region);
		ol_slab_destroy(slab);
		pair_close(&a, &b);
	}
}

static void an_unsignaled_violation_is_told_by_the_end_alone(void **state)
{
	const struct ol_xport_rkey key = { .rkey = 12345 };
	struct ol_xport_write write = { .segs = { { .off = (uintptr_t) "x", .bytes = 1 } },
					.seg_count = 1,
					.flags = OL_XPORT_INLINE | OL_XPORT_DOORBELL,
					.dst = key };
	struct end a;
	struct end b;

	(void)state;
	pair_open(&a, &b, NULL);
	assert_int_equal(bell(b.conn, 7), 0);
	assert_int_equal(X->post_write(b.conn, &write), 0);
	assert_int_equal(want(&b, NULL, OL_XPORT_CONN_DOWN).status, -EACCES);
	assert_int_equal(want(&a, NULL, OL_XPORT_DOORBELL_RUNG).imm, 7); /* and no second one */
	assert_int_equal(want(&a, NULL, OL_XPORT_CONN_DOWN).status, -EACCES);
	pair_close(&a, &b);
}

static void another_connections_region_is_out_of_reach(void **state)
{
	struct ol_xport_conn *a_first;
	struct ol_xport_conn *b_first;
	struct ol_xport_event event;
	struct mem mine;
	struct mem later;
	struct end a;
	struct end b;
	int downs = 0;
	int i;

	(void)state;
	pair_open(&a, &b, NULL);
	a_first = a.conn;
	b_first = b.conn;
	mem_open(&mine, &a, a_first, 4096, RW);
	join(&a, &b);
	mem_open(&later, &a, a_first, 4096, RW);
	assert_int_equal(put(b_first, mine.key, 0, "1", 1), 0);
	assert_int_equal(put(b_first, later.key, 0, "2", 1), 0);
	assert_int_equal(put(b.conn, later.key, 0, "3", 1), 0);
	for (i = 0; i < 4; i++) { /* of two connections: in any order */
		event = next(&b, NULL);
		assert_int_equal(event.status, event.conn == b.conn ? -EACCES : 0);
		downs += event.type == OL_XPORT_CONN_DOWN;
		assert_true(event.type == OL_XPORT_DONE || event.conn == b.conn);
	}
	assert_int_equal(downs, 1);
	assert_int_equal(mine.p[0], '1');
	assert_int_equal(later.p[0], '2');
	assert_int_equal(put(b_first, later.key, 1, "4", 1), 0); /* the other one goes on */
	assert_int_equal(later.p[1], '4');
	mem_close(&mine);
	mem_close(&later);
	pair_close(&a, &b);
}

static void a_region_of_a_dead_connection_is_not_that_of_the_next(void **state)
{
	struct mem mem;
	struct end a;
	struct end b;

	(void)state;
	pair_open(&a, &b, NULL);
	mem_open(&mem, &a, a.conn, 4096, RW);
	X->conn_free(a.conn);
	want(&b, &a, OL_XPORT_CONN_DOWN);
	X->conn_free(b.conn);
	join(&a, &b);
	assert_int_equal(put(b.conn, mem.key, 0, "x", 1), 0);
	refused(&a, &b, 1);
	assert_int_equal(mem.p[0], 0);
	mem_close(&mem);
	pair_close(&a, &b);
}

static void keys_given_with_the_accept_and_the_hello_work_at_once(void **state)
{
	struct ol_xport_event event;
	struct ol_xport_rkey key;
	struct mem mailbox;
	struct mem slots;
	struct end a;
	struct end b;

	(void)state;
	end_open(&a, NULL);
	end_open(&b, NULL);
	end_listen(&a);
	mem_open(&mailbox, &b, NULL, 4096, RW);
	assert_int_equal(
		X->connect(b.xport, a.addr, &mailbox.key, sizeof(mailbox.key), NULL, &b.conn), 0);
	event = want(&a, &b, OL_XPORT_CONN_REQUEST);
	memcpy(&key, event.priv, sizeof(key));
	a.conn = event.conn;
	mem_open(&slots, &a, a.conn, 4096, OL_XPORT_ACCESS_PEER_WRITE);
	assert_int_equal(X->accept(a.conn, &slots.key, sizeof(slots.key)), 0);
	want(&b, NULL, OL_XPORT_CONN_UP);
	assert_int_equal(put(b.conn, slots.key, 0, "to the slot", 11), 0);
	assert_memory_equal(slots.p, "to the slot", 11);
	want(&a, NULL, OL_XPORT_CONN_UP);
	assert_int_equal(put(a.conn, key, 0, "to the mailbox", 14), 0);
	assert_memory_equal(mailbox.p, "to the mailbox", 14);
	mem_close(&mailbox);
	mem_close(&slots);
	pair_close(&a, &b);
}

static void a_key_dies_with_its_region_and_none_is_used_twice(void **state)
{
	struct ol_xport_region *region;
	struct ol_xport_rkey key = { .rkey = 0 };
	struct mem mem;
	struct end a;
	struct end b;
	int i;

	(void)state;
	pair_open(&a, &b, NULL);
	mem_open(&mem, &a, NULL, 4096, RW);
	for (i = 0; i < 3000; i++) {
		assert_int_equal(X->reg(a.xport, NULL, mem.slab, 0, 64, RW, &region), 0);
		assert_int_not_equal(X->rkey(region, NULL).rkey, key.rkey);
		key = X->rkey(region, NULL);
		X->dereg(region);
		if (i % 64 == 0)
			drained(&b);
	}
	assert_int_equal(put(b.conn, mem.key, 0, "x", 1), 0);
	want(&b, &a, OL_XPORT_DONE);
	assert_int_equal(put(b.conn, key, 0, "y", 1), 0);
	refused(&a, &b, 1);
	assert_int_equal(mem.p[0], 'x');
	mem_close(&mem);
	pair_close(&a, &b);
}

static void a_peer_that_does_not_look_is_told_later_or_dropped(void **state)
{
	struct ol_xport_region *regions[900];
	struct mem mem;
	struct end a;
	struct end b;
	unsigned fds;
	int i;

	(void)state;
	pair_open(&a, &b, NULL);
	mem_open(&mem, &a, NULL, 4096, RW);
	drained(&b);
	fds = fds_count();
	for (i = 0; i < 900; i++) /* more than a socket holds */
		assert_int_equal(X->reg(a.xport, NULL, mem.slab, 0, 64, RW, &regions[i]), 0);
	for (i = 0; i < 20; i++) {
		drained(&b);
		drained(&a);
	}
	assert_int_equal(put(b.conn, X->rkey(regions[899], NULL), 0, "x", 1), 0);
	assert_int_equal(want(&b, &a, OL_XPORT_DONE).status, 0);
	for (i = 0; i < 900; i++)
		X->dereg(regions[i]);
	for (i = 0; i < 20; i++) {
		drained(&b);
		drained(&a);
	}
	assert_int_equal(fds_count(), fds);
	for (i = 0; a.warns == 0; i++) { /* nobody reads: what waits is bounded */
		assert_true(i < 4000);
		assert_int_equal(X->reg(a.xport, NULL, mem.slab, 0, 64, RW, &regions[0]), 0);
		X->dereg(regions[0]);
		a.warns += X->post_write(a.conn, &(struct ol_xport_write){ .seg_count = 0 }) ==
			   -ENOTCONN;
	}
	assert_int_equal(want(&a, NULL, OL_XPORT_CONN_DOWN).status, -ETIMEDOUT);
	assert_int_equal(want(&b, NULL, OL_XPORT_CONN_DOWN).status, 0);
	mem_close(&mem);
	pair_close(&a, &b);
	assert_true(fds_count() < fds);
}

static void posts_that_make_no_sense_here_are_refused_here(void **state)
{
	struct ol_xport_write write = { .seg_count = 1 };
	struct ol_xport_read read = { .seg_count = 1 };
	struct mem there;
	struct mem here;
	struct mem other;
	struct end a;
	struct end b;

	(void)state;
	pair_open(&a, &b, NULL);
	mem_open(&there, &a, NULL, 4096, RW);
	mem_open(&here, &b, NULL, 4096, OL_XPORT_ACCESS_LOCAL);
	mem_open(&other, &a, NULL, 4096, RW);
	write.dst = there.key;
	read.src = there.key;
	write.segs[0] = (struct ol_xport_seg){ here.region, 4090, 8 };
	assert_int_equal(X->post_write(b.conn, &write), -EINVAL);
	write.segs[0] = (struct ol_xport_seg){ here.region, UINT64_MAX, 8 };
	assert_int_equal(X->post_write(b.conn, &write), -EINVAL);
	write.segs[0] = (struct ol_xport_seg){ other.region, 0, 8 };
	assert_int_equal(X->post_write(b.conn, &write), -EINVAL);
	write.segs[0] = (struct ol_xport_seg){ NULL, (uintptr_t)here.p, 8 };
	assert_int_equal(X->post_write(b.conn, &write), -EINVAL);
	write.segs[0] = (struct ol_xport_seg){ here.region, 0, 257 };
	write.flags = OL_XPORT_INLINE;
	assert_int_equal(X->post_write(b.conn, &write), -EINVAL);
	write.seg_count = 3;
	assert_int_equal(X->post_write(b.conn, &write), -EINVAL);
	read.segs[0] = (struct ol_xport_seg){ NULL, (uintptr_t)here.p, 8 };
	assert_int_equal(X->post_read(b.conn, &read), -EINVAL);
	read.segs[0] = (struct ol_xport_seg){ here.region, 4095, 2 };
	assert_int_equal(X->post_read(b.conn, &read), -EINVAL);
	read.seg_count = 0;
	assert_int_equal(X->post_read(b.conn, &read), -EINVAL);
	drained(&a);
	drained(&b);
	mem_close(&there);
	mem_close(&here);
	mem_close(&other);
	pair_close(&a, &b);
}

static void registrations_outside_a_slab_are_refused(void **state)
{
	struct ol_xport_region *region = NULL;
	struct ol_slab *slab;
	struct end a;

	(void)state;
	end_open(&a, NULL);
	assert_int_equal(ol_slab_create(4096, OL_SLAB_NODE_ANY, false, &slab), 0);
	assert_int_equal(X->reg(a.xport, NULL, slab, 0, 0, RW, &region), -EINVAL);
	assert_int_equal(X->reg(a.xport, NULL, slab, 0, 4097, RW, &region), -EINVAL);
	assert_int_equal(X->reg(a.xport, NULL, slab, 4096, 1, RW, &region), -EINVAL);
	assert_int_equal(X->reg(a.xport, NULL, slab, SIZE_MAX, 2, RW, &region), -EINVAL);
	assert_int_equal(X->reg(a.xport, NULL, slab, 0, 4096, 1 << 5, &region), -EINVAL);
	assert_null(region);
	ol_slab_destroy(slab);
	end_close(&a);
}

static void closing_before_deregistering_is_said_and_survived(void **state)
{
	struct mem mem[3];
	struct end a;
	int i;

	(void)state;
	end_open(&a, NULL);
	for (i = 0; i < 3; i++)
		mem_open(&mem[i], &a, NULL, 4096, OL_XPORT_ACCESS_PEER_READ);
	end_close(&a);
	assert_int_equal(a.warns, 1);
	assert_non_null(strstr(a.last, "deregister"));
	mem_close(&mem[1]);
	mem_close(&mem[0]);
	mem_close(&mem[2]);
}

/* reserve -- an address range for map() */
static uint8_t *reserve(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	return at;
}

static void map_shows_the_peers_memory_and_outlives_the_connection(void **state)
{
	struct mem mem;
	struct end a;
	struct end b;
	uint8_t *at = reserve(16384);

	(void)state;
	pair_open(&a, &b, NULL);
	mem_open(&mem, &a, NULL, 16384, RW);
	assert_int_equal(X->map(b.conn, mem.key, 4096, 8192, at + 4096), 0);
	mem.p[4096] = 42;
	assert_int_equal(at[4096], 42);
	at[8192] = 43;
	assert_int_equal(mem.p[8192], 43);
	X->conn_free(b.conn);
	want(&a, &b, OL_XPORT_CONN_DOWN);
	pair_close(&a, &b);
	mem.p[4097] = 44;
	assert_int_equal(at[4097], 44);
	mem_close(&mem);
	assert_int_equal(at[4097], 44); /* the memory lives as long as somebody maps it */
	munmap(at, 16384);
}

static void map_gives_no_more_than_the_peer_did(void **state)
{
	uint8_t *at = reserve(16384);
	struct mem mem;
	struct end a;
	struct end b;
	size_t page = 4096;

	(void)state;
	pair_open(&a, &b, NULL);
	mem_open(&mem, &a, NULL, 8192, OL_XPORT_ACCESS_PEER_READ);
	assert_int_equal(X->map(b.conn, mem.key, 0, 8193, at), -EACCES);
	assert_int_equal(X->map(b.conn, mem.key, 8192, 1, at), -EACCES);
	assert_int_equal(X->map(b.conn, (struct ol_xport_rkey){ .rkey = 99 }, 0, 1, at), -EACCES);
	assert_int_equal(X->map(b.conn, mem.key, 1, 4096, at), -EINVAL);
	assert_int_equal(X->map(b.conn, mem.key, 0, 8192, at + 1), -EINVAL);
	assert_int_equal(X->map(b.conn, mem.key, 0, 8192, at), 0);
	assert_int_equal(at[0], 0);
	assert_int_equal(mprotect(at, page, PROT_READ | PROT_WRITE), -1); /* the kernel's own no */
	assert_int_equal(errno, EACCES);
	munmap(at, 16384);
	mem_close(&mem);
	pair_close(&a, &b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_and_reads_of_every_size_arrive_whole),
		cmocka_unit_test(a_region_in_the_middle_of_a_slab_on_huge_pages_is_reached),
		cmocka_unit_test(segments_land_one_behind_the_other_and_reads_scatter),
		cmocka_unit_test(a_key_moved_inside_its_region_reaches_just_that),
		cmocka_unit_test(violations_end_the_connection_and_change_nothing),
		cmocka_unit_test(an_unsignaled_violation_is_told_by_the_end_alone),
		cmocka_unit_test(another_connections_region_is_out_of_reach),
		cmocka_unit_test(a_region_of_a_dead_connection_is_not_that_of_the_next),
		cmocka_unit_test(keys_given_with_the_accept_and_the_hello_work_at_once),
		cmocka_unit_test(a_key_dies_with_its_region_and_none_is_used_twice),
		cmocka_unit_test(a_peer_that_does_not_look_is_told_later_or_dropped),
		cmocka_unit_test(posts_that_make_no_sense_here_are_refused_here),
		cmocka_unit_test(registrations_outside_a_slab_are_refused),
		cmocka_unit_test(closing_before_deregistering_is_said_and_survived),
		cmocka_unit_test(map_shows_the_peers_memory_and_outlives_the_connection),
		cmocka_unit_test(map_gives_no_more_than_the_peer_did),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
