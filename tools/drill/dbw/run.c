/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * run.c -- one run: workers and a server under a virtual clock
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "drill/dbw/dbw.h"
#include "drill/trial.h"

/* Time between two looks at the loss: this, or this share of the time so far if that is more */
static const double look_every = 0.1, look_share = 0.02;

enum {
	INIT_SEED = 1 /* of first weights */
};

struct worker {
	bool busy; /* else it waits for the next step */
	double free_at; /* when its gradient lands */
	uint64_t base; /* the version that it is computed at */
	uint64_t drawn; /* delays so far */
};

struct run {
	const struct dbw_opts *opts;
	struct ol_policy *policy;
	struct worker workers[DBW_WORKERS_MAX];
	bool held[DBW_WORKERS_MAX];
	double held_loss[DBW_WORKERS_MAX];
	double norm2[DBW_WORKERS_MAX];
	double factor[DBW_WORKERS_MAX]; /* of a held gradient: 1, unless it is carried, of AGED */
	float *grads; /* a row a worker; … */
	float *bases; /* … the weights that it is computed at, if they are wanted; else NULL */
	float *w;
	double *sum;
	uint64_t version;
	double now;
	double judged_at;
	double step_at; /* the last one */
	uint64_t late; /* since then */
	struct dbw_result result;
};

int dbw_problem_open(const char *dataset, const char *model, unsigned batch_max,
		     struct dbw_problem *problem, char *err, size_t err_len)
{
	struct learn_model_opts opts;
	int rc;

	*problem = (struct dbw_problem){ .batch_max = batch_max };
	learn_model_opts_init(&opts);
	opts.batch_max = batch_max;
	rc = learn_data_open(dataset, &problem->data, err, err_len);
	if (rc == 0)
		rc = learn_model_create(model, &problem->data->shape, &opts, &problem->model, err,
					err_len);
	if (rc == 0)
		rc = learn_batch_create(&problem->data->shape, batch_max, &problem->batch);
	if (rc == 0) {
		problem->floats = problem->model->param_count;
		problem->begin = calloc(problem->floats, sizeof(*problem->begin));
		rc = problem->begin == NULL ? -ENOMEM : 0;
	}
	if (rc != 0) {
		dbw_problem_close(problem);
		return rc;
	}
	if (strcmp(model, "softmax") != 0)
		learn_model_init(problem->model, INIT_SEED, problem->begin);
	problem->first = dbw_loss(problem, problem->begin);
	return 0;
}

void dbw_problem_close(struct dbw_problem *problem)
{
	learn_batch_destroy(problem->batch);
	learn_model_destroy(problem->model);
	learn_data_close(problem->data);
	free(problem->begin);
	*problem = (struct dbw_problem){ 0 };
}

double dbw_loss(const struct dbw_problem *problem, const float *w)
{
	struct learn_score score = { 0 };

	/* cannot fail: the range and the set fit the model */
	(void)learn_model_eval(problem->model, w, problem->data, &problem->data->train, 0,
			       problem->data->train.count, &score);
	return score.loss_sum / (double)problem->data->train.count;
}

static uint64_t as_ns(double t)
{
	return (uint64_t)llround(t * 1e9);
}

static void begin(struct run *run, uint32_t i, double at)
{
	struct worker *worker = &run->workers[i];
	struct learn_key key = { .seed = run->opts->seed, .step = worker->drawn++, .worker = i };
	const struct ol_delay *delay = &run->opts->delay;

	worker->busy = true;
	worker->base = run->version;
	if (run->bases != NULL)
		memcpy(run->bases + i * run->opts->problem->floats, run->w,
		       run->opts->problem->floats * sizeof(*run->w));
	worker->free_at =
		at + ol_delay_draw(delay, &key) * ol_delay_factor(delay, i, run->opts->workers, at);
}

/* The gradient of worker i at the weights w; its loss */
static float compute(struct run *run, uint32_t i, const float *w)
{
	const struct dbw_opts *opts = run->opts;
	struct dbw_problem *problem = opts->problem;
	struct learn_key key = { .seed = opts->seed, .step = run->workers[i].base, .worker = i };
	double loss = 0.0, sum = 0.0;
	float *grad;

	if (problem == NULL)
		return NAN;
	grad = run->grads + i * problem->floats;
	/* cannot fail: the batch was made for this data set and count */
	(void)learn_batch_draw(problem->data, &key, opts->batch, problem->batch);
	(void)learn_model_grad(problem->model, w, problem->batch, &key, grad, &loss);
	for (size_t f = 0; f < problem->floats; f++)
		sum += (double)grad[f] * (double)grad[f];
	run->norm2[i] = sum;
	run->held_loss[i] = loss;
	return (float)loss;
}

