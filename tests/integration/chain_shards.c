/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain_shards.c -- in a job of two shards, each with a chain of two and failures, every part of
 * every gradient takes effect once
 *
 * --seed N, --runs N, OL_LOG, OL_TRANSPORT as for chain.c.
 */

#include <stdio.h>

#include "support/check.h"
#include "support/crew.h"

enum {
	RUNS = 14,
	SHARDS = 2,
	REPLICAS = 2,
	CALM_LEASE_MS = 1000,
};

static int look(const struct job *job, long index)
{
	struct ol_worker *worker = job_worker(job, -1);

	check_ok(job_pull(worker, OL_PULL_NEWEST));
	tally_check(worker);
	crew_board()->sum[index] = crew_sum(ol_weights(worker, NULL), TALLY_PARAMS);
	ol_worker_close(worker);
	return 0;
}

/* What the tails hold, and when they are gone the heads */
static void replicas_same(struct havoc *havoc)
{
	havoc_full(havoc);
	job_join(job_fork(look, &havoc->job, 0));
	for (uint32_t s = 0; s < SHARDS; s++) {
		havoc_kill(havoc, havoc_pick(havoc, s, 2), UINT32_MAX);
		while (havoc_view(havoc, s).count > 1)
			havoc_tend(havoc);
	}
	job_join(job_fork(look, &havoc->job, 1));
	check_eq(crew_board()->sum[0], crew_board()->sum[1]);
}

static void schedule(unsigned seed)
{
	struct ol_server_opts opts = crew_opts(seed);
	struct havoc havoc;
	unsigned events;

	opts.shard_count = SHARDS;
	opts.replicas = REPLICAS;
	if (seed % 2 == 0)
		opts.lease_ms = CALM_LEASE_MS;
	*crew_board() =
		(struct crew){ .outage = seed % 4 < 2 ? OL_OUTAGE_WAIT : OL_OUTAGE_CONTINUE };
	havoc_start(&havoc, seed, opts);
	crew_start(&havoc, NULL);
	events = 2 + havoc_rand(&havoc, 5);
	for (unsigned i = 0; i < events; i++) {
		crew_pushes(&havoc, 1 + havoc_rand(&havoc, 60));
		havoc_random(&havoc, havoc_rand(&havoc, SHARDS), seed % 2 == 1);
		if (havoc_rand(&havoc, 2) == 0)
			havoc_full(&havoc);
	}
	crew_pushes(&havoc, 20);
	crew_enough(&havoc);
	if (seed % 2 == 0)
		replicas_same(&havoc);
	crew_leave(&havoc);
	havoc_end(&havoc);
	printf("ok seed %u: %u kills, %u stops, %u left out; %lu pushes\n", seed, havoc.kills,
	       havoc.stops, havoc.fenced, atomic_load(&crew_board()->pushes));
}

int main(int argc, char **argv)
{
	struct havoc_seeds seeds = havoc_seeds(argc, argv, RUNS);

	job_transport();
	for (unsigned seed = seeds.first; seed <= seeds.last; seed++) {
		fprintf(stderr, "seed %u\n", seed);
		schedule(seed);
	}
	return 0;
}
