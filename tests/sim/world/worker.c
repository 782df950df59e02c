/* SPDX-License-Identifier: BSD-3-Clause */

/* worker.c -- the training loop of a simulated worker: the library's user */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "outlast_span.h"
#include "sim/world/check.h"
#include "sim/world/cluster.h"
#include "sim/world/format.h"
#include "sim/world/mutate.h"
#include "sim/world/net.h"
#include "sim/world/rule.h"
#include "sim/world/turns.h"
#include "worker/worker_internal.h"

enum {
	OP_TIMEOUT_MS = 700,
	BETWEEN_PPM = 100000,
	MEMORY_PAUSES = 6, /* as large memory is touched, registered, and given back */
};

#define HELP_MIN_NS (100 * SIM_MS)
#define HELP_MAX_NS (4 * SIM_S)
#define BETWEEN_NS  (200 * SIM_MS)
#define LEAVE_NS    (5 * SIM_S) /* after the last fault */

static uint32_t mix(uint32_t a, uint32_t b, uint32_t c)
{
	uint64_t x = ((uint64_t)a << 40) ^ ((uint64_t)b << 20) ^ c;

	x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return (uint32_t)(x >> 33);
}

/* In parts the floats of the end are sent first */
uint64_t worker_mark(uint32_t w, uint32_t i)
{
	return cluster.scenario.parts_floats + (uint64_t)w * cluster.pushes_max + i;
}

float worker_weight(uint32_t w, uint32_t i)
{
	return cluster.scenario.exact && cluster.scenario.age >= CLUSTER_AGE_QUORUM
		       ? 0.5f + (float)(mix(w, i, cluster.scenario.pushes) % 64) / 64.0f
		       : 0.0f;
}

/* Of one shard */
static void part_make(uint32_t w, uint32_t i, const float *weights, float *grad, uint32_t k)
{
	float *part = grad + cluster_first(k);
	uint64_t len = cluster_len(k);

	memset(part, 0, len * sizeof(*part));
	if (!cluster.scenario.exact) {
		part[worker_mark(w, i)] = -1.0f;
		return;
	}
	for (uint32_t n = 0; n < len; n++)
		part[n] = 0.3f * weights[cluster_first(k) + n] +
			  (float)(mix(w, i, n) % 2000) / 1000.0f - 1.0f;
}

void worker_gradient(uint32_t w, uint32_t i, const float *weights, float *grad)
{
	for (uint32_t k = 0; k < cluster.scenario.shards; k++)
		part_make(w, i, weights, grad, k);
}

/* A server that restores needs all workers at once: it makes the memory of each, and frees that of those who
 * gave up, before the first one's open does */
static uint32_t open_ms(void)
{
	uint64_t made_ms =
		(uint64_t)MEMORY_PAUSES * cluster.scenario.workers * sim_nature.touch_ns / SIM_MS;

	return made_ms > CLUSTER_OPEN_MS ? (uint32_t)made_ms : CLUSTER_OPEN_MS;
}

/* True: it is open. False: it is not, now */
static bool opened(struct worker_slot *slot)
{
	char servers[1024], err[256] = "";
	struct ol_worker_opts opts;
	int rc;

	ol_worker_opts_init(&opts);
	cluster_servers(servers, sizeof(servers));
	opts.transport = "sim";
	opts.job_key = "the simulated job's key";
	opts.worker = slot->index;
	opts.connect_timeout_ms = open_ms();
	opts.op_timeout_ms = OP_TIMEOUT_MS;
	opts.retry_timeout_ms = cluster.scenario.retry_ms;
	opts.spin_us = 0;
	opts.outage = cluster.scenario.outage;
	opts.outage_timeout_ms = 0;
	opts.lease_ms = cluster.scenario.lease_ms;
	opts.queue = cluster.scenario.queue;
	opts.queue_max = 4;
	opts.mirror_state = cluster.scenario.exact && !cluster.scenario.plain;
	opts.gradient_format = format_of(slot->index);
	if (cluster_inits()) {
		opts.param_count = cluster.params;
		opts.init = check_first_weights(0);
	}
	if (cluster.scenario.chain)
		opts.coordinator = "sim";
	else
		opts.servers = servers;
	slot->joined = false;
	rc = ol_worker_open(&opts, &slot->worker, err, sizeof(err));
	if (rc == 0) {
		mutate_numbers(slot);
		return true;
	}
	sim_say("cannot open: %s", err);
	if (rc != OL_E_NO_SERVER && rc != OL_E_WORKER_ID && rc != OL_E_FULL && rc != OL_E_AUTH &&
	    !((rc == -ENOMEM || rc == OL_E_RESOURCES) && sim_memory_fails() > 0))
		sim_fail("check_survives", "worker %u cannot open: %d, %s", slot->index, rc, err);
	slot->worker = NULL;
	return false;
}

