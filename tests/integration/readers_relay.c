/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * readers_relay.c -- a relay of several shards shows readers the job's own versions, epoch and table;
 * an observer's key is enough for it; it lets in no worker, and no reader with another key; a relay
 * may read a relay. A replica that takes over in a chain is nothing that a relay's readers notice.
 *
 * not under tsan: it has threads when it forks a relay, which has threads as well
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "outlast_rule.h"
#include "support/check.h"
#include "support/job.h"

enum {
	LEN = 5000,
	SHARDS = 2,
	WAIT_MS = 20000,
	SHORT_MS = 700,
	ERR_BYTES = 400,
};

static const char job_key[] = "0123456789abcdef0123456789abcdef";
static const char other_key[] = "fedcba9876543210fedcba9876543210";
static char observer_key[OL_CREDENTIAL_MAX], worker_key[OL_CREDENTIAL_MAX];

static struct ol_relay *running;

static void on_term(int signal_number)
{
	(void)signal_number;
	ol_relay_stop(running);
}

/* What a relay's process is told */
struct plan {
	const char *above; /* addresses that it reads; "dir:…": the coordinator */
	const char *key;
	const char *listen;
	int ready_fd;
};

static int relay_main(const struct plan *plan)
{
	struct sigaction action = { .sa_handler = on_term };
	struct ol_server_opts below;
	struct ol_worker_opts above;
	struct ol_relay_stat stat;
	char err[ERR_BYTES] = "";
	int rc;

	ol_worker_opts_init(&above);
	if (strncmp(plan->above, "dir:", 4) == 0)
		above.coordinator = plan->above;
	else
		above.servers = plan->above;
	above.job_key = plan->key;
	ol_server_opts_init(&below);
	below.listen = plan->listen;
	below.observers_max = 3;
	rc = ol_relay_open(&above, &below, 0, &running, err, sizeof(err));
	if (rc != 0) {
		fprintf(stderr, "relay: %s\n", err);
		return 1;
	}
	sigaction(SIGTERM, &action, NULL);
	dprintf(plan->ready_fd, "%s\n", ol_relay_addrs(running));
	close(plan->ready_fd);
	check_ok(ol_relay_run(running));
	ol_relay_get_stat(running, &stat);
	check_eq(stat.shard_count, above.coordinator != NULL ? 1 : SHARDS);
	check(stat.pulls > 0);
	ol_relay_close(running);
	return 0;
}

static pid_t relay_start(struct plan plan, char addrs[256])
{
	size_t used = 0;
	int fds[2];
	pid_t pid;

	check_eq(pipe(fds), 0);
	plan.ready_fd = fds[1];
	fflush(NULL);
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no relay */
		close(fds[0]);
		exit(relay_main(&plan));
	}
	close(fds[1]);
	while (used < 255 && read(fds[0], addrs + used, 1) == 1 && addrs[used] != '\n')
		used++;
	addrs[used] = '\0';
	check(used > 0);
	close(fds[0]);
	return pid;
}

static void relay_stop(pid_t pid)
{
	kill(pid, SIGTERM);
	job_join(pid);
}

static int open_at(const char *addrs, const char *key, int id, struct ol_worker **ret_worker,
		   char err[ERR_BYTES])
{
	struct ol_worker_opts opts;

	ol_worker_opts_init(&opts);
	opts.servers = addrs;
	opts.job_key = key;
	opts.observer = id < 0;
	opts.worker = id < 0 ? 0 : (uint32_t)id;
	opts.outage = OL_OUTAGE_WAIT;
	opts.connect_timeout_ms = key == NULL || id < 0 ? WAIT_MS : SHORT_MS;
	if (key == other_key)
		opts.connect_timeout_ms = SHORT_MS;
	return ol_worker_open(&opts, ret_worker, err, ERR_BYTES);
}

static struct ol_worker *open_well(const char *addrs, const char *key, int id)
{
	struct ol_worker *worker;
	char err[ERR_BYTES] = "";
	int rc = open_at(addrs, key, id, &worker, err);

