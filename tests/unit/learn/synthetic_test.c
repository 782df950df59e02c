/* SPDX-License-Identifier: BSD-3-Clause */

/* synthetic_test.c -- a synthetic data set is a function of its specification, and has its shape */

#include "learn/data.h"
#include "unit/learn/learn_util.h"

static void the_specification_is_obeyed(void **state)
{
	struct learn_data *data = open_good("synthetic");

	(void)state;
	assert_int_equal(data->shape.features, 64);
	assert_int_equal(data->shape.classes, 10);
	assert_int_equal(data->train.count, 20000);
	assert_int_equal(data->test.count, 2000);
	learn_data_close(data);
	data = open_good("synthetic:classes=3,shape=5x7,train=40,test=9,noise=0.5,seed=8");
	assert_int_equal(data->shape.rows, 5);
	assert_int_equal(data->shape.cols, 7);
	assert_int_equal(data->shape.features, 35);
	assert_int_equal(data->shape.classes, 3);
	assert_int_equal(data->train.count, 40);
	assert_int_equal(data->test.count, 9);
	learn_data_close(data);
}

static void the_seed_decides_every_bit(void **state)
{
	const char *spec = "synthetic:train=50,test=50,seed=3";
	struct learn_data *a = open_good(spec);
	struct learn_data *b = open_good(spec);
	struct learn_data *c = open_good("synthetic:train=50,test=50,seed=4");
	size_t bytes = (size_t)50 * 64 * sizeof(float);

	(void)state;
	assert_memory_equal(a->train.values, b->train.values, bytes);
	assert_memory_equal(a->train.labels, b->train.labels, 50 * sizeof(uint16_t));
	assert_memory_equal(a->test.values, b->test.values, bytes);
	assert_memory_not_equal(a->train.values, c->train.values, bytes);
	assert_memory_not_equal(a->train.values, a->test.values, bytes);
	learn_data_close(a);
	learn_data_close(b);
	learn_data_close(c);
}

static void features_have_mean_zero_and_unit_variance(void **state)
{
	struct learn_data *data = open_good("synthetic:classes=50,train=5000");
	size_t count = data->train.count * 64;
	unsigned hits[50] = { 0 };
	double sum = 0;
	double squares = 0;

	(void)state;
	for (size_t i = 0; i < count; i++) {
		sum += (double)data->train.values[i];
		squares += (double)data->train.values[i] * (double)data->train.values[i];
	}
	assert_true(fabs(sum / (double)count) < 0.02);
	assert_true(fabs(squares / (double)count - 1) < 0.02);
	for (size_t i = 0; i < data->train.count; i++)
		hits[data->train.labels[i]]++;
	for (unsigned c = 0; c < 50; c++)
		assert_true(hits[c] > 50 && hits[c] < 150);
	learn_data_close(data);
}

static void without_noise_samples_are_their_centres(void **state)
{
	struct learn_data *data = open_good("synthetic:classes=2,shape=8x8,train=100,noise=0");
	const struct learn_set *set = &data->train;

	(void)state;
	for (size_t i = 1; i < set->count; i++) {
		bool same = memcmp(set->values, set->values + i * 64, 64 * sizeof(float)) == 0;

		assert_int_equal(same, set->labels[i] == set->labels[0]);
	}
	assert_true(set->values[0] == set->values[3 * 8 + 3]); /* one patch of 4x4 */
	assert_true(set->values[0] != set->values[4]);
	assert_true(set->values[0] != set->values[4 * 8]);
	learn_data_close(data);
}

static void wrong_arguments_are_refused(void **state)
{
	static const struct {
		const char *spec;
		const char *say;
	} cases[] = {
		{ "synthetic:classes", "\"classes\" is none of classes=" },
		{ "synthetic:colour=3", "\"colour=3\" is none of" },
		{ "synthetic:classes=1", "between 2 and 4096" },
		{ "synthetic:classes=5000", "between 2 and 4096" },
		{ "synthetic:classes=2.5", "a number between" },
		{ "synthetic:classes=", "a number between" },
		{ "synthetic:classes=3x", "a number between" },
		{ "synthetic:classes=nan", "a number between" },
		{ "synthetic:train=0", "\"train=0\"" },
		{ "synthetic:train=99999999", "between 1 and" },
		{ "synthetic:noise=-1", "a number between 0 and 1000" },
		{ "synthetic:seed=-1", "seed=" },
		{ "synthetic:shape=28", "ROWSxCOLS" },
		{ "synthetic:shape=0x4", "ROWSxCOLS" },
		{ "synthetic:shape=4x4x4", "ROWSxCOLS" },
		{ "synthetic:shape=9999x4", "ROWSxCOLS" },
		{ "synthetic:shape=4x4,features=5", "not both" },
		{ "synthetic:,", "\"\" is none of" },
		{ "synthetic:train=16777216,features=1048576", "too large; the limit" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct learn_data *data = NULL;
		char err[ERR_LEN] = "";
		char spec[PATH_LEN];
		int rc = learn_data_open(cases[i].spec, &data, err, sizeof(err));

		assert_true(rc == -EINVAL || rc == -EFBIG);
		assert_null(data);
		assert_one_line(err, cases[i].say);
		(void)snprintf(spec, sizeof(spec), "%s", cases[i].spec);
		assert_no_leak(open_failing, spec);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_specification_is_obeyed),
		cmocka_unit_test(the_seed_decides_every_bit),
		cmocka_unit_test(features_have_mean_zero_and_unit_variance),
		cmocka_unit_test(without_noise_samples_are_their_centres),
		cmocka_unit_test(wrong_arguments_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
