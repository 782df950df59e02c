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
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/key.h"
#include "cmd/logs.h"
#include "cmd/notify.h"
#include "cmd/settings.h"
#include "outlast.h"
#include "outlast/http.h"
#include "outlast/stat.h"
#include "outlast/stat_views.h"
#include "outlast_server.h"

enum {
	COORD_TIMEOUT_MS = 5000,
	ONCE_MS = 300, /* --once: between two looks, to see heartbeats change */
	CELL_MAX = 32 /* of the table */
};

struct stat_set {
	const char *servers;
	const char *json;
	double interval;
	uint32_t shards;
	uint32_t timeout_ms;
	bool once;
	bool traffic;
	bool views;
	const char *listen;
	uint32_t connections_max;
	uint32_t scrape_timeout_ms;
	int log;
	int log_format;
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
	OL_ROW_BOOL(
		stat_set, views, "false",
		"show all that --coordinator keeps, once, and read no server: of --job, or of all "
		"jobs if it is not given"),
	OL_ROW_GROUP("metrics for Prometheus"),
	OL_ROW_STR(
		stat_set, listen, NULL,
		"ADDRESS:PORT, an IPv6 address in brackets: shows nothing, and serves each look as "
		"metrics at http://ADDRESS:PORT/metrics. Whoever reaches it can read: nothing is "
		"authenticated or encrypted, so give an address of a management network, or "
		"127.0.0.1"),
	OL_ROW_U32(stat_set, connections_max, "16", 1, 1024,
		   "of HTTP at once; half of them, rounded up, from one address"),
	OL_ROW_U32(
		stat_set, scrape_timeout_ms, "5000", 10, 600000,
		"until a scrape is answered without the servers that are not read yet; they come "
		"first in the next"),
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
	OL_ROW_CHOICE(stat_set, log_format, "auto", ol_log_formats, OL_LOG_FORMATS_HELP),
};

static const struct ol_rows stat_rows = OL_ROWS(stat_fields);

static const char examples[] =
	"  outlast stat --coordinator zk:10.0.0.9:2181 --job cnn7\n"
	"  outlast stat --coordinator zk:10.0.0.7:2181 --once --json -\n"
	"  outlast stat --servers 10.0.0.1:7471,10.0.0.2:7471 --once\n"
	"  outlast stat --coordinator zk:10.0.0.9:2181 --views\n"
	"  outlast stat --coordinator zk:10.0.0.9:2181 --job cnn7 --listen 192.168.0.1:9470\n"
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
	uint32_t turn; /* metrics: the row whose turn it is to be connected to first */
	struct stat_view view;
	struct stat_view next; /* rows of the present look, being made */
	struct ol_notify notify; /* metrics: the service manager */
	uint64_t looks, turns; /* metrics: scrapes; turns of the loop */
	char url[HTTP_URL_MAX];
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

/* The first view says how many shards the job has, and may come long after the start: 0, or an exit code. */
static int shards_follow(struct stat_look *stat)
{
	struct ol_chains *before = stat->chains;
	struct ol_chain_info info;
	int rc;

	if (stat->set.shards != 0 || ol_chains_get(before, 0, &info) != 0 ||
	    info.shard_count <= stat->view.shard_count || info.shard_count > STAT_SHARDS_MAX)
		return 0;
	rc = chains_open(stat, info.shard_count);
	if (rc == 0)
		ol_chains_close(before);
	return rc;
}

static int chains_find(struct stat_look *stat)
{
	int rc = chains_open(stat, stat->set.shards != 0 ? stat->set.shards : 1);

	return rc != 0 ? rc : shards_follow(stat);
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
	(void)shards_follow(stat);
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
		stat_text(&stat->view, !stat->titled, stdout);
	stat->titled = true;
	if (table && fflush(stdout) != 0 && errno == EPIPE)
		return OL_EXIT_SIGNAL + SIGPIPE; /* its reader has left, and knows */
	if (table && ferror(stdout) != 0)
		return ol_cmd_error(OL_EXIT_FAILED, "stat", "cannot write", "standard output",
				    strerror(errno));
	if (stat->set.json == NULL)
		return 0;
	json = stat_json(&stat->view);
	if (json_write(stat, json) != 0)
		rc = ol_cmd_error(OL_EXIT_FAILED, "stat", "cannot write --json", stat->set.json,
				  json == NULL ? "no memory" : strerror(errno));
	json_decref(json);
	return rc;
}

