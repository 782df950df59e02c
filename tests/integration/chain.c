/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain.c -- in chains of real processes with random failures, every pushed gradient takes effect
 * once, no version goes back, replicas are equal bit for bit, and a synchronous run ends at the same
 * weights as an undisturbed one
 *
 * A seed gives a schedule: --seed N replays one, --runs N does more of them. OL_LOG=info shows the
 * events, OL_TRANSPORT chooses the transport.
 */

#include <stdio.h>
#include <string.h>

#include "support/check.h"
#include "support/crew.h"

enum {
	SLICE_MS = 20, /* of a wait: then what else there is to do is looked after */
	REPLICAS = 3,
	CALM_LEASE_MS = 1000, /* nobody is taken for dead who is not */
	RUNS = 26, /* of each kind */
	STEPS = 250, /* sync */
};

/* A gradient that depends on the weights and on who computes it when */
static void gradient(float *grad, const float *weights, uint32_t id, uint64_t step)
{
	uint32_t mix = (uint32_t)step * 2654435761u + id * 40503u;

	for (uint32_t e = 0; e < TALLY_PARAMS; e++) {
		mix = mix * 1664525u + 1013904223u;
		grad[e] = 0.3f * weights[e] + (float)(mix >> 16 & 0xff) / 77.0f - 1.6f;
	}
}

static int done(struct ol_worker *worker, struct ol_op *op)
{
	while (!op->done)
		(void)ol_worker_wait_for(worker, op, SLICE_MS);
	return op->status;
}

static void pull(struct ol_worker *worker, unsigned flags, uint64_t version)
{
	struct ol_op op = { 0 };

	check_ok(ol_pull(worker, flags, &op));
	check_ok(done(worker, &op));
	check_eq(op.version, version);
}

/* The rule of a step: groups, schedules and clipping change on the way */
static void rule_say(struct ol_worker *worker, uint64_t step)
{
	const uint64_t turn = step / 7;
	struct ol_rule rule;

	check_ok(ol_rule_get(worker, &rule));
	rule.group_count = 1 + (uint32_t)(turn % 3);
	rule.schedule = turn % 2 == 0 ? OL_SCHEDULE_CONSTANT : OL_SCHEDULE_COSINE;
	rule.length = turn % 2 == 0 ? 0 : 5;
	rule.begin = turn * 7;
	for (uint32_t i = 0; i < rule.group_count; i++) {
		rule.groups[i] = rule.groups[0];
		rule.groups[i].first = i * 777;
		rule.groups[i].lr = 0.002f * (float)(1 + (turn + i) % 5);
		rule.groups[i].clip_norm = turn % 5 == 4 ? 3.0f : 0.0f;
	}
	check_ok(ol_rule_set(worker, &rule));
}

static int sync_worker(const struct job *job, long id)
{
	struct ol_worker *worker = crew_worker(job, id);
	struct ol_push_info info = { .samples = 1, .loss = 1.0f };

	for (uint64_t step = 0; step < STEPS; step++) {
		struct ol_op op = { 0 };
		float *grad;

		pull(worker, 0, step);
		rule_say(worker, step);
		check_ok(ol_grad_try_acquire(worker, &grad));
		gradient(grad, ol_weights(worker, &info.base_version), (uint32_t)id, step);
		check_ok(ol_push(worker, grad, &info, &op));
		check_ok(done(worker, &op));
		check_eq(op.version, step + 1);
		atomic_fetch_add(&crew_board()->pushes, 1);
	}
	pull(worker, OL_PULL_NEWEST, STEPS);
	crew_board()->sum[id] = crew_sum(ol_weights(worker, NULL), TALLY_PARAMS);
	crew_ended(worker);
	return 0;
}

/* Things happen, a few pushes apart or many, until all is well again */
static void play(struct havoc *havoc, unsigned events, unsigned apart, bool stops)
{
	for (unsigned i = 0; i < events; i++) {
		crew_pushes(havoc, 1 + havoc_rand(havoc, apart));
		havoc_random(havoc, 0, stops);
		if (havoc_rand(havoc, 2) == 0)
			havoc_full(havoc);
	}
}

static void end(struct havoc *havoc, const char *kind, unsigned seed)
{
	crew_enough(havoc);
	havoc_same(havoc);
	crew_leave(havoc);
	crew_history(havoc, 0);
	havoc_end(havoc);
	if (havoc->kills + havoc->stops > 0)
		printf("ok %s, seed %u: %u kills, %u stops, %u left out; %lu pushes\n", kind, seed,
		       havoc->kills, havoc->stops, havoc->fenced,
		       atomic_load(&crew_board()->pushes));
}

static void async_schedule(unsigned seed, enum ol_outage outage)
{
	struct ol_server_opts opts = crew_opts(seed);
	struct havoc havoc;

	if (seed % 2 == 0)
		opts.lease_ms = CALM_LEASE_MS;
	*crew_board() = (struct crew){ .outage = outage };
	havoc_start(&havoc, seed, opts);
	crew_start(&havoc, NULL);
	play(&havoc, 1 + havoc_rand(&havoc, 5), 60, seed % 2 == 1);
	crew_pushes(&havoc, 20);
	end(&havoc, outage == OL_OUTAGE_WAIT ? "async" : "async, continue", seed);
}

/* The weights it ends at */
static uint64_t sync_schedule(unsigned seed, uint32_t replicas)
{
	struct ol_server_opts opts = crew_opts(seed);
	struct havoc havoc;

	opts.consistency = OL_CONSISTENCY_SYNC;
	opts.rule.optimizer = OL_OPTIMIZER_MOMENTUM;
	opts.rule.lr = 0.01f;
	opts.replicas = replicas;
	if (seed % 2 == 0)
		opts.lease_ms = CALM_LEASE_MS;
	*crew_board() = (struct crew){ .state = true };
	havoc_start(&havoc, seed, opts);
	crew_start(&havoc, sync_worker);
	if (replicas > 1)
		play(&havoc, 1 + havoc_rand(&havoc, 5), TALLY_WORKERS * STEPS / 5, seed % 2 == 1);
	end(&havoc, "sync", seed);
	check_eq(crew_board()->sum[0], crew_board()->sum[1]);
	return crew_board()->sum[0];
}

int main(int argc, char **argv)
{
	struct havoc_seeds seeds = havoc_seeds(argc, argv, RUNS);
	uint64_t whole;

	job_transport();
	whole = sync_schedule(0, 1);
	for (unsigned seed = seeds.first; seed <= seeds.last; seed++) {
		fprintf(stderr, "seed %u\n", seed);
		async_schedule(seed, OL_OUTAGE_WAIT);
		async_schedule(seed, OL_OUTAGE_CONTINUE);
		check_eq(sync_schedule(seed, REPLICAS), whole);
	}
	return 0;
}
