/* SPDX-License-Identifier: BSD-3-Clause */

/* chain_report.c -- shared by the measurements of chains: processors, the report's head, waiting */

#include "bench/bench.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"

enum {
	LOOK_MS = 1
};

const struct ol_conf_choice bench_roles[] = { { "head", BENCH_ROLE_HEAD },
					      { "middle", BENCH_ROLE_MIDDLE },
					      { "tail", BENCH_ROLE_TAIL },
					      { NULL, 0 } };

int bench_role_check(struct ol_conf *conf, int role, uint32_t replicas)
{
	if (role != BENCH_ROLE_MIDDLE || replicas >= 3)
		return 0;
	return ol_conf_fail(conf, "target", "needs --replicas 3 or more to have a middle");
}

int bench_role_server(const struct bench_run *run, const struct ol_chain_info *info, int role)
{
	uint32_t place = 0;

	if (role == BENCH_ROLE_TAIL)
		place = info->count - 1;
	else if (role == BENCH_ROLE_MIDDLE)
		place = info->count / 2;
	return bench_chain_at(&run->chain, info, place);
}

void bench_chain_cpus(struct bench_run *run)
{
	for (unsigned i = 0; i < OL_CHAIN_MAX; i++)
		run->cpus[i] = bench_pin_nth(i + 1);
}

void bench_chain_ends(struct bench_run *run, const struct bench_chain_conf *conf)
{
	struct bench_ends *ends = &run->ends;

	for (unsigned i = 0; i < OL_CHAIN_MAX; i++) {
		if (ends->opts.pins.client == BENCH_CPU_ANY)
			run->cpus[i] = BENCH_CPU_ANY;
		else if (strcmp(conf->place.pin, "auto") != 0)
			run->cpus[i] = ends->opts.pins.server;
		else if (run->threads)
			run->cpus[i] = run->cpus[0];
	}
	ends->opts.coordinator = conf->coordinator;
	ends->opts.lease_ms = conf->lease_ms;
	ends->opts.spin_yield = conf->yield;
}

void bench_chain_print(const struct bench_run *run, uint32_t replicas)
{
	const struct bench_ends *ends = &run->ends;

	printf("# transport %s, all on this machine, %d processors; ", ends->opts.transport,
	       ends->cpus);
	if (ends->opts.pins.client == BENCH_CPU_ANY) {
		printf("nothing pinned; ");
	} else {
		printf("worker on cpu %d, servers on cpu", ends->opts.pins.client);
		for (uint32_t i = 0; i < replicas; i++)
			printf(" %d", run->cpus[i]);
		printf("; ");
	}
	if (ends->opts.spin_us == 0)
		printf("waits sleep at once\n");
	else
		printf("waits spin for %u us before they sleep%s\n", ends->opts.spin_us,
		       ends->opts.spin_yield ? ", and yield meanwhile" : "");
	printf("# coordinator %s%s; lease %u ms\n", run->chain.coordinator,
	       ends->opts.coordinator == NULL ? ", a folder of its own" : "", ends->opts.lease_ms);
	if (ends->opts.spin_us > 0 && !ends->opts.spin_yield && (uint32_t)ends->cpus <= replicas)
		printf("# fewer processors than processes that spin: those that wait take them from "
		       "those that work\n");
}

void bench_chain_report(struct bench_run *run)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < OL_CHAIN_MAX; i++)
		json_array_append_new(list, json_integer(run->cpus[i]));
	json_object_update_new(run->report,
			       json_pack("{s:o, s:s, s:I, s:b}", "server_cpus", list, "coordinator",
					 run->chain.coordinator, "lease_ms",
					 (json_int_t)run->ends.opts.lease_ms, "spin_yield",
					 (int)run->ends.opts.spin_yield));
}

/* Restart lost servers, also those that could not keep their lease and ended without a kill */
static int revive(struct bench_run *run)
{
	struct bench_chain *chain = &run->chain;

	for (uint32_t i = 0; i < chain->opts.replicas; i++) {
		int rc;

		if (!bench_chain_server_gone(chain, i))
			continue;
		run->unasked += chain->servers[i].proc.pid != 0;
		ol_proc_fini(&chain->servers[i].proc);
		rc = bench_chain_server_start(chain, i, run->err);
		if (rc == 0)
			rc = bench_chain_server_ready(chain, i, true, run->err);
		if (rc != 0)
			return rc;
	}
	return 0;
}

int bench_chain_mend(struct bench_run *run, int (*meanwhile)(void *arg), void *arg,
		     uint32_t timeout_ms)
{
	uint64_t bound_ns = ol_clock_ns() + timeout_ms * OL_NS_PER_MS;

	for (;;) {
		int rc = revive(run);

		if (rc == 0 && bench_chain_whole(&run->chain))
			return 0;
		if (rc == 0)
			rc = meanwhile(arg);
		if (rc != 0)
			return rc;
		if (ol_clock_ns() >= bound_ns) {
			snprintf(run->err, BENCH_ERR_MAX,
				 "the chain did not become whole again within %u ms", timeout_ms);
			return OL_E_NO_SERVER;
		}
		poll(NULL, 0, LOOK_MS);
	}
}
