/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outage_history.c -- two histories of one shard are never taken for each other, nor what a worker
 * was told for what it pulls: real processes, OL_TRANSPORT shm or verbs
 */

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "support/check.h"
#include "support/stage.h"

enum {
	LEN = 3000, /* two shards: 2048 and 952 */
	WAIT_MS = 300 /* restore_wait_ms: for a worker that is paused */
};

static struct ol_server_opts server_opts(uint32_t workers)
{
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.window = JOB_WINDOW;
	opts.param_count = LEN;
	opts.workers = workers;
	opts.workers_max = workers;
	opts.restore_workers = workers;
	opts.rule.lr = 0.5f;
	opts.rule.sum = 1;
	opts.restore_wait_ms = WAIT_MS;
	opts.lease_ms = 0; /* who is paused here is not dead */
	return opts;
}

static struct ol_worker *open_worker(const struct job *job, long id)
{
	struct ol_worker_opts opts;

	ol_worker_opts_init(&opts);
	opts.outage = OL_OUTAGE_WAIT;
	opts.lease_ms = 0;
	return job_worker_with(job, (int)id, opts);
}

static void pull(struct ol_worker *worker)
{
	struct ol_op op = { 0 };

	check_ok(ol_pull(worker, OL_PULL_NEWEST, &op));
	check_ok(stage_done(worker, &op));
}

static void push(struct ol_worker *worker, float value)
{
	struct ol_op op = { 0 };

	check_ok(stage_push(worker, value, &op));
	check_ok(stage_done(worker, &op));
}

static void push_times(struct ol_worker *worker, unsigned times, bool pulls)
{
	for (unsigned i = 0; i < times; i++) {
		push(worker, 1.0f);
		if (pulls)
			pull(worker);
	}
}

static void away_and_back(struct ol_worker *worker, uint32_t shard)
{
	stage_down(worker, shard);
	stage_up(worker, shard);
}

/*
 * Worker 0, whose mirror is the newest, is away while the job goes back without it. What it pushes
 * then must not be swallowed when the next server looks at that old mirror.
 */
static int given_up_story(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id);

	pull(worker);
	stage_meet();
	if (id == 0)
		push_times(worker, 10, true);
	stage_meet();
	if (id == 1) {
		stage_pause_worker(0);
		stage_kill(0);
		stage_restart(0, OL_RESTORE_MIRROR);
		away_and_back(worker, 0);
		stage_resume_worker(0);
	} else {
		away_and_back(worker, 0);
		check_eq(stage_stat(worker, 0).lost, 10);
		for (int i = 0; i < 4; i++)
			push(worker, 8.0f); /* and no pull */
	}
	stage_meet();
	if (id == 0) {
		stage_kill(0);
		stage_restart(0, OL_RESTORE_MIRROR);
	}
	away_and_back(worker, 0);
	stage_flush(worker);
	if (id == 0) {
		check_eq(stage_stat(worker, 0).resent, 4);
		check_eq(stage_stat(worker, 0).lost, 10);
		check_eq(ol_applied_grads(worker, 0, 0), 4);
		check(ol_weights(worker, NULL)[0] == 100.0f - 4 * 0.5f * 8.0f);
	}
	stage_meet();
	ol_worker_close(worker);
	return 0;
}

/* A shard was read, its server dies before the pull is whole: that read must not count. */
static int half_pull_story(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id);
	struct ol_op op = { 0 };

	pull(worker);
	stage_meet();
	if (id == 0) {
		push(worker, 1.0f);
		stage_pause_worker(1);
		stage_kill(1);
		stage_down(worker, 1);
		check_ok(ol_pull(worker, OL_PULL_NEWEST, &op)); /* shard 0 is read, 1 waits */
		for (int i = 0; i < 100000; i++)
			check(ol_worker_poll(worker) == 0);
		stage_kill(0);
		stage_down(worker, 0);
		stage_restart(1, OL_RESTORE_MIRROR);
		stage_restart(0, OL_RESTORE_MIRROR);
		stage_up(worker, 1);
		stage_up(worker, 0);
		check_ok(stage_done(worker, &op));
		stage_flush(worker);
		for (uint32_t s = 0; s < 2; s++) {
			check_eq(stage_stat(worker, s).lost, 0);
			check_eq(ol_applied_grads(worker, s, 0), 1);
		}
		stage_resume_worker(1);
	}
	stage_meet();
	ol_worker_close(worker);
	return 0;
}

