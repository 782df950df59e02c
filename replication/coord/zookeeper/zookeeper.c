/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * zookeeper.c -- views and members in a ZooKeeper ensemble
 *
 *	CHROOT/outlast                    any client may add a job, or the user of a file (zk_address.h)
 *	CHROOT/outlast/JOB                from here on: holders of the secrets, if there are any
 *	…/JOB/shardN/view                 text of the view; its data version + 1 is our version
 *	…/JOB/shardN/members/ID           ID in 16 hex digits; ephemeral; text of the member
 *
 * Lease. A sign of life is sent every quarter of the session's timeout. It is a sync, so the leader
 * answers it, not only the server at the other end of the connection. Every half tick that server
 * tells the leader which sessions it has heard of, and a session is at least two ticks long. So an
 * answer proves that the leader knows of the sign before, if at least half a tick lies between the
 * answer to that sign and this sign. Therefore the quarter of a session counts from the answer,
 * which may be late, and the lease counts from when the sign before was sent.
 */

#include "replication/coord/zookeeper/zk_client.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
	LEAVE_MS = 500, /* stop() waits this long for the answer that the member is gone */
	OPEN_AGAIN_MS = 200, /* between attempts to make a handle */
	SIGNS = 4, /* of life in a session's time-out */
};

/* Paths and rights */

void zk_path_shard(const struct zk *zk, uint32_t shard, const char *below, char path[ZK_PATH_MAX])
{
	snprintf(path, ZK_PATH_MAX, "%s/shard%" PRIu32 "%s", zk->root, shard, below);
}

void zk_path_member(const struct zk *zk, uint32_t shard, uint64_t id, char path[ZK_PATH_MAX])
{
	snprintf(path, ZK_PATH_MAX, "%s/shard%" PRIu32 "/members/%016" PRIx64, zk->root, shard, id);
}

/* Failures, and reports to the handle */

static uint64_t after_ms(uint64_t ms)
{
	return ol_coord_now_ns() + ms * ZK_NS_PER_MS;
}

void zk_trouble(struct zk *zk, const char *what, int rc)
{
	if (rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT || rc == ZCLOSING ||
	    rc == ZSESSIONEXPIRED || rc == ZINVALIDSTATE || rc == ZAUTHFAILED)
		return;
	if (!zk->troubled)
		ol_coord_log(zk->coord, "zookeeper: %s: %s", what, zerror(rc));
	zk->troubled = true;
	zk->retry_ns = after_ms(zk->timeout_ms / SIGNS);
}

