/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * train_report.c -- what `outlast train` shows: start block, progress, summary
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

void train_show_start(const struct train *train)
{
	const struct train_set *set = &train->set;
	const struct learn_data *data = train->job->data;
	char a[32] = "", b[32] = "", c[32] = "";

	fprintf(stderr, "%s, %zu parameters, on %s: %zu training samples, %zu test samples\n",
		set->model.model, train->job->param_count, set->model.dataset, data->train.count,
		data->test.count);
	fprintf(stderr, "%s, %s with lr %s, batch %u, seed %" PRIu64 ", ",
		ol_settings_text(&train->settings, "consistency", a, sizeof(a)),
		ol_settings_text(&train->settings, "optimizer", b, sizeof(b)),
		ol_settings_text(&train->settings, "lr", c, sizeof(c)), set->batch,
		set->model.seed);
	if (train->steps != 0)
		fprintf(stderr, "%" PRIu64 " steps\n", train->steps);
	else
		fprintf(stderr, "%g s\n", set->seconds);
	fprintf(stderr, "workers %u, servers %u, transport %s\n", set->workers, set->servers,
		ol_transport_name(set->transport));
	if (set->kill != NULL || set->durable.durability != OL_DURABILITY_NONE)
		fprintf(stderr, "durability %s, outage %s, restore %s%s%s\n",
			ol_settings_text(&train->settings, "durability", a, sizeof(a)),
			ol_settings_text(&train->settings, "outage", b, sizeof(b)),
			ol_settings_text(&train->settings, "restore", c, sizeof(c)),
			set->kill != NULL ? ", kill " : "", set->kill != NULL ? set->kill : "");
	if (set->durable.durability == OL_DURABILITY_CHECKPOINT)
		fprintf(stderr, "checkpoint %s, recovery %s\n",
			set->durable.checkpoint != NULL ? set->durable.checkpoint : "-",
			ol_settings_text(&train->settings, "recovery", a, sizeof(a)));
	if (set->rule.how.wait == OL_WAIT_DBW && ol_consistency_backup(&set->rule.how) &&
	    set->rule.optimizer != OL_OPTIMIZER_SGD)
		fprintf(stderr, "sync:dbw reckons as if the optimizer were sgd\n");
	if (train->chain != NULL)
		fprintf(stderr, "replicas %u, coordinator %s, job %s\n", train_replicas(train),
			train_chain_addr(train), train_chain_job(train));
	for (uint32_t i = 0; i < train_holders(train); i++)
		fprintf(stderr, "%s at %s: %s\n", train->servers[i].proc.name,
			train->servers[i].addr, train->servers[i].memory);
}

static double staleness(const struct train_stat *stat)
{
	return stat->applied == 0 ? 0.0 : (double)stat->staleness_sum / (double)stat->applied;
}

/* Gradients a step, so far: of this run, in the weights of the first shard */
static double k_mean(const struct train *train)
{
	const struct ol_server_stat *stat =
		train->chain != NULL ? &train->tails[0] : &train->servers[0].stat;
	uint64_t before = 0;

	for (uint32_t i = 0; i < train->set.workers; i++)
		before += train->contained_first[i];
	if (stat->version <= train->version_first || stat->applied < before)
		return (double)NAN;
	return (double)(stat->applied - before) / (double)(stat->version - train->version_first);
}

static int tty_columns(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2)
		return 79;
	return size.ws_col - 1;
}

/* While a server is gone no step is made: how long that is, and what becomes of gradients */
static void away_text(const struct train *train, uint64_t now_ns, char *text, size_t bytes)
{
	uint64_t longest_ns = now_ns, queued = 0, since_ns;
	const char *noun = train->chain != NULL ? "chain" : "server";
	bool waits = train->set.outage.outage != OL_OUTAGE_CONTINUE;
	unsigned down = 0;
	uint32_t last = 0;
	char who[32], what[48] = "workers wait";

	for (uint32_t i = 0; i < train->set.servers; i++) {
		if (!train_shard_down(train, i, &since_ns))
			continue;
		down++;
		last = i;
		if (since_ns != 0 && since_ns < longest_ns)
			longest_ns = since_ns;
	}
	if (down == 0)
		return;
	for (uint32_t i = 0; i < train->set.workers; i++)
		queued += train->workers[i].now.queued;
	if (down == 1)
		snprintf(who, sizeof(who), "%s %u", noun, last);
	else
		snprintf(who, sizeof(who), "%u %ss", down, noun);
	if (!waits)
		snprintf(what, sizeof(what), "%" PRIu64 " gradients queued", queued);
	snprintf(text, bytes, "  %s away for %.1f s, %s", who, (double)(now_ns - longest_ns) / 1e9,
		 what);
}

