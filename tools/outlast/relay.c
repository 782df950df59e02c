/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * relay.c -- `outlast relay`: reads a job's weights once, for many readers
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/defaults.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/control.h"
#include "cmd/key.h"
#include "cmd/logs.h"
#include "cmd/notify.h"
#include "cmd/settings.h"
#include "outlast_server.h"

enum {
	LOOK_MS = 20, /* between two looks for a signal */
};

struct relay_set {
	const char *connect;
	const char *listen;
	const char *device;
	uint32_t observers_max;
	uint32_t pin_timeout_ms;
	uint32_t pause_ms;
	uint32_t timeout_ms;
	uint32_t spin_us;
	uint32_t ready_fd;
	int log;
	int log_format;
	struct ol_set_lease lease;
	struct ol_set_coord coord;
	struct ol_set_transport transport;
	struct ol_set_key key;
};

static const struct ol_conf_field relay_fields[] = {
	OL_ROW_GROUP("the job that is read"),
	OL_ROW_STR(
		relay_set, connect, NULL,
		"addresses of the job's servers, or of another relay, shard 0 first, with commas "
		"between; instead of --coordinator"),
	OL_ROW_U32(relay_set, timeout_ms, "10000", 10, 3600000,
		   "at the start: until servers that do not answer, or have no weights yet, are "
		   "given up"),
	OL_ROW_U32(
		relay_set, pause_ms, "0", 0, 3600000,
		"read weights at most once in so many milliseconds; 0: each version, as far as it "
		"keeps up"),
	OL_ROW_STR(relay_set, device, NULL,
		   "RDMA device to the servers; without it the one that has the route"),
	OL_ROW_GROUP("its readers"),
	OL_ROW_STR(relay_set, listen, "@outlast-relay",
		   "where readers connect: shm @NAME or a path, or verbs HOST:PORT; an address for "
		   "each shard, with commas between, or one, to which -1, -2, ... is added"),
	OL_ROW_U32(relay_set, observers_max, "256", 1, 1024, "readers that it lets in at once"),
	OL_ROW_U32(
		relay_set, pin_timeout_ms, OL_DEFAULT_TEXT(OL_DEFAULT_PIN_TIMEOUT_MS), 1, 600000,
		"how long an overtaken reader may have the next version wait, so that it can finish; longer than a read of a shard takes"),
	OL_ROW_U32(relay_set, spin_us, OL_DEFAULT_TEXT(OL_DEFAULT_SPIN_US), 0, 10000000,
		   "microseconds that its loop spins before it sleeps"),
	OL_ROW_U32(relay_set, ready_fd, "0", 0, 65535,
		   "descriptor that gets the addresses and a newline once it listens; 0: none"),
	OL_ROW_CHOICE(relay_set, log, "warn", ol_log_levels,
		      "least important messages that are shown"),
	OL_ROW_CHOICE(relay_set, log_format, "auto", ol_log_formats, OL_LOG_FORMATS_HELP),
};

static const struct ol_rows relay_rows = OL_ROWS(relay_fields);

static const char examples[] =
	"  outlast relay --connect 10.0.0.1:7471,10.0.0.2:7471 --listen @weights\n"
	"  outlast relay --coordinator zk:10.0.0.9:2181 --job cnn7 --job-key-file look.key\n";

/* One run, and the thread that watches for its end */
struct relay {
	struct ol_settings settings;
	struct relay_set set;
	struct ol_control control;
	struct ol_notify notify; /* the service manager */
	struct ol_relay *relay;
	char key[OL_JOB_KEY_MAX];
	_Atomic int done;
};

static int relay_open(struct relay *relay)
{
	const struct relay_set *set = &relay->set;
	struct ol_server_opts readers;
	struct ol_worker_opts job;
	char err[512] = "";
	int rc;

	ol_worker_opts_init(&job);
	job.servers = set->connect;
	job.coordinator = set->coord.coordinator;
	job.job = set->coord.job;
	job.transport = ol_transport_name(set->transport.transport);
	job.device = set->device;
	job.job_key = relay->key;
	job.connect_timeout_ms = set->timeout_ms;
	job.lease_ms = set->lease.lease_ms;
	job.spin_us = set->spin_us;
	job.cancel_fd = relay->control.signal_fd;
	ol_server_opts_init(&readers);
	readers.listen = set->listen;
	readers.observers_max = set->observers_max;
	readers.pin_timeout_ms = set->pin_timeout_ms;
	readers.spin_us = set->spin_us;
	rc = ol_relay_open(&job, &readers, set->pause_ms, &relay->relay, err, sizeof(err));
	if (rc == -ECANCELED)
		return ol_control_cancelled(&relay->control);
	if (rc != 0)
		return ol_cmd_error(job.coordinator != NULL ? ol_cmd_exit_of_coord(rc)
							    : ol_cmd_exit_of(rc),
				    "relay", err, NULL, ol_cmd_remedy(rc));
	return 0;
}

static void status_text(const struct ol_relay_stat *stat, char text[OL_NOTIFY_STATUS_MAX])
{
	snprintf(text, OL_NOTIFY_STATUS_MAX,
		 "version %" PRIu64 " of %u shard%s, %" PRIu64 " reads of the job%s", stat->version,
		 stat->shard_count, stat->shard_count == 1 ? "" : "s", stat->pulls,
		 stat->down != 0 ? ", of which a server is gone" : "");
}

