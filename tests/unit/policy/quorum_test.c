/* SPDX-License-Identifier: BSD-3-Clause */

/* quorum_test.c -- a step has a quorum's gradients at least, and those that come within the grace; it
 * is made when all who are there have given one, or when the grace is over. What is late may be of
 * the next step */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "outlast_policy.h"

enum {
	WORKERS = 5,
	K = 2,
	GRACE_MS = 3
};

#define MS UINT64_C(1000000)

static struct ol_policy_opts options(enum ol_wait wait)
{
	struct ol_policy_opts opts;

	ol_policy_opts_init(&opts);
	opts.consistency = OL_CONSISTENCY_SYNC;
	opts.wait = wait;
	opts.k = K;
	opts.grace_ms = GRACE_MS;
	opts.workers = WORKERS;
	opts.workers_max = WORKERS + 1;
	return opts;
}

static struct ol_policy *create(uint32_t grace_ms)
{
	struct ol_policy_opts opts = options(OL_WAIT_QUORUM);
	struct ol_policy *policy;

	opts.grace_ms = grace_ms;
	assert_int_equal(ol_policy_create(&opts, &policy), 0);
	for (uint32_t i = 0; i < WORKERS; i++)
		ol_policy_on_join(policy, i);
	return policy;
}

static enum ol_verdict arrive(struct ol_policy *policy, uint32_t worker, uint64_t version,
			      uint64_t now_ns)
{
	struct ol_arrival arrival = {
		.worker = worker, .base_version = version, .version = version, .now_ns = now_ns
	};

	return ol_policy_on_gradient(policy, &arrival);
}

static void update(struct ol_policy *policy, uint64_t version, uint32_t count, uint64_t now_ns)
{
	struct ol_update update = { .version = version, .count = count, .now_ns = now_ns };

	ol_policy_on_update(policy, &update);
}

static void a_step_is_due_a_grace_after_its_quorum(void **unused)
{
	struct ol_policy *policy = create(GRACE_MS);

	(void)unused;
	assert_true(ol_policy_due_ns(policy) == UINT64_MAX);
	assert_int_equal(arrive(policy, 0, 0, 10 * MS), OL_VERDICT_HOLD);
	assert_true(ol_policy_due_ns(policy) == UINT64_MAX); /* however long that takes */
	assert_int_equal(arrive(policy, 3, 0, 50 * MS), OL_VERDICT_HOLD);
	assert_true(ol_policy_due_ns(policy) == 53 * MS);
	assert_int_equal(arrive(policy, 1, 0, 52 * MS), OL_VERDICT_HOLD); /* the grace stays */
	assert_true(ol_policy_due_ns(policy) == 53 * MS);
	assert_false(ol_policy_ready(policy));
	update(policy, 1, 3, 54 * MS);
	assert_true(ol_policy_due_ns(policy) == UINT64_MAX);
	ol_policy_destroy(policy);
}

static void a_step_of_all_does_not_wait_for_the_grace(void **unused)
{
	struct ol_policy *policy = create(GRACE_MS);

	(void)unused;
	for (uint32_t i = 0; i + 1 < WORKERS; i++)
		assert_int_equal(arrive(policy, i, 0, MS), OL_VERDICT_HOLD);
	assert_int_equal(arrive(policy, WORKERS - 1, 0, MS), OL_VERDICT_STEP);
	assert_true(ol_policy_ready(policy));
	assert_true(ol_policy_due_ns(policy) == 0);
	ol_policy_destroy(policy);
}

static void one_that_comes_behind_the_grace_is_in_the_step_if_that_is_not_made(void **unused)
{
	struct ol_policy *policy = create(GRACE_MS);

	(void)unused;
	assert_int_equal(arrive(policy, 0, 0, 10 * MS), OL_VERDICT_HOLD);
	assert_int_equal(arrive(policy, 1, 0, 10 * MS), OL_VERDICT_HOLD);
	assert_int_equal(arrive(policy, 2, 0, 13 * MS), OL_VERDICT_STEP);
	ol_policy_destroy(policy);
}

