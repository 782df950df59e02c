/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * zookeeper_fuzz.c -- whatever an ensemble answers, in data, stats, names, rights and error codes, and
 * whatever it says of sessions and watches, the back end tells of views and members only what they may
 * be, asks for nothing beyond a path's length, and keeps no event
 *
 * The client library is made up: it has no ensemble, and answers each request once at most, by the
 * script. Back end and script share one thread: where the back end waits, the script goes on. The first
 * byte: with a secret, with a member.
 */
#include <errno.h>
#include <stdio.h>

#include "fuzz/coord_bare.h"
#include "replication/coord/zookeeper/zk.h"
#include "support/wrap.h"

enum {
	ASKED_MAX = 128, /* requests without an answer */
	NAMES_MAX = 24,
	NAME_BYTES = 20,
	INPUT_MAX = 4096,
	TURN_NS = 1000,
};

enum answer {
	ANSWER_VOID,
	ANSWER_STRING,
	ANSWER_STAT,
	ANSWER_DATA,
	ANSWER_NAMES,
	ANSWER_ACL,
};

struct request {
	enum answer answer;
	union {
		void_completion_t done;
		string_completion_t text;
		stat_completion_t stat;
		data_completion_t data;
		strings_completion_t names;
		acl_completion_t acl;
	} tell;
	const void *arg;
	uint64_t id; /* of a member whose data it reads; else 0 */
	watcher_fn watcher;
	void *watcher_arg;
};

static struct {
	const uint8_t *at; /* the input */
	size_t left;
	uint64_t now_ns;
	struct coord_bare bare;
	void *(*run)(void *arg);
	struct zk *zk;
	char handle; /* its address is the library's */
	bool open; /* there is a session's handle */
	watcher_fn session;
	void *session_arg;
	struct request asked[ASKED_MAX];
	unsigned asked_count;
	struct request watches[ASKED_MAX];
	unsigned watch_count;
} fuzz;

static uint8_t byte(void)
{
	if (fuzz.left == 0)
		return 0;
	fuzz.left--;
	return *fuzz.at++;
}

/* ---- the ensemble ---- */

static int rc_make(uint8_t how)
{
	static const int all[] = { ZNONODE,         ZNODEEXISTS,      ZNOAUTH,     ZBADVERSION,
				   ZCONNECTIONLOSS, ZAPIERROR,        ZAUTHFAILED, ZSESSIONEXPIRED,
				   ZCLOSING,        ZMARSHALLINGERROR };

	return how < 8 ? ZOK : all[how % (sizeof(all) / sizeof(all[0]))];
}

static struct Stat stat_make(void)
{
	uint8_t how = byte();
	struct Stat stat = { .czxid = 1 + (how & 1), .mzxid = 2 + (how >> 1 & 7) };

	stat.version = how >> 4 & 7;
	stat.ephemeralOwner = how >> 7;
	if (how == 255) {
		stat.version = (int32_t)(byte() - 128u);
		stat.mzxid = (int64_t)byte() - 128;
		stat.czxid = (int64_t)byte() - 128;
	}
	return stat;
}

/* Text of a view, of a member, or any; spoilt, or as it is */
static size_t text_make(uint64_t id, char text[2 * OL_VIEW_TEXT_MAX])
{
	uint8_t how = byte();
	struct ol_member member;
	struct ol_view view;
	size_t bytes;

	if ((how & 3) == 0) {
		bytes = byte() | (size_t)byte() << 8;
		bytes %= 2 * OL_VIEW_TEXT_MAX;
		memset(text, byte(), bytes);
		for (size_t i = 0; i < bytes && fuzz.left > 0; i++)
			text[i] = (char)byte();
		return bytes;
	}
	if (id != 0) {
		coord_member_make((how & 3) == 1 ? id + 1 : id, &member);
		bytes = ol_member_encode(&member, text);
	} else {
		coord_view_make(byte(), &view);
		bytes = ol_view_encode(&view, text);
	}
	for (unsigned count = how >> 6; count > 0; count--)
		text[(size_t)byte() * 2 % bytes] = (char)byte();
	return (how & 4) != 0 ? byte() % bytes : bytes;
}

