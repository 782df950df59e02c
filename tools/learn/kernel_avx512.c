/* SPDX-License-Identifier: BSD-3-Clause */

/* kernel_avx512.c -- convolutions in vectors of sixteen, 32 registers */

#include "learn/kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define LANES         16
#define TARGET        __attribute__((target("avx512f")))
#define MADD(a, b, c) _mm512_fmadd_ps(a, b, c)
#define TILE_16       14
#define TILE_32       7
#define TILE_CI       8
#define TILE_ROW      8
#define TABLE         learn_kernels_avx512
#define NAME          "avx512"
#include "learn/kernel_body.inc"
#endif
