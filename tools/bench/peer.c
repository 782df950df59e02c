/* SPDX-License-Identifier: BSD-3-Clause */

/* peer.c -- the other end of a run: a server with one geometry after another */

#include "bench/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/pin.h"
#include "outlast_server.h"

enum {
	LEFT_POLL_MS = 50, /* how often a server on another machine looks whether its worker left */
	WINDOW_BYTES_MAX = 256 << 20
};

/* Stops a server when its worker has come and gone. */
struct watch {
	struct ol_server *server;
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
	struct pollfd end = { .fd = watch->end_fd, .events = POLLIN };
	struct ol_server_stat stat = { 0 };

	while (poll(&end, 1, LEFT_POLL_MS) == 0 && (stat.applied == 0 || stat.workers > 0))
		ol_server_get_stat(watch->server, &stat);
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

/* Serve until the worker has left */
static int serve(struct ol_server *server)
{
	struct watch watch = { .server = server };
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
		rc = serve(server);
		if (rc != 0)
			snprintf(err, BENCH_ERR_MAX, "server failed: %s", ol_strerror(rc));
		ol_server_close(server);
	}
	return rc;
}
