/* SPDX-License-Identifier: BSD-3-Clause */

/* owner.c -- who owns a name in a folder: the process with the lock file in place, and its flock() */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "checkpoint/files/files.h"
#include "checkpoint/name.h"
#include "outlast.h"
#include "rdma/fds.h"

enum {
	TAKE_MS = 2000, /* an owner that changes names holds its lock for less, on any disk */
};

/* In a folder without locks (some network file systems) only renames give an order */
static int lock(int fd, int how)
{
	int rc;

	do {
		rc = flock(fd, how) == 0 ? 0 : -errno;
	} while (rc == -EINTR);
	return rc == -ENOLCK || rc == -EOPNOTSUPP || rc == -EINVAL ? 0 : rc;
}

/* 1: the lock file in place is fd's, or there is none. 0: it is another's */
static int in_place(int dir_fd, const char *text, int fd)
{
	int there_fd = ol_fds_add(
		    openat(dir_fd, text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)),
	    rc;
	struct stat own, there;

	if (there_fd < 0)
		return errno == ENOENT ? 1 : -errno;
	rc = fstat(fd, &own) == 0 && fstat(there_fd, &there) == 0
		     ? own.st_ino == there.st_ino && own.st_dev == there.st_dev
		     : -errno;
	ol_fds_close(there_fd);
	return rc;
}

/* Lock the file in place, so that its owner changes no names meanwhile. *ret_fd -1: there is none */
static int others_lock(int dir_fd, const char *text, int *ret_fd)
{
	uint64_t end_ns = ol_clock_ns() + TAKE_MS * OL_NS_PER_MS;
	int rc = -EBUSY;

	while (rc == -EBUSY && ol_clock_ns() < end_ns) {
		int fd = ol_fds_add(
			openat(dir_fd, text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));

		*ret_fd = fd;
		if (fd < 0)
			return errno == ENOENT ? 0 : -errno;
		rc = lock(fd, LOCK_EX | LOCK_NB);
		if (rc == 0) {
			rc = in_place(dir_fd, text, fd);
			if (rc == 1)
				return 0;
			rc = rc == 0 ? -EBUSY : rc; /* another process has replaced it */
		} else if (rc == -EWOULDBLOCK) {
			rc = -EBUSY;
		}
		ol_fds_close(fd);
		if (rc == -EBUSY)
			sched_yield();
	}
	*ret_fd = -1;
	return rc;
}

/* Put a new lock file in place; returns its descriptor */
static int own_place(int dir_fd, const char *text)
{
	char fresh[OL_CKPT_NAME_MAX];
	int fd, rc;

	ol_ckpt_name_fresh(text, fresh);
	if (unlinkat(dir_fd, fresh, 0) != 0 && errno != ENOENT)
		return -errno;
	fd = ol_fds_add(openat(dir_fd, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
	if (fd < 0)
		return -errno;
	/* the mode again, as the umask may have taken rights that the next server needs */
	if (fchmod(fd, 0600) != 0 || renameat(dir_fd, fresh, dir_fd, text) != 0) {
		rc = -errno;
		unlinkat(dir_fd, fresh, 0);
		ol_fds_close(fd);
		return rc;
	}
	return fd;
}

int ol_ckpt_files_take(int dir_fd, const char *text)
{
	int other_fd = -1, rc = others_lock(dir_fd, text, &other_fd);

	if (rc == 0)
		rc = own_place(dir_fd, text);
	if (other_fd >= 0)
		ol_fds_close(other_fd);
	return rc;
}

int ol_ckpt_files_enter(int dir_fd, const char *text, int fd)
{
	uint64_t end_ns = ol_clock_ns() + TAKE_MS * OL_NS_PER_MS;
	int rc = lock(fd, LOCK_EX | LOCK_NB);

	/* whoever takes the file's place may have been stopped: not for ever */
	while (rc == -EWOULDBLOCK && ol_clock_ns() < end_ns) {
		poll(NULL, 0, 1);
		rc = lock(fd, LOCK_EX | LOCK_NB);
	}
	if (rc != 0)
		return rc == -EWOULDBLOCK ? -EBUSY : rc;
	rc = in_place(dir_fd, text, fd);
	if (rc == 1)
		return 0;
	ol_ckpt_files_leave(fd);
	return rc == 0 ? OL_E_FENCED : rc;
}

void ol_ckpt_files_leave(int fd)
{
	(void)lock(fd, LOCK_UN);
}
