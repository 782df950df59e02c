/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * pin.c -- a version that a reader has pinned stays whole during updates, for pin_timeout_ms;
 * without the pin it is overwritten, and the version line shows it
 */

#include <stdio.h>
#include <string.h>

#include "support/check.h"
#include "support/peer.h"

enum {
	LEN = 64,
	PUSHES = 20,
	PIN_MS = 60000 /* longer than the test: a pin ends when the reader takes it away */
};

static struct ol_version_line line_read(struct peer *peer)
{
	struct ol_version_line line;

	memcpy(&line, peer_read(peer, OL_BOARD_LINE_OFF, sizeof(line)), sizeof(line));
	return line;
}

static float weight_read(struct peer *peer, uint32_t snapshot)
{
	const struct ol_geometry *geo = &peer->accept.geo;
	uint64_t off = ol_layout_snapshot_off(geo, snapshot) + ol_layout_table_bytes(geo);
	float weight;

	memcpy(&weight, peer_read(peer, off, sizeof(weight)), sizeof(weight));
	return weight;
}

static void push_some(struct ol_worker *worker)
{
	for (int i = 0; i < PUSHES; i++)
		check_ok(job_push(worker, 1.0f));
}

static int look(const struct job *job, long unused)
{
	struct ol_worker *worker = job_worker(job, 0);
	struct ol_version_line line;
	struct peer peer;
	uint32_t snapshot;
	uint64_t version;

	(void)unused;
	peer_observe(&peer, job);
	push_some(worker);
	line = line_read(&peer);
	version = ol_published_version(line.published);
	snapshot = ol_published_snapshot(line.published);
	check_eq(version, PUSHES);
	peer_pin(&peer, version + 1);
	push_some(worker);
	line = line_read(&peer);
	check_eq(ol_published_version(line.published), 2 * PUSHES);
	check_eq(line.begin[snapshot], version + 1);
	check_eq(line.end[snapshot], version + 1);
	check(weight_read(&peer, snapshot) == -(float)PUSHES);

	peer_pin(&peer, 0);
	push_some(worker);
	line = line_read(&peer);
	check(line.begin[snapshot] > version + 1);
	check(weight_read(&peer, snapshot) != -(float)PUSHES);
	peer_close(&peer);
	ol_worker_close(worker);
	return 0;
}

int main(void)
{
	struct ol_server_opts opts;
	struct job job;

	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.window = JOB_WINDOW;
	opts.param_count = LEN;
	opts.rule.lr = 1.0f;
	opts.pin_timeout_ms = PIN_MS;
	job_start(&job, opts, 0.0f);
	job_join(job_fork(look, &job, 0));
	job_stop(&job);
	return 0;
}
