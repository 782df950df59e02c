/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * server.c -- `outlast bench server`: one server, or several in one process; only for chain.c
 *
 * It reports {"event": "ready", "address", "ready_ns"} or {"event": "failed", "status", "error"},
 * and its counters on request (cmd/control.h).
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/bench.h"
#include "cmd/cmd.h"
#include "cmd/control.h"
#include "cmd/counters.h"
#include "cmd/proc.h"

enum {
	HEARTBEATS = 5 /* in a lease, at least */
};

struct server_conf {
	const char *listen;
	const char *transport;
	const char *device;
	const char *job_key;
	const char *weights;
	const char *coordinator;
	const char *job;
	uint64_t bytes;
	double lr;
	uint32_t window;
	uint32_t spin_us;
	uint32_t replicas;
	uint32_t rank;
	uint32_t lease_ms;
	uint32_t threads;
	bool spin_yield;
	bool shared_domain;
};

static const struct ol_conf_field fields[] = {
	OL_ROW_STR(server_conf, listen, NULL,
		   "shm @NAME or a path, verbs HOST:PORT or oob:HOST:PORT"),
	OL_ROW_STR(server_conf, transport, NULL, "shm or verbs"),
	OL_ROW_STR(server_conf, device, NULL, "RDMA device"),
	OL_ROW_SECRET(server_conf, job_key, "secret of the job"),
	OL_ROW_U64(server_conf, bytes, "4", 4, 0, "of the weights"),
	OL_ROW_STR(server_conf, weights, NULL, "file of the first weights; without it all are 1"),
	OL_ROW_F64(server_conf, lr, "0", 0, 0, "learning rate"),
	OL_ROW_U32(server_conf, window, "1", 1, BENCH_WINDOW_MAX, "landing slots"),
	OL_ROW_U32(server_conf, spin_us, "0", 0, 0, "how long a wait spins"),
	OL_ROW_BOOL(server_conf, spin_yield, "false", "and lets others go first"),
	OL_ROW_BOOL(server_conf, shared_domain, "false", "one protection domain"),
	OL_ROW_STR(server_conf, coordinator, NULL, "of its chain; without it there is none"),
	OL_ROW_STR(server_conf, job, NULL, "name of the chain there"),
	OL_ROW_U32(server_conf, replicas, "1", 1, OL_CHAIN_MAX, "servers of the chain"),
	OL_ROW_U32(server_conf, rank, "0", 0, OL_CHAIN_MAX - 1, "its place among them"),
	OL_ROW_U32(server_conf, lease_ms, "5000", 1, 0, "of the chain"),
	OL_ROW_U32(server_conf, threads, "1", 1, OL_CHAIN_MAX, "servers in this process"),
};

/* The first weights; the caller frees them. NULL: no memory, or no such file */
static float *weights_make(const struct server_conf *set)
{
	float *weights = malloc(set->bytes);
	FILE *file = set->weights != NULL ? fopen(set->weights, "re") : NULL;
	bool whole = weights != NULL && set->weights == NULL;

	for (uint64_t i = 0; whole && i < set->bytes / sizeof(*weights); i++)
		weights[i] = 1.0f;
	if (weights != NULL && file != NULL)
		whole = fread(weights, 1, set->bytes, file) == set->bytes;
	if (file != NULL)
		fclose(file);
	if (whole)
		return weights;
	free(weights);
	return NULL;
}

static int server_open(const struct server_conf *set, struct ol_server **ret_server,
		       char err[BENCH_ERR_MAX])
{
	struct ol_server_opts opts;
	float *weights = weights_make(set);
	int rc;

	if (weights == NULL) {
		snprintf(err, BENCH_ERR_MAX, "no memory for the first weights, or no file of them");
		return -ENOMEM;
	}
	ol_server_opts_init(&opts);
	opts.listen = set->listen;
	opts.transport = set->transport;
	opts.device = set->device;
	opts.job_key = set->job_key;
	opts.param_count = set->bytes / sizeof(float);
	opts.workers_max = 1;
	opts.observers_max = 1;
	opts.window = set->window;
	opts.spin_us = set->spin_us;
	opts.spin_yield = set->spin_yield;
	opts.shared_domain = set->shared_domain;
	opts.rule.lr = (float)set->lr;
	opts.lease_ms = 0; /* no server takes over: it may stand still on a busy machine */
	if (set->coordinator != NULL) {
		opts.coordinator = set->coordinator;
		opts.job = set->job;
		opts.replicas = set->replicas;
		opts.rank = set->rank;
		opts.lease_ms = set->lease_ms;
		if (opts.heartbeat_ms > set->lease_ms / HEARTBEATS)
			opts.heartbeat_ms = set->lease_ms / HEARTBEATS;
	}
	rc = ol_server_open(&opts, weights, ret_server, err, BENCH_ERR_MAX);
	free(weights);
	return rc;
}

