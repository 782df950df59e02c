/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * decided.c -- steps that do not wait for all workers, of several shards: a gradient is in all shards or in none,
 * whoever dies. OL_TRANSPORT shm or verbs
 *
 * All elements of a gradient are one number, and all weights are alike at first. So weights of one version are
 * one number in all shards, bit for bit, unless two shards made a step of different gradients, or gave one of them
 * different factors.
 *
 * What workers push while a server is away waits in queues, and leaves in one piece (`outages are gone through`).
 * Where gradients that miss their step are of a later one, a worker with two buffers pushes the second before the
 * first has its step.
 *
 *	decided [--seed N] [--kills N] [--only TEXT]	kills of each job
 */

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "outlast_span.h"
#include "support/check.h"
#include "support/job.h"

enum {
	SHARDS = 3,
	WORKERS = 4,
	LEN = 3 * 1024 + 100,
	STEPS_QUIET = 60,
	PATIENCE_MS = 30000,
	WAIT_MS = 100,
};

/* What workers tell of the job, in memory that all processes share */
static struct told {
	atomic_uint_fast64_t version;
	atomic_uint_fast64_t pulls, applied, late;
	atomic_bool ends;
} * told;

static uint64_t seed = 1;
static unsigned kills = 4;
static const char *only = "";
static enum ol_outage outage = OL_OUTAGE_WAIT; /* of the workers */

