/* SPDX-License-Identifier: BSD-3-Clause */

/* rival.c -- a server that stands still, another in its place, and the end of the first */

#include "sim/world/rival.h"

#include <string.h>

#include "server/server.h"
#include "sim/world/check.h"
#include "sim/world/coord.h"
#include "sim/world/disk.h"
#include "sim/world/net.h"
#include "worker/worker_internal.h"

#define SLEEP_MAX_NS (4 * SIM_S) /* of a clock that does not tell */

enum {
	OLD_PPM = 400000, /* of calls to an address that has moved go to where it was */
	FROZEN_PPM = 300000, /* of those that stand still have a clock that does not tell */
	LOOPS_MAX = 1, /* a turn that was under way when a server was stopped may end */
};

/* When the newest history of a shard was first seen to be in force */
static struct {
	uint32_t epoch;
	uint64_t at_ns;
} founded[CLUSTER_SHARDS_MAX];

void rival_begin(void)
{
	memset(founded, 0, sizeof(founded));
}

static uint64_t lease_ns(void)
{
	return cluster.scenario.lease_ms * SIM_MS;
}

/* In whose place a server is */
static struct server_slot *rival_of(const struct server_slot *slot)
{
	for (uint32_t i = 0; i < cluster.server_count; i++) {
		if (cluster.servers[i].shard == slot->shard && !cluster.servers[i].retired)
			return &cluster.servers[i];
	}
	return NULL;
}

static void rival_begins(void *arg, uint64_t life)
{
	struct server_slot *slot = arg, *rival;

	if (slot->retired || slot->life != life || !sim_process_alive(slot->process) ||
	    !slot->stands_still)
		return;
	rival = cluster_rival(slot);
	if (rival != NULL)
		sim_say("%s stands still: another server begins at %s",
			sim_process_name(slot->process), slot->addr);
}

/* Has a worker weights of the server in its place? Then it knows of a newer epoch. */
static bool is_told(const struct worker_slot *worker, const struct server_slot *slot)
{
	const struct server_slot *rival = rival_of(slot);

	return worker->worker != NULL && rival != NULL && rival->server != NULL &&
	       worker->histories[slot->shard] >= rival->server->opts.epoch;
}

static bool all_told(const struct server_slot *slot)
{
	for (uint32_t i = 0; i < cluster.scenario.workers; i++) {
		if (!is_told(&cluster.workers[i], slot))
			return false;
	}
	return true;
}

static void is_found(void *arg, uint64_t tag)
{
	struct server_slot *slot = arg;

	(void)tag;
	if (sim_process_alive(slot->process))
		sim_process_kill(slot->process);
}

/* Workers call again, while either may answer */
static void calls_again(void *arg, uint64_t tag)
{
	const struct server_slot *slot = arg;

	(void)tag;
	if (cluster.calm || !sim_process_alive(slot->process))
		return;
	for (uint32_t i = 0; i < cluster.scenario.workers; i++) {
		if (sim_process_alive(cluster.workers[i].process) && sim_ppm(700000))
			net_adapter_fails(cluster.workers[i].process);
	}
}

/* tag: life, and whether its clock stood still as well */
static void wakes(void *arg, uint64_t tag)
{
	struct server_slot *slot = arg;
	bool frozen = (tag & 1) != 0;

	if (slot->life != tag >> 1 || !sim_process_alive(slot->process) || !slot->stands_still)
		return;
	if (frozen && slot->retired && !all_told(slot)) {
		/* some could not tell the two apart yet */
		if (sim_now() - slot->stopped_ns < SLEEP_MAX_NS)
			sim_at(50 * SIM_MS, wakes, slot, tag);
		else
			sim_process_kill(slot->process);
		return;
	}
	slot->frozen = frozen;
	if (frozen)
		sim_clock_leap(slot->place, -(int64_t)(sim_now() - slot->stopped_ns));
	if (frozen && slot->retired) {
		sim_at(sim_between(0, 3 * lease_ns() + SIM_S), is_found, slot, 0);
		sim_at(sim_between(0, lease_ns()), calls_again, slot, 0);
	}
	sim_say("%s goes on%s", sim_process_name(slot->process),
		frozen ? ", and does not know that it stood still" : "");
	sim_process_continue(slot->process);
}

