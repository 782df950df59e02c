/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_dbw.c -- `outlast drill --experiment dbw`: which settings, which runs
 */
#include "outlast/drill_dbw.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outlast/cmd.h"
#include "outlast/drill.h"

enum {
	PRESETS = 3, /* quick, short, seed-paper */
	FULL_STEPS = 1500 /* of the search for the least loss */
};

const double dbw_depths[DBW_DEPTHS] = { 0.1, 0.03, 0.01, 0.003, 0.001 };

static const char dataset[] = "synthetic:noise=4,train=2000";
static const unsigned trials_of[PRESETS] = { 2, 5, 5 };
static const uint64_t time_steps_of[PRESETS] = { 4000, 40000, 40000 };
static const uint32_t sixteenths[DBW_STATICS] = { 1, 2, 4, 8, 12, 14, 16 };
static const double ask = 0.05;

/* PAPERS: push and wait, n = 16, static k; means of 40,000 updates */
static const struct {
	uint32_t k;
	double psw[3]; /* alpha 0.2, 0.5, 1 */
} known[] = {
	{ 1, { 0.901, 0.680, 0.295 } },  { 2, { 0.943, 0.762, 0.447 } },
	{ 4, { 0.987, 0.874, 0.678 } },  { 6, { 1.021, 0.970, 0.879 } },
	{ 8, { 1.054, 1.068, 1.090 } },  { 10, { 1.092, 1.180, 1.328 } },
	{ 12, { 1.144, 1.328, 1.635 } }, { 14, { 1.230, 1.560, 2.114 } },
	{ 15, { 1.308, 1.764, 2.529 } }, { 16, { 1.475, 2.188, 3.376 } },
};
static const double known_alphas[3] = { 0.2, 0.5, 1.0 };

uint32_t dbw_method_k(const struct dbw_setting *setting, size_t method)
{
	uint32_t k = method < DBW_STATICS ? sixteenths[method] * setting->workers / DBW_N : 0;

	return k == 0 ? 1 : k;
}

void dbw_method_name(const struct dbw_setting *setting, size_t method, char *text, size_t bytes)
{
	static const char *const chosen[] = { "dbw", "dbw-blind", "adasync" };

	if (method < DBW_STATICS)
		snprintf(text, bytes, "k=%u", dbw_method_k(setting, method));
	else
		snprintf(text, bytes, "%s", chosen[method - DBW_STATICS]);
}

static void setting_name(const struct dbw_setting *setting, char *text, size_t bytes)
{
	snprintf(text, bytes, "n=%u alpha=%g B=%u lr=%g", setting->workers, setting->alpha,
		 setting->batch, setting->lr);
}

static int fail(int status, const char *what)
{
	if (status == -ENOMEM)
		return ol_cmd_error(OL_EXIT_RESOURCES, "drill", "no memory", what, NULL);
	return ol_cmd_error(OL_EXIT_FAILED, "drill", "a run failed", what, ol_strerror(status));
}

/* Gradient descent with momentum on all samples, until the loss falls no more */
static int least_find(struct dbw_problem *problem)
{
	size_t floats = problem->floats;
	unsigned count = (unsigned)problem->data->train.count;
	struct learn_key key = { 0 };
	float *w = calloc(2 * floats, sizeof(*w)), *speed = w + floats;
	float *grad = malloc(floats * sizeof(*grad));
	double loss = 0.0;
	int rc = w == NULL || grad == NULL ? -ENOMEM : 0;

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
		problem->least = dbw_loss(problem, w);
	free(w);
	free(grad);
	return rc;
}

static double harmonic(uint32_t n)
{
	double sum = 0.0;

	for (uint32_t i = 1; i <= n; i++)
		sum += 1.0 / i;
	return sum;
}

