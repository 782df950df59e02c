/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * zookeeper_test.c -- the client of an ensemble makes the right requests at the right time, and
 * treats answers right that fail, come late or contradict each other
 *
 * The test replaces the client library: it answers in the call that asks, and delays an answer if a
 * test says so. integration/zookeeper.c has a real ensemble.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "replication/coord/zookeeper/zk.h"
#include "unit/replication/coord_guest.h"

enum {
	MEMBERS = 4,
	SHORT_MS = 400, /* of a session: after trouble it begins anew after a quarter of it */
	CREATED = 5, /* zxid of the view's node */
};

struct watch {
	watcher_fn fn; /* NULL: nobody watches */
	void *arg;
};

static struct {
	pthread_mutex_t lock;
	char handle; /* its address is the library's */
	struct watch session, view, members;
	int timeout_ms;
	bool made, root, shard; /* /outlast, the job in it, the shard in that */
	bool has_view;
	char text[OL_VIEW_TEXT_MAX];
	int bytes;
	struct Stat stat; /* of the view */
	uint64_t ids[MEMBERS];
	uint32_t count;
	bool keeps_sync;
	string_completion_t sync; /* that is kept back */
	const void *sync_arg;
	int made_rc, members_rc; /* instead of the next one */
	unsigned asked, reads, lists, syncs, proposals, joins;
	unsigned sessions, joins_before; /* the last one */
	unsigned strangers; /* calls without a handle, or below a folder that is not there */
	char said[4096]; /* all lines */
} zoo;

/* ---- the library ---- */

/* May this call be? It holds the lock then. */
static bool enter(const zhandle_t *zh)
{
	pthread_mutex_lock(&zoo.lock);
	if (zh == (const zhandle_t *)(const void *)&zoo.handle)
		return true;
	zoo.strangers++;
	pthread_mutex_unlock(&zoo.lock);
	return false;
}

static void leave(void)
{
	pthread_mutex_unlock(&zoo.lock);
}

static bool ends_in(const char *path, const char *end)
{
	size_t all = strlen(path), bytes = strlen(end);

	return all >= bytes && strcmp(path + all - bytes, end) == 0;
}

/* What is given once instead of an answer */
static int once(int *rc)
{
	int now = *rc;

	*rc = ZOK;
	return now;
}

zhandle_t *zookeeper_init(const char *host, watcher_fn fn, int recv_timeout,
			  const clientid_t *clientid, void *context, int flags)
{
	zhandle_t *zh = (zhandle_t *)(void *)&zoo.handle;

	(void)host;
	(void)recv_timeout;
	(void)clientid;
	(void)flags;
	(void)enter(zh);
	zoo.session = (struct watch){ fn, context };
	zoo.joins_before = zoo.joins;
	zoo.sessions++;
	leave();
	fn(zh, ZOO_SESSION_EVENT, ZOO_CONNECTED_STATE, "", context);
	return zh;
}

int zookeeper_close(zhandle_t *zh)
{
	if (enter(zh))
		leave();
	return ZOK;
}

const clientid_t *zoo_client_id(zhandle_t *zh)
{
	static const clientid_t id = { .client_id = 77 };

	(void)zh;
	return &id;
}

