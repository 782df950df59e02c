/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * overlap.c -- a large gradient is transferred, summed up, forwarded down a chain and applied at one
 * time: a commit takes hardly longer than the transfer alone, of however many workers and replicas
 *
 * Virtual time. Servers and workers are the product's own. A byte takes LINK_PS on a connection, and the
 * rest below in a server, whose loop stands still meanwhile. The figures are of 4 MiB; of
 * 64 MiB with links and memory 16 times as fast they are the same, as a gradient has eight parts.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "outlast.h"
#include "outlast_server.h"
#include "sim/world/coord.h"
#include "sim/world/net.h"
#include "sim/world/sim.h"
#include "wire/layout.h"

enum {
	LEN = 1 << 20,
	BYTES = LEN * 4,
	LINK_PS = 1280, /* a byte of a gradient: in transfer … */
	GATHER_PS = 400, /* … summed up into a ring … */
	UPDATE_PS = 800, /* … applied to weights */
	LEASE_MS = 2000,
	PUSHES = 5, /* of a worker; the first is not counted */
	REPLICAS_MAX = 3,
	FIRST_PLACE = REPLICAS_MAX + 1,
	CHAIN_MOST = 140, /* % of the time of one server, for a worker's commit */
};

static struct {
	uint32_t workers, replicas;
	bool sync;
	struct ol_server *servers[REPLICAS_MAX];
	uint32_t finished;
	uint64_t total_ns; /* of all counted pushes */
} job;

static void server_main(void *arg)
{
	const uint32_t index = (uint32_t)(uintptr_t)arg;
	float *weights = calloc(LEN, sizeof(*weights));
	struct ol_server_opts opts;
	char listen[32], err[256] = "";

	ol_server_opts_init(&opts);
	snprintf(listen, sizeof(listen), "@sim-%u", index + 1);
	opts.listen = listen;
	opts.transport = "sim";
	opts.job_key = "the key of an overlap";
	opts.param_count = LEN;
	opts.workers = opts.workers_max = job.workers;
	opts.consistency = job.sync ? OL_CONSISTENCY_SYNC : OL_CONSISTENCY_ASYNC;
	opts.lease_ms = LEASE_MS;
	opts.window = 1;
	opts.spin_us = 0;
	if (job.replicas > 1) {
		opts.coordinator = "sim";
		opts.replicas = job.replicas;
	}
	if (weights == NULL ||
	    ol_server_open(&opts, weights, &job.servers[index], err, sizeof(err)) != 0)
		sim_fail("overlap", "server %u: %s", index, err);
	free(weights);
	if (ol_server_run(job.servers[index]) != 0)
		sim_fail("overlap", "server %u ends", index);
	ol_server_close(job.servers[index]);
}

/* The chain has all its replicas */
static bool whole(void)
{
	const struct ol_view *view = coord_view(0);

	return job.replicas == 1 || (view != NULL && view->count == job.replicas);
}

static void push_one(struct ol_worker *worker, bool counts)
{
	struct ol_push_info info = { .samples = 1 };
	struct ol_op op = { .level = job.replicas > 1 ? OL_LEVEL_COMMITTED : OL_LEVEL_APPLIED },
		     pull = { 0 };
	uint64_t start_ns;
	float *grad = NULL;

	if (ol_pull(worker, 0, &pull) != 0 || ol_worker_wait(worker, &pull) != 0 ||
	    ol_grad_acquire(worker, &grad) != 0)
		sim_fail("overlap", "no weights, or no buffer");
	memset(grad, 0, BYTES);
	(void)ol_weights(worker, &info.base_version);
	start_ns = sim_now();
	if (ol_push(worker, grad, &info, &op) != 0 || ol_worker_wait(worker, &op) != 0)
		sim_fail("overlap", "a push fails");
	if (counts)
		job.total_ns += sim_now() - start_ns;
}

