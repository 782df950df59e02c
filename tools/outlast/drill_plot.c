/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_plot.c -- data and scripts for gnuplot, plots
 *
 * One data file for each number of kills and workers, with a block a strategy; four scripts read
 * it. The run without kills is in every one of them, for comparison.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "outlast/cmd.h"
#include "outlast/drill.h"

extern char **environ;

enum {
	GRID_POINTS = 400,
	KINDS = 4,
	SCRIPTS_MAX = 16,
	PANELS_MAX = 4,
	NAME_BYTES = 64
};

/* Columns of a data file, from 2 on; the first is the time. */
static const enum drill_column shown[] = { DRILL_ACCURACY, DRILL_LOSS,       DRILL_COMPUTED,
					   DRILL_QUEUED,   DRILL_APPLIED,    DRILL_LOST,
					   DRILL_DROPPED,  DRILL_WORKER_CPU, DRILL_SERVER_CPU };

enum {
	SHOWN = sizeof(shown) / sizeof(shown[0])
};

struct panel {
	enum drill_column column;
	const char *label; /* of the y axis */
};

static const struct kind {
	const char *name;
	const char *range; /* gnuplot's, for y */
	struct panel panels[PANELS_MAX];
	size_t panel_count;
} kinds[KINDS] = {
	{ "accuracy", "[0:1]", { { DRILL_ACCURACY, "test accuracy" } }, 1 },
	{ "loss", "[0:*]", { { DRILL_LOSS, "test loss" } }, 1 },
	{ "gradients",
	  "[0:*]",
	  { { DRILL_COMPUTED, "gradients computed" },
	    { DRILL_QUEUED, "queued" },
	    { DRILL_APPLIED, "applied" },
	    { DRILL_LOST, "lost" } },
	  4 },
	{ "utilisation",
	  "[0:*]",
	  { { DRILL_WORKER_CPU, "cores of the workers" },
	    { DRILL_SERVER_CPU, "cores of the server" } },
	  2 },
};

/* Told apart by people who see colours in another way too (Okabe and Ito). */
static const char *const colours[] = { "#000000", "#0072B2", "#D55E00", "#009E73",
				       "#CC79A7", "#E69F00", "#56B4E9", "#999999" };

/* One data file and its four scripts. */
struct sheet {
	unsigned kills;
	unsigned workers;
	char name[NAME_BYTES]; /* k1-w4 */
};

static bool is_on(const struct sheet *sheet, const struct drill_plan *plan,
		  const struct drill_case *one)
{
	return one->workers == sheet->workers && drill_case_done(plan, one) > 0 &&
	       (one->kills == sheet->kills || one->strategy->kills_max == 0);
}

/* As far as all seeds go: a mean of some of them only would jump there */
static double end_s(const struct drill_plan *plan, const struct drill_case *of)
{
	double end = INFINITY;

	for (size_t i = 0; i < plan->run_count; i++) {
		const struct drill_run *run = &plan->runs[i];

		if (run->of == of && run->status == DRILL_DONE && run->line.count > 0)
			end = fmin(end, run->line.rows[run->line.count - 1].cell[DRILL_T_S]);
	}
	return isfinite(end) ? end : 0.0;
}

/*
 * A column of a run. Accuracy and loss are those of the evaluations, at the time that their weights
 * are of: the time line has them only once they have been computed.
 */
static double run_at(const struct drill_run *run, enum drill_column column, double t_s)
{
	double value = NAN;

	if (column != DRILL_ACCURACY && column != DRILL_LOSS)
		return drill_line_at(&run->line, column, t_s);
	for (size_t i = 0; i < run->eval_count && run->evals[i].t_s <= t_s; i++)
		value = column == DRILL_LOSS ? run->evals[i].loss : run->evals[i].accuracy;
	return value;
}

/* Mean over the seeds */
static double mean_at(const struct drill_plan *plan, const struct drill_case *of,
		      enum drill_column column, double t_s)
{
	double values[DRILL_LIST_MAX];
	size_t count = 0;

