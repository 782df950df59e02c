/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * alternate.h -- time several arms in turns, so that drift of the machine affects all of them
 *
 * A run is cut into rounds. In each round every arm has one block of steps, and the order rotates
 * from round to round. A step is timed from the end of the step before to its own end: one reading
 * of the clock a step, which is part of the time.
 */
#ifndef BENCH_ALTERNATE_H
#define BENCH_ALTERNATE_H

#include <stdint.h>

#include "bench/samples.h"

struct bench_arm {
	const char *name;
	int (*step)(void *arg); /* 0, or a negative code that ends the run */
	int (*rest)(void *arg); /* work before each step, not timed; NULL: none */
	void *arg;
	struct bench_samples samples; /* made by bench_alternate(), the caller frees them */
};

struct bench_plan {
	uint64_t iters; /* timed steps of each arm; 0: as many as fit into ns */
	uint64_t ns; /* for each arm */
	uint64_t warmup; /* steps of each arm at first, not timed; for ns / 4 at most */
	unsigned rounds;
	uint64_t samples_max; /* of an arm, when iters is 0; at it the run ends */
};

/* bench_alternate -- run all arms; 0, -ENOMEM, or a step's error */
int bench_alternate(struct bench_arm *arms, unsigned arm_count, const struct bench_plan *plan);

#endif /* BENCH_ALTERNATE_H */
