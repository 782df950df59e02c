/* SPDX-License-Identifier: BSD-3-Clause */

/* model.c -- models by name: a stack of dense layers, for the CNN behind two convolutions */

#include "learn/model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "learn/cnn.h"
#include "learn/source.h"
#include "learn/stack.h"

enum {
	BATCH_DEFAULT = 32,
	DROP_STEPS = 256,
	CNN_HIDDEN = 512,
	NAME_LEN = 28,
	PARAMS_MAX = 1 << 30
};

struct learn_model {
	struct learn_stack stack;
	struct learn_cnn *cnn; /* NULL for models without convolutions */
	struct learn_batch *eval; /* eval's own batch, of batch_max samples */
	struct learn_shape shape;
	learn_ready_fn *ready; /* or NULL */
	void *ready_arg;
	unsigned batch_max;
	size_t param_count;
	size_t layer_count;
	struct learn_layer layers[LEARN_LAYERS_MAX + 2];
	char names[LEARN_LAYERS_MAX][NAME_LEN]; /* of the dense layers */
};

/* What a name means: the dense layers' widths, and what stands before them. */
struct plan {
	size_t widths[LEARN_LAYERS_MAX + 1];
	size_t layer_count;
	bool cnn;
	float dropout;
};

void learn_model_opts_init(struct learn_model_opts *opts)
{
	*opts = (struct learn_model_opts){ .size = sizeof(*opts),
					   .batch_max = BATCH_DEFAULT,
					   .dropout = -1 };
}

/* plan_mlp -- list is "A,B,..." */
static int plan_mlp(const char *name, const char *list, struct plan *plan, char *err,
		    size_t err_len)
{
	while (*list != 0) {
		char *end;
		unsigned long width = strtoul(list, &end, 10);

		if (end == list || *list == '-' || width < 1 || width > LEARN_WIDTH_MAX ||
		    (*end != 0 && (*end != ',' || end[1] == 0)))
			return learn_err(err, err_len, -EINVAL,
					 "model \"%s\": hidden layers are widths from 1 to %d, as "
					 "in mlp:256,128",
					 name, LEARN_WIDTH_MAX);
		if (plan->layer_count + 1 == LEARN_LAYERS_MAX)
			return learn_err(err, err_len, -EINVAL,
					 "model \"%s\": more than %d hidden layers", name,
					 LEARN_LAYERS_MAX - 1);
		plan->widths[++plan->layer_count] = width;
		list = *end == ',' ? end + 1 : end;
	}
	return 0;
}

static int plan_make(const char *name, const struct learn_shape *shape, struct plan *plan,
		     char *err, size_t err_len)
{
	int rc = 0;

	*plan = (struct plan){ .widths = { shape->features } };
	if (strcmp(name, "mlp") == 0) {
		rc = plan_mlp(name, "128,64", plan, err, err_len);
	} else if (strncmp(name, "mlp:", 4) == 0 && name[4] != 0) {
		rc = plan_mlp(name, name + 4, plan, err, err_len);
	} else if (strcmp(name, "cnn") == 0) {
		if (shape->rows != LEARN_SIDE1 || shape->cols != LEARN_SIDE1)
			return learn_err(err, err_len, -EINVAL,
					 "model \"cnn\" takes images of 28x28, the data has %ux%u; "
					 "choose softmax or mlp",
					 shape->rows, shape->cols);
		plan->cnn = true;
		plan->dropout = 0.25f;
		plan->widths[0] = LEARN_CNN_FEATURES;
		plan->widths[++plan->layer_count] = CNN_HIDDEN;
	} else if (strcmp(name, "softmax") != 0) {
		return learn_err(
			err, err_len, -EINVAL,
			"model \"%s\" is unknown; there are softmax, mlp[:A,B,...] and cnn", name);
	}
	plan->widths[++plan->layer_count] = shape->classes;
	return rc;
}

static int opts_check(const struct learn_model_opts *opts, char *err, size_t err_len)
{
	if (opts->size != sizeof(*opts))
		return learn_err(err, err_len, -EINVAL,
				 "model options are %zu bytes; call learn_model_opts_init()",
				 opts->size);
	if (opts->batch_max < 1 || opts->batch_max > LEARN_BATCH_MAX)
		return learn_err(err, err_len, -EINVAL, "batch of %u; it must be 1 to %d",
				 opts->batch_max, LEARN_BATCH_MAX);
	if (!(opts->dropout <= 0.9f))
		return learn_err(err, err_len, -EINVAL, "dropout of %g; it must be 0 to 0.9",
				 (double)opts->dropout);
	return 0;
}

static void layer_add(struct learn_model *model, const char *name, size_t fan_in, size_t out)
{
	model->layers[model->layer_count++] = (struct learn_layer){ .name = name,
								    .offset = model->param_count,
								    .weights = fan_in * out,
								    .biases = out,
								    .fan_in = fan_in };
	model->param_count += (fan_in + 1) * out;
}

/* layers_fill -- the table of layers; returns where the dense ones start */
static size_t layers_fill(struct learn_model *model, const struct plan *plan)
{
	size_t first;

	if (plan->cnn) {
		layer_add(model, "conv1", LEARN_CNN_TAPS, LEARN_C1);
		layer_add(model, "conv2", LEARN_C1 * LEARN_CNN_TAPS, LEARN_C2);
	}
	first = model->param_count;
	for (size_t l = 0; l < plan->layer_count; l++) {
		(void)snprintf(model->names[l], NAME_LEN, "dense%zu", l + 1);
		layer_add(model, model->names[l], plan->widths[l], plan->widths[l + 1]);
	}
	return first;
}

