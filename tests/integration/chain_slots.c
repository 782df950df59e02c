/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain_slots.c -- when the head of a chain is killed, and many workers have large slots, no other
 * server ends, and every worker connects to the new head, which makes all their slots anew
 *
 *	chain_slots [--workers N] [--mb N] [--window N] [--lease-ms N]
 *
 * mb: size of a gradient; a worker's slots take window times as much. The times that it prints are
 * not checked: until the new head has admitted all workers, until each has a gradient committed
 * there, the same at the start, and each server's longest turn.
 *
 * not under asan, tsan: it is about the turns of a loop, which are ten times as long there
 */

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/check.h"
#include "support/job.h"
#include "wire/wire.h"

enum {
	WORKERS_MAX = 256,
	REPLICAS = 3,
	MORE = 3, /* gradients of each worker that the new head has committed */
	LOOK_MS = 100, /* between two looks whether everybody lives */
	PATIENCE_MS = 600000, /* of a worker: how long all takes is measured, not tested */
};

static struct {
	uint32_t workers;
	uint32_t mb;
	uint32_t window;
	uint32_t lease_ms;
} size = { .workers = 6, .mb = 1, .window = 2, .lease_ms = 5000 };

/* What a worker says to the first process, and what that says to all of them */
struct word {
	uint32_t id;
	bool back; /* gradients were committed by the new head; or one by the first */
	uint64_t ns; /* when the first was … */
	uint64_t up_ns; /* … and when the worker was let in there */
};

static int words[2];
static struct {
	_Atomic uint32_t epoch; /* of the chain without its first head; 0: that lives */
	_Atomic uint32_t leave;
} * board;

static void options(int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		uint32_t value = (uint32_t)strtoul(argv[i + 1], NULL, 10);

		if (strcmp(argv[i], "--workers") == 0)
			size.workers = value;
		else if (strcmp(argv[i], "--mb") == 0)
			size.mb = value;
		else if (strcmp(argv[i], "--window") == 0)
			size.window = value;
		else if (strcmp(argv[i], "--lease-ms") == 0)
			size.lease_ms = value;
		else
			check_msg(false, "%s: no such option", argv[i]);
	}
	check(size.workers > 0 && size.workers <= WORKERS_MAX);
	check(size.window > 0 && size.window <= OL_WINDOW_MAX);
}

/* A gradient, whatever is in it: what it costs to compute is not what is tried here */
static void push_start(struct ol_worker *worker, struct ol_op *op)
{
	struct ol_push_info info = { .samples = 1, .loss = 1.0f };
	float *grad;
	int rc = ol_grad_try_acquire(worker, &grad);

	while (rc == -ENOBUFS || rc == -EAGAIN) {
		if (rc == -ENOBUFS)
			check_ok(job_pull(worker, OL_PULL_NEWEST));
		(void)ol_worker_poll(worker);
		rc = ol_grad_try_acquire(worker, &grad);
	}
	check_ok(rc);
	ol_weights(worker, &info.base_version);
	*op = (struct ol_op){ .level = OL_LEVEL_COMMITTED };
	check_ok(ol_push(worker, grad, &info, op));
}

static bool is_back(const struct ol_worker *worker)
{
	uint32_t epoch = atomic_load(&board->epoch);
	struct ol_link_stat stat;

	check_ok(ol_link_get_stat(worker, 0, &stat));
	return epoch != 0 && !stat.down && stat.epoch >= epoch;
}

static void say(const struct ol_worker *worker, uint32_t id, bool back, uint64_t ns)
{
	struct word word = { .id = id, .back = back, .ns = ns };
	struct ol_link_stat stat;

	check_ok(ol_link_get_stat(worker, 0, &stat));
	word.up_ns = stat.up_ns;
	check(write(words[1], &word, sizeof(word)) == (ssize_t)sizeof(word));
}

/* The window is full all the time */
static int work(const struct job *job, long id)
{
	struct ol_op ops[OL_WINDOW_MAX];
	struct ol_worker_opts opts;
	struct ol_worker *worker;
	uint64_t back_ns = 0;
	uint32_t after = 0;

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.op_timeout_ms = PATIENCE_MS;
	opts.outage_timeout_ms = PATIENCE_MS;
	opts.connect_timeout_ms = PATIENCE_MS;
	worker = job_worker_with(job, (int)id, opts);
	for (uint32_t i = 0; i < size.window; i++)
		push_start(worker, &ops[i]);
	for (uint32_t i = 0; !atomic_load(&board->leave); i++) {
		check_ok(ol_worker_wait(worker, &ops[i % size.window]));
		if (i == 0)
			say(worker, (uint32_t)id, false, ol_clock_ns());
		if (is_back(worker) && after++ == 0)
			back_ns = ol_clock_ns();
		if (after == MORE)
			say(worker, (uint32_t)id, true, back_ns);
		push_start(worker, &ops[i % size.window]);
	}
	for (uint32_t i = 0; i < size.window; i++)
		check_ok(ol_worker_wait(worker, &ops[i]));
	ol_worker_close(worker);
	return 0;
}

