/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * device_test.c -- a server whose device dies ends with a code of its own, and leaves what a stopped
 * one leaves
 *
 * The test stands between the server and its transport, which is shm: when the test says so, the
 * server finds it dead. The worker has the plain transport.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/folder.h"
#include "outlast.h"
#include "server/server.h"
#include "support/check.h"
#include "support/wrap.h"

enum {
	PARAMS = 16,
	PUSHES = 3,
	DEADLINE_S = 60
};

static struct {
	_Atomic bool on; /* whoever asks for a transport gets the test's */
	const struct ol_xport_ops *real;
	struct ol_xport_ops ops;
	_Atomic bool dead;
	bool ends_only; /* it tells the end of a connection, and nothing more */
	struct ol_xport_conn *conn; /* that came up last */
} seam;

static struct ol_folder folder; /* for checkpoints */
static struct ol_server_opts opts;
static struct ol_server *server;
static char listen_at[64], err[512];

WRAP(const struct ol_xport_ops *, ol_xport_find, const char *name)
{
	return seam.on ? &seam.ops : __real_ol_xport_find(name);
}

static int seam_poll(struct ol_xport *xport, struct ol_xport_event *events, int max)
{
	int count;

	if (seam.dead && seam.ends_only && seam.conn != NULL) {
		events[0] = (struct ol_xport_event){ .type = OL_XPORT_CONN_DOWN,
						     .status = -ENODEV,
						     .conn = seam.conn };
		seam.conn = NULL;
		return 1;
	}
	if (seam.dead)
		return seam.ends_only ? 0 : -ENODEV;
	count = seam.real->poll(xport, events, max);
	for (int i = 0; i < count; i++) {
		if (events[i].type == OL_XPORT_CONN_UP)
			seam.conn = events[i].conn;
	}
	return count;
}

static int seam_arm(struct ol_xport *xport)
{
	return seam.dead ? 1 : seam.real->arm(xport);
}

static int setup(void **unused)
{
	(void)unused;
	seam.real = __real_ol_xport_find("shm");
	seam.ops = *seam.real;
	seam.ops.poll = seam_poll;
	seam.ops.arm = seam_arm;
	seam.dead = false;
	seam.ends_only = false;
	snprintf(listen_at, sizeof(listen_at), "@ol-device-%d", (int)getpid());
	ol_server_opts_init(&opts);
	opts.listen = listen_at;
	opts.transport = "shm";
	opts.param_count = PARAMS;
	opts.rule.lr = 1.0f;
	check_ok(ol_folder_make(&folder, "ol-device-test-"));
	opts.checkpoint_dir = folder.path;
	opts.checkpoint_ms = 1000000; /* none is due meanwhile */
	alarm(DEADLINE_S);
	return 0;
}

static int teardown(void **unused)
{
	(void)unused;
	alarm(0);
	ol_server_close(server);
	server = NULL;
	ol_folder_drop(&folder);
	return 0;
}

static void server_open(enum ol_restore restore)
{
	static const float zero[PARAMS];

	seam.on = true;
	opts.restore = restore;
	check_ok(ol_server_open(&opts, zero, &server, err, sizeof(err)));
	seam.on = false;
}

static void *run(void *ret_rc)
{
	*(int *)ret_rc = ol_server_run(server);
	return NULL;
}

static void pushed(struct ol_worker *worker)
{
	struct ol_push_info info = { .samples = 1 };
	struct ol_op op = { .level = OL_LEVEL_APPLIED };
	float *grad;

	check_ok(ol_grad_acquire(worker, &grad));
	(void)ol_weights(worker, &info.base_version);
	for (unsigned i = 0; i < PARAMS; i++)
		grad[i] = 1.0f;
	check_ok(ol_push(worker, grad, &info, &op));
	check_ok(ol_worker_wait(worker, &op));
}

/* The server takes pushes until it finds its device dead; its worker loses it then. */
static void served_until_death(void)
{
	struct ol_worker_opts wopts;
	struct ol_worker *worker;
	struct ol_op op = { 0 };
	pthread_t thread;
	int rc = 0;

	check_ok(pthread_create(&thread, NULL, run, &rc));
	ol_worker_opts_init(&wopts);
	wopts.servers = listen_at;
	check_ok(ol_worker_open(&wopts, &worker, err, sizeof(err)));
	for (unsigned i = 0; i < PUSHES; i++)
		pushed(worker);
	seam.dead = true;
	check_ok(pthread_join(thread, NULL));
	assert_int_equal(rc, OL_E_DEVICE);
	assert_int_equal(ol_pull(worker, OL_PULL_NEWEST, &op) != 0 ? OL_E_NO_SERVER
								   : ol_worker_wait(worker, &op),
			 OL_E_NO_SERVER);
	ol_worker_close(worker);
}

static void the_last_version_is_in_a_checkpoint(void **unused)
{
	struct ol_server_stat stat;

	(void)unused;
	server_open(OL_RESTORE_NONE);
	served_until_death();
	ol_server_get_stat(server, &stat);
	assert_int_equal(stat.version, PUSHES);
	assert_int_equal(stat.workers, 0);
	ol_server_close(server);
	seam.dead = false;
	server_open(OL_RESTORE_CHECKPOINT);
	ol_server_get_stat(server, &stat);
	assert_int_equal(stat.version, PUSHES);
	assert_int_equal(stat.applied, PUSHES);
	assert_true(ol_store_weights(&server->store)[0] == -(float)PUSHES);
}

/* Then nothing else is done, which could be a word about a neighbour. */
static void the_end_of_one_connection_says_it_already(void **unused)
{
	(void)unused;
	seam.ends_only = true;
	server_open(OL_RESTORE_NONE);
	served_until_death();
}

/* It has no weights of its own yet: a checkpoint of them would look like a history */
static void a_server_that_waits_for_weights_leaves_none(void **unused)
{
	struct ol_server_stat stat;
	int rc = 0;

	(void)unused;
	opts.workers = 1;
	opts.restore_workers = 1;
	opts.restore_wait_ms = 1000 * DEADLINE_S;
	server_open(OL_RESTORE_MIRROR);
	assert_true(server->restoring.active);
	seam.dead = true;
	run(&rc);
	assert_int_equal(rc, OL_E_DEVICE);
	ol_server_get_stat(server, &stat);
	assert_int_equal(stat.checkpoints, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_last_version_is_in_a_checkpoint, setup,
						teardown),
		cmocka_unit_test_setup_teardown(the_end_of_one_connection_says_it_already, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_server_that_waits_for_weights_leaves_none, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
