/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * tsc.c -- print the frequency of this machine's time stamp counter, in kHz
 *
 * A guest's counter is the host's. While it boots, its kernel would measure the counter against an
 * emulated timer. If the emulator loses the processor meanwhile, the guest's clock runs up to 29
 * times too fast, for good.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

enum {
	TRIES = 1000, /* readings for one moment; the least disturbed one counts */
	APART_MS = 50,
};

struct moment {
	uint64_t tsc;
	uint64_t ns;
};

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static struct moment moment_take(void)
{
	struct moment best = { 0 };
	uint64_t shortest = UINT64_MAX;

	for (unsigned i = 0; i < TRIES; i++) {
		uint64_t before = __rdtsc(), ns = clock_ns(), after = __rdtsc();

		if (after - before < shortest) {
			shortest = after - before;
			best = (struct moment){ before + shortest / 2, ns };
		}
	}
	return best;
}

int main(void)
{
	struct moment first = moment_take(), second;

	do
		second = moment_take();
	while (second.ns - first.ns < APART_MS * UINT64_C(1000000));
	printf("%.0f\n", (double)(second.tsc - first.tsc) * 1e6 / (double)(second.ns - first.ns));
	return 0;
}
