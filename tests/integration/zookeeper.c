/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * zookeeper.c -- coordination over a real ensemble of three ZooKeeper servers keeps coord.h's
 * promises, also when servers, clients and sessions die
 *
 * Members to be killed or paused are processes of this program, with arguments.
 */

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "replication/coord/coord.h"
#include "support/check.h"
#include "support/ensemble.h"
#include "support/zk_raw.h"

enum {
	SERVERS = 3,
	SHARDS = 2,
	WAIT_S = 60, /* for anything */
	OPEN_MS = 30000,
	LONG_MS = 20000, /* a session that outlives every wait for something else */
	SHORT_MS = 400,
	ROUNDS = 100,
	LINES_MAX = 128,
};

static struct ensemble ensemble;

/* A handle, and what it has said */
struct client {
	struct ol_coord *coord;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	uint64_t news; /* notify() and log() were called so often */
	unsigned line_count;
	char lines[LINES_MAX][256];
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void on_notify(void *arg)
{
	struct client *client = arg;

	pthread_mutex_lock(&client->lock);
	client->news++;
	pthread_cond_signal(&client->cond);
	pthread_mutex_unlock(&client->lock);
}

static void on_log(void *arg, const char *text)
{
	struct client *client = arg;

	check(strchr(text, '\n') == NULL);
	pthread_mutex_lock(&client->lock);
	check(client->line_count < LINES_MAX);
	snprintf(client->lines[client->line_count++], sizeof(client->lines[0]), "%s", text);
	client->news++;
	pthread_cond_signal(&client->cond);
	pthread_mutex_unlock(&client->lock);
}

/* How many lines hold this word */
static unsigned said(struct client *client, const char *word)
{
	unsigned count = 0;

	pthread_mutex_lock(&client->lock);
	for (unsigned i = 0; i < client->line_count; i++)
		count += strstr(client->lines[i], word) != NULL;
	pthread_mutex_unlock(&client->lock);
	return count;
}

static uint32_t open_ms = OPEN_MS;

/* Who has a secret that ends so may only read */
static const char reads_only[] = "!";

/* No cryptography: two secrets give two values */
static int test_mac(void *arg, const void *bytes, size_t count, uint8_t mac[OL_COORD_MAC_BYTES])
{
	uint64_t hash = UINT64_C(14695981039346656037);

	for (const char *at = arg; *at != '\0' && *at != reads_only[0]; at++)
		hash = (hash ^ (uint8_t)*at) * UINT64_C(1099511628211);
	for (size_t i = 0; i < count; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(1099511628211);
	memcpy(mac, &hash, 8);
	memcpy(mac + 8, &hash, 8);
	return 0;
}

static int test_owner_mac(void *arg, const void *bytes, size_t count,
			  uint8_t mac[OL_COORD_MAC_BYTES])
{
	if (strstr(arg, reads_only) != NULL)
		return -EPERM;
	(void)test_mac(arg, bytes, count, mac);
	mac[0] ^= 1;
	return 0;
}

static int client_try(struct client *client, const char *addr, const char *job, uint32_t lease_ms,
		      char *secret, char *err, size_t err_bytes)
{
	struct ol_coord_opts opts = { .addr = addr,
				      .job = job,
				      .shard_count = SHARDS,
				      .lease_ms = lease_ms,
				      .open_timeout_ms = open_ms,
				      .mac = secret != NULL ? test_mac : NULL,
				      .owner_mac = secret != NULL ? test_owner_mac : NULL,
				      .mac_arg = secret,
				      .notify = on_notify,
				      .notify_arg = client,
				      .log = on_log,
				      .log_arg = client };
	pthread_condattr_t attr;

	memset(client, 0, sizeof(*client));
	pthread_mutex_init(&client->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&client->cond, &attr);
	pthread_condattr_destroy(&attr);
	return ol_coord_open(&opts, &client->coord, err, err_bytes);
}

static void client_open(struct client *client, const char *job, uint32_t lease_ms, char *secret)
{
	char err[256] = "";
	int rc = client_try(client, ensemble.addr, job, lease_ms, secret, err, sizeof(err));

	check_msg(rc == 0, "open: %d: %s", rc, err);
}

static void client_close(struct client *client)
{
	ol_coord_close(client->coord);
	pthread_cond_destroy(&client->cond);
	pthread_mutex_destroy(&client->lock);
}

static struct ol_coord_state look(struct client *client, uint32_t shard)
{
	struct ol_coord_state state;

	ol_coord_look(client->coord, shard, &state);
	return state;
}

static bool has(const struct ol_coord_state *state, uint64_t id)
{
	for (uint32_t i = 0; i < state->member_count; i++)
		if (state->members[i].id == id)
			return true;
	return false;
}

/* What is waited for: of shard 0 */
enum what {
	VERSION, /* is `number` */
	MEMBER, /* `number` is there */
	NO_MEMBER,
	CONNECTED,
	AWAY,
	CHANGED, /* the generation is not `number` any more */
	SAID, /* more than `number` lines */
};

static bool holds(struct client *client, enum what what, uint64_t number)
{
	struct ol_coord_state copy = look(client, 0), *state = &copy;

	switch (what) {
	case VERSION:
		return state->version == number;
	case MEMBER:
		return has(state, number);
	case NO_MEMBER:
		return !has(state, number);
	case CONNECTED:
		return state->connected;
	case AWAY:
		return !state->connected;
	case CHANGED:
		return ol_coord_generation(client->coord) != number;
	case SAID:
		return said(client, "") > number;
	}
	return false;
}

static void wait_for_at(int line, struct client *client, enum what what, uint64_t number)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += WAIT_S;
	for (;;) {
		uint64_t news;
		int rc = 0;

		pthread_mutex_lock(&client->lock);
		news = client->news;
		pthread_mutex_unlock(&client->lock);
		if (holds(client, what, number))
			return;
		pthread_mutex_lock(&client->lock);
		while (client->news == news && rc == 0)
			rc = pthread_cond_timedwait(&client->cond, &client->lock, &until);
		pthread_mutex_unlock(&client->lock);
		check_msg(rc == 0, "line %d: %d %" PRIu64 " never came", line, (int)what, number);
	}
}

#define wait_for(client, what, number) wait_for_at(__LINE__, client, what, number)

static struct ol_member member_make(uint64_t id)
{
	struct ol_member member = { .id = id, .job = 7, .proto = 1 };

