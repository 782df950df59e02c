/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * verbs_death_test.c -- however a device dies, its transport says so once everything else is said,
 * and what is freed then waits for nothing
 *
 * The machine is made up.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rdma/verbs/internal.h"
#include "unit/rdma/verbs_stage.h"

enum {
	COOKIE = 77,
};

/* ---- a transport in the middle of its work ---- */

static struct ol_xport_conn *up, *asks, *calls; /* connected, requested, connecting */
static struct ol_xport_region *common, *own; /* own: the connected one's */
static struct ol_slab *slab;

static void posted(struct ol_xport_conn *conn, unsigned flags, uint64_t cookie)
{
	const struct ol_xport_write write = { .segs = { { .region = common, .bytes = 8 } },
					      .seg_count = 1,
					      .flags = flags,
					      .cookie = cookie };

	check_ok(ops->post_write(conn, &write));
}

static void opened(void)
{
	xport_opened(0);
	check_ok(ol_slab_create(4096, OL_SLAB_NODE_ANY, false, &slab));
}

/* A listener; a connection with two posts in flight, one of them signaled; one more that nobody has
 * answered; one that is being made. Returns the connected one's id. */
static struct rdma_cm_id *busy(void)
{
	char addr[OL_XPORT_ADDR_MAX];
	struct rdma_cm_id *id;

	opened();
	check_ok(ops->listen(xport, "127.0.0.1:1", addr));
	check_ok(ops->reg(xport, NULL, slab, 0, 4096, OL_XPORT_ACCESS_PEER_READ, &common));
	up = requested();
	check_ok(ops->reg(xport, up, slab, 0, 4096, OL_XPORT_ACCESS_PEER_WRITE, &own));
	id = accepted(up);
	posted(up, OL_XPORT_SIGNALED, COOKIE);
	posted(up, 0, COOKIE + 1);
	asks = requested();
	check_ok(ops->connect(xport, "127.0.0.1:1", NULL, 0, NULL, &calls));
	assert_int_equal(polled(EVENTS_MAX), 0);
	assert_int_equal(machine.lines, 0);
	return id;
}

/* ---- its end ---- */

