/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * relay.c -- reads a job's weights once, and serves them to readers
 *
 * Upward it is an observer, downward a server a shard, each with a loop in a thread of its own. The
 * thread of ol_relay_run() waits for a version, pulls it, and hands each shard's part to its server,
 * which copies it: then the next pull may begin.
 */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/owner.h"
#include "base/sized.h"
#include "base/status.h"
#include "base/thread.h"
#include "outlast_server.h"
#include "server/relayed.h"
#include "worker/shown.h"

enum {
	LOOK_MS = 50, /* between two looks at a stop, and at the servers of the job */
	TAKE_MS = 1, /* until a server whose snapshots readers hold tries again */
	ADDRS_MAX = OL_SHARDS_MAX * OL_ADDR_MAX,
};

/* The server of one shard for readers */
struct shard {
	struct ol_relay *relay;
	struct ol_server *server;
	pthread_t thread;
	bool runs;
	uint64_t version; /* that it was given last */
	int rc; /* of its loop */
};

struct ol_relay {
	struct ol_worker *job;
	struct shard shards[OL_SHARDS_MAX];
	uint32_t shard_count;
	uint32_t pause_ms;
	int taken_fd; /* a server has taken a version, or its loop has ended */
	struct ol_owner owner; /* the process that opened it */
	struct ol_op pull; /* in flight while it is not done */
	bool told_down; /* the log says that servers of the job are gone */
	_Atomic int running;
	_Atomic int stopping;
	_Atomic int ended; /* the loop of a server has ended unasked */
	_Atomic uint64_t version;
	_Atomic uint64_t pulls;
	_Atomic uint64_t outages;
	_Atomic uint32_t down;
	_Atomic uint64_t heartbeat; /* stands still while a server does not take what it is given */
	char addrs[ADDRS_MAX];
};

static bool must_end(struct ol_relay *relay)
{
	return atomic_load(&relay->stopping) != 0 || atomic_load(&relay->ended) != 0;
}

/* Count the outages of the job's servers; one line for each beginning and end */
static void job_watch(struct ol_relay *relay)
{
	struct ol_link_stat stat;
	uint64_t outages = 0;
	uint32_t down = 0;

	for (uint32_t i = 0; i < relay->shard_count; i++) {
		if (ol_link_get_stat(relay->job, i, &stat) != 0)
			continue;
		outages += stat.outages;
		down = down || stat.down;
	}
	atomic_store(&relay->outages, outages);
	atomic_store(&relay->down, down);
	atomic_fetch_add(&relay->heartbeat, 1);
	if (down && !relay->told_down)
		ol_log(OL_LOG_WARN,
		       "relay %s: a server of the job is gone: it goes on serving version %llu",
		       relay->addrs, (unsigned long long)atomic_load(&relay->version));
	else if (!down && relay->told_down)
		ol_log(OL_LOG_WARN, "relay %s: the servers of the job are back", relay->addrs);
	relay->told_down = down;
}

/* Begin a pull, and wait until it is done or must_end(); op->done says which */
static int weights_pull(struct ol_relay *relay, int cancel_fd, uint64_t bound_ns)
{
	int rc = ol_pull(relay->job, OL_PULL_NEWEST, &relay->pull);

	while (rc == 0 && !relay->pull.done) {
		rc = ol_worker_wait_for(relay->job, &relay->pull, LOOK_MS);
		rc = rc == -EAGAIN ? 0 : rc;
		job_watch(relay);
		if (must_end(relay) || ol_cancelled(cancel_fd))
			return -ECANCELED;
		if (rc == 0 && !relay->pull.done && ol_clock_ns() > bound_ns)
			return -ETIMEDOUT;
	}
	if (rc == 0)
		atomic_fetch_add(&relay->pulls, 1);
	return rc;
}

static struct ol_relayed relayed_of(const struct ol_shown *shown)
{
	return (struct ol_relayed){ .version = shown->version,
				    .table = shown->table,
				    .weights = shown->weights,
				    .epoch = shown->epoch,
				    .history = shown->history };
}

