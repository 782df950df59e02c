/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * scar_test.c -- what a lost part of the parameters costs is counted right, on problems whose
 * costs are known beforehand
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "drill/scar/scar.h"

enum {
	FLOATS = 64,
	BLOCKS = 16
};

static void near(double value, double wanted, double within)
{
	if (!(fabs(value - wanted) <= within))
		fail_msg("%.9g, not %.9g", value, wanted);
}

/* Each float shrinks by a factor of its own; the loss is the distance to 0. */
struct shrink {
	float factor[FLOATS];
};

static int shrink_step(void *model, uint32_t k, const float *x, float *next, double *ret_loss)
{
	const struct shrink *s = model;
	double sum = 0.0;

	(void)k;
	for (size_t i = 0; i < FLOATS; i++) {
		sum += (double)x[i] * (double)x[i];
		if (next != NULL)
			next[i] = x[i] * s->factor[i];
	}
	*ret_loss = sqrt(sum);
	return 0;
}

/* Blocks are every BLOCKS-th float. one: the first block alone moves. */
static void problem_make(bool one, struct shrink *s, struct scar_problem *problem)
{
	*problem = (struct scar_problem){
		.name = "shrink", .floats = FLOATS, .step = shrink_step, .model = s
	};
	problem->block_of = calloc(FLOATS, sizeof(*problem->block_of));
	problem->first = calloc(FLOATS, sizeof(*problem->first));
	assert_non_null(problem->block_of);
	assert_non_null(problem->first);
	for (uint32_t i = 0; i < FLOATS; i++) {
		problem->block_of[i] = i % BLOCKS;
		problem->first[i] = 1.0f + (float)i / (float)FLOATS;
		s->factor[i] = one && i % BLOCKS != 0 ? 1.0f : 0.9f;
	}
	assert_true(scar_blocks_set(problem, BLOCKS));
	for (uint32_t b = 0; b < BLOCKS; b++)
		assert_int_equal(problem->lengths[b], FLOATS / BLOCKS);
}

static const double rate = 0.9;

/* Iterations to below 1e-4 of a vector of norm 1 that shrinks by `rate` */
static uint32_t steps_from(double norm)
{
	uint32_t k = 0;

	for (; norm >= 1e-4; norm *= rate)
		k++;
	return k;
}

/* Costs of perturbations of a norm in a random direction of 4, after `step` iterations: mean, sd */
static void random_costs(uint32_t step, double norm, double *ret_mean, double *ret_sd)
{
	enum {
		DRAWS = 4000
	};
	double sum = 0.0, squares = 0.0, at = pow(rate, step);

	for (uint32_t t = 0; t < DRAWS; t++) {
		struct scar_rng rng = { .seed = 3, .trial = t, .stream = 1 };
		double x[4], length = 0.0, moved = 0.0, cost;

		for (size_t i = 0; i < 4; i++) {
			x[i] = scar_normal(&rng);
			length += x[i] * x[i];
		}
		for (size_t i = 0; i < 4; i++) {
			double to = x[i] * norm / sqrt(length) + (i == 0 ? at : 0.0);

			moved += to * to;
		}
		cost = (double)(step + steps_from(sqrt(moved))) - steps_from(1.0);
		sum += cost;
		squares += cost * cost;
	}
	*ret_mean = sum / DRAWS;
	*ret_sd = sqrt(squares / DRAWS - *ret_mean * *ret_mean);
}

