/* SPDX-License-Identifier: BSD-3-Clause */

/* turns.c -- an oracle for policies: steps that wait for some, bounded staleness, late gradients */

#include "sim/world/turns.h"

#include <string.h>

#include "outlast_policy.h"
#include "server/server.h"
#include "sim/world/check.h"
#include "sim/world/mutate.h"
#include "sim/world/wrap.h"

WRAP(enum ol_verdict, ol_policy_on_gradient, struct ol_policy *policy,
     const struct ol_arrival *arrival);
WRAP(void, ol_policy_on_join, struct ol_policy *policy, uint32_t worker);
WRAP(void, ol_policy_on_leave, struct ol_policy *policy, uint32_t worker);
WRAP(unsigned, ol_store_apply, struct ol_store *store, struct ol_contribution *contributions,
     unsigned count, unsigned target);
WRAP(unsigned, ol_store_gather, struct ol_store *store, struct ol_contribution *contributions,
     unsigned count, float *sum);

/* Of one life of a server */
static struct turns {
	uint32_t life;
	bool present[CLUSTER_WORKERS_MAX];
	bool held[CLUSTER_WORKERS_MAX]; /* it has given to the next step */
	uint64_t given[CLUSTER_WORKERS_MAX]; /* ssp: since the slowest that it met began at 0 */
} turns[CLUSTER_SLOTS_MAX];

/* A gradient that was dropped, for a mutation */
static struct {
	bool there;
	uint64_t len;
	float grad[1024];
} dropped;

void turns_begin(void)
{
	memset(turns, 0, sizeof(turns));
	dropped.there = false;
}

/* Of the server that runs; NULL: none does */
static struct turns *own(void)
{
	for (uint32_t i = 0; sim_process_self() != NULL && i < cluster.server_count; i++) {
		if (cluster.servers[i].process != sim_process_self())
			continue;
		if (turns[i].life != cluster.servers[i].life)
			turns[i] = (struct turns){ .life = cluster.servers[i].life };
		return &turns[i];
	}
	return NULL;
}

void turns_step(void)
{
	struct turns *at = own();

	if (at != NULL)
		memset(at->held, 0, sizeof(at->held));
}

static uint32_t count_of(const bool *of)
{
	uint32_t count = 0;

	for (uint32_t w = 0; w < cluster.ids; w++)
		count += of[w];
	return count;
}

/* Of all that are there but one; what that has given itself, if it is alone */
static uint64_t slowest(const struct turns *at, uint32_t worker)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t w = 0; w < cluster.ids; w++) {
		if (w != worker && at->present[w] && at->given[w] < least)
			least = at->given[w];
	}
	return least != UINT64_MAX ? least : at->given[worker];
}

static void joins(struct turns *at, uint32_t worker)
{
	if (at->present[worker])
		return;
	at->given[worker] = slowest(at, worker);
	at->present[worker] = true;
}

static void check_bound(struct turns *at, uint32_t worker, enum ol_verdict verdict)
{
	uint64_t least = slowest(at, worker), bound = cluster.scenario.staleness;

	if (verdict == OL_VERDICT_WAIT && at->given[worker] <= least + bound)
		sim_fail("check_turns",
			 "worker %u waits: it has given %llu, the slowest %llu, the bound is %llu",
			 worker, (unsigned long long)at->given[worker], (unsigned long long)least,
			 (unsigned long long)bound);
	if (verdict != OL_VERDICT_STEP)
		return;
	if (++at->given[worker] > least + bound + 1)
		sim_fail("check_turns",
			 "worker %u goes ahead: it has given %llu, the slowest %llu, the bound is "
			 "%llu",
			 worker, (unsigned long long)at->given[worker], (unsigned long long)least,
			 (unsigned long long)bound);
}

/* How many a step has to wait for; k: what the policy says */
static uint32_t wanted(const struct turns *at, uint32_t k)
{
	uint32_t present = count_of(at->present);

	if (cluster.scenario.wait == OL_WAIT_ALL)
		return cluster.scenario.workers;
	if (cluster.scenario.wait != OL_WAIT_FIXED)
		return k < present ? k : present;
	return cluster.scenario.wait_k < present ? cluster.scenario.wait_k : present;
}

static void check_step(struct turns *at, const struct ol_arrival *arrival, uint32_t k,
		       enum ol_verdict verdict)
{
	bool timely = arrival->queued || arrival->base_version == arrival->version;
	uint32_t held = count_of(at->held), want = wanted(at, k);

