/* SPDX-License-Identifier: BSD-3-Clause */

/* mf_test.c -- the gradient of a factorization is that of its loss, and descent finds the planted
 * ratings */

#include "learn/model.h"
#include "unit/learn/learn_util.h"

struct fixture {
	struct learn_data *data;
	struct learn_model *model;
	struct learn_batch *batch;
	float *w;
	float *grad;
	size_t count;
};

static struct fixture fixture_make(const char *model, const char *spec, unsigned batch)
{
	struct learn_model_opts opts;
	struct fixture f = { .data = open_good(spec) };
	char err[ERR_LEN] = "";

	learn_model_opts_init(&opts);
	opts.batch_max = batch;
	if (learn_model_create(model, &f.data->shape, &opts, &f.model, err, sizeof(err)) != 0)
		fail_msg("%s", err);
	assert_int_equal(learn_model_attach(f.model, f.data, err, sizeof(err)), 0);
	assert_int_equal(learn_batch_create(&f.data->shape, batch, &f.batch), 0);
	f.count = f.model->param_count;
	f.w = floats(f.count);
	f.grad = floats(f.count);
	learn_model_init(f.model, 1, f.w);
	return f;
}

static void fixture_end(struct fixture *f)
{
	free(f->w);
	free(f->grad);
	learn_batch_destroy(f->batch);
	learn_model_destroy(f->model);
	learn_data_close(f->data);
}

static double grad(struct fixture *f, uint64_t step)
{
	struct learn_key key = { .seed = 2, .step = step };
	double loss;

	assert_int_equal(learn_batch_draw(f->data, &key, f->batch->count_max, f->batch), 0);
	assert_int_equal(learn_model_grad(f->model, f->w, f->batch, &key, f->grad, &loss), 0);
	return loss;
}

static void the_gradient_is_that_of_the_loss(void **state)
{
	struct fixture f =
		fixture_make("mf:rank=3,reg=0.1", "ratings:users=6,items=5,density=1", 40);
	float *want = floats(f.count);
	double largest = 0;

	(void)state;
	memset(f.grad, 0xff, f.count * sizeof(*f.grad)); /* what was there does not count */
	(void)grad(&f, 0);
	memcpy(want, f.grad, f.count * sizeof(*want));
	for (size_t i = 0; i < f.count; i++) {
		const float h = 1e-2f;
		float w = f.w[i];
		double up, down;

		f.w[i] = w + h;
		up = grad(&f, 0);
		f.w[i] = w - h;
		down = grad(&f, 0);
		f.w[i] = w;
		assert_true(fabs((up - down) / (2 * (double)h) - (double)want[i]) < 2e-4);
		largest = fmax(largest, fabs((double)want[i]));
	}
	assert_true(largest > 0.02);
	free(want);
	fixture_end(&f);
}

static double rmse(struct fixture *f)
{
	struct learn_score score;

	assert_int_equal(learn_model_eval(f->model, f->w, f->data, &f->data->test, 0,
					  f->data->test.count, &score),
			 0);
	return learn_model_score(f->model, &score);
}

static void descent_finds_the_planted_ratings(void **state)
{
	struct fixture f = fixture_make("mf:rank=4",
					"ratings:users=200,items=100,rank=4,"
					"density=0.8,noise=0.2",
					100);
	float lr = (float)(f.model->traits.lr * 100);
	struct learn_figure figures[LEARN_FIGURES_MAX];
	double before = rmse(&f);

	(void)state;
	for (uint64_t step = 0; step < 12000; step++) {
		(void)grad(&f, step);
		for (size_t i = 0; i < f.count; i++)
			f.w[i] -= lr * f.grad[i];
	}
	assert_int_equal(learn_model_figures(f.model, f.w, f.data, figures), 2);
	print_message("RMSE %.4f, before %.4f; %s %.4f, %s %.4f\n", rmse(&f), before,
		      figures[0].name, figures[0].value, figures[1].name, figures[1].value);
	assert_true(before > 0.9);
	assert_true(figures[0].value == 0.2);
	assert_true(rmse(&f) < 1.2 * 0.2);
	assert_true(figures[1].value < 0.15);
	fixture_end(&f);
}

