/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * p6_data_path_is_lean.c -- post_write, post_read and poll allocate nothing, log nothing, and make
 * no system call that allocates, opens, locks or waits. (A NIC doorbell or a wake-up may take a
 * system call; only calls that serve neither are trapped.)
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/check.h"
#include "support/xport_pair.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

/* Calls of the allocator while counting is on. */
static struct {
	bool on;
	unsigned calls;
} counted;

#ifndef SANITIZED

/* The C library's own names for what is replaced here. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);
void __libc_free(void *p);

static void count(void)
{
	if (counted.on)
		counted.calls++;
}

void *malloc(size_t bytes)
{
	count();
	return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
	count();
	return __libc_calloc(n, bytes);
}

void *realloc(void *p, size_t bytes)
{
	count();
	return __libc_realloc(p, bytes);
}

void *memalign(size_t align, size_t bytes)
{
	count();
	return __libc_memalign(align, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
	count();
	return __libc_memalign(align, bytes);
}

int posix_memalign(void **ret_p, size_t align, size_t bytes)
{
	count();
	*ret_p = __libc_memalign(align, bytes);
	return *ret_p != NULL ? 0 : ENOMEM;
}

void free(void *p)
{
	if (p != NULL)
		count();
	__libc_free(p);
}

#endif

enum {
	WARM_ROUNDS = 200,
	AREA = 4096,
};

/* One of everything, both ways, until it is all there. */
static void one_round(struct xp_pair *pair, const struct xp_mem *src, struct ol_xport_rkey key,
		      uint32_t round)
{
	struct ol_xport_write plain = xp_write(src, 0, AREA, key, 0);
	struct ol_xport_write two = xp_write(src, 0, 8, key, AREA);
	struct ol_xport_write word = xp_write(src, 64, 8, key, AREA);
	struct ol_xport_read read = xp_read(src, AREA, AREA, key, 0);
	struct xp_event event;
	unsigned dones = 0;

	two.segs[1] = two.segs[0];
	two.seg_count = 2;
	two.flags = OL_XPORT_SIGNALED;
	word.flags = OL_XPORT_INLINE | OL_XPORT_DOORBELL;
	word.imm = round;
	read.flags = OL_XPORT_SIGNALED | OL_XPORT_AFTER_READS;
	xp_post_write(pair->b_conn, &plain);
	xp_post_write(pair->b_conn, &two);
	xp_post_write(pair->b_conn, &word);
	xp_post_read(pair->b_conn, &read);
	xp_wait_bell(&pair->a, pair->a_conn, round);
	xp_bell(pair->a_conn, round);
	xp_wait_bell(&pair->b, pair->b_conn, round);
	while (dones < 2) {
		event = xp_wait(&pair->b, OL_XPORT_DONE, pair->b_conn);
		check_eq(event.ev.status, 0);
		dones++;
	}
}

static void pair_open(struct xp_pair *pair, struct xp_mem *src, struct xp_mem *dst)
{
	xp_pair_open(pair, NULL);
	xp_mem_open(src, &pair->b, pair->b_conn, 2 * AREA, OL_XPORT_ACCESS_LOCAL);
	xp_mem_open(dst, &pair->a, pair->a_conn, 2 * AREA,
		    OL_XPORT_ACCESS_PEER_WRITE | OL_XPORT_ACCESS_PEER_READ);
	for (uint32_t round = 0; round < WARM_ROUNDS; round++)
		one_round(pair, src, dst->key, round);
}

static void no_allocation(void)
{
	unsigned rounds = xp_rounds(5000);
	struct xp_pair pair;
	struct xp_mem src;
	struct xp_mem dst;
	unsigned log_lines;

	pair_open(&pair, &src, &dst);
	log_lines = pair.a.log_lines + pair.b.log_lines;
	counted.on = true;
	for (uint32_t round = 0; round < rounds; round++)
		one_round(&pair, &src, dst.key, round);
	counted.on = false;
	check_eq(counted.calls, 0);
	check_eq(pair.a.log_lines + pair.b.log_lines, log_lines);
	xp_mem_close(&src);
	xp_mem_close(&dst);
	xp_pair_close(&pair);
}

