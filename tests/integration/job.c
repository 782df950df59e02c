/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * job.c -- every gradient takes effect exactly once, pulls are whole and never go back, and the
 * loss of a worker does not affect the others: real processes, OL_TRANSPORT shm or verbs
 *
 * Gradients are small whole numbers and the learning rate is a power of two, so sums are exact in
 * any order: the weights must equal the sums by the applied tables, bit for bit.
 */

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "support/check.h"
#include "support/job.h"

enum {
	LEN = 3000, /* two shards: 2048 and 952 */
	WORKERS = 3,
	PUSHES = 200,
	BIG_LEN = 300000, /* several pieces, several parts */
	BIG_SPLIT =
		170003, /* in the second of two shards, and in no place that a cache line begins */
};

static struct ol_server_opts job_opts(enum ol_consistency consistency, uint32_t shards)
{
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.param_count = LEN;
	opts.shard_count = shards;
	opts.consistency = consistency;
	opts.workers = WORKERS;
	opts.workers_max = WORKERS;
	opts.window = 2;
	opts.rule.lr = 0.5f;
	opts.rule.sum = 1;
	return opts;
}

/* What a shard's weights must be: worker k only ever pushes gradients of all k + 1 */
static void check_weights(struct ol_worker *worker, uint32_t shards)
{
	const float *weights = ol_weights(worker, NULL);

	for (uint32_t s = 0; s < shards; s++) {
		uint64_t first, count;
		float want = 100.0f;

		for (uint32_t k = 0; k < WORKERS; k++)
			want -= 0.5f * (float)(k + 1) * (float)ol_applied_grads(worker, s, k);
		check(ol_shard_span(LEN, shards, s, &first, &count) == 0);
		for (uint64_t i = first; i < first + count; i++)
			check(weights[i] == want);
	}
}

static int push_all(const struct job *job, long id)
{
	struct ol_worker *worker = job_worker(job, (int)id);
	uint64_t version, last = 0;

	for (int i = 0; i < PUSHES; i++) {
		check_eq(job_pull(worker, 0), 0);
		check_weights(worker, job->shard_count);
		ol_weights(worker, &version);
		check(version >= last);
		last = version;
		check_eq(job_push(worker, (float)(id + 1)), 0);
	}
	ol_worker_close(worker);
	return 0;
}

/* Pulls as fast as it can, so that updates overtake it: must never see a mixture */
static int watch(const struct job *job, long versions)
{
	struct ol_worker *worker = job_worker(job, -1);
	uint64_t version = 0, last = 0;

	while (version < (uint64_t)versions) {
		check_eq(job_pull(worker, OL_PULL_NEWEST), 0);
		check_weights(worker, job->shard_count);
		ol_weights(worker, &version);
		check(version >= last);
		last = version;
	}
	ol_worker_close(worker);
	return 0;
}

static void run_workers(enum ol_consistency consistency, uint32_t shards)
{
	long versions = consistency == OL_CONSISTENCY_SYNC ? PUSHES : PUSHES * WORKERS;
	pid_t pids[WORKERS + 1];
	struct job job;

	job_start(&job, job_opts(consistency, shards), 100.0f);
	pids[WORKERS] = job_fork(watch, &job, versions);
	for (int k = 0; k < WORKERS; k++)
		pids[k] = job_fork(push_all, &job, k);
	for (int k = 0; k <= WORKERS; k++)
		job_join(pids[k]);
	job_stop(&job);
}

/* Another rule for the i-th push, of two groups: lr[0] below BIG_SPLIT, lr[1] from there on */
static void rule_change(struct ol_worker *worker, int i, float lr[2])
{
	struct ol_rule rule;

	check_ok(ol_rule_get(worker, &rule));
	check_eq(rule.version, (uint64_t)(i / 4));
	check(rule.groups[rule.group_count - 1].lr == lr[1]);
	lr[0] = i % 8 == 0 ? 0.25f : 1.0f;
	lr[1] = 0.125f * (float)(1 + i % 3);
	rule.group_count = 2;
	rule.groups[0].lr = lr[0];
	rule.groups[1] = rule.groups[0];
	rule.groups[1].first = BIG_SPLIT;
	rule.groups[1].lr = lr[1];
	check_ok(ol_rule_set(worker, &rule));
}

/* Parts that are announced ahead change nothing but the time: with them and without, in any
 * steps; nor do they if the rule changes with the push */
