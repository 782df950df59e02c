/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * pattern.h -- the measured operations: pushes and pulls of one worker
 *
 *	push, lat   acquire a buffer, push it, wait until its server has acknowledged it
 *	push, bw    the same with up to `window` pushes outstanding
 *	pull        from the call until the weights of one version are whole in the mirror; one at
 *	            a time, as the library allows; long pulls are pipelined inside
 *
 * Full round trips, never halved.
 */
#ifndef BENCH_PATTERN_H
#define BENCH_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/chain.h"
#include "bench/samples.h"
#include "outlast.h"

struct bench_client {
	struct ol_worker *worker;
	struct ol_job_info info;
	uint64_t len; /* floats */
	bool fill; /* write the gradient anew before each push */
	enum ol_level level; /* that pushes wait for */
	uint32_t unpulled; /* chain: pushes since the last pull, whose buffers are kept */
	struct ol_op ops[BENCH_WINDOW_MAX];
};

/*
 * bench_client_connect -- connect worker 0 to a server of `bytes`; asks for `window` buffers
 *
 * addr NULL: to the chain of opts->job at opts->coordinator. Pushes then wait until they are
 * committed, and the worker waits through outages.
 *
 * Tries again, until timeout_ms, while no server answers, or one of another size.
 * Errors: as ol_worker_open()
 */
int bench_client_connect(const struct bench_opts *opts, const char *addr, uint64_t bytes,
			 uint32_t window, uint32_t timeout_ms, struct bench_client *ret_client,
			 char err[BENCH_ERR_MAX]);

/* bench_client_open -- connect, fill every gradient buffer, and push each once */
int bench_client_open(const struct bench_opts *opts, const char *addr, uint64_t bytes,
		      uint32_t window, uint32_t timeout_ms, struct bench_client *ret_client,
		      char err[BENCH_ERR_MAX]);
void bench_client_close(struct bench_client *client);

/* bench_push_step, bench_pull_step -- do one and wait for it; arg: a struct bench_client */
int bench_push_step(void *arg);
int bench_pull_step(void *arg);

/* bench_push_post, bench_push_wait -- the two halves of a step */
int bench_push_post(struct bench_client *client);
int bench_push_wait(struct bench_client *client);

/* bench_push_rest -- between pushes to a chain: pull if all buffers are kept until a pull */
int bench_push_rest(void *arg);

/* A run with a window. */
struct bench_flow {
	bool push; /* else pull, with a window of 1 */
	uint64_t iters;
	uint64_t ns; /* counts only if iters is 0 */
	uint64_t warmup;
	uint32_t window;
};

/*
 * bench_flow_run -- samples get the times of completions since the first post
 *
 * samples: made by the caller; when it is full the run ends. 0, or a message's error.
 */
int bench_flow_run(struct bench_client *client, const struct bench_flow *flow,
		   struct bench_samples *samples);

#endif /* BENCH_PATTERN_H */
