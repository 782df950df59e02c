/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * init.c -- a job begins with the first weights of worker 0, whoever connects first, whichever server or
 * worker dies before the first step; a job that has weights goes on with them: real processes, OL_TRANSPORT
 * shm or verbs
 */

#include <math.h>
#include <string.h>

#include "outlast_tensor.h"
#include "support/check.h"
#include "support/stage.h"
#include "worker/worker_internal.h"

enum {
	LEN = 3000, /* two shards: 2048 and 952 */
	WORKERS = 2,
	REFUSED_MS = 200, /* in which a server would have begun */
	MIXTURE_MS = 3000 /* in which a worker hears from both servers */
};

static const float lr = 0.5f;
static const char table[] = "F32 1000,2 matrix\nF32 1000 bias\n";

/* Element i of a worker's first weights: no two are equal, nor of two workers */
static float element(long whose, uint64_t i)
{
	return (float)(whose * LEN) + (float)i + 1.0f;
}

static struct ol_server_opts server_opts(uint32_t shards, uint32_t workers)
{
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.window = JOB_WINDOW;
	opts.param_count = LEN;
	opts.shard_count = shards;
	opts.consistency = OL_CONSISTENCY_SYNC;
	opts.workers = workers;
	opts.workers_max = WORKERS;
	opts.rule.lr = lr;
	opts.rule.sum = 1;
	opts.restore_wait_ms = 3000;
	opts.init_worker = 1;
	return opts;
}

/* Open a worker that has the first weights of `whose`; < 0: none */
static struct ol_worker *open_worker(const struct job *job, long id, long whose)
{
	static float init[LEN];
	struct ol_worker_opts opts;
	struct ol_worker *worker;

	ol_worker_opts_init(&opts);
	opts.outage = OL_OUTAGE_WAIT;
	opts.lease_ms = JOB_LEASE_MS;
	opts.param_count = LEN;
	for (uint64_t i = 0; i < LEN; i++)
		init[i] = element(whose, i);
	opts.init = whose >= 0 ? init : NULL;
	opts.init_tensors = whose == 0 ? table : NULL;
	worker = job_worker_with(job, (int)id, opts);
	memset(init, 0, sizeof(init)); /* it is the caller's again */
	return worker;
}

/* The newest weights are those of `whose`, after so many steps of gradients that add up to `grad` */
static void check_pull(struct ol_worker *worker, long whose, uint64_t version, float grad)
{
	const float *weights;
	uint64_t found;

	check_ok(job_pull(worker, OL_PULL_NEWEST));
	weights = ol_weights(worker, &found);
	check_eq(found, version);
	for (uint64_t i = 0; i < LEN; i++) {
		const float want = element(whose, i) - lr * grad * (float)version;

		check_msg(weights[i] == want, "weight %lu is %.9g, not %.9g", (unsigned long)i,
			  (double)weights[i], (double)want);
	}
	check(ol_worker_tensors(worker) != NULL && strcmp(ol_worker_tensors(worker), table) == 0);
}

static void check_restored(struct ol_worker *worker, uint32_t shard, enum ol_restore from)
{
	struct ol_server_stat stat;

	check_ok(ol_stat(worker, shard, &stat));
	check_eq(stat.restored_from, from);
	check_eq(stage_stat(worker, shard).lost, 0);
}

static void steps(struct ol_worker *worker, unsigned count)
{
	while (count-- > 0) {
		check_ok(job_push(worker, 1.0f));
		check_ok(job_pull(worker, 0));
	}
}

/* Both have first weights. Whoever connects first waits for the other */
static int everybody_has_some(const struct job *job, long id)
{
	struct ol_worker *worker;

	stage_meet();
	worker = open_worker(job, id, id);
	check_pull(worker, 0, 0, 0.0f);
	steps(worker, 3);
	check_pull(worker, 0, 3, 2.0f);
	stage_meet();
	ol_worker_close(worker);
	return 0;
}

/* Before worker 0 has pulled, and after; and in the middle of the job, by a server that is told to begin it */
static int servers_die(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id, 0);

	for (uint32_t shard = 0; shard < job->shard_count; shard++) {
		stage_kill(shard);
		stage_restart(shard, shard == 0 ? OL_RESTORE_NONE : OL_RESTORE_MIRROR);
		stage_down(worker, shard);
	}
	check_pull(worker, 0, 0, 0.0f);
	for (uint32_t shard = 0; shard < job->shard_count; shard++)
		check_restored(worker, shard, OL_RESTORE_NONE);
	stage_kill(0);
	stage_restart(0, OL_RESTORE_NONE);
	stage_down(worker, 0);
	check_pull(worker, 0, 0, 0.0f);
	check_restored(worker, 0, OL_RESTORE_MIRROR);
	steps(worker, 5);
	stage_kill(0);
	stage_restart(0, OL_RESTORE_NONE);
	stage_down(worker, 0);
	check_pull(worker, 0, 5, 1.0f);
	check_restored(worker, 0, OL_RESTORE_MIRROR);
	ol_worker_close(worker);
	return 0;
}

