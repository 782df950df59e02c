/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * readers.c -- many readers at full rate: what each is handed is whole, of the version that it says,
 * and never older than before; also through a relay, and while the server is killed and restored
 *
 * Each step takes 1 from no weight and adds 1 to all, so the weights of version v are all v: a read
 * that mixes two versions, or that names another, is seen. Half of the readers read the server,
 * half a relay. Full scale, as README.md of src/server reports it:
 *
 *	build/release/tests/integration-readers --readers 64 --pulls 1000000
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/check.h"
#include "support/job.h"

enum {
	READERS = 64,
	READERS_MAX = 512,
	PULLS = 4000, /* of all readers, before and after the death each */
	STEPS = 80, /* that a figure is taken over, at least */
	WAIT_EVERY = 64, /* a reader waits for the next version after so many pulls */
	WAIT_MS = 20000,
	FDS = 8192,
};

/* What the processes share */
struct shared {
	_Atomic uint64_t steps;
	_Atomic uint64_t pulls; /* of readers of the server … */
	_Atomic uint64_t relayed; /* … and of the relay */
	_Atomic uint64_t newest; /* that a reader of the relay was handed */
	_Atomic uint64_t repeats; /* pulls that would have gone back, and did not */
	_Atomic uint64_t of[READERS_MAX]; /* pulls of each reader */
	_Atomic uint32_t open; /* readers that are in */
	_Atomic uint32_t relay_up;
	_Atomic uint32_t reading;
	_Atomic uint32_t stop;
};

static struct shared *shared;
static uint32_t readers = READERS;
static uint64_t pulls = PULLS;
static uint64_t steps_least = STEPS;
static uint32_t floats = 1000; /* of the weights */
static int reader_nice; /* of readers: with 19 they take what training leaves of the processors */
static int pace_ms; /* between two steps, so that figures are of as many a second */
static char relay_addr[64];

static struct ol_worker_opts patient(void)
{
	struct ol_worker_opts opts;

	ol_worker_opts_init(&opts);
	opts.outage = OL_OUTAGE_WAIT;
	opts.connect_timeout_ms = 60000;
	opts.op_timeout_ms = 60000;
	return opts;
}

static int train(const struct job *job, long arg)
{
	struct ol_worker *worker = job_worker_with(job, 0, patient());

	(void)arg;
	check_ok(job_pull(worker, 0));
	while (!atomic_load(&shared->stop)) {
		int rc = job_push(worker, -1.0f);

		if (rc == -EAGAIN || rc == -ENOBUFS) { /* a pull frees the buffer */
			check_ok(job_pull(worker, 0));
			continue;
		}
		check_ok(rc);
		atomic_fetch_add(&shared->steps, 1);
		check_ok(job_pull(worker, 0));
		if (pace_ms > 0)
			poll(NULL, 0, pace_ms);
	}
	ol_worker_close(worker);
	return 0;
}

static struct ol_relay *running;

static void on_term(int signal_number)
{
	(void)signal_number;
	ol_relay_stop(running);
}

static int relay(const struct job *job, long arg)
{
	struct sigaction action = { .sa_handler = on_term };
	struct ol_worker_opts above = patient();
	struct ol_server_opts below;
	char err[256] = "";

	(void)arg;
	above.servers = job->addrs;
	above.transport = job_transport();
	ol_server_opts_init(&below);
	below.listen = relay_addr;
	below.observers_max = READERS_MAX;
	if (ol_relay_open(&above, &below, 0, &running, err, sizeof(err)) != 0) {
		fprintf(stderr, "relay: %s\n", err);
		return 1;
	}
	sigaction(SIGTERM, &action, NULL);
	atomic_store(&shared->relay_up, 1);
	check_ok(ol_relay_run(running));
	ol_relay_close(running);
	return 0;
}

/* All weights are of this version, and so is the table */
static void check_whole(struct ol_worker *reader, uint64_t version)
{
	uint64_t says;
	const float *weights = ol_weights(reader, &says);

	check_eq(says, version);
	for (unsigned i = 0; i < floats; i++)
		check_msg(weights[i] == (float)version, "torn: float %u of version %llu is %g", i,
			  (unsigned long long)version, (double)weights[i]);
	check_eq(ol_applied_grads(reader, 0, 0), version);
}