static int push_parts(const struct job *job, long changes)
{
	struct ol_worker *worker = job_worker(job, 0);
	struct ol_push_info info = { .samples = 1 };
	float lr[2] = { 0.5f, 0.5f }, is[2] = { 100.0f, 100.0f };
	struct ol_op op = { 0 };
	float *grad;

	for (int i = 0; i < 24; i++) {
		check_ok(job_pull(worker, 0));
		ol_weights(worker, &info.base_version);
		for (int k = 0; k < BIG_LEN; k++)
			check(ol_weights(worker, NULL)[k] == is[k >= BIG_SPLIT]);
		if (changes && i % 4 == 0)
			rule_change(worker, i, lr);
		is[0] -= lr[0];
		is[1] -= lr[1];
		check_ok(ol_grad_try_acquire(worker, &grad));
		for (int k = BIG_LEN - 1; k >= 0; k--) {
			grad[k] = i % 5 == 4 ? 5.0f : 1.0f;
			if (i % 3 != 0 && k % (10000 * (i % 3)) == 0)
				check_ok(ol_grad_ready(worker, grad, (uint64_t)k));
		}
		if (i % 5 == 4) { /* never pushed: what was announced comes to nothing */
			check_ok(ol_grad_release(worker, grad));
			check_eq(ol_grad_release(worker, grad), -EINVAL);
			check_ok(ol_grad_try_acquire(worker, &grad));
			for (int k = 0; k < BIG_LEN; k++)
				grad[k] = 1.0f;
		}
		check_ok(ol_push(worker, grad, &info, &op));
		check_ok(ol_worker_wait(worker, &op));
	}
	check_ok(ol_grad_try_acquire(worker, &grad)); /* and a bad one leaves no trace */
	for (int k = 0; k < BIG_LEN; k++)
		grad[k] = k == BIG_LEN - 1 ? NAN : 1.0f;
	check_ok(ol_grad_ready(worker, grad, BIG_LEN / 2));
	check_ok(ol_push(worker, grad, &info, &op));
	check_eq(ol_worker_wait(worker, &op), OL_E_NONFINITE);
	ol_worker_close(worker);
	return 0;
}

static void parts_change_nothing(void)
{
	struct ol_server_opts opts = job_opts(OL_CONSISTENCY_ASYNC, 1);
	struct job job;

	opts.param_count = BIG_LEN;
	for (opts.shard_count = 1; opts.shard_count <= 2; opts.shard_count++) {
		job_start(&job, opts, 100.0f);
		job_join(job_fork(push_parts, &job, opts.shard_count == 2));
		job_stop(&job);
	}
	opts.shard_count = 1;
	job_start(&job, opts, 100.0f);
	job_join(job_fork(push_parts, &job, 1));
	job_stop(&job);
}

static int push_nonfinite(const struct job *job, long unused)
{
	struct ol_worker *worker = job_worker(job, 0);
	struct ol_server_stat stat;

	(void)unused;
	check_eq(job_push(worker, 1.0f), 0);
	check_eq(job_push(worker, NAN), OL_E_NONFINITE);
	check_eq(job_push(worker, INFINITY), OL_E_NONFINITE);
	check_eq(job_push(worker, 1.0f), 0);
	check_eq(job_pull(worker, 0), 0);
	check(ol_weights(worker, NULL)[LEN - 1] == 99.0f);
	check_eq(ol_applied(worker, 0, 0), 4); /* the last number applied */
	check_eq(ol_stat(worker, 0, &stat), 0);
	check_eq(stat.applied, 2);
	check_eq(stat.dropped_nonfinite, 2);
	check_eq(stat.version, 2);
	ol_worker_close(worker);
	return 0;
}

static struct ol_rule rule_now(struct ol_worker *worker)
{
	struct ol_rule rule;

	check_ok(job_pull(worker, OL_PULL_NEWEST));
	check_ok(ol_rule_get(worker, &rule));
	return rule;
}

