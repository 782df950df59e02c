/* SPDX-License-Identifier: BSD-3-Clause */

/* chain_operator.c -- orders to the chain of chain_world.h, each made of a view that may be old by then */

#include <inttypes.h>

#include "support/chain_world.h"

bool world_may_die(const struct world *world, const struct process *process)
{
	const struct ol_view *view = &world->board.view;
	int place = ol_view_find(view, process->self.id);
	uint32_t left = 0;

	for (uint32_t i = 0; i < view->count; i++)
		left += world_process(world, view->replicas[i].id) != NULL;
	return place < 0 || (uint32_t)place >= view->count || left > 1;
}

void world_order(struct world *world)
{
	struct board *seen = &world->looked;
	const struct process *leaves;
	struct ol_view_order order = { .number = world->board.version + 1 };
	struct ol_view next;

	if (seen->view.epoch == 0 || world_chance(world, 50)) {
		*seen = world->board;
		return;
	}
	if (world_chance(world, 50) && seen->member_count > 0) {
		order.join = seen->members[world_below(world, seen->member_count)].id;
	} else {
		order.leave =
			seen->view
				.replicas[world_below(world, seen->view.count + seen->view.joining)]
				.id;
	}
	leaves = world_process(world, order.leave);
	if ((leaves != NULL && !world_may_die(world, leaves)) ||
	    (seen->version != world->board.version && world->broken != WORLD_ORDER_BLIND) ||
	    ol_view_ordered(&seen->view, &order, seen->members, seen->member_count, &next) != 0 ||
	    next.wanted >= WORLD_PLACES)
		return;
	if (world->broken == WORLD_ORDER_BLIND)
		next.epoch = world->board.view.epoch + 1;
	if (world->broken == WORLD_ORDER_FULL && order.join != 0) {
		next.count++;
		next.joining = 0;
	}
	world_say(world, "an operator has %" PRIu64 " %s", order.join | order.leave,
		  order.join != 0 ? "join" : "leave");
	world->orders--;
	world_view_set(world, &next);
}
