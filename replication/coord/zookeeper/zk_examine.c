/* SPDX-License-Identifier: BSD-3-Clause */

/* zk_examine.c -- can jobs use an ensemble: its servers, sessions, rights and latencies */

#include "replication/coord/zookeeper/zk_client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "replication/coord/lease.h"

enum {
	SERVERS_MAX = 16,
	CLIENTS_FEW = 64, /* sessions of one address; each process of a job has one */
	CLOCK_OFF_MS = 1000,
	SLOW_MS = 50, /* of a write: a view's change takes one */
	NAME_BYTES = 40,
};

struct exam {
	struct zk_client client;
	struct ol_asker *asker;
	uint32_t wanted_ms; /* session of a server of this lease */
	uint32_t rounds;
	struct zk_server servers[SERVERS_MAX];
	uint32_t count, reached, serving, leaders, alone;
};

/* Servers, each alone */

static void server_tell(struct exam *exam, const struct zk_server *server)
{
	char subject[OL_ENDPOINT_MAX + 4],
		limit[64] = "not told, as its 4lw.commands.whitelist has no conf";

	snprintf(subject, sizeof(subject), "zk %s", server->addr);
	if (!server->serves) {
		ol_ask_find(exam->asker, OL_COORD_WARN, subject,
			    server->reached
				    ? "look at its log; `srvr` of the others says who is there"
				    : "start it, and see that nothing is in between",
			    "%s: %s", server->reached ? "does not serve" : "cannot be reached",
			    server->why);
		return;
	}
	ol_ask_figure(exam->asker, "connect_ms", (double)server->connect_ns / 1e6);
	ol_ask_figure(exam->asker, "session_ms", (double)server->session_ns / 1e6);
	ol_ask_figure(exam->asker, "clients", server->clients);
	ol_ask_figure(exam->asker, "session_timeout_min_ms", server->session_min_ms);
	ol_ask_figure(exam->asker, "session_timeout_max_ms", server->session_max_ms);
	if (server->clients_max >= 0) {
		ol_ask_figure(exam->asker, "clients_of_an_address_max", server->clients_max);
		snprintf(limit, sizeof(limit), "%" PRId32, server->clients_max);
	}
	if (server->clients_max == 0)
		snprintf(limit, sizeof(limit), "without limit");
	ol_ask_find(
		exam->asker, OL_COORD_FINE, subject, NULL,
		"%s, version %s, %" PRIu32 " connections (of one address at most: %s); reached in "
		"%.1f ms, a session in %.1f ms",
		server->tells ? server->mode : "serves (its 4lw.commands.whitelist has no srvr)",
		server->tells ? server->version : "not told", server->clients, limit,
		(double)server->connect_ns / 1e6, (double)server->session_ns / 1e6);
}

static void servers_look(struct exam *exam)
{
	const char *at = exam->client.address.hosts;

	while (exam->count < SERVERS_MAX) {
		size_t bytes = strcspn(at, ",");
		struct zk_server *server = &exam->servers[exam->count++];

		zk_server_look(at, bytes, exam->client.ask->timeout_ms, server);
		exam->reached += server->reached;
		exam->serving += server->serves;
		exam->leaders += server->serves && strcmp(server->mode, "leader") == 0;
		exam->alone += server->serves && strcmp(server->mode, "standalone") == 0;
		server_tell(exam, server);
		if (at[bytes] == '\0')
			return;
		at += bytes + 1;
	}
}

