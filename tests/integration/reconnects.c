/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * reconnects.c -- a worker that connects again registers no large memory for it, though the server
 * restores itself from its mirror: real processes, OL_TRANSPORT shm or verbs
 *
 * The test stands between the worker and its transport: the linker sends ol_xport_find() here. It
 * takes shm for a transport whose regions nobody sees who is not told of them.
 */

#include <string.h>

#include "rdma/transport.h"
#include "support/check.h"
#include "support/stage.h"
#include "support/wrap.h"

enum {
	LEN = 300000, /* two shards, 1.2 MB */
	OUTAGES = 3,
};

static struct {
	const struct ol_xport_ops *real;
	struct ol_xport_ops ops;
	unsigned large; /* registrations of a shard's size or more */
	unsigned all;
} seam;

static int seam_reg(struct ol_xport *xport, struct ol_xport_conn *conn, struct ol_slab *slab,
		    size_t off, size_t bytes, unsigned access, struct ol_xport_region **ret_region)
{
	seam.all++;
	seam.large += bytes >= LEN / 2 * sizeof(float);
	return seam.real->reg(xport, conn, slab, off, bytes, access, ret_region);
}

static void seam_query(const struct ol_xport *xport, struct ol_xport_caps *ret_caps)
{
	seam.real->query(xport, ret_caps);
	ret_caps->announces = 0;
}

WRAP(const struct ol_xport_ops *, ol_xport_find, const char *name)
{
	seam.real = __real_ol_xport_find(name);
	if (seam.real == NULL)
		return NULL;
	seam.ops = *seam.real;
	seam.ops.reg = seam_reg;
	seam.ops.query = seam_query;
	return &seam.ops;
}

static struct ol_server_opts server_opts(void)
{
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.window = JOB_WINDOW;
	opts.param_count = LEN;
	opts.shard_count = 2;
	opts.rule.lr = 0.5f;
	opts.lease_ms = 0; /* deaths are what this is about; a paused server is none yet */
	return opts;
}

static void step(struct ol_worker *worker)
{
	struct ol_op push = { 0 }, pull = { 0 };

	check_ok(stage_push(worker, 1.0f, &push));
	check_ok(stage_done(worker, &push));
	check_ok(ol_pull(worker, OL_PULL_NEWEST, &pull));
	check_ok(stage_done(worker, &pull));
}

static int story(const struct job *job, long id)
{
	struct ol_worker_opts opts;
	struct ol_worker *worker;
	unsigned before, large;

	ol_worker_opts_init(&opts);
	opts.outage = OL_OUTAGE_WAIT;
	opts.lease_ms = 0;
	worker = job_worker_with(job, (int)id, opts);
	step(worker);
	check(seam.large >= 1); /* the mirror itself: what is counted is seen */
	large = seam.large;
	before = seam.all;
	for (unsigned i = 0; i < OUTAGES; i++) {
		for (uint32_t s = 0; s < job->shard_count; s++) {
			stage_kill(s);
			stage_restart(s, OL_RESTORE_MIRROR);
		}
		for (uint32_t s = 0; s < job->shard_count; s++)
			stage_down(worker, s);
		for (uint32_t s = 0; s < job->shard_count; s++)
			stage_up(worker, s);
		step(worker);
	}
	check(ol_weights(worker, NULL)[0] == 100.0f - 0.5f * (1 + OUTAGES));
	check(ol_weights(worker, NULL)[LEN - 1] == 100.0f - 0.5f * (1 + OUTAGES));
	check(seam.all > before); /* a new mailbox each time */
	check_eq(seam.large, large);
	ol_worker_close(worker);
	return 0;
}

int main(void)
{
	stage_play(server_opts(), 100.0f, 1, story, "a worker that connects again");
	return 0;
}