/* A server that shares the process: if it ends, all end */
static void *sharer_run(void *arg)
{
	const struct server_conf *set = arg;
	char err[BENCH_ERR_MAX] = "";
	struct ol_server *server;
	int rc = server_open(set, &server, err);

	if (rc == 0)
		rc = ol_server_run(server);
	fprintf(stderr, "server %u: %s\n", set->rank, err[0] != '\0' ? err : ol_strerror(rc));
	_exit(OL_EXIT_FAILED);
}

static int sharers_start(const struct server_conf *set)
{
	static struct server_conf sharers[OL_CHAIN_MAX];
	static char listen[OL_CHAIN_MAX][BENCH_ADDR_MAX];
	bool verbs = strcmp(set->transport, "verbs") == 0; /* verbs chooses the port */
	pthread_t thread;
	int rc = 0;

	for (uint32_t i = 1; i < set->threads && rc == 0; i++) {
		snprintf(listen[i], BENCH_ADDR_MAX, "%s-%u", set->listen, i);
		sharers[i] = *set;
		sharers[i].rank = set->rank + i;
		sharers[i].listen = verbs ? set->listen : listen[i];
		rc = -pthread_create(&thread, NULL, sharer_run, &sharers[i]);
	}
	return rc;
}

struct watch {
	struct ol_control control;
	struct ol_server *server;
};

/* The thread that takes orders for the server, until one ends it */
static void *watch_run(void *arg)
{
	struct watch *watch = arg;
	struct ol_control *control = &watch->control;
	struct ol_server_stat stat;

	while (!control->quit && control->signal == 0) {
		ol_control_poll(control, -1);
		if (!control->stat)
			continue;
		control->stat = false;
		ol_server_get_stat(watch->server, &stat);
		ol_control_say(control, "stat", ol_counters_json(&stat));
	}
	ol_server_stop(watch->server);
	return NULL;
}

static int serve(const struct server_conf *set)
{
	char err[BENCH_ERR_MAX] = "";
	struct watch watch;
	pthread_t thread;
	int rc = ol_control_init(&watch.control, OL_PROC_FD);

	if (rc != 0)
		return rc;
	rc = server_open(set, &watch.server, err);
	if (rc == 0)
		rc = sharers_start(set);
	if (rc == 0)
		rc = -pthread_create(&thread, NULL, watch_run, &watch);
	if (rc != 0) {
		ol_control_say(&watch.control, "failed",
			       json_pack("{s:i, s:s}", "status", rc, "error",
					 err[0] != '\0' ? err : ol_strerror(rc)));
		return rc;
	}
	ol_control_say(&watch.control, "ready",
		       json_pack("{s:s, s:I}", "address", ol_server_addr(watch.server), "ready_ns",
				 (json_int_t)ol_clock_ns()));
	rc = ol_server_run(watch.server);
	if (rc != 0)
		return rc; /* the thread waits for an order, and ends with the process */
	pthread_join(thread, NULL);
	ol_server_close(watch.server);
	ol_control_fini(&watch.control);
	return 0;
}

int bench_server(int argc, char **argv)
{
	struct ol_settings settings = { .cmd = "bench server",
					.spec = { .program = "outlast bench server",
						  .purpose = "A server of a measurement." } };
	struct server_conf set;
	int code;

	ol_settings_add(&settings, (struct ol_rows){ OL_FIELDS(fields) }, 0);
	if (ol_settings_load(&settings, &set, argc, argv, &code))
		code = ol_cmd_exit_of(serve(&set));
	ol_settings_fini(&settings);
	return code;
}
