/* SPDX-License-Identifier: BSD-3-Clause */

/* eval_test.c -- weights are not overwritten while they are evaluated: at most one pull is made
 * meanwhile, whether it succeeds or not */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/wrap.h"
#include "train/parts.h"

static struct {
	unsigned pulls;
	int rc; /* of the next ones */
	float *weights;
} library;

WRAP(int, ol_pull, struct ol_worker *worker, unsigned flags, struct ol_op *op)
{
	(void)worker;
	(void)flags;
	(void)op;
	library.pulls++;
	return library.rc;
}

WRAP(int, ol_worker_wait, struct ol_worker *worker, struct ol_op *op)
{
	(void)worker;
	(void)op;
	return 0;
}

WRAP(const float *, ol_weights, const struct ol_worker *worker, uint64_t *ret_version)
{
	(void)worker;
	*ret_version = library.pulls;
	return library.weights;
}

static int job_make(void **state)
{
	const struct ol_job_opts opts = { .model = "softmax",
					  .dataset = "synthetic:train=50,test=200" };
	struct train *train = calloc(1, sizeof(*train));
	char err[160] = "";
	int exit_code;

	assert_non_null(train);
	assert_int_equal(ol_job_open(&opts, &train->job, &exit_code, err, sizeof(err)), 0);
	train->evals.list = json_array();
	library.pulls = 0;
	library.rc = 0;
	library.weights = calloc(train->job->param_count, sizeof(float));
	assert_non_null(library.weights);
	*state = train;
	return 0;
}

static int job_drop(void **state)
{
	struct train *train = *state;

	json_decref(train->evals.list);
	ol_job_close(train->job);
	free(library.weights);
	free(train);
	return 0;
}

static void all_pieces(struct train *train)
{
	while (train_evaluating(train))
		train_eval_piece(train);
}

static void a_pull_that_fails_is_not_repeated_while_weights_are_evaluated(void **state)
{
	struct train *train = *state;

	assert_true(train_pull(train, NULL, NULL));
	assert_true(train_evaluating(train));
	library.rc = -ETIMEDOUT;
	assert_false(train_pull(train, NULL, NULL));
	library.rc = 0;
	assert_false(train_pull(train, NULL, NULL));
	assert_int_equal(library.pulls, 2);
	all_pieces(train);
	assert_int_equal(json_array_size(train->evals.list), 1);
	assert_true(train_pull(train, NULL, NULL));
	assert_int_equal(library.pulls, 3);
}

static void one_more_may_wait_for_its_evaluation(void **state)
{
	struct train *train = *state;

	assert_true(train_pull(train, NULL, NULL));
	assert_true(train_pull(train, NULL, NULL));
	assert_false(train_pull(train, NULL, NULL));
	assert_int_equal(library.pulls, 2);
	all_pieces(train);
	assert_int_equal(json_array_size(train->evals.list), 2);
	assert_true(train_pull(train, NULL, NULL));
}

static void a_fresh_one_drops_what_is_at_hand(void **state)
{
	struct train *train = *state;

	assert_true(train_pull(train, NULL, NULL));
	library.rc = -ETIMEDOUT;
	assert_false(train_pull(train, NULL, NULL));
	library.rc = 0;
	assert_int_equal(train_eval_fresh(train), 0);
	assert_true(train_pull(train, NULL, NULL));
	all_pieces(train);
	assert_int_equal(json_array_size(train->evals.list), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_pull_that_fails_is_not_repeated_while_weights_are_evaluated, job_make,
			job_drop),
		cmocka_unit_test_setup_teardown(one_more_may_wait_for_its_evaluation, job_make,
						job_drop),
		cmocka_unit_test_setup_teardown(a_fresh_one_drops_what_is_at_hand, job_make,
						job_drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