/* The version of the shard furthest behind is served now */
static uint64_t version_note(struct ol_relay *relay)
{
	uint64_t version = relay->shards[0].version;

	for (uint32_t i = 1; i < relay->shard_count; i++) {
		if (relay->shards[i].version < version)
			version = relay->shards[i].version;
	}
	atomic_store(&relay->version, version);
	return version;
}

/* Wait until the servers have copied what they were given; the mirror is theirs until then */
static void takes_wait(struct ol_relay *relay)
{
	struct pollfd fd = { .fd = relay->taken_fd, .events = POLLIN };
	uint64_t word;

	for (uint32_t i = 0; i < relay->shard_count; i++) {
		struct ol_server *server = relay->shards[i].server;

		while (!ol_relayed_is_taken(server) && !must_end(relay)) {
			if (poll(&fd, 1, TAKE_MS) == 0)
				ol_relayed_wake(server);
			else if (read(relay->taken_fd, &word, sizeof(word)) < 0)
				continue;
		}
	}
}

/* Give each server its part of what was pulled, if it is newer. A shard that went back waits. */
static void versions_publish(struct ol_relay *relay)
{
	for (uint32_t i = 0; i < relay->shard_count; i++) {
		struct shard *shard = &relay->shards[i];
		struct ol_relayed next;
		struct ol_shown shown;

		ol_worker_show(relay->job, i, &shown);
		if (shown.version <= shard->version)
			continue;
		next = relayed_of(&shown);
		ol_relayed_offer(shard->server, &next);
		shard->version = shown.version;
	}
	takes_wait(relay);
	(void)version_note(relay);
}

/* Let pause_ms pass since the last pull began; the connections upward stay awake */
static void pause_wait(struct ol_relay *relay, uint64_t until_ns)
{
	uint64_t now_ns;

	while ((now_ns = ol_clock_ns()) < until_ns && !must_end(relay)) {
		uint64_t left_ms = (until_ns - now_ns) / OL_NS_PER_MS + 1;

		poll(NULL, 0, left_ms < LOOK_MS ? (int)left_ms : LOOK_MS);
		if (ol_worker_poll(relay->job) < 0)
			return; /* the next wait says why */
		job_watch(relay);
	}
}

/* The loop of ol_relay_run(): 0, or why the job can be read no longer */
static int job_follow(struct ol_relay *relay)
{
	while (!must_end(relay)) {
		int rc = ol_wait_version(relay->job, atomic_load(&relay->version) + 1, LOOK_MS);
		uint64_t began_ns = ol_clock_ns();

		job_watch(relay);
		if (rc == -ETIMEDOUT || rc == OL_E_HISTORY)
			continue;
		if (rc == 0)
			rc = weights_pull(relay, -1, UINT64_MAX);
		if (rc == -ECANCELED)
			return 0;
		if (rc == OL_E_TORN) /* overtaken again and again */
			continue;
		if (rc != 0) {
			ol_log(OL_LOG_ERROR, "relay %s: the job cannot be read any more: %s",
			       relay->addrs, ol_strerror(rc));
			return rc;
		}
		versions_publish(relay);
		pause_wait(relay, began_ns + relay->pause_ms * OL_NS_PER_MS);
	}
	return 0;
}

static void *shard_run(void *arg)
{
	struct shard *shard = arg;
	struct ol_relay *relay = shard->relay;
	const uint64_t one = 1;

	shard->rc = ol_server_run(shard->server);
	if (atomic_load(&relay->stopping) == 0)
		atomic_store(&relay->ended, 1);
	if (write(relay->taken_fd, &one, sizeof(one)) < 0)
		return NULL; /* the other thread looks again by itself */
	return NULL;
}

static int shards_start(struct ol_relay *relay)
{
	int rc = 0;

	for (uint32_t i = 0; i < relay->shard_count && rc == 0; i++) {
		rc = ol_thread_start(shard_run, &relay->shards[i], &relay->shards[i].thread);
		relay->shards[i].runs = rc == 0;
	}
	return rc;
}

