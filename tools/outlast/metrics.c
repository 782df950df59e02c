/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * metrics.c -- a look of `outlast stat` as text for Prometheus
 *
 * Series of a server have the labels job, shard and address, which stay when its role changes: a
 * rate over a failover is that of one series. The role is a label of outlast_replica_info alone.
 */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "cmd/counters.h"
#include "cmd/port.h"
#include "cmd/series.h"
#include "outlast/stat.h"

/* How it lies in memory, and in which unit */
enum metric_form {
	U32,
	U64,
	NS, /* 64 bits; shown in seconds */
	FLOAT
};

struct metric {
	const char *name, *help;
	size_t offset;
	enum ol_series_type type;
	enum metric_form form;
	bool chain; /* of servers in a chain only */
};

/* Of a server: struct ol_server_stat, all of it */
#define ROW(member, type, form, chain, name, help) \
	{ \
		name, help, offsetof(struct ol_server_stat, member), OL_SERIES_##type, form, chain \
	}

static const struct metric metrics[] = {
	ROW(version, GAUGE, U64, false, "outlast_weights_version", "Steps its weights have had."),
	ROW(heartbeat, COUNTER, U64, false, "outlast_heartbeats_total",
	    "Goes up while its loop turns."),
	ROW(applied, COUNTER, U64, false, "outlast_gradients_applied_total",
	    "Gradients that took effect."),
	ROW(dropped_nonfinite, COUNTER, U64, false, "outlast_gradients_dropped_nonfinite_total",
	    "Gradients dropped because a number was not finite."),
	ROW(dropped_late, COUNTER, U64, false, "outlast_gradients_dropped_late_total",
	    "Gradients dropped because they came too late."),
	ROW(duplicates, COUNTER, U64, false, "outlast_gradients_duplicate_total",
	    "Gradients pushed again that had been applied before."),
	ROW(replayed, COUNTER, U64, false, "outlast_gradients_replayed_total",
	    "Applied gradients that had waited in a worker's queue."),
	ROW(carried, COUNTER, U64, false, "outlast_gradients_carried_total",
	    "Applied gradients that came too late for their step and were held for a later one."),
	ROW(staleness_sum, COUNTER, U64, false, "outlast_gradients_staleness_versions_total",
	    "Sum over applied gradients: version when applied less version they began with."),
	ROW(samples, COUNTER, U64, false, "outlast_samples_total", "Samples of applied gradients."),
	ROW(bytes_in, COUNTER, U64, false, "outlast_received_bytes_total",
	    "Bytes of gradients and chain entries that came in."),
	ROW(early_bytes, COUNTER, U64, false, "outlast_early_bytes_total",
	    "Bytes worked on before all of their gradient or entry had landed."),
	ROW(early_void_bytes, COUNTER, U64, false, "outlast_early_void_bytes_total",
	    "Of these, bytes worked on in vain."),
	ROW(refused, COUNTER, U64, false, "outlast_handshakes_refused_total",
	    "Peers not let in, for any reason."),
	ROW(violations, COUNTER, U64, false, "outlast_violations_total",
	    "Sessions ended because the peer broke a rule."),
	ROW(sent_away, COUNTER, U64, false, "outlast_peers_sent_away_total",
	    "Peers told to come back because their memory was not ready."),
	ROW(workers, GAUGE, U32, false, "outlast_workers", "Workers connected."),
	ROW(wait_for, GAUGE, U32, false, "outlast_step_gradients",
	    "Gradients that the next step waits for."),
	ROW(loss, GAUGE, FLOAT, false, "outlast_loss",
	    "Loss of recent gradients, exponentially averaged over 32."),
	ROW(turn_max_ns, GAUGE, NS, false, "outlast_turn_max_seconds",
	    "Longest turn of its loop since it started; no peer is served during a turn."),
	ROW(restored_from, GAUGE, U32, false, "outlast_restored_from",
	    "What it began with: 0 first weights, 1 a checkpoint, 2 a mirror, 4 a replica."),
	ROW(restored_version, GAUGE, U64, false, "outlast_restored_version",
	    "Version of the weights it began with."),
	ROW(restored_lost, GAUGE, U64, false, "outlast_restored_lost_gradients",
	    "Gradients reported as applied to workers that the weights it began with lack."),
	ROW(ready_ns, GAUGE, NS, false, "outlast_ready_monotonic_seconds",
	    "When it had its weights, by the monotonic clock of its host."),
	ROW(first_applied_ns, GAUGE, NS, false, "outlast_first_applied_monotonic_seconds",
	    "When it applied its first gradient, by the monotonic clock of its host; 0: not yet."),
	ROW(checkpoints, COUNTER, U64, false, "outlast_checkpoints_total", "Checkpoints written."),
	ROW(checkpoints_failed, COUNTER, U64, false, "outlast_checkpoints_failed_total",
	    "Checkpoints that could not be written."),
	ROW(checkpoints_skipped, COUNTER, U64, false, "outlast_checkpoints_skipped_total",
	    "Checkpoints due while one was being written, or thinned out since."),
	ROW(checkpoint_version, GAUGE, U64, false, "outlast_checkpoint_version",
	    "Version of the checkpoint written last."),
	ROW(checkpoint_bytes, COUNTER, U64, false, "outlast_checkpoint_bytes_total",
	    "Bytes of checkpoints written."),
	ROW(beat_ns, GAUGE, NS, false, "outlast_heartbeat_monotonic_seconds",
	    "Its last heartbeat, by the monotonic clock of its host."),
	ROW(epoch, GAUGE, U32, false, "outlast_epoch", "Epoch in which it serves."),
	ROW(conns, GAUGE, U64, false, "outlast_connections",
	    "Connections of its transport, whatever their state."),
	ROW(regions, GAUGE, U64, false, "outlast_memory_regions",
	    "Memory regions registered with its transport."),
	ROW(region_bytes, GAUGE, U64, false, "outlast_memory_registered_bytes",
	    "Bytes of these regions."),
	ROW(writes, COUNTER, U64, false, "outlast_writes_total",
	    "One-sided writes posted, doorbells included."),
	ROW(write_bytes, COUNTER, U64, false, "outlast_write_bytes_total",
	    "Bytes of these writes."),
	ROW(doorbells, COUNTER, U64, false, "outlast_doorbells_rung_total",
	    "Doorbells rung at peers."),
	ROW(reads, COUNTER, U64, false, "outlast_reads_total", "One-sided reads posted."),
	ROW(read_bytes, COUNTER, U64, false, "outlast_read_bytes_total", "Bytes of these reads."),
	ROW(rung, COUNTER, U64, false, "outlast_doorbells_received_total", "Doorbells of peers."),
	ROW(busy, COUNTER, U64, false, "outlast_queue_full_total",
	    "Posts that found a full queue."),
	ROW(received, GAUGE, U64, true, "outlast_entry_received",
	    "Newest entry in its ring; of a head, the newest it ordered."),
	ROW(committed, GAUGE, U64, true, "outlast_entry_committed",
	    "Newest entry that it knows the tail to have."),
	ROW(forwarded, COUNTER, U64, true, "outlast_entries_forwarded_total",
	    "Entries sent to successors, repeats included."),
	ROW(forwarded_bytes, COUNTER, U64, true, "outlast_entries_forwarded_bytes_total",
	    "Bytes of these entries."),
	ROW(resent, COUNTER, U64, true, "outlast_entries_resent_total",
	    "Of these, entries sent again, to a new successor."),
	ROW(resync_bytes, COUNTER, U64, true, "outlast_resync_bytes_total",
	    "Bytes read from its predecessor when it joined."),
	ROW(resync_ns, GAUGE, NS, true, "outlast_resync_seconds",
	    "How long it took to catch up when it joined; 0: it did not join."),
	ROW(views, COUNTER, U64, true, "outlast_views_adopted_total", "Views adopted."),
	ROW(suspicions, COUNTER, U64, true, "outlast_suspicions_total",
	    "Times a neighbour's connection broke or its heartbeat stood still."),
	ROW(ring_slots, GAUGE, U32, true, "outlast_ring_slots", "Slots of its ring of entries."),
	ROW(ring_used, GAUGE, U32, true, "outlast_ring_used_slots", "Of these, slots in use."),
	ROW(proposed_ns, GAUGE, NS, true, "outlast_view_proposed_monotonic_seconds",
	    "When it first asked for the view it proposed last, by its host's clock; 0: never."),
	ROW(adopted_ns, GAUGE, NS, true, "outlast_view_adopted_monotonic_seconds",
	    "When it last adopted a view, by its host's clock; 0: never."),
	ROW(linked_ns, GAUGE, NS, true, "outlast_successor_linked_monotonic_seconds",
	    "When it last got a successor that takes entries, by its host's clock; 0: never."),
};

