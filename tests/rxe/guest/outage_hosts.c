/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outage_hosts.c -- when the servers' host is cut off, and loses power, no gradient is lost or
 * doubled
 *
 *	outage_hosts servers HOST RESTORE       one for each lease, at PORT, PORT + 1 …, until
 * SIGTERM outage_hosts worker HOST OTHER          in a lab of three hosts, on host 0: cuts host 1
 * off for a while, then its power; says so with the file OL_OUT/off, and finds its servers at OTHER
 *
 * One worker for each lease, all in one thread, so that all see the same faults. Gradients are all
 * ones and the learning rate is a power of two, so the weights are the exact sum of the pushes.
 */

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "outlast_server.h"
#include "support/check.h"
#include "support/lab.h"

enum {
	LEN = 1000,
	PORT = 7471,
	LEASES = 3,
	STEPS = 20,
	CUTS = 3,
	CUT_MS = 3000, /* longer than every lease */
	TRIES_MAX = 20
};

static const uint32_t leases[LEASES] = { 200, 1000, 2000 };
static const float first_weight = 100.0f;
static const float lr = 0.5f;

static struct ol_server *running;

static void on_term(int signal_number)
{
	(void)signal_number;
	ol_server_stop(running);
}

static int serve(const char *host, enum ol_restore restore, unsigned index)
{
	struct sigaction action = { .sa_handler = on_term };
	float weights[LEN];
	struct ol_server_opts opts;
	char listen[64], err[256];
	int rc;

	snprintf(listen, sizeof(listen), "%s:%u", host, PORT + index);
	ol_server_opts_init(&opts);
	opts.window = 4;
	opts.listen = listen;
	opts.transport = "verbs";
	opts.param_count = LEN;
	opts.workers_max = 1;
	opts.rule.lr = lr;
	opts.replay = OL_REPLAY_EACH;
	opts.restore = restore;
	opts.lease_ms = 0; /* its own is not what this is about, and an emulated host is slow */
	for (unsigned i = 0; i < LEN; i++)
		weights[i] = first_weight;
	rc = ol_server_open(&opts, weights, &running, err, sizeof(err));
	check_msg(rc == 0, "server %s: %s", listen, err);
	sigaction(SIGTERM, &action, NULL);
	rc = ol_server_run(running);
	ol_server_close(running);
	return rc != 0;
}

