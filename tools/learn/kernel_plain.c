/* SPDX-License-Identifier: BSD-3-Clause */

/* kernel_plain.c -- convolutions in vectors of four, for any CPU; picks the table for this one */

#include "learn/kernel.h"

#define LANES 4
#define TARGET
#define MADD(a, b, c) ((a) * (b) + (c))
#define TILE_16       2
#define TILE_32       1
#define TILE_CI       1
#define TILE_ROW      4
#define TABLE         learn_kernels_plain
#define NAME          "plain"
#include "learn/kernel_body.inc"

const struct learn_kernels *learn_kernels_best(void)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx512f"))
		return &learn_kernels_avx512;
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return &learn_kernels_avx2;
#endif
	return &learn_kernels_plain;
}