/* Times of a server, as histograms */
static const struct histogram {
	const char *name, *help;
	size_t offset;
} histograms[] = {
	{ "outlast_push_applied_seconds",
	  "From a landed gradient to weights with it; in a strict chain, at the head.",
	  offsetof(struct ol_server_stat, push_applied) },
};

/* Of a shard's chain, as the coordinator has it */
#define CHAIN(member, name, help) \
	{ \
		name, help, offsetof(struct ol_chain_info, member), OL_SERIES_GAUGE, U32, true \
	}

static const struct metric chain_metrics[] = {
	CHAIN(epoch, "outlast_view_epoch", "Epoch of the shard's view; 0: none yet."),
	CHAIN(founded, "outlast_view_founded_epoch", "Epoch in which the chain's history began."),
	CHAIN(count, "outlast_chain_replicas", "Full replicas in the view."),
	CHAIN(wanted, "outlast_chain_replicas_wanted", "Replicas that the chain is to have."),
	CHAIN(joining, "outlast_chain_joining", "Replicas that are being brought up to date."),
	CHAIN(waiting, "outlast_chain_waiting", "Servers registered and not in the view."),
	CHAIN(gone, "outlast_chain_gone", "Full replicas without a session at the coordinator."),
	CHAIN(every, "outlast_chain_replicate_versions",
	      "Replicated every so many versions; 0: each gradient before it is acknowledged."),
};