/* Two workers that want different rules: each change takes effect once, the last one stays */
static int rules_of_two(const struct job *job, long unused)
{
	struct ol_worker *one = job_worker(job, 0), *two = job_worker(job, 1);
	struct ol_op ops[2] = { { 0 }, { 0 } };
	struct ol_rule rule = rule_now(one);

	(void)unused;
	check_ok(job_pull(two, 0));
	for (unsigned turn = 1; turn < 20; turn += 2) {
		rule.groups[0].lr = 0.25f;
		check_ok(ol_rule_set(one, &rule));
		check_ok(job_push_start(one, 1.0f, &ops[0]));
		while (rule_now(two).version != turn)
			;
		rule.groups[0].lr = 0.125f;
		check_ok(ol_rule_set(two, &rule));
		check_ok(ol_rule_set(two, &rule)); /* the same: nothing */
		check_ok(job_push(two, 1.0f));
		check_ok(job_push_start(one, 1.0f, &ops[1])); /* has not seen its ack: no repeat */
		for (int i = 0; i < 2; i++)
			check_ok(ol_worker_wait(one, &ops[i]));
		check_eq(rule_now(one).version, turn + 1);
		check(rule_now(one).groups[0].lr == 0.125f);
	}
	ol_worker_close(one);
	ol_worker_close(two);
	return 0;
}

static void a_rule_changes_once(void)
{
	struct job job;

	job_start(&job, job_opts(OL_CONSISTENCY_ASYNC, 1), 100.0f);
	job_join(job_fork(rules_of_two, &job, 0));
	job_stop(&job);
}

static void nonfinite_is_dropped_and_counted(void)
{
	struct job job;

	job_start(&job, job_opts(OL_CONSISTENCY_ASYNC, 1), 100.0f);
	job_join(job_fork(push_nonfinite, &job, 0));
	job_stop(&job);
}

/* Pushes for ever: is killed somewhere on the way */
static int push_until_killed(const struct job *job, long id)
{
	struct ol_worker *worker = job_worker(job, (int)id);

	while (job_push(worker, (float)(id + 1)) == 0)
		;
	return 1;
}

/* Wait, by reading the board, until the server holds `workers` sessions and version is reached */
static void await(struct ol_worker *observer, uint32_t workers, uint64_t version)
{
	struct ol_server_stat stat = { 0 };

	alarm(60);
	do {
		check_eq(ol_stat(observer, 0, &stat), 0);
	} while (stat.workers != workers || stat.version < version);
	alarm(0);
}

