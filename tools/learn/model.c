/* SPDX-License-Identifier: BSD-3-Clause */

/* model.c -- calls of all kinds of models */

#include "learn/model.h"

#include <errno.h>

#include "learn/kind.h"
#include "learn/source.h"

void learn_model_destroy(struct learn_model *model)
{
	if (model != NULL)
		model->ops->destroy(model);
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

size_t learn_model_blocks(const struct learn_model *model, uint64_t *lengths)
{
	size_t count = 0;

	for (size_t l = 0; l < model->layer_count; l++) {
		const struct learn_layer *layer = &model->layers[l];
		size_t rows = layer->weights / layer->fan_in;

		for (size_t i = 0; lengths != NULL && i < rows; i++)
			lengths[count + i] = layer->fan_in;
		count += rows;
		if (layer->biases == 0)
			continue;
		if (lengths != NULL)
			lengths[count] = layer->biases;
		count++;
	}
	return count;
}

const struct learn_traits *learn_model_traits(const struct learn_model *model)
{
	return &model->traits;
}

void learn_model_init(const struct learn_model *model, uint64_t seed, float *w)
{
	model->ops->init(model, seed, w);
}

void learn_model_ready_set(struct learn_model *model, learn_ready_fn *fn, void *arg)
{
	model->ready = fn;
	model->ready_arg = arg;
}

/* fits -- was the model made for data of this shape? */
static bool fits(const struct learn_model *model, const struct learn_shape *shape)
{
	return shape->kind == model->shape.kind && shape->features == model->shape.features &&
	       shape->classes == model->shape.classes;
}

int learn_model_attach(struct learn_model *model, const struct learn_data *data, char *err,
		       size_t err_len)
{
	if (!fits(model, &data->shape))
		return learn_err(err, err_len, -EINVAL,
				 "the data set is not the one that the model was made for");
	return model->ops->attach != NULL ? model->ops->attach(model, data, err, err_len) : 0;
}

int learn_model_grad(struct learn_model *model, const float *w, const struct learn_batch *batch,
		     const struct learn_key *key, float *grad, double *ret_loss)
{
	if (key == NULL || batch->count < 1 || batch->count > model->batch_max ||
	    batch->features != model->shape.features)
		return -EINVAL;
	return model->ops->grad(model, w, batch, key, grad, ret_loss);
}

int learn_model_eval(struct learn_model *model, const float *w, const struct learn_data *data,
		     const struct learn_set *set, size_t first, size_t count,
		     struct learn_score *ret_score)
{
	if (first > set->count || count > set->count - first)
		return -EINVAL;
	if (!fits(model, &data->shape))
		return -EINVAL;
	return model->ops->eval(model, w, data, set, first, count, ret_score);
}

double learn_model_score(const struct learn_model *model, const struct learn_score *score)
{
	return model->ops->score(score);
}

size_t learn_model_figures(struct learn_model *model, const float *w, const struct learn_data *data,
			   struct learn_figure figures[LEARN_FIGURES_MAX])
{
	if (model->ops->figures == NULL || !fits(model, &data->shape))
		return 0;
	return model->ops->figures(model, w, data, figures);
}
