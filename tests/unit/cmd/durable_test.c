/* SPDX-License-Identifier: BSD-3-Clause */

/* durable_test.c -- values of --checkpoint are parsed right or refused; only runs that fit share a
 * job id */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/durable.h"

static struct ol_ckpt_set parsed(const char *text)
{
	struct ol_ckpt_set set = { 0 };
	char err[160] = "";

	assert_int_equal(ol_ckpt_set_parse(text, &set, err, sizeof(err)), 0);
	assert_string_equal(err, "");
	return set;
}

static void words_come_in_any_order_and_number(void **state)
{
	struct ol_ckpt_set set = parsed(NULL);

	(void)state;
	assert_int_equal(set.steps, 100);
	assert_int_equal(set.ms, 0);
	assert_int_equal(set.keep, 3);
	assert_string_equal(set.dir, "");
	set = parsed("keep=5,dir=/var/tmp/a b,every=250steps");
	assert_int_equal(set.steps, 250);
	assert_int_equal(set.keep, 5);
	assert_string_equal(set.dir, "/var/tmp/a b");
	set = parsed("every=1.5s");
	assert_int_equal(set.steps, 0);
	assert_int_equal(set.ms, 1500);
	set = parsed("dir=x");
	assert_int_equal(set.steps, 100);
}

static void a_part_needs_a_selection_and_is_handed_on_as_it_is(void **state)
{
	static const char *const good[] = {
		"priority,r=1/8,every=8steps",
		"every=3s,round-robin,r=0.25,dir=/a b",
		"r=1/3,random,every=7steps,dir=x",
		"priority",
		"priority,r=1,every=1steps",
		"full,keep=9,every=20ms",
		"priority,format=int8",
		"priority,extrapolate=0.5,r=1/4",
		"priority,r=0.000000001,every=1000000000steps",
	};
	struct ol_ckpt_set set = parsed("priority,r=1/8,every=8steps");

	(void)state;
	assert_int_equal(set.selection, OL_SELECT_PRIORITY);
	assert_true(set.fraction == 0.125 && set.steps == 8);
	set = parsed("random,r=0.5,every=2s");
	assert_int_equal(set.selection, OL_SELECT_RANDOM);
	assert_true(set.fraction == 0.5 && set.ms == 2000);
	set = parsed("priority,extrapolate=1");
	assert_true(set.extrapolate == 1.0);
	set = parsed("round-robin");
	assert_true(set.extrapolate == 0.0);
	assert_int_equal(set.format, OL_FORMAT_FP32);
	assert_int_equal(parsed("format=int8,random").format, OL_FORMAT_INT8);
	assert_int_equal(parsed("format=int8,random,format=fp32").format, OL_FORMAT_FP32);
	assert_int_equal(set.selection, OL_SELECT_ROUND_ROBIN);
	assert_true(set.fraction == 0.125);
	set = parsed(NULL);
	assert_int_equal(set.selection, OL_SELECT_FULL);
	assert_true(set.fraction == 1.0);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct ol_ckpt_set first = parsed(good[i]), again;
		char text[OL_CKPT_TEXT_MAX];

		again = parsed(ol_ckpt_set_text(&first, text));
		assert_true(again.steps == first.steps && again.ms == first.ms);
		assert_true(again.keep == first.keep && again.selection == first.selection);
		assert_true(again.fraction == first.fraction);
		assert_true(again.extrapolate == first.extrapolate);
		assert_int_equal(again.format, first.format);
		assert_string_equal(again.dir, first.dir);
	}
}

