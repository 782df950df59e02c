/* SPDX-License-Identifier: BSD-3-Clause */

/* open_test.c -- opening a worker gives the right errors, and refuses the right servers */
#include <errno.h>

#include "unit/worker/worker_util.h"

enum {
	EPOCH = 5
};

static char servers[2 * OL_XPORT_ADDR_MAX];

static int world_open(void **unused)
{
	(void)unused;
	world_init();
	puppet_shard(&world.puppets[A], 0, 2);
	puppet_shard(&world.puppets[B], 1, 2);
	world.opts.servers = servers;
	return 0;
}

static int world_close(void **unused)
{
	(void)unused;
	world_fini();
	return 0;
}

/* Give the worker the servers of the puppets named, "AB" for instance; all let it in */
static int open_at(const char *who)
{
	size_t at = 0;

	servers[0] = '\0';
	for (; *who != '\0'; who++)
		at += (size_t)snprintf(servers + at, sizeof(servers) - at, "%s%s",
				       at > 0 ? "," : "", world.puppets[*who - 'A'].addr);
	world.opened = 0;
	open_welcomed(EPOCH);
	return world.open_rc;
}

static void a_worker_is_told_what_the_job_is(void **unused)
{
	struct ol_job_info info;

	(void)unused;
	puppet_publish(&world.puppets[A], 9, 1.0f, 0);
	puppet_publish(&world.puppets[B], 7, 1.0f, 0);
	world.opts.window = 3;
	check_ok(open_at("AB"));
	ol_worker_info(world.worker, &info);
	assert_int_equal(info.param_count, OL_SHARD_ALIGN + PUPPET_LEN);
	assert_int_equal(info.version, 7); /* that every shard has */
	assert_int_equal(info.shard_count, 2);
	assert_int_equal(info.window, 3);
	assert_int_equal(info.workers_max, 1);
	assert_int_equal(info.epoch, EPOCH);
	assert_int_equal(info.consistency, OL_CONSISTENCY_ASYNC);
	assert_string_equal(info.transport, "shm");
}

static void a_server_of_another_shard_is_not_taken(void **unused)
{
	(void)unused;
	assert_int_equal(open_at("BA"), OL_E_GEOMETRY);
	assert_non_null(strstr(world.err, "give the servers in shard order"));
	assert_int_equal(open_at("A"), OL_E_GEOMETRY);
	assert_non_null(strstr(world.err, "it is one of 2 shards; this worker was given 1"));
	world.opts.param_count = 17;
	assert_int_equal(open_at("AB"), OL_E_GEOMETRY);
	assert_non_null(strstr(world.err, "its job has 1026 parameters, this worker's model 17"));
}

static void shards_of_one_job_have_one_table_of_tensors(void **unused)
{
	(void)unused;
	for (unsigned i = A; i <= B; i++) {
		world.puppets[i].geo.tensors_bytes = OL_LINE_BYTES;
		world.puppets[i].geo.tensors_digest = 7 + i;
		puppet_shard(&world.puppets[i], i - A, 2);
	}
	assert_int_equal(open_at("AB"), OL_E_GEOMETRY);
	assert_non_null(strstr(world.err, "parameters, tensors, workers or consistency differ"));
	world.puppets[B].geo.tensors_digest = 7;
	until(!puppet_connected(&world.puppets[A], OL_ROLE_WORKER));
	check_ok(open_at("AB"));
}

static void who_only_asks_for_counters_may_ask_any_server(void **unused)
{
	struct ol_job_info info;

	(void)unused;
	world.opts.observer = OL_OBSERVER_COUNTERS;
	check_ok(open_at("B"));
	ol_worker_info(world.worker, &info);
	assert_int_equal(info.shard_count, 1);
	ol_worker_close(world.worker);
	world.worker = NULL;
	until(!puppet_connected(&world.puppets[B], OL_ROLE_OBSERVER));
	assert_int_equal(open_at("BA"), OL_E_GEOMETRY); /* of several, the order counts */
}

/* Making memory takes so long that the worker is told to come back, and then there is none */
static void that_a_server_has_no_memory_is_told(void **unused)
{
	(void)unused;
	world.puppets[A].scarce = true;
	assert_int_equal(open_at("AB"), OL_E_RESOURCES);
	assert_true(world.puppets[A].scarcities > 2); /* it may be short for a moment alone */
}