/* A read that would go back is told, and waits until the job is as far again */
static void pull_forward(struct ol_worker *reader, struct ol_op *op)
{
	int rc;

	do {
		check_ok(ol_pull(reader, OL_PULL_NEWEST | OL_PULL_FORWARD, op));
		rc = ol_worker_wait(reader, op);
		if (rc == OL_E_HISTORY) {
			atomic_fetch_add(&shared->repeats, 1);
			check_ok(ol_wait_version(reader, 0, WAIT_MS));
		}
	} while (rc == OL_E_HISTORY);
	check_ok(rc);
}

static int reader_run(struct ol_worker *reader, long index, bool relayed)
{
	_Atomic uint64_t *count = relayed ? &shared->relayed : &shared->pulls;
	uint64_t last = 0;
	struct ol_op op = { 0 };

	check_eq(setpriority(PRIO_PROCESS, 0, reader_nice), 0);
	atomic_fetch_add(&shared->open, 1);
	while (!atomic_load(&shared->reading))
		poll(NULL, 0, 1); /* until all are in */
	for (unsigned n = 1; !atomic_load(&shared->stop); n++) {
		if (relayed) { /* it never goes back, whatever becomes of the server */
			check_ok(ol_pull(reader, OL_PULL_NEWEST, &op));
			check_ok(ol_worker_wait(reader, &op));
		} else {
			pull_forward(reader, &op);
		}
		check_msg(op.version >= last, "back: version %llu after %llu",
			  (unsigned long long)op.version, (unsigned long long)last);
		last = op.version;
		check_whole(reader, last);
		atomic_fetch_add(count, 1);
		atomic_fetch_add(&shared->of[index], 1);
		if (relayed && last > atomic_load(&shared->newest))
			atomic_store(&shared->newest, last);
		if (n % WAIT_EVERY == 0)
			(void)ol_wait_version(reader, last + 1, 10);
	}
	ol_worker_close(reader);
	return 0;
}

static int read_server(const struct job *job, long arg)
{
	return reader_run(job_worker_with(job, -1, patient()), arg, false);
}

static int read_relay(const struct job *job, long arg)
{
	struct ol_worker_opts opts = patient();
	struct ol_worker *reader;
	char err[256] = "";
	int rc;

	(void)job;
	opts.servers = relay_addr; /* shm, whatever the relay itself reads by */
	opts.observer = 1;
	rc = ol_worker_open(&opts, &reader, err, sizeof(err));
	check_msg(rc == 0, "%s", err);
	return reader_run(reader, arg, true);
}

static void wait_for(_Atomic uint64_t *count, uint64_t least)
{
	while (atomic_load(count) < least)
		poll(NULL, 0, 1);
}

static uint64_t pulled(void)
{
	return atomic_load(&shared->pulls) + atomic_load(&shared->relayed);
}

static uint64_t processor_ns(pid_t pid)
{
	struct timespec at;
	clockid_t clock;

	check_eq(clock_getcpuclockid(pid, &clock), 0);
	check_eq(clock_gettime(clock, &at), 0);
	return (uint64_t)at.tv_sec * OL_NS_PER_S + (uint64_t)at.tv_nsec;
}

/* Steps a second, and what a step takes of the server's processor, until so many pulls are made */
static void figure(const struct job *job, const char *what, uint64_t pulls_more)
{
	const uint64_t cpu_ns = processor_ns(job->servers[0]), began_ns = ol_clock_ns();
	const uint64_t steps = atomic_load(&shared->steps), from = pulled();
	uint64_t made, took_ns, used_ns;

	while (pulled() - from < pulls_more || atomic_load(&shared->steps) - steps < steps_least)
		poll(NULL, 0, 1);
	made = atomic_load(&shared->steps) - steps;
	took_ns = ol_clock_ns() - began_ns;
	used_ns = processor_ns(job->servers[0]) - cpu_ns;
	printf("%-16s %6.0f steps/s, the server's processor: %6.1f us a step, %5.2f %% of one; "
	       "%7.0f pulls/s\n",
	       what, (double)made * 1e9 / (double)took_ns, (double)used_ns / 1e3 / (double)made,
	       100.0 * (double)used_ns / (double)took_ns,
	       (double)(pulled() - from) * 1e9 / (double)took_ns);
	fflush(stdout);
}

