/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * check.h -- what must hold in every state of a run, each by its name (src/README.md, "What always holds")
 *
 *	check_once        a push takes effect once: no float of the weights is over 1, and a table
 *	                  of what is applied counts exactly what is in the weights beside it
 *	check_whole       a pull gives the content of one version, and all that have that version
 *	                  have this content
 *	check_committed   every replica that counts has what a worker was told is committed; a push
 *	                  that was done is in all later weights
 *	check_monotone    no worker is handed a version older than one before
 *	check_fenced      an epoch has one head, and a server out of the view changes nothing
 *	check_bounded     queues, rings, slots, doorbells, memory
 *	check_accounts    pushed is applied, dropped, lost or pending, at every moment
 *	check_turns       a step has the gradients of as many workers as the policy waits for; only
 *	                  late gradients count as late; no worker is further ahead than the bound,
 *	                  none waits within it
 *	check_converged   when faults have ended everything is done, within a bounded time
 *	check_survives    a process ends only if it was killed, stopped or fenced
 *	check_misuse      the product keeps its side of the transport's contract
 *	check_leaks       a process that ends frees everything
 *	check_saved       a checkpoint is a published version, with its table and state; so is each
 *	                  block of a running one, and all blocks are of one of its turns
 *	check_restored    a server begins with such a checkpoint, or such a version
 *	check_durable     a checkpoint that is reported written outlives a power loss
 *	check_kept        no neighbour suspects a replica that lives, and that is out of reach for a
 *	                  quarter of a lease at most
 *	check_counters    counters that an observer reads are right
 */
#ifndef OL_TESTS_SIM_WORLD_CHECK_H
#define OL_TESTS_SIM_WORLD_CHECK_H

#include "sim/world/cluster.h"
#include "wire/layout.h"

void check_begin(void);
/* check_hash -- never 0 */
uint64_t check_hash(const void *bytes, size_t count);
/* check_content -- of a server, after each turn, and when it ends within one */
void check_content(struct server_slot *slot);
/* check_own -- the same of the server that runs: as it makes versions, and as it commits them, of which a turn may have
 * several, and which it may have to forget in that turn */
void check_own(void);
/* check_published -- a version of history `id` had this content, and this state if with_state */
bool check_published(const struct ol_geometry *geo, uint32_t id, uint64_t version,
		     const void *content, bool with_state);
/* check_mixed -- a server begins with what a running checkpoint had, which may be of several
 * versions */
struct ol_ckpt_meta;
void check_mixed(const struct ol_ckpt_meta *meta, const void *content);
/* check_is_mixed -- a server of the shard has begun so */
bool check_is_mixed(uint32_t shard);
const float *check_first_weights(uint32_t shard);
void check_server(struct server_slot *slot);
/* check_landing -- at `at`, in the memory of process `to`, something of process `from` lands */
void check_landing(const struct sim_process *from, const struct sim_process *to, const uint8_t *at);
void check_worker(struct worker_slot *slot);
/* check_pull -- a worker has pulled weights */
void check_pull(struct worker_slot *slot);
/* check_finished -- a worker has nothing left to do, and everything is well */
void check_finished(struct worker_slot *slot);
/* check_late -- what of a worker came too late did so at a shard at least, and took no effect
 * there; weights: of the job */
void check_late(const struct worker_slot *slot, const float *weights);
/* check_saved -- a server is about to write this; check_loaded -- this was read (excused: a read,
 * or memory, failed meanwhile) */
void check_saved(const struct ol_ckpt_meta *meta, const void *content);
void check_loaded(int rc, const struct ol_ckpt_meta *meta, const void *content, bool excused);
/* check_counters, check_observed -- of an observer: what it read of a shard; what it pulled */
void check_counters(struct observer_slot *slot, uint32_t shard, const struct ol_server_stat *stat);
void check_observed(const struct ol_worker *worker);
void check_exit(const struct sim_process *process);
/* check_replicas -- true: all are alike, and chains as long as they should be */
bool check_replicas(void);
/* check_doom -- true: a chain has lost all its replicas, and nobody may found it anew */
bool check_doom(void);

#endif /* OL_TESTS_SIM_WORLD_CHECK_H */
