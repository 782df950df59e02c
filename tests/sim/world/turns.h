/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * turns.h -- compares decisions of a server's policy with the policies' promises (check_turns)
 *
 * For each run of each server: the workers present, and their gradients.
 */
#ifndef OL_TESTS_SIM_WORLD_TURNS_H
#define OL_TESTS_SIM_WORLD_TURNS_H

#include <stdbool.h>
#include <stdint.h>

/* turns_begin -- a run begins */
void turns_begin(void);
struct scenario;
struct worker_slot;
/* turns_draw -- now and then steps of several shards that shard 0 decides; turns_decided -- they are */
void turns_draw(struct scenario *scenario);
bool turns_decided(void);
/* turns_late_draw -- what CLUSTER_AGE_CARRIED and the ages behind it add, after all else: now and then late gradients
 * are of a later step, and workers of several shards go on in an outage */
void turns_late_draw(struct scenario *scenario, unsigned age);
/* turns_wait_ms -- a server waits for its workers for so long: longer than any fault */
uint32_t turns_wait_ms(void);
/* turns_took_effect -- this is what a gradient that was applied once makes of its mark */
bool turns_took_effect(float value);
/* turns_lacks -- a shard has made a step without what has died with its worker, perhaps of nothing else */
bool turns_lacks(void);
/* turns_late -- gradients may come too late */
bool turns_late(void);
/* turns_on_send -- a worker is about to send a push to a shard, or asks whether it may */
void turns_on_send(uint64_t seq);
/* turns_unkept -- a server had no memory for what a worker has left */
void turns_unkept(void);
/* turns_on_pull -- a worker has read weights */
void turns_on_pull(const struct worker_slot *slot);
/* turns_unknown -- of several pushes whose answers were lost a worker knows how many were dropped,
 * not which */
bool turns_unknown(void);

#endif /* OL_TESTS_SIM_WORLD_TURNS_H */
