/* SPDX-License-Identifier: BSD-3-Clause */

/* policy_test.c -- async steps at every gradient; sync at one gradient of each worker, or of the
 * first k, computed at the published version, and drops others; ssp lets no worker get far ahead */

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "outlast_policy.h"

static enum ol_verdict arrive(struct ol_policy *policy, uint32_t worker, uint64_t base,
			      uint64_t version)
{
	struct ol_arrival arrival = { .worker = worker, .base_version = base, .version = version };

	return ol_policy_on_gradient(policy, &arrival);
}

static int create(enum ol_consistency consistency, uint32_t workers, uint32_t workers_max,
		  struct ol_policy **ret_policy)
{
	struct ol_policy_opts opts;

	ol_policy_opts_init(&opts);
	opts.consistency = consistency;
	opts.workers = workers;
	opts.workers_max = workers_max;
	return ol_policy_create(&opts, ret_policy);
}

static void update(struct ol_policy *policy, uint64_t version)
{
	struct ol_update update = { .version = version };

	ol_policy_on_update(policy, &update);
}

static void async_steps_at_every_gradient(void **unused)
{
	struct ol_policy *policy;

	(void)unused;
	assert_int_equal(create(OL_CONSISTENCY_ASYNC, 0, 4, &policy), 0);
	for (uint64_t v = 0; v < 10; v++) {
		assert_int_equal(arrive(policy, (uint32_t)v % 4, v / 2, v), OL_VERDICT_STEP);
		update(policy, v + 1);
	}
	ol_policy_destroy(policy);
}

static void sync_waits_for_every_worker(void **unused)
{
	struct ol_policy *policy;

	(void)unused;
	assert_int_equal(create(OL_CONSISTENCY_SYNC, 3, 3, &policy), 0);
	for (uint64_t v = 0; v < 5; v++) {
		assert_int_equal(arrive(policy, 2, v, v), OL_VERDICT_HOLD);
		assert_int_equal(arrive(policy, 0, v, v), OL_VERDICT_HOLD);
		assert_int_equal(arrive(policy, 0, v, v), OL_VERDICT_LATE); /* a second one */
		if (v > 0)
			assert_int_equal(arrive(policy, 1, v - 1, v), OL_VERDICT_LATE);
		assert_int_equal(arrive(policy, 1, v, v), OL_VERDICT_STEP);
		update(policy, v + 1);
	}
	ol_policy_destroy(policy);
}

static void sync_takes_what_waited_for_its_server(void **unused)
{
	struct ol_arrival arrival = {
		.worker = 1, .base_version = 4, .version = 6, .queued = true
	};
	struct ol_policy *policy;

	(void)unused;
	assert_int_equal(create(OL_CONSISTENCY_SYNC, 2, 2, &policy), 0);
	assert_int_equal(ol_policy_on_gradient(policy, &arrival), OL_VERDICT_HOLD);
	assert_int_equal(ol_policy_on_gradient(policy, &arrival), OL_VERDICT_LATE);
	assert_int_equal(arrive(policy, 0, 6, 6), OL_VERDICT_STEP);
	ol_policy_destroy(policy);
}

static void sync_forgets_what_a_leaver_held(void **unused)
{
	struct ol_policy *policy;

	(void)unused;
	assert_int_equal(create(OL_CONSISTENCY_SYNC, 2, 2, &policy), 0);
	assert_int_equal(arrive(policy, 1, 0, 0), OL_VERDICT_HOLD);
	ol_policy_on_leave(policy, 1);
	ol_policy_on_leave(policy, 0); /* held nothing */
	assert_int_equal(arrive(policy, 0, 0, 0), OL_VERDICT_HOLD);
	assert_int_equal(arrive(policy, 1, 0, 0), OL_VERDICT_STEP);
	ol_policy_destroy(policy);
}

static struct ol_policy *create_fixed(uint32_t k, uint32_t workers)
{
	struct ol_policy_opts opts;
	struct ol_policy *policy;

	ol_policy_opts_init(&opts);
	opts.consistency = OL_CONSISTENCY_SYNC;
	opts.wait = OL_WAIT_FIXED;
	opts.k = k;
	opts.workers = workers;
	opts.workers_max = workers;
	assert_int_equal(ol_policy_create(&opts, &policy), 0);
	for (uint32_t i = 0; i < workers; i++)
		ol_policy_on_join(policy, i);
	return policy;
}

