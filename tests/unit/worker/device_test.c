/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * device_test.c -- a worker whose device dies opens another in its polls, and loses nothing
 *
 * The servers are puppets. The test stands between the worker and its transport, which is shm, and
 * which dies as verbs does (rdma/transport.h, promise 10) when the test says so. It maps nothing:
 * gradients are in registered memory. What is registered, and what is open, is counted.
 */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "support/wrap.h"
#include "unit/worker/worker_util.h"
#include "worker/worker_internal.h"

enum {
	EPOCH = 3,
	CONNS_MAX = 8,
	COMMON_REGIONS = 3, /* gradients, mirrors, the rest */
};

static struct {
	bool on; /* whoever asks for a transport gets the test's */
	const struct ol_xport_ops *real;
	struct ol_xport_ops ops;
	struct ol_xport *xport; /* that is open; NULL: none */
	_Atomic bool dead;
	int lives_calls; /* the device dies in the call after so many that need it; < 0: lives on */
	struct ol_xport_conn *conns[CONNS_MAX]; /* whose end was not told */
	unsigned live; /* connections that were not freed */
	unsigned regions;
	unsigned regs; /* of common regions, ever */
	bool reg_early; /* one was registered before a connection was up */
	unsigned ups; /* connections that came up, of this transport */
	unsigned opens; /* tried */
	unsigned opens_fail; /* so many more */
	char asked[64]; /* the device of the last one */
	const char *gone; /* a device that is not there */
	unsigned lines; /* that open() logged as errors */
} seam;

WRAP(const struct ol_xport_ops *, ol_xport_find, const char *name)
{
	return seam.on ? &seam.ops : __real_ol_xport_find(name);
}

static int seam_open(const struct ol_xport_opts *opts, struct ol_xport **ret_xport)
{
	int rc;

	check(seam.xport == NULL);
	seam.opens++;
	snprintf(seam.asked, sizeof(seam.asked), "%s", opts->device != NULL ? opts->device : "any");
	if (seam.opens_fail > 0 || (seam.gone != NULL && strcmp(seam.gone, seam.asked) == 0)) {
		seam.opens_fail -= seam.opens_fail > 0;
		ol_xport_log(opts, OL_XPORT_LOG_ERROR, "no such device here");
		return -ENODEV;
	}
	rc = seam.real->open(opts, ret_xport);
	check_ok(rc);
	seam.xport = *ret_xport;
	seam.dead = false;
	seam.ups = 0;
	return 0;
}

static void seam_close(struct ol_xport *xport)
{
	check(xport == seam.xport && seam.live == 0 && seam.regions == 0);
	seam.xport = NULL;
	seam.real->close(xport);
}

/* The device is asked for something: true if it is dead, or dies of it */
static bool seam_dies(void)
{
	if (seam.lives_calls >= 0 && seam.lives_calls-- == 0)
		seam.dead = true;
	return seam.dead;
}

static int seam_reg(struct ol_xport *xport, struct ol_xport_conn *conn, struct ol_slab *slab,
		    size_t off, size_t bytes, unsigned access, struct ol_xport_region **ret_region)
{
	int rc = seam_dies() ? -ENODEV
			     : seam.real->reg(xport, conn, slab, off, bytes, access, ret_region);

	check(xport == seam.xport);
	seam.regions += rc == 0;
	if (rc == 0 && conn == NULL) {
		seam.regs++;
		seam.reg_early = seam.reg_early || seam.ups == 0;
	}
	return rc;
}

static void seam_dereg(struct ol_xport_region *region)
{
	check(seam.xport != NULL);
	seam.regions--;
	seam.real->dereg(region);
}

static void told(const struct ol_xport_conn *conn)
{
	for (unsigned i = 0; i < CONNS_MAX; i++) {
		if (seam.conns[i] == conn)
			seam.conns[i] = NULL;
	}
}

static int seam_connect(struct ol_xport *xport, const char *addr, const void *priv,
			uint32_t priv_len, const struct ol_xport_seal *seal,
			struct ol_xport_conn **ret_conn)
{
	unsigned at = 0;
	int rc = seam_dies() ? -ENODEV
			     : seam.real->connect(xport, addr, priv, priv_len, seal, ret_conn);