/*
 * A worker that computes one gradient after the other meets a step that has its gradient already
 * only because of an outage, and then the gradient goes into the queue, if that has room. What it
 * withdraws is late.
 */
static void check_place(const struct worker_slot *slot, uint32_t push)
{
	const struct scenario *scenario = &cluster.scenario;

	if (scenario->sync && scenario->wait == OL_WAIT_ALL && !scenario->holds &&
	    scenario->outage == OL_OUTAGE_CONTINUE && scenario->queue != OL_QUEUE_WAIT &&
	    !slot->unqueued && !slot->withdrew)
		sim_fail("check_place", "push %u of worker %u had no place in a step", push,
			 slot->index);
}

/* What is of the next step is late only if its worker withdraws it, or if it is too old; or if a shard has given it
 * up (turns_lacks()) */
static void check_next(const struct worker_slot *slot, uint32_t push)
{
	if (cluster.scenario.late != OL_LATE_DROP && cluster.scenario.late_steps == 0 &&
	    !slot->withdrew && !turns_lacks())
		sim_fail("check_place", "push %u of worker %u was of no step", push, slot->index);
}

/* Pushes that are done since the last look */
static void pushes_look(struct worker_slot *slot)
{
	for (uint32_t i = slot->first; i < slot->next; i++) {
		struct push *push = &slot->pushes[i];

		if (!push->begun || push->done || !push->op.done)
			continue;
		push->done = true;
		push->status = push->op.status;
		push->local = push->op.local;
		slot->steps += push->status == 0;
		slot->joined = slot->joined || (push->status == 0 && !push->local);
		sim_say("push %u is done: %d, version %llu%s", i, push->status,
			(unsigned long long)push->op.version, push->local ? ", local" : "");
		if (push->status != 0 && push->status != OL_E_LATE && push->status != OL_E_LOST)
			sim_fail("check_survives", "worker %u: push %u ends with %d", slot->index,
				 i, push->status);
		if (push->status == OL_E_LATE) {
			check_place(slot, i);
			check_next(slot, i);
		}
	}
}

/* What was done stays applied, or is counted as lost, or is pushed again: never late. What a worker
 * withdraws is late by its own wish */
static void check_kept(const struct worker_slot *slot)
{
	struct ol_link_stat stat;
	uint64_t done;

	if (slot->withdrew || cluster.scenario.outage == OL_OUTAGE_CONTINUE)
		return;
	for (uint32_t k = 0; k < cluster.scenario.shards; k++) {
		done = 0;
		for (uint32_t i = slot->first; i < slot->next; i++)
			done += slot->pushes[i].done && slot->pushes[i].status == 0 &&
				(slot->pushes[i].span >> k & 1) != 0;
		if (ol_link_get_stat(slot->worker, k, &stat) == 0 &&
		    stat.applied + stat.lost + stat.pending < done)
			sim_fail("check_survives",
				 "worker %u, shard %u: of %llu pushes that were done %llu are "
				 "applied, %llu lost, %llu pushed again; %llu are late",
				 slot->index, k, (unsigned long long)done,
				 (unsigned long long)stat.applied, (unsigned long long)stat.lost,
				 (unsigned long long)stat.pending, (unsigned long long)stat.late);
	}
}

