/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * start.c -- servers, workers and the observer of `outlast train`
 */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "train/parts.h"

enum {
	OBSERVER_TIMEOUT_MS = 5000,
	LOOK_MS = 20, /* between two looks at chains that come together */
	PATIENCE_MS = 2000 /* between two lines about a wait */
};

/* A started process that has not reported ready; NULL: none */
static const struct ol_proc *unready(const struct train *train)
{
	for (uint32_t i = 0; i < train_holders(train); i++) {
		const struct train_server *server = &train->servers[i];

		if (server->proc.pid != 0 && server->state == TRAIN_SERVER_STARTS)
			return &server->proc;
	}
	for (uint32_t i = 0; i < train->set.workers; i++) {
		const struct train_worker *worker = &train->workers[i];

		if (worker->proc.pid != 0 && worker->state == TRAIN_WORKER_STARTS)
			return &worker->proc;
	}
	return NULL;
}

/* Handle events for a while; 0, or the exit code that ends the start */
static int turn(struct train *train, int timeout_ms)
{
	train_turn(train, timeout_ms);
	if (train->exit_code != 0)
		return train->exit_code;
	return train->signal != 0 ? OL_EXIT_SIGNAL + train->signal : 0;
}

/* Wait until every started process is ready, one fails, or a signal comes. */
static int ready_wait(struct train *train)
{
	uint64_t said_ns = ol_clock_ns();
	const struct ol_proc *proc;
	int rc = 0;

	while (rc == 0 && (proc = unready(train)) != NULL) {
		if (ol_clock_ns() - said_ns >= PATIENCE_MS * OL_NS_PER_MS) {
			train_say(&train->screen, "waits for %s to be ready", proc->name);
			said_ns = ol_clock_ns();
		}
		rc = turn(train, PATIENCE_MS);
	}
	return rc;
}

/* Wait until every chain has all its replicas, or something fails. */
static int chains_wait(struct train *train)
{
	uint64_t said_ns = ol_clock_ns();
	int rc = 0;

	while (rc == 0 && train_chain_lacking(train, false) > 0) {
		rc = turn(train, LOOK_MS);
		if (rc != 0 || ol_clock_ns() - said_ns < PATIENCE_MS * OL_NS_PER_MS)
			continue;
		(void)train_chain_lacking(train, true);
		said_ns = ol_clock_ns();
	}
	return rc;
}

static bool all_restored(const struct train *train)
{
	for (uint32_t i = 0; i < train_holders(train); i++) {
		if (train->servers[i].state != TRAIN_SERVER_WHOLE)
			return false;
	}
	return true;
}

/* Start every server; with --resume perhaps again, from an older version */
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
	if (rc == 0)
		rc = ready_wait(train);
	while (rc == 0 && train_recover_resumes(train) && !all_restored(train))
		rc = turn(train, -1);
	return rc;
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
		rc = chains_wait(train);
	return rc;
}

int train_workers_start(struct train *train)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < train->set.workers; i++)
		rc = train_worker_start(train, i);
	return rc != 0 ? rc : ready_wait(train);
}

/* Note how many gradients of each worker the checkpoints had, as these are not of this run. */
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

/* Connect the observer; ends early if a process ends or a signal comes */
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
		opts.coordinator = train->chain->addr;
		opts.job = train->chain->job;
	} else {
		opts.servers = train_addresses(train, list);
	}
	opts.transport = ol_transport_name(train->set.transport);
	opts.device = train->set.link.device;
	opts.job_key = train->key;
	opts.observer = 1;
	opts.param_count = train->job->param_count;
	opts.op_timeout_ms = OBSERVER_TIMEOUT_MS;
	opts.spin_us = 0;
	/* the observer must live through outages, and keep the last weights meanwhile */
	opts.outage = OL_OUTAGE_CONTINUE;
	opts.outage_timeout_ms = 0;
	opts.lease_ms = train->set.lease.lease_ms;
	OL_SETTINGS_WIRE(&train->set.wire, &opts);
	rc = observer_open(train, &opts, err, sizeof(err));
	if (train->exit_code != 0)
		return train->exit_code;
	if (train->signal != 0)
		return OL_EXIT_SIGNAL + train->signal;
	if (rc != 0)
		return ol_cmd_error(ol_cmd_exit_of(rc), "train", err, NULL, ol_cmd_remedy(rc));
	return train->set.resume ? contained_look(train) : 0;
}