int learn_model_create(const char *name, const struct learn_shape *shape,
		       const struct learn_model_opts *opts, struct learn_model **ret_model,
		       char *err, size_t err_len)
{
	struct learn_model_opts dflt;
	struct learn_model *model;
	struct plan plan;
	float dropout;
	size_t first;
	int rc;

	learn_model_opts_init(&dflt);
	opts = opts != NULL ? opts : &dflt;
	rc = opts_check(opts, err, err_len);
	if (rc == 0)
		rc = plan_make(name, shape, &plan, err, err_len);
	if (rc != 0)
		return rc;
	model = calloc(1, sizeof(*model));
	if (model == NULL)
		return learn_err(err, err_len, -ENOMEM, "model \"%s\": out of memory", name);
	model->shape = *shape;
	model->batch_max = opts->batch_max;
	dropout = opts->dropout < 0 ? plan.dropout : opts->dropout;
	model->stack.drop = (unsigned)(dropout * DROP_STEPS + 0.5f);
	model->stack.final_relu = opts->final_relu;
	first = layers_fill(model, &plan);
	if (model->param_count > PARAMS_MAX) {
		rc = learn_err(err, err_len, -EFBIG,
			       "model \"%s\": %zu parameters, the limit is %d", name,
			       model->param_count, PARAMS_MAX);
		goto err_model;
	}
	rc = learn_stack_init(&model->stack, plan.widths, plan.layer_count, first, opts->batch_max);
	if (rc == 0 && plan.cnn)
		rc = learn_cnn_create(opts->batch_max, &model->cnn);
	if (rc == 0)
		rc = learn_batch_create(shape, opts->batch_max, &model->eval);
	if (rc != 0) {
		(void)learn_err(err, err_len, rc, "model \"%s\": no memory for batches of %u", name,
				opts->batch_max);
		goto err_model;
	}
	*ret_model = model;
	return 0;

err_model:
	learn_model_destroy(model);
	return rc;
}

void learn_model_destroy(struct learn_model *model)
{
	if (model == NULL)
		return;
	learn_batch_destroy(model->eval);
	learn_cnn_destroy(model->cnn);
	learn_stack_fini(&model->stack);
	free(model);
}

size_t learn_model_param_count(const struct learn_model *model)
{
	return model->param_count;
}

const struct learn_layer *learn_model_layers(const struct learn_model *model, size_t *ret_count)
{
	*ret_count = model->layer_count;
	return model->layers;
}

void learn_model_init(const struct learn_model *model, uint64_t seed, float *w)
{
	for (size_t l = 0; l < model->layer_count; l++) {
		const struct learn_layer *layer = &model->layers[l];
		struct learn_key key = { .seed = seed, .worker = (uint32_t)l };
		/* sqrt and division round in one defined way everywhere */
		float bound = (float)(1.0 / sqrt((double)layer->fan_in));
		float *to = w + layer->offset;

		for (size_t i = 0; i < layer->weights + layer->biases; i++) {
			struct learn_rng_block block =
				learn_rng_draw(&key, LEARN_RNG_INIT, (uint32_t)i);

			to[i] = learn_rng_symmetric(block.word[0]) * bound;
		}
	}
}

void learn_model_ready_set(struct learn_model *model, learn_ready_fn *fn, void *arg)
{
	model->ready = fn;
	model->ready_arg = arg;
}

int learn_model_grad(struct learn_model *model, const float *w, const struct learn_batch *batch,
		     const struct learn_key *key, float *grad, double *ret_loss)
{
	const float *x = batch->x;
	bool cnn = model->cnn != NULL;

	if (key == NULL || batch->count < 1 || batch->count > model->batch_max ||
	    batch->features != model->shape.features)
		return -EINVAL;
	for (unsigned i = 0; i < batch->count; i++) {
		if (batch->labels[i] >= model->shape.classes)
			return -EINVAL;
	}
	if (cnn)
		x = learn_cnn_forward(model->cnn, w, x, batch->count);
	learn_stack_forward(&model->stack, w, x, batch->count, key);
	*ret_loss =
		learn_stack_backward(&model->stack, w, x, batch->labels, batch->count, cnn, grad);
	if (cnn && model->ready != NULL) /* the dense layers, which lie behind the convolutions */
		model->ready(model->ready_arg, grad, model->layers[2].offset);
	if (cnn)
		learn_cnn_backward(model->cnn, batch->x, model->stack.dy, batch->count, grad);
	return 0;
}

int learn_model_eval(struct learn_model *model, const float *w, const struct learn_data *data,
		     const struct learn_set *set, size_t first, size_t count,
		     struct learn_score *ret_score)
{
	struct learn_score score = { 0 };

	if (first > set->count || count > set->count - first)
		return -EINVAL;
	if (data->shape.features != model->shape.features ||
	    data->shape.classes != model->shape.classes)
		return -EINVAL;
	while (count > 0) {
		unsigned now = count < model->batch_max ? (unsigned)count : model->batch_max;
		const float *x = model->eval->x;
		int rc;

		rc = learn_batch_load(data, set, first, now, model->eval);
		if (rc != 0)
			return rc;
		if (model->cnn != NULL)
			x = learn_cnn_forward(model->cnn, w, x, now);
		learn_stack_forward(&model->stack, w, x, now, NULL);
		learn_stack_score(&model->stack, model->eval->labels, now, &score);
		first += now;
		count -= now;
	}
	*ret_score = score;
	return 0;
}