bool worker_may_withdraw(const struct worker_slot *slot)
{
	return cluster.scenario.sync && (slot->withdrew || cluster.scenario.shards > 1);
}

/*
 * As `outlast work`: all shards have what was wanted, and are there, so nobody gives to the step
 * that what is held waits for. A server that comes back has not heard it: said again and again.
 */
static void withdraw(struct worker_slot *slot)
{
	struct ol_link_stat stat;
	int rc;

	for (uint32_t k = 0; k < cluster.scenario.shards; k++) {
		if (ol_link_get_stat(slot->worker, k, &stat) != 0 || stat.down)
			return;
	}
	if (!cluster.scenario.ends ||
	    (ol_newest(slot->worker) < cluster.scenario.pushes && !cluster.enough))
		return;
	slot->withdrew = true;
	rc = ol_withdraw(slot->worker);
	if (rc != 0)
		sim_fail("check_survives", "worker %u: withdraw ends with %d", slot->index, rc);
}

static void progress(struct worker_slot *slot)
{
	int rc = ol_worker_poll(slot->worker);

	if (rc < 0)
		sim_fail("check_survives", "worker %u: poll ends with %d", slot->index, rc);
	pushes_look(slot);
	check_kept(slot);
}

static void wait_some(struct worker_slot *slot, struct ol_op *op)
{
	int rc = ol_worker_wait_for(slot->worker, op, OP_TIMEOUT_MS);

	withdraw(slot);
	pushes_look(slot);
	check_kept(slot);
	if (rc < 0 && rc != -EAGAIN && !op->done)
		sim_fail("check_survives", "worker %u: wait ends with %d", slot->index, rc);
}

static void await(struct worker_slot *slot, struct ol_op *op)
{
	while (!op->done)
		wait_some(slot, op);
	pushes_look(slot);
}

/* Shards that follow each other: from `from` on, before `to` */
struct span {
	uint32_t from;
	uint32_t to;
};

static struct span all_shards(void)
{
	return (struct span){ .to = cluster.scenario.shards };
}

static uint64_t span_floats(struct span span)
{
	return cluster_first(span.to - 1) + cluster_len(span.to - 1) - cluster_first(span.from);
}

static bool is_all(struct span span)
{
	return span.to - span.from == cluster.scenario.shards;
}

static int pull_start(struct worker_slot *slot, unsigned flags, struct span span)
{
	if (is_all(span))
		return ol_pull(slot->worker, flags, &slot->pull);
	return ol_pull_span(slot->worker, flags, cluster_first(span.from), span_floats(span),
			    &slot->pull);
}

static void pull_span(struct worker_slot *slot, unsigned flags, struct span span)
{
	int rc;

	while ((rc = pull_start(slot, flags, span)) == -EBUSY) {
		progress(slot);
		sim_pause(SIM_MS);
	}
	if (rc != 0)
		sim_fail("check_survives", "worker %u: pull ends with %d", slot->index, rc);
	await(slot, &slot->pull);
	if (slot->pull.status == OL_E_TORN)
		return; /* weights change faster than it reads */
	if (slot->pull.status != 0)
		sim_fail("check_survives", "worker %u: pull ends with status %d", slot->index,
			 slot->pull.status);
	slot->pulls++;
	check_pull(slot);
	turns_on_pull(slot);
}

static void pull(struct worker_slot *slot, unsigned flags)
{
	pull_span(slot, flags, all_shards());
}

/* The next one of a worker that pushes spans: mostly one shard */
static struct span span_draw(void)
{
	struct span span = { .from = sim_below(cluster.scenario.shards) };

	span.to = span.from + 1;
	if (sim_ppm(300000))
		span.to += sim_below(cluster.scenario.shards - span.from);
	return span;
}

