/* SPDX-License-Identifier: BSD-3-Clause */

/* proposer.c -- members, and views that follow each other */

#include <stdio.h>

#include "sim/world/proposer.h"
#include "sim/world/sim.h"

struct ol_member proposer_member(uint64_t id, uint32_t index)
{
	struct ol_member member = { .id = id, .job = 1, .proto = 1, .rank = index };

	snprintf(member.addr, sizeof(member.addr), "@%u", index);
	return member;
}

void proposer_next(const struct ol_member *member, uint32_t shards,
		   const struct ol_coord_state *state, struct ol_view *ret_next)
{
	const struct ol_view_rule rule = { .shard_count = shards,
					   .wanted = 2,
					   .refound = sim_ppm(500000) };

	if (sim_ppm(500000) &&
	    ol_view_next(&state->view, state->members, state->member_count, 0, &rule, ret_next))
		return;
	*ret_next = state->view;
	if (state->version == 0)
		*ret_next = (struct ol_view){ .founded = 1,
					      .history = member->id,
					      .origin = member->id,
					      .shard_count = shards,
					      .wanted = 2 };
	ret_next->epoch++;
	ret_next->count = 1;
	ret_next->joining = 0;
	ret_next->replicas[0] = *member;
}