static struct ol_policy_stat stat_of(const struct ol_policy *policy)
{
	struct ol_policy_stat stat;

	ol_policy_get_stat(policy, &stat);
	return stat;
}

static void fixed_steps_at_the_first_k(void **unused)
{
	struct ol_policy *policy = create_fixed(2, 4);

	(void)unused;
	for (uint64_t v = 0; v < 5; v++) {
		assert_int_equal(arrive(policy, 3, v, v), OL_VERDICT_HOLD);
		assert_false(ol_policy_ready(policy));
		assert_int_equal(arrive(policy, 1, v, v), OL_VERDICT_STEP);
		assert_true(ol_policy_ready(policy));
		update(policy, v + 1);
		assert_false(ol_policy_ready(policy));
		assert_int_equal(arrive(policy, 0, v, v + 1), OL_VERDICT_LATE);
		assert_int_equal(stat_of(policy).late, v + 1);
	}
	assert_int_equal(stat_of(policy).k, 2);
	ol_policy_destroy(policy);
}

static void no_step_waits_for_more_than_are_there(void **unused)
{
	struct ol_policy *policy = create_fixed(3, 4);

	(void)unused;
	assert_int_equal(arrive(policy, 0, 0, 0), OL_VERDICT_HOLD);
	assert_int_equal(arrive(policy, 1, 0, 0), OL_VERDICT_HOLD);
	ol_policy_on_leave(policy, 3);
	assert_false(ol_policy_ready(policy)); /* worker 2 may still come */
	ol_policy_on_leave(policy, 2);
	ol_policy_on_leave(policy, 2);
	assert_true(ol_policy_ready(policy));
	assert_int_equal(stat_of(policy).present, 2);
	update(policy, 1);
	assert_int_equal(stat_of(policy).k, 2);
	assert_int_equal(arrive(policy, 0, 1, 1), OL_VERDICT_HOLD);
	ol_policy_on_leave(policy, 0); /* with what it held */
	assert_false(ol_policy_ready(policy));
	assert_int_equal(arrive(policy, 1, 1, 1), OL_VERDICT_STEP);
	update(policy, 2);
	ol_policy_on_leave(policy, 1);
	assert_false(ol_policy_ready(policy)); /* nobody there, nothing held */
	for (uint32_t i = 0; i < 4; i++)
		ol_policy_on_join(policy, i);
	ol_policy_on_join(policy, 2);
	assert_int_equal(stat_of(policy).present, 4);
	assert_int_equal(arrive(policy, 0, 2, 2), OL_VERDICT_HOLD);
	assert_int_equal(arrive(policy, 1, 2, 2), OL_VERDICT_HOLD);
	assert_int_equal(arrive(policy, 2, 2, 2), OL_VERDICT_STEP);
	ol_policy_destroy(policy);
}

static void all_waits_for_who_is_not_there(void **unused)
{
	struct ol_policy *policy;

	(void)unused;
	assert_int_equal(create(OL_CONSISTENCY_SYNC, 2, 2, &policy), 0);
	ol_policy_on_join(policy, 0);
	assert_int_equal(arrive(policy, 0, 0, 0), OL_VERDICT_HOLD);
	ol_policy_on_join(policy, 1);
	ol_policy_on_leave(policy, 1);
	assert_false(ol_policy_ready(policy));
	assert_int_equal(stat_of(policy).k, 2);
	ol_policy_destroy(policy);
}

static void who_pushes_is_there(void **unused)
{
	struct ol_policy *policy = create_fixed(1, 2);

	(void)unused;
	ol_policy_on_leave(policy, 0);
	ol_policy_on_leave(policy, 1);
	assert_int_equal(arrive(policy, 1, 0, 0), OL_VERDICT_STEP);
	assert_int_equal(stat_of(policy).present, 1);
	assert_int_equal(arrive(policy, 2, 0, 0), OL_VERDICT_LATE); /* nobody's id */
	ol_policy_on_join(policy, 2);
	ol_policy_on_leave(policy, 2);
	assert_int_equal(stat_of(policy).present, 1);
	ol_policy_destroy(policy);
}

static struct ol_policy *create_ssp(uint32_t staleness, uint32_t workers)
{
	struct ol_policy_opts opts;
	struct ol_policy *policy;

