/* SPDX-License-Identifier: BSD-3-Clause */

/* turns.c -- an oracle for policies: steps that wait for some, bounded staleness, late gradients */

#include "sim/world/turns.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "outlast_policy.h"
#include "rdma/order.h"
#include "server/server.h"
#include "sim/world/check.h"
#include "sim/world/mutate.h"
#include "sim/world/wrap.h"
#include "worker/worker_internal.h"

enum {
	DECIDER_DIES_PPM = 30000
};

WRAP(enum ol_verdict, ol_policy_on_gradient, struct ol_policy *policy,
     const struct ol_arrival *arrival);
WRAP(void, ol_policy_on_join, struct ol_policy *policy, uint32_t worker);
WRAP(void, ol_policy_on_leave, struct ol_policy *policy, uint32_t worker);
WRAP(void, ol_policy_on_update, struct ol_policy *policy, const struct ol_update *update);
WRAP(bool, ol_policy_ready, const struct ol_policy *policy);
WRAP(uint64_t, ol_policy_due_ns, const struct ol_policy *policy);
WRAP(void, ol_ingest_gather, struct ol_ingest *ingest);
WRAP(bool, ol_follow_fill, struct ol_ingest *ingest);
WRAP(unsigned, ol_store_apply, struct ol_store *store, struct ol_contribution *contributions,
     unsigned count, unsigned target);
WRAP(unsigned, ol_store_gather, struct ol_store *store, struct ol_contribution *contributions,
     unsigned count, float *sum);

/* Of one life of a server */
static struct turns {
	uint32_t life;
	uint64_t began_ns; /* there have been workers since then: of a chain it is the head */
	bool present[CLUSTER_WORKERS_MAX];
	bool held[CLUSTER_WORKERS_MAX]; /* it has given to the next step */
	bool decided; /* the next step may be made, whatever the time is */
	uint64_t due_ns; /* of a quorum: when its grace is over */
	uint64_t stepped_ns;
	uint64_t given[CLUSTER_WORKERS_MAX]; /* ssp: since the slowest that it met began at 0 */
} turns[CLUSTER_SLOTS_MAX];

/* A gradient that was dropped, for a mutation */
static struct {
	bool there;
	uint64_t len;
	float grad[1024];
} dropped;

/* A step lacks, at one shard, what has died with its worker */
static bool lacks;
/* A shard has made a step by a decision that was further ahead: which step of these a gradient is in, and so its age,
 * may not be that of other shards */
static bool far;
/* There was no memory for a copy of a gradient, which is lost with its worker alone */
static bool unkept;

/* When pushes were first sent to any shard: the last ones */
static struct {
	uint64_t seq;
	uint64_t at_ns;
} sent[128];
static uint32_t sent_count;

void turns_begin(void)
{
	memset(turns, 0, sizeof(turns));
	dropped.there = lacks = far = unkept = false;
	sent_count = 0;
}

/* Several shards whose steps do not wait for all: shard 0 decides them */
void turns_draw(struct scenario *scenario)
{
	const uint32_t n = scenario->workers;

	if (scenario->exact || scenario->lasting != LASTING_NOTHING || n == 1 ||
	    n > CLUSTER_WORKERS_FEW || scenario->spans || scenario->back || scenario->running ||
	    scenario->every != 0 || !sim_ppm(500000))
		return;
	scenario->shards =
		2 + (scenario->chain ? 0 : sim_below(2)); /* of more, one is lost more often */
	scenario->pushes = 8 + scenario->pushes % 8;
	if (!scenario->sync) {
		scenario->ssp = true;
		scenario->staleness = sim_below(4);
		return;
	}
	scenario->wait = OL_WAIT_FIXED + sim_below(5);
	scenario->wait_k = 0;
	if (scenario->wait == OL_WAIT_FIXED || scenario->wait == OL_WAIT_QUORUM)
		scenario->wait_k = 1 + sim_below(n - 1);
	else if (scenario->wait == OL_WAIT_ADASYNC)
		scenario->wait_k = 1 + sim_below(n);
	scenario->grace_ms = scenario->wait == OL_WAIT_QUORUM ? sim_below(100) : 0;
	scenario->late = OL_LATE_DROP;
	scenario->late_steps = 0;
	scenario->outage = OL_OUTAGE_WAIT;
	scenario->holds = scenario->window > 1 && sim_ppm(300000);
	scenario->ends = true;
}

