/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * job.c -- the training job: data set, model, one step's gradient, evaluation
 */
#include "cmd/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the fingerprint of weights is that of little-endian floats"
#endif

static int data_open(struct ol_job *job, const struct ol_job_opts *opts, int *ret_exit, char *err,
		     size_t err_bytes)
{
	int rc;

	if (opts->shape.features != 0) {
		job->shape = opts->shape;
		return 0;
	}
	rc = learn_data_open(opts->dataset, &job->data, err, err_bytes);
	if (rc == 0)
		job->shape = job->data->shape;
	else if (rc == -EINVAL)
		*ret_exit = OL_EXIT_USAGE;
	else
		*ret_exit = rc == -ENOMEM ? OL_EXIT_RESOURCES : OL_EXIT_DATA;
	return rc;
}

static int model_open(struct ol_job *job, const struct ol_job_opts *opts, int *ret_exit, char *err,
		      size_t err_bytes)
{
	struct learn_model_opts mopts;
	int rc;

	learn_model_opts_init(&mopts);
	if (opts->batch > 0)
		mopts.batch_max = opts->batch;
	mopts.weights_only = opts->weights_only;
	mopts.final_relu = opts->final_relu;
	rc = learn_model_create(opts->model, &job->shape, &mopts, &job->model, err, err_bytes);
	if (rc != 0) {
		*ret_exit = rc == -ENOMEM ? OL_EXIT_RESOURCES : OL_EXIT_USAGE;
		return rc;
	}
	job->traits = &job->model->traits;
	job->param_count = job->model->param_count;
	job->seed = opts->seed;
	job->batch_count = opts->batch;
	if (opts->batch == 0 || job->data == NULL)
		return 0;
	rc = learn_model_attach(job->model, job->data, err, err_bytes);
	if (rc != 0) {
		*ret_exit = rc == -ENOMEM ? OL_EXIT_RESOURCES : OL_EXIT_USAGE;
		return rc;
	}
	rc = learn_batch_create(&job->shape, opts->batch, &job->batch);
	if (rc != 0) {
		snprintf(err, err_bytes, "a batch of %u samples: %s", opts->batch,
			 rc == -ENOMEM ? "no memory" : "too large");
		*ret_exit = rc == -ENOMEM ? OL_EXIT_RESOURCES : OL_EXIT_USAGE;
	}
	return rc;
}

int ol_job_open(const struct ol_job_opts *opts, struct ol_job **ret_job, int *ret_exit, char *err,
		size_t err_bytes)
{
	struct ol_job *job = calloc(1, sizeof(*job));
	int rc;

	if (job == NULL) {
		snprintf(err, err_bytes, "no memory for the model");
		*ret_exit = OL_EXIT_RESOURCES;
		return -ENOMEM;
	}
	rc = data_open(job, opts, ret_exit, err, err_bytes);
	if (rc == 0)
		rc = model_open(job, opts, ret_exit, err, err_bytes);
	if (rc != 0) {
		ol_job_close(job);
		return rc;
	}
	*ret_job = job;
	return 0;
}

void ol_job_close(struct ol_job *job)
{
	if (job == NULL)
		return;
	learn_batch_destroy(job->batch);
	learn_model_destroy(job->model);
	learn_data_close(job->data);
	free(job);
}

int ol_job_share(struct ol_job *job, uint32_t worker, uint32_t workers, char *err, size_t err_bytes)
{
	if (job->shape.kind != LEARN_WORDS)
		return 0;
	if (worker < workers && workers <= job->data->train.count) {
		job->batch->workers = workers;
		return 0;
	}
	snprintf(err, err_bytes,
		 "worker %u of %u, and %zu documents to share out: every worker needs one", worker,
		 workers, job->data->train.count);
	return -EINVAL;
}

int ol_job_begin(const struct ol_job *job, uint64_t position)
{
	return job->traits->additive && position > 0 ? -ESTALE : 0;
}

void ol_job_first_weights(const struct ol_job *job, float *weights)
{
	learn_model_init(job->model, job->seed, weights);
}

uint64_t *ol_job_blocks(const struct ol_job *job, uint32_t *ret_count)
{
	size_t count = learn_model_blocks(job->model, NULL);
	uint64_t *lengths = calloc(count, sizeof(*lengths));

	if (lengths != NULL)
		*ret_count = (uint32_t)learn_model_blocks(job->model, lengths);
	return lengths;
}

char *ol_job_tensors(const struct ol_job *job)
{
	const struct learn_model *model = job->model;
	char *text = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&text, &bytes);

	if (to == NULL)
		return NULL;
	for (size_t i = 0; i < model->layer_count; i++) {
		const struct learn_layer *layer = &model->layers[i];

		fprintf(to, "F32 %zu,%zu %s.weight\n", layer->weights / layer->fan_in,
			layer->fan_in, layer->name);
		if (layer->biases > 0)
			fprintf(to, "F32 %zu %s.bias\n", layer->biases, layer->name);
	}
	if (fclose(to) == 0)
		return text;
	free(text);
	return NULL;
}

void ol_job_draw(struct ol_job *job, uint32_t worker, uint64_t step)
{
	job->key = (struct learn_key){ .seed = job->seed, .step = step, .worker = worker };
	/* cannot fail: the batch was made for this data set and this count */
	(void)learn_batch_draw(job->data, &job->key, job->batch_count, job->batch);
}

void ol_job_grad(struct ol_job *job, const float *weights, float *grad, float *ret_loss)
{
	double loss = 0.0;

	(void)learn_model_grad(job->model, weights, job->batch, &job->key, grad, &loss);
	*ret_loss = (float)loss;
}

