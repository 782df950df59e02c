/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain_join.c -- servers join chains during training, and a server dies meanwhile: the joining one,
 * during its load or the handoff; the tail that serves it; or the head. No gradient is lost
 *
 * Larger weights, so that a load takes a while. --seed N, --runs N, OL_LOG, OL_TRANSPORT as for
 * chain.c.
 *
 * not under tsan: integration-chain runs the same code there
 */

#include <stdio.h>

#include "support/check.h"
#include "support/crew.h"

enum {
	RUNS = 12,
	PARAMS = 100 * 1000,
	EVENTS = 5,
	LOAD_MS = 6, /* a load and a handoff take about as long */
	LEASE_MS = 1000,
};

/* Somebody leaves, so that somebody joins, who is not left alone. */
static void event(struct havoc *havoc)
{
	struct ol_chain_info info = havoc_view(havoc, 0);
	uint32_t epoch = info.epoch;

	havoc_kill(havoc, havoc_pick(havoc, 0, havoc_rand(havoc, 3)), 0);
	do {
		havoc_tend(havoc);
		info = havoc_view(havoc, 0);
	} while (havoc_joining(havoc, 0) < 0 && info.epoch < epoch + 3); /* left, joins, has */
	if (havoc_rand(havoc, 3) > 0)
		havoc_tend_ms(havoc, havoc_rand(havoc, LOAD_MS));
	switch (havoc_rand(havoc, 4)) {
	case 0:
		havoc_kill(havoc, havoc_joining(havoc, 0), havoc_rand(havoc, 20));
		break;
	case 1:
		havoc_kill(havoc, havoc_pick(havoc, 0, 2), havoc_rand(havoc, 20));
		break;
	case 2:
		havoc_kill(havoc, havoc_pick(havoc, 0, 0), havoc_rand(havoc, 20));
		break;
	default:
		break; /* it comes through */
	}
	crew_pushes(havoc, 1 + havoc_rand(havoc, 10));
	if (havoc_rand(havoc, 2) == 0)
		havoc_full(havoc);
}

static void schedule(unsigned seed)
{
	struct ol_server_opts opts = crew_opts(seed);
	struct havoc havoc;

	opts.param_count = PARAMS;
	opts.window = 2 + seed % 2;
	opts.replicas = seed % 3 == 0 ? 2 : 3;
	opts.lease_ms = LEASE_MS;
	*crew_board() = (struct crew){ .outage = OL_OUTAGE_WAIT };
	havoc_start(&havoc, seed, opts);
	crew_start(&havoc, NULL);
	crew_pushes(&havoc, 5);
	for (int i = 0; i < EVENTS; i++)
		event(&havoc);
	havoc_full(&havoc);
	crew_pushes(&havoc, 10);
	crew_enough(&havoc);
	havoc_same(&havoc);
	crew_leave(&havoc);
	crew_history(&havoc, 0);
	havoc_end(&havoc);
	printf("ok seed %u: %u kills, %u left out; %lu pushes, %u views\n", seed, havoc.kills,
	       havoc.fenced, atomic_load(&crew_board()->pushes), havoc.last[0].epoch);
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
