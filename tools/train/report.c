/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * report.c -- the output of `outlast train`: start block, progress, summary
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "train/parts.h"

enum {
	TTY_MS = 250, /* between two progress lines, in place */
	LINES_MS = 3000 /* the same, each on a line of its own */
};

void train_show_start(const struct train *train)
{
	const struct train_set *set = &train->set;
	const struct learn_data *data = train->job->data;
	char a[64] = "", b[32] = "", c[32] = "";

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
	if (train_saves(train))
		fprintf(stderr, "checkpoint %s, recovery %s\n",
			set->durable.checkpoint != NULL ? set->durable.checkpoint : "-",
			ol_settings_text(&train->settings, "recovery", a, sizeof(a)));
	if (set->rule.how.wait == OL_WAIT_DBW && ol_consistency_backup(&set->rule.how) &&
	    set->rule.optimizer != OL_OPTIMIZER_SGD)
		fprintf(stderr, "sync:dbw reckons as if the optimizer were sgd\n");
	if (train->chain != NULL)
		fprintf(stderr, "replicas %u, coordinator %s, job %s\n", train_replicas(train),
			train->chain->addr, train->chain->job);
	for (uint32_t i = 0; i < train_holders(train); i++)
		fprintf(stderr, "%s at %s: %s\n", train->servers[i].proc.name,
			train->servers[i].addr, train->servers[i].memory);
}

static int tty_columns(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2)
		return 79;
	return size.ws_col - 1;
}

/* For the time without a server, and so without steps: its length, and the gradients' state */
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

/* What steps wait for, as far as it is known: not while no server tells */
static void k_text(const struct train *train, char *text, size_t bytes)
{
	const double mean = train_k_mean(train);
	char now[16] = "-", means[16] = "-";

	if (train->stat.wait_for != 0)
		snprintf(now, sizeof(now), "%u", train->stat.wait_for);
	if (isfinite(mean))
		snprintf(means, sizeof(means), "%.1f", mean);
	snprintf(text, bytes, "  k %s (mean %s)  late %" PRIu64, now, means,
		 train->stat.dropped_late);
}

void train_show_progress(struct train *train, uint64_t now_ns)
{
	uint64_t every_ns = (train->screen.tty ? TTY_MS : LINES_MS) * OL_NS_PER_MS;
	char total[32] = "", accuracy[32] = "-", away[96] = "", k[64] = "", line[320];

	if (now_ns - (train->screen.shown_ns != 0 ? train->screen.shown_ns : train->go_ns) <
	    every_ns)
		return;
	train->screen.shown_ns = now_ns;
	if (train->steps != 0)
		snprintf(total, sizeof(total), "/%" PRIu64, train->steps);
	if (train->evals.accuracy >= 0.0)
		snprintf(accuracy, sizeof(accuracy), "%.4f", train->evals.accuracy);
	if (ol_consistency_backup(&train->set.rule.how))
		k_text(train, k, sizeof(k));
	away_text(train, now_ns, away, sizeof(away));
	/* a narrow window cuts the line, so an outage's text comes first */
	snprintf(line, sizeof(line),
		 "step %" PRIu64 "%s  %.1f gradients/s%s%s  loss %.4f  %s %s  staleness %.2f  "
		 "%.0f s",
		 train->stat.version, total, train->rate.per_s, away, k, (double)train->stat.loss,
		 train->job->traits->score_name, accuracy, train_staleness(&train->stat),
		 (double)(now_ns - train->go_ns) / 1e9);
	if (train->screen.tty) /* cut to the window's width, as only one row can be overwritten */
		fprintf(stderr, "\r\033[K%.*s", tty_columns(), line);
	else
		fprintf(stderr, "%s\n", line);
	train->screen.line_open = train->screen.tty;
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
		       train_computed(train, i), wall > 0.0 ? 100.0 * grad / wall : 0.0,
		       worker->state == TRAIN_WORKER_DIED ? "; died" : "");
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