/* What the transport tells is complete, in `max` events a poll; then it is dead, and stays so. */
static void told_all(int max)
{
	unsigned done = 0, downs = 0;
	int count;

	while ((count = polled(max)) > 0) {
		for (int i = 0; i < count; i++) {
			if (events[i].type == OL_XPORT_DONE) {
				assert_ptr_equal(events[i].conn, up);
				assert_int_equal(events[i].cookie, COOKIE);
				assert_int_equal(events[i].status, -ECONNABORTED);
				done++;
				continue;
			}
			assert_int_equal(events[i].type, OL_XPORT_CONN_DOWN);
			assert_int_equal(events[i].status, -ENODEV);
			downs++;
		}
	}
	assert_int_equal(count, -ENODEV);
	assert_int_equal(done, 1);
	assert_int_equal(downs, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(polled(max), -ENODEV);
	assert_int_equal(ops->arm(xport), 1);
}

/* Nothing can be begun. */
static void refuses_all(void)
{
	const struct ol_xport_write write = { .flags = OL_XPORT_DOORBELL };
	const struct ol_xport_read read = { .segs = { { .region = common, .bytes = 8 } },
					    .seg_count = 1 };
	char addr[OL_XPORT_ADDR_MAX];
	struct ol_xport_region *region;
	struct ol_xport_later *later;
	struct ol_xport_conn *conn;

	assert_int_equal(ops->post_write(up, &write), -ENOTCONN);
	assert_int_equal(ops->post_read(up, &read), -ENOTCONN);
	assert_int_equal(ops->accept(asks, NULL, 0), -ENODEV);
	assert_int_equal(ops->connect(xport, "127.0.0.1:1", NULL, 0, NULL, &conn), -ENODEV);
	assert_int_equal(ops->listen(xport, "127.0.0.1:1", addr), -ENODEV);
	assert_int_equal(ops->reg(xport, NULL, slab, 0, 64, OL_XPORT_ACCESS_LOCAL, &region),
			 -ENODEV);
	assert_int_equal(ops->reg(xport, asks, slab, 0, 64, OL_XPORT_ACCESS_LOCAL, &region),
			 -ENODEV);
	assert_int_equal(ops->reg_begin(xport, OL_XPORT_ACCESS_LOCAL, &later), -ENODEV);
	ops->disconnect(up);
}

/* All is freed, and no more is asked of the device than to free. */
static void freed(void)
{
	struct ol_xport_later *later = ops->strip(up, own, 0);
	const unsigned looks = machine.looks;

	ops->conn_free(up);
	ops->dereg(own);
	ops->drop(later);
	ops->reject(asks, NULL, 0);
	ops->conn_free(calls);
	ops->dereg(common);
	ops->close(xport);
	ol_slab_destroy(slab);
	assert_int_equal(machine.things, 0);
	assert_int_equal(machine.looks, looks + 1); /* so that librdmacm lets it go */
	assert_true(machine.refused > 5);
	assert_int_equal(machine.asked, 0);
	assert_int_equal(machine.lines, 1);
}

static void ended(int max)
{
	machine.dead = true;
	machine.wc = (struct ibv_wc){ .wr_id = 1, .status = IBV_WC_SUCCESS };
	told_all(max);
	assert_int_equal(machine.lines, 1);
	assert_non_null(strstr(machine.line, "device a: "));
	assert_int_equal(machine.disconnects, 1); /* the peer hears of it */
	refuses_all();
	freed();
}

static void a_fatal_error_ends_the_transport(void **state)
{
	(void)state;
	for (int max = 1; max <= EVENTS_MAX; max += EVENTS_MAX - 1) {
		busy();
		async_happens(IBV_EVENT_DEVICE_FATAL);
		ended(max);
	}
}

static void a_broken_shared_queue_ends_the_transport(void **state)
{
	(void)state;
	busy();
	async_happens(IBV_EVENT_CQ_ERR);
	ended(EVENTS_MAX);
	busy();
	async_happens(IBV_EVENT_SRQ_ERR);
	ended(EVENTS_MAX);
}

static void a_device_that_the_kernel_took_away_ends_the_transport(void **state)
{
	(void)state;
	busy();
	machine.taken_away = true;
	fd_raise(machine.ctx.async_fd);
	ended(EVENTS_MAX);
}

static void a_removal_told_to_the_listener_ends_the_transport(void **state)
{
	(void)state;
	busy();
	happens(machine.listener, RDMA_CM_EVENT_DEVICE_REMOVAL);
	ended(EVENTS_MAX);
}

static void a_removal_told_to_a_connection_ends_the_transport(void **state)
{
	struct rdma_cm_id *id = busy();

	(void)state;
	happens(id, RDMA_CM_EVENT_DEVICE_REMOVAL);
	happens(machine.listener, RDMA_CM_EVENT_DEVICE_REMOVAL);
	ended(1);
}

static void a_removal_of_another_device_ends_its_connection_only(void **state)
{
	struct ol_xport_conn *other;

	(void)state;
	busy();
	check_ok(ops->connect(xport, "127.0.0.1:1", NULL, 0, NULL, &other));
	machine.cm[machine.cm_count - 1].id->verbs = &machine.watched[B];
	machine.cm[machine.cm_count - 1].event = RDMA_CM_EVENT_DEVICE_REMOVAL;
	assert_int_equal(polled(EVENTS_MAX), 1);
	assert_int_equal(events[0].type, OL_XPORT_CONN_DOWN);
	assert_ptr_equal(events[0].conn, other);
	assert_int_equal(events[0].status, -EIO);
	ops->conn_free(other);
	assert_int_equal(polled(EVENTS_MAX), 0);
	posted(up, 0, COOKIE + 2);
	async_happens(IBV_EVENT_DEVICE_FATAL);
	ended(EVENTS_MAX);
}

static void other_events_leave_it_as_it_is(void **state)
{
	static const enum ibv_event_type types[] = { IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE,
						     IBV_EVENT_GID_CHANGE, IBV_EVENT_LID_CHANGE,
						     IBV_EVENT_SM_CHANGE };

	(void)state;
	busy();
	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		async_happens(types[i]);
		assert_int_equal(polled(EVENTS_MAX), 0);
	}
	posted(up, 0, COOKIE + 2);
	machine.lines = 0; /* a port error is worth one */
	async_happens(IBV_EVENT_DEVICE_FATAL);
	ended(EVENTS_MAX);
}

