/* SPDX-License-Identifier: BSD-3-Clause */

/* peer.c -- the other end of a run: a server with one geometry after another */

#include "bench/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/pin.h"
#include "outlast_server.h"

enum {
	LEFT_POLL_MS = 50, /* how often a server on another machine looks whether its worker left */
	WINDOW_BYTES_MAX = 256 << 20
};

struct request {
	uint64_t bytes;
	uint32_t window;
	uint32_t reserved;
};

struct answer {
	int rc;
	char addr[BENCH_ADDR_MAX];
	char err[BENCH_ERR_MAX];
};

/* Stops a server: when fd says anything, or (fd -1) when its worker has come and gone. */
struct watch {
	struct ol_server *server;
	int fd;
	int end_fd; /* readable: the server has ended by itself */
};

uint32_t bench_window(uint32_t wanted, uint64_t bytes)
{
	uint64_t fits = WINDOW_BYTES_MAX / bytes;

	if (fits < wanted)
		wanted = (uint32_t)fits;
	if (wanted > BENCH_WINDOW_MAX)
		wanted = BENCH_WINDOW_MAX;
	return wanted > 0 ? wanted : 1;
}

static void *watch_run(void *arg)
{
	const struct watch *watch = arg;
	struct pollfd fds[2] = {
		{ .fd = watch->end_fd, .events = POLLIN },
		{ .fd = watch->fd, .events = POLLIN },
	};
	struct ol_server_stat stat;

	for (;;) {
		if (poll(fds, 2, watch->fd >= 0 ? -1 : LEFT_POLL_MS) > 0)
			break;
		ol_server_get_stat(watch->server, &stat);
		if (watch->fd < 0 && stat.applied > 0 && stat.workers == 0)
			break;
	}
	ol_server_stop(watch->server);
	return NULL;
}

/* A lease has room for several heartbeats */
static void replica_opts(const struct bench_peer_opts *opts, struct ol_server_opts *sopts)
{
	sopts->coordinator = opts->coordinator;
	sopts->job = opts->job;
	sopts->replicas = opts->replicas;
	sopts->rank = opts->rank;
	sopts->lease_ms = opts->lease_ms;
	if (sopts->heartbeat_ms > opts->lease_ms / 5)
		sopts->heartbeat_ms = opts->lease_ms / 5;
}

int bench_server_open(const struct bench_peer_opts *opts, uint64_t bytes, uint32_t window,
		      struct ol_server **ret_server, char err[BENCH_ERR_MAX])
{
	struct ol_server_opts sopts;
	uint64_t count = bytes / sizeof(float);
	float *ones = NULL;
	int rc;

	ol_server_opts_init(&sopts);
	sopts.listen = opts->listen;
	sopts.transport = opts->transport;
	sopts.device = opts->device;
	sopts.job_key = opts->job_key;
	sopts.param_count = count;
	sopts.workers_max = 1;
	sopts.observers_max = 1;
	sopts.window = window;
	sopts.spin_us = opts->spin_us;
	sopts.lease_ms = 0; /* nobody takes over: a busy machine may let it stand still */
	sopts.spin_yield = opts->spin_yield;
	sopts.shared_domain = opts->shared_domain;
	sopts.rule.lr = opts->lr;
	if (opts->coordinator != NULL)
		replica_opts(opts, &sopts);
	if (opts->weights == NULL) {
		ones = malloc(bytes);
		if (ones == NULL) {
			snprintf(err, BENCH_ERR_MAX, "no memory for the first weights");
			return -ENOMEM;
		}
		for (uint64_t i = 0; i < count; i++)
			ones[i] = 1.0f;
	}
	rc = ol_server_open(&sopts, opts->weights != NULL ? opts->weights : ones, ret_server, err,
			    BENCH_ERR_MAX);
	free(ones);
	return rc;
}

/* Serve until fd says anything, or, with fd -1, until the worker has left */
static int serve(struct ol_server *server, int fd)
{
	struct watch watch = { .server = server, .fd = fd };
	pthread_t thread;
	int ends[2];
	int rc;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -errno;
	watch.end_fd = ends[0];
	rc = -pthread_create(&thread, NULL, watch_run, &watch);
	if (rc == 0) {
		rc = ol_server_run(server);
		close(ends[1]);
		ends[1] = -1;
		pthread_join(thread, NULL);
	}
	if (ends[1] >= 0)
		close(ends[1]);
	close(ends[0]);
	return rc;
}

