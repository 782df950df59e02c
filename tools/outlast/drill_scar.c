/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_scar.c -- `outlast drill --experiment scar`: which problems, how many trials
 */
#include "outlast/drill_scar.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outlast/cmd.h"
#include "outlast/drill.h"

enum {
	PRESETS = 3, /* quick, short, seed-paper */
	NORM_FAILURES = 1000,
	KILLS = 20, /* live, of each problem and way of recovery */
	PUSHES_QUICK = 120,
	PUSHES = 1200
};

static const uint32_t periods[SCAR_PERIODS] = { 8, 16, 32 };
static const uint32_t trials_of[PRESETS] = { 10, 30, 100 };

/* A problem, how long it is trained, and from which preset on it is looked at. */
static const struct course {
	struct scar_spec spec;
	uint32_t steps;
	int preset;
	bool few; /* costs much: only the largest C and the smallest r */
	uint32_t runs; /* where chance decides how long one takes; 0: one */
	bool live; /* --live kills servers of it */
} courses[] = {
	{ .spec = { .name = "uneven",
		    .what = "softmax, 64 features of scales exp(1.5 normal), the same 500 "
			    "samples each step, lr 0.02; blocks: features",
		    .model = "softmax",
		    .data = "synthetic:noise=2",
		    .shape = SCAR_FEATURES,
		    .samples = 500,
		    .spread = 1.5,
		    .lr = 0.02 },
	  .steps = 64 },
	{ .spec = { .name = "pixels",
		    .what = "softmax on Fashion-MNIST, pixels 0 to 1, the same 300 images each "
			    "step, lr 0.1; blocks: pixels (10 weights each)",
		    .model = "softmax",
		    .data = "fashion-mnist",
		    .shape = SCAR_FEATURES,
		    .samples = 300,
		    .unit = true,
		    .lr = 0.1 },
	  .steps = 64,
	  .preset = 1 },
	{ .spec = { .name = "rows",
		    .what = "softmax on Fashion-MNIST, pixels -1 to 1, the same 300 images each "
			    "step, lr 0.01; blocks: an image's row of a class (28 weights each)",
		    .model = "softmax",
		    .data = "fashion-mnist",
		    .shape = SCAR_ROWS,
		    .cut = 28,
		    .samples = 300,
		    .lr = 0.01 },
	  .steps = 64,
	  .preset = 1,
	  .few = true,
	  .live = true },
	{ .spec = { .name = "cnn",
		    .what = "CNN on Fashion-MNIST, 32 images drawn each step, lr 0.05, loss of 96 "
			    "images; blocks: outputs of each layer, biases of each layer",
		    .model = "cnn",
		    .data = "fashion-mnist",
		    .shape = SCAR_ROWS,
		    .samples = 32,
		    .drawn = true,
		    .judged = 96,
		    .lr = 0.05 },
	  .steps = 32,
	  .preset = 1,
	  .few = true,
	  .runs = 4,
	  .live = true },
	{ .spec = { .name = "als",
		    .what = "matrix factorization of rank 8 by alternating least squares, 300 "
			    "users, 1000 items; blocks: items' rows",
		    .model = "als",
		    .data = "ratings:users=300,items=1000,density=0.05,noise=0.2" },
	  .steps = 16,
	  .preset = 1,
	  .runs = 10 },
	{ .spec = { .name = "gibbs",
		    .what = "LDA of 10 topics by collapsed Gibbs sampling, 400 documents of 100 "
			    "tokens, 2000 words; blocks: documents' topics",
		    .model = "gibbs",
		    .data = "topics:docs=400,length=100,words=2000" },
	  .steps = 16,
	  .preset = 1,
	  .few = true,
	  .runs = 10 },
};

/* What is perturbed for the bound. The first converges linearly, as the theorem supposes. */
static const struct scar_spec bound_runs[SCAR_BOUNDS] = {
	{ .name = "steady",
	  .what = "softmax, 64 features, the same 200 samples each step, lr 0.005, decay 10",
	  .model = "softmax",
	  .data = "synthetic:noise=2,train=2000",
	  .shape = SCAR_FEATURES,
	  .samples = 200,
	  .lr = 0.005,
	  .decay = 10.0 },
	{ .name = "ordinary",
	  .what = "softmax, 16 features, the same 200 samples each step, lr 0.4, decay 0.1",
	  .model = "softmax",
	  .data = "synthetic:noise=2,features=16,train=2000",
	  .shape = SCAR_FEATURES,
	  .samples = 200,
	  .lr = 0.4,
	  .decay = 0.1 },
};

static int fail(int status, const char *what, const char *why)
{
	switch (status) {
	case -ENOMEM:
		return ol_cmd_error(OL_EXIT_RESOURCES, "drill", "no memory", what, NULL);
	case -EDOM:
		return ol_cmd_error(OL_EXIT_FAILED, "drill", "training diverged", what, NULL);
	default:
		break;
	}
	return ol_cmd_error(OL_EXIT_DATA, "drill", what, why, NULL);
}

