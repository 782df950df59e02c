/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * link_cut.c -- while the network between two hosts of a chain is away for a moment, nobody is evicted
 *
 *	link_cut server          on each of two hosts
 *	link_cut worker MS...    on the first: cuts the second off for so long, each time
 *
 * OL_RETRY_MS: retry_timeout_ms of all, else the default. Version v is the sum of the first v
 * gradients, small whole numbers at learning rate 1, so every pull shows whether bits are right.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "outlast_server.h"
#include "support/check.h"
#include "support/lab.h"

enum {
	LEN = 1000,
	MARKS = 61, /* gradient n has another value at every index that is n modulo this */
	ZK_PORT = 7470,
	PORT = 7471,
	STEADY = 20, /* commits, between two cuts */
	WAIT_S = 300, /* for anything that must happen: emulated machines are slow */
	TICK_MS = 5,
};

static const char *addr_of(const char *host)
{
	char name[32];

	snprintf(name, sizeof(name), "OL_ADDR_%s", host);
	return getenv(name);
}

static const char *coordinator_addr(void)
{
	static char addr[64];

	snprintf(addr, sizeof(addr), "zk:%s:%d", addr_of("0"), ZK_PORT);
	return addr;
}

static void retry_set(uint32_t *retry_ms)
{
	const char *text = getenv("OL_RETRY_MS");

	if (text != NULL && text[0] != '\0')
		*retry_ms = (uint32_t)strtoul(text, NULL, 10);
}

/* Gradients 1 … v are ones, and one more where k and n have the same mark */
static float weight_of(uint64_t version, unsigned k)
{
	uint64_t mark = k % MARKS;

	return -(float)(version + (version + MARKS - mark) / MARKS - (mark == 0));
}

/* ---- a server ---- */

static struct ol_server *server;

static void on_term(int number)
{
	(void)number;
	ol_server_stop(server);
}

static int serve(void)
{
	static const float zero[LEN];
	struct sigaction action = { .sa_handler = on_term };
	struct ol_server_opts opts;
	char listen[64], err[256];
	int rc;

	snprintf(listen, sizeof(listen), "%s:%d", getenv("OL_ADDR"), PORT);
	ol_server_opts_init(&opts);
	opts.listen = listen;
	opts.transport = "verbs";
	opts.param_count = LEN;
	opts.workers_max = 1;
	opts.rule.lr = 1.0f;
	opts.coordinator = coordinator_addr();
	opts.coordinator_timeout_ms = WAIT_S * 1000;
	opts.replicas = 2;
	opts.rank = (uint32_t)strtoul(getenv("OL_HOST"), NULL, 10);
	retry_set(&opts.retry_timeout_ms);
	rc = ol_server_open(&opts, zero, &server, err, sizeof(err));
	check_msg(rc == 0, "server at %s: %s", listen, err);
	sigaction(SIGTERM, &action, NULL);
	rc = ol_server_run(server);
	ol_server_close(server);
	check_msg(rc == 0, "the server at %s ended: %s", listen, ol_strerror(rc));
	return 0;
}

/* ---- the worker ---- */

static struct {
	struct ol_worker *worker;
	struct ol_chains *chains;
	struct ol_op push, pull;
	bool pushing;
	uint64_t pushed, pulls;
	uint64_t done_ns; /* when a push was last committed */
	uint64_t stall_ns; /* longest time between two, so far */
} run;

static void begin(void)
{
	struct ol_worker_opts opts;
	char err[256];
	int rc;

	ol_worker_opts_init(&opts);
	opts.coordinator = coordinator_addr();
	opts.transport = "verbs";
	opts.outage = OL_OUTAGE_WAIT;
	opts.connect_timeout_ms = WAIT_S * 1000;
	retry_set(&opts.retry_timeout_ms);
	rc = ol_worker_open(&opts, &run.worker, err, sizeof(err));
	check_msg(rc == 0, "worker: %s", err);
	rc = ol_chains_open(opts.coordinator, "outlast", NULL, 1, WAIT_S * 1000, &run.chains, err,
			    sizeof(err));
	check_msg(rc == 0, "chains: %s", err);
	run.push.done = run.pull.done = 1;
}

