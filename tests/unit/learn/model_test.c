/* SPDX-License-Identifier: BSD-3-Clause */

/* model_test.c -- models have the published shape, the same bits each time, touch only their own
 * memory, and learn */

#include "learn/model.h"
#include "unit/learn/learn_util.h"

enum {
	CNN_PARAMS = 813258
};

static const struct learn_shape image_shape = {
	.rows = 28, .cols = 28, .features = 784, .classes = 10
};

static struct learn_model *create(const char *name, const struct learn_shape *shape,
				  const struct learn_model_opts *opts)
{
	struct learn_model *model = NULL;
	char err[ERR_LEN] = "";

	if (learn_model_create(name, shape, opts, &model, err, sizeof(err)) != 0)
		fail_msg("%s: %s", name, err);
	return model;
}

static struct learn_data *open_data(const char *spec)
{
	struct learn_data *data = NULL;
	char err[ERR_LEN] = "";

	if (learn_data_open(spec, &data, err, sizeof(err)) != 0)
		fail_msg("%s: %s", spec, err);
	return data;
}

static struct learn_batch *draw(const struct learn_data *data, const struct learn_key *key,
				unsigned count)
{
	struct learn_batch *batch = NULL;

	assert_int_equal(learn_batch_create(&data->shape, count, &batch), 0);
	assert_int_equal(learn_batch_draw(data, key, count, batch), 0);
	return batch;
}

static void layers_lie_in_the_published_order(void **state)
{
	static const struct learn_layer want[] = {
		{ "conv1", 0, 144, 16, 9 },
		{ "conv2", 160, 4608, 32, 144 },
		{ "dense1", 4800, 802816, 512, 1568 },
		{ "dense2", 808128, 5120, 10, 512 },
	};
	struct learn_model *model = create("cnn", &image_shape, NULL);
	const struct learn_layer *layers;
	size_t count;

	(void)state;
	assert_int_equal(model->param_count, CNN_PARAMS);
	layers = model->layers;
	count = model->layer_count;
	assert_int_equal(count, 4);
	for (size_t l = 0; l < count; l++) {
		assert_string_equal(layers[l].name, want[l].name);
		assert_int_equal(layers[l].offset, want[l].offset);
		assert_int_equal(layers[l].weights, want[l].weights);
		assert_int_equal(layers[l].biases, want[l].biases);
		assert_int_equal(layers[l].fan_in, want[l].fan_in);
	}
	learn_model_destroy(model);
}

static void names_give_the_layers(void **state)
{
	static const struct {
		const char *name;
		size_t params;
	} cases[] = {
		{ "softmax", 785 * 10 },
		{ "mlp", 785 * 128 + 129 * 64 + 65 * 10 },
		{ "mlp:7", 785 * 7 + 8 * 10 },
		{ "mlp:1,2,3,4,5,6,7", 785 + 2 * 2 + 3 * 3 + 4 * 4 + 5 * 5 + 6 * 6 + 7 * 7 + 80 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct learn_model *model = create(cases[i].name, &image_shape, NULL);

		assert_int_equal(model->param_count, cases[i].params);
		learn_model_destroy(model);
	}
}

static void fail_create(void *name)
{
	struct learn_model *model;
	char err[ERR_LEN];

	assert_true(learn_model_create(name, &image_shape, NULL, &model, err, sizeof(err)) < 0);
}

static void wrong_names_and_options_are_refused(void **state)
{
	static const char *const names[] = { "",
					     "lenet",
					     "mlp:",
					     "mlp:0",
					     "mlp:-3",
					     "mlp:x",
					     "mlp:8,",
					     "mlp:8;8",
					     "mlp:,8",
					     "mlp:65537",
					     "softmax ",
					     "mlp:1,2,3,4,5,6,7,8",
					     "mlp:65536,65536" };
	struct learn_shape flat = { .rows = 1, .cols = 784, .features = 784, .classes = 10 };
	struct learn_model *model = NULL;
	struct learn_model_opts opts;
	char err[ERR_LEN];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char name[PATH_LEN];

		(void)snprintf(name, sizeof(name), "%s", names[i]);
		assert_true(learn_model_create(name, &image_shape, NULL, &model, err, sizeof(err)) <
			    0);
		assert_one_line(err, "model \"");
		assert_no_leak(fail_create, name);
	}
	assert_int_equal(learn_model_create("cnn", &flat, NULL, &model, err, sizeof(err)), -EINVAL);
	assert_one_line(err, "takes images of 28x28, the data has 1x784");
	learn_model_opts_init(&opts);
	opts.batch_max = 0;
	assert_int_equal(learn_model_create("cnn", &image_shape, &opts, &model, err, sizeof(err)),
			 -EINVAL);
	assert_one_line(err, "batch of 0");
	learn_model_opts_init(&opts);
	opts.dropout = NAN;
	assert_int_equal(learn_model_create("cnn", &image_shape, &opts, &model, err, sizeof(err)),
			 -EINVAL);
	assert_one_line(err, "dropout");
	learn_model_opts_init(&opts);
	opts.size = 1;
	assert_int_equal(learn_model_create("cnn", &image_shape, &opts, &model, NULL, 0), -EINVAL);
	assert_null(model);
	learn_model_destroy(NULL);
}

