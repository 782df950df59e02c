/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * check.h -- what must hold in every state of a run (DESIGN.md section 2), each by its name
 *
 *	check_once        a push takes effect once: no float of the weights is over 1, and a table
 *	                  of what is applied counts exactly what is in the weights beside it
 *	check_whole       what a pull gives is the content of one version, and all who have that
 *	                  version have this content
 *	check_committed   every replica that counts has what a worker was told is committed; a push
 *	                  that was done is in all later weights
 *	check_monotone    no worker is handed a version older than one before
 *	check_fenced      of one epoch there is one head, and who is out of the view changes nothing
 *	check_bounded     queues, rings, slots, doorbells, memory
 *	check_accounts    pushed is applied, dropped, lost or pending, at every moment
 *	check_converged   when faults have ended everything is done, within a bounded time
 *	check_survives    nothing ends but what was killed, stopped or fenced
 *	check_misuse      the product keeps its side of the transport's contract
 *	check_leaks       who ends gives everything back
 */
#ifndef OL_TESTS_SIM_WORLD_CHECK_H
#define OL_TESTS_SIM_WORLD_CHECK_H

#include "sim/world/cluster.h"

void check_begin(void);
const float *check_first_weights(uint32_t shard);
void check_server(struct server_slot *slot);
/* check_landing -- at `at`, in the memory of process `to`, something of process `from` lands */
void check_landing(const struct sim_process *from, const struct sim_process *to, const uint8_t *at);
void check_worker(struct worker_slot *slot);
/* check_pull -- a worker has pulled weights */
void check_pull(struct worker_slot *slot);
/* check_finished -- a worker has nothing left to do, and everything is well */
void check_finished(struct worker_slot *slot);
void check_exit(const struct sim_process *process);
/* check_replicas -- true: all are alike, and chains as long as they should be */
bool check_replicas(void);
/* check_doom -- true: a chain has lost all its replicas, and nobody may found it anew */
bool check_doom(void);

#endif /* OL_TESTS_SIM_WORLD_CHECK_H */
