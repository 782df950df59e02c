/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * kind.h -- inside the room: the table that a kind of model fills in; code shared by all kinds
 */
#ifndef LEARN_KIND_H
#define LEARN_KIND_H

#include "learn/model.h"
#include "learn/source.h"

/* One kind of model. NULL: not supported */
struct learn_ops {
	/* The caller has checked ranges and batches against the model's shape. */
	void (*destroy)(struct learn_model *model);
	void (*init)(const struct learn_model *model, uint64_t seed, float *w);
	int (*attach)(struct learn_model *model, const struct learn_data *data,
		      struct learn_line *err);
	int (*grad)(struct learn_model *model, const float *w, const struct learn_batch *batch,
		    const struct learn_key *key, float *grad, double *ret_loss);
	int (*eval)(struct learn_model *model, const float *w, const struct learn_data *data,
		    const struct learn_set *set, size_t first, size_t count,
		    struct learn_score *ret_score);
	double (*score)(const struct learn_score *score);
	size_t (*figures)(struct learn_model *model, const float *w, const struct learn_data *data,
			  struct learn_figure *figures);
};

/* learn_layer_add -- the next layer: `out` outputs of fan_in weights, and a bias each if wanted */
void learn_layer_add(struct learn_model *model, const char *name, size_t fan_in, size_t out,
		     bool biases);

/* learn_kind_check -- -EINVAL, with a line, if a model does not take data of this kind */
int learn_kind_check(const char *name, enum learn_kind needs, const struct learn_shape *shape,
		     struct learn_line *err);

/* learn_params_check -- -EFBIG, with a line, if the layers have too many parameters */
int learn_params_check(const struct learn_model *model, const char *name, struct learn_line *err);

/* learn_init_uniform -- draw count first weights of a layer, uniform within bound of 0 */
void learn_init_uniform(uint64_t seed, uint32_t layer, float bound, size_t count, float *w);

/*
 * Each makes a model of a kind whose name has been recognised. args is the text after the name and
 * its colon, or "". The caller fills in shape and batch_max.
 */
int learn_classifier_create(const char *name, const struct learn_shape *shape,
			    const struct learn_model_opts *opts, struct learn_model **ret_model,
			    struct learn_line *err);
int learn_mf_create(const char *args, const struct learn_shape *shape,
		    struct learn_model **ret_model, struct learn_line *err);
int learn_lda_create(const char *args, const struct learn_shape *shape,
		     struct learn_model **ret_model, struct learn_line *err);

#endif /* LEARN_KIND_H */
