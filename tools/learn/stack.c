/* SPDX-License-Identifier: BSD-3-Clause */

/* stack.c -- dense layers, ReLU, dropout, softmax cross-entropy: forwards and backwards */

#include "learn/stack.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "learn/blas.h"
#include "learn/source.h"

enum {
	DRAW_SAMPLES = 16, /* samples of one unit that one draw of 16 bytes masks */
	DROP_STEPS = 256, /* dropout rates are multiples of 1/256: one random byte each */
	DROP_LAYER_SHIFT = 28 /* the upper bits of a draw's index name the layer */
};

static_assert(DRAW_SAMPLES == sizeof(struct learn_rng_block), "a byte for each sample");
static_assert((uint64_t)LEARN_WIDTH_MAX * LEARN_BATCH_MAX / DRAW_SAMPLES <=
		      1ull << DROP_LAYER_SHIFT,
	      "the draws of one layer fit below the layer's number");
static_assert(LEARN_LAYERS_MAX <= 1 << (32 - DROP_LAYER_SHIFT), "and that fits above them");

int learn_stack_init(struct learn_stack *stack, const size_t *widths, size_t layer_count,
		     size_t offset, size_t count_max)
{
	size_t widest = widths[0];

	stack->layer_count = layer_count;
	for (size_t l = 0; l < layer_count; l++) {
		struct learn_stack_layer *layer = &stack->layers[l];

		*layer = (struct learn_stack_layer){ .in = widths[l],
						     .out = widths[l + 1],
						     .offset = offset };
		offset += (widths[l] + 1) * widths[l + 1];
		widest = widths[l + 1] > widest ? widths[l + 1] : widest;
		if (l > 0) {
			layer->x = learn_alloc(widths[l] * count_max, sizeof(float));
			if (layer->x == NULL)
				return -ENOMEM;
		}
	}
	stack->logits = learn_alloc(widths[layer_count] * count_max, sizeof(float));
	stack->dy = learn_alloc(widest * count_max, sizeof(float));
	stack->dx = learn_alloc(widest * count_max, sizeof(float));
	if (stack->logits == NULL || stack->dy == NULL || stack->dx == NULL)
		return -ENOMEM;
	return 0;
}

void learn_stack_fini(struct learn_stack *stack)
{
	for (size_t l = 0; l < stack->layer_count; l++)
		free(stack->layers[l].x);
	free(stack->logits);
	free(stack->dy);
	free(stack->dx);
}

/* relu -- v if above 0, else 0; a NaN stays one */
static inline float relu(float v)
{
	return v < 0 ? 0 : v;
}

/* activate -- ReLU and dropout between hidden layer l and the next, in place; a dropped unit becomes
 * 0 */
static void activate(const struct learn_stack *stack, size_t l, size_t count,
		     const struct learn_key *key, float *y)
{
	size_t out = stack->layers[l].out;
	float scale = (float)DROP_STEPS / (float)(DROP_STEPS - stack->drop);

	if (key == NULL || stack->drop == 0) {
		for (size_t i = 0; i < out * count; i++)
			y[i] = relu(y[i]);
		return;
	}
	for (size_t first = 0; first < count; first += DRAW_SAMPLES, y += DRAW_SAMPLES * out) {
		size_t left = count - first;

		for (size_t o = 0; o < out; o++) {
			size_t index = l << DROP_LAYER_SHIFT | (first / DRAW_SAMPLES * out + o);
			struct learn_rng_block bits =
				learn_rng_draw(key, LEARN_RNG_DROPOUT, (uint32_t)index);

			for (size_t s = 0; s < DRAW_SAMPLES && s < left; s++) {
				uint32_t byte = bits.word[s / 4] >> 8 * (s % 4) & 0xff;
				float *unit = y + s * out + o;

				*unit = byte < stack->drop ? 0 : relu(*unit) * scale;
			}
		}
	}
}

