/* SPDX-License-Identifier: BSD-3-Clause */

/* job_test.c -- a job's shape is as its text says, for every model; each document has one owner, and
 * a restarted owner without its topics is refused */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/job.h"

enum {
	ERR_LEN = 512
};

static void a_shape_survives_its_text(void **state)
{
	static const struct learn_shape shapes[] = {
		{ .rows = 28, .cols = 28, .features = 784, .classes = 10 },
		{ .rows = 1, .cols = 64, .features = 64, .classes = 2 },
		{ .rows = 943, .cols = 1682, .features = 2625, .kind = LEARN_RATINGS },
		{ .rows = 1, .cols = 5000, .features = 5000, .kind = LEARN_WORDS },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		char text[OL_SHAPE_TEXT_MAX];
		struct learn_shape shape;

		assert_int_equal(ol_shape_parse(ol_shape_text(&shapes[i], text), &shape), 0);
		assert_memory_equal(&shape, &shapes[i], sizeof(shape));
	}
}

static void what_is_no_shape_is_refused(void **state)
{
	static const char *const bad[] = { "",
					   "x",
					   "0",
					   "28x",
					   "28x28x",
					   "28x28x1",
					   "0x1x2",
					   "28x0x10",
					   "28x28x10x",
					   "1048577",
					   "28x28x10 ",
					   "1048576x1",
					   "2000x1000x10",
					   "1x1x5000" };
	struct learn_shape shape;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(ol_shape_parse(bad[i], &shape), -EINVAL);
}

static struct ol_job *job_open(const char *model, const char *dataset)
{
	struct ol_job_opts opts = { .model = model, .dataset = dataset, .batch = 2, .seed = 1 };
	char err[ERR_LEN] = "";
	struct ol_job *job;
	int exit_code;

	if (ol_job_open(&opts, &job, &exit_code, err, sizeof(err)) != 0)
		fail_msg("%s", err);
	return job;
}

static void documents_are_shared_out_among_workers(void **state)
{
	struct ol_job *job = job_open("lda:topics=2", "topics:docs=3,words=10,length=8");
	char err[ERR_LEN] = "";

	(void)state;
	assert_int_equal(ol_job_share(job, 1, 2, err, sizeof(err)), 0);
	ol_job_draw(job, 1, 0);
	assert_int_equal(job->batch->index[0], 1);
	assert_int_equal(job->batch->index[1], 1); /* its only one, again */
	assert_int_equal(ol_job_share(job, 0, 4, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "3 documents to share out"));
	assert_null(strchr(err, '\n'));
	assert_int_equal(ol_job_share(job, 2, 2, err, sizeof(err)), -EINVAL);
	ol_job_close(job);
}

static void only_a_model_that_keeps_nothing_goes_on_elsewhere(void **state)
{
	struct ol_job *lda = job_open("lda:topics=2", "topics:docs=3,words=10,length=8");
	struct ol_job *mf = job_open("mf:rank=2", "ratings:users=20,items=20");
	char err[ERR_LEN] = "";

	(void)state;
	assert_int_equal(ol_job_begin(lda, 0), 0);
	assert_int_equal(ol_job_begin(lda, 1), -ESTALE);
	assert_int_equal(ol_job_begin(mf, 1), 0);
	assert_int_equal(ol_job_share(mf, 5, 2, err, sizeof(err)), 0); /* ratings are drawn */
	ol_job_close(lda);
	ol_job_close(mf);
}

/* A server reads no data: the shape alone gives it as many first weights. */
static void a_shape_is_enough_for_the_first_weights(void **state)
{
	static const char *const models[] = { "mf:rank=2", "lda:topics=3", "softmax" };
	static const char *const sets[] = { "ratings:users=20,items=10",
					    "topics:docs=3,words=10,length=8",
					    "synthetic:train=10,test=10" };

	(void)state;
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		struct ol_job *with = job_open(models[i], sets[i]), *without;
		struct ol_job_opts opts = { .model = models[i], .seed = 1, .shape = with->shape };
		float a[1000], b[1000];
		char err[ERR_LEN] = "";
		int exit_code;

		assert_int_equal(ol_job_open(&opts, &without, &exit_code, err, sizeof(err)), 0);
		assert_int_equal(with->param_count, without->param_count);
		assert_true(with->param_count <= 1000);
		ol_job_first_weights(with, a);
		ol_job_first_weights(without, b);
		assert_memory_equal(a, b, with->param_count * sizeof(*a));
		ol_job_close(with);
		ol_job_close(without);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_shape_survives_its_text),
		cmocka_unit_test(what_is_no_shape_is_refused),
		cmocka_unit_test(documents_are_shared_out_among_workers),
		cmocka_unit_test(only_a_model_that_keeps_nothing_goes_on_elsewhere),
		cmocka_unit_test(a_shape_is_enough_for_the_first_weights),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