static float *buffer(struct worker_slot *slot)
{
	float *grad;
	int rc;

	while ((rc = ol_grad_try_acquire(slot->worker, &grad)) != 0) {
		if (rc == -ENOBUFS)
			pull(slot, 0);
		else if (rc != -EAGAIN)
			sim_fail("check_survives", "worker %u: acquire ends with %d", slot->index,
				 rc);
		if (cluster.scenario.age >= CLUSTER_AGE_MIRRORS)
			withdraw(slot); /* what holds a buffer, too */
		progress(slot);
		sim_pause(sim_between(SIM_US, SIM_MS));
	}
	return grad;
}

/* Falls, more or less */
static float loss_of(const struct worker_slot *slot)
{
	return 1.0f / (float)(1 + slot->versions[0]) + (float)sim_below(1000) / 10000.0f;
}

/* As backpropagation does: the gradient's end is ready before its beginning. Now and then it is given
 * back, and begun anew */
static bool send_parts(struct worker_slot *slot, float *grad)
{
	uint64_t first = cluster.params;

	if (cluster.scenario.parts_floats == 0)
		return true;
	while (sim_ppm(700000)) {
		first -= 1 + sim_below((uint32_t)first);
		(void)ol_grad_ready(slot->worker, grad, first);
		if (first == 0)
			break;
		/* an outage that ends in a poll leaves a gradient that takes the step's place */
		if (!cluster.scenario.ends)
			progress(slot);
		if (sim_ppm(300000))
			sim_pause(sim_between(SIM_US, SIM_MS));
	}
	if (!sim_ppm(100000))
		return true;
	while (ol_grad_release(slot->worker, grad) != 0)
		progress(slot);
	return false;
}

static void compute_one(struct worker_slot *slot, float *grad, struct ol_push_info *info)
{
	const float *weights = ol_weights(slot->worker, &info->base_version);

	info->weight = worker_weight(slot->index, (uint32_t)info->base_version);
	worker_gradient(slot->index,
			cluster.scenario.exact ? (uint32_t)info->base_version : slot->next, weights,
			grad);
}

/* The same of a span, whose shards are of one version where that counts. What lies outside is not to
 * be looked at */
static void compute_span(struct worker_slot *slot, float *grad, struct ol_push_info *info,
			 struct span span, uint64_t *bases)
{
	const float *weights = ol_weights(slot->worker, NULL);
	struct ol_shard_info shard;

	for (uint32_t i = 0; i < cluster.params; i++)
		grad[i] = NAN;
	for (uint32_t k = span.from; k < span.to; k++) {
		if (ol_shard_info(slot->worker, k, &shard) != 0 ||
		    shard.first != cluster_first(k) || shard.count != cluster_len(k))
			sim_fail("check_survives", "worker %u: shard %u is not said right",
				 slot->index, k);
		bases[k - span.from] = shard.version;
		part_make(slot->index,
			  cluster.scenario.exact ? (uint32_t)shard.version : slot->next, weights,
			  grad, k);
	}
	info->base_version = bases[0];
	info->base_versions = span.to - span.from > 1 || bases[0] % 2 == 0 ? bases : NULL;
	info->weight = worker_weight(slot->index, (uint32_t)bases[0]);
}

static void compute_for(struct worker_slot *slot, float *grad, struct ol_push_info *info,
			struct span span, uint64_t *bases)
{
	if (is_all(span) && !cluster.scenario.spans)
		compute_one(slot, grad, info);
	else
		compute_span(slot, grad, info, span, bases);
}

/* The gradient's step is to be made by the rule of its version */
static void rule_say(struct worker_slot *slot, uint64_t version)
{
	struct ol_rule rule;

	if (!rules_change())
		return;
	rule_at(version, &rule);
	if (ol_rule_set(slot->worker, &rule) != 0)
		sim_fail("check_survives", "worker %u: no rule can be set", slot->index);
}

