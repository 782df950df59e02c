/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * defaults_test.c -- options have the defaults that comments of the public headers name: whoever
 * changes one here changes its comment as well
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "outlast.h"
#include "outlast_server.h"

static void a_server_has_the_defaults_of_its_header(void **state)
{
	struct ol_server_opts opts;

	(void)state;
	ol_server_opts_init(&opts);
	assert_string_equal(opts.listen, "@outlast");
	assert_int_equal(opts.shard_count, 1);
	assert_int_equal(opts.epoch, 1);
	assert_int_equal(opts.consistency, OL_CONSISTENCY_ASYNC);
	assert_int_equal(opts.workers, 1);
	assert_int_equal(opts.workers_max, 8);
	assert_int_equal(opts.observers_max, 8);
	assert_int_equal(opts.window, 2);
	assert_int_equal(opts.threads, 1);
	assert_int_equal(opts.spin_us, 50);
	assert_int_equal(opts.heartbeat_ms, 50);
	assert_int_equal(opts.retry_timeout_ms, 8000);
	assert_int_equal(opts.pin_timeout_ms, 2000);
	assert_int_equal(opts.lease_ms, 5000);
	assert_int_equal(opts.restore, OL_RESTORE_NONE);
	assert_int_equal(opts.restore_wait_ms, 3000);
	assert_int_equal(opts.replay, OL_REPLAY_MEAN);
	assert_true(opts.replay_clip == 1.0f);
	assert_int_equal(opts.checkpoint_keep, 3);
	assert_int_equal(opts.replicas, 3);
	assert_int_equal(opts.coordinator_timeout_ms, 10000);
	assert_int_equal(opts.wait, OL_WAIT_ALL);
	assert_int_equal(opts.selection, OL_SELECT_FULL);
	assert_true(opts.fraction == 1.0);
	assert_int_equal(opts.cancel_fd, -1);
}

/* An operator sees what an adapter is asked for */
static void timers_of_a_server_are_derived_where_none_are_set(void **state)
{
	struct ol_server_opts opts;

	(void)state;
	ol_server_opts_init(&opts);
	opts.retries = 4;
	assert_int_equal(ol_server_opts_wire(&opts), 0);
	assert_int_equal(opts.size, sizeof(opts));
	assert_int_equal(opts.ack_timeout, 18);
	assert_int_equal(opts.retries, 4);
	assert_int_equal(opts.rnr_timer, 19);
	assert_int_equal(opts.rnr_retries, 6);
	opts.retries = 7;
	assert_int_equal(ol_server_opts_wire(&opts), -EINVAL);
}

static void a_rule_has_the_defaults_of_its_header(void **state)
{
	struct ol_server_opts opts;

	(void)state;
	ol_server_opts_init(&opts);
	assert_int_equal(opts.rule.optimizer, OL_OPTIMIZER_SGD);
	assert_true(opts.rule.lr == 0.01f);
	assert_true(opts.rule.momentum == 0.9f);
	assert_true(opts.rule.beta1 == 0.9f);
	assert_true(opts.rule.beta2 == 0.999f);
	assert_true(opts.rule.epsilon == 1e-8f);
	assert_true(opts.rule.weight_decay == 0.0f);
}

/* Those that a comment names no default for */
static void other_options_of_a_server_are_0(void **state)
{
	struct ol_server_opts opts;

	(void)state;
	ol_server_opts_init(&opts);
	assert_null(opts.transport);
	assert_null(opts.device);
	assert_null(opts.job_key);
	assert_null(opts.checkpoint_dir);
	assert_null(opts.coordinator);
	assert_null(opts.job);
	assert_null(opts.blocks);
	assert_int_equal(opts.param_count | opts.shard | opts.shared_domain | opts.restore_workers,
			 0);
	assert_int_equal(opts.checkpoint_steps | opts.checkpoint_ms | opts.job_id | opts.rank, 0);
	assert_int_equal(opts.replicate_every | opts.refound | opts.spin_yield | opts.wait_k, 0);
	assert_int_equal(opts.staleness | opts.block_count | opts.restore_version, 0);
	assert_int_equal(opts.ack_timeout | opts.retries | opts.rnr_timer | opts.rnr_retries, 0);
	assert_int_equal(opts.traffic_class | opts.path_mtu | opts.grace_ms | opts.late_steps, 0);
	assert_int_equal(opts.late, OL_LATE_DROP);
	assert_int_equal(opts.rule.sum | opts.rule.allow_nonfinite, 0);
}

static void a_worker_has_the_defaults_of_its_header(void **state)
{
	struct ol_worker_opts opts;

	(void)state;
	ol_worker_opts_init(&opts);
	assert_int_equal(opts.connect_timeout_ms, 10000);
	assert_int_equal(opts.op_timeout_ms, 30000);
	assert_int_equal(opts.retry_timeout_ms, 8000);
	assert_int_equal(opts.spin_us, 50);
	assert_int_equal(opts.pull_retries_max, 100);
	assert_int_equal(opts.outage, OL_OUTAGE_END);
	assert_int_equal(opts.outage_timeout_ms, 60000);
	assert_int_equal(opts.lease_ms, 5000);
	assert_int_equal(opts.queue, OL_QUEUE_FOLD);
	assert_int_equal(opts.queue_max, 64);
	assert_int_equal(opts.ack_timeout | opts.retries | opts.rnr_timer | opts.rnr_retries, 0);
	assert_int_equal(opts.traffic_class | opts.path_mtu, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_has_the_defaults_of_its_header),
		cmocka_unit_test(timers_of_a_server_are_derived_where_none_are_set),
		cmocka_unit_test(a_rule_has_the_defaults_of_its_header),
		cmocka_unit_test(other_options_of_a_server_are_0),
		cmocka_unit_test(a_worker_has_the_defaults_of_its_header),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