	snprintf(member.addr, sizeof(member.addr), "10.0.0.1:%" PRIu64, 1000 + id % 1000);
	return member;
}

static void join(struct client *client, uint64_t id)
{
	struct ol_member member = member_make(id);

	check_ok(ol_coord_join(client->coord, 0, &member));
}

/* A view that can be told from others by the member in it */
static struct ol_view view_make(uint32_t epoch, uint64_t id)
{
	return (struct ol_view){ .epoch = epoch,
				 .founded = 1,
				 .history = 1,
				 .origin = 1,
				 .shard_count = SHARDS,
				 .wanted = 1,
				 .count = 1,
				 .replicas = { member_make(id) } };
}

static void propose(struct client *client, uint64_t version, uint64_t id)
{
	struct ol_view view = view_make((uint32_t)version + 1, id);

	ol_coord_propose(client->coord, 0, version, &view);
}

/* In force, and seen by both */
static void agree(struct client *a, struct client *b, uint64_t version, uint64_t id)
{
	propose(a, version, id);
	wait_for(a, VERSION, version + 1);
	wait_for(b, VERSION, version + 1);
	check_eq(look(b, 0).view.replicas[0].id, id);
	check_eq(look(a, 0).view.replicas[0].id, id);
}

/* Until it is in force: what was under way when a connection was lost was applied, or was not */
static void insist(struct client *client, uint64_t version, uint64_t id)
{
	while (look(client, 0).version == version) {
		uint64_t seen = ol_coord_generation(client->coord);

		propose(client, version, id);
		wait_for(client, CHANGED, seen);
	}
}

/* Members in a process of their own */

static pid_t member_spawn(const char *job, uint64_t id, uint32_t lease_ms)
{
	char id_text[32], lease_text[16];
	pid_t pid;

	snprintf(id_text, sizeof(id_text), "%" PRIu64, id);
	snprintf(lease_text, sizeof(lease_text), "%" PRIu32, lease_ms);
	fflush(NULL);
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/proc/self/exe", "zookeeper", ensemble.addr, job, id_text, lease_text, NULL);
		_exit(1);
	}
	return pid;
}