	ol_policy_opts_init(&opts);
	opts.consistency = OL_CONSISTENCY_SSP;
	opts.staleness = staleness;
	opts.workers = workers;
	opts.workers_max = workers;
	assert_int_equal(ol_policy_create(&opts, &policy), 0);
	return policy;
}

/* Whoever is drawn pushes, 10,000 times */
static void ssp_takes_nothing_of_who_is_ahead_by_more_than_its_bound(void **unused)
{
	(void)unused;
	for (uint32_t bound = 0; bound < 6; bound++) {
		struct ol_policy *policy = create_ssp(bound, 4);
		uint64_t clock[4] = { 0 }, seed = bound, waited = 0, ahead_most = 0;

		for (uint32_t i = 0; i < 4; i++)
			ol_policy_on_join(policy, i);
		for (uint64_t v = 0; v < 10000; v++) {
			uint64_t least = UINT64_MAX;
			uint32_t worker;

			seed = seed * 6364136223846793005u + 1442695040888963407u;
			worker = (uint32_t)(seed >> 62);
			if (arrive(policy, worker, v, v) == OL_VERDICT_STEP) {
				clock[worker]++;
				update(policy, v + 1);
			} else {
				waited++;
			}
			for (uint32_t i = 0; i < 4; i++)
				least = clock[i] < least ? clock[i] : least;
			for (uint32_t i = 0; i < 4; i++)
				ahead_most = clock[i] - least > ahead_most ? clock[i] - least
									   : ahead_most;
		}
		assert_int_equal(ahead_most, bound + 1);
		assert_true(waited > 0);
		ol_policy_destroy(policy);
	}
}

static void ssp_waits_for_who_joins_but_not_for_who_leaves(void **unused)
{
	struct ol_policy *policy = create_ssp(1, 3);

	(void)unused;
	for (int i = 0; i < 100; i++) /* alone, there is nobody to wait for */
		assert_int_equal(arrive(policy, 0, 0, 0), OL_VERDICT_STEP);
	ol_policy_on_join(policy, 1); /* at worker 0's clock */
	assert_int_equal(arrive(policy, 0, 0, 0), OL_VERDICT_STEP);
	assert_int_equal(arrive(policy, 0, 0, 0), OL_VERDICT_STEP);
	assert_int_equal(arrive(policy, 0, 0, 0), OL_VERDICT_WAIT);
	assert_int_equal(arrive(policy, 1, 0, 0), OL_VERDICT_STEP);
	assert_int_equal(arrive(policy, 0, 0, 0), OL_VERDICT_STEP);
	ol_policy_on_join(policy, 2); /* at the slowest one's, worker 1's */
	assert_int_equal(arrive(policy, 0, 0, 0), OL_VERDICT_WAIT);
	assert_int_equal(arrive(policy, 1, 0, 0), OL_VERDICT_STEP);
	assert_int_equal(arrive(policy, 0, 0, 0), OL_VERDICT_WAIT);
	ol_policy_on_leave(policy, 2);
	assert_int_equal(arrive(policy, 0, 0, 0), OL_VERDICT_STEP);
	assert_false(ol_policy_single(policy));
	assert_int_equal(stat_of(policy).k, 1);
	ol_policy_destroy(policy);
}

static void push_loss(struct ol_policy *policy, uint64_t version, float loss)
{
	struct ol_arrival arrival = { .base_version = version, .version = version, .loss = loss };
	struct ol_update update = { .version = version + 1, .count = 0 };
	uint32_t k = stat_of(policy).k;

	for (arrival.worker = 0; arrival.worker < k; arrival.worker++)
		assert_int_equal(ol_policy_on_gradient(policy, &arrival),
				 arrival.worker + 1 < k ? OL_VERDICT_HOLD : OL_VERDICT_STEP);
	update.count = k;
	ol_policy_on_update(policy, &update);
}