static void answer_data(const struct request *request, int rc)
{
	char text[2 * OL_VIEW_TEXT_MAX];
	const struct Stat stat = stat_make();
	size_t bytes = rc == ZOK ? text_make(request->id, text) : 0;
	char *exact = malloc(bytes + 1); /* so that a sanitizer sees a read behind the end */

	must(exact != NULL);
	memcpy(exact, text, bytes);
	exact = realloc(exact, bytes > 0 ? bytes : 1);
	must(exact != NULL);
	if (rc != ZOK)
		request->tell.data(rc, NULL, 0, NULL, request->arg);
	else if (bytes == 0)
		request->tell.data(rc, NULL, -1, &stat, request->arg); /* a node without data */
	else
		request->tell.data(rc, exact, (int)bytes, &stat, request->arg);
	free(exact);
}

/* Names of a folder differ. Most are ids; some only look so. */
static void answer_names(const struct request *request, int rc)
{
	char text[NAMES_MAX][NAME_BYTES], *names[NAMES_MAX];
	struct String_vector list = { .data = names };
	uint8_t count = byte() % (NAMES_MAX + 1), how = byte();

	for (uint8_t i = 0; i < count; i++) {
		names[i] = text[i];
		snprintf(text[i], NAME_BYTES, "%016x", (unsigned)(i + (how & 15) + (how >> 7)));
	}
	list.count = count;
	if (count > 0 && (how & 16) != 0)
		text[byte() % count][byte() % (NAME_BYTES - 1)] = (char)byte();
	for (uint8_t i = 1; i < count; i++) {
		if (strcmp(text[0], text[i]) == 0)
			list.count = 1; /* it was made a second one of a name */
	}
	request->tell.names(rc, rc == ZOK ? &list : NULL, request->arg);
}

static void answer_acl(const struct request *request, int rc)
{
	static const char *const schemes[] = { "digest", "world", "auth", "" };
	const char *const ids[] = { fuzz.zk->access.names[1], "anyone", fuzz.zk->access.names[0],
				    "" };
	uint8_t how = byte();
	char scheme[24], id[ZK_NAME_BYTES], reader[ZK_NAME_BYTES], user[] = "operator:x";
	struct ACL acl[] = { { .id = { scheme, id } },
			     { .perms = how >> 6, .id = { scheme, reader } },
			     { .perms = how >> 5, .id = { scheme, user } } };
	struct ACL_vector list = { .count = how >> 4 & 3, .data = acl };
	struct Stat stat = { .version = 0 };

	snprintf(scheme, sizeof(scheme), "%s", schemes[how & 3]);
	snprintf(id, sizeof(id), "%s", ids[how >> 2 & 3]);
	snprintf(reader, sizeof(reader), "%s", fuzz.zk->access.names[1]);
	request->tell.acl(rc, rc == ZOK ? &list : NULL, &stat, request->arg);
}

static void answer(const struct request *request, int rc)
{
	struct Stat stat;

	switch (request->answer) {
	case ANSWER_VOID:
		request->tell.done(rc, request->arg);
		return;
	case ANSWER_STRING:
		request->tell.text(rc, rc == ZOK ? "/" : NULL, request->arg);
		return;
	case ANSWER_STAT:
		stat = stat_make();
		request->tell.stat(rc, rc == ZOK ? &stat : NULL, request->arg);
		return;
	case ANSWER_DATA:
		answer_data(request, rc);
		return;
	case ANSWER_NAMES:
		answer_names(request, rc);
		return;
	case ANSWER_ACL:
		answer_acl(request, rc);
		return;
	}
}

/* The oldest request is answered: a session's are in order. */
static void answer_next(void)
{
	struct request request = fuzz.asked[0];
	int rc = rc_make(byte());

	if (fuzz.asked_count == 0)
		return;
	fuzz.asked_count--;
	memmove(fuzz.asked, fuzz.asked + 1, fuzz.asked_count * sizeof(fuzz.asked[0]));
	answer(&request, rc);
	if (request.watcher != NULL && (rc == ZOK || rc == ZNONODE) && fuzz.watch_count < ASKED_MAX)
		fuzz.watches[fuzz.watch_count++] = request;
}

