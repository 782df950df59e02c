/* SPDX-License-Identifier: BSD-3-Clause */

/* dbw_test.c -- in runs under a virtual clock, times of steps and means are right */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "drill/dbw/dbw.h"
#include "drill/trial.h"

static struct dbw_result ran(const struct dbw_opts *opts)
{
	struct dbw_result result = { 0 };

	assert_int_equal(dbw_run(opts, &result), 0);
	return result;
}

/* When the i-th step was made (0), its gradients (1), their loss (2) */
static double step(const struct dbw_result *result, size_t i, size_t what)
{
	return json_number_value(json_array_get(json_array_get(result->list, i), what));
}

static double look_loss(const struct dbw_result *result, size_t i)
{
	return json_number_value(json_array_get(json_array_get(result->looks, i), 1));
}

static struct dbw_opts times_only(uint32_t k, double alpha, enum ol_on_late on_late)
{
	return (struct dbw_opts){ .wait = OL_WAIT_FIXED,
				  .k = k,
				  .workers = 8,
				  .on_late = on_late,
				  .delay = { .mean_s = 1.0, .alpha = alpha },
				  .seed = 1,
				  .steps_max = 4000,
				  .skip = 400 };
}

static void equal_workers_make_a_step_each_time_and_the_rest_is_late(void **state)
{
	(void)state;
	for (uint32_t k = 1; k <= 8; k++) {
		struct dbw_opts opts = times_only(k, 0.0, OL_ON_LATE_WAIT);
		struct dbw_result result = ran(&opts);

		assert_true(fabs(result.step_mean - 1.0) < 1e-9);
		assert_true(fabs(result.late_mean - (8.0 - k)) < 1e-9);
		assert_true(result.k_mean == k && result.counted == 3600);
		dbw_result_fini(&result);
	}
}

static void interrupted_workers_follow_the_closed_form(void **state)
{
	double exact = 0.0;

	(void)state;
	for (uint32_t k = 1; k <= 8; k++) {
		struct dbw_opts opts = times_only(k, 1.0, OL_ON_LATE_INTERRUPT);
		struct dbw_result result = ran(&opts);

		exact += 1.0 / (9 - k); /* the k-th of 8 that are left */
		if (fabs(result.step_mean / exact - 1.0) > 0.06)
			fail_msg("k %u: %g, not %g", k, result.step_mean, exact);
		dbw_result_fini(&result);
	}
}

/* Times without memory: at each step all eight are in flight, whoever has begun anew */
static void carried_gradients_follow_the_closed_form(void **state)
{
	double exact = 0.0;

	(void)state;
	for (uint32_t k = 1; k <= 8; k++) {
		struct dbw_opts opts = times_only(k, 1.0, OL_ON_LATE_WAIT);
		struct dbw_result result;

		opts.late = OL_LATE_NEXT;
		result = ran(&opts);
		exact += 1.0 / (9 - k);
		assert_true(result.late_mean == 0.0 && result.k_mean == k);
		if (fabs(result.step_mean / exact - 1.0) > 0.06)
			fail_msg("k %u: %g, not %g", k, result.step_mean, exact);
		dbw_result_fini(&result);
	}
}

static void a_question_for_weights_takes_its_time(void **state)
{
	struct dbw_opts opts = times_only(8, 0.0, OL_ON_LATE_PULL);
	struct dbw_result result;

	(void)state;
	opts.ask = 0.25;
	result = ran(&opts);
	assert_true(fabs(result.step_mean - 1.25) < 1e-9);
	dbw_result_fini(&result);
}

static void half_that_become_slow_slow_everyone_who_waits_for_them(void **state)
{
	(void)state;
	for (uint32_t k = 4; k <= 8; k += 4) {
		struct dbw_opts opts = times_only(k, 0.0, OL_ON_LATE_WAIT);
		struct dbw_result result;
		double last;

		opts.delay.slow = true;
		opts.delay.slow_half = true;
		opts.delay.slow_factor = 5.0;
		opts.delay.slow_from_s = 100.0;
		opts.steps_max = 200;
		result = ran(&opts);
		last = step(&result, 199, 0) - step(&result, 198, 0);
		assert_true(step(&result, 50, 0) == 51.0);
		assert_true(fabs(last - (k == 8 ? 5.0 : 1.0)) < 1e-6);
		dbw_result_fini(&result);
	}
}

static void training_gets_there_and_the_same_seed_does_the_same(void **state)
{
	struct dbw_problem problem;
	struct dbw_opts opts = times_only(4, 1.0, OL_ON_LATE_WAIT);
	struct dbw_result one, two;
	char err[256] = "";

	(void)state;
	assert_int_equal(dbw_problem_open("synthetic:noise=1,train=500", "softmax", 64, &problem,
					  err, sizeof(err)),
			 0);
	opts.problem = &problem;
	opts.wait = OL_WAIT_DBW;
	opts.batch = 64;
	opts.lr = 0.5;
	opts.target = 0.3;
	opts.skip = 0;
	one = ran(&opts);
	two = ran(&opts);
	assert_true(one.reached && one.loss <= 0.3 && one.k_mean >= 1.0 && one.k_mean <= 8.0);
	assert_true(look_loss(&one, 0) < log(10.0));
	for (size_t i = 0; i < json_array_size(one.looks); i++)
		assert_true((look_loss(&one, i) <= 0.3) == (i + 1 == json_array_size(one.looks)));
	assert_int_equal(one.steps, two.steps);
	assert_true(json_equal(one.list, two.list));
	dbw_result_fini(&two);
	opts.seed = 2;
	two = ran(&opts);
	assert_true(two.t != one.t);
	dbw_result_fini(&one);
	dbw_result_fini(&two);
	dbw_problem_close(&problem);
}

static void a_cnn_begins_where_it_was_made_and_trains(void **state)
{
	struct dbw_problem problem;
	struct dbw_opts opts = times_only(4, 1.0, OL_ON_LATE_WAIT);
	struct dbw_result result;
	char err[256] = "";

	(void)state;
	assert_int_equal(dbw_problem_open("synthetic:shape=28x28,train=20,test=1", "cnn", 8,
					  &problem, err, sizeof(err)),
			 0);
	assert_true(fabs(problem.first - log(10.0)) < 0.1);
	opts.problem = &problem;
	opts.workers = 4;
	opts.batch = 8;
	opts.lr = 0.05;
	opts.skip = 0;
	opts.steps_max = 5;
	result = ran(&opts);
	assert_true(result.steps == 5 && result.loss < problem.first);
	dbw_result_fini(&result);
	dbw_problem_close(&problem);
}

static void an_order_without_data_has_no_least_loss(void **state)
{
	json_t *of = json_pack("{s:s, s:[], s:b}", "name", "x", "runs", "least", 1);

	(void)state;
	assert_non_null(of);
	assert_int_equal(dbw_trial(of), 0);
	json_decref(of);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_workers_make_a_step_each_time_and_the_rest_is_late),
		cmocka_unit_test(interrupted_workers_follow_the_closed_form),
		cmocka_unit_test(carried_gradients_follow_the_closed_form),
		cmocka_unit_test(a_question_for_weights_takes_its_time),
		cmocka_unit_test(a_cnn_begins_where_it_was_made_and_trains),
		cmocka_unit_test(an_order_without_data_has_no_least_loss),
		cmocka_unit_test(half_that_become_slow_slow_everyone_who_waits_for_them),
		cmocka_unit_test(training_gets_there_and_the_same_seed_does_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
