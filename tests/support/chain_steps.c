/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain_steps.c -- prints the events of a chain's world as steps of the model in tests/model
 *
 * A line is a word, a server, numbers: tests/model/trace.pml has the words. The model begins with a
 * chain of one, server 0, so no line is printed before the first view is adopted. Processes are
 * numbered in the order of their starts, but the founder takes the number of the first.
 */

#include "support/chain_world.h"

#include <inttypes.h>
#include <stdio.h>

static uint64_t server_of(const struct world *world, uint64_t id)
{
	if (id == world->founder)
		return 0;
	return id == 1 ? world->founder - 1 : id - 1;
}

void world_step_who(struct world *world, const char *step, uint64_t who, uint64_t a, uint64_t b)
{
	if (world->steps == NULL || world->founder == 0 || world->step_count == WORLD_STEPS)
		return;
	world->step_count++;
	fprintf(world->steps, "%s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", step, who, a, b);
}

void world_step(struct world *world, const char *step, const struct process *process, uint64_t a,
		uint64_t b)
{
	if (world->steps == NULL)
		return;
	world_step_who(world, step, server_of(world, process->self.id), a, b);
	world->acted |= 1U << place_of(process);
}

void world_step_adopt(struct process *process, enum ol_chain_role was)
{
	struct world *world = process->world;
	enum ol_chain_role role = ol_view_role(&process->seen.view, process->self.id);

	if (world->steps == NULL)
		return;
	if (world->founder == 0 && process->chain.role == OL_CHAIN_ONLY) {
		world->founder = process->self.id;
		fprintf(world->steps, "begin %u %u\n", world->slots, world->wanted);
	} else {
		world_step(world, was == OL_CHAIN_NONE && role == OL_CHAIN_NONE ? "look" : "adopt",
			   process, 0, 0);
	}
}

void world_step_view(struct world *world, const struct ol_view *view, const struct ol_view *next)
{
	for (uint32_t i = 0; i < view->count + view->joining; i++) {
		if (ol_view_find(next, view->replicas[i].id) < 0)
			world_step_who(world, "remove", server_of(world, view->replicas[i].id), 0,
				       0);
	}
	if (next->count > view->count && next->epoch > 1)
		world_step_who(world, "promote",
			       server_of(world, next->replicas[next->count - 1].id), 0, 0);
	if (next->joining && ol_view_find(view, next->replicas[next->count].id) < 0)
		world_step_who(world, "join", server_of(world, next->replicas[next->count].id), 0,
			       0);
}

void world_step_state(struct process *process)
{
	struct world *world = process->world;
	const struct ol_chain *chain = &process->chain;
	bool counts = chain->role != OL_CHAIN_NONE && chain->role != OL_CHAIN_JOINING;

	if (world->steps == NULL || world->founder == 0 || chain->role == OL_CHAIN_NONE ||
	    world->step_count == WORLD_STEPS || (world->acted >> place_of(process) & 1) == 0)
		return;
	world->acted &= ~(1U << place_of(process));
	world->step_count++;
	fprintf(world->steps, "state %" PRIu64 " %d %u %" PRIu64 " %d %" PRIu64 " %" PRIu64 " ",
		server_of(world, chain->id), (int)chain->role, chain->view.epoch, chain->received,
		chain->loaded, chain->loaded ? chain->applied : 0, chain->forwarded);
	fprintf(world->steps, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " ", chain->succ_acked,
		counts ? chain->committed : 0, chain->acked,
		ol_chain_is_tail(chain) ? chain->floor : 0);
	fprintf(world->steps, "%d %d %d %d %d %d\n", chain->succ_full, chain->succ_held,
		chain->succ_told, chain->handoff, chain->pred_up, chain->succ_up);
}

/* ---- what the model has in one way only ---- */

bool world_is_dialed(const struct process *process)
{
	const struct world *world = process->world;

	for (uint32_t i = 0; i < WORLD_LINKS; i++) {
		if (world->links[i].used && world->links[i].to == process)
			return true;
	}
	return false;
}

static void acks_drop(struct queue *queue)
{
	struct queue kept = { .count = 0 };

	for (uint32_t i = 0; i < queue->count; i++) {
		const struct message *message = &queue->messages[(queue->first + i) % WORLD_QUEUE];

		if (message->kind != MESSAGE_ACK)
			kept.messages[kept.count++] = *message;
	}
	*queue = kept;
}

void link_overwrite(struct link *link)
{
	acks_drop(&link->posted_up);
	acks_drop(&link->up);
}

uint32_t world_one_change(const struct ol_view *view, struct ol_member *alive, uint32_t count,
			  uint64_t *caught_up)
{
	uint32_t inside = view->count + view->joining;
	bool gone = false;

	for (uint32_t i = 0; i < inside && !gone; i++) {
		gone = true;
		for (uint32_t j = 0; j < count; j++)
			gone = gone && alive[j].id != view->replicas[i].id;
		if (!gone)
			continue;
		*caught_up = 0;
		count = 0;
		for (uint32_t j = 0; j < inside; j++) {
			if (j != i)
				alive[count++] = view->replicas[j];
		}
	}
	for (uint32_t j = 0; !gone && *caught_up != 0 && j < inside; j++)
		alive[j] = view->replicas[j];
	return !gone && *caught_up != 0 ? inside : count;
}
