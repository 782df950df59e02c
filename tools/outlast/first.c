/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * first.c -- what a server begins with: of a built-in model, or of any vector of parameters
 */
#include "outlast/first.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/durable.h"
#include "cmd/job.h"
#include "tensors/tensors.h"

static int no_memory(const struct ol_settings *settings)
{
	return ol_cmd_error(OL_EXIT_RESOURCES, settings->cmd, "no memory for the weights", NULL,
			    ol_cmd_remedy(-ENOMEM));
}

/* The shard's place in a job of param_count parameters */
static int span_find(struct ol_settings *settings, const struct ol_first_set *set,
		     struct ol_first *first)
{
	char why[64];

	snprintf(why, sizeof(why), "is not below --servers %u", set->servers);
	if (set->shard >= set->servers)
		return ol_settings_fail(settings, "shard", why);
	if (ol_shard_span(first->param_count, set->servers, set->shard, &first->shard_first,
			  &first->shard_count) != 0)
		return ol_settings_fail(settings, "servers",
					"is too many: a server holds at least 1024 parameters");
	return 0;
}

/* The weights of all shards are made, and the others' dropped. */
static int model_weights(struct ol_settings *settings, const struct ol_job *job,
			 struct ol_first *first)
{
	float *all = malloc(job->param_count * sizeof(*all));

	first->weights = malloc(first->shard_count * sizeof(*first->weights));
	first->blocks = ol_job_blocks(job, &first->block_count);
	first->tensors = ol_job_tensors(job);
	if (all == NULL || first->weights == NULL || first->blocks == NULL ||
	    first->tensors == NULL) {
		free(all);
		return no_memory(settings);
	}
	ol_job_first_weights(job, all);
	memcpy(first->weights, all + first->shard_first,
	       first->shard_count * sizeof(*first->weights));
	free(all);
	return 0;
}

static int model_make(struct ol_settings *settings, const struct ol_first_set *set,
		      struct ol_first *first)
{
	struct ol_job_opts opts = {
		.model = set->model->model,
		.dataset = set->model->dataset,
		.final_relu = set->model->final_relu,
		.seed = set->model->seed,
		.weights_only = true,
	};
	struct ol_job *job;
	char err[512] = "";
	int rc, exit_code;

	if (set->data_shape != NULL && ol_shape_parse(set->data_shape, &opts.shape) != 0)
		return ol_settings_fail(settings, "data_shape",
					"is not ROWSxCOLUMNSxCLASSES, such as 28x28x10, nor "
					"USERSxITEMS, nor a number of WORDS");
	rc = ol_job_open(&opts, &job, &exit_code, err, sizeof(err));
	if (rc != 0)
		return ol_cmd_error(exit_code, settings->cmd, err, NULL, NULL);
	first->param_count = job->param_count;
	first->job_id = ol_job_id(set->model, set->optimizer);
	rc = ol_needs_take(settings, set->model->model, job);
	if (rc == 0)
		rc = span_find(settings, set, first);
	if (rc == 0)
		rc = model_weights(settings, job, first);
	ol_job_close(job);
	return rc;
}

static bool is_worker(const struct ol_first_set *set)
{
	return set->init != NULL && strcmp(set->init, "worker") == 0;
}

/* A vector has no model: a setting of one would do nothing. */
static int vector_check(struct ol_settings *settings, const struct ol_first_set *set)
{
	static const char *const names[] = { "model", "dataset", "data_shape", "final_relu",
					     "seed" };
	char why[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!ol_conf_is_set(settings->conf, names[i]))
			continue;
		snprintf(why, sizeof(why),
			 "is of a model, and --%s names none: give one of the two",
			 set->init != NULL ? "init" : "params");
		return ol_settings_fail(settings, names[i], why);
	}
	if (set->params == 0 && ol_conf_is_set(settings->conf, "params"))
		return ol_settings_fail(settings, "params", "is none: give at least 1");
	if (set->params == 0 && is_worker(set))
		return ol_settings_fail(settings, "init",
					"is worker 0's: give --params, how many parameters it has "
					"(./worker is a file)");
	return 0;
}

