/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * gradient_test.c -- loss and gradient are those of the model's definition, to float accuracy
 *
 * The model is defined again here, in double and slowly; its loss is the expected loss, and central
 * differences of it are the expected gradient.
 */

#include "learn/model.h"
#include "unit/learn/learn_util.h"

enum {
	WIDTHS_MAX = 6,
	CELLS_MAX = 32 * 28 * 28,
	PER_PART = 8 /* coordinates looked at of each layer's weights, and of its biases */
};

struct reference {
	const char *name;
	const char *spec; /* of the data */
	bool cnn;
	bool final_relu;
	float dropout; /* a multiple of 1/256 */
	unsigned batch;
	size_t widths[WIDTHS_MAX]; /* of the dense layers, 0 after the last */
};

static const struct reference references[] = {
	{ "softmax",
	  "synthetic:train=50,test=1,features=19,classes=3",
	  false,
	  false,
	  0,
	  5,
	  { 19, 3 } },
	{ "softmax",
	  "synthetic:train=50,test=1,features=19,classes=3",
	  false,
	  true,
	  0,
	  17,
	  { 19, 3 } },
	{ "mlp:13,9",
	  "synthetic:train=50,test=1,features=21",
	  false,
	  false,
	  0,
	  21,
	  { 21, 13, 9, 10 } },
	{ "mlp:40,33",
	  "synthetic:train=90,test=1,features=50",
	  false,
	  false,
	  0.5f,
	  49,
	  { 50, 40, 33, 10 } },
	{ "mlp:8", "synthetic:train=50,test=1,features=16", false, true, 0.25f, 1, { 16, 8, 10 } },
	{ "cnn",
	  "synthetic:train=50,test=1,shape=28x28",
	  true,
	  false,
	  0.25f,
	  3,
	  { 1568, 512, 10 } },
	{ "cnn", "synthetic:train=50,test=1,shape=28x28", true, true, 0, 2, { 1568, 512, 10 } },
};

static double buffers[2][CELLS_MAX];

/* conv_pool -- 3x3 convolution with a border of zeros, ReLU, 2x2 max pooling; channel by channel */
static const double *conv_pool(const double *w, size_t cin, size_t cout, size_t side,
			       const double *in, double *out)
{
	static double full[CELLS_MAX];
	const double *bias = w + cout * cin * 9;
	size_t half = side / 2;

	for (size_t o = 0; o < cout; o++) {
		for (size_t p = 0; p < side * side; p++) {
			double sum = bias[o];

			for (size_t k = 0; k < cin * 9; k++) {
				size_t y = p / side + k % 9 / 3 - 1; /* wraps above the border */
				size_t x = p % side + k % 3 - 1;

				if (y < side && x < side)
					sum += w[o * cin * 9 + k] *
					       in[(k / 9 * side + y) * side + x];
			}
			full[o * side * side + p] = fmax(sum, 0);
		}
		for (size_t p = 0; p < half * half; p++) {
			const double *at =
				full + o * side * side + p / half * 2 * side + p % half * 2;

			out[o * half * half + p] =
				fmax(fmax(at[0], at[1]), fmax(at[side], at[side + 1]));
		}
	}
	return bias + cout;
}

/* kept -- what dropout multiplies unit o of hidden layer l by, for sample s of the batch */
static double kept(const struct reference *ref, const struct learn_key *key, size_t l, size_t o,
		   size_t s)
{
	uint32_t index = (uint32_t)(l << 28 | (s / 16 * ref->widths[l + 1] + o));
	struct learn_rng_block block;
	unsigned byte;

	if (ref->dropout <= 0)
		return 1;
	block = learn_rng_draw(key, LEARN_RNG_DROPOUT, index);
	byte = block.word[s % 16 / 4] >> 8 * (s % 4) & 255;
	return byte < (unsigned)(ref->dropout * 256) ? 0 : 1 / (1 - (double)ref->dropout);
}

static double sample_loss(const struct reference *ref, const double *w, const float *x,
			  const struct learn_key *key, size_t s, size_t label)
{
	double *in = buffers[0];
	double *out = buffers[1];
	double sum = 0;
	size_t l;

	for (size_t i = 0; i < (ref->cnn ? 784 : ref->widths[0]); i++)
		in[i] = (double)x[i];
	if (ref->cnn) {
		w = conv_pool(w, 1, 16, 28, in, out);
		w = conv_pool(w, 16, 32, 14, out, in);
	}
	for (l = 0; ref->widths[l + 1] != 0; l++) {
		size_t n = ref->widths[l];
		size_t m = ref->widths[l + 1];
		bool last = ref->widths[l + 2] == 0;
		double *swap = in;

		for (size_t o = 0; o < m; o++) {
			out[o] = w[n * m + o];
			for (size_t i = 0; i < n; i++)
				out[o] += w[o * n + i] * in[i];
			if (!last)
				out[o] = fmax(out[o], 0) * kept(ref, key, l, o, s);
			else if (ref->final_relu)
				out[o] = fmax(out[o], 0);
		}
		w += (n + 1) * m;
		in = out;
		out = swap;
	}
	for (size_t c = 0; c < ref->widths[l]; c++)
		sum += exp(in[c]);
	return log(sum) - in[label];
}

