/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_report.c -- tables, CSV, JSON, costs
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outlast/cmd.h"
#include "outlast/drill.h"

enum {
	CELL_MAX = 48,
	COLUMNS_MAX = 8 + DRILL_FIGURES
};

struct table {
	char (*cells)[COLUMNS_MAX][CELL_MAX]; /* the first row is the head */
	size_t rows;
	size_t columns;
};

static const char *mode_str(const struct drill_case *one)
{
	return one->sync ? "sync" : "async";
}

static void cell_set(struct table *table, size_t row, size_t column, const char *text)
{
	snprintf(table->cells[row][column], CELL_MAX, "%s", text);
	if (column >= table->columns)
		table->columns = column + 1;
}

static void moments_str(const struct drill_moments *m, int digits, char text[CELL_MAX])
{
	if (m->count == 0)
		snprintf(text, CELL_MAX, "-");
	else if (m->count == 1)
		snprintf(text, CELL_MAX, "%.*f", digits, m->mean);
	else
		snprintf(text, CELL_MAX, "%.*f ±%.*f", digits, m->mean, digits, m->sd);
}

static size_t failed_count(const struct drill_plan *plan, const struct drill_case *of)
{
	size_t count = 0;

	for (size_t i = 0; i < plan->run_count; i++)
		count += plan->runs[i].of == of && plan->runs[i].status == DRILL_FAILED;
	return count;
}

static void head_fill(struct table *table, int which)
{
	static const char *const first[] = { "strategy", "consistency", "kills", "workers",
					     "runs" };
	size_t column = 0;

	for (; column < sizeof(first) / sizeof(first[0]); column++)
		cell_set(table, 0, column, first[column]);
	for (int f = 0; f < DRILL_FIGURES; f++) {
		if (drill_figures[f].table == which)
			cell_set(table, 0, column++, drill_figures[f].head);
	}
}

static void row_fill(struct table *table, size_t row, const struct drill_plan *plan,
		     const struct drill_case *one, int which)
{
	size_t failed = failed_count(plan, one), column = 0;
	char text[CELL_MAX];

	cell_set(table, row, column++, one->strategy->name);
	cell_set(table, row, column++, mode_str(one));
	snprintf(text, sizeof(text), "%u", one->kills);
	cell_set(table, row, column++, text);
	snprintf(text, sizeof(text), "%u", one->workers);
	cell_set(table, row, column++, text);
	snprintf(text, sizeof(text), "%zu", drill_case_done(plan, one));
	if (failed > 0)
		snprintf(text, sizeof(text), "%zu, %zu FAILED", drill_case_done(plan, one), failed);
	cell_set(table, row, column++, text);
	for (int f = 0; f < DRILL_FIGURES; f++) {
		struct drill_moments m;

		if (drill_figures[f].table != which)
			continue;
		m = drill_case_figure(plan, one, (enum drill_figure)f);
		moments_str(&m, drill_figures[f].digits, text);
		cell_set(table, row, column++, text);
	}
}

static bool table_make(const struct drill_plan *plan, int which, struct table *table)
{
	*table = (struct table){ .rows = plan->case_count + 1 };
	table->cells = calloc(table->rows, sizeof(*table->cells));
	if (table->cells == NULL)
		return false;
	head_fill(table, which);
	for (size_t i = 0; i < plan->case_count; i++)
		row_fill(table, i + 1, plan, &plan->cases[i], which);
	return true;
}

/* Columns that a terminal shows: of UTF-8, all but the bytes that continue a character */
static int shown(const char *text)
{
	int count = 0;

	for (; *text != '\0'; text++)
		count += ((unsigned char)*text & 0xc0) != 0x80;
	return count;
}

static void table_text(const struct table *table, struct drill_text *text)
{
	int width[COLUMNS_MAX] = { 0 };

	for (size_t r = 0; r < table->rows; r++) {
		for (size_t c = 0; c < table->columns; c++) {
			int now = shown(table->cells[r][c]);

			width[c] = now > width[c] ? now : width[c];
		}
	}
	for (size_t r = 0; r < table->rows; r++) {
		for (size_t c = 0; c < table->columns; c++) {
			const char *cell = table->cells[r][c];
			int pad = width[c] - shown(cell);

			if (c < 2) /* words to the left, numbers to the right */
				drill_add(text, "%s%s%*s", c > 0 ? "  " : "", cell, pad, "");
			else
				drill_add(text, "  %*s%s", pad, "", cell);
		}
		drill_add(text, "\n");
	}
}

