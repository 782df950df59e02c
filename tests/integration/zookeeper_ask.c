/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * zookeeper_ask.c -- an operator's half of ZooKeeper, over a real ensemble: jobs below a chroot; users of a
 * file, whose views strangers cannot change; what is kept is listed; dead jobs are removed, and a server that
 * comes at that moment keeps its view, or begins the job anew; what the doctor measures and finds
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "replication/coord/ask.h"
#include "server/coordinator.h"
#include "support/ensemble.h"
#include "support/zk_raw.h"
#include "unit/replication/coord_guest.h"
#include "wire/auth.h"

enum {
	SERVERS = 3,
	LEASE_MS = 5000,
	ASK_MS = 20000,
	ROUNDS = 24,
	TEXT_MAX = 65536,
};

static struct ensemble ensemble;
static char no_key[] = "";
static char key[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/* Addresses and files */

static const char *file_make(const char *name, const char *text, mode_t mode)
{
	static char path[4][256];
	static unsigned turn;
	char *to = path[turn++ % 4];
	FILE *file;

	snprintf(to, sizeof(path[0]), "%s/%s", ensemble.dir, name);
	file = fopen(to, "we");
	check(file != NULL);
	check(fputs(text, file) >= 0 && fclose(file) == 0);
	check_ok(chmod(to, mode));
	return to;
}

static const char *addr_make(const char *chroot, const char *file)
{
	static char addr[4][1024];
	static unsigned turn;
	char *to = addr[turn++ % 4];

	snprintf(to, sizeof(addr[0]), "%s%s%s%s", ensemble.addr, chroot,
		 file != NULL ? "?auth=" : "", file != NULL ? file : "");
	return to;
}

/* A server or worker of a job; job_key "": none */
static int guest_try(struct guest *guest, const char *addr, const char *job, char *job_key,
		     char *err, size_t err_bytes)
{
	struct ol_coord_opts opts = guest_opts(guest, addr);

	opts.job = job;
	opts.shard_count = 1;
	opts.lease_ms = LEASE_MS;
	opts.open_timeout_ms = ASK_MS;
	opts.mac = ol_auth_coord_mac;
	opts.owner_mac = ol_auth_coord_owner_mac;
	opts.mac_arg = job_key;
	opts.keyless = job_key[0] == '\0';
	return ol_coord_open(&opts, &guest->coord, err, err_bytes);
}

static void guest_come(struct guest *guest, const char *addr, const char *job, char *job_key)
{
	char err[256] = "";
	int rc = guest_try(guest, addr, job, job_key, err, sizeof(err));

	check_msg(rc == 0, "%s: %d: %s", job, rc, err);
}

static void refused(const char *addr, const char *job, char *job_key, int rc, const char *why)
{
	struct guest guest;
	char err[512] = "";

	check_eq(guest_try(&guest, addr, job, job_key, err, sizeof(err)), rc);
	check_msg(strstr(err, why) != NULL && strchr(err, '\n') == NULL, "%s", err);
}

static bool has_version(const struct ol_coord_state *state, uint64_t version)
{
	return state->version == version;
}

static bool registered_or_lost(const struct ol_coord_state *state, uint64_t id)
{
	return has_member(state, id) || ol_coord_is_lost(state);
}

/* A server: registered, and the only one in a view */
static void server_come(struct guest *guest, const char *addr, const char *job, char *job_key,
			uint64_t id)
{
	struct ol_member member = { .id = id, .job = 7, .proto = 1, .addr = "10.0.0.1:7471" };
	struct ol_coord_state state;
	struct ol_view view = { .epoch = 1,
				.founded = 1,
				.history = id,
				.origin = id,
				.shard_count = 1,
				.wanted = 1,
				.count = 1,
				.replicas = { member } };

	guest_come(guest, addr, job, job_key);
	check_ok(ol_coord_join(guest->coord, 0, &member));
	guest_wait(guest, 0, has_member, id, "itself", &state);
	ol_coord_propose(guest->coord, 0, 0, &view);
	guest_wait(guest, 0, has_version, 1, "its view", &state);
}

/* What is kept, as text: "JOB/SHARD epoch E live L guard G; " */

static void text_add(void *arg, const struct ol_kept *kept)
{
	char *text = arg;
	size_t used = strlen(text);

	check(used < TEXT_MAX - 128);
	check(kept->begun_ms > 0 && kept->changed_ms >= kept->begun_ms);
	snprintf(text + used, TEXT_MAX - used,
		 "%s/%d epoch %" PRIu32 " live %" PRIu32 " guard %d; ", kept->job, (int)kept->shard,
		 kept->view.epoch, kept->live, (int)kept->access);
}

static const char *listed(const char *addr, const char *job, const char *job_key)
{
	static char text[TEXT_MAX];
	const struct ol_coordinator coordinator = {
		.addr = addr, .job = job, .job_key = job_key, .timeout_ms = ASK_MS
	};
	char err[256] = "";
	int rc;

	text[0] = '\0';
	rc = ol_coordinator_list(&coordinator, text_add, text, err, sizeof(err));
	check_msg(rc == 0, "list: %d: %s", rc, err);
	return text;
}

#define lists(addr, job, job_key, want) \
	do { \
		const char *got_ = listed(addr, job, job_key); \
		check_msg(strcmp(got_, want) == 0, "%s", got_); \
	} while (0)

static int removal(const char *addr, const char *job, const char *job_key, char *err,
		   size_t err_bytes)
{
	const struct ol_coordinator coordinator = {
		.addr = addr, .job = job, .job_key = job_key, .timeout_ms = ASK_MS
	};

	return ol_coordinator_remove(&coordinator, err, err_bytes);
}

static void root_make(const char *addr)
{
	const struct ol_coordinator coordinator = { .addr = addr, .timeout_ms = ASK_MS };
	char err[256] = "";

	check_msg(ol_coordinator_make_root(&coordinator, err, sizeof(err)) == 0, "%s", err);
}

/* Scenarios */

static void a_chroot_holds_jobs_of_its_own(void)
{
	struct guest below, above;
	struct ol_coord_state state;

	refused(addr_make("/ml/a", NULL), "same", no_key, -ENOENT, "there is no node /ml/a");
	refused(addr_make("/ml//a", NULL), "same", no_key, -EINVAL, "no node of ZooKeeper");
	root_make(addr_make("/ml/a", NULL));
	root_make(addr_make("/ml/a", NULL)); /* it is there */
	server_come(&below, addr_make("/ml/a", NULL), "same", no_key, 11);
	server_come(&above, addr_make("/", NULL), "same", no_key, 12);
	ol_coord_look(below.coord, 0, &state);
	check(!has_member(&state, 12));
	lists(addr_make("/ml/a", NULL), NULL, "", "same/0 epoch 1 live 1 guard 0; ");
	lists(addr_make("", NULL), NULL, "", "same/0 epoch 1 live 1 guard 0; ");
	guest_close(&above);
	lists(addr_make("", NULL), "same", "", "same/0 epoch 1 live 0 guard 0; ");
	lists(addr_make("/ml/a", NULL), "same", "", "same/0 epoch 1 live 1 guard 0; ");
	guest_close(&below);
}

static void a_file_must_be_its_owners_alone(void)
{
	const char *open = file_make("open", "ops:one\n", 0644);
	const char *empty = file_make("empty", "ops\n", 0600);

	refused(addr_make("", open), "files", no_key, -EPERM, "chmod 600");
	refused(addr_make("", empty), "files", no_key, -EINVAL, "one line user:password");
	refused(addr_make("", "/nowhere/file"), "files", no_key, -ENOENT, "No such file");
}

/* The node above is made by the user's own hand; then the jobs of others, of the same user, and of none */
static void a_user_keeps_strangers_out(void)
{
	const char *mine = addr_make("/mine", file_make("user", "ops:one\n", 0600));
	const char *wrong = addr_make("/mine", file_make("wrong", "ops:two", 0600));
	struct guest server, worker;
	struct zk_raw *raw = zk_raw_open(ensemble.addr);
	struct ol_coord_state state;

	root_make(mine);
	server_come(&server, mine, "job", no_key, 21);
	guest_come(&worker, mine, "job", no_key);
	guest_wait(&worker, 0, has_version, 1, "the view", &state);
	refused(wrong, "job", no_key, -EACCES, "another password");
	refused(wrong, "other", no_key, -EACCES, "has no right to make nodes under /mine/outlast");
	refused(addr_make("/mine", NULL), "other", no_key, -EACCES, "by ?auth=FILE");
	zk_raw_denied(raw, "/mine/outlast/job/shard0/view");
	zk_raw_denied(raw, "/mine/outlast/job/shard0/members/0000000000000015");
	zk_raw_get_denied(raw, "/mine/outlast/job/shard0/view");
	zk_raw_create_denied(raw, "/mine/outlast/another");
	zk_raw_close(raw);
	lists(mine, NULL, "", "job/0 epoch 1 live 1 guard 1; ");
	lists(addr_make("/mine", NULL), NULL, "", "job/0 epoch 0 live 1 guard 2; ");
	guest_close(&worker);
	guest_close(&server);
}

/* A job with a key, begun by a user: workers have the key and no file */
static void a_key_and_a_user_go_together(void)
{
	const char *user = addr_make("", file_make("user", "ops:one\n", 0600));
	struct guest server, worker;
	struct ol_coord_state state;
	char err[256];

	server_come(&server, user, "both", key, 31);
	guest_come(&worker, ensemble.addr, "both", key);
	guest_wait(&worker, 0, has_member, 31, "the server", &state);
	refused(ensemble.addr, "both", no_key, -EACCES, "none was given");
	lists(ensemble.addr, "both", "", "both/0 epoch 0 live 1 guard 2; ");
	lists(ensemble.addr, "both", key, "both/0 epoch 1 live 1 guard 1; ");
	guest_close(&server);
	guest_close(&worker);
	check_eq(removal(ensemble.addr, "both", "", err, sizeof(err)), -EACCES);
	lists(user, "both", "", "both/0 epoch 1 live 0 guard 1; ");
	check_ok(removal(user, "both", "", err, sizeof(err))); /* who began it needs no key */
	check_eq(removal(user, "both", "", err, sizeof(err)), -ENOENT);
}

/* One that was begun without a file goes on with servers that have one, and is said to be open */
static void an_open_job_stays_open(void)
{
	const char *user = addr_make("", file_make("user", "ops:one\n", 0600));
	struct guest before, after;
	struct ol_coord_state state;
	struct ol_member member = { .id = 42, .job = 7, .proto = 1, .addr = "10.0.0.2:7471" };

	server_come(&before, ensemble.addr, "old", no_key, 41);
	guest_come(&after, user, "old", no_key);
	check_ok(ol_coord_join(after.coord, 0, &member));
	guest_wait(&before, 0, has_member, 42, "the one with the file", &state);
	guest_wait_line(&after, "anybody who reaches the ensemble may change its views");
	guest_close(&before);
	guest_close(&after);
}

static void what_lives_is_not_removed(void)
{
	static const char label[] = "outlast: password in zookeeper of job alive";
	struct zk_raw *raw = zk_raw_open(ensemble.addr);
	uint8_t mac[OL_COORD_MAC_BYTES];
	struct guest server;
	char err[512] = "";

	server_come(&server, ensemble.addr, "alive", no_key, 51);
	check_eq(removal(ensemble.addr, "alive", "", err, sizeof(err)), -EBUSY);
	check_msg(strstr(err, "job alive is in use: a server is registered") != NULL, "%s", err);
	lists(ensemble.addr, "alive", "", "alive/0 epoch 1 live 1 guard 0; ");
	guest_close(&server);
	check_ok(ol_auth_coord_owner_mac(no_key, label, strlen(label), mac));
	zk_raw_introduce(raw, "outlast-servers", mac); /* as anybody can, without a key */
	zk_raw_create(raw, "/outlast/alive/notes", "of somebody");
	check_eq(removal(ensemble.addr, "alive", "", err, sizeof(err)), -EEXIST);
	check_msg(strstr(err, "/outlast/alive/notes is not of a job") != NULL, "%s", err);
	zk_raw_delete(raw, "/outlast/alive/notes");
	/* a member that no session owns is nobody's */
	zk_raw_create(raw, "/outlast/alive/shard0/members/00000000000000ff", "x");
	lists(ensemble.addr, "alive", "", "alive/0 epoch 1 live 0 guard 0; ");
	check_ok(removal(ensemble.addr, "alive", "", err, sizeof(err)));
	check_eq(removal(ensemble.addr, "alive", "", err, sizeof(err)), -ENOENT);
	zk_raw_close(raw);
}

/* A removal and a server, at once */

struct race {
	pthread_barrier_t start;
	const char *job;
	int rc;
};

static void *race_remove(void *arg)
{
	struct race *race = arg;
	char err[256];

	pthread_barrier_wait(&race->start);
	race->rc = removal(ensemble.addr, race->job, "", err, sizeof(err));
	return NULL;
}

/*
 * A server that comes while its job is removed: the old view is whole and it is registered; or there is no old
 * view, and it is registered in a new job, or knows that it must begin again. Never is it registered without the
 * view that it saw.
 */
static void race_run(unsigned round, unsigned counts[3])
{
	struct ol_member member = {
		.id = 1000 + round, .job = 7, .proto = 1, .addr = "10.0.0.3:7471"
	};
	struct guest old, fresh;
	struct ol_coord_state state;
	struct race race;
	pthread_t thread;
	char job[32], err[512] = "";
	bool lost;
	int rc;

	snprintf(job, sizeof(job), "race%u", round);
	race.job = job;
	server_come(&old, ensemble.addr, job, no_key, 500 + round);
	guest_close(&old);
	check_ok(pthread_barrier_init(&race.start, NULL, 2));
	check_ok(pthread_create(&thread, NULL, race_remove, &race));
	pthread_barrier_wait(&race.start);
	(void)poll(NULL, 0,
		   (int)(round % 8) * 5); /* both begin sessions; the removal then reads more */
	rc = guest_try(&fresh, ensemble.addr, job, no_key, err, sizeof(err));
	if (rc == 0)
		check_ok(ol_coord_join(fresh.coord, 0, &member));
	check_ok(pthread_join(thread, NULL));
	check_ok(pthread_barrier_destroy(&race.start));
	if (rc != 0) { /* it looked before the removal, and again after it, while it opened */
		check_msg(race.rc == 0 && strstr(err, "was lost, or deleted") != NULL, "%s", err);
		counts[2]++;
		return;
	}
	check_msg(race.rc == 0 || race.rc == -EBUSY || race.rc == -EAGAIN, "%d", race.rc);
	guest_wait(&fresh, 0, registered_or_lost, member.id, "a place", &state);
	lost = ol_coord_is_lost(&state);
	counts[race.rc != 0 ? 0 : lost ? 2 : 1]++;
	if (race.rc != 0)
		check_eq(state.version, 1);
	check(race.rc == 0 || !lost);
	if (race.rc == 0 && !lost)
		check_eq(state.version, 0);
	guest_close(&fresh);
}

static void a_server_that_comes_keeps_its_view(void)
{
	unsigned counts[3] = { 0 };

	for (unsigned round = 0; round < ROUNDS; round++)
		race_run(round, counts);
	printf("of %d removals %u came too late, %u before the server, and %u between its look and its "
	       "registration\n",
	       ROUNDS, counts[0], counts[1], counts[2]);
}

/* The doctor's */

struct exam {
	unsigned bad, warned;
	char text[TEXT_MAX];
};

static void on_finding(void *arg, const struct ol_coord_finding *finding)
{
	struct exam *exam = arg;
	size_t used = strlen(exam->text);

	exam->bad += finding->verdict == OL_COORD_BAD;
	exam->warned += finding->verdict == OL_COORD_WARN;
	check((finding->remedy == NULL) == (finding->verdict == OL_COORD_FINE) ||
	      strcmp(finding->subject, "jobs") == 0);
	snprintf(exam->text + used, sizeof(exam->text) - used, "%s: %s\n", finding->subject,
		 finding->text);
	for (uint32_t i = 0; i < finding->figure_count; i++)
		check(strcmp(finding->figures[i].name, "median_ms") != 0 ||
		      finding->figures[i].value > 0.0);
}

static int examine(struct exam *exam, const char *addr, uint32_t lease_ms, uint32_t timeout_ms)
{
	const struct ol_coordinator coordinator = { .addr = addr, .timeout_ms = timeout_ms };
	char err[256];

	memset(exam, 0, sizeof(*exam));
	return ol_coordinator_examine(&coordinator, lease_ms, 5, on_finding, exam, err,
				      sizeof(err));
}

static void found(const struct exam *exam, const char *text)
{
	if (strstr(exam->text, text) == NULL)
		fputs(exam->text, stderr);
	check_msg(strstr(exam->text, text) != NULL, "it does not say \"%s\"", text);
}

static void what_the_doctor_finds(void)
{
	const char *user = addr_make("/mine", file_make("user", "ops:one\n", 0600));
	static struct exam exam;

	check_ok(examine(&exam, user, 5000, ASK_MS));
	check_msg(exam.bad == 0 && exam.warned == 0, "%.400s", exam.text);
	found(&exam, "all 3 servers serve");
	found(&exam, "asks for 15000 ms, and is granted 15000 ms; 100 to 60000 ms are possible");
	found(&exam, ": leader, version 3.");
	found(&exam, ": follower, version 3.");
	found(&exam, "only the users of its list");
	found(&exam, "1 are kept, 1 of them without a live server");
	check_ok(examine(&exam, ensemble.addr, 30000, ASK_MS));
	found(&exam, "60000 ms is the longest that is granted");
	found(&exam, "may be changed by anybody who reaches the ensemble");
	check_eq(examine(&exam, addr_make("/nowhere", NULL), 5000, ASK_MS), -ENOENT);
	check_eq(exam.bad, 1);
	ensemble_kill(&ensemble, 0);
	check_ok(examine(&exam, user, 5000, ASK_MS));
	found(&exam, "2 of 3 servers serve");
	found(&exam, "cannot be reached: Connection refused");
	ensemble_kill(&ensemble, 1);
	check(examine(&exam, user, 5000, 500) != 0);
	found(&exam, "does not serve");
	found(&exam, "1 of 3 servers run, and none serves");
}

#define SCENARIO(fn) \
	{ \
#fn, fn \
	}

static const struct {
	const char *name;
	void (*run)(void);
} scenarios[] = {
	SCENARIO(a_chroot_holds_jobs_of_its_own),
	SCENARIO(a_file_must_be_its_owners_alone),
	SCENARIO(a_user_keeps_strangers_out),
	SCENARIO(a_key_and_a_user_go_together),
	SCENARIO(an_open_job_stays_open),
	SCENARIO(what_lives_is_not_removed),
	SCENARIO(a_server_that_comes_keeps_its_view),
	SCENARIO(what_the_doctor_finds), /* kills servers */
};

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	ensemble_start(&ensemble, SERVERS);
	for (unsigned i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		uint64_t start_ns = ol_coord_now_ns();

		scenarios[i].run();
		printf("ok %s: %" PRIu64 " ms\n", scenarios[i].name,
		       (ol_coord_now_ns() - start_ns) / 1000000);
	}
	ensemble_stop(&ensemble);
	return 0;
}
