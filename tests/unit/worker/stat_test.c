/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * stat_test.c -- a call for a server's counters sleeps until they come: it does not spin while the
 * server is slow or gone
 *
 * The server is a puppet. The test stands between the worker and its transport: it delays the
 * worker's reads, and counts how often the worker polls before it arms.
 */

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/check.h"
#include "support/puppet.h"
#include "worker/worker_internal.h"

enum {
	EPOCH = 3,
	DEADLINE_S = 60,
	POLLS_MAX = 1000, /* in one go; far above what it takes, far below a wait that polls on */
};

static struct world {
	struct puppet puppet;
	struct ol_worker_opts opts;
	struct ol_worker *worker;
	const struct ol_xport_ops *real;
	struct ol_xport_ops ops; /* the worker's */
	unsigned polls; /* since it armed last */
	unsigned polls_most;
	unsigned arms;
	struct ol_xport_conn *conn; /* of the read that is kept back, or NULL */
	struct ol_xport_read read;
	unsigned let_go; /* by which arm it goes on; 0: never */
	int fails; /* with this status, instead */
	char err[384];
	int open_rc;
	_Atomic int opened;
} world;

static int read_kept(struct ol_xport_conn *conn, const struct ol_xport_read *read)
{
	world.conn = conn;
	world.read = *read;
	return 0;
}

static int poll_counted(struct ol_xport *xport, struct ol_xport_event *events, int max)
{
	if (++world.polls > world.polls_most)
		world.polls_most = world.polls;
	if (world.fails != 0 && world.conn != NULL) {
		events[0] = (struct ol_xport_event){ .type = OL_XPORT_DONE,
						     .conn = world.conn,
						     .cookie = world.read.cookie,
						     .status = world.fails };
		world.conn = NULL;
		return 1;
	}
	return world.real->poll(xport, events, max);
}

static int arm_counted(struct ol_xport *xport)
{
	world.polls = 0;
	if (++world.arms == world.let_go && world.conn != NULL)
		check_ok(world.real->post_read(world.conn, &world.read));
	return world.real->arm(xport);
}

static void *opener(void *unused)
{
	(void)unused;
	world.open_rc = ol_worker_open(&world.opts, &world.worker, world.err, sizeof(world.err));
	atomic_store(&world.opened, 1);
	return NULL;
}

static int world_open(void **unused)
{
	pthread_t thread;

	(void)unused;
	memset(&world, 0, sizeof(world));
	puppet_open(&world.puppet, 100);
	puppet_publish(&world.puppet, 5, 4.0f, 0);
	ol_worker_opts_init(&world.opts);
	world.opts.servers = world.puppet.addr;
	world.opts.spin_us = 0;
	check_ok(pthread_create(&thread, NULL, opener, NULL));
	alarm(DEADLINE_S);
	while (!atomic_load(&world.opened)) {
		puppet_poll(&world.puppet);
		if (puppet_waits(&world.puppet, OL_ROLE_WORKER))
			puppet_welcome(&world.puppet, OL_ROLE_WORKER, EPOCH, 0);
	}
	alarm(0);
	check_ok(pthread_join(thread, NULL));
	check_ok(world.open_rc);
	check_ok(ol_worker_adopt(world.worker));
	world.real = world.worker->ops;
	world.ops = *world.real;
	world.ops.poll = poll_counted;
	world.ops.arm = arm_counted;
	world.ops.post_read = read_kept;
	world.worker->ops = &world.ops;
	return 0;
}

static int world_close(void **unused)
{
	(void)unused;
	ol_worker_close(world.worker);
	puppet_close(&world.puppet);
	return 0;
}

static void an_answer_that_never_comes_is_slept_through(void **state)
{
	struct ol_server_stat stat;

	(void)state;
	world.worker->opts.op_timeout_ms = 200;
	assert_int_equal(ol_stat(world.worker, 0, &stat), -ETIMEDOUT);
	assert_true(world.arms > 0);
	assert_true(world.polls_most <= POLLS_MAX);
}

static void an_answer_ends_the_sleep(void **state)
{
	struct ol_server_stat stat;

	(void)state;
	world.let_go = 2;
	alarm(DEADLINE_S);
	assert_int_equal(ol_stat(world.worker, 0, &stat), 0);
	alarm(0);
	assert_int_equal(stat.version, 5);
	assert_true(world.polls_most <= POLLS_MAX);
}

static void an_answer_that_fails_is_told(void **state)
{
	struct ol_server_stat stat;

	(void)state;
	world.fails = -EIO;
	assert_int_equal(ol_stat(world.worker, 0, &stat), OL_E_NO_SERVER);
}

static void a_server_that_goes_away_meanwhile_ends_it(void **state)
{
	struct ol_server_stat stat;

	(void)state;
	puppet_cut(&world.puppet, OL_ROLE_WORKER);
	alarm(DEADLINE_S);
	assert_int_equal(ol_stat(world.worker, 0, &stat), OL_E_NO_SERVER);
	alarm(0);
	assert_int_equal(ol_stat(world.worker, 1, &stat), -EINVAL);
}

#define test(name) cmocka_unit_test_setup_teardown(name, world_open, world_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(an_answer_that_never_comes_is_slept_through),
		test(an_answer_ends_the_sleep),
		test(an_answer_that_fails_is_told),
		test(a_server_that_goes_away_meanwhile_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
