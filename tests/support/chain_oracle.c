/* SPDX-License-Identifier: BSD-3-Clause */

/* chain_oracle.c -- promises that must hold in a chain's world after every step */

#include "support/chain_world.h"

#include <inttypes.h>

bool world_is_full(const struct ol_view *view, const struct process *process)
{
	int at = process->alive ? ol_view_find(view, process->self.id) : -1;

	return at >= 0 && (uint32_t)at < view->count;
}

/* Does every replica that counts have all that was shown? */
void world_shown_check(struct world *world)
{
	for (uint32_t i = 0; i < WORLD_PLACES; i++) {
		struct process *process = &world->processes[i];

		if (!world_is_full(&world->board.view, process) || world->shown == 0)
			continue;
		if (process->chain.received < world->shown)
			world_fail(world, "replica %u of epoch %u lacks committed %" PRIu64, i,
				   world->board.view.epoch, world->shown);
		else if (process->hashes[world->shown] != world->shown_hashes[world->shown])
			world_fail(world, "replica %u of epoch %u has another %" PRIu64, i,
				   world->board.view.epoch, world->shown);
	}
}

static void parts_count(struct world *world, const struct entry *entry)
{
	for (uint32_t i = 0; i < entry->part_count; i++) {
		uint32_t worker = entry->parts[i].worker;

		if (entry->parts[i].seq != world->shown_seqs[worker] + 1)
			world_fail(world, "push %u of worker %u was committed after push %u",
				   entry->parts[i].seq, worker, world->shown_seqs[worker]);
		world->shown_seqs[worker] = entry->parts[i].seq;
	}
}

void world_show(struct process *process, uint64_t version)
{
	struct world *world = process->world;

	if (version <= world->shown) {
		if (process->hashes[version] != world->shown_hashes[version])
			world_fail(world, "replica %u shows another %" PRIu64, place_of(process),
				   version);
		return;
	}
	if (process->hashes[world->shown] != world->shown_hashes[world->shown])
		world_fail(world, "replica %u shows %" PRIu64 " of another history",
			   place_of(process), version);
	while (world->shown < version) {
		uint64_t v = ++world->shown;

		world->shown_tags[v] = process->tags[v];
		world->shown_hashes[v] = process->hashes[v];
		parts_count(world, &world->entries[process->tags[v]]);
	}
	world_shown_check(world);
}

static void neighbours_check(struct world *world, struct process *pred, struct process *succ)
{
	const struct ol_chain *a = &pred->chain, *b = &succ->chain;

	if (a->view.epoch != world->board.view.epoch || b->view.epoch != a->view.epoch ||
	    !a->loaded || !b->loaded)
		return;
	if (a->received < b->received || pred->hashes[b->received] != succ->hashes[b->received])
		world_fail(world, "replica %u does not have what its successor %u has",
			   place_of(pred), place_of(succ));
}

void world_check(struct world *world)
{
	const struct ol_view *view = &world->board.view;
	struct process *at[OL_REPLICAS_MAX] = { NULL };

	for (uint32_t i = 0; i < WORLD_PLACES; i++) {
		struct process *process = &world->processes[i];
		int place = ol_view_find(view, process->self.id);

		if (process->alive && place >= 0)
			at[place] = process;
		if (!process->alive)
			continue;
		if (process->chain.applied > (process->chain.loaded ? process->chain.received : 0))
			world_fail(world, "replica %u applied what it has not", i);
	}
	for (uint32_t i = 0; i + 1 < view->count; i++) {
		if (at[i] != NULL && at[i + 1] != NULL)
			neighbours_check(world, at[i], at[i + 1]);
	}
}