int bench_peer_serve_all(const struct bench_peer_opts *opts, const struct bench_sizes *sizes,
			 uint32_t window, char err[BENCH_ERR_MAX])
{
	int rc = bench_pin(opts->cpu);

	if (rc != 0) {
		snprintf(err, BENCH_ERR_MAX, "cannot pin to cpu %d: %s", opts->cpu,
			 ol_strerror(rc));
		return rc;
	}
	for (unsigned i = 0; i < sizes->count && rc == 0; i++) {
		struct ol_server *server;
		char text[BENCH_SIZE_TEXT_MAX];

		rc = bench_server_open(opts, sizes->bytes[i], bench_window(window, sizes->bytes[i]),
				       &server, err);
		if (rc != 0)
			return rc;
		bench_size_format(sizes->bytes[i], text);
		printf("serving %s at %s\n", text, ol_server_addr(server));
		fflush(stdout);
		rc = serve(server, -1);
		if (rc != 0)
			snprintf(err, BENCH_ERR_MAX, "server failed: %s", ol_strerror(rc));
		ol_server_close(server);
	}
	return rc;
}

/* The child: requests come in, servers open and close */
static void child_run(const struct bench_peer_opts *opts, int fd)
{
	struct request request;
	struct answer answer;
	char word;

	while (read(fd, &request, sizeof(request)) == (ssize_t)sizeof(request)) {
		struct ol_server *server = NULL;

		memset(&answer, 0, sizeof(answer));
		answer.rc =
			bench_server_open(opts, request.bytes, request.window, &server, answer.err);
		if (answer.rc == 0)
			snprintf(answer.addr, sizeof(answer.addr), "%s", ol_server_addr(server));
		if (write(fd, &answer, sizeof(answer)) != (ssize_t)sizeof(answer))
			return;
		if (answer.rc != 0)
			continue;
		answer.rc = serve(server, fd);
		ol_server_close(server);
		if (read(fd, &word, 1) != 1 || /* what made it stop */
		    write(fd, &answer, sizeof(answer)) != (ssize_t)sizeof(answer))
			return;
	}
}

int bench_peer_start(const struct bench_peer_opts *opts, struct bench_peer *ret_peer)
{
	pid_t parent = getpid(), pid;
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
		return -errno;
	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		close(fds[0]);
		close(fds[1]);
		return -errno;
	}
	if (pid == 0) {
		close(fds[0]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent || bench_pin(opts->cpu) != 0)
			_exit(1);
		child_run(opts, fds[1]);
		_exit(0);
	}
	close(fds[1]);
	*ret_peer = (struct bench_peer){ .pid = pid, .fd = fds[0] };
	return 0;
}

static int answer_get(struct bench_peer *peer, struct answer *answer, char *err)
{
	ssize_t got = recv(peer->fd, answer, sizeof(*answer), 0);

	if (got == (ssize_t)sizeof(*answer))
		return answer->rc;
	snprintf(err, BENCH_ERR_MAX, "the server process ended unexpectedly");
	return OL_E_NO_SERVER;
}

int bench_peer_open(struct bench_peer *peer, uint64_t bytes, uint32_t window,
		    char ret_addr[BENCH_ADDR_MAX], char err[BENCH_ERR_MAX])
{
	struct request request = { .bytes = bytes, .window = window };
	struct answer answer = { 0 };
	int rc;

	/* a peer that is gone shows when its answer is read */
	(void)!send(peer->fd, &request, sizeof(request), MSG_NOSIGNAL);
	rc = answer_get(peer, &answer, err);
	if (rc == 0)
		memcpy(ret_addr, answer.addr, BENCH_ADDR_MAX);
	else if (answer.err[0] != '\0')
		memcpy(err, answer.err, BENCH_ERR_MAX);
	return rc;
}

int bench_peer_close(struct bench_peer *peer)
{
	struct answer answer = { 0 };
	char err[BENCH_ERR_MAX];

	(void)!send(peer->fd, "x", 1, MSG_NOSIGNAL);
	return answer_get(peer, &answer, err);
}

uint64_t bench_peer_cpu_ns(const struct bench_peer *peer)
{
	struct timespec used;
	clockid_t clock;

	if (clock_getcpuclockid(peer->pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
		return 0;
	return (uint64_t)used.tv_sec * OL_NS_PER_S + (uint64_t)used.tv_nsec;
}

void bench_peer_stop(struct bench_peer *peer)
{
	if (peer->pid <= 0)
		return;
	close(peer->fd); /* ends whatever it does */
	while (waitpid(peer->pid, NULL, 0) < 0 && errno == EINTR)
		;
	peer->pid = 0;
}
