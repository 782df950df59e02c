/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * verbs_leave_test.c -- disconnect() lets the peer have what was posted before it, and waits for a
 * silent peer for a while only; the machine is made up
 */
#include "rdma/slab.h"
#include "unit/rdma/verbs_stage.h"

static struct ol_slab *slab;
static struct ol_xport_region *region;
static struct ol_xport_conn *conn;
static struct rdma_cm_id *id;

/* A connection with a doorbell, which is posted and not known to be sent */
static void rang(void)
{
	struct ol_xport_write write = { .seg_count = 1, .flags = OL_XPORT_DOORBELL };

	xport_opened(0);
	check_ok(ol_slab_create(4096, OL_SLAB_NODE_ANY, false, &slab));
	check_ok(ops->reg(xport, NULL, slab, 0, 4096, OL_XPORT_ACCESS_LOCAL, &region));
	conn = requested();
	id = accepted(conn);
	write.segs[0] = (struct ol_xport_seg){ .region = region, .bytes = 8 };
	check_ok(ops->post_write(conn, &write));
	machine.in_error = false;
}

static void completes(uint64_t wr_id, enum ibv_wc_status status)
{
	machine.wc = (struct ibv_wc){ .wr_id = wr_id, .status = status };
}

static void ended(void)
{
	ops->conn_free(conn);
	ops->dereg(region);
	ops->close(xport);
	ol_slab_destroy(slab);
	assert_int_equal(machine.things, 0);
}

static void drains(void)
{
	assert_true(machine.in_error);
	assert_int_equal(machine.disconnects, 1);
	completes(machine.sent, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(polled(EVENTS_MAX), 0);
}

/* The queue pair goes to error now; then its last completion and the peer's answer end it. */
static void ends_now(void)
{
	assert_int_equal(polled(EVENTS_MAX), 0);
	drains();
	happens(id, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(polled(EVENTS_MAX), 1);
	assert_int_equal(events[0].type, OL_XPORT_CONN_DOWN);
	assert_int_equal(events[0].status, 0);
	ended();
}

static void what_was_rung_is_sent_first(void **state)
{
	static const enum ibv_wc_status statuses[] = { IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR };

	(void)state;
	for (unsigned i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		const uint64_t bell = (rang(), machine.sent);
		uint64_t marker;

		ops->disconnect(conn);
		marker = machine.sent;
		assert_int_not_equal(marker, bell);
		for (int polls = 0; polls < 10; polls++)
			assert_int_equal(polled(EVENTS_MAX), 0);
		assert_false(machine.in_error);
		assert_int_equal(machine.disconnects, 0);
		completes(marker, statuses[i]);
		ends_now();
	}
}

static void nothing_is_waited_for_when_all_is_sent(void **state)
{
	struct ol_xport_write write = { .seg_count = 1,
					.flags = OL_XPORT_DOORBELL | OL_XPORT_SIGNALED };

	(void)state;
	rang();
	write.segs[0] = (struct ol_xport_seg){ .region = region, .bytes = 8 };
	check_ok(ops->post_write(conn, &write));
	completes(machine.sent, IBV_WC_SUCCESS);
	assert_int_equal(polled(EVENTS_MAX), 1);
	assert_int_equal(events[0].type, OL_XPORT_DONE);
	ops->disconnect(conn);
	assert_true(machine.in_error);
	ends_now();
}

/* The peer leaves at the same time: it takes nothing more. */
static void a_peer_that_leaves_is_not_waited_for(void **state)
{
	(void)state;
	rang();
	ops->disconnect(conn);
	happens(id, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(polled(EVENTS_MAX), 0);
	drains();
	assert_int_equal(polled(EVENTS_MAX), 1);
	assert_int_equal(events[0].type, OL_XPORT_CONN_DOWN);
	ended();
}

static void a_silent_peer_is_given_up(void **state)
{
	(void)state;
	rang();
	ops->disconnect(conn);
	while (!machine.in_error)
		assert_int_equal(polled(EVENTS_MAX), 0);
	drains();
	assert_int_equal(polled(EVENTS_MAX), 1);
	assert_int_equal(events[0].type, OL_XPORT_CONN_DOWN);
	ended();
}

/* The device dies: the peer is told at once, and every post is reported. */
static void a_death_meanwhile_is_told(void **state)
{
	struct ol_xport_write write = { .seg_count = 1,
					.flags = OL_XPORT_DOORBELL | OL_XPORT_SIGNALED,
					.cookie = 7 };

	(void)state;
	rang();
	write.segs[0] = (struct ol_xport_seg){ .region = region, .bytes = 8 };
	check_ok(ops->post_write(conn, &write));
	ops->disconnect(conn);
	assert_int_equal(machine.disconnects, 0);
	machine.dead = true;
	async_happens(IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(polled(EVENTS_MAX), 2);
	assert_int_equal(machine.disconnects, 1);
	assert_int_equal(events[0].type, OL_XPORT_DONE);
	assert_int_equal(events[0].cookie, 7);
	assert_int_equal(events[0].status, -ECONNABORTED);
	assert_int_equal(events[1].type, OL_XPORT_CONN_DOWN);
	assert_int_equal(events[1].status, -ENODEV);
	ended();
}

static void it_may_be_freed_meanwhile(void **state)
{
	(void)state;
	rang();
	ops->disconnect(conn);
	ended();
	assert_int_equal(machine.disconnects, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_rung_is_sent_first),
		cmocka_unit_test(nothing_is_waited_for_when_all_is_sent),
		cmocka_unit_test(a_peer_that_leaves_is_not_waited_for),
		cmocka_unit_test(a_silent_peer_is_given_up),
		cmocka_unit_test(a_death_meanwhile_is_told),
		cmocka_unit_test(it_may_be_freed_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
