/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_data.c -- what a run's report and time line say, as figures
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outlast/drill.h"

enum {
	ROWS_MAX = 1 << 22,
	AVERAGE_OVER = 5 /* evaluations: as the published times to an accuracy */
};

static const double bytes_a_mb = 1048576.0;
static const double accuracy_wanted = 0.70;

const char *const drill_column_names[DRILL_COLUMNS] = {
	[DRILL_T_S] = "t_s",
	[DRILL_VERSION] = "version",
	[DRILL_ACCURACY] = "accuracy",
	[DRILL_LOSS] = "loss",
	[DRILL_TRAIN_LOSS] = "train_loss",
	[DRILL_COMPUTED] = "computed",
	[DRILL_QUEUED] = "queued",
	[DRILL_APPLIED] = "applied",
	[DRILL_DROPPED] = "dropped",
	[DRILL_LOST] = "lost",
	[DRILL_DOWN] = "down",
	[DRILL_SERVER_CPU] = "server_cpu",
	[DRILL_WORKER_CPU] = "worker_cpu",
	[DRILL_SERVER_RSS_MB] = "server_rss_mb",
	[DRILL_WORKER_RSS_MB] = "worker_rss_mb",
	[DRILL_QUEUE_MB] = "queue_mb",
	[DRILL_BYTES_IN] = "bytes_in",
};

const char *const drill_tables[DRILL_TABLES] = { "Training", "Around a kill", "Gradients",
						 "Resources" };

const struct drill_figure_info drill_figures[DRILL_FIGURES] = {
	[DRILL_F_ACCURACY] = { "test_accuracy", "accuracy", "test accuracy at the end", 4, 0 },
	[DRILL_F_TEST_LOSS] = { "test_loss", "loss", "test loss at the end", 4, 0 },
	[DRILL_F_T70] = { "time_to_070_s", "s to 0.70",
			  "seconds until the mean of five evaluations is at accuracy 0.70", 1, 0 },
	[DRILL_F_RATE] = { "gradients_per_s", "gradients/s",
			   "gradients a second of all workers, over the whole run", 1, 0 },
	[DRILL_F_LOSS_BEFORE] = { "loss_before", "loss before",
				  "test loss of the last weights before the kill", 4, 1 },
	[DRILL_F_LOSS_AFTER] = { "loss_after", "after",
				 "test loss of the first weights after the recovery", 4, 1 },
	[DRILL_F_LOSS_STEP] = { "loss_difference", "difference", "loss after less loss before", 4,
				1 },
	[DRILL_F_ACCURACY_STEP] = { "accuracy_difference", "accuracy diff.",
				    "accuracy after less accuracy before", 4, 1 },
	[DRILL_F_DOWNTIME] = { "downtime_s", "downtime s",
			       "from the kill to the first gradient applied after it", 2, 1 },
	[DRILL_F_DETECT] = { "detect_ms", "detect ms",
			     "from the kill until the first worker noticed", 2, 1 },
	[DRILL_F_RECOVER] = { "recover_ms", "recover ms",
			      "from the server being up again to the first gradient applied", 1,
			      1 },
	[DRILL_F_COMPUTED] = { "gradients_computed", "computed", "gradients computed", 0, 2 },
	[DRILL_F_APPLIED] = { "gradients_applied", "applied", "gradients in the weights at the end",
			      0, 2 },
	[DRILL_F_QUEUED] = { "gradients_queued", "queued", "gradients that waited in a queue", 0,
			     2 },
	[DRILL_F_REPLAYED] = { "gradients_replayed", "replayed",
			       "of those applied: came out of a queue", 0, 2 },
	[DRILL_F_DROPPED] = { "gradients_dropped", "dropped",
			      "dropped by a rule, and counted: late, not finite, queue full", 0,
			      2 },
	[DRILL_F_LOST] = { "gradients_lost", "lost",
			   "were applied or on their way when the server came back without them", 0,
			   2 },
	[DRILL_F_RATE_BEFORE] = { "workers_rate_before", "rate before",
				  "gradients a second of all workers before the kill", 1, 2 },
	[DRILL_F_RATE_OUTAGE] = { "workers_rate_outage", "in outage",
				  "gradients a second of all workers during the outage; not known where "
				  "fewer than 10 were due",
				  1, 2 },
	[DRILL_F_UTILISATION] = { "utilisation", "utilisation", "rate in the outage / rate before",
				  3, 2 },
	[DRILL_F_SERVER_CPU] = { "server_cores", "server cores",
				 "processor cores that the servers use, mean over the run", 3, 3 },
	[DRILL_F_WORKER_CPU] = { "worker_cores", "worker cores",
				 "processor cores that the workers use, mean over the run", 3, 3 },
	[DRILL_F_SERVER_MB] = { "server_peak_mb", "server MB",
				"memory of the servers, at most; MB is 2^20 bytes", 1, 3 },
	[DRILL_F_WORKER_MB] = { "worker_peak_mb", "worker MB", "memory of the workers, at most", 1,
				3 },
	[DRILL_F_QUEUE_MB] = { "queue_peak_mb", "queue MB",
			       "memory of the queues of gradients, at most", 2, 3 },
	[DRILL_F_MOVED_MB] = { "moved_mb", "moved MB", "bytes that the servers took in", 1, 3 },
	[DRILL_F_COST] = { "cost", "cost", "price of all roles for the time of the run", 6, 3 },
	[DRILL_F_COST_70] = { "cost_to_070", "cost to 0.70", "price until accuracy 0.70", 6, 3 },
};

