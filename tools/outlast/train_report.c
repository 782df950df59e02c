/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * train_report.c -- what `outlast train` shows: start block, progress, summary, JSON
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "outlast/cmd.h"
#include "outlast/train.h"

enum {
	TTY_MS = 250, /* between two progress lines, in place */
	LINES_MS = 3000 /* when each is a line of its own */
};

/* Counts of the whole job, from those who know them. */
struct figures {
	uint64_t computed;
	uint64_t applied;
	uint64_t dropped;
	uint64_t unresolved; /* computed, and never answered */
	uint64_t version;
	double wall_s; /* first worker's start to last worker's end */
	double rate;
	double staleness;
};

static void line_close(struct train *train)
{
	if (train->line_open)
		fputc('\n', stderr);
	train->line_open = false;
}

void train_say(struct train *train, const char *format, ...)
{
	va_list list;

	line_close(train);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
}

static const char *choice(const struct train *train, const char *name, char *buf, size_t bytes)
{
	for (size_t i = 0; i < train->settings.count; i++) {
		const char *field = train->settings.fields[i].name;

		if (field != NULL && strcmp(field, name) == 0)
			ol_conf_format(train->settings.conf, i, buf, bytes);
	}
	return buf;
}

void train_show_start(const struct train *train)
{
	const struct train_set *set = &train->set;
	const struct learn_data *data = train->job->data;
	char a[32] = "", b[32] = "", c[32] = "";

	fprintf(stderr, "%s, %zu parameters, on %s: %zu training samples, %zu test samples\n",
		set->model.model, train->job->param_count, set->model.dataset, data->train.count,
		data->test.count);
	fprintf(stderr, "%s, %s with lr %s, batch %u, seed %" PRIu64 ", ",
		choice(train, "consistency", a, sizeof(a)),
		choice(train, "optimizer", b, sizeof(b)), choice(train, "lr", c, sizeof(c)),
		set->batch, set->model.seed);
	if (train->steps != 0)
		fprintf(stderr, "%" PRIu64 " steps\n", train->steps);
	else
		fprintf(stderr, "%g s\n", set->seconds);
	fprintf(stderr, "workers %u, servers %u, transport %s\n", set->workers, set->servers,
		ol_transport_name(set->transport));
	for (uint32_t i = 0; i < set->servers; i++)
		fprintf(stderr, "server %u at %s: %s\n", i, train->servers[i].addr,
			train->servers[i].memory);
}

static double staleness(const struct train_stat *stat)
{
	return stat->applied == 0 ? 0.0 : (double)stat->staleness_sum / (double)stat->applied;
}

static int tty_columns(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2)
		return 79;
	return size.ws_col - 1;
}

void train_show_progress(struct train *train, uint64_t now_ns)
{
	uint64_t every_ns = (train->tty ? TTY_MS : LINES_MS) * OL_NS_PER_MS;
	char total[32] = "", accuracy[32] = "-", line[160];

	if (now_ns - (train->shown_ns != 0 ? train->shown_ns : train->go_ns) < every_ns)
		return;
	train->shown_ns = now_ns;
	if (train->steps != 0)
		snprintf(total, sizeof(total), "/%" PRIu64, train->steps);
	if (train->accuracy >= 0.0)
		snprintf(accuracy, sizeof(accuracy), "%.4f", train->accuracy);
	snprintf(line, sizeof(line),
		 "step %" PRIu64 "%s  %.1f gradients/s  loss %.4f  accuracy %s  staleness %.2f  "
		 "%.0f s",
		 train->stat.version, total, train->rate, (double)train->stat.loss, accuracy,
		 staleness(&train->stat), (double)(now_ns - train->go_ns) / 1e9);
	if (train->tty) /* no wider than the window: only one row can be written over */
		fprintf(stderr, "\r\033[K%.*s", tty_columns(), line);
	else
		fprintf(stderr, "%s\n", line);
	train->line_open = train->tty;
}

