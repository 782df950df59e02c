/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * zookeeper.c -- views and members in a ZooKeeper ensemble
 *
 *	/outlast                              any client may add a job
 *	/outlast/JOB                          from here on: holders of the secrets, if there are any
 *	/outlast/JOB/shardN/view              text of the view; its data version + 1 is our version
 *	/outlast/JOB/shardN/members/ID        ID in 16 hex digits; ephemeral; text of the member
 *
 * A secret becomes the password of ZooKeeper's "digest" scheme. The library sends it in clear. Users
 * of two names are in each access list: "outlast-servers" may do everything, "outlast" may read. A
 * user's name there is its name and the SHA-1 of name and password, in base64: what the ensemble
 * calls DigestAlg is to be SHA1, its default.
 *
 * Lease. A sign of life is sent every quarter of the session's timeout. It is a sync, so the leader
 * answers it, not only the server at the other end of the connection. Every half tick that server
 * tells the leader which sessions it has heard of, and a session is at least two ticks long. So an
 * answer proves that the leader knows of the sign before, if at least half a tick lies between the
 * answer to that sign and this sign. Therefore the quarter of a session counts from the answer,
 * which may be late, and the lease counts from when the sign before was sent.
 */

#include "replication/coord/zookeeper/zk.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/sha.h>

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

bool zk_only_reads(const struct zk *zk)
{
	return zk->password[0] != '\0' && zk->owner[0] == '\0';
}

const struct ACL_vector *zk_acl(const struct zk *zk)
{
	return zk->password[0] != '\0' ? &zk->acl : &ZOO_OPEN_ACL_UNSAFE;
}

/* user:password, the password in hex: a function of secret and job; "" where there is no secret */
static int password_derive(const struct ol_coord_opts *opts, ol_coord_mac_fn *derive,
			   const char *user, char password[ZK_PASSWORD_BYTES])
{
	static const char label[] = "outlast: password in zookeeper of job ";
	char text[sizeof(label) + OL_COORD_JOB_MAX];
	uint8_t mac[OL_COORD_MAC_BYTES];
	size_t at;
	int rc;

	if (derive == NULL)
		return 0;
	snprintf(text, sizeof(text), "%s%s", label, opts->job);
	rc = derive(opts->mac_arg, text, strlen(text), mac);
	if (rc != 0)
		return rc == -EPERM ? 0 : -EIO;
	at = (size_t)snprintf(password, ZK_PASSWORD_BYTES, "%s:", user);
	for (unsigned i = 0; i < sizeof(mac); i++)
		at += (size_t)snprintf(password + at, ZK_PASSWORD_BYTES - at, "%02x", mac[i]);
	return 0;
}

/* An entry of an access list for the user of this password */
static int entry_make(const char *password, int32_t rights, char name[ZK_NAME_BYTES],
		      struct ACL *ret_entry)
{
	static char scheme[] = "digest";
	const size_t user = strcspn(password, ":") + 1;
	uint8_t sum[EVP_MAX_MD_SIZE];
	unsigned bytes = 0;

	static_assert(sizeof("outlast-servers:") + 4 * ((SHA_DIGEST_LENGTH + 2) / 3) <=
			      ZK_NAME_BYTES,
		      "a name and its base64 fit");
	if (EVP_Digest(password, strlen(password), sum, &bytes, EVP_sha1(), NULL) != 1)
		return -EIO;
	memcpy(name, password, user);
	EVP_EncodeBlock((unsigned char *)name + user, sum, (int)bytes);
	*ret_entry = (struct ACL){ .perms = rights, .id = { .scheme = scheme, .id = name } };
	return 0;
}

