/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_dbw.h -- the parts of `outlast drill --experiment dbw`: how many gradients a synchronous
 * step should wait for (Xu, Neglia, Sebastianelli: "Dynamic Backup Workers for Parallel Machine
 * Learning", arXiv 2004.14696)
 *
 *	drill_dbw.c         the course: problems, settings, runs
 *	drill_dbw_run.c     one run: workers and a server under a clock of their own
 *	drill_dbw_record.c  what each run came to, for the report
 *	drill_dbw_live.c    the same question asked of real processes
 *
 * One process, one thread, no clock but the virtual one: everything is a function of the settings
 * and the seed. Gradients are real, and computed where they count; how long each takes is drawn
 * (delay.h), with a mean of 1. What makes a step is said by the product's own policies
 * (outlast_policy.h), which see every gradient land, late ones too.
 */
#ifndef OUTLAST_DRILL_DBW_H
#define OUTLAST_DRILL_DBW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "learn/data.h"
#include "learn/model.h"
#include "outlast/delay.h"
#include "outlast/drill_text.h"
#include "outlast/loop.h"
#include "outlast_policy.h"

struct drill;

/* drill_dbw_go -- the whole experiment into the folder of the report; 0 or an exit code */
int drill_dbw_go(struct drill *drill);

/* drill_dbw_live_go -- the live one; 0 or an exit code */
int drill_dbw_live_go(struct drill *drill);

enum {
	DBW_WORKERS_MAX = 256,
	DBW_STEPS_MAX = 200000
};

/* What is trained: softmax regression, judged by its loss on all training samples. */
struct dbw_problem {
	struct learn_data *data;
	struct learn_model *model;
	struct learn_batch *batch;
	size_t floats;
	unsigned batch_max;
	double first; /* loss where it begins: of all weights 0 */
	double least; /* that there is; NAN: not looked for */
};

/* dbw_problem_open -- 0, or -errno with a line in err */
int dbw_problem_open(const char *dataset, unsigned batch_max, struct dbw_problem *problem,
		     char *err, size_t err_len);
void dbw_problem_close(struct dbw_problem *problem);

/* dbw_loss -- at w */
double dbw_loss(const struct dbw_problem *problem, const float *w);

/* dbw_depth -- the loss that is so much of the way from `first` above `least` */
double dbw_depth(const struct dbw_problem *problem, double share);

/* One run. */
struct dbw_opts {
	struct dbw_problem *problem; /* NULL: only times are looked at */
	enum ol_wait wait;
	uint32_t k; /* FIXED, ADASYNC */
	uint32_t workers;
	enum ol_on_late on_late;
	double ask; /* PULL: how long a worker's question for weights takes */
	struct ol_delay delay;
	unsigned batch;
	double lr;
	uint64_t seed;
	double target; /* loss; the run ends there. 0: none */
	double time_max; /* virtual, or 0: … */
	uint64_t steps_max; /* … at most DBW_STEPS_MAX in any case */
	uint64_t skip; /* the first steps, of which the means know nothing */
};

/* A look at the loss. */
struct dbw_look {
	double t;
	double loss;
};

/* A step that was made. */
struct dbw_step {
	double t; /* when */
	double loss; /* mean of its gradients' losses */
	uint32_t k; /* gradients in it */
};

struct dbw_result {
	bool reached; /* the target */
	double t; /* of that, or the end */
	double loss; /* judged last */
	uint64_t steps;
	uint64_t counted; /* steps without those skipped; the next are means over them */
	double step_mean; /* duration */
	double k_mean;
	double late_mean; /* gradients that landed too late, or were thrown away */
	struct dbw_step *list; /* all steps */
	struct dbw_look *looks;
	size_t look_count;
};

/* dbw_run -- 0 or -errno */
int dbw_run(const struct dbw_opts *opts, struct dbw_result *ret_result);
void dbw_result_fini(struct dbw_result *result);

/* dbw_time_to -- when a loss was seen first that is no more than this; INFINITY: never */
double dbw_time_to(const struct dbw_result *result, double loss);

/* drill_dbw.c */

enum {
	DBW_N = 16, /* workers, unless a setting says otherwise */
	DBW_TRIALS_MAX = 100,
	DBW_SETTINGS_MAX = 40,
	DBW_DEPTHS = 5,
	DBW_METHODS = 10, /* of which the first … */
	DBW_STATICS = 7, /* … wait for so many of 16 sixteenths, and the others choose */
	DBW_DBW = DBW_STATICS, /* index */
	DBW_BLIND,
	DBW_ADASYNC,
	DBW_TIMES_MAX = 30,
	DBW_SLOWS = 2,
	DBW_TEXT_MAX = 160,
	DBW_GRID_DEPTH = 2 /* the target of the grid: index of dbw_depths */
};

extern const double dbw_depths[DBW_DEPTHS];

/* What the runs of a setting by one method came to, seed by seed. */
struct dbw_cell {
	double time[DBW_DEPTHS][DBW_TRIALS_MAX]; /* time_max if it was not there by then */
	unsigned missed[DBW_DEPTHS]; /* runs of which that is so */
	double k_mean[DBW_TRIALS_MAX];
	double k_early[DBW_TRIALS_MAX]; /* median of the first quarter of steps to the target */
	double k_late[DBW_TRIALS_MAX]; /* and of the last */
	double all_share[DBW_TRIALS_MAX]; /* of its steps that waited for all */
};

enum dbw_group {
	DBW_GRID, /* alpha x batch x lr */
	DBW_DEEP, /* targets deep in the loss */
	DBW_MANY /* more workers */
};

struct dbw_setting {
	enum dbw_group group;
	uint32_t workers;
	double alpha;
	unsigned batch;
	double lr;
	double time_max;
	unsigned depth; /* the deepest that is waited for */
	struct dbw_cell cell[DBW_METHODS];
};

/* Means over many steps of a static k, and what they should be. */
struct dbw_time {
	double alpha;
	uint32_t k;
	double psi; /* push and interrupt */
	double psi_exact;
	double psw; /* push and wait */
	double psw_known; /* NAN: not known */
	double pull; /* and ask: a question takes 5 % of a gradient */
};

/* Half of the workers become slower. Means and medians over seeds. */
struct dbw_slow {
	double alpha;
	double k_before[DBW_TRIALS_MAX]; /* median of the steps in the last 40 before, */
	double k_after[DBW_TRIALS_MAX]; /* and of those from 40 after on */
	double step_before[DBW_TRIALS_MAX]; /* duration, mean of the same steps */
	double step_after[DBW_TRIALS_MAX];
	double all_before[DBW_TRIALS_MAX]; /* the same of those who wait for all */
	double all_after[DBW_TRIALS_MAX];
	double steps_to_half[DBW_TRIALS_MAX]; /* from the moment until k is at most n / 2 + 1 */
};

struct dbw_study {
	struct drill *drill;
	uint64_t seed;
	unsigned trials;
	int preset;
	struct dbw_problem problem;
	struct dbw_time times[DBW_TIMES_MAX];
	size_t time_count;
	uint64_t time_steps;
	struct dbw_setting settings[DBW_SETTINGS_MAX];
	size_t setting_count;
	struct dbw_slow slows[DBW_SLOWS];
	json_t *curve; /* [t, k, loss] of DBW in one run, for the picture */
};

/* dbw_method_name -- "k=4", "dbw", … */
void dbw_method_name(const struct dbw_setting *setting, size_t method, char *text, size_t bytes);

/* dbw_method_k -- what a static method waits for */
uint32_t dbw_method_k(const struct dbw_setting *setting, size_t method);

/* drill_dbw_record.c; 0 or an exit code */
int dbw_record_write(const struct dbw_study *study);

#endif /* OUTLAST_DRILL_DBW_H */
