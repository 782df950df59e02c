/* SPDX-License-Identifier: BSD-3-Clause */

/* check_end.c -- the checks of check.h at the end of a process, and of a run */

#include <string.h>

#include "server/server.h"
#include "sim/world/check.h"
#include "sim/world/coord.h"
#include "sim/world/lasting.h"
#include "sim/world/operator.h"

void check_exit(const struct sim_process *process)
{
	if (sim_process_blocks(process) != 0)
		sim_fail("check_leaks", "%s ends and leaves %zu blocks of memory",
			 sim_process_name(process), sim_process_blocks(process));
}

static const struct ol_server *server_of(uint64_t id)
{
	for (uint32_t i = 0; i < cluster.server_count; i++) {
		if (cluster.servers[i].server != NULL &&
		    sim_process_alive(cluster.servers[i].process) &&
		    cluster.servers[i].server->incarnation == id)
			return cluster.servers[i].server;
	}
	return NULL;
}

/* All of a snapshot but a server's word for it, which each process gives by itself */
static bool contents_alike(const struct ol_store *a, const struct ol_store *b)
{
	const uint8_t *of_a = ol_store_content(a, a->snapshot);
	const uint8_t *of_b = ol_store_content(b, b->snapshot);
	const size_t head = sizeof(struct ol_snapshot_head);
	const size_t steps = sizeof(((struct ol_snapshot_head *)0)->optimizer_steps);

	return memcmp(of_a, of_b, steps) == 0 &&
	       memcmp(of_a + head, of_b + head, ol_layout_content_bytes(&a->geo) - head) == 0;
}

static bool replicas_alike(uint32_t shard)
{
	const struct ol_view *view = coord_view(shard);
	const struct ol_server *first = view != NULL ? server_of(view->replicas[0].id) : NULL;

	if (first == NULL ||
	    (view->count < lasting_replicas(shard) && view->count < operator_wanted(view)))
		return false;
	if (cluster.scenario.every == 0 && first->replica.chain.committed != first->store.version)
		return false; /* acks go up, at the latest at heartbeats */
	for (uint32_t i = 1; i < view->count && cluster.scenario.every == 0; i++) {
		const struct ol_server *other = server_of(view->replicas[i].id);

		if (other == NULL || other->store.version != first->store.version ||
		    !other->replica.chain.loaded)
			return false;
		if (!contents_alike(&first->store, &other->store))
			sim_fail("check_converged", "shard %u: replicas of version %llu differ",
				 shard, (unsigned long long)first->store.version);
	}
	return true;
}

bool check_replicas(void)
{
	for (uint32_t k = 0; cluster.scenario.chain && k < cluster.scenario.shards; k++) {
		if (!replicas_alike(k))
			return false;
	}
	return true;
}

bool check_doom(void)
{
	for (uint32_t k = 0; k < cluster.scenario.shards; k++) {
		const struct ol_view *view = cluster.scenario.chain ? coord_view(k) : NULL;
		uint32_t here = 0;

		if (view == NULL || cluster.scenario.refound)
			continue;
		for (uint32_t i = 0; i < view->count; i++)
			here += server_of(view->replicas[i].id) != NULL;
		if (here == 0)
			return true;
	}
	return false;
}
