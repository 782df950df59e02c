/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * failover.c -- a worker whose server is killed: it goes on, and an empty server takes its place
 *
 * The job of 01-hello. The parent is the worker; servers are processes of their own. Watch the
 * counts: gradients that were pushed while there was no server are in the weights at the end.
 */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <outlast.h>
#include <outlast_server.h>

enum {
	COUNT = 1000,
	STEPS = 80,
	KILL_AT = 20,
	BACK_AT = 40,
	POLLS = 100000
};

/* A server never returns from here; SIGKILL and SIGTERM end it. */
static _Noreturn void serve(const char *address, enum ol_restore restore, int ready_fd)
{
	static const float zeros[COUNT];
	struct ol_server_opts opts;
	struct ol_server *server;
	char err[256];

	ol_server_opts_init(&opts);
	opts.listen = address;
	opts.param_count = COUNT;
	opts.rule.lr = 0.1f;
	opts.restore = restore; /* MIRROR: it begins empty, and reads a worker's last weights */
	if (ol_server_open(&opts, zeros, &server, err, sizeof(err)) != 0) {
		fprintf(stderr, "server: %s\n", err);
		_exit(1);
	}
	close(ready_fd); /* tells the other end that this server listens */
	ol_server_run(server);
	_exit(0);
}

/*
 * Fork before any transport is opened. So both servers exist from the beginning, and the second
 * waits for its turn: a byte on its pipe.
 */
static pid_t server_fork(const char *address, enum ol_restore restore, int *ret_go, int *ret_ready)
{
	int go[2], ready[2];
	char byte;
	pid_t pid;

	if (pipe(go) != 0 || pipe(ready) != 0)
		exit(1);
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		close(ready[0]);
		if (read(go[0], &byte, 1) != 1)
			_exit(0); /* the parent has gone */
		serve(address, restore, ready[1]);
	}
	close(go[0]);
	close(ready[1]);
	*ret_go = go[1];
	*ret_ready = ready[0];
	return pid;
}

static void server_go(int go, int ready)
{
	char byte = 0;

	if (write(go, &byte, 1) != 1 || read(ready, &byte, 1) < 0)
		exit(1);
}

/* One step: the same code with a server and without. */
static int step(struct ol_worker *worker, int number)
{
	struct ol_push_info info = { .samples = 1 };
	struct ol_op op = { 0 };
	const float *weights;
	float *grad, error = 0.0f;
	uint8_t local;
	int rc = ol_pull(worker, 0, &op);

	if (rc == 0)
		rc = ol_worker_wait(worker, &op);
	if (rc == 0)
		rc = ol_grad_acquire(worker, &grad);
	if (rc != 0)
		return rc;
	for (int i = 0; i < POLLS; i++) /* makes a step last longer, as real gradients do */
		(void)ol_worker_poll(worker);
	local = op.local;
	weights = ol_weights(worker, &info.base_version);
	for (int i = 0; i < COUNT; i++) {
		grad[i] = weights[i] - (float)(i + 1);
		error = fmaxf(error, fabsf(grad[i]));
	}
	if (number % 5 == 0)
		printf("step %2d: version %2" PRIu64 "%s, largest error %.2f\n", number,
		       info.base_version, local ? " (last weights, no server)" : "", (double)error);
	rc = ol_push(worker, grad, &info, &op);
	return rc == 0 ? ol_worker_wait(worker, &op) : rc;
}

static int finish(struct ol_worker *worker)
{
	struct ol_link_stat stat;
	struct ol_op op = { 0 };
	int rc = ol_flush(worker, &op);

	if (rc == 0)
		rc = ol_worker_wait(worker, &op);
	if (rc == 0)
		rc = ol_pull(worker, OL_PULL_NEWEST, &op);
	if (rc == 0)
		rc = ol_worker_wait(worker, &op);
	if (rc == 0)
		rc = ol_link_get_stat(worker, 0, &stat);
	if (rc != 0)
		return rc;
	printf("pushed %" PRIu64 ", in the server's weights %" PRIu64 ", of these %" PRIu64
	       " came from the queue; lost %" PRIu64 "\n",
	       stat.pushed, ol_applied_grads(worker, 0, 0), stat.queued_total, stat.lost);
	return stat.pushed == STEPS && ol_applied_grads(worker, 0, 0) == STEPS ? 0 : -EIO;
}

int main(void)
{
	struct ol_worker_opts opts;
	struct ol_worker *worker;
	int go[2], ready[2], rc;
	char address[64], err[256];
	pid_t pids[2];

	setvbuf(stdout, NULL, _IOLBF, 0);
	snprintf(address, sizeof(address), "@outlast-failover-%d", (int)getpid());
	pids[0] = server_fork(address, OL_RESTORE_NONE, &go[0], &ready[0]);
	pids[1] = server_fork(address, OL_RESTORE_MIRROR, &go[1], &ready[1]);
	server_go(go[0], ready[0]);
	ol_worker_opts_init(&opts);
	opts.servers = address;
	opts.outage = OL_OUTAGE_CONTINUE;
	rc = ol_worker_open(&opts, &worker, err, sizeof(err));
	if (rc != 0) {
		fprintf(stderr, "worker: %s\n", err);
		return 1;
	}
	for (int i = 1; i <= STEPS && rc == 0; i++) {
		if (i == KILL_AT) {
			kill(pids[0], SIGKILL);
			waitpid(pids[0], NULL, 0);
			printf("the server is killed\n");
		}
		if (i == BACK_AT) {
			server_go(go[1], ready[1]);
			printf("an empty server takes its place\n");
		}
		rc = step(worker, i);
	}
	if (rc == 0)
		rc = finish(worker);
	if (rc != 0)
		fprintf(stderr, "worker: %s\n", ol_strerror(rc));
	ol_worker_close(worker);
	kill(pids[1], SIGTERM);
	waitpid(pids[1], NULL, 0);
	return rc == 0 ? 0 : 1;
}