/* Mean 0 and variance bound^2 / 3, to five standard errors; the extremes near the bound and within
 * it. */
static void first_weights_are_uniform_within_the_fan_in_bound(void **state)
{
	struct learn_model *model = create("cnn", &image_shape, NULL);
	float *w = floats(CNN_PARAMS);
	float *again = floats(CNN_PARAMS);
	const struct learn_layer *layers;
	size_t count;

	(void)state;
	learn_model_init(model, 1, w);
	learn_model_init(model, 1, again);
	assert_memory_equal(w, again, CNN_PARAMS * sizeof(*w));
	learn_model_init(model, 2, again);
	layers = model->layers;
	count = model->layer_count;
	for (size_t l = 0; l < count; l++) {
		double bound = 1 / sqrt((double)layers[l].fan_in);
		double n = (double)(layers[l].weights + layers[l].biases);
		double sum = 0, squares = 0, largest = 0;
		size_t same = 0;

		for (size_t i = layers[l].offset; i < layers[l].offset + (size_t)n; i++) {
			sum += (double)w[i] / bound;
			squares += (double)w[i] * (double)w[i] / bound / bound;
			largest = fmax(largest, fabs((double)w[i]) / bound);
			same += w[i] == again[i];
		}
		assert_true(fabs(sum / n) < 5 * sqrt(1 / 3.0 / n));
		assert_true(fabs(squares / n - 1 / 3.0) < 5 * sqrt(4 / 45.0 / n));
		assert_true(largest <= 1.000001 && largest > 1 - 10 / n);
		assert_true(same < 5);
	}
	free(w);
	free(again);
	learn_model_destroy(model);
}

/* The bits may not depend on the machine: these are what the formula in rng.h gives. */
static void first_weights_have_known_bits(void **state)
{
	struct learn_model *model = create("cnn", &image_shape, NULL);
	struct learn_key key = { .seed = 9, .worker = 2 };
	float *w = floats(CNN_PARAMS);

	(void)state;
	learn_model_init(model, 9, w);
	for (uint32_t i = 0; i < 1000; i++) {
		struct learn_rng_block block = learn_rng_draw(&key, LEARN_RNG_INIT, i);
		float unit = learn_rng_symmetric(block.word[0]);

		assert_true(w[4800 + i] == unit * 0.025253813614f); /* 1 / sqrt(1568) */
	}
	free(w);
	learn_model_destroy(model);
}

/* gradient_twice -- the same call from other memory, whatever its alignment and contents, by
 * another model */