	if (rc != 0)
		return rc;
	while (seam.conns[at] != NULL)
		at++;
	seam.conns[at] = *ret_conn;
	seam.live++;
	return 0;
}

static void seam_conn_free(struct ol_xport_conn *conn)
{
	told(conn);
	seam.live--;
	seam.real->conn_free(conn);
}

static int seam_write(struct ol_xport_conn *conn, const struct ol_xport_write *write)
{
	return seam.dead ? -ENOTCONN : seam.real->post_write(conn, write);
}

static int seam_read(struct ol_xport_conn *conn, const struct ol_xport_read *read)
{
	return seam.dead ? -ENOTCONN : seam.real->post_read(conn, read);
}

static int seam_poll(struct ol_xport *xport, struct ol_xport_event *events, int max)
{
	int count;

	check(xport == seam.xport);
	for (unsigned i = 0; seam.dead && i < CONNS_MAX; i++) {
		if (seam.conns[i] == NULL)
			continue;
		events[0] = (struct ol_xport_event){ .type = OL_XPORT_CONN_DOWN,
						     .status = -ENODEV,
						     .conn = seam.conns[i] };
		told(seam.conns[i]);
		return 1;
	}
	if (seam.dead)
		return -ENODEV;
	count = seam.real->poll(xport, events, max);
	for (int i = 0; i < count; i++) {
		seam.ups += events[i].type == OL_XPORT_CONN_UP;
		if (events[i].type == OL_XPORT_CONN_DOWN)
			told(events[i].conn);
	}
	return count;
}

static int seam_arm(struct ol_xport *xport)
{
	return seam.dead ? 1 : seam.real->arm(xport);
}

static void log_count(void *ctx, enum ol_log_level level, const char *text)
{
	(void)ctx;
	(void)text;
	seam.lines += level == OL_LOG_ERROR;
}

static int world_open(void **unused)
{
	(void)unused;
	memset(&seam, 0, sizeof(seam));
	seam.lives_calls = -1;
	world_init();
	world.puppets[A].lr = 0.5f;
	puppet_publish(&world.puppets[A], 1, 4.0f, 0);
	world.opts.servers = world.puppets[A].addr;
	world.opts.outage = OL_OUTAGE_WAIT;
	world.level = OL_LEVEL_APPLIED;
	seam.real = __real_ol_xport_find("shm");
	seam.ops = *seam.real;
	seam.ops.open = seam_open;
	seam.ops.close = seam_close;
	seam.ops.reg = seam_reg;
	seam.ops.dereg = seam_dereg;
	seam.ops.connect = seam_connect;
	seam.ops.conn_free = seam_conn_free;
	seam.ops.post_write = seam_write;
	seam.ops.post_read = seam_read;
	seam.ops.poll = seam_poll;
	seam.ops.arm = seam_arm;
	seam.ops.map = ol_xport_no_map;
	seam.on = true;
	check_ok(ol_log_set(log_count, OL_LOG_DEBUG, NULL));
	return 0;
}

static int world_close(void **unused)
{
	(void)unused;
	world_fini();
	check_ok(ol_log_set(NULL, OL_LOG_INFO, NULL));
	assert_null(seam.xport);
	assert_int_equal(seam.regions, 0);
	assert_int_equal(seam.live, 0);
	return 0;
}

static void worker_open(void)
{
	open_welcomed(EPOCH);
	check_ok(world.open_rc);
	pull(OL_PULL_NEWEST);
	assert_int_equal(seam.regs, COMMON_REGIONS);
}

/* The server says again that it has the worker's pushes up to seq */
static void back(uint64_t seq)
{
	until(puppet_waits(&world.puppets[A], OL_ROLE_WORKER));
	puppet_welcome(&world.puppets[A], OL_ROLE_WORKER, EPOCH, seq);
	until(!link_stat().down);
}

/* The newest push is answered, and in weights of this version */
static void taken(uint64_t version)
{
	struct puppet *a = &world.puppets[A];
	const struct puppet_push *last = &a->pushes[a->push_count - 1];

	puppet_publish(a, version, 4.0f, last->seq);
	puppet_ack(a, OL_ROLE_WORKER, last->seq, last->slot, 0);
}

