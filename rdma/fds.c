/* SPDX-License-Identifier: BSD-3-Clause */

/* fds.c -- a bit a descriptor; a child closes those that are set */
#include "rdma/fds.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEVICES " /dev/infiniband/" /* where a path of a line of /proc/self/maps begins */

enum {
	WORD_BITS = 64,
	LINE_MAX_BYTES = 256 /* what is longer has another path */
};

static _Atomic uint64_t added[OL_FDS_MAX / WORD_BITS];
static _Atomic bool has_device;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A line of /proc/self/maps, "FROM-TO rights offset device inode path": gone if it is a device's */
static void line_unmap(const char *line)
{
	uint64_t bounds[2] = { 0, 0 };
	unsigned bound = 0;
	const char *at = line;

	for (; *at != ' ' && *at != '\0'; at++) {
		unsigned digit = (unsigned)*at - (*at <= '9' ? '0' : 'a' - 10U);

		if (*at == '-')
			bound = 1;
		else
			bounds[bound] = bounds[bound] << 4 | (digit & 15);
	}
	if (strstr(at, DEVICES) != NULL)
		(void)munmap((void *)(uintptr_t)bounds[0], bounds[1] - bounds[0]);
}

/* Queues of a device are mapped by its driver's library, which says nowhere at what addresses */
static void devices_unmap(void)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	char line[LINE_MAX_BYTES], piece[512];
	size_t used = 0;
	ssize_t got;

	while (fd >= 0 && (got = read(fd, piece, sizeof(piece))) > 0) {
		for (ssize_t i = 0; i < got; i++) {
			if (piece[i] == '\n') {
				line[used] = '\0';
				line_unmap(line);
				used = 0;
			} else if (used + 1 < sizeof(line)) {
				line[used++] = piece[i];
			}
		}
	}
	if (fd >= 0)
		close(fd);
}

/* In the child, where no other thread is: only what a signal handler may call */
static void in_child(void)
{
	if (atomic_load_explicit(&has_device, memory_order_relaxed))
		devices_unmap();
	for (int fd = 0; fd < OL_FDS_MAX; fd++) {
		uint64_t word = atomic_load_explicit(&added[fd / WORD_BITS], memory_order_relaxed);

		if (word == 0)
			fd |= WORD_BITS - 1;
		else if ((word >> (fd % WORD_BITS) & 1) != 0)
			ol_fds_close(fd);
	}
}

static void watch_forks(void)
{
	(void)pthread_atfork(NULL, NULL, in_child); /* fails for want of memory only */
}

int ol_fds_add(int fd)
{
	if (fd < 0 || fd >= OL_FDS_MAX)
		return fd;
	pthread_once(&once, watch_forks);
	atomic_fetch_or_explicit(&added[fd / WORD_BITS], UINT64_C(1) << (fd % WORD_BITS),
				 memory_order_relaxed);
	return fd;
}

int ol_fds_add_device(int fd)
{
	atomic_store_explicit(&has_device, true, memory_order_relaxed);
	return ol_fds_add(fd);
}

void ol_fds_forget(int fd)
{
	if (fd >= 0 && fd < OL_FDS_MAX)
		atomic_fetch_and_explicit(&added[fd / WORD_BITS],
					  ~(UINT64_C(1) << (fd % WORD_BITS)), memory_order_relaxed);
}

void ol_fds_close(int fd)
{
	ol_fds_forget(fd);
	close(fd);
}

void ol_fds_unshare(void *addr, size_t bytes)
{
	(void)madvise(addr, bytes, MADV_DONTFORK);
}
