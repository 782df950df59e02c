/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * havoc.h -- kills and stops servers of chains by a seed, and restarts them
 *
 * For the process that holds the job, which never opens a transport. It is the servers' supervisor:
 * it restarts, empty, a server that was killed, or that ended because it was removed (exit 9).
 */
#ifndef OL_TESTS_SUPPORT_HAVOC_H
#define OL_TESTS_SUPPORT_HAVOC_H

#include <stdbool.h>

#include "support/job.h"

enum {
	HAVOC_DEAD_MAX = 256,
	HAVOC_WORKERS_MAX = 4,
	HAVOC_REACH_MS = 20 /* how far apart things are that happen at nearly the same time */
};

struct havoc {
	struct job job;
	unsigned seed; /* what comes next */
	uint64_t back_ns[JOB_SERVERS_MAX]; /* one that is gone is started again then */
	uint64_t wake_ns[JOB_SERVERS_MAX]; /* one that was stopped goes on then; 0: it runs */
	uint64_t dead[HAVOC_DEAD_MAX]; /* ids of processes that are gone, and may be in a view */
	uint32_t dead_count;
	pid_t workers[HAVOC_WORKERS_MAX]; /* looked after: none may fail */
	uint64_t worker_wake_ns[HAVOC_WORKERS_MAX]; /* as wake_ns */
	unsigned kills, stops, fenced;
	bool all_lost; /* a chain had for a moment no full replica that ran */
	bool views_gone; /* views are as last seen, and nobody is started again */
	struct ol_chain_info last[JOB_SHARDS_MAX];
};

/* havoc_seed -- from a test's words: "--seed N" alone, or seeds from 1 on, "--runs N" of them;
 * without a word `runs`, and a third of them under a sanitizer */
struct havoc_seeds {
	unsigned first, last;
};
struct havoc_seeds havoc_seeds(int argc, char **argv, unsigned runs);

/* havoc_start -- servers for chains of opts.replicas, a folder, the chains' first views */
void havoc_start(struct havoc *havoc, unsigned seed, struct ol_server_opts opts);
/* havoc_end -- end all; fails unless servers end well, or because they were left out */
void havoc_end(struct havoc *havoc);

/* havoc_rand -- 0 … span - 1 */
unsigned havoc_rand(struct havoc *havoc, unsigned span);

/* havoc_view -- a chain as it is now */
struct ol_chain_info havoc_view(struct havoc *havoc, uint32_t shard);

/*
 * havoc_pick -- a server that runs, and is a full replica: 0 the head, 1 one between, 2 the tail;
 * the nearest if there are not so many; -1: none
 */
int havoc_pick(struct havoc *havoc, uint32_t shard, unsigned place);
/* havoc_joining -- the one that joins a chain now; -1: none */
int havoc_joining(struct havoc *havoc, uint32_t shard);

/* havoc_kill -- SIGKILL, started again after back_ms (UINT32_MAX: not by itself) */
void havoc_kill(struct havoc *havoc, int server, uint32_t back_ms);
/* havoc_stop -- SIGSTOP, and SIGCONT after ms */
void havoc_stop(struct havoc *havoc, int server, uint32_t ms);
/* havoc_worker_stop -- SIGSTOP, and SIGCONT after ms */
void havoc_worker_stop(struct havoc *havoc, uint32_t id, uint32_t ms);
/* havoc_workers_kill -- SIGKILL, to all that are left */
void havoc_workers_kill(struct havoc *havoc);
/* havoc_views_drop -- the folder of views is taken away: no chain changes any more */
void havoc_views_drop(struct havoc *havoc);

/* havoc_tend -- do what is due; waits a moment */
void havoc_tend(struct havoc *havoc);
void havoc_tend_ms(struct havoc *havoc, uint32_t ms);
/* havoc_full -- tend until every chain has all its replicas, and all of them run */
void havoc_full(struct havoc *havoc);

/* havoc_random -- one thing out of many happens to a shard's chain; stops too, if `stops` */
void havoc_random(struct havoc *havoc, uint32_t shard, bool stops);

/* havoc_same -- fails unless all replicas of the one chain are the same, bit for bit, state too */
void havoc_same(struct havoc *havoc);

#endif /* OL_TESTS_SUPPORT_HAVOC_H */
