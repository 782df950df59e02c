/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * baseline.h -- the memory speed of this machine: one thread's plain pass and plain copy, and a
 * message from process to process
 *
 * The pass is w2 = w - lr * g, vectorised for this processor, over as many bytes as a push of that
 * size touches: three weight vectors in rotation, as a server has them, and one gradient. The copy
 * is the C library's memcpy() between two vectors. Memory is on transparent huge pages if the kernel
 * gives them, so that the baseline is the best possible.
 */
#ifndef BENCH_BASELINE_H
#define BENCH_BASELINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct bench_baseline {
	size_t len; /* floats of a vector */
	size_t mapped_bytes;
	float *memory;
	float *weights[3];
	float *grad;
	unsigned turn;
};

/* bench_baseline_init -- vectors of `bytes` each, filled; -ENOMEM */
int bench_baseline_init(struct bench_baseline *baseline, uint64_t bytes);
void bench_baseline_fini(struct bench_baseline *baseline);

/* bench_baseline_pass, bench_baseline_copy -- one of them; arg: a struct bench_baseline. 0. */
int bench_baseline_pass(void *arg);
int bench_baseline_copy(void *arg);

/* bench_pass -- w2 = w - lr * g over len floats that do not overlap */
void bench_pass(float *w2, const float *w, const float *g, float lr, size_t len);

/* bench_descend -- w = w - lr * g, in place, as in a program without a server */
void bench_descend(float *w, const float *g, float lr, size_t len);

/* bench_isa -- the vector width that they use on this machine */
const char *bench_isa(void);

/*
 * Shared memory between two processes: a message there, and one back.
 *
 * The other end is a child that spins on a word of shared memory: it copies the message out of the
 * page that it came in, and into the page of the answer. No library of ours is in it. One way is
 * half of a step.
 */
struct bench_pingpong {
	pid_t pid;
	uint64_t bytes; /* of a message */
	uint64_t turn;
	struct bench_pingpong_page *page;
	uint8_t *mine; /* where messages come from */
	size_t mapped_bytes;
};

/* bench_pingpong_start -- fork the other end, on processor cpu; -errno */
int bench_pingpong_start(uint64_t bytes, int cpu, struct bench_pingpong *ret_pingpong);
/* bench_pingpong_step -- one message there and back; arg: a struct bench_pingpong. Returns 0 */
int bench_pingpong_step(void *arg);
void bench_pingpong_stop(struct bench_pingpong *pingpong);

#endif /* BENCH_BASELINE_H */
