/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_dbw_report.c -- tables, CSV, JSON, plots
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "outlast/cmd.h"
#include "outlast/drill.h"
#include "outlast/drill_dbw.h"

static const char source[] =
	"\"Dynamic Backup Workers for Parallel Machine Learning\" (arXiv 2004.14696)";

static void times_add(const struct dbw_study *study, struct drill_text *text)
{
	drill_add(text,
		  "\n## Duration of a step\n\nn = %u, means of %llu steps; a gradient takes 1 on "
		  "average. PsI: push and interrupt; PsW: push and wait; Pl: pull, which asks for "
		  "5 %% of that.\n\n| alpha | k | PsI | closed form | PsW | known | Pl |\n"
		  "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
		  DBW_N, (unsigned long long)(study->time_steps * 9 / 10));
	for (size_t i = 0; i < study->time_count; i++) {
		const struct dbw_time *t = &study->times[i];

		drill_add(text, "| %g | %u | %.4f | %.4f | %.3f | %.3f | %.3f |\n", t->alpha, t->k,
			  t->psi, t->psi_exact, t->psw, t->psw_known, t->pull);
	}
}

static void time_add(const struct dbw_study *study, const struct dbw_cell *cell, size_t depth,
		     struct drill_text *text)
{
	struct dbw_figure f = dbw_mean(cell->time[depth], study->trials);

	drill_add(text, " | %s%.1f", cell->missed[depth] > 0 ? ">" : "", f.mean);
	if (isfinite(f.high))
		drill_add(text, " ±%.1f", f.high - f.mean);
}

static void setting_add(const struct dbw_study *study, const struct dbw_setting *setting,
			size_t depth, struct drill_text *text)
{
	struct dbw_figure speed = dbw_speed(study, setting, depth);
	const struct dbw_cell *dbw = &setting->cell[DBW_DBW];
	size_t best = dbw_best(study, setting, depth);
	char name[DBW_TEXT_MAX];

	dbw_setting_name(setting, name, sizeof(name));
	drill_add(text, "| %s | %g", name, dbw_depths[depth]);
	for (size_t m = 0; m < DBW_METHODS; m++)
		time_add(study, &setting->cell[m], depth, text);
	drill_add(text, " | %.2f (%.2f to %.2f)", speed.mean, speed.low, speed.high);
	dbw_method_name(setting, best, name, sizeof(name));
	drill_add(text, " | %s | %.1f, %.1f to %.1f |\n", name,
		  drill_moments(dbw->k_mean, study->trials).mean,
		  drill_moments(dbw->k_early, study->trials).mean,
		  drill_moments(dbw->k_late, study->trials).mean);
}

static void group_add(const struct dbw_study *study, enum dbw_group group, const char *head,
		      struct drill_text *text)
{
	bool begun = false;

	for (size_t i = 0; i < study->setting_count; i++) {
		const struct dbw_setting *setting = &study->settings[i];

		if (setting->group != group)
			continue;
		if (!begun) {
			drill_add(text, "\n## %s\n\n| setting | target | k = n/16", head);
			drill_add(text, " | 2n/16 | 4n/16 | 8n/16 | 12n/16 | 14n/16 | n | dbw | "
					"dbw-blind | adasync | dbw by best | best | dbw: k |\n");
			drill_add(text, "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | "
					"---: | ---: | ---: | ---: | ---: | --- | ---: |\n");
		}
		begun = true;
		for (size_t d = group == DBW_GRID ? DBW_GRID_DEPTH : 0; d <= setting->depth; d++)
			setting_add(study, setting, d, text);
	}
}

