/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * old.c -- a server and a worker compiled with an earlier header train with today's library, which
 * writes nothing behind the ends of their structs
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "integration/abi/before.h"

enum {
	COUNT = 16,
	GUARD_BYTES = 1024,
	GUARD = 0xa5
};

/* A struct of the program's and what lies behind it on its stack */
#define GUARDED(type) \
	struct { \
		type of; \
		uint8_t guard[GUARD_BYTES]; \
	}

#define guard_set(guarded)   memset((guarded), GUARD, sizeof(*(guarded)))
#define guard_check(guarded) guard_look((guarded)->guard, #guarded, __LINE__)

static struct ol_server *server;

static void expect(bool is, const char *what, int line)
{
	if (is)
		return;
	fprintf(stderr, "old.c:%d: not so: %s\n", line, what);
	_exit(1);
}

#define EXPECT(what) expect((what), #what, __LINE__)

static void guard_look(const uint8_t *guard, const char *name, int line)
{
	for (int i = 0; i < GUARD_BYTES; i++) {
		if (guard[i] == GUARD)
			continue;
		fprintf(stderr, "old.c:%d: byte %d behind %s was written\n", line, i, name);
		_exit(1);
	}
}

static void on_term(int signal_number)
{
	(void)signal_number;
	ol_server_stop(server);
}

static int serve(const char *address, int ready_fd)
{
	static const float zeros[COUNT];
	struct sigaction action = { .sa_handler = on_term };
	GUARDED(struct ol_server_opts) opts;
	GUARDED(struct ol_server_stat) stat;
	char err[256] = "";

	guard_set(&opts);
	ol_server_opts_init_sized(&opts.of, sizeof(opts.of));
	guard_check(&opts);
	EXPECT(opts.of.size == sizeof(opts.of));
	opts.of.listen = address;
	opts.of.param_count = COUNT;
	opts.of.rule.lr = 1.0f;
	if (ol_server_open(&opts.of, zeros, &server, err, sizeof(err)) != 0) {
		fprintf(stderr, "server: %s\n", err);
		return 1;
	}
	sigaction(SIGTERM, &action, NULL);
	close(ready_fd); /* the other end sees that we listen */
	EXPECT(ol_server_run(server) == 0);
	guard_set(&stat);
	ol_server_get_stat_sized(server, &stat.of, sizeof(stat.of));
	guard_check(&stat);
	EXPECT(stat.of.version == 1 && stat.of.applied == 1);
	ol_server_close(server);
	return 0;
}

static void step(struct ol_worker *worker)
{
	struct {
		struct ol_push_info of;
		uint64_t unknown[32];
	} newer = { .unknown = { [31] = 1 } }; /* of a program that is ahead of this library */
	struct ol_push_info info = { 0 };
	struct ol_op op = { 0 };
	const float *weights;
	float *grad;

	EXPECT(ol_pull(worker, 0, &op) == 0 && ol_worker_wait(worker, &op) == 0);
	EXPECT(ol_grad_acquire(worker, &grad) == 0);
	for (int i = 0; i < COUNT; i++)
		grad[i] = -1.0f;
	EXPECT(ol_push_sized(worker, grad, &newer.of, sizeof(newer), &op) == -EINVAL);
	EXPECT(ol_push_sized(worker, grad, &info, sizeof(info), &op) == 0);
	EXPECT(ol_worker_wait(worker, &op) == 0);
	EXPECT(ol_pull(worker, 0, &op) == 0 && ol_worker_wait(worker, &op) == 0);
	weights = ol_weights(worker, &info.base_version);
	EXPECT(info.base_version == 1 && weights[0] == 1.0f && weights[COUNT - 1] == 1.0f);
}

static void work(const char *address)
{
	GUARDED(struct ol_worker_opts) opts;
	GUARDED(struct ol_job_info) info;
	GUARDED(struct ol_link_stat) link;
	GUARDED(struct ol_server_stat) stat;
	struct ol_worker *worker;
	char err[256] = "";

	guard_set(&opts);
	ol_worker_opts_init_sized(&opts.of, sizeof(opts.of));
	guard_check(&opts);
	EXPECT(opts.of.size == sizeof(opts.of));
	opts.of.servers = address;
	opts.of.param_count = COUNT;
	if (ol_worker_open(&opts.of, &worker, err, sizeof(err)) != 0) {
		fprintf(stderr, "worker: %s\n", err);
		_exit(1);
	}
	step(worker);
	guard_set(&info);
	ol_worker_info_sized(worker, &info.of, sizeof(info.of));
	guard_check(&info);
	EXPECT(info.of.param_count == COUNT && info.of.shard_count == 1 && info.of.window > 0);
	guard_set(&link);
	EXPECT(ol_link_get_stat_sized(worker, 0, &link.of, sizeof(link.of)) == 0);
	guard_check(&link);
	EXPECT(link.of.pushed == 1 && link.of.applied == 1);
	guard_set(&stat);
	EXPECT(ol_stat_sized(worker, 0, &stat.of, sizeof(stat.of)) == 0);
	guard_check(&stat);
	EXPECT(stat.of.version == 1 && stat.of.applied == 1);
	ol_worker_close(worker);
}

static void decide(void)
{
	GUARDED(struct ol_policy_opts) opts;
	GUARDED(struct ol_policy_stat) stat;
	struct ol_policy *policy;

	guard_set(&opts);
	ol_policy_opts_init_sized(&opts.of, sizeof(opts.of));
	guard_check(&opts);
	EXPECT(ol_policy_create(&opts.of, &policy) == 0);
	guard_set(&stat);
	ol_policy_get_stat_sized(policy, &stat.of, sizeof(stat.of));
	guard_check(&stat);
	EXPECT(stat.of.k == 1 && stat.of.present == 0 && stat.of.late == 0);
	ol_policy_destroy(policy);
}

int main(void)
{
	char address[64], byte;
	int ready[2], status = -1;
	pid_t pid;

	decide();
	snprintf(address, sizeof(address), "@outlast-abi-%d", (int)getpid());
	if (pipe(ready) != 0)
		return 1;
	pid = fork(); /* before either of them opens a transport */
	if (pid == 0) {
		close(ready[0]);
		exit(serve(address, ready[1]));
	}
	close(ready[1]);
	EXPECT(pid > 0 && read(ready[0], &byte, 1) == 0);
	work(address);
	EXPECT(kill(pid, SIGTERM) == 0 && waitpid(pid, &status, 0) == pid);
	EXPECT(status == 0);
	return 0;
}
