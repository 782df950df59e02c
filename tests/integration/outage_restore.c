/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outage_restore.c -- a server that comes back takes its weights from the right source, counts each
 * lost gradient, and writes checkpoints during training: real processes, OL_TRANSPORT shm or verbs
 *
 * All elements of worker k's gradients are k + 1, and the learning rate is a power of two: the
 * weights must be exactly the sums by the applied tables.
 */

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "support/check.h"
#include "support/folder.h"
#include "support/stage.h"

enum {
	LEN = 3000, /* two shards: 2048 and 952 */
	FILES_MAX = 64
};

static const float first_weight = 100.0f;
static const float lr = 0.5f;
static char folder[64]; /* of checkpoints; made anew for every job */

static struct ol_server_opts server_opts(uint32_t workers, uint64_t checkpoint_steps)
{
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.window = JOB_WINDOW;
	opts.param_count = LEN;
	opts.workers = workers;
	opts.workers_max = workers;
	opts.restore_workers = workers;
	opts.rule.lr = lr;
	opts.rule.sum = 1;
	opts.replay = OL_REPLAY_EACH;
	opts.checkpoint_dir = folder;
	opts.checkpoint_steps = checkpoint_steps;
	opts.checkpoint_keep = FILES_MAX;
	return opts;
}

static struct ol_worker *open_worker(const struct job *job, long id, enum ol_outage outage)
{
	struct ol_worker_opts opts;

	ol_worker_opts_init(&opts);
	opts.outage = outage;
	opts.lease_ms = 0; /* deaths are what this is about; a paused server is none yet */
	return job_worker_with(job, (int)id, opts);
}

static void pull(struct ol_worker *worker)
{
	struct ol_op op = { 0 };

	check_ok(ol_pull(worker, OL_PULL_NEWEST, &op));
	check_ok(stage_done(worker, &op));
}

static void push(struct ol_worker *worker, long id)
{
	struct ol_op op = { 0 };

	check_ok(stage_push(worker, (float)(id + 1), &op));
	check_ok(stage_done(worker, &op));
}

/* Push and pull so often */
static void steps(struct ol_worker *worker, long id, unsigned count)
{
	while (count-- > 0) {
		push(worker, id);
		pull(worker);
	}
}

/* A checkpoint of this version is on disk */
static void written(struct ol_worker *worker, uint32_t shard, uint64_t version)
{
	struct ol_server_stat stat;

	do {
		check_ok(ol_stat(worker, shard, &stat));
	} while (stat.checkpoint_version != version);
}

/* The last weights pulled are what their applied tables say */
static void check_weights(const struct ol_worker *worker, const struct job *job)
{
	const float *weights = ol_weights(worker, NULL);

	for (uint32_t s = 0; s < job->shard_count; s++) {
		uint64_t first, count;
		float want = first_weight;

		for (uint32_t k = 0; k < job->opts.workers_max; k++)
			want -= lr * (float)(k + 1) * (float)ol_applied_grads(worker, s, k);
		check_ok(ol_shard_span(job->opts.param_count, job->shard_count, s, &first, &count));
		for (uint64_t i = first; i < first + count; i++)
			check_msg(weights[i] == want, "shard %u: weight %lu is %.9g, not %.9g", s,
				  (unsigned long)i, (double)weights[i], (double)want);
	}
}

/* All is resolved, and both ends agree on how */
static void check_account(const struct ol_worker *worker, uint32_t shard, long id, uint64_t applied,
			  uint64_t lost)
{
	struct ol_link_stat stat = stage_stat(worker, shard);

	check_eq(stat.applied, applied);
	check_eq(stat.lost, lost);
	check_eq(stat.pending, 0);
	check_eq(stat.pushed, applied + lost);
	check_eq(ol_applied_grads(worker, shard, (uint32_t)id), applied);
}

static void check_restored(struct ol_worker *worker, uint32_t shard, enum ol_restore from,
			   uint64_t version, uint32_t epoch)
{
	struct ol_server_stat stat;

	check_ok(ol_stat(worker, shard, &stat));
	check_eq(stat.restored_from, from);
	check_eq(stat.restored_version, version);
	check_eq(stat.epoch, epoch);
}

