/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * stack.h -- inside the room: dense layers on top of each other, softmax cross-entropy at the end
 *
 * Activations are kept twice: sample by sample (x), as the weight gradient wants them, and feature
 * by feature (xt, padded to `lanes` samples), as everything else does. What the padding holds is
 * never looked at.
 */
#ifndef LEARN_STACK_H
#define LEARN_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "learn/kernel.h"
#include "learn/model.h"

struct learn_stack_layer {
	struct learn_dense dense;
	size_t offset; /* of its weights, in floats from the start of the model's vector */
	float *x; /* [count][in], the layer's input; the first layer's is the caller's */
	float *xt; /* [in][lanes] */
};

struct learn_stack {
	const struct learn_kernels *kernels;
	size_t layer_count;
	struct learn_stack_layer layers[LEARN_LAYERS_MAX];
	bool final_relu;
	unsigned drop; /* an activation is dropped if its random byte is below this */
	size_t lanes_max;
	float *logits; /* [classes][lanes] */
	float *dyt; /* [widest layer][lanes], and one to swap with */
	float *dxt;
};

/*
 * learn_stack_init -- a stack of the widths in[0], in[1] ... in[layer_count], weights from float
 * `offset` on
 *
 * Returns -ENOMEM or 0; fini in either case.
 */
int learn_stack_init(struct learn_stack *stack, const size_t *widths, size_t layer_count,
		     size_t offset, size_t lanes_max);
void learn_stack_fini(struct learn_stack *stack);

/* learn_stack_forward -- x to logits; key NULL: no dropout */
void learn_stack_forward(struct learn_stack *stack, const float *w, const float *x, size_t count,
			 const struct learn_key *key);

/* learn_stack_score -- losses and hits of what forward left */
void learn_stack_score(const struct learn_stack *stack, const uint16_t *labels, size_t count,
		       struct learn_score *score);

/*
 * learn_stack_backward -- the gradient of the mean loss to grad; the loss itself is returned
 *
 * x as given to forward. want_input: leave the gradient of the stack's input in stack->dyt,
 * [in][lanes].
 */
double learn_stack_backward(struct learn_stack *stack, const float *w, const float *x,
			    const uint16_t *labels, size_t count, bool want_input, float *grad);

/* learn_stack_lanes -- count rounded up to what the kernels take */
static inline size_t learn_stack_lanes(size_t count)
{
	return (count + LEARN_LANES - 1) / LEARN_LANES * LEARN_LANES;
}

/* learn_transpose -- from [rows][from_row] to [cols][to_row] */
void learn_transpose(const float *from, size_t rows, size_t cols, size_t from_row, float *to,
		     size_t to_row);

#endif /* LEARN_STACK_H */
