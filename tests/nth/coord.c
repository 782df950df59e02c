/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord.c -- a session in a folder: join, propose, watch, leave
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "nth/scenarios.h"
#include "replication/coord/coord.h"
#include "support/check.h"
#include "support/job.h"
#include "wire/auth.h"

enum {
	SHARDS = 2,
	LEASE_MS = 1000,
};

static char key[] = "";
static char addr[OL_ADDR_MAX]; /* of the coordinator */
static char job_name[OL_COORD_JOB_MAX]; /* of this run */
static struct job job;

static void note(void *arg, const char *text)
{
	(void)arg;
	fprintf(stderr, "session: %s\n", text);
}

/*
 * agree -- until the member is listed and a view with it is in force; or patience ends
 *
 * A proposal may be lost with the connection that it was to go out on, and is made again then. Runs
 * are of one job: the view of the run before may be in force.
 */
static int agree(struct ol_coord *coord, const struct ol_member *member, unsigned attempt)
{
	uint64_t until_ns = ol_clock_ns() + nth_patience_ms(attempt) * OL_NS_PER_MS;
	struct ol_view view = {
		.shard_count = SHARDS, .wanted = 1, .count = 1, .replicas = { *member }
	};
	struct ol_coord_state state;

	for (;;) {
		ol_coord_look(coord, 1, &state);
		if (ol_view_find(&state.view, member->id) == 0 && state.member_count == 1)
			return 0;
		if (ol_clock_ns() > until_ns)
			return -ETIMEDOUT;
		view.epoch = view.founded = state.view.epoch + 1;
		view.history = member->id;
		view.origin = state.version != 0 ? state.view.origin : member->id;
		if (state.connected && ol_view_find(&state.view, member->id) < 0)
			ol_coord_propose(coord, 1, state.version, &view);
		poll(NULL, 0, 2);
	}
}

/* session -- the life of one; a status */
static int session(unsigned attempt, char text[RUN_TEXT_MAX])
{
	struct ol_coord_opts opts = { .addr = addr,
				      .job = job_name,
				      .shard_count = SHARDS,
				      .lease_ms = LEASE_MS,
				      .open_timeout_ms = nth_patience_ms(attempt),
				      .mac = ol_auth_coord_mac,
				      .owner_mac = ol_auth_coord_owner_mac,
				      .mac_arg = key,
				      .log = note };
	struct ol_member member = {
		.id = ((uint64_t)getpid() << 1) + attempt, .job = 3, .proto = 1, .addr = "@nowhere"
	};
	struct ol_coord *coord;
	int rc = ol_coord_open(&opts, &coord, text, RUN_TEXT_MAX);

	if (rc != 0)
		return rc;
	rc = ol_coord_join(coord, 1, &member);
	if (rc == 0)
		rc = agree(coord, &member, attempt);
	snprintf(text, RUN_TEXT_MAX, "%s", rc != 0 ? ol_status_str(rc) : "");
	ol_coord_close(coord);
	return rc;
}

static void session_start(void)
{
	memset(&job, 0, sizeof(job));
	job.views.fd = -1;
	job_views(&job);
	snprintf(addr, sizeof(addr), "%s", job.coordinator_addr);
}

static void session_end(void)
{
	job_stop(&job);
}

static void session_before(void)
{
	snprintf(job_name, sizeof(job_name), "run");
}

static int session_run(unsigned attempt, char text[RUN_TEXT_MAX])
{
	return session(attempt, text);
}

const struct run_scenario nth_coord_session = { .name = "coord-session",
						.start = session_start,
						.end = session_end,
						.before = session_before,
						.run = session_run };
