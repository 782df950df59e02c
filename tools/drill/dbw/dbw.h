/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * dbw.h -- the parts of `outlast drill --experiment dbw`: how many gradients a synchronous
 * step should wait for (Xu, Neglia, Sebastianelli: "Dynamic Backup Workers for Parallel Machine
 * Learning", arXiv 2004.14696)
 *
 *	course.py  problems, settings, runs; each run's result, for the report
 *	late.py    the same of late gradients that are of the next step
 *	live.py    the same experiment with real processes
 *	trial.c    runs by their description
 *	run.c      one run: workers and a server under a virtual clock
 *
 * One process, one thread, and only the virtual clock: everything is a function of the settings and
 * the seed. Gradients are real, and computed if they count. The time of each is drawn (delay.h),
 * with a mean of 1. The product's own policies (outlast_policy.h) decide what makes a step; they
 * see every gradient land, late ones too.
 */
#ifndef DRILL_DBW_H
#define DRILL_DBW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/delay.h"
#include "cmd/loop.h"
#include "learn/data.h"
#include "learn/model.h"
#include "outlast_policy.h"

enum {
	DBW_WORKERS_MAX = 256,
	DBW_STEPS_MAX = 200000
};

/* The problem: softmax regression, or another model, judged by its loss on all training samples. */
struct dbw_problem {
	struct learn_data *data;
	struct learn_model *model;
	struct learn_batch *batch;
	size_t floats;
	unsigned batch_max;
	float *begin; /* first weights: of softmax all are 0 */
	double first; /* loss there */
};

/* dbw_problem_open -- 0, or -errno with a line in err */
int dbw_problem_open(const char *dataset, const char *model, unsigned batch_max,
		     struct dbw_problem *problem, char *err, size_t err_len);
void dbw_problem_close(struct dbw_problem *problem);

/* dbw_loss -- at w */
double dbw_loss(const struct dbw_problem *problem, const float *w);

/* One run. */
struct dbw_opts {
	struct dbw_problem *problem; /* NULL: only times are simulated */
	enum ol_wait wait;
	uint32_t k; /* FIXED, ADASYNC */
	enum ol_late late;
	uint32_t late_steps;
	uint32_t workers;
	enum ol_on_late on_late;
	double ask; /* PULL: how long a worker takes to ask for weights */
	struct ol_delay delay;
	unsigned batch;
	double lr;
	uint64_t seed;
	double target; /* loss; the run ends there. 0: none */
	double time_max; /* virtual, or 0: … */
	uint64_t steps_max; /* … at most DBW_STEPS_MAX in any case */
	uint64_t skip; /* first steps that the means leave out */
};

struct dbw_result {
	bool reached; /* the target */
	double t; /* of that, or the end */
	double loss; /* judged last */
	uint64_t steps;
	uint64_t counted; /* steps without those skipped; the next are means over them */
	double step_mean; /* duration */
	double k_mean;
	double late_mean; /* gradients that landed too late, or were dropped */
	json_t *list; /* of each step: when, gradients in it, mean of their losses */
	json_t *looks; /* at the loss: when, loss */
};

/* dbw_run -- 0 or -errno */
int dbw_run(const struct dbw_opts *opts, struct dbw_result *ret_result);
void dbw_result_fini(struct dbw_result *result);

#endif /* DRILL_DBW_H */