static void an_evaluation_in_pieces_is_the_same(void **state)
{
	struct fixture f = fixture_make("mf", "ratings:users=30,items=30,density=0.5", 4);
	struct learn_score whole, a, b;
	size_t count = f.data->test.count;

	(void)state;
	assert_int_equal(learn_model_eval(f.model, f.w, f.data, &f.data->test, 0, count, &whole),
			 0);
	assert_int_equal(learn_model_eval(f.model, f.w, f.data, &f.data->test, 0, 7, &a), 0);
	assert_int_equal(learn_model_eval(f.model, f.w, f.data, &f.data->test, 7, count - 7, &b),
			 0);
	assert_true(fabs(whole.loss_sum - a.loss_sum - b.loss_sum) < 1e-9 * whole.loss_sum);
	assert_int_equal(learn_model_eval(f.model, f.w, f.data, &f.data->test, 1, count, &whole),
			 -EINVAL);
	fixture_end(&f);
}

static void a_row_is_a_block(void **state)
{
	struct fixture f = fixture_make("mf:rank=3", "ratings:users=20,items=10", 4);
	uint64_t lengths[30];

	(void)state;
	assert_int_equal(f.count, 90);
	assert_int_equal(learn_model_blocks(f.model, NULL), 30);
	assert_int_equal(learn_model_blocks(f.model, lengths), 30);
	for (unsigned i = 0; i < 30; i++)
		assert_int_equal(lengths[i], 3);
	fixture_end(&f);
}

static void what_does_not_fit_is_refused_in_one_line(void **state)
{
	struct learn_data *ratings = open_good("ratings:users=20,items=10");
	struct learn_data *samples = open_good("synthetic:train=10,test=10");
	struct learn_model_opts opts;
	struct learn_model *model;
	struct learn_batch *batch = NULL;
	char err[ERR_LEN] = "";
	float w[1000] = { 0 };
	double loss;

	(void)state;
	learn_model_opts_init(&opts);
	assert_int_equal(learn_model_create("mf", &samples->shape, NULL, &model, err, sizeof(err)),
			 -EINVAL);
	assert_one_line(err, "for this data set choose softmax, mlp or cnn");
	assert_int_equal(
		learn_model_create("softmax", &ratings->shape, NULL, &model, err, sizeof(err)),
		-EINVAL);
	assert_one_line(err, "for this data set choose mf");
	assert_int_equal(
		learn_model_create("mf:rank=0", &ratings->shape, NULL, &model, err, sizeof(err)),
		-EINVAL);
	assert_one_line(err, "a number between 1 and 1024");
	opts.final_relu = true;
	assert_int_equal(learn_model_create("mf", &ratings->shape, &opts, &model, err, sizeof(err)),
			 -EINVAL);
	assert_one_line(err, "for classifiers only");
	assert_int_equal(learn_model_create("mf", &ratings->shape, NULL, &model, err, sizeof(err)),
			 0);
	assert_int_equal(learn_model_attach(model, samples, err, sizeof(err)), -EINVAL);
	assert_int_equal(learn_batch_create(&ratings->shape, 4, &batch), 0);
	assert_int_equal(learn_batch_draw(ratings, &(struct learn_key){ 0 }, 4, batch), 0);
	assert_int_equal(
		learn_model_grad(model, w, batch, &(struct learn_key){ 0 }, w + 500, &loss),
		-EINVAL); /* nothing is attached */
	learn_batch_destroy(batch);
	learn_model_destroy(model);
	learn_data_close(ratings);
	learn_data_close(samples);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_gradient_is_that_of_the_loss),
		cmocka_unit_test(descent_finds_the_planted_ratings),
		cmocka_unit_test(an_evaluation_in_pieces_is_the_same),
		cmocka_unit_test(a_row_is_a_block),
		cmocka_unit_test(what_does_not_fit_is_refused_in_one_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