static void watch_fires(void)
{
	unsigned which = byte();
	struct request watch;
	uint8_t how = byte();

	if (fuzz.watch_count == 0)
		return;
	which %= fuzz.watch_count;
	watch = fuzz.watches[which];
	if (how != ZOO_CREATED_EVENT) /* else an event of the session: the watch stays */
		fuzz.watches[which] = fuzz.watches[--fuzz.watch_count];
	watch.watcher((zhandle_t *)(void *)&fuzz.handle,
		      how == ZOO_CREATED_EVENT ? ZOO_SESSION_EVENT : ZOO_CHANGED_EVENT, how, "",
		      watch.watcher_arg);
}

static void session_says(void)
{
	const int all[] = { ZOO_CONNECTED_STATE,   ZOO_CONNECTING_STATE,  ZOO_EXPIRED_SESSION_STATE,
			    ZOO_AUTH_FAILED_STATE, ZOO_ASSOCIATING_STATE, 999,
			    ZOO_CONNECTED_STATE,   ZOO_CONNECTED_STATE };

	if (fuzz.open)
		fuzz.session((zhandle_t *)(void *)&fuzz.handle, ZOO_SESSION_EVENT, all[byte() & 7],
			     "", fuzz.session_arg);
}

/* ---- the library ---- */

static int ask(const zhandle_t *zh, const char *path, struct request request)
{
	must(zh == (const void *)&fuzz.handle && fuzz.open);
	must(path != NULL && path[0] == '/' && strlen(path) < ZK_PATH_MAX - 1);
	if (fuzz.asked_count == ASKED_MAX)
		return ZMARSHALLINGERROR;
	fuzz.asked[fuzz.asked_count++] = request;
	return ZOK;
}

zhandle_t *zookeeper_init(const char *host, watcher_fn fn, int recv_timeout,
			  const clientid_t *clientid, void *context, int flags)
{
	(void)host;
	(void)clientid;
	(void)flags;
	must(!fuzz.open && recv_timeout > 0);
	if (byte() == 255) {
		errno = EINVAL;
		return NULL;
	}
	fuzz.session = fn;
	fuzz.session_arg = context;
	fuzz.open = true;
	return (zhandle_t *)(void *)&fuzz.handle;
}

int zookeeper_close(zhandle_t *zh)
{
	must(zh == (void *)&fuzz.handle && fuzz.open);
	while (fuzz.asked_count > 0) {
		struct request request = fuzz.asked[--fuzz.asked_count];

		answer(&request, ZCLOSING);
	}
	fuzz.watch_count = 0;
	fuzz.open = false;
	return ZOK;
}

void zoo_set_debug_level(ZooLogLevel level)
{
	(void)level;
}

int zoo_set_servers_resolution_delay(zhandle_t *zh, int delay_ms)
{
	(void)zh;
	(void)delay_ms;
	return ZOK;
}

int zoo_recv_timeout(zhandle_t *zh)
{
	(void)zh;
	return 10 + 100 * byte();
}

const clientid_t *zoo_client_id(zhandle_t *zh)
{
	static const clientid_t id = { .client_id = 1 };

	(void)zh;
	return &id;
}

int zoo_add_auth(zhandle_t *zh, const char *scheme, const char *cert, int bytes,
		 void_completion_t completion, const void *data)
{
	(void)zh;
	(void)completion;
	(void)data;
	must(strcmp(scheme, "digest") == 0 && bytes > 8 && memcmp(cert, "outlast", 7) == 0);
	return byte() == 255 ? ZINVALIDSTATE : ZOK;
}

int zoo_acreate(zhandle_t *zh, const char *path, const char *value, int bytes,
		const struct ACL_vector *acl, int mode, string_completion_t completion,
		const void *data)
{
	(void)mode;
	must(acl != NULL && acl->count > 0 && value != NULL && bytes >= 0 &&
	     bytes < OL_VIEW_TEXT_MAX);
	return ask(
		zh, path,
		(struct request){ .answer = ANSWER_STRING, .tell.text = completion, .arg = data });
}

