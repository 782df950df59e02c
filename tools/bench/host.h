/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * host.h -- the machine: its description for a report, and which processors a run uses
 */
#ifndef BENCH_HOST_H
#define BENCH_HOST_H

#include <jansson.h>
#include <stddef.h>

enum {
	BENCH_LINE_MAX = 256
};

/* bench_env_json -- commit, processor, kernel, clock, memory, load, time; NULL: no memory */
json_t *bench_env_json(void);

/* bench_file_line -- the first line of a file without its end; "" if it cannot be read */
void bench_file_line(const char *path, char *text, size_t text_bytes);

/* bench_file_value -- the text after "key" and blanks or colons in a file of lines; "" if none */
void bench_file_value(const char *path, const char *key, char *text, size_t text_bytes);

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

#endif /* BENCH_HOST_H */