void learn_stack_forward(struct learn_stack *stack, const float *w, const float *x, size_t count,
			 const struct learn_key *key)
{
	for (size_t l = 0; l < stack->layer_count; l++) {
		const struct learn_stack_layer *layer = &stack->layers[l];
		const float *weights = w + layer->offset;
		const float *bias = weights + layer->in * layer->out;
		bool last = l + 1 == stack->layer_count;
		float *y = last ? stack->logits : layer[1].x;

		for (size_t s = 0; s < count; s++)
			memcpy(y + s * layer->out, bias, layer->out * sizeof(*y));
		learn_blas_product(LEARN_TURNED_B, count, layer->out, layer->in,
				   l > 0 ? layer->x : x, weights, 1, y);
		if (!last)
			activate(stack, l, count, key, y);
		for (size_t i = 0; last && stack->final_relu && i < layer->out * count; i++)
			y[i] = relu(y[i]);
	}
}

/* sample_loss -- -log softmax of one sample; *ret_max is its largest logit, *ret_sum that of
 * exp(logit - max) */
static double sample_loss(const float *logits, size_t classes, size_t label, float *ret_max,
			  float *ret_sum)
{
	float max = logits[0];
	float sum = 0;

	for (size_t c = 1; c < classes; c++)
		max = logits[c] > max ? logits[c] : max;
	for (size_t c = 0; c < classes; c++)
		sum += expf(logits[c] - max);
	*ret_max = max;
	*ret_sum = sum;
	return (double)(max - logits[label]) + log((double)sum);
}

void learn_stack_score(const struct learn_stack *stack, const uint16_t *labels, size_t count,
		       struct learn_score *score)
{
	size_t classes = stack->layers[stack->layer_count - 1].out;

	for (size_t s = 0; s < count; s++) {
		const float *logits = stack->logits + s * classes;
		size_t best = 0;
		float max, sum;

		score->loss_sum += sample_loss(logits, classes, labels[s], &max, &sum);
		for (size_t c = 1; c < classes; c++)
			best = logits[c] > logits[best] ? c : best;
		if (best == labels[s] && !isnan(sum))
			score->correct++;
	}
	score->count += count;
}

/* loss_backward -- put the gradient of the mean loss by the logits into stack->dy; returns the loss
 */
static double loss_backward(struct learn_stack *stack, const uint16_t *labels, size_t count)
{
	size_t classes = stack->layers[stack->layer_count - 1].out;
	float part = 1.0f / (float)count;
	double loss = 0;

	for (size_t s = 0; s < count; s++) {
		const float *logits = stack->logits + s * classes;
		float *dy = stack->dy + s * classes;
		float max, sum;

		loss += sample_loss(logits, classes, labels[s], &max, &sum);
		for (size_t c = 0; c < classes; c++) {
			float p = expf(logits[c] - max) / sum;
			bool stopped = stack->final_relu && logits[c] <= 0;

			dy[c] = stopped ? 0 : (p - (float)(labels[s] == c)) * part;
		}
	}
	return loss / (double)count;
}

/* rows_sum -- the sum of count rows of `out` numbers */
static void rows_sum(const float *restrict rows, size_t count, size_t out, float *restrict sum)
{
	memset(sum, 0, out * sizeof(*sum));
	for (size_t s = 0; s < count; s++) {
		for (size_t o = 0; o < out; o++)
			sum[o] += rows[s * out + o];
	}
}

double learn_stack_backward(struct learn_stack *stack, const float *w, const float *x,
			    const uint16_t *labels, size_t count, bool want_input, float *grad)
{
	float scale = (float)DROP_STEPS / (float)(DROP_STEPS - stack->drop);
	double loss = loss_backward(stack, labels, count);

	for (size_t l = stack->layer_count; l-- > 0;) {
		const struct learn_stack_layer *layer = &stack->layers[l];
		size_t in = layer->in;
		size_t out = layer->out;
		float *dw = grad + layer->offset;
		float *swap = stack->dy;

		learn_blas_product(LEARN_TURNED_A, out, in, count, stack->dy, l > 0 ? layer->x : x,
				   0, dw);
		rows_sum(stack->dy, count, out, dw + in * out);
		if (l == 0 && !want_input)
			break;
		learn_blas_product(LEARN_TURNED_NONE, count, in, out, stack->dy, w + layer->offset,
				   0, stack->dx);
		/* A unit that ReLU or dropout has set to 0 is 0 in x. */
		for (size_t i = 0; l > 0 && i < in * count; i++)
			stack->dx[i] = layer->x[i] > 0 ? stack->dx[i] * scale : 0;
		stack->dy = stack->dx;
		stack->dx = swap;
	}
	return loss;
}
