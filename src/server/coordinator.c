/* SPDX-License-Identifier: BSD-3-Clause */

/* coordinator.c -- what people ask of a coordinator, as holders of a job's key */

#include "server/coordinator.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/key.h"
#include "replication/coord/lease.h"
#include "wire/auth.h"

enum {
	LOOK_MS = 50 /* between two looks at a chain that an order changes */
};

/* The question with the proofs of a key that it copies, as the macs' argument is not const; 0 or -EINVAL with a
 * line */
static int ask_make(const struct ol_coordinator *coordinator, char key[OL_JOB_KEY_MAX],
		    struct ol_coord_ask *ret_ask, char *err, size_t err_bytes)
{
	static char none[] = "";
	const char *fault = ol_key_fault(coordinator->job_key);

	if (fault != NULL) {
		snprintf(err, err_bytes, "%s", fault);
		return -EINVAL;
	}
	snprintf(key, OL_JOB_KEY_MAX, "%s",
		 coordinator->job_key != NULL ? coordinator->job_key : "");
	*ret_ask = (struct ol_coord_ask){ .addr = coordinator->addr,
					  .job = coordinator->job,
					  .timeout_ms = coordinator->timeout_ms,
					  .mac = ol_auth_coord_mac, /* an empty key is a key too */
					  .owner_mac = ol_auth_coord_owner_mac,
					  .mac_arg = key,
					  .keyless_arg = none };
	return 0;
}

int ol_coordinator_list(const struct ol_coordinator *coordinator, ol_kept_fn *tell, void *arg,
			char *err, size_t err_bytes)
{
	char key[OL_JOB_KEY_MAX];
	struct ol_coord_ask ask;
	int rc = ask_make(coordinator, key, &ask, err, err_bytes);

	if (rc == 0)
		rc = ol_coord_list(&ask, tell, arg, err, err_bytes);
	explicit_bzero(key, sizeof(key));
	return rc;
}

int ol_coordinator_remove(const struct ol_coordinator *coordinator, char *err, size_t err_bytes)
{
	char key[OL_JOB_KEY_MAX];
	struct ol_coord_ask ask;
	int rc = ask_make(coordinator, key, &ask, err, err_bytes);

	if (rc == 0)
		rc = ol_coord_remove(&ask, err, err_bytes);
	explicit_bzero(key, sizeof(key));
	return rc;
}

int ol_coordinator_make_root(const struct ol_coordinator *coordinator, char *err, size_t err_bytes)
{
	char key[OL_JOB_KEY_MAX];
	struct ol_coord_ask ask;
	int rc = ask_make(coordinator, key, &ask, err, err_bytes);

	ask.job = NULL;
	if (rc == 0)
		rc = ol_coord_make_root(&ask, err, err_bytes);
	explicit_bzero(key, sizeof(key));
	return rc;
}

int ol_coordinator_examine(const struct ol_coordinator *coordinator, uint32_t lease_ms,
			   uint32_t rounds, ol_coord_finding_fn *tell, void *arg, char *err,
			   size_t err_bytes)
{
	char key[OL_JOB_KEY_MAX];
	struct ol_coord_ask ask;
	int rc = ask_make(coordinator, key, &ask, err, err_bytes);

	if (rc == 0)
		rc = ol_coord_examine(&ask, lease_ms, rounds, tell, arg, err, err_bytes);
	explicit_bzero(key, sizeof(key));
	return rc;
}

/* May this key's holder change views? 0 or -EACCES with a line */
static int owner_check(const struct ol_coord_ask *ask, char *err, size_t err_bytes)
{
	uint8_t mac[OL_COORD_MAC_BYTES];

	if (ask->owner_mac(ask->mac_arg, "", 0, mac) == 0)
		return 0;
	snprintf(err, err_bytes,
		 "this is a worker's credential: the job's key itself can change its chains");
	return -EACCES;
}

static const char *order_fault(int rc)
{
	switch (rc) {
	case -EBUSY:
		return "no other full replica of the shard is alive: nothing would be left of it";
	case -ENOENT:
		return "no such server waits for the shard";
	case -EPERM:
		return "that server is of another job or build, and cannot join the shard's chain";
	case -ERANGE:
		return "the chain has as many replicas as it wants";
	default:
		return "a chain has 1 to 8 replicas";
	}
}

/* Make the order part of the view; *stands: it is. 0 or a code with a line */
static int order_go_on(struct ol_coord *coord, uint32_t shard, const struct ol_coord_state *state,
		       const struct ol_view_order *order, uint64_t *proposed, bool *stands,
		       char *err, size_t err_bytes)
{
	struct ol_view next;
	int rc = ol_view_ordered(&state->view, order, state->members, state->member_count, &next);

	if (rc == -EALREADY)
		*stands = true;
	else if (rc == 0 && *proposed != state->version)
		ol_coord_propose(coord, shard, *proposed = state->version, &next);
	else if (rc != 0 && rc != -EAGAIN) /* who joins will have joined */
		snprintf(err, err_bytes, "%s", order_fault(rc));
	return rc == -EALREADY || rc == -EAGAIN ? 0 : rc;
}

int ol_coordinator_order(const struct ol_coordinator *coordinator, uint32_t shard_count,
			 uint32_t shard, const struct ol_view_order *order, uint32_t wait_ms,
			 ol_coordinator_done_fn *done, void *arg, bool *ret_stands, char *err,
			 size_t err_bytes)
{
	char key[OL_JOB_KEY_MAX];
	struct ol_coord_ask ask;
	struct ol_coord_state state;
	struct ol_coord *coord = NULL;
	uint64_t end_ns, proposed = 0;
	int rc = ask_make(coordinator, key, &ask, err, err_bytes);

	*ret_stands = false;
	if (rc == 0)
		rc = owner_check(&ask, err, err_bytes);
	if (rc == 0) {
		const struct ol_coord_opts opts = { .addr = ask.addr,
						    .job = ask.job,
						    .shard_count = shard_count,
						    .watched = (uint64_t)1 << shard,
						    .lease_ms = OL_LEASE_WATCHER_MS,
						    .open_timeout_ms = ask.timeout_ms,
						    .mac = ask.mac,
						    .owner_mac = ask.owner_mac,
						    .mac_arg = ask.mac_arg,
						    .keyless = key[0] == '\0' };

		rc = ol_coord_open(&opts, &coord, err, err_bytes);
	}
	end_ns = ol_clock_ns() + wait_ms * OL_NS_PER_MS;
	while (rc == 0) {
		ol_coord_look(coord, shard, &state);
		if (state.connected && state.version != 0 && !*ret_stands)
			rc = order_go_on(coord, shard, &state, order, &proposed, ret_stands, err,
					 err_bytes);
		if (rc != 0 || (*ret_stands && state.connected && done(arg, &state)))
			break;
		if (ol_clock_ns() >= end_ns) {
			snprintf(err, err_bytes, "it is not done after %u s", wait_ms / 1000);
			rc = -EAGAIN;
		}
		(void)poll(NULL, 0, LOOK_MS);
	}
	ol_coord_close(coord);
	explicit_bzero(key, sizeof(key));
	return rc;
}