static int read_fail(struct drill_run *run, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int read_fail(struct drill_run *run, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(run->error, sizeof(run->error), format, list);
	va_end(list);
	return -EINVAL;
}

static double number(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return json_is_number(value) ? json_number_value(value) : NAN;
}

static double list_mean(const json_t *list)
{
	double sum = 0.0;
	size_t count = 0, i;
	json_t *value;

	json_array_foreach(list, i, value)
	{
		if (!json_is_number(value))
			continue;
		sum += json_number_value(value);
		count++;
	}
	return count > 0 ? sum / (double)count : NAN;
}

static void outages_read(struct drill_run *run, const json_t *list)
{
	json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		/* workers can be killed too; a drill is about servers */
		const char *target = json_string_value(json_object_get(one, "target"));

		if (run->outage_count == DRILL_OUTAGES_MAX ||
		    (target != NULL && strncmp(target, "worker", 6) == 0))
			continue;
		run->outages[run->outage_count++] = (struct drill_outage){
			.killed_s = number(one, "killed_s"),
			.detected_s = number(one, "detected_s"),
			.ready_s = number(one, "ready_s"),
			.first_applied_s = number(one, "first_applied_s"),
			.loss_before = number(one, "loss_before"),
			.accuracy_before = number(one, "accuracy_before"),
			.loss_after = number(one, "loss_after"),
			.accuracy_after = number(one, "accuracy_after"),
			.lost = number(one, "lost"),
		};
	}
}

static int evals_read(struct drill_run *run, const json_t *list)
{
	json_t *one;
	size_t i;

	if (json_array_size(list) == 0)
		return 0;
	run->evals = calloc(json_array_size(list), sizeof(*run->evals));
	if (run->evals == NULL)
		return -ENOMEM;
	json_array_foreach(list, i, one)
	{
		struct drill_eval eval = { .t_s = number(one, "t_s"),
					   .accuracy = number(one, "accuracy"),
					   .loss = number(one, "loss") };

		if (!isnan(eval.t_s) && !isnan(eval.accuracy))
			run->evals[run->eval_count++] = eval;
	}
	return 0;
}

/* Which of our columns each field of the file is; -1: one that we do not know */
static size_t header_read(char *text, int columns[2 * DRILL_COLUMNS])
{
	size_t count = 0;
	const char *at = text;
	char word[64];

	text[strcspn(text, "\r\n")] = '\0';
	while (count < 2 * DRILL_COLUMNS && drill_item(&at, word, sizeof(word))) {
		columns[count] = -1;
		for (int i = 0; i < DRILL_COLUMNS; i++) {
			if (strcmp(word, drill_column_names[i]) == 0)
				columns[count] = i;
		}
		count++;
	}
	return count;
}

