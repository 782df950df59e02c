/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * successor_test.c -- a replica posts the right records to its successor, and treats a failed post
 * right; it logs a lost neighbour at the right level; and it joins the right chain
 */
#include <stdio.h>

#include "base/log.h"
#include "unit/replica/replica_util.h"

enum {
	SLOTS = 4,
	PAYLOAD = 1000,
	EVERY = 5
};

static struct ol_xport_ops with_keys;
static struct ol_entry_head heads[SLOTS];
static enum ol_log_level level; /* of the last line */
static char line[OL_LOG_LINE_MAX];

static void take_line(void *arg, enum ol_log_level of, const char *text)
{
	(void)arg;
	level = of;
	snprintf(line, sizeof(line), "%s", text);
}

static struct ol_xport_rkey rkey(const struct ol_xport_region *region,
				 const struct ol_xport_conn *conn)
{
	(void)region;
	(void)conn;
	return (struct ol_xport_rkey){ .addr = 1 << 20, .bytes = 1 << 20 };
}

static int reg(struct ol_xport *xport, struct ol_xport_conn *conn, struct ol_slab *of, size_t off,
	       size_t bytes, unsigned access, struct ol_xport_region **ret_region)
{
	(void)xport;
	(void)conn;
	(void)of;
	(void)off;
	(void)bytes;
	(void)access;
	*ret_region = NULL;
	return 0;
}

static int pair_setup(void **state)
{
	(void)setup(state);
	with_keys = ops;
	with_keys.rkey = rkey;
	with_keys.reg = reg;
	server.ops = &with_keys;
	ol_serve_join(&server);
	server.turn.bytes_max = UINT64_MAX;
	memset(heads, 0, sizeof(heads));
	for (unsigned i = 0; i < SLOTS; i++)
		heads[i].parts = 1;
	server.replica.ring.heads = heads;
	server.replica.ring.payload_bytes = PAYLOAD;
	server.replica.ring.stride = OL_PAGE_BYTES;
	adopt(5, 0, IDS(SELF, B, C), start);
	connect_all();
	ol_log_sink_set(take_line, NULL);
	return 0;
}

static int pair_teardown(void **state)
{
	(void)state;
	ol_log_sink_set(NULL, NULL);
	return 0;
}

static void an_entry_that_is_not_taken_is_forwarded_later(void **state)
{
	uint64_t bytes = ol_ring_bytes(&server.replica.ring, 3);

	(void)state;
	write_rc = -EAGAIN;
	assert_int_equal(ol_successor_forward(&server.replica, 3), -EAGAIN);
	assert_int_equal(board.forwarded, 0);
	assert_int_equal(server.replica.succ.posted, 0);
	write_rc = 0;
	assert_int_equal(ol_successor_forward(&server.replica, 3), 0);
	assert_int_equal(board.forwarded, 1);
	assert_int_equal(board.forwarded_bytes, bytes);
	assert_int_equal(board.resent, 0);
	assert_int_equal(ol_successor_forward(&server.replica, 3),
			 0); /* to another successor, say */
	assert_int_equal(board.forwarded, 2);
	assert_int_equal(board.forwarded_bytes, 2 * bytes);
	assert_int_equal(board.resent, 1);
}

static void an_offer_that_is_not_taken_is_made_later(void **state)
{
	struct ol_successor *succ = &server.replica.succ;

	(void)state;
	server.replica.periodic = true;
	server.opts.replicate_every = EVERY;
	server.store.version = 2 * EVERY;
	server.store.snapshot = 1;
	write_rc = -EAGAIN;
	ol_successor_offer(&server.replica, start);
	assert_int_equal(succ->dial.state, OL_DIAL_LIVE);
	assert_int_equal(succ->pinned, -1);
	write_rc = 0;
	ol_successor_offer(&server.replica, start);
	assert_int_equal(succ->pinned, 1);
	assert_int_equal(succ->pinned_version, 2 * EVERY);
	succ->pinned = -1;
	write_rc = -EIO;
	ol_successor_offer(&server.replica, start); /* nothing new */
	assert_int_equal(succ->dial.state, OL_DIAL_LIVE);
	server.store.version = 3 * EVERY;
	ol_successor_offer(&server.replica, start);
	assert_int_equal(succ->dial.state, OL_DIAL_IDLE);
}

/* How loud it is said that the successor is gone; nothing is said behind it */
static enum ol_log_level gone(const char *why)
{
	server.replica.suspects[OL_NEIGHBOUR_SUCCESSOR] = 0;
	ol_membership_suspect(&server.replica, OL_NEIGHBOUR_SUCCESSOR, why, start);
	assert_int_equal(server.replica.suspects[OL_NEIGHBOUR_SUCCESSOR], B);
	assert_non_null(strstr(line, why != NULL ? why : "it left"));
	return level;
}

static void who_left_in_order_is_no_warning(void **state)
{
	(void)state;
	assert_int_equal(gone(NULL), OL_LOG_INFO);
	assert_int_equal(gone("it stands still"), OL_LOG_WARN);
	assert_int_equal(board.suspicions, 2);
}

/* What it is told that would join a chain whose first server is `other` */
static int joins(struct ol_member other, char *err, size_t err_bytes)
{
	int rc;

	err[0] = '\0';
	coord.state.view.replicas[0] = other;
	open_rc = 0;
	rc = ol_replica_open(&server.replica, err, err_bytes);
	ol_slab_destroy(server.replica.work);
	server.replica.work = &work;
	open_rc = -EIO;
	return rc;
}

static void a_chain_of_another_build_or_job_is_not_joined(void **state)
{
	struct ol_member other = member_of(B);
	char err[512];

	(void)state;
	server.opts.coordinator = "the coordinator";
	server.replica.self.proto = server.replica.self.oldest = PROTO;
	other.proto = other.oldest = PROTO + 1;
	assert_int_equal(joins(other, err, sizeof(err)), OL_E_WIRE);
	assert_non_null(strstr(err, "another version"));
	assert_non_null(strstr(err, "speaks protocols 4 to 4, this one 3 to 3"));
	other.oldest = PROTO;
	other.job = server.replica.self.job + 1;
	assert_int_equal(joins(other, err, sizeof(err)), OL_E_GEOMETRY);
	assert_non_null(strstr(err, "another job"));
	other.job = server.replica.self.job;
	assert_int_equal(joins(other, err, sizeof(err)), 0);
	assert_string_equal(err, "");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, pair_setup, pair_teardown)
	const struct CMUnitTest tests[] = {
		TEST(an_entry_that_is_not_taken_is_forwarded_later),
		TEST(an_offer_that_is_not_taken_is_made_later),
		TEST(who_left_in_order_is_no_warning),
		TEST(a_chain_of_another_build_or_job_is_not_joined),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
