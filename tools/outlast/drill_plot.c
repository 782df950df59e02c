/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_plot.c -- data and scripts for gnuplot, plots
 *
 * One data file for each number of kills and workers, with a block a case; five scripts read it.
 * The run without kills is in every one of them, for comparison. The first picture, `outage`, tells
 * the whole in one panel: asynchronous cases only, what each lost, and the result as its title.
 *
 * A line has its name at its end and no legend. Thin vertical lines show each kill, and in the
 * colour of each case when its first gradient is applied again.
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
	KINDS = 5,
	SCRIPTS_MAX = 16,
	PANELS_MAX = 4,
	NAME_BYTES = 64,
	LABEL_BYTES = 96,
	LABELS_MAX = 2 * DRILL_STRATEGIES_MAX
};

static const double label_gap = 0.05; /* of a panel's height, from one label to the next */

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
	bool is_story; /* asynchronous cases only, with the result in words */
	double top; /* of y; 0: as the lines need it */
	struct panel panels[PANELS_MAX];
	size_t panel_count;
} kinds[KINDS] = {
	{ "outage", true, 1.0, { { DRILL_ACCURACY, "test accuracy" } }, 1 },
	{ "accuracy", false, 1.0, { { DRILL_ACCURACY, "test accuracy" } }, 1 },
	{ "loss", false, 0.0, { { DRILL_LOSS, "test loss" } }, 1 },
	{ "gradients",
	  false,
	  0.0,
	  { { DRILL_COMPUTED, "gradients computed" },
	    { DRILL_QUEUED, "queued" },
	    { DRILL_APPLIED, "applied" },
	    { DRILL_LOST, "lost" } },
	  4 },
	{ "utilisation",
	  false,
	  0.0,
	  { { DRILL_WORKER_CPU, "cores of the workers" },
	    { DRILL_SERVER_CPU, "cores of the server" } },
	  2 },
};

/* In the order of drill_strategies; told apart by people who see colours in another way too (Okabe
 * and Ito, Tol). Grey is for what the others are measured by. */
static const char *const colours[] = { "#777777", "#0072B2", "#56B4E9", "#009E73", "#CC79A7",
				       "#E69F00", "#332288", "#D55E00", "#882255", "#000000" };

/* One data file and its scripts. */
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

static bool is_in(const struct kind *kind, const struct sheet *sheet, const struct drill_plan *plan,
		  const struct drill_case *one)
{
	return is_on(sheet, plan, one) && !(kind->is_story && one->sync);
}

static const char *colour_of(const struct drill_case *one)
{
	size_t index = (size_t)(one->strategy - drill_strategies);

	return colours[index % (sizeof(colours) / sizeof(colours[0]))];
}

/* When the k-th outage of this case began and was over, on average; false: no run has come so
 * far */
static bool outage_mean(const struct drill_plan *plan, const struct drill_case *of, unsigned k,
			double *ret_from, double *ret_to)
{
	double from[DRILL_LIST_MAX], to[DRILL_LIST_MAX];
	size_t count = 0;

	for (size_t i = 0; i < plan->run_count && count < DRILL_LIST_MAX; i++) {
		const struct drill_run *run = &plan->runs[i];

		if (run->status != DRILL_DONE || run->of != of || k >= run->outage_count ||
		    isnan(run->outages[k].first_applied_s - run->outages[k].killed_s))
			continue;
		from[count] = run->outages[k].killed_s;
		to[count++] = run->outages[k].first_applied_s;
	}
	*ret_from = drill_moments(from, count).mean;
	*ret_to = drill_moments(to, count).mean;
	return count > 0;
}

static double figure_of(const struct drill *drill, const struct drill_case *one,
			enum drill_figure figure)
{
	return drill_case_figure(&drill->plan, one, figure).mean;
}

/* A name at the end of a line. */
struct label {
	const struct drill_case *of;
	double y; /* 0 to 1 of the panel's height */
};

static double y_top(const struct drill *drill, const struct sheet *sheet, const struct kind *kind,
		    enum drill_column column)
{
	double top = 0.0;

	if (kind->top > 0.0)
		return kind->top;
	for (size_t i = 0; i < drill->plan.case_count; i++) {
		const struct drill_case *one = &drill->plan.cases[i];
		double end = end_s(&drill->plan, one);

		for (unsigned p = 0; is_in(kind, sheet, &drill->plan, one) && p <= GRID_POINTS; p++)
			top = fmax(top, mean_at(&drill->plan, one, column, end * p / GRID_POINTS));
	}
	return top > 0.0 ? 1.05 * top : 1.0;
}

static void labels_up(struct label *labels, size_t count)
{
	for (size_t i = 1; i < count; i++)
		labels[i].y = fmax(labels[i].y, labels[i - 1].y + label_gap);
}