void train_show_progress(struct train *train, uint64_t now_ns)
{
	uint64_t every_ns = (train->tty ? TTY_MS : LINES_MS) * OL_NS_PER_MS;
	char total[32] = "", accuracy[32] = "-", away[96] = "", k[64] = "", line[320];

	if (now_ns - (train->shown_ns != 0 ? train->shown_ns : train->go_ns) < every_ns)
		return;
	train->shown_ns = now_ns;
	if (train->steps != 0)
		snprintf(total, sizeof(total), "/%" PRIu64, train->steps);
	if (train->accuracy >= 0.0)
		snprintf(accuracy, sizeof(accuracy), "%.4f", train->accuracy);
	if (train_k_varies(train))
		snprintf(k, sizeof(k), "  k %u (mean %.1f)  late %" PRIu64, train->stat.wait_for,
			 k_mean(train), train->stat.dropped_late);
	away_text(train, now_ns, away, sizeof(away));
	/* a narrow window cuts the line: what is news in an outage comes first */
	snprintf(line, sizeof(line),
		 "step %" PRIu64 "%s  %.1f gradients/s%s%s  loss %.4f  %s %s  staleness %.2f  "
		 "%.0f s",
		 train->stat.version, total, train->rate, away, k, (double)train->stat.loss,
		 train->job->traits->score_name, accuracy, staleness(&train->stat),
		 (double)(now_ns - train->go_ns) / 1e9);
	if (train->tty) /* no wider than the window: only one row can be written over */
		fprintf(stderr, "\r\033[K%.*s", tty_columns(), line);
	else
		fprintf(stderr, "%s\n", line);
	train->line_open = train->tty;
}

/* First start and last end, as the workers report them; what the parent saw if not all could */
static double wall_s(const struct train *train)
{
	double first = INFINITY, last = 0.0;
	bool whole = train->died == 0;

	for (uint32_t i = 0; i < train->set.workers; i++) {
		const json_t *done = train->workers[i].done;
		double start = json_number_value(json_object_get(done, "start_s"));
		double end = start + json_number_value(json_object_get(done, "wall_s"));

		if (done == NULL || json_integer_value(json_object_get(done, "computed")) == 0)
			continue;
		whole = whole && train->workers[i].past.computed == 0;
		first = fmin(first, start);
		last = fmax(last, end);
	}
	if (last > first && whole)
		return last - first;
	return (double)(train->end_ns - train->go_ns) / 1e9;
}

/* Of all workers: until the first outage, and while a server was missing */
static void rates_take(const struct train *train, struct train_figures *f)
{
	bool known = false;

	for (uint32_t i = 0; i < train->set.workers; i++) {
		const struct train_count *now = &train->workers[i].now;

		if (now->before_s > 0.0) {
			f->rate_before += (double)now->before_computed / now->before_s;
			known = true;
		}
		if (now->outage_s > 0.0)
			f->rate_outage += (double)now->outage_computed / now->outage_s;
	}
	if (!known) {
		f->rate_before = (double)NAN;
		f->rate_outage = (double)NAN;
	}
}

static void outages_take(const struct train *train, struct train_figures *f)
{
	bool state = train->set.rule.optimizer != OL_OPTIMIZER_SGD;

	for (unsigned i = 0; i < train->outage_count; i++) {
		const struct train_outage *outage = &train->outages[i];

		f->kills += outage->kill != NULL;
		f->recoveries += outage->over && !outage->survived;
		if (state && !train->set.outage.mirror_state && strcmp(outage->from, "mirror") == 0)
			f->anew = true;
	}
}

/*
 * What a worker that died without a word had computed is not known, but the weights know what they
 * have of it. As long as all servers live their counters are exact; then the workers' are.
 */