/* A push and a pull are under way when the device dies. Both end after that, as with no fault. */
static void a_worker_that_waits_goes_on_with_another_device(void **unused)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op first, second, read = { 0 };

	(void)unused;
	worker_open();
	push(3.0f, &first);
	until(a->push_count == 1);
	push(5.0f, &second); /* is on its way */
	check_ok(ol_pull(world.worker, OL_PULL_NEWEST, &read));
	seam.dead = true;
	until(link_stat().down);
	assert_int_equal(link_stat().reason, OL_E_DEVICE);
	back(0); /* it has none: both come again */
	assert_int_equal(seam.opens, 2);
	assert_int_equal(seam.regs, 2 * COMMON_REGIONS);
	assert_false(first.done || second.done);
	assert_int_equal(link_stat().resent, 2);
	until(a->push_count >= 3 && a->pushes[a->push_count - 1].value == 5.0f);
	assert_true(a->pushes[a->push_count - 2].value == 3.0f);
	puppet_ack(a, OL_ROLE_WORKER, a->pushes[a->push_count - 2].seq,
		   a->pushes[a->push_count - 2].slot, 0);
	taken(2);
	until(first.done && second.done && read.done);
	check_ok(first.status);
	check_ok(second.status);
	check_ok(read.status);
	assert_int_equal(link_stat().applied, 2);
	assert_int_equal(link_stat().lost, 0);
	assert_int_equal(link_stat().outages, 1);
	pull(OL_PULL_NEWEST);
	assert_true(ol_weights(world.worker, NULL)[0] == 4.0f);
}

static void a_worker_that_continues_queues_meanwhile(void **unused)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op first, second;

	(void)unused;
	world.opts.outage = OL_OUTAGE_CONTINUE;
	worker_open();
	seam.dead = true;
	seam.opens_fail = 3;
	until(seam.xport == NULL);
	push(3.0f, &first);
	assert_true(first.done && first.local);
	pull(0);
	assert_true(ol_weights(world.worker, NULL)[0] == 4.0f);
	push(5.0f, &second);
	assert_true(second.done && second.local);
	back(0);
	until(a->push_count == 1);
	assert_true(a->pushes[0].value == 8.0f);
	taken(2);
	until(link_stat().applied == 2);
	assert_int_equal(link_stat().lost, 0);
}

/* Nothing is registered before a connection is up: only that settles which device it is */
static void memory_is_registered_when_the_device_is_settled(void **unused)
{
	(void)unused;
	worker_open();
	for (unsigned i = 2; i < 5; i++) {
		seam.reg_early = false;
		seam.dead = true;
		until(link_stat().down);
		back(0);
		assert_int_equal(seam.regs, i * COMMON_REGIONS);
		assert_false(seam.reg_early);
		assert_int_equal(seam.opens, i);
	}
}

static void a_named_device_that_is_gone_is_replaced_by_any(void **unused)
{
	char name[] = "first";

	(void)unused;
	world.opts.device = name;
	worker_open();
	assert_string_equal(seam.asked, "first");
	memset(name, 'x', sizeof(name) - 1); /* the caller's string is its own */
	seam.dead = true;
	until(link_stat().down);
	back(0);
	assert_string_equal(seam.asked, "first");
	seam.gone = "first";
	seam.dead = true;
	until(link_stat().down);
	back(0);
	assert_string_equal(seam.asked, "any");
	seam.gone = NULL;
	seam.dead = true;
	until(link_stat().down);
	back(0);
	assert_string_equal(seam.asked, "first"); /* it is back */
}

static void without_a_device_it_ends_as_in_any_outage(void **unused)
{
	uint64_t start_ns, took_ms;
	struct ol_op op;

	(void)unused;
	world.opts.outage_timeout_ms = 300;
	worker_open();
	push(3.0f, &op);
	seam.opens_fail = UINT32_MAX;
	seam.dead = true;
	start_ns = ol_clock_ns();
	assert_int_equal(ol_worker_wait(world.worker, &op), OL_E_NO_SERVER);
	took_ms = (ol_clock_ns() - start_ns) / OL_NS_PER_MS;
	assert_in_range(took_ms, 300, 10000);
	/* 0, 10, 30, 70, 150, 310 ms: not as often as it polls */
	assert_in_range(seam.opens, 1 + 3, 1 + 8);
	assert_int_equal(seam.lines, 1); /* the first attempt said what there was to say */
	step(); /* and no more attempts */
	assert_int_equal(ol_flush(world.worker, &op), OL_E_NO_SERVER);
}