/* Shard 0 goes back in time; what was computed since is lost, also what was on its way */
static void rollback(const struct job *job, long id, enum ol_outage outage)
{
	struct ol_worker *worker = open_worker(job, id, outage);
	struct ol_server_stat stat;
	struct ol_op op = { 0 };

	pull(worker);
	for (uint64_t version = 10; version <= 20; version += 10) {
		steps(worker, id, 10);
		written(worker, 0, version);
	}
	steps(worker, id, 7);
	stage_pause(0);
	check_ok(stage_push(worker, (float)(id + 1), &op));
	stage_kill(0);
	stage_down(worker, 0);
	stage_restart(0, OL_RESTORE_CHECKPOINT);
	check_eq(stage_done(worker, &op), outage == OL_OUTAGE_WAIT ? OL_E_LOST : 0);
	stage_flush(worker);
	check_weights(worker, job);
	check_account(worker, 0, id, 20, 8);
	check_restored(worker, 0, OL_RESTORE_CHECKPOINT, 20, 2);
	check_ok(ol_stat(worker, 0, &stat));
	check_eq(stat.restored_lost, 7); /* that its worker knew as applied */
	steps(worker, id, 5);
	check_weights(worker, job);
	check_account(worker, 0, id, 25, 8);
	if (job->shard_count > 1)
		check_account(worker, 1, id, 33, 0);
	ol_worker_close(worker);
}

static int rollback_wait(const struct job *job, long id)
{
	rollback(job, id, OL_OUTAGE_WAIT);
	return 0;
}

static int rollback_continue(const struct job *job, long id)
{
	rollback(job, id, OL_OUTAGE_CONTINUE);
	return 0;
}

/* One of two workers has pushed for a step when the server goes back: it is told to start over */
static int sync_story(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id, OL_OUTAGE_WAIT);
	struct ol_op op = { 0 };

	pull(worker);
	stage_meet();
	steps(worker, id, 4);
	written(worker, 0, 4);
	stage_meet();
	steps(worker, id, 2);
	stage_meet();
	if (id == 0) {
		check_ok(stage_push(worker, 1.0f, &op));
		stage_kill(0);
	}
	stage_meet();
	stage_down(worker, 0);
	if (id == 0) {
		stage_restart(0, OL_RESTORE_CHECKPOINT);
		check_eq(stage_done(worker, &op), OL_E_LOST);
	}
	stage_meet();
	stage_flush(worker);
	check_weights(worker, job);
	check_account(worker, 0, id, 4, id == 0 ? 3 : 2);
	steps(worker, id, 6);
	check_weights(worker, job);
	check_account(worker, 0, id, 10, id == 0 ? 3 : 2);
	stage_meet();
	ol_worker_close(worker);
	return 0;
}

/*
 * Worker 1 is away when the job goes back to version 10 and on from there by `more` steps. It comes
 * back with weights of the earlier history, which have 8 steps that the later one lacks. Neither is
 * enough for both: of the two the one is taken that loses less.
 */
static void leftover(const struct job *job, long id, unsigned more)
{
	struct ol_worker *worker = open_worker(job, id, OL_OUTAGE_WAIT);

	pull(worker);
	if (id == 0) {
		steps(worker, id, 10);
		written(worker, 0, 10);
	}
	stage_meet();
	if (id == 1) {
		steps(worker, id, 8);
		push(worker, id); /* only its server has it */
	}
	stage_meet();
	if (id == 0) {
		stage_pause_worker(1);
		stage_kill(0);
		stage_restart(0, OL_RESTORE_CHECKPOINT);
		stage_down(worker, 0);
		stage_flush(worker);
		check_restored(worker, 0, OL_RESTORE_CHECKPOINT, 10, 2);
		steps(worker, id, more);
		stage_kill(0);
		stage_restart(0, OL_RESTORE_MIRROR);
		stage_resume_worker(1);
	}
	stage_down(worker, 0);
	stage_flush(worker);
	check_restored(worker, 0, OL_RESTORE_MIRROR, more < 8 ? 18 : 10 + more, 3);
	check_weights(worker, job);
	if (id == 0 && more < 8)
		check_account(worker, 0, id, 10, more);
	else if (id == 0)
		check_account(worker, 0, id, 10 + more, 0);
	else if (more < 8)
		check_account(worker, 0, id, 9, 0);
	else /* what it still holds is as good as any late gradient */
		check_account(worker, 0, id, 1, 8);
	stage_meet();
	ol_worker_close(worker);
}

static int leftover_behind(const struct job *job, long id)
{
	leftover(job, id, 5);
	return 0;
}

static int leftover_ahead(const struct job *job, long id)
{
	leftover(job, id, 30);
	return 0;
}