static _Noreturn void member_main(char **argv)
{
	struct client client;
	char err[256];

	check_ok(client_try(&client, argv[1], argv[2], (uint32_t)strtoul(argv[4], NULL, 10), NULL,
			    err, sizeof(err)));
	join(&client, strtoull(argv[3], NULL, 10));
	for (;;)
		pause();
}

static void member_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0)
		check(errno == EINTR);
}

static void member_pause(pid_t pid)
{
	int status = 0;

	kill(pid, SIGSTOP);
	while (waitpid(pid, &status, WUNTRACED) < 0)
		check(errno == EINTR);
	check(WIFSTOPPED(status));
}

/*
 * A process that stops its parent, whose member `id` is, until the session is gone. The parent sees
 * nothing of the time between.
 */
static pid_t pauser_spawn(const char *job, uint64_t id)
{
	char id_text[32];
	pid_t pid;

	snprintf(id_text, sizeof(id_text), "%" PRIu64, id);
	fflush(NULL);
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/proc/self/exe", "zookeeper", ensemble.addr, job, id_text, NULL);
		_exit(1);
	}
	return pid;
}

static int pauser_main(char **argv)
{
	uint64_t id = strtoull(argv[3], NULL, 10);
	struct client client;
	char err[256];

	check_ok(client_try(&client, argv[1], argv[2], LONG_MS, NULL, err, sizeof(err)));
	wait_for(&client, MEMBER, id);
	kill(getppid(), SIGSTOP);
	wait_for(&client, NO_MEMBER, id);
	kill(getppid(), SIGCONT);
	client_close(&client);
	return 0;
}

/* Scenarios */

static void clients_see_each_other(void)
{
	struct client a, b, other;
	struct ol_member member = member_make(12);
	struct ol_view view;

	client_open(&a, "seen", LONG_MS, NULL);
	client_open(&b, "seen", LONG_MS, NULL);
	client_open(&other, "unseen", LONG_MS, NULL);
	check_eq(look(&a, 0).version, 0);
	check(look(&a, 0).connected);
	check(look(&a, 0).lease_ns > now_ns());
	check(look(&a, 0).lease_ns <= now_ns() + LONG_MS * UINT64_C(1000000));
	join(&a, 11);
	check_eq(ol_coord_join(a.coord, 0, &member), -EBUSY);
	check_eq(ol_coord_join(b.coord, SHARDS, &member), -EINVAL);
	join(&b, 12);
	wait_for(&a, MEMBER, 12);
	wait_for(&b, MEMBER, 11);
	wait_for(&a, MEMBER, 11);
	check_eq(memcmp(&look(&a, 0).members[look(&a, 0).members[0].id == 12 ? 0 : 1], &member,
			sizeof(member)),
		 0);
	check_eq(look(&a, 1).member_count, 0);
	agree(&a, &b, 0, 11);
	agree(&b, &a, 1, 12);
	view = view_make(1, 13);
	ol_coord_propose(a.coord, 1, 0, &view);
	for (uint64_t seen = 0; look(&b, 1).version == 0; seen = ol_coord_generation(b.coord))
		wait_for(&b, CHANGED, seen);
	check_eq(look(&b, 1).view.replicas[0].id, 13);
	check_eq(look(&other, 0).version, 0);
	check_eq(look(&other, 0).member_count, 0);
	client_close(&a);
	wait_for(&b, NO_MEMBER, 11); /* its session would last longer than this waits */
	client_close(&b);
	client_close(&other);
	check_eq(a.line_count + b.line_count + other.line_count, 0);
}

