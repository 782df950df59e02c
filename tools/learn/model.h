/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * model.h -- models as functions of a flat weight vector
 *
 * A model holds no weights: they live wherever the caller keeps them (a mirror, a snapshot, a
 * slot), as one vector of param_count floats, layer after layer, in each layer
 * weights and then biases. Dense weights are [output][input], convolution weights [output
 * channel][input channel][row][column], and the CNN's flattened images channel by channel:
 * PyTorch's order. The loss is softmax cross-entropy, the mean over the batch.
 *
 *	name        layers
 *	softmax     features -> classes
 *	mlp         mlp:128,64
 *	mlp:A,B,... features -> A -> B ... -> classes; ReLU (and dropout) after each but the last
 *	cnn         1x28x28 -> conv 16 3x3 pad 1, ReLU, max pool 2 -> conv 32 3x3 pad 1, ReLU, max
 * pool 2
 *	            -> 1568 -> 512, ReLU, dropout 0.25 -> classes; 813,258 parameters for 10 classes
 *
 * Two more are no classifiers:
 *
 *	mf:rank=16,reg=0.02
 *	    A rating is the training mean plus the product of two rows: its user's and its item's.
 * The vector holds the users' rows, then the items'. The loss is the mean of the squared error plus
 * reg * (|user|^2 + |item|^2) of each rating; evaluated it is the squared error alone.
 *	lda:topics=10,alpha=0.1,beta=0.2
 *	    Latent Dirichlet allocation by collapsed Gibbs sampling (Griffiths and Steyvers 2004).
 * The vector holds, as floats, how many tokens of each word each topic has, word by word, and then
 * how many each topic has in all. What learn_model_grad() returns is not a gradient but minus the
 * change of these counts: steps of rate 1 keep them exact, in any order. The loss is minus the log
 * likelihood of a token, the mean over a document; evaluated it is that of every second token,
 * where the document's topics come from the others.
 *
 * DETERMINISM. Same weights, batch and key: same gradient, bit for bit, with one version of
 * OpenBLAS and one kind of its kernels (blas.h), whatever the alignment of the buffers. First
 * weights have the same bits on every machine.
 *
 * NON-FINITE NUMBERS propagate: weights that have diverged give a loss that is not finite. The
 * caller decides.
 *
 * THREADING. A model is a workspace, allocated once at create; one model per thread. No call starts
 * threads.
 */
#ifndef LEARN_MODEL_H
#define LEARN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "learn/data.h"

enum {
	LEARN_LAYERS_MAX = 8, /* layers that have parameters */
	LEARN_WIDTH_MAX = 1 << 16, /* of a hidden layer */
	LEARN_RANK_MAX = 1 << 10, /* of mf */
	LEARN_TOPICS_MAX = 1 << 10,
	LEARN_FIGURES_MAX = 8
};

struct learn_model;

/* What a model needs of its training */
struct learn_traits {
	const char *score_name; /* of learn_model_score(): "accuracy", "RMSE", "perplexity" */
	/* Its "gradients" are minus changes: steps must be plain SGD, asynchronous, of rate 1, each
	   applied once. It also keeps state of every training sample, which is lost with it. */
	bool additive;
	double lr; /* suits plain SGD with a batch of 1; proportional to the batch. 0: none does */
};

/* A figure about trained weights */
struct learn_figure {
	const char *name;
	double value;
};

/* Set by learn_model_opts_init(); overwrite the fields you care about. */
struct learn_model_opts {
	size_t size; /* sizeof(struct learn_model_opts) */
	unsigned batch_max; /* largest batch of learn_model_grad(); default 32 */
	float dropout; /* rate after hidden ReLUs, 0 to 0.9, in steps of 1/256; below 0 (default):
			  the model's own */
	bool weights_only; /* no gradient and no evaluation: no memory for products is taken */
	bool final_relu; /* a ReLU after the last layer too, as in the paper's code; default
			  false */
};

/* Where a layer lies in the weight vector. */
struct learn_layer {
	const char *name; /* "conv1", "dense2" ... */
	size_t offset; /* of its weights; its biases follow them */
	size_t weights;
	size_t biases;
	size_t fan_in; /* inputs of one output */
};

/*
 * Called by learn_model_grad() on its way back through the layers: grad[first] and all after it are
 * final. So they can be sent while the rest is computed.
 */
typedef void learn_ready_fn(void *arg, float *grad, size_t first);

/* The first member of every kind's own struct; read only for whoever uses a model. */
struct learn_model {
	const struct learn_ops *ops; /* kind.h */
	struct learn_traits traits;
	struct learn_shape shape;
	learn_ready_fn *ready; /* or NULL */
	void *ready_arg;
	unsigned batch_max;
	size_t param_count; /* floats in the weight vector and in a gradient */
	size_t layer_count;
	struct learn_layer layers[LEARN_LAYERS_MAX + 2]; /* in vector order */
};

