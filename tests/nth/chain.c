/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain.c -- a server that joins a chain of two, becomes its tail, serves, and leaves
 *
 * The head and the coordinator do not fail. The server has joined when it is in the view and a push
 * is committed; with a failure it may never join.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "nth/frame/peers.h"
#include "nth/frame/warm.h"
#include "nth/scenarios.h"
#include "support/check.h"
#include "support/job.h"

enum {
	PARAMS = 3000,
	LEASE_MS = 1000,
};

static struct job job;
static float weights[PARAMS];
static struct ol_server *running;
static const char *transport;

static void stop(void)
{
	if (running != NULL)
		ol_server_stop(running);
}

static void opts_make(struct ol_server_opts *opts)
{
	ol_server_opts_init(opts);
	opts->transport = transport;
	opts->param_count = PARAMS;
	opts->workers_max = 2;
	opts->replicas = 2;
	opts->lease_ms = LEASE_MS;
	opts->heartbeat_ms = 20;
}

/* Two servers found the chain; the second one makes room */
static void start(void)
{
	struct ol_chain_info info;
	struct ol_server_opts opts;

	transport = job_transport();
	opts_make(&opts);
	job_start_chain(&job, opts, 0.0f);
	info = job_chain(&job, 0, 2);
	kill(job.servers[1], SIGTERM);
	job_join(job.servers[1]);
	job.servers[1] = 0;
	info = job_chain(&job, 0, 1);
	check(job_server_at(&job, &info, 0) == 0);
}

static void end(void)
{
	job_stop(&job);
}

static bool full_replica(const struct ol_chain_info *info, const char *addr)
{
	for (uint32_t i = 0; i < info->count; i++) {
		if (strcmp(info->addrs[i], addr) == 0)
			return true;
	}
	return false;
}

/* Until the one at addr is a full replica of the chain */
static int joined(const char *addr, unsigned attempt)
{
	uint64_t until_ns = ol_clock_ns() + nth_patience_ms(attempt) * OL_NS_PER_MS;
	struct ol_chain_info info = { .count = 0 };
	struct ol_chains *chains;
	char err[RUN_TEXT_MAX];
	int rc = ol_chains_open(job.coordinator_addr, NULL, NULL, 1, NTH_PATIENCE_LONG_MS, &chains,
				err, sizeof(err));

	if (rc != 0)
		return rc;
	while (rc == 0 && !full_replica(&info, addr)) {
		poll(NULL, 0, 1);
		rc = ol_clock_ns() < until_ns ? ol_chains_get(chains, 0, &info) : -ETIMEDOUT;
	}
	ol_chains_close(chains);
	return rc;
}

static int peer(const char *addr, unsigned attempt)
{
	struct ol_push_info info = { .samples = 1 };
	struct ol_op op = { .level = OL_LEVEL_COMMITTED };
	struct ol_worker *worker;
	float *grad;
	int rc = joined(addr, attempt);

	if (rc != 0) {
		fprintf(stderr, "attempt %u: it does not join: %s\n", attempt, ol_status_str(rc));
		return rc;
	}
	worker = job_worker(&job, 0);
	rc = ol_grad_try_acquire(worker, &grad);
	if (rc == 0) {
		memset(grad, 0, PARAMS * sizeof(*grad));
		rc = ol_push(worker, grad, &info, &op);
	}
	if (rc == 0)
		rc = ol_worker_wait(worker, &op);
	if (rc == 0)
		rc = job_pull(worker, OL_PULL_NEWEST);
	ol_worker_close(worker);
	return rc;
}

static void before(void)
{
	peers_start(peer, stop);
	warm_transport();
}

static int run(unsigned attempt, char text[RUN_TEXT_MAX])
{
	const char *host = getenv("OL_ADDR");
	struct ol_server_opts opts;
	struct ol_server *server;
	char listen[OL_ADDR_MAX];
	int rc;

	opts_make(&opts);
	opts.coordinator = job.coordinator_addr;
	opts.coordinator_timeout_ms = nth_patience_ms(attempt);
	opts.rank = 7;
	if (strcmp(opts.transport, "shm") == 0)
		snprintf(listen, sizeof(listen), "@nth-%d-%u", (int)getpid(), attempt);
	else
		snprintf(listen, sizeof(listen), "%s:0", host != NULL ? host : "0.0.0.0");
	opts.listen = listen;
	rc = ol_server_open(&opts, weights, &server, text, RUN_TEXT_MAX);
	if (rc != 0)
		return rc;
	running = server;
	peers_tell(attempt, ol_server_addr(server));
	rc = ol_server_run(server);
	running = NULL;
	snprintf(text, RUN_TEXT_MAX, "%s", rc != 0 ? ol_status_str(rc) : "");
	ol_server_close(server);
	return rc;
}

static void after(unsigned attempt, int status)
{
	(void)status;
	peers_wait(attempt);
}

const struct run_scenario nth_chain_join = { .name = "chain-join",
					     .start = start,
					     .end = end,
					     .before = before,
					     .run = run,
					     .after = after,
					     .max = 4 };
