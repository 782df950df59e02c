/* SPDX-License-Identifier: BSD-3-Clause */

/* chains.c -- watch chains without taking part in them: ol_chains_open() */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/defaults.h"
#include "base/key.h"
#include "base/log.h"
#include "base/sized.h"
#include "outlast_server.h"
#include "replication/coord/lease.h"
#include "server/serve.h"
#include "wire/auth.h"

static_assert((int)OL_CHAIN_MAX == (int)OL_REPLICAS_MAX, "a chain has one limit");
static_assert((int)OL_ADDR_MAX == (int)OL_ENDPOINT_MAX, "an address has one limit");
static_assert((int)OL_MAC_BYTES == (int)OL_COORD_MAC_BYTES, "a proof has one size");

struct ol_chains {
	struct ol_coord *coord;
	uint32_t shard_count;
	char key[OL_JOB_KEY_MAX];
};

static int fail(char *err, size_t err_bytes, int rc, const char *text)
{
	if (err != NULL && err_bytes > 0)
		snprintf(err, err_bytes, "%s", text);
	return rc;
}

static void chains_free(struct ol_chains *chains)
{
	explicit_bzero(chains->key, sizeof(chains->key));
	free(chains);
}

static void log_debug(void *arg, const char *text)
{
	(void)arg;
	ol_log(OL_LOG_DEBUG, "coordinator: %s", text);
}

int ol_chains_open(const char *coordinator, const char *job, const char *job_key,
		   uint32_t shard_count, uint32_t timeout_ms, struct ol_chains **ret_chains,
		   char *err, size_t err_bytes)
{
	const char *fault = ol_key_fault(job_key);
	struct ol_chains *chains;
	struct ol_coord_opts opts = { .addr = coordinator,
				      .job = job != NULL ? job : OL_DEFAULT_JOB,
				      .shard_count = shard_count,
				      .lease_ms = OL_LEASE_WATCHER_MS,
				      .open_timeout_ms = timeout_ms,
				      .mac = ol_auth_coord_mac,
				      .owner_mac = ol_auth_coord_owner_mac,
				      .log = log_debug };
	int rc;

	if (fault != NULL)
		return fail(err, err_bytes, -EINVAL, fault);
	chains = calloc(1, sizeof(*chains));
	if (chains == NULL)
		return fail(err, err_bytes, -ENOMEM, "coordinator: no memory");
	snprintf(chains->key, sizeof(chains->key), "%s", job_key != NULL ? job_key : "");
	opts.mac_arg = chains->key;
	opts.keyless = chains->key[0] == '\0';
	rc = ol_coord_open(&opts, &chains->coord, err, err_bytes);
	if (rc != 0) {
		chains_free(chains);
		return rc;
	}
	chains->shard_count = shard_count;
	*ret_chains = chains;
	return 0;
}

static bool is_registered(const struct ol_coord_state *state, uint64_t id)
{
	for (uint32_t i = 0; i < state->member_count; i++) {
		if (state->members[i].id == id)
			return true;
	}
	return false;
}

int ol_chains_get_sized(struct ol_chains *chains, uint32_t shard, struct ol_chain_info *ret_info,
			size_t info_bytes)
{
	struct ol_chain_info info = { 0 };
	struct ol_coord_state state;
	const struct ol_view *view = &state.view;

	if (shard >= chains->shard_count)
		return -EINVAL;
	ol_coord_look(chains->coord, shard, &state);
	info.epoch = view->epoch;
	info.founded = view->founded;
	info.shard_count = view->shard_count;
	info.wanted = view->wanted;
	info.every = view->every;
	info.count = view->count;
	info.joining = view->joining;
	info.connected = state.connected ? 1 : 0;
	for (uint32_t i = 0; i < view->count + view->joining; i++) {
		info.ids[i] = view->replicas[i].id;
		memcpy(info.addrs[i], view->replicas[i].addr, sizeof(info.addrs[i]));
	}
	for (uint32_t i = 0; i < view->count; i++)
		info.gone += !is_registered(&state, view->replicas[i].id);
	for (uint32_t i = 0; i < state.member_count; i++)
		info.waiting += ol_view_find(view, state.members[i].id) < 0;
	ol_sized_give(ret_info, info_bytes, &info, sizeof(info));
	return 0;
}

void ol_chains_close(struct ol_chains *chains)
{
	if (chains == NULL)
		return;
	ol_coord_close(chains->coord);
	chains_free(chains);
}
