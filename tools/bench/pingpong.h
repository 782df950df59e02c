/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * pingpong.h -- the speed of shared memory between two processes: a message there, and one back
 *
 * The other end is a child that spins on a word of shared memory: it copies the message out of the
 * page that it came in, and into the page of the answer. No library of ours is in it. One way is
 * half of a step.
 */
#ifndef BENCH_PINGPONG_H
#define BENCH_PINGPONG_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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

#endif /* BENCH_PINGPONG_H */
