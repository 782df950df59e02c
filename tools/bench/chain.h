/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain.h -- server processes on this machine: a single one, or a chain with its coordinator
 *
 * Each runs `outlast bench server` (server.c) and dies with this process. A server's geometry never
 * changes, so a run of several sizes starts new servers for each. A run has one chain, or one single
 * server, at a time.
 */
#ifndef BENCH_CHAIN_H
#define BENCH_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/folder.h"
#include "bench/host.h"
#include "cmd/proc.h"
#include "outlast_server.h"

enum {
	BENCH_ADDR_MAX = 128,
	BENCH_ERR_MAX = 256,
	BENCH_JOB_MAX = 48,
	BENCH_WINDOW_MAX = 64
};

/* Options of every server of a run, and of its client; strings are the caller's and outlive it. */
struct bench_opts {
	const char *transport; /* "shm" or "verbs" */
	const char *device; /* NULL: the one that the address has */
	const char *listen; /* shm: "@name" or a path; verbs "host:port" */
	const char *job_key;
	uint32_t spin_us;
	uint32_t gradient_format; /* enum ol_format, of the client's */
	bool spin_yield;
	bool shared_domain;
	struct bench_pins pins;
	const char *weights; /* file of the first weights; NULL: all 1 */
	float lr;
	/* For a chain; NULL: a single server. */
	const char *coordinator;
	const char *job;
	uint32_t replicas;
	uint32_t lease_ms;
};

struct bench_server {
	struct ol_proc proc;
	char addr[BENCH_ADDR_MAX]; /* "": it has not reported ready */
	uint64_t ready_ns; /* since when it listens */
};

struct bench_chain {
	struct bench_opts opts; /* listen is a name that each server of a chain adds to */
	const int *cpus; /* of each server of a chain; NULL: single servers */
	struct ol_folder folder; /* of views; none: a coordinator was given */
	char coordinator[BENCH_ADDR_MAX];
	char job[BENCH_JOB_MAX];
	unsigned jobs; /* chains so far: each is a job of its own */
	unsigned generation; /* servers so far: each has an address of its own */
	uint64_t bytes;
	uint32_t window;
	bool threads; /* all servers in the first one's process; set before open */
	struct ol_chains *views;
	struct bench_server servers[OL_CHAIN_MAX];
};

/* bench_window -- the window of a server of this size: as wanted, or less, so that a worker's slots
 * take at most 256 MiB; at least 1 */
uint32_t bench_window(uint32_t wanted, uint64_t bytes);

/*
 * bench_chain_start -- set the place of servers. cpus: of each server of a chain; NULL: single
 * servers on opts->pins.server
 *
 * opts->coordinator NULL: views are in a folder of its own. Errors: a code with a line in err
 */
int bench_chain_start(const struct bench_opts *opts, const int cpus[OL_CHAIN_MAX],
		      struct bench_chain *ret_chain, char err[BENCH_ERR_MAX]);
void bench_chain_stop(struct bench_chain *chain);

/* bench_chain_opts -- options for a client of the open servers */
struct bench_opts bench_chain_opts(const struct bench_chain *chain);

/* bench_chain_open -- start `replicas` servers of a new job, and wait until all are in the view; 0:
 * a server by itself, whose address is in servers[0] */
int bench_chain_open(struct bench_chain *chain, uint32_t replicas, uint64_t bytes, uint32_t window,
		     char err[BENCH_ERR_MAX]);
/* bench_chain_close -- end all servers; OL_E_NO_SERVER: a single server did not end in order */
int bench_chain_close(struct bench_chain *chain, char err[BENCH_ERR_MAX]);

/*
 * bench_chain_server_start -- start server `index`, which was never started or is reaped
 * bench_chain_server_ready -- 0 once it listens; -EAGAIN: not yet (never with wait)
 */
int bench_chain_server_start(struct bench_chain *chain, uint32_t index, char err[BENCH_ERR_MAX]);
int bench_chain_server_ready(struct bench_chain *chain, uint32_t index, bool wait,
			     char err[BENCH_ERR_MAX]);
/* bench_chain_server_gone -- true: it has ended by itself, or was killed */
bool bench_chain_server_gone(struct bench_chain *chain, uint32_t index);
/* bench_chain_server_stat -- its counters, as it reports; OL_E_NO_SERVER: it has ended */
int bench_chain_server_stat(struct bench_chain *chain, uint32_t index,
			    struct ol_server_stat *ret_stat);

/* bench_chain_info -- the newest view that is known */
struct ol_chain_info bench_chain_info(const struct bench_chain *chain);
/* bench_chain_whole -- all wanted replicas are in the view, and none is joining */
bool bench_chain_whole(const struct bench_chain *chain);
/* bench_chain_at -- the server at a place of the view; -1: none of ours */
int bench_chain_at(const struct bench_chain *chain, const struct ol_chain_info *info,
		   uint32_t place);

#endif /* BENCH_CHAIN_H */
