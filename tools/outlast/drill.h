/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill.h -- the parts of `outlast drill`
 *
 *	drill.c         settings, presets, the course from start to report
 *	drill_plan.c    strategies; which runs there are to be, and the command line of each
 *	drill_run.c     one run: a process of `outlast train`, watched until it ends
 *	drill_record.c  drill.json: what was run, and how each run ended
 *	drill_report.c  the report, by the program in tools/report
 *	drill_text.c    growing text, lists as a person writes them, quantiles
 *	drill_dbw.h     another experiment: how many gradients a step should wait for
 *	drill_scar.h    another one: what a lost part of the parameters costs
 *
 * A report is a function of drill.json and, for each run, runs/NAME.json and runs/NAME.csv. Of
 * these only what says that a run came to its end is read here.
 */
#ifndef OUTLAST_DRILL_H
#define OUTLAST_DRILL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "outlast/drill_text.h"
#include "outlast/settings.h"

enum {
	DRILL_STRATEGIES_MAX = 16,
	DRILL_RUNS_MAX = 4096,
	DRILL_OUTAGES_MAX = 16, /* a run */
	DRILL_NAME_MAX = 96,
	DRILL_ERR_MAX = 256,
	DRILL_PATH_MAX = 1024,
	DRILL_WORDS_MAX = 32
};

enum drill_experiment {
	DRILL_KILLS, /* runs of train whose server is killed; all that is said above */
	DRILL_DBW, /* drill_dbw.h */
	DRILL_SCAR, /* drill_scar.h */
};

struct drill_set {
	const char *strategies;
	const char *consistency;
	const char *kills;
	const char *workers;
	const char *seeds;
	const char *model;
	const char *dataset;
	const char *transport;
	const char *address;
	const char *device;
	const char *out;
	const char *json;
	const char *report;
	double lr;
	double seconds;
	double kill_at;
	double down;
	double again;
	double pace;
	double eval_seconds;
	double scale;
	double price_server;
	double price_worker;
	uint32_t batch;
	uint32_t checkpoint_every;
	uint32_t trials; /* SCAR; 0: the preset's */
	uint64_t seed; /* SCAR */
	int preset;
	int experiment;
	bool final_relu;
	bool keep_going;
	bool resume;
	bool live; /* DBW, SCAR */
};

/* A way to meet the loss of a server, as words of train's command line. */
struct drill_strategy {
	const char *name;
	const char *what; /* a sentence, for people */
	const char *durability;
	const char *outage;
	const char *restore;
	const char *replay; /* NULL: train's default */
	const char *local; /* progress; NULL: train's default */
	unsigned replicas; /* of a chain; 0: there is none */
	bool periodic; /* replicated every `checkpoint_every` steps, without waiting */
	unsigned kills_min; /* with fewer it is the same as another strategy, and left out */
	unsigned kills_max; /* of more there is one run with so many */
	bool stateless; /* workers go on during an outage */
	bool fault; /* re-creates a fault on purpose: no part of the comparison of methods */
};

extern const struct drill_strategy drill_strategies[];
extern const size_t drill_strategy_count;

/* Runs that differ in their seed only. */
struct drill_case {
	const struct drill_strategy *strategy;
	bool sync;
	unsigned kills;
	unsigned workers;
	char name[DRILL_NAME_MAX]; /* stateless-async-k1-w4 */
};

enum drill_status {
	DRILL_WAITING, /* has not been run */
	DRILL_DONE,
	DRILL_FAILED
};

struct drill_run {
	const struct drill_case *of;
	uint64_t seed;
	char name[DRILL_NAME_MAX]; /* of its files */
	enum drill_status status;
	char error[DRILL_ERR_MAX]; /* FAILED: why */
	double accuracy; /* DONE: on the test set, at the end; NAN: not known */
};

struct drill_plan {
	struct drill_case *cases;
	size_t case_count;
	struct drill_run *runs; /* in the order in which they are made: seed by seed */
	size_t run_count;
};

struct drill {
	struct ol_settings settings;
	struct drill_set set; /* times already divided by scale */
	struct drill_plan plan;
	char out[DRILL_PATH_MAX];
	char *command; /* as it was given */
	const char *words[DRILL_WORDS_MAX]; /* handed on to train */
	size_t word_count;
	int signal_fd;
	int signal; /* that ends the drill early; 0: none */
	bool tty;
	double busy_s; /* that runs have taken so far */
	size_t ran;
};

/* drill_plan.c */

/*
 * drill_plan_make -- cases and runs from the settings
 *
 * Returns NULL, or the name of the setting that is wrong, with why in err ("" : no memory).
 */
const char *drill_plan_make(const struct drill_set *set, struct drill_plan *plan,
			    char err[DRILL_ERR_MAX]);
void drill_plan_fini(struct drill_plan *plan);

/* drill_schedule -- the argument of train's --kill; "" without kills */
void drill_schedule(const struct drill_set *set, const struct drill_strategy *strategy,
		    unsigned kills, char *text, size_t bytes);

/* drill_args -- the whole command line of a run; folder is that of the report */
void drill_args(const struct drill_set *set, const struct drill_run *run, const char *folder,
		struct ol_args *args);

/* drill_run.c */

/* drill_run_go -- one run; sets its status, and drill->signal if a signal came. 0 or an exit
 * code */
int drill_run_go(struct drill *drill, struct drill_run *run, size_t index);

/*
 * drill_child_go -- a process with these words, which stay the caller's, watched until it ends
 *
 * What it says goes to runs/NAME.log. A failure is noted in run; drill->signal as above. 0 or an
 * exit code.
 */
int drill_child_go(struct drill *drill, struct drill_run *run, size_t index, struct ol_args *args);

/* drill_run_resume -- take a run from its files as they are; false: it is still to be made */
bool drill_run_resume(const struct drill *drill, struct drill_run *run);

/* drill_left_s -- seconds until the last run ends, when run `index` has been going for gone_s */
double drill_left_s(const struct drill *drill, size_t index, double gone_s);

/* drill_say -- a line on stderr: one that stays, or on a terminal one that the next overwrites */
void drill_say(const struct drill *drill, bool stays, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* drill_duration -- "1 h 20 min", "4 min 05 s" */
void drill_duration(double seconds, char *text, size_t bytes);

/* drill_record.c */

/* drill_record_write -- drill.json of runs of train; 0 or an exit code */
int drill_record_write(const struct drill *drill);

/* drill_record_save -- drill.json of an experiment: `what`, which is given away, and whose it is */
int drill_record_save(const struct drill *drill, const char *experiment, json_t *what);

/* drill_record_number -- null: not known */
json_t *drill_record_number(double value);

/* drill_report.c */

/*
 * drill_report_make -- every file of the folder but drill.json and runs; the summary on stdout
 *
 * 0 or an exit code, after saying why: OL_EXIT_CHILD if a run failed.
 */
int drill_report_make(const struct drill *drill);

#endif /* OUTLAST_DRILL_H */