/* --views: needs no server */
static int views_show(struct stat_look *stat)
{
	const struct stat_set *set = &stat->set;
	const struct ol_coordinator coordinator = {
		.addr = set->coord.coordinator,
		.job = ol_conf_is_set(stat->settings.conf, "job") ? set->coord.job : NULL,
		.job_key = stat->key,
		.timeout_ms = COORD_TIMEOUT_MS,
	};
	const bool table = set->json == NULL || strcmp(set->json, "-") != 0;
	json_t *report = NULL;
	int rc = stat_views(&coordinator, table ? stdout : NULL, &report);

	if (rc == 0 && set->json != NULL && json_write(stat, report) != 0)
		rc = ol_cmd_error(OL_EXIT_FAILED, "stat", "cannot write --json", set->json,
				  report == NULL ? "no memory" : strerror(errno));
	json_decref(report);
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

/* Metrics: a look a scrape */

static bool listen_ended(void *arg)
{
	return signalled(arg);
}

/* Read one row for a scrape; what becomes of a server is said once, on stderr */
static void row_scrape(struct stat_look *stat, struct stat_row *row, bool was)
{
	bool first = row->why[0] == '\0' && row->stat.heartbeat == 0;

	row_read(stat, row);
	if (row->known && (!was || first))
		ol_logs_say(OL_LOG_INFO, "%s: is read", row->addr);
	if (!row->known && (was || first))
		ol_logs_say(OL_LOG_WARN, "%s: cannot be read: %s", row->addr, row->why);
}

/*
 * As look(), within --scrape-timeout-ms. Servers that are connected come first, so that one that is
 * gone costs the others nothing; a connection that has ended is made anew in the same scrape. Who is
 * left out is the first of the next.
 */
static void look_within(struct stat_look *stat)
{
	uint64_t end_ns = ol_clock_ns() + stat->set.scrape_timeout_ms * OL_NS_PER_MS;
	struct stat_view *view = &stat->view;
	bool was[STAT_ROWS_MAX];
	uint32_t first;

	rows_follow(stat);
	for (uint32_t i = 0; i < view->row_count; i++) {
		struct stat_row *row = &view->rows[i];

		was[i] = row->known;
		row->known = false;
		if (row->observer != NULL && ol_clock_ns() < end_ns)
			row_read(stat, row);
	}
	first = view->row_count > 0 ? stat->turn % view->row_count : 0;
	for (uint32_t i = 0; i < view->row_count; i++) {
		uint32_t at = (first + i) % view->row_count;

		if (view->rows[at].known)
			continue;
		if (ol_clock_ns() >= end_ns || signalled(stat)) {
			stat->turn = at;
			break;
		}
		row_scrape(stat, &view->rows[at], was[at]);
	}
	view->now_ns = ol_clock_ns();
}

static int metrics_page(void *arg, const char *accept, const char **ret_type, char **ret_text,
			size_t *ret_bytes)
{
	struct stat_look *stat = arg;
	uint64_t begin_ns = ol_clock_ns();
	const struct ol_series to = { .out = open_memstream(ret_text, ret_bytes),
				      .open = ol_series_open_wanted(accept) };
	bool failed;

	if (to.out == NULL)
		return -errno;
	*ret_type = ol_series_type(&to);
	look_within(stat);
	stat->looks++;
	stat_metrics(&stat->view, ol_clock_ns() - begin_ns, &to);
	failed = ferror(to.out) != 0;
	if (fclose(to.out) == 0 && !failed)
		return 0;
	free(*ret_text);
	return -ENOMEM;
}

static void status_text(const struct stat_look *stat, char text[OL_NOTIFY_STATUS_MAX])
{
	const struct stat_view *view = &stat->view;
	uint32_t known = 0;

	for (uint32_t i = 0; i < view->row_count; i++)
		known += view->rows[i].known ? 1 : 0;
	if (stat->looks == 0)
		snprintf(text, OL_NOTIFY_STATUS_MAX, "serves %s; not scraped yet", stat->url);
	else
		snprintf(text, OL_NOTIFY_STATUS_MAX,
			 "serves %s; %" PRIu64 " scrapes, %" PRIu32 " of %" PRIu32
			 " servers read in the last",
			 stat->url, stat->looks, known, view->row_count);
}

static void listen_ready(void *arg, const char *url)
{
	struct stat_look *stat = arg;
	char text[OL_NOTIFY_STATUS_MAX];

	snprintf(stat->url, sizeof(stat->url), "%s", url);
	status_text(stat, text);
	/* a scrape holds the loop up for so long at most, and one server more */
	ol_notify_patience(&stat->notify,
			   (stat->set.scrape_timeout_ms + stat->set.timeout_ms) * OL_NS_PER_MS);
	ol_notify_ready(&stat->notify, ol_clock_ns(), text);
}

/* The loop's heartbeat is that it turns */
static int listen_turn(void *arg)
{
	struct stat_look *stat = arg;
	char text[OL_NOTIFY_STATUS_MAX];

	status_text(stat, text);
	ol_notify_status(&stat->notify, ol_clock_ns(), text);
	return ol_notify_beat(&stat->notify, ol_clock_ns(), ++stat->turns);
}

static int stat_listen(struct stat_look *stat)
{
	const struct http_opts opts = {
		.cmd = "stat",
		.listen = stat->set.listen,
		.path = "/metrics",
		.connections_max = stat->set.connections_max,
		.signal_fd = stat->signal_fd,
		.ended = listen_ended,
		.ready = listen_ready,
		.turn = listen_turn,
		.page = metrics_page,
		.arg = stat,
	};

	if (stat->set.once || stat->set.json != NULL)
		return ol_settings_fail(&stat->settings, "listen",
					"serves looks, and does not go with --once and --json");
	if (!ol_notify_init(&stat->notify))
		ol_logs_say(OL_LOG_WARN,
			    "outlast stat: NOTIFY_SOCKET is no address that can be reached");
	return http_serve(&opts);
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
	ol_logs_set((enum ol_log_format)set->log_format);
	if (set->servers == NULL && set->coord.coordinator == NULL)
		return ol_cmd_error(OL_EXIT_USAGE, "stat", "give --coordinator or --servers", NULL,
				    NULL);
	if (set->servers != NULL && set->coord.coordinator != NULL)
		return ol_settings_fail(&stat->settings, "servers",
					"is one of two: give --coordinator or --servers");
	if (set->views && (set->listen != NULL || set->servers != NULL || set->traffic))
		return ol_settings_fail(
			&stat->settings, "views",
			"goes with --coordinator alone, not with --servers, --listen or --traffic");
	rc = ol_job_key_read("stat", &set->key, stat->key);
	if (rc != 0)
		return rc;
	if (set->views)
		return views_show(stat);
	stat->view.coordinator = set->coord.coordinator;
	stat->view.traffic = set->traffic;
	stat->view.label = set->coord.job;
	stat->view.job = set->coord.coordinator != NULL ? set->coord.job : NULL;
	rc = set->servers != NULL ? servers_read(stat) : chains_find(stat);
	if (rc == 0) /* before this a signal simply ends the process */
		rc = ol_cmd_signals("stat", &stat->signal_fd);
	if (rc != 0)
		return rc;
	return set->listen != NULL ? stat_listen(stat) : stat_run(stat);
}

int cmd_stat(int argc, char **argv)
{
	struct stat_look *stat = calloc(1, sizeof(*stat));
	struct ol_settings *settings;
	int rc;

	if (stat == NULL)
		return ol_cmd_error(OL_EXIT_RESOURCES, "stat", "no memory", NULL, NULL);
	stat->signal_fd = -1;
	stat->notify.fd = -1;
	settings = &stat->settings;
	settings->cmd = "stat";
	settings->addresses = "servers";
	settings->spec = (struct ol_conf_spec){
		.program = "outlast stat",
		.purpose = "Shows servers and chains: roles, versions, lag, rings, counters, read "
			   "out of the servers' memory without their taking part; again and "
			   "again, or as metrics for Prometheus, until SIGINT, SIGTERM or SIGHUP.",
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
	ol_notify_fini(&stat->notify);
	ol_settings_fini(settings);
	explicit_bzero(stat->key, sizeof(stat->key));
	free(stat);
	return rc;
}
