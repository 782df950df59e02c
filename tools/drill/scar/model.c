/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * model.c -- problems: models of tools/learn as functions of their state; random numbers
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drill/scar/scar.h"
#include "learn/data.h"
#include "learn/model.h"
#include "learn/rng.h"

enum {
	PURPOSE = 64, /* above those of tools/learn */
	STREAM_SCALE = 16
};

static uint64_t bits(struct scar_rng *rng)
{
	struct learn_rng_block counter = { .word = {
						   rng->used++,
						   (uint32_t)PURPOSE << 24 | rng->stream,
						   (uint32_t)rng->trial,
						   (uint32_t)(rng->trial >> 32),
					   } };
	struct learn_rng_block block =
		learn_philox(counter, (uint32_t)rng->seed, (uint32_t)(rng->seed >> 32));

	return (uint64_t)block.word[0] << 32 | block.word[1];
}

double scar_uniform(struct scar_rng *rng)
{
	return ((double)(bits(rng) >> 12) + 0.5) * 0x1p-52;
}

double scar_normal(struct scar_rng *rng)
{
	double radius = sqrt(-2.0 * log(scar_uniform(rng)));

	return radius * cos(2.0 * M_PI * scar_uniform(rng));
}

uint32_t scar_below(struct scar_rng *rng, uint32_t limit)
{
	uint64_t word = bits(rng);

	return learn_rng_below((uint32_t)(word >> 32), (uint32_t)word, limit);
}

struct trained {
	struct learn_data *data;
	struct learn_model *model;
	struct learn_batch *batch;
	float *grad;
	size_t floats;
	float lr;
	float decay;
	uint64_t seed;
	uint32_t samples;
	bool drawn;
	uint32_t judged;
};

static void trained_destroy(void *arg)
{
	struct trained *t = arg;

	free(t->grad);
	learn_batch_destroy(t->batch);
	learn_model_destroy(t->model);
	learn_data_close(t->data);
	free(t);
}

static int loss_judge(struct trained *t, const float *x, double *ret_loss)
{
	struct learn_score score;
	int rc = learn_model_eval(t->model, x, t->data, &t->data->train, 0, t->judged, &score);

	if (rc == 0)
		*ret_loss = score.loss_sum / (double)score.count;
	return rc;
}

/* As in the servers' kernel: w - lr * (g + decay * w), each operation rounded */
static int trained_step(void *arg, uint32_t k, const float *x, float *next, double *ret_loss)
{
	struct trained *t = arg;
	struct learn_key key = { .seed = t->seed, .step = t->drawn ? k : 0 };
	double loss;
	int rc = 0;

	if (t->drawn)
		rc = loss_judge(t, x, ret_loss);
	if (rc == 0 && t->drawn)
		rc = learn_batch_draw(t->data, &key, t->samples, t->batch);
	if (rc == 0)
		rc = learn_model_grad(t->model, x, t->batch, &key, t->grad, &loss);
	if (rc != 0)
		return rc;
	if (!t->drawn)
		*ret_loss = loss;
	for (size_t i = 0; i < t->floats; i++)
		next[i] = x[i] - t->lr * (t->grad[i] + t->decay * x[i]);
	return 0;
}

/* Number the blocks of one layer from `first` on; returns the next number. */
static uint32_t layer_cut(const struct scar_spec *spec, const struct learn_layer *layer,
			  uint32_t first, uint32_t *block_of)
{
	uint32_t *of = block_of + layer->offset;
	size_t cut = spec->cut > 0 && spec->cut < layer->fan_in ? spec->cut : 1;
	size_t piece = (layer->fan_in + cut - 1) / cut;
	uint32_t biases = first;

	for (size_t i = 0; i < layer->weights; i++) {
		size_t row = i / layer->fan_in, column = i % layer->fan_in;

		of[i] = first + (uint32_t)(spec->features ? column : row * cut + column / piece);
		biases = biases > of[i] + 1 ? biases : of[i] + 1;
	}
	for (size_t i = 0; i < layer->biases; i++)
		of[layer->weights + i] = biases;
	return biases + 1;
}

bool scar_blocks_set(struct scar_problem *problem, uint32_t block_count)
{
	problem->block_count = block_count;
	problem->lengths = calloc(block_count, sizeof(*problem->lengths));
	if (problem->lengths == NULL)
		return false;
	for (size_t i = 0; i < problem->floats; i++)
		problem->lengths[problem->block_of[i]]++;
	for (uint32_t b = 0; b < block_count; b++) {
		if (problem->lengths[b] == 0)
			return false;
	}
	return true;
}

static bool blocks_make(const struct scar_spec *spec, const struct learn_model *model,
			struct scar_problem *problem)
{
	const struct learn_layer *layers;
	uint32_t count = 0;
	size_t layer_count;

