/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * nonfinite_shards.c -- if a gradient has a NaN anywhere, every shard drops it, including parts that
 * were sent early. OL_TRANSPORT shm or verbs
 */

#include <math.h>
#include <string.h>

#include "support/check.h"
#include "support/stage.h"

enum {
	LEN = 3 * 65536, /* shards of several parts each */
	WORKERS = 2
};

static const float initial = 100.0f;

/* Where the NaN is: the last floats of a gradient are ready first */
static const uint64_t places[] = { 0, LEN / 2 - 1, LEN - 1 };

/* Parts go ahead as backpropagation makes them; at < LEN: that float is a NaN */
static int push(struct ol_worker *worker, uint64_t at, bool early)
{
	struct ol_push_info info = { .samples = 1 };
	struct ol_op op = { .level = OL_LEVEL_APPLIED };
	float *grad;

	check_ok(job_pull(worker, OL_PULL_NEWEST));
	(void)ol_weights(worker, &info.base_version);
	check_ok(ol_grad_try_acquire(worker, &grad));
	for (uint64_t first = LEN; first > 0; first -= LEN / 12) {
		for (uint64_t i = first - LEN / 12; i < first; i++)
			grad[i] = i == at ? NAN : 1.0f;
		if (early)
			check_ok(ol_grad_ready(worker, grad, first - LEN / 12));
		check(ol_worker_poll(worker) >= 0);
	}
	check_ok(ol_push(worker, grad, &info, &op));
	return stage_done(worker, &op);
}

static void check_weights(struct ol_worker *worker, float want)
{
	const float *weights;

	check_ok(job_pull(worker, OL_PULL_NEWEST));
	weights = ol_weights(worker, NULL);
	for (uint64_t i = 0; i < LEN; i++)
		check_msg(weights[i] == want, "float %llu is %g, not %g", (unsigned long long)i,
			  (double)weights[i], (double)want);
}

static void check_counts(struct ol_worker *worker, uint32_t shards, uint64_t applied)
{
	uint64_t dropped = sizeof(places) / sizeof(places[0]) * 2;

	for (uint32_t k = 0; k < shards; k++) {
		struct ol_link_stat stat = stage_stat(worker, k);

		check_eq(stat.nonfinite, dropped);
		check_eq(stat.applied, applied);
		check_eq(stat.pending, 0);
	}
}

/* One worker: what is dropped makes no step anywhere */
static int alone(const struct job *job, long id)
{
	struct ol_worker *worker = job_worker(job, (int)id);
	struct ol_server_stat stat;
	float want = initial;

	for (unsigned i = 0; i < 2 * sizeof(places) / sizeof(places[0]); i++) {
		check_eq(push(worker, places[i / 2], i % 2 != 0), OL_E_NONFINITE);
		check_weights(worker, want);
		check_eq(push(worker, LEN, i % 2 != 0), 0);
		want -= 0.5f;
		check_weights(worker, want);
	}
	check_counts(worker, job->opts.shard_count, 6);
	for (uint32_t k = 0; k < job->opts.shard_count; k++) {
		check_ok(ol_stat(worker, k, &stat));
		check_eq(stat.dropped_nonfinite, 6);
		check_eq(stat.applied, 6);
		check_eq(stat.version, 6);
	}
	ol_worker_close(worker);
	return 0;
}

/* Two, synchronous: the other's is the step, at every shard */
static int together(const struct job *job, long id)
{
	struct ol_worker *worker = job_worker(job, (int)id);
	float want = initial;

	for (unsigned i = 0; i < 2 * sizeof(places) / sizeof(places[0]); i++) {
		uint64_t at = id == 0 ? places[i / 2] : LEN;

		check_eq(push(worker, at, i % 2 != 0), id == 0 ? OL_E_NONFINITE : 0);
		want -= 0.5f;
		stage_meet();
		check_weights(worker, want);
		stage_meet();
	}
	if (id == 0)
		check_counts(worker, job->opts.shard_count, 0);
	ol_worker_close(worker);
	return 0;
}

int main(void)
{
	struct ol_server_opts opts;

	setvbuf(stdout, NULL, _IOLBF, 0);
	job_transport();
	for (uint32_t shards = 1; shards <= 3; shards++) {
		ol_server_opts_init(&opts);
		opts.lease_ms = JOB_LEASE_MS;
		opts.window = JOB_WINDOW;
		opts.param_count = LEN;
		opts.shard_count = shards;
		opts.rule.lr = 0.5f;
		opts.workers = opts.workers_max = 1;
		stage_play(opts, initial, 1, alone,
			   "one worker: a NaN keeps all of a gradient out");
		opts.workers = opts.workers_max = WORKERS;
		opts.consistency = OL_CONSISTENCY_SYNC;
		stage_play(opts, initial, WORKERS, together,
			   "two workers: a NaN keeps all of a gradient out");
	}
	return 0;
}