static void outage_show(const struct train *train, const struct train_outage *outage,
			const struct train_figures *f)
{
	uint64_t back_ns = outage->server ? outage->first_applied_ns : outage->ready_ns;
	const double expected_s = train_expected_s(train, outage);
	char found[32], back[32];

	printf("%-17s at %.2f s, version %" PRIu64 ": %s; noticed after %s, back after %s",
	       outage->target, (double)(outage->killed_ns - train->go_ns) / 1e9, outage->version,
	       outage->kill != NULL ? outage->kill->text : "died unasked",
	       span(outage->killed_ns, outage->detected_ns, found, sizeof(found)),
	       outage->state == TRAIN_OUTAGE_SURVIVED
		       ? "-"
		       : span(outage->killed_ns, back_ns, back, sizeof(back)));
	if (outage->anew)
		printf(", all replicas lost");
	if (outage->from[0] != '\0')
		printf(", version %" PRIu64 " %s", outage->restored_version,
		       train_from_str(outage));
	if (outage->server && outage->state != TRAIN_OUTAGE_SURVIVED)
		printf(", %" PRIu64 " lost%s", outage->lost,
		       f->more_lost && outage->expected > outage->lost ? " or more" : "");
	if (expected_s > 0.0)
		printf(" (expected %" PRIu64 ", %.1f s of work)", outage->expected, expected_s);
	else if (outage->expects)
		printf(" (expected %" PRIu64 ")", outage->expected);
	if (outage->state == TRAIN_OUTAGE_SURVIVED)
		printf("; woken up in time");
	if (outage->whole_ns != 0)
		printf("; the chain whole after %s",
		       span(outage->killed_ns, outage->whole_ns, found, sizeof(found)));
	printf("%s\n", outage->fenced ? "; the old one fenced itself off" : "");
}

/* A rate, or "-" */
static const char *rate_text(double rate, char *buf, size_t buf_bytes)
{
	if (!isfinite(rate))
		return "-";
	snprintf(buf, buf_bytes, "%.1f", rate);
	return buf;
}

static void outages_show(const struct train *train, const struct train_figures *f)
{
	char rate[32];

	if (train->outage_count == 0)
		return;
	for (unsigned i = 0; i < train->outage_count; i++)
		outage_show(train, &train->outages[i], f);
	printf("%-17s %u kills, %u recoveries; %" PRIu64 " lost, %" PRIu64 " queued, %" PRIu64
	       " replayed, %" PRIu64 " pushed again\n",
	       "outages", f->kills, f->recoveries, f->count.lost, f->count.queued_total,
	       f->replayed, f->count.resent);
	if (isfinite(f->rate_before))
		printf("%-17s %s gradients/s while a server was missing, %.1f before\n", "",
		       rate_text(f->rate_outage, rate, sizeof(rate)), f->rate_before);
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
	if (f->count.lost > 0 || f->more_lost)
		printf(", %" PRIu64 " lost%s", f->count.lost, f->more_lost ? " or more" : "");
	if (f->given_up > 0)
		printf(", %" PRIu64 " given up", f->given_up);
	if (2 * f->count.dropped_nonfinite > f->computed)
		printf("\n%-17s %s", "warning",
		       "most gradients were not finite: see --lr, --nonfinite");
	printf("\n");
}

static void checkpoints_show(const struct train *train)
{
	struct ol_server_stat sum = train_totals(train);

	if (!train_saves(train))
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
	if (train->last.known) {
		train_model_show(train);
		if (isfinite(train->evals.loss))
			printf("%-17s %.4f\n", "test loss", train->evals.loss);
		else
			printf("%-17s %s\n", "test loss", "not finite: the training diverged");
	}
	printf("%-17s %" PRIu64 "\n", "steps", f->version);
	gradients_show(f);
	if (train->stat.carried > 0)
		printf("%-17s %" PRIu64 " of those applied came too late for their step\n",
		       "carried", train->stat.carried);
	printf("%-17s %.1f computed, %.1f applied\n", "gradients/s", f->rate, f->rate_applied);
	if (ol_consistency_backup(&train->set.rule.how))
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
	if (train->last.known) {
		printf("%-17s %" PRIu64 "\n", "version", train->last.version);
		printf("%-17s %s\n", "weights sha256", train->last.sha256);
	}
}

int train_report(struct train *train)
{
	struct train_figures f = train_figures(train);
	json_t *json;
	int rc = 0;

	train_line_close(&train->screen);
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