static double mean_loss(const struct reference *ref, const double *w,
			const struct learn_batch *batch, const struct learn_key *key)
{
	double sum = 0;

	for (unsigned s = 0; s < batch->count; s++)
		sum += sample_loss(ref, w, batch->x + s * batch->features, key, s,
				   batch->labels[s]);
	return sum / batch->count;
}

/* check_part -- PER_PART coordinates spread over `count` from `offset` on */
static void check_part(const struct reference *ref, const char *part, double *w,
		       const struct learn_batch *batch, const struct learn_key *key,
		       const float *grad, size_t offset, size_t count)
{
	const double step = 1e-6;
	struct learn_key pick = { .seed = offset };

	for (unsigned i = 0; i < PER_PART; i++) {
		struct learn_rng_block block = learn_rng_draw(&pick, LEARN_RNG_INIT, i);
		size_t at = offset + learn_rng_below(block.word[0], block.word[1], (uint32_t)count);
		double before = w[at];
		double want;

		w[at] = before + step;
		want = mean_loss(ref, w, batch, key);
		w[at] = before - step;
		want = (want - mean_loss(ref, w, batch, key)) / (2 * step);
		w[at] = before;
		if (!(fabs(want - (double)grad[at]) < 3e-4 * fabs(want) + 2e-6))
			fail_msg("%s %s: element %zu is %g, differences say %g", ref->name, part,
				 at, (double)grad[at], want);
	}
}

static void check_reference(const struct reference *ref)
{
	const struct learn_key key = { .seed = 11, .step = 6, .worker = 2 };
	struct learn_model_opts opts;
	const struct learn_layer *layers;
	struct learn_model *model;
	struct learn_batch *batch;
	struct learn_data *data;
	char err[ERR_LEN];
	size_t layer_count, count;
	float *w, *grad;
	double *exact;
	double loss;

	assert_int_equal(learn_data_open(ref->spec, &data, err, sizeof(err)), 0);
	learn_model_opts_init(&opts);
	opts.final_relu = ref->final_relu;
	opts.dropout = ref->dropout;
	opts.batch_max = ref->batch;
	assert_int_equal(
		learn_model_create(ref->name, &data->shape, &opts, &model, err, sizeof(err)), 0);
	assert_int_equal(learn_batch_create(&data->shape, ref->batch, &batch), 0);
	assert_int_equal(learn_batch_draw(data, &key, ref->batch, batch), 0);
	count = model->param_count;
	w = floats(count);
	grad = floats(count);
	exact = calloc(count, sizeof(*exact));
	assert_non_null(exact);
	learn_model_init(model, 4, w);
	for (size_t i = 0; i < count; i++) {
		grad[i] = NAN;
		exact[i] = (double)w[i];
	}
	assert_int_equal(learn_model_grad(model, w, batch, &key, grad, &loss), 0);
	assert_true(fabs(loss - mean_loss(ref, exact, batch, &key)) < 1e-5);
	for (size_t i = 0; i < count; i++)
		assert_true(isfinite(grad[i]));
	layers = model->layers;
	layer_count = model->layer_count;
	for (size_t l = 0; l < layer_count; l++) {
		check_part(ref, layers[l].name, exact, batch, &key, grad, layers[l].offset,
			   layers[l].weights);
		check_part(ref, layers[l].name, exact, batch, &key, grad,
			   layers[l].offset + layers[l].weights, layers[l].biases);
	}
	free(exact);
	free(grad);
	free(w);
	learn_batch_destroy(batch);
	learn_model_destroy(model);
	learn_data_close(data);
}

static void dense_gradients_match_differences(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(references) / sizeof(references[0]); i++) {
		if (!references[i].cnn)
			check_reference(&references[i]);
	}
}

static void cnn_gradients_match_differences(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(references) / sizeof(references[0]); i++) {
		if (references[i].cnn)
			check_reference(&references[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dense_gradients_match_differences),
		cmocka_unit_test(cnn_gradients_match_differences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
