/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain_commit.c -- a push that ended at OL_LEVEL_COMMITTED is in every replica: right after it all
 * replicas but one die, and the workers that could push it again; the last replica has it
 *
 * --seed N, --runs N, OL_LOG, OL_TRANSPORT as for chain.c.
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "support/check.h"
#include "support/crew.h"

enum {
	RUNS = 18,
	LEASE_MS = 1000,
};

static void workers_stop(struct havoc *havoc)
{
	for (uint32_t i = 0; i < TALLY_WORKERS; i++) {
		int status = 0;

		kill(havoc->workers[i], SIGSTOP);
		while (waitpid(havoc->workers[i], &status, WUNTRACED) < 0)
			check(errno == EINTR);
		check(WIFSTOPPED(status));
	}
}

/* Through the coordinator, as anybody would */
static int survivor_read(const struct job *job, long unused)
{
	struct ol_worker *worker = job_worker(job, -1);

	(void)unused;
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	tally_check(worker);
	for (uint32_t k = 0; k < TALLY_WORKERS; k++) {
		unsigned long done = atomic_load(&crew_board()->done[k]);

		check_msg(ol_applied_grads(worker, 0, k) >= done,
			  "%lu of worker %u are committed, %llu have survived", done, k,
			  (unsigned long long)ol_applied_grads(worker, 0, k));
	}
	ol_worker_close(worker);
	return 0;
}

static void schedule(unsigned seed)
{
	struct ol_server_opts opts = crew_opts(seed);
	struct havoc havoc;
	uint32_t left;

	opts.refound = 0;
	opts.lease_ms = LEASE_MS;
	opts.replicas = 2 + seed % 3;
	*crew_board() = (struct crew){ .outage = OL_OUTAGE_WAIT, .level = OL_LEVEL_COMMITTED };
	havoc_start(&havoc, seed, opts);
	crew_start(&havoc, NULL);
	crew_pushes(&havoc, 10 + havoc_rand(&havoc, 400));
	workers_stop(&havoc);
	left = havoc_rand(&havoc, havoc.job.server_count);
	for (uint32_t i = 0; i < havoc.job.server_count; i++) {
		if (i != left)
			havoc_kill(&havoc, (int)i, UINT32_MAX);
	}
	havoc_workers_kill(&havoc);
	while (havoc_view(&havoc, 0).count > 1)
		havoc_tend(&havoc);
	job_join(job_fork(survivor_read, &havoc.job, 0));
	havoc_end(&havoc);
	printf("ok seed %u: %lu and %lu committed, server %u of %u is left\n", seed,
	       atomic_load(&crew_board()->done[0]), atomic_load(&crew_board()->done[1]), left,
	       havoc.job.server_count);
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