/* Both propose on the same version, again and again; a stray late success would be one too many */
static void one_of_two_wins(void)
{
	struct client a, b;
	uint64_t seen;
	unsigned won_a = 0;

	client_open(&a, "race", LONG_MS, NULL);
	client_open(&b, "race", LONG_MS, NULL);
	for (uint64_t version = 0; version < ROUNDS; version++) {
		struct ol_view in_a, in_b;
		uint64_t before = ol_coord_generation(a.coord);

		propose(version % 2 == 0 ? &a : &b, version, version % 2 == 0 ? 1 : 2);
		propose(version % 2 == 0 ? &b : &a, version, version % 2 == 0 ? 2 : 1);
		wait_for(&a, VERSION, version + 1);
		wait_for(&b, VERSION, version + 1);
		check(ol_coord_generation(a.coord) > before);
		in_a = look(&a, 0).view;
		in_b = look(&b, 0).view;
		check_eq(memcmp(&in_a, &in_b, sizeof(in_a)), 0);
		check_eq(in_a.epoch, version + 1);
		won_a += in_a.replicas[0].id == 1;
	}
	seen = ol_coord_generation(a.coord);
	propose(&a, ROUNDS - 1, 1); /* too late: changes nothing, and is heard of */
	wait_for(&a, CHANGED, seen);
	check_eq(look(&a, 0).version, ROUNDS);
	printf("race: %u of %u rounds to the first\n", won_a, (unsigned)ROUNDS);
	client_close(&a);
	client_close(&b);
}

static void killed_and_paused_members_leave(void)
{
	struct client a;
	pid_t killed = member_spawn("gone", 21, SHORT_MS);
	pid_t paused = member_spawn("gone", 22, SHORT_MS);
	uint64_t start_ns;

	client_open(&a, "gone", LONG_MS, NULL);
	wait_for(&a, MEMBER, 21);
	wait_for(&a, MEMBER, 22);
	start_ns = now_ns();
	member_kill(killed);
	member_pause(paused);
	wait_for(&a, NO_MEMBER, 21);
	wait_for(&a, NO_MEMBER, 22);
	printf("killed and paused members left after %" PRIu64 " ms\n",
	       (now_ns() - start_ns) / 1000000);
	kill(paused, SIGCONT); /* its session is gone: it begins another */
	wait_for(&a, MEMBER, 22);
	member_kill(paused);
	client_close(&a);
}

static void an_expired_session_is_followed_by_another(void)
{
	struct client a;
	pid_t pauser;
	int status = 0;

	client_open(&a, "expired", SHORT_MS, NULL);
	insist(&a, 0, 25);
	pauser = pauser_spawn("expired", 25);
	join(&a, 25);
	while (said(&a, "expired") == 0)
		wait_for(&a, SAID, said(&a, ""));
	while (waitpid(pauser, &status, 0) < 0)
		check(errno == EINTR);
	check_eq(status, 0);
	wait_for(&a, CONNECTED, 0);
	wait_for(&a, MEMBER, 25);
	check(look(&a, 0).losses > 0);
	check_eq(look(&a, 0).version, 1);
	insist(&a, 1, 26);
	check_eq(look(&a, 0).view.replicas[0].id, 26);
	client_close(&a);
}