static void other_words_are_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"every",
		"every=",
		"every=0steps",
		"every=5",
		"every=0s",
		"every=100us",
		"every=-1s",
		"keep=0",
		"keep=",
		"keep=9999",
		"keep=3x",
		"dir=",
		"dir=a,b",
		"often=yes",
		"every=5s,",
		",dir=a",
		"priority,r=0",
		"priority,r=0/8",
		"priority,r=1.01",
		"priority,r=9/8",
		"priority,r=1/0",
		"priority,r=",
		"priority,r=/",
		"priority,r=1/",
		"priority,r=-1/8",
		"priority,r=x",
		"priority,r=1/8x",
		"priority,r=0.1.2",
		"priority,r=nan",
		"priority,r=1e-3",
		"r=1/8",
		"full,r=1/8",
		"priority,keep=3",
		"prio",
		"priority,extrapolate=",
		"priority,extrapolate=0",
		"priority,extrapolate=1.1",
		"priority,extrapolate=1e-3",
		"extrapolate=1",
		"format=int8",
		"priority,format=",
		"priority,format=int4",
		"full,extrapolate=1",
		"priority,r=1/8,every=7steps",
		"priority,r=1/8,every=7ms",
		"priority=1",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ol_ckpt_set set = { .keep = 77 };
		char err[160] = "";

		if (ol_ckpt_set_parse(bad[i], &set, err, sizeof(err)) != -EINVAL)
			fail_msg("\"%s\" was taken", bad[i]);
		assert_true(err[0] != '\0');
		assert_int_equal(set.keep, 77);
	}
}

static void a_folder_of_any_length_is_taken_or_refused(void **state)
{
	static char text[OL_CKPT_FOLDER_MAX + 16] = "dir=";
	struct ol_ckpt_set set;
	char err[160] = "";

	(void)state;
	memset(text + 4, 'd', OL_CKPT_FOLDER_MAX - 1);
	assert_int_equal(strlen(parsed(text).dir), OL_CKPT_FOLDER_MAX - 1);
	memset(text + 4, 'd', OL_CKPT_FOLDER_MAX);
	assert_int_equal(ol_ckpt_set_parse(text, &set, err, sizeof(err)), -EINVAL);
}

static void a_job_is_its_model_data_seed_and_optimizer(void **state)
{
	struct ol_set_model model = { .model = "mlp", .dataset = "synthetic", .seed = 1 };
	struct ol_set_model same = { .model = "mlp", .dataset = "synthetic", .seed = 1 };
	uint64_t id = ol_job_id(&model, OL_OPTIMIZER_SGD);

	(void)state;
	assert_true(id != 0);
	assert_true(ol_job_id(&same, OL_OPTIMIZER_SGD) == id);
	assert_true(ol_job_id(&model, OL_OPTIMIZER_ADAM) != id);
	model.seed = 2;
	assert_true(ol_job_id(&model, OL_OPTIMIZER_SGD) != id);
	model = same;
	model.model = "mlp:64";
	assert_true(ol_job_id(&model, OL_OPTIMIZER_SGD) != id);
	model = same;
	model.dataset = "synthetic:seed=2";
	assert_true(ol_job_id(&model, OL_OPTIMIZER_SGD) != id);
	model = same;
	model.final_relu = true;
	assert_true(ol_job_id(&model, OL_OPTIMIZER_SGD) != id);
}

static void a_job_without_a_model_is_its_length_and_optimizer(void **state)
{
	uint64_t id = ol_job_id_vector(1000, OL_OPTIMIZER_SGD);

	(void)state;
	assert_true(id != 0);
	assert_true(ol_job_id_vector(1000, OL_OPTIMIZER_SGD) == id);
	assert_true(ol_job_id_vector(1001, OL_OPTIMIZER_SGD) != id);
	assert_true(ol_job_id_vector(1000, OL_OPTIMIZER_ADAM) != id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_come_in_any_order_and_number),
		cmocka_unit_test(a_part_needs_a_selection_and_is_handed_on_as_it_is),
		cmocka_unit_test(other_words_are_refused),
		cmocka_unit_test(a_folder_of_any_length_is_taken_or_refused),
		cmocka_unit_test(a_job_is_its_model_data_seed_and_optimizer),
		cmocka_unit_test(a_job_without_a_model_is_its_length_and_optimizer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
