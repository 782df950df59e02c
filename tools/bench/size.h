/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * size.h -- message sizes: lists of them as text, and back
 */
#ifndef BENCH_SIZE_H
#define BENCH_SIZE_H

#include <stddef.h>
#include <stdint.h>

enum {
	BENCH_SIZES_MAX = 64,
	BENCH_SIZE_MIN = 4, /* one parameter */
	BENCH_SIZE_TEXT_MAX = 24 /* bytes of a formatted size with its end */
};

#define BENCH_SIZE_MAX ((uint64_t)1 << 34)

struct bench_sizes {
	unsigned count;
	uint64_t bytes[BENCH_SIZES_MAX];
};

/*
 * bench_sizes_parse -- "64", "4K", "1MiB", a list with commas; "8..64M" is every power of two
 * between the two. Units K, M, G (KiB, MiB, GiB) are powers of 1024. Sizes are multiples of 4.
 *
 * Errors: -EINVAL, with a line in err that names the word
 */
int bench_sizes_parse(const char *text, struct bench_sizes *ret_sizes, char *err, size_t err_bytes);

/* bench_size_format -- "64 B", "4 KiB", "1.50 MiB" */
void bench_size_format(uint64_t bytes, char text[BENCH_SIZE_TEXT_MAX]);

#endif /* BENCH_SIZE_H */
