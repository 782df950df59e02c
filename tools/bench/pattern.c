/* SPDX-License-Identifier: BSD-3-Clause */

/* pattern.c -- the measured operations: pushes and pulls of one worker */

#include "bench/pattern.h"

#include <poll.h>
#include <stdio.h>

#include "base/clock.h"

enum {
	RETRY_MS = 20 /* between tries to reach the server of the next size */
};

static void fill(float *grad, uint64_t len)
{
	/* not 0, and not so small that arithmetic is slow */
	for (uint64_t i = 0; i < len; i++)
		grad[i] = 1e-3f;
}

/* Fill every buffer and push it once; later pushes send the same contents */
static int buffers_fill(struct bench_client *client)
{
	struct ol_push_info info = { .samples = 1 };
	float *grads[BENCH_WINDOW_MAX];
	uint32_t count = 0;
	int rc = 0;

	while (count < client->info.window && count < BENCH_WINDOW_MAX &&
	       ol_grad_try_acquire(client->worker, &grads[count]) == 0)
		fill(grads[count++], client->len);
	for (uint32_t i = 0; i < count && rc == 0; i++) {
		client->ops[i] = (struct ol_op){ .level = client->level };
		rc = ol_push(client->worker, grads[i], &info, &client->ops[i]);
	}
	for (uint32_t i = 0; i < count && rc == 0; i++)
		rc = ol_worker_wait(client->worker, &client->ops[i]);
	client->unpulled = count;
	return rc;
}

int bench_client_connect(const struct bench_opts *opts, const char *addr, uint64_t bytes,
			 uint32_t window, uint32_t timeout_ms, struct bench_client *ret_client,
			 char err[BENCH_ERR_MAX])
{
	uint64_t bound_ns = ol_clock_ns() + timeout_ms * OL_NS_PER_MS;
	struct ol_worker_opts wopts;
	int rc;

	*ret_client = (struct bench_client){ .len = bytes / sizeof(float) };
	ol_worker_opts_init(&wopts);
	wopts.servers = addr;
	if (addr == NULL) {
		ret_client->level = OL_LEVEL_COMMITTED;
		wopts.coordinator = opts->coordinator;
		wopts.job = opts->job;
		wopts.outage = OL_OUTAGE_WAIT;
		wopts.lease_ms = opts->lease_ms;
	}
	wopts.transport = opts->transport;
	wopts.device = opts->device;
	wopts.job_key = opts->job_key;
	wopts.param_count = bytes / sizeof(float);
	wopts.window = window;
	wopts.spin_us = opts->spin_us;
	wopts.gradient_format = opts->gradient_format;
	wopts.spin_yield = opts->spin_yield;
	wopts.connect_timeout_ms = timeout_ms;
	for (;;) {
		rc = ol_worker_open(&wopts, &ret_client->worker, err, BENCH_ERR_MAX);
		if (rc != OL_E_GEOMETRY && rc != OL_E_WORKER_ID && rc != OL_E_NO_SERVER)
			break;
		if (ol_clock_ns() >= bound_ns)
			break;
		poll(NULL, 0, RETRY_MS);
	}
	if (rc == 0)
		ol_worker_info(ret_client->worker, &ret_client->info);
	return rc;
}

int bench_client_open(const struct bench_opts *opts, const char *addr, uint64_t bytes,
		      uint32_t window, uint32_t timeout_ms, struct bench_client *ret_client,
		      char err[BENCH_ERR_MAX])
{
	int rc = bench_client_connect(opts, addr, bytes, window, timeout_ms, ret_client, err);

	if (rc != 0)
		return rc;
	rc = buffers_fill(ret_client);
	if (rc == 0 && addr == NULL)
		rc = bench_push_rest(ret_client);
	if (rc == 0)
		return 0;
	snprintf(err, BENCH_ERR_MAX, "first pushes to %s: %s", addr != NULL ? addr : "the chain",
		 ol_strerror(rc));
	bench_client_close(ret_client);
	return rc;
}

void bench_client_close(struct bench_client *client)
{
	ol_worker_close(client->worker);
	client->worker = NULL;
}

static int push_post(struct bench_client *client, struct ol_op *op)
{
	struct ol_push_info info = { .samples = 1 };
	float *grad;
	int rc = ol_grad_try_acquire(client->worker, &grad);

	if (rc != 0)
		return rc;
	if (client->fill)
		fill(grad, client->len);
	op->level = client->level;
	client->unpulled++;
	return ol_push(client->worker, grad, &info, op);
}

static int pull_post(struct bench_client *client, struct ol_op *op)
{
	client->unpulled = 0;
	return ol_pull(client->worker, 0, op);
}

int bench_push_post(struct bench_client *client)
{
	return push_post(client, &client->ops[0]);
}

int bench_push_wait(struct bench_client *client)
{
	return ol_worker_wait(client->worker, &client->ops[0]);
}

int bench_push_step(void *arg)
{
	int rc = bench_push_post(arg);

	return rc != 0 ? rc : bench_push_wait(arg);
}

int bench_pull_step(void *arg)
{
	struct bench_client *client = arg;
	int rc = pull_post(client, &client->ops[0]);

	return rc != 0 ? rc : ol_worker_wait(client->worker, &client->ops[0]);
}

int bench_push_rest(void *arg)
{
	const struct bench_client *client = arg;

	return client->unpulled >= client->info.window ? bench_pull_step(arg) : 0;
}

/* The limits of a flow from now on */
struct bound {
	uint64_t iters;
	uint64_t start_ns;
	uint64_t end_ns;
};

static bool bound_reached(const struct bound *bound, uint64_t done, uint64_t now_ns)
{
	return bound->iters != 0 ? done >= bound->iters : now_ns >= bound->end_ns;
}

/* Post until the bound; samples NULL: record none */
static int messages_run(struct bench_client *client, const struct bench_flow *flow,
			const struct bound *bound, struct bench_samples *samples)
{
	uint64_t posted = 0, done = 0, now_ns = bound->start_ns;
	bool more = true;
	int rc = 0;

	while (rc == 0 && (more || done < posted)) {
		while (more && posted - done < flow->window && rc == 0) {
			struct ol_op *op = &client->ops[posted % flow->window];

			rc = flow->push ? push_post(client, op) : pull_post(client, op);
			posted += rc == 0;
			more = !bound_reached(bound, posted, now_ns) &&
			       (samples == NULL || posted < samples->max);
		}
		if (rc != 0)
			break;
		rc = ol_worker_wait(client->worker, &client->ops[done % flow->window]);
		done++;
		now_ns = ol_clock_ns();
		if (samples != NULL)
			bench_samples_add(samples, now_ns - bound->start_ns);
	}
	return rc;
}

int bench_flow_run(struct bench_client *client, const struct bench_flow *flow,
		   struct bench_samples *samples)
{
	struct bound bound = { .iters = flow->warmup, .start_ns = ol_clock_ns() };
	int rc = flow->warmup > 0 ? messages_run(client, flow, &bound, NULL) : 0;

	bound.iters = flow->iters;
	bound.start_ns = ol_clock_ns();
	bound.end_ns = bound.start_ns + flow->ns;
	return rc != 0 ? rc : messages_run(client, flow, &bound, samples);
}