static void gradient_twice(const char *name, const char *spec, unsigned count)
{
	const struct learn_key key = { .seed = 3, .step = 1ull << 33, .worker = 9 };
	const struct learn_key other = { .seed = 3, .step = 5, .worker = 9 };
	struct learn_data *data = open_data(spec);
	struct learn_batch *batch = draw(data, &key, count);
	struct learn_model *a = create(name, &data->shape, NULL);
	struct learn_model *b = create(name, &data->shape, NULL);
	size_t n = a->param_count;
	float *w = floats(n + 3);
	float *grad_a = floats(n + 3);
	float *grad_b = floats(n + 3);
	double loss_a, loss_b;

	learn_model_init(a, 1, w);
	assert_int_equal(learn_model_grad(a, w, batch, &key, grad_a, &loss_a), 0);
	memmove(w + 1, w, n * sizeof(*w));
	for (size_t i = 0; i < n + 3; i++)
		grad_b[i] = NAN;
	grad_b[0] = 42;
	grad_b[n + 1] = 43;
	assert_int_equal(learn_model_grad(b, w + 1, batch, &other, grad_b + 1, &loss_b), 0);
	assert_int_equal(learn_model_grad(b, w + 1, batch, &key, grad_b + 1, &loss_b), 0);
	assert_memory_equal(grad_a, grad_b + 1, n * sizeof(*w));
	assert_memory_equal(&loss_a, &loss_b, sizeof(loss_a));
	assert_true(grad_b[0] == 42.0f && grad_b[n + 1] == 43.0f);
	free(w);
	free(grad_a);
	free(grad_b);
	learn_model_destroy(a);
	learn_model_destroy(b);
	learn_batch_destroy(batch);
	learn_data_close(data);
}

static void the_same_input_gives_the_same_bits(void **state)
{
	(void)state;
	gradient_twice("softmax", "synthetic:train=100,test=1,features=37,classes=3", 32);
	gradient_twice("mlp:31,7", "synthetic:train=100,test=1,features=37", 19);
	gradient_twice("cnn", "synthetic:train=100,test=1,shape=28x28", 32);
	gradient_twice("cnn", "synthetic:train=100,test=1,shape=28x28", 5);
}

static void dropout_follows_the_key(void **state)
{
	struct learn_key key = { .seed = 3 };
	struct learn_data *data = open_data("synthetic:train=100,test=1,shape=28x28");
	struct learn_batch *batch = draw(data, &key, 8);
	struct learn_model *model = create("cnn", &data->shape, NULL);
	float *w = floats(CNN_PARAMS);
	float *grad = floats(CNN_PARAMS);
	double loss, other;
	size_t dead = 0;

	(void)state;
	learn_model_init(model, 1, w);
	/* one sample: a unit is 0 in dense2's gradient if ReLU or dropout stopped it */
	for (size_t i = 4800 + 802816; i < 4800 + 803328; i++)
		w[i] = 10; /* dense1's biases: no unit is stopped by ReLU */
	batch->count = 1;
	assert_int_equal(learn_model_grad(model, w, batch, &key, grad, &loss), 0);
	for (size_t o = 0; o < 512; o++)
		dead += grad[808128 + o] == 0.0f;
	assert_in_range(dead, 128 - 50, 128 + 50); /* 5 deviations of 9.8 */
	key.step = 1;
	assert_int_equal(learn_model_grad(model, w, batch, &key, grad, &other), 0);
	assert_true(loss != other);
	free(w);
	free(grad);
	learn_model_destroy(model);
	learn_batch_destroy(batch);
	learn_data_close(data);
}

static void wrong_batches_are_refused(void **state)
{
	const struct learn_key key = { .seed = 1 };
	struct learn_data *data = open_data("synthetic:train=10,test=5,features=4,classes=3");
	struct learn_data *wide = open_data("synthetic:train=10,test=5,features=5,classes=3");
	struct learn_batch *batch = draw(data, &key, 33);
	struct learn_batch *wide_batch = draw(wide, &key, 2);
	struct learn_model *model = create("softmax", &data->shape, NULL);
	struct learn_score score;
	float w[15] = { 0 };
	float grad[15];
	double loss;

	(void)state;
	assert_int_equal(learn_model_grad(model, w, batch, &key, grad, &loss), -EINVAL);
	batch->count = 0;
	assert_int_equal(learn_model_grad(model, w, batch, &key, grad, &loss), -EINVAL);
	batch->count = 2;
	batch->labels[1] = 3;
	assert_int_equal(learn_model_grad(model, w, batch, &key, grad, &loss), -EINVAL);
	batch->labels[1] = 2;
	assert_int_equal(learn_model_grad(model, w, batch, NULL, grad, &loss), -EINVAL);
	assert_int_equal(learn_model_grad(model, w, batch, &key, grad, &loss), 0);
	assert_true(fabs(loss - log(3)) < 1e-6);
	assert_int_equal(learn_model_grad(model, w, wide_batch, &key, grad, &loss), -EINVAL);
	assert_int_equal(learn_model_eval(model, w, wide, &wide->test, 0, 1, &score), -EINVAL);
	assert_int_equal(learn_model_eval(model, w, data, &data->test, 0, 6, &score), -EINVAL);
	assert_int_equal(learn_model_eval(model, w, data, &data->test, 6, 0, &score), -EINVAL);
	assert_int_equal(learn_model_eval(model, w, data, &data->test, 2, SIZE_MAX, &score),
			 -EINVAL);
	learn_batch_destroy(batch);
	learn_batch_destroy(wide_batch);
	learn_model_destroy(model);
	learn_data_close(data);
	learn_data_close(wide);
}