static void labels_down(struct label *labels, size_t count)
{
	for (size_t i = count - 1; i-- > 0;)
		labels[i].y = fmin(labels[i].y, labels[i + 1].y - label_gap);
}

/* Apart from each other, in order, around where they were, and within the panel */
static void labels_spread(struct label *labels, size_t count)
{
	struct label down[LABELS_MAX];

	for (size_t i = 1; i < count; i++) {
		struct label label = labels[i];
		size_t at = i;

		for (; at > 0 && labels[at - 1].y > label.y; at--)
			labels[at] = labels[at - 1];
		labels[at] = label;
	}
	if (count == 0)
		return;
	memcpy(down, labels, count * sizeof(*labels));
	labels_up(labels, count);
	labels_down(down, count);
	for (size_t i = 0; i < count; i++)
		labels[i].y = (labels[i].y + down[i].y) / 2.0;
	labels[0].y = fmax(labels[0].y, 0.0);
	labels_up(labels, count);
	labels[count - 1].y = fmin(labels[count - 1].y, 1.0);
	labels_down(labels, count);
}

static void label_text(const struct drill *drill, const struct sheet *sheet,
		       const struct kind *kind, const struct drill_case *one,
		       char text[LABEL_BYTES])
{
	const char *name = one->strategy->name;

	if (!kind->is_story)
		snprintf(text, LABEL_BYTES, "%s %s%s", name, one->sync ? "sync" : "async",
			 one->kills < sheet->kills ? ", no kill" : "");
	else if (one->kills == 0)
		snprintf(text, LABEL_BYTES, "%s: no kill", name);
	else
		snprintf(text, LABEL_BYTES, "%s: %.2f s down, %.0f lost", name,
			 figure_of(drill, one, DRILL_F_DOWNTIME),
			 figure_of(drill, one, DRILL_F_LOST));
}

static void labels_add(const struct drill *drill, const struct sheet *sheet,
		       const struct kind *kind, enum drill_column column, double top,
		       struct drill_text *text)
{
	struct label labels[LABELS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < drill->plan.case_count && count < LABELS_MAX; i++) {
		const struct drill_case *one = &drill->plan.cases[i];
		double last = mean_at(&drill->plan, one, column, end_s(&drill->plan, one));

		if (is_in(kind, sheet, &drill->plan, one) && isfinite(last))
			labels[count++] = (struct label){ .of = one, .y = last / top };
	}
	labels_spread(labels, count);
	for (size_t i = 0; i < count; i++) {
		char words[LABEL_BYTES];

		label_text(drill, sheet, kind, labels[i].of, words);
		drill_add(text,
			  "\tset label \"%s\" at graph 1, graph %.4f left offset 1,0 noenhanced "
			  "textcolor rgb \"%s\" font \",11\"\n",
			  words, labels[i].y, colour_of(labels[i].of));
	}
}

/* Kills and returns of each case; in the story they have their words */
static void marks_add(const struct drill *drill, const struct sheet *sheet, const struct kind *kind,
		      struct drill_text *text)
{
	double from, to, killed_s = NAN;
	unsigned words = 0;

	for (size_t i = 0; i < drill->plan.case_count; i++) {
		const struct drill_case *one = &drill->plan.cases[i];

		for (unsigned k = 0; is_in(kind, sheet, &drill->plan, one) && k < one->kills; k++) {
			if (!outage_mean(&drill->plan, one, k, &from, &to))
				continue;
			drill_add(
				text,
				"\tset arrow from %.6g, graph 0 to %.6g, graph 1 nohead linewidth "
				"1 linecolor rgb \"#000000\" dashtype 3\n"
				"\tset arrow from %.6g, graph 0 to %.6g, graph 1 nohead linewidth "
				"1 linecolor rgb \"%s\"\n",
				from, from, to, to, colour_of(one));
			if (!kind->is_story || k > 0)
				continue;
			drill_add(text,
				  "\tset label \"%s back\" at %.6g, graph %.4f left offset 0.5,0 "
				  "noenhanced textcolor rgb \"%s\" font \",11\"\n",
				  one->strategy->name, to, 0.03 + label_gap * words++,
				  colour_of(one));
			killed_s = fmin(killed_s, from);
		}
	}
	if (isfinite(killed_s))
		drill_add(
			text,
			"\tset label \"killed\" at %.6g, graph 0.97 right offset -0.5,0 font \",11\"\n",
			killed_s);
}