/* In sync mode: who was told that a step was made is given no weights without it. */
static int told_story(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id);
	struct ol_op pushed = { 0 }, pulled = { 0 };

	pull(worker);
	stage_meet();
	check_ok(stage_push(worker, 1.0f, &pushed));
	check_ok(stage_done(worker, &pushed));
	check_eq(pushed.version, 1);
	stage_meet();
	if (id == 0) {
		stage_kill(0);
		stage_restart(0, OL_RESTORE_MIRROR);
		away_and_back(worker, 0);
		check_ok(ol_pull(worker, 0, &pulled)); /* the other's push is not there yet */
		stage_meet();
	} else {
		stage_meet();
		away_and_back(worker, 0);
		check_ok(ol_pull(worker, 0, &pulled));
	}
	check_ok(stage_done(worker, &pulled));
	check_eq(pulled.version, 1);
	push(worker, 1.0f);
	stage_meet();
	ol_worker_close(worker);
	return 0;
}

/* How worker 1 comes into a history of which worker 0 knows nothing, and leaves it */
enum {
	ANEW_KEEPS, /* as a new process, which keeps what it pushes there */
	ANEW_PULLS, /* as a new process, whose mirror has what it pushes there */
	SLOWLY, /* as the same process, which pulls */
};

/* The server dies, and what comes back knows what this worker knows: the other one is paused */
static void back_without(struct ol_worker *worker, uint32_t other, enum ol_restore restore)
{
	stage_pause_worker(other);
	stage_kill(0);
	stage_restart(0, restore);
	if (worker != NULL)
		away_and_back(worker, 0);
}

/*
 * Worker 1 has 20 pushes in a history that worker 0 mirrors. The server begins with first weights,
 * gets 10 more, and then goes back to the history of the 20: none of the 10 is taken for one of the
 * 20, and what is not there any more is counted.
 */
static int diverged(const struct job *job, long id, int how)
{
	struct ol_worker *worker = open_worker(job, id);

	pull(worker);
	stage_meet();
	if (id == 1)
		push_times(worker, 20, true);
	stage_meet();
	pull(worker);
	stage_meet();
	if (id == 1) {
		if (how != SLOWLY) {
			ol_worker_close(worker);
			worker = NULL;
		}
		back_without(worker, 0, OL_RESTORE_NONE);
		if (worker != NULL)
			check_eq(stage_stat(worker, 0).lost, 20);
		else
			worker = open_worker(job, id);
		push_times(worker, 10, how != ANEW_KEEPS);
		check_eq(stage_stat(worker, 0).applied, 10);
		stage_resume_worker(0);
		stage_meet();
	} else {
		stage_meet();
		back_without(worker, 1, OL_RESTORE_MIRROR);
		stage_resume_worker(1);
	}
	if (id == 1)
		away_and_back(worker, 0);
	stage_meet();
	stage_flush(worker);
	if (id == 1) {
		struct ol_link_stat stat = stage_stat(worker, 0);
		uint64_t here = how == ANEW_PULLS ? 0 : how == ANEW_KEEPS ? 10 : 20;

		check_eq(stat.applied, here);
		check_eq(stat.lost, stat.pushed - here);
		check_eq(ol_applied_grads(worker, 0, 1), how == SLOWLY ? 20 : 20 + here);
		check(ol_weights(worker, NULL)[0] ==
		      100.0f - 0.5f * (float)ol_applied_grads(worker, 0, 1));
	}
	stage_meet();
	ol_worker_close(worker);
	return 0;
}

static int anew_keeps_story(const struct job *job, long id)
{
	return diverged(job, id, ANEW_KEEPS);
}

static int anew_pulls_story(const struct job *job, long id)
{
	return diverged(job, id, ANEW_PULLS);
}

static int slowly_story(const struct job *job, long id)
{
	return diverged(job, id, SLOWLY);
}