static int access_derive(struct zk *zk, const struct ol_coord_opts *opts)
{
	int rc = password_derive(opts, opts->mac, "outlast", zk->password);

	if (rc == 0)
		rc = password_derive(opts, opts->owner_mac, "outlast-servers", zk->owner);
	if (rc != 0 || zk->owner[0] == '\0')
		return rc;
	rc = entry_make(zk->owner, ZOO_PERM_ALL, zk->names[0], &zk->entries[0]);
	if (rc == 0)
		rc = entry_make(zk->password, ZOO_PERM_READ, zk->names[1], &zk->entries[1]);
	zk->acl = (struct ACL_vector){ .count = 2, .data = zk->entries };
	return rc;
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

static void access_refuse(struct zk *zk, const char *why)
{
	if (zk->settled && !zk->troubled)
		ol_coord_log(zk->coord, "zookeeper: %s", why);
	zk->troubled = zk->settled = true;
	zk->retry_ns = after_ms(zk->timeout_ms);
	ol_coord_settle(zk->coord, -EACCES, why);
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
	struct ACL anyone = { .perms = ZOO_PERM_READ | ZOO_PERM_CREATE | ZOO_PERM_DELETE,
			      .id = ZOO_ANYONE_ID_UNSAFE };
	const struct ACL_vector open = { .count = 1, .data = &anyone };
	const struct zk_ref *ref = &zk->shards[0].refs[ZK_MADE];
	int rc;

	zk->made = true;
	rc = zoo_acreate(zk->zh, "/outlast", "", 0, &open, ZOO_PERSISTENT, zk_on_string, ref);
	if (rc == ZOK)
		rc = zoo_acreate(zk->zh, zk->root, "", 0, zk_acl(zk), ZOO_PERSISTENT, zk_on_string,
				 ref);
	if (rc != ZOK)
		zk_trouble(zk, zk->root, rc);
}

static void access_ask(struct zk *zk)
{
	int rc = zoo_aget_acl(zk->zh, zk->root, zk_on_acl, &zk->shards[0].refs[ZK_ACCESS]);

	if (rc != ZOK)
		zk_trouble(zk, zk->root, rc);
}

static bool password_tell(struct zk *zk, const char *password)
{
	int rc = ZOK;

	if (password[0] != '\0')
		rc = zoo_add_auth(zk->zh, "digest", password, (int)strlen(password), NULL, NULL);
	if (rc != ZOK)
		zk_trouble(zk, "password", rc);
	return rc == ZOK;
}

/* The library repeats it when it connects again */
static bool introduce(struct zk *zk)
{
	if (!zk->introduced)
		zk->introduced = password_tell(zk, zk->password) && password_tell(zk, zk->owner);
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

static void access_answer(struct zk *zk, const struct zk_event *event)
{
	bool secret = zk->password[0] != '\0';

	if (event->rc == ZNONODE && zk_only_reads(zk)) {
		if (!zk->waits)
			ol_coord_log(zk->coord,
				     "zookeeper: no server has begun the job yet: waiting for one");
		zk->waits = true;
		zk_wait(zk);
		return;
	}
	if (event->rc == ZNONODE && !zk->made) {
		root_make(zk);
		access_ask(zk);
		return;
	}
	if (event->rc == ZNOAUTH) {
		access_refuse(zk, secret ? "the job was begun with another secret"
					 : "the job was begun with a secret, and none was given");
		return;
	}
	if (event->rc != ZOK) {
		zk_trouble(zk, zk->root, event->rc);
		return;
	}
	if (secret && event->number != 1) {
		access_refuse(
			zk,
			"the job was begun without a secret: delete its node, or use another name");
		return;
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
	if (rc == ZNOAUTH)
		access_refuse(zk, "no right to make nodes under /outlast");
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
	zk->zh = zookeeper_init(zk->hosts, zk_on_session, (int)opts->lease_ms, NULL,
				&zk->shards[0].refs[ZK_SESSION], ZOO_NO_LOG_CLIENTENV);
	if (zk->zh == NULL) {
		zk->open_ns = after_ms(OPEN_AGAIN_MS);
		if (!zk->troubled)
			ol_coord_log(zk->coord, "zookeeper: no such host in %s: %s", zk->hosts,
				     strerror(errno));
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

/* HOST:PORT,HOST:PORT: the library's error would not name the bad one */
static int hosts_check(const char *hosts, char *err, size_t err_bytes)
{
	const char *at = hosts;

	for (;;) {
		size_t bytes = strcspn(at, ",");
		const char *colon = memrchr(at, ':', bytes);
		char *end = NULL;
		unsigned long port = 0;

		if (colon != NULL && colon != at && colon[1] >= '0' && colon[1] <= '9')
			port = strtoul(colon + 1, &end, 10);
		if (end != at + bytes || port == 0 || port > UINT16_MAX ||
		    strcspn(at, "/ \t") < bytes) {
			snprintf(err, err_bytes,
				 "\"%.*s\" is not HOST:PORT; wanted: zk:HOST:PORT,HOST:PORT",
				 (int)bytes, at);
			return -EINVAL;
		}
		if (at[bytes] == '\0')
			return 0;
		at += bytes + 1;
	}
}

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
	pthread_cond_destroy(&zk->cond);
	pthread_mutex_destroy(&zk->lock);
	free(zk->shards);
	free(zk);
}

static struct zk *zk_create(struct ol_coord *coord)
{
	struct zk *zk = calloc(1, sizeof(*zk));
	pthread_condattr_t attr;

	if (zk == NULL)
		return NULL;
	zk->coord = coord;
	zk->hosts = coord->opts.addr + strlen("zk:");
	zk->timeout_ms = zk->timeout_told_ms = coord->opts.lease_ms;
	zk->last = &zk->first;
	zk->shards = calloc(coord->opts.shard_count, sizeof(*zk->shards));
	if (zk->shards == NULL) {
		free(zk);
		return NULL;
	}
	refs_init(zk);
	snprintf(zk->root, sizeof(zk->root), "/outlast/%s", coord->opts.job);
	pthread_mutex_init(&zk->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&zk->cond, &attr);
	pthread_condattr_destroy(&attr);
	return zk;
}

static int zk_start(struct ol_coord *coord, void **ret_back, char *err, size_t err_bytes)
{
	struct zk *zk;
	int rc;

	rc = hosts_check(coord->opts.addr + strlen("zk:"), err, err_bytes);
	if (rc != 0)
		return rc;
	zoo_set_debug_level((ZooLogLevel)0); /* the library would write to stderr */
	zk = zk_create(coord);
	if (zk == NULL) {
		snprintf(err, err_bytes, "no memory for a coordinator's client");
		return -ENOMEM;
	}
	rc = access_derive(zk, &coord->opts);
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
};
