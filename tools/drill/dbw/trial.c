/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * trial.c -- runs by their description, and each one's result
 */
#include "drill/trial.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/consistency.h"
#include "drill/dbw/dbw.h"

enum {
	FULL_STEPS = 1500, /* of the search for the least loss */
	BATCH_MAX = 2048
};

static int fail(int status, const char *what)
{
	if (status == -ENOMEM)
		return ol_cmd_error(OL_EXIT_RESOURCES, "drill", "no memory", what, NULL);
	return ol_cmd_error(OL_EXIT_FAILED, "drill", "a run failed", what, ol_strerror(status));
}

/* Find the least loss: gradient descent with momentum on all samples, until the loss stops falling */
static int least_find(struct dbw_problem *problem, double *ret_least)
{
	size_t floats = problem->floats;
	unsigned count = (unsigned)problem->data->train.count;
	struct learn_key key = { 0 };
	float *w = calloc(2 * floats, sizeof(*w)), *speed = w + floats;
	float *grad = malloc(floats * sizeof(*grad));
	double loss = 0.0;
	int rc = w == NULL || grad == NULL ? -ENOMEM : 0;

	if (w != NULL)
		memcpy(w, problem->begin, floats * sizeof(*w));
	if (rc == 0)
		rc = learn_batch_load(problem->data, &problem->data->train, 0, count,
				      problem->batch);
	for (unsigned i = 0; rc == 0 && i < FULL_STEPS; i++) {
		rc = learn_model_grad(problem->model, w, problem->batch, &key, grad, &loss);
		for (size_t f = 0; f < floats; f++) {
			speed[f] = 0.9f * speed[f] + grad[f];
			w[f] -= 0.5f * speed[f];
		}
	}
	if (rc == 0)
		*ret_least = dbw_loss(problem, w);
	free(w);
	free(grad);
	return rc;
}

/* Parse "sync:k=3" and "exp:mean=1s,alpha=0.2", as in train */
static int words_read(const char *consistency, const char *delay, struct dbw_opts *opts)
{
	struct ol_consistency_set set;
	char err[OL_DELAY_ERR_MAX];

	if (ol_consistency_parse(consistency, opts->workers, &set, err, sizeof(err)) != 0 ||
	    ol_delay_parse(delay, &opts->delay, err, sizeof(err)) != 0)
		return ol_cmd_error(OL_EXIT_USAGE, "trial", err, NULL, NULL);
	if (set.wait == OL_WAIT_QUORUM)
		return ol_cmd_error(OL_EXIT_USAGE, "trial", "sync:quorum has no virtual clock",
				    NULL, NULL);
	opts->wait = set.wait;
	opts->k = set.k;
	opts->late = set.late;
	opts->late_steps = set.late_steps;
	return 0;
}

/* Means; for a run that trains also every step (time, gradients, loss) and look (time, loss) */
static json_t *result_json(const struct dbw_result *result, bool trains)
{
	return json_pack("{s:f, s:f, s:f, s:o, s:O}", "step_mean", result->step_mean, "k_mean",
			 result->k_mean, "late_mean", result->late_mean, "steps",
			 trains ? json_incref(result->list) : json_array(), "looks", result->looks);
}

/* Make a run, and write its record */
static int run_make(json_t *of, const char *name, struct dbw_opts opts)
{
	const char *consistency, *delay;
	json_int_t seed, steps_max = 0, skip = 0;
	struct dbw_result result;
	int workers, on_late = OL_ON_LATE_WAIT, batch = 0;
	int rc = trial_unpack(of, "{s:s, s:s, s:i, s:I, s?i, s?F, s?i, s?F, s?F, s?F, s?I, s?I}",
			      "consistency", &consistency, "delay", &delay, "workers", &workers,
			      "seed", &seed, "on_late", &on_late, "ask", &opts.ask, "batch", &batch,
			      "lr", &opts.lr, "target", &opts.target, "time_max", &opts.time_max,
			      "steps_max", &steps_max, "skip", &skip);

	if (rc != 0)
		return rc;
	opts.workers = (uint32_t)workers;
	opts.on_late = (enum ol_on_late)on_late;
	opts.batch = (unsigned)batch;
	opts.seed = (uint64_t)seed;
	opts.steps_max = (uint64_t)steps_max;
	opts.skip = (uint64_t)skip;
	rc = words_read(consistency, delay, &opts);
	if (rc != 0)
		return rc;
	rc = dbw_run(&opts, &result);
	ol_delay_fini(&opts.delay);
	if (rc != 0)
		return fail(rc, name);
	rc = trial_say(result_json(&result, opts.problem != NULL));
	dbw_result_fini(&result);
	return rc;
}

int dbw_trial(json_t *of)
{
	struct dbw_problem problem = { 0 };
	const char *name, *data = NULL, *model = "softmax";
	double least = 0.0;
	json_t *runs, *one;
	char err[256] = "";
	size_t i;
	int rc = trial_unpack(of, "{s:s, s:o, s?s, s?s}", "name", &name, "runs", &runs, "data",
			      &data, "model", &model);

	if (rc != 0)
		return rc;
	if (data != NULL)
		rc = dbw_problem_open(data, model, BATCH_MAX, &problem, err, sizeof(err));
	if (rc == 0 && data != NULL && json_is_true(json_object_get(of, "least")))
		rc = least_find(&problem, &least);
	if (rc != 0) {
		dbw_problem_close(&problem);
		return rc == -ENOMEM ? fail(rc, data)
				     : ol_cmd_error(OL_EXIT_DATA, "drill", err, NULL, NULL);
	}
	if (json_array_size(runs) == 0)
		rc = trial_say(json_pack("{s:f, s:f}", "first", problem.first, "least", least));
	json_array_foreach(runs, i, one)
	{
		if (rc == 0)
			rc = run_make(
				one, name,
				(struct dbw_opts){ .problem = data != NULL ? &problem : NULL });
	}
	dbw_problem_close(&problem);
	return rc;
}