	for (size_t i = 0; i < plan->run_count && count < DRILL_LIST_MAX; i++) {
		const struct drill_run *run = &plan->runs[i];

		if (run->of == of && run->status == DRILL_DONE && run->line.count > 0 &&
		    run->line.rows[run->line.count - 1].cell[DRILL_T_S] >= t_s)
			values[count++] = run_at(run, column, t_s);
	}
	return drill_moments(values, count).mean;
}

static void block_add(const struct drill_plan *plan, const struct drill_case *one,
		      struct drill_text *text)
{
	double end = end_s(plan, one);

	drill_add(text, "# %s: t_s", one->name);
	for (size_t c = 0; c < SHOWN; c++)
		drill_add(text, " %s", drill_column_names[shown[c]]);
	drill_add(text, "\n");
	for (unsigned point = 0; point <= GRID_POINTS; point++) {
		double t = end * point / GRID_POINTS;

		drill_add(text, "%.4g", t);
		for (size_t c = 0; c < SHOWN; c++) {
			double value = mean_at(plan, one, shown[c], t);

			drill_add(text, isfinite(value) ? " %.8g" : " ?",
				  isfinite(value) ? value : 0.0);
		}
		drill_add(text, "\n");
	}
	drill_add(text, "\n\n");
}

static int data_write(const struct drill *drill, const struct sheet *sheet)
{
	char name[2 * NAME_BYTES];
	struct drill_text text = { 0 };
	int rc;

	for (size_t i = 0; i < drill->plan.case_count; i++) {
		if (is_on(sheet, &drill->plan, &drill->plan.cases[i]))
			block_add(&drill->plan, &drill->plan.cases[i], &text);
	}
	snprintf(name, sizeof(name), "plots/%s.dat", sheet->name);
	rc = drill_file_write(drill, name, &text);
	drill_text_fini(&text);
	return rc;
}

/* The k-th outage as it was on average, from the kill to the first gradient applied. */
static bool outage_mean(const struct drill *drill, const struct sheet *sheet, unsigned k,
			double *ret_from, double *ret_to)
{
	double from = 0.0, to = 0.0;
	size_t count = 0;

	for (size_t i = 0; i < drill->plan.run_count; i++) {
		const struct drill_run *run = &drill->plan.runs[i];

		if (run->status != DRILL_DONE || run->of->workers != sheet->workers ||
		    run->of->kills != sheet->kills || k >= run->outage_count ||
		    isnan(run->outages[k].first_applied_s - run->outages[k].killed_s))
			continue;
		from += run->outages[k].killed_s;
		to += run->outages[k].first_applied_s;
		count++;
	}
	*ret_from = from / (double)count;
	*ret_to = to / (double)count;
	return count > 0;
}

static void plot_add(const struct drill *drill, const struct sheet *sheet, const char *range,
		     const struct panel *panel, struct drill_text *text)
{
	size_t index = 0;
	unsigned column = 2;

	while (shown[column - 2] != panel->column)
		column++;
	drill_add(text, "\tset ylabel \"%s\"\n\tset yrange %s\n\tplot", panel->label, range);
	for (size_t i = 0; i < drill->plan.case_count; i++) {
		const struct drill_case *one = &drill->plan.cases[i];
		size_t colour = (size_t)(one->strategy - drill_strategies);

		if (!is_on(sheet, &drill->plan, one))
			continue;
		drill_add(text,
			  "%s \"%s.dat\" index %zu using 1:%u with lines linewidth 2 linecolor rgb "
			  "\"%s\" dashtype %d title \"%s %s%s\"",
			  index > 0 ? ", \\\n\t    " : "", sheet->name, index, column,
			  colours[colour % (sizeof(colours) / sizeof(colours[0]))],
			  one->sync ? 2 : 1, one->strategy->name, one->sync ? "sync" : "async",
			  one->kills < sheet->kills ? ", no kill" : "");
		index++;
	}
	drill_add(text, "\n");
}