/* First start and last end, as the workers report them; what the parent saw if none could */
static double wall_s(const struct train *train)
{
	double first = INFINITY, last = 0.0;

	for (uint32_t i = 0; i < train->set.workers; i++) {
		const json_t *done = train->workers[i].done;
		double start = json_number_value(json_object_get(done, "start_s"));
		double end = start + json_number_value(json_object_get(done, "wall_s"));

		if (done == NULL || json_integer_value(json_object_get(done, "computed")) == 0)
			continue;
		first = fmin(first, start);
		last = fmax(last, end);
	}
	if (last > first && train->died == 0)
		return last - first;
	return (double)(train->end_ns - train->go_ns) / 1e9;
}

static struct figures figures(const struct train *train)
{
	const struct train_stat *stat = &train->stat;
	struct figures f = {
		.applied = stat->applied,
		.dropped = stat->dropped_nonfinite + stat->dropped_late,
		.version = train->final ? train->final_version : stat->version,
		.wall_s = wall_s(train),
		.staleness = staleness(stat),
	};

	for (uint32_t i = 0; i < train->set.workers; i++)
		f.computed += train->workers[i].computed;
	/* a worker that died has not said how far it got; the servers know what they had of it */
	if (train->died > 0 && f.computed < f.applied + f.dropped)
		f.computed = f.applied + f.dropped;
	if (f.computed > f.applied + f.dropped)
		f.unresolved = f.computed - f.applied - f.dropped;
	f.rate = f.wall_s > 0.0 ? (double)f.computed / f.wall_s : 0.0;
	return f;
}

static const char *ended_str(const struct train *train)
{
	if (train->signal != 0)
		return "interrupted";
	if (train->exit_code != 0)
		return "failed";
	return train->died > 0 ? "workers died" : "done";
}

static void worker_show(const struct train *train, uint32_t i)
{
	const struct train_worker *worker = &train->workers[i];
	double wall = json_number_value(json_object_get(worker->done, "wall_s"));
	double grad = json_number_value(json_object_get(worker->done, "gradient_s"));

	if (worker->done == NULL)
		printf("worker %-10u died\n", i);
	else
		printf("worker %-10u %.1f gradients/s, %" PRIu64
		       " gradients, %.1f %% of the time computing them%s\n",
		       i, json_number_value(json_object_get(worker->done, "gradients_per_s")),
		       worker->computed, wall > 0.0 ? 100.0 * grad / wall : 0.0,
		       worker->died ? "; died" : "");
}

static void summary_show(const struct train *train, const struct figures *f)
{
	printf("%-17s %s\n", "ended", ended_str(train));
	if (train->final) {
		printf("%-17s %.4f\n", "test accuracy", train->accuracy);
		if (isfinite(train->loss))
			printf("%-17s %.4f\n", "test loss", train->loss);
		else
			printf("%-17s %s\n", "test loss", "not finite: the training diverged");
	}
	printf("%-17s %" PRIu64 "\n", "steps", f->version);
	printf("%-17s %" PRIu64 " computed, %" PRIu64 " applied, %" PRIu64 " dropped (%" PRIu64
	       " not finite, %" PRIu64 " late)",
	       "gradients", f->computed, f->applied, f->dropped, train->stat.dropped_nonfinite,
	       train->stat.dropped_late);
	if (f->unresolved > 0)
		printf(", %" PRIu64 " given up", f->unresolved);
	if (2 * f->dropped > f->computed)
		printf("\n%-17s %s", "warning",
		       "most gradients were dropped: see --lr, --nonfinite");
	printf("\n%-17s %.1f\n", "gradients/s", f->rate);
	printf("%-17s %.2f\n", "staleness, mean", f->staleness);
	printf("%-17s %.3f s training, %.3f s in all\n", "wall", f->wall_s,
	       (double)(ol_clock_ns() - train->begin_ns) / 1e9);
	for (uint32_t i = 0; i < train->set.workers; i++)
		worker_show(train, i);
	if (train->final) {
		printf("%-17s %" PRIu64 "\n", "version", train->final_version);
		printf("%-17s %s\n", "weights sha256", train->sha256);
	}
}