void rival_fault(struct server_slot *slot)
{
	bool clock_stops = sim_ppm(FROZEN_PPM), frozen;
	uint64_t begins_ns = sim_between(lease_ns() + SIM_MS, 2 * lease_ns());
	uint64_t wakes_ns = sim_ppm(500000) ? begins_ns + sim_between(0, lease_ns() / 2)
					    : sim_between(lease_ns(), 6 * lease_ns());

	if (slot->retired || slot->server == NULL || slot->server->xport->arms == 0 ||
	    !sim_process_alive(slot->process) || sim_process_stopped(slot->process))
		return;
	/* one without weights would begin with those of its rival, above whose epoch it then is */
	frozen = clock_stops && !slot->server->restoring.active;
	sim_say("%s stands still", sim_process_name(slot->process));
	slot->stopped_ns = sim_now();
	slot->stands_still = true;
	sim_process_stop(slot->process);
	sim_at(begins_ns, rival_begins, slot, slot->life);
	sim_at(frozen ? 4 * lease_ns() : wakes_ns, wakes, slot, (uint64_t)slot->life << 1 | frozen);
}

void rival_on_continue(struct server_slot *slot)
{
	if (!slot->stands_still)
		return;
	slot->stands_still = false;
	slot->woken = slot->retired && !slot->frozen;
	slot->arms = slot->server != NULL ? slot->server->xport->arms : 0;
}

/*
 * A chain that may be founded anew was, without this server, which cannot have reached the
 * coordinator for the lease of its session: what it commits from now on is lost.
 */
static void check_refounded(struct server_slot *slot)
{
	const struct ol_chain *chain = &slot->server->replica.chain;
	const struct ol_view *view = coord_view(slot->shard);
	uint64_t had = slot->committed;

	slot->committed = chain->committed;
	if (view == NULL || chain->view.founded >= view->founded || chain->view.founded == 0)
		return;
	if (founded[slot->shard].epoch != view->founded) {
		founded[slot->shard].epoch = view->founded;
		founded[slot->shard].at_ns = sim_now();
	}
	/* the turn in which its lease ends may end */
	if (chain->committed > had && !slot->dreamt &&
	    sim_now() > founded[slot->shard].at_ns + lease_ns() / 2)
		sim_fail("check_fenced",
			 "%s commits version %llu of history %u, %u was founded %llu ms ago",
			 sim_process_name(slot->process), (unsigned long long)chain->committed,
			 chain->view.founded, view->founded,
			 (unsigned long long)((sim_now() - founded[slot->shard].at_ns) / SIM_MS));
}

void rival_check(struct server_slot *slot)
{
	if (slot->server->opts.coordinator != NULL && cluster.scenario.refound)
		check_refounded(slot);
	if (slot->woken && slot->server->xport->arms > slot->arms + LOOPS_MAX)
		sim_fail("check_fenced",
			 "%s stood still for longer than its lease, another has its place, and it "
			 "goes on",
			 sim_process_name(slot->process));
}

/* May a call of this process reach a server that does not know that it has a rival? */
static bool may_reach(const struct sim_process *caller, const struct server_slot *slot)
{
	for (uint32_t i = 0; i < cluster.scenario.workers; i++) {
		if (cluster.workers[i].process == caller)
			return is_told(&cluster.workers[i], slot);
	}
	return true;
}

struct ol_xport *rival_called(const struct sim_process *caller, const char *addr)
{
	for (uint32_t i = 0; cluster.scenario.rivals && i < cluster.server_count; i++) {
		const struct server_slot *slot = &cluster.servers[i];

		if (!slot->retired || slot->server == NULL || strcmp(slot->addr, addr) != 0 ||
		    !sim_process_alive(slot->process) || !sim_ppm(OLD_PPM))
			continue;
		/* one that stands still, or ends at once, harms nobody; of the others epochs
		 * warn */
		if (sim_process_stopped(slot->process) || slot->woken || may_reach(caller, slot))
			return slot->server->xport;
	}
	return NULL;
}