	check_msg(rc == 0, "%s", err);
	return worker;
}

static void refused(const char *addrs, const char *key, int id, int status, const char *why)
{
	struct ol_worker *worker;
	char err[ERR_BYTES] = "";
	int rc = open_at(addrs, key, id, &worker, err);

	check_msg(rc == status, "%d, not %d: %s", rc, status, err);
	check_msg(strstr(err, why) != NULL, "\"%s\" is not in: %s", why, err);
	check(strchr(err, '\n') == NULL);
}

static void check_rules(struct ol_worker *at_job, struct ol_worker *at_relay)
{
	struct ol_rule rule, relayed;

	check_ok(ol_rule_get(at_job, &rule));
	check_ok(ol_rule_get(at_relay, &relayed));
	check(rule.groups[0].lr == 0.125f && relayed.groups[0].lr == 0.125f);
	check(memcmp(&rule, &relayed, sizeof(rule)) == 0);
}

/* The same of the job and of its relay: weights, version, table, epoch, rule */
static void check_same(const char *job, const char *relay, uint64_t version)
{
	struct ol_worker *at_job = open_well(job, observer_key, -1);
	struct ol_worker *at_relay = open_well(relay, observer_key, -1);
	struct ol_job_info info, relayed;
	struct ol_server_stat stat;
	uint64_t own;

	check_ok(ol_wait_version(at_relay, version, WAIT_MS));
	check_ok(job_pull(at_job, OL_PULL_NEWEST));
	check_ok(job_pull(at_relay, OL_PULL_NEWEST));
	check(memcmp(ol_weights(at_job, NULL), ol_weights(at_relay, &own), LEN * sizeof(float)) ==
	      0);
	check_eq(own, version);
	check_rules(at_job, at_relay);
	ol_worker_info(at_job, &info);
	ol_worker_info(at_relay, &relayed);
	check_eq(relayed.epoch, info.epoch);
	check_eq(relayed.param_count, info.param_count);
	for (uint32_t i = 0; i < SHARDS; i++) {
		check_eq(ol_applied(at_relay, i, 0), ol_applied(at_job, i, 0));
		check_eq(ol_applied_grads(at_relay, i, 0), version);
		check_ok(ol_stat(at_relay, i, &stat));
		check_eq(stat.version, version);
		check_eq(stat.applied, version);
		check_eq(stat.workers, 0);
	}
	ol_worker_close(at_relay);
	ol_worker_close(at_job);
}

static void keys_are_asked(const char *relay, const char *by_key)
{
	/* who relays with an observer's key cannot prove anything to a worker */
	refused(relay, worker_key, 0, OL_E_AUTH, "key");
	refused(relay, other_key, -1, OL_E_AUTH, "key");
	/* with the job's key it says why */
	refused(by_key, worker_key, 0, OL_E_WIRE,
		"relay, which lets in up to 3 readers and no worker");
	refused(by_key, job_key, 1, OL_E_WIRE, "workers connect to the job's servers");
	/* and it reads for the holder of a worker's credential, too */
	ol_worker_close(open_well(by_key, worker_key, -1));
}

static void wrong_listen_is_said(const char *job)
{
	struct ol_worker_opts above;
	struct ol_server_opts below;
	struct ol_relay *relay;
	char err[ERR_BYTES] = "";

	ol_worker_opts_init(&above);
	above.servers = job;
	above.job_key = observer_key;
	ol_server_opts_init(&below);
	below.listen = "@a,@b,@c";
	check_eq(ol_relay_open(&above, &below, 0, &relay, err, sizeof(err)), -EINVAL);
	check_msg(strstr(err, "listen") != NULL, "%s", err);
	above.job_key = worker_key;
	below.listen = "@ol-test-relay-wrong";
	check_eq(ol_relay_open(&above, &below, 0, &relay, err, sizeof(err)), -EINVAL);
	check_msg(strstr(err, "a relay needs an observer's") != NULL, "%s", err);
}

