/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * storm.c -- 1,024 workers that start at once are all live within their connect timeout, also where
 * memory takes time to be made, and one that is in already does not notice
 *
 * Virtual time, from a seed: storm [--seed N] [--workers N]. The sessions of a server, the workers'
 * dialling and the memory thread are the product's own.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outlast.h"
#include "outlast_server.h"
#include "sim/world/net.h"
#include "sim/world/sim.h"
#include "wire/layout.h"

enum {
	SEEDS = 2, /* the second: memory takes long */
	LEN = 16,
	CONNECT_MS = 10000, /* as by default */
	LEASE_MS = 2000,
	FIRST_PLACE = 2, /* of workers: several share a host */
	AWAYS_MAX = 64, /* times that a worker is told to come back, on the average */
	PUSH_MS = 200, /* the longest push of a worker that is in */
	TOUCH_MS = 7, /* the most that a worker's memory takes: half of it on the average, 3.6 s for
			 all */
};

static struct {
	uint32_t workers;
	struct ol_server *server;
	uint32_t in;
	bool away; /* the crowd may leave */
	uint32_t left;
	uint64_t begin_ns;
	uint64_t last_ns; /* the last one was in */
	uint64_t push_ns; /* the longest push of the first worker, meanwhile */
	uint32_t pushes;
} storm;

static void server_main(void *unused)
{
	static const float weights[LEN];
	struct ol_server_stat stat;
	struct ol_server_opts opts;
	char err[256] = "";

	(void)unused;
	ol_server_opts_init(&opts);
	opts.transport = "sim";
	opts.listen = "@sim-1";
	opts.job_key = "the key of a storm";
	opts.param_count = LEN;
	opts.workers_max = storm.workers;
	opts.lease_ms = LEASE_MS;
	opts.spin_us = 0;
	if (ol_server_open(&opts, weights, &storm.server, err, sizeof(err)) != 0)
		sim_fail("storm", "the server: %s", err);
	if (ol_server_run(storm.server) != 0) /* OL_E_FENCED: its loop stood still */
		sim_fail("storm", "the server ends");
	ol_server_get_stat(storm.server, &stat);
	if (stat.refused != 0 || stat.violations != 0)
		sim_fail("storm", "%u refused, %u cut off", (unsigned)stat.refused,
			 (unsigned)stat.violations);
	if (stat.sent_away > AWAYS_MAX * (uint64_t)storm.workers)
		sim_fail("storm", "%u told to come back", (unsigned)stat.sent_away);
	printf("  %u told to come back\n", (unsigned)stat.sent_away);
	ol_server_close(storm.server);
}

static struct ol_worker *come(uint32_t id)
{
	struct ol_worker *worker = NULL;
	struct ol_worker_opts opts;
	char err[256] = "";
	int rc;

	ol_worker_opts_init(&opts);
	opts.transport = "sim";
	opts.servers = "@sim-1";
	opts.job_key = "the key of a storm";
	opts.worker = id;
	opts.lease_ms = LEASE_MS;
	opts.connect_timeout_ms = CONNECT_MS;
	opts.spin_us = 0;
	rc = ol_worker_open(&opts, &worker, err, sizeof(err));
	if (rc != 0)
		sim_fail("storm", "worker %u, %u are in: %s", id, storm.in, err);
	return worker;
}

static void one_of_many(void *arg)
{
	uint32_t id = (uint32_t)(uintptr_t)arg;
	struct ol_worker *worker;

	worker = come(id);
	storm.in++;
	storm.last_ns = sim_now();
	while (!storm.away)
		sim_pause(100 * SIM_MS);
	ol_worker_close(worker);
	storm.left++;
}