enum {
	METRICS = sizeof(metrics) / sizeof(metrics[0]),
	HISTOGRAMS = sizeof(histograms) / sizeof(histograms[0]),
	CHAIN_METRICS = sizeof(chain_metrics) / sizeof(chain_metrics[0])
};

/* The job's labels, a shard's, a server's */
struct labels {
	char shard[12];
	struct ol_series_label all[4];
};

static void labels_job(const struct stat_view *view, struct labels *ret_labels)
{
	*ret_labels = (struct labels){ .all = { { "job", view->label } } };
}

static void labels_shard(const struct stat_view *view, uint32_t shard, struct labels *ret_labels)
{
	labels_job(view, ret_labels);
	snprintf(ret_labels->shard, sizeof(ret_labels->shard), "%u", shard);
	ret_labels->all[1] = (struct ol_series_label){ "shard", ret_labels->shard };
}

static void labels_server(const struct stat_view *view, const struct stat_row *row,
			  struct labels *ret_labels)
{
	labels_shard(view, row->shard, ret_labels);
	ret_labels->all[2] = (struct ol_series_label){ "address", row->addr };
}

/* A series of a server up to its last label */
static void server_begin(const struct ol_series *to, const struct stat_view *view, const char *name,
			 const struct stat_row *row)
{
	struct labels labels;

	labels_server(view, row, &labels);
	ol_series_begin(to, name, labels.all);
}

static void value_write(const struct ol_series *to, const struct metric *metric, const void *values)
{
	const char *at = (const char *)values + metric->offset;
	uint64_t wide;
	uint32_t small;
	float real;

	switch (metric->form) {
	case U32:
		memcpy(&small, at, sizeof(small));
		ol_series_uint(to, small);
		break;
	case U64:
		memcpy(&wide, at, sizeof(wide));
		ol_series_uint(to, wide);
		break;
	case NS:
		memcpy(&wide, at, sizeof(wide));
		ol_series_seconds(to, wide);
		break;
	case FLOAT:
		memcpy(&real, at, sizeof(real));
		ol_series_float(to, real);
		break;
	}
}

static void up_write(const struct ol_series *to, const struct stat_view *view)
{
	ol_series_head(to, "outlast_up", OL_SERIES_GAUGE,
		       "1: the server's counters were read in this scrape.");
	for (uint32_t i = 0; i < view->row_count; i++) {
		server_begin(to, view, "outlast_up", &view->rows[i]);
		ol_series_uint(to, view->rows[i].known);
	}
}

static void info_write(const struct ol_series *to, const struct stat_view *view)
{
	ol_series_head(
		to, "outlast_replica_info", OL_SERIES_GAUGE,
		"1, with the server's role (none: without a chain) and the id of its process.");
	for (uint32_t i = 0; i < view->row_count; i++) {
		const struct stat_row *row = &view->rows[i];
		char id[20];

		if (!row->known)
			continue;
		snprintf(id, sizeof(id), "%016" PRIx64, row->stat.replica);
		server_begin(to, view, "outlast_replica_info", row);
		ol_series_label(to, "role", ol_role_str(row->stat.role));
		ol_series_label(to, "replica", id);
		ol_series_uint(to, 1);
	}
}

static void lag_write(const struct ol_series *to, const struct stat_view *view)
{
	ol_series_head(to, "outlast_chain_lag_entries", OL_SERIES_GAUGE,
		       "Entries that the server has and does not know to be committed.");
	for (uint32_t i = 0; i < view->row_count; i++) {
		const struct stat_row *row = &view->rows[i];

		if (!row->known || !stat_in_chain(&row->stat))
			continue;
		server_begin(to, view, "outlast_chain_lag_entries", row);
		ol_series_uint(to, stat_lag(&row->stat));
	}
}

