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
	case -EALREADY:
		return "it joined by itself, or by another's order";
	case -EPERM:
		return "that server is of another job or build, and cannot join the shard's chain";
	case -ESTALE:
		return "another operator changed the chain at the same time: look at it, and say this again "
		       "if it is not done";
	default:
		return "a chain has 1 to 8 replicas";
	}
}

/* An order on its way into a shard's view */
struct carried {
	struct ol_coord *coord;
	uint32_t shard;
	const struct ol_view_order *order;
	uint64_t version; /* that the last proposal was made of; 0: none was made */
	uint64_t order_before; /* number of the order that this version had */
	bool stands;
};

/*
 * Propose, unless the order is in force. A view keeps the number of the newest order, so another
 * operator's may hide that this one was in force before it: then it is not given again. Nor does it
 * harm to propose the same of the same version again: one of the two fails.
 */
static int carried_go_on(struct carried *carried, const struct ol_coord_state *state)
{
	const struct ol_view *view = &state->view;
	struct ol_view next;
	int rc;

	if (view->order == carried->order->number) {
		carried->stands = true;
		return 0;
	}
	if (carried->version != 0 && state->version > carried->version + 1 &&
	    view->order != carried->order_before)
		return -ESTALE;
	rc = ol_view_ordered(view, carried->order, state->members, state->member_count, &next);
	if (rc == -EAGAIN)
		return 0; /* who joins will have joined */
	if (rc != 0)
		return rc;
	carried->version = state->version;
	carried->order_before = view->order;
	ol_coord_propose(carried->coord, carried->shard, state->version, &next);
	return 0;
}

static int order_wait(struct carried *carried, uint64_t end_ns, ol_coordinator_done_fn *done,
		      void *arg, char *err, size_t err_bytes)
{
	struct ol_coord_state state;
	int rc = 0;

	while (true) {
		ol_coord_look(carried->coord, carried->shard, &state);
		if (ol_coord_is_lost(&state)) {
			snprintf(err, err_bytes, "the job is not there any more");
			return -ENOENT;
		}
		if (state.connected && state.version != 0 && !carried->stands)
			rc = carried_go_on(carried, &state);
		if (rc != 0)
			snprintf(err, err_bytes, "%s", order_fault(rc));
		else if (carried->stands && state.connected)
			rc = done(arg, &state);
		if (rc != 0)
			return rc > 0 ? 0 : rc;
		if (ol_clock_ns() >= end_ns) {
			snprintf(err, err_bytes, "it is not done after the time of --wait-s");
			return -ETIME;
		}
		(void)poll(NULL, 0, LOOK_MS);
	}
}

int ol_coordinator_order(const struct ol_coordinator *coordinator, uint32_t shard_count,
			 uint32_t shard, const struct ol_view_order *order, uint32_t wait_ms,
			 ol_coordinator_done_fn *done, void *arg, bool *ret_stands, char *err,
			 size_t err_bytes)
{
	struct carried carried = { .shard = shard, .order = order };
	char key[OL_JOB_KEY_MAX];
	struct ol_coord_ask ask;
	int rc = ask_make(coordinator, key, &ask, err, err_bytes);

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

		rc = ol_coord_open(&opts, &carried.coord, err, err_bytes);
	}
	if (rc == 0)
		rc = order_wait(&carried, ol_clock_ns() + wait_ms * OL_NS_PER_MS, done, arg, err,
				err_bytes);
	*ret_stands = carried.stands;
	ol_coord_close(carried.coord);
	explicit_bzero(key, sizeof(key));
	return rc;
}