static void script_head(const struct drill *drill, const struct sheet *sheet,
			const struct kind *kind, struct drill_text *text)
{
	double from, to, end = 0.0;

	for (size_t i = 0; i < drill->plan.case_count; i++) {
		if (is_on(sheet, &drill->plan, &drill->plan.cases[i]))
			end = fmax(end, end_s(&drill->plan, &drill->plan.cases[i]));
	}
	drill_add(text,
		  "# %s against time, %u kills, %u workers: gnuplot %s-%s.gp\nreset\n"
		  "set datafile missing \"?\"\nset grid\nset xlabel \"seconds\" offset 0,0.5\n"
		  "set xrange [0:%.6g]\n"
		  "set key noenhanced below font \",10\"\n",
		  kind->name, sheet->kills, sheet->workers, kind->name, sheet->name, end);
	for (unsigned k = 0; k < sheet->kills; k++) {
		if (outage_mean(drill, sheet, k, &from, &to))
			drill_add(text,
				  "set object %u rectangle from %.6g, graph 0 to %.6g, graph 1 "
				  "fillcolor rgb \"#dddddd\" fillstyle solid noborder behind\n",
				  k + 1, from, to);
	}
}

static int script_write(const struct drill *drill, const struct sheet *sheet,
			const struct kind *kind)
{
	size_t rows = (kind->panel_count + 1) / 2, columns = kind->panel_count > 1 ? 2 : 1;
	unsigned width = columns == 2 ? 1400 : 900, height = rows == 2 ? 1000 : 560;
	char name[3 * NAME_BYTES];
	struct drill_text text = { 0 };
	int rc;

	script_head(drill, sheet, kind, &text);
	drill_add(&text,
		  "do for [end in \"svg png\"] {\n"
		  "\tif (end eq \"svg\") {\n"
		  "\t\tset terminal svg size %u,%u font \"sans,12\" background \"white\"\n"
		  "\t} else {\n"
		  "\t\tset terminal pngcairo size %u,%u font \"sans,12\"\n\t}\n"
		  "\tset output \"%s-%s.\".end\n"
		  "\tset multiplot layout %zu,%zu title \"%u kill%s, %u worker%s\"\n",
		  width, height, width, height, kind->name, sheet->name, rows, columns,
		  sheet->kills, sheet->kills == 1 ? "" : "s", sheet->workers,
		  sheet->workers == 1 ? "" : "s");
	for (size_t i = 0; i < kind->panel_count; i++)
		plot_add(drill, sheet, kind->range, &kind->panels[i], &text);
	drill_add(&text, "\tunset multiplot\n\tunset output\n}\n");
	snprintf(name, sizeof(name), "plots/%s-%s.gp", kind->name, sheet->name);
	rc = drill_file_write(drill, name, &text);
	drill_text_fini(&text);
	return rc;
}

static int actions_init(posix_spawn_file_actions_t *actions, const char *folder)
{
	int rc = posix_spawn_file_actions_init(actions);

	if (rc != 0)
		return rc;
	rc = posix_spawn_file_actions_addchdir_np(actions, folder);
	if (rc == 0)
		rc = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY,
						      0);
	if (rc == 0)
		rc = posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, "gnuplot.log",
						      O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(actions, STDOUT_FILENO, STDERR_FILENO);
	if (rc != 0)
		posix_spawn_file_actions_destroy(actions);
	return rc;
}