static json_t *workers_json(const struct train *train)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < train->set.workers; i++) {
		const struct train_worker *worker = &train->workers[i];
		json_t *one = worker->done != NULL ? json_deep_copy(worker->done) : json_object();

		json_object_del(one, "event");
		json_object_set_new(one, "id", json_integer(i));
		json_object_set_new(one, "computed", json_integer((json_int_t)worker->computed));
		json_object_set_new(one, "died", json_boolean(worker->died));
		json_array_append_new(list, one);
	}
	return list;
}

/* The settings in force, as text: they have the names that the options have. */
static json_t *settings_json(const struct train *train)
{
	json_t *object = json_object();
	char value[OL_VALUE_MAX];

	for (size_t i = 0; i < train->settings.count; i++) {
		if (train->settings.fields[i].name == NULL)
			continue;
		ol_conf_format(train->settings.conf, i, value, sizeof(value));
		json_object_set_new(object, train->settings.fields[i].name, json_string(value));
	}
	return object;
}

static json_t *number_or_null(bool known, double value)
{
	return known && isfinite(value) ? json_real(value) : json_null();
}

static json_t *report_json(const struct train *train, const struct figures *f)
{
	const struct train_set *set = &train->set;
	char a[32] = "", b[32] = "";
	json_t *json = json_pack(
		"{s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:f, s:I, s:f, s:s, s:s, s:s, s:s, s:I}",
		"ended", ended_str(train), "test_accuracy",
		number_or_null(train->final, train->accuracy), "test_loss",
		number_or_null(train->final, train->loss), "steps", (json_int_t)f->version,
		"gradients_computed", (json_int_t)f->computed, "gradients_applied",
		(json_int_t)f->applied, "gradients_dropped", (json_int_t)f->dropped,
		"gradients_per_s", f->rate, "version", (json_int_t)f->version, "wall_s", f->wall_s,
		"transport", ol_transport_name(set->transport), "consistency",
		choice(train, "consistency", a, sizeof(a)), "durability", "none", "outage", "wait",
		"servers", (json_int_t)set->servers);
	json_t *more =
		json_pack("{s:I, s:o, s:I, s:s, s:s, s:s, s:f, s:I, s:I, s:f, s:f, s:I, s:I, s:I, "
			  "s:O, s:o, s:o}",
			  "workers", (json_int_t)set->workers, "weights_sha256",
			  train->final ? json_string(train->sha256) : json_null(), "seed",
			  (json_int_t)set->model.seed, "model", set->model.model, "dataset",
			  set->model.dataset, "optimizer", choice(train, "optimizer", b, sizeof(b)),
			  "lr", set->rule.lr, "batch", (json_int_t)set->batch, "param_count",
			  (json_int_t)train->job->param_count, "staleness_mean", f->staleness,
			  "total_s", (double)(ol_clock_ns() - train->begin_ns) / 1e9,
			  "gradients_nonfinite", (json_int_t)train->stat.dropped_nonfinite,
			  "gradients_late", (json_int_t)train->stat.dropped_late, "workers_died",
			  (json_int_t)train->died, "evals", train->evals, "per_worker",
			  workers_json(train), "settings", settings_json(train));

	if (json == NULL || more == NULL || json_object_update(json, more) != 0) {
		json_decref(json);
		json = NULL;
	}
	json_decref(more);
	return json;
}

int train_report(struct train *train)
{
	struct figures f = figures(train);
	json_t *json;
	int rc = 0;

	line_close(train);
	summary_show(train, &f);
	if (fflush(stdout) != 0)
		rc = ol_cmd_error(OL_EXIT_FAILED, "train", "cannot write the summary", NULL,
				  strerror(errno));
	if (train->set.json == NULL)
		return rc;
	json = report_json(train, &f);
	if (json == NULL || json_dump_file(json, train->set.json, JSON_INDENT(2)) != 0)
		rc = ol_cmd_error(OL_EXIT_FAILED, "train", "cannot write", train->set.json,
				  json == NULL ? "no memory" : strerror(errno));
	json_decref(json);
	return rc;
}