/* Servers and workers live: nobody has ended by himself */
static void all_live(const struct job *job, const pid_t *workers)
{
	int status;

	for (uint32_t i = 0; i < job->server_count; i++)
		check_msg(job->servers[i] == 0 || waitpid(job->servers[i], &status, WNOHANG) == 0,
			  "a healthy server has ended");
	for (uint32_t i = 0; i < size.workers; i++)
		check_msg(waitpid(workers[i], &status, WNOHANG) == 0, "a worker has ended");
}

/* Until all workers have said it: when the last of it happened */
static struct word hear(const struct job *job, const pid_t *workers, bool back)
{
	struct pollfd fd = { .fd = words[0], .events = POLLIN };
	struct word word, last = { .ns = 0 };

	for (uint32_t heard = 0; heard < size.workers;) {
		all_live(job, workers);
		if (poll(&fd, 1, LOOK_MS) <= 0)
			continue;
		check(read(words[0], &word, sizeof(word)) == (ssize_t)sizeof(word));
		check(word.back == back);
		last.ns = word.ns > last.ns ? word.ns : last.ns;
		last.up_ns = word.up_ns > last.up_ns ? word.up_ns : last.up_ns;
		heard++;
	}
	return last;
}

/* The longest turn of each server that lives */
static void turns_show(const struct job *job)
{
	struct ol_worker_opts opts;
	struct job one = *job;

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.connect_timeout_ms = PATIENCE_MS;
	one.coordinator_addr[0] = '\0';
	for (uint32_t i = 0; i < job->server_count; i++) {
		struct ol_server_stat stat;
		struct ol_worker *observer;

		if (job->servers[i] == 0)
			continue;
		snprintf(one.addrs, sizeof(one.addrs), "%s", job->addr[i]);
		observer = job_worker_with(&one, -1, opts);
		check_ok(ol_stat(observer, 0, &stat));
		printf("  server %u: longest turn %.1f ms\n", i, (double)stat.turn_max_ns / 1e6);
		ol_worker_close(observer);
	}
}

static void play(struct job *job, pid_t *workers)
{
	uint64_t begin_ns = ol_clock_ns(), lost_ns;
	struct word in, back;
	struct ol_chain_info info;
	int head;

	for (uint32_t i = 0; i < size.workers; i++)
		workers[i] = job_fork(work, job, i);
	in = hear(job, workers, false);
	info = job_chain(job, 0, REPLICAS);
	head = job_server_at(job, &info, 0);
	check(head >= 0);
	lost_ns = ol_clock_ns();
	job_kill(job, (uint32_t)head);
	atomic_store(&board->epoch, info.epoch + 1);
	back = hear(job, workers, true);
	printf("%u workers with %u slots of %u MB, lease %u ms: all served after %.2f s; head killed: "
	       "all let in after %.2f s, served after %.2f s\n",
	       size.workers, size.window, size.mb, size.lease_ms, (double)(in.ns - begin_ns) / 1e9,
	       (double)(back.up_ns - lost_ns) / 1e9, (double)(back.ns - lost_ns) / 1e9);
	turns_show(job);
	atomic_store(&board->leave, 1);
	for (uint32_t i = 0; i < size.workers; i++)
		job_join(workers[i]);
}

int main(int argc, char **argv)
{
	pid_t workers[WORKERS_MAX];
	struct ol_server_opts opts;
	struct job job;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options(argc, argv);
	job_transport();
	check(pipe(words) == 0);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	check(board != MAP_FAILED);
	ol_server_opts_init(&opts);
	opts.param_count = (uint64_t)size.mb * 1000000 / sizeof(float);
	opts.workers_max = size.workers;
	opts.window = size.window;
	opts.replicas = REPLICAS;
	opts.lease_ms = size.lease_ms;
	job_start_chain(&job, opts, 1.0f);
	play(&job, workers);
	job_stop(&job);
	printf("ok a head dies under many workers with large slots\n");
	return 0;
}
