/* SPDX-License-Identifier: BSD-3-Clause */

/* model.c -- code shared by all kinds of models */

#include "learn/model.h"

#include <errno.h>
#include <string.h>

#include "learn/kind.h"

enum {
	PARAMS_MAX = 1 << 30
};

int learn_kind_check(const char *name, enum learn_kind needs, const struct learn_shape *shape,
		     struct learn_line *err)
{
	static const char *const data[] = {
		[LEARN_SAMPLES] = "samples with labels (fashion-mnist, idx, libsvm, synthetic)",
		[LEARN_RATINGS] = "ratings (movielens:FILE or ratings:...)",
		[LEARN_WORDS] = "documents (bow:FILE or topics:...)",
	};
	static const char *const models[] = {
		[LEARN_SAMPLES] = "softmax, mlp or cnn",
		[LEARN_RATINGS] = "mf",
		[LEARN_WORDS] = "lda",
	};

	if (needs == shape->kind)
		return 0;
	return learn_err(err, -EINVAL, "model \"%s\" takes %s; for this data set choose %s", name,
			 data[needs], models[shape->kind]);
}

void learn_layer_add(struct learn_model *model, const char *name, size_t fan_in, size_t out,
		     bool biases)
{
	struct learn_layer *layer = &model->layers[model->layer_count++];

	*layer = (struct learn_layer){ .name = name,
				       .offset = model->param_count,
				       .weights = fan_in * out,
				       .biases = biases ? out : 0,
				       .fan_in = fan_in };
	model->param_count += layer->weights + layer->biases;
}

int learn_params_check(const struct learn_model *model, const char *name, struct learn_line *err)
{
	if (model->param_count <= PARAMS_MAX)
		return 0;
	return learn_err(err, -EFBIG, "model \"%s\": %zu parameters, the limit is %d", name,
			 model->param_count, PARAMS_MAX);
}

void learn_init_uniform(uint64_t seed, uint32_t layer, float bound, size_t count, float *w)
{
	struct learn_key key = { .seed = seed, .worker = layer };

	for (size_t i = 0; i < count; i++) {
		struct learn_rng_block block = learn_rng_draw(&key, LEARN_RNG_INIT, (uint32_t)i);

		w[i] = learn_rng_symmetric(block.word[0]) * bound;
	}
}

void learn_model_destroy(struct learn_model *model)
{
	if (model != NULL)
		model->ops->destroy(model);
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
	struct learn_line line = { err, err_len };

	if (!fits(model, &data->shape))
		return learn_err(&line, -EINVAL,
				 "the data set is not the one that the model was made for");
	return model->ops->attach != NULL ? model->ops->attach(model, data, &line) : 0;
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