/* The server dies, and comes back from the worker's mirror; the relay serves on meanwhile */
static void server_dies(struct job *job)
{
	uint64_t count, newest;

	job_kill(job, 0);
	count = atomic_load(&shared->relayed);
	wait_for(&shared->relayed, count + readers); /* nobody waits for the server there */
	job->opts.restore = OL_RESTORE_MIRROR;
	job_restart(job, 0, false);
	newest = atomic_load(&shared->newest);
	wait_for(&shared->newest, newest + STEPS / 4); /* and it goes forward again */
}

static void readers_start(const struct job *job, pid_t *pids)
{
	for (uint32_t i = 0; i < readers; i++)
		pids[i] = job_fork(i % 2 == 0 ? read_server : read_relay, job, i);
	while (atomic_load(&shared->open) < readers)
		poll(NULL, 0, 1);
	atomic_store(&shared->reading, 1);
}

/* What the readers did, and how unequally */
static void summary(void)
{
	uint64_t least = UINT64_MAX, most = 0;

	for (uint32_t i = 0; i < readers; i++) {
		uint64_t of = atomic_load(&shared->of[i]);

		least = of < least ? of : least;
		most = of > most ? of : most;
	}
	check(least > 0);
	printf("%u readers: %llu pulls of the server, %llu of the relay, %llu to %llu each, none torn "
	       "or backward; %llu were made again, as the server had come back with less\n",
	       readers, (unsigned long long)atomic_load(&shared->pulls),
	       (unsigned long long)atomic_load(&shared->relayed), (unsigned long long)least,
	       (unsigned long long)most, (unsigned long long)atomic_load(&shared->repeats));
}

static void run(struct job *job)
{
	pid_t worker, relay_pid, pids[READERS_MAX];

	worker = job_fork(train, job, 0);
	wait_for(&shared->steps, STEPS / 4);
	figure(job, "no readers", 0);
	relay_pid = job_fork(relay, job, 0);
	while (!atomic_load(&shared->relay_up))
		poll(NULL, 0, 1);
	readers_start(job, pids);
	figure(job, "with readers", pulls);
	server_dies(job);
	figure(job, "after its death", pulls);
	atomic_store(&shared->stop, 1);
	job_join(worker);
	for (uint32_t i = 0; i < readers; i++)
		job_join(pids[i]);
	kill(relay_pid, SIGTERM);
	job_join(relay_pid);
	summary();
}

int main(int argc, char **argv)
{
	struct rlimit fds = { .rlim_cur = FDS, .rlim_max = FDS };
	struct ol_server_opts opts;
	struct job job;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--readers") == 0)
			readers = (uint32_t)strtoul(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--pulls") == 0)
			pulls = strtoull(argv[i + 1], NULL, 10) / 2;
		else if (strcmp(argv[i], "--pace-ms") == 0)
			pace_ms = (int)strtol(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--floats") == 0)
			floats = (uint32_t)strtoul(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--nice") == 0)
			reader_nice = (int)strtol(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--steps") == 0)
			steps_least = strtoull(argv[i + 1], NULL, 10);
	}
	check(readers > 1 && readers <= READERS_MAX);
	if (setrlimit(RLIMIT_NOFILE, &fds) != 0) {
		printf("skip: a process may have fewer than %d descriptors\n", FDS);
		return CHECK_SKIP;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	check(shared != MAP_FAILED);
	snprintf(relay_addr, sizeof(relay_addr), "@ol-test-relay-%d", (int)getpid());
	ol_server_opts_init(&opts);
	opts.param_count = floats;
	opts.rule.lr = 1.0f;
	opts.observers_max = READERS_MAX;
	job_start(&job, opts, 0.0f);
	run(&job);
	job_stop(&job);
	return 0;
}