static void plot_add(const struct drill *drill, const struct sheet *sheet, const struct kind *kind,
		     const struct panel *panel, struct drill_text *text)
{
	double top = y_top(drill, sheet, kind, panel->column);
	size_t block = 0, lines = 0;
	unsigned column = 2;

	while (shown[column - 2] != panel->column)
		column++;
	drill_add(text, "\tunset label\n\tunset arrow\n");
	marks_add(drill, sheet, kind, text);
	labels_add(drill, sheet, kind, panel->column, top, text);
	drill_add(text, "\tset ylabel \"%s\"\n\tset yrange [0:%.6g]\n\tplot", panel->label, top);
	for (size_t i = 0; i < drill->plan.case_count; i++) {
		const struct drill_case *one = &drill->plan.cases[i];

		if (!is_on(sheet, &drill->plan, one))
			continue;
		if (is_in(kind, sheet, &drill->plan, one))
			drill_add(text,
				  "%s \"%s.dat\" index %zu using 1:%u with lines linewidth %d "
				  "linecolor rgb \"%s\" dashtype %d notitle",
				  lines++ > 0 ? ", \\\n\t    " : "", sheet->name, block, column,
				  one->strategy->replicas > 0 ? 3 : 2, colour_of(one),
				  one->sync ? 2 : 1);
		block++;
	}
	drill_add(text, lines > 0 ? "\n" : " NaN notitle\n");
}

static void lost_add(const struct drill *drill, const struct drill_case *one,
		     struct drill_text *text)
{
	double lost = figure_of(drill, one, DRILL_F_LOST);

	if (lost > 0.0)
		drill_add(text, "loses %.0f gradient%s", lost, round(lost) == 1.0 ? "" : "s");
	else
		drill_add(text, "loses nothing");
}

/* What came of it: the strategy that was back first, and the one that ends least accurate */
static void title_add(const struct drill *drill, const struct sheet *sheet, const struct kind *kind,
		      struct drill_text *text)
{
	const struct drill_case *first = NULL, *last = NULL;

	drill_add(text, "%u kill%s, %u worker%s", sheet->kills, sheet->kills == 1 ? "" : "s",
		  sheet->workers, sheet->workers == 1 ? "" : "s");
	for (size_t i = 0; kind->is_story && i < drill->plan.case_count; i++) {
		const struct drill_case *one = &drill->plan.cases[i];
		double down = figure_of(drill, one, DRILL_F_DOWNTIME);

		if (!is_in(kind, sheet, &drill->plan, one) || one->strategy->fault || isnan(down))
			continue;
		if (first == NULL || down < figure_of(drill, first, DRILL_F_DOWNTIME))
			first = one;
		if (last == NULL || figure_of(drill, one, DRILL_F_ACCURACY) <
					    figure_of(drill, last, DRILL_F_ACCURACY))
			last = one;
	}
	if (first == NULL)
		return;
	drill_add(text, ": %s goes on after %.2f s and ", first->strategy->name,
		  figure_of(drill, first, DRILL_F_DOWNTIME));
	lost_add(drill, first, text);
	if (last == first)
		return;
	drill_add(text, ", %s after %.2f s and ", last->strategy->name,
		  figure_of(drill, last, DRILL_F_DOWNTIME));
	lost_add(drill, last, text);
}

static void script_head(const struct drill *drill, const struct sheet *sheet,
			const struct kind *kind, struct drill_text *text)
{
	double end = 0.0, longest = 0.0;

	for (size_t i = 0; i < drill->plan.case_count; i++) {
		const struct drill_case *one = &drill->plan.cases[i];
		char words[LABEL_BYTES];

		if (!is_in(kind, sheet, &drill->plan, one))
			continue;
		end = fmax(end, end_s(&drill->plan, one));
		label_text(drill, sheet, kind, one, words);
		longest = fmax(longest, (double)strlen(words));
	}
	drill_add(text,
		  "# %s against time, %u kills, %u workers: gnuplot %s-%s.gp\nreset\n"
		  "set datafile missing \"?\"\nset grid\nset xlabel \"seconds\"\n"
		  "set xrange [0:%.6g]\nunset key\nset rmargin %.0f\n",
		  kind->name, sheet->kills, sheet->workers, kind->name, sheet->name, end,
		  0.9 * longest + 2.0);
}

static int script_write(const struct drill *drill, const struct sheet *sheet,
			const struct kind *kind)
{
	size_t rows = (kind->panel_count + 1) / 2, columns = kind->panel_count > 1 ? 2 : 1;
	unsigned width = columns == 2 ? 1500 : 1100, height = rows == 2 ? 1000 : 560;
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
		  "\tset multiplot layout %zu,%zu title \"",
		  width, height, width, height, kind->name, sheet->name, rows, columns);
	title_add(drill, sheet, kind, &text);
	drill_add(&text, "\" noenhanced\n");
	for (size_t i = 0; i < kind->panel_count; i++)
		plot_add(drill, sheet, kind, &kind->panels[i], &text);
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