static void quorum_tell(struct exam *exam)
{
	static const char subject[] = "quorum";

	ol_ask_figure(exam->asker, "servers", exam->count);
	ol_ask_figure(exam->asker, "serving", exam->serving);
	if (exam->alone > 0 && exam->count > 1)
		ol_ask_find(
			exam->asker, OL_COORD_BAD, subject,
			"make one ensemble of them (server.N=… in each zoo.cfg), or give one address",
			"%" PRIu32
			" of these servers are alone: they keep different views, and a job "
			"falls apart between them",
			exam->alone);
	else if (exam->leaders > 1)
		ol_ask_find(exam->asker, OL_COORD_BAD, subject, "give the servers of one ensemble",
			    "these are servers of %" PRIu32 " ensembles: each has a leader",
			    exam->leaders);
	else if (exam->serving == 0 && exam->reached > 0)
		ol_ask_find(exam->asker, OL_COORD_BAD, subject,
			    "ask again in some seconds; if it stays so, start the other servers of "
			    "the ensemble, or see that these reach them",
			    "%" PRIu32 " of %" PRIu32 " servers run, and none serves: they elect a "
			    "leader, or are too few to have one",
			    exam->reached, exam->count);
	else if (exam->serving == 0)
		ol_ask_find(exam->asker, OL_COORD_BAD, subject,
			    "start ZooKeeper, and see that nothing is in between",
			    "none of the servers serves");
	else if (exam->count == 1)
		ol_ask_find(
			exam->asker, OL_COORD_WARN, subject,
			"three servers on three hosts; all in the address, as clients try them in turn",
			"one server is given: while it is away no chain can change");
	else if (exam->serving < exam->count)
		ol_ask_find(exam->asker, OL_COORD_WARN, subject, "start the others",
			    "%" PRIu32 " of %" PRIu32 " servers serve", exam->serving, exam->count);
	else
		ol_ask_find(exam->asker, OL_COORD_FINE, subject, NULL,
			    "all %" PRIu32
			    " servers serve; the ensemble works while more than half of "
			    "its servers do",
			    exam->count);
}

static void sessions_tell(struct exam *exam)
{
	static const char subject[] = "sessions";
	uint32_t least = 0, most = UINT32_MAX,
		 granted = (uint32_t)zoo_recv_timeout(exam->client.zh);
	char remedy[160];

	for (uint32_t i = 0; i < exam->count; i++) {
		if (!exam->servers[i].serves)
			continue;
		if (exam->servers[i].session_min_ms > least)
			least = exam->servers[i].session_min_ms;
		if (exam->servers[i].session_max_ms < most)
			most = exam->servers[i].session_max_ms;
	}
	ol_ask_figure(exam->asker, "asked_ms", exam->wanted_ms);
	ol_ask_figure(exam->asker, "granted_ms", granted);
	ol_ask_figure(exam->asker, "min_ms", least);
	ol_ask_figure(exam->asker, "max_ms", most);
	if (most < exam->wanted_ms) {
		snprintf(remedy, sizeof(remedy),
			 "maxSessionTimeout=%" PRIu32
			 " in zoo.cfg (by itself it is 20 ticks), or a "
			 "lease of at most %" PRIu32 " ms",
			 exam->wanted_ms, most / OL_LEASE_SESSION);
		ol_ask_find(
			exam->asker, OL_COORD_WARN, subject, remedy,
			"a server of this lease asks for %" PRIu32 " ms, and %" PRIu32
			" ms is the longest that is granted: with --refound it does not start, and "
			"without it loses its place after so long a silence",
			exam->wanted_ms, most);
	} else if (least > exam->wanted_ms) {
		ol_ask_find(exam->asker, OL_COORD_WARN, subject,
			    "a lower minSessionTimeout (by itself it is 2 ticks)",
			    "a server of this lease asks for %" PRIu32
			    " ms, and is granted %" PRIu32
			    " ms: a host that is gone is noticed as late",
			    exam->wanted_ms, granted);
	} else {
		ol_ask_find(exam->asker, OL_COORD_FINE, subject, NULL,
			    "a server of this lease asks for %" PRIu32
			    " ms, and is granted %" PRIu32 " ms; %" PRIu32 " to %" PRIu32
			    " ms are possible",
			    exam->wanted_ms, granted, least, most);
	}
}

static void clients_tell(struct exam *exam)
{
	for (uint32_t i = 0; i < exam->count; i++)
		if (exam->servers[i].clients_max > 0 &&
		    exam->servers[i].clients_max < CLIENTS_FEW) {
			ol_ask_find(
				exam->asker, OL_COORD_WARN, "clients",
				"maxClientCnxns=0 in zoo.cfg, or above the processes of a job on one "
				"host",
				"%s takes %" PRId32
				" connections from one address; each server and "
				"worker of a job has one, and those beyond are turned away",
				exam->servers[i].addr, exam->servers[i].clients_max);
			return;
		}
}

/* A node of its own: written, read, synced */

static const char *place(struct exam *exam)
{
	const char *chroot = exam->client.address.chroot;

	if (zoo_exists(exam->client.zh, exam->client.folder, 0, NULL) == ZOK)
		return exam->client.folder;
	return chroot;
}

struct times {
	uint64_t *write, *read, *sync;
	int64_t ahead_ms; /* the leader's clock, in the fastest round */
	uint64_t fastest_ns;
};

