/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * train_account.c -- every gradient's fate, as the workers and as the weights have it
 */
#include <inttypes.h>
#include <string.h>

#include "outlast/counters.h"
#include "outlast/train.h"

static uint64_t count(const json_t *message, const char *name)
{
	json_int_t value = json_integer_value(json_object_get(message, name));

	return value > 0 ? (uint64_t)value : 0;
}

void train_count_take(struct train_worker *worker, const json_t *message)
{
	const char *waits;

	if (json_object_get(message, "computed") == NULL)
		return;
	worker->barren = count(message, "barren");
	waits = json_string_value(json_object_get(message, "waits"));
	snprintf(worker->waits, sizeof(worker->waits), "%s", waits != NULL ? waits : "");
	worker->now = (struct train_count){
		.computed = count(message, "computed"),
		.pushed = count(message, "pushed"),
		.applied = count(message, "applied"),
		.dropped_nonfinite = count(message, "dropped_nonfinite"),
		.dropped_late = count(message, "dropped_late"),
		.queue_dropped = count(message, "queue_dropped"),
		.lost = count(message, "lost"),
		.pending = count(message, "unresolved"),
		.queued = count(message, "queued"),
		.queued_total = count(message, "queued_total"),
		.resent = count(message, "resent"),
		.queue_bytes = count(message, "queue_bytes"),
		.queue_bytes_max = count(message, "queue_bytes_max"),
		.interrupted = count(message, "interrupted"),
		.before_computed = count(message, "before_computed"),
		.outage_computed = count(message, "outage_computed"),
		.before_s = json_number_value(json_object_get(message, "before_s")),
		.outage_s = json_number_value(json_object_get(message, "outage_s")),
	};
}

/* Memory and what is in flight are of processes that are there. */
static void count_add(struct train_count *sum, const struct train_count *one)
{
	sum->computed += one->computed;
	sum->pushed += one->pushed;
	sum->applied += one->applied;
	sum->dropped_nonfinite += one->dropped_nonfinite;
	sum->dropped_late += one->dropped_late;
	sum->queue_dropped += one->queue_dropped;
	sum->lost += one->lost;
	sum->pending += one->pending;
	sum->queued_total += one->queued_total;
	sum->resent += one->resent;
	sum->queue_bytes += one->queue_bytes;
	sum->queue_bytes_max += one->queue_bytes_max;
	sum->interrupted += one->interrupted;
}

void train_count_close(struct train_worker *worker)
{
	worker->now.pending = 0;
	worker->now.queue_bytes = 0;
	worker->now.queue_bytes_max = 0;
	count_add(&worker->past, &worker->now);
	worker->now = (struct train_count){ 0 };
}

struct train_count train_counts(const struct train *train)
{
	struct train_count sum = { 0 };

	for (uint32_t i = 0; i < train->set.workers; i++) {
		count_add(&sum, &train->workers[i].past);
		count_add(&sum, &train->workers[i].now);
	}
	return sum;
}

void train_contained_take(struct train *train)
{
	for (uint32_t s = 0; s < train->set.servers; s++) {
		for (uint32_t i = 0; i < train->set.workers; i++)
			train->contained[s][i] = ol_applied_grads(train->observer, s, i);
	}
}

uint64_t train_contained(const struct train *train, uint32_t worker)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t s = 0; s < train->set.servers; s++) {
		if (train->contained[s][worker] < least)
			least = train->contained[s][worker];
	}
	return least > train->contained_first[worker] ? least - train->contained_first[worker] : 0;
}

static bool link_agrees(struct train *train, uint32_t i, uint32_t s, const json_t *link)
{
	uint64_t there = count(link, "base") + count(link, "applied");
	uint64_t fates = count(link, "applied") + count(link, "dropped_nonfinite") +
			 count(link, "dropped_late") + count(link, "queue_dropped") +
			 count(link, "lost") + count(link, "pending");

	if (there != train->contained[s][i]) {
		train_say(train,
			  "outlast train: worker %u, shard %u: the worker knows of %" PRIu64
			  " gradients applied, the weights contain %" PRIu64,
			  i, s, there, train->contained[s][i]);
		return false;
	}
	if (fates != count(link, "pushed")) {
		train_say(train,
			  "outlast train: worker %u, shard %u: %" PRIu64
			  " gradients pushed, the fate of %" PRIu64 " is known",
			  i, s, count(link, "pushed"), fates);
		return false;
	}
	return true;
}

bool train_accounts_check(struct train *train)
{
	bool agree = true;

	if (!train->final || train->killed)
		return true;
	for (uint32_t i = 0; i < train->set.workers; i++) {
		const json_t *links = json_object_get(train->workers[i].done, "links");

		if (train->workers[i].died)
			continue;
		for (uint32_t s = 0; s < json_array_size(links); s++)
			agree = link_agrees(train, i, s, json_array_get(links, s)) && agree;
	}
	return agree;
}

void train_past_add(struct train_server *server)
{
	const struct ol_server_stat *stat = &server->stat;
	struct train_past *past = &server->past;

	past->applied += stat->applied;
	past->dropped_nonfinite += stat->dropped_nonfinite;
	past->dropped_late += stat->dropped_late;
	past->staleness_sum += stat->staleness_sum;
	past->bytes_in += stat->bytes_in;
	past->replayed += stat->replayed;
	past->checkpoints += stat->checkpoints;
	past->checkpoints_failed += stat->checkpoints_failed;
	past->checkpoints_skipped += stat->checkpoints_skipped;
	past->checkpoint_bytes += stat->checkpoint_bytes;
	past->forwarded += stat->forwarded;
	past->forwarded_bytes += stat->forwarded_bytes;
	past->resent += stat->resent;
	past->resyncs += stat->resync_ns != 0;
	past->resync_bytes += stat->resync_bytes;
	if (stat->resync_ns > past->resync_ns)
		past->resync_ns = stat->resync_ns;
	past->suspicions += stat->suspicions;
	server->stat = (struct ol_server_stat){ 0 };
}

void train_counters_take(struct train_server *server, const json_t *message)
{
	ol_counters_take(message, &server->stat);
	server->role = server->stat.role;
}

void train_checkpoints_take(struct train_server *server, const json_t *message)
{
	server->stat.checkpoints = count(message, "checkpoints");
	server->stat.checkpoints_failed = count(message, "checkpoints_failed");
	server->stat.checkpoints_skipped = count(message, "checkpoints_skipped");
	server->stat.checkpoint_bytes = count(message, "checkpoint_bytes");
}

struct train_past train_total(const struct train_server *server)
{
	struct train_server sum = *server;

	train_past_add(&sum);
	return sum.past;
}

struct train_past train_checkpoints(const struct train *train)
{
	struct train_past sum = { 0 };

	for (uint32_t i = 0; i < train_holders(train); i++) {
		struct train_past one = train_total(&train->servers[i]);

		sum.checkpoints += one.checkpoints;
		sum.checkpoints_failed += one.checkpoints_failed;
		sum.checkpoints_skipped += one.checkpoints_skipped;
		sum.checkpoint_bytes += one.checkpoint_bytes;
	}
	return sum;
}
