/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * train_start.c -- servers, workers and the observer of `outlast train`
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "outlast/cmd.h"
#include "outlast/device.h"
#include "outlast/train.h"

enum {
	SPARE = 16, /* times as many checkpoints as asked for, until all have some in common */
	OBSERVER_TIMEOUT_MS = 5000
};

static int spawn(struct train *train, struct ol_proc *proc, const char *name, struct ol_args *args)
{
	int rc;

	ol_args_add_rows(args, &train->settings, ol_rows_model);
	ol_args_add_rows(args, &train->settings, ol_rows_link);
	ol_args_add(args, "--transport=%s", ol_transport_name(train->set.transport));
	ol_args_add(args, "--report-fd=%d", OL_PROC_FD);
	rc = ol_proc_spawn(proc, name, args, train->key);
	ol_args_free(args);
	if (rc != 0)
		return ol_cmd_error(ol_cmd_exit_of(rc), "train", "cannot start a process", name,
				    ol_strerror(rc));
	return 0;
}

/* Where server i is to listen, for the first time or elsewhere; verbs chooses the port. */
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
	rc = ol_device_host(set->link.device, host, err, sizeof(err));
	if (rc != 0)
		return ol_cmd_error(OL_EXIT_DEVICE, "train", err, NULL,
				    "outlast doctor says what this machine has; --transport shm "
				    "needs no device");
	snprintf(addr, TRAIN_ADDR_MAX, "%s:0", host);
	return 0;
}

/* Where its weights come from, and where they go */
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
	if (train->set.durable.durability != OL_DURABILITY_CHECKPOINT)
		return;
	ol_args_add(args, "--durability=checkpoint");
	/* a version that all have must not go because each has newer ones of its own */
	if (train_recovers_all(train))
		saves.keep = saves.keep < OL_CKPT_KEEP_MAX / SPARE ? saves.keep * SPARE
								   : OL_CKPT_KEEP_MAX;
	ol_args_add(args, "--checkpoint=%s", ol_ckpt_set_text(&saves, ckpt));
	if (train_recovers_all(train))
		ol_args_add(args, "--restore-version=%" PRIu64, train->roll_version);
}

/* Its place in a chain */
static void chain_add(const struct train *train, struct ol_args *args,
		      const struct train_server *server)
{
	if (train->chain == NULL)
		return;
	ol_args_add(args, "--coordinator=%s", train_chain_addr(train));
	ol_args_add(args, "--job=%s", train_chain_job(train));
	ol_args_add(args, "--rank=%u", server->place);
	ol_args_add(args, "--refound=%s", train_chain_own(train) ? "true" : "false");
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
static const char *addresses(const struct train *train,
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
		ol_args_add(&args, "--coordinator=%s", train_chain_addr(train));
		ol_args_add(&args, "--job=%s", train_chain_job(train));
	} else {
		ol_args_add(&args, "--connect=%s", addresses(train, list));
	}
	ol_args_add(&args, "--id=%u", i);
	ol_args_add(&args, "--batch=%u", train->set.batch);
	ol_args_add(&args, "--pace=%.17g", train->set.pace);
	ol_args_add_rows(&args, &train->settings, ol_rows_late);
	ol_args_add_rows(&args, &train->settings, ol_rows_outage);
	ol_args_add_rows(&args, &train->settings, ol_rows_lease);
	return spawn(train, &train->workers[i].proc, name, &args);
}

static bool all_ready(const struct train *train)
{
	for (uint32_t i = 0; i < train_holders(train); i++) {
		if (train->servers[i].proc.pid != 0 && !train->servers[i].ready)
			return false;
	}
	for (uint32_t i = 0; i < train->set.workers; i++) {
		if (train->workers[i].proc.pid != 0 && !train->workers[i].ready)
			return false;
	}
	return true;
}