/* Redirected from A to B; B dies; A, which never stood still, is not the successor. */
static int old_epoch_story(const struct job *job, long unused)
{
	struct ol_worker_opts opts;
	struct ol_op op = { 0 };
	struct ol_worker *worker;
	char addrs[256];

	(void)unused;
	ol_worker_opts_init(&opts);
	opts.outage = OL_OUTAGE_WAIT;
	opts.lease_ms = 0;
	opts.outage_timeout_ms = 5000; /* A would let it in at once */
	worker = job_worker_with(job, 0, opts);
	pull(worker);
	push_times(worker, 5, true);
	snprintf(addrs, sizeof(addrs), "%s|%s", job->addr[1], job->addr[0]);
	check_ok(ol_worker_redirect(worker, 0, addrs));
	away_and_back(worker, 0);
	check_eq(stage_stat(worker, 0).epoch, 2);
	push(worker, 1.0f);
	pull(worker);
	kill(job->servers[1], SIGKILL);
	stage_down(worker, 0);
	check_ok(ol_pull(worker, 0, &op));
	check_eq(stage_done(worker, &op), OL_E_NO_SERVER);
	check_eq(stage_stat(worker, 0).epoch, 2);
	ol_worker_close(worker);
	return 0;
}

static void old_epoch(void)
{
	struct ol_server_opts opts = server_opts(1);
	struct job first, second;
	int status;

	job_start(&first, opts, 100.0f);
	opts.restore = OL_RESTORE_MIRROR;
	job_start(&second, opts, 100.0f);
	snprintf(first.addr[1], sizeof(first.addr[1]), "%s", second.addr[0]);
	first.servers[1] = second.servers[0];
	job_join(job_fork(old_epoch_story, &first, 0));
	check(waitpid(second.servers[0], &status, 0) == second.servers[0]);
	job_stop(&first);
	printf("ok a server of an older epoch is no successor\n");
}

static void run(struct ol_server_opts opts, uint32_t workers,
		int (*story)(const struct job *job, long id), const char *name)
{
	stage_play(opts, 100.0f, workers, story, name);
}

/*
 * No launcher says who the workers are. Worker 1 is back first; its mirror is from before worker 0
 * pushed, and names nobody: two make a step, so the server waits for the other.
 */
static int unnamed_story(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id);

	pull(worker);
	stage_meet();
	if (id == 0)
		push_times(worker, 3, true);
	stage_meet();
	if (id == 1) {
		stage_pause_worker(0);
		stage_kill(0);
		stage_restart(0, OL_RESTORE_MIRROR);
		stage_down(worker, 0);
		for (int i = 0; i < 300000 && stage_stat(worker, 0).down; i++)
			check(ol_worker_poll(worker) >= 0);
		stage_resume_worker(0);
		stage_up(worker, 0);
	} else {
		away_and_back(worker, 0);
	}
	stage_flush(worker);
	check_eq(stage_stat(worker, 0).lost, 0);
	pull(worker);
	check_eq(ol_applied_grads(worker, 0, 0), 3);
	stage_meet();
	ol_worker_close(worker);
	return 0;
}

int main(void)
{
	struct ol_server_opts opts;

	setvbuf(stdout, NULL, _IOLBF, 0);
	job_transport();
	run(server_opts(2), 2, given_up_story, "a history that was given up swallows nothing");
	opts = server_opts(2);
	opts.restore_workers = 0;
	opts.restore_wait_ms = 60000;
	run(opts, 2, unnamed_story, "who makes steps is waited for");
	opts = server_opts(2);
	opts.shard_count = 2;
	run(opts, 2, half_pull_story, "half a pull does not count");
	opts = server_opts(2);
	opts.consistency = OL_CONSISTENCY_SYNC;
	run(opts, 2, told_story, "no weights without what was told");
	old_epoch();
	opts = server_opts(2);
	opts.window = 12; /* worker 1 keeps ten */
	run(opts, 2, anew_keeps_story, "a new process's pushes are not taken for the old one's");
	run(opts, 2, anew_pulls_story, "what a new process pushed and is gone is counted");
	run(opts, 2, slowly_story, "what was pushed to two histories is counted in the one there");
	return 0;
}
