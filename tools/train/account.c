/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * account.c -- accounts every gradient, by the workers' reports and by the weights; servers' counters,
 * and which shards have no server
 */
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/counters.h"
#include "train/parts.h"

static uint64_t count(const json_t *message, const char *name)
{
	json_int_t value = json_integer_value(json_object_get(message, name));

	return value > 0 ? (uint64_t)value : 0;
}

/* A worker's counts of its gradients, one row each */
static const struct {
	const char *name;
	size_t offset;
} counts[] = {
	{ "computed", offsetof(struct train_count, computed) },
	{ "pushed", offsetof(struct train_count, pushed) },
	{ "applied", offsetof(struct train_count, applied) },
	{ "dropped_nonfinite", offsetof(struct train_count, dropped_nonfinite) },
	{ "dropped_late", offsetof(struct train_count, dropped_late) },
	{ "queue_dropped", offsetof(struct train_count, queue_dropped) },
	{ "lost", offsetof(struct train_count, lost) },
	{ "unresolved", offsetof(struct train_count, pending) },
	{ "queued", offsetof(struct train_count, queued) },
	{ "queued_total", offsetof(struct train_count, queued_total) },
	{ "resent", offsetof(struct train_count, resent) },
	{ "queue_bytes", offsetof(struct train_count, queue_bytes) },
	{ "queue_bytes_max", offsetof(struct train_count, queue_bytes_max) },
	{ "interrupted", offsetof(struct train_count, interrupted) },
	{ "before_computed", offsetof(struct train_count, before_computed) },
	{ "outage_computed", offsetof(struct train_count, outage_computed) },
};

static uint64_t *count_at(struct train_count *count, size_t i)
{
	return (uint64_t *)(void *)((char *)count + counts[i].offset);
}

void train_count_take(struct train_worker *worker, const json_t *message)
{
	const json_t *lost = json_object_get(message, "lost_by_shard");
	const char *waits;

	if (json_object_get(message, "computed") == NULL)
		return;
	worker->barren = count(message, "barren");
	waits = json_string_value(json_object_get(message, "waits"));
	snprintf(worker->waits, sizeof(worker->waits), "%s", waits != NULL ? waits : "");
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		*count_at(&worker->now, i) = count(message, counts[i].name);
	worker->now.before_s = json_number_value(json_object_get(message, "before_s"));
	worker->now.outage_s = json_number_value(json_object_get(message, "outage_s"));
	for (uint32_t i = 0; i < TRAIN_SERVERS_MAX; i++)
		worker->now.shard_lost[i] = (uint64_t)json_integer_value(json_array_get(lost, i));
}

static void count_add(struct train_count *sum, struct train_count one)
{
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		*count_at(sum, i) += *count_at(&one, i);
	for (uint32_t i = 0; i < TRAIN_SERVERS_MAX; i++)
		sum->shard_lost[i] += one.shard_lost[i];
}

void train_count_close(struct train_worker *worker)
{
	/* only a live process has memory, and gradients in flight */
	worker->now.pending = 0;
	worker->now.queued = 0;
	worker->now.queue_bytes = 0;
	worker->now.queue_bytes_max = 0;
	count_add(&worker->past, worker->now);
	worker->now = (struct train_count){ 0 };
}

struct train_count train_counts(const struct train *train)
{
	struct train_count sum = { 0 };

	for (uint32_t i = 0; i < train->set.workers; i++) {
		count_add(&sum, train->workers[i].past);
		count_add(&sum, train->workers[i].now);
	}
	return sum;
}

void train_contained_take(struct train *train)
{
	for (uint32_t s = 0; s < train->set.servers; s++) {
		for (uint32_t i = 0; i < train->set.workers; i++)
			train->last.contained[s][i] = ol_applied_grads(train->observer, s, i);
	}
}

uint64_t train_contained(const struct train *train, uint32_t worker)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t s = 0; s < train->set.servers; s++) {
		if (train->last.contained[s][worker] < least)
			least = train->last.contained[s][worker];
	}
	return least > train->contained_first[worker] ? least - train->contained_first[worker] : 0;
}

uint64_t train_computed(const struct train *train, uint32_t worker)
{
	struct train_count count = train->workers[worker].past;
	uint64_t known;

	count_add(&count, train->workers[worker].now);
	known = (train->last.known ? train_contained(train, worker) : count.applied) +
		count.dropped_nonfinite + count.dropped_late + count.queue_dropped + count.lost;
	return count.computed > known ? count.computed : known;
}