/* End all loops; the first failure */
static int shards_stop(struct ol_relay *relay)
{
	int rc = 0;

	for (uint32_t i = 0; i < relay->shard_count; i++) {
		struct shard *shard = &relay->shards[i];

		if (!shard->runs)
			continue;
		ol_server_stop(shard->server);
		pthread_join(shard->thread, NULL);
		shard->runs = false;
		rc = rc == 0 ? shard->rc : rc;
	}
	return rc;
}

int ol_relay_run(struct ol_relay *relay)
{
	int rc, ended;

	if (!ol_owner_here(&relay->owner) || atomic_exchange(&relay->running, 1) != 0)
		return OL_E_THREAD;
	rc = ol_worker_adopt(relay->job);
	if (rc == 0)
		rc = shards_start(relay);
	if (rc == 0)
		rc = job_follow(relay);
	ended = shards_stop(relay);
	atomic_store(&relay->running, 0);
	return rc != 0 ? rc : ended;
}

void ol_relay_stop(struct ol_relay *relay)
{
	atomic_store(&relay->stopping, 1);
}

const char *ol_relay_addrs(const struct ol_relay *relay)
{
	return relay->addrs;
}

void ol_relay_get_stat_sized(const struct ol_relay *relay, struct ol_relay_stat *ret_stat,
			     size_t stat_bytes)
{
	struct ol_relay_stat stat = { .version = atomic_load(&relay->version),
				      .pulls = atomic_load(&relay->pulls),
				      .outages = atomic_load(&relay->outages),
				      .down = atomic_load(&relay->down),
				      .shard_count = relay->shard_count,
				      .heartbeat = atomic_load(&relay->heartbeat) };

	ol_sized_give(ret_stat, stat_bytes, &stat, sizeof(stat));
}

static int fail(char *err, size_t err_bytes, int rc, const char *what)
{
	char text[OL_STATUS_TEXT_MAX];

	if (err != NULL && err_bytes > 0)
		snprintf(err, err_bytes, "%s: %s", what, ol_status_text(rc, text));
	return rc;
}

/* The address of a shard in a list; or the one address, and behind it the shard's number */
static int listen_of(const struct ol_relay *relay, const char *list, uint32_t shard,
		     char addr[OL_ADDR_MAX])
{
	const char *at = list;
	uint32_t count = 1;
	int bytes;

	for (const char *c = list; *c != '\0'; c++)
		count += *c == ',';
	if (count != 1 && count != relay->shard_count)
		return -EINVAL;
	for (uint32_t i = 0; count > 1 && i < shard; i++)
		at = strchr(at, ',') + 1;
	if (count == 1 && shard > 0)
		bytes = snprintf(addr, OL_ADDR_MAX, "%s-%u", list, shard);
	else
		bytes = snprintf(addr, OL_ADDR_MAX, "%.*s", (int)strcspn(at, ","), at);
	return bytes > 0 && bytes < OL_ADDR_MAX ? 0 : -EINVAL;
}

static int shard_open(struct ol_relay *relay, uint32_t index, const struct ol_server_opts *readers,
		      char *err, size_t err_bytes)
{
	struct shard *shard = &relay->shards[index];
	struct ol_server_opts opts = *readers;
	char addr[OL_ADDR_MAX];
	struct ol_relayed first;
	struct ol_shown shown;
	size_t used = strlen(relay->addrs);
	int rc = listen_of(relay, readers->listen, index, addr);

	if (rc != 0)
		return fail(err, err_bytes, rc,
			    "listen is neither one address nor one for each shard");
	ol_worker_show(relay->job, index, &shown);
	first = relayed_of(&shown);
	opts.listen = addr;
	rc = ol_relayed_open(&opts, shown.geo, &first, relay->taken_fd, &shard->server, err,
			     err_bytes);
	if (rc != 0)
		return rc;
	shard->relay = relay;
	shard->version = shown.version;
	snprintf(relay->addrs + used, sizeof(relay->addrs) - used, "%s%s", used > 0 ? "," : "",
		 ol_server_addr(shard->server));
	return 0;
}