/* The next push begins: of these shards */
static struct push *push_begin(struct worker_slot *slot, struct span span)
{
	struct push *push = &slot->pushes[slot->next++];

	for (uint32_t k = span.from; k < span.to; k++) {
		push->span |= UINT64_C(1) << k;
		slot->made[k]++;
	}
	slot->pushing = 1;
	push->begun = true;
	push->op.level = cluster.scenario.chain && cluster.scenario.every == 0 ? OL_LEVEL_COMMITTED
									       : OL_LEVEL_APPLIED;
	return push;
}

/* A span of one gradient, computed at the weights that were pulled last */
static struct push *push_span(struct worker_slot *slot, struct span span)
{
	float *grad = buffer(slot);
	uint64_t bases[CLUSTER_SHARDS_MAX];
	struct ol_push_info info = { .samples = 1, .loss = cluster_waits() ? loss_of(slot) : 0.0f };
	uint64_t fails = sim_memory_fails();
	struct push *push;
	int rc;

	compute_for(slot, grad, &info, span, bases);
	while (!send_parts(slot, grad)) {
		grad = buffer(slot);
		compute_for(slot, grad, &info, span, bases);
	}
	push = push_begin(slot, span);
	rule_say(slot, info.base_version);
	sim_say("push %u at %llu", slot->next - 1, (unsigned long long)info.base_version);
	if (is_all(span))
		rc = ol_push(slot->worker, grad, &info, &push->op);
	else
		rc = ol_push_span(slot->worker, grad, cluster_first(span.from), span_floats(span),
				  &info, &push->op);
	slot->pushing = 0;
	slot->unqueued = slot->unqueued || sim_memory_fails() > fails;
	if (rc != 0)
		sim_fail("check_survives", "worker %u: push ends with %d", slot->index, rc);
	pushes_look(slot);
	return push;
}

static struct push *push_one(struct worker_slot *slot)
{
	return push_span(slot, all_shards());
}

/* Of all shards, in the weights that were pulled last */
static bool steps_done(const struct worker_slot *slot)
{
	for (uint32_t k = 0; k < cluster.scenario.shards; k++) {
		if (slot->versions[k] < cluster.scenario.pushes)
			return false;
	}
	return true;
}

static void compute(struct worker_slot *slot)
{
	if (sim_ppm(300000))
		progress(slot);
	sim_pause(sim_between(0, cluster.scenario.compute_ns));
}

static void train_async(struct worker_slot *slot)
{
	while (slot->next < cluster.scenario.pushes) {
		struct push *push;

		if (slot->pulls == 0 || sim_ppm(cluster.scenario.seldom ? 60000 : 500000))
			pull_span(slot, sim_ppm(300000) ? OL_PULL_NEWEST : 0,
				  cluster.scenario.spans && slot->pulls > 0 ? span_draw()
									    : all_shards());
		compute(slot);
		push = push_span(slot, cluster.scenario.spans ? span_draw() : all_shards());
		if (sim_ppm(300000))
			await(slot, &push->op);
	}
}

/* The step that a worker makes next, in an order of all shards' steps that all workers keep. Some
 * shards are ahead of others by as many steps as this takes from their version. */
static int64_t turn_of(const struct worker_slot *slot, uint32_t k)
{
	if (slot->versions[k] >= cluster.scenario.pushes)
		return INT64_MAX;
	return (int64_t)slot->versions[k] - 2 * (cluster.scenario.window % 2 == 0 ? k / 2 : k);
}

/* The shard whose turn it is, and at times those after it that are as far */
static struct span span_behind(const struct worker_slot *slot)
{
	struct span span = { 0 };

	for (uint32_t k = 1; k < cluster.scenario.shards; k++) {
		if (turn_of(slot, k) < turn_of(slot, span.from))
			span.from = k;
	}
	span.to = span.from + 1;
	while (span.to < cluster.scenario.shards && sim_ppm(300000) &&
	       slot->versions[span.to] == slot->versions[span.from])
		span.to++;
	return span;
}