/* Apply the mean of the held gradients, in worker order. */
static void apply(struct run *run, struct ol_update *update)
{
	const struct dbw_problem *problem = run->opts->problem;
	size_t floats = problem->floats;

	memset(run->sum, 0, floats * sizeof(*run->sum));
	update->norm2_sum = 0.0;
	update->norm2_mean = 0.0;
	for (uint32_t i = 0; i < run->opts->workers; i++) {
		const float *grad = run->grads + i * floats;
		const double factor = run->factor[i];

		if (!run->held[i])
			continue;
		update->norm2_sum += factor * factor * run->norm2[i];
		for (size_t f = 0; f < floats; f++)
			run->sum[f] += factor * (double)grad[f];
	}
	for (size_t f = 0; f < floats; f++) {
		double mean = run->sum[f] / update->count;

		update->norm2_mean += mean * mean;
		run->w[f] -= (float)(run->opts->lr * mean);
	}
}

static int step_note(struct run *run, uint32_t count)
{
	struct dbw_result *result = &run->result;
	double loss = 0.0;

	for (uint32_t i = 0; i < run->opts->workers; i++)
		loss += run->held[i] ? run->held_loss[i] : 0.0;
	if (json_array_append_new(result->list,
				  trial_list((double[]){ run->now, count, loss / count }, 3)) != 0)
		return -ENOMEM;
	result->steps++;
	if (result->steps > run->opts->skip) {
		double share = 1.0 / (double)++result->counted;

		result->step_mean += (run->now - run->step_at - result->step_mean) * share;
		result->k_mean += (count - result->k_mean) * share;
		result->late_mean += ((double)run->late - result->late_mean) * share;
	}
	run->step_at = run->now;
	run->late = 0;
	return 0;
}

/* Workers that wait, or interrupt, go on with the new weights. */
static void wake(struct run *run)
{
	enum ol_on_late on_late = run->opts->on_late;

	for (uint32_t i = 0; i < run->opts->workers; i++) {
		bool drop = run->workers[i].busy && on_late == OL_ON_LATE_INTERRUPT;

		run->late += drop;
		if (!run->workers[i].busy || drop)
			begin(run, i,
			      run->now + (on_late == OL_ON_LATE_PULL ? run->opts->ask : 0.0));
		run->held[i] = false;
	}
}

static int step_make(struct run *run)
{
	struct ol_update update = { .norm2_sum = NAN,
				    .norm2_mean = NAN,
				    .now_ns = as_ns(run->now) };
	int rc;

	for (uint32_t i = 0; i < run->opts->workers; i++)
		update.count += run->held[i];
	if (run->opts->problem != NULL)
		apply(run, &update);
	update.version = ++run->version;
	rc = step_note(run, update.count);
	ol_policy_on_update(run->policy, &update);
	wake(run);
	return rc;
}

/* The gradient of worker i lands. */
static int land(struct run *run, uint32_t i)
{
	struct worker *worker = &run->workers[i];
	bool late = worker->base != run->version;
	const float *w =
		late && run->bases != NULL ? run->bases + i * run->opts->problem->floats : run->w;
	struct ol_arrival arrival = { .base_version = worker->base,
				      .version = run->version,
				      .now_ns = as_ns(run->now),
				      .worker = i,
				      /* a gradient that is not used is not computed */
				      .loss = late && run->bases == NULL ? NAN
									 : compute(run, i, w) };
	enum ol_verdict verdict = ol_policy_on_gradient(run->policy, &arrival);

	worker->busy = false;
	if (verdict == OL_VERDICT_LATE) {
		run->late++;
		begin(run, i,
		      run->now + (run->opts->on_late == OL_ON_LATE_PULL ? run->opts->ask : 0.0));
		return 0;
	}
	run->held[i] = true;
	run->factor[i] = run->opts->late == OL_LATE_AGED
				 ? 1.0 / (1.0 + (double)(run->version - worker->base))
				 : 1.0;
	return verdict == OL_VERDICT_STEP ? step_make(run) : 0;
}