/* What is in the view is never among those that are left out */
static void there_are_too_many_members(void)
{
	static const uint64_t last = UINT64_MAX - 999;
	struct client a, b;
	struct zk_raw *raw = zk_raw_open(ensemble.addr);

	client_open(&a, "many", LONG_MS, NULL);
	join(&a, last);
	insist(&a, 0, last);
	for (uint64_t id = 1; id <= OL_MEMBERS_MAX + 4; id++) {
		struct ol_member member = member_make(id);
		char path[128], text[OL_MEMBER_TEXT_MAX];

		ol_member_encode(&member, text);
		snprintf(path, sizeof(path), "/outlast/many/shard0/members/%016" PRIx64, id);
		zk_raw_create(raw, path, text);
	}
	client_open(&b, "many", LONG_MS, NULL);
	check_eq(look(&b, 0).member_count, OL_MEMBERS_MAX);
	wait_for(&b, MEMBER, last);
	zk_raw_delete(raw, "/outlast/many/shard0/members/0000000000000001");
	wait_for(&b, MEMBER, OL_MEMBERS_MAX);
	wait_for(&b, MEMBER, last);
	zk_raw_close(raw);
	client_close(&a);
	client_close(&b);
}

/* Each server in turn is killed; then one is paused, so that its connections stay, silent */
static void any_one_server_is_lost(void)
{
	struct client a, b;
	uint64_t version = 0;
	unsigned met = 0;

	client_open(&a, "one", LONG_MS / 10, NULL);
	client_open(&b, "one", LONG_MS / 10, NULL);
	join(&a, 31);
	wait_for(&b, MEMBER, 31);
	for (unsigned i = 0; i <= SERVERS; i++) {
		unsigned index = i;

		if (i == SERVERS)
			for (index = 0; ensemble_connections(&ensemble, index) == 0;)
				index++;
		met += ensemble_connections(&ensemble, index) > 0;
		if (i < SERVERS)
			ensemble_kill(&ensemble, index);
		else
			ensemble_pause(&ensemble, index);
		for (unsigned round = 0; round < 3; round++) {
			insist(&a, version, 31);
			version++;
			wait_for(&b, VERSION, version);
			check_eq(look(&b, 0).view.epoch, version);
		}
		if (i < SERVERS)
			ensemble_restart(&ensemble, index);
		else
			ensemble_resume(&ensemble, index);
		ensemble_wait(&ensemble, index);
	}
	wait_for(&b, MEMBER, 31);
	check(met >= 2); /* clients were there */
	check(said(&a, "connection lost") + said(&b, "connection lost") >= 2);
	client_close(&a);
	client_close(&b);
}

/* pause: sessions may run out meanwhile, as the servers see their clocks jump */
static void quorum_lost(bool pausing)
{
	const char *job = pausing ? "frozen" : "two";
	unsigned lost = pausing ? SERVERS : SERVERS - 1;
	struct client a, b;
	struct ol_coord_state before;

	client_open(&a, job, pausing ? SHORT_MS : LONG_MS, NULL);
	client_open(&b, job, pausing ? SHORT_MS : LONG_MS, NULL);
	join(&a, 41);
	wait_for(&b, MEMBER, 41);
	agree(&a, &b, 0, 41);
	for (unsigned i = 0; i < lost; i++)
		pausing ? ensemble_pause(&ensemble, i) : ensemble_kill(&ensemble, i);
	wait_for(&a, AWAY, 0);
	wait_for(&b, AWAY, 0);
	before = look(&b, 0);
	check_eq(before.version, 1);
	check(has(&before, 41));
	propose(&a, 1, 42); /* forgotten */
	for (unsigned i = 0; i < lost; i++)
		pausing ? ensemble_resume(&ensemble, i) : ensemble_restart(&ensemble, i);
	wait_for(&a, CONNECTED, 0);
	wait_for(&b, CONNECTED, 0);
	wait_for(&b, MEMBER, 41);
	check_eq(look(&b, 0).version, 1);
	insist(&b, 1, 43);
	wait_for(&a, VERSION, 2);
	check_eq(look(&a, 0).view.replicas[0].id, 43);
	wait_for(&b, MEMBER, 41);
	printf("quorum lost (%s): %u sessions expired\n", job,
	       said(&a, "expired") + said(&b, "expired"));
	client_close(&a);
	client_close(&b);
	for (unsigned i = 0; i < lost; i++)
		ensemble_wait(&ensemble, i);
}

static void a_quorum_is_killed(void)
{
	quorum_lost(false);
}

