/* SPDX-License-Identifier: BSD-3-Clause */

/* pingpong.c -- the speed of shared memory between two processes: a message there, and one back */

#include "bench/pingpong.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/pin.h"

enum {
	LINE = 64,
	PAGE = 4096
};

/* Each word has its own cache line; the messages follow. */
struct bench_pingpong_page {
	_Alignas(LINE) _Atomic uint64_t there;
	_Alignas(LINE) _Atomic uint64_t back;
	_Alignas(PAGE) uint8_t data[];
};

static size_t stride(uint64_t bytes)
{
	return ((size_t)bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
}

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
