/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * model.h -- classifiers as functions of a flat weight vector
 *
 * A model holds no weights: they live wherever the caller keeps them (a mirror, a snapshot, a
 *slot), as one vector of learn_model_param_count() floats, layer after layer, in each layer weights
 *and then biases. Dense weights are [output][input], convolution weights [output channel][input
 *channel][row][column], and the CNN's flattened images channel by channel: PyTorch's order. The
 *loss is softmax cross-entropy, the mean over the batch.
 *
 *	name        layers
 *	softmax     features -> classes
 *	mlp         mlp:128,64
 *	mlp:A,B,... features -> A -> B ... -> classes; ReLU (and dropout) after each but the last
 *	cnn         1x28x28 -> conv 16 3x3 pad 1, ReLU, max pool 2 -> conv 32 3x3 pad 1, ReLU, max
 *pool 2
 *	            -> 1568 -> 512, ReLU, dropout 0.25 -> classes; 813,258 parameters for 10 classes
 *
 * DETERMINISM. Same weights, batch and key: same gradient, bit for bit, with one version of
 *OpenBLAS and one kind of its kernels (blas.h), whatever the alignment of the buffers. First
 *weights have the same bits on every machine.
 *
 * NON-FINITE NUMBERS propagate: weights that have diverged give a loss that is not finite. The
 *caller decides.
 *
 * THREADING. A model is a workspace, allocated once at create; one model per thread. No call starts
 *threads.
 */
#ifndef LEARN_MODEL_H
#define LEARN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "learn/data.h"

enum {
	LEARN_LAYERS_MAX = 8, /* layers that have parameters */
	LEARN_WIDTH_MAX = 1 << 16 /* of a hidden layer */
};

struct learn_model;

/* Set by learn_model_opts_init(); overwrite the fields you care about. */
struct learn_model_opts {
	size_t size; /* sizeof(struct learn_model_opts) */
	unsigned batch_max; /* largest batch of learn_model_grad(); default 32 */
	float dropout; /* rate after hidden ReLUs, 0 to 0.9, in steps of 1/256; below 0 (default):
			  the model's own */
	bool final_relu; /* a ReLU after the last layer too, as in the paper's code; default false
			  */
};

/* Where a layer lies in the weight vector. */
struct learn_layer {
	const char *name; /* "conv1", "dense2" ... */
	size_t offset; /* of its weights; its biases follow them */
	size_t weights;
	size_t biases;
	size_t fan_in; /* inputs of one output */
};

struct learn_score {
	size_t count; /* samples looked at */
	size_t correct; /* whose label has the largest output; never a sample with a NaN output */
	double loss_sum; /* divide by count for the mean */
};

void learn_model_opts_init(struct learn_model_opts *opts);

/*
 * learn_model_create -- a model by name, for data of a shape; opts may be NULL
 *
 * Blocks:    allocates all the memory that the model will use
 * Threading: any
 * Errors:    -EINVAL (name, shape or option: the line in err says which), -EFBIG (over a limit),
 * -ENOMEM
 */
int learn_model_create(const char *name, const struct learn_shape *shape,
		       const struct learn_model_opts *opts, struct learn_model **ret_model,
		       char *err, size_t err_len);

/* learn_model_destroy -- NULL is allowed */
void learn_model_destroy(struct learn_model *model);

/* learn_model_param_count -- floats in the weight vector and in a gradient */
size_t learn_model_param_count(const struct learn_model *model);

/* learn_model_layers -- the layers in vector order; the array belongs to the model */
const struct learn_layer *learn_model_layers(const struct learn_model *model, size_t *ret_count);

/* learn_model_init -- first weights: uniform within 1/sqrt(fan-in) of 0, biases too (PyTorch's
 * default) */
void learn_model_init(const struct learn_model *model, uint64_t seed, float *w);

/*
 * Called by learn_model_grad() on its way back through the layers: grad[first] and all behind it
 * are as they will be returned. So they can be sent while the rest is computed.
 */
typedef void learn_ready_fn(void *arg, float *grad, size_t first);

/* learn_model_ready_set -- whom to tell from now on; fn NULL: nobody */
void learn_model_ready_set(struct learn_model *model, learn_ready_fn *fn, void *arg);

/*
 * learn_model_grad -- the gradient of a batch's mean loss at w, and that loss
 *
 * grad is written whole and need not be zero: what it holds before does not count. Sums are made in
 * it, so nobody may look at it during the call, but for what a learn_ready_fn was told of. w and
 * grad need float alignment only, and must not overlap. key chooses the dropout mask; give the
 * batch's own.
 *
 * Blocks:    never; computes in the caller's thread, allocates nothing but OpenBLAS's memory at a
 *            thread's first call
 * Threading: the model's thread
 * Errors:    -EINVAL: the batch is empty, larger than batch_max or of another shape
 */
int learn_model_grad(struct learn_model *model, const float *w, const struct learn_batch *batch,
		     const struct learn_key *key, float *grad, double *ret_loss);

/*
 * learn_model_eval -- score samples first .. first + count - 1 of one of data's sets; no dropout
 *
 * count may be anything; the model works through it in batches of its own. Threading as
 * learn_model_grad().
 *
 * Errors: -EINVAL: the range leaves the set, or data has another shape
 */
int learn_model_eval(struct learn_model *model, const float *w, const struct learn_data *data,
		     const struct learn_set *set, size_t first, size_t count,
		     struct learn_score *ret_score);

#endif /* LEARN_MODEL_H */