/* 0, ENOENT: there is no gnuplot, or another errno; its own failure is EIO */
static int gnuplot_run(const char *folder, char *const words[])
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	int status = 0, rc;
	pid_t pid;

	rc = actions_init(&actions, folder);
	if (rc != 0)
		return rc;
	rc = posix_spawnattr_init(&attr);
	if (rc == 0) {
		sigemptyset(&none);
		posix_spawnattr_setsigmask(&attr, &none);
		posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
		rc = posix_spawnp(&pid, words[0], &actions, &attr, words, environ);
		posix_spawnattr_destroy(&attr);
	}
	posix_spawn_file_actions_destroy(&actions);
	if (rc != 0)
		return rc;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : EIO;
}

int drill_plots_draw(const struct drill *drill, const char *const scripts[], size_t count,
		     bool *ret_drawn)
{
	char program[] = "gnuplot", folder[DRILL_PATH_MAX], names[SCRIPTS_MAX][2 * NAME_BYTES];
	char *words[SCRIPTS_MAX + 2] = { program };
	int failed;

	snprintf(folder, sizeof(folder), "%.900s/plots", drill->out);
	for (size_t i = 0; i < count && i < SCRIPTS_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "%s", scripts[i]);
		words[i + 1] = names[i];
	}
	failed = gnuplot_run(folder, words);
	*ret_drawn = failed == 0;
	if (failed == ENOENT)
		drill_say(drill, true,
			  "warning: no plots: there is no gnuplot (apt-get install "
			  "gnuplot-nox); then, in %s: gnuplot *.gp",
			  folder);
	else if (failed != 0)
		return ol_cmd_error(OL_EXIT_FAILED, "drill", "gnuplot failed", folder,
				    "what it said is in gnuplot.log there");
	return 0;
}

static int sheet_draw(const struct drill *drill, const struct sheet *sheet, bool *ret_drawn)
{
	char names[KINDS][2 * NAME_BYTES];
	const char *scripts[KINDS];

	for (size_t i = 0; i < KINDS; i++) {
		snprintf(names[i], sizeof(names[i]), "%s-%s.gp", kinds[i].name, sheet->name);
		scripts[i] = names[i];
	}
	return drill_plots_draw(drill, scripts, KINDS, ret_drawn);
}

static int sheet_write(const struct drill *drill, const struct sheet *sheet)
{
	int rc = data_write(drill, sheet);

	for (size_t i = 0; rc == 0 && i < KINDS; i++)
		rc = script_write(drill, sheet, &kinds[i]);
	return rc;
}

/* The run without kills alone is worth a sheet only where there is no other to be in. */
static bool is_worth(const struct drill_plan *plan, const struct sheet *sheet)
{
	bool others = false;

	for (size_t i = 0; i < plan->case_count; i++) {
		const struct drill_case *one = &plan->cases[i];

		if (one->workers != sheet->workers || drill_case_done(plan, one) == 0)
			continue;
		if (one->kills == sheet->kills && one->strategy->kills_max != 0)
			return true;
		others = others || one->kills != sheet->kills;
	}
	return !others;
}

/* False: the case has no run to show, or its sheet came with an earlier one */
static bool sheet_begin(const struct drill_plan *plan, size_t index, struct sheet *sheet)
{
	const struct drill_case *one = &plan->cases[index];

	*sheet = (struct sheet){ .kills = one->kills, .workers = one->workers };
	snprintf(sheet->name, sizeof(sheet->name), "k%u-w%u", sheet->kills, sheet->workers);
	if (drill_case_done(plan, one) == 0)
		return false;
	for (size_t i = 0; i < index; i++) {
		const struct drill_case *other = &plan->cases[i];

		if (other->kills == one->kills && other->workers == one->workers &&
		    drill_case_done(plan, other) > 0)
			return false;
	}
	return is_worth(plan, sheet);
}

int drill_plots_write(const struct drill *drill)
{
	bool draw = true;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < drill->plan.case_count; i++) {
		struct sheet sheet;

		if (!sheet_begin(&drill->plan, i, &sheet))
			continue;
		rc = sheet_write(drill, &sheet);
		if (rc == 0 && draw)
			rc = sheet_draw(drill, &sheet, &draw);
	}
	return rc;
}