static void that_a_server_has_no_place_left_is_told(void **unused)
{
	(void)unused;
	world.puppets[B].full = true;
	assert_int_equal(open_at("AB"), ol_wire_reject_status(OL_REJECT_FULL));
	assert_int_equal(world.puppets[B].knocks, 1);
}

/* Its transport holds as many calls as it can, and they last */
static void crowd_make(struct puppet *puppet, struct ol_xport **ret_callers)
{
	struct ol_xport_event event;
	struct ol_xport_opts opts;
	struct ol_xport_conn *conn;
	uint32_t count;

	ol_xport_opts_init(&opts);
	count = opts.conns_max;
	opts.connect_timeout_ms = 60000;
	check_ok(puppet->ops->open(&opts, ret_callers));
	puppet->crowded = true;
	for (uint32_t called = 0; puppet->crowd < count;) {
		called += called < count &&
			  puppet->ops->connect(*ret_callers, puppet->addr, "", 0, NULL, &conn) == 0;
		(void)puppet->ops->poll(*ret_callers, &event, 1);
		puppet_poll(puppet);
	}
}

/* Not asked whether it runs: it does */
static void that_a_transport_has_no_connection_left_is_told(void **unused)
{
	struct ol_xport *callers;

	(void)unused;
	crowd_make(&world.puppets[B], &callers);
	world.opts.connect_timeout_ms = 200;
	assert_int_equal(open_at("AB"), OL_E_FULL);
	assert_non_null(strstr(world.err, "transport holds all connections"));
	assert_null(strstr(world.err, "is it running"));
	world.puppets[B].ops->close(callers);
	world.puppets[B].crowded = false; /* they hang up, and are nobody's session */
}

static void a_list_that_is_none_is_refused(void **unused)
{
	static const char *const lists[] = {
		",", "@a,", ",@b", "@a,,@b", "@a|", "|@a", "@a,@b||@c"
	};

	(void)unused;
	for (unsigned i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		world.opts.servers = lists[i];
		opener(NULL);
		assert_int_equal(world.open_rc, -EINVAL);
		assert_non_null(strstr(world.err, "not a list of 1 to 64 addresses"));
	}
}

static void said_of_options(const char *words)
{
	opener(NULL);
	assert_int_equal(world.open_rc, -EINVAL);
	if (strstr(world.err, words) == NULL)
		fail_msg("%s: \"%s\"", words, world.err);
}

static void options_out_of_range_are_refused(void **unused)
{
	(void)unused;
	world.opts.servers = "@a";
	world.opts.cancel_fd = 1 << 20;
	said_of_options("cancel_fd is no open descriptor");
	world.opts.cancel_fd = -5;
	said_of_options("cancel_fd is no open descriptor");
	world.opts.cancel_fd = -1;
	world.opts.outage = OL_OUTAGE_WAIT;
	world.opts.lease_ms = 3;
	said_of_options("lease_ms is less than 4 heartbeats");
	world.opts.lease_ms = 0;
	world.opts.job_key = "0123456789abcdef";
	said_of_options("job key has fewer than 128 bits");
	world.opts.job_key = NULL;
	world.opts.size--;
	said_of_options("size is not valid");
}

static void a_request_that_does_not_exist_is_refused(void **unused)
{
	struct ol_push_info info = { .samples = 1 };
	struct ol_op op = { 0 };
	float *grad;

	(void)unused;
	check_ok(open_at("AB"));
	assert_int_equal(ol_pull(world.worker, OL_PULL_EVEN << 1, &op), -EINVAL);
	check_ok(ol_grad_acquire(world.worker, &grad));
	op.level = (enum ol_level)(OL_LEVEL_COMMITTED + 1);
	assert_int_equal(ol_push(world.worker, grad, &info, &op), -EINVAL);
	op.level = (enum ol_level) - 1;
	assert_int_equal(ol_push(world.worker, grad, &info, &op), -EINVAL);
	check_ok(ol_grad_release(world.worker, grad)); /* still lent */
}

#define test(name) cmocka_unit_test_setup_teardown(name, world_open, world_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(a_worker_is_told_what_the_job_is),
		test(a_server_of_another_shard_is_not_taken),
		test(shards_of_one_job_have_one_table_of_tensors),
		test(that_a_server_has_no_memory_is_told),
		test(that_a_server_has_no_place_left_is_told),
		test(that_a_transport_has_no_connection_left_is_told),
		test(a_list_that_is_none_is_refused),
		test(options_out_of_range_are_refused),
		test(a_request_that_does_not_exist_is_refused),
		test(who_only_asks_for_counters_may_ask_any_server),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
