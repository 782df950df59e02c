/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * timeline.c -- the course of a training as CSV, a row every --timeline-ms
 *
 * Counts are of all workers since the start, by their last reports (ten a second). Processor time is
 * in cores, averaged since the row before. MB is 2^20 bytes.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "train/parts.h"

enum {
	PROCS_MAX = 2 * TRAIN_HOLDERS_MAX + TRAIN_WORKERS_MAX
};

static const double bytes_a_mb = 1048576.0;

struct train_timeline {
	FILE *out;
	uint64_t next_ns;
	uint64_t last_ns; /* of the row before */
	struct {
		pid_t pid;
		uint64_t cpu_ns;
	} seen[PROCS_MAX]; /* in the row before */
	bool failed;
};

/* Processor time and memory of a role */
struct role {
	double cores;
	double rss_mb;
};

int train_timeline_open(struct train *train)
{
	struct train_timeline *timeline;

	if (train->set.timeline == NULL)
		return 0;
	timeline = calloc(1, sizeof(*timeline));
	if (timeline != NULL)
		timeline->out = fopen(train->set.timeline, "we");
	if (timeline == NULL || timeline->out == NULL) {
		free(timeline);
		return ol_cmd_error(OL_EXIT_FAILED, "train", "cannot write", train->set.timeline,
				    strerror(errno));
	}
	fputs("t_s,version,accuracy,loss,train_loss,computed,queued,applied,dropped,lost,down,"
	      "server_cpu,worker_cpu,server_rss_mb,worker_rss_mb,queue_mb,bytes_in\n",
	      timeline->out);
	train->timeline = timeline;
	return 0;
}

static void usage_add(struct train_timeline *timeline, unsigned at, const struct ol_proc *proc,
		      double past_s, struct role *role)
{
	struct ol_usage usage;

	if (!ol_proc_lives(proc) || ol_usage_read(proc->pid, &usage) != 0)
		return;
	if (timeline->seen[at].pid != proc->pid)
		timeline->seen[at].cpu_ns = 0;
	role->cores += (double)(usage.cpu_ns - timeline->seen[at].cpu_ns) / 1e9 / past_s;
	role->rss_mb += (double)usage.rss_bytes / bytes_a_mb;
	timeline->seen[at].pid = proc->pid;
	timeline->seen[at].cpu_ns = usage.cpu_ns;
}

static void number(FILE *out, bool known, double value)
{
	if (known && isfinite(value))
		fprintf(out, ",%.6g", value);
	else
		fputc(',', out);
}

static void usages_add(const struct train *train, double past_s, struct role *servers,
		       struct role *workers)
{
	struct train_timeline *timeline = train->timeline;
	unsigned at = 0;

	for (uint32_t i = 0; i < train_holders(train); i++) {
		usage_add(timeline, at++, &train->servers[i].proc, past_s, servers);
		usage_add(timeline, at++, &train->servers[i].old, past_s, servers);
	}
	for (uint32_t i = 0; i < train->set.workers; i++)
		usage_add(timeline, at++, &train->workers[i].proc, past_s, workers);
}

static void row(struct train *train, struct train_timeline *timeline, uint64_t now_ns)
{
	double past_s = (double)(now_ns - timeline->last_ns) / 1e9;
	struct train_count count = train_counts(train);
	struct role servers = { 0 }, workers = { 0 };
	FILE *out = timeline->out;

	usages_add(train, past_s, &servers, &workers);
	fprintf(out, "%.3f,%" PRIu64, (double)(now_ns - train->go_ns) / 1e9, train->stat.version);
	number(out, train->evals.accuracy >= 0.0, train->evals.accuracy);
	number(out, train->evals.accuracy >= 0.0, train->evals.loss);
	number(out, train->stat.applied > 0, (double)train->stat.loss);
	fprintf(out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%u",
		count.computed, count.queued_total, count.applied,
		count.dropped_nonfinite + count.dropped_late + count.queue_dropped, count.lost,
		train->observer != NULL ? train_shards_down(train) : 0);
	fprintf(out, ",%.3f,%.3f,%.1f,%.1f,%.3f,%" PRIu64 "\n", servers.cores, workers.cores,
		servers.rss_mb, workers.rss_mb, (double)count.queue_bytes / bytes_a_mb,
		train_totals(train).bytes_in);
	if (fflush(out) != 0)
		timeline->failed = true;
}

void train_timeline_tick(struct train *train, bool end)
{
	struct train_timeline *timeline = train->timeline;
	uint64_t now_ns = ol_clock_ns(), every_ns = train->set.timeline_ms * OL_NS_PER_MS;

	if (timeline == NULL || (!end && now_ns < timeline->next_ns))
		return;
	if (timeline->last_ns == 0) { /* the cost of the start is in no row */
		struct role none = { 0 };

		usages_add(train, 1.0, &none, &none);
		timeline->last_ns = now_ns;
		timeline->next_ns = train->go_ns;
	}
	if (now_ns > timeline->last_ns) {
		train_stat_read(train);
		row(train, timeline, now_ns);
		timeline->last_ns = now_ns;
	}
	while (timeline->next_ns <= now_ns)
		timeline->next_ns += every_ns;
}

int train_timeline_wait_ms(const struct train *train, int limit_ms)
{
	uint64_t now_ns = ol_clock_ns(), left_ms;

	if (train->timeline == NULL)
		return limit_ms;
	if (train->timeline->next_ns <= now_ns)
		return 0;
	left_ms = (train->timeline->next_ns - now_ns) / OL_NS_PER_MS + 1;
	return left_ms < (uint64_t)limit_ms ? (int)left_ms : limit_ms;
}

void train_timeline_close(struct train *train)
{
	struct train_timeline *timeline = train->timeline;

	if (timeline == NULL)
		return;
	if (fclose(timeline->out) != 0 || timeline->failed)
		fprintf(stderr, "outlast train: %s is not whole: it could not be written\n",
			train->set.timeline);
	free(timeline);
	train->timeline = NULL;
}
