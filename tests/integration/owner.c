/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * owner.c -- calls with a handle of another thread, or in a child of a fork, fail and change
 * nothing, and the owner goes on. The child has none of its descriptors. OL_TRANSPORT shm or verbs
 */

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/check.h"
#include "support/folder.h"
#include "support/job.h"

enum {
	LEN = 1000
};

/* Everything that a worker's handle can be asked, where it may not be */
static void *calls_refused(void *arg)
{
	struct ol_worker *worker = arg;
	struct ol_push_info info = { 0 };
	struct ol_link_stat link;
	struct ol_server_stat stat;
	struct ol_job_info job = { .window = 7 };
	struct ol_op op = { 0 };
	float *grad = NULL;

	check_eq(ol_grad_acquire(worker, &grad), OL_E_THREAD);
	check_eq(ol_grad_try_acquire(worker, &grad), OL_E_THREAD);
	check(grad == NULL);
	check_eq(ol_grad_ready(worker, grad, 0), OL_E_THREAD);
	check_eq(ol_grad_release(worker, grad), OL_E_THREAD);
	check_eq(ol_push(worker, grad, &info, &op), OL_E_THREAD);
	check_eq(ol_pull(worker, 0, &op), OL_E_THREAD);
	check_eq(ol_flush(worker, &op), OL_E_THREAD);
	check_eq(ol_withdraw(worker), OL_E_THREAD);
	check_eq(ol_worker_redirect(worker, 0, "@nowhere"), OL_E_THREAD);
	check_eq(ol_worker_poll(worker), OL_E_THREAD);
	check_eq(ol_worker_wait(worker, &op), OL_E_THREAD);
	check_eq(ol_worker_wait_for(worker, &op, 1), OL_E_THREAD);
	check_eq(ol_stat(worker, 0, &stat), OL_E_THREAD);
	check_eq(ol_link_get_stat(worker, 0, &link), OL_E_THREAD);
	check_eq(ol_newest(worker), 0);
	check(ol_weights(worker, NULL) == NULL);
	check_eq(ol_applied(worker, 0, 0), 0);
	check_eq(ol_applied_grads(worker, 0, 0), 0);
	ol_worker_info(worker, &job);
	check_eq(job.window, 0);
	ol_worker_close(worker);
	return NULL;
}

/* It changes hands, and back */
static void *adopts(void *arg)
{
	check_ok(ol_worker_adopt(arg));
	check_ok(job_push(arg, 1.0f));
	return NULL;
}

static void in_thread(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	check_ok(pthread_create(&thread, NULL, run, arg));
	check_ok(pthread_join(thread, NULL));
}

static void *opens(void *arg)
{
	return job_worker(arg, 1);
}

static void *polls(void *arg)
{
	check_eq(ol_worker_poll(arg), OL_E_THREAD);
	return NULL;
}

/* Its owner has ended: the threads that come after it, one with its name, do not own it */
static void orphan(struct job *job)
{
	struct ol_worker *worker;
	pthread_t thread;
	void *opened;

	check_ok(pthread_create(&thread, NULL, opens, job));
	check_ok(pthread_join(thread, &opened));
	worker = opened;
	in_thread(polls, worker);
	in_thread(polls, worker);
	check_ok(ol_worker_adopt(worker));
	ol_worker_close(worker);
}

static int descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* Open files of a folder */
static int files_of(const char *dir)
{
	char path[64], target[256];
	int count = 0;

	for (int fd = 0; fd < 1024; fd++) {
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		length = readlink(path, target, sizeof(target) - 1);
		if (length > 0) {
			target[length] = '\0';
			count += strncmp(target, dir, strlen(dir)) == 0;
		}
	}
	return count;
}

/* A child of the worker's process: it has no part in the handle, and may open its own */
static void child(const struct job *job, struct ol_worker *worker, int before)
{
	struct ol_worker *own;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		/* librdmacm has some of its own */
		check(strcmp(job_transport(), "shm") != 0 || descriptors() == before);
		(void)calls_refused(worker);
		check_eq(ol_worker_adopt(worker), OL_E_THREAD);
		own = job_worker(job, 1);
		check_ok(job_pull(own, 0));
		check_ok(job_push(own, 1.0f));
		ol_worker_close(own);
		_exit(0); /* what its parent's handle has in this heap is nobody's leak */
	}
	job_join(pid);
}

static int story(const struct job *job, long id)
{
	int before = descriptors();
	struct ol_worker *worker = job_worker(job, (int)id);
	struct job copy = *job;

	orphan(&copy);
	check_ok(job_pull(worker, 0));
	in_thread(calls_refused, worker);
	in_thread(adopts, worker);
	check_eq(ol_worker_poll(worker), OL_E_THREAD);
	check_ok(ol_worker_adopt(worker));
	child(job, worker, before);
	check_ok(job_push(worker, 1.0f));
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	check(ol_weights(worker, NULL)[LEN - 1] == -3.0f);
	ol_worker_close(worker);
	return 0;
}

static void *server_run(void *arg)
{
	check_ok(ol_server_run(arg));
	return NULL;
}

/* A server that runs in a thread, and what other threads and a child can do to it */
static int server_story(const struct job *job, long arg)
{
	struct ol_server_opts opts = job->opts;
	struct ol_server_stat stat = { 0 };
	struct ol_server *server;
	float weights[LEN] = { 0 };
	char err[256], addr[64], dir[] = "/tmp/ol-owner.XXXXXX";
	pthread_t thread;
	int status;
	pid_t pid;

	(void)arg;
	snprintf(addr, sizeof(addr), "@ol-owner-%d", (int)getpid());
	opts.listen = addr;
	opts.transport = "shm";
	check(mkdtemp(dir) != NULL);
	opts.checkpoint_dir = dir;
	opts.checkpoint_steps = 1;
	opts.selection = OL_SELECT_PRIORITY; /* its file stays open */
	check_ok(ol_server_open(&opts, weights, &server, err, sizeof(err)));
	check_ok(pthread_create(&thread, NULL, server_run, server));
	while (stat.heartbeat == 0)
		ol_server_get_stat(server, &stat);
	check_eq(ol_server_run(server), OL_E_THREAD);
	ol_server_close(server);
	check(files_of(dir) > 0);
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		check_eq(files_of(dir), 0);
		check_eq(ol_server_run(server), OL_E_THREAD);
		ol_server_get_stat(server, &stat);
		check_eq(stat.heartbeat, 0);
		ol_server_stop(server);
		ol_server_close(server);
		_exit(0);
	}
	check(waitpid(pid, &status, 0) == pid && status == 0);
	for (uint64_t beat = stat.heartbeat; stat.heartbeat < beat + 3;)
		ol_server_get_stat(server, &stat);
	ol_server_stop(server);
	check_ok(pthread_join(thread, NULL));
	ol_server_close(server);
	check_ok(folder_drop(dir));
	return 0;
}

int main(void)
{
	struct ol_server_opts opts;
	struct job job;

	setvbuf(stdout, NULL, _IOLBF, 0);
	job_transport();
	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.window = JOB_WINDOW;
	opts.param_count = LEN;
	opts.workers_max = 2;
	opts.rule.lr = 1.0f;
	job_start(&job, opts, 0.0f);
	job_join(job_fork(story, &job, 0));
	job_join(job_fork(server_story, &job, 0));
	job_stop(&job);
	printf("a handle answers its own thread only\n");
	return 0;
}
