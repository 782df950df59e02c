/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * fds.h -- how many descriptors this process has, and a limit on them, for tests of leaks
 */
#ifndef OL_TESTS_UNIT_RDMA_FDS_H
#define OL_TESTS_UNIT_RDMA_FDS_H

#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/resource.h>

static inline unsigned fds_count(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	if (dir == NULL)
		return 0;
	while (readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count - 3; /* ".", ".." and the directory itself */
}

/* fds_limit -- allow only spare descriptors more than are open */
static inline void fds_limit(unsigned spare, struct rlimit *ret_saved)
{
	struct rlimit limit;
	unsigned free_count = 0;
	int fd = 0;

	while (free_count < spare || fcntl(fd, F_GETFD) >= 0)
		free_count += fcntl(fd++, F_GETFD) < 0;
	getrlimit(RLIMIT_NOFILE, ret_saved);
	limit = *ret_saved;
	limit.rlim_cur = (rlim_t)fd;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static inline void fds_unlimit(const struct rlimit *saved)
{
	setrlimit(RLIMIT_NOFILE, saved);
}

#endif /* OL_TESTS_UNIT_RDMA_FDS_H */