static void servers_write(const struct ol_series *to, const struct stat_view *view,
			  const struct metric *metric)
{
	ol_series_head(to, metric->name, metric->type, metric->help);
	for (uint32_t i = 0; i < view->row_count; i++) {
		const struct stat_row *row = &view->rows[i];

		if (!row->known || (metric->chain && !stat_in_chain(&row->stat)))
			continue;
		server_begin(to, view, metric->name, row);
		value_write(to, metric, &row->stat);
	}
}

/* Not of a server that has written none, as its age is unknown */
static void checkpoint_age_write(const struct ol_series *to, const struct stat_view *view)
{
	ol_series_head(
		to, "outlast_checkpoint_age_seconds", OL_SERIES_GAUGE,
		"Since the weights of the last checkpoint written were in force; none: it wrote none.");
	for (uint32_t i = 0; i < view->row_count; i++) {
		const struct stat_row *row = &view->rows[i];
		const uint64_t taken_ns = row->stat.checkpoint_ns, beat_ns = row->stat.beat_ns;

		if (!row->known || taken_ns == 0)
			continue;
		server_begin(to, view, "outlast_checkpoint_age_seconds", row);
		ol_series_seconds(to, beat_ns > taken_ns ? beat_ns - taken_ns : 0);
	}
}

/* A push that took long */
struct slow {
	char worker[24], push[24];
	struct ol_series_label labels[3];
};

/* NULL: there is none, or it was being replaced */
static const struct ol_series_exemplar *slow_take(const struct ol_server_stat *stat,
						  struct slow *ret_slow,
						  struct ol_series_exemplar *ret_exemplar)
{
	if (stat->slow_push == 0)
		return NULL;
	snprintf(ret_slow->worker, sizeof(ret_slow->worker), "%" PRIu64, stat->slow_worker);
	snprintf(ret_slow->push, sizeof(ret_slow->push), "%" PRIu64, stat->slow_push);
	ret_slow->labels[0] = (struct ol_series_label){ "worker", ret_slow->worker };
	ret_slow->labels[1] = (struct ol_series_label){ "push", ret_slow->push };
	ret_slow->labels[2] = (struct ol_series_label){ NULL, NULL };
	*ret_exemplar = (struct ol_series_exemplar){ .labels = ret_slow->labels,
						     .ns = stat->slow_ns,
						     .at_ns = stat->slow_at_ns };
	return ret_exemplar;
}

static void histograms_write(const struct ol_series *to, const struct stat_view *view)
{
	for (uint32_t i = 0; i < HISTOGRAMS; i++) {
		const struct histogram *histogram = &histograms[i];

		ol_series_head(to, histogram->name, OL_SERIES_HISTOGRAM, histogram->help);
		for (uint32_t k = 0; k < view->row_count; k++) {
			const struct stat_row *row = &view->rows[k];
			struct ol_series_exemplar exemplar;
			struct ol_latency times;
			struct labels labels;
			struct slow slow;

			if (!row->known)
				continue;
			memcpy(&times, (const char *)&row->stat + histogram->offset, sizeof(times));
			labels_server(view, row, &labels);
			ol_series_histogram(to, histogram->name, labels.all, &times,
					    slow_take(&row->stat, &slow, &exemplar));
		}
	}
}

static void chains_write(const struct ol_series *to, const struct stat_view *view)
{
	struct labels labels;

	ol_series_head(to, "outlast_coordinator_up", OL_SERIES_GAUGE,
		       "1: the coordinator answers; 0: what is known of views may be old.");
	labels_job(view, &labels);
	ol_series_begin(to, "outlast_coordinator_up", labels.all);
	ol_series_uint(to, view->chains[0].connected);
	for (uint32_t i = 0; i < CHAIN_METRICS; i++) {
		const struct metric *metric = &chain_metrics[i];

		ol_series_head(to, metric->name, metric->type, metric->help);
		for (uint32_t shard = 0; shard < view->shard_count; shard++) {
			labels_shard(view, shard, &labels);
			ol_series_begin(to, metric->name, labels.all);
			value_write(to, metric, &view->chains[shard]);
		}
	}
}

void stat_metrics(const struct stat_view *view, uint64_t look_ns, const struct ol_series *to)
{
	struct labels labels;

	up_write(to, view);
	info_write(to, view);
	if (view->coordinator != NULL)
		chains_write(to, view);
	lag_write(to, view);
	for (uint32_t i = 0; i < METRICS; i++)
		servers_write(to, view, &metrics[i]);
	checkpoint_age_write(to, view);
	histograms_write(to, view);
	labels_job(view, &labels);
	ol_ports_series(OL_PORT_ROOT, labels.all, to);
	ol_series_head(to, "outlast_scrape_duration_seconds", OL_SERIES_GAUGE,
		       "How long it took to read all servers.");
	ol_series_begin(to, "outlast_scrape_duration_seconds", labels.all);
	ol_series_seconds(to, look_ns);
	ol_series_end(to);
}