/* One round; the library's error */
static int round_run(struct exam *exam, const char *path, uint32_t index, struct times *times)
{
	zhandle_t *zh = exam->client.zh;
	const int64_t wall_ms = ol_ask_wall_ms();
	uint64_t at_ns = ol_coord_now_ns(), now_ns;
	char text[OL_VIEW_TEXT_MAX / 4] = "";
	int bytes = sizeof(text), rc;
	struct Stat stat;

	rc = zoo_set2(zh, path, text, sizeof(text), -1, &stat);
	if (rc != ZOK)
		return rc;
	now_ns = ol_coord_now_ns();
	times->write[index] = now_ns - at_ns;
	if (times->write[index] < times->fastest_ns) {
		times->fastest_ns = times->write[index];
		times->ahead_ms = stat.mtime - (wall_ms + ol_ask_wall_ms()) / 2;
	}
	at_ns = ol_coord_now_ns();
	rc = zoo_get(zh, path, 0, text, &bytes, &stat);
	if (rc != ZOK)
		return rc;
	now_ns = ol_coord_now_ns();
	times->read[index] = now_ns - at_ns;
	rc = zk_client_sync(&exam->client, path);
	times->sync[index] = ol_coord_now_ns() - now_ns;
	return rc;
}

static void times_tell(struct exam *exam, struct times *times)
{
	static const char remedy[] =
		"a disk of its own for its log (dataLogDir), a nearer network, or less load";
	const bool off = times->ahead_ms > CLOCK_OFF_MS || times->ahead_ms < -CLOCK_OFF_MS;

	ol_ask_latency(exam->asker, "write", "a write, as a view's change is", times->write,
		       exam->rounds, SLOW_MS * ZK_NS_PER_MS, remedy);
	ol_ask_latency(exam->asker, "read", "a read", times->read, exam->rounds, 0, NULL);
	ol_ask_latency(exam->asker, "sync", "a sync, as a sign of life is", times->sync,
		       exam->rounds, SLOW_MS * ZK_NS_PER_MS, remedy);
	ol_ask_figure(exam->asker, "ahead_ms", (double)times->ahead_ms);
	ol_ask_find(exam->asker, off ? OL_COORD_WARN : OL_COORD_FINE, "clock",
		    off ? "let NTP or PTP set both" : NULL,
		    "the leader's is %" PRId64
		    " ms %s this machine's: the ages of what it keeps are by "
		    "it, and nothing else is",
		    times->ahead_ms >= 0 ? times->ahead_ms : -times->ahead_ms,
		    times->ahead_ms >= 0 ? "ahead of" : "behind");
}

/* 0, or -errno after a finding */
static int rounds_run(struct exam *exam, const char *path)
{
	struct times times = { .fastest_ns = UINT64_MAX };
	uint64_t *all = calloc(3 * (size_t)exam->rounds, sizeof(*all));
	int rc = all == NULL ? ZSYSTEMERROR : ZOK;

	times.write = all;
	for (uint32_t i = 0; i < exam->rounds && rc == ZOK; i++) {
		times.read = all + exam->rounds;
		times.sync = all + 2 * (size_t)exam->rounds;
		rc = round_run(exam, path, i, &times);
	}
	if (rc == ZOK)
		times_tell(exam, &times);
	else
		ol_ask_find(exam->asker, OL_COORD_BAD, "write",
			    "look at the servers' logs, and that nothing is in between", "%s: %s",
			    path, zerror(rc));
	free(all);
	return rc == ZOK ? 0 : -EIO;
}

static int place_try(struct exam *exam)
{
	zhandle_t *zh = exam->client.zh;
	char path[ZK_PATH_MAX];
	const char *at = place(exam);
	uint64_t tag = 0;
	int rc;

	if (getrandom(&tag, sizeof(tag), 0) != (ssize_t)sizeof(tag))
		return -EIO;
	/* no name of a job begins with a dot */
	snprintf(path, sizeof(path), "%.*s/.doctor-%016" PRIx64, ZK_ROOT_MAX, at, tag);
	rc = zoo_create(zh, path, "", 0, &exam->client.access.acl, ZOO_EPHEMERAL, NULL, 0);
	if (rc == ZOK) {
		rc = rounds_run(exam, path);
		(void)zoo_delete(zh, path, -1);
		return rc;
	}
	ol_ask_find(
		exam->asker, OL_COORD_BAD, "rights",
		rc == ZNOAUTH
			? "a user that has the right: zk:HOST:PORT/CHROOT?auth=FILE, FILE with a "
			  "line user:password"
			: "look at the servers' logs",
		"no node can be made in %s: %s", at[0] != '\0' ? at : "/", zerror(rc));
	return rc == ZNOAUTH ? -EACCES : -EIO;
}