static void adasync_waits_for_more_as_the_loss_falls(void **unused)
{
	struct ol_policy_opts opts;
	struct ol_policy *policy;
	uint64_t version = 0;

	(void)unused;
	ol_policy_opts_init(&opts);
	opts.consistency = OL_CONSISTENCY_SYNC;
	opts.wait = OL_WAIT_ADASYNC;
	opts.k = 2;
	opts.workers = 10;
	opts.workers_max = 10;
	assert_int_equal(ol_policy_create(&opts, &policy), 0);
	for (uint32_t i = 0; i < 10; i++)
		ol_policy_on_join(policy, i);
	push_loss(policy, version++, NAN);
	assert_int_equal(stat_of(policy).k, 2);
	for (int i = 0; i < 10; i++)
		push_loss(policy, version++, 8.0f);
	assert_int_equal(stat_of(policy).k, 2);
	for (int i = 0; i < 200; i++)
		push_loss(policy, version++, 1.0f);
	assert_int_equal(stat_of(policy).k, 6); /* 2 * sqrt(8), and a little */
	assert_true(stat_of(policy).loss == 1.0);
	push_loss(policy, version++, NAN);
	assert_int_equal(stat_of(policy).k, 6);
	for (int i = 0; i < 200; i++)
		push_loss(policy, version++, 0.25f);
	assert_int_equal(stat_of(policy).k, 10);
	for (int i = 0; i < 200; i++)
		push_loss(policy, version++, 2000.0f);
	assert_int_equal(stat_of(policy).k, 1);
	for (int i = 0; i < 200; i++)
		push_loss(policy, version++, -1.0f);
	assert_int_equal(stat_of(policy).k, 10);
	ol_policy_destroy(policy);
}

static void refused(void (*spoil)(struct ol_policy_opts *opts))
{
	struct ol_policy_opts opts;
	struct ol_policy *policy;

	ol_policy_opts_init(&opts);
	opts.consistency = OL_CONSISTENCY_SYNC;
	opts.wait = OL_WAIT_DBW;
	opts.k = opts.workers = opts.workers_max = 4;
	assert_int_equal(ol_policy_create(&opts, &policy), 0);
	ol_policy_destroy(policy);
	spoil(&opts);
	assert_int_equal(ol_policy_create(&opts, &policy), -EINVAL);
}

static void spoil_size(struct ol_policy_opts *opts)
{
	opts->size = 0;
}

static void spoil_consistency(struct ol_policy_opts *opts)
{
	opts->consistency = 0;
}

static void spoil_wait(struct ol_policy_opts *opts)
{
#define X(name, id) +1
	opts->wait = 0 OL_WAIT_MAP(X); /* how many there are */
#undef X
}

static void spoil_k(struct ol_policy_opts *opts)
{
	opts->wait = OL_WAIT_FIXED;
	opts->k = 5;
}

static void spoil_first_k(struct ol_policy_opts *opts)
{
	opts->wait = OL_WAIT_ADASYNC;
	opts->k = 0;
}

static void spoil_lr(struct ol_policy_opts *opts)
{
	opts->lr = 0.0;
}

static void spoil_decay(struct ol_policy_opts *opts)
{
	opts->wait = OL_WAIT_DBW_BLIND;
	opts->decay = 1.5;
}

static void spoil_window(struct ol_policy_opts *opts)
{
	opts->smoothness_window = 0;
}

static void spoil_share(struct ol_policy_opts *opts)
{
	opts->share = NAN;
}

static void impossible_settings_are_refused(void **unused)
{
	struct ol_policy *policy;

	(void)unused;
	assert_int_equal(create(OL_CONSISTENCY_SYNC, 0, 4, &policy), -EINVAL);
	assert_int_equal(create(OL_CONSISTENCY_SYNC, 5, 4, &policy), -EINVAL);
	assert_int_equal(create(OL_CONSISTENCY_ASYNC, 1, 0, &policy), -EINVAL);
	refused(spoil_size);
	refused(spoil_consistency);
	refused(spoil_wait);
	refused(spoil_k);
	refused(spoil_first_k);
	refused(spoil_lr);
	refused(spoil_decay);
	refused(spoil_window);
	refused(spoil_share);
	ol_policy_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(async_steps_at_every_gradient),
		cmocka_unit_test(sync_waits_for_every_worker),
		cmocka_unit_test(sync_takes_what_waited_for_its_server),
		cmocka_unit_test(sync_forgets_what_a_leaver_held),
		cmocka_unit_test(fixed_steps_at_the_first_k),
		cmocka_unit_test(no_step_waits_for_more_than_are_there),
		cmocka_unit_test(all_waits_for_who_is_not_there),
		cmocka_unit_test(who_pushes_is_there),
		cmocka_unit_test(ssp_takes_nothing_of_who_is_ahead_by_more_than_its_bound),
		cmocka_unit_test(ssp_waits_for_who_joins_but_not_for_who_leaves),
		cmocka_unit_test(adasync_waits_for_more_as_the_loss_falls),
		cmocka_unit_test(impossible_settings_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