static void counts_take(const struct train *train, struct train_figures *f)
{
	const struct train_stat *stat = &train->stat;
	struct train_count *count = &f->count;
	/* what a chain applied and dropped no single server of it knows */
	bool servers_lost = train->chain != NULL, workers_lost = train->died > 0;

	*count = train_counts(train);
	for (unsigned i = 0; i < train->outage_count; i++) {
		servers_lost = servers_lost || train->outages[i].server;
		workers_lost = workers_lost || !train->outages[i].server;
	}
	f->applied = servers_lost ? count->applied : stat->applied;
	if (train->final)
		f->applied = 0;
	for (uint32_t i = 0; train->final && i < train->set.workers; i++)
		f->applied += train_contained(train, i);
	if (!servers_lost) {
		count->dropped_nonfinite = stat->dropped_nonfinite;
		count->dropped_late = stat->dropped_late;
	}
	f->dropped = count->dropped_nonfinite + count->dropped_late + count->queue_dropped;
	f->computed = count->computed;
	if (f->computed < f->applied + f->dropped)
		f->computed = f->applied + f->dropped;
	if (f->computed > f->applied + f->dropped + count->lost)
		f->unresolved = f->computed - f->applied - f->dropped - count->lost;
	/* a server that came back without them, and nobody left who knew them: they are lost */
	if (servers_lost && workers_lost && train->signal == 0 && train->exit_code == 0) {
		count->lost += f->unresolved;
		f->unresolved = 0;
	}
}

static struct train_figures figures(const struct train *train)
{
	struct train_figures f = {
		.version = train->final ? train->final_version : train->stat.version,
		.wall_s = wall_s(train),
		.staleness = staleness(&train->stat),
		.k_mean = k_mean(train),
	};

	counts_take(train, &f);
	rates_take(train, &f);
	outages_take(train, &f);
	for (uint32_t i = 0; i < train_holders(train); i++) {
		uint64_t replayed = train_total(&train->servers[i]).replayed;

		if (replayed > f.replayed)
			f.replayed = replayed;
	}
	f.rate = f.wall_s > 0.0 ? (double)f.computed / f.wall_s : 0.0;
	f.rate_applied = f.wall_s > 0.0 ? (double)f.applied / f.wall_s : 0.0;
	return f;
}

const char *train_ended_str(const struct train *train)
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
		       worker->past.computed + worker->now.computed,
		       wall > 0.0 ? 100.0 * grad / wall : 0.0, worker->died ? "; died" : "");
}

/* "12.3 ms"; "-" if either is not known */
static const char *span(uint64_t from_ns, uint64_t to_ns, char *buf, size_t buf_bytes)
{
	if (from_ns == 0 || to_ns < from_ns)
		snprintf(buf, buf_bytes, "-");
	else if (to_ns - from_ns < OL_NS_PER_S)
		snprintf(buf, buf_bytes, "%.1f ms", (double)(to_ns - from_ns) / 1e6);
	else
		snprintf(buf, buf_bytes, "%.2f s", (double)(to_ns - from_ns) / 1e9);
	return buf;
}

static void outage_show(const struct train *train, const struct train_outage *outage)
{
	uint64_t back_ns = outage->server ? outage->first_applied_ns : outage->ready_ns;
	char found[32], back[32];

	printf("%-17s at %.2f s, version %" PRIu64 ": %s; noticed after %s, back after %s",
	       outage->target, (double)(outage->killed_ns - train->go_ns) / 1e9, outage->version,
	       outage->kill != NULL ? outage->kill->text : "died unasked",
	       span(outage->killed_ns, outage->detected_ns, found, sizeof(found)),
	       outage->survived ? "-" : span(outage->killed_ns, back_ns, back, sizeof(back)));
	if (outage->from[0] != '\0')
		printf(", version %" PRIu64 " %s", outage->restored_version,
		       train_from_str(outage));
	if (outage->server && !outage->survived)
		printf(", %" PRIu64 " lost", outage->lost);
	if (outage->survived)
		printf("; woken up in time");
	if (outage->whole_ns != 0)
		printf("; the chain whole after %s",
		       span(outage->killed_ns, outage->whole_ns, found, sizeof(found)));
	printf("%s\n", outage->fenced ? "; the old one fenced itself off" : "");
}

