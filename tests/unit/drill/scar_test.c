/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * scar_test.c -- problems of the scar experiment: steps are functions, blocks cover every float,
 * random numbers are those of the study
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "drill/scar/scar.h"

/* Two uniforms, two normals, four numbers below limits, in this order. scar_study_test.py has the
 * same table for draw.py. */
static const struct {
	struct scar_rng rng;
	double uniform[2];
	double normal[2];
	uint32_t below[4];
} draws[] = {
	{ { .seed = 1, .trial = 0, .stream = 3 },
	  { 0x1.71fcd8f9a8326p-2, 0x1.7a29e0c945872p-2 },
	  { 0x1.37646a0559cbap-1, 0x1.02c94774e5256p-2 },
	  { 7, 729, 2630740927, 0 } },
	{ { .seed = 0x123456789abcdef0, .trial = 0x200000001, .stream = 7 },
	  { 0x1.962e3a15be6b3p-1, 0x1.307f932b1d1b7p-1 },
	  { 0x1.e33fdea2ea3d6p+0, 0x1.55bda59c052ecp-2 },
	  { 6, 250, 1194841229, 0 } },
};

static void random_numbers_are_those_of_the_study(void **state)
{
	static const uint32_t limits[] = { 10, 1000, UINT32_MAX, 1 };

	(void)state;
	for (size_t i = 0; i < sizeof(draws) / sizeof(draws[0]); i++) {
		struct scar_rng rng = draws[i].rng;

		for (unsigned k = 0; k < 2; k++)
			assert_true(scar_uniform(&rng) == draws[i].uniform[k]);
		for (unsigned k = 0; k < 2; k++)
			assert_true(scar_normal(&rng) == draws[i].normal[k]);
		for (unsigned k = 0; k < 4; k++)
			assert_int_equal(scar_below(&rng, limits[k]), draws[i].below[k]);
	}
}

/* Steps are functions, and lead elsewhere; every block has a float */
static void problem_check(const struct scar_problem *problem, size_t floats, uint32_t blocks)
{
	float *one = calloc(floats, sizeof(*one)), *two = calloc(floats, sizeof(*two));
	uint64_t length = 0;
	double loss, again;

	assert_int_equal(problem->floats, floats);
	assert_int_equal(problem->block_count, blocks);
	for (uint32_t b = 0; b < blocks; b++)
		length += problem->lengths[b];
	assert_int_equal(length, floats);
	assert_int_equal(problem->step(problem->model, 3, problem->first, one, &loss), 0);
	assert_int_equal(problem->step(problem->model, 3, problem->first, two, &again), 0);
	assert_memory_equal(one, two, floats * sizeof(*one));
	assert_memory_not_equal(one, problem->first, floats * sizeof(*one));
	assert_memory_equal(&loss, &again, sizeof(loss));
	free(one);
	free(two);
}

static void factors_and_topics_are_problems(void **state)
{
	struct scar_spec als = { .name = "als",
				 .model = "als",
				 .data = "ratings:users=30,items=20,density=0.5" };
	struct scar_spec gibbs = { .name = "gibbs",
				   .model = "gibbs",
				   .data = "topics:docs=20,length=30,words=50" };
	struct scar_problem problem;
	char err[256];

	(void)state;
	assert_int_equal(scar_problem_open(&als, 1, &problem, err, sizeof(err)), 0);
	problem_check(&problem, 20 * 8, 20);
	assert_false(problem.labels);
	scar_problem_close(&problem);
	assert_int_equal(scar_problem_open(&gibbs, 1, &problem, err, sizeof(err)), 0);
	problem_check(&problem, problem.floats, 20);
	assert_true(problem.labels);
	scar_problem_close(&problem);
	als.data = "ratings:users=0";
	assert_int_equal(scar_problem_open(&als, 1, &problem, err, sizeof(err)), -EINVAL);
}

static void models_are_cut_into_blocks(void **state)
{
	struct scar_spec spec = { .name = "s",
				  .model = "softmax",
				  .data = "synthetic:features=12,classes=3,train=100,test=10",
				  .cut = 4,
				  .samples = 50,
				  .lr = 0.1 };
	struct scar_problem problem;
	char err[256];

	(void)state;
	assert_int_equal(scar_problem_open(&spec, 1, &problem, err, sizeof(err)), 0);
	problem_check(&problem, 39, 3 * 4 + 1);
	scar_problem_close(&problem);
	spec.features = true;
	assert_int_equal(scar_problem_open(&spec, 1, &problem, err, sizeof(err)), 0);
	problem_check(&problem, 39, 12 + 1);
	scar_problem_close(&problem);
	spec.samples = 101;
	assert_int_equal(scar_problem_open(&spec, 1, &problem, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "fewer samples than 101"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_numbers_are_those_of_the_study),
		cmocka_unit_test(models_are_cut_into_blocks),
		cmocka_unit_test(factors_and_topics_are_problems),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
