/* SPDX-License-Identifier: BSD-3-Clause */

/* baseline.c -- the memory speed of this machine: a plain pass, a plain copy, a message there and
 * back */

#include "bench/baseline.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/host.h"

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

enum {
	LINE = 64,
	PAGE = 4096
};

/* Each word has its own cache line; the messages follow. */
static size_t stride(uint64_t bytes)
{
	return ((size_t)bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
}

int bench_baseline_init(struct bench_baseline *baseline, uint64_t bytes)
{
	size_t floats = stride(bytes) / sizeof(float);

	*baseline = (struct bench_baseline){ .len = (size_t)bytes / sizeof(float),
					     .mapped_bytes = 4 * stride(bytes) };
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
		baseline->weights[i] = baseline->memory + i * floats;
	baseline->grad = baseline->memory + 3 * floats;
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

struct bench_pingpong_page {
	_Alignas(LINE) _Atomic uint64_t there;
	_Alignas(LINE) _Atomic uint64_t back;
	_Alignas(PAGE) uint8_t data[];
};

static void answer_all(struct bench_pingpong *pp)
{
	uint8_t *in = pp->page->data, *out = in + stride(pp->bytes);
	uint8_t *own = out + stride(pp->bytes);

	for (uint64_t turn = 1;; turn++) {
		while (atomic_load_explicit(&pp->page->there, memory_order_acquire) != turn)
			;
		memcpy(own, in, (size_t)pp->bytes);
		memcpy(out, own, (size_t)pp->bytes);
		atomic_store_explicit(&pp->page->back, turn, memory_order_release);
	}
}

int bench_pingpong_start(uint64_t bytes, int cpu, struct bench_pingpong *ret_pingpong)
{
	struct bench_pingpong pp = { .bytes = bytes,
				     .mapped_bytes = sizeof(struct bench_pingpong_page) +
						     4 * stride(bytes) };
	pid_t parent = getpid();

	pp.page = mmap(NULL, pp.mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (pp.page == MAP_FAILED)
		return -errno;
	memset(pp.page, 0, pp.mapped_bytes);
	pp.mine = pp.page->data + 3 * stride(bytes);
	pp.pid = fork();
	if (pp.pid < 0) {
		munmap(pp.page, pp.mapped_bytes);
		return -EAGAIN;
	}
	if (pp.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent || bench_pin(cpu) != 0)
			_exit(1);
		answer_all(&pp);
	}
	*ret_pingpong = pp;
	return 0;
}

int bench_pingpong_step(void *arg)
{
	struct bench_pingpong *pp = arg;
	uint8_t *out = pp->page->data, *in = out + stride(pp->bytes);

	memcpy(out, pp->mine, (size_t)pp->bytes);
	atomic_store_explicit(&pp->page->there, ++pp->turn, memory_order_release);
	while (atomic_load_explicit(&pp->page->back, memory_order_acquire) != pp->turn)
		;
	memcpy(pp->mine, in, (size_t)pp->bytes);
	return 0;
}

void bench_pingpong_stop(struct bench_pingpong *pp)
{
	if (pp->pid <= 0)
		return;
	kill(pp->pid, SIGKILL);
	while (waitpid(pp->pid, NULL, 0) < 0 && errno == EINTR)
		;
	munmap(pp->page, pp->mapped_bytes);
	*pp = (struct bench_pingpong){ 0 };
}