static void table_markdown(const struct table *table, struct drill_text *text)
{
	for (size_t r = 0; r < table->rows; r++) {
		for (size_t c = 0; c < table->columns; c++)
			drill_add(text, "| %s ", table->cells[r][c]);
		drill_add(text, "|\n");
		for (size_t c = 0; r == 0 && c < table->columns; c++)
			drill_add(text, "| %s ", c < 2 ? "---" : "---:");
		if (r == 0)
			drill_add(text, "|\n");
	}
}

static void failures_add(const struct drill *drill, bool markdown, struct drill_text *text)
{
	size_t failed = 0;

	for (size_t i = 0; i < drill->plan.run_count; i++) {
		const struct drill_run *run = &drill->plan.runs[i];

		if (run->status != DRILL_FAILED)
			continue;
		if (failed++ == 0)
			drill_add(text, markdown ? "\n## Failed\n\n" : "\nFailed\n");
		drill_add(text, markdown ? "- `%s`: %s\n" : "%s: %s\n", run->name, run->error);
	}
}

static bool summary(const struct drill *drill, bool markdown, struct drill_text *text)
{
	size_t left = 0;

	for (size_t i = 0; i < drill->plan.run_count; i++)
		left += drill->plan.runs[i].status == DRILL_WAITING;
	if (left > 0)
		drill_add(text, "%zu of %zu runs were not made: the drill was ended early.\n\n",
			  left, drill->plan.run_count);
	drill_add(text, "Means over the seeds of what is done, ± the standard deviation.\n");
	for (int which = 0; which < DRILL_TABLES; which++) {
		struct table table;

		if (!table_make(&drill->plan, which, &table))
			return false;
		drill_add(text, markdown ? "\n## %s\n\n" : "\n%s\n", drill_tables[which]);
		if (markdown)
			table_markdown(&table, text);
		else
			table_text(&table, text);
		free(table.cells);
	}
	failures_add(drill, markdown, text);
	return !text->failed;
}

bool drill_summary_text(const struct drill *drill, struct drill_text *text)
{
	return summary(drill, false, text);
}

bool drill_summary_markdown(const struct drill *drill, struct drill_text *text)
{
	drill_add(text, "# Summary\n\n");
	if (!summary(drill, true, text))
		return false;
	drill_add(text, "\n## Strategies\n\n");
	for (size_t i = 0; i < drill_strategy_count; i++)
		drill_add(text, "- **%s**: %s\n", drill_strategies[i].name,
			  drill_strategies[i].what);
	drill_add(text, "\n## Columns\n\n");
	for (int f = 0; f < DRILL_FIGURES; f++)
		drill_add(text, "- **%s**: %s\n", drill_figures[f].head, drill_figures[f].what);
	return !text->failed;
}

static const char *status_str(enum drill_status status)
{
	switch (status) {
	case DRILL_WAITING:
		return "not made";
	case DRILL_DONE:
		return "done";
	case DRILL_FAILED:
		break;
	}
	return "failed";
}

static void csv_word(const char *word, struct drill_text *text)
{
	drill_add(text, "\"");
	for (; *word != '\0'; word++)
		drill_add(text, *word == '"' ? "\"\"" : "%c", *word);
	drill_add(text, "\"");
}

bool drill_summary_csv(const struct drill *drill, struct drill_text *text)
{
	drill_add(text, "run,strategy,consistency,kills,workers,seed,status,error");
	for (int f = 0; f < DRILL_FIGURES; f++)
		drill_add(text, ",%s", drill_figures[f].key);
	drill_add(text, "\n");
	for (size_t i = 0; i < drill->plan.run_count; i++) {
		const struct drill_run *run = &drill->plan.runs[i];

		drill_add(text, "%s,%s,%s,%u,%u,%" PRIu64 ",%s,", run->name,
			  run->of->strategy->name, mode_str(run->of), run->of->kills,
			  run->of->workers, run->seed, status_str(run->status));
		csv_word(run->status == DRILL_FAILED ? run->error : "", text);
		for (int f = 0; f < DRILL_FIGURES; f++) {
			bool known = run->status == DRILL_DONE && isfinite(run->figure[f]);

			drill_add(text, known ? ",%.10g" : ",", known ? run->figure[f] : 0.0);
		}
		drill_add(text, "\n");
	}
	return !text->failed;
}

