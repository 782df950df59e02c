/* SPDX-License-Identifier: BSD-3-Clause */

/* classify.c -- classifiers: a stack of dense layers, for the CNN behind two convolutions */

#include "learn/kind.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "learn/blas.h"
#include "learn/cnn.h"
#include "learn/stack.h"

enum {
	DROP_STEPS = 256,
	CNN_HIDDEN = 512,
	NAME_LEN = 28
};

struct classifier {
	struct learn_model base;
	struct learn_stack stack;
	struct learn_cnn *cnn; /* NULL for models without convolutions */
	struct learn_batch *eval; /* eval's own batch, of batch_max samples */
	char names[LEARN_LAYERS_MAX][NAME_LEN]; /* of the dense layers */
};

static struct classifier *classifier_of(struct learn_model *model)
{
	return (struct classifier *)((char *)model - offsetof(struct classifier, base));
}

/* A parsed name: the dense layers' widths, and the layers before them. */
struct plan {
	size_t widths[LEARN_LAYERS_MAX + 1];
	size_t layer_count;
	bool cnn;
	float dropout;
};

/* plan_mlp -- list is "A,B,..." */
static int plan_mlp(const char *name, const char *list, struct plan *plan, struct learn_line *err)
{
	while (*list != 0) {
		char *end;
		unsigned long width = strtoul(list, &end, 10);

		if (end == list || *list == '-' || width < 1 || width > LEARN_WIDTH_MAX ||
		    (*end != 0 && (*end != ',' || end[1] == 0)))
			return learn_err(err, -EINVAL,
					 "model \"%s\": hidden layers are widths from 1 to %d, as "
					 "in mlp:256,128",
					 name, LEARN_WIDTH_MAX);
		if (plan->layer_count + 1 == LEARN_LAYERS_MAX)
			return learn_err(err, -EINVAL, "model \"%s\": more than %d hidden layers",
					 name, LEARN_LAYERS_MAX - 1);
		plan->widths[++plan->layer_count] = width;
		list = *end == ',' ? end + 1 : end;
	}
	return 0;
}

static int plan_make(const char *name, const struct learn_shape *shape, struct plan *plan,
		     struct learn_line *err)
{
	int rc = 0;

	*plan = (struct plan){ .widths = { shape->features } };
	if (strcmp(name, "mlp") == 0) {
		rc = plan_mlp(name, "128,64", plan, err);
	} else if (strncmp(name, "mlp:", 4) == 0 && name[4] != 0) {
		rc = plan_mlp(name, name + 4, plan, err);
	} else if (strcmp(name, "cnn") == 0) {
		if (shape->rows != LEARN_SIDE1 || shape->cols != LEARN_SIDE1)
			return learn_err(err, -EINVAL,
					 "model \"cnn\" takes images of 28x28, the data has %ux%u; "
					 "choose softmax or mlp",
					 shape->rows, shape->cols);
		plan->cnn = true;
		plan->dropout = 0.25f;
		plan->widths[0] = LEARN_CNN_FEATURES;
		plan->widths[++plan->layer_count] = CNN_HIDDEN;
	} else if (strcmp(name, "softmax") != 0) {
		return learn_err(err, -EINVAL,
				 "model \"%s\" is unknown; there are softmax, mlp[:A,B,...], cnn, "
				 "mf[:key=value,...] and lda[:key=value,...]",
				 name);
	}
	plan->widths[++plan->layer_count] = shape->classes;
	return rc;
}

/* layers_fill -- the table of layers; returns where the dense ones start */
static size_t layers_fill(struct classifier *self, const struct plan *plan)
{
	struct learn_model *model = &self->base;
	size_t first;

	if (plan->cnn) {
		learn_layer_add(model, "conv1", LEARN_CNN_TAPS, LEARN_C1, true);
		learn_layer_add(model, "conv2", LEARN_C1 * LEARN_CNN_TAPS, LEARN_C2, true);
	}
	first = model->param_count;
	for (size_t l = 0; l < plan->layer_count; l++) {
		(void)snprintf(self->names[l], NAME_LEN, "dense%zu", l + 1);
		learn_layer_add(model, self->names[l], plan->widths[l], plan->widths[l + 1], true);
	}
	return first;
}

static void classifier_destroy(struct learn_model *model)
{
	struct classifier *self = classifier_of(model);

	learn_batch_destroy(self->eval);
	learn_cnn_destroy(self->cnn);
	learn_stack_fini(&self->stack);
	free(self);
}

