/* SPDX-License-Identifier: BSD-3-Clause */

/* blas.c -- OpenBLAS: its environment at the start, and its matrix product */

#include "learn/blas.h"

#include <cblas.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	FIRST_DIM = 128 /* smaller products may do without OpenBLAS's memory */
};

/* OpenBLAS's kernels with AVX2, and whether with AVX-512; those not listed have neither. */
static const struct {
	const char *name;
	bool avx512;
} cores[] = {
	{ "Haswell", false },   { "Zen", false },           { "SkylakeX", true },
	{ "Cooperlake", true }, { "SapphireRapids", true },
};

const char *learn_blas_coretype(const char *core, bool avx2, bool avx512)
{
	bool has_avx2 = false;
	bool has_avx512 = false;

	for (size_t i = 0; i < sizeof(cores) / sizeof(cores[0]); i++) {
		if (strcasecmp(core, cores[i].name) == 0) {
			has_avx2 = true;
			has_avx512 = cores[i].avx512;
		}
	}
	if (avx512 && !has_avx512)
		return "SkylakeX";
	if (avx2 && !has_avx2)
		return "Haswell";
	return NULL;
}

/* coretype_here -- what OPENBLAS_CORETYPE should be on this processor; NULL: leave it alone */
static const char *coretype_here(void)
{
#if defined(__x86_64__)
	bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
		      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512bw") &&
		      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");

	return learn_blas_coretype(openblas_get_corename(), avx2, avx512);
#else
	return NULL;
#endif
}

void learn_blas_start(char **argv)
{
	const char *coretype = getenv("OPENBLAS_CORETYPE") == NULL ? coretype_here() : NULL;
	bool threads = getenv("OPENBLAS_NUM_THREADS") == NULL && openblas_get_num_threads() > 1;
	char path[PATH_MAX];
	ssize_t len;

	openblas_set_num_threads(1);
	if (coretype == NULL && !threads)
		return;
	/* By its own name: ps would show a process executed as /proc/self/exe as "exe". */
	len = readlink("/proc/self/exe", path, sizeof(path));
	if (len <= 0 || (size_t)len == sizeof(path))
		return;
	path[len] = 0;
	/* Both are set from here on, so the program cannot reach this line again. */
	if (setenv("OPENBLAS_NUM_THREADS", LEARN_BLAS_THREADS, 0) != 0 ||
	    (coretype != NULL && setenv("OPENBLAS_CORETYPE", coretype, 0) != 0))
		return;
	(void)execv(path, argv);
}

int learn_blas_reserve(void)
{
	const size_t cells = (size_t)FIRST_DIM * FIRST_DIM;
	void *probe = mmap(NULL, LEARN_BLAS_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	float *abc;

	if (probe == MAP_FAILED)
		return -ENOMEM;
	(void)munmap(probe, LEARN_BLAS_BYTES);
	abc = calloc(3 * cells, sizeof(*abc));
	if (abc == NULL)
		return -ENOMEM;
	learn_blas_product(LEARN_TURNED_NONE, FIRST_DIM, FIRST_DIM, FIRST_DIM, abc, abc + cells, 0,
			   abc + 2 * cells);
	free(abc);
	return 0;
}

void learn_blas_product(unsigned turned, size_t m, size_t n, size_t k, const float *a,
			const float *b, float keep, float *c)
{
	bool a_turned = (turned & LEARN_TURNED_A) != 0;
	bool b_turned = (turned & LEARN_TURNED_B) != 0;

	cblas_sgemm(CblasRowMajor, a_turned ? CblasTrans : CblasNoTrans,
		    b_turned ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, 1, a,
		    (blasint)(a_turned ? m : k), b, (blasint)(b_turned ? k : n), keep, c,
		    (blasint)n);
}