int zoo_recv_timeout(zhandle_t *zh)
{
	(void)zh;
	return zoo.timeout_ms;
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

const char *zerror(int rc)
{
	(void)rc;
	return "it fails";
}

int zoo_add_auth(zhandle_t *zh, const char *scheme, const char *cert, int certLen,
		 void_completion_t completion, const void *data)
{
	(void)zh;
	(void)scheme;
	(void)cert;
	(void)certLen;
	(void)completion;
	(void)data;
	return ZOK;
}

int zoo_aget_acl(zhandle_t *zh, const char *path, acl_completion_t completion, const void *data)
{
	struct ACL_vector none = { 0 };
	int rc;

	(void)path;
	if (!enter(zh))
		return ZBADARGUMENTS;
	zoo.asked++;
	rc = zoo.root ? ZOK : ZNONODE;
	leave();
	completion(rc, &none, &zoo.stat, data);
	return ZOK;
}

static int member_add(const char *path)
{
	zoo.joins++;
	zoo.ids[zoo.count++] = strtoull(strrchr(path, '/') + 1, NULL, 16);
	return ZOK;
}

static int view_put(const char *value, int bytes)
{
	zoo.proposals++;
	memcpy(zoo.text, value, (size_t)bytes);
	zoo.bytes = bytes;
	if (!zoo.has_view)
		zoo.stat = (struct Stat){ .czxid = CREATED, .mzxid = CREATED };
	else
		zoo.stat.mzxid++, zoo.stat.version++;
	zoo.has_view = true;
	return ZOK;
}

/* Make a node. Where there is no folder for it nothing should ask. */
static int node_make(const char *path, const char *value, int bytes)
{
	bool *folder = strcmp(path, "/outlast") == 0 ? &zoo.made
		       : ends_in(path, "/test-job")  ? &zoo.root
		       : ends_in(path, "/shard0")    ? &zoo.shard
						     : NULL;

	if (folder != &zoo.made && !zoo.made)
		zoo.strangers++;
	if (folder != NULL)
		*folder = true;
	if (folder != NULL || ends_in(path, "/members"))
		return ZOK;
	if (ends_in(path, "/view"))
		return zoo.has_view ? ZNODEEXISTS : view_put(value, bytes);
	return member_add(path);
}

int zoo_acreate(zhandle_t *zh, const char *path, const char *value, int valuelen,
		const struct ACL_vector *acl, int mode, string_completion_t completion,
		const void *data)
{
	int rc;

	(void)acl;
	(void)mode;
	if (!enter(zh))
		return ZBADARGUMENTS;
	if (zoo.made_rc != ZOK) {
		leave();
		return once(&zoo.made_rc);
	}
	rc = node_make(path, value, valuelen);
	leave();
	completion(rc, path, data);
	return ZOK;
}

int zoo_aset(zhandle_t *zh, const char *path, const char *buffer, int buflen, int version,
	     stat_completion_t completion, const void *data)
{
	int rc;

	(void)path;
	if (!enter(zh))
		return ZBADARGUMENTS;
	rc = !zoo.has_view                 ? ZNONODE
	     : version != zoo.stat.version ? ZBADVERSION
					   : view_put(buffer, buflen);
	leave();
	completion(rc, &zoo.stat, data);
	return ZOK;
}

int zoo_adelete(zhandle_t *zh, const char *path, int version, void_completion_t completion,
		const void *data)
{
	(void)path;
	(void)version;
	if (!enter(zh))
		return ZBADARGUMENTS;
	leave();
	completion(ZOK, data);
	return ZOK;
}

int zoo_aexists(zhandle_t *zh, const char *path, int watch, stat_completion_t completion,
		const void *data)
{
	(void)path;
	(void)watch;
	if (!enter(zh))
		return ZBADARGUMENTS;
	leave();
	completion(ZNONODE, NULL, data);
	return ZOK;
}

int zoo_awexists(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcherCtx,
		 stat_completion_t completion, const void *data)
{
	int rc;

	(void)path;
	if (!enter(zh))
		return ZBADARGUMENTS;
	zoo.view = (struct watch){ watcher, watcherCtx };
	rc = zoo.has_view ? ZOK : ZNONODE;
	leave();
	completion(rc, &zoo.stat, data);
	return ZOK;
}

int zoo_awget(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcherCtx,
	      data_completion_t completion, const void *data)
{
	char text[OL_VIEW_TEXT_MAX];
	struct Stat stat;
	int rc, bytes;

	(void)path;
	if (!enter(zh))
		return ZBADARGUMENTS;
	zoo.reads++;
	rc = zoo.has_view ? ZOK : ZNONODE;
	if (zoo.has_view)
		zoo.view = (struct watch){ watcher, watcherCtx };
	memcpy(text, zoo.text, sizeof(text));
	bytes = zoo.bytes;
	stat = zoo.stat;
	leave();
	completion(rc, text, bytes, &stat, data);
	return ZOK;
}

int zoo_awget_children(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcherCtx,
		       strings_completion_t completion, const void *data)
{
	char names[MEMBERS][17], *at[MEMBERS];
	struct String_vector all = { .data = at };
	int rc;

	(void)path;
	if (!enter(zh))
		return ZBADARGUMENTS;
	zoo.lists++;
	zoo.members = (struct watch){ watcher, watcherCtx };
	rc = zoo.members_rc != ZOK ? once(&zoo.members_rc) : zoo.shard ? ZOK : ZNONODE;
	for (uint32_t i = 0; i < zoo.count; i++) {
		snprintf(names[i], sizeof(names[i]), "%016llx", (unsigned long long)zoo.ids[i]);
		at[all.count++] = names[i];
	}
	leave();
	completion(rc, &all, data);
	return ZOK;
}

int zoo_aget(zhandle_t *zh, const char *path, int watch, data_completion_t completion,
	     const void *data)
{
	struct ol_member member = server_make(strtoull(strrchr(path, '/') + 1, NULL, 16));
	char text[OL_MEMBER_TEXT_MAX];
	struct Stat stat = { 0 };

	(void)watch;
	if (!enter(zh))
		return ZBADARGUMENTS;
	leave();
	completion(ZOK, text, (int)ol_member_encode(&member, text), &stat, data);
	return ZOK;
}

int zoo_async(zhandle_t *zh, const char *path, string_completion_t completion, const void *data)
{
	bool kept;

	if (!enter(zh))
		return ZBADARGUMENTS;
	zoo.syncs += ends_in(path, "/view");
	kept = zoo.keeps_sync && ends_in(path, "/view");
	if (kept) {
		zoo.sync = completion;
		zoo.sync_arg = data;
	}
	leave();
	if (!kept)
		completion(ZOK, path, data);
	return ZOK;
}

/* ---- what the ensemble does ---- */

static void log_take(void *arg, const char *text)
{
	guest_log(arg, text);
	pthread_mutex_lock(&zoo.lock);
	snprintf(zoo.said + strlen(zoo.said), sizeof(zoo.said) - strlen(zoo.said), "%s\n", text);
	leave();
}

static bool was_said(const char *words)
{
	bool is;

	pthread_mutex_lock(&zoo.lock);
	is = strstr(zoo.said, words) != NULL;
	leave();
	return is;
}

static unsigned count_of(const unsigned *counter)
{
	unsigned now;

	pthread_mutex_lock(&zoo.lock);
	now = *counter;
	leave();
	return now;
}

/* Until it has counted so many */
static void counts(const unsigned *counter, unsigned wanted)
{
	alarm(WAIT_S);
	while (count_of(counter) < wanted)
		sched_yield();
	alarm(0);
}

static void session_is(int state)
{
	zoo.session.fn((zhandle_t *)(void *)&zoo.handle, ZOO_SESSION_EVENT, state, "",
		       zoo.session.arg);
}

/* Whoever watches is told, once */
static void tell(struct watch *watch)
{
	struct watch now;

	pthread_mutex_lock(&zoo.lock);
	now = *watch;
	watch->fn = NULL;
	leave();
	if (now.fn != NULL)
		now.fn((zhandle_t *)(void *)&zoo.handle, ZOO_CHANGED_EVENT, 0, "", now.arg);
}

/* Another client has proposed: the node is this old, and was written that often */
static void view_is(uint32_t epoch, int64_t zxid)
{
	struct ol_view view = view_make(epoch, 1, 0);

	view.shard_count = 1;
	pthread_mutex_lock(&zoo.lock);
	zoo.bytes = (int)ol_view_encode(&view, zoo.text);
	zoo.stat.czxid = CREATED;
	zoo.stat.mzxid = zxid;
	zoo.stat.version = (int32_t)(zxid - CREATED);
	zoo.has_view = true;
	leave();
	tell(&zoo.view);
}

static void member_comes(uint64_t id)
{
	pthread_mutex_lock(&zoo.lock);
	zoo.ids[zoo.count++] = id;
	leave();
	tell(&zoo.members);
}

static void sync_answer(int rc)
{
	counts(&zoo.syncs, 1);
	zoo.sync(rc, "", zoo.sync_arg);
}

/* ---- the client ---- */

static struct guest guest;
static struct ol_coord_state state;

static int setup(void **unused)
{
	(void)unused;
	memset(&zoo, 0, sizeof(zoo));
	pthread_mutex_init(&zoo.lock, NULL);
	zoo.timeout_ms = LONG_LEASE_MS;
	return 0;
}

static void client_open(void)
{
	struct ol_coord_opts opts = guest_opts(&guest, "zk:nobody:1");

	opts.shard_count = 1;
	opts.log = log_take;
	opts.lease_ms = (uint32_t)zoo.timeout_ms;
	guest_enter(&guest, &opts);
}

static int teardown(void **unused)
{
	(void)unused;
	guest_close(&guest);
	assert_int_equal(zoo.strangers, 0);
	pthread_mutex_destroy(&zoo.lock);
	return 0;
}

static void sees(guest_test_fn *test, uint64_t arg)
{
	guest_wait(&guest, 0, test, arg, "what the ensemble has", &state);
}

/* ---- the tests ---- */

static void what_the_ensemble_has_is_seen_and_asked_for_once(void **unused)
{
	unsigned lists, reads;

	(void)unused;
	client_open();
	assert_true(zoo.made && zoo.root && zoo.shard); /* it made what was not there */
	lists = count_of(&zoo.lists);
	reads = count_of(&zoo.reads);
	member_comes(30);
	sees(has_member, 30);
	member_comes(20);
	sees(has_member, 20);
	assert_int_equal(state.member_count, 2);
	view_is(1, CREATED);
	sees(has_epoch, 1);
	view_is(2, CREATED + 1);
	sees(has_epoch, 2);
	assert_int_equal(count_of(&zoo.lists), lists + 2);
	assert_int_equal(count_of(&zoo.reads), reads + 2);
	assert_int_equal(zoo.proposals, 0);
	assert_string_equal(zoo.said, "");
}

/* What it has proposed itself it looks at, also where no watch tells of it */
static void what_is_wished_is_asked_for_once(void **unused)
{
	struct ol_view view = view_make(1, 7, 0);
	struct ol_member self = server_make(7);

	(void)unused;
	view.shard_count = 1;
	client_open();
	check_ok(ol_coord_join(guest.coord, 0, &self));
	counts(&zoo.joins, 1);
	tell(&zoo.members);
	sees(has_member, 7);
	assert_int_equal(count_of(&zoo.proposals), 0);
	for (uint32_t epoch = 1; epoch <= 2; epoch++) {
		view.epoch = epoch;
		ol_coord_look(guest.coord, 0, &state);
		ol_coord_propose(guest.coord, 0, state.version, &view);
		sees(has_epoch, epoch);
		assert_int_equal(count_of(&zoo.proposals), epoch);
	}
	assert_int_equal(count_of(&zoo.joins), 1);
}

/* While it waits for the leader's word it reads nothing, which could be older still */
static void a_view_that_is_older_is_asked_for_at_the_leader(void **unused)
{
	unsigned reads;

	(void)unused;
	client_open();
	view_is(3, CREATED + 2);
	sees(has_epoch, 3);
	zoo.keeps_sync = true;
	reads = count_of(&zoo.reads);
	view_is(2, CREATED + 1);
	counts(&zoo.syncs, 1);
	tell(&zoo.view); /* was read, so it is watched */
	member_comes(30);
	sees(has_member, 30); /* so the one before it was looked at */
	assert_int_equal(count_of(&zoo.reads), reads + 1);
	zoo.keeps_sync = false;
	view_is(4, CREATED + 3);
	sync_answer(ZOK);
	sees(has_epoch, 4);
	assert_true(state.connected);
	assert_int_equal(count_of(&zoo.syncs), 1);
	assert_string_equal(zoo.said, "");
}

static void who_gets_no_answer_of_the_leader_begins_anew(void **unused)
{
	unsigned asked;

	(void)unused;
	zoo.timeout_ms = SHORT_MS;
	client_open();
	view_is(3, CREATED + 2);
	sees(has_epoch, 3);
	zoo.keeps_sync = true;
	view_is(2, CREATED + 1);
	counts(&zoo.syncs, 1);
	asked = count_of(&zoo.asked);
	view_is(4, CREATED + 3);
	sync_answer(ZSYSTEMERROR);
	counts(&zoo.asked, asked + 1);
	sees(has_epoch, 4);
	assert_true(was_said("zookeeper: sync: it fails"));
}

static void what_is_lost_with_a_connection_is_asked_for_with_the_next(void **unused)
{
	(void)unused;
	client_open();
	zoo.members_rc = ZCONNECTIONLOSS;
	member_comes(30);
	counts(&zoo.lists, 2);
	session_is(ZOO_CONNECTING_STATE);
	sees(is_connected, 0);
	session_is(ZOO_CONNECTED_STATE);
	sees(has_member, 30);
	sees(is_connected, 1);
	assert_true(was_said("connection lost"));
	assert_false(was_said("it fails")); /* that a connection was lost is said in one line */
}

/* The thread has taken up what was wished until now */
static void wishes_taken(void)
{
	struct zk *zk = guest.coord->back;
	bool woken;

	do {
		sched_yield();
		pthread_mutex_lock(&zk->lock);
		woken = zk->woken;
		pthread_mutex_unlock(&zk->lock);
	} while (woken);
}

static void nobody_registers_without_a_connection(void **unused)
{
	struct ol_member self = server_make(7);

	(void)unused;
	client_open();
	session_is(ZOO_CONNECTING_STATE);
	sees(is_connected, 0);
	check_ok(ol_coord_join(guest.coord, 0, &self));
	wishes_taken();
	session_is(ZOO_EXPIRED_SESSION_STATE); /* comes behind it */
	counts(&zoo.sessions, 2);
	assert_int_equal(count_of(&zoo.joins_before), 0);
	counts(&zoo.joins, 1); /* in that one */
	tell(&zoo.members);
	sees(has_member, 7);
}

static void what_is_below_a_folder_is_made_after_it(void **unused)
{
	(void)unused;
	zoo.timeout_ms = SHORT_MS;
	zoo.made_rc = ZMARSHALLINGERROR;
	client_open();
	assert_true(was_said("zookeeper: /outlast/test-job: it fails"));
	assert_true(zoo.made && zoo.root && zoo.shard);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(what_the_ensemble_has_is_seen_and_asked_for_once),
		test(what_is_wished_is_asked_for_once),
		test(a_view_that_is_older_is_asked_for_at_the_leader),
		test(who_gets_no_answer_of_the_leader_begins_anew),
		test(what_is_lost_with_a_connection_is_asked_for_with_the_next),
		test(nobody_registers_without_a_connection),
		test(what_is_below_a_folder_is_made_after_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