static bool row_read(const char *text, const int *columns, size_t count, struct drill_row *row)
{
	const char *at = text;

	for (size_t i = 0; i < DRILL_COLUMNS; i++)
		row->cell[i] = NAN;
	for (size_t i = 0; i < count; i++) {
		size_t len = strcspn(at, ",\r\n");
		char *end;
		double value = strtod(at, &end);

		if (len > 0 && end != at + len)
			return false;
		if (len > 0 && columns[i] >= 0)
			row->cell[columns[i]] = value;
		at += len;
		if (*at != ',' && i + 1 < count)
			return false;
		at += *at == ',';
	}
	return !isnan(row->cell[DRILL_T_S]);
}

static bool row_add(struct drill_line *line, size_t *room, const struct drill_row *row)
{
	if (line->count == *room) {
		size_t more = *room == 0 ? 256 : 2 * *room;
		struct drill_row *rows = realloc(line->rows, more * sizeof(*rows));

		if (rows == NULL || more > ROWS_MAX) {
			line->rows = rows == NULL ? line->rows : rows;
			return false;
		}
		line->rows = rows;
		*room = more;
	}
	line->rows[line->count++] = *row;
	return true;
}

static int line_read(struct drill_run *run, const char *path)
{
	FILE *in = fopen(path, "re");
	int columns[2 * DRILL_COLUMNS];
	size_t count = 0, room = 0, number_of = 1, bytes = 0;
	char *text = NULL;
	int rc = 0;

	if (in == NULL)
		return read_fail(run, "%s: %s", path, strerror(errno));
	if (getline(&text, &bytes, in) > 0)
		count = header_read(text, columns);
	if (count == 0 || columns[0] != DRILL_T_S)
		rc = read_fail(run, "%s: does not begin with the names of a time line", path);
	while (rc == 0 && getline(&text, &bytes, in) > 0) {
		struct drill_row row;

		number_of++;
		if (!row_read(text, columns, count, &row))
			rc = read_fail(run, "%s: line %zu is not as its first one says", path,
				       number_of);
		else if (run->line.count > 0 &&
			 row.cell[DRILL_T_S] < run->line.rows[run->line.count - 1].cell[DRILL_T_S])
			rc = read_fail(run, "%s: line %zu goes back in time", path, number_of);
		else if (!row_add(&run->line, &room, &row))
			rc = read_fail(run, "%s: too many lines", path);
	}
	free(text);
	fclose(in);
	return rc;
}

double drill_line_at(const struct drill_line *line, enum drill_column column, double t_s)
{
	size_t low = 0, high = line->count;

	while (low < high) { /* rows before `low` are until t_s */
		size_t mid = low + (high - low) / 2;

		if (line->rows[mid].cell[DRILL_T_S] <= t_s)
			low = mid + 1;
		else
			high = mid;
	}
	while (low > 0) {
		double value = line->rows[--low].cell[column];

		if (!isnan(value))
			return value;
	}
	return NAN;
}

static double column_max(const struct drill_line *line, enum drill_column column)
{
	double max = NAN;

	for (size_t i = 0; i < line->count; i++)
		max = fmax(max, line->rows[i].cell[column]);
	return max;
}

/* Weighted by time: a row's value is that of the time since the row before. */
static double column_mean(const struct drill_line *line, enum drill_column column)
{
	double sum = 0.0, time = 0.0;

	for (size_t i = 1; i < line->count; i++) {
		double value = line->rows[i].cell[column];
		double span = line->rows[i].cell[DRILL_T_S] - line->rows[i - 1].cell[DRILL_T_S];

		if (isnan(value))
			continue;
		sum += value * span;
		time += span;
	}
	return time > 0.0 ? sum / time : NAN;
}

