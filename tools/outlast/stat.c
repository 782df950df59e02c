/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * stat.c -- `outlast stat`: servers and chains, read out of their memory
 *
 * Each server has an observer of its own, which reads it without the server's processor. A server
 * that cannot be read delays the others for --timeout-ms at most.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/counters.h"
#include "cmd/key.h"
#include "cmd/settings.h"
#include "outlast.h"
#include "outlast_server.h"

enum {
	COORD_TIMEOUT_MS = 5000,
	ONCE_MS = 300, /* --once: between two looks, to see heartbeats change */
	STAT_SHARDS_MAX = 64,
	STAT_ROWS_MAX = STAT_SHARDS_MAX * OL_CHAIN_MAX,
	STAT_WHY_MAX = 192,
	CELL_MAX = 32 /* of the table */
};

/* One server */
struct stat_row {
	uint32_t shard;
	uint32_t place; /* in its chain; a joining replica is after the tail */
	uint64_t id; /* 0: it was given by its address */
	char addr[OL_ADDR_MAX];
	struct ol_worker *observer; /* NULL: not connected */
	bool known; /* stat was read in this look */
	char why[STAT_WHY_MAX]; /* if not known: the reason */
	struct ol_server_stat stat;
	uint64_t beat_ns; /* when its heartbeat last changed; 0: never seen */
};

struct stat_view {
	const char *coordinator; /* NULL: servers were given */
	const char *job;
	uint32_t shard_count;
	struct ol_chain_info chains[STAT_SHARDS_MAX]; /* with a coordinator */
	struct stat_row rows[STAT_ROWS_MAX]; /* by shard and place */
	uint32_t row_count;
	uint64_t now_ns; /* of this look */
	bool traffic; /* a line of it for each server */
};

struct stat_set {
	const char *servers;
	const char *json;
	double interval;
	uint32_t shards;
	uint32_t timeout_ms;
	bool once;
	bool traffic;
	int log;
	const char *device;
	struct ol_set_coord coord;
	struct ol_set_transport transport;
	struct ol_set_key key;
};

static const struct ol_conf_field stat_fields[] = {
	OL_ROW_GROUP("what is looked at"),
	OL_ROW_STR(stat_set, servers, NULL,
		   "addresses of servers, with commas between, instead of --coordinator"),
	OL_ROW_U32(stat_set, shards, "0", 0, STAT_SHARDS_MAX,
		   "of the job; 0: as many as its first view says"),
	OL_ROW_GROUP("how"),
	OL_ROW_F64(stat_set, interval, "1", 0.05, 3600.0, "seconds between two looks"),
	OL_ROW_BOOL(stat_set, once, "false",
		    "look once and end; exit status 4 if no server could be read"),
	OL_ROW_BOOL(stat_set, traffic, "false",
		    "for each server also what its transport holds and has moved"),
	OL_ROW_STR(stat_set, json, NULL,
		   "file for the last look as one object; -: an object a line on standard output, "
		   "instead of the table"),
	OL_ROW_U32(stat_set, timeout_ms, "500", 10, 60000,
		   "until a server that does not answer is given up, for this look"),
	OL_ROW_STR(stat_set, device, NULL, "RDMA device; without it the one that has the route"),
	OL_ROW_CHOICE(stat_set, log, "error", ol_log_levels,
		      "least important messages that are shown"),
};

static const struct ol_rows stat_rows = OL_ROWS(stat_fields);

static const char examples[] =
	"  outlast stat --coordinator zk:10.0.0.9:2181 --job cnn7\n"
	"  outlast stat --coordinator zk:10.0.0.7:2181 --once --json -\n"
	"  outlast stat --servers 10.0.0.1:7471,10.0.0.2:7471 --once\n"
	"\ncolumns:\n"
	"  role       head (orders gradients), middle, tail (commits), only (both), "
	"joining, none; ?: it\n"
	"             could not be read, and why\n"
	"  version    steps that its weights have had; committed: entries that all "
	"replicas have\n"
	"  lag        entries that it has and does not know to be committed\n"
	"  ring       slots of its ring of entries in use, of how many\n"
	"  applied    gradients that took effect, since it started\n"
	"  forwarded  entries sent to its successor, their bytes, how many of them "
	"again\n"
	"  resync     bytes and time of reading the weights when it joined\n"
	"  workers    that are connected; beat: age of its last heartbeat\n"
	"  turn       longest that its loop served nobody; loss: of recent gradients\n";