static int mirror_is_newer(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id, OL_OUTAGE_WAIT);

	pull(worker);
	steps(worker, id, 10);
	written(worker, 0, 10);
	steps(worker, id, 3);
	stage_kill(0);
	stage_restart(0, OL_RESTORE_FRESHEST);
	stage_down(worker, 0);
	stage_flush(worker);
	check_restored(worker, 0, OL_RESTORE_MIRROR, 13, 2);
	check_account(worker, 0, id, 13, 0);
	check_weights(worker, job);
	ol_worker_close(worker);
	return 0;
}

static int checkpoint_is_newer(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id, OL_OUTAGE_WAIT);

	pull(worker);
	steps(worker, id, 1);
	push(worker, id);
	written(worker, 0, 2);
	push(worker, id);
	push(worker, id);
	written(worker, 0, 4);
	stage_kill(0);
	stage_restart(0, OL_RESTORE_FRESHEST);
	stage_down(worker, 0);
	stage_flush(worker);
	check_restored(worker, 0, OL_RESTORE_CHECKPOINT, 4, 2);
	check_account(worker, 0, id, 4, 0);
	check_eq(stage_stat(worker, 0).resent, 0);
	check_weights(worker, job);
	ol_worker_close(worker);
	return 0;
}

/* No checkpoint, no mirror: the first weights, and what was kept is pushed again */
static int nothing_is_there(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id, OL_OUTAGE_WAIT);

	for (unsigned i = 0; i < 3; i++)
		push(worker, id);
	stage_kill(0);
	stage_restart(0, OL_RESTORE_FRESHEST);
	stage_down(worker, 0);
	stage_flush(worker);
	check_restored(worker, 0, OL_RESTORE_NONE, 0, 1);
	check_account(worker, 0, id, 3, 0);
	check_eq(stage_stat(worker, 0).resent, 3);
	check_weights(worker, job);
	/* and with a mirror that nobody asks for */
	stage_kill(0);
	stage_restart(0, OL_RESTORE_CHECKPOINT);
	stage_down(worker, 0);
	stage_flush(worker);
	check_restored(worker, 0, OL_RESTORE_NONE, 0, 1);
	check_account(worker, 0, id, 0, 3);
	check_weights(worker, job);
	ol_worker_close(worker);
	return 0;
}

/* Worker 1 has the newest weights, and a NaN has got into them: worker 0's are taken */
static int not_finite(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id, OL_OUTAGE_WAIT);

	pull(worker);
	stage_meet();
	if (id == 0)
		steps(worker, id, 5);
	stage_meet();
	if (id == 1) {
		uintptr_t mirror;

		steps(worker, id, 5);
		mirror = (uintptr_t)ol_weights(worker, NULL);
		((float *)mirror)[LEN - 1] = NAN;
		stage_kill(0);
		stage_restart(0, OL_RESTORE_MIRROR);
	}
	stage_down(worker, 0);
	stage_flush(worker);
	check_restored(worker, 0, OL_RESTORE_MIRROR, 5, 2);
	check_account(worker, 0, id, id == 0 ? 5 : 0, id == 0 ? 0 : 5);
	check_weights(worker, job);
	stage_meet();
	ol_worker_close(worker);
	return 0;
}

/* Momentum: whether its state came back is seen in every weight */
static void momentum(const struct job *job, long id, bool state)
{
	const float mu = job->opts.rule.momentum;
	float w = first_weight, u = 0.0f;
	struct ol_worker_opts opts;
	struct ol_worker *worker;

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.outage = OL_OUTAGE_WAIT;
	opts.mirror_state = state;
	worker = job_worker_with(job, (int)id, opts);
	pull(worker);
	for (unsigned i = 0; i < 10; i++) {
		if (i == 5) {
			stage_kill(0);
			stage_restart(0, OL_RESTORE_MIRROR);
			stage_down(worker, 0);
			stage_flush(worker);
			check_restored(worker, 0, OL_RESTORE_MIRROR, 5, 2);
			u = state ? u : 0.0f;
		}
		steps(worker, id, 1);
		u = mu * u + 1.0f;
		w = w - lr * u;
		check(ol_weights(worker, NULL)[0] == w && ol_weights(worker, NULL)[LEN - 1] == w);
	}
	check_account(worker, 0, id, 10, 0);
	ol_worker_close(worker);
}

static int momentum_mirrored(const struct job *job, long id)
{
	momentum(job, id, true);
	return 0;
}

static int momentum_anew(const struct job *job, long id)
{
	momentum(job, id, false);
	return 0;
}

static void dawdle(uint64_t us)
{
	uint64_t until_ns = ol_clock_ns() + us * OL_NS_PER_US;

	while (ol_clock_ns() < until_ns)
		sched_yield();
}

