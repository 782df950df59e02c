/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * env.h -- the machine's description for a report
 */
#ifndef BENCH_ENV_H
#define BENCH_ENV_H

#include <jansson.h>
#include <stddef.h>

enum {
	BENCH_LINE_MAX = 256
};

/* bench_env_json -- commit, processor, kernel, clock, memory, load, time; NULL: no memory */
json_t *bench_env_json(void);

/* bench_env_commit -- commit of the source tree that holds the program; "" if there is none */
void bench_env_commit(char *text, size_t text_bytes);

/* bench_file_line -- the first line of a file without its end; "" if it cannot be read */
void bench_file_line(const char *path, char *text, size_t text_bytes);

/* bench_file_value -- the text after "key" and blanks or colons in a file of lines; "" if none */
void bench_file_value(const char *path, const char *key, char *text, size_t text_bytes);

#endif /* BENCH_ENV_H */