static int judge(struct run *run)
{
	struct dbw_result *result = &run->result;

	if (run->opts->problem == NULL || run->now < run->judged_at)
		return 0;
	run->judged_at = run->now + fmax(look_every, look_share * run->now);
	result->loss = dbw_loss(run->opts->problem, run->w);
	result->reached = run->opts->target > 0.0 && result->loss <= run->opts->target;
	return json_array_append_new(result->looks,
				     trial_list((double[]){ run->now, result->loss }, 2)) == 0
		       ? 0
		       : -ENOMEM;
}

static bool over(const struct run *run)
{
	const struct dbw_opts *opts = run->opts;
	uint64_t steps = run->result.steps;

	return run->result.reached || steps >= DBW_STEPS_MAX ||
	       (opts->steps_max != 0 && steps >= opts->steps_max) ||
	       (opts->time_max > 0.0 && run->now >= opts->time_max);
}

static int go(struct run *run)
{
	int rc = 0;

	for (uint32_t i = 0; i < run->opts->workers; i++) {
		ol_policy_on_join(run->policy, i);
		begin(run, i, 0.0);
	}
	while (rc == 0 && !over(run)) {
		uint64_t steps = run->result.steps;
		uint32_t first = 0;

		/* ties go to the lowest number. At least one worker is busy: a step never waits
		   for more workers than there are */
		for (uint32_t i = 0; i < run->opts->workers; i++) {
			const struct worker *one = &run->workers[i], *best = &run->workers[first];

			if (one->busy && (!best->busy || one->free_at < best->free_at))
				first = i;
		}
		run->now = run->workers[first].free_at;
		rc = land(run, first);
		if (rc == 0 && run->result.steps != steps)
			rc = judge(run);
	}
	run->result.t = run->now;
	return rc;
}

/* Late gradients are applied, or their losses used */
static bool wants_bases(const struct dbw_opts *opts)
{
	return opts->wait == OL_WAIT_DBW || opts->late != OL_LATE_DROP;
}

static int room_make(struct run *run)
{
	const struct dbw_opts *opts = run->opts;
	struct ol_policy_opts popts;
	size_t floats = opts->problem != NULL ? opts->problem->floats : 0;

	ol_policy_opts_init(&popts);
	popts.consistency = OL_CONSISTENCY_SYNC;
	popts.wait = opts->wait;
	popts.workers = opts->workers;
	popts.workers_max = opts->workers;
	popts.k = opts->k;
	popts.late = opts->late;
	popts.late_steps = opts->late_steps;
	if (opts->lr > 0.0)
		popts.lr = opts->lr;
	if (floats > 0) {
		run->w = malloc(floats * sizeof(*run->w));
		run->sum = malloc(floats * sizeof(*run->sum));
		run->grads = malloc(opts->workers * floats * sizeof(*run->grads));
		if (wants_bases(opts))
			run->bases = malloc(opts->workers * floats * sizeof(*run->bases));
		if (run->w == NULL || run->sum == NULL || run->grads == NULL ||
		    (wants_bases(opts) && run->bases == NULL))
			return -ENOMEM;
		memcpy(run->w, opts->problem->begin, floats * sizeof(*run->w));
	}
	return ol_policy_create(&popts, &run->policy);
}

int dbw_run(const struct dbw_opts *opts, struct dbw_result *ret_result)
{
	struct run *run = calloc(1, sizeof(*run));
	int rc;

	if (run == NULL)
		return -ENOMEM;
	run->opts = opts;
	run->result.list = json_array();
	run->result.looks = json_array();
	rc = room_make(run);
	if (rc == 0)
		rc = go(run);
	ol_policy_destroy(run->policy);
	free(run->w);
	free(run->sum);
	free(run->grads);
	free(run->bases);
	if (rc == 0)
		*ret_result = run->result;
	else
		dbw_result_fini(&run->result);
	free(run);
	return rc;
}

void dbw_result_fini(struct dbw_result *result)
{
	json_decref(result->list);
	json_decref(result->looks);
	*result = (struct dbw_result){ 0 };
}