/* The queue pair is drained before it is destroyed, and that is where the death is met. */
static void a_death_met_while_a_connection_is_freed_is_told(void **state)
{
	struct ol_xport_conn *first, *second;

	(void)state;
	opened();
	first = requested();
	accepted(first);
	second = requested();
	accepted(second);
	async_happens(IBV_EVENT_DEVICE_FATAL);
	ops->conn_free(first);
	machine.dead = true;
	assert_int_equal(ops->arm(xport), 1);
	assert_int_equal(ops->poll(xport, events, EVENTS_MAX), 1);
	assert_int_equal(events[0].type, OL_XPORT_CONN_DOWN);
	assert_ptr_equal(events[0].conn, second);
	assert_int_equal(ops->poll(xport, events, EVENTS_MAX), -ENODEV);
	ops->close(xport);
	ol_slab_destroy(slab);
	assert_int_equal(machine.things, 0);
	assert_int_equal(machine.lines, 1);
}

/* It may be too early to let the device go when its transport is closed. */
static void a_dead_device_is_let_go_later_too(void **state)
{
	(void)state;
	busy();
	async_happens(IBV_EVENT_DEVICE_FATAL);
	ended(EVENTS_MAX);
	busy(); /* opens, and connects */
	assert_int_equal(machine.looks, 2);
	async_happens(IBV_EVENT_DEVICE_FATAL);
	ended(EVENTS_MAX);
}

/* poll() looks twice a second. Here a clock of its own is as fast as it is called */
static int looked(void)
{
	static uint64_t now_ns = UINT64_MAX / 2;

	ol_verbs_there_look(xport, now_ns += 1000000000);
	return polled(EVENTS_MAX);
}

/* A folder of two devices' places */
static char list[32], places[2][40];

static void list_made(void)
{
	snprintf(list, sizeof(list), "/tmp/ol-death-XXXXXX");
	assert_non_null(mkdtemp(list));
	for (int i = 0; i < 2; i++) {
		snprintf(places[i], sizeof(places[i]), "%s/%d", list, i);
		check_ok(mkdir(places[i], 0700));
	}
	listed_in = list;
}

static void list_dropped(void)
{
	for (int i = 0; i < 2; i++)
		(void)rmdir(places[i]);
	(void)rmdir(list);
	listed_in = NULL;
}

static void closed(void)
{
	ops->close(xport);
	ol_slab_destroy(slab);
	assert_int_equal(machine.things, 0);
	list_dropped();
}

/* Nothing is bound to it, so nobody is told. */
static void a_device_that_is_gone_ends_an_idle_transport(void **state)
{
	(void)state;
	list_made();
	opened();
	assert_int_equal(looked(), 0);
	check_ok(rmdir(places[A]));
	assert_int_equal(looked(), -ENODEV);
	assert_non_null(strstr(machine.line, "device a: it is gone"));
	closed();
}

/* Another device at its place is not it. */
static void a_device_that_was_replaced_ends_an_idle_transport(void **state)
{
	(void)state;
	list_made();
	opened();
	check_ok(rename(places[B], places[A]));
	assert_int_equal(looked(), -ENODEV);
	closed();
}

