/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * job.h -- a small job for tests: server processes and worker processes over one transport
 *
 * The transport is OL_TRANSPORT (shm if unset), the address for verbs OL_ADDR. The process that
 * calls these functions never opens a transport: each server and each worker is forked.
 */
#ifndef OL_TESTS_SUPPORT_JOB_H
#define OL_TESTS_SUPPORT_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/folder.h"
#include "outlast.h"
#include "outlast_server.h"

enum {
	JOB_SHARDS_MAX = 4,
	JOB_SERVERS_MAX = 16,
	/* For tests that are about neither: a machine that is busy for seconds is no death, and
	   several gradients may be outstanding */
	JOB_LEASE_MS = 5000,
	JOB_WINDOW = 4
};

struct job {
	uint32_t shard_count;
	uint32_t server_count; /* shards, times replicas; of shard i the first is at i * replicas */
	pid_t servers[JOB_SERVERS_MAX]; /* 0: it is gone */
	struct ol_server_opts opts; /* of all of them */
	float initial;
	char addr[JOB_SERVERS_MAX][96];
	char addrs[512]; /* with commas between */
	struct ol_folder views; /* of chains; none: there are none, or the test has a coordinator */
	char coordinator_addr[OL_FOLDER_MAX + 8];
};

/* job_transport -- "shm" or "verbs"; exits 77 with a reason where it cannot be opened */
const char *job_transport(void);

/*
 * job_start -- a server for every shard, all weights `initial`, with opts but for address and
 * shard; returns when all listen
 */
void job_start(struct job *job, struct ol_server_opts opts, float initial);

/* job_stop -- end the servers (SIGTERM), and fail unless each ends well */
void job_stop(struct job *job);

/*
 * job_kill -- a server dies of SIGKILL; job_restart -- start one in its place, restoring as
 * job->opts.restore says, at the same address (elsewhere: at another, which job_restart() returns)
 */
void job_kill(struct job *job, uint32_t index);
const char *job_restart(struct job *job, uint32_t index, bool elsewhere);

/*
 * job_start_chain -- the same with chains of opts.replicas servers, and views in a folder if
 * opts.coordinator is NULL; returns when every chain has its length
 */
void job_start_chain(struct job *job, struct ol_server_opts opts, float initial);
/* job_fork_chain -- the same; returns when all listen, whatever becomes of the chains */
void job_fork_chain(struct job *job, struct ol_server_opts opts, float initial);
/* job_views -- make the folder of views; job_views_drop -- take it away, with all that is in it */
void job_views(struct job *job);
void job_views_drop(struct job *job);
/* job_chain -- wait until the chain of a shard has `count` full replicas (0: it is there) */
struct ol_chain_info job_chain(const struct job *job, uint32_t shard, uint32_t count);
/* job_server_at -- which server is at place `at` of the chain; -1 if none of ours */
int job_server_at(const struct job *job, const struct ol_chain_info *info, uint32_t at);
/*
 * job_kill_orderer -- the server that orders the steps of shard 0 dies, in the middle of whatever it
 * does; without a chain another is started in its place, restoring from mirrors
 */
void job_kill_orderer(struct job *job);

/* job_fenced -- wait for a process that was a server; fails unless it has fenced itself off */
void job_fenced(pid_t pid);

/* job_fork -- run fn(job, arg) in a process of its own, whose exit status it is */
pid_t job_fork(int (*fn)(const struct job *job, long arg), const struct job *job, long arg);

/* job_join -- wait for it; fails unless it exited with 0 */
void job_join(pid_t pid);

/* job_worker -- open a worker (id < 0: an observer); fails unless that works */
struct ol_worker *job_worker(const struct job *job, int id);
/* job_worker_with -- with these options but for servers, transport and id */
struct ol_worker *job_worker_with(const struct job *job, int id, struct ol_worker_opts opts);

/* job_pull, job_push -- do it and wait; job_push gives every element `value`; returns the status */
int job_pull(struct ol_worker *worker, unsigned flags);
int job_push(struct ol_worker *worker, float value);
/* job_push_start -- the same without the wait; op as it is given */
int job_push_start(struct ol_worker *worker, float value, struct ol_op *op);

#endif /* OL_TESTS_SUPPORT_JOB_H */
