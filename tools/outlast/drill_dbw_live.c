/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_dbw_live.c -- real processes: one of four workers becomes slow half-way
 *
 * Runs of `outlast train` over shared memory that differ in --consistency only. Of each are read:
 * gradients applied a second before and after, from the time line; the gradients a step; when the
 * test loss was at the target first, counted from the beginning.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "outlast/cmd.h"
#include "outlast/drill.h"
#include "outlast/drill_dbw.h"

enum {
	METHODS = 7,
	PRESETS = 3,
	SEEDS_MAX = 20
};

static const char *const methods[METHODS] = { "sync",  "sync:k=3", "sync:k=2",      "async",
					      "ssp:4", "sync:dbw", "sync:dbw-blind" };
static const double half_of[PRESETS] = { 2.0, 8.0, 15.0 }; /* seconds until one is slow */
static const unsigned seeds_of[PRESETS] = { 1, 3, 5 };
static const double target = 0.97; /* test loss */
static const double settle_s = 0.5; /* after a beginning, or after the change */

/* NAN: it did not come to that */
struct live {
	double before[SEEDS_MAX]; /* gradients applied a second */
	double after[SEEDS_MAX];
	double k[SEEDS_MAX]; /* gradients a step */
	double late[SEEDS_MAX];
	double arrived[SEEDS_MAX]; /* seconds to the target */
	double loss[SEEDS_MAX]; /* at the end */
};

/* Gradients applied a second, from one moment to another */
static double rate(const struct drill_line *line, double from, double to)
{
	double a = drill_line_at(line, DRILL_APPLIED, from);
	double b = drill_line_at(line, DRILL_APPLIED, to);

	return (b - a) / (to - from);
}

static void arrival_note(const json_t *evals, double *ret_arrived)
{
	size_t i;
	json_t *eval;

	*ret_arrived = NAN;
	json_array_foreach(evals, i, eval)
	{
		const json_t *loss = json_object_get(eval, "loss");

		if (!json_is_number(loss) || json_number_value(loss) > target)
			continue;
		*ret_arrived = json_number_value(json_object_get(eval, "t_s"));
		return;
	}
}

static int run_note(struct drill *drill, struct drill_run *run, double half, struct live *live,
		    unsigned seed)
{
	char json_path[DRILL_PATH_MAX], csv_path[DRILL_PATH_MAX];
	json_t *report;
	int rc;

	snprintf(json_path, sizeof(json_path), "%.800s/runs/%s.json", drill->out, run->name);
	snprintf(csv_path, sizeof(csv_path), "%.800s/runs/%s.csv", drill->out, run->name);
	rc = drill_run_read(run, &drill->set, json_path, csv_path);
	report = json_load_file(json_path, 0, NULL);
	if (rc == 0 && report != NULL) {
		live->before[seed] = rate(&run->line, settle_s, half);
		live->after[seed] = rate(&run->line, half + settle_s, 2.0 * half);
		live->k[seed] = json_number_value(json_object_get(report, "k_mean"));
		live->late[seed] = json_number_value(json_object_get(report, "gradients_late"));
		live->loss[seed] = json_number_value(json_object_get(report, "test_loss"));
		arrival_note(json_object_get(report, "evals"), &live->arrived[seed]);
	} else {
		rc = -EINVAL;
	}
	json_decref(report);
	drill_run_fini(run);
	return rc;
}

static int live_run(struct drill *drill, size_t method, unsigned seed, double half,
		    struct live *live)
{
	static const struct drill_case nothing;
	struct drill_run run = { .of = &nothing, .seed = drill->set.seed + seed };
	struct ol_args args = { 0 };
	size_t index = seed * METHODS + method;
	char *name = run.name;
	int rc;

	snprintf(run.name, sizeof(run.name), "%s-s%u", methods[method], seed);
	for (; *name != '\0'; name++)
		*name = *name == ':' || *name == '=' ? '-' : *name;
	ol_args_add(&args, "outlast");
	ol_args_add(&args, "train");
	ol_args_add(&args, "--model=softmax");
	ol_args_add(&args, "--dataset=synthetic:noise=4");
	ol_args_add(&args, "--workers=4");
	ol_args_add(&args, "--batch=128");
	ol_args_add(&args, "--lr=0.05");
	ol_args_add(&args, "--eval-seconds=0.25");
	ol_args_add(&args, "--timeline-ms=100");
	ol_args_add(&args, "--seconds=%g", 2.0 * half);
	ol_args_add(&args, "--seed=%llu", (unsigned long long)run.seed);
	ol_args_add(&args, "--consistency=%s", methods[method]);
	ol_args_add(&args, "--delay=exp:mean=20ms,alpha=0.2+slow:workers=1,factor=5,from=%gms",
		    1e3 * half);
	ol_args_add(&args, "--json=%.800s/runs/%s.json", drill->out, run.name);
	ol_args_add(&args, "--timeline=%.800s/runs/%s.csv", drill->out, run.name);
	rc = drill_child_go(drill, &run, index, &args);
	ol_args_free(&args);
	if (rc != 0 || drill->signal != 0)
		return rc;
	if (run.status == DRILL_FAILED)
		return ol_cmd_error(OL_EXIT_CHILD, "drill", run.name, run.error, NULL);
	if (run_note(drill, &run, half, live, seed) != 0)
		return ol_cmd_error(OL_EXIT_FAILED, "drill", "a report cannot be read", run.name,
				    run.error);
	drill_say(drill, true, "run %zu of %zu, %s: %.1f gradients/s, then %.1f", index + 1,
		  drill->plan.run_count, run.name, live->before[seed], live->after[seed]);
	return 0;
}

