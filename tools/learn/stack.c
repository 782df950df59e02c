/* SPDX-License-Identifier: BSD-3-Clause */

/* stack.c -- dense layers, ReLU, dropout, softmax cross-entropy: forwards and backwards */

#include "learn/stack.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "learn/source.h"

enum {
	BLOCK = 16, /* learn_transpose() works in squares of this side: one cache line */
	DROP_STEPS = 256, /* dropout rates are multiples of 1/256: one random byte each */
	DROP_LAYER_SHIFT = 28 /* the upper bits of a draw's index name the layer */
};

static_assert(LEARN_LANES == sizeof(struct learn_rng_block), "one draw masks one row of lanes");
static_assert((uint64_t)LEARN_WIDTH_MAX * LEARN_BATCH_MAX / LEARN_LANES <= 1ull << DROP_LAYER_SHIFT,
	      "the draws of one layer fit below the layer's number");
static_assert(LEARN_LAYERS_MAX <= 1 << (32 - DROP_LAYER_SHIFT), "and that fits above them");

void learn_transpose(const float *from, size_t rows, size_t cols, size_t from_row, float *to,
		     size_t to_row)
{
	for (size_t r0 = 0; r0 < rows; r0 += BLOCK) {
		size_t r_end = r0 + BLOCK < rows ? r0 + BLOCK : rows;

		for (size_t c0 = 0; c0 < cols; c0 += BLOCK) {
			size_t c_end = c0 + BLOCK < cols ? c0 + BLOCK : cols;

			for (size_t c = c0; c < c_end; c++) {
				for (size_t r = r0; r < r_end; r++)
					to[c * to_row + r] = from[r * from_row + c];
			}
		}
	}
}

int learn_stack_init(struct learn_stack *stack, const size_t *widths, size_t layer_count,
		     size_t offset, size_t lanes_max)
{
	size_t widest = 0;

	stack->kernels = learn_kernels_best();
	stack->layer_count = layer_count;
	stack->lanes_max = lanes_max;
	for (size_t l = 0; l < layer_count; l++) {
		struct learn_stack_layer *layer = &stack->layers[l];

		layer->dense = (struct learn_dense){ .in = widths[l], .out = widths[l + 1] };
		layer->offset = offset;
		offset += (widths[l] + 1) * widths[l + 1];
		layer->xt = learn_alloc(widths[l] * lanes_max, sizeof(float));
		if (l > 0)
			layer->x = learn_alloc(widths[l] * lanes_max, sizeof(float));
		if (layer->xt == NULL || (l > 0 && layer->x == NULL))
			return -ENOMEM;
	}
	for (size_t l = 0; l <= layer_count; l++)
		widest = widths[l] > widest ? widths[l] : widest;
	stack->logits = learn_alloc(widths[layer_count] * lanes_max, sizeof(float));
	stack->dyt = learn_alloc(widest * lanes_max, sizeof(float));
	stack->dxt = learn_alloc(widest * lanes_max, sizeof(float));
	if (stack->logits == NULL || stack->dyt == NULL || stack->dxt == NULL)
		return -ENOMEM;
	return 0;
}

void learn_stack_fini(struct learn_stack *stack)
{
	for (size_t l = 0; l < stack->layer_count; l++) {
		free(stack->layers[l].x);
		free(stack->layers[l].xt);
	}
	free(stack->logits);
	free(stack->dyt);
	free(stack->dxt);
}

/* relu -- v above 0; a NaN stays one */
static inline float relu(float v)
{
	return v < 0 ? 0 : v;
}

/* relu_drop -- ReLU and dropout of one row of LEARN_LANES activations; a dropped one is 0 from here
 * on */
static void relu_drop(float *y, const struct learn_rng_block *bits, unsigned drop, float scale)
{
	for (unsigned j = 0; j < LEARN_LANES; j++) {
		uint32_t byte = bits->word[j / 4] >> 8 * (j % 4) & 0xff;

		y[j] = byte < drop ? 0 : relu(y[j]) * scale;
	}
}

/* activate -- what lies between hidden layer l and the next, in place */
static void activate(const struct learn_stack *stack, size_t l, size_t lanes,
		     const struct learn_key *key, float *yt)
{
	size_t out = stack->layers[l].dense.out;
	float scale = (float)DROP_STEPS / (float)(DROP_STEPS - stack->drop);

	if (key == NULL || stack->drop == 0) {
		for (size_t i = 0; i < out * lanes; i++)
			yt[i] = relu(yt[i]);
		return;
	}
	for (size_t s = 0; s < lanes; s += LEARN_LANES) {
		for (size_t o = 0; o < out; o++) {
			size_t index = l << DROP_LAYER_SHIFT | (s / LEARN_LANES * out + o);
			struct learn_rng_block bits =
				learn_rng_draw(key, LEARN_RNG_DROPOUT, (uint32_t)index);

			relu_drop(yt + o * lanes + s, &bits, stack->drop, scale);
		}
	}
}