struct stat_look {
	struct ol_settings settings;
	struct stat_set set;
	struct ol_chains *chains;
	int signal_fd;
	int signal; /* that has come; 0: none */
	char key[OL_JOB_KEY_MAX];
	bool titled; /* the column titles are written */
	struct stat_view view;
	struct stat_view next; /* rows of the present look, being made */
};

static int chains_open(struct stat_look *stat, uint32_t shards)
{
	const struct stat_set *set = &stat->set;
	char err[256] = "";
	int rc = ol_chains_open(set->coord.coordinator, set->coord.job, stat->key, shards,
				COORD_TIMEOUT_MS, &stat->chains, err, sizeof(err));

	if (rc != 0)
		return ol_cmd_error(ol_cmd_exit_of_coord(rc), "stat", err, NULL, NULL);
	stat->view.shard_count = shards;
	return 0;
}

/* Find the number of the job's shards, if it is not given */
static int chains_find(struct stat_look *stat)
{
	struct ol_chain_info info;
	int rc = chains_open(stat, stat->set.shards != 0 ? stat->set.shards : 1);

	if (rc != 0 || stat->set.shards != 0 || ol_chains_get(stat->chains, 0, &info) != 0 ||
	    info.shard_count <= 1 || info.shard_count > STAT_SHARDS_MAX)
		return rc;
	ol_chains_close(stat->chains);
	stat->chains = NULL;
	return chains_open(stat, info.shard_count);
}

static struct stat_row *row_add(struct stat_view *view, uint32_t shard, uint32_t place,
				const char *addr)
{
	struct stat_row *row = &view->rows[view->row_count++];

	*row = (struct stat_row){ .shard = shard, .place = place };
	snprintf(row->addr, sizeof(row->addr), "%s", addr);
	return row;
}

/* Read the list of --servers; each counts as a shard until it is known */
static int servers_read(struct stat_look *stat)
{
	const char *at = stat->set.servers;
	struct stat_view *view = &stat->view;

	while (*at != '\0') {
		size_t len = strcspn(at, ",");
		char addr[OL_ADDR_MAX];

		if (len == 0 || len >= sizeof(addr) || view->row_count == STAT_SHARDS_MAX)
			return ol_settings_fail(&stat->settings, "servers",
						"is not a list of 1 to 64 addresses");
		snprintf(addr, sizeof(addr), "%.*s", (int)len, at);
		row_add(view, view->row_count, 0, addr);
		at += len + (at[len] == ',');
	}
	view->shard_count = view->row_count;
	if (view->row_count == 0)
		return ol_settings_fail(&stat->settings, "servers", "is empty");
	return 0;
}

static bool same(const struct stat_row *a, const struct stat_row *b)
{
	return a->shard == b->shard && a->id == b->id && strcmp(a->addr, b->addr) == 0;
}

/* Make rows by the present views; servers that stay keep their connections. */
static void rows_follow(struct stat_look *stat)
{
	struct stat_view *view = &stat->view, *next = &stat->next;

	if (stat->chains == NULL)
		return;
	next->row_count = 0;
	for (uint32_t shard = 0; shard < view->shard_count; shard++) {
		struct ol_chain_info *info = &view->chains[shard];

		if (ol_chains_get(stat->chains, shard, info) != 0)
			*info = (struct ol_chain_info){ 0 };
		for (uint32_t i = 0; i < info->count + info->joining && i < OL_CHAIN_MAX; i++)
			row_add(next, shard, i, info->addrs[i])->id = info->ids[i];
	}
	for (uint32_t i = 0; i < view->row_count; i++) {
		bool kept = false;

		for (uint32_t j = 0; !kept && j < next->row_count; j++) {
			uint32_t place = next->rows[j].place;

			kept = same(&view->rows[i], &next->rows[j]);
			if (kept)
				next->rows[j] = view->rows[i];
			next->rows[j].place = place;
		}
		if (!kept)
			ol_worker_close(view->rows[i].observer);
	}
	memcpy(view->rows, next->rows, next->row_count * sizeof(next->rows[0]));
	view->row_count = next->row_count;
}