static void slow_add(const struct dbw_study *study, struct drill_text *text)
{
	drill_add(text,
		  "\n## Half of the workers become 5 times slower\n\nMedian k and mean "
		  "duration of a step before and after; steps until k is at most 9.\n\n"
		  "| alpha | k before | k after | steps | step before | after | k = n: before "
		  "| after |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
	for (size_t i = 0; i < DBW_SLOWS; i++) {
		const struct dbw_slow *s = &study->slows[i];
		const double *columns[] = { s->k_before,    s->k_after,    s->steps_to_half,
					    s->step_before, s->step_after, s->all_before,
					    s->all_after };

		drill_add(text, "| %g", s->alpha);
		for (size_t c = 0; c < sizeof(columns) / sizeof(columns[0]); c++)
			drill_add(text, " | %.2f", drill_moments(columns[c], study->trials).mean);
		drill_add(text, " |\n");
	}
}

bool dbw_summary(const struct dbw_study *study, struct drill_text *text)
{
	drill_add(
		text,
		"Softmax regression on `synthetic:noise=4,train=2000`, a clock in which a gradient "
		"takes 1 on average (1 - alpha + alpha Exp(1)), push and wait, %u seeds. Times to "
		"the target: mean ± 95 %% interval; > : some runs were not there in time. A target "
		"is so much of the way from the first loss, %.4f, above the least that there is, "
		"%.4f. \"dbw by best\": how many times as fast as the best static k DBW is, with "
		"a 95 %% interval; its k: mean, median of the first quarter of steps, of the "
		"last.\n",
		study->trials, study->problem.first, study->problem.least);
	group_add(study, DBW_GRID, "The grid", text);
	group_add(study, DBW_DEEP, "Deep in the loss", text);
	group_add(study, DBW_MANY, "Few and many workers", text);
	slow_add(study, text);
	times_add(study, text);
	return !text->failed;
}

static bool summary_csv(const struct dbw_study *study, struct drill_text *text)
{
	drill_add(text, "workers,alpha,batch,lr,target,method,seeds,missed,time,time_low,time_high,"
			"k_mean,k_early,k_late\n");
	for (size_t i = 0; i < study->setting_count; i++) {
		const struct dbw_setting *s = &study->settings[i];

		for (size_t c = 0; c < (s->depth + 1) * DBW_METHODS; c++) {
			const struct dbw_cell *cell = &s->cell[c % DBW_METHODS];
			size_t d = c / DBW_METHODS;
			struct dbw_figure f = dbw_mean(cell->time[d], study->trials);
			char name[32];

			dbw_method_name(s, c % DBW_METHODS, name, sizeof(name));
			drill_add(text, "%u,%g,%u,%g,%g,%s,%u,%u,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g\n",
				  s->workers, s->alpha, s->batch, s->lr, dbw_depths[d], name,
				  study->trials, cell->missed[d], f.mean, f.low, f.high,
				  drill_moments(cell->k_mean, study->trials).mean,
				  drill_moments(cell->k_early, study->trials).mean,
				  drill_moments(cell->k_late, study->trials).mean);
		}
	}
	return !text->failed;
}

static bool readme(const struct dbw_study *study, struct drill_text *text)
{
	drill_add(
		text,
		"# Not waiting for the slowest\n\nMade by\n\n```\n%s\n```\n\n"
		"| file | what |\n| --- | --- |\n"
		"| `summary.md` | times to targets by how many gradients a step waits for; what "
		"slow workers do; how long steps take |\n"
		"| `summary.csv` | one row a setting, target and method |\n"
		"| `claims.md` | the published claims, judged by fixed criteria |\n"
		"| `settings` | the settings in force |\n"
		"| `plots/grid.svg`, `.png`, `.gp`, `.dat` | time to the target by k, and what "
		"the others make of it |\n"
		"| `plots/course.svg`, `.png`, `.gp`, `.dat` | DBW's k and loss over time, in one "
		"run |\n",
		study->drill->command);
	return !text->failed;
}

/* A block a setting of the grid: k, time, low, high of the static ones; then the others */
static bool grid_data(const struct dbw_study *study, struct drill_text *text)
{
	drill_add(text, "# k (of the others their mean), time to the target, low, high\n");
	for (size_t i = 0; i < study->setting_count; i++) {
		const struct dbw_setting *s = &study->settings[i];
		char name[DBW_TEXT_MAX];

		if (s->group != DBW_GRID)
			continue;
		dbw_setting_name(s, name, sizeof(name));
		for (size_t m = 0; m < DBW_METHODS; m++) {
			struct dbw_figure f =
				dbw_mean(s->cell[m].time[DBW_GRID_DEPTH], study->trials);

			if (m == 0 || m >= DBW_STATICS)
				drill_add(text, "%s\"%s\"\n", i + m > 0 ? "\n\n" : "",
					  m == 0 ? name : "");
			drill_add(text, "%.6g %.6g %.6g %.6g\n",
				  drill_moments(s->cell[m].k_mean, study->trials).mean, f.mean,
				  f.low, f.high);
		}
	}
	return !text->failed;
}

/* What every script begins with, for a picture of so many rows */
static void script_begin(struct drill_text *text, const char *name, unsigned rows)
{
	drill_add(text,
		  "# gnuplot %s.gp\nreset\nset grid\nset bars 0.5\n"
		  "do for [end in \"svg png\"] {\n"
		  "\tif (end eq \"svg\") {\n"
		  "\t\tset terminal svg size 1300,%u font \"sans,12\" background \"white\"\n"
		  "\t} else {\n\t\tset terminal pngcairo size 1300,%u font \"sans,12\"\n\t}\n"
		  "\tset output \"%s.\".end\n",
		  name, 320 * rows, 320 * rows, name);
}

static bool grid_script(const struct dbw_study *study, struct drill_text *text)
{
	unsigned count = 0, rows;

	for (size_t i = 0; i < study->setting_count; i++)
		count += study->settings[i].group == DBW_GRID;
	rows = (count + 3) / 4;
	script_begin(text, "grid", rows);
	drill_add(text,
		  "\tset multiplot layout %u,%u title \"time to the target by k\"\n"
		  "\tset xrange [0:17]\n\tset yrange [0:*]\n"
		  "\tdo for [i=0:%u] {\n"
		  "\t\tplot \"grid.dat\" index 4*i using 1:2:3:4 with yerrorlines linewidth 2 "
		  "title columnheader(1), "
		  "for [m=1:3] \"grid.dat\" index 4*i+m using 1:2:3:4 with yerrorbars linewidth 2 "
		  "title word(\"dbw dbw-blind adasync\", m)\n\t}\n"
		  "\tunset multiplot\n\tunset output\n}\n",
		  rows, count < 4 ? count : 4, count - 1);
	return !text->failed;
}

static bool course_script(const struct dbw_study *study, struct drill_text *text)
{
	(void)study;
	script_begin(text, "course", 2);
	drill_add(text, "\tset multiplot layout 2,1\n\tset xlabel \"time\"\n\tset ylabel \"k\"\n"
			"\tplot \"course.dat\" using 1:2 with steps linewidth 2 title \"k\"\n"
			"\tset ylabel \"loss\"\n\tset logscale y\n"
			"\tplot \"course.dat\" using 1:3 with lines linewidth 2 title \"loss of a "
			"step\"\n\tunset logscale y\n\tunset multiplot\n\tunset output\n}\n");
	return !text->failed;
}

static bool course_data(const struct dbw_study *study, struct drill_text *text)
{
	drill_add(text, "# t, k, loss of DBW: the first run of the first setting with alpha 1\n%s",
		  study->curve.bytes != NULL ? study->curve.bytes : "");
	return !text->failed && !study->curve.failed;
}

static json_t *figure_json(struct dbw_figure f)
{
	return json_pack("[f, o, o]", f.mean, isfinite(f.low) ? json_real(f.low) : json_null(),
			 isfinite(f.high) ? json_real(f.high) : json_null());
}

static json_t *setting_json(const struct dbw_study *study, const struct dbw_setting *s)
{
	json_t *cells = json_array();

	for (size_t c = 0; c < (s->depth + 1) * DBW_METHODS; c++) {
		const struct dbw_cell *cell = &s->cell[c % DBW_METHODS];
		size_t d = c / DBW_METHODS;
		char name[32];

		dbw_method_name(s, c % DBW_METHODS, name, sizeof(name));
		json_array_append_new(cells,
				      json_pack("{s:s, s:f, s:o, s:i, s:f}", "method", name,
						"target", dbw_depths[d], "time",
						figure_json(dbw_mean(cell->time[d], study->trials)),
						"missed", (int)cell->missed[d], "k_mean",
						drill_moments(cell->k_mean, study->trials).mean));
	}
	return json_pack("{s:i, s:f, s:i, s:f, s:f, s:o, s:o}", "workers", (int)s->workers, "alpha",
			 s->alpha, "batch", (int)s->batch, "lr", s->lr, "time_max", s->time_max,
			 "dbw_by_best", figure_json(dbw_speed(study, s, s->depth)), "cells", cells);
}

static int json_write(const struct dbw_study *study, const struct drill_claim *claims)
{
	const struct drill *drill = study->drill;
	json_t *settings = json_array(), *list = json_array(), *json;
	int rc = 0;

	if (drill->set.json == NULL)
		goto out;
	for (size_t i = 0; i < study->setting_count; i++)
		json_array_append_new(settings, setting_json(study, &study->settings[i]));
	for (size_t i = 0; i < DBW_CLAIMS; i++)
		json_array_append_new(
			list, json_pack("{s:s, s:s, s:s, s:s}", "id", claims[i].id, "verdict",
					drill_verdict_str(claims[i].verdict), "numbers",
					claims[i].numbers, "because", claims[i].because));
	json = json_pack("{s:s, s:s, s:i, s:O, s:O}", "command", drill->command, "folder",
			 drill->out, "seeds", (int)study->trials, "settings", settings, "claims",
			 list);
	if (json == NULL || json_dump_file(json, drill->set.json, JSON_INDENT(2)) != 0)
		rc = ol_cmd_error(OL_EXIT_FAILED, "drill", "cannot write", drill->set.json,
				  json == NULL ? "no memory" : strerror(errno));
	json_decref(json);
out:
	json_decref(settings);
	json_decref(list);
	return rc;
}

int dbw_report_write(const struct dbw_study *study)
{
	static const struct {
		const char *name;
		bool (*make)(const struct dbw_study *study, struct drill_text *text);
	} files[] = {
		{ "summary.md", dbw_summary },
		{ "summary.csv", summary_csv },
		{ "README.md", readme },
		{ "plots/grid.dat", grid_data },
		{ "plots/grid.gp", grid_script },
		{ "plots/course.dat", course_data },
		{ "plots/course.gp", course_script },
	};
	static const char *const scripts[] = { "grid.gp", "course.gp" };
	struct drill_claim claims[DBW_CLAIMS];
	struct drill_text text = { 0 };
	bool drawn;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(files) / sizeof(files[0]); i++) {
		text.failed = !files[i].make(study, &text);
		rc = drill_file_write(study->drill, files[i].name, &text);
		drill_text_fini(&text);
	}
	if (rc != 0)
		return rc;
	dbw_claims_judge(study, claims);
	drill_claims_markdown(claims, DBW_CLAIMS, source, study->drill->command, &text);
	rc = drill_file_write(study->drill, "claims.md", &text);
	drill_text_fini(&text);
	if (rc == 0)
		rc = json_write(study, claims);
	return rc != 0 ? rc : drill_plots_draw(study->drill, scripts, 2, &drawn);
}
