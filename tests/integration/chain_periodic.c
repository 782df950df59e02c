/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain_periodic.c -- periodic replication (the published design): the state goes down the chain
 * every N versions, and no server waits. When a head dies, up to N versions are lost, workers count
 * the lost gradients, and training goes on
 *
 * --seed N, --runs N, OL_LOG, OL_TRANSPORT as for chain.c.
 */

#include <errno.h>
#include <sched.h>
#include <stdio.h>

#include "support/check.h"
#include "support/crew.h"
#include "support/stage.h"

enum {
	RUNS = 10,
	EVERY = 20,
	CALM_LEASE_MS = 1000,
	ROUNDS = 4,
};

static struct ol_server_opts server_opts(unsigned seed)
{
	struct ol_server_opts opts = crew_opts(seed);

	opts.replicate_every = EVERY;
	opts.lease_ms = CALM_LEASE_MS;
	return opts;
}

/* Until the copy of this server, which is not the head, is of that version */
static void copy_wait(const char *addr, uint64_t version)
{
	struct ol_server_stat stat = { 0 };
	struct ol_worker_opts opts;
	struct ol_worker *worker;
	char err[256] = "";

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.servers = addr;
	opts.transport = job_transport();
	opts.observer = 1;
	check_msg(ol_worker_open(&opts, &worker, err, sizeof(err)) == 0, "%s", err);
	while (stat.version < version) {
		check_ok(ol_stat(worker, 0, &stat));
		sched_yield();
	}
	check_eq(stat.version, version);
	ol_worker_close(worker);
}

/* One push at a time; the copies are there; the head dies: back to the last multiple of N, and all
 * that came since is lost, is counted, and nothing else */
static int exact_story(const struct job *job, long id)
{
	struct ol_worker_opts opts;
	struct ol_worker *worker;
	uint64_t pushed = 0, version = 0, lost = 0;
	struct ol_op op = { .level = OL_LEVEL_COMMITTED };

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.outage = OL_OUTAGE_WAIT;
	opts.outage_timeout_ms = 0;
	worker = job_worker_with(job, (int)id, opts);
	check_eq(job_push_start(worker, 1.0f, &op), -EINVAL); /* it promises nothing */
	for (uint64_t round = 0; round < ROUNDS; round++) {
		struct ol_chain_info info = job_chain(job, 0, job->opts.replicas);
		uint64_t kept;

		for (uint64_t i = 0; i < EVERY + 3 * round + 1; i++) {
			check_ok(job_push(worker, 1.0f));
			check_ok(job_pull(worker, 0));
			pushed++;
			version++;
		}
		kept = version / EVERY * EVERY;
		for (uint32_t i = 1; i < info.count; i++)
			copy_wait(info.addrs[i], kept);
		check(version - kept < EVERY);
		lost += version - kept;
		stage_kill((uint32_t)job_server_at(job, &info, 0));
		stage_down(worker, 0);
		stage_restart((uint32_t)job_server_at(job, &info, 0), OL_RESTORE_MIRROR);
		stage_up(worker, 0);
		stage_flush(worker);
		version = kept;
		check_eq(stage_stat(worker, 0).lost, lost);
		check_eq(stage_stat(worker, 0).applied, pushed - lost);
		check_eq(ol_applied_grads(worker, 0, 0), pushed - lost);
		check(ol_weights(worker, NULL)[TALLY_PARAMS - 1] == -(float)(pushed - lost));
	}
	ol_worker_close(worker);
	return 0;
}

static void exact(void)
{
	struct ol_server_opts opts = server_opts(0);
	struct job job;

	opts.workers = 1;
	opts.restore = OL_RESTORE_NONE;
	job_start_chain(&job, opts, 0.0f);
	stage_run(&job, 1, exact_story);
	job_stop(&job);
	printf("ok back to the last multiple of %d\n", EVERY);
}

/* As fast as it goes, whoever dies */
static void schedule(unsigned seed)
{
	struct ol_server_opts opts = server_opts(seed);
	unsigned events, heads = 0;
	struct havoc havoc;
	uint64_t lost;

	*crew_board() =
		(struct crew){ .outage = seed % 2 == 0 ? OL_OUTAGE_WAIT : OL_OUTAGE_CONTINUE,
			       .alike = true };
	havoc_start(&havoc, seed, opts);
	crew_start(&havoc, NULL);
	events = 1 + havoc_rand(&havoc, 4);
	for (unsigned i = 0; i < events; i++) {
		unsigned place = havoc_rand(&havoc, 3);

		crew_pushes(&havoc, 2 * EVERY + havoc_rand(&havoc, 5 * EVERY));
		heads += place == 0;
		havoc_kill(&havoc, havoc_pick(&havoc, 0, place), havoc_rand(&havoc, 50));
		havoc_full(&havoc);
	}
	crew_pushes(&havoc, 2 * EVERY);
	crew_enough(&havoc);
	crew_leave(&havoc);
	lost = crew_board()->lost[0] + crew_board()->lost[1];
	check(heads > 0 || lost == 0);
	check_eq(havoc_view(&havoc, 0).founded, 1);
	havoc_end(&havoc);
	printf("ok seed %u: %u kills, %u of heads; %llu lost of %lu pushes\n", seed, havoc.kills,
	       heads, (unsigned long long)lost, atomic_load(&crew_board()->pushes));
}

int main(int argc, char **argv)
{
	struct havoc_seeds seeds = havoc_seeds(argc, argv, RUNS);

	job_transport();
	exact();
	for (unsigned seed = seeds.first; seed <= seeds.last; seed++) {
		fprintf(stderr, "seed %u\n", seed);
		schedule(seed);
	}
	return 0;
}