/* A process that kills: fn of job_fork() must not open a transport and fork, so it forks first */
static int kill_and_return(const struct job *job, long rounds)
{
	for (long i = 0; i < rounds; i++) {
		pid_t pid = job_fork(push_until_killed, job, 1), watcher;
		int status;

		watcher = fork();
		if (watcher == 0) {
			struct ol_worker *observer = job_worker(job, -1);
			struct ol_server_stat stat;

			check_eq(ol_stat(observer, 0, &stat), 0);
			await(observer, 1, stat.version + 10 + (uint64_t)i);
			kill(pid, SIGKILL);
			await(observer, 0, 0);
			check_eq(job_pull(observer, OL_PULL_NEWEST), 0);
			check_weights(observer, job->shard_count);
			ol_worker_close(observer);
			exit(0);
		}
		job_join(watcher);
		check(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	}
	return 0;
}

static void a_killed_worker_leaves_its_slots(void)
{
	struct job job;

	job_start(&job, job_opts(OL_CONSISTENCY_ASYNC, 1), 100.0f);
	job_join(job_fork(kill_and_return, &job, 5));
	job_join(job_fork(push_all, &job, 1)); /* the same id, from where it was */
	job_stop(&job);
}

/* As many pushes in flight as the window allows, acknowledged in any order */
static int push_window(const struct job *job, long unused)
{
	struct ol_worker *worker = job_worker(job, 0);
	struct ol_op ops[2] = { { 0 }, { 0 } };
	struct ol_push_info info = { .samples = 1 };
	float *grad;

	(void)unused;
	for (int i = 0; i < PUSHES; i++) {
		struct ol_op *op = &ops[i % 2];

		if (i >= 2)
			check_eq(ol_worker_wait(worker, op), 0);
		check_eq(ol_grad_try_acquire(worker, &grad), 0);
		for (int k = 0; k < LEN; k++)
			grad[k] = 1.0f;
		check_eq(ol_push(worker, grad, &info, op), 0);
		check_eq(ol_push(worker, grad, &info, op), -EINVAL); /* no longer lent */
	}
	check_eq(ol_worker_wait(worker, &ops[0]), 0);
	check_eq(ol_worker_wait(worker, &ops[1]), 0);
	check_eq(ol_grad_try_acquire(worker, &grad), 0);
	check_eq(ol_grad_try_acquire(worker, &grad), 0);
	check_eq(ol_grad_try_acquire(worker, &grad), -EAGAIN);
	check_eq(job_pull(worker, 0), 0);
	check_weights(worker, job->shard_count);
	check_eq(ol_applied_grads(worker, 0, 0), PUSHES);
	ol_worker_close(worker);
	return 0;
}

static void a_window_of_pushes_is_applied_in_order(void)
{
	for (uint32_t shards = 1; shards <= 2; shards++) {
		struct job job;

		job_start(&job, job_opts(OL_CONSISTENCY_ASYNC, shards), 100.0f);
		job_join(job_fork(push_window, &job, 0));
		job_stop(&job);
	}
}

static int lose_server(const struct job *job, long unused)
{
	struct ol_worker *worker = job_worker(job, 0);
	int rc;

	(void)unused;
	check_eq(job_push(worker, 1.0f), 0);
	check_eq(job_pull(worker, 0), 0);
	kill(job->servers[1], SIGKILL);
	do {
		rc = job_push(worker, 1.0f);
	} while (rc == 0);
	check_eq(rc, OL_E_NO_SERVER);
	check_eq(job_pull(worker, 0), OL_E_NO_SERVER);
	check(ol_weights(worker, NULL) != NULL); /* the last whole ones are still there */
	ol_worker_close(worker);
	return 0;
}

static void a_lost_server_is_a_status(void)
{
	struct job job;

	job_start(&job, job_opts(OL_CONSISTENCY_ASYNC, 2), 100.0f);
	job_join(job_fork(lose_server, &job, 0));
	check(waitpid(job.servers[1], NULL, 0) == job.servers[1]);
	job.shard_count = 1;
	job.servers[1] = 0;
	job_stop(&job);
}

/* Of the second of two shards, by its address alone */
static int count(const struct job *job, long unused)
{
	struct ol_worker *worker = job_worker(job, 0), *observer;
	struct ol_worker_opts opts;
	struct ol_server_stat stat;
	char err[256] = "";
	struct ol_op op = { 0 };
	float *grad;

	(void)unused;
	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.servers = job->addr[1];
	opts.transport = job_transport();
	opts.job_key = job->opts.job_key;
	opts.observer = OL_OBSERVER_READS;
	check_eq(ol_worker_open(&opts, &observer, err, sizeof(err)), OL_E_GEOMETRY);
	opts.observer = OL_OBSERVER_COUNTERS + 1;
	check_eq(ol_worker_open(&opts, &observer, err, sizeof(err)), -EINVAL);
	opts.observer = OL_OBSERVER_COUNTERS;
	check_eq(ol_worker_open(&opts, &observer, err, sizeof(err)), 0);
	check_eq(job_push(worker, 1.0f), 0);
	check_eq(ol_stat(observer, 0, &stat), 0);
	check_eq(stat.version, 1);
	check_eq(stat.applied, 1);
	check_eq(ol_stat(observer, 1, &stat), -EINVAL);
	check_eq(ol_pull(observer, OL_PULL_NEWEST, &op), -EPERM);
	check_eq(ol_grad_try_acquire(observer, &grad), -EPERM);
	check(ol_weights(observer, NULL) == NULL);
	ol_worker_close(observer);
	ol_worker_close(worker);
	return 0;
}

static void counters_are_read_of_any_server(void)
{
	struct job job;

	job_start(&job, job_opts(OL_CONSISTENCY_ASYNC, 2), 100.0f);
	job_join(job_fork(count, &job, 0));
	job_stop(&job);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("transport %s\n", job_transport());
	run_workers(OL_CONSISTENCY_ASYNC, 1);
	printf("ok async, 1 shard\n");
	run_workers(OL_CONSISTENCY_ASYNC, 2);
	printf("ok async, 2 shards\n");
	run_workers(OL_CONSISTENCY_SYNC, 1);
	run_workers(OL_CONSISTENCY_SYNC, 2);
	printf("ok sync\n");
	parts_change_nothing();
	printf("ok parts\n");
	a_rule_changes_once();
	printf("ok rules of two workers\n");
	nonfinite_is_dropped_and_counted();
	printf("ok non-finite\n");
	a_window_of_pushes_is_applied_in_order();
	printf("ok window\n");
	a_killed_worker_leaves_its_slots();
	printf("ok killed worker\n");
	counters_are_read_of_any_server();
	printf("ok counters\n");
	a_lost_server_is_a_status();
	printf("ok lost server\n");
	return 0;
}