static int file_error(const struct ol_first_file *file, int rc, const char *err)
{
	return ol_cmd_error(rc == -ENOMEM ? OL_EXIT_RESOURCES : OL_EXIT_DATA, file->cmd, file->what,
			    err, NULL);
}

int ol_first_file_open(struct ol_first_file *file)
{
	char err[512] = "";
	int rc = ol_tensors_open(file->path, &file->tensors, err, sizeof(err));

	return rc != 0 ? file_error(file, rc, err) : 0;
}

/* A server drops gradients that are not finite, and refuses such a checkpoint. */
static int finite_check(const struct ol_first_file *file, uint64_t first, uint64_t count,
			const float *weights)
{
	char why[160];

	for (uint64_t i = 0; i < count && !file->nonfinite; i++) {
		if (isfinite(weights[i]))
			continue;
		snprintf(why, sizeof(why),
			 "parameter %" PRIu64 " is a NaN or an infinity: mend it, or give "
			 "--nonfinite apply",
			 first + i);
		return ol_cmd_error(OL_EXIT_DATA, file->cmd, file->what, file->path, why);
	}
	return 0;
}

int ol_first_file_read(const struct ol_first_file *file, uint64_t first, uint64_t count,
		       float *ret_weights)
{
	char err[512] = "";
	int rc = ol_tensors_read(file->tensors, first, count, ret_weights, err, sizeof(err));

	return rc != 0 ? file_error(file, rc, err) : finite_check(file, first, count, ret_weights);
}

/* Zeros, or the shard's part of the file */
static int vector_weights(struct ol_settings *settings, const struct ol_first_file *file,
			  struct ol_first *first)
{
	first->weights = calloc(first->shard_count, sizeof(*first->weights));
	if (first->weights == NULL)
		return no_memory(settings);
	if (file->tensors == NULL)
		return 0;
	return ol_first_file_read(file, first->shard_first, first->shard_count, first->weights);
}

static int vector_of(struct ol_settings *settings, const struct ol_first_set *set,
		     const struct ol_first_file *file, struct ol_first *first)
{
	const struct ol_tensors *tensors = file->tensors;
	char why[128];
	int rc;

	first->param_count = tensors != NULL ? ol_tensors_count(tensors) : set->params;
	if (tensors != NULL && ol_tensors_table(tensors) != NULL) {
		first->tensors = strdup(ol_tensors_table(tensors));
		if (first->tensors == NULL)
			return no_memory(settings);
	}
	first->job_id = ol_job_id_vector(first->param_count, set->optimizer);
	snprintf(why, sizeof(why), "is not the %" PRIu64 " that the file of --init has",
		 first->param_count);
	if (set->params != 0 && set->params != first->param_count)
		return ol_settings_fail(settings, "params", why);
	first->is_workers = is_worker(set);
	rc = span_find(settings, set, first);
	return rc != 0 || first->is_workers ? rc : vector_weights(settings, file, first);
}

static int vector_make(struct ol_settings *settings, const struct ol_first_set *set,
		       struct ol_first *first)
{
	struct ol_first_file file = { .cmd = settings->cmd,
				      .what = "--init",
				      .path = set->init,
				      .nonfinite = set->nonfinite };
	int rc = vector_check(settings, set);

	if (rc == 0 && set->init != NULL && !is_worker(set))
		rc = ol_first_file_open(&file);
	if (rc == 0)
		rc = vector_of(settings, set, &file, first);
	ol_tensors_close(file.tensors);
	return rc;
}

int ol_first_make(struct ol_settings *settings, const struct ol_first_set *set,
		  struct ol_first *ret_first)
{
	if (set->init != NULL || ol_conf_is_set(settings->conf, "params"))
		return vector_make(settings, set, ret_first);
	return model_make(settings, set, ret_first);
}

void ol_first_weights_free(struct ol_first *first)
{
	free(first->weights);
	first->weights = NULL;
}

void ol_first_fini(struct ol_first *first)
{
	ol_first_weights_free(first);
	free(first->blocks);
	free(first->tensors);
	*first = (struct ol_first){ 0 };
}
