/* SPDX-License-Identifier: BSD-3-Clause */

/* chain_session.c -- registrations, and workers at a replica, of chain_world.h */

#include "support/chain_world.h"

bool board_has(const struct board *board, uint64_t id)
{
	for (uint32_t i = 0; i < board->member_count; i++) {
		if (board->members[i].id == id)
			return true;
	}
	return false;
}

void board_drop(struct board *board, uint64_t id)
{
	for (uint32_t i = 0; i < board->member_count; i++) {
		if (board->members[i].id == id)
			board->members[i--] = board->members[--board->member_count];
	}
}

const struct process *world_process(const struct world *world, uint64_t id)
{
	for (uint32_t i = 0; i < WORLD_PLACES; i++) {
		if (world->processes[i].alive && world->processes[i].self.id == id)
			return &world->processes[i];
	}
	return NULL;
}

struct session *session_open(struct world *world, uint32_t worker, struct process *process,
			     bool reads)
{
	for (uint32_t i = 0; i < WORLD_SESSIONS; i++) {
		struct session *session = &world->sessions[i];

		if (session->used)
			continue;
		*session = (struct session){
			.used = true, .reads = reads, .process = process, .worker = worker
		};
		return session;
	}
	return NULL;
}

void session_close(struct session *session, bool by_worker)
{
	if (by_worker)
		session->closed = true;
	else
		session->process = NULL;
	/* what a worker had pushed may still be taken up after it left */
	if (!by_worker)
		session->in.count = 0;
	if (session->closed)
		session->out.count = 0;
	if (session->closed && session->process == NULL)
		session->used = false;
}