/* The time of the first five evaluations whose mean is there; NAN: never */
static double accuracy_time(const struct drill_run *run)
{
	for (size_t i = AVERAGE_OVER - 1; i < run->eval_count; i++) {
		double sum = 0.0;

		for (size_t j = i + 1 - AVERAGE_OVER; j <= i; j++)
			sum += run->evals[j].accuracy;
		if (sum / AVERAGE_OVER >= accuracy_wanted)
			return run->evals[i].t_s;
	}
	return NAN;
}

static void outage_figures(struct drill_run *run)
{
	double before[DRILL_OUTAGES_MAX], after[DRILL_OUTAGES_MAX], loss[DRILL_OUTAGES_MAX];
	double accuracy[DRILL_OUTAGES_MAX], down[DRILL_OUTAGES_MAX];
	size_t count = run->outage_count;

	for (size_t i = 0; i < count; i++) {
		const struct drill_outage *one = &run->outages[i];

		before[i] = one->loss_before;
		after[i] = one->loss_after;
		loss[i] = one->loss_after - one->loss_before;
		accuracy[i] = one->accuracy_after - one->accuracy_before;
		down[i] = one->first_applied_s - one->killed_s;
	}
	run->figure[DRILL_F_LOSS_BEFORE] = drill_moments(before, count).mean;
	run->figure[DRILL_F_LOSS_AFTER] = drill_moments(after, count).mean;
	run->figure[DRILL_F_LOSS_STEP] = drill_moments(loss, count).mean;
	run->figure[DRILL_F_ACCURACY_STEP] = drill_moments(accuracy, count).mean;
	run->figure[DRILL_F_DOWNTIME] = drill_moments(down, count).mean;
}

/* Outages that are over before DRILL_DUE_MIN gradients were due say nothing of a rate in them. */
static void utilisation_figures(struct drill_run *run)
{
	double before = run->figure[DRILL_F_RATE_BEFORE], down_s = 0.0;

	for (size_t i = 0; i < run->outage_count; i++) {
		double one_s = run->outages[i].first_applied_s - run->outages[i].killed_s;

		down_s += isnan(one_s) ? 0.0 : one_s;
	}
	if (!(down_s * before >= DRILL_DUE_MIN))
		run->figure[DRILL_F_RATE_OUTAGE] = NAN;
	run->figure[DRILL_F_UTILISATION] = run->figure[DRILL_F_RATE_OUTAGE] / before;
}

static void line_figures(struct drill_run *run)
{
	const struct drill_line *line = &run->line;
	double queue = column_max(line, DRILL_QUEUE_MB);

	run->figure[DRILL_F_SERVER_CPU] = column_mean(line, DRILL_SERVER_CPU);
	run->figure[DRILL_F_WORKER_CPU] = column_mean(line, DRILL_WORKER_CPU);
	run->figure[DRILL_F_SERVER_MB] = column_max(line, DRILL_SERVER_RSS_MB);
	run->figure[DRILL_F_WORKER_MB] = column_max(line, DRILL_WORKER_RSS_MB);
	run->figure[DRILL_F_QUEUE_MB] = fmax(run->figure[DRILL_F_QUEUE_MB], queue);
	run->figure[DRILL_F_MOVED_MB] = drill_line_at(line, DRILL_BYTES_IN, INFINITY) / bytes_a_mb;
}

static void report_figures(struct drill_run *run, const json_t *json)
{
	static const enum drill_figure same[] = {
		DRILL_F_ACCURACY, DRILL_F_TEST_LOSS,   DRILL_F_RATE,       DRILL_F_COMPUTED,
		DRILL_F_APPLIED,  DRILL_F_QUEUED,      DRILL_F_DROPPED,    DRILL_F_REPLAYED,
		DRILL_F_LOST,     DRILL_F_RATE_BEFORE, DRILL_F_RATE_OUTAGE
	};
	double replicas;

	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
		run->figure[same[i]] = number(json, drill_figures[same[i]].key);
	run->figure[DRILL_F_DETECT] = list_mean(json_object_get(json, "detect_ms"));
	run->figure[DRILL_F_RECOVER] = list_mean(json_object_get(json, "recover_ms"));
	run->figure[DRILL_F_QUEUE_MB] = number(json, "queue_bytes_max") / bytes_a_mb;
	run->wall_s = number(json, "wall_s");
	run->param_count = number(json, "param_count");
	replicas = number(json, "replicas");
	run->server_count = number(json, "servers") * (isnan(replicas) ? 1.0 : replicas);
}

