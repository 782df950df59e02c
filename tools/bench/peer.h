/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * peer.h -- the other end of a run: a server with one geometry after another
 *
 * A server's geometry never changes, so a run of several sizes has a server each. On one machine
 * chain.h starts them. On two machines both ends go through the same list of sizes: a server ends
 * when its worker has left, and the next worker tries until the next server is there.
 */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <stdint.h>

#include "bench/size.h"
#include "outlast.h"

enum {
	BENCH_ADDR_MAX = 128,
	BENCH_ERR_MAX = 256,
	BENCH_WINDOW_MAX = 64
};

/* The same for every server of a run; strings are the caller's and outlive it. */
struct bench_peer_opts {
	const char *transport; /* "shm" or "verbs" */
	const char *device; /* NULL: the one that the address has */
	const char *listen; /* shm: "@name" or a path; verbs "host:port" */
	const char *job_key;
	uint32_t spin_us;
	uint32_t spin_yield;
	uint32_t shared_domain;
	int cpu; /* to pin to, or BENCH_CPU_ANY */
	const float *weights; /* the first ones; NULL: all 1 */
	float lr;
	/* A replica of a chain, and who pushes to one; NULL: a server by itself. */
	const char *coordinator;
	const char *job;
	uint32_t replicas;
	uint32_t rank;
	uint32_t lease_ms;
};

struct ol_server;

/* bench_server_open -- a server as these say, for one worker of `bytes`; its error, with err */
int bench_server_open(const struct bench_peer_opts *opts, uint64_t bytes, uint32_t window,
		      struct ol_server **ret_server, char err[BENCH_ERR_MAX]);

/* bench_window -- the window a server of this size gets: as wanted, unless the slots of one worker
 * would take more than 256 MiB; at least 1 */
uint32_t bench_window(uint32_t wanted, uint64_t bytes);

/* bench_peer_serve_all -- the server end of a run on two machines; one line a size on stdout */
int bench_peer_serve_all(const struct bench_peer_opts *opts, const struct bench_sizes *sizes,
			 uint32_t window, char err[BENCH_ERR_MAX]);

#endif /* BENCH_PEER_H */