static int time_mean(const struct dbw_study *study, const struct dbw_time *time,
		     enum ol_on_late on_late, double *ret_mean)
{
	struct dbw_opts opts = { .wait = OL_WAIT_FIXED,
				 .k = time->k,
				 .workers = DBW_N,
				 .on_late = on_late,
				 .ask = ask,
				 .delay = { .mean_s = 1.0, .alpha = time->alpha },
				 .seed = study->seed,
				 .steps_max = study->time_steps,
				 .skip = study->time_steps / 10 };
	struct dbw_result result;
	int rc = dbw_run(&opts, &result);

	if (rc != 0)
		return rc;
	*ret_mean = result.step_mean;
	dbw_result_fini(&result);
	return 0;
}

static int times_make(struct dbw_study *study)
{
	size_t rows = sizeof(known) / sizeof(known[0]);
	int rc = 0;

	drill_say(study->drill, true, "times: %zu means of %llu steps", 9 * rows,
		  (unsigned long long)study->time_steps);
	for (size_t i = 0; rc == 0 && i < 3 * rows; i++) {
		struct dbw_time *time = &study->times[study->time_count++];
		uint32_t k = known[i % rows].k;
		double alpha = known_alphas[i / rows];

		*time = (struct dbw_time){
			.alpha = alpha,
			.k = k,
			.psi_exact = 1.0 - alpha + alpha * (harmonic(DBW_N) - harmonic(DBW_N - k)),
			.psw_known = known[i % rows].psw[i / rows]
		};
		rc = time_mean(study, time, OL_ON_LATE_INTERRUPT, &time->psi);
		if (rc == 0)
			rc = time_mean(study, time, OL_ON_LATE_WAIT, &time->psw);
		if (rc == 0)
			rc = time_mean(study, time, OL_ON_LATE_PULL, &time->pull);
	}
	return rc == 0 ? 0 : fail(rc, "times");
}

static double k_median(const struct dbw_step *list, size_t count)
{
	double *ks = malloc((count + 1) * sizeof(*ks)), median = NAN;

	for (size_t i = 0; ks != NULL && i < count; i++)
		ks[i] = list[i].k;
	if (ks != NULL && count > 0)
		median = drill_quantile(ks, count, 0.5);
	free(ks);
	return median;
}

static void cell_note(const struct dbw_setting *setting, const struct dbw_problem *problem,
		      const struct dbw_result *result, struct dbw_cell *cell, unsigned trial)
{
	size_t steps = result->steps, quarter = steps / 4, all = 0;

	for (size_t d = 0; d <= setting->depth; d++) {
		double t = dbw_time_to(result, dbw_depth(problem, dbw_depths[d]));

		cell->missed[d] += !(t <= setting->time_max);
		cell->time[d][trial] = fmin(t, setting->time_max);
	}
	for (size_t i = 0; i < steps; i++)
		all += result->list[i].k == setting->workers;
	cell->k_mean[trial] = result->k_mean;
	cell->all_share[trial] = steps > 0 ? (double)all / (double)steps : (double)NAN;
	cell->k_early[trial] = k_median(result->list, quarter);
	cell->k_late[trial] = k_median(result->list + (steps - quarter), quarter);
}

static struct dbw_opts setting_opts(struct dbw_study *study, const struct dbw_setting *setting,
				    size_t method, unsigned trial)
{
	static const enum ol_wait waits[] = { OL_WAIT_DBW, OL_WAIT_DBW_BLIND, OL_WAIT_ADASYNC };
	bool fixed = method < DBW_STATICS;

	return (struct dbw_opts){
		.problem = &study->problem,
		.wait = fixed ? OL_WAIT_FIXED : waits[method - DBW_STATICS],
		/* AdaSync has to be given one: a quarter of the workers */
		.k = fixed ? dbw_method_k(setting, method) : setting->workers / 4,
		.workers = setting->workers,
		.delay = { .mean_s = 1.0, .alpha = setting->alpha },
		.batch = setting->batch,
		.lr = setting->lr,
		.seed = study->seed + trial,
		.target = dbw_depth(&study->problem, dbw_depths[setting->depth]),
		.time_max = setting->time_max,
	};
}

