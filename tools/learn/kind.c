/* SPDX-License-Identifier: BSD-3-Clause */

/* kind.c -- shared by all kinds of models */

#include "learn/kind.h"

#include <errno.h>

#include "learn/source.h"

enum {
	PARAMS_MAX = 1 << 30
};

int learn_kind_check(const char *name, enum learn_kind needs, const struct learn_shape *shape,
		     char *err, size_t err_len)
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
	return learn_err(err, err_len, -EINVAL,
			 "model \"%s\" takes %s; for this data set choose %s", name, data[needs],
			 models[shape->kind]);
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

int learn_params_check(const struct learn_model *model, const char *name, char *err, size_t err_len)
{
	if (model->param_count <= PARAMS_MAX)
		return 0;
	return learn_err(err, err_len, -EFBIG, "model \"%s\": %zu parameters, the limit is %d",
			 name, model->param_count, PARAMS_MAX);
}

void learn_init_uniform(uint64_t seed, uint32_t layer, float bound, size_t count, float *w)
{
	struct learn_key key = { .seed = seed, .worker = layer };

	for (size_t i = 0; i < count; i++) {
		struct learn_rng_block block = learn_rng_draw(&key, LEARN_RNG_INIT, (uint32_t)i);

		w[i] = learn_rng_symmetric(block.word[0]) * bound;
	}
}