static void refuse(struct zk *zk, int rc, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void refuse(struct zk *zk, int rc, const char *format, ...)
{
	char why[OL_COORD_LINE_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	if (zk->settled && !zk->troubled)
		ol_coord_log(zk->coord, "zookeeper: %s", why);
	zk->troubled = zk->settled = true;
	zk->retry_ns = after_ms(zk->timeout_ms);
	ol_coord_settle(zk->coord, rc, why);
}

static void access_refuse(struct zk *zk, const char *why)
{
	refuse(zk, -EACCES, "%s", why);
}

bool zk_watches(const struct zk *zk, uint32_t shard)
{
	uint64_t watched = zk->coord->opts.watched;

	return watched == 0 || (watched >> shard & 1) != 0;
}

void zk_settle(struct zk *zk)
{
	if (!zk->connected)
		return;
	for (uint32_t i = 0; i < zk->coord->opts.shard_count; i++)
		if (zk_watches(zk, i) &&
		    (!zk->shards[i].view_known || !zk->shards[i].members_known))
			return;
	zk->settled = true;
	ol_coord_settle(zk->coord, 0, NULL);
}

static void tell_session(struct zk *zk)
{
	if (!zk->up || !zk->granted || zk->forgotten || zk->lease_ns <= ol_coord_now_ns())
		return;
	zk->connected = true;
	ol_coord_set_session(zk->coord, true, zk->lease_ns);
	zk_settle(zk);
}

static void tell_away(struct zk *zk, const char *why)
{
	if (zk->forgotten)
		return;
	if (zk->connected)
		ol_coord_log(zk->coord, "zookeeper: %s", why);
	zk->connected = false;
	ol_coord_set_session(zk->coord, false, zk->lease_ns);
}

void zk_forget(struct zk *zk, uint32_t shard)
{
	if (zk->forgotten)
		return;
	ol_coord_log(zk->coord,
		     "zookeeper: the view of shard %" PRIu32
		     " was lost, or deleted, or an older one is back: chains cannot change any "
		     "more; running servers and workers go on. Start the job again under another "
		     "name",
		     shard);
	zk->forgotten = true;
	zk->connected = false;
	/* a chain founded there anew has another history: the lease ends with the process */
	ol_coord_set_session(zk->coord, false, UINT64_MAX);
}

/* Access, then everything */

/* It is no failure if a folder exists */
static void root_make(struct zk *zk)
{
	const struct zk_ref *ref = &zk->shards[0].refs[ZK_MADE];
	struct ACL_vector acl;
	struct ACL entries[2];
	int rc;

	zk->made = true;
	zk_access_folder(&zk->access, entries, &acl);
	rc = zoo_acreate(zk->zh, zk->folder, "", 0, &acl, ZOO_PERSISTENT, zk_on_string, ref);
	if (rc == ZOK)
		rc = zoo_acreate(zk->zh, zk->root, "", 0, &zk->access.acl, ZOO_PERSISTENT,
				 zk_on_string, ref);
	if (rc != ZOK)
		zk_trouble(zk, zk->root, rc);
}

static void access_ask(struct zk *zk)
{
	int rc = zoo_aget_acl(zk->zh, zk->root, zk_on_acl, &zk->shards[0].refs[ZK_ACCESS]);

	if (rc != ZOK)
		zk_trouble(zk, zk->root, rc);
}

static bool introduce(struct zk *zk)
{
	int rc = zk->introduced ? ZOK : zk_access_introduce(&zk->access, zk->zh);

	zk->introduced = rc == ZOK;
	if (rc != ZOK)
		zk_trouble(zk, "password", rc);
	return zk->introduced;
}

void zk_wait(struct zk *zk)
{
	zk->retry_ns = after_ms(OPEN_AGAIN_MS);
}

/* At the start of a session, after a connection was lost, after trouble */
static void session_begin(struct zk *zk)
{
	zk->retry_ns = 0;
	zk->made = false;
	for (uint32_t i = 0; i < zk->coord->opts.shard_count; i++)
		zk->shards[i].made = zk->shards[i].view_seen = false;
	if (introduce(zk))
		access_ask(zk);
}

/* access_missing -- there is no node of the job */
static void access_missing(struct zk *zk)
{
	const char *chroot = zk->address.chroot;

	if (zk_access_only_reads(&zk->access)) {
		if (!zk->waits)
			ol_coord_log(zk->coord,
				     "zookeeper: no server has begun the job yet: waiting for one");
		zk->waits = true;
		zk_wait(zk);
	} else if (!zk->made) {
		root_make(zk);
		access_ask(zk);
	} else if (chroot[0] != '\0') {
		refuse(zk, -ENOENT,
		       "there is no node %s in the ensemble: make it (outlast coord --make-root), or "
		       "correct the address",
		       chroot);
	} else {
		zk_trouble(zk, zk->root, ZNONODE);
	}
}

/* access_closed -- the job is there, and this client may not read it */
static void access_closed(struct zk *zk)
{
	const bool keyless = zk->access.keyless || zk->access.password[0] == '\0';

	if (!keyless)
		access_refuse(zk, "the job was begun with another secret: give its job key");
	else if (zk->access.credential[0] != '\0')
		access_refuse(zk,
			      "the job was begun with a secret, or by another user than that of "
			      "?auth=FILE, or with another password");
	else
		access_refuse(
			zk,
			"the job was begun with a secret, and none was given: give its job key");
}

static void access_answer(struct zk *zk, const struct zk_event *event)
{
	const bool open = (event->number & ZK_LIST_OPEN) != 0;
	const bool filed = zk->access.keyless && zk->access.credential[0] != '\0';

	if (event->rc == ZNONODE) {
		access_missing(zk);
		return;
	}
	if (event->rc == ZNOAUTH) {
		access_closed(zk);
		return;
	}
	if (event->rc != ZOK) {
		zk_trouble(zk, zk->root, event->rc);
		return;
	}
	if (zk->access.password[0] != '\0' && (event->number & ZK_LIST_OURS) == 0 &&
	    !(open && filed)) {
		access_refuse(
			zk,
			open ? "the job was begun without a secret: delete its node, or use another "
			       "name"
			     : "the job was begun with another secret, or by another user: give its "
			       "key, and the ?auth=FILE that it was begun with");
		return;
	}
	if (filed && open && !zk->exposed) {
		ol_coord_log(zk->coord,
			     "zookeeper: the job was begun without ?auth=FILE and without a "
			     "key: anybody who reaches the ensemble may change its views");
		zk->exposed = true;
		zk->access.acl = zk->access.open_acl; /* those who began it must be able to read */
	}
	if (!zk->up)
		return;
	zk->granted = true;
	for (uint32_t i = 0; i < zk->coord->opts.shard_count; i++) {
		if (!zk_watches(zk, i))
			continue;
		zk_view_read(zk, i);
		zk_members_list(zk, i);
	}
	tell_session(zk);
}

static void made_answer(struct zk *zk, int rc)
{
	if (rc == ZNOAUTH && zk->access.credential[0] != '\0')
		refuse(zk, -EACCES,
		       "the user of %s has no right to make nodes under %s: another password?",
		       zk->address.file, zk->folder);
	else if (rc == ZNOAUTH)
		refuse(zk, -EACCES,
		       "no right to make nodes under %s: give a user that has it, by ?auth=FILE",
		       zk->folder);
	else if (rc != ZOK && rc != ZNODEEXISTS && rc != ZNONODE)
		zk_trouble(zk, zk->root, rc);
}

/* The session */

static void sign_send(struct zk *zk)
{
	int rc = zoo_async(zk->zh, zk->root, zk_on_string, &zk->shards[0].refs[ZK_SIGN]);

	zk->sign_out = rc == ZOK;
	zk->sign_sent_ns = ol_coord_now_ns();
	zk->sign_due_ns = zk->sign_sent_ns + zk->timeout_ms * ZK_NS_PER_MS / SIGNS;
}

static void sign_answer(struct zk *zk, const struct zk_event *event)
{
	zk->sign_out = false;
	zk->sign_due_ns = after_ms(zk->timeout_ms / SIGNS);
	if (event->rc != ZOK) {
		zk_trouble(zk, "sign of life", event->rc);
		return;
	}
	zk->lease_ns = zk->sign_known_ns + zk->timeout_ms * ZK_NS_PER_MS;
	zk->sign_known_ns = zk->sign_sent_ns;
	tell_session(zk);
}

static void session_up(struct zk *zk)
{
	zk->up = true;
	zk->timeout_ms = (uint32_t)zoo_recv_timeout(zk->zh);
	if (zk->coord->opts.lease_whole && zk->timeout_ms < zk->coord->opts.lease_ms)
		ol_coord_settle(
			zk->coord, -EINVAL,
			"zookeeper: the ensemble grants shorter sessions than this lease asks for: "
			"raise its maxSessionTimeout, or lower the lease");
	if (zk->timeout_ms != zk->coord->opts.lease_ms && zk->timeout_ms != zk->timeout_told_ms)
		ol_coord_log(zk->coord,
			     "zookeeper: sessions of %" PRIu32 " ms, not of the %" PRIu32
			     " ms asked for: the ensemble's limits",
			     zk->timeout_ms, zk->coord->opts.lease_ms);
	zk->timeout_told_ms = zk->timeout_ms;
	zk->sign_due_ns = 0;
	session_begin(zk);
}

static void session_event(struct zk *zk, int state)
{
	if (state == ZOO_CONNECTED_STATE) {
		session_up(zk);
	} else if (state == ZOO_CONNECTING_STATE) {
		zk->up = false;
		zk->granted = zk->troubled = false;
		tell_away(zk, "connection lost; trying the servers of the ensemble");
	} else if (state == ZOO_EXPIRED_SESSION_STATE) {
		zk->lease_ns = 0;
		zk->troubled = false;
		tell_away(zk, "session lost");
		ol_coord_log(zk->coord, "zookeeper: the session has expired; beginning another");
		zk->reopen = true;
	} else if (state == ZOO_AUTH_FAILED_STATE) {
		access_refuse(zk, "the ensemble does not take passwords (scheme digest)");
		zk->reopen = true;
	}
}

/* The handle of the library: one a session */

static void zk_wake(void *back)
{
	struct zk *zk = back;

	pthread_mutex_lock(&zk->lock);
	zk->woken = true;
	pthread_cond_signal(&zk->cond);
	pthread_mutex_unlock(&zk->lock);
}

static void session_open(struct zk *zk)
{
	const struct ol_coord_opts *opts = &zk->coord->opts;

	zk->sign_known_ns = ol_coord_now_ns();
	zk->zh = zookeeper_init(zk->address.hosts, zk_on_session, (int)opts->lease_ms, NULL,
				&zk->shards[0].refs[ZK_SESSION], ZOO_NO_LOG_CLIENTENV);
	if (zk->zh == NULL) {
		zk->open_ns = after_ms(OPEN_AGAIN_MS);
		if (!zk->troubled)
			ol_coord_log(zk->coord, "zookeeper: no such host in %s: %s",
				     zk->address.hosts, strerror(errno));
		zk->troubled = true;
		return;
	}
	zoo_set_servers_resolution_delay(zk->zh, -1); /* names: once a connection */
}

/* Forget all state of the session, but not what the handle was told */
static void session_close(struct zk *zk)
{
	bool woken;

	if (zk->zh != NULL)
		zookeeper_close(zk->zh); /* no callback comes after it */
	zk_events_free(zk_events_take(zk, 1, &woken));
	zk->zh = NULL;
	if (woken)
		zk_wake(zk);
	zk->reopen = zk->up = zk->introduced = zk->granted = false;
	zk->sign_out = zk->joining = zk->joined = false;
	zk->lease_ns = zk->retry_ns = 0;
	zk->open_ns = zk->troubled ? after_ms(OPEN_AGAIN_MS) : 0;
	for (uint32_t i = 0; i < zk->coord->opts.shard_count; i++) {
		struct zk_shard *s = &zk->shards[i];

		s->view_busy = s->members_busy = s->view_seen = s->view_synced = false;
		s->view_news = s->view_news || s->reading_news;
	}
}

/* The thread */

static void event_handle(struct zk *zk, struct zk_event *event)
{
	switch (event->ref->kind) {
	case ZK_SESSION:
		session_event(zk, (int)event->number);
		return;
	case ZK_ACCESS:
		access_answer(zk, event);
		return;
	case ZK_MADE:
		made_answer(zk, event->rc);
		return;
	case ZK_SIGN:
		sign_answer(zk, event);
		return;
	case ZK_LEFT:
		zk->left = true;
		return;
	case ZK_VIEW:
	case ZK_NO_VIEW:
	case ZK_VIEW_MOVED:
	case ZK_VIEW_SYNCED:
	case ZK_PROPOSED:
		zk_view_event(zk, event);
		return;
	case ZK_MEMBERS:
	case ZK_MEMBERS_MOVED:
	case ZK_MEMBER:
	case ZK_JOINED:
	case ZK_OWNER:
		zk_member_event(zk, event);
		return;
	case ZK_KINDS:
		return;
	}
}

static void due_min(uint64_t *due_ns, bool counts, uint64_t at_ns)
{
	if (counts && (*due_ns == 0 || at_ns < *due_ns))
		*due_ns = at_ns;
}

/* Do what is due; returns when the next work is due, 0: none will be */
static uint64_t times_handle(struct zk *zk)
{
	uint64_t now_ns = ol_coord_now_ns(), due_ns = 0;

	if (zk->zh == NULL && now_ns >= zk->open_ns)
		session_open(zk);
	if (zk->connected && now_ns >= zk->lease_ns)
		tell_away(zk, "no answer from the ensemble within the session's time-out");
	if (zk->up && !zk->sign_out && now_ns >= zk->sign_due_ns)
		sign_send(zk);
	if (zk->up && zk->retry_ns != 0 && now_ns >= zk->retry_ns)
		session_begin(zk);
	due_min(&due_ns, zk->zh == NULL, zk->open_ns);
	due_min(&due_ns, zk->connected, zk->lease_ns);
	due_min(&due_ns, zk->up && !zk->sign_out, zk->sign_due_ns);
	due_min(&due_ns, zk->up && zk->retry_ns != 0, zk->retry_ns);
	return due_ns;
}

/* Delete our member before zookeeper_close(), which may not wait for an answer */
static void member_leave(struct zk *zk)
{
	uint64_t until_ns = after_ms(LEAVE_MS);
	struct ol_member member;
	char path[ZK_PATH_MAX];
	uint32_t shard;
	bool woken;

	if (!zk->up || !(zk->joined || zk->joining) ||
	    !ol_coord_wish_member(zk->coord, &shard, &member))
		return;
	zk_path_member(zk, shard, member.id, path);
	if (zoo_adelete(zk->zh, path, -1, zk_on_void, &zk->shards[0].refs[ZK_LEFT]) != ZOK)
		return;
	while (!zk->left && ol_coord_now_ns() < until_ns) {
		struct zk_event *events = zk_events_take(zk, until_ns, &woken);

		for (const struct zk_event *event = events; event != NULL; event = event->next)
			if (event->ref->kind == ZK_LEFT || event->ref->kind == ZK_SESSION)
				zk->left = true;
		zk_events_free(events);
	}
}

static void *zk_run(void *arg)
{
	struct zk *zk = arg;

	while (!zk->ending) {
		bool woken;
		struct zk_event *events = zk_events_take(zk, times_handle(zk), &woken);

		for (struct zk_event *event = events; event != NULL && !zk->reopen;
		     event = event->next)
			event_handle(zk, event);
		zk_events_free(events);
		if (zk->reopen) {
			zk->lease_ns = 0;
			tell_away(zk, "session given up");
			session_close(zk);
		}
		for (uint32_t i = 0; woken && i < zk->coord->opts.shard_count; i++)
			zk_view_propose(zk, i);
		if (woken)
			zk_join(zk);
	}
	member_leave(zk);
	session_close(zk);
	return NULL;
}

/* The back end */

static void refs_init(struct zk *zk)
{
	for (uint32_t i = 0; i < zk->coord->opts.shard_count; i++) {
		for (unsigned kind = 0; kind < ZK_KINDS; kind++)
			zk->shards[i].refs[kind] =
				(struct zk_ref){ .zk = zk, .kind = (enum zk_kind)kind, .shard = i };
		for (uint32_t slot = 0; slot < OL_MEMBERS_MAX; slot++)
			zk->shards[i].slots[slot] = (struct zk_ref){
				.zk = zk, .kind = ZK_MEMBER, .shard = i, .slot = slot
			};
	}
}

static void zk_destroy(struct zk *zk)
{
	explicit_bzero(&zk->access, sizeof(zk->access));
	explicit_bzero(&zk->address, sizeof(zk->address));
	pthread_cond_destroy(&zk->cond);
	pthread_mutex_destroy(&zk->lock);
	free(zk->shards);
	free(zk);
}

static struct zk *zk_create(struct ol_coord *coord, const struct zk_address *address)
{
	struct zk *zk = calloc(1, sizeof(*zk));
	pthread_condattr_t attr;

	if (zk == NULL)
		return NULL;
	zk->coord = coord;
	zk->address = *address;
	zk->timeout_ms = zk->timeout_told_ms = coord->opts.lease_ms;
	zk->last = &zk->first;
	zk->shards = calloc(coord->opts.shard_count, sizeof(*zk->shards));
	if (zk->shards == NULL) {
		free(zk);
		return NULL;
	}
	refs_init(zk);
	snprintf(zk->folder, sizeof(zk->folder), "%s/outlast", address->chroot);
	snprintf(zk->root, sizeof(zk->root), "%s/%s", zk->folder, coord->opts.job);
	pthread_mutex_init(&zk->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&zk->cond, &attr);
	pthread_condattr_destroy(&attr);
	return zk;
}

static int zk_start(struct ol_coord *coord, void **ret_back, char *err, size_t err_bytes)
{
	struct zk_address address;
	struct zk_secret secret;
	struct zk *zk;
	int rc;

	rc = zk_address_read(coord->opts.addr, &address, err, err_bytes);
	if (rc != 0)
		return rc;
	zoo_set_debug_level((ZooLogLevel)0); /* the library would write to stderr */
	zk = zk_create(coord, &address);
	explicit_bzero(&address, sizeof(address));
	if (zk == NULL) {
		snprintf(err, err_bytes, "no memory for a coordinator's client");
		return -ENOMEM;
	}
	secret = (struct zk_secret){ .job = coord->opts.job,
				     .mac = coord->opts.mac,
				     .owner_mac = coord->opts.owner_mac,
				     .mac_arg = coord->opts.mac_arg,
				     .keyless = coord->opts.keyless };
	rc = zk_access_derive(&zk->address, &secret, &zk->access);
	if (rc != 0) {
		snprintf(err, err_bytes,
			 "no password of a secret can be made: the crypto library fails");
		zk_destroy(zk);
		return rc;
	}
	rc = ol_coord_thread_start(zk_run, zk, &zk->thread);
	if (rc != 0) {
		snprintf(err, err_bytes, "no thread for a coordinator's client: %s", strerror(-rc));
		zk_destroy(zk);
		return rc;
	}
	*ret_back = zk;
	return 0;
}

static void zk_stop(void *back)
{
	struct zk *zk = back;

	pthread_mutex_lock(&zk->lock);
	zk->stopping = true;
	pthread_cond_signal(&zk->cond);
	pthread_mutex_unlock(&zk->lock);
	pthread_join(zk->thread, NULL);
	zk_destroy(zk);
}

const struct ol_coord_backend ol_coord_zookeeper = {
	.start = zk_start,
	.wake = zk_wake,
	.stop = zk_stop,
	.list = zk_list,
	.remove = zk_remove,
	.make_root = zk_make_root,
	.examine = zk_examine,
};
