/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outage_mirrors.c -- a server that comes back empty, and knows no worker, loses no gradient that a
 * worker has, even if a new worker or one with old weights connects first, with any number of shards
 *
 *	integration-outage_mirrors [--runs N]    N times each
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/peer.h"
#include "support/stage.h"

enum {
	LEN = 3000, /* two shards: 2048 and 952 */
	OLD = 0, /* has weights, and is away while others go on */
	NEWEST = 1, /* has all there is */
	NEWCOMER = 2,
	STEPS = 6
};

static struct ol_server_opts server_opts(uint32_t shards)
{
	struct ol_server_opts opts;

	ol_server_opts_init(&opts); /* defaults: workers is 1, and nobody says who is in the job */
	opts.window = JOB_WINDOW;
	opts.param_count = LEN;
	opts.shard_count = shards;
	opts.rule.lr = 0.5f;
	opts.lease_ms = 0; /* who is paused here is not dead */
	opts.restore_wait_ms = 60000; /* who comes decides, not the time */
	return opts;
}

static struct ol_worker *open_worker(const struct job *job, long id)
{
	struct ol_worker_opts opts;

	ol_worker_opts_init(&opts);
	opts.outage = OL_OUTAGE_WAIT;
	opts.lease_ms = 0;
	opts.connect_timeout_ms = 60000;
	return job_worker_with(job, (int)id, opts);
}

static void pull(struct ol_worker *worker)
{
	struct ol_op op = { 0 };

	check_ok(ol_pull(worker, OL_PULL_NEWEST, &op));
	check_ok(stage_done(worker, &op));
}

static void steps(struct ol_worker *worker, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct ol_op op = { 0 };

		check_ok(stage_push(worker, 1.0f, &op));
		check_ok(stage_done(worker, &op));
		pull(worker);
	}
}

/* All shards are gone and come back, while NEWEST is stopped: others are there before it */
static void lost_and_back(const struct job *job)
{
	for (uint32_t s = 0; s < job->shard_count; s++) {
		stage_kill(s);
		stage_restart(s, OL_RESTORE_MIRROR);
	}
}

/* Everything that was pushed is in the weights, and is counted so */
static void check_all(struct ol_worker *worker, const struct job *job, uint64_t own)
{
	for (uint32_t s = 0; s < job->shard_count; s++) {
		check_eq(stage_stat(worker, s).applied, own);
		check_eq(stage_stat(worker, s).lost, 0);
		check_eq(ol_applied_grads(worker, s, OLD), 1);
		check_eq(ol_applied_grads(worker, s, NEWEST), STEPS);
	}
	for (uint64_t i = 0; i < LEN; i += LEN - 1)
		check(ol_weights(worker, NULL)[i] == 100.0f - 0.5f * (1 + STEPS));
}

static void back_again(struct ol_worker *worker, const struct job *job)
{
	for (uint32_t s = 0; s < job->shard_count; s++)
		stage_up(worker, s);
}

/* Poll until the server has taken note of this one, and still waits: its session is there */
static void knock(struct ol_worker *worker, const struct job *job)
{
	for (uint32_t s = 0; s < job->shard_count; s++)
		stage_down(worker, s);
	for (unsigned i = 0; i < 20000; i++)
		check(ol_worker_poll(worker) >= 0);
}

/* The one with old weights is there first: they name the other, who is waited for. */
static int old_one_story(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id);

	pull(worker);
	stage_meet();
	if (id == NEWEST)
		steps(worker, 1);
	stage_meet();
	if (id == OLD)
		steps(worker, 1);
	stage_meet();
	if (id == NEWEST)
		steps(worker, STEPS - 1);
	stage_meet();
	if (id == OLD) {
		stage_pause_worker(NEWEST);
		lost_and_back(job);
		knock(worker, job);
		for (uint32_t s = 0; s < job->shard_count; s++)
			check(stage_stat(worker, s).down);
		stage_resume_worker(NEWEST);
	} else {
		for (uint32_t s = 0; s < job->shard_count; s++)
			stage_down(worker, s);
	}
	back_again(worker, job);
	stage_flush(worker);
	check_all(worker, job, id == OLD ? 1 : STEPS);
	stage_meet();
	ol_worker_close(worker);
	return 0;
}

/* All servers have a newcomer's hello before anybody else's, and welcome it in the end */
static void newcomer(const struct job *job)
{
	struct peer peers[JOB_SHARDS_MAX];

	for (uint32_t s = 0; s < job->shard_count; s++) {
		struct job one = *job;
		struct ol_hello hello;

		snprintf(one.addrs, sizeof(one.addrs), "%s", job->addr[s]);
		peer_open(&peers[s], "", OL_ROLE_WORKER, NEWCOMER);
		peer_join(&peers[s], &one);
		hello = peer_hello(&peers[s]);
		ol_record_seal(&hello);
		peer_write(&peers[s], &hello, sizeof(hello), OL_HELLO_OFF,
			   ol_bell_make(OL_BELL_HELLO, 0));
	}
	stage_resume_worker(NEWEST);
	stage_resume_worker(OLD);
	for (uint32_t s = 0; s < job->shard_count; s++) {
		check_eq(peer_welcome(&peers[s]).version, 1 + STEPS);
		peer_close(&peers[s]);
	}
}

/* A newcomer is there first: it has no weights, and is no vote for the first ones. */
static int newcomer_story(const struct job *job, long id)
{
	struct ol_worker *worker = id == NEWCOMER ? NULL : open_worker(job, id);

	if (id != NEWCOMER) {
		pull(worker);
		steps(worker, id == OLD ? 1 : STEPS);
	}
	stage_meet();
	if (worker != NULL)
		pull(worker);
	stage_meet();
	if (id == NEWCOMER) {
		stage_pause_worker(OLD);
		stage_pause_worker(NEWEST);
		lost_and_back(job);
		newcomer(job);
		worker = open_worker(job, id);
	} else {
		for (uint32_t s = 0; s < job->shard_count; s++)
			stage_down(worker, s);
		back_again(worker, job);
	}
	stage_flush(worker);
	check_all(worker, job, id == NEWCOMER ? 0 : id == OLD ? 1 : STEPS);
	stage_meet();
	ol_worker_close(worker);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned runs = argc == 3 && strcmp(argv[1], "--runs") == 0
				? (unsigned)strtoul(argv[2], NULL, 10)
				: 1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	job_transport();
	for (unsigned i = 0; i < runs; i++) {
		for (uint32_t shards = 1; shards <= 3; shards += 2) {
			stage_play(server_opts(shards), 100.0f, 2, old_one_story,
				   "one with old weights comes first");
			stage_play(server_opts(shards), 100.0f, 3, newcomer_story,
				   "a newcomer comes first");
		}
	}
	return 0;
}