/* What is there, and who else may change it */

static void kept_tell(struct exam *exam)
{
	struct ol_ask_jobs jobs = { 0 };
	char err[OL_COORD_LINE_MAX];

	if (zk_list_all(&exam->client, ol_ask_jobs_on_kept, &jobs, err, sizeof(err)) != 0) {
		ol_ask_find(exam->asker, OL_COORD_WARN, "jobs", "ask again", "%s", err);
		return;
	}
	ol_ask_jobs_tell(exam->asker, &jobs, true);
	if (jobs.open > 0)
		ol_ask_find(
			exam->asker, OL_COORD_WARN, "rights",
			"give the next job a key (--job-key-file, of outlast keygen), or all its "
			"processes a user of ZooKeeper (?auth=FILE)",
			"%" PRIu32
			" jobs, as %s, may be changed by anybody who reaches the ensemble "
			"(world:anyone)",
			jobs.open, jobs.an_open);
}

/* The list of the node below which all is kept */
static void root_tell(struct exam *exam)
{
	struct ACL_vector acl = { 0 };
	const char *at = place(exam);
	struct Stat stat;
	unsigned found;
	int rc;

	rc = zoo_get_acl(exam->client.zh, at[0] != '\0' ? at : "/", &acl, &stat);
	if (rc != ZOK) {
		ol_ask_find(exam->asker, OL_COORD_FINE, "root", NULL,
			    "%s is there; who has access is not told to this user", at);
		return;
	}
	found = zk_access_list(&exam->client.access, &acl);
	deallocate_ACL_vector(&acl);
	if ((found & ZK_LIST_OPEN) == 0)
		ol_ask_find(exam->asker, OL_COORD_FINE, "root", NULL,
			    "in %s only the users of its list may begin jobs", at);
	else
		ol_ask_find(exam->asker, OL_COORD_WARN, "root",
			    "a node of your own: outlast coord --make-root --coordinator "
			    "zk:HOST:PORT/CHROOT?auth=FILE",
			    "anybody who reaches the ensemble may begin jobs in %s (world:anyone)",
			    at[0] != '\0' ? at : "/");
}

static int session_look(struct exam *exam, char *err, size_t err_bytes)
{
	int rc;

	sessions_tell(exam);
	clients_tell(exam);
	rc = zk_client_no_root(&exam->client, err, err_bytes);
	if (rc != 0) {
		ol_ask_find(exam->asker, OL_COORD_BAD, "root", "outlast coord --make-root", "%s",
			    err);
		return rc;
	}
	root_tell(exam);
	rc = place_try(exam);
	if (rc == 0)
		kept_tell(exam);
	else
		snprintf(err, err_bytes, "jobs cannot use it");
	return rc;
}

int zk_examine(const struct ol_coord_ask *ask, uint32_t lease_ms, uint32_t rounds,
	       struct ol_asker *asker, char *err, size_t err_bytes)
{
	struct exam *exam = calloc(1, sizeof(*exam));
	struct ol_coord_ask all = *ask;
	int rc;

	if (exam == NULL) {
		snprintf(err, err_bytes, "no memory");
		return -ENOMEM;
	}
	all.job = NULL;
	exam->asker = asker;
	exam->wanted_ms = ol_lease_session_ms(lease_ms);
	exam->rounds = rounds;
	exam->client.ask = &all;
	rc = zk_address_read(ask->addr, &exam->client.address, err, err_bytes);
	if (rc == 0) {
		servers_look(exam);
		quorum_tell(exam);
		rc = zk_client_open(&exam->client, &all, exam->wanted_ms, err, err_bytes);
	}
	if (rc == 0) {
		rc = session_look(exam, err, err_bytes);
		zk_client_close(&exam->client);
	}
	if (rc == 0 && asker->bad) {
		snprintf(err, err_bytes, "jobs cannot use it");
		rc = -EIO;
	}
	free(exam);
	return rc;
}
