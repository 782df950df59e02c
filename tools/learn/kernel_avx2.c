/* SPDX-License-Identifier: BSD-3-Clause */

/* kernel_avx2.c -- convolutions in vectors of eight, 16 registers */

#include "learn/kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define LANES         8
#define TARGET        __attribute__((target("avx2,fma")))
#define MADD(a, b, c) _mm256_fmadd_ps(a, b, c)
#define TILE_16       7
#define TILE_32       2
#define TILE_CI       2
#define TILE_ROW      4
#define TABLE         learn_kernels_avx2
#define NAME          "avx2"
#include "learn/kernel_body.inc"
#endif