/* A softmax model whose output is its input, on four samples whose best class is known. */
static void eval_counts_and_sums(void **state)
{
	static const float values[] = { 3, 1, 0, 0, 5, 5, 1, 2, 3, 9, 0, 0 };
	static const uint16_t labels[] = { 0, 1, 2, 1 };
	const struct learn_data data = {
		.shape = { .rows = 1, .cols = 3, .features = 3, .classes = 3 },
		.train = { .count = 4, .values = values, .labels = labels },
		.test = { .count = 4, .values = values, .labels = labels },
	};
	const float w[12] = { 1, 0, 0, 0, 1, 0, 0, 0, 1 };
	struct learn_model_opts opts;
	struct learn_model *model;
	struct learn_score score, part;
	double want = 0;

	(void)state;
	learn_model_opts_init(&opts);
	opts.batch_max = 3; /* so that four samples take two batches */
	model = create("softmax", &data.shape, &opts);
	assert_int_equal(learn_model_eval(model, w, &data, &data.test, 0, 4, &score), 0);
	for (size_t s = 0; s < 4; s++) {
		const float *x = values + 3 * s;

		want += log(exp((double)x[0]) + exp((double)x[1]) + exp((double)x[2])) -
			(double)x[labels[s]];
	}
	assert_int_equal(score.count, 4);
	assert_int_equal(score.correct,
			 3); /* the last is wrong; of equal outputs the first wins: 1 */
	assert_true(fabs(score.loss_sum - want) < 1e-5);
	assert_int_equal(learn_model_eval(model, w, &data, &data.test, 1, 2, &part), 0);
	assert_int_equal(part.count, 2);
	assert_int_equal(part.correct, 2);
	assert_int_equal(learn_model_eval(model, w, &data, &data.test, 4, 0, &part), 0);
	assert_int_equal(part.count, 0);
	learn_model_destroy(model);
}

static void extreme_weights_give_finite_losses_and_nan_shows(void **state)
{
	const struct learn_key key = { .seed = 1 };
	static const char *const names[] = { "softmax", "mlp:8", "cnn" };
	struct learn_data *data = open_data("synthetic:train=50,test=40,shape=28x28");
	struct learn_batch *batch = draw(data, &key, 32);

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct learn_model *model = create(names[i], &data->shape, NULL);
		size_t n = model->param_count;
		float *w = floats(n);
		float *grad = floats(n);
		struct learn_score score;
		double loss;

		learn_model_init(model, 1, w);
		for (size_t j = 0; j < n; j++)
			w[j] *= 500;
		assert_int_equal(learn_model_grad(model, w, batch, &key, grad, &loss), 0);
		assert_true(isfinite(loss) && loss > 50);
		for (size_t j = 0; j < n; j++)
			assert_true(isfinite(grad[j]));
		for (size_t j = 0; j < n; j++)
			w[j] = NAN;
		assert_int_equal(learn_model_grad(model, w, batch, &key, grad, &loss), 0);
		assert_true(isnan(loss));
		assert_int_equal(learn_model_eval(model, w, data, &data->test, 0, 40, &score), 0);
		assert_int_equal(score.correct, 0);
		assert_true(isnan(score.loss_sum));
		/* one bad weight of the first layer is enough */
		learn_model_init(model, 1, w);
		w[5] = NAN;
		assert_int_equal(learn_model_grad(model, w, batch, &key, grad, &loss), 0);
		assert_true(isnan(loss));
		/* and leaves nothing behind in the model */
		learn_model_init(model, 1, w);
		assert_int_equal(learn_model_grad(model, w, batch, &key, grad, &loss), 0);
		assert_true(isfinite(loss) && loss < 4);
		free(w);
		free(grad);
		learn_model_destroy(model);
	}
	learn_batch_destroy(batch);
	learn_data_close(data);
}