static int observer_open(struct stat_look *stat, struct stat_row *row)
{
	struct ol_worker_opts opts;
	int rc;

	ol_worker_opts_init(&opts);
	opts.servers = row->addr;
	opts.transport = ol_transport_name(stat->set.transport.transport);
	opts.device = stat->set.device;
	opts.job_key = stat->key;
	opts.observer = OL_OBSERVER_COUNTERS;
	opts.connect_timeout_ms = stat->set.timeout_ms;
	opts.op_timeout_ms = stat->set.timeout_ms;
	opts.retry_timeout_ms =
		stat->set.timeout_ms; /* whoever looks does not wait for a network */
	opts.spin_us = 0;
	opts.cancel_fd = stat->signal_fd;
	rc = ol_worker_open(&opts, &row->observer, row->why, sizeof(row->why));
	if (rc != 0)
		row->observer = NULL;
	return rc;
}

static void row_read(struct stat_look *stat, struct stat_row *row)
{
	struct ol_server_stat now;
	int rc = row->observer != NULL ? 0 : observer_open(stat, row);

	if (rc == 0) {
		(void)ol_worker_poll(row->observer);
		rc = ol_stat(row->observer, 0, &now);
		if (rc != 0)
			snprintf(row->why, sizeof(row->why), "%s", ol_strerror(rc));
	}
	if (rc != 0) {
		ol_worker_close(row->observer);
		row->observer = NULL;
		row->known = false;
		return;
	}
	if (row->stat.heartbeat != 0 && now.heartbeat != row->stat.heartbeat)
		row->beat_ns = ol_clock_ns();
	row->stat = now;
	row->known = true;
}

/* Read all rows; returns how many could be read */
static unsigned look(struct stat_look *stat)
{
	unsigned known = 0;

	rows_follow(stat);
	for (uint32_t i = 0; i < stat->view.row_count; i++) {
		row_read(stat, &stat->view.rows[i]);
		known += stat->view.rows[i].known;
	}
	stat->view.now_ns = ol_clock_ns();
	return known;
}

/* What was read, as a table and as JSON */

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

/* How many entries are ordered, or received, and not yet known to be committed */
static uint64_t lag(const struct ol_server_stat *stat)
{
	return stat->received > stat->committed ? stat->received - stat->committed : 0;
}