/* For the plot: what DBW did in the first run of a setting */
static void curve_note(struct dbw_study *study, const struct dbw_setting *setting,
		       const struct dbw_result *result)
{
	size_t every = result->steps / 500 + 1;

	if (json_array_size(study->curve) > 0 || setting->alpha < 1.0)
		return;
	for (size_t i = 0; i < result->steps; i += every)
		json_array_append_new(study->curve,
				      json_pack("[f, i, f]", result->list[i].t,
						(int)result->list[i].k, result->list[i].loss));
}

static int setting_make(struct dbw_study *study, struct dbw_setting *setting)
{
	char name[DBW_TEXT_MAX];
	int rc = 0;

	setting_name(setting, name, sizeof(name));
	drill_say(study->drill, true, "%s: %u runs", name, DBW_METHODS * study->trials);
	for (size_t m = 0; rc == 0 && m < DBW_METHODS; m++) {
		for (unsigned trial = 0; rc == 0 && trial < study->trials; trial++) {
			struct dbw_opts opts = setting_opts(study, setting, m, trial);
			struct dbw_result result;

			rc = dbw_run(&opts, &result);
			if (rc != 0)
				break;
			cell_note(setting, &study->problem, &result, &setting->cell[m], trial);
			if (m == DBW_DBW && trial == 0)
				curve_note(study, setting, &result);
			dbw_result_fini(&result);
		}
	}
	return rc == 0 ? 0 : fail(rc, name);
}

static void setting_add(struct dbw_study *study, enum dbw_group group, uint32_t workers,
			double alpha, unsigned batch, double lr, unsigned depth)
{
	struct dbw_setting *setting = &study->settings[study->setting_count++];

	/* long enough for whoever is not much worse than the best; the others count as there
	 * then */
	*setting = (struct dbw_setting){ .group = group,
					 .workers = workers,
					 .alpha = alpha,
					 .batch = batch,
					 .lr = lr,
					 .time_max = (group == DBW_DEEP ? 500.0 : 150.0) / lr,
					 .depth = depth };
}

static void settings_add(struct dbw_study *study)
{
	static const double alphas[] = { 1.0, 0.0, 0.2, 0.5 }, lrs[] = { 0.8, 0.2 };
	static const unsigned batches[] = { 512, 128 };
	static const uint32_t many[] = { 4, 64, 256 };
	bool quick = study->preset == 0;

	for (size_t a = 0; a < (quick ? 2 : 4); a++) {
		for (size_t b = 0; b < (quick ? 1 : 2); b++) {
			for (size_t l = 0; l < (quick ? 1 : 2); l++)
				setting_add(study, DBW_GRID, DBW_N, alphas[a], batches[b], lrs[l],
					    DBW_GRID_DEPTH);
		}
	}
	if (!quick)
		setting_add(study, DBW_DEEP, DBW_N, 1.0, 512, 0.8, DBW_DEPTHS - 1);
	/* what costs most is of the longest preset */
	for (size_t i = 0; !quick && i < (study->preset == 1 ? 2 : 3); i++)
		setting_add(study, DBW_MANY, many[i], 1.0, 128, 0.8, DBW_GRID_DEPTH);
}

/* Steps from `from` to `to`: median of k, mean duration */
static void span_read(const struct dbw_result *result, double from, double to, double *ret_k,
		      double *ret_step)
{
	size_t first = 0, last;

	while (first < result->steps && result->list[first].t < from)
		first++;
	last = first;
	while (last < result->steps && result->list[last].t < to)
		last++;
	*ret_k = k_median(result->list + first, last - first);
	*ret_step = last > first + 1 ? (result->list[last - 1].t - result->list[first].t) /
					       (double)(last - first - 1)
				     : (double)NAN;
}

