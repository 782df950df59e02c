/* SPDX-License-Identifier: BSD-3-Clause */

/* lasting.c -- one fault that is never repaired */

#include "sim/world/lasting.h"

#include "server/server.h"
#include "sim/world/coord.h"
#include "sim/world/fault.h"
#include "sim/world/net.h"

enum {
	LASTING_PPM = 350000,
	TRIES_MAX = 20, /* until there is somebody who can be spared */
};

#define TRY_NS    (200 * SIM_MS)
#define SETTLE_NS (500 * SIM_MS) /* who stood still for too long has ended by then */

static const char *const names[] = {
	[LASTING_NOTHING] = "",
	[LASTING_DEATH] = "a dead replica",
	[LASTING_POWER] = "a dead host",
	[LASTING_CUT] = "two servers cut off from each other",
	[LASTING_CUT_COORD] = "a server cut off from the coordinator",
	[LASTING_WORKER_DEATH] = "a dead worker",
	[LASTING_WORKER_CUT] = "a worker cut off from a server",
};

static struct {
	enum lasting begun; /* LASTING_NOTHING: nothing, yet */
	uint32_t shard;
	uint32_t tries;
} lasting;

void lasting_draw(struct scenario *scenario)
{
	/* a shard that may be founded anew waits for the mirrors of all workers */
	bool chain = scenario->chain && !scenario->refound;
	bool servers = chain && scenario->replicas > 1;
	/* a step of all waits for the successor of a worker that died */
	bool others = chain && scenario->workers > 1 &&
		      !(scenario->sync && scenario->wait == OL_WAIT_ALL);
	uint32_t first = servers ? LASTING_DEATH : LASTING_WORKER_DEATH;
	uint32_t last = others ? LASTING_WORKER_CUT : LASTING_CUT_COORD;

	lasting.begun = LASTING_NOTHING;
	lasting.tries = 0;
	if ((!servers && !others) || !sim_ppm(LASTING_PPM))
		return;
	scenario->lasting = first + sim_below(last - first + 1);
	/* what a worker holds up of others' steps it holds up for ever */
	if (scenario->lasting == LASTING_WORKER_CUT && (scenario->sync || scenario->ssp))
		scenario->lasting = LASTING_WORKER_DEATH;
}

const char *lasting_text(void)
{
	return names[cluster.scenario.lasting];
}

static void cut(uint32_t a, uint32_t b)
{
	bool both = sim_ppm(500000);

	sim_say("%u to %u is cut for good%s", a, b, both ? ", both ways" : "");
	net_cut(a, b, true);
	if (both)
		net_cut(b, a, true);
}

/* Another server of the same shard */
static struct server_slot *other_of(const struct server_slot *slot)
{
	uint32_t at = sim_below(cluster.scenario.servers - 1);

	for (uint32_t i = 0; i < cluster.server_count; i++) {
		struct server_slot *other = &cluster.servers[i];

		if (other != slot && other->shard == slot->shard && at-- == 0)
			return other;
	}
	return NULL;
}

static bool server_lost(void)
{
	struct server_slot *slot = &cluster.servers[sim_below(cluster.server_count)];

	/* a chain begins when as many are there as it has replicas */
	if (!fault_well(slot) || coord_view(slot->shard) == NULL || !fault_spared(slot))
		return false;
	lasting.shard = slot->shard;
	if (cluster.scenario.lasting == LASTING_CUT) {
		cut(slot->place, other_of(slot)->place);
		return true;
	}
	slot->lost = true;
	sim_say("%s is lost for good: %s", sim_process_name(slot->process), lasting_text());
	if (cluster.scenario.lasting == LASTING_CUT_COORD) {
		cut(slot->place, COORD_PLACE);
		return true;
	}
	cluster.host_dies = cluster.scenario.lasting == LASTING_POWER;
	if (cluster.host_dies)
		net_host_lost(slot->place, true);
	sim_process_kill(slot->process);
	cluster.host_dies = false;
	return true;
}

static bool worker_lost(void)
{
	struct worker_slot *slot = &cluster.workers[sim_below(cluster.scenario.workers)];

	if (!sim_process_alive(slot->process))
		return false;
	slot->lost = true;
	sim_say("%s is lost for good: %s", sim_process_name(slot->process), lasting_text());
	if (cluster.scenario.lasting == LASTING_WORKER_DEATH)
		sim_process_kill(slot->process);
	else
		cut(slot->place, cluster.servers[sim_below(cluster.server_count)].place);
	return true;
}

static void try(void *arg, uint64_t tag)
{
	bool done = cluster.scenario.lasting < LASTING_WORKER_DEATH ? server_lost() : worker_lost();

	(void)arg;
	(void)tag;
	if (done)
		lasting.begun = cluster.scenario.lasting;
	else if (++lasting.tries < TRIES_MAX)
		sim_at(TRY_NS, try, NULL, 0);
}

void lasting_begin(void)
{
	if (cluster.scenario.lasting != LASTING_NOTHING)
		sim_at(2 * cluster.scenario.lease_ms * SIM_MS + SETTLE_NS, try, NULL, 0);
}

uint32_t lasting_replicas(uint32_t shard)
{
	const struct scenario *scenario = &cluster.scenario;

	if (lasting.begun == LASTING_NOTHING || lasting.begun >= LASTING_WORKER_DEATH ||
	    lasting.shard != shard)
		return scenario->replicas;
	if (lasting.begun == LASTING_CUT) /* where neighbours do not reach each other */
		return 1;
	return scenario->servers > scenario->replicas ? scenario->replicas : scenario->servers - 1;
}

void lasting_end(void)
{
	for (uint32_t i = 0; i < cluster.scenario.workers; i++) {
		if (cluster.workers[i].lost && sim_process_alive(cluster.workers[i].process))
			sim_process_kill(cluster.workers[i].process);
	}
}
