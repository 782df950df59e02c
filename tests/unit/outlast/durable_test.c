/* SPDX-License-Identifier: BSD-3-Clause */

/* durable_test.c -- the words of --checkpoint, and which runs may share checkpoints */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "outlast/durable.h"

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

static void other_words_are_refused(void **state)
{
	static const char *const bad[] = {
		"",          "every",       "every=",    "every=0steps", "every=5",
		"every=0s",  "every=100us", "every=-1s", "keep=0",       "keep=",
		"keep=9999", "keep=3x",     "dir=",      "dir=a,b",      "often=yes",
		"every=5s,", ",dir=a",
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_come_in_any_order_and_number),
		cmocka_unit_test(other_words_are_refused),
		cmocka_unit_test(a_folder_of_any_length_is_taken_or_refused),
		cmocka_unit_test(a_job_is_its_model_data_seed_and_optimizer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