/* It was open for so short a time that nobody had looked yet. */
static void a_device_that_is_gone_at_the_first_look_ends_it_too(void **state)
{
	(void)state;
	list_made();
	check_ok(rmdir(places[A]));
	opened();
	assert_int_equal(looked(), -ENODEV);
	closed();
}

/* By itself, as poll() is called */
static void poll_looks_whether_the_device_is_there(void **state)
{
	const uint64_t until_ns = ol_xport_now_ns() + (uint64_t)30 * 1000000000;
	int count = 0;

	(void)state;
	list_made();
	opened();
	check_ok(rmdir(places[A]));
	while (count == 0 && ol_xport_now_ns() < until_ns)
		count = polled(EVENTS_MAX);
	assert_int_equal(count, -ENODEV);
	closed();
}

/* What cannot be seen is no sign: a machine may hide the list. */
static void a_list_that_is_hidden_ends_nothing(void **state)
{
	(void)state;
	list_made();
	opened();
	list_dropped();
	assert_int_equal(looked(), 0);
	closed();
	opened(); /* a device without a place */
	assert_int_equal(looked(), 0);
	closed();
}

/* The first connection may choose another device, whose place is another. */
static void the_device_that_was_changed_to_is_there(void **state)
{
	struct ol_xport_conn *conn;

	(void)state;
	list_made();
	opened();
	assert_int_equal(looked(), 0);
	check_ok(ops->connect(xport, "127.0.0.1:2", NULL, 0, NULL, &conn));
	(void)polled(EVENTS_MAX);
	assert_string_equal(ibv_get_device_name(machine.ctx.device), "b");
	assert_int_equal(looked(), 0);
	check_ok(rmdir(places[B]));
	(void)looked(); /* the connection's end */
	assert_int_equal(looked(), -ENODEV);
	ops->conn_free(conn);
	closed();
}

/* poll() spins without a look at the descriptors; once it is dead, it says so each time. */
static void a_caller_that_never_sleeps_is_told_too(void **state)
{
	int count = 0;

	(void)state;
	opened();
	check(ops->arm(xport) >= 0);
	assert_int_equal(ops->poll(xport, events, EVENTS_MAX), 0);
	async_happens(IBV_EVENT_DEVICE_FATAL);
	for (unsigned i = 0; count == 0 && i < 100000; i++)
		count = ops->poll(xport, events, EVENTS_MAX);
	assert_int_equal(count, -ENODEV);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(ops->poll(xport, events, EVENTS_MAX), -ENODEV);
	ops->close(xport);
	ol_slab_destroy(slab);
	assert_int_equal(machine.things, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fatal_error_ends_the_transport),
		cmocka_unit_test(a_broken_shared_queue_ends_the_transport),
		cmocka_unit_test(a_device_that_the_kernel_took_away_ends_the_transport),
		cmocka_unit_test(a_removal_told_to_the_listener_ends_the_transport),
		cmocka_unit_test(a_removal_told_to_a_connection_ends_the_transport),
		cmocka_unit_test(a_removal_of_another_device_ends_its_connection_only),
		cmocka_unit_test(other_events_leave_it_as_it_is),
		cmocka_unit_test(a_death_met_while_a_connection_is_freed_is_told),
		cmocka_unit_test(a_dead_device_is_let_go_later_too),
		cmocka_unit_test(a_device_that_is_gone_ends_an_idle_transport),
		cmocka_unit_test(a_device_that_was_replaced_ends_an_idle_transport),
		cmocka_unit_test(a_device_that_is_gone_at_the_first_look_ends_it_too),
		cmocka_unit_test(poll_looks_whether_the_device_is_there),
		cmocka_unit_test(the_device_that_was_changed_to_is_there),
		cmocka_unit_test(a_list_that_is_hidden_ends_nothing),
		cmocka_unit_test(a_caller_that_never_sleeps_is_told_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
