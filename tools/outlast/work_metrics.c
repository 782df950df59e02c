/* SPDX-License-Identifier: BSD-3-Clause */

/* work_metrics.c -- what a worker counts and times, as a file of metrics for a collector on its host */

#include "outlast/work_metrics.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/logs.h"
#include "cmd/port.h"
#include "cmd/series.h"

enum {
	EACH_S = 10
};

struct labels {
	char worker[12], shard[12];
	struct ol_series_label all[4];
};

static void labels_make(const struct work_metrics *metrics, uint32_t shard,
			struct labels *ret_labels)
{
	snprintf(ret_labels->worker, sizeof(ret_labels->worker), "%u", metrics->worker);
	snprintf(ret_labels->shard, sizeof(ret_labels->shard), "%u", shard);
	ret_labels->all[0] = (struct ol_series_label){ "job", metrics->job };
	ret_labels->all[1] = (struct ol_series_label){ "worker", ret_labels->worker };
	ret_labels->all[2] = (struct ol_series_label){ "shard", ret_labels->shard };
	ret_labels->all[3] = (struct ol_series_label){ NULL, NULL };
}

static const struct count {
	const char *name, *help;
	size_t offset;
	enum ol_series_type type;
	bool wide; /* 64 bits */
} counts[] = {
	{ "outlast_worker_gradients_pushed_total", "Gradients pushed.",
	  offsetof(struct ol_link_stat, pushed), OL_SERIES_COUNTER, true },
	{ "outlast_worker_gradients_pending",
	  "Gradients pushed of which no server has said what became of them.",
	  offsetof(struct ol_link_stat, pending), OL_SERIES_GAUGE, true },
	{ "outlast_worker_outages_total", "Times the shard's server was lost.",
	  offsetof(struct ol_link_stat, outages), OL_SERIES_COUNTER, false },
	{ "outlast_worker_link_down", "1: the shard has no server now.",
	  offsetof(struct ol_link_stat, down), OL_SERIES_GAUGE, false },
};

static const struct histogram {
	const char *name, *help;
	size_t offset;
} histograms[] = {
	{ "outlast_worker_push_seconds",
	  "From a push to the worker's knowledge that it is applied; fast ones are timed in part.",
	  offsetof(struct ol_link_times, push) },
	{ "outlast_worker_pull_seconds",
	  "From the beginning of a pull to the shard's weights; fast ones are timed in part.",
	  offsetof(struct ol_link_times, pull) },
};

static void count_write(const struct work_metrics *metrics, const struct count *count,
			const struct ol_series *to)
{
	ol_series_head(to, count->name, count->type, count->help);
	for (uint32_t shard = 0; shard < metrics->shards; shard++) {
		struct ol_link_stat stat;
		struct labels labels;
		uint64_t wide;
		uint32_t small;

		if (ol_link_get_stat(metrics->handle, shard, &stat) != 0)
			continue;
		memcpy(&small, (const char *)&stat + count->offset, sizeof(small));
		wide = small;
		if (count->wide)
			memcpy(&wide, (const char *)&stat + count->offset, sizeof(wide));
		labels_make(metrics, shard, &labels);
		ol_series_begin(to, count->name, labels.all);
		ol_series_uint(to, wide);
	}
}

static void histogram_write(const struct work_metrics *metrics, const struct histogram *histogram,
			    const struct ol_series *to)
{
	ol_series_head(to, histogram->name, OL_SERIES_HISTOGRAM, histogram->help);
	for (uint32_t shard = 0; shard < metrics->shards; shard++) {
		struct ol_link_times times;
		struct ol_latency one;
		struct labels labels;

		if (ol_link_get_times(metrics->handle, shard, &times) != 0)
			continue;
		memcpy(&one, (const char *)&times + histogram->offset, sizeof(one));
		labels_make(metrics, shard, &labels);
		ol_series_histogram(to, histogram->name, labels.all, &one, NULL);
	}
}

static void all_write(void *arg, const struct ol_series *to)
{
	const struct work_metrics *metrics = arg;
	struct labels labels;

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		count_write(metrics, &counts[i], to);
	for (size_t i = 0; i < sizeof(histograms) / sizeof(histograms[0]); i++)
		histogram_write(metrics, &histograms[i], to);
	labels_make(metrics, 0, &labels);
	labels.all[2] = (struct ol_series_label){ NULL, NULL };
	ol_ports_series(OL_PORT_ROOT, labels.all, to);
}

void work_metrics_write(struct work_metrics *metrics)
{
	int rc;

	if (metrics->path == NULL)
		return;
	rc = ol_series_save(metrics->path, all_write, metrics);
	if (rc != 0 && !metrics->failed)
		ol_logs_say(OL_LOG_WARN,
			    "outlast work: metrics cannot be written to %s: %s; training goes on",
			    metrics->path, ol_strerror(rc));
	metrics->failed = rc != 0;
	metrics->due_ns = ol_clock_ns() + EACH_S * OL_NS_PER_S;
}

void work_metrics_look(struct work_metrics *metrics)
{
	if (metrics->path != NULL && ol_clock_ns() >= metrics->due_ns)
		work_metrics_write(metrics);
}
