/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * pin.h -- chooses the processors for the two ends of a run
 */
#ifndef BENCH_PIN_H
#define BENCH_PIN_H

#include <stdbool.h>
#include <stddef.h>

enum {
	BENCH_CPU_ANY = -1 /* not pinned */
};

struct bench_pins {
	int client;
	int server;
};

/*
 * bench_pins_choose -- "auto": two different cores of this process, or no pinning if it has only
 * one; "none"; or "CLIENT,SERVER"
 *
 * Errors: -EINVAL, with a line in err
 */
int bench_pins_choose(const char *text, struct bench_pins *ret_pins, char *err, size_t err_bytes);

/* bench_pin_nth -- the n-th processor of this process, modulo their number */
int bench_pin_nth(unsigned n);

/* bench_pin -- pin this thread and threads that it makes; BENCH_CPU_ANY: no effect. -errno */
int bench_pin(int cpu);

/* bench_cpus_allowed -- how many processors this process may use */
int bench_cpus_allowed(void);

#endif /* BENCH_PIN_H */