/* Worker 0 comes again, with other first weights, to a job that has some; then its server dies */
static int another_is_too_late(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id, 0);

	check_pull(worker, 0, 0, 0.0f);
	steps(worker, 2);
	ol_worker_close(worker);
	worker = open_worker(job, id, 1);
	check_pull(worker, 0, 2, 1.0f);
	stage_kill(0);
	stage_restart(0, OL_RESTORE_NONE);
	stage_down(worker, 0);
	check_pull(worker, 0, 2, 1.0f);
	check_restored(worker, 0, OL_RESTORE_MIRROR);
	ol_worker_close(worker);
	return 0;
}

/*
 * Worker 0 dies when one server has its first weights and another has none, and comes again with others:
 * no job begins with both, and its open says why
 */
static int no_mixture(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id, 0);
	static float init[LEN];
	struct ol_worker_opts opts;
	char err[256] = "";

	ol_worker_close(worker);
	stage_kill(1);
	stage_restart(1, OL_RESTORE_NONE);
	ol_worker_opts_init(&opts);
	opts.param_count = LEN;
	opts.init = init;
	opts.servers = job->addrs;
	opts.transport = job_transport();
	opts.connect_timeout_ms = MIXTURE_MS;
	check_eq(ol_worker_open(&opts, &worker, err, sizeof(err)), OL_E_GEOMETRY);
	check_msg(strstr(err, "shard 0 has begun with others, of an earlier worker 0; begin all "
			      "servers anew") != NULL,
		  "%s", err);
	worker = open_worker(job, id, 0); /* the first ones fit */
	check_pull(worker, 0, 0, 0.0f);
	ol_worker_close(worker);
	return 0;
}

/* Worker 1 has the newest weights when the server is back; worker 0 is a new process, and first at the door */
static int who_was_there_goes_first(const struct job *job, long id)
{
	struct ol_worker *worker = NULL;

	if (id == 0)
		worker = open_worker(job, id, 0);
	else
		worker = open_worker(job, id, -1);
	check_pull(worker, 0, 0, 0.0f);
	steps(worker, 2);
	check_pull(worker, 0, 2, 2.0f);
	stage_meet();
	if (id == 0) {
		ol_worker_close(worker);
		stage_pause_worker(1);
		stage_kill(0);
		stage_restart(0, OL_RESTORE_NONE);
		stage_resume_worker(1);
		worker = open_worker(job, id, 1);
	} else {
		stage_down(worker, 0);
	}
	check_pull(worker, 0, 2, 2.0f);
	check_restored(worker, 0, OL_RESTORE_MIRROR);
	stage_meet();
	ol_worker_close(worker);
	return 0;
}

/* A worker whose memory was spoilt, or that lies: the server goes on waiting */
static int what_is_not_finite_is_not_taken(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id, 0);
	float *last = (float *)(void *)((uint8_t *)worker->links[0].init_slab->addr +
					ol_layout_table_bytes(&worker->links[0].geo)) +
		      LEN - 1;
	uint64_t until_ns;

	*last = NAN;
	stage_kill(0);
	stage_restart(0, OL_RESTORE_NONE);
	stage_down(worker, 0);
	until_ns = ol_clock_ns() + REFUSED_MS * OL_NS_PER_MS;
	while (ol_clock_ns() < until_ns) {
		check(ol_worker_poll(worker) >= 0);
		check(stage_stat(worker, 0).down);
	}
	*last = element(0, LEN - 1);
	stage_kill(0);
	stage_restart(0, OL_RESTORE_NONE);
	check_pull(worker, 0, 0, 0.0f);
	ol_worker_close(worker);
	return 0;
}

static void play(uint32_t shards, uint32_t workers, int (*story)(const struct job *job, long id),
		 const char *name)
{
	stage_play(server_opts(shards, workers), 7.0f, workers, story, name);
}

/* The head reads them, and the replicas behind it read the head's */
static int of_a_chain(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id, 0);

	check_pull(worker, 0, 0, 0.0f);
	steps(worker, 2);
	check_pull(worker, 0, 2, 1.0f);
	ol_worker_close(worker);
	return 0;
}

static int of_a_chain_whose_head_dies(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id, 0);
	const struct ol_chain_info info = job_chain(job, 0, 2);
	const int head = job_server_at(job, &info, 0);

	check(head >= 0);
	stage_kill((uint32_t)head);
	stage_restart((uint32_t)head, OL_RESTORE_NONE);
	check_pull(worker, 0, 0, 0.0f);
	steps(worker, 2);
	check_pull(worker, 0, 2, 1.0f);
	ol_worker_close(worker);
	return 0;
}

static void chain_play(int (*story)(const struct job *job, long id), const char *name)
{
	struct ol_server_opts opts = server_opts(2, 1);
	struct job job;

	opts.replicas = 2;
	opts.refound = 1;
	job_fork_chain(&job, opts, 7.0f);
	stage_run(&job, 1, story);
	job_stop(&job);
	printf("ok %s\n", name);
}

int main(void)
{
	play(2, WORKERS, everybody_has_some, "everybody_has_some");
	play(2, 1, servers_die, "servers_die");
	play(1, 1, another_is_too_late, "another_is_too_late");
	play(2, 1, no_mixture, "no_mixture");
	play(1, WORKERS, who_was_there_goes_first, "who_was_there_goes_first");
	play(1, 1, what_is_not_finite_is_not_taken, "what_is_not_finite_is_not_taken");
	chain_play(of_a_chain, "of_a_chain");
	chain_play(of_a_chain_whose_head_dies, "of_a_chain_whose_head_dies");
	return 0;
}