static void outages_show(const struct train *train, const struct train_figures *f)
{
	if (train->outage_count == 0)
		return;
	for (unsigned i = 0; i < train->outage_count; i++)
		outage_show(train, &train->outages[i]);
	printf("%-17s %u kills, %u recoveries; %" PRIu64 " lost, %" PRIu64 " queued, %" PRIu64
	       " replayed, %" PRIu64 " pushed again\n",
	       "outages", f->kills, f->recoveries, f->count.lost, f->count.queued_total,
	       f->replayed, f->count.resent);
	if (isfinite(f->rate_outage))
		printf("%-17s %.1f gradients/s while a server was missing, %.1f before\n", "",
		       f->rate_outage, f->rate_before);
	if (f->anew)
		printf("%-17s moments started anew: give --mirror-state to keep them\n",
		       "optimizer");
}

static void gradients_show(const struct train_figures *f)
{
	printf("%-17s %" PRIu64 " computed, %" PRIu64 " applied, %" PRIu64 " dropped (%" PRIu64
	       " not finite, %" PRIu64 " late",
	       "gradients", f->computed, f->applied, f->dropped, f->count.dropped_nonfinite,
	       f->count.dropped_late);
	if (f->count.queue_dropped > 0)
		printf(", %" PRIu64 " out of the queue", f->count.queue_dropped);
	printf(")");
	if (f->count.lost > 0)
		printf(", %" PRIu64 " lost", f->count.lost);
	if (f->unresolved > 0)
		printf(", %" PRIu64 " given up", f->unresolved);
	if (2 * f->count.dropped_nonfinite > f->computed)
		printf("\n%-17s %s", "warning",
		       "most gradients were not finite: see --lr, --nonfinite");
	printf("\n");
}

static void checkpoints_show(const struct train *train)
{
	struct train_past sum = train_checkpoints(train);

	if (train->set.durable.durability != OL_DURABILITY_CHECKPOINT)
		return;
	printf("%-17s %" PRIu64 " written, %.1f MB; %" PRIu64
	       " skipped, as the one before was still "
	       "being written; %" PRIu64 " failed\n",
	       "checkpoints", sum.checkpoints, (double)sum.checkpoint_bytes / 1e6,
	       sum.checkpoints_skipped, sum.checkpoints_failed);
}

static void summary_show(const struct train *train, const struct train_figures *f)
{
	printf("%-17s %s\n", "ended", train_ended_str(train));
	if (train->final) {
		train_model_show(train);
		if (isfinite(train->loss))
			printf("%-17s %.4f\n", "test loss", train->loss);
		else
			printf("%-17s %s\n", "test loss", "not finite: the training diverged");
	}
	printf("%-17s %" PRIu64 "\n", "steps", f->version);
	gradients_show(f);
	printf("%-17s %.1f computed, %.1f applied\n", "gradients/s", f->rate, f->rate_applied);
	if (train_k_varies(train))
		printf("%-17s %.2f gradients a step, %u at the end; %" PRIu64
		       " thrown away before they were pushed\n",
		       "k, mean", f->k_mean, train->stat.wait_for, f->count.interrupted);
	printf("%-17s %.2f\n", "staleness, mean", f->staleness);
	printf("%-17s %.3f s training, %.3f s in all\n", "wall", f->wall_s,
	       (double)(ol_clock_ns() - train->begin_ns) / 1e9);
	for (uint32_t i = 0; i < train->set.workers; i++)
		worker_show(train, i);
	checkpoints_show(train);
	outages_show(train, f);
	if (train->final) {
		printf("%-17s %" PRIu64 "\n", "version", train->final_version);
		printf("%-17s %s\n", "weights sha256", train->sha256);
	}
}

int train_report(struct train *train)
{
	struct train_figures f = figures(train);
	json_t *json;
	int rc = 0;

	line_close(train);
	summary_show(train, &f);
	if (fflush(stdout) != 0)
		rc = ol_cmd_error(OL_EXIT_FAILED, "train", "cannot write the summary", NULL,
				  strerror(errno));
	if (train->set.json == NULL)
		return rc;
	json = train_json(train, &f);
	if (json == NULL || json_dump_file(json, train->set.json, JSON_INDENT(2)) != 0)
		rc = ol_cmd_error(OL_EXIT_FAILED, "train", "cannot write", train->set.json,
				  json == NULL ? "no memory" : strerror(errno));
	json_decref(json);
	return rc;
}