int zoo_aset(zhandle_t *zh, const char *path, const char *value, int bytes, int version,
	     stat_completion_t completion, const void *data)
{
	must(version >= 0 && value != NULL && bytes > 0);
	return ask(zh, path,
		   (struct request){ .answer = ANSWER_STAT, .tell.stat = completion, .arg = data });
}

int zoo_adelete(zhandle_t *zh, const char *path, int version, void_completion_t completion,
		const void *data)
{
	(void)version;
	return ask(zh, path,
		   (struct request){ .answer = ANSWER_VOID, .tell.done = completion, .arg = data });
}

int zoo_aexists(zhandle_t *zh, const char *path, int watch, stat_completion_t completion,
		const void *data)
{
	(void)watch;
	return ask(zh, path,
		   (struct request){ .answer = ANSWER_STAT, .tell.stat = completion, .arg = data });
}

int zoo_awexists(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcher_arg,
		 stat_completion_t completion, const void *data)
{
	return ask(zh, path,
		   (struct request){ .answer = ANSWER_STAT,
				     .tell.stat = completion,
				     .arg = data,
				     .watcher = watcher,
				     .watcher_arg = watcher_arg });
}

int zoo_aget(zhandle_t *zh, const char *path, int watch, data_completion_t completion,
	     const void *data)
{
	const char *name = strrchr(path, '/');

	(void)watch;
	must(name != NULL && strlen(name + 1) == 16);
	return ask(zh, path,
		   (struct request){ .answer = ANSWER_DATA,
				     .tell.data = completion,
				     .arg = data,
				     .id = strtoull(name + 1, NULL, 16) });
}

int zoo_awget(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcher_arg,
	      data_completion_t completion, const void *data)
{
	return ask(zh, path,
		   (struct request){ .answer = ANSWER_DATA,
				     .tell.data = completion,
				     .arg = data,
				     .watcher = watcher,
				     .watcher_arg = watcher_arg });
}

int zoo_awget_children(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcher_arg,
		       strings_completion_t completion, const void *data)
{
	return ask(zh, path,
		   (struct request){ .answer = ANSWER_NAMES,
				     .tell.names = completion,
				     .arg = data,
				     .watcher = watcher,
				     .watcher_arg = watcher_arg });
}

int zoo_aget_acl(zhandle_t *zh, const char *path, acl_completion_t completion, const void *data)
{
	return ask(zh, path,
		   (struct request){ .answer = ANSWER_ACL, .tell.acl = completion, .arg = data });
}

int zoo_async(zhandle_t *zh, const char *path, string_completion_t completion, const void *data)
{
	return ask(
		zh, path,
		(struct request){ .answer = ANSWER_STRING, .tell.text = completion, .arg = data });
}

/* ---- the program ---- */

static void propose(void)
{
	uint32_t shard = byte() % COORD_SHARDS;
	struct ol_coord_state state;
	struct ol_view next;

	ol_coord_look(&fuzz.bare.coord, shard, &state);
	coord_view_make(byte(), &next);
	ol_coord_propose(&fuzz.bare.coord, shard, state.version, &next);
}

/* What is told is what it may be, at once. */
static void notified(void *arg)
{
	struct coord_bare *bare = arg;

	for (uint32_t i = 0; i < COORD_SHARDS; i++)
		coord_state_check(bare, i);
}

/* A member is told under the name of its node. */
WRAP(void, ol_coord_set_members, struct ol_coord *coord, uint32_t shard,
     const struct ol_member *members, uint32_t count)
{
	const struct zk_members *named = &fuzz.zk->shards[shard].members;

	must(shard < COORD_SHARDS && count <= named->count);
	for (uint32_t i = 0, k = 0; i < count; i++, k++) {
		while (k < named->count && named->of[k].id != members[i].id)
			k++;
		must(k < named->count);
	}
	__real_ol_coord_set_members(coord, shard, members, count);
}

static int mac_make(void *arg, const void *bytes, size_t count, uint8_t mac[OL_COORD_MAC_BYTES])
{
	(void)arg;
	(void)bytes;
	memset(mac, (int)(count & 0xff), OL_COORD_MAC_BYTES);
	return 0;
}