/*
 * Worker 1 has the newest weights, and dies at some time after the server has come back; worker 2
 * holds the knife. Whatever of its mirror was read by then, weights are of one history.
 */
static int source_dies(const struct job *job, long id)
{
	struct ol_worker *worker;

	if (id == 2) {
		stage_meet();
		stage_meet();
		stage_kill(0);
		stage_restart(0, OL_RESTORE_MIRROR);
		dawdle(*stage_word(0));
		stage_kill_worker(1);
		return 0;
	}
	worker = open_worker(job, id, OL_OUTAGE_WAIT);
	pull(worker);
	if (id == 0)
		steps(worker, id, 2);
	*stage_word(0) = job->opts.job_id;
	stage_meet();
	if (id == 1)
		steps(worker, id, 2);
	stage_meet();
	stage_down(worker, 0);
	if (id == 1) {
		for (;;)
			check(ol_worker_poll(worker) >= 0);
	}
	stage_flush(worker);
	check_weights(worker, job);
	check_account(worker, 0, id, 2, 0);
	printf("   restored with %s the newest weights\n",
	       ol_applied_grads(worker, 0, 1) == 2 ? "all of" : "nothing of");
	check(ol_applied_grads(worker, 0, 1) == 2 || ol_applied_grads(worker, 0, 1) == 0);
	ol_worker_close(worker);
	return 0;
}

/* The versions of the files in the folder, ascending */
static unsigned files_of(uint64_t versions[FILES_MAX])
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	unsigned count = 0;

	check(dir != NULL);
	while ((entry = readdir(dir)) != NULL) {
		unsigned long version;
		unsigned at = count;

		if (entry->d_name[0] == '.')
			continue;
		check_eq(sscanf(entry->d_name, "ckpt-%*x-s%*u-e%*u-v%lu.olc", &version), 1);
		check(count < FILES_MAX);
		for (; at > 0 && versions[at - 1] > version; at--)
			versions[at] = versions[at - 1];
		versions[at] = version;
		count++;
	}
	closedir(dir);
	return count;
}

static int multiples(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id, OL_OUTAGE_WAIT);
	uint64_t versions[FILES_MAX];
	struct ol_server_stat stat;

	pull(worker);
	for (uint64_t version = 10; version <= 40; version += 10) {
		steps(worker, id, 10);
		written(worker, 0, version);
	}
	steps(worker, id, 5);
	check_ok(ol_stat(worker, 0, &stat));
	check_eq(stat.checkpoints, 4);
	check_eq(stat.checkpoints_failed + stat.checkpoints_skipped, 0);
	check_eq(files_of(versions), 4);
	for (unsigned i = 0; i < 4; i++)
		check_eq(versions[i], 10 * (i + 1));
	stage_stop(0); /* writes its last version */
	check_eq(files_of(versions), 5);
	check_eq(versions[4], 45);
	stage_restart(0, OL_RESTORE_CHECKPOINT);
	stage_down(worker, 0);
	stage_flush(worker);
	check_restored(worker, 0, OL_RESTORE_CHECKPOINT, 45, 2);
	check_account(worker, 0, id, 45, 0);
	ol_worker_close(worker);
	return 0;
}

/* A checkpoint every step, of large weights: what the writer cannot keep up with is counted */
static int skipped(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id, OL_OUTAGE_END);
	uint64_t versions[FILES_MAX];
	struct ol_server_stat stat;
	struct ol_op op = { 0 };
	unsigned count = 50;
	float *grad;

	for (unsigned i = 0; i < count; i++) {
		struct ol_push_info info = { .samples = 1 };

		check_ok(ol_grad_try_acquire(worker, &grad)); /* zeros, or what was there: zeros */
		check_ok(ol_push(worker, grad, &info, &op));
		check_ok(stage_done(worker, &op));
	}
	do {
		check_ok(ol_stat(worker, 0, &stat));
	} while (stat.checkpoints + stat.checkpoints_skipped < count);
	check_eq(stat.checkpoints + stat.checkpoints_skipped, count);
	check_eq(stat.checkpoints_failed, 0);
	check_eq(files_of(versions), stat.checkpoints);
	printf("   %lu written, %lu skipped\n", (unsigned long)stat.checkpoints,
	       (unsigned long)stat.checkpoints_skipped);
	check(stat.checkpoints > 0);
#ifndef __SANITIZE_THREAD__ /* which makes a step slower than a disk */
	check(stat.checkpoints_skipped > 0);
