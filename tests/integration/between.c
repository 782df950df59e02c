/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * between.c -- a synchronous worker that is killed between its pushes to two shards: its next process
 * completes the step, and the job ends with the bits of one in which nobody dies. OL_TRANSPORT shm or
 * verbs
 *
 * A gradient is a function of all weights, those of the other shard included, and of their version.
 */

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "outlast_span.h"
#include "support/bits.h"
#include "support/check.h"
#include "support/stage.h"

enum {
	SHARDS = 3,
	WORKERS = 2,
	STEPS = 8,
	LEN = 3 * 4096 + 100,
	DIES = 0, /* the worker's id */
};

/* Of a process of the worker: once it has pushed these shards' parts of a step's gradient */
struct death {
	unsigned step;
	uint32_t from, to;
	bool made; /* the shards have made the step before; else they hold its parts */
};

static const struct plan {
	const char *name;
	enum ol_outage outage;
	struct death deaths[4];
	unsigned death_count;
} plans[] = {
	{ .name = "between: undisturbed", .outage = OL_OUTAGE_WAIT },
	{ .name = "between: steps are made by some shards, and the worker dies",
	  .outage = OL_OUTAGE_WAIT,
	  .deaths = { { 0, 0, 1, true },
		      { 2, 2, 3, true },
		      { 3, 1, 3, true },
		      { STEPS - 1, 0, 2, true } },
	  .death_count = 4 },
	{ .name = "between: parts are held by some shards, and the worker dies",
	  .outage = OL_OUTAGE_WAIT,
	  .deaths = { { 0, 1, 3, false }, { 5, 0, 1, false } },
	  .death_count = 2 },
	{ .name = "between: the same of a worker that goes on in an outage",
	  .outage = OL_OUTAGE_CONTINUE,
	  .deaths = { { 1, 0, 2, true }, { 2, 2, 3, false }, { STEPS - 1, 1, 2, true } },
	  .death_count = 3 },
};
static const struct plan *plan;

/* At the weights pulled last */
static float *gradient(struct ol_worker *worker, long id, struct ol_push_info *info)
{
	const float *weights = ol_weights(worker, &info->base_version);
	struct ol_shard_info shard;
	float *grad;

	for (uint32_t k = 0; k < SHARDS; k++) {
		check_ok(ol_shard_info(worker, k, &shard));
		check_eq(shard.version, info->base_version);
	}
	info->samples = 1;
	check_ok(ol_grad_acquire(worker, &grad));
	for (uint64_t i = 0; i < LEN; i++)
		grad[i] = 0.125f * weights[(i + LEN / 2) % LEN] +
			  bits_noise(id, info->base_version, i);
	return grad;
}

static struct ol_worker *worker_open(const struct job *job, long id)
{
	struct ol_worker_opts opts;

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.outage = plan->outage;
	return job_worker_with(job, (int)id, opts);
}

/* All steps before this one, from where the job is; a gradient may be late while it joins */
static void steps_make(struct ol_worker *worker, long id, unsigned end)
{
	struct ol_push_info info = { 0 };
	bool joined = false;

	for (;;) {
		struct ol_op op = { .level = OL_LEVEL_APPLIED };
		int rc;

		check_ok(job_pull(worker, OL_PULL_NEWEST | (joined ? 0 : OL_PULL_EVEN)));
		(void)ol_weights(worker, &info.base_version);
		if (info.base_version >= end)
			return;
		if (id != DIES && !joined)
			stage_meet();
		for (unsigned i = 0; id != DIES && i < plan->death_count; i++) {
			if (plan->deaths[i].step == info.base_version && !plan->deaths[i].made)
				stage_meet(); /* the other one is dead */
		}
		check_ok(ol_push(worker, gradient(worker, id, &info), &info, &op));
		rc = stage_done(worker, &op);
		check(rc == 0 || (rc == OL_E_LATE && id == DIES && !joined));
		joined = joined || rc == 0;
	}
}

/* A process of the worker, up to its death */
static void live_and_die(const struct job *job, const struct death *death)
{
	struct ol_worker *worker = worker_open(job, DIES);
	struct ol_op op = { .level = death->made ? OL_LEVEL_APPLIED : OL_LEVEL_PLACED };
	struct ol_push_info info = { 0 };
	struct ol_shard_info first, last;
	float *grad;

	steps_make(worker, DIES, death->step);
	grad = gradient(worker, DIES, &info);
	check_eq(info.base_version, death->step);
	check_ok(ol_shard_info(worker, death->from, &first));
	check_ok(ol_shard_info(worker, death->to - 1, &last));
	check_ok(ol_push_span(worker, grad, first.first, last.first + last.count - first.first,
			      &info, &op));
	check_ok(stage_done(worker, &op));
	raise(SIGKILL);
}

static void lives(const struct job *job)
{
	int status;

	for (unsigned i = 0; i < plan->death_count; i++) {
		pid_t pid = fork();

		check(pid >= 0);
		if (pid == 0) {
			live_and_die(job, &plan->deaths[i]);
			_exit(1);
		}
		if (i == 0)
			stage_meet();
		check(waitpid(pid, &status, 0) == pid);
		check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		if (!plan->deaths[i].made)
			stage_meet();
	}
	if (plan->death_count == 0)
		stage_meet();
}

static int story(const struct job *job, long id)
{
	struct ol_worker *worker;

	if (id == DIES)
		lives(job);
	worker = worker_open(job, id);
	steps_make(worker, id, STEPS);
	stage_flush(worker);
	for (uint32_t k = 0; k < SHARDS; k++) {
		for (uint32_t i = 0; i < WORKERS; i++)
			check_eq(ol_applied_grads(worker, k, i), STEPS);
	}
	bits_note(id, ol_weights(worker, NULL), LEN);
	ol_worker_close(worker);
	return 0;
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	job_transport();
	bits_begin(WORKERS);
	for (unsigned i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		plan = &plans[i];
		stage_play(bits_opts(LEN, SHARDS, WORKERS), 1.0f, WORKERS, story, plan->name);
		bits_check();
	}
	return 0;
}