	if ((verdict == OL_VERDICT_LATE) == (timely && !at->held[arrival->worker]))
		sim_fail("check_turns", "a gradient of version %llu, at %llu, is%s late",
			 (unsigned long long)arrival->base_version,
			 (unsigned long long)arrival->version,
			 verdict == OL_VERDICT_LATE ? "" : " not");
	if (verdict == OL_VERDICT_LATE)
		return;
	if ((verdict == OL_VERDICT_STEP) != (held + 1 >= want))
		sim_fail("check_turns", "%u of %u gradients are %s step", held + 1, want,
			 verdict == OL_VERDICT_STEP ? "a" : "no");
	at->held[arrival->worker] = true;
}

/* What has just been taken from the queue */
static void drop_note(void)
{
	for (uint32_t i = 0; i < cluster.server_count; i++) {
		const struct ol_server *server = cluster.servers[i].server;
		struct ol_landed landed;

		if (cluster.servers[i].process != sim_process_self() || server == NULL)
			continue;
		landed =
			server->ingest
				.queue[(server->ingest.queue_head + server->ingest.queue_size - 1) %
				       server->ingest.queue_size];
		dropped.there = true;
		dropped.len = server->store.geo.shard_len;
		memcpy(dropped.grad,
		       (const uint8_t *)server->sessions.all[landed.session].landing->addr +
			       ol_layout_slot_off(&server->store.geo, landed.slot),
		       dropped.len * sizeof(float));
	}
}

static enum ol_verdict mutated(enum ol_verdict verdict, const struct turns *at, uint32_t k)
{
	if (verdict == OL_VERDICT_LATE && mutation(MUTATE_LATE_TWICE))
		drop_note();
	if (verdict == OL_VERDICT_WAIT && mutation(MUTATE_NO_BOUND))
		return OL_VERDICT_STEP;
	if (verdict == OL_VERDICT_HOLD && mutation(MUTATE_TOO_FEW) &&
	    count_of(at->held) + 2 >= wanted(at, k))
		return OL_VERDICT_STEP;
	return verdict;
}

enum ol_verdict __wrap_ol_policy_on_gradient(struct ol_policy *policy,
					     const struct ol_arrival *arrival)
{
	struct turns *at = own();
	struct ol_policy_stat stat;
	enum ol_verdict verdict;

	if (at == NULL)
		return __real_ol_policy_on_gradient(policy, arrival);
	joins(at, arrival->worker);
	__real_ol_policy_on_join(policy, arrival->worker);
	ol_policy_get_stat(policy, &stat);
	verdict = mutated(__real_ol_policy_on_gradient(policy, arrival), at, stat.k);
	if (cluster.scenario.ssp)
		check_bound(at, arrival->worker, verdict);
	else if (cluster.scenario.sync)
		check_step(at, arrival, stat.k, verdict);
	return verdict;
}

void __wrap_ol_policy_on_join(struct ol_policy *policy, uint32_t worker)
{
	struct turns *at = own();

	if (at != NULL)
		joins(at, worker);
	__real_ol_policy_on_join(policy, worker);
}

void __wrap_ol_policy_on_leave(struct ol_policy *policy, uint32_t worker)
{
	struct turns *at = own();

	if (at != NULL)
		at->present[worker] = at->held[worker] = false;
	if (at == NULL || !mutation(MUTATE_HELD_UP))
		__real_ol_policy_on_leave(policy, worker);
}

/* Into what is about to be a step */
static void drop_add(const struct ol_store *store, const struct ol_contribution *contribution)
{
	float *grad = (float *)(uintptr_t)contribution->grad;

	if (!dropped.there || dropped.len != store->geo.shard_len)
		return;
	for (uint64_t i = 0; i < dropped.len; i++)
		grad[i] += dropped.grad[i];
	dropped.there = false;
}

unsigned __wrap_ol_store_apply(struct ol_store *store, struct ol_contribution *contributions,
			       unsigned count, unsigned target)
{
	drop_add(store, contributions);
	return __real_ol_store_apply(store, contributions, count, target);
}

unsigned __wrap_ol_store_gather(struct ol_store *store, struct ol_contribution *contributions,
				unsigned count, float *sum)
{
	drop_add(store, contributions);
	return __real_ol_store_gather(store, contributions, count, sum);
}

/* ---- workers ---- */

bool turns_unknown(void)
{
	return cluster.scenario.sync && (cluster.scenario.holds || cluster.scenario.ends);
}

void check_late(const struct worker_slot *slot, const float *weights)
{
	for (uint32_t i = 0; i < slot->next && !turns_unknown(); i++) {
		uint64_t at = worker_mark(slot->index, i);
		uint32_t ones = 0;

		if (!slot->pushes[i].done || slot->pushes[i].status != OL_E_LATE)
			continue;
		for (uint32_t k = 0; k < cluster.scenario.shards; k++)
			ones += weights[cluster_first(k) + at] == 1.0f;
		if (ones == cluster.scenario.shards)
			sim_fail("check_once",
				 "push %u of worker %u was dropped as late and took effect", i,
				 slot->index);
	}
}
