/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain_lost.c -- a chain loses all its replicas, or its coordinator, or both: what workers know is
 * in the weights once when it is back; until then workers go on, or wait, as they were told
 *
 * --seed N, --runs N, OL_LOG, OL_TRANSPORT as for chain.c.
 */

#include <stdio.h>

#include "support/check.h"
#include "support/crew.h"

enum {
	RUNS = 3,
	CALM_LEASE_MS = 600,
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

/* refound 0: without its coordinator a chain serves on as it is; when somebody dies then, workers
 * wait; when the coordinator is back, empty, the chain repairs itself */
static void coordinator_dies(unsigned seed)
{
	struct havoc havoc;
	unsigned long before;
	unsigned place;

	start(&havoc, seed, OL_OUTAGE_WAIT, false);
	place = havoc_rand(&havoc, 3);
	if (havoc_rand(&havoc, 2) == 0) { /* while one joins, perhaps */
		havoc_kill(&havoc, havoc_pick(&havoc, 0, havoc_rand(&havoc, 3)), 0);
		havoc_tend_ms(&havoc, havoc_rand(&havoc, HAVOC_REACH_MS));
	}
	havoc_coordinator_kill(&havoc);
	havoc_tend_ms(&havoc, havoc_rand(&havoc, 2 * havoc.job.opts.lease_ms));
	if (havoc_rand(&havoc, 3) > 0) {
		havoc_kill(&havoc, havoc_pick(&havoc, 0, place), 0);
		before = pushes();
		havoc_tend_ms(&havoc, havoc_rand(&havoc, 2 * havoc.job.opts.lease_ms));
		check(pushes() <= before + STALLED_MAX);
	}
	havoc_coordinator_start(&havoc);
	crew_pushes(&havoc, 100);
	havoc_full(&havoc);
	crew_pushes(&havoc, 100);
	check_eq(havoc_view(&havoc, 0).founded, 1);
	end(&havoc);
}

/* refound 0, all well: nobody notices that there is no coordinator */
static void coordinator_not_needed(unsigned seed)
{
	struct havoc havoc;

	start(&havoc, seed, OL_OUTAGE_WAIT, false);
	havoc_coordinator_kill(&havoc);
	havoc_tend_ms(&havoc, 2 * havoc.job.opts.lease_ms);
	crew_pushes(&havoc, 500);
	crew_enough(&havoc);
	check_eq(havoc.fenced, 0);
	havoc_coordinator_start(&havoc);
	end(&havoc);
}

/* It stands still, and has missed what servers said meanwhile: no reason to give up any of them */
static void coordinator_stops(unsigned seed, bool refound)
{
	struct havoc havoc;
	uint32_t epoch, ms;

	start(&havoc, seed, OL_OUTAGE_WAIT, refound);
	epoch = havoc_view(&havoc, 0).epoch;
	/* a server that may end itself does so after three leases, and at least a second */
	ms = refound ? havoc_rand(&havoc, 500) : havoc_rand(&havoc, 4 * CALM_LEASE_MS);
	havoc_coordinator_stop(&havoc, ms);
	havoc_tend_ms(&havoc, 2 * havoc.job.opts.lease_ms);
	crew_pushes(&havoc, 50);
	if (!refound) {
		check_eq(havoc_view(&havoc, 0).epoch, epoch);
		check_eq(havoc.fenced, 0);
	}
	end(&havoc);
}

/* refound 1: servers whose lease runs out end; with the coordinator back they found anew */
static void coordinator_and_all(unsigned seed, enum ol_outage outage)
{
	struct havoc havoc;

	start(&havoc, seed, outage, true);
	havoc_coordinator_kill(&havoc);
	while (havoc.fenced < havoc.job.server_count)
		havoc_tend(&havoc);
	without_servers(&havoc);
	havoc_coordinator_start(&havoc);
	all_back(&havoc);
	havoc_full(&havoc);
	crew_pushes(&havoc, 50);
	end(&havoc);
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
		coordinator_not_needed(seed);
		printf("ok no coordinator, seed %u\n", seed);
		coordinator_dies(seed);
		printf("ok the coordinator dies, seed %u\n", seed);
		coordinator_stops(seed, seed % 4 == 3);
		printf("ok the coordinator stands still, seed %u\n", seed);
		last_one_stops(seed);
		printf("ok the last one stops, seed %u\n", seed);
		coordinator_and_all(seed, outage);
		printf("ok the coordinator dies, and with it all, seed %u\n", seed);
	}
	return 0;
}