static void without_a_grace_it_is_the_first_k(void **unused)
{
	struct ol_policy *policy = create(0);

	(void)unused;
	for (uint64_t v = 0; v < 4; v++) {
		assert_int_equal(arrive(policy, 1, v, v), OL_VERDICT_HOLD);
		assert_int_equal(arrive(policy, 4, v, v), OL_VERDICT_STEP);
		update(policy, v + 1, 2, v);
	}
	ol_policy_destroy(policy);
}

/* A quorum's worth must be there, unlike the k of the first k */
static void no_step_is_below_the_quorum(void **unused)
{
	struct ol_policy *policy = create(GRACE_MS);
	struct ol_policy_stat stat;

	(void)unused;
	for (uint32_t i = 1; i < WORKERS; i++)
		ol_policy_on_leave(policy, i);
	assert_int_equal(arrive(policy, 0, 0, MS), OL_VERDICT_HOLD);
	assert_false(ol_policy_ready(policy));
	assert_true(ol_policy_due_ns(policy) == UINT64_MAX);
	ol_policy_get_stat(policy, &stat);
	assert_int_equal(stat.k, K);
	ol_policy_on_join(policy, 4);
	assert_int_equal(arrive(policy, 4, 0, 2 * MS), OL_VERDICT_STEP); /* all who are there */
	ol_policy_destroy(policy);
}

static void a_leave_makes_a_step_or_ends_its_grace(void **unused)
{
	struct ol_policy *policy = create(GRACE_MS);

	(void)unused;
	ol_policy_on_leave(policy, 3);
	ol_policy_on_leave(policy, 4);
	assert_int_equal(arrive(policy, 0, 0, 10 * MS), OL_VERDICT_HOLD);
	assert_int_equal(arrive(policy, 1, 0, 20 * MS), OL_VERDICT_HOLD);
	ol_policy_on_leave(policy, 1); /* with what it gave */
	assert_true(ol_policy_due_ns(policy) == UINT64_MAX);
	ol_policy_on_join(policy, 1);
	assert_int_equal(arrive(policy, 1, 0, 30 * MS), OL_VERDICT_HOLD);
	assert_true(ol_policy_due_ns(policy) == 33 * MS);
	ol_policy_on_leave(policy, 2);
	assert_true(ol_policy_ready(policy));
	assert_true(ol_policy_due_ns(policy) == 0);
	ol_policy_destroy(policy);
}

static enum ol_verdict arrive_old(struct ol_policy *policy, uint32_t worker, uint64_t base,
				  uint64_t version, uint64_t now_ns)
{
	struct ol_arrival arrival = {
		.worker = worker, .base_version = base, .version = version, .now_ns = now_ns
	};

	return ol_policy_on_gradient(policy, &arrival);
}

static enum ol_late carries = OL_LATE_NEXT;

static struct ol_policy *create_next(enum ol_wait wait, uint32_t late_steps)
{
	struct ol_policy_opts opts = options(wait);
	struct ol_policy *policy;

	opts.late = carries;
	opts.late_steps = late_steps;
	assert_int_equal(ol_policy_create(&opts, &policy), 0);
	for (uint32_t i = 0; i < WORKERS; i++)
		ol_policy_on_join(policy, i);
	return policy;
}

/* By every policy that does not wait for all; the blind one waits for all at first */
static void what_is_late_is_of_the_next_step(void **unused)
{
	static const struct {
		enum ol_wait wait;
		enum ol_verdict second;
	} waits[] = { { OL_WAIT_QUORUM, OL_VERDICT_HOLD },
		      { OL_WAIT_FIXED, OL_VERDICT_STEP },
		      { OL_WAIT_DBW, OL_VERDICT_STEP },
		      { OL_WAIT_DBW_BLIND, OL_VERDICT_HOLD },
		      { OL_WAIT_ADASYNC, OL_VERDICT_STEP } };

	(void)unused;
	for (unsigned i = 0; i < 10; i++) {
		struct ol_policy_stat stat;
		struct ol_policy *policy;

		carries = i < 5 ? OL_LATE_NEXT : OL_LATE_AGED;
		policy = create_next(waits[i % 5].wait, 0);

		update(policy, 7, K, 0);
		assert_int_equal(arrive_old(policy, 2, 3, 7, MS), OL_VERDICT_HOLD);
		assert_int_equal(arrive(policy, 1, 7, 9 * MS), waits[i % 5].second);
		ol_policy_get_stat(policy, &stat);
		assert_int_equal(stat.carried, 1);
		assert_int_equal(stat.late, 0);
		ol_policy_destroy(policy);
	}
	carries = OL_LATE_NEXT;
}