static bool in_chain(const struct ol_server_stat *stat)
{
	return stat->role != OL_REPLICA_NONE;
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
	if (in_chain(s)) {
		snprintf(behind, sizeof(behind), "%" PRIu64, lag(s));
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

static void show_text(const struct stat_view *view, bool titles, FILE *out)
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
	if (in_chain(&row->stat))
		json_object_set_new(json, "lag", json_integer((json_int_t)lag(&row->stat)));
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

static json_t *show_json(const struct stat_view *view)
{
	json_t *shards = json_array();
	uint32_t at = 0;

	for (uint32_t shard = 0; shard < view->shard_count; shard++)
		json_array_append_new(shards, shard_json(view, shard, &at));
	return json_pack("{s:s?, s:s?, s:o}", "coordinator", view->coordinator, "job", view->job,
			 "shards", shards);
}

/* Replace the file, so that it is whole at any time for its readers. */
static int json_write(const struct stat_look *stat, json_t *json)
{
	char name[OL_VALUE_MAX];
	int rc;

	if (json != NULL && strcmp(stat->set.json, "-") == 0) {
		rc = json_dumpf(json, stdout, JSON_COMPACT);
		return rc != 0 || putchar('\n') == EOF || fflush(stdout) != 0 ? -1 : 0;
	}
	if (json == NULL ||
	    snprintf(name, sizeof(name), "%s.new", stat->set.json) >= (int)sizeof(name))
		return -1;
	rc = json_dump_file(json, name, JSON_INDENT(2));
	return rc != 0 ? rc : rename(name, stat->set.json);
}

static int show(struct stat_look *stat)
{
	bool table = stat->set.json == NULL || strcmp(stat->set.json, "-") != 0;
	json_t *json;
	int rc = 0;

	if (table && isatty(STDOUT_FILENO) == 1 && !stat->set.once) {
		fputs("\033[H\033[J", stdout);
		stat->titled = false;
	}
	if (table)
		show_text(&stat->view, !stat->titled, stdout);
	stat->titled = true;
	if (table && fflush(stdout) != 0 && errno == EPIPE)
		return OL_EXIT_SIGNAL + SIGPIPE; /* its reader has left, and knows */
	if (table && ferror(stdout) != 0)
		return ol_cmd_error(OL_EXIT_FAILED, "stat", "cannot write", "standard output",
				    strerror(errno));
	if (stat->set.json == NULL)
		return 0;
	json = show_json(&stat->view);
	if (json_write(stat, json) != 0)
		rc = ol_cmd_error(OL_EXIT_FAILED, "stat", "cannot write --json", stat->set.json,
				  json == NULL ? "no memory" : strerror(errno));
	json_decref(json);
	return rc;
}

/* True once a signal has come that ends it */
static bool signalled(struct stat_look *stat)
{
	struct signalfd_siginfo info;

	while (stat->signal == 0 &&
	       read(stat->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo != SIGCHLD)
			stat->signal = (int)info.ssi_signo;
	}
	return stat->signal != 0;
}

/* False once a signal has come */
static bool pause_ms(struct stat_look *stat, int ms)
{
	uint64_t end_ns = ol_clock_ns() + (uint64_t)ms * OL_NS_PER_MS;
	struct pollfd fd = { .fd = stat->signal_fd, .events = POLLIN };

	for (;;) {
		uint64_t now_ns = ol_clock_ns();

		if (signalled(stat))
			return false;
		if (now_ns >= end_ns)
			return true;
		(void)poll(&fd, 1, (int)((end_ns - now_ns) / OL_NS_PER_MS) + 1);
	}
}

static int stat_run(struct stat_look *stat)
{
	unsigned known = look(stat);
	int rc;

	if (stat->set.once) {
		if (known > 0 && pause_ms(stat, ONCE_MS))
			known = look(stat);
		if (signalled(stat))
			return OL_EXIT_SIGNAL + stat->signal;
		rc = show(stat);
		if (rc == 0 && known == 0)
			rc = ol_cmd_error(OL_EXIT_SERVER, "stat", "no server could be read", NULL,
					  NULL);
		return rc;
	}
	do {
		rc = show(stat);
		if (rc != 0 || !pause_ms(stat, (int)(stat->set.interval * 1e3)))
			return rc;
		(void)look(stat);
	} while (true);
}

static int stat_start(struct stat_look *stat)
{
	const struct stat_set *set = &stat->set;
	int rc;

	ol_log_level_set((enum ol_log_level)set->log);
	if (set->servers == NULL && set->coord.coordinator == NULL)
		return ol_cmd_error(OL_EXIT_USAGE, "stat", "give --coordinator or --servers", NULL,
				    NULL);
	if (set->servers != NULL && set->coord.coordinator != NULL)
		return ol_settings_fail(&stat->settings, "servers",
					"is one of two: give --coordinator or --servers");
	rc = ol_job_key_read("stat", &set->key, stat->key);
	if (rc != 0)
		return rc;
	stat->view.coordinator = set->coord.coordinator;
	stat->view.traffic = set->traffic;
	stat->view.job = set->coord.coordinator != NULL ? set->coord.job : NULL;
	rc = set->servers != NULL ? servers_read(stat) : chains_find(stat);
	if (rc == 0) /* before this a signal simply ends the process */
		rc = ol_cmd_signals("stat", &stat->signal_fd);
	return rc != 0 ? rc : stat_run(stat);
}

int cmd_stat(int argc, char **argv)
{
	struct stat_look *stat = calloc(1, sizeof(*stat));
	struct ol_settings *settings;
	int rc;

	if (stat == NULL)
		return ol_cmd_error(OL_EXIT_RESOURCES, "stat", "no memory", NULL, NULL);
	stat->signal_fd = -1;
	settings = &stat->settings;
	settings->cmd = "stat";
	settings->spec = (struct ol_conf_spec){
		.program = "outlast stat",
		.purpose = "Shows servers and chains: roles, versions, lag, rings, counters, read "
			   "out of the servers' memory without their taking part; again and "
			   "again, until SIGINT, SIGTERM or SIGHUP.",
		.examples = examples,
	};
	ol_settings_add(settings, stat_rows, 0);
	ol_settings_add(settings, ol_rows_transport, offsetof(struct stat_set, transport));
	ol_settings_add(settings, ol_rows_key, offsetof(struct stat_set, key));
	ol_settings_add(settings, ol_rows_coord, offsetof(struct stat_set, coord));
	if (ol_settings_load(settings, &stat->set, argc, argv, &rc))
		rc = stat_start(stat);
	for (uint32_t i = 0; i < stat->view.row_count; i++)
		ol_worker_close(stat->view.rows[i].observer);
	ol_chains_close(stat->chains);
	if (stat->signal_fd >= 0)
		close(stat->signal_fd);
	ol_settings_fini(settings);
	explicit_bzero(stat->key, sizeof(stat->key));
	free(stat);
	return rc;
}
