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

struct ol_source;
struct ol_sources;
struct scenario;
struct server_slot;

enum {
	SAVED_BLOCKS_EVEN = 8
};

/* saved_blocks_even -- blocks all of one length: what goes astray may come to lie where another belongs */
void saved_blocks_even(struct scenario *scenario);
/* saved_deltas_draw -- what CLUSTER_AGE_DELTAS adds */
void saved_deltas_draw(struct scenario *scenario);
/* saved_draw -- what CLUSTER_AGE_BESIDE adds to a scenario that has been drawn */
void saved_draw(struct scenario *scenario);
/* saved_begin -- a run begins */
void saved_begin(void);
/* saved_on_end -- a server does not open, or has ended: if its checkpoints cannot be used, and no worker has the weights,
 * somebody decides that the job begins anew */
void saved_on_end(struct server_slot *slot, int rc);
/* saved_on_choice -- a server begins with this source */
void saved_on_choice(const struct ol_sources *sources, struct ol_source *source);
/* saved_sibling -- of the running checkpoint of a host: where the same byte of the other copy is;
 * 0: there is none */
uint64_t saved_sibling(uint32_t place, uint64_t off);

#endif /* OL_TESTS_SIM_WORLD_SAVED_H */