static void a_quorum_is_paused(void)
{
	quorum_lost(true);
}

static void a_secret_keeps_others_out(void)
{
	char right[] = "right", wrong[] = "wrong", err[256];
	struct client a, b, c;

	client_open(&a, "secret", LONG_MS, right);
	client_open(&b, "secret", LONG_MS, right);
	join(&a, 51);
	wait_for(&b, MEMBER, 51);
	agree(&b, &a, 0, 51);
	check_eq(client_try(&c, ensemble.addr, "secret", LONG_MS, wrong, err, sizeof(err)),
		 -EACCES);
	check_msg(strstr(err, "another secret") != NULL, "%s", err);
	check_eq(client_try(&c, ensemble.addr, "secret", LONG_MS, NULL, err, sizeof(err)), -EACCES);
	check_msg(strstr(err, "none was given") != NULL, "%s", err);
	check_eq(c.line_count, 0);
	client_close(&a);
	client_close(&b);
	/* whoever comes first without a secret must not lure those who have one */
	client_open(&a, "open", LONG_MS, NULL);
	check_eq(client_try(&c, ensemble.addr, "open", LONG_MS, right, err, sizeof(err)), -EACCES);
	check_msg(strstr(err, "without a secret") != NULL, "%s", err);
	client_close(&a);
}

/* A worker's credential has the first secret and not the second: it follows views and makes none */
static void a_reader_writes_nothing(void)
{
	static const char label[] = "outlast: password in zookeeper of job readers";
	static const char view[] = "/outlast/readers/shard0/view";
	static const char member[] = "/outlast/readers/shard0/members/0000000000000047";
	static const char stray[] = "/outlast/readers/shard0/members/00000000000000ff";
	char full[] = "right", half[] = "right!", err[256], before[OL_VIEW_TEXT_MAX],
	     after[OL_VIEW_TEXT_MAX];
	struct zk_raw *raw = zk_raw_open(ensemble.addr);
	struct client server, reader;
	uint8_t mac[OL_COORD_MAC_BYTES];

	/* no server has begun the job: a reader does not begin it */
	open_ms = 1000;
	check_eq(client_try(&reader, ensemble.addr, "readers", LONG_MS, half, err, sizeof(err)),
		 -ETIMEDOUT);
	check_eq(said(&reader, "no server has begun the job"), 1);
	open_ms = OPEN_MS;
	client_open(&server, "readers", LONG_MS, full);
	join(&server, 71);
	wait_for(&server, MEMBER, 71);
	client_open(&reader, "readers", LONG_MS, half);
	agree(&server, &reader, 0, 71);
	propose(&reader, 1, 72); /* it may not, and says so */
	agree(&server, &reader, 1, 73);
	check_eq(look(&reader, 0).view.replicas[0].id, 73);

	zk_raw_get_denied(raw, view);
	(void)test_mac(half, label, strlen(label), mac);
	zk_raw_introduce(raw, "outlast", mac);
	zk_raw_get(raw, view, before, sizeof(before));
	zk_raw_denied(raw, view);
	zk_raw_denied(raw, member);
	zk_raw_create_denied(raw, stray);
	zk_raw_get(raw, view, after, sizeof(after));
	check(strcmp(before, after) == 0);
	check(holds(&server, MEMBER, 71));
	client_close(&server);
	client_close(&reader);
	zk_raw_close(raw);
}