/* Every process that was started says it is ready, or one fails, or the user has had enough. */
static int ready_wait(struct train *train)
{
	while (!all_ready(train)) {
		train_turn(train, -1);
		if (train->exit_code != 0)
			return train->exit_code;
		if (train->signal != 0)
			return OL_EXIT_SIGNAL + train->signal;
	}
	return 0;
}

/* Every server, for the first time; of --resume perhaps once more, from another version */
static int servers_start(struct train *train)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < train_holders(train); i++) {
		train->servers[i].shard = i / train_replicas(train);
		train->servers[i].place = i % train_replicas(train);
		train->servers[i].epoch = train->servers[i].first_epoch;
		rc = train_server_start(train, i,
					train->set.resume ? OL_RESTORE_CHECKPOINT : OL_RESTORE_NONE,
					true);
	}
	return rc != 0 ? rc : ready_wait(train);
}

int train_servers_start(struct train *train)
{
	int rc = train_chain_open(train);

	if (rc == 0)
		rc = train_recover_resume(train);
	if (rc == 0)
		rc = servers_start(train);
	while (rc == 0 && train_recover_further(train, &rc))
		rc = servers_start(train);
	if (rc == 0 && train->chain != NULL)
		rc = train_chain_wait(train);
	return rc;
}

int train_workers_start(struct train *train)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < train->set.workers; i++)
		rc = train_worker_start(train, i);
	return rc != 0 ? rc : ready_wait(train);
}

/* What the checkpoints had of every worker is not of this run. */
static int contained_look(struct train *train)
{
	int rc = ol_pull(train->observer, OL_PULL_NEWEST, &train->pull);

	if (rc == 0)
		rc = ol_worker_wait(train->observer, &train->pull);
	if (rc != 0)
		return ol_cmd_error(ol_cmd_exit_of(rc), "train",
				    "cannot pull the weights of the checkpoints", NULL,
				    ol_strerror(rc));
	train_contained_take(train);
	(void)ol_weights(train->observer, &train->version_first);
	for (uint32_t i = 0; i < train->set.workers; i++)
		train->contained_first[i] = train_contained(train, i);
	return 0;
}

/* Called back where a process has ended, or the user has had enough */
static int observer_open(struct train *train, struct ol_worker_opts *opts, char *err,
			 size_t err_bytes)
{
	int rc;

	opts->cancel_fd = train->signal_fd;
	do {
		rc = ol_worker_open(opts, &train->observer, err, err_bytes);
		if (rc != -ECANCELED)
			return rc;
		train_turn(train, 0);
	} while (train->exit_code == 0 && train->signal == 0);
	return rc;
}

int train_observer_open(struct train *train)
{
	char list[TRAIN_SERVERS_MAX * TRAIN_ADDR_MAX], err[256] = "";
	struct ol_worker_opts opts;
	int rc;

	ol_worker_opts_init(&opts);
	if (train->chain != NULL) {
		opts.coordinator = train_chain_addr(train);
		opts.job = train_chain_job(train);
	} else {
		opts.servers = addresses(train, list);
	}
	opts.transport = ol_transport_name(train->set.transport);
	opts.device = train->set.link.device;
	opts.job_key = train->key;
	opts.observer = 1;
	opts.param_count = train->job->param_count;
	opts.op_timeout_ms = OBSERVER_TIMEOUT_MS;
	opts.spin_us = 0;
	/* it is to see the servers go and come, and keep the last weights meanwhile */
	opts.outage = OL_OUTAGE_CONTINUE;
	opts.outage_timeout_ms = 0;
	opts.lease_ms = train->set.lease.lease_ms;
	rc = observer_open(train, &opts, err, sizeof(err));
	if (train->exit_code != 0)
		return train->exit_code;
	if (train->signal != 0)
		return OL_EXIT_SIGNAL + train->signal;
	if (rc != 0)
		return ol_cmd_error(ol_cmd_exit_of(rc), "train", err, NULL, ol_cmd_remedy(rc));
	return train->set.resume ? contained_look(train) : 0;
}