/* All runs get the target that they have on average after so many steps. */
static int runs_make(struct scar_study *study, const struct course *course, struct scar_part *part)
{
	uint32_t runs = course->runs > 0 ? course->runs : 1;
	uint32_t steps = course->steps + (runs > 1 ? course->steps / 2 : 0);
	char err[SCAR_TEXT_MAX];
	double target = 0.0;

	for (uint32_t r = 0; r < runs; r++) {
		int rc = scar_problem_open(&course->spec, study->seed + r, &part->problem[r], err,
					   sizeof(err));

		if (rc != 0)
			return fail(rc == -ENOMEM ? rc : -EINVAL, course->spec.name, err);
		part->run_count++;
		rc = scar_run_make(&part->problem[r], steps, &part->run[r]);
		if (rc != 0)
			return fail(rc, course->spec.name, strerror(-rc));
		target += part->run[r].losses[course->steps] / runs;
	}
	for (uint32_t r = 0; r < runs; r++) {
		if (!scar_run_aim(&part->run[r], target) || part->run[r].steps < 2)
			return fail(-ERANGE, course->spec.name, "a run is too far off the others");
	}
	return 0;
}

static int part_make(struct scar_study *study, const struct course *course, struct scar_part *part)
{
	int rc = runs_make(study, course, part);

	if (rc != 0)
		return rc;
	rc = scar_norms(part->run, periods[0], NORM_FAILURES, study->seed, part->norms);
	for (size_t p = 0; rc == 0 && p < SCAR_PERIODS && 2 * periods[p] <= course->steps; p++) {
		if (course->few && p + 1 < SCAR_PERIODS && 2 * periods[p + 1] <= course->steps)
			continue;
		drill_say(study->drill, true, "%s: C = %u, %u failures", course->spec.name,
			  periods[p], study->trials);
		rc = scar_table_make(part->run, part->run_count, periods[p], study->trials,
				     course->few, study->seed, &part->tables[part->table_count]);
		part->table_count += rc == 0;
	}
	return rc != 0 ? fail(rc, course->spec.name, strerror(-rc)) : 0;
}

static int live_make(struct scar_study *study, const struct course *course,
		     const struct scar_part *part)
{
	int rc = 0;

	for (int full = 0; rc == 0 && full < 2; full++) {
		struct scar_live *live = &study->live[study->live_count++];

		drill_say(study->drill, true, "%s: %u kills of a server, %s recovery",
			  course->spec.name, KILLS, full != 0 ? "full" : "partial");
		rc = scar_live_make(&part->run[0], &course->spec, full != 0, KILLS, study->seed,
				    live);
		if (rc != 0)
			return ol_cmd_error(ol_cmd_exit_of(rc), "drill",
					    "servers with a kill, live", ol_strerror(rc),
					    ol_cmd_remedy(rc));
	}
	return rc;
}

static int bounds_make(struct scar_study *study, uint32_t pushes)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < SCAR_BOUNDS; i++) {
		struct scar_problem problem;
		char err[SCAR_TEXT_MAX];

		drill_say(study->drill, true, "%s: %u perturbations", bound_runs[i].name, pushes);
		rc = scar_problem_open(&bound_runs[i], study->seed, &problem, err, sizeof(err));
		if (rc != 0)
			return fail(rc == -ENOMEM ? rc : -EINVAL, bound_runs[i].name, err);
		rc = scar_bounds_make(&problem, 0, pushes, study->seed, &study->bounds[i]);
		scar_problem_close(&problem);
		if (rc != 0)
			return fail(rc, bound_runs[i].name, strerror(-rc));
	}
	return rc;
}

static void study_fini(struct scar_study *study)
{
	for (size_t i = 0; i < study->part_count; i++) {
		struct scar_part *part = &study->part[i];

		for (size_t p = 0; p < SCAR_PERIODS; p++)
			scar_table_fini(&part->tables[p]);
		for (size_t r = 0; r < part->run_count; r++) {
			scar_run_fini(&part->run[r]);
			scar_problem_close(&part->problem[r]);
		}
	}
	free(study);
}

static int study_make(struct scar_study *study, int preset)
{
	int rc = bounds_make(study, preset == 0 ? PUSHES_QUICK : PUSHES);

	for (size_t i = 0; rc == 0 && i < sizeof(courses) / sizeof(courses[0]); i++) {
		if (courses[i].preset > preset)
			continue;
		rc = part_make(study, &courses[i], &study->part[study->part_count++]);
		if (rc == 0 && courses[i].live && study->drill->set.live)
			rc = live_make(study, &courses[i], &study->part[study->part_count - 1]);
	}
	return rc;
}

int drill_scar_go(struct drill *drill)
{
	struct scar_study *study = calloc(1, sizeof(*study));
	int rc;

	if (study == NULL)
		return fail(-ENOMEM, NULL, NULL);
	study->drill = drill;
	study->seed = drill->set.seed;
	study->trials = drill->set.trials;
	if (study->trials == 0)
		study->trials = trials_of[drill->set.preset];
	rc = study_make(study, drill->set.preset);
	if (rc == 0)
		rc = scar_record_write(study);
	if (rc == 0)
		rc = drill_report_make(drill);
	study_fini(study);
	return rc;
}
