/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * saved.h -- the checkpoints that servers write, and later restore
 *
 * For each turn of a running checkpoint it notes the version of each block, and of the table. A
 * restored one must be one of these turns, block by block.
 */
#ifndef OL_TESTS_SIM_WORLD_SAVED_H
#define OL_TESTS_SIM_WORLD_SAVED_H

#include <stdint.h>

struct scenario;

/* saved_deltas_draw -- what CLUSTER_AGE_DELTAS adds */
void saved_deltas_draw(struct scenario *scenario);
/* saved_draw -- what CLUSTER_AGE_BESIDE adds to a scenario that has been drawn */
void saved_draw(struct scenario *scenario);
/* saved_begin -- a run begins */
void saved_begin(void);
/* saved_sibling -- of the running checkpoint of a host: where the same byte of the other copy is;
 * 0: there is none */
uint64_t saved_sibling(uint32_t place, uint64_t off);

#endif /* OL_TESTS_SIM_WORLD_SAVED_H */
