/* SPDX-License-Identifier: BSD-3-Clause */

/* stat_show.c -- what `outlast stat` has read, as a table and as JSON */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "cmd/counters.h"
#include "outlast.h"
#include "outlast/stat.h"
#include "outlast_server.h"

enum {
	CELL_MAX = 32 /* of the table */
};

/* "12.3 MB", of 2^20 bytes */
static const char *bytes_text(uint64_t bytes, char cell[CELL_MAX])
{
	static const char *const units[] = { "B", "KB", "MB", "GB", "TB" };
	double value = (double)bytes;
	unsigned unit = 0;

	while (value >= 1024.0 && unit < 4) {
		value /= 1024.0;
		unit++;
	}
	snprintf(cell, CELL_MAX, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
	return cell;
}

static void beat_text(const struct stat_view *view, const struct stat_row *row, char cell[CELL_MAX])
{
	if (row->beat_ns == 0)
		snprintf(cell, CELL_MAX, "-");
	else
		snprintf(cell, CELL_MAX, "%.1f s", (double)(view->now_ns - row->beat_ns) / 1e9);
}

static void row_text(const struct stat_view *view, const struct stat_row *row, FILE *out)
{
	const struct ol_server_stat *s = &row->stat;
	char behind[CELL_MAX] = "-", ring[CELL_MAX] = "-", moved[CELL_MAX] = "-", beat[CELL_MAX];
	char sent[2 * CELL_MAX] = "-", resync[2 * CELL_MAX] = "-", loss[CELL_MAX] = "-";

	if (!row->known) {
		fprintf(out, "  %-8s %-34s %s\n", "?", row->addr, row->why);
		return;
	}
	beat_text(view, row, beat);
	if (stat_in_chain(s)) {
		snprintf(behind, sizeof(behind), "%" PRIu64, stat_lag(s));
		snprintf(ring, sizeof(ring), "%u/%u", s->ring_used, s->ring_slots);
		snprintf(sent, sizeof(sent), "%" PRIu64 ", %s, %" PRIu64, s->forwarded,
			 bytes_text(s->forwarded_bytes, moved), s->resent);
	}
	if (s->resync_ns != 0)
		snprintf(resync, sizeof(resync), "%s, %.1f ms", bytes_text(s->resync_bytes, moved),
			 (double)s->resync_ns / 1e6);
	if (s->applied > 0 && isfinite(s->loss))
		snprintf(loss, sizeof(loss), "%.4f", (double)s->loss);
	fprintf(out,
		"  %-8s %-34s %10" PRIu64 " %10" PRIu64 " %5s %6s %10" PRIu64
		" %-26s %-20s %7u %6s %9.1f %8s\n",
		ol_role_str(s->role), row->addr, s->version, s->committed, behind, ring, s->applied,
		sent, resync, s->workers, beat, (double)s->turn_max_ns / 1e6, loss);
}

/* Since its server began; the gradients' bytes that it worked on early are of `early_bytes` */
static void traffic_text(const struct stat_row *row, FILE *out)
{
	const struct ol_server_stat *s = &row->stat;
	char held[CELL_MAX], written[CELL_MAX], read[CELL_MAX], early[CELL_MAX], vain[CELL_MAX];

	fprintf(out,
		"           %" PRIu64 " connections, %" PRIu64 " regions of %s; %" PRIu64
		" writes of %s, %" PRIu64 " of them with a doorbell, %" PRIu64
		" reads of %s; %" PRIu64 " doorbells came; queue full %" PRIu64
		" times; %s worked on early, %s in vain\n",
		s->conns, s->regions, bytes_text(s->region_bytes, held), s->writes,
		bytes_text(s->write_bytes, written), s->doorbells, s->reads,
		bytes_text(s->read_bytes, read), s->rung, s->busy,
		bytes_text(s->early_bytes, early), bytes_text(s->early_void_bytes, vain));
}

static void chain_text(const struct stat_view *view, uint32_t shard, FILE *out)
{
	const struct ol_chain_info *info = &view->chains[shard];

	if (info->epoch == 0) {
		fprintf(out, "shard %u: no view yet, %u servers wait for it\n", shard,
			info->waiting);
		return;
	}
	fprintf(out, "shard %u: epoch %u, %u of %u replicas", shard, info->epoch, info->count,
		info->wanted);
	if (info->count > 0 && info->gone == info->count)
		fprintf(out, ", %s",
			info->count > 1 ? "none of them answers" : "it does not answer");
	if (info->joining > 0)
		fprintf(out, ", one is joining");
	if (info->waiting > 0)
		fprintf(out, ", %u waiting", info->waiting);
	if (info->every > 0)
		fprintf(out, ", replicated every %u versions", info->every);
	if (info->founded > 1)
		fprintf(out, ", founded in epoch %u", info->founded);
	fprintf(out, "\n");
}

void stat_text(const struct stat_view *view, bool titles, FILE *out)
{
	uint32_t at = 0;

	if (view->coordinator != NULL) {
		fprintf(out, "job %s at %s%s\n", view->job, view->coordinator,
			view->chains[0].connected
				? ""
				: ": cannot be reached; what follows is the last that was known");
	}
	if (titles)
		fprintf(out, "  %-8s %-34s %10s %10s %5s %6s %10s %-26s %-20s %7s %6s %9s %8s\n",
			"role", "server", "version", "committed", "lag", "ring", "applied",
			"forwarded, bytes, resent", "resync", "workers", "beat", "turn, ms",
			"loss");
	for (uint32_t shard = 0; shard < view->shard_count; shard++) {
		if (view->coordinator != NULL)
			chain_text(view, shard, out);
		for (; at < view->row_count && view->rows[at].shard == shard; at++) {
			row_text(view, &view->rows[at], out);
			if (view->traffic && view->rows[at].known)
				traffic_text(&view->rows[at], out);
		}
	}
}

static json_t *row_json(const struct stat_view *view, const struct stat_row *row)
{
	json_t *json = row->known ? ol_counters_json(&row->stat) : json_object();

	if (json == NULL)
		return NULL;
	json_object_set_new(json, "address", json_string(row->addr));
	json_object_set_new(json, "error", row->known ? json_null() : json_string(row->why));
	if (!row->known)
		return json;
	if (stat_in_chain(&row->stat))
		json_object_set_new(json, "lag", json_integer((json_int_t)stat_lag(&row->stat)));
	json_object_set_new(json, "heartbeat_age_s",
			    row->beat_ns != 0
				    ? json_real((double)(view->now_ns - row->beat_ns) / 1e9)
				    : json_null());
	return json;
}

static json_t *shard_json(const struct stat_view *view, uint32_t shard, uint32_t *at)
{
	const struct ol_chain_info *info = &view->chains[shard];
	json_t *rows = json_array(), *json;

	for (; *at < view->row_count && view->rows[*at].shard == shard; ++*at)
		json_array_append_new(rows, row_json(view, &view->rows[*at]));
	json = json_pack("{s:i, s:o}", "shard", (int)shard, "replicas", rows);
	if (json != NULL && view->coordinator != NULL)
		json_object_update_new(
			json, json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b}", "epoch",
					(int)info->epoch, "founded", (int)info->founded, "wanted",
					(int)info->wanted, "every", (int)info->every, "count",
					(int)info->count, "joining", (int)info->joining, "waiting",
					(int)info->waiting, "gone", (int)info->gone, "connected",
					(int)info->connected));
	return json;
}

json_t *stat_json(const struct stat_view *view)
{
	json_t *shards = json_array();
	uint32_t at = 0;

	for (uint32_t shard = 0; shard < view->shard_count; shard++)
		json_array_append_new(shards, shard_json(view, shard, &at));
	return json_pack("{s:s?, s:s?, s:o}", "coordinator", view->coordinator, "job", view->job,
			 "shards", shards);
}
