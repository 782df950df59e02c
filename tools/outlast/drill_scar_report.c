/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_scar_report.c -- tables, CSV, JSON, plots
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "outlast/cmd.h"
#include "outlast/drill.h"
#include "outlast/drill_scar.h"

static const char source[] = "\"Fault Tolerance in Iterative-Convergent Machine Learning\" (arXiv "
			     "1810.07354)";

static const char *selection_str(enum ol_selection selection)
{
	switch (selection) {
	case OL_SELECT_FULL:
		return "full";
	case OL_SELECT_PRIORITY:
		return "priority";
	case OL_SELECT_ROUND_ROBIN:
		return "round-robin";
	case OL_SELECT_RANDOM:
		break;
	}
	return "random";
}

void scar_scheme_name(size_t scheme, char *text, size_t bytes)
{
	const struct scar_scheme *s = &scar_schemes[scheme];

	if (s->selection == OL_SELECT_FULL)
		snprintf(text, bytes, "full");
	else
		snprintf(text, bytes, "%s 1/%u", selection_str(s->selection), s->part);
}

static void figure_add(struct drill_text *text, const struct scar_figure *f, double by, int digits)
{
	drill_add(text, "%.*f ±%.*f", digits, by * f->mean, digits, by * (f->high - f->mean));
}

static void cell_add(struct drill_text *text, const struct scar_table *t, size_t s, size_t l)
{
	struct scar_figure cost, less;

	if (t->cost[s][l] == NULL) {
		drill_add(text, " | -");
		return;
	}
	cost = scar_mean(t->cost[s][l], NULL, t->trials);
	less = scar_reduction(t->cost[s][l], t->full, t->trials);
	drill_add(text, " | ");
	figure_add(text, &cost, 1.0, 2);
	drill_add(text, " (");
	figure_add(text, &less, 100.0, 0);
	drill_add(text, " %%)");
}

static void table_add(struct drill_text *text, const struct scar_table *t)
{
	struct scar_figure full = scar_mean(t->full, NULL, t->trials);

	drill_add(text, "\nC = %u, %u failures: full recovery from full checkpoints costs ",
		  t->period, t->trials);
	figure_add(text, &full, 1.0, 2);
	drill_add(text,
		  " iterations%s.\n\n| saved, partial recovery | bytes | 1/4 lost | 1/2 lost "
		  "| 3/4 lost |\n| --- | ---: | ---: | ---: | ---: |\n",
		  t->late > 0 ? " (some runs did not arrive)" : "");
	for (size_t s = 0; s < SCAR_SCHEMES; s++) {
		char name[32];

		if (t->cost[s][1] == NULL)
			continue;
		scar_scheme_name(s, name, sizeof(name));
		drill_add(text, "| %s | %.3f", name, t->share[s]);
		for (size_t l = 0; l < SCAR_LOSSES; l++)
			cell_add(text, t, s, l);
		drill_add(text, " |\n");
	}
}

static void bounds_add(struct drill_text *text, const struct scar_bounds *b)
{
	drill_add(text,
		  "\n%s. %u steps to the target, c = %.5f (smallest ratio %.5f).\n\n"
		  "| perturbation | count | above bound + 1 | by distances as measured | largest "
		  "cost - bound | cost / bound |\n| --- | ---: | ---: | ---: | ---: | ---: |\n",
		  b->what, b->steps, b->rate, b->rate_min);
	for (size_t k = 0; k < SCAR_PUSHES; k++)
		drill_add(text, "| %s | %u | %u | %u | %.2f | %.3f |\n", scar_push_names[k],
			  b->count[k], b->above[k], b->above_measured[k], b->worst[k], b->tight[k]);
}

