/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * proposer.h -- the member and the views that a process registers and proposes, in place of a server
 */
#ifndef OL_TESTS_SIM_WORLD_PROPOSER_H
#define OL_TESTS_SIM_WORLD_PROPOSER_H

#include "replication/coord/coord.h"

struct ol_member proposer_member(uint64_t id, uint32_t index);

/* proposer_next -- a view that follows what it was told, as a server makes it by the rules of
 * views; or anything that may follow, with this member alone */
void proposer_next(const struct ol_member *member, uint32_t shards,
		   const struct ol_coord_state *state, struct ol_view *ret_next);

#endif /* OL_TESTS_SIM_WORLD_PROPOSER_H */