static uint64_t draw(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

static void rest(unsigned ms)
{
	(void)poll(NULL, 0, (int)ms);
}

/* Weights of one version are alike in all shards, and so is what they hold of each worker */
static uint64_t weights_check(const struct ol_worker *worker)
{
	struct ol_shard_info shard;
	uint64_t version;
	const float *weights = ol_weights(worker, &version);

	for (uint32_t k = 0; k < SHARDS; k++) {
		check_ok(ol_shard_info(worker, k, &shard));
		check_eq(shard.version, version);
		for (uint32_t id = 0; id < WORKERS; id++)
			check_eq(ol_applied_grads(worker, k, id), ol_applied_grads(worker, 0, id));
	}
	for (uint64_t i = 1; i < LEN; i++)
		check_msg(memcmp(&weights[i], &weights[0], sizeof(*weights)) == 0,
			  "version %llu: weight %llu is %.9g, weight 0 %.9g",
			  (unsigned long long)version, (unsigned long long)i, (double)weights[i],
			  (double)weights[0]);
	return version;
}

/* A buffer. False: the job has ended, and who would free one may have left */
static bool acquire(struct ol_worker *worker, float **ret_grad)
{
	int rc;

	while ((rc = ol_grad_try_acquire(worker, ret_grad)) != 0) {
		check_msg(rc == -EAGAIN || rc == -ENOBUFS, "acquire ended with %d", rc);
		if (atomic_load(&told->ends))
			return false;
		if (rc == -ENOBUFS)
			check_ok(job_pull(worker, 0));
		check(ol_worker_poll(worker) >= 0);
	}
	return true;
}

/* False: no push has begun, as the job has ended */
static bool push(struct ol_worker *worker, float value, struct ol_op *op)
{
	struct ol_push_info info = { .samples = 1, .loss = 1.0f };
	float *grad;

	if (!acquire(worker, &grad))
		return false;
	(void)ol_weights(worker, &info.base_version); /* it may have pulled */
	for (uint64_t i = 0; i < LEN; i++)
		grad[i] = value;
	*op = (struct ol_op){ .level = OL_LEVEL_APPLIED };
	check_ok(ol_push(worker, grad, &info, op));
	return true;
}

static int op_wait(struct ol_worker *worker, struct ol_op *op)
{
	for (unsigned i = 0; i < PATIENCE_MS / WAIT_MS; i++) {
		const int rc = ol_worker_wait_for(worker, op, WAIT_MS);

		if (rc != -EAGAIN)
			return rc;
		if (atomic_load(
			    &told->ends)) /* others have left, perhaps fewer than a quorum are here */
			check_ok(ol_withdraw(worker));
	}
	return -ETIMEDOUT;
}

/* A push has ended: late only where steps drop what misses them, or where the job ends */
static void push_end(const struct job *job, struct ol_worker *worker, struct ol_op *op)
{
	const int rc = op_wait(worker, op);

	check_msg(rc == 0 || rc == OL_E_LATE || rc == OL_E_LOST, "a push ended with %d", rc);
	check(rc != OL_E_LATE || job->opts.late == OL_LATE_DROP || job->opts.late_steps != 0 ||
	      atomic_load(&told->ends));
	atomic_fetch_add(rc == 0 ? &told->applied : &told->late, 1);
}

/* Each push of this process has one fate, the same at all shards, whose weights say so, too */
static void accounts_check(struct ol_worker *worker, uint32_t id, uint64_t pushed, uint64_t before)
{
	struct ol_op op = { 0 };
	struct ol_link_stat stat;

	check_ok(ol_flush(worker, &op));
	check_ok(op_wait(worker, &op));
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	(void)weights_check(worker);
	for (uint32_t k = 0; k < SHARDS; k++) {
		check_ok(ol_link_get_stat(worker, k, &stat));
		check_eq(stat.pushed, pushed);
		check_eq(stat.pushed, stat.applied + stat.late + stat.lost);
		check_eq(stat.applied, ol_applied_grads(worker, k, id) - before);
	}
}

/* A worker's process: until the job has ended */
static int train(const struct job *job, long id)
{
	struct ol_op ops[2] = { { .done = 1 }, { .done = 1 } };
	struct ol_worker_opts opts;
	struct ol_worker *worker;
	uint64_t pushed = 0, before = UINT64_MAX;
	bool pushes_on;

	seed = (uint64_t)getpid() * 2654435761u + 1;
	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.outage = outage;
	/* fewer buffers than the server has slots for; who goes on in an outage has two */
	opts.window = id % 2 == 0 && outage == OL_OUTAGE_WAIT ? 1 : 0;
	pushes_on = opts.window == 0 && job->opts.late != OL_LATE_DROP;
	worker = job_worker_with(job, (int)id, opts);
	for (;;) {
		struct ol_op *op = &ops[pushed % 2];
		uint64_t version;

		check_ok(job_pull(worker, OL_PULL_NEWEST));
		version = weights_check(worker);
		if (before == UINT64_MAX)
			before = ol_applied_grads(worker, 0, (uint32_t)id);
		atomic_fetch_add(&told->pulls, 1);
		if (version > atomic_load(&told->version))
			atomic_store(&told->version, version);
		if (atomic_load(&told->ends))
			break;
		if (draw(4) == 0)
			rest((unsigned)draw(id == 0 ? 12 : 4));
		if (!push(worker, (float)draw(1000) / 7.0f - 70.0f, op))
			continue;
		pushed++;
		if (!pushes_on)
			push_end(job, worker, op);
		else if (pushed > 1)
			push_end(job, worker, &ops[pushed % 2]);
	}
	if (pushes_on && pushed > 0)
		push_end(job, worker, &ops[(pushed - 1) % 2]);
	accounts_check(worker, (uint32_t)id, pushed, before);
	ol_worker_close(worker);
	return 0;
}

static void worker_kill(const struct job *job, pid_t *pid, long id)
{
	int status;

	check_ok(kill(*pid, SIGKILL));
	check(waitpid(*pid, &status, 0) == *pid);
	check_msg(WIFSIGNALED(status), "worker %ld ended by itself", id);
	rest((unsigned)draw(60));
	*pid = job_fork(train, job, id);
}

static void versions_await(uint64_t more, const pid_t pids[WORKERS])
{
	const uint64_t from = atomic_load(&told->version);
	const uint64_t until = ol_clock_ns() + 60 * OL_NS_PER_S;
	int status;

	while (atomic_load(&told->version) < from + more) {
		for (int id = 0; id < WORKERS; id++)
			check_msg(waitpid(pids[id], &status, WNOHANG) == 0, "worker %d ended", id);
		check_msg(ol_clock_ns() < until, "no step for a minute: version %llu",
			  (unsigned long long)atomic_load(&told->version));
		rest(2);
	}
}

static struct ol_server_opts opts_of(enum ol_wait wait, enum ol_late late)
{
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.param_count = LEN;
	opts.shard_count = SHARDS;
	opts.consistency = OL_CONSISTENCY_SYNC;
	opts.workers = opts.workers_max = WORKERS;
	opts.window = 2;
	opts.rule.lr = 0.01f;
	opts.wait = wait;
	opts.wait_k = 2;
	opts.grace_ms = 1;
	opts.late = late;
	opts.restore = OL_RESTORE_MIRROR;
	opts.restore_wait_ms = 1000;
	return opts;
}

/* A server dies, or two: the one that decides in the moments after another, or before it is back */
static void servers_die(struct job *job, uint32_t shard, bool two)
{
	two = two && shard != 0;
	job_kill(job, shard);
	rest((unsigned)draw(60));
	if (two) {
		job_kill(job, 0);
		(void)job_restart(job, 0, false);
		/* longer than a server that restores waits for a worker */
		rest(draw(8) == 0 ? 1500 : (unsigned)draw(60));
	}
	(void)job_restart(job, shard, false);
}

/* Somebody dies, a worker, or a server or two, which others take the place of */
static void one_dies(struct job *job, pid_t pids[WORKERS])
{
	const uint32_t replicas = job->opts.replicas;
	const bool chain = job->coordinator_addr[0] != '\0';
	struct ol_chain_info info;
	uint32_t shard = (uint32_t)draw(SHARDS), at;
	long id = (long)draw(WORKERS);
	int index;

	rest((unsigned)draw(30));
	if (draw(2) == 0) {
		worker_kill(job, &pids[id], id);
		return;
	}
	if (!chain) {
		servers_die(job, shard, draw(2) == 0);
		return;
	}
	info = job_chain(job, shard, replicas);
	at = (uint32_t)draw(replicas);
	index = job_server_at(job, &info, at);
	check(index >= 0);
	job_kill(job, (uint32_t)index);
	rest((unsigned)draw(60));
	(void)job_restart(job, (uint32_t)index, true);
}

static void story(const char *name, struct ol_server_opts opts, bool chain, unsigned deaths)
{
	pid_t pids[WORKERS];
	struct job job;

	if (strstr(name, only) == NULL)
		return;
	memset(&job, 0, sizeof(job));
	memset(told, 0, sizeof(*told));
	opts.replicas = chain ? 2 : 1;
	if (chain)
		opts.restore = OL_RESTORE_NONE;
	if (chain)
		job_start_chain(&job, opts, 1.0f);
	else
		job_start(&job, opts, 1.0f);
	for (int id = 0; id < WORKERS; id++)
		pids[id] = job_fork(train, &job, id);
	versions_await(deaths == 0 ? STEPS_QUIET : 5, pids);
	for (unsigned i = 0; i < deaths; i++) {
		one_dies(&job, pids);
		versions_await(5, pids);
	}
	atomic_store(&told->ends, true);
	for (int id = 0; id < WORKERS; id++)
		job_join(pids[id]);
	job_stop(&job);
	printf("ok %s: version %llu, %llu pulls, %llu applied, %llu late\n", name,
	       (unsigned long long)atomic_load(&told->version),
	       (unsigned long long)atomic_load(&told->pulls),
	       (unsigned long long)atomic_load(&told->applied),
	       (unsigned long long)atomic_load(&told->late));
}

static void options_read(int argc, char **argv)
{
	static const struct option longs[] = { { "seed", required_argument, NULL, 's' },
					       { "kills", required_argument, NULL, 'k' },
					       { "only", required_argument, NULL, 'o' },
					       { 0 } };
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c == 's')
			seed = strtoull(optarg, NULL, 0) * 2 + 1;
		else if (c == 'k')
			kills = (unsigned)strtoul(optarg, NULL, 0);
		else if (c == 'o')
			only = optarg;
		else
			exit(2);
	}
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	options_read(argc, argv);
	job_transport();
	told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(told != MAP_FAILED);
	story("the first two", opts_of(OL_WAIT_FIXED, OL_LATE_DROP), false, 0);
	story("a quorum", opts_of(OL_WAIT_QUORUM, OL_LATE_DROP), false, 0);
	story("dbw", opts_of(OL_WAIT_DBW, OL_LATE_DROP), false, 0);
	story("adasync", opts_of(OL_WAIT_ADASYNC, OL_LATE_DROP), false, 0);
	story("late is next", opts_of(OL_WAIT_FIXED, OL_LATE_NEXT), false, 0);
	story("the first two, deaths", opts_of(OL_WAIT_FIXED, OL_LATE_DROP), false, kills);
	story("a quorum, deaths", opts_of(OL_WAIT_QUORUM, OL_LATE_DROP), false, kills);
	story("late is next, deaths", opts_of(OL_WAIT_QUORUM, OL_LATE_NEXT), false, kills);
	story("late counts less, deaths", opts_of(OL_WAIT_FIXED, OL_LATE_AGED), false, kills);
	story("the first two, chains, deaths", opts_of(OL_WAIT_FIXED, OL_LATE_DROP), true, kills);
	story("late counts less, chains, deaths", opts_of(OL_WAIT_QUORUM, OL_LATE_AGED), true,
	      kills);
	outage = OL_OUTAGE_CONTINUE;
	story("outages are gone through, deaths", opts_of(OL_WAIT_FIXED, OL_LATE_DROP), false,
	      kills);
	story("outages are gone through, late is next, deaths",
	      opts_of(OL_WAIT_QUORUM, OL_LATE_NEXT), false, kills);
	return 0;
}
