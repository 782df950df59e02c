/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * server.c -- a server from open to close, with a worker that connects, pushes, pulls and leaves
 *
 * With checkpoints it begins from one, and writes another.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "nth/frame/peers.h"
#include "nth/frame/warm.h"
#include "nth/scenarios.h"
#include "support/check.h"
#include "support/job.h"

enum {
	PARAMS = 3000,
	WORKERS = 2,
	VERSION = 5, /* of the checkpoint that is there */
};

static float weights[PARAMS];
static struct ol_server *running;
static struct ol_server_stat counters; /* of the last one that was there */
static char dir[160];
static const char *transport; /* found before anything fails: without it there is nothing to test */

static void stop(void)
{
	if (running != NULL)
		ol_server_stop(running);
}

/* push_pull -- what a worker does in its life; a status */
static int push_pull(struct ol_worker *worker)
{
	struct ol_push_info info = { .samples = 1 };
	struct ol_op op = { .level = OL_LEVEL_APPLIED };
	float *grad;
	int rc = ol_pull(worker, 0, &op);

	if (rc == 0)
		rc = ol_worker_wait(worker, &op);
	if (rc == 0)
		rc = ol_grad_try_acquire(worker, &grad);
	if (rc != 0)
		return rc;
	for (unsigned i = 0; i < PARAMS; i++)
		grad[i] = 1.0f;
	op = (struct ol_op){ .level = OL_LEVEL_APPLIED };
	rc = ol_push(worker, grad, &info, &op);
	return rc == 0 ? ol_worker_wait(worker, &op) : rc;
}

static int peer(const char *addr, unsigned attempt)
{
	struct ol_worker_opts opts;
	struct ol_worker *worker;
	char err[RUN_TEXT_MAX] = "";
	int rc;

	ol_worker_opts_init(&opts);
	opts.servers = addr;
	opts.transport = transport;
	opts.connect_timeout_ms = opts.op_timeout_ms = nth_patience_ms(attempt);
	rc = ol_worker_open(&opts, &worker, err, sizeof(err));
	if (rc == 0) {
		rc = push_pull(worker);
		ol_worker_close(worker);
	}
	if (rc != 0)
		fprintf(stderr, "worker of attempt %u: %s %s\n", attempt, ol_status_str(rc), err);
	return rc;
}

static void before(void)
{
	transport = job_transport();
	peers_start(peer, stop);
	warm_transport();
}

static int serve(struct ol_server_opts *opts, unsigned attempt, char text[RUN_TEXT_MAX])
{
	struct ol_server *server;
	const char *host = getenv("OL_ADDR");
	char listen[OL_ADDR_MAX];
	int rc;

	opts->transport = transport;
	opts->param_count = PARAMS;
	opts->workers_max = WORKERS;
	if (strcmp(opts->transport, "shm") == 0)
		snprintf(listen, sizeof(listen), "@nth-%d-%u", (int)getpid(), attempt);
	else
		snprintf(listen, sizeof(listen), "%s:0", host != NULL ? host : "0.0.0.0");
	opts->listen = listen;
	rc = ol_server_open(opts, weights, &server, text, RUN_TEXT_MAX);
	if (rc != 0)
		return rc;
	running = server;
	peers_tell(attempt, ol_server_addr(server));
	rc = ol_server_run(server);
	running = NULL;
	ol_server_get_stat(server, &counters);
	snprintf(text, RUN_TEXT_MAX, "%s", rc != 0 ? ol_status_str(rc) : "");
	ol_server_close(server);
	return rc;
}

static int run(unsigned attempt, char text[RUN_TEXT_MAX])
{
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	return serve(&opts, attempt, text);
}

/* There is a checkpoint: the server begins with it, or does not begin */
static void checkpoint_before(void)
{
	static uint8_t content[1 << 16];
	struct ol_ckpt_meta meta = {
		.geo = { .param_count = PARAMS,
			 .shard_len = PARAMS,
			 .shard_count = 1,
			 .workers_max = WORKERS,
			 .window = 2,
			 .groups = 1,
			 .consistency = OL_CONSISTENCY_ASYNC },
		.version = VERSION,
		.epoch = 1,
		.optimizer = OL_OPTIMIZER_SGD,
	};
	char err[RUN_TEXT_MAX];

	snprintf(dir, sizeof(dir), "%s/server-%d", run_folder(), (int)getpid());
	check_ok(mkdir(dir, 0777));
	check(ol_layout_content_bytes(&meta.geo) <= sizeof(content));
	check_ok(ol_ckpt_write(dir, &meta, content, 1, err, sizeof(err)));
	before();
}

static int checkpoint_run(unsigned attempt, char text[RUN_TEXT_MAX])
{
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.checkpoint_dir = dir;
	opts.checkpoint_steps = 1;
	opts.restore = OL_RESTORE_FRESHEST;
	opts.restore_wait_ms = 50;
	counters.version = VERSION;
	return serve(&opts, attempt, text);
}

static void checkpoint_after(unsigned attempt, int status)
{
	peers_wait(attempt);
	if (status == 0 && counters.ready_ns != 0 && counters.version < VERSION)
		run_wrong("it served version %ju, there was a checkpoint of %d",
			  (uintmax_t)counters.version, VERSION);
}

static void after(unsigned attempt, int status)
{
	(void)status;
	peers_wait(attempt);
}

const struct run_scenario nth_server = {
	.name = "server", .before = before, .run = run, .after = after
};
const struct run_scenario nth_server_checkpoint = { .name = "server-checkpoint",
						    .before = checkpoint_before,
						    .run = checkpoint_run,
						    .after = checkpoint_after };