	problem->block_of = calloc(problem->floats, sizeof(*problem->block_of));
	if (problem->block_of == NULL)
		return false;
	layers = model->layers;
	layer_count = model->layer_count;
	for (size_t l = 0; l < layer_count; l++)
		count = layer_cut(spec, &layers[l], count, problem->block_of);
	return scar_blocks_set(problem, count);
}

/* Is a feature one of the outer pixels? */
static bool is_framed(const struct scar_spec *spec, const struct learn_shape *shape,
		      uint32_t feature)
{
	const uint32_t row = feature / shape->cols, col = feature % shape->cols;

	return row < spec->frame || row + spec->frame >= shape->rows || col < spec->frame ||
	       col + spec->frame >= shape->cols;
}

static int batch_make(const struct scar_spec *spec, struct trained *t)
{
	int rc = learn_batch_create(&t->data->shape, spec->samples, &t->batch);

	if (rc == 0 && !spec->drawn)
		rc = learn_batch_load(t->data, &t->data->train, 0, spec->samples, t->batch);
	if (rc != 0 || spec->drawn)
		return rc;
	for (size_t i = 0; spec->unit && i < (size_t)t->batch->count * t->batch->features; i++)
		t->batch->x[i] = (t->batch->x[i] + 1.0f) / 2.0f;
	for (uint32_t f = 0; f < t->batch->features; f++) {
		struct scar_rng rng = { .seed = t->seed, .trial = f, .stream = STREAM_SCALE };
		float scale = (float)exp(spec->spread * scar_normal(&rng));

		if (spec->frame > 0 && is_framed(spec, &t->data->shape, f))
			scale = 0.0f;
		for (size_t i = f; i < (size_t)t->batch->count * t->batch->features;
		     i += t->batch->features)
			t->batch->x[i] *= scale;
	}
	return 0;
}

static int trained_open(const struct scar_spec *spec, struct trained *t,
			struct scar_problem *problem, char *err, size_t err_len)
{
	struct learn_model_opts opts;
	int rc = learn_data_open(spec->data, &t->data, err, err_len);

	if (rc != 0)
		return rc;
	snprintf(problem->shape, sizeof(problem->shape), "%ux%ux%u", t->data->shape.rows,
		 t->data->shape.cols, t->data->shape.classes);
	learn_model_opts_init(&opts);
	opts.batch_max = spec->samples;
	rc = learn_model_create(spec->model, &t->data->shape, &opts, &t->model, err, err_len);
	if (rc != 0)
		return rc;
	snprintf(err, err_len, "%s: no memory, or fewer samples than %u", spec->name,
		 spec->samples > spec->judged ? spec->samples : spec->judged);
	if (spec->samples > t->data->train.count || spec->judged > t->data->train.count)
		return -EINVAL;
	rc = batch_make(spec, t);
	if (rc != 0)
		return rc;
	problem->floats = t->floats = t->model->param_count;
	problem->first = calloc(t->floats, sizeof(float));
	t->grad = calloc(t->floats, sizeof(float));
	if (problem->first == NULL || t->grad == NULL || !blocks_make(spec, t->model, problem))
		return -ENOMEM;
	learn_model_init(t->model, t->seed, problem->first);
	return 0;
}

static int model_open(const struct scar_spec *spec, uint64_t seed, struct scar_problem *problem,
		      char *err, size_t err_len)
{
	struct trained *t = calloc(1, sizeof(*t));
	int rc;

	snprintf(err, err_len, "no memory");
	if (t == NULL)
		return -ENOMEM;
	problem->step = trained_step;
	problem->destroy = trained_destroy;
	problem->model = t;
	t->seed = seed;
	t->samples = spec->samples;
	t->drawn = spec->drawn;
	t->judged = spec->judged;
	t->lr = (float)spec->lr;
	t->decay = (float)spec->decay;
	rc = trained_open(spec, t, problem, err, err_len);
	problem->grad = t->grad;
	return rc;
}

int scar_problem_open(const struct scar_spec *spec, uint64_t seed, struct scar_problem *problem,
		      char *err, size_t err_len)
{
	int rc;

	*problem = (struct scar_problem){ 0 };
	if (strcmp(spec->model, "als") == 0)
		rc = scar_factors_open(spec, seed, problem, err, err_len);
	else if (strcmp(spec->model, "gibbs") == 0)
		rc = scar_topics_open(spec, seed, problem, err, err_len);
	else
		rc = model_open(spec, seed, problem, err, err_len);
	if (rc != 0)
		scar_problem_close(problem);
	return rc;
}

void scar_problem_close(struct scar_problem *problem)
{
	free(problem->lengths);
	free(problem->block_of);
	free(problem->first);
	if (problem->destroy != NULL)
		problem->destroy(problem->model);
	*problem = (struct scar_problem){ 0 };
}
