/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * slots.c -- while a worker's slots take long to make or to free, the server serves the others for
 * many leases, and tells waiting workers to come back
 *
 * The linker sends the server's madvise() and munmap() here: a gate makes them take as long as the
 * test needs.
 */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "support/check.h"
#include "support/peer.h"
#include "support/stage.h"
#include "support/wrap.h"

enum {
	LEN = 300000,
	WINDOW = 2, /* slots of 1.2 MB */
	LEASE_MS = 600,
	HEARTBEAT_MS = 20,
	LEASES = 3, /* a gate is closed at least for so long */
	LARGE_BYTES = 1 << 20,
	POPULATE_WRITE = 23,
};

static int gate_fd = -1; /* readable while it is open */
static bool gated = true; /* this process goes through it: a server, not a worker */

static void gate_close(void)
{
	uint64_t count;

	check(read(gate_fd, &count, sizeof(count)) == sizeof(count));
}

static void gate_open(void)
{
	uint64_t one = 1;

	check(write(gate_fd, &one, sizeof(one)) == sizeof(one));
}

static void gate_pass(size_t bytes)
{
	struct pollfd gate = { .fd = gate_fd, .events = POLLIN };

	while (gated && gate_fd >= 0 && bytes >= LARGE_BYTES && poll(&gate, 1, -1) <= 0)
		check(errno == EINTR);
}

/* Memory is as slow as the story wants. */
WRAP(int, madvise, void *at, size_t bytes, int advice)
{
	if (advice == POPULATE_WRITE)
		gate_pass(bytes);
	return __real_madvise(at, bytes, advice);
}

WRAP(int, munmap, void *at, size_t bytes)
{
	gate_pass(bytes);
	return __real_munmap(at, bytes);
}

static struct ol_server_stat stat_of(struct ol_worker *worker)
{
	struct ol_server_stat stat;

	check_ok(ol_stat(worker, 0, &stat));
	return stat;
}

/* Steps are made, one after the other, until the server has beaten, and has sent peers away, so
 * often */
static void served_until(struct ol_worker *worker, uint64_t heartbeat, uint64_t sent_away)
{
	struct ol_server_stat stat = stat_of(worker);

	while (stat.heartbeat < heartbeat || stat.sent_away < sent_away) {
		check_ok(job_push(worker, 0.0f));
		check_ok(job_pull(worker, OL_PULL_NEWEST));
		stat = stat_of(worker);
	}
	check_eq(stage_stat(worker, 0).outages, 0);
}

/* For so many leases, and until so many peers were sent away */
static void served(struct ol_worker *worker, uint64_t sent_away)
{
	served_until(worker, stat_of(worker).heartbeat + LEASES * LEASE_MS / HEARTBEAT_MS,
		     sent_away);
}

/* A worker without a queue that is promised memory, and does not come back for it */
static int promised(const struct job *job, long id)
{
	struct peer peer;

	peer_open(&peer, "", OL_ROLE_WORKER, (uint32_t)id);
	peer_say(&peer, job, OL_CONNECT_KNOCK, OL_REJECT_CHALLENGE);
	peer_say(&peer, job, OL_CONNECT_PROOF, OL_REJECT_LATER);
	peer_close(&peer);
	return 0;
}

/* One with a queue: it has a slot more */
static int opener_queues(const struct job *job, long id)
{
	struct ol_worker_opts opts;
	struct ol_worker *worker;

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.outage = OL_OUTAGE_CONTINUE;
	worker = job_worker_with(job, (int)id, opts);
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	ol_worker_close(worker);
	return 0;
}

static int opener(const struct job *job, long id)
{
	struct ol_worker *worker = job_worker(job, (int)id);

	check_ok(job_pull(worker, OL_PULL_NEWEST));
	ol_worker_close(worker);
	return 0;
}

/* Worker 0: it works all the time */
static void at_work(const struct job *job)
{
	struct ol_worker *worker = job_worker(job, 0);
	uint64_t sent_away;
	pid_t pid;

	check_ok(job_pull(worker, OL_PULL_NEWEST));
	gate_close(); /* worker 1 comes */
	stage_meet();
	served(worker, 1);
	gate_open();
	stage_meet();
	gate_close(); /* worker 1 goes */
	stage_meet();
	stage_meet();
	served(worker, 0);
	check_eq(stat_of(worker).workers, 1);
	gate_open();

	/* one dies whose memory is being made; the next of its id comes in all the same */
	gate_close();
	sent_away = stat_of(worker).sent_away;
	pid = job_fork(opener, job, 2);
	served(worker, sent_away + 1);
	check_ok(kill(pid, SIGKILL));
	check(waitpid(pid, NULL, 0) == pid);
	served(worker, 0);
	gate_open();
	job_join(job_fork(opener, job, 2));

	/* memory is promised to a worker; the next of its id has a slot more */
	gate_close();
	sent_away = stat_of(worker).sent_away;
	pid = job_fork(promised, job, 2);
	served_until(worker, 0, sent_away + 1);
	job_join(pid);
	pid = job_fork(opener_queues, job, 2);
	served_until(worker, 0, sent_away + 2);
	gate_open();
	job_join(pid);

	/* the server ends while it makes memory */
	gate_close();
	sent_away = stat_of(worker).sent_away;
	pid = job_fork(opener, job, 2);
	served(worker, sent_away + 1);
	stage_meet();
	stage_stop(0);
	check_ok(kill(pid, SIGKILL));
	check(waitpid(pid, NULL, 0) == pid);
	ol_worker_close(worker);
}

static int story(const struct job *job, long id)
{
	struct ol_worker_opts opts;
	struct ol_worker *worker;

	gated = false;
	if (id == 0) {
		at_work(job);
		return 0;
	}
	stage_meet();
	worker = job_worker(job, (int)id);
	stage_meet();
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	stage_meet();
	ol_worker_close(worker);
	stage_meet();

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.outage = OL_OUTAGE_CONTINUE;
	opts.observer = OL_OBSERVER_COUNTERS;
	worker = job_worker_with(job, -1, opts);
	stage_meet();
	stage_down(worker, 0); /* its connections are gone, and it waits for its memory's thread */
	gate_open();
	ol_worker_close(worker);
	return 0;
}

int main(void)
{
	struct ol_server_opts opts;

	setvbuf(stdout, NULL, _IOLBF, 0);
	job_transport();
	gate_fd = eventfd(1, EFD_CLOEXEC);
	check(gate_fd >= 0);
	ol_server_opts_init(&opts);
	opts.param_count = LEN;
	opts.window = WINDOW;
	opts.workers_max = 3;
	opts.lease_ms = LEASE_MS;
	opts.heartbeat_ms = HEARTBEAT_MS;
	stage_play(opts, 1.0f, 2, story, "memory that comes or goes holds nobody up");
	return 0;
}
