/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * spawn.c -- starts a server or a worker as a process, with its settings
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/device.h"
#include "train/parts.h"

enum {
	SPARE = 16 /* full recovery keeps so many times `keep=`, so that all shards have common ones */
};

static int spawn(struct train *train, struct ol_proc *proc, const char *name, struct ol_args *args)
{
	int rc;

	ol_args_add_rows(args, &train->settings, ol_rows_model);
	ol_args_add_rows(args, &train->settings, ol_rows_link);
	ol_args_add_rows(args, &train->settings, ol_rows_wire);
	ol_args_add(args, "--transport=%s", ol_transport_name(train->set.transport));
	ol_args_add(args, "--report-fd=%d", OL_PROC_FD);
	rc = ol_proc_spawn(proc, name, args, train->key);
	ol_args_free(args);
	if (rc != 0)
		return ol_cmd_error(ol_cmd_exit_of(rc), "train", "cannot start a process", name,
				    ol_strerror(rc));
	return 0;
}

/* The address for server i to listen at, the first or another; verbs chooses the port. */
static int listen_addr(struct train *train, uint32_t i, char addr[TRAIN_ADDR_MAX])
{
	const struct train_set *set = &train->set;
	char host[OL_HOST_MAX], err[160] = "";
	int rc;

	if (set->transport == OL_TRANSPORT_SHM) {
		snprintf(addr, TRAIN_ADDR_MAX, "@outlast-%d-%s-server%u-%u", (int)getpid(),
			 train->tag, i, train->servers[i].starts);
		return 0;
	}
	if (set->address != NULL) {
		if (strlen(set->address) > TRAIN_ADDR_MAX - 8)
			return ol_settings_fail(&train->settings, "address", "is too long");
		snprintf(addr, TRAIN_ADDR_MAX, "%.240s:0", set->address);
		return 0;
	}
	rc = ol_device_host(set->link.device, train->servers[i].shard, host, err, sizeof(err));
	if (rc != 0)
		return ol_cmd_error(OL_EXIT_DEVICE, "train", err, NULL, ol_cmd_remedy(-ENODEV));
	snprintf(addr, TRAIN_ADDR_MAX, "%s:0", host);
	return 0;
}

/* Settings of restore and checkpoints */
static void durable_add(const struct train *train, struct ol_args *args, enum ol_restore restore)
{
	static const char *const restores[] = { [OL_RESTORE_NONE] = "none",
						[OL_RESTORE_CHECKPOINT] = "checkpoint",
						[OL_RESTORE_MIRROR] = "mirror",
						[OL_RESTORE_FRESHEST] = "freshest" };
	struct ol_ckpt_set saves = train->ckpt;
	char text[32], ckpt[OL_CKPT_TEXT_MAX];

	ol_args_add(args, "--restore=%s", restores[restore]);
	ol_args_add(args, "--replay=%s",
		    ol_settings_text(&train->settings, "replay", text, sizeof(text)));
	ol_args_add(args, "--replay-clip=%.17g", train->set.durable.replay_clip);
	if (!train_saves(train))
		return;
	if (train->chain == NULL)
		ol_args_add(args, "--durability=checkpoint");
	/* a version that all shards have must stay, even if each shard has newer ones */
	if (train_recovers_all(train))
		saves.keep = saves.keep < OL_CKPT_KEEP_MAX / SPARE ? saves.keep * SPARE
								   : OL_CKPT_KEEP_MAX;
	ol_args_add(args, "--checkpoint=%s", ol_ckpt_set_text(&saves, ckpt));
	if (train_recover_chooses(train))
		ol_args_add(args, "--restore-version=%" PRIu64, train->roll.version);
}

/* Settings of its place in a chain */
static void chain_add(const struct train *train, struct ol_args *args,
		      const struct train_server *server)
{
	if (train->chain == NULL)
		return;
	ol_args_add(args, "--coordinator=%s", train->chain->addr);
	ol_args_add(args, "--job=%s", train->chain->job);
	ol_args_add(args, "--rank=%u", server->place);
	ol_args_add(args, "--refound=%s", train->chain->own.fd >= 0 ? "true" : "false");
	ol_args_add_rows(args, &train->settings, ol_rows_chain);
}

int train_server_start(struct train *train, uint32_t i, enum ol_restore restore, bool elsewhere)
{
	const struct train_set *set = &train->set;
	struct train_server *server = &train->servers[i];
	struct ol_args args = { 0 };
	char addr[TRAIN_ADDR_MAX], name[24], shape[OL_SHAPE_TEXT_MAX];
	int rc;

	server->starts++;
	server->replica = 0;
	server->role = OL_REPLICA_NONE;
	server->member = false;
	server->out_ns = 0;
	if (train->chain != NULL)
		server->addr[0] = '\0'; /* in a view it is its last process */
	if (elsewhere) {
		rc = listen_addr(train, i, addr);
		if (rc != 0)
			return rc;
	} else {
		snprintf(addr, sizeof(addr), "%s", server->addr);
	}
	snprintf(name, sizeof(name), "server %u", server->shard);
	if (train->chain != NULL)
		snprintf(name, sizeof(name), "server %u.%u", server->shard, server->place);
	ol_args_add(&args, "outlast");
	ol_args_add(&args, "serve");
	ol_args_add(&args, "--listen=%s", addr);
	ol_args_add(&args, "--shard=%u", server->shard);
	ol_args_add(&args, "--servers=%u", set->servers);
	ol_args_add(&args, "--workers=%u", set->workers);
	ol_args_add(&args, "--workers-max=%u", set->workers);
	ol_args_add(&args, "--epoch=%u", server->epoch);
	ol_args_add(&args, "--data-shape=%s", ol_shape_text(&train->job->shape, shape));
	ol_args_add_rows(&args, &train->settings, ol_rows_rule);
	ol_args_add_rows(&args, &train->settings, ol_rows_lease);
	durable_add(train, &args, restore);
	chain_add(train, &args, server);
	return spawn(train, &server->proc, name, &args);
}

/* Of the servers, one a shard */
const char *train_addresses(const struct train *train,
			    char list[TRAIN_SERVERS_MAX * TRAIN_ADDR_MAX])
{
	size_t len = 0;

	for (uint32_t i = 0; i < train->set.servers; i++)
		len += (size_t)snprintf(list + len, TRAIN_SERVERS_MAX * TRAIN_ADDR_MAX - len,
					"%s%s", i > 0 ? "," : "", train->servers[i].addr);
	return list;
}

int train_worker_start(struct train *train, uint32_t i)
{
	struct ol_args args = { 0 };
	char list[TRAIN_SERVERS_MAX * TRAIN_ADDR_MAX], name[24];

	snprintf(name, sizeof(name), "worker %u", i);
	ol_args_add(&args, "outlast");
	ol_args_add(&args, "work");
	if (train->chain != NULL) {
		ol_args_add(&args, "--coordinator=%s", train->chain->addr);
		ol_args_add(&args, "--job=%s", train->chain->job);
	} else {
		ol_args_add(&args, "--connect=%s", train_addresses(train, list));
	}
	ol_args_add(&args, "--id=%u", i);
	ol_args_add(&args, "--batch=%u", train->set.batch);
	ol_args_add(&args, "--pace=%.17g", train->set.pace);
	ol_args_add_rows(&args, &train->settings, ol_rows_late);
	ol_args_add_rows(&args, &train->settings, ol_rows_outage);
	ol_args_add_rows(&args, &train->settings, ol_rows_lease);
	ol_args_add_rows(&args, &train->settings, ol_rows_format);
	return spawn(train, &train->workers[i].proc, name, &args);
}
