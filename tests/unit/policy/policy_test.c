/* SPDX-License-Identifier: BSD-3-Clause */

/* policy_test.c -- async steps at every gradient; sync at one gradient of each worker, computed at
 * the published version, and drops the rest */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "policy/policy.h"

static enum ol_verdict arrive(struct ol_policy *policy, uint32_t worker, uint64_t base,
			      uint64_t version)
{
	struct ol_arrival arrival = { .worker = worker, .base_version = base, .version = version };

	return ol_policy_on_gradient(policy, &arrival);
}

static void test_async_steps_at_every_gradient(void **unused)
{
	struct ol_policy *policy;

	(void)unused;
	assert_int_equal(ol_policy_create(OL_CONSISTENCY_ASYNC, 0, 4, &policy), 0);
	for (uint64_t v = 0; v < 10; v++) {
		assert_int_equal(arrive(policy, (uint32_t)v % 4, v / 2, v), OL_VERDICT_STEP);
		ol_policy_on_update(policy, v + 1, 0);
	}
	ol_policy_destroy(policy);
}

static void test_sync_waits_for_every_worker(void **unused)
{
	struct ol_policy *policy;

	(void)unused;
	assert_int_equal(ol_policy_create(OL_CONSISTENCY_SYNC, 3, 3, &policy), 0);
	for (uint64_t v = 0; v < 5; v++) {
		assert_int_equal(arrive(policy, 2, v, v), OL_VERDICT_HOLD);
		assert_int_equal(arrive(policy, 0, v, v), OL_VERDICT_HOLD);
		assert_int_equal(arrive(policy, 0, v, v), OL_VERDICT_LATE); /* a second one */
		if (v > 0)
			assert_int_equal(arrive(policy, 1, v - 1, v), OL_VERDICT_LATE);
		assert_int_equal(arrive(policy, 1, v, v), OL_VERDICT_STEP);
		ol_policy_on_update(policy, v + 1, 0);
	}
	ol_policy_destroy(policy);
}

static void test_sync_takes_what_waited_for_its_server(void **unused)
{
	struct ol_arrival arrival = {
		.worker = 1, .base_version = 4, .version = 6, .queued = true
	};
	struct ol_policy *policy;

	(void)unused;
	assert_int_equal(ol_policy_create(OL_CONSISTENCY_SYNC, 2, 2, &policy), 0);
	assert_int_equal(ol_policy_on_gradient(policy, &arrival), OL_VERDICT_HOLD);
	assert_int_equal(ol_policy_on_gradient(policy, &arrival), OL_VERDICT_LATE);
	assert_int_equal(arrive(policy, 0, 6, 6), OL_VERDICT_STEP);
	ol_policy_destroy(policy);
}

static void test_sync_forgets_what_a_leaver_held(void **unused)
{
	struct ol_policy *policy;

	(void)unused;
	assert_int_equal(ol_policy_create(OL_CONSISTENCY_SYNC, 2, 2, &policy), 0);
	assert_int_equal(arrive(policy, 1, 0, 0), OL_VERDICT_HOLD);
	ol_policy_on_leave(policy, 1);
	ol_policy_on_leave(policy, 0); /* held nothing */
	assert_int_equal(arrive(policy, 0, 0, 0), OL_VERDICT_HOLD);
	assert_int_equal(arrive(policy, 1, 0, 0), OL_VERDICT_STEP);
	ol_policy_destroy(policy);
}

static void test_impossible_settings_are_refused(void **unused)
{
	struct ol_policy *policy;

	(void)unused;
	assert_int_equal(ol_policy_create(OL_CONSISTENCY_SYNC, 0, 4, &policy), -EINVAL);
	assert_int_equal(ol_policy_create(OL_CONSISTENCY_SYNC, 5, 4, &policy), -EINVAL);
	assert_int_equal(ol_policy_create(OL_CONSISTENCY_ASYNC, 1, 0, &policy), -EINVAL);
	ol_policy_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_async_steps_at_every_gradient),
		cmocka_unit_test(test_sync_waits_for_every_worker),
		cmocka_unit_test(test_sync_takes_what_waited_for_its_server),
		cmocka_unit_test(test_sync_forgets_what_a_leaver_held),
		cmocka_unit_test(test_impossible_settings_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