static const double slow_at = 160.0, slow_settle = 40.0, slow_end = 320.0;

static int slow_run(struct dbw_study *study, struct dbw_slow *slow, unsigned trial, bool all)
{
	struct dbw_opts opts = { .problem = &study->problem,
				 .wait = all ? OL_WAIT_FIXED : OL_WAIT_DBW,
				 .k = DBW_N,
				 .workers = DBW_N,
				 .delay = { .mean_s = 1.0,
					    .alpha = slow->alpha,
					    .slow = true,
					    .slow_half = true,
					    .slow_factor = 5.0,
					    .slow_from_s = slow_at },
				 .batch = 128,
				 .lr = 0.2,
				 .seed = study->seed + trial,
				 .time_max = slow_end };
	struct dbw_result result;
	double k, count = 0.0;
	int rc = dbw_run(&opts, &result);

	if (rc != 0)
		return rc;
	span_read(&result, slow_at - slow_settle, slow_at, all ? &k : &slow->k_before[trial],
		  all ? &slow->all_before[trial] : &slow->step_before[trial]);
	span_read(&result, slow_at + slow_settle, slow_end, all ? &k : &slow->k_after[trial],
		  all ? &slow->all_after[trial] : &slow->step_after[trial]);
	for (size_t i = 0; !all && i < result.steps; i++) {
		if (result.list[i].t <= slow_at)
			continue;
		count += 1.0;
		if (result.list[i].k <= DBW_N / 2 + 1)
			break;
	}
	if (!all)
		slow->steps_to_half[trial] = count;
	dbw_result_fini(&result);
	return 0;
}

static int slows_make(struct dbw_study *study)
{
	static const double alphas[DBW_SLOWS] = { 0.0, 0.2 };
	int rc = 0;

	drill_say(study->drill, true, "half of the workers become slow: %u runs",
		  2 * DBW_SLOWS * study->trials);
	for (size_t i = 0; i < DBW_SLOWS; i++) {
		study->slows[i].alpha = alphas[i];
		for (unsigned trial = 0; rc == 0 && trial < study->trials; trial++) {
			rc = slow_run(study, &study->slows[i], trial, false);
			if (rc == 0)
				rc = slow_run(study, &study->slows[i], trial, true);
		}
	}
	return rc == 0 ? 0 : fail(rc, "slow workers");
}

static int study_make(struct dbw_study *study)
{
	char err[256] = "";
	int rc = dbw_problem_open(dataset, 2048, &study->problem, err, sizeof(err));

	if (rc == 0)
		rc = least_find(&study->problem);
	if (rc != 0)
		return rc == -ENOMEM ? fail(rc, dataset)
				     : ol_cmd_error(OL_EXIT_DATA, "drill", err, NULL, NULL);
	rc = times_make(study);
	if (rc == 0)
		rc = slows_make(study);
	settings_add(study);
	for (size_t i = 0; rc == 0 && i < study->setting_count; i++)
		rc = setting_make(study, &study->settings[i]);
	return rc;
}

int drill_dbw_go(struct drill *drill)
{
	struct dbw_study *study = calloc(1, sizeof(*study));
	int rc;

	if (study == NULL)
		return fail(-ENOMEM, NULL);
	study->drill = drill;
	study->curve = json_array();
	study->seed = drill->set.seed;
	study->preset = drill->set.preset;
	study->time_steps = time_steps_of[study->preset];
	study->trials = drill->set.trials != 0 ? drill->set.trials : trials_of[study->preset];
	if (study->trials > DBW_TRIALS_MAX)
		study->trials = DBW_TRIALS_MAX;
	rc = study_make(study);
	if (rc == 0)
		rc = dbw_record_write(study);
	if (rc == 0)
		rc = drill_report_make(drill);
	json_decref(study->curve);
	dbw_problem_close(&study->problem);
	free(study);
	return rc;
}