static int ready_say(struct relay *relay)
{
	const char *addrs = ol_relay_addrs(relay->relay);
	char text[OL_NOTIFY_STATUS_MAX];
	struct ol_relay_stat stat;

	ol_relay_get_stat(relay->relay, &stat);
	if (relay->set.ready_fd != 0 && dprintf((int)relay->set.ready_fd, "%s\n", addrs) < 0)
		return ol_cmd_error(OL_EXIT_USAGE, "relay", "cannot write to --ready-fd", NULL,
				    strerror(errno));
	if (relay->set.ready_fd != 0)
		close((int)relay->set.ready_fd);
	ol_logs_say(OL_LOG_INFO,
		    "relay at %s: serves version %" PRIu64 " of %u shards to up to %u readers",
		    addrs, stat.version, stat.shard_count, relay->set.observers_max);
	if (relay->key[0] == '\0')
		ol_logs_say(OL_LOG_WARN,
			    "outlast relay: no job key: anyone who can reach %s can read; give "
			    "--job-key-file or OUTLAST_JOB_KEY",
			    addrs);
	status_text(&stat, text);
	ol_notify_patience(&relay->notify, relay->set.pin_timeout_ms * OL_NS_PER_MS);
	ol_notify_ready(&relay->notify, ol_clock_ns(), text);
	return 0;
}

static void manager_tell(struct relay *relay)
{
	char text[OL_NOTIFY_STATUS_MAX];
	struct ol_relay_stat stat;

	if (!ol_notify_wanted(&relay->notify))
		return;
	ol_relay_get_stat(relay->relay, &stat);
	status_text(&stat, text);
	ol_notify_status(&relay->notify, ol_clock_ns(), text);
	(void)ol_notify_beat(&relay->notify, ol_clock_ns(), stat.heartbeat);
}

static void *watch(void *arg)
{
	struct relay *relay = arg;

	while (!atomic_load(&relay->done)) {
		ol_control_poll(&relay->control, LOOK_MS);
		manager_tell(relay);
		if (relay->control.quit || relay->control.stop_at == 0) {
			ol_notify_stopping(&relay->notify, "it was told to end");
			ol_relay_stop(relay->relay);
			break;
		}
	}
	return NULL;
}

static int relay_run(struct relay *relay)
{
	struct ol_relay_stat stat;
	pthread_t watcher;
	int rc = ready_say(relay);

	if (rc != 0)
		return rc;
	rc = pthread_create(&watcher, NULL, watch, relay);
	if (rc != 0)
		return ol_cmd_error(OL_EXIT_RESOURCES, "relay", "cannot start a thread", NULL,
				    strerror(rc));
	rc = ol_relay_run(relay->relay);
	atomic_store(&relay->done, 1);
	pthread_join(watcher, NULL);
	ol_relay_get_stat(relay->relay, &stat);
	printf("version %" PRIu64 ", %" PRIu64 " reads of the job, %" PRIu64
	       " times a server of it was lost\n",
	       stat.version, stat.pulls, stat.outages);
	if (rc != 0)
		return ol_cmd_error(ol_cmd_exit_of(rc), "relay", "the relay failed",
				    ol_strerror(rc), NULL);
	return 0;
}

static int relay_start(struct relay *relay)
{
	const struct relay_set *set = &relay->set;
	int rc;

	ol_log_level_set((enum ol_log_level)set->log);
	ol_logs_set((enum ol_log_format)set->log_format);
	if ((set->connect != NULL) == (set->coord.coordinator != NULL))
		return ol_cmd_error(OL_EXIT_USAGE, "relay",
				    "give one of --connect and --coordinator", NULL, NULL);
	rc = ol_job_key_read("relay", &set->key, relay->key);
	if (rc != 0)
		return rc;
	if (!ol_notify_init(&relay->notify))
		ol_logs_say(OL_LOG_WARN,
			    "outlast relay: NOTIFY_SOCKET is no address that can be reached");
	rc = ol_control_init(&relay->control, -1);
	if (rc != 0)
		return ol_cmd_error(OL_EXIT_RESOURCES, "relay", "cannot take signals", NULL,
				    ol_strerror(rc));
	rc = relay_open(relay);
	return rc != 0 ? rc : relay_run(relay);
}

int cmd_relay(int argc, char **argv)
{
	struct relay relay = {
		.settings = { .cmd = "relay",
			      .addresses = "connect",
			      .spec = { .program = "outlast relay",
					.purpose =
						"Reads the weights of a job, as an observer, and serves "
						"them to readers of its own, until SIGTERM, SIGINT or "
						"SIGHUP. Readers connect to it as to the servers; "
						"however many they are, they cost the servers one. "
						"While the servers are gone it goes on serving the "
						"last version. It lets in no worker.",
					.examples = examples } },
		.control = { .signal_fd = -1, .parent_fd = -1 },
		.notify = { .fd = -1 },
	};
	struct ol_settings *settings = &relay.settings;
	int rc;

	ol_settings_add(settings, relay_rows, 0);
	ol_settings_add(settings, ol_rows_lease, offsetof(struct relay_set, lease));
	ol_settings_add(settings, ol_rows_transport, offsetof(struct relay_set, transport));
	ol_settings_add(settings, ol_rows_key, offsetof(struct relay_set, key));
	ol_settings_add(settings, ol_rows_coord, offsetof(struct relay_set, coord));
	if (ol_settings_load(settings, &relay.set, argc, argv, &rc))
		rc = relay_start(&relay);
	ol_relay_close(relay.relay);
	ol_control_fini(&relay.control);
	ol_notify_fini(&relay.notify);
	ol_settings_fini(settings);
	explicit_bzero(relay.key, sizeof(relay.key));
	return rc;
}
