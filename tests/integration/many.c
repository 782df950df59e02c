/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * many.c -- 256 workers, each a process of its own, come in at once, push and pull; who comes beside
 * them is told which limit it met, and its number
 *
 * many [--workers N]; OL_TRANSPORT shm or verbs.
 *
 * not under asan, tsan: hundreds of processes of these are too large; crowd.c and hostile.c come in there
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/check.h"
#include "support/job.h"

enum {
	WORKERS = 256,
	OBSERVERS = 2,
	PUSHES = 2, /* of each worker */
	LEN = 16,
	CONNECT_MS = 60000, /* of a machine with few processors: each worker is a process */
	FDS = 8192,
};

static uint32_t workers = WORKERS;
static int gate[2]; /* closed when all are in */
static int in[2]; /* a byte of each that is in */

static struct ol_worker_opts patient(void)
{
	struct ol_worker_opts opts;

	ol_worker_opts_init(&opts);
	opts.lease_ms = 0; /* others want the processors as well */
	opts.connect_timeout_ms = CONNECT_MS;
	return opts;
}

static int work(const struct job *job, long id)
{
	struct ol_worker *worker = job_worker_with(job, (int)id, patient());
	char byte = 0;

	check_eq(write(in[1], &byte, 1), 1);
	close(gate[1]);
	check_eq(read(gate[0], &byte, 1), 0); /* all are in */
	for (unsigned i = 0; i < PUSHES; i++)
		check_ok(job_push(worker, 1.0f));
	ol_worker_close(worker);
	return 0;
}

static void refused(const struct job *job, uint32_t id, bool observes, int want, const char *what)
{
	struct ol_worker_opts opts = patient();
	struct ol_worker *worker = NULL;
	char err[384] = "";

	opts.servers = job->addrs;
	opts.transport = job_transport();
	opts.worker = id;
	opts.observer = observes;
	check_eq(ol_worker_open(&opts, &worker, err, sizeof(err)), want);
	check_msg(strstr(err, what) != NULL, "\"%s\" does not say \"%s\"", err, what);
}

/* While all workers are in */
static int beside(const struct job *job, long unused)
{
	struct ol_worker *observers[OBSERVERS];
	char text[64];

	(void)unused;
	snprintf(text, sizeof(text), "workers_max of %u", workers);
	refused(job, workers, false, OL_E_WORKER_ID, text);
	refused(job, 1, false, OL_E_WORKER_ID, "already connected");
	for (unsigned i = 0; i < OBSERVERS; i++)
		observers[i] = job_worker_with(job, -1, patient());
	snprintf(text, sizeof(text), "observers_max of %u", OBSERVERS);
	refused(job, 0, true, OL_E_FULL, text);
	for (unsigned i = 0; i < OBSERVERS; i++)
		ol_worker_close(observers[i]);
	return 0;
}

/* Slots of two workers fit, and of a third not */
static int third(const struct job *job, long unused)
{
	struct ol_worker *first = job_worker_with(job, 0, patient());
	struct ol_worker *second = job_worker_with(job, 1, patient());

	(void)unused;
	refused(job, 2, false, OL_E_FULL, "slot_memory_max of 3 MiB");
	ol_worker_close(job_worker_with(job, -1, patient())); /* it has none */
	ol_worker_close(second);
	ol_worker_close(first);
	return 0;
}

static void slots_are_bounded(void)
{
	struct ol_server_opts opts;
	struct job job;

	ol_server_opts_init(&opts);
	opts.param_count = 1 << 18; /* slots of 1 MiB and a page */
	opts.window = 1;
	opts.lease_ms = 0;
	opts.slot_memory_max = 3 << 20;
	job_start(&job, opts, 0.0f);
	job_join(job_fork(third, &job, 0));
	job_stop(&job);
}

static void many_come(void)
{
	pid_t *pids = calloc(workers, sizeof(*pids));
	struct ol_server_opts opts;
	struct ol_worker *worker;
	struct ol_op op = { 0 };
	struct job job;
	char byte;

	check(pids != NULL);
	ol_server_opts_init(&opts);
	opts.param_count = LEN;
	opts.workers_max = workers;
	opts.observers_max = OBSERVERS;
	opts.rule.lr = 1.0f;
	opts.lease_ms = 0;
	job_start(&job, opts, 0.0f);
	check_eq(pipe(gate), 0);
	check_eq(pipe(in), 0);
	for (uint32_t i = 0; i < workers; i++)
		pids[i] = job_fork(work, &job, i);
	for (uint32_t i = 0; i < workers; i++)
		check_eq(read(in[0], &byte, 1), 1);
	job_join(job_fork(beside, &job, 0));
	close(gate[1]);
	for (uint32_t i = 0; i < workers; i++)
		job_join(pids[i]);
	worker = job_worker_with(&job, -1, patient());
	check_ok(ol_pull(worker, OL_PULL_NEWEST, &op));
	check_ok(ol_worker_wait(worker, &op));
	check(ol_weights(worker, NULL)[0] == -(float)(workers * PUSHES));
	ol_worker_close(worker);
	job_stop(&job);
	free(pids);
	printf("%u workers were in at once\n", workers);
}

int main(int argc, char **argv)
{
	struct rlimit fds = { .rlim_cur = FDS, .rlim_max = FDS };

	if (argc == 3 && strcmp(argv[1], "--workers") == 0)
		workers = (uint32_t)strtoul(argv[2], NULL, 10);
	if (setrlimit(RLIMIT_NOFILE, &fds) != 0) {
		printf("skip: a process may have fewer than %d descriptors\n", FDS);
		return CHECK_SKIP;
	}
	many_come();
	slots_are_bounded();
	return 0;
}