static void time_passes(void)
{
	fuzz.now_ns += (uint64_t)byte() * ZK_NS_PER_MS * 10;
}

/* ---- one thread ---- */

static void step(void)
{
	static void (*const steps[])(void) = { answer_next, session_says, watch_fires, propose,
					       time_passes, answer_next,  answer_next };

	steps[byte() % (sizeof(steps) / sizeof(steps[0]))]();
}

/* The back end waits, with its lock. At the script's end it is to stop. */
static void script_goes_on(void)
{
	must(pthread_mutex_unlock(&fuzz.zk->lock) == 0);
	if (fuzz.left > 0)
		step();
	must(pthread_mutex_lock(&fuzz.zk->lock) == 0);
	if (fuzz.left == 0)
		fuzz.zk->stopping = true;
}

WRAP(int, pthread_cond_wait, pthread_cond_t *cond, pthread_mutex_t *lock)
{
	if (fuzz.zk == NULL || lock != &fuzz.zk->lock)
		return __real_pthread_cond_wait(cond, lock);
	script_goes_on();
	return 0;
}

WRAP(int, pthread_cond_timedwait, pthread_cond_t *cond, pthread_mutex_t *lock,
     const struct timespec *until)
{
	const uint64_t until_ns = (uint64_t)until->tv_sec * ZK_NS_PER_S + (uint64_t)until->tv_nsec;

	if (fuzz.zk == NULL || lock != &fuzz.zk->lock)
		return __real_pthread_cond_timedwait(cond, lock, until);
	if (fuzz.now_ns >= until_ns)
		return ETIMEDOUT;
	script_goes_on();
	if (fuzz.left == 0 && fuzz.now_ns < until_ns) /* nothing else will happen */
		fuzz.now_ns = until_ns;
	return 0;
}

WRAP(int, clock_gettime, clockid_t clock, struct timespec *ret_time)
{
	if (fuzz.now_ns == 0) /* libFuzzer's own */
		return __real_clock_gettime(clock, ret_time);
	fuzz.now_ns += TURN_NS;
	ret_time->tv_sec = (time_t)(fuzz.now_ns / ZK_NS_PER_S);
	ret_time->tv_nsec = (long)(fuzz.now_ns % ZK_NS_PER_S);
	return 0;
}

WRAP(int, ol_coord_thread_start, void *(*run)(void *), void *arg, pthread_t *ret_thread)
{
	(void)ret_thread;
	fuzz.run = run;
	fuzz.zk = arg;
	return 0;
}

WRAP(int, pthread_join, pthread_t thread, void **ret_value)
{
	if (fuzz.zk == NULL)
		return __real_pthread_join(thread, ret_value);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct ol_coord *coord = &fuzz.bare.coord;
	struct ol_member own;
	char err[OL_COORD_LINE_MAX];
	uint8_t how;

	if (bytes > INPUT_MAX)
		return 0;
	memset(&fuzz, 0, sizeof(fuzz));
	fuzz.at = data;
	fuzz.left = bytes;
	how = byte();
	coord_bare_init(&fuzz.bare, "zk:host:1", notified);
	if ((how & 1) != 0) {
		coord->opts.mac = mac_make;
		coord->opts.owner_mac = (how & 8) == 0 ? mac_make : NULL; /* else it only reads */
	}
	coord->opts.lease_whole = (how & 4) != 0;
	coord->backend = &ol_coord_zookeeper;
	fuzz.now_ns = ZK_NS_PER_S;
	must(coord->backend->start(coord, &coord->back, err, sizeof(err)) == 0);
	coord_member_make(COORD_OWN_ID, &own);
	if ((how & 2) != 0)
		must(ol_coord_join(coord, how >> 7, &own) == 0);
	(void)fuzz.run(fuzz.zk);
	must(!fuzz.open && fuzz.asked_count == 0 && fuzz.zk->first == NULL);
	coord->backend->stop(coord->back);
	coord_bare_fini(&fuzz.bare);
	fuzz.now_ns = 0;
	fuzz.zk = NULL;
	return 0;
}