static void push_some(struct ol_worker *worker, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		check_ok(job_pull(worker, 0));
		check_ok(job_push(worker, -1.0f));
	}
}

/* The tail, which the relay reads, dies: versions go on, in the same history */
static void chain_goes_on(void)
{
	char addrs[256], name[64];
	struct ol_server_opts opts;
	struct ol_worker *worker, *reader;
	struct ol_link_stat link;
	struct ol_chain_info info;
	uint64_t version;
	struct job job;
	pid_t pid;

	snprintf(name, sizeof(name), "@ol-test-relay-%d-chain", (int)getpid());
	ol_server_opts_init(&opts);
	opts.param_count = LEN;
	opts.replicas = 2;
	opts.rule.lr = 1.0f;
	job_start_chain(&job, opts, 0.0f);
	worker = job_worker(&job, 0);
	push_some(worker, 3);
	pid = relay_start((struct plan){ job.coordinator_addr, NULL, name, -1 }, addrs);
	reader = open_well(addrs, NULL, -1);
	check_ok(ol_wait_version(reader, 3, WAIT_MS));
	info = job_chain(&job, 0, 2);
	job_kill(&job, (uint32_t)job_server_at(&job, &info, 1));
	push_some(worker, 3);
	check_ok(ol_wait_version(reader, 6, WAIT_MS));
	check_ok(job_pull(reader, OL_PULL_NEWEST | OL_PULL_FORWARD));
	check(ol_weights(reader, &version)[LEN - 1] == 6.0f);
	check_eq(version, 6);
	check_ok(ol_link_get_stat(reader, 0, &link));
	check_eq(link.outages, 0);
	ol_worker_close(reader);
	ol_worker_close(worker);
	relay_stop(pid);
	job_stop(&job);
}

int main(void)
{
	char first[256], second[256], by_key[256], names[3][64];
	struct ol_server_opts opts;
	struct ol_worker *worker;
	pid_t pids[3];
	struct job job;

	if (strcmp(job_transport(), "shm") != 0) {
		printf("skip: a relay is for readers on its machine\n");
		return CHECK_SKIP;
	}
	check_ok(ol_credential(job_key, OL_HOLDER_OBSERVER, 0, observer_key));
	check_ok(ol_credential(job_key, OL_HOLDER_WORKER, 0, worker_key));
	for (unsigned i = 0; i < 3; i++)
		snprintf(names[i], sizeof(names[i]), "@ol-test-relay-%d-%u", (int)getpid(), i);
	ol_server_opts_init(&opts);
	opts.param_count = LEN;
	opts.shard_count = SHARDS;
	opts.rule.lr = 0.125f;
	opts.rule.optimizer = OL_OPTIMIZER_ADAM; /* a relay has no room for its state */
	opts.job_key = job_key;
	opts.epoch = 5;
	job_start(&job, opts, 0.5f);
	pids[0] = relay_start((struct plan){ job.addrs, observer_key, names[0], -1 }, first);
	pids[1] = relay_start((struct plan){ first, observer_key, names[1], -1 }, second);
	pids[2] = relay_start((struct plan){ job.addrs, job_key, names[2], -1 }, by_key);
	check_same(job.addrs, first, 0); /* what it began with */
	worker = open_well(job.addrs, worker_key, 0);
	for (unsigned i = 0; i < 5; i++) {
		check_ok(job_pull(worker, 0));
		check_ok(job_push(worker, 1.0f));
	}
	check_same(job.addrs, first, 5);
	check_same(job.addrs, second, 5);
	check_same(job.addrs, by_key, 5);
	keys_are_asked(first, by_key);
	wrong_listen_is_said(job.addrs);
	ol_worker_close(worker);
	for (unsigned i = 3; i-- > 0;)
		relay_stop(pids[i]);
	job_stop(&job);
	chain_goes_on();
	return 0;
}
