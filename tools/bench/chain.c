/* SPDX-License-Identifier: BSD-3-Clause */

/* chain.c -- server processes on this machine: a single one, or a chain with its coordinator */

#include "bench/chain.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/counters.h"

enum {
	OPEN_MS = 10000, /* timeout of reaching a coordinator */
	WHOLE_MS = 60000, /* timeout of a chain becoming whole */
	LOOK_MS = 1,
	WINDOW_BYTES_MAX = 256 << 20
};

uint32_t bench_window(uint32_t wanted, uint64_t bytes)
{
	uint64_t fits = WINDOW_BYTES_MAX / bytes;

	if (fits < wanted)
		wanted = (uint32_t)fits;
	if (wanted > BENCH_WINDOW_MAX)
		wanted = BENCH_WINDOW_MAX;
	return wanted > 0 ? wanted : 1;
}

int bench_chain_start(const struct bench_opts *opts, const int cpus[OL_CHAIN_MAX],
		      struct bench_chain *ret_chain, char err[BENCH_ERR_MAX])
{
	int rc = 0;

	*ret_chain = (struct bench_chain){ .opts = *opts, .cpus = cpus, .folder = { .fd = -1 } };
	if (opts->coordinator != NULL) {
		snprintf(ret_chain->coordinator, BENCH_ADDR_MAX, "%s", opts->coordinator);
	} else if (cpus != NULL) {
		rc = ol_folder_make(&ret_chain->folder, "outlast-bench-");
		snprintf(ret_chain->coordinator, BENCH_ADDR_MAX, "dir:%s", ret_chain->folder.path);
	}
	if (rc != 0)
		snprintf(err, BENCH_ERR_MAX, "cannot make a folder for views of chains");
	return rc;
}

void bench_chain_stop(struct bench_chain *chain)
{
	if (chain->opts.transport == NULL) /* it was never started */
		return;
	ol_chains_close(chain->views);
	for (uint32_t i = 0; i < OL_CHAIN_MAX; i++)
		ol_proc_fini(&chain->servers[i].proc);
	ol_folder_drop(&chain->folder);
	*chain = (struct bench_chain){ 0 };
}

struct bench_opts bench_chain_opts(const struct bench_chain *chain)
{
	struct bench_opts opts = chain->opts;

	opts.coordinator = opts.replicas > 0 ? chain->coordinator : NULL;
	opts.job = chain->job;
	return opts;
}

static void args_add(const struct bench_chain *chain, uint32_t index, struct ol_args *args)
{
	const struct bench_opts *opts = &chain->opts;
	bool verbs = strcmp(opts->transport, "verbs") == 0;

	ol_args_add(args, "outlast");
	ol_args_add(args, "bench");
	ol_args_add(args, "server");
	if (opts->replicas == 0 || verbs)
		ol_args_add(args, "--listen=%s", opts->listen);
	else
		ol_args_add(args, "--listen=%s-%u-%u", opts->listen, index, chain->generation);
	ol_args_add(args, "--transport=%s", opts->transport);
	if (opts->device != NULL)
		ol_args_add(args, "--device=%s", opts->device);
	ol_args_add(args, "--bytes=%" PRIu64, chain->bytes);
	ol_args_add(args, "--window=%u", chain->window);
	ol_args_add(args, "--lr=%.9g", (double)opts->lr);
	if (opts->weights != NULL)
		ol_args_add(args, "--weights=%s", opts->weights);
	ol_args_add(args, "--spin-us=%u", opts->spin_us);
	ol_args_add(args, "--spin-yield=%s", opts->spin_yield ? "true" : "false");
	ol_args_add(args, "--shared-domain=%s", opts->shared_domain ? "true" : "false");
	if (opts->replicas == 0)
		return;
	ol_args_add(args, "--coordinator=%s", chain->coordinator);
	ol_args_add(args, "--job=%s", chain->job);
	ol_args_add(args, "--replicas=%u", opts->replicas);
	ol_args_add(args, "--rank=%u", index);
	ol_args_add(args, "--lease-ms=%u", opts->lease_ms);
	ol_args_add(args, "--threads=%u", chain->threads ? opts->replicas : 1);
}

int bench_chain_server_start(struct bench_chain *chain, uint32_t index, char err[BENCH_ERR_MAX])
{
	const struct bench_opts *opts = &chain->opts;
	struct bench_server *server = &chain->servers[index];
	struct ol_args args = { 0 };
	char name[16];
	int rc;

	chain->generation++;
	server->addr[0] = '\0';
	snprintf(name, sizeof(name), "server %u", index);
	args_add(chain, index, &args);
	/* a child inherits the processor of this thread */
	rc = bench_pin(chain->cpus != NULL ? chain->cpus[index] : opts->pins.server);
	if (rc == 0)
		rc = ol_proc_spawn(&server->proc, name, &args,
				   opts->job_key != NULL ? opts->job_key : "");
	if (rc == 0)
		rc = bench_pin(opts->pins.client);
	ol_args_free(&args);
	if (rc != 0)
		snprintf(err, BENCH_ERR_MAX, "cannot start a server: %s", ol_strerror(rc));
	return rc;
}

/* Its next message, for the caller to release. NULL: none yet (with wait: it has ended) */
static json_t *said(struct ol_proc *proc, bool wait)
{
	json_t *message = ol_proc_read(proc);

	while (message == NULL && wait && proc->pid != 0 && proc->fd >= 0) {
		struct pollfd fd = { .fd = proc->fd, .events = POLLIN };

		(void)poll(&fd, 1, -1);
		message = ol_proc_read(proc);
	}
	return message;
}