static bool cost_markdown(const struct drill *drill, struct drill_text *text)
{
	const struct drill_set *set = &drill->set;

	drill_add(
		text,
		"# Costs\n\n"
		"| role | price an hour |\n| --- | ---: |\n| server | %g |\n| worker | %g |\n\n"
		"Assumptions:\n\n"
		"- Prices are settings (`--price-server`, `--price-worker`), in whatever currency "
		"they are given. The default, 0.095, is about the list price in dollars of the "
		"two-processor cloud machine (n1-standard-2) of the published configuration.\n"
		"- Every role has a machine of its own, reserved for the whole run: it costs the "
		"same while it waits, and while it is down.\n"
		"- A strategy with replicas pays for each of them. Storage of checkpoints, traffic "
		"and the launcher cost nothing.\n"
		"- The time is that of training, without starting up.\n\n"
		"| strategy | consistency | kills | workers | cost of a run | cost to accuracy 0.70 "
		"| cost of 1,000 gradients in the final weights |\n"
		"| --- | --- | ---: | ---: | ---: | ---: | ---: |\n",
		set->price_server, set->price_worker);
	for (size_t i = 0; i < drill->plan.case_count; i++) {
		const struct drill_case *one = &drill->plan.cases[i];
		struct drill_moments all = drill_case_figure(&drill->plan, one, DRILL_F_COST);
		struct drill_moments to = drill_case_figure(&drill->plan, one, DRILL_F_COST_70);
		struct drill_moments n = drill_case_figure(&drill->plan, one, DRILL_F_APPLIED);
		struct drill_moments each = { .count = n.mean > 0.0 ? 1 : 0,
					      .mean = 1000.0 * all.mean / n.mean };
		char a[CELL_MAX], b[CELL_MAX], c[CELL_MAX];

		moments_str(&all, 6, a);
		moments_str(&to, 6, b);
		moments_str(&each, 6, c);
		drill_add(text, "| %s | %s | %u | %u | %s | %s | %s |\n", one->strategy->name,
			  mode_str(one), one->kills, one->workers, a, b, c);
	}
	return !text->failed;
}

static bool readme_markdown(const struct drill *drill, struct drill_text *text)
{
	drill_add(
		text,
		"# A drill\n\nMade by\n\n```\n%s\n```\n\n"
		"| file | what |\n| --- | --- |\n"
		"| `summary.txt`, `summary.md` | the comparison: means and spread over the seeds; "
		"the second also says what each column is |\n"
		"| `summary.csv` | one row a run |\n"
		"| `claims.md` | the published claims, judged by fixed criteria |\n"
		"| `cost.md` | prices and assumptions |\n"
		"| `settings` | the settings in force, after preset and scale; `outlast drill "
		"--config settings` reads it |\n"
		"| `runs/NAME.json` | the report of a run, as `outlast train --json` writes it |\n"
		"| `runs/NAME.csv` | its time line |\n"
		"| `runs/NAME.log` | what it said, its summary last |\n"
		"| `plots/outage-kKILLS-wWORKERS.svg`, `.png` | what an outage costs each "
		"asynchronous strategy, in one picture |\n"
		"| `plots/KIND-kKILLS-wWORKERS.svg`, `.png` | accuracy, loss, gradients, utilisation "
		"against time |\n"
		"| `plots/*.gp`, `*.dat` | the script and the data of each plot |\n\n"
		"NAME is strategy, consistency, kills, workers, seed. Every figure is computed from "
		"a run's `.json` and `.csv`.\n\n"
		"Lines in plots are means over the seeds, dashed where training is synchronous. A "
		"dotted vertical line is a kill; a vertical line in the colour of a strategy is its "
		"first gradient applied after the kill.\n",
		drill->command);
	return !text->failed;
}

int drill_file_write(const struct drill *drill, const char *name, const struct drill_text *text)
{
	char path[DRILL_PATH_MAX];
	FILE *out;
	bool good;

	if (text->failed)
		return ol_cmd_error(OL_EXIT_RESOURCES, "drill", "no memory", NULL, NULL);
	snprintf(path, sizeof(path), "%.800s/%.200s", drill->out, name);
	out = fopen(path, "we");
	good = out != NULL && fwrite(text->bytes, 1, text->len, out) == text->len;
	if (out != NULL)
		good = fclose(out) == 0 && good;
	if (good)
		return 0;
	return ol_cmd_error(OL_EXIT_FAILED, "drill", "cannot write", path, strerror(errno));
}