static void worker_main(void *arg)
{
	struct ol_worker *worker = NULL;
	struct ol_worker_opts opts;
	char err[256] = "";

	ol_worker_opts_init(&opts);
	opts.transport = "sim";
	opts.job_key = "the key of an overlap";
	opts.worker = (uint32_t)(uintptr_t)arg;
	opts.lease_ms = LEASE_MS;
	opts.spin_us = 0;
	opts.outage = OL_OUTAGE_WAIT;
	if (job.replicas > 1)
		opts.coordinator = "sim";
	else
		opts.servers = "@sim-1";
	if (ol_worker_open(&opts, &worker, err, sizeof(err)) != 0)
		sim_fail("overlap", "worker: %s", err);
	while (!whole()) {
		if (ol_worker_poll(worker) < 0)
			sim_fail("overlap", "a poll fails");
		sim_pause(SIM_MS);
	}
	for (uint32_t i = 0; i < PUSHES; i++)
		push_one(worker, i > 0);
	ol_worker_close(worker);
	if (++job.finished < job.workers)
		return;
	for (uint32_t i = 0; i < job.replicas; i++)
		ol_server_stop(job.servers[i]);
}

/* A push's time, ns; 0: the run failed */
static uint64_t measure(uint32_t workers, uint32_t replicas, bool sync)
{
	char name[SIM_NAME_MAX];
	uint64_t push_ns;

	memset(&job, 0, sizeof(job));
	job.workers = workers;
	job.replicas = replicas;
	job.sync = sync;
	sim_begin(1, false);
	net_begin();
	coord_begin();
	sim_nature = (struct sim_nature){ .net_ns = 3 * SIM_US,
					  .coord_ns = 100 * SIM_US,
					  .fence_keeps = true,
					  .link_ps = LINK_PS,
					  .gather_ps = GATHER_PS,
					  .update_ps = UPDATE_PS };
	for (uint32_t i = 0; i < replicas; i++) {
		snprintf(name, sizeof(name), "server%u", i);
		sim_process_start(name, 1 + i, server_main, (void *)(uintptr_t)i);
	}
	for (uint32_t i = 0; i < workers; i++) {
		snprintf(name, sizeof(name), "worker%u", i);
		sim_process_start(name, FIRST_PLACE + i, worker_main, (void *)(uintptr_t)i);
	}
	while (sim_step())
		;
	if (sim_failure() != NULL)
		printf("%s\n", sim_failure());
	push_ns = sim_failure() == NULL ? job.total_ns / workers / (PUSHES - 1) : 0;
	sim_end();
	return push_ns;
}

/*
 * What it would take if each of these began when the one before has ended: the gradients are
 * transferred, all at one time, and summed up, forwarded to one replica after the other, and applied.
 * Asynchronous gradients are applied one by one.
 */
static uint64_t one_by_one(uint32_t workers, uint32_t replicas, bool sync)
{
	const uint64_t sums = sync ? workers - 1 : 0, updates = sync ? 1 : workers;
	const uint64_t ring = replicas > 1 ? 1 : 0;

	return BYTES *
	       (replicas * LINK_PS + (sums + ring) * GATHER_PS + updates * (uint64_t)UPDATE_PS) /
	       1000;
}

int main(void)
{
	static const struct {
		uint32_t workers, replicas;
		bool sync;
		unsigned most; /* % of the time of what is done one after the other */
	} rows[] = {
		{ 1, 1, false, 70 }, { 2, 1, false, 55 }, { 4, 1, false, 75 },
		{ 1, 1, true, 70 },  { 2, 1, true, 65 },  { 4, 1, true, 75 },
		{ 1, 2, false, 50 }, { 1, 3, false, 40 }, { 2, 3, true, 45 },
	};
	uint64_t alone_ns = 0;
	int rc = 0;

	ol_log_level_set(OL_LOG_ERROR);
	printf("consistency  workers  replicas      ms  one after the other  ratio  of one server\n");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t ns = measure(rows[i].workers, rows[i].replicas, rows[i].sync);
		uint64_t sum_ns = one_by_one(rows[i].workers, rows[i].replicas, rows[i].sync);

		if (i == 0)
			alone_ns = ns;
		printf("%-11s  %7u  %8u  %6.3f  %19.3f  %5.2f  %13.2f\n",
		       rows[i].sync ? "sync" : "async", rows[i].workers, rows[i].replicas,
		       (double)ns / 1e6, (double)sum_ns / 1e6, (double)ns / (double)sum_ns,
		       (double)ns / (double)alone_ns);
		if (ns == 0 || ns * 100 > sum_ns * rows[i].most)
			rc = 1;
		if (rows[i].workers == 1 && ns * 100 > alone_ns * CHAIN_MOST)
			rc = 1;
	}
	return rc;
}
