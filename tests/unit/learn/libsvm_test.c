/* SPDX-License-Identifier: BSD-3-Clause */

/* libsvm_test.c -- LIBSVM text is read exactly, and malformed text is refused with file, line and
 * offset */

#include "learn/data.h"
#include "unit/learn/learn_util.h"

static int open_text(const char *dir, const char *train, const char *test,
		     struct learn_data **ret_data, char *err)
{
	char spec[2 * PATH_LEN];

	err[0] = 0;
	file_write(dir, "train", train, strlen(train));
	if (test == NULL) {
		(void)snprintf(spec, sizeof(spec), "libsvm:%s/train", dir);
	} else {
		file_write(dir, "test", test, strlen(test));
		(void)snprintf(spec, sizeof(spec), "libsvm:%s/train,%s/test", dir, dir);
	}
	return learn_data_open(spec, ret_data, err, ERR_LEN);
}

static void sparse_text_becomes_rows(void **state)
{
	static const float train[] = { 0.5f, 0, -2e3f, 0, 0, 0, 0, 0, 0, 1, 0, 0 };
	struct learn_data *data = NULL;
	char err[ERR_LEN];
	const char *text = "# a comment\n"
			   "+1 1:0.5 3:-2e3 \n"
			   "\n"
			   "-1\r\n"
			   "7\t2:1 # the rest is nothing 4:4\n";

	assert_int_equal(open_text(*state, text, "7 4:1\n-1 1:1", &data, err), 0);
	assert_int_equal(data->shape.features, 4); /* the test file's largest index */
	assert_int_equal(data->shape.rows, 1);
	assert_int_equal(data->shape.cols, 4);
	assert_int_equal(data->shape.classes, 3);
	assert_int_equal(data->train.count, 3);
	assert_null(data->train.pixels);
	assert_memory_equal(data->train.values, train, sizeof(train));
	assert_int_equal(data->train.labels[0], 1); /* -1, 1, 7 in ascending order */
	assert_int_equal(data->train.labels[1], 0);
	assert_int_equal(data->train.labels[2], 2);
	assert_int_equal(data->test.count, 2);
	assert_int_equal(data->test.labels[0], 2);
	assert_true(data->test.values[3] == 1.0f);
	learn_data_close(data);
}