static void garbage_is_left_for_a_person_to_see(void)
{
	static const char view[] = "/outlast/rubbish/shard0/view";
	static const char stray[] = "/outlast/rubbish/shard0/members/00000000000000ff";
	static const char own[] = "/outlast/rubbish/shard0/members/000000000000003d";
	struct client a, b;
	struct zk_raw *raw = zk_raw_open(ensemble.addr);
	char text[OL_VIEW_TEXT_MAX];

	client_open(&a, "rubbish", LONG_MS, NULL);
	client_open(&b, "rubbish", LONG_MS, NULL);
	join(&a, 61);
	agree(&a, &b, 0, 61);
	zk_raw_set(raw, view, "epoch twelve\n");
	wait_for(&a, VERSION, 0);
	/* b too: whoever saw the view and then no node would take the view for lost */
	wait_for(&b, VERSION, 0);
	check_eq(look(&a, 0).view.epoch, 0);
	for (uint64_t i = 0; i < 2; i++) {
		uint64_t before = ol_coord_generation(a.coord);

		propose(&a, i, 62); /* as if there were none; as if the old one were there */
		wait_for(&a, CHANGED, before);
	}
	zk_raw_get(raw, view, text, sizeof(text));
	check_eq(strcmp(text, "epoch twelve\n"), 0);
	check_eq(said(&a, "holds no view"), 1);
	zk_raw_delete(raw, view);
	zk_raw_create(raw, stray, "x");
	wait_for(&a, SAID, 1);
	wait_for(&b, NO_MEMBER, 255);
	agree(&b, &a, 0, 63);
	/* our own registration does not stay away */
	zk_raw_delete(raw, own);
	zk_raw_delete(raw, stray);
	wait_for(&b, MEMBER, 61);
	check_eq(said(&a, "holds no such member"), 1);
	zk_raw_close(raw);
	client_close(&a);
	client_close(&b);
}

static void what_cannot_be_opened(void)
{
	struct ensemble alone = ensemble;
	struct client a;
	char err[256];
	struct ol_coord_opts opts = { .addr = alone.addr,
				      .job = "none",
				      .shard_count = 1,
				      .lease_ms = 1000,
				      .open_timeout_ms = 300 };

	check_eq(client_try(&a, "zk:127.0.0.1", "none", 1000, NULL, err, sizeof(err)), -EINVAL);
	check_msg(strstr(err, "HOST:PORT") != NULL, "%s", err);
	check_eq(client_try(&a, "zk:127.0.0.1:80,", "none", 1000, NULL, err, sizeof(err)), -EINVAL);
	check_eq(client_try(&a, "zk:", "none", 1000, NULL, err, sizeof(err)), -EINVAL);
	/* shorter sessions than the ensemble grants */
	client_open(&a, "brief", ENSEMBLE_SESSION_MIN_MS / 2, NULL);
	check_eq(said(&a, "sessions of 100 ms, not of the 50 ms"), 1);
	client_close(&a);
	for (unsigned i = 0; i < SERVERS; i++)
		ensemble_kill(&ensemble, i);
	check_eq(ol_coord_open(&opts, &a.coord, err, sizeof(err)), -ETIMEDOUT);
	check_msg(strstr(err, ensemble.addr) != NULL, "%s", err);
}

#define SCENARIO(fn) \
	{ \
#fn, fn \
	}

static const struct {
	const char *name;
	void (*run)(void);
} scenarios[] = {
	SCENARIO(clients_see_each_other),
	SCENARIO(one_of_two_wins),
	SCENARIO(killed_and_paused_members_leave),
	SCENARIO(an_expired_session_is_followed_by_another),
	SCENARIO(there_are_too_many_members),
	SCENARIO(a_secret_keeps_others_out),
	SCENARIO(a_reader_writes_nothing),
	SCENARIO(garbage_is_left_for_a_person_to_see),
	SCENARIO(any_one_server_is_lost),
	SCENARIO(a_quorum_is_killed),
	SCENARIO(a_quorum_is_paused),
	SCENARIO(what_cannot_be_opened),
};

int main(int argc, char **argv)
{
	if (argc == 5)
		member_main(argv);
	if (argc == 4)
		return pauser_main(argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	ensemble_start(&ensemble, SERVERS);
	for (unsigned i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		uint64_t start_ns = now_ns();

		scenarios[i].run();
		printf("ok %s: %" PRIu64 " ms\n", scenarios[i].name,
		       (now_ns() - start_ns) / 1000000);
	}
	ensemble_stop(&ensemble);
	return 0;
}
