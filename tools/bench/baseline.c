/* SPDX-License-Identifier: BSD-3-Clause */

/* baseline.c -- the memory speed of one thread on this machine: a plain pass, a plain copy */

#include "bench/baseline.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* GCC vectorises little at -O2; clang does at any level and knows no such attribute. */
#if defined(__clang__)
#define VECTORISED
#else
#define VECTORISED __attribute__((optimize("O3")))
#endif

/* Both loops for one vector width */
#define LOOPS(isa, attributes) \
	attributes static void pass_##isa(float *restrict w2, const float *restrict w, \
					  const float *restrict g, float lr, size_t len) \
	{ \
		for (size_t i = 0; i < len; i++) \
			w2[i] = w[i] - lr * g[i]; \
	} \
	attributes static void descend_##isa(float *restrict w, const float *restrict g, float lr, \
					     size_t len) \
	{ \
		for (size_t i = 0; i < len; i++) \
			w[i] -= lr * g[i]; \
	}

LOOPS(generic, VECTORISED)
#if defined(__x86_64__)
LOOPS(avx2, VECTORISED __attribute__((target("avx2"))))
LOOPS(avx512f, VECTORISED __attribute__((target("avx512f"))))
#endif

struct loops {
	const char *isa;
	void (*pass)(float *restrict w2, const float *restrict w, const float *restrict g, float lr,
		     size_t len);
	void (*descend)(float *restrict w, const float *restrict g, float lr, size_t len);
};

static struct loops loops_best(void)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx512f"))
		return (struct loops){ "avx512f", pass_avx512f, descend_avx512f };
	if (__builtin_cpu_supports("avx2"))
		return (struct loops){ "avx2", pass_avx2, descend_avx2 };
#endif
	return (struct loops){ "generic", pass_generic, descend_generic };
}

void bench_pass(float *w2, const float *w, const float *g, float lr, size_t len)
{
	loops_best().pass(w2, w, g, lr, len);
}

void bench_descend(float *w, const float *g, float lr, size_t len)
{
	loops_best().descend(w, g, lr, len);
}

const char *bench_isa(void)
{
	return loops_best().isa;
}

int bench_baseline_init(struct bench_baseline *baseline, uint64_t bytes)
{
	size_t stride = (size_t)(bytes + 4095) & ~(size_t)4095;

	*baseline = (struct bench_baseline){ .len = (size_t)bytes / sizeof(float),
					     .mapped_bytes = 4 * stride };
	baseline->memory = mmap(NULL, baseline->mapped_bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (baseline->memory == MAP_FAILED) {
		baseline->memory = NULL;
		return -ENOMEM;
	}
	(void)madvise(baseline->memory, baseline->mapped_bytes, MADV_HUGEPAGE);
	for (size_t i = 0; i < baseline->mapped_bytes / sizeof(float); i++)
		baseline->memory[i] = 1.0f;
	for (size_t i = 0; i < 3; i++)
		baseline->weights[i] = baseline->memory + i * (stride / sizeof(float));
	baseline->grad = baseline->memory + 3 * (stride / sizeof(float));
	return 0;
}

void bench_baseline_fini(struct bench_baseline *baseline)
{
	if (baseline->memory != NULL)
		munmap(baseline->memory, baseline->mapped_bytes);
	*baseline = (struct bench_baseline){ 0 };
}

int bench_baseline_pass(void *arg)
{
	struct bench_baseline *b = arg;
	const float *from = b->weights[b->turn % 3];

	b->turn++;
	bench_pass(b->weights[b->turn % 3], from, b->grad, 1e-9f, b->len);
	return 0;
}

int bench_baseline_copy(void *arg)
{
	struct bench_baseline *b = arg;

	/* to two vectors in turn, as pulls go to two mirrors in turn */
	b->turn++;
	memcpy(b->weights[b->turn % 2], b->weights[2], b->len * sizeof(float));
	return 0;
}
