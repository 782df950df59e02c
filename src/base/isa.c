/* SPDX-License-Identifier: BSD-3-Clause */

/* isa.c -- asks the processor */

#include "base/isa.h"

unsigned ol_isa_count(void)
{
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f"))
		return 3;
	if (__builtin_cpu_supports("avx2"))
		return 2;
#endif
	return 1;
}