static void classifier_init(const struct learn_model *model, uint64_t seed, float *w)
{
	for (size_t l = 0; l < model->layer_count; l++) {
		const struct learn_layer *layer = &model->layers[l];

		/* sqrt and division round in one defined way everywhere */
		learn_init_uniform(seed, (uint32_t)l, (float)(1.0 / sqrt((double)layer->fan_in)),
				   layer->weights + layer->biases, w + layer->offset);
	}
}

static int classifier_grad(struct learn_model *model, const float *w,
			   const struct learn_batch *batch, const struct learn_key *key,
			   float *grad, double *ret_loss)
{
	struct classifier *self = classifier_of(model);
	const float *x = batch->x;
	bool cnn = self->cnn != NULL;

	for (unsigned i = 0; i < batch->count; i++) {
		if (batch->labels[i] >= model->shape.classes)
			return -EINVAL;
	}
	if (cnn)
		x = learn_cnn_forward(self->cnn, w, x, batch->count);
	learn_stack_forward(&self->stack, w, x, batch->count, key);
	*ret_loss =
		learn_stack_backward(&self->stack, w, x, batch->labels, batch->count, cnn, grad);
	if (cnn && model->ready != NULL) /* the dense layers are final */
		model->ready(model->ready_arg, grad, model->layers[2].offset);
	if (cnn)
		learn_cnn_backward(self->cnn, batch->x, self->stack.dy, batch->count, grad);
	return 0;
}

static int classifier_eval(struct learn_model *model, const float *w, const struct learn_data *data,
			   const struct learn_set *set, size_t first, size_t count,
			   struct learn_score *ret_score)
{
	struct classifier *self = classifier_of(model);
	struct learn_score score = { 0 };

	while (count > 0) {
		unsigned now = count < model->batch_max ? (unsigned)count : model->batch_max;
		const float *x = self->eval->x;
		int rc;

		rc = learn_batch_load(data, set, first, now, self->eval);
		if (rc != 0)
			return rc;
		if (self->cnn != NULL)
			x = learn_cnn_forward(self->cnn, w, x, now);
		learn_stack_forward(&self->stack, w, x, now, NULL);
		learn_stack_score(&self->stack, self->eval->labels, now, &score);
		first += now;
		count -= now;
	}
	*ret_score = score;
	return 0;
}

static double accuracy(const struct learn_score *score)
{
	return (double)score->correct / (double)score->count;
}

static const struct learn_ops ops = { .destroy = classifier_destroy,
				      .init = classifier_init,
				      .grad = classifier_grad,
				      .eval = classifier_eval,
				      .score = accuracy };

int learn_classifier_create(const char *name, const struct learn_shape *shape,
			    const struct learn_model_opts *opts, struct learn_model **ret_model,
			    struct learn_line *err)
{
	char text[OL_STATUS_TEXT_MAX];
	struct classifier *self;
	struct plan plan;
	float dropout;
	size_t first;
	int rc;

	rc = plan_make(name, shape, &plan, err);
	if (rc == 0)
		rc = learn_kind_check(name, LEARN_SAMPLES, shape, err);
	if (rc != 0)
		return rc;
	self = calloc(1, sizeof(*self));
	if (self == NULL)
		return learn_err(err, -ENOMEM, "model \"%s\": out of memory", name);
	self->base.ops = &ops;
	self->base.traits = (struct learn_traits){ .score_name = "accuracy" };
	dropout = opts->dropout < 0 ? plan.dropout : opts->dropout;
	self->stack.drop = (unsigned)(dropout * DROP_STEPS + 0.5f);
	self->stack.final_relu = opts->final_relu;
	first = layers_fill(self, &plan);
	rc = learn_params_check(&self->base, name, err);
	if (rc != 0)
		goto err_self;
	rc = learn_stack_init(&self->stack, plan.widths, plan.layer_count, first, opts->batch_max);
	if (rc == 0 && plan.cnn)
		rc = learn_cnn_create(opts->batch_max, &self->cnn);
	if (rc == 0)
		rc = learn_batch_create(shape, opts->batch_max, &self->eval);
	if (rc != 0) {
		(void)learn_err(err, rc, "model \"%s\": no memory for batches of %u", name,
				opts->batch_max);
		goto err_self;
	}
	rc = opts->weights_only ? 0 : learn_blas_reserve();
	if (rc != 0) {
		(void)learn_err(err, rc,
				"model \"%s\": no memory for matrix products, which take %d MB: %s",
				name, LEARN_BLAS_BYTES / 1000000, ol_status_text(rc, text));
		goto err_self;
	}
	*ret_model = &self->base;
	return 0;

err_self:
	classifier_destroy(&self->base);
	return rc;
}