static bool link_agrees(struct train *train, uint32_t i, uint32_t s, const json_t *link)
{
	uint64_t there = count(link, "base") + count(link, "applied");
	uint64_t fates = count(link, "applied") + count(link, "dropped_nonfinite") +
			 count(link, "dropped_late") + count(link, "queue_dropped") +
			 count(link, "lost") + count(link, "pending");

	if (there != train->last.contained[s][i]) {
		train_say(&train->screen,
			  "outlast train: worker %u, shard %u: the worker knows of %" PRIu64
			  " gradients applied, the weights contain %" PRIu64,
			  i, s, there, train->last.contained[s][i]);
		return false;
	}
	if (fates != count(link, "pushed")) {
		train_say(&train->screen,
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

	if (!train->last.known || train->quit_ns != 0)
		return true;
	for (uint32_t i = 0; i < train->set.workers; i++) {
		const json_t *links = json_object_get(train->workers[i].done, "links");

		if (train->workers[i].state == TRAIN_WORKER_DIED)
			continue;
		for (uint32_t s = 0; s < json_array_size(links); s++)
			agree = link_agrees(train, i, s, json_array_get(links, s)) && agree;
	}
	return agree;
}

/* Of the gradients in train_total(): not applied by these processes. What the present one began with counts once its
 * counters were read */
static uint64_t began(const struct train_server *server)
{
	const bool read = server->stat.applied >= server->began;

	return server->past_began + (read ? server->began : 0);
}

void train_began_take(struct train_server *server, const json_t *message)
{
	server->began = count(message, "applied");
}

void train_past_add(struct train_server *server)
{
	server->past_began = began(server);
	server->began = 0;
	ol_counters_add(&server->past, &server->stat);
	server->resyncs += server->stat.resync_ns != 0;
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

struct ol_server_stat train_total(const struct train_server *server)
{
	struct ol_server_stat sum = server->past;

	ol_counters_add(&sum, &server->stat);
	return sum;
}

struct ol_server_stat train_totals(const struct train *train)
{
	struct ol_server_stat sum = { 0 };

	for (uint32_t i = 0; i < train_holders(train); i++) {
		struct ol_server_stat one = train_total(&train->servers[i]);

		ol_counters_add(&sum, &one);
	}
	return sum;
}

/* The counts of shard 0: of all its servers so far, and of the present one */
static void stat_take(struct train_stat *stat, struct ol_server_stat total,
		      const struct ol_server_stat *now, uint64_t began_with)
{
	stat->applied = total.applied;
	stat->counted = total.applied > began_with ? total.applied - began_with : 0;
	stat->dropped_nonfinite = total.dropped_nonfinite;
	stat->dropped_late = total.dropped_late;
	stat->carried = total.carried;
	stat->staleness_sum = total.staleness_sum;
	stat->wait_for = now->wait_for;
	if (now->applied > 0)
		stat->loss = now->loss;
}

/* Read the tails of chains */
static void tails_read(struct train *train)
{
	struct train_stat *stat = &train->stat;
	uint64_t version = UINT64_MAX, began_with = 0;

	for (uint32_t i = 0; i < train->set.servers; i++) {
		struct ol_server_stat *tail = &train->tails[i], one;

		/* a new tail may still be behind the last one's counters */
		if (ol_stat(train->observer, i, &one) == 0 && one.version >= tail->version)
			*tail = one;
		if (tail->version < version)
			version = tail->version;
	}
	for (uint32_t i = 0; i < train_holders(train); i++) {
		if (train->servers[i].replica == train->tails[0].replica)
			began_with = train->servers[i].began;
	}
	stat_take(stat, train->tails[0], &train->tails[0], began_with);
	stat->version = version;
}

void train_stat_read(struct train *train)
{
	uint64_t version = UINT64_MAX;

	train->stat.read_ns = ol_clock_ns();
	if (train->chain != NULL) {
		tails_read(train);
		return;
	}
	for (uint32_t i = 0; i < train->set.servers; i++) {
		struct train_server *server = &train->servers[i];
		struct ol_server_stat one;

		/* the board of a former server, or of one without weights, does not count */
		if (server->state == TRAIN_SERVER_WHOLE && ol_stat(train->observer, i, &one) == 0 &&
		    one.epoch == server->epoch)
			server->stat = one;
		if (server->stat.epoch != 0 && server->stat.version < version)
			version = server->stat.version;
	}
	stat_take(&train->stat, train_total(&train->servers[0]), &train->servers[0].stat,
		  began(&train->servers[0]));
	if (version != UINT64_MAX)
		train->stat.version = version;
}

bool train_shard_down(const struct train *train, uint32_t shard, uint64_t *ret_since_ns)
{
	struct ol_link_stat link = { 0 };
	bool known =
		train->observer != NULL && ol_link_get_stat(train->observer, shard, &link) == 0;
	bool empty = train->chain == NULL && train->servers[shard].state != TRAIN_SERVER_WHOLE;

	if (!empty && !(known && link.down))
		return false;
	*ret_since_ns = link.down_ns; /* also if it is up again, but without weights yet */
	return true;
}

unsigned train_shards_down(const struct train *train)
{
	unsigned down = 0;
	uint64_t since_ns;

	for (uint32_t i = 0; i < train->set.servers; i++)
		down += train_shard_down(train, i, &since_ns);
	return down;
}

void train_source_take(struct train_outage *outage, const json_t *message)
{
	const char *from = json_string_value(json_object_get(message, "from"));

	snprintf(outage->from, sizeof(outage->from), "%s", from != NULL ? from : "");
	outage->restored_version = count(message, "version");
}

const char *train_from_str(const struct train_outage *outage)
{
	if (strcmp(outage->from, "mirror") == 0)
		return "of a worker's mirror";
	if (strcmp(outage->from, "checkpoint") == 0)
		return "of a checkpoint";
	return strcmp(outage->from, "none") == 0 ? "first weights" : "";
}

/* A worker was lost in an outage, too: gradients that no other process keeps are not pushed again */
static bool worker_was_lost(const struct train *train, const struct train_outage *outage)
{
	for (unsigned i = 0; i < train->outage_count; i++) {
		const struct train_outage *other = &train->outages[i];

		if (!other->server && (other->kill == NULL || other->kill->signo == SIGKILL) &&
		    (other->state == TRAIN_OUTAGE_OPEN || other->ready_ns >= outage->killed_ns))
			return true;
	}
	return train->died > 0;
}

void train_cost_expect(const struct train *train, struct train_outage *outage,
		       const json_t *message)
{
	const uint64_t version = outage->restored_version;
	const uint64_t behind = outage->version > version ? outage->version - version : 0;

	outage->expects = true;
	outage->expected = count(message, "lacks");
	if (json_object_get(message, "lacks") == NULL || worker_was_lost(train, outage))
		outage->expected =
			behind * ol_consistency_least(&train->set.rule.how, train->set.workers);
}