/* It is opened at once when it dies, but not for ever at once */
static void a_device_that_keeps_dying_is_opened_ever_less_often(void **unused)
{
	uint64_t end_ns;

	(void)unused;
	worker_open();
	alarm(DEADLINE_S);
	for (end_ns = ol_clock_ns() + 300 * OL_NS_PER_MS; ol_clock_ns() < end_ns;) {
		seam.dead = true;
		step();
	}
	alarm(0);
	assert_in_range(seam.opens, 1 + 3, 1 + 8);
	seam.dead = seam.xport != NULL;
	back(0);
}

static void a_handle_that_lives_through_no_outage_ends(void **unused)
{
	struct ol_op op;

	(void)unused;
	world.opts.outage = OL_OUTAGE_END;
	worker_open();
	push(3.0f, &op);
	seam.dead = true;
	until(op.done);
	assert_int_equal(op.status, OL_E_NO_SERVER);
	for (unsigned i = 0; i < 100; i++)
		step();
	assert_int_equal(seam.opens, 1);
	assert_int_equal(ol_worker_wait_for(world.worker, &(struct ol_op){ 0 }, 1), -EAGAIN);
}

static void an_observer_goes_on_too(void **unused)
{
	(void)unused;
	world.opts.outage = OL_OUTAGE_WAIT;
	world.opts.observer = OL_OBSERVER_READS;
	open_welcomed(EPOCH);
	check_ok(world.open_rc);
	pull(OL_PULL_NEWEST);
	seam.dead = true;
	until(link_stat().down);
	until(puppet_waits(&world.puppets[A], OL_ROLE_OBSERVER));
	puppet_welcome(&world.puppets[A], OL_ROLE_OBSERVER, EPOCH, 0);
	until(!link_stat().down);
	puppet_publish(&world.puppets[A], 2, 7.0f, 0);
	pull(OL_PULL_NEWEST);
	assert_true(ol_weights(world.worker, NULL)[0] == 7.0f);
}

/* Nobody welcomes it, so it is still being opened */
static void a_device_that_dies_at_the_start_is_told(void **unused)
{
	pthread_t thread;

	(void)unused;
	check_ok(pthread_create(&thread, NULL, opener, NULL));
	until(puppet_waits(&world.puppets[A], OL_ROLE_WORKER));
	seam.dead = true;
	until(atomic_load(&world.opened));
	opener_join(thread);
	assert_int_equal(world.open_rc, OL_E_DEVICE);
	assert_non_null(strstr(world.err, "device"));
	assert_null(world.worker);
}

static void a_device_that_dies_in_any_call_of_the_start_is_told(void **unused)
{
	int calls = 0;

	(void)unused;
	do {
		seam.lives_calls = calls++;
		atomic_store(&world.opened, 0);
		open_welcomed(EPOCH);
		if (seam.dead) {
			assert_int_equal(world.open_rc, OL_E_DEVICE);
			assert_non_null(strstr(world.err, "device"));
			assert_null(world.worker);
		}
	} while (seam.dead);
	check_ok(world.open_rc);
	assert_true(calls > 2 + COMMON_REGIONS); /* a knock, a proof, and memory */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, world_open, world_close)
		T(a_worker_that_waits_goes_on_with_another_device),
		T(a_worker_that_continues_queues_meanwhile),
		T(memory_is_registered_when_the_device_is_settled),
		T(a_named_device_that_is_gone_is_replaced_by_any),
		T(without_a_device_it_ends_as_in_any_outage),
		T(a_device_that_keeps_dying_is_opened_ever_less_often),
		T(a_handle_that_lives_through_no_outage_ends),
		T(an_observer_goes_on_too),
		T(a_device_that_dies_at_the_start_is_told),
		T(a_device_that_dies_in_any_call_of_the_start_is_told),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