#endif
	ol_worker_close(worker);
	return 0;
}

static void failed(struct ol_worker *worker, long id, uint64_t so_far)
{
	struct ol_server_stat stat;

	steps(worker, id, 10);
	do {
		check_ok(ol_stat(worker, 0, &stat));
	} while (stat.checkpoints_failed < so_far);
	check_eq(stat.checkpoints_failed, so_far);
}

/* The folder is gone, then back; then the disk takes no more: training goes on through all of it */
static int failures(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id, OL_OUTAGE_WAIT);
	struct rlimit full = { .rlim_cur = 4096, .rlim_max = RLIM_INFINITY };
	uint64_t versions[FILES_MAX];
	char away[80];

	snprintf(away, sizeof(away), "%s-away", folder);
	pull(worker);
	check_ok(rename(folder, away));
	failed(worker, id, 1);
	check_ok(rename(away, folder));
	steps(worker, id, 10);
	written(worker, 0, 20);
	check_ok(prlimit(job->servers[0], RLIMIT_FSIZE, &full, NULL));
	failed(worker, id, 2);
	check_eq(files_of(versions), 1);
	stage_stop(0); /* cannot write its last version, and ends well */
	check_eq(files_of(versions), 1);
	stage_restart(0, OL_RESTORE_FRESHEST);
	stage_down(worker, 0);
	stage_flush(worker);
	check_restored(worker, 0, OL_RESTORE_MIRROR, 30, 2);
	check_account(worker, 0, id, 30, 0);
	check_weights(worker, job);
	ol_worker_close(worker);
	return 0;
}

static void run(struct ol_server_opts opts, uint32_t workers,
		int (*story)(const struct job *job, long id), const char *name)
{
	check_ok(folder_drop(folder));
	stage_play(opts, first_weight, workers, story, name);
	check_ok(folder_drop(folder));
}

static void rollbacks(void)
{
	struct ol_server_opts opts = server_opts(1, 10);

	run(opts, 1, rollback_wait, "back to a checkpoint, wait: what is lost is counted");
	run(opts, 1, rollback_continue, "the same, continue");
	opts.shard_count = 2;
	run(opts, 1, rollback_wait, "the same, one of two shards");
	run(opts, 1, rollback_continue, "the same, continue, one of two shards");
	opts = server_opts(2, 4);
	opts.consistency = OL_CONSISTENCY_SYNC;
	run(opts, 2, sync_story, "the same, sync: the push on its way is said to be lost");
	opts = server_opts(2, 10);
	run(opts, 2, leftover_behind, "the earlier history is taken where it loses less");
	run(opts, 2, leftover_ahead, "the later history is taken where it loses less");
}

static void sources(void)
{
	struct ol_server_opts opts;

	run(server_opts(1, 10), 1, mirror_is_newer, "a mirror newer than the checkpoint");
	run(server_opts(1, 2), 1, checkpoint_is_newer, "a checkpoint newer than the mirror");
	run(server_opts(1, 0), 1, nothing_is_there, "neither: the first weights");
	run(server_opts(2, 0), 2, not_finite, "a mirror that is not finite is passed over");
	opts = server_opts(1, 0);
	opts.rule.optimizer = OL_OPTIMIZER_MOMENTUM;
	opts.rule.momentum = 0.5f;
	run(opts, 1, momentum_mirrored, "momentum, its state mirrored");
	run(opts, 1, momentum_anew, "momentum, its state begins anew");
	opts = server_opts(2, 0);
	opts.param_count = 4 << 20;
	opts.restore_wait_ms = 1000;
	opts.lease_ms = 4 * JOB_LEASE_MS; /* a busy machine needs seconds for so many floats */
	for (unsigned i = 0; i < 6; i++) {
		/* how many us until the source dies */
		opts.job_id = (strcmp(job_transport(), "shm") == 0 ? 10000u : 80000u) << i;
		run(opts, 3, source_dies, "a source that dies while it is read");
	}
}

static void saving(void)
{
	struct ol_server_opts opts;

	run(server_opts(1, 10), 1, multiples, "checkpoints at every multiple, and at the end");
	opts = server_opts(1, 1);
	opts.param_count = 1 << 20;
	run(opts, 1, skipped, "checkpoints that are skipped are counted");
	run(server_opts(1, 10), 1, failures, "checkpoints that fail are counted");
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	job_transport();
	snprintf(folder, sizeof(folder), "/tmp/ol-restore-%d", (int)getpid());
	rollbacks();
	sources();
	saving();
	return 0;
}
