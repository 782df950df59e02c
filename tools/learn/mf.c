/* SPDX-License-Identifier: BSD-3-Clause */

/* mf.c -- matrix factorization: a rating is the mean plus the product of a user's row and an
 * item's */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "learn/kind.h"

struct mf {
	struct learn_model base;
	const struct learn_data *data; /* attached; or NULL */
	size_t rank;
	float reg;
};

struct mf_args {
	uint32_t rank;
	double reg;
};

static const struct ol_conf_field fields[] = {
	OL_ROW_U32(mf_args, rank, NULL, 1, LEARN_RANK_MAX, NULL),
	OL_ROW_F64(mf_args, reg, NULL, 0, 1000, NULL),
};

static struct mf *mf_of(struct learn_model *model)
{
	return (struct mf *)((char *)model - offsetof(struct mf, base));
}

static void mf_destroy(struct learn_model *model)
{
	free(mf_of(model));
}

static void mf_init(const struct learn_model *model, uint64_t seed, float *w)
{
	float bound = (float)(0.5 / sqrt((double)model->layers[0].fan_in));

	for (size_t l = 0; l < model->layer_count; l++)
		learn_init_uniform(seed, (uint32_t)l, bound, model->layers[l].weights,
				   w + model->layers[l].offset);
}

static int mf_attach(struct learn_model *model, const struct learn_data *data,
		     struct learn_line *err)
{
	(void)err;
	mf_of(model)->data = data;
	return 0;
}

static size_t user_at(const struct mf *self, const struct learn_rating *rating)
{
	return (size_t)rating->user * self->rank;
}

static size_t item_at(const struct mf *self, const struct learn_rating *rating)
{
	return ((size_t)self->base.shape.rows + rating->item) * self->rank;
}

static float product(const float *a, const float *b, size_t count)
{
	float sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += a[i] * b[i];
	return sum;
}

static int mf_grad(struct learn_model *model, const float *w, const struct learn_batch *batch,
		   const struct learn_key *key, float *grad, double *ret_loss)
{
	const struct mf *self = mf_of(model);
	size_t rank = self->rank;
	float share = 2.0f / (float)batch->count;
	double loss = 0;

	(void)key;
	if (self->data == NULL)
		return -EINVAL;
	memset(grad, 0, model->param_count * sizeof(*grad));
	for (unsigned i = 0; i < batch->count; i++) {
		const struct learn_rating *rating = &self->data->train.ratings[batch->index[i]];
		const float *user = w + user_at(self, rating), *item = w + item_at(self, rating);
		float *to_user = grad + user_at(self, rating);
		float *to_item = grad + item_at(self, rating);
		float error = self->data->mean + product(user, item, rank) - rating->value;
		float squares = product(user, user, rank) + product(item, item, rank);

		loss += (double)error * (double)error + (double)self->reg * (double)squares;
		for (size_t f = 0; f < rank; f++) {
			to_user[f] += share * (error * item[f] + self->reg * user[f]);
			to_item[f] += share * (error * user[f] + self->reg * item[f]);
		}
	}
	*ret_loss = loss / batch->count;
	return 0;
}

static int mf_eval(struct learn_model *model, const float *w, const struct learn_data *data,
		   const struct learn_set *set, size_t first, size_t count,
		   struct learn_score *ret_score)
{
	const struct mf *self = mf_of(model);
	struct learn_score score = { .count = count };

	for (size_t i = first; i < first + count; i++) {
		const struct learn_rating *rating = &set->ratings[i];
		float error =
			data->mean +
			product(w + user_at(self, rating), w + item_at(self, rating), self->rank) -
			rating->value;

		score.loss_sum += (double)error * (double)error;
	}
	*ret_score = score;
	return 0;
}

static double mf_score(const struct learn_score *score)
{
	return sqrt(score->loss_sum / (double)score->count);
}

/* planted_error -- over all cells, also those without a rating */
static double planted_error(const struct mf *self, const float *w, const struct learn_data *data)
{
	const struct learn_planted *planted = &data->planted;
	double wrong = 0, all = 0;

	for (uint32_t user = 0; user < data->shape.rows; user++) {
		for (uint32_t item = 0; item < data->shape.cols; item++) {
			struct learn_rating cell = { .user = user, .item = item };
			float truth = product(planted->rows + (size_t)user * planted->rank,
					      planted->cols + (size_t)item * planted->rank,
					      planted->rank);
			float found = data->mean + product(w + user_at(self, &cell),
							   w + item_at(self, &cell), self->rank);

			wrong += (double)(found - truth) * (double)(found - truth);
			all += (double)truth * (double)truth;
		}
	}
	return sqrt(wrong / all);
}

static size_t mf_figures(struct learn_model *model, const float *w, const struct learn_data *data,
			 struct learn_figure *figures)
{
	if (data->planted.rank == 0)
		return 0;
	figures[0] = (struct learn_figure){ "noise_floor", data->planted.noise };
	figures[1] = (struct learn_figure){ "planted_error", planted_error(mf_of(model), w, data) };
	return 2;
}

static const struct learn_ops ops = { .destroy = mf_destroy,
				      .init = mf_init,
				      .attach = mf_attach,
				      .grad = mf_grad,
				      .eval = mf_eval,
				      .score = mf_score,
				      .figures = mf_figures };

int learn_mf_create(const char *args, const struct learn_shape *shape,
		    struct learn_model **ret_model, struct learn_line *err)
{
	struct mf_args set = { .rank = 16, .reg = 0.02 };
	struct mf *self;
	int rc = learn_args_parse("model mf", OL_FIELDS(fields), args, &set, err);

	if (rc != 0)
		return rc;
	self = calloc(1, sizeof(*self));
	if (self == NULL)
		return learn_err(err, -ENOMEM, "model mf: out of memory");
	self->rank = set.rank;
	self->reg = (float)set.reg;
	self->base.ops = &ops;
	/* twice 0.02 for each rating; the gradient is the mean over the batch's ratings */
	self->base.traits = (struct learn_traits){ .score_name = "RMSE", .lr = 0.02 };
	learn_layer_add(&self->base, "users", self->rank, shape->rows, false);
	learn_layer_add(&self->base, "items", self->rank, shape->cols, false);
	rc = learn_params_check(&self->base, "mf", err);
	if (rc != 0) {
		free(self);
		return rc;
	}
	*ret_model = &self->base;
	return 0;
}