void ol_eval_start(struct ol_eval *eval, const float *weights)
{
	*eval = (struct ol_eval){ .weights = weights };
}

bool ol_eval_some(struct ol_job *job, struct ol_eval *eval, size_t count)
{
	const struct learn_set *set = &job->data->test;
	struct learn_score part = { 0 };
	size_t left = set->count - eval->score.count;

	if (count > left)
		count = left;
	(void)learn_model_eval(job->model, eval->weights, job->data, set, eval->score.count, count,
			       &part);
	eval->score.count += count;
	eval->score.correct += part.correct;
	eval->score.loss_sum += part.loss_sum;
	return eval->score.count == set->count;
}

double ol_eval_score(const struct ol_job *job, const struct ol_eval *eval)
{
	return learn_model_score(job->model, &eval->score);
}

double ol_eval_loss(const struct ol_eval *eval)
{
	return eval->score.loss_sum / (double)eval->score.count;
}

int ol_job_fingerprint(const struct ol_job *job, const float *weights,
		       char ret_hex[OL_SHA256_HEX_BYTES])
{
	return ol_sha256_hex(weights, job->param_count * sizeof(float), ret_hex);
}

static int shape_of_samples(const unsigned size[3], struct learn_shape *ret_shape)
{
	unsigned rows = size[0], cols = size[1], classes = size[2];

	if (rows > LEARN_FEATURES_MAX || cols > LEARN_FEATURES_MAX ||
	    (uint64_t)rows * cols > LEARN_FEATURES_MAX || classes < 2 ||
	    classes > LEARN_CLASSES_MAX)
		return -EINVAL;
	*ret_shape = (struct learn_shape){
		.rows = rows, .cols = cols, .features = rows * cols, .classes = classes
	};
	return 0;
}

int ol_shape_parse(const char *text, struct learn_shape *ret_shape)
{
	unsigned size[3];
	int end[3] = { -1, -1, -1 };
	int sizes = sscanf(text, "%7u%nx%7u%nx%5u%n", &size[0], &end[0], &size[1], &end[1],
			   &size[2], &end[2]);

	if (sizes < 1 || end[sizes - 1] < 0 || text[end[sizes - 1]] != '\0')
		return -EINVAL;
	for (int i = 0; i < sizes; i++) {
		if (size[i] == 0)
			return -EINVAL;
	}
	if (sizes == 3)
		return shape_of_samples(size, ret_shape);
	if (size[0] > LEARN_FEATURES_MAX || (sizes == 2 && size[1] > LEARN_FEATURES_MAX - size[0]))
		return -EINVAL;
	if (sizes == 2)
		*ret_shape = (struct learn_shape){ .kind = LEARN_RATINGS,
						   .rows = size[0],
						   .cols = size[1],
						   .features = size[0] + size[1] };
	else
		*ret_shape = (struct learn_shape){
			.kind = LEARN_WORDS, .rows = 1, .cols = size[0], .features = size[0]
		};
	return 0;
}

const char *ol_shape_text(const struct learn_shape *shape, char buf[OL_SHAPE_TEXT_MAX])
{
	switch (shape->kind) {
	case LEARN_SAMPLES:
		snprintf(buf, OL_SHAPE_TEXT_MAX, "%ux%ux%u", shape->rows, shape->cols,
			 shape->classes);
		break;
	case LEARN_RATINGS:
		snprintf(buf, OL_SHAPE_TEXT_MAX, "%ux%u", shape->rows, shape->cols);
		break;
	case LEARN_WORDS:
		snprintf(buf, OL_SHAPE_TEXT_MAX, "%u", shape->cols);
		break;
	}
	return buf;
}

static const struct {
	const char *name;
	const char *value;
} needs[] = {
	{ "optimizer", "sgd" }, { "lr", "1" },         { "weight_decay", "0" },
	{ "replay", "each" },   { "on_late", "wait" }, /* a dropped gradient has changed the
							  worker's topics */
};

/* True also if the subcommand has no such setting */
static bool met(const struct ol_settings *settings, const char *name, const char *value)
{
	char now[64];

	ol_settings_text(settings, name, now, sizeof(now));
	return now[0] == '\0' || strcmp(now, value) == 0;
}

int ol_needs_one(struct ol_settings *settings, const char *model, const char *name,
		 const char *value)
{
	if (met(settings, name, value) || ol_conf_is_set(settings->conf, name))
		return 0;
	if (ol_conf_set(settings->conf, name, value) != 0)
		return ol_cmd_error(OL_EXIT_RESOURCES, settings->cmd, "no memory for a setting",
				    name, NULL);
	fprintf(stderr, "model %s: --%s %s, as none is given\n", model, name, value);
	return 0;
}

int ol_needs_take(struct ol_settings *settings, const char *model, const struct ol_job *job)
{
	size_t count = job->traits->additive ? sizeof(needs) / sizeof(needs[0]) : 0;
	char why[160];
	int rc = 0;

	for (size_t i = 0; i < count; i++) {
		if (met(settings, needs[i].name, needs[i].value) ||
		    !ol_conf_is_set(settings->conf, needs[i].name))
			continue;
		snprintf(why, sizeof(why), "is not what the model %.64s needs: give %s", model,
			 needs[i].value);
		return ol_settings_fail(settings, needs[i].name, why);
	}
	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = ol_needs_one(settings, model, needs[i].name, needs[i].value);
	return rc;
}
