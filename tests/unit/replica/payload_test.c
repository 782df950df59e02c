/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * payload_test.c -- a payload goes to the successor as it is made, and no byte of one that is void is
 * taken for another's
 */
#include "unit/replica/replica_util.h"

enum {
	LEN = OL_PARTS_MAX * OL_PART_FLOATS,
	PAYLOAD = LEN * 4,
	PART = OL_PART_FLOATS * 4,
	SLOTS = 4,
	POSTS = 64,
};

static struct ol_xport_ops with_posts;
static struct ol_entry_head heads[SLOTS];
static struct ol_entry_part parts[SLOTS];
static _Alignas(OL_PAGE_BYTES) uint8_t ring[OL_PAGE_BYTES];
static struct ol_slab ring_slab = { .addr = ring };

/* What was posted, in this order */
static struct {
	uint64_t off;
	uint64_t bytes;
	uint32_t bell;
	bool signaled;
} posts[POSTS];
static uint32_t posted;

static int keep_write(struct ol_xport_conn *conn, const struct ol_xport_write *write)
{
	(void)conn;
	if (write_rc != 0)
		return write_rc;
	assert_in_range(posted, 0, POSTS - 1);
	posts[posted].off = write->dst_off;
	posts[posted].bytes = write->seg_count > 0 ? write->segs[0].bytes : 0;
	posts[posted].bell = (write->flags & OL_XPORT_DOORBELL) != 0 ? write->imm : 0;
	posts[posted++].signaled = (write->flags & OL_XPORT_SIGNALED) != 0;
	return 0;
}

static int pair_setup(void **state)
{
	(void)setup(state);
	with_posts = ops;
	with_posts.post_write = keep_write;
	server.ops = &with_posts;
	server.store.geo.shard_len = LEN;
	ol_serve_join(&server);
	server.turn.bytes_max = UINT64_MAX;
	memset(heads, 0, sizeof(heads));
	for (unsigned i = 0; i < SLOTS; i++)
		heads[i].parts = 1;
	server.replica.ring.heads = heads;
	server.replica.ring.parts = parts;
	server.replica.ring.slab = &ring_slab;
	server.replica.ring.payload_bytes = PAYLOAD;
	server.replica.ring.stride = PAYLOAD + OL_PAGE_BYTES;
	adopt(5, 0, IDS(A, SELF, B), start);
	connect_all();
	server.replica.pred.state = OL_PREDECESSOR_LIVE;
	posted = 0;
	return 0;
}

static uint64_t at(uint64_t off)
{
	return ol_ring_off(&server.replica.ring, 1) + off;
}

static uint32_t bell(uint64_t units)
{
	return ol_bell_make(OL_BELL_ENTRY_PART, ol_part_make(1, units));
}

static const char *rings(uint64_t units)
{
	return ol_payload_on_bell(&server.replica, ol_part_make(1, units));
}

static void a_payload_goes_on_part_by_part_and_its_entry_brings_the_rest(void **state)
{
	const uint64_t total = ol_ring_bytes(&server.replica.ring, 1);

	(void)state;
	for (uint32_t units = OL_PARTS_MAX - 1; units > 0; units--)
		assert_null(rings(units));
	assert_int_equal(posted, OL_PARTS_MAX - 1);
	for (uint32_t i = 0; i < posted; i++) {
		assert_int_equal(posts[i].off, at(PAYLOAD - (i + 1) * PART));
		assert_int_equal(posts[i].bytes, PART);
		assert_int_equal(posts[i].bell, bell(OL_PARTS_MAX - 1 - i));
	}
	assert_int_equal(board.early_bytes, PAYLOAD - PART);
	posted = 0;
	assert_int_equal(ol_successor_forward(&server.replica, 1), 0);
	assert_int_equal(posted, 2);
	assert_int_equal(posts[0].off, at(0));
	assert_int_equal(posts[0].bytes, PART);
	assert_int_equal(posts[0].bell, 0);
	assert_int_equal(posts[1].off, at(PAYLOAD));
	assert_int_equal(posts[1].bytes, total - PAYLOAD);
	assert_int_equal(posts[1].bell, ol_bell_make(OL_BELL_ENTRY, 1));
	assert_int_equal(board.forwarded_bytes, total);
	posted = 0; /* again, to another successor, say: all of it */
	assert_int_equal(ol_successor_forward(&server.replica, 1), 0);
	assert_int_equal(posts[0].off, at(0));
	assert_int_equal(posts[0].bytes, total);
}