static void a_worker_gives_one_gradient_to_a_step(void **unused)
{
	struct ol_policy *policy = create_next(OL_WAIT_QUORUM, 0);

	(void)unused;
	assert_int_equal(arrive(policy, 2, 0, MS), OL_VERDICT_HOLD);
	assert_int_equal(arrive(policy, 2, 0, MS), OL_VERDICT_WAIT);
	assert_int_equal(arrive(policy, 3, 0, 2 * MS), OL_VERDICT_HOLD);
	update(policy, 1, K, 5 * MS);
	assert_int_equal(arrive_old(policy, 2, 0, 1, MS), OL_VERDICT_HOLD); /* asked again */
	/* the grace does not begin before the step before */
	assert_int_equal(arrive_old(policy, 3, 0, 1, 2 * MS), OL_VERDICT_HOLD);
	assert_true(ol_policy_due_ns(policy) == 8 * MS);
	ol_policy_destroy(policy);
}

static void what_is_too_old_is_dropped(void **unused)
{
	struct ol_policy *policy = create_next(OL_WAIT_QUORUM, 2);
	struct ol_policy_stat stat;

	(void)unused;
	update(policy, 9, K, 0);
	assert_int_equal(arrive_old(policy, 0, 6, 9, MS), OL_VERDICT_LATE);
	assert_int_equal(arrive_old(policy, 0, 7, 9, MS), OL_VERDICT_HOLD);
	assert_int_equal(arrive_old(policy, 0, 6, 9, MS), OL_VERDICT_LATE); /* also the second */
	ol_policy_get_stat(policy, &stat);
	assert_int_equal(stat.late, 2);
	assert_int_equal(stat.carried, 1);
	ol_policy_destroy(policy);
}

static void what_waits_for_all_or_for_none_holds_nothing_late(void **unused)
{
	static const enum ol_consistency kinds[] = { OL_CONSISTENCY_SYNC, OL_CONSISTENCY_ASYNC,
						     OL_CONSISTENCY_SSP };
	struct ol_policy *policy;

	(void)unused;
	for (size_t i = 0; i < 6; i++) {
		struct ol_policy_opts opts = options(OL_WAIT_ALL);

		opts.consistency = kinds[i / 2];
		opts.late = OL_LATE_NEXT + i % 2;
		assert_int_equal(ol_policy_create(&opts, &policy), -EINVAL);
	}
}

/* More connect than there are workers of a step */
static void all_are_at_most_the_workers_of_the_job(void **unused)
{
	struct ol_policy *policy = create(GRACE_MS);

	(void)unused;
	ol_policy_on_join(policy, WORKERS);
	for (uint32_t i = 1; i < WORKERS; i++)
		assert_int_equal(arrive(policy, i, 0, MS), OL_VERDICT_HOLD);
	assert_int_equal(arrive(policy, WORKERS, 0, MS), OL_VERDICT_STEP);
	ol_policy_destroy(policy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_step_is_due_a_grace_after_its_quorum),
		cmocka_unit_test(a_step_of_all_does_not_wait_for_the_grace),
		cmocka_unit_test(
			one_that_comes_behind_the_grace_is_in_the_step_if_that_is_not_made),
		cmocka_unit_test(without_a_grace_it_is_the_first_k),
		cmocka_unit_test(no_step_is_below_the_quorum),
		cmocka_unit_test(a_leave_makes_a_step_or_ends_its_grace),
		cmocka_unit_test(what_is_late_is_of_the_next_step),
		cmocka_unit_test(a_worker_gives_one_gradient_to_a_step),
		cmocka_unit_test(what_is_too_old_is_dropped),
		cmocka_unit_test(what_waits_for_all_or_for_none_holds_nothing_late),
		cmocka_unit_test(all_are_at_most_the_workers_of_the_job),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