static void carried_draw(struct scenario *scenario)
{
	if (scenario->shards == 1 || !scenario->sync ||
	    (scenario->wait != OL_WAIT_FIXED && scenario->wait != OL_WAIT_QUORUM) ||
	    !sim_ppm(600000))
		return;
	scenario->late = sim_ppm(500000) ? OL_LATE_AGED : OL_LATE_NEXT;
	if (sim_ppm(300000))
		scenario->late_steps = 1 + sim_below(4);
}

/* Who pulls nothing in an outage has old weights, which servers that do not wait for all workers would begin with */
static void whole_draw(struct scenario *scenario)
{
	if (scenario->shards == 1 || !scenario->sync || scenario->wait == OL_WAIT_ALL ||
	    scenario->mirrors || cluster_inits() || !sim_ppm(400000))
		return;
	scenario->outage = OL_OUTAGE_CONTINUE;
	scenario->queue = sim_below(3);
	scenario->window += scenario->window == 1;
}

/* Of one shard, and DBW or AdaSync chooses k. Where a quorum can be drawn */
static void chosen_draw(struct scenario *scenario)
{
	const uint32_t n = scenario->workers;

	if (!scenario->sync || scenario->exact || scenario->shards > 1 || n == 1 ||
	    n > CLUSTER_WORKERS_FEW || scenario->lasting != LASTING_NOTHING || scenario->spans ||
	    !sim_ppm(500000))
		return;
	scenario->wait = OL_WAIT_DBW + sim_below(3);
	scenario->wait_k = scenario->wait == OL_WAIT_ADASYNC ? 1 + sim_below(n) : 0;
	scenario->grace_ms = 0;
	scenario->late = OL_LATE_NEXT;
	scenario->late_steps = sim_ppm(300000) ? 1 + sim_below(4) : 0;
	scenario->ends = true;
	scenario->pushes = 8 + scenario->pushes % 8;
}

void turns_late_draw(struct scenario *scenario, unsigned age)
{
	if (age >= CLUSTER_AGE_CARRIED)
		carried_draw(scenario);
	if (age >= CLUSTER_AGE_WHOLE)
		whole_draw(scenario);
	if (age >= CLUSTER_AGE_CHOSEN)
		chosen_draw(scenario);
}

/* Where workers go on all shards may lose what one has told shard 0 of, which then waits for it: so this ends before the
 * run does */
uint32_t turns_wait_ms(void)
{
	return turns_decided() && cluster.scenario.outage == OL_OUTAGE_CONTINUE ? 30 * 1000
										: 3600 * 1000;
}

bool turns_took_effect(float value)
{
	const float steps = value > 0.0f ? roundf(1.0f / value) : 0.0f;

	if (cluster.scenario.late != OL_LATE_AGED)
		return value == 1.0f;
	return steps >= 1.0f && value == 1.0f / steps;
}

bool turns_lacks(void)
{
	return lacks;
}

/* Of bounded staleness what another shard has lost is withdrawn where it waits */
bool turns_late(void)
{
	return cluster.scenario.sync || (cluster.scenario.ssp && cluster.scenario.shards > 1);
}

