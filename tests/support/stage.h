/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * stage.h -- tests whose workers order the faults: when a server dies and when it is back
 *
 * stage_run() is called by the process that holds the job, which never opens a transport. The other
 * calls are for the workers that it forks: each returns when its request is done.
 */
#ifndef OL_TESTS_SUPPORT_STAGE_H
#define OL_TESTS_SUPPORT_STAGE_H

#include "support/job.h"

enum {
	STAGE_WORKERS_MAX = 8
};

/*
 * stage_run -- fork story(job, id) for ids from 0, do what they ask for, and wait for them; fails
 * when one of them does, or after some minutes
 */
void stage_run(struct job *job, uint32_t workers, int (*story)(const struct job *job, long id));

/* stage_play -- a job without chains, for this one story; says that it went well */
void stage_play(struct ol_server_opts opts, float initial, uint32_t workers,
		int (*story)(const struct job *job, long id), const char *name);

/* Servers: SIGKILL; SIGSTOP; SIGCONT; SIGTERM, fails unless it ends well */
void stage_kill(uint32_t shard);
void stage_pause(uint32_t shard);
void stage_resume(uint32_t shard);
void stage_stop(uint32_t shard);

/* stage_restart -- in place of one that was killed or stopped, at the same address */
void stage_restart(uint32_t shard, enum ol_restore restore);

/* stage_kill_worker -- SIGKILL, to another worker; stage_pause_worker -- SIGSTOP; and SIGCONT */
void stage_kill_worker(uint32_t id);
void stage_pause_worker(uint32_t id);
void stage_resume_worker(uint32_t id);

/* stage_meet -- wait for all other workers to come here too */
void stage_meet(void);

/* stage_word -- one of 8 words that all workers share; zero at first */
uint64_t *stage_word(unsigned index);

/* stage_down, stage_up -- poll until the worker has noticed that a server is gone, is back */
void stage_down(struct ol_worker *worker, uint32_t shard);
void stage_up(struct ol_worker *worker, uint32_t shard);

/* stage_stat -- ol_link_get_stat(), with its sum checked */
struct ol_link_stat stage_stat(const struct ol_worker *worker, uint32_t shard);

/* stage_done -- poll until op is done, whatever op_timeout_ms says; returns its status */
int stage_done(struct ol_worker *worker, struct ol_op *op);

/* stage_push -- start a push of all `value`; the op is APPLIED unless it says otherwise */
int stage_push(struct ol_worker *worker, float value, struct ol_op *op);

/* stage_flush -- flush and pull the newest */
void stage_flush(struct ol_worker *worker);

#endif /* OL_TESTS_SUPPORT_STAGE_H */
