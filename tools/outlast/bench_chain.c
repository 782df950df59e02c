/* SPDX-License-Identifier: BSD-3-Clause */

/* bench_chain.c -- what the measurements of chains share: where, their report's head, waiting */

#include "outlast/bench.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"

enum {
	LOOK_MS = 1
};

int bench_chain_ends(const struct bench_chain_conf *conf, struct bench_ends *ends,
		     int cpus[OL_CHAIN_MAX], char err[BENCH_ERR_MAX])
{
	int rc;

	/* asked before this process is pinned */
	for (unsigned i = 0; i < OL_CHAIN_MAX; i++)
		cpus[i] = bench_pin_nth(i + 1);
	rc = bench_ends_make(&conf->place, NULL, ends, err);
	if (rc != 0)
		return rc;
	for (unsigned i = 0; i < OL_CHAIN_MAX && strcmp(conf->place.pin, "auto") != 0; i++)
		cpus[i] = ends->pins.server;
	if (ends->pins.client == BENCH_CPU_ANY) {
		for (unsigned i = 0; i < OL_CHAIN_MAX; i++)
			cpus[i] = BENCH_CPU_ANY;
	}
	ends->opts.coordinator = conf->coordinator;
	ends->opts.lease_ms = conf->lease_ms;
	ends->opts.spin_yield = conf->yield;
	return 0;
}

void bench_chain_print(const struct bench_ends *ends, const int cpus[OL_CHAIN_MAX],
		       uint32_t replicas, const struct bench_chain *chain)
{
	printf("# transport %s, all on this machine, %d processors; ", ends->opts.transport,
	       ends->cpus);
	if (ends->pins.client == BENCH_CPU_ANY) {
		printf("nothing pinned; ");
	} else {
		printf("worker on cpu %d, servers on cpu", ends->pins.client);
		for (uint32_t i = 0; i < replicas; i++)
			printf(" %d", cpus[i]);
		printf("; ");
	}
	if (ends->opts.spin_us == 0)
		printf("waits sleep at once\n");
	else
		printf("waits spin for %u us before they sleep%s\n", ends->opts.spin_us,
		       ends->opts.spin_yield ? ", and yield meanwhile" : "");
	printf("# coordinator %s%s; lease %u ms\n", chain->coordinator,
	       ends->opts.coordinator == NULL ? ", a folder of its own" : "", ends->opts.lease_ms);
	if (ends->opts.spin_us > 0 && !ends->opts.spin_yield && (uint32_t)ends->cpus <= replicas)
		printf("# fewer processors than processes that spin: those that wait take them from "
		       "those that work\n");
}

json_t *bench_chain_report(const char *measurement, const struct bench_ends *ends,
			   const int cpus[OL_CHAIN_MAX], const struct bench_chain *chain)
{
	json_t *report = bench_report(measurement, ends, true), *list = json_array();

	for (unsigned i = 0; i < OL_CHAIN_MAX; i++)
		json_array_append_new(list, json_integer(cpus[i]));
	json_object_set_new(report, "server_cpus", list);
	json_object_set_new(report, "coordinator", json_string(chain->coordinator));
	json_object_set_new(report, "lease_ms", json_integer(ends->opts.lease_ms));
	json_object_set_new(report, "spin_yield", json_boolean(ends->opts.spin_yield));
	return report;
}

/* Servers that ended by themselves, at a lease that the machine could not keep, come back too */
static int revive(struct bench_chain *chain, unsigned *unasked, char err[BENCH_ERR_MAX])
{
	for (uint32_t i = 0; i < chain->opts.replicas; i++) {
		int rc;

		if (chain->servers[i].pid != 0 && !bench_chain_server_gone(chain, i))
			continue;
		*unasked += chain->servers[i].pid != 0;
		rc = bench_chain_server_reap(chain, i);
		if (rc == 0)
			rc = bench_chain_server_start(chain, i, err);
		if (rc != 0)
			return rc;
	}
	return 0;
}

int bench_chain_mend(struct bench_chain *chain, int (*meanwhile)(void *arg), void *arg,
		     uint32_t timeout_ms, unsigned *unasked, char err[BENCH_ERR_MAX])
{
	uint64_t bound_ns = ol_clock_ns() + timeout_ms * OL_NS_PER_MS;

	for (;;) {
		int rc = revive(chain, unasked, err);

		if (rc == 0 && bench_chain_whole(chain))
			return 0;
		if (rc == 0)
			rc = meanwhile(arg);
		if (rc != 0)
			return rc;
		if (ol_clock_ns() >= bound_ns) {
			snprintf(err, BENCH_ERR_MAX,
				 "the chain did not become whole again within %u ms", timeout_ms);
			return OL_E_NO_SERVER;
		}
		poll(NULL, 0, LOOK_MS);
	}
}