static int servers(const char *host, const char *restore)
{
	pid_t pids[LEASES];
	sigset_t term;
	int got;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	for (unsigned i = 0; i < LEASES; i++) {
		pids[i] = fork();
		check(pids[i] >= 0);
		if (pids[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			sigprocmask(SIG_UNBLOCK, &term, NULL);
			exit(serve(host,
				   strcmp(restore, "mirror") == 0 ? OL_RESTORE_MIRROR
								  : OL_RESTORE_NONE,
				   i));
		}
	}
	check_ok(sigwait(&term, &got));
	for (unsigned i = 0; i < LEASES; i++) {
		int status = 0;

		kill(pids[i], SIGTERM);
		while (waitpid(pids[i], &status, 0) < 0)
			check(errno == EINTR);
		check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	return 0;
}

/* What one worker has done. */
struct course {
	struct ol_worker *worker;
	struct ol_op push;
	struct ol_op pull;
	uint64_t pushed;
};

static struct course courses[LEASES];

static struct ol_link_stat link_stat(const struct course *course)
{
	struct ol_link_stat stat;

	check_ok(ol_link_get_stat(course->worker, 0, &stat));
	return stat;
}

/* One more gradient of each, where the last one is done, and progress */
static void turn(void)
{
	for (unsigned i = 0; i < LEASES; i++) {
		struct course *course = &courses[i];
		struct ol_push_info info = { .samples = 1, .loss = 1.0f };
		float *grad;

		check(ol_worker_poll(course->worker) >= 0);
		if (!course->push.done || !course->pull.done)
			continue;
		check_ok(course->push.status);
		check_ok(course->pull.status);
		if (ol_grad_try_acquire(course->worker, &grad) == 0) {
			for (unsigned k = 0; k < LEN; k++)
				grad[k] = 1.0f;
			ol_weights(course->worker, &info.base_version);
			check_ok(ol_push(course->worker, grad, &info, &course->push));
			course->pushed++;
		}
		check_ok(ol_pull(course->worker, 0, &course->pull));
	}
	sched_yield();
}

/* So many more gradients of each: then each has weights, too, which it goes on with when its server is gone */
static void steps(uint64_t count)
{
	for (unsigned i = 0; i < LEASES; i++) {
		const uint64_t until = courses[i].pushed + count;

		while (courses[i].pushed < until)
			turn();
	}
}

static unsigned down_count(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < LEASES; i++)
		count += link_stat(&courses[i]).down;
	return count;
}

/* Progress of all: a worker that is not polled loses its server */
static void wait_done(const struct ol_op *op)
{
	while (!op->done) {
		for (unsigned i = 0; i < LEASES; i++)
			check(courses[i].worker == NULL || ol_worker_poll(courses[i].worker) >= 0);
	}
	check_ok(op->status);
}

/* All that was pushed is in the weights, once */
static void settle(struct course *course, enum ol_restore from, uint32_t epoch)
{
	struct ol_op flush = { 0 }, pull = { 0 };
	struct ol_server_stat stat;
	struct ol_link_stat link;
	const float *weights;
	unsigned tries = 0;
	int rc;

	wait_done(&course->push);
	wait_done(&course->pull);
	check_ok(ol_flush(course->worker, &flush));
	wait_done(&flush);
	do { /* on a busy machine a short lease may run out once more */
		check(tries++ < TRIES_MAX);
		check_ok(ol_pull(course->worker, OL_PULL_NEWEST, &pull));
		wait_done(&pull);
		rc = ol_stat(course->worker, 0, &stat);
	} while (pull.local || rc == OL_E_NO_SERVER);
	check_ok(rc);
	link = link_stat(course);
	check_eq(link.pushed, course->pushed);
	check_eq(link.applied, course->pushed);
	check_eq(link.lost + link.pending + link.queue_dropped, 0);
	check_eq(ol_applied_grads(course->worker, 0, 0), course->pushed);
	weights = ol_weights(course->worker, NULL);
	for (unsigned i = 0; i < LEN; i++)
		check(weights[i] == first_weight - lr * (float)course->pushed);
	check_eq(stat.applied, course->pushed);
	check_eq(stat.restored_from, from);
	check_eq(stat.epoch, epoch);
	check_eq(stat.workers, 1);
	check_eq(stat.violations, 0);
}

static void course_open(unsigned index, const char *host, const char *other)
{
	struct course *course = &courses[index];
	struct ol_worker_opts opts;
	char servers_text[128], err[256];
	int rc;

	snprintf(servers_text, sizeof(servers_text), "%s:%u|%s:%u", host, PORT + index, other,
		 PORT + index);
	ol_worker_opts_init(&opts);
	opts.servers = servers_text;
	opts.transport = "verbs";
	opts.outage = OL_OUTAGE_CONTINUE;
	opts.local_progress = 0;
	opts.lease_ms = leases[index];
	opts.connect_timeout_ms = 120000;
	rc = ol_worker_open(&opts, &course->worker, err, sizeof(err));
	check_msg(rc == 0, "worker: %s", err);
	course->push.done = 1;
	check_ok(ol_pull(course->worker, 0, &course->pull));
}

static double ms_between(uint64_t from_ns, uint64_t to_ns)
{
	return (double)(int64_t)(to_ns - from_ns) / 1e6;
}

/* The time from a fault until each worker has noticed */
static void noticed(const char *verb)
{
	uint64_t asked_ns, done_ns;

	while (down_count() > 0) /* an emulated host is slow: a short lease may just have run out */
		turn();
	asked_ns = ol_clock_ns();
	done_ns = lab_fault(verb, 1);
	while (down_count() < LEASES)
		turn();
	for (unsigned i = 0; i < LEASES; i++) {
		struct ol_link_stat stat = link_stat(&courses[i]);

		printf("%s, lease %u ms: noticed %.0f to %.0f ms after it, reason %d\n", verb,
		       leases[i], ms_between(done_ns, stat.down_ns),
		       ms_between(asked_ns, stat.down_ns), stat.reason);
	}
}

static void cut_and_heal(void)
{
	uint64_t until_ns, before[LEASES], healed_ns;

	noticed("cut");
	until_ns = ol_clock_ns() + CUT_MS * OL_NS_PER_MS;
	for (unsigned i = 0; i < LEASES; i++)
		before[i] = courses[i].pushed;
	while (ol_clock_ns() < until_ns)
		turn();
	for (unsigned i = 0; i < LEASES; i++)
		check(courses[i].pushed > before[i]); /* it went on */
	check_eq(down_count(), LEASES);
	healed_ns = lab_fault("heal", 1);
	while (down_count() > 0)
		turn();
	for (unsigned i = 0; i < LEASES; i++) {
		struct ol_link_stat stat = link_stat(&courses[i]);

		printf("heal, lease %u ms: back %.0f ms after it, %lu gradients meanwhile\n",
		       leases[i], ms_between(healed_ns, stat.up_ns),
		       (unsigned long)(courses[i].pushed - before[i]));
		settle(&courses[i], OL_RESTORE_NONE, 1);
	}
}

static int work(const char *host, const char *other)
{
	for (unsigned i = 0; i < LEASES; i++)
		course_open(i, host, other);
	for (unsigned round = 0; round < CUTS; round++) {
		steps(STEPS);
		cut_and_heal();
	}
	steps(STEPS);
	noticed("poweroff");
	lab_write("off", "");
	while (down_count() > 0)
		turn();
	for (unsigned i = 0; i < LEASES; i++) {
		struct ol_link_stat stat = link_stat(&courses[i]);

		printf("poweroff, lease %u ms: back at the other host after %.0f ms\n", leases[i],
		       ms_between(stat.down_ns, stat.up_ns));
		settle(&courses[i], OL_RESTORE_MIRROR, 2);
		ol_worker_close(courses[i].worker);
		courses[i].worker = NULL;
	}
	printf("nothing lost, nothing doubled\n");
	return 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 4 && strcmp(argv[1], "servers") == 0)
		return servers(argv[2], argv[3]);
	if (argc == 4 && strcmp(argv[1], "worker") == 0)
		return work(argv[2], argv[3]);
	fprintf(stderr, "usage: outage_hosts servers HOST none|mirror | worker HOST OTHER\n");
	return 2;
}