static void live_add(struct drill_text *text, const struct scar_study *study)
{
	if (study->live_count == 0)
		return;
	drill_add(text,
		  "\n## Live\n\nOne of four servers killed, C = 8; partial: it alone comes back, "
		  "with its running checkpoint (priority, r = 1/8); full: all go back to a full "
		  "one. The same kills both ways.\n\n| problem | recovery | kills | cost | "
		  "unlike the study before | survivors changed | strange | late |\n"
		  "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
	for (size_t i = 0; i < study->live_count; i++) {
		const struct scar_live *l = &study->live[i];
		struct scar_figure cost = scar_mean(l->cost, NULL, l->kills);

		drill_add(text, "| %s | %s | %u | ", l->name, l->full ? "full" : "partial",
			  l->kills);
		figure_add(text, &cost, 1.0, 2);
		drill_add(text, " | %u | %u | %u | %u |\n", l->unlike, l->changed, l->strange,
			  l->late);
	}
}

bool scar_summary(const struct scar_study *study, struct drill_text *text)
{
	drill_add(text, "Cost: iterations to the target more than without a failure; ± a 95 %% "
			"interval. In brackets: how much less than full recovery from full "
			"checkpoints. Bytes: of those of full checkpoints.\n");
	for (size_t i = 0; i < study->part_count; i++) {
		const struct scar_part *part = &study->part[i];

		drill_add(text, "\n## %s\n\n%s. Loss %.4f after %u iterations is the target.\n",
			  part->problem[0].name, part->problem[0].what, part->run[0].target,
			  part->run[0].steps);
		for (size_t p = 0; p < part->table_count; p++)
			table_add(text, &part->tables[p]);
	}
	live_add(text, study);
	drill_add(text, "\n## The bound\n");
	for (size_t i = 0; i < SCAR_BOUNDS; i++)
		bounds_add(text, &study->bounds[i]);
	return !text->failed;
}

static bool summary_csv(const struct scar_study *study, struct drill_text *text)
{
	drill_add(text, "problem,period,selection,r,lost,trials,cost,cost_low,cost_high,reduction,"
			"reduction_low,reduction_high,full_cost,bytes\n");
	for (size_t i = 0; i < study->part_count; i++) {
		for (size_t c = 0; c < study->part[i].table_count * SCAR_SCHEMES * SCAR_LOSSES;
		     c++) {
			size_t s = c / SCAR_LOSSES % SCAR_SCHEMES, l = c % SCAR_LOSSES;
			const struct scar_table *t =
				&study->part[i].tables[c / SCAR_LOSSES / SCAR_SCHEMES];
			struct scar_figure cost, less;

			if (t->cost[s][l] == NULL)
				continue;
			cost = scar_mean(t->cost[s][l], NULL, t->trials);
			less = scar_reduction(t->cost[s][l], t->full, t->trials);
			drill_add(text,
				  "%s,%u,%s,%g,%g,%u,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g\n",
				  study->part[i].problem[0].name, t->period,
				  selection_str(scar_schemes[s].selection),
				  1.0 / scar_schemes[s].part, scar_losses[l], t->trials, cost.mean,
				  cost.low, cost.high, less.mean, less.low, less.high,
				  scar_mean(t->full, NULL, t->trials).mean, t->share[s]);
		}
	}
	return !text->failed;
}

static bool readme(const struct scar_study *study, struct drill_text *text)
{
	drill_add(text,
		  "# Lost parts of the parameters\n\nMade by\n\n```\n%s\n```\n\n"
		  "| file | what |\n| --- | --- |\n"
		  "| `summary.md` | costs by what was saved and how much was lost; the bound |\n"
		  "| `summary.csv` | one row a cell |\n"
		  "| `claims.md` | the published claims, judged by fixed criteria |\n"
		  "| `settings` | the settings in force |\n"
		  "| `plots/PROBLEM.svg`, `.png`, `.gp`, `.dat` | reduction by C and by fraction "
		  "lost; the script and its data |\n",
		  study->drill->command);
	return !text->failed;
}

/* Two blocks: by C with half lost, a line a C; by fraction lost, a line a fraction of the last C */
static bool plot_data(const struct scar_part *part, struct drill_text *text)
{
	static const size_t shown[] = { 0, 3, 6, 9 };

	drill_add(text, "# C, then reduction, low, high in %% of: full, priority 1/8, round-robin "
			"1/8, random 1/8; half lost\n");
	for (size_t p = 0; p < part->table_count; p++) {
		const struct scar_table *t = &part->tables[p];

		drill_add(text, "%u", t->period);
		for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
			struct scar_figure f =
				scar_reduction(t->cost[shown[i]][1], t->full, t->trials);

			drill_add(text, " %.6g %.6g %.6g", 100 * f.mean, 100 * f.low, 100 * f.high);
		}
		drill_add(text, "\n");
	}
	drill_add(text, "\n\n# fraction lost, the same of full and priority 1/8; largest C\n");
	for (size_t l = 0; l < SCAR_LOSSES; l++) {
		const struct scar_table *t = &part->tables[part->table_count - 1];

		drill_add(text, "%g", scar_losses[l]);
		for (size_t i = 0; i < 2; i++) {
			struct scar_figure f =
				scar_reduction(t->cost[shown[i]][l], t->full, t->trials);

			drill_add(text, " %.6g %.6g %.6g", 100 * f.mean, 100 * f.low, 100 * f.high);
		}
		drill_add(text, "\n");
	}
	return !text->failed;
}

