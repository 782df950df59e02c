/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * pin_hog.c -- two observers that pin both older snapshots all the time do not stop training
 *
 * In turn each pins the newest version, and holds it for almost pin_timeout_ms. So a step finds a snapshot
 * that nobody holds only when one of them moves on.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "support/check.h"
#include "support/peer.h"

enum {
	LEN = 64,
	PIN_MS = 200,
	HOLD_MS = 90, /* two of them are less than PIN_MS */
	HOG_S = 8,
	PUSHES_MIN = 100 * HOG_S, /* without a quota there are 22 a second */
};

static int hog(const struct job *job, long unused)
{
	const uint64_t end_ns = ol_clock_ns() + HOG_S * OL_NS_PER_S;
	struct ol_version_line line;
	struct ol_xport_event event;
	struct peer peers[2];
	uint64_t hold_ns;

	(void)unused;
	peer_observe(&peers[0], job);
	peer_observe(&peers[1], job);
	for (unsigned i = 0; ol_clock_ns() < end_ns; i++) {
		struct peer *peer = &peers[i % 2];

		memcpy(&line, peer_read(peer, OL_BOARD_LINE_OFF, sizeof(line)), sizeof(line));
		peer_pin(peer, ol_published_version(line.published) + 1);
		hold_ns = ol_clock_ns() + HOLD_MS * OL_NS_PER_MS;
		while (ol_clock_ns() < hold_ns)
			check_eq(peer->ops->poll(peer->xport, &event, 1), 0);
	}
	peer_close(&peers[1]);
	peer_close(&peers[0]);
	return 0;
}

static int train(const struct job *job, long unused)
{
	const uint64_t end_ns = ol_clock_ns() + HOG_S * OL_NS_PER_S;
	struct ol_worker *worker = job_worker(job, 0);
	unsigned pushes = 0;

	(void)unused;
	for (; ol_clock_ns() < end_ns; pushes++)
		check_ok(job_push(worker, 1.0f));
	printf("note: %u pushes in %d s\n", pushes, HOG_S);
	check(pushes >= PUSHES_MIN);
	ol_worker_close(worker);
	return 0;
}

int main(void)
{
	struct ol_server_opts opts;
	pid_t processes[2];
	struct job job;

	setvbuf(stdout, NULL, _IOLBF, 0);
	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.window = JOB_WINDOW;
	opts.param_count = LEN;
	opts.rule.lr = 1.0f;
	opts.pin_timeout_ms = PIN_MS;
	job_start(&job, opts, 0.0f);
	processes[0] = job_fork(hog, &job, 0);
	processes[1] = job_fork(train, &job, 0);
	job_join(processes[1]);
	job_join(processes[0]);
	job_stop(&job);
	return 0;
}