static void a_tenth_is_kept_back_without_a_test_file(void **state)
{
	struct learn_data *data = NULL;
	char err[ERR_LEN];
	char text[1000] = "";
	size_t len = 0;

	for (int i = 0; i < 25; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%d 1:%d\n", i % 2, i);
	assert_int_equal(open_text(*state, text, NULL, &data, err), 0);
	assert_int_equal(data->train.count, 23);
	assert_int_equal(data->test.count, 2);
	assert_true(data->test.values[0] == 9.0f);
	assert_true(data->test.values[1] == 19.0f);
	assert_true(data->train.values[8] == 8.0f);
	assert_true(data->train.values[9] == 10.0f);
	learn_data_close(data);
}

static void malformed_text_is_refused(void **state)
{
	static const struct {
		const char *train;
		const char *test;
		const char *say;
	} cases[] = {
		{ "", "1 1:1", "holds no samples" },
		{ "# nothing\n\n", "1 1:1", "holds no samples" },
		{ "1 1:1\nx 1:1\n", "1 1:1", "line 2, offset 6: a number is expected" },
		{ "1.5 1:1\n", "1 1:1", "line 1, offset 3: the label is not a whole number" },
		{ "99999999999 1:1\n", "1 1:1", "the label is not a whole number" },
		{ "1:1\n", "1 1:1", "a blank is expected after the label" },
		{ "1 1\n", "1 1:1", "line 1, offset 3: index:value is expected" },
		{ "1 qid:3 1:1\n", "1 1:1", "offset 2: a number is expected" },
		{ "1 0:1\n", "1 1:1", "not a whole number from 1" },
		{ "1 -1:1\n", "1 1:1", "not a whole number from 1" },
		{ "1 1.5:1\n", "1 1:1", "not a whole number from 1" },
		{ "1 1048577:1\n", "1 1:1", "not a whole number from 1 to 1048576" },
		{ "1 2:1 2:1\n", "1 1:1", "not above the one before" },
		{ "1 2:1 1:1\n", "1 1:1", "not above the one before" },
		{ "1 1:\n2 1:1\n", "1 1:1", "line 1, offset 4: a number is expected" },
		{ "1 1: 5\n", "1 1:1", "offset 4: a number is expected" },
		{ "1 1:1e39\n", "1 1:1", "too large for a float" },
		{ "1 1:nan\n", "1 1:1", "a number is expected" },
		{ "1 1:-inf\n", "1 1:1", "malformed or too large" },
		{ "1 1:1x\n", "1 1:1", "a blank is expected after a value" },
		{ "1 1:1\n2 1:2\n", "3 1:1", "label 3 does not occur in the training file" },
		{ "1 1:1\n1 1:2\n", "1 1:1", "1 different labels; a classifier needs 2" },
		{ "1\n2\n", "1", "no sample has a feature" },
		{ "1 1:1\n2 1:2\n", NULL, "too few to keep some back; name a test file" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct learn_data *data = NULL;
		char err[ERR_LEN];
		char spec[2 * PATH_LEN];
		int rc;

		rc = open_text(*state, cases[i].train, cases[i].test, &data, err);
		assert_true(rc == -EBADMSG || rc == -EINVAL);
		assert_null(data);
		assert_one_line(err, cases[i].say);
		assert_one_line(err, *state);
		(void)snprintf(spec, sizeof(spec), "libsvm:%s/train%s%s%s", (char *)*state,
			       cases[i].test != NULL ? "," : "",
			       cases[i].test != NULL ? (char *)*state : "",
			       cases[i].test != NULL ? "/test" : "");
		assert_no_leak(open_failing, spec);
	}
}

static void zero_bytes_and_missing_files_are_refused(void **state)
{
	struct learn_data *data = NULL;
	char err[ERR_LEN];
	char spec[PATH_LEN];

	(void)snprintf(spec, sizeof(spec), "libsvm:%s/none", (char *)*state);
	assert_int_equal(learn_data_open(spec, &data, err, sizeof(err)), -ENOENT);
	assert_one_line(err, "none: no such file, plain or .gz");
	(void)snprintf(spec, sizeof(spec), "libsvm:%s/zero", (char *)*state);
	file_write(*state, "zero", "1 1:2\0\n1 1:2\n", 13);
	assert_int_equal(learn_data_open(spec, &data, err, sizeof(err)), -EBADMSG);
	assert_one_line(err, "a zero byte");
	file_write(*state, "zero", "1\0 1:2\n1 1:2\n", 13);
	assert_int_equal(learn_data_open(spec, &data, err, sizeof(err)), -EBADMSG);
	assert_one_line(err, "offset 1");
	file_write(*state, "zero", "1 #\0 1:2\n1 1:2\n", 15);
	assert_int_equal(learn_data_open(spec, &data, err, sizeof(err)), -EBADMSG);
	assert_one_line(err, "offset 3");

	/* few bytes that ask for much memory: 20 samples of 2^20 features are 80 MB, 2000 would be
	 * 8 GB */
	FILE *stream;

	(void)snprintf(spec, sizeof(spec), "%s/large", (char *)*state);
	stream = fopen(spec, "w");
	assert_non_null(stream);
	for (int i = 0; i < 2000; i++)
		(void)fprintf(stream, "%d 1048576:1\n", i % 2);
	assert_int_equal(fclose(stream), 0);
	(void)snprintf(spec, sizeof(spec), "libsvm:%s/large", (char *)*state);
	assert_int_equal(learn_data_open(spec, &data, err, sizeof(err)), -EFBIG);
	assert_one_line(err, "too large for memory");
	assert_null(data);
}

#define IN_TMP(test) cmocka_unit_test_setup_teardown(test, tmp_setup, tmp_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_TMP(sparse_text_becomes_rows),
		IN_TMP(a_tenth_is_kept_back_without_a_test_file),
		IN_TMP(malformed_text_is_refused),
		IN_TMP(zero_bytes_and_missing_files_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