static bool plot_script(const struct scar_part *part, struct drill_text *text)
{
	const char *name = part->problem[0].name;

	drill_add(text,
		  "# less cost than full recovery from full checkpoints: gnuplot %s.gp\nreset\n"
		  "set grid\nset ylabel \"less cost, %%\"\nset key bottom\nset bars 0.5\n"
		  "do for [end in \"svg png\"] {\n"
		  "\tif (end eq \"svg\") {\n"
		  "\t\tset terminal svg size 1300,500 font \"sans,12\" background \"white\"\n"
		  "\t} else {\n\t\tset terminal pngcairo size 1300,500 font \"sans,12\"\n\t}\n"
		  "\tset output \"%s.\".end\n\tset multiplot layout 1,2 title \"%s\"\n",
		  name, name, name);
	drill_add(text,
		  "\tset xlabel \"C, half lost\"\n\tset logscale x 2\n\tset xrange [6:42]\n"
		  "\tplot for [i=0:3] \"%s.dat\" index 0 using 1:(column(2+3*i)):"
		  "(column(3+3*i)):(column(4+3*i)) with yerrorlines linewidth 2 title "
		  "word(\"full priority-1/8 round-robin-1/8 random-1/8\", i+1)\n",
		  name);
	drill_add(text,
		  "\tunset logscale x\n\tset xlabel \"fraction lost, largest C\"\n"
		  "\tset xrange [0.2:0.8]\n"
		  "\tplot for [i=0:1] \"%s.dat\" index 1 using 1:(column(2+3*i)):"
		  "(column(3+3*i)):(column(4+3*i)) with yerrorlines linewidth 2 title "
		  "word(\"full priority-1/8\", i+1)\n"
		  "\tunset multiplot\n\tunset output\n}\n",
		  name);
	return !text->failed;
}

static int text_write(const struct drill *drill, const char *name, struct drill_text *text)
{
	int rc = drill_file_write(drill, name, text);

	drill_text_fini(text);
	return rc;
}

static int plots_write(const struct scar_study *study)
{
	char names[SCAR_PARTS_MAX][64];
	const char *scripts[SCAR_PARTS_MAX];
	bool drawn;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < study->part_count; i++) {
		const struct scar_part *part = &study->part[i];
		struct drill_text text = { 0 };
		char path[96];

		plot_data(part, &text);
		snprintf(path, sizeof(path), "plots/%.60s.dat", part->problem[0].name);
		rc = text_write(study->drill, path, &text);
		plot_script(part, &text);
		snprintf(names[i], sizeof(names[i]), "%.60s.gp", part->problem[0].name);
		snprintf(path, sizeof(path), "plots/%s", names[i]);
		if (rc == 0)
			rc = text_write(study->drill, path, &text);
		drill_text_fini(&text);
		scripts[i] = names[i];
	}
	return rc != 0 ? rc : drill_plots_draw(study->drill, scripts, study->part_count, &drawn);
}