int bench_chain_server_ready(struct bench_chain *chain, uint32_t index, bool wait,
			     char err[BENCH_ERR_MAX])
{
	struct bench_server *server = &chain->servers[index];
	const char *addr, *error = "a server process ended unexpectedly";
	json_t *message;
	int rc = OL_E_NO_SERVER;

	if (server->addr[0] != '\0')
		return 0;
	message = said(&server->proc, wait);
	if (message == NULL && server->proc.fd >= 0)
		return -EAGAIN;
	addr = json_string_value(json_object_get(message, "address"));
	if (addr != NULL) {
		snprintf(server->addr, sizeof(server->addr), "%s", addr);
		server->ready_ns =
			(uint64_t)json_integer_value(json_object_get(message, "ready_ns"));
		rc = 0;
	} else {
		(void)json_unpack(message, "{s:i, s:s}", "status", &rc, "error", &error);
		snprintf(err, BENCH_ERR_MAX, "%s", error);
	}
	json_decref(message);
	return rc;
}

bool bench_chain_server_gone(struct bench_chain *chain, uint32_t index)
{
	(void)ol_proc_reap(&chain->servers[index].proc);
	return !ol_proc_lives(&chain->servers[index].proc);
}

int bench_chain_server_stat(struct bench_chain *chain, uint32_t index,
			    struct ol_server_stat *ret_stat)
{
	struct ol_proc *proc = &chain->servers[index].proc;
	json_t *message;

	if (!ol_proc_lives(proc))
		return OL_E_NO_SERVER;
	ol_proc_order(proc, "stat");
	message = said(proc, true);
	if (message == NULL)
		return OL_E_NO_SERVER;
	ol_counters_take(message, ret_stat);
	json_decref(message);
	return 0;
}

struct ol_chain_info bench_chain_info(const struct bench_chain *chain)
{
	struct ol_chain_info info = { 0 };

	(void)ol_chains_get(chain->views, 0, &info);
	return info;
}

bool bench_chain_whole(const struct bench_chain *chain)
{
	struct ol_chain_info info = bench_chain_info(chain);

	return info.epoch != 0 && info.count == chain->opts.replicas && info.joining == 0;
}

int bench_chain_at(const struct bench_chain *chain, const struct ol_chain_info *info,
		   uint32_t place)
{
	for (int i = 0; i < OL_CHAIN_MAX; i++) {
		if (chain->servers[i].proc.pid != 0 &&
		    strcmp(chain->servers[i].addr, info->addrs[place]) == 0)
			return i;
	}
	return -1;
}

/* Wait until the chain is whole, as long as all servers live */
static int whole_wait(struct bench_chain *chain, char err[BENCH_ERR_MAX])
{
	uint64_t bound_ns = ol_clock_ns() + WHOLE_MS * OL_NS_PER_MS;

	while (!bench_chain_whole(chain)) {
		if (ol_clock_ns() >= bound_ns) {
			snprintf(err, BENCH_ERR_MAX,
				 "the chain of %u servers did not come together within %d s",
				 chain->opts.replicas, WHOLE_MS / 1000);
			return OL_E_NO_SERVER;
		}
		if (bench_chain_server_gone(chain, 0)) {
			snprintf(err, BENCH_ERR_MAX, "a server ended unexpectedly");
			return OL_E_NO_SERVER;
		}
		poll(NULL, 0, LOOK_MS);
	}
	return 0;
}

int bench_chain_open(struct bench_chain *chain, uint32_t replicas, uint64_t bytes, uint32_t window,
		     char err[BENCH_ERR_MAX])
{
	uint32_t processes = chain->threads || replicas == 0 ? 1 : replicas;
	char ignored[BENCH_ERR_MAX];
	int rc = 0;

	chain->opts.replicas = replicas;
	chain->bytes = bytes;
	chain->window = window;
	snprintf(chain->job, sizeof(chain->job), "bench-%d-%u", (int)getpid(), chain->jobs++);
	for (uint32_t i = 0; i < processes && rc == 0; i++) {
		rc = bench_chain_server_start(chain, i, err);
		if (rc == 0)
			rc = bench_chain_server_ready(chain, i, true, err);
	}
	if (rc == 0 && replicas > 0)
		rc = ol_chains_open(chain->coordinator, chain->job, chain->opts.job_key, 1, OPEN_MS,
				    &chain->views, err, BENCH_ERR_MAX);
	if (rc == 0 && replicas > 0)
		rc = whole_wait(chain, err);
	if (rc != 0)
		(void)bench_chain_close(chain, ignored);
	return rc;
}

int bench_chain_close(struct bench_chain *chain, char err[BENCH_ERR_MAX])
{
	struct ol_proc *single = &chain->servers[0].proc;
	char how[64];
	int rc = 0;

	ol_chains_close(chain->views);
	chain->views = NULL;
	if (chain->opts.replicas == 0 && single->pid != 0) {
		ol_proc_order(single, "quit");
		ol_proc_wait(single);
		ol_proc_exit_text(single, how, sizeof(how));
		if (ol_proc_failed(single)) {
			snprintf(err, BENCH_ERR_MAX, "the server %s", how);
			rc = OL_E_NO_SERVER;
		}
	}
	/* SIGKILL for replicas, so that a stopped one ends too */
	for (uint32_t i = 0; i < OL_CHAIN_MAX; i++)
		ol_proc_fini(&chain->servers[i].proc);
	return rc;
}
