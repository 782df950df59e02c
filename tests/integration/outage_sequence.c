/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outage_sequence.c -- when servers are lost one after the other, each with a gradient that only it
 * has, a worker goes on whatever buffers they hold, and in the end every gradient is in the weights
 * once. OL_TRANSPORT shm or verbs
 */

#include <errno.h>

#include "support/check.h"
#include "support/stage.h"

enum {
	SHARDS = 3,
	LEN = 3 * 2000,
	WINDOW = 2,
	WITHOUT = 20 /* gradients */
};

/* One more gradient, computed at what there is; buffers come back by polls and pulls */
static void push(struct ol_worker *worker, uint64_t *pushed)
{
	struct ol_op op = { .level = OL_LEVEL_APPLIED };
	int rc;

	while ((rc = job_push_start(worker, 1.0f, &op)) == -EAGAIN || rc == -ENOBUFS) {
		if (rc == -ENOBUFS)
			check_ok(job_pull(worker, 0));
		check(ol_worker_poll(worker) >= 0);
	}
	check_ok(rc);
	check_ok(stage_done(worker, &op));
	(*pushed)++;
}

static void lose(struct ol_worker *worker, uint32_t shard, uint64_t *pushed)
{
	push(worker, pushed); /* in no mirror: it keeps its buffer */
	stage_kill(shard);
	stage_down(worker, shard);
}

static int story(const struct job *job, long id)
{
	struct ol_worker_opts opts;
	struct ol_worker *worker;
	uint64_t pushed = 0;

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.outage = OL_OUTAGE_CONTINUE;
	worker = job_worker_with(job, (int)id, opts);
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	for (uint32_t all = 0; all < 2; all++) {
		for (uint32_t i = 0; i + 1 < SHARDS + all; i++)
			lose(worker, i, &pushed);
		for (uint32_t i = 0; i < WITHOUT; i++) {
			check_ok(job_pull(worker, 0));
			push(worker, &pushed);
		}
		for (uint32_t i = 0; i + 1 < SHARDS + all; i++)
			stage_restart(i, OL_RESTORE_MIRROR);
		for (uint32_t i = 0; i < SHARDS; i++)
			stage_up(worker, i);
		stage_flush(worker);
		for (uint32_t i = 0; i < SHARDS; i++) {
			struct ol_link_stat stat = stage_stat(worker, i);

			check(stat.applied == pushed && stat.lost == 0 && stat.pending == 0);
			check_eq(ol_applied_grads(worker, i, (uint32_t)id), pushed);
		}
	}
	ol_worker_close(worker);
	return 0;
}

int main(void)
{
	struct ol_server_opts opts;

	setvbuf(stdout, NULL, _IOLBF, 0);
	job_transport();
	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.param_count = LEN;
	opts.shard_count = SHARDS;
	opts.window = WINDOW;
	stage_play(opts, 100.0f, 1, story, "servers that go one after the other hold up nobody");
	return 0;
}