bool turns_decided(void)
{
	return cluster.scenario.shards > 1 && cluster.scenario.sync &&
	       cluster.scenario.wait != OL_WAIT_ALL;
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

/* The server that runs is of shard 0 */
static bool decides(void)
{
	return cluster.servers[own() - turns].shard == 0;
}

/* The step that the server of a life has made is one of several that a decision is about */
static bool went_far(const struct turns *at)
{
	const struct ol_server *server = cluster.servers[at - turns].server;

	return server != NULL && server->ingest.follow.version > server->store.version;
}

/* The server that runs has made a step: nobody has given anything to the next */
void __wrap_ol_policy_on_update(struct ol_policy *policy, const struct ol_update *update)
{
	struct turns *at = own();

	__real_ol_policy_on_update(policy, update);
	if (at != NULL) {
		memset(at->held, 0, sizeof(at->held));
		at->decided = false;
		at->stepped_ns = update->now_ns;
		far = far || went_far(at);
	}
	check_own();
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
	if (count_of(at->present) == 0)
		at->began_ns = sim_now();
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
	if (cluster.scenario.wait == OL_WAIT_QUORUM)
		return cluster.scenario.wait_k > present ? cluster.scenario.wait_k : present;
	if (cluster.scenario.wait != OL_WAIT_FIXED)
		return k < present ? k : present;
	return cluster.scenario.wait_k < present ? cluster.scenario.wait_k : present;
}

/* With one more gradient, a quorum's step is made by the time it came at */
static bool grace_over(struct turns *at, const struct ol_arrival *arrival, uint32_t held)
{
	uint64_t from_ns = arrival->now_ns > at->stepped_ns ? arrival->now_ns : at->stepped_ns;

	if (cluster.scenario.wait != OL_WAIT_QUORUM || held < cluster.scenario.wait_k)
		return false;
	if (held == cluster.scenario.wait_k)
		at->due_ns = from_ns + cluster.scenario.grace_ms * SIM_MS;
	return at->due_ns <= from_ns;
}

/* The fate of a gradient that is of no step now */
static enum ol_verdict fate_of(const struct turns *at, const struct ol_arrival *arrival)
{
	const struct scenario *scenario = &cluster.scenario;
	bool timely = arrival->queued || arrival->base_version == arrival->version;
	bool second = at->held[arrival->worker];

	/* what a server had, and lost, goes into whatever step is next */
	if (scenario->late == OL_LATE_DROP && !arrival->again)
		return !timely || second ? OL_VERDICT_LATE : OL_VERDICT_HOLD;
	if (!timely && !arrival->again && scenario->late_steps > 0 &&
	    arrival->version > arrival->base_version + scenario->late_steps)
		return OL_VERDICT_LATE;
	return second ? OL_VERDICT_WAIT : OL_VERDICT_HOLD;
}

static void check_step(struct turns *at, const struct ol_arrival *arrival, uint32_t k,
		       enum ol_verdict verdict)
{
	enum ol_verdict fate = fate_of(at, arrival);
	uint32_t held = count_of(at->held) + 1, want = wanted(at, k);
	bool step = verdict == OL_VERDICT_STEP;

	if ((step ? OL_VERDICT_HOLD : verdict) != fate)
		sim_fail("check_turns",
			 "a gradient of version %llu, at %llu, is%s late (%d, not %d)",
			 (unsigned long long)arrival->base_version,
			 (unsigned long long)arrival->version,
			 verdict == OL_VERDICT_LATE ? "" : " not", verdict, fate);
	if (fate != OL_VERDICT_HOLD)
		return;
	if (step != (held >= want || grace_over(at, arrival, held)))
		sim_fail("check_turns", "%u of %u gradients are %s step", held, want,
			 step ? "a" : "no");
	at->held[arrival->worker] = true;
	at->decided = step;
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
	if (verdict == OL_VERDICT_HOLD && cluster.scenario.wait == OL_WAIT_QUORUM &&
	    mutation(MUTATE_BELOW_QUORUM) && count_of(at->held) + 1 >= count_of(at->present))
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
	if (cluster.scenario.ssp && !decides())
		return verdict; /* who is ahead waits at shard 0 */
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
		at->present[worker] = at->held[worker] = at->decided = false;
	if (at == NULL || !mutation(MUTATE_HELD_UP))
		__real_ol_policy_on_leave(policy, worker);
}

/* All who are there have given one: no time is waited for */
static void decide(struct turns *at)
{
	at->decided = at->decided || count_of(at->held) >= wanted(at, 0);
}

bool __wrap_ol_policy_ready(const struct ol_policy *policy)
{
	struct turns *at = own();

	if (at != NULL && cluster.scenario.wait == OL_WAIT_QUORUM)
		decide(at);
	return __real_ol_policy_ready(policy);
}

uint64_t __wrap_ol_policy_due_ns(const struct ol_policy *policy)
{
	uint64_t due_ns = __real_ol_policy_due_ns(policy);
	struct turns *at = own();

	if (at != NULL && cluster.scenario.wait == OL_WAIT_QUORUM)
		decide(at);
	return due_ns != UINT64_MAX && mutation(MUTATE_NO_GRACE) ? 0 : due_ns;
}

static void dies(void *arg, uint64_t life)
{
	struct server_slot *slot = arg;

	if (slot->life == life && sim_process_alive(slot->process))
		sim_process_kill(slot->process);
}

/* Another shard is about to make a step that shard 0 has made: now and then that dies, and comes back with less */
static void decider_dies(const struct ol_ingest *ingest)
{
	struct server_slot *slot = &cluster.servers[0];

	if (turns_decided() && !cluster.scenario.chain && !cluster.calm &&
	    ingest->opts->shard != 0 && slot->shard == 0 && sim_ppm(DECIDER_DIES_PPM))
		sim_at(sim_between(0, 20 * sim_nature.net_ns), dies, slot, slot->life);
}

/* A step is being made of the batch */
void __wrap_ol_ingest_gather(struct ol_ingest *ingest)
{
	const struct turns *at = own();

	if (at != NULL && cluster.scenario.wait == OL_WAIT_QUORUM && !ol_follow_keeps(ingest)) {
		if (ingest->batch_count < cluster.scenario.wait_k)
			sim_fail("check_turns", "a step of %u, below the quorum of %u",
				 ingest->batch_count, cluster.scenario.wait_k);
		if (!at->decided && ol_clock_ns() < at->due_ns)
			sim_fail("check_turns", "a step %llu us before its grace is over",
				 (unsigned long long)(at->due_ns - ol_clock_ns()) / 1000);
	}
	__real_ol_ingest_gather(ingest);
	decider_dies(ingest);
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

void turns_unkept(void)
{
	unkept = true;
}

void turns_on_send(uint64_t seq)
{
	for (uint32_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++) {
		if (sent[i].seq == seq)
			return;
	}
	sent[sent_count % (sizeof(sent) / sizeof(sent[0]))].seq = seq;
	sent[sent_count++ % (sizeof(sent) / sizeof(sent[0]))].at_ns = sim_now();
}

/* What shard 0 has taken was here before: so it was lost with an earlier server of this shard */
static void check_lost(const struct ol_ingest *ingest, uint32_t worker)
{
	for (uint32_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++) {
		if (!unkept && sent[i].seq == ingest->follow.lost[worker] &&
		    sent[i].at_ns > own()->began_ns)
			sim_fail(
				"check_turns",
				"shard %u lacks a gradient of worker %u, which shard 0 has, and has "
				"lived since before that was pushed",
				ingest->opts->shard, worker);
	}
}

bool __wrap_ol_follow_fill(struct ol_ingest *ingest)
{
	const uint64_t before = ol_word_load(&ingest->store->board->restored_lost);
	uint64_t lost[CLUSTER_WORKERS_MAX];
	bool filled;

	memcpy(lost, ingest->follow.lost, cluster.ids * sizeof(*lost));
	filled = __real_ol_follow_fill(ingest);

	if (ol_word_load(&ingest->store->board->restored_lost) == before)
		return filled;
	lacks = true;
	for (uint32_t w = 0; w < cluster.ids; w++) {
		if (ingest->follow.lost[w] != lost[w])
			check_lost(ingest, w);
	}
	return filled;
}

/* ---- workers ---- */

/* Two shards have a gradient, with one factor, or neither has */
static bool is_same(float a, float b)
{
	return a == b || (far && cluster.scenario.late == OL_LATE_AGED && a != 0.0f && b != 0.0f);
}

/* What a worker has read is of one version, and each gradient is in all shards or in none */
void turns_on_pull(const struct worker_slot *slot)
{
	const struct ol_worker *worker = slot->worker;
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];

	if (!turns_decided() || lacks)
		return;
	for (uint32_t k = 1; k < worker->link_count; k++) {
		if (mirror->versions[k] != mirror->versions[0])
			sim_fail("check_turns", "worker %u has read versions %llu and %llu",
				 slot->index, (unsigned long long)mirror->versions[0],
				 (unsigned long long)mirror->versions[k]);
	}
	for (uint32_t w = 0; w < cluster.scenario.workers; w++) {
		for (uint32_t i = 0; i < cluster.workers[w].next; i++) {
			const uint64_t at = worker_mark(w, i);

			for (uint32_t k = 1; k < worker->link_count; k++) {
				if (!is_same(mirror->weights[cluster_first(k) + at],
					     mirror->weights[cluster_first(0) + at]))
					sim_fail(
						"check_turns",
						"push %u of worker %u is in one of shards 0 and %u "
						"only, at version %llu",
						i, w, k, (unsigned long long)mirror->versions[0]);
			}
		}
	}
}

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
			ones += turns_took_effect(weights[cluster_first(k) + at]);
		if (ones == cluster.scenario.shards)
			sim_fail("check_once",
				 "push %u of worker %u was dropped as late and took effect", i,
				 slot->index);
	}
}