static json_t *figure_json(struct scar_figure f)
{
	return json_pack("[f, f, f]", f.mean, f.low, f.high);
}

static json_t *table_json(const struct scar_part *part, const struct scar_table *t)
{
	json_t *cells = json_array();

	for (size_t c = 0; c < SCAR_SCHEMES * SCAR_LOSSES; c++) {
		size_t s = c / SCAR_LOSSES, l = c % SCAR_LOSSES;

		if (t->cost[s][l] == NULL)
			continue;
		json_array_append_new(
			cells,
			json_pack("{s:s, s:f, s:f, s:f, s:o, s:o}", "selection",
				  selection_str(scar_schemes[s].selection), "r",
				  1.0 / scar_schemes[s].part, "lost", scar_losses[l], "bytes",
				  t->share[s], "cost",
				  figure_json(scar_mean(t->cost[s][l], NULL, t->trials)),
				  "reduction",
				  figure_json(scar_reduction(t->cost[s][l], t->full, t->trials))));
	}
	return json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:o, s:o}", "problem",
			 part->problem[0].name, "what", part->problem[0].what, "steps",
			 (int)part->run[0].steps, "blocks", (int)part->problem[0].block_count,
			 "period", (int)t->period, "trials", (int)t->trials, "late", (int)t->late,
			 "full_cost", figure_json(scar_mean(t->full, NULL, t->trials)), "cells",
			 cells);
}

static int json_write(const struct scar_study *study, const struct drill_claim *claims)
{
	const struct drill *drill = study->drill;
	json_t *tables = json_array(), *list = json_array(), *json;
	int rc = 0;

	if (drill->set.json == NULL)
		goto out;
	for (size_t i = 0; i < study->part_count; i++) {
		for (size_t p = 0; p < study->part[i].table_count; p++)
			json_array_append_new(
				tables, table_json(&study->part[i], &study->part[i].tables[p]));
	}
	for (size_t i = 0; i < SCAR_CLAIMS; i++)
		json_array_append_new(
			list, json_pack("{s:s, s:s, s:s, s:s}", "id", claims[i].id, "verdict",
					drill_verdict_str(claims[i].verdict), "numbers",
					claims[i].numbers, "because", claims[i].because));
	json = json_pack("{s:s, s:s, s:O, s:O}", "command", drill->command, "folder", drill->out,
			 "tables", tables, "claims", list);
	if (json == NULL || json_dump_file(json, drill->set.json, JSON_INDENT(2)) != 0)
		rc = ol_cmd_error(OL_EXIT_FAILED, "drill", "cannot write", drill->set.json,
				  json == NULL ? "no memory" : strerror(errno));
	json_decref(json);
out:
	json_decref(tables);
	json_decref(list);
	return rc;
}

int scar_report_write(const struct scar_study *study)
{
	static const struct {
		const char *name;
		bool (*make)(const struct scar_study *study, struct drill_text *text);
	} files[] = {
		{ "summary.md", scar_summary },
		{ "summary.csv", summary_csv },
		{ "README.md", readme },
	};
	struct drill_claim claims[SCAR_CLAIMS];
	struct drill_text text = { 0 };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(files) / sizeof(files[0]); i++) {
		text.failed = !files[i].make(study, &text);
		rc = text_write(study->drill, files[i].name, &text);
	}
	if (rc != 0)
		return rc;
	scar_claims_judge(study, claims);
	drill_claims_markdown(claims, SCAR_CLAIMS, source, study->drill->command, &text);
	rc = text_write(study->drill, "claims.md", &text);
	if (rc == 0)
		rc = json_write(study, claims);
	return rc != 0 ? rc : plots_write(study);
}