static json_t *number_json(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

static json_t *case_json(const struct drill_plan *plan, const struct drill_case *one)
{
	json_t *figures = json_object();

	for (int f = 0; f < DRILL_FIGURES; f++) {
		struct drill_moments m = drill_case_figure(plan, one, (enum drill_figure)f);

		if (m.count > 0)
			json_object_set_new(figures, drill_figures[f].key,
					    json_pack("{s:o, s:o, s:I}", "mean",
						      number_json(m.mean), "sd", number_json(m.sd),
						      "count", (json_int_t)m.count));
	}
	return json_pack("{s:s, s:s, s:i, s:i, s:I, s:I, s:o}", "strategy", one->strategy->name,
			 "consistency", mode_str(one), "kills", (int)one->kills, "workers",
			 (int)one->workers, "done", (json_int_t)drill_case_done(plan, one),
			 "failed", (json_int_t)failed_count(plan, one), "figures", figures);
}

static json_t *run_json(const struct drill_run *run)
{
	json_t *figures = json_object();

	for (int f = 0; run->status == DRILL_DONE && f < DRILL_FIGURES; f++) {
		if (isfinite(run->figure[f]))
			json_object_set_new(figures, drill_figures[f].key,
					    json_real(run->figure[f]));
	}
	return json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:s, s:o}", "run", run->name,
			 "status", status_str(run->status), "strategy", run->of->strategy->name,
			 "consistency", mode_str(run->of), "kills", (int)run->of->kills, "workers",
			 (int)run->of->workers, "seed", (json_int_t)run->seed, "error",
			 run->status == DRILL_FAILED ? run->error : "", "figures", figures);
}

static json_t *report_json(const struct drill *drill, const struct drill_claim claims[DRILL_CLAIMS])
{
	json_t *cases = json_array(), *runs = json_array(), *list = json_array();

	for (size_t i = 0; i < drill->plan.case_count; i++)
		json_array_append_new(cases, case_json(&drill->plan, &drill->plan.cases[i]));
	for (size_t i = 0; i < drill->plan.run_count; i++)
		json_array_append_new(runs, run_json(&drill->plan.runs[i]));
	for (size_t i = 0; i < DRILL_CLAIMS; i++)
		json_array_append_new(
			list, json_pack("{s:s, s:s, s:s, s:s}", "id", claims[i].id, "verdict",
					drill_verdict_str(claims[i].verdict), "numbers",
					claims[i].numbers, "because", claims[i].because));
	return json_pack("{s:s, s:s, s:o, s:o, s:o}", "command", drill->command, "folder",
			 drill->out, "cases", cases, "runs", runs, "claims", list);
}

static int json_write(const struct drill *drill, const struct drill_claim claims[DRILL_CLAIMS])
{
	json_t *json;
	int rc = 0;

	if (drill->set.json == NULL)
		return 0;
	json = report_json(drill, claims);
	if (json == NULL || json_dump_file(json, drill->set.json, JSON_INDENT(2)) != 0)
		rc = ol_cmd_error(OL_EXIT_FAILED, "drill", "cannot write", drill->set.json,
				  json == NULL ? "no memory" : strerror(errno));
	json_decref(json);
	return rc;
}

int drill_report_write(const struct drill *drill)
{
	static const struct {
		const char *name;
		bool (*make)(const struct drill *drill, struct drill_text *text);
	} files[] = {
		{ "summary.txt", drill_summary_text }, { "summary.md", drill_summary_markdown },
		{ "summary.csv", drill_summary_csv },  { "cost.md", cost_markdown },
		{ "README.md", readme_markdown },
	};
	struct drill_claim claims[DRILL_CLAIMS];
	struct drill_text text = { 0 };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(files) / sizeof(files[0]); i++) {
		text.failed = !files[i].make(drill, &text);
		rc = drill_file_write(drill, files[i].name, &text);
		drill_text_fini(&text);
	}
	if (rc != 0)
		return rc;
	drill_claims_judge(&drill->plan, &drill->set, claims);
	drill_claims_markdown(claims, DRILL_CLAIMS,
			      "\"Training Through Failure\" (arXiv 2406.05546)", drill->command,
			      &text);
	rc = drill_file_write(drill, "claims.md", &text);
	drill_text_fini(&text);
	return rc != 0 ? rc : json_write(drill, claims);
}