void learn_stack_forward(struct learn_stack *stack, const float *w, const float *x, size_t count,
			 const struct learn_key *key)
{
	size_t lanes = learn_stack_lanes(count);

	for (size_t l = 0; l < stack->layer_count; l++) {
		struct learn_stack_layer *layer = &stack->layers[l];
		const float *weights = w + layer->offset;
		const float *bias = weights + layer->dense.in * layer->dense.out;
		bool last = l + 1 == stack->layer_count;
		float *yt = last ? stack->logits : stack->layers[l + 1].xt;

		if (l == 0)
			learn_transpose(x, count, layer->dense.in, layer->dense.in, layer->xt,
					lanes);
		stack->kernels->dense_forward(&layer->dense, weights, bias, layer->xt, lanes, yt);
		if (!last) {
			activate(stack, l, lanes, key, yt);
			learn_transpose(yt, layer->dense.out, count, lanes, layer[1].x,
					layer->dense.out);
			continue;
		}
		for (size_t i = 0; stack->final_relu && i < layer->dense.out * lanes; i++)
			yt[i] = relu(yt[i]);
	}
}

/* sample_loss -- -log softmax of one sample; *ret_max is its largest logit, *ret_sum that of
 * exp(logit - max) */
static double sample_loss(const float *logits, size_t classes, size_t lanes, size_t label,
			  float *ret_max, float *ret_sum)
{
	float max = logits[0];
	float sum = 0;

	for (size_t c = 1; c < classes; c++)
		max = logits[c * lanes] > max ? logits[c * lanes] : max;
	for (size_t c = 0; c < classes; c++)
		sum += expf(logits[c * lanes] - max);
	*ret_max = max;
	*ret_sum = sum;
	return (double)(max - logits[label * lanes]) + log((double)sum);
}

void learn_stack_score(const struct learn_stack *stack, const uint16_t *labels, size_t count,
		       struct learn_score *score)
{
	size_t classes = stack->layers[stack->layer_count - 1].dense.out;
	size_t lanes = learn_stack_lanes(count);

	for (size_t s = 0; s < count; s++) {
		const float *logits = stack->logits + s;
		size_t best = 0;
		float max, sum;

		score->loss_sum += sample_loss(logits, classes, lanes, labels[s], &max, &sum);
		for (size_t c = 1; c < classes; c++)
			best = logits[c * lanes] > logits[best * lanes] ? c : best;
		if (best == labels[s] && !isnan(sum))
			score->correct++;
	}
	score->count += count;
}

/* loss_backward -- the gradient of the mean loss by the logits to stack->dyt; returns the loss */
static double loss_backward(struct learn_stack *stack, const uint16_t *labels, size_t count,
			    size_t lanes)
{
	size_t classes = stack->layers[stack->layer_count - 1].dense.out;
	float part = 1.0f / (float)count;
	double loss = 0;

	for (size_t s = 0; s < lanes; s++) {
		const float *logits = stack->logits + s;
		float *dyt = stack->dyt + s;
		float max = 0;
		float sum = 1;

		if (s < count)
			loss += sample_loss(logits, classes, lanes, labels[s], &max, &sum);
		for (size_t c = 0; c < classes; c++) {
			float p = expf(logits[c * lanes] - max) / sum;

			dyt[c * lanes] = 0;
			if (s < count && !(stack->final_relu && logits[c * lanes] <= 0))
				dyt[c * lanes] = (p - (float)(labels[s] == c)) * part;
		}
	}
	return loss / (double)count;
}

double learn_stack_backward(struct learn_stack *stack, const float *w, const float *x,
			    const uint16_t *labels, size_t count, bool want_input, float *grad)
{
	const struct learn_kernels *kernels = stack->kernels;
	float scale = (float)DROP_STEPS / (float)(DROP_STEPS - stack->drop);
	size_t lanes = learn_stack_lanes(count);
	double loss = loss_backward(stack, labels, count, lanes);

	for (size_t l = stack->layer_count; l-- > 0;) {
		struct learn_stack_layer *layer = &stack->layers[l];
		size_t in = layer->dense.in;
		size_t out = layer->dense.out;
		float *dw = grad + layer->offset;
		float *swap = stack->dyt;

		kernels->dense_weight(&layer->dense, l > 0 ? layer->x : x, stack->dyt, lanes, count,
				      dw);
		for (size_t o = 0; o < out; o++) {
			float sum = 0;

			for (size_t s = 0; s < count; s++)
				sum += stack->dyt[o * lanes + s];
			dw[in * out + o] = sum;
		}
		if (l == 0 && !want_input)
			break;
		kernels->dense_data(&layer->dense, w + layer->offset, stack->dyt, lanes,
				    stack->dxt);
		/* A unit that ReLU or dropout had stopped is 0 in xt. */
		for (size_t i = 0; l > 0 && i < in * lanes; i++)
			stack->dxt[i] = layer->xt[i] > 0 ? stack->dxt[i] * scale : 0;
		stack->dyt = stack->dxt;
		stack->dxt = swap;
	}
	return loss;
}