/* Back-pressure and refused posts are data path as well. */
static void no_allocation_when_full(void)
{
	struct xp_pair pair;
	struct xp_mem src;
	struct xp_mem dst;
	unsigned log_lines;

	pair_open(&pair, &src, &dst);
	log_lines = pair.a.log_lines + pair.b.log_lines;
	counted.on = true;
	for (unsigned i = 0; i < 5000; i++) {
		struct ol_xport_write write = xp_write(&src, 0, 64, dst.key, 0);
		int rc;

		write.flags = OL_XPORT_SIGNALED;
		rc = pair.b.ops->post_write(pair.b_conn, &write);
		check(rc == 0 || rc == -EAGAIN);
	}
	counted.on = false;
	check_eq(counted.calls, 0);
	check_eq(pair.a.log_lines + pair.b.log_lines, log_lines);
	xp_mem_close(&src);
	xp_mem_close(&dst);
	xp_pair_close(&pair);
}

#ifndef SANITIZED

static void trapped(int sig, siginfo_t *info, void *context)
{
	static const char text[] = "the data path made system call ";
	char digits[4];
	int number = info->si_syscall;
	ssize_t ignored = write(STDERR_FILENO, text, sizeof(text) - 1);

	(void)sig;
	(void)context;
	digits[0] = (char)('0' + number / 100 % 10);
	digits[1] = (char)('0' + number / 10 % 10);
	digits[2] = (char)('0' + number % 10);
	digits[3] = '\n';
	ignored = write(STDERR_FILENO, digits, sizeof(digits));
	(void)ignored;
	_exit(1);
}

static void traps_set(void)
{
	static const uint32_t numbers[] = {
		SYS_mmap,      SYS_munmap,          SYS_mremap, SYS_mprotect,  SYS_madvise,
		SYS_brk,       SYS_openat,          SYS_futex,  SYS_nanosleep, SYS_clock_nanosleep,
		SYS_flock,     SYS_fsync,           SYS_clone,  SYS_socket,    SYS_memfd_create,
		SYS_ftruncate, SYS_rt_sigtimedwait,
	};
	enum {
		COUNT = sizeof(numbers) / sizeof(numbers[0])
	};
	struct sigaction sa = { .sa_sigaction = trapped, .sa_flags = SA_SIGINFO };
	struct sock_filter filter[2 * COUNT + 2];
	struct sock_fprog program = { .len = 2 * COUNT + 2, .filter = filter };
	unsigned at = 0;

	filter[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						    offsetof(struct seccomp_data, nr));
	for (unsigned i = 0; i < COUNT; i++) {
		filter[at++] =
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, numbers[i], 0, 1);
		filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
	}
	filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	check_ok(sigaction(SIGSYS, &sa, NULL));
	check_ok(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
		xp_note("no system call filter here: %s", strerror(errno));
		return;
	}
}

static void no_system_call_that_waits(void)
{
	unsigned rounds = xp_rounds(5000);
	struct xp_pair pair;
	struct xp_mem src;
	struct xp_mem dst;

	pair_open(&pair, &src, &dst);
	fflush(stdout);
	traps_set();
	for (uint32_t round = 0; round < rounds; round++)
		one_round(&pair, &src, dst.key, round);
	_exit(0); /* closing would be trapped */
}

#endif

int main(int argc, char **argv)
{
	xp_init(argc, argv);
#ifdef SANITIZED
	printf("  note: the allocator is the sanitizer's: only log lines are counted\n");
#endif
	xp_run1("the data path allocates and logs nothing", no_allocation);
	xp_run1("a full queue allocates and logs nothing", no_allocation_when_full);
#ifndef SANITIZED
	xp_run1("the data path makes no system call that waits", no_system_call_that_waits);
#endif
	return xp_result();
}
