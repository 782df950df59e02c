/* SPDX-License-Identifier: BSD-3-Clause */

/* kernels.c -- chooses the kernels compiled for this processor's vector width */

#include "store/kernels.h"

#include <stdio.h>
#include <unistd.h>

#include "base/isa.h"

ol_kernel_fn ol_kernel_update_generic;
ol_kernel_gather_fn ol_kernel_gather_generic;
ol_kernel_finite_fn ol_kernel_finite_generic;
ol_kernel_moved2_fn ol_kernel_moved2_generic;
ol_kernel_norm2_fn ol_kernel_norm2_generic;
#if defined(__x86_64__)
ol_kernel_fn ol_kernel_update_avx2;
ol_kernel_gather_fn ol_kernel_gather_avx2;
ol_kernel_finite_fn ol_kernel_finite_avx2;
ol_kernel_moved2_fn ol_kernel_moved2_avx2;
ol_kernel_norm2_fn ol_kernel_norm2_avx2;
ol_kernel_fn ol_kernel_update_avx512f;
ol_kernel_gather_fn ol_kernel_gather_avx512f;
ol_kernel_finite_fn ol_kernel_finite_avx512f;
ol_kernel_moved2_fn ol_kernel_moved2_avx512f;
ol_kernel_norm2_fn ol_kernel_norm2_avx512f;
#endif

static const struct ol_kernels kernels[] = {
	{ "generic", ol_kernel_update_generic, ol_kernel_gather_generic, ol_kernel_finite_generic,
	  ol_kernel_moved2_generic, ol_kernel_norm2_generic },
#if defined(__x86_64__)
	{ "avx2", ol_kernel_update_avx2, ol_kernel_gather_avx2, ol_kernel_finite_avx2,
	  ol_kernel_moved2_avx2, ol_kernel_norm2_avx2 },
	{ "avx512f", ol_kernel_update_avx512f, ol_kernel_gather_avx512f, ol_kernel_finite_avx512f,
	  ol_kernel_moved2_avx512f, ol_kernel_norm2_avx512f },
#endif
};

const struct ol_kernels *ol_kernels_at(unsigned index)
{
	return index < ol_isa_count() ? &kernels[index] : NULL;
}

const struct ol_kernels *ol_kernels_best(void)
{
	return &kernels[ol_isa_count() - 1];
}

enum {
	L3_INDEX = 3, /* behind the first level's two and the second */
};

/* As the kernel has it: 0 behind the last one */
static uint64_t cache_kib(unsigned index)
{
	unsigned long long kib = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%u/size", index);
	file = fopen(path, "re");
	if (file == NULL)
		return 0;
	if (fscanf(file, "%lluK", &kib) != 1)
		kib = 0;
	fclose(file);
	return kib;
}

/*
 * The kernel is asked first: on an EPYC whose cores share 32 MiB in groups, sysconf() of glibc 2.36
 * says 320 MiB, what all groups have. A guest may not see its third level.
 */
uint64_t ol_kernels_cache_bytes(void)
{
	unsigned caches = 0;
	uint64_t kib;
	uint64_t most = 0;
	long bytes = 0;

	for (; (kib = cache_kib(caches)) != 0; caches++)
		most = kib > most ? kib : most;
	if (caches > L3_INDEX)
		return most << 10;
#if defined(_SC_LEVEL3_CACHE_SIZE)
	bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
	return bytes > 0 ? (uint64_t)bytes : most << 10;
}

static const struct {
	const char *word;
	unsigned vectors;
} optimizers[] = {
#define X(name, value, word, vectors) [OL_OPTIMIZER_##name] = { word, vectors },
	OL_OPTIMIZER_MAP(X)
#undef X
};

const char *ol_rule_name(uint32_t optimizer)
{
	return optimizer < sizeof(optimizers) / sizeof(optimizers[0]) ? optimizers[optimizer].word
								      : NULL;
}

unsigned ol_rule_state_vectors(enum ol_optimizer optimizer)
{
	return optimizers[optimizer].vectors;
}
