/* SPDX-License-Identifier: BSD-3-Clause */

/* job.c -- server and worker processes for tests */

#include "support/job.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rdma/transport.h"
#include "support/check.h"

enum {
	EXIT_FENCED = 9
};

const char *job_transport(void)
{
	const char *name = getenv("OL_TRANSPORT");
	char why[256] = "";

	if (name == NULL)
		name = "shm";
	if (ol_xport_present(name, NULL, why, sizeof(why)) != 0) {
		printf("skip: %s: %s\n", name, why);
		exit(77);
	}
	return name;
}

static struct ol_server *running;

static void on_term(int signal_number)
{
	(void)signal_number;
	ol_server_stop(running);
}

static int server_main(struct ol_server_opts opts, float initial, int ready_fd)
{
	struct sigaction action = { .sa_handler = on_term };
	uint64_t first, count;
	char err[256];
	float *weights;
	int rc;

	check(ol_shard_span(opts.param_count, opts.shard_count, opts.shard, &first, &count) == 0);
	weights = malloc(count * sizeof(*weights));
	check(weights != NULL);
	for (uint64_t i = 0; i < count; i++)
		weights[i] = initial;
	rc = ol_server_open(&opts, weights, &running, err, sizeof(err));
	free(weights);
	if (rc != 0) {
		fprintf(stderr, "server: %s\n", err);
		return 1;
	}
	sigaction(SIGTERM, &action, NULL);
	dprintf(ready_fd, "%s\n", ol_server_addr(running));
	close(ready_fd);
	rc = ol_server_run(running);
	ol_server_close(running);
	return rc == OL_E_FENCED ? EXIT_FENCED : rc != 0;
}

/* The line that a server writes when it listens, without its end */
static void ready_read(int fd, char *line, size_t line_bytes)
{
	size_t at = 0;

	while (at + 1 < line_bytes && read(fd, line + at, 1) == 1 && line[at] != '\n')
		at++;
	line[at] = '\0';
	check(at > 0);
}

static void server_fork(struct job *job, uint32_t index, const char *listen)
{
	struct ol_server_opts opts = job->opts;
	int fds[2];

	opts.shard = index * job->shard_count / job->server_count;
	opts.rank = index;
	opts.listen = listen;
	if (job->coordinator_addr[0] != '\0')
		opts.coordinator = job->coordinator_addr;
	check(pipe(fds) == 0);
	fflush(NULL);
	job->servers[index] = fork();
	check(job->servers[index] >= 0);
	if (job->servers[index] == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fds[0]);
		exit(server_main(opts, job->initial, fds[1]));
	}
	close(fds[1]);
	ready_read(fds[0], job->addr[index], sizeof(job->addr[index]));
	close(fds[0]);
}

/* An address that nobody listens at: of shm a name, of verbs a host with any port */
static void addr_make(const struct job *job, char *addr, size_t bytes)
{
	static int count;
	const char *host = getenv("OL_ADDR");

	if (strcmp(job->opts.transport, "shm") == 0)
		snprintf(addr, bytes, "@ol-test-%d-%d", (int)getpid(), count++);
	else
		snprintf(addr, bytes, "%s:0", host != NULL ? host : "0.0.0.0");
}

void job_start(struct job *job, struct ol_server_opts opts, float initial)
{
	char listen[96];

	memset(job, 0, sizeof(*job));
	job->views.fd = -1;
	job->shard_count = opts.shard_count;
	job->server_count = opts.shard_count;
	job->opts = opts;
	job->opts.transport = job_transport();
	job->initial = initial;
	for (uint32_t i = 0; i < opts.shard_count; i++) {
		addr_make(job, listen, sizeof(listen));
		server_fork(job, i, listen);
		snprintf(job->addrs + strlen(job->addrs), sizeof(job->addrs) - strlen(job->addrs),
			 "%s%s", i == 0 ? "" : ",", job->addr[i]);
	}
}

void job_views(struct job *job)
{
	check_ok(ol_folder_make(&job->views, "ol-test-"));
	snprintf(job->coordinator_addr, sizeof(job->coordinator_addr), "dir:%s", job->views.path);
}

void job_views_drop(struct job *job)
{
	ol_folder_drop(&job->views);
}

void job_fork_chain(struct job *job, struct ol_server_opts opts, float initial)
{
	char listen[96];

	memset(job, 0, sizeof(*job));
	job->views.fd = -1;
	job->shard_count = opts.shard_count;
	job->server_count = opts.shard_count * opts.replicas;
	check(job->server_count <= JOB_SERVERS_MAX);
	job->opts = opts;
	job->opts.transport = job_transport();
	job->initial = initial;
	if (opts.coordinator == NULL)
		job_views(job);
	else
		snprintf(job->coordinator_addr, sizeof(job->coordinator_addr), "%s",
			 opts.coordinator);
	for (uint32_t i = 0; i < job->server_count; i++) {
		addr_make(job, listen, sizeof(listen));
		server_fork(job, i, listen);
	}
}