static void push_next(void)
{
	struct ol_push_info info = { .samples = 1, .loss = 1.0f };
	float *grad;

	if (ol_grad_try_acquire(run.worker, &grad) != 0)
		return;
	run.pushed++;
	for (unsigned k = 0; k < LEN; k++)
		grad[k] = k % MARKS == run.pushed % MARKS ? 2.0f : 1.0f;
	ol_weights(run.worker, &info.base_version);
	run.push = (struct ol_op){ .level = OL_LEVEL_COMMITTED };
	check_ok(ol_push(run.worker, grad, &info, &run.push));
	run.pushing = true;
}

static void pull_check(void)
{
	uint64_t version;
	const float *weights = ol_weights(run.worker, &version);

	check_ok(run.pull.status);
	check_eq(ol_applied_grads(run.worker, 0, 0), version);
	for (unsigned k = 0; k < LEN; k++)
		check_msg(weights[k] == weight_of(version, k),
			  "version %llu is not the sum of the first %llu pushes",
			  (unsigned long long)version, (unsigned long long)version);
	run.pulls++;
}

static void turn(void)
{
	uint64_t now_ns;

	check(ol_worker_poll(run.worker) >= 0);
	now_ns = ol_clock_ns();
	if (run.pushing && run.push.done) {
		check_ok(run.push.status);
		run.pushing = false;
		if (run.done_ns != 0 && now_ns - run.done_ns > run.stall_ns)
			run.stall_ns = now_ns - run.done_ns;
		run.done_ns = now_ns;
	}
	if (run.push.done)
		push_next();
	if (run.pull.done && run.pull.version > 0)
		pull_check();
	if (run.pull.done)
		check_ok(ol_pull(run.worker, 0, &run.pull));
}

static void turns(uint64_t until_ns)
{
	while (ol_clock_ns() < until_ns) {
		turn();
		poll(NULL, 0, TICK_MS);
	}
}

static void commits(uint64_t count)
{
	uint64_t to = run.pushed + count, since_ns = ol_clock_ns();

	while (run.pushed < to) {
		turn();
		check_msg(ol_clock_ns() - since_ns < WAIT_S * OL_NS_PER_S,
			  "push %llu is not committed", (unsigned long long)run.pushed);
	}
}

static bool is_whole(void)
{
	struct ol_chain_info info;

	check_ok(ol_chains_get(run.chains, 0, &info));
	return info.count == 2 && !info.joining;
}

static uint32_t epoch_now(void)
{
	struct ol_chain_info info;

	check_ok(ol_chains_get(run.chains, 0, &info));
	return info.epoch;
}

/* True: nobody lost its place */
static bool cut(unsigned ms)
{
	uint32_t epoch;
	uint64_t since_ns, healed_ns;

	commits(STEADY);
	epoch = epoch_now();
	run.stall_ns = 0;
	since_ns = lab_fault("cut", 1);
	turns(since_ns + ms * OL_NS_PER_MS);
	healed_ns = lab_fault("heal", 1);
	commits(STEADY);
	printf("cut of %u ms (%.0f ms): epoch %u then %u: %s; longest stall %.0f ms, %.0f ms after the "
	       "network was back\n",
	       ms, (double)(healed_ns - since_ns) / 1e6, epoch, epoch_now(),
	       epoch == epoch_now() ? "nobody evicted" : "EVICTED", (double)run.stall_ns / 1e6,
	       (double)run.stall_ns / 1e6 - (double)(healed_ns - since_ns) / 1e6);
	fflush(stdout);
	return epoch == epoch_now();
}

static int work(int count, char **cuts)
{
	unsigned evictions = 0;

	begin();
	while (!is_whole())
		turn();
	for (int i = 0; i < count; i++)
		evictions += !cut((unsigned)strtoul(cuts[i], NULL, 10));
	while (!run.push.done || !run.pull.done)
		check(ol_worker_poll(run.worker) >= 0);
	check_ok(run.push.status);
	pull_check();
	printf("%d cuts: %u evictions; %llu pushes, all committed once; %llu pulls, all bits right\n",
	       count, evictions, (unsigned long long)run.pushed, (unsigned long long)run.pulls);
	ol_chains_close(run.chains);
	ol_worker_close(run.worker);
	return evictions != 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "server") == 0)
		return serve();
	if (argc > 2 && strcmp(argv[1], "worker") == 0)
		return work(argc - 2, argv + 2);
	fprintf(stderr, "usage: link_cut server | worker MS...\n");
	return 2;
}
