/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * pin.h -- which processors the two ends of a run have
 */
#ifndef BENCH_PIN_H
#define BENCH_PIN_H

#include <stdbool.h>
#include <stddef.h>

enum {
	BENCH_CPU_ANY = -1 /* wherever the scheduler likes */
};

struct bench_pins {
	int client;
	int server;
};

/*
 * bench_pins_choose -- "auto": two different cores of those that this process may use, or nothing
 * pinned if it has one; "none"; or "CLIENT,SERVER"
 *
 * Errors: -EINVAL, with a line in err
 */
int bench_pins_choose(const char *text, struct bench_pins *ret_pins, char *err, size_t err_bytes);

/* bench_pin_nth -- of the processors that this process may use, the n-th, counted round */
int bench_pin_nth(unsigned n);

/* bench_pin -- this thread, and threads that it makes; BENCH_CPU_ANY does nothing. -errno */
int bench_pin(int cpu);

/* bench_cpus_allowed -- how many processors this process may use */
int bench_cpus_allowed(void);

#endif /* BENCH_PIN_H */