void job_start_chain(struct job *job, struct ol_server_opts opts, float initial)
{
	job_fork_chain(job, opts, initial);
	for (uint32_t i = 0; i < job->shard_count; i++)
		job_chain(job, i, opts.replicas);
}

struct ol_chain_info job_chain(const struct job *job, uint32_t shard, uint32_t count)
{
	struct ol_chain_info info = { 0 };
	struct ol_chains *chains;
	char err[256];

	if (ol_chains_open(job->coordinator_addr, job->opts.job, NULL, job->shard_count, 10000,
			   &chains, err, sizeof(err)) != 0) {
		fprintf(stderr, "chains: %s\n", err);
		exit(1);
	}
	while (ol_chains_get(chains, shard, &info) != 0 || info.count == 0 ||
	       (count != 0 && info.count != count))
		poll(NULL, 0, 1); /* looks at what its thread has heard */
	ol_chains_close(chains);
	return info;
}

int job_server_at(const struct job *job, const struct ol_chain_info *info, uint32_t at)
{
	for (uint32_t i = 0; i < job->server_count; i++) {
		if (at < info->count && strcmp(job->addr[i], info->addrs[at]) == 0)
			return (int)i;
	}
	return -1;
}

void job_kill(struct job *job, uint32_t index)
{
	int status = 0;

	kill(job->servers[index], SIGKILL);
	while (waitpid(job->servers[index], &status, 0) < 0)
		check(errno == EINTR);
	check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	job->servers[index] = 0;
}

const char *job_restart(struct job *job, uint32_t index, bool elsewhere)
{
	char listen[96];

	snprintf(listen, sizeof(listen), "%s", job->addr[index]);
	if (elsewhere)
		addr_make(job, listen, sizeof(listen));
	server_fork(job, index, listen);
	return job->addr[index];
}

void job_fenced(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		check(errno == EINTR);
	check(WIFEXITED(status));
	check_eq(WEXITSTATUS(status), EXIT_FENCED);
}

void job_stop(struct job *job)
{
	for (uint32_t i = 0; i < job->server_count; i++) {
		if (job->servers[i] == 0)
			continue;
		kill(job->servers[i], SIGTERM);
		job_join(job->servers[i]);
	}
	job_views_drop(job);
}

pid_t job_fork(int (*fn)(const struct job *job, long arg), const struct job *job, long arg)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		exit(fn(job, arg));
	}
	return pid;
}

void job_join(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		check(errno == EINTR);
	check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

struct ol_worker *job_worker(const struct job *job, int id)
{
	struct ol_worker_opts opts;

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	return job_worker_with(job, id, opts);
}

struct ol_worker *job_worker_with(const struct job *job, int id, struct ol_worker_opts opts)
{
	struct ol_worker *worker;
	char err[256] = "";
	int rc;

	if (job->coordinator_addr[0] != '\0') {
		opts.coordinator = job->coordinator_addr;
		opts.job = job->opts.job;
		if (opts.outage == OL_OUTAGE_END)
			opts.outage = OL_OUTAGE_WAIT;
	} else {
		opts.servers = job->addrs;
	}
	opts.transport = job_transport();
	opts.observer = id < 0;
	opts.worker = id < 0 ? 0 : (uint32_t)id;
	rc = ol_worker_open(&opts, &worker, err, sizeof(err));
	if (rc != 0)
		fprintf(stderr, "worker %d: %s\n", id, err);
	check(rc == 0);
	return worker;
}

int job_pull(struct ol_worker *worker, unsigned flags)
{
	struct ol_op op = { 0 };
	int rc = ol_pull(worker, flags, &op);

	return rc != 0 ? rc : ol_worker_wait(worker, &op);
}

int job_push_start(struct ol_worker *worker, float value, struct ol_op *op)
{
	struct ol_push_info info = { .samples = 1, .loss = 1.0f };
	struct ol_job_info job;
	float *grad;
	int rc = ol_grad_try_acquire(worker, &grad);

	if (rc != 0)
		return rc;
	ol_worker_info(worker, &job);
	for (uint64_t i = 0; i < job.param_count; i++)
		grad[i] = value;
	ol_weights(worker, &info.base_version);
	return ol_push(worker, grad, &info, op);
}

int job_push(struct ol_worker *worker, float value)
{
	struct ol_op op = { .level = OL_LEVEL_APPLIED };
	int rc = job_push_start(worker, value, &op);

	return rc != 0 ? rc : ol_worker_wait(worker, &op);
}

void job_kill_orderer(struct job *job)
{
	struct ol_chain_info info;
	int head;

	if (job->coordinator_addr[0] == '\0') {
		job_kill(job, 0);
		job->opts.restore = OL_RESTORE_MIRROR;
		job_restart(job, 0, false);
		return;
	}
	do { /* the view may still name the one that was killed last */
		info = job_chain(job, 0, 0);
		head = job_server_at(job, &info, 0);
	} while (head < 0 || job->servers[head] == 0);
	job_kill(job, (uint32_t)head);
}