/* A step of one shard or of some, for all of them in turn. Nobody waits for a step before it has given
 * to those that come before, so workers do not wait for each other. */
static void train_spans(struct worker_slot *slot)
{
	pull(slot, OL_PULL_NEWEST);
	while (slot->next < CLUSTER_TRIES_MAX && !steps_done(slot)) {
		const struct span span = span_behind(slot);
		uint64_t behind = slot->versions[span.from];
		bool even = true;

		pull_span(slot, OL_PULL_NEWEST, span);
		for (uint32_t k = span.from; k < span.to; k++)
			even = even && slot->versions[k] == behind;
		if (!even)
			continue;
		compute(slot);
		await(slot, &push_span(slot, span)->op);
	}
}

static void dies(void *arg, uint64_t life)
{
	struct worker_slot *slot = arg;

	if (slot->life == life && sim_process_alive(slot->process))
		sim_process_kill(slot->process);
}

/* One more, for the next step; who holds its window may be at the one after before that is made. Where shard 0
 * decides, its worker may die before all have heard of that */
static void push_on(struct worker_slot *slot)
{
	struct push *push = push_one(slot);

	if (turns_decided() && cluster.scenario.workers_die && !cluster.calm &&
	    sim_ppm(BETWEEN_PPM))
		sim_at(sim_between(0, 20 * sim_nature.net_ns), dies, slot, slot->life);
	if (!cluster.scenario.holds || sim_ppm(600000))
		await(slot, &push->op);
}

/* It has pushed to one shard, and dies before it pushes to the others: in the same moment, or when the
 * shard has made the step */
static void push_between(struct worker_slot *slot)
{
	struct span span = { .from = sim_below(cluster.scenario.shards) };

	span.to = span.from + 1;
	push_span(slot, span);
	sim_at(sim_between(0, BETWEEN_NS), dies, slot, slot->life);
	for (;;) {
		progress(slot);
		sim_pause(sim_between(SIM_US, SIM_MS));
	}
}

/* As many steps as there are to be, however many are taken back */
static void train_back(struct worker_slot *slot)
{
	while (slot->next < CLUSTER_TRIES_MAX) {
		pull(slot, OL_PULL_NEWEST | (slot->joined ? 0 : OL_PULL_EVEN));
		if (steps_done(slot))
			return;
		compute(slot);
		if (cluster.scenario.between && !cluster.calm && sim_ppm(BETWEEN_PPM))
			push_between(slot);
		await(slot, &push_one(slot)->op);
	}
}

/* Steps of the job, whoever makes them */
static void train_some(struct worker_slot *slot)
{
	pull(slot, OL_PULL_NEWEST);
	while (!steps_done(slot) && slot->next < cluster.pushes_max && !cluster.enough) {
		compute(slot);
		push_on(slot);
		pull(slot, OL_PULL_NEWEST);
	}
	/* who cannot go on tells the others to stop, as a launcher does */
	cluster.enough = cluster.enough || (cluster.scenario.ends && !steps_done(slot));
}

/* A step each; what came too late for one is done again for the next */
static void train_sync(struct worker_slot *slot)
{
	while (slot->steps < cluster.scenario.pushes && slot->next < cluster.pushes_max) {
		pull(slot, OL_PULL_NEWEST);
		compute(slot);
		push_on(slot);
	}
}

static void train(struct worker_slot *slot)
{
	const struct scenario *scenario = &cluster.scenario;

	if (scenario->exact && scenario->spans)
		train_spans(slot);
	else if (scenario->exact && (scenario->back || scenario->mirrors || scenario->workers_die))
		train_back(slot);
	else if (scenario->wait != OL_WAIT_ALL || scenario->ends)
		train_some(slot);
	else if (cluster.scenario.sync)
		train_sync(slot);
	else
		train_async(slot);
	sim_say("has pushed all");
}

