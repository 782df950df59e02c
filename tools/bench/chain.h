/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain.h -- server processes on this machine: a single one, or a chain and where its views are
 *
 * Nobody may fork once a transport is open, so a process forked before anything else, the keeper,
 * starts and ends them as it is told to. Each server and the keeper die with this process. A run
 * has one chain, or one server by itself, at a time, of any geometry.
 */
#ifndef BENCH_CHAIN_H
#define BENCH_CHAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/folder.h"
#include "bench/peer.h"
#include "outlast_server.h"

enum {
	BENCH_JOB_MAX = 48
};

struct bench_server {
	pid_t pid; /* 0: it was not started, or is reaped */
	char addr[BENCH_ADDR_MAX];
};

struct bench_chain {
	pid_t keeper;
	int fd; /* requests and answers */
	struct bench_peer_opts opts; /* of every server; listen is a name that each adds to */
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

/*
 * bench_chain_start -- fork the keeper; before this process opens a transport or makes a thread
 *
 * opts->coordinator NULL: views are in a folder of its own. cpus: of each server of a chain; NULL:
 * servers are by themselves, and have opts->cpu. Strings are the caller's and outlive it.
 * Errors: a code with a line in err
 */
int bench_chain_start(const struct bench_peer_opts *opts, const int cpus[OL_CHAIN_MAX],
		      struct bench_chain *ret_chain, char err[BENCH_ERR_MAX]);
void bench_chain_stop(struct bench_chain *chain);

/* bench_chain_opts -- what a client of what is open is given */
struct bench_peer_opts bench_chain_opts(const struct bench_chain *chain);

/* bench_chain_open -- start `replicas` servers of a new job, and wait until all are in the view; 0:
 * a server by itself, whose address is in servers[0] */
int bench_chain_open(struct bench_chain *chain, uint32_t replicas, uint64_t bytes, uint32_t window,
		     char err[BENCH_ERR_MAX]);
/* bench_chain_close -- end all servers */
void bench_chain_close(struct bench_chain *chain);

/* bench_chain_server_start -- server `index`, that was never started or is reaped */
int bench_chain_server_start(struct bench_chain *chain, uint32_t index, char err[BENCH_ERR_MAX]);
/* bench_chain_server_reap -- kill it, if it lives, and wait for its end */
int bench_chain_server_reap(struct bench_chain *chain, uint32_t index);
/* bench_chain_server_gone -- true: it has ended by itself, or was killed */
bool bench_chain_server_gone(struct bench_chain *chain, uint32_t index);
/* bench_chain_server_stat -- its counters, by its own word; OL_E_NO_SERVER: it has ended */
int bench_chain_server_stat(struct bench_chain *chain, uint32_t index,
			    struct ol_server_stat *ret_stat);

/* bench_chain_info -- what the coordinator last said */
struct ol_chain_info bench_chain_info(const struct bench_chain *chain);
/* bench_chain_whole -- all replicas that are wanted are in it, and nobody joins */
bool bench_chain_whole(const struct bench_chain *chain);
/* bench_chain_at -- the server at a place of the view; -1: none of ours */
int bench_chain_at(const struct bench_chain *chain, const struct ol_chain_info *info,
		   uint32_t place);

#endif /* BENCH_CHAIN_H */