/* The readers' options as this version knows them; those of an own job or of checkpoints are not
 * for a relay */
static int readers_take(struct ol_server_opts *known, const struct ol_server_opts *readers,
			const char *job_key, char *err, size_t err_bytes)
{
	const char *fault;

	ol_server_opts_init(known);
	fault = ol_sized_take(known, sizeof(*known), readers, readers->size);
	if (fault == NULL && known->listen == NULL)
		fault = "listen is not given";
	if (fault != NULL)
		return fail(err, err_bytes, -EINVAL, fault);
	known->job_key = job_key;
	known->coordinator = NULL;
	known->checkpoint_dir = NULL;
	known->restore = OL_RESTORE_NONE;
	known->selection = OL_SELECT_FULL;
	known->wait = OL_WAIT_ALL;
	known->workers = 1;
	known->slot_memory_max = 0;
	return 0;
}

/* Connect to the job and read it once */
static int job_open(struct ol_relay *relay, const struct ol_worker_opts *given, char *err,
		    size_t err_bytes)
{
	struct ol_worker_opts opts;
	struct ol_job_info info;
	const char *fault;
	int rc;

	ol_worker_opts_init(&opts);
	fault = ol_sized_take(&opts, sizeof(opts), given, given->size);
	if (fault != NULL)
		return fail(err, err_bytes, -EINVAL, fault);
	opts.observer = OL_OBSERVER_READS;
	opts.outage = OL_OUTAGE_WAIT;
	opts.outage_timeout_ms = 0;
	opts.mirror_state = 0;
	rc = ol_worker_open(&opts, &relay->job, err, err_bytes);
	if (rc != 0)
		return rc;
	ol_worker_info(relay->job, &info);
	relay->shard_count = info.shard_count;
	rc = weights_pull(relay, opts.cancel_fd,
			  ol_clock_ns() + opts.connect_timeout_ms * OL_NS_PER_MS);
	return rc == 0 ? 0 : fail(err, err_bytes, rc, "the weights of the job cannot be read");
}

int ol_relay_open(const struct ol_worker_opts *job, const struct ol_server_opts *readers,
		  uint32_t pause_ms, struct ol_relay **ret_relay, char *err, size_t err_bytes)
{
	struct ol_server_opts known;
	struct ol_relay *relay;
	int rc = readers_take(&known, readers, job->job_key, err, err_bytes);

	if (rc != 0)
		return rc;
	relay = calloc(1, sizeof(*relay));
	if (relay == NULL)
		return fail(err, err_bytes, -ENOMEM, "no memory for the relay");
	ol_owner_take(&relay->owner);
	relay->pause_ms = pause_ms;
	relay->taken_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rc = relay->taken_fd >= 0 ? job_open(relay, job, err, err_bytes)
				  : fail(err, err_bytes, -errno, "no descriptor for the relay");
	for (uint32_t i = 0; rc == 0 && i < relay->shard_count; i++)
		rc = shard_open(relay, i, &known, err, err_bytes);
	if (rc != 0) {
		ol_relay_close(relay);
		return rc;
	}
	(void)version_note(relay);
	*ret_relay = relay;
	return 0;
}

void ol_relay_close(struct ol_relay *relay)
{
	if (relay == NULL || !ol_owner_here(&relay->owner))
		return; /* in a child of a fork, which does not own it */
	if (atomic_load(&relay->running) != 0) {
		ol_log(OL_LOG_ERROR, "ol_relay_close(): relay %s still runs; it stays open",
		       relay->addrs);
		return;
	}
	for (uint32_t i = 0; i < relay->shard_count; i++)
		ol_server_close(relay->shards[i].server);
	if (relay->job != NULL && ol_worker_adopt(relay->job) == 0)
		ol_worker_close(relay->job);
	if (relay->taken_fd >= 0)
		close(relay->taken_fd);
	free(relay);
}