/*
 * All is applied, and these weights are the servers'. Who finds that they have less than was wanted
 * goes on: others may wait for it.
 */
static void settle(struct worker_slot *slot)
{
	do { /* a connection that broke while there were faults may be noticed only now */
		if (ol_flush(slot->worker, &slot->flush) != 0)
			sim_fail("check_survives", "worker %u cannot flush", slot->index);
		while (cluster.scenario.ends && !slot->flush.done) {
			wait_some(slot, &slot->flush);
			train_some(slot);
		}
		await(slot, &slot->flush);
		pull(slot, OL_PULL_NEWEST);
	} while (slot->pull.local || slot->pull.status != 0);
}

/* Some push of it is not resolved */
static bool waits(const struct ol_worker *worker)
{
	struct ol_link_stat stat;

	for (uint32_t k = 0; worker != NULL && k < worker->link_count; k++) {
		if (ol_link_get_stat(worker, k, &stat) == 0 && stat.pending > 0)
			return true;
	}
	return false;
}

/*
 * One that has pushed all and is still there counts: others' steps, or their turns, wait for it.
 * As long as somebody waits, and it does not itself, it goes on, less and less often.
 */
static bool wanted(struct worker_slot *slot)
{
	bool others = false;

	if (cluster.scenario.ends || !cluster_waits() || waits(slot->worker))
		return false;
	for (uint32_t i = 0; i < cluster.scenario.workers; i++)
		others = others || (i != slot->index && !cluster.workers[i].lost &&
				    waits(cluster.workers[i].worker));
	if (!others)
		slot->help_pause_ns = HELP_MIN_NS;
	return others && sim_now() >= slot->help_ns;
}

/* No server begins anew any more: who waits for a worker that has all waits until it leaves */
static bool leaves(struct worker_slot *slot)
{
	return sim_now() > cluster.calm_ns + LEAVE_NS && wanted(slot);
}

static void help(struct worker_slot *slot)
{
	sim_say("goes on: somebody waits");
	slot->help_ns = sim_now() + slot->help_pause_ns;
	if (slot->help_pause_ns < HELP_MAX_NS)
		slot->help_pause_ns *= 2;
	pull(slot, OL_PULL_NEWEST);
	await(slot, &push_one(slot)->op);
}

void worker_main(void *arg)
{
	struct worker_slot *slot = arg;
	bool again =
		cluster.scenario.ends ||
		(cluster.scenario.sync && (cluster.scenario.back || cluster.scenario.mirrors)) ||
		(cluster.scenario.exact && cluster.scenario.workers_die);
	struct ol_worker *worker;

	while (!opened(slot))
		sim_pause(sim_between(SIM_MS, 50 * SIM_MS));
	sim_say("is in");
	slot->pulls = 0;
	train(slot);
	while (!cluster.calm) {
		if (slot->next < cluster.pushes_max && wanted(slot))
			help(slot);
		if (cluster.scenario.ends)
			train_some(slot);
		pull_span(slot, 0,
			  cluster.scenario.spans && slot->pulls > 0 ? span_draw() : all_shards());
		sim_pause(sim_between(SIM_MS, 100 * SIM_MS));
	}
	settle(slot);
	while (again && !cluster.agreed) { /* a server may still begin anew with an older version */
		slot->finished = steps_done(slot) || cluster.enough ||
				 (!cluster.scenario.exact && slot->next == cluster.pushes_max);
		if (!slot->finished)
			train(slot);
		else if (leaves(slot))
			break;
		settle(slot);
		sim_pause(10 * SIM_MS);
	}
	check_finished(slot);
	slot->finished = true;
	sim_say("has finished");
	/* its mirror may be all that there is, until all have pulled and replicas are whole */
	while (!cluster.agreed) {
		if (leaves(slot))
			break;
		progress(slot);
		sim_pause(10 * SIM_MS);
	}
	worker = slot->worker;
	slot->worker = NULL;
	ol_worker_close(worker);
}
