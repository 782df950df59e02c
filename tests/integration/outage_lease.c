/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outage_lease.c -- a worker that does not poll for longer than the lease does not take its server
 * for dead; a worker that polls does, if the server stands still: OL_TRANSPORT shm or verbs
 *
 * alone: leases are counted by the clock
 */

#include <sched.h>

#include "base/clock.h"
#include "support/check.h"
#include "support/stage.h"

enum {
	LEN = 100,
	LEASE_MS = 4000, /* of the worker: it reads the heartbeat every second */
	SERVER_LEASE_MS = 60000
};

/* Time is what this is about: let it pass, polling or not */
static void pass(struct ol_worker *worker, uint64_t ms)
{
	uint64_t until_ns = ol_clock_ns() + ms * OL_NS_PER_MS;

	while (ol_clock_ns() < until_ns) {
		if (worker != NULL)
			check(ol_worker_poll(worker) >= 0);
		sched_yield();
	}
}

static int story(const struct job *job, long id)
{
	struct ol_worker_opts opts;
	struct ol_worker *worker;

	ol_worker_opts_init(&opts);
	opts.outage = OL_OUTAGE_CONTINUE;
	opts.lease_ms = LEASE_MS;
	worker = job_worker_with(job, (int)id, opts);
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	/* the heartbeat is asked for twice while it stands still, and the second answer heard
	 * late */
	stage_pause(0);
	pass(worker, 1200);
	pass(NULL, 1200);
	check(ol_worker_poll(worker) >= 0);
	stage_resume(0);
	pass(NULL, LEASE_MS + 100);
	pass(worker, 1200);
	check_eq(stage_stat(worker, 0).outages, 0);
	check_ok(job_push(worker, 1.0f));

	stage_pause(0);
	stage_down(worker, 0);
	check_eq(stage_stat(worker, 0).reason, OL_E_FENCED);
	stage_resume(0);
	stage_up(worker, 0);
	stage_flush(worker);
	check_eq(stage_stat(worker, 0).outages, 1);
	check_eq(stage_stat(worker, 0).applied, 1);
	check(ol_weights(worker, NULL)[0] == 99.0f);
	ol_worker_close(worker);
	return 0;
}

int main(void)
{
	struct ol_server_opts opts;

	setvbuf(stdout, NULL, _IOLBF, 0);
	job_transport();
	ol_server_opts_init(&opts);
	opts.window = JOB_WINDOW;
	opts.param_count = LEN;
	opts.rule.lr = 1.0f;
	opts.lease_ms = SERVER_LEASE_MS; /* it is to come back as it was */
	stage_play(opts, 100.0f, 1, story, "leases are told by what was asked when");
	return 0;
}
