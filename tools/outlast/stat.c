/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * stat.c -- `outlast stat`: servers and chains, read out of their memory
 *
 * Each server has an observer of its own, which reads it without the server's processor. A server
 * that cannot be read delays the others for --timeout-ms at most.
 */
#include "outlast/stat.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/settings.h"

enum {
	COORD_TIMEOUT_MS = 5000,
	ONCE_MS = 300 /* --once: between two looks, to see heartbeats change */
};

struct stat_set {
	const char *servers;
	const char *json;
	double interval;
	uint32_t shards;
	uint32_t timeout_ms;
	bool once;
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
	char key[OL_JOB_KEY_BYTES];
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
	opts.retry_timeout_ms = stat->set.timeout_ms;
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
		stat_show_text(&stat->view, !stat->titled, stdout);
	stat->titled = true;
	if (table && fflush(stdout) != 0)
		return ol_cmd_error(OL_EXIT_FAILED, "stat", "cannot write", "standard output",
				    strerror(errno));
	if (stat->set.json == NULL)
		return 0;
	json = stat_show_json(&stat->view);
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
	rc = ol_job_key_read("stat", set->key.job_key_file, stat->key);
	if (rc != 0)
		return rc;
	stat->view.coordinator = set->coord.coordinator;
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
	free(stat);
	return rc;
}
