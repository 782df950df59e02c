/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * hello.c -- the whole of the interface: a server, and a worker that pulls, pushes and pulls again
 *
 * The job: find the vector that is 1, 2, 3 … by gradient descent on half its squared distance.
 */

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
	STEPS = 50
};

static struct ol_server *server;

static void on_term(int signal_number)
{
	(void)signal_number;
	ol_server_stop(server);
}

static int serve(const char *address, int ready_fd)
{
	static const float zeros[COUNT];
	struct sigaction action = { .sa_handler = on_term };
	struct ol_server_opts opts;
	char err[256];

	ol_server_opts_init(&opts);
	opts.listen = address;
	opts.param_count = COUNT;
	opts.rule.lr = 0.5f;
	if (ol_server_open(&opts, zeros, &server, err, sizeof(err)) != 0) {
		fprintf(stderr, "server: %s\n", err);
		return 1;
	}
	sigaction(SIGTERM, &action, NULL);
	close(ready_fd); /* tells the other end that this server listens */
	ol_server_run(server);
	ol_server_close(server);
	return 0;
}

/* One round: pull, compute in the lent buffer, push, wait until it is in the weights */
static int step(struct ol_worker *worker, float *ret_error)
{
	struct ol_push_info info = { .samples = 1 };
	struct ol_op op = { 0 };
	const float *weights;
	float *grad;
	int rc = ol_pull(worker, 0, &op);

	if (rc == 0)
		rc = ol_worker_wait(worker, &op);
	if (rc == 0)
		rc = ol_grad_acquire(worker, &grad);
	if (rc != 0)
		return rc;
	weights = ol_weights(worker, &info.base_version);
	*ret_error = 0.0f;
	for (int i = 0; i < COUNT; i++) {
		grad[i] = weights[i] - (float)(i + 1);
		*ret_error = fmaxf(*ret_error, fabsf(grad[i]));
	}
	rc = ol_push(worker, grad, &info, &op);
	return rc == 0 ? ol_worker_wait(worker, &op) : rc;
}

static int work(const char *address)
{
	struct ol_worker_opts opts;
	struct ol_worker *worker;
	float error = 0.0f;
	char err[256];
	int rc;

	ol_worker_opts_init(&opts);
	opts.servers = address;
	opts.param_count = COUNT;
	rc = ol_worker_open(&opts, &worker, err, sizeof(err));
	if (rc != 0) {
		fprintf(stderr, "worker: %s\n", err);
		return 1;
	}
	for (int i = 0; i < STEPS && rc == 0; i++) {
		rc = step(worker, &error);
		if (i % 10 == 9)
			printf("step %d: largest error %g\n", i + 1, (double)error);
	}
	if (rc != 0)
		fprintf(stderr, "worker: %s\n", ol_strerror(rc));
	ol_worker_close(worker);
	return rc == 0 && error < 1e-3f ? 0 : 1;
}

int main(void)
{
	char address[64], byte;
	int ready[2], rc;
	pid_t pid;

	snprintf(address, sizeof(address), "@outlast-hello-%d", (int)getpid());
	if (pipe(ready) != 0)
		return 1;
	pid = fork(); /* before either of them opens a transport */
	if (pid == 0) {
		close(ready[0]);
		exit(serve(address, ready[1]));
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) < 0)
		return 1;
	rc = work(address);
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
	return rc;
}
