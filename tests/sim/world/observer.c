/* SPDX-License-Identifier: BSD-3-Clause */

/* observer.c -- an observer: connects, reads counters and weights, leaves, comes again */

#include <errno.h>
#include <string.h>

#include "sim/world/check.h"
#include "sim/world/cluster.h"

enum {
	OP_TIMEOUT_MS = 500,
	LOOKS_MAX = 30, /* of one connection */
};

static bool opened(struct ol_worker **ret_worker)
{
	const struct scenario *scenario = &cluster.scenario;
	char servers[1024] = "", err[256] = "";
	struct ol_worker_opts opts;
	int rc;

	cluster_servers(servers, sizeof(servers));
	ol_worker_opts_init(&opts);
	opts.transport = "sim";
	opts.job_key = "the simulated job's key";
	opts.observer = scenario->reads ? OL_OBSERVER_READS : OL_OBSERVER_COUNTERS;
	opts.connect_timeout_ms = CLUSTER_OPEN_MS;
	opts.op_timeout_ms = OP_TIMEOUT_MS;
	opts.retry_timeout_ms = scenario->retry_ms;
	opts.lease_ms = scenario->lease_ms;
	opts.spin_us = 0;
	opts.outage = scenario->chain ? OL_OUTAGE_WAIT : OL_OUTAGE_END;
	if (scenario->chain)
		opts.coordinator = "sim";
	else
		opts.servers = servers;
	rc = ol_worker_open(&opts, ret_worker, err, sizeof(err));
	if (rc == 0)
		return true;
	sim_say("cannot open: %s", err);
	if (rc != OL_E_NO_SERVER && rc != OL_E_FULL && rc != OL_E_AUTH &&
	    !((rc == -ENOMEM || rc == OL_E_RESOURCES) && sim_memory_fails() > 0))
		sim_fail("check_survives", "the observer cannot open: %d, %s", rc, err);
	return false;
}

/* False: this connection is good for nothing more */
static bool looks(struct observer_slot *slot, struct ol_worker *worker)
{
	struct ol_server_stat stat;
	struct ol_op pull;
	unsigned flags;
	int rc;

	for (uint32_t k = 0; k < cluster.scenario.shards; k++) {
		rc = ol_stat(worker, k, &stat);
		if (rc == 0)
			check_counters(slot, k, &stat);
		else if (rc != OL_E_NO_SERVER && rc != -ETIMEDOUT)
			sim_fail("check_survives", "the observer reads no counters: %d", rc);
		if (rc != 0)
			return false;
	}
	slot->looks++;
	if (!cluster.scenario.reads)
		return true;
	flags = sim_ppm(300000) ? OL_PULL_NEWEST : 0;
	do { /* a pull behind the one whose wait gave up */
		pull = (struct ol_op){ 0 };
		rc = ol_pull(worker, flags, &pull);
		if (rc == 0)
			rc = ol_worker_wait(worker, &pull);
	} while (rc == -ETIMEDOUT && !cluster.agreed);
	if (rc == 0)
		check_observed(worker);
	else if (rc != OL_E_NO_SERVER && rc != OL_E_TORN && rc != -ETIMEDOUT)
		sim_fail("check_survives", "the observer's pull ends with %d", rc);
	return rc == 0 || rc == OL_E_TORN;
}

void observer_main(void *arg)
{
	struct observer_slot *slot = arg;

	while (!cluster.agreed) {
		uint32_t most = 1 + sim_below(LOOKS_MAX);
		struct ol_worker *worker;

		memset(slot->seen, 0, sizeof(slot->seen));
		if (!opened(&worker)) {
			sim_pause(sim_between(SIM_MS, 50 * SIM_MS));
			continue;
		}
		for (uint32_t i = 0; i < most && !cluster.agreed && looks(slot, worker); i++)
			sim_pause(sim_between(0, 30 * SIM_MS));
		ol_worker_close(worker);
	}
}