static void cost_figures(struct drill_run *run, const struct drill_set *set)
{
	double a_second = (run->server_count * set->price_server +
			   (double)run->of->workers * set->price_worker) /
			  3600.0;

	run->figure[DRILL_F_T70] = accuracy_time(run);
	run->figure[DRILL_F_COST] = a_second * run->wall_s;
	run->figure[DRILL_F_COST_70] = a_second * run->figure[DRILL_F_T70];
}

/* What a table without would be a lie. */
static int report_check(struct drill_run *run, const char *path, const json_t *json)
{
	const char *ended = json_string_value(json_object_get(json, "ended"));
	static const enum drill_figure needed[] = { DRILL_F_COMPUTED, DRILL_F_APPLIED,
						    DRILL_F_DROPPED, DRILL_F_LOST };

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (isnan(run->figure[needed[i]]))
			return read_fail(run, "%s: has no %s", path, drill_figures[needed[i]].key);
	}
	if (isnan(run->wall_s))
		return read_fail(run, "%s: has no wall_s", path);
	if (ended == NULL || strcmp(ended, "done") != 0)
		return read_fail(run, "%s: the run ended: %s", path,
				 ended != NULL ? ended : "unknown");
	if (run->outage_count < run->of->kills)
		return read_fail(run, "%s: %zu outages of a server, not %u: was it over too soon?",
				 path, run->outage_count, run->of->kills);
	return 0;
}

int drill_run_read(struct drill_run *run, const struct drill_set *set, const char *json_path,
		   const char *csv_path)
{
	json_error_t error;
	json_t *json = json_load_file(json_path, 0, &error);
	int rc;

	if (json == NULL)
		return read_fail(run, "%.150s: %.90s", json_path, error.text);
	report_figures(run, json);
	outages_read(run, json_object_get(json, "outages"));
	rc = evals_read(run, json_object_get(json, "evals"));
	if (rc != 0)
		rc = read_fail(run, "no memory");
	else
		rc = report_check(run, json_path, json);
	json_decref(json);
	if (rc == 0)
		rc = line_read(run, csv_path);
	if (rc != 0)
		return rc;
	outage_figures(run);
	utilisation_figures(run);
	line_figures(run);
	cost_figures(run, set);
	return 0;
}

void drill_run_fini(struct drill_run *run)
{
	for (size_t i = 0; i < DRILL_FIGURES; i++)
		run->figure[i] = NAN;
	run->error[0] = '\0';
	run->outage_count = 0;
	free(run->evals);
	free(run->line.rows);
	run->evals = NULL;
	run->eval_count = 0;
	run->line = (struct drill_line){ 0 };
}

static bool is_done(const struct drill_run *run, const struct drill_case *of)
{
	return run->of == of && run->status == DRILL_DONE;
}

size_t drill_case_done(const struct drill_plan *plan, const struct drill_case *of)
{
	size_t count = 0;

	for (size_t i = 0; i < plan->run_count; i++)
		count += is_done(&plan->runs[i], of);
	return count;
}

struct drill_moments drill_case_figure(const struct drill_plan *plan, const struct drill_case *of,
				       enum drill_figure figure)
{
	double values[DRILL_LIST_MAX];
	size_t count = 0;

	for (size_t i = 0; i < plan->run_count && count < DRILL_LIST_MAX; i++) {
		if (is_done(&plan->runs[i], of))
			values[count++] = plan->runs[i].figure[figure];
	}
	return drill_moments(values, count);
}
