/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * mirrors.h -- a single server that restores from mirrors, and waits for a bounded time
 *
 * Workers die, return under their id, are late, or stand still with old weights, and the server has
 * restore_wait_ms. The oracle says which pushes may be lost then. It knows which of its own pushes
 * each worker has pulled since it began: the worker keeps these no more, so weights without one of
 * them have lost it. They count once, in the worker's present history.
 */
#ifndef OL_TESTS_SIM_WORLD_MIRRORS_H
#define OL_TESTS_SIM_WORLD_MIRRORS_H

#include "sim/world/cluster.h"

void mirrors_begin(void);
void mirrors_draw(struct scenario *scenario);
/* mirrors_on_ready -- a server has its first weights */
void mirrors_on_ready(const struct server_slot *slot, const float *weights);
/* mirrors_on_pull -- a worker has pulled */
void mirrors_on_pull(struct worker_slot *slot);
/* mirrors_on_turn -- of a worker, which may have met another history */
void mirrors_on_turn(struct worker_slot *slot);

#endif /* OL_TESTS_SIM_WORLD_MIRRORS_H */
