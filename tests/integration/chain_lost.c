/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain_lost.c -- after a chain has lost all its replicas, or the folder of its views, every gradient
 * that workers know is in the weights once; until then workers go on, or wait, as set
 *
 * --seed N, --runs N, OL_LOG, OL_TRANSPORT as for chain.c.
 */

#include <stdio.h>

#include "support/check.h"
#include "support/crew.h"

enum {
	RUNS = 3,
	CALM_LEASE_MS = 1500,
	STALLED_MAX = 2 * TALLY_WORKERS * TALLY_FLIGHT_MAX, /* pushes begun, without a server */
};

static unsigned long pushes(void)
{
	return atomic_load(&crew_board()->pushes);
}

static void start(struct havoc *havoc, unsigned seed, enum ol_outage outage, bool refound)
{
	struct ol_server_opts opts = crew_opts(seed);

	opts.refound = refound;
	if (!refound) /* then one that is taken for dead by mistake is a loss */
		opts.lease_ms = CALM_LEASE_MS;
	*crew_board() = (struct crew){ .outage = outage };
	havoc_start(havoc, seed, opts);
	crew_start(havoc, NULL);
	crew_pushes(havoc, 20 + havoc_rand(havoc, 50));
}

static void all_die(struct havoc *havoc)
{
	for (uint32_t i = 0; i < havoc->job.server_count; i++)
		havoc_kill(havoc, (int)i, UINT32_MAX);
}

static void all_back(struct havoc *havoc)
{
	for (uint32_t i = 0; i < havoc->job.server_count; i++)
		havoc->back_ns[i] = 0;
}

/* No server: with CONTINUE training goes on, with WAIT it stands still */
static void without_servers(struct havoc *havoc)
{
	unsigned long before = pushes();

	if (crew_board()->outage == OL_OUTAGE_CONTINUE) {
		unsigned long pulls = atomic_load(&crew_board()->local_pulls);

		while (pushes() < before + 300 ||
		       atomic_load(&crew_board()->local_pulls) < pulls + 9)
			havoc_tend(havoc);
		return;
	}
	havoc_tend_ms(havoc, havoc->job.opts.lease_ms);
	check(pushes() <= before + STALLED_MAX);
}

static void end(struct havoc *havoc)
{
	crew_enough(havoc);
	havoc_same(havoc);
	crew_leave(havoc);
	crew_history(havoc, 0);
	havoc_end(havoc);
}

/* refound 1: from the workers' mirrors, and what they have pushed since */
static void founded_anew(unsigned seed, enum ol_outage outage)
{
	struct havoc havoc;

	start(&havoc, seed, outage, true);
	all_die(&havoc);
	without_servers(&havoc);
	all_back(&havoc);
	havoc_full(&havoc);
	crew_pushes(&havoc, 50);
	check(havoc_view(&havoc, 0).founded > 1);
	end(&havoc);
}

/*
 * refound 0: what was committed is gone with the last replica, and no other is taken for it. The
 * chain waits, and there is no way on but a job of another name; workers that continue do so alone.
 */
static void never_founded_anew(unsigned seed, enum ol_outage outage)
{
	struct ol_chain_info before, after;
	struct havoc havoc;

	start(&havoc, seed, outage, false);
	all_die(&havoc);
	before = havoc_view(&havoc, 0);
	all_back(&havoc);
	do {
		havoc_tend(&havoc);
		after = havoc_view(&havoc, 0);
	} while (after.waiting < havoc.job.server_count);
	without_servers(&havoc);
	after = havoc_view(&havoc, 0);
	check_eq(after.epoch, before.epoch);
	check_eq(after.founded, 1);
	check_eq(after.waiting, havoc.job.server_count);
	check_eq(atomic_load(&crew_board()->ended), 0);
	havoc_workers_kill(&havoc);
	havoc_end(&havoc);
}

/* refound 0: the last replica stands still for longer than its lease. Nobody can have taken its
 * place, so it goes on. */
static void last_one_stops(unsigned seed)
{
	struct havoc havoc;
	uint32_t lease_ms;

	start(&havoc, seed, OL_OUTAGE_WAIT, false);
	lease_ms = havoc.job.opts.lease_ms;
	for (int i = 0; i < 2; i++) {
		havoc_kill(&havoc, havoc_pick(&havoc, 0, havoc_rand(&havoc, 3)), UINT32_MAX);
		while (havoc_view(&havoc, 0).count > 2 - (uint32_t)i)
			havoc_tend(&havoc);
		crew_pushes(&havoc, 20);
	}
	havoc_stop(&havoc, havoc_pick(&havoc, 0, 0), lease_ms + havoc_rand(&havoc, 2 * lease_ms));
	crew_pushes(&havoc, 100);
	check_eq(havoc.fenced, 0);
	all_back(&havoc);
	havoc_full(&havoc);
	check_eq(havoc_view(&havoc, 0).founded, 1);
	end(&havoc);
}

/* Somebody takes the folder of views away: nobody notices, until a server dies. Then workers wait,
 * for ever: no other folder, and no server that starts anew, is taken for what was. */
static void folder_taken_away(unsigned seed, bool refound)
{
	struct havoc havoc;
	unsigned long before;

	start(&havoc, seed, OL_OUTAGE_WAIT, refound);
	havoc_views_drop(&havoc);
	havoc_tend_ms(&havoc, 2 * havoc.job.opts.lease_ms);
	crew_pushes(&havoc, 500);
	check_eq(havoc.fenced, 0);
	havoc_kill(&havoc, havoc_pick(&havoc, 0, havoc_rand(&havoc, 3)), UINT32_MAX);
	before = pushes();
	havoc_tend_ms(&havoc, 2 * havoc.job.opts.lease_ms);
	check(pushes() <= before + STALLED_MAX);
	check_eq(havoc.fenced, 0);
	check_eq(atomic_load(&crew_board()->ended), 0);
	havoc_workers_kill(&havoc);
	havoc_end(&havoc);
}

int main(int argc, char **argv)
{
	struct havoc_seeds seeds = havoc_seeds(argc, argv, RUNS);

	job_transport();
	for (unsigned seed = seeds.first; seed <= seeds.last; seed++) {
		enum ol_outage outage = seed % 2 == 0 ? OL_OUTAGE_WAIT : OL_OUTAGE_CONTINUE;

		fprintf(stderr, "seed %u\n", seed);
		founded_anew(seed, outage);
		printf("ok founded anew, seed %u\n", seed);
		never_founded_anew(seed, outage);
		printf("ok never founded anew, seed %u\n", seed);
		folder_taken_away(seed, seed % 2 == 0);
		printf("ok the folder of views is taken away, seed %u\n", seed);
		last_one_stops(seed);
		printf("ok the last one stops, seed %u\n", seed);
	}
	return 0;
}
