/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * stack.h -- inside the room: dense layers on top of each other, softmax cross-entropy at the end
 *
 * Activations and their gradients lie sample by sample, weights are [out][in].
 */
#ifndef LEARN_STACK_H
#define LEARN_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "learn/model.h"

struct learn_stack_layer {
	size_t in;
	size_t out;
	size_t offset; /* of its weights, in floats from the start of the model's vector */
	float *x; /* [count][in], the layer's input; NULL for the first layer: the caller's */
};

struct learn_stack {
	size_t layer_count;
	struct learn_stack_layer layers[LEARN_LAYERS_MAX];
	bool final_relu;
	unsigned drop; /* an activation is dropped if its random byte is below this */
	float *logits; /* [count][classes] */
	float *dy; /* [count][widest layer], and one to swap with */
	float *dx;
};

/*
 * learn_stack_init -- a stack of the widths in[0], in[1] ... in[layer_count], weights from float
 * `offset` on
 *
 * Returns -ENOMEM or 0; fini in either case.
 */
int learn_stack_init(struct learn_stack *stack, const size_t *widths, size_t layer_count,
		     size_t offset, size_t count_max);
void learn_stack_fini(struct learn_stack *stack);

/* learn_stack_forward -- x to logits; key NULL: no dropout */
void learn_stack_forward(struct learn_stack *stack, const float *w, const float *x, size_t count,
			 const struct learn_key *key);

/* learn_stack_score -- losses and hits of the last forward */
void learn_stack_score(const struct learn_stack *stack, const uint16_t *labels, size_t count,
		       struct learn_score *score);

/*
 * learn_stack_backward -- put the gradient of the mean loss into grad; returns the loss
 *
 * x as given to forward. want_input: leave the gradient of the stack's input in stack->dy,
 * [count][in].
 */
double learn_stack_backward(struct learn_stack *stack, const float *w, const float *x,
			    const uint16_t *labels, size_t count, bool want_input, float *grad);

#endif /* LEARN_STACK_H */