/* train -- plain SGD; returns accuracy on the test set */
static double train(const char *name, const char *spec, float rate, uint64_t steps)
{
	struct learn_data *data = open_data(spec);
	struct learn_model *model = create(name, &data->shape, NULL);
	size_t n = model->param_count;
	struct learn_batch *batch = NULL;
	float *w = floats(n);
	float *grad = floats(n);
	struct learn_score score;
	double loss;

	assert_int_equal(learn_batch_create(&data->shape, 32, &batch), 0);
	learn_model_init(model, 1, w);
	for (uint64_t step = 0; step < steps; step++) {
		const struct learn_key key = { .seed = 1, .step = step };

		assert_int_equal(learn_batch_draw(data, &key, 32, batch), 0);
		assert_int_equal(learn_model_grad(model, w, batch, &key, grad, &loss), 0);
		for (size_t i = 0; i < n; i++)
			w[i] -= rate * grad[i];
	}
	assert_int_equal(learn_model_eval(model, w, data, &data->test, 0, data->test.count, &score),
			 0);
	free(w);
	free(grad);
	learn_batch_destroy(batch);
	learn_model_destroy(model);
	learn_data_close(data);
	return (double)score.correct / (double)score.count;
}

static void models_learn(void **state)
{
	(void)state;
	assert_true(train("softmax", "synthetic:train=4000,test=1000", 0.1f, 300) > 0.9);
	assert_true(train("mlp", "synthetic:train=4000,test=1000", 0.1f, 300) > 0.9);
	assert_true(train("cnn", "synthetic:train=500,test=200,shape=28x28,noise=0.5", 0.03f, 60) >
		    0.9);
	assert_true(train("softmax", "synthetic:train=500,test=1000", 0.1f, 0) < 0.3);
}

static void blocks_cover_the_vector_output_by_output(void **state)
{
	static const char *const names[] = { "softmax", "mlp:20,30", "cnn" };
	static const size_t counts[] = { 10 + 1, 20 + 1 + 30 + 1 + 10 + 1,
					 16 + 1 + 32 + 1 + 512 + 1 + 10 + 1 };
	static const uint64_t first[] = { 784, 784, 9 };
	static const uint64_t last[] = { 10, 10, 10 };
	uint64_t lengths[600];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct learn_model *model = create(names[i], &image_shape, NULL);
		size_t sum = 0;

		assert_int_equal(learn_model_blocks(model, NULL), counts[i]);
		assert_int_equal(learn_model_blocks(model, lengths), counts[i]);
		for (size_t b = 0; b < counts[i]; b++)
			sum += lengths[b];
		assert_int_equal(sum, model->param_count);
		assert_int_equal(lengths[0], first[i]);
		assert_int_equal(lengths[counts[i] - 1], last[i]);
		learn_model_destroy(model);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layers_lie_in_the_published_order),
		cmocka_unit_test(names_give_the_layers),
		cmocka_unit_test(wrong_names_and_options_are_refused),
		cmocka_unit_test(first_weights_are_uniform_within_the_fan_in_bound),
		cmocka_unit_test(first_weights_have_known_bits),
		cmocka_unit_test(the_same_input_gives_the_same_bits),
		cmocka_unit_test(dropout_follows_the_key),
		cmocka_unit_test(wrong_batches_are_refused),
		cmocka_unit_test(eval_counts_and_sums),
		cmocka_unit_test(extreme_weights_give_finite_losses_and_nan_shows),
		cmocka_unit_test(models_learn),
		cmocka_unit_test(blocks_cover_the_vector_output_by_output),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