static void figure_add(struct drill_text *text, const double *values, unsigned seeds, int digits)
{
	struct dbw_figure f = dbw_mean(values, seeds);

	if (!isfinite(f.mean))
		drill_add(text, " | -");
	else if (isfinite(f.high))
		drill_add(text, " | %.*f ±%.*f", digits, f.mean, digits, f.high - f.mean);
	else
		drill_add(text, " | %.*f", digits, f.mean);
}

static bool summary(const struct drill *drill, const struct live lives[METHODS], unsigned seeds,
		    double half, struct drill_text *text)
{
	drill_add(
		text,
		"Made by `%s`.\n\nSoftmax regression on `synthetic:noise=4`, B = 128, lr 0.05, four "
		"workers over shared memory, 20 ms a gradient (alpha 0.2); from %g s on the last "
		"worker takes 5 times as long; %g s in all, %u seed(s), ± 95 %% interval.\n\n"
		"| consistency | applied/s before | after | k, mean | late | s to test loss %g | "
		"test loss at the end |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
		drill->command, half, 2.0 * half, seeds, target);
	for (size_t m = 0; m < METHODS; m++) {
		drill_add(text, "| %s", methods[m]);
		figure_add(text, lives[m].before, seeds, 1);
		figure_add(text, lives[m].after, seeds, 1);
		figure_add(text, lives[m].k, seeds, 2);
		figure_add(text, lives[m].late, seeds, 0);
		figure_add(text, lives[m].arrived, seeds, 2);
		figure_add(text, lives[m].loss, seeds, 4);
		drill_add(text, " |\n");
	}
	return !text->failed;
}

static json_t *number_json(const double *values, unsigned seeds)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < seeds; i++)
		json_array_append_new(list,
				      isfinite(values[i]) ? json_real(values[i]) : json_null());
	return list;
}

static int json_write(const struct drill *drill, const struct live lives[METHODS], unsigned seeds)
{
	json_t *list = json_array(), *json;
	int rc = 0;

	for (size_t m = 0; m < METHODS; m++)
		json_array_append_new(
			list,
			json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "consistency", methods[m],
				  "applied_per_s_before", number_json(lives[m].before, seeds),
				  "applied_per_s_after", number_json(lives[m].after, seeds),
				  "k_mean", number_json(lives[m].k, seeds), "late",
				  number_json(lives[m].late, seeds), "target_s",
				  number_json(lives[m].arrived, seeds), "test_loss",
				  number_json(lives[m].loss, seeds)));
	json = json_pack("{s:s, s:s, s:o}", "command", drill->command, "folder", drill->out, "runs",
			 list);
	if (json == NULL || json_dump_file(json, drill->set.json, JSON_INDENT(2)) != 0)
		rc = ol_cmd_error(OL_EXIT_FAILED, "drill", "cannot write", drill->set.json,
				  json == NULL ? "no memory" : strerror(errno));
	json_decref(json);
	return rc;
}

int drill_dbw_live_go(struct drill *drill)
{
	struct live lives[METHODS];
	unsigned seeds = drill->set.trials != 0 ? drill->set.trials : seeds_of[drill->set.preset];
	double half = half_of[drill->set.preset];
	struct drill_text text = { 0 };
	int rc = 0;

	if (seeds > SEEDS_MAX)
		seeds = SEEDS_MAX;
	drill->plan.run_count = seeds * METHODS;
	drill->set.seconds = 2.0 * half;
	for (unsigned i = 0; rc == 0 && i < seeds; i++) {
		for (size_t m = 0; rc == 0 && drill->signal == 0 && m < METHODS; m++)
			rc = live_run(drill, m, i, half, &lives[m]);
	}
	drill->plan.run_count = 0; /* there is no plan behind it */
	if (rc == 0 && drill->signal != 0)
		rc = OL_EXIT_SIGNAL + drill->signal;
	if (rc != 0)
		return rc;
	text.failed = !summary(drill, lives, seeds, half, &text);
	rc = drill_file_write(drill, "summary.md", &text);
	if (rc == 0)
		printf("%s\nreport in %s\n", text.bytes, drill->out);
	drill_text_fini(&text);
	if (rc == 0 && drill->set.json != NULL)
		rc = json_write(drill, lives, seeds);
	if (rc == 0 && fflush(stdout) != 0)
		rc = ol_cmd_error(OL_EXIT_FAILED, "drill", "cannot write the summary", NULL,
				  strerror(errno));
	return rc;
}