static void a_part_that_is_not_taken_goes_later(void **state)
{
	(void)state;
	write_rc = -EAGAIN;
	assert_null(rings(6));
	write_rc = 0;
	assert_int_equal(posted, 0);
	assert_null(rings(5));
	assert_int_equal(posted, 1);
	assert_int_equal(posts[0].off, at(5 * PART));
	assert_int_equal(posts[0].bytes, 3 * PART);
	assert_int_equal(posts[0].bell, bell(5));
}

static void a_void_payload_has_landed_before_another_is_written(void **state)
{
	struct ol_xport_event done = { .type = OL_XPORT_DONE, .cookie = OL_REPLICA_COOKIE_RECALL };

	(void)state;
	assert_null(rings(4));
	assert_null(rings(OL_PART_CANCEL));
	assert_int_equal(board.early_void_bytes, 4 * PART);
	posted = 0;
	assert_null(rings(3));
	assert_int_equal(posted, 1); /* the successor is told */
	assert_int_equal(posts[0].bytes, 0);
	assert_int_equal(posts[0].bell, bell(OL_PART_CANCEL));
	assert_true(posts[0].signaled);
	assert_int_equal(ol_successor_forward(&server.replica, 1), -EAGAIN);
	assert_int_equal(posted, 1);
	assert_false(ol_successor_on_event(&server.replica, &done, start));
	assert_null(rings(2));
	assert_int_equal(posted, 1); /* no part of this one: bells are bounded */
	assert_int_equal(ol_successor_forward(&server.replica, 1), 0);
	assert_int_equal(posts[1].off, at(0));
	assert_int_equal(posts[1].bytes, ol_ring_bytes(&server.replica.ring, 1));
}

/* Whatever came of an entry before, it may be another one that comes from a new predecessor */
static void a_predecessor_that_ends_makes_its_payload_void(void **state)
{
	uint64_t stamp;

	(void)state;
	assert_null(rings(4));
	stamp = server.replica.payload.stamp;
	ol_predecessor_on_end(&server.replica);
	assert_true(server.replica.void_stamp >= stamp);
	assert_int_equal(server.replica.succ.recall, OL_RECALL_DUE);
	assert_null(rings(6));
	assert_true(server.replica.payload.stamp > server.replica.void_stamp);
}

static void a_new_successor_has_no_part_of_it(void **state)
{
	(void)state;
	assert_null(rings(4));
	ol_successor_drop(&server.replica);
	assert_int_equal(server.replica.succ.sent_version, 0);
	connect_all();
	server.replica.chain.succ_up = true;
	posted = 0;
	assert_null(rings(3));
	assert_int_equal(posts[0].off, at(3 * PART));
	assert_int_equal(posts[0].bytes, 5 * PART);
}

static void bells_do_not_run_ahead_of_a_successor_that_acknowledges_nothing(void **state)
{
	const uint64_t ahead = OL_PARTED_ENTRIES;
	const uint32_t slot = (uint32_t)(ahead + 1) % SLOTS;

	(void)state;
	server.replica.chain.received = server.replica.chain.forwarded = ahead;
	server.replica.chain.acked = ahead;
	assert_null(ol_payload_on_bell(&server.replica, ol_part_make(slot, 4)));
	assert_int_equal(posted, 0);
	server.replica.chain.succ_acked = 1;
	assert_null(ol_payload_on_bell(&server.replica, ol_part_make(slot, 3)));
	assert_int_equal(posted, 1);
}

static void parts_that_are_not_of_the_next_entry_are_faults(void **state)
{
	(void)state;
	assert_non_null(ol_payload_on_bell(&server.replica, ol_part_make(2, 4)));
	assert_null(rings(4));
	assert_non_null(rings(4)); /* has been sent */
	assert_non_null(rings(5));
	server.replica.chain.acked = 0;
	server.replica.chain.received = SLOTS; /* its slot is in use */
	assert_non_null(rings(3));
	server.replica.chain.received = 0;
	server.replica.periodic = true;
	assert_non_null(rings(3));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, pair_setup)
	const struct CMUnitTest tests[] = {
		TEST(a_payload_goes_on_part_by_part_and_its_entry_brings_the_rest),
		TEST(a_part_that_is_not_taken_goes_later),
		TEST(a_void_payload_has_landed_before_another_is_written),
		TEST(a_predecessor_that_ends_makes_its_payload_void),
		TEST(a_new_successor_has_no_part_of_it),
		TEST(bells_do_not_run_ahead_of_a_successor_that_acknowledges_nothing),
		TEST(parts_that_are_not_of_the_next_entry_are_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