/* An independent computation: linear map of factor 0.9 in 4 dimensions, target 1e-4 */
static void the_bound_is_the_published_one(void **state)
{
	static const struct {
		uint32_t step;
		double norm, bound, against, any;
	} table[] = {
		{ 10, 0.01, 0.27, 0, 0.00 },   { 10, 0.1, 2.39, 2, 0.36 },
		{ 10, 1, 12.84, 13, 10.22 },   { 30, 0.01, 2.01, 2, 0.10 },
		{ 30, 0.1, 11.50, 11, 8.20 },  { 30, 1, 30.39, 30, 30.00 },
		{ 50, 0.01, 10.24, 10, 6.80 }, { 50, 0.1, 28.62, 29, 28.02 },
		{ 50, 1, 50.05, 50, 50.00 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		uint32_t step = table[i].step;
		double norm = table[i].norm, mean, sd;
		double pushed = step + steps_from(pow(rate, step) + norm);

		near(scar_bound(rate, step, norm, 1.0), table[i].bound, 0.005001);
		near(pushed - steps_from(1.0), table[i].against, 0.0);
		/* the table has the mean of 50 directions */
		random_costs(step, norm, &mean, &sd);
		near(mean, table[i].any, 4.0 * sd / sqrt(50.0) + 0.005);
	}
}

static void full_recovery_costs_what_was_done_since_the_checkpoint(void **state)
{
	struct scar_scheme full = { .selection = OL_SELECT_FULL, .part = 1, .period = 8 };
	uint32_t place[BLOCKS];
	struct scar_failure failure = { .place = place };
	struct scar_problem problem;
	struct scar_saved saved;
	struct scar_run run;
	struct shrink shrink;
	float x[FLOATS];

	(void)state;
	problem_make(false, &shrink, &problem);
	assert_int_equal(scar_run_make(&problem, 50, &run), 0);
	assert_int_equal(run.steps, 50);
	assert_int_equal(scar_saved_make(&run, full, 1, &saved), 0);
	near(saved.share, 1.0, 1e-12);
	for (uint64_t t = 0; t < 50; t++) {
		uint32_t at;
		bool late;

		scar_failure_draw(&run, 25.0, 1, t, &failure);
		assert_in_range(failure.step, 1, 49);
		scar_restore(&run, &saved, &failure, BLOCKS, x, NULL, NULL);
		assert_memory_equal(x, scar_state(&run, failure.step / 8 * 8), sizeof(x));
		assert_int_equal(scar_arrive(&run, failure.step, x, &at, &late), 0);
		assert_false(late);
		assert_int_equal(at - run.steps, failure.step % 8);
		scar_restore(&run, &saved, &failure, 0, x, NULL, NULL);
		assert_memory_equal(x, scar_state(&run, failure.step), sizeof(x));
	}
	scar_saved_fini(&saved);
	scar_run_fini(&run);
	scar_problem_close(&problem);
}

static void partial_recovery_throws_less_far_by_the_fraction_lost(void **state)
{
	struct scar_norm norms[SCAR_LOSSES];
	struct scar_problem problem;
	struct scar_run run;
	struct shrink shrink;

	(void)state;
	problem_make(true, &shrink, &problem);
	assert_int_equal(scar_run_make(&problem, 50, &run), 0);
	assert_int_equal(scar_norms(&run, 16, 1000, 1, norms), 0);
	for (size_t l = 0; l < SCAR_LOSSES; l++) {
		assert_int_equal(norms[l].longer, 0);
		assert_int_equal(norms[l].failures, 1000);
		near(norms[l].lost, scar_losses[l], 0.0);
		/* sure to 99.9 % */
		near(norms[l].ratio, norms[l].lost, 3.29 * norms[l].sd / sqrt(1000.0));
		assert_true(2.0 * 3.29 * norms[l].sd / sqrt(1000.0) < 0.15);
	}
	scar_run_fini(&run);
	scar_problem_close(&problem);
}

/* Trial by trial `a` is more than `share` of `b`, by more than two standard errors */
static bool surely_more(const double *a, double share, const double *b, size_t count)
{
	double sum = 0.0, squares = 0.0, n = (double)count;

	for (size_t i = 0; i < count; i++) {
		double more = a[i] - share * b[i];

		sum += more;
		squares += more * more;
	}
	return sum / n > 2.0 * sqrt((squares / n - sum / n * sum / n) / (n - 1.0));
}

static void priority_saves_what_moves_and_costs_less(void **state)
{
	struct scar_problem problem;
	struct scar_table table;
	struct scar_run run;
	struct shrink shrink;

	(void)state;
	problem_make(true, &shrink, &problem);
	assert_int_equal(scar_run_make(&problem, 60, &run), 0);
	assert_int_equal(scar_table_make(&run, 1, 16, 60, false, 1, &table), 0);
	assert_int_equal(table.late, 0);
	for (size_t s = 0; s < SCAR_SCHEMES; s++)
		near(table.share[s], 1.0, 0.01);
	/* priority, round-robin and random with r = 1/8, half lost */
	assert_true(surely_more(table.cost[6][1], 1.0, table.cost[3][1], 60));
	assert_true(surely_more(table.cost[9][1], 1.0, table.cost[3][1], 60));
	assert_true(surely_more(table.full, 2.0, table.cost[3][1], 60));
	for (size_t t = 0; t < 60; t++)
		assert_in_range((uint32_t)table.full[t], 0, 15);
	scar_table_fini(&table);
	scar_run_fini(&run);
	scar_problem_close(&problem);
}

static void few_leaves_out_the_larger_fractions(void **state)
{
	struct scar_problem problem;
	struct scar_table table;
	struct scar_run run;
	struct shrink shrink;

	(void)state;
	problem_make(false, &shrink, &problem);
	assert_int_equal(scar_run_make(&problem, 40, &run), 0);
	assert_int_equal(scar_table_make(&run, 1, 8, 5, true, 1, &table), 0);
	for (size_t s = 0; s < SCAR_SCHEMES; s++) {
		bool small = s == 0 || scar_schemes[s].part == 8;

		assert_int_equal(table.cost[s][1] != NULL, small);
		assert_int_equal(table.cost[s][0] != NULL, s == 0 || s == 3);
	}
	scar_table_fini(&table);
	scar_run_fini(&run);
	scar_problem_close(&problem);
}

static void failures_come_as_drawn(void **state)
{
	double sum = 0.0;

	(void)state;
	for (uint64_t t = 0; t < 4000; t++) {
		struct scar_rng rng = { .seed = 1, .trial = t, .stream = 1 };

		sum += scar_geometric(&rng, 20.0, 1000);
	}
	near(sum / 4000.0, 20.0, 4.0 * 20.0 / sqrt(4000.0));
	for (uint64_t t = 0; t < 100; t++) {
		struct scar_rng rng = { .seed = 1, .trial = t, .stream = 2 };
		uint32_t order[BLOCKS], seen = 0;

		scar_shuffle(&rng, order, BLOCKS);
		for (uint32_t i = 0; i < BLOCKS; i++)
			seen |= 1u << order[i];
		assert_int_equal(seen, (1u << BLOCKS) - 1);
	}
}

/* A model of tools/learn: blocks cover every weight once, and steps are functions */
static void models_are_cut_into_blocks(void **state)
{
	struct scar_spec spec = { .name = "s",
				  .what = "softmax",
				  .model = "softmax",
				  .data = "synthetic:features=12,classes=3,train=100,test=10",
				  .shape = SCAR_ROWS,
				  .cut = 4,
				  .samples = 50,
				  .lr = 0.1 };
	static const uint32_t blocks[] = { 3 * 4 + 1, 12 + 1, 1 };
	struct scar_problem problem;
	char err[SCAR_TEXT_MAX];

	(void)state;
	for (int shape = SCAR_ROWS; shape <= SCAR_LAYERS; shape++) {
		float one[39], two[39];
		double loss, again;

		spec.shape = (enum scar_shape)shape;
		assert_int_equal(scar_problem_open(&spec, 1, &problem, err, sizeof(err)), 0);
		assert_int_equal(problem.floats, 39);
		assert_int_equal(problem.block_count, blocks[shape]);
		assert_int_equal(problem.step(problem.model, 3, problem.first, one, &loss), 0);
		assert_int_equal(problem.step(problem.model, 3, problem.first, two, &again), 0);
		assert_memory_equal(one, two, sizeof(one));
		assert_memory_not_equal(one, problem.first, sizeof(one));
		near(loss, again, 0.0);
		scar_problem_close(&problem);
	}
	spec.samples = 101;
	assert_int_equal(scar_problem_open(&spec, 1, &problem, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "fewer samples than 101"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_bound_is_the_published_one),
		cmocka_unit_test(full_recovery_costs_what_was_done_since_the_checkpoint),
		cmocka_unit_test(partial_recovery_throws_less_far_by_the_fraction_lost),
		cmocka_unit_test(priority_saves_what_moves_and_costs_less),
		cmocka_unit_test(few_leaves_out_the_larger_fractions),
		cmocka_unit_test(failures_come_as_drawn),
		cmocka_unit_test(models_are_cut_into_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