struct learn_score {
	size_t count; /* samples evaluated */
	size_t correct; /* whose label has the largest output; a NaN output is never correct */
	double loss_sum; /* divide by count for the mean */
};

void learn_model_opts_init(struct learn_model_opts *opts);

/*
 * learn_model_create -- a model by name, for data of a shape; opts may be NULL
 *
 * Blocks:    allocates all the memory that the model will use
 * Threading: any
 * Errors:    -EINVAL (name, shape or option: the line in err says which), -EFBIG (over a limit),
 *            -ENOMEM
 */
int learn_model_create(const char *name, const struct learn_shape *shape,
		       const struct learn_model_opts *opts, struct learn_model **ret_model,
		       char *err, size_t err_len);

/* learn_model_destroy -- NULL is allowed */
void learn_model_destroy(struct learn_model *model);

/*
 * learn_model_blocks -- the lengths of the blocks that make up the weight vector, in its order
 *
 * A block belongs to one output: a row of a dense layer, an output channel of a convolution, a
 * user's or item's factors, a word's counts; a layer's biases are one more. lengths NULL: only
 * count them.
 */
size_t learn_model_blocks(const struct learn_model *model, uint64_t *lengths);

/*
 * learn_model_attach -- set the data set of learn_model_grad()'s batches; it must stay open
 *
 * mf and lda need it before their first gradient, classifiers do not. lda forgets all topics of
 * documents.
 *
 * Errors: -EINVAL (data of another shape, or more than the model can count), -ENOMEM
 */
int learn_model_attach(struct learn_model *model, const struct learn_data *data, char *err,
		       size_t err_len);

/*
 * learn_model_init -- first weights: of classifiers uniform within 1/sqrt(fan-in) of 0, biases too
 * (PyTorch's default); of mf uniform within 0.5/sqrt(rank); of lda 0: no token has a topic
 */
void learn_model_init(const struct learn_model *model, uint64_t seed, float *w);

/* learn_model_ready_set -- call fn from now on; NULL: none */
void learn_model_ready_set(struct learn_model *model, learn_ready_fn *fn, void *arg);

/*
 * learn_model_grad -- the gradient of a batch's mean loss at w, and that loss
 *
 * grad is written whole and need not be zero. Sums are made in it, so no other code may read it
 * during the call, except the part that a learn_ready_fn was told of. w and grad need only float
 * alignment, and must not overlap. key chooses the dropout mask; give the batch's own.
 *
 * Blocks:    never; computes in the caller's thread, allocates nothing but OpenBLAS's memory at a
 *            thread's first call
 * Threading: the model's thread
 * lda changes its state with each call: the batch's documents get new topics. So call it once for
 * each batch, and apply its result once.
 *
 * Errors:    -EINVAL: the batch is empty, larger than batch_max or of another shape, or no data are
 *            attached; -ESTALE: lda: documents that must have topics by now have none, as another
 *            model drew them
 */
int learn_model_grad(struct learn_model *model, const float *w, const struct learn_batch *batch,
		     const struct learn_key *key, float *grad, double *ret_loss);

/*
 * learn_model_eval -- score samples first .. first + count - 1 of one of data's sets; no dropout
 *
 * Any count; the model cuts it into batches of its own. Threading as learn_model_grad().
 *
 * Errors: -EINVAL: the range leaves the set, or data has another shape
 */
int learn_model_eval(struct learn_model *model, const float *w, const struct learn_data *data,
		     const struct learn_set *set, size_t first, size_t count,
		     struct learn_score *ret_score);

/* learn_model_score -- the score that traits.score_name names, of at least one sample */
double learn_model_score(const struct learn_model *model, const struct learn_score *score);

/*
 * learn_model_figures -- more figures about weights; returns how many
 *
 * mf on generated data: noise_floor (the RMSE that is left to the true factors), planted_error
 * (of all ratings, seen or not: the error's norm over that of the true ones). lda: tokens (of the
 * training documents), tokens_counted, words_wrong and topics_wrong (words whose counts are not
 * those of the documents; topics whose total is not the sum of their words); on generated data
 * planted_distance (the mean total variation distance, 0 to 1, of planted topics to the found ones
 * that fit them best, each used once), and perplexity_floor (of the planted topics, if the model
 * has as many).
 *
 * Allocates while it runs; figures for which memory is short are left out.
 */
size_t learn_model_figures(struct learn_model *model, const float *w, const struct learn_data *data,
			   struct learn_figure figures[LEARN_FIGURES_MAX]);

#endif /* LEARN_MODEL_H */