static void push_one(struct ol_worker *worker)
{
	struct ol_push_info info = { .samples = 1 };
	struct ol_op op = { .level = OL_LEVEL_APPLIED };
	uint64_t start_ns = sim_now();
	float *grad;

	if (ol_grad_acquire(worker, &grad) != 0)
		sim_fail("storm", "no buffer");
	memset(grad, 0, LEN * sizeof(*grad));
	(void)ol_weights(worker, &info.base_version);
	if (ol_push(worker, grad, &info, &op) != 0 || ol_worker_wait(worker, &op) != 0)
		sim_fail("storm", "a push fails");
	if (sim_now() - start_ns > storm.push_ns)
		storm.push_ns = sim_now() - start_ns;
	storm.pushes++;
}

static void first_main(void *unused)
{
	struct ol_worker *worker;
	char name[SIM_NAME_MAX];

	(void)unused;
	sim_pause(100 * SIM_MS);
	worker = come(0);
	storm.begin_ns = sim_now();
	for (uint32_t id = 1; id < storm.workers; id++) {
		snprintf(name, sizeof(name), "worker%u", id);
		sim_process_start(name, FIRST_PLACE + id % (SIM_PLACES_MAX - FIRST_PLACE),
				  one_of_many, (void *)(uintptr_t)id);
	}
	while (storm.in < storm.workers - 1) {
		push_one(worker);
		sim_pause(5 * SIM_MS);
	}
	storm.away = true;
	while (storm.left < storm.workers - 1)
		sim_pause(100 * SIM_MS);
	ol_worker_close(worker);
	ol_server_stop(storm.server);
}

static const char *run(uint64_t seed)
{
	static char failure[SIM_TEXT_MAX];
	uint32_t workers = storm.workers;

	memset(&storm, 0, sizeof(storm));
	storm.workers = workers;
	sim_begin(seed, false);
	net_begin();
	sim_nature = (struct sim_nature){ .net_ns = 20 * SIM_US,
					  .net_slow_ppm = 1000,
					  .preempt_ppm = 200,
					  .again_ppm = 100,
					  .fence_keeps = true };
	if (seed % 2 == 0)
		sim_nature.touch_ns = TOUCH_MS * SIM_MS;
	sim_process_start("server", 1, server_main, NULL);
	sim_process_start("worker0", FIRST_PLACE, first_main, NULL);
	while (sim_step())
		;
	if (sim_failure() == NULL && storm.left < workers - 1)
		sim_fail("storm", "%u of %u are in", storm.in, workers);
	if (sim_failure() == NULL && storm.push_ns > PUSH_MS * SIM_MS)
		sim_fail("storm", "a push of the first worker took %.1f ms",
			 (double)storm.push_ns / 1e6);
	snprintf(failure, sizeof(failure), "%s", sim_failure() != NULL ? sim_failure() : "");
	sim_end();
	return failure[0] != '\0' ? failure : NULL;
}

static uint64_t option(int argc, char **argv, const char *name, uint64_t otherwise)
{
	for (int i = 1; i + 1 < argc; i++) {
		if (strcmp(argv[i], name) == 0)
			return strtoull(argv[i + 1], NULL, 10);
	}
	return otherwise;
}

int main(int argc, char **argv)
{
	uint64_t only = option(argc, argv, "--seed", 0);

	storm.workers =
		(uint32_t)option(argc, argv, "--workers", sim_is_slow() ? 256 : OL_WORKERS_MAX);
	if (storm.workers < 2 || storm.workers > OL_WORKERS_MAX)
		return 2;
	for (uint64_t seed = only != 0 ? only : 1; seed <= (only != 0 ? only : SEEDS); seed++) {
		const char *what = run(seed);

		printf("seed %u: %u workers, the last one in after %.0f ms; %u pushes meanwhile, "
		       "the longest %.1f ms\n",
		       (unsigned)seed, storm.workers,
		       (double)(storm.last_ns - storm.begin_ns) / 1e6, storm.pushes,
		       (double)storm.push_ns / 1e6);
		if (what != NULL) {
			printf("seed %u: %s\n", (unsigned)seed, what);
			return 1;
		}
	}
	return 0;
}
