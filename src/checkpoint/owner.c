/* SPDX-License-Identifier: BSD-3-Clause */

/* owner.c -- the lock file of a shard's checkpoints */

#include "checkpoint/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "outlast.h"

enum {
	TAKE_MS = 2000, /* to change a few names takes less, on any disk */
};

/* A folder without locks (some network file systems) has the order of names alone */
static int lock(int fd, int how)
{
	int rc;

	do {
		rc = flock(fd, how) == 0 ? 0 : -errno;
	} while (rc == -EINTR);
	return rc == -ENOLCK || rc == -EOPNOTSUPP || rc == -EINVAL ? 0 : rc;
}

/* 1: the file in that place is this one. 0: it is another. There is none: nobody else's is */
static int in_place(int dir_fd, const char *text, int fd)
{
	int there_fd = openat(dir_fd, text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), rc;
	struct stat own, there;

	if (there_fd < 0)
		return errno == ENOENT ? 1 : -errno;
	rc = fstat(fd, &own) == 0 && fstat(there_fd, &there) == 0
		     ? own.st_ino == there.st_ino && own.st_dev == there.st_dev
		     : -errno;
	close(there_fd);
	return rc;
}

/* The lock of whoever is in place: it changes no names meanwhile. -1: nobody is */
static int others_lock(int dir_fd, const char *text, int *ret_fd)
{
	uint64_t end_ns = ol_clock_ns() + TAKE_MS * OL_NS_PER_MS;
	int rc = -EBUSY;

	while (rc == -EBUSY && ol_clock_ns() < end_ns) {
		int fd = openat(dir_fd, text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

		*ret_fd = fd;
		if (fd < 0)
			return errno == ENOENT ? 0 : -errno;
		rc = lock(fd, LOCK_EX | LOCK_NB);
		if (rc == 0) {
			rc = in_place(dir_fd, text, fd);
			if (rc == 1)
				return 0;
			rc = rc == 0 ? -EBUSY : rc; /* another has come in between */
		} else if (rc == -EWOULDBLOCK) {
			rc = -EBUSY;
		}
		close(fd);
		if (rc == -EBUSY)
			sched_yield();
	}
	*ret_fd = -1;
	return rc;
}

static int own_place(int dir_fd, const char *text, int *ret_fd)
{
	char fresh[OL_CKPT_NAME_MAX + 32];
	int fd, rc = 0;

	snprintf(fresh, sizeof(fresh), "%s-%ld", text, (long)getpid());
	if (unlinkat(dir_fd, fresh, 0) != 0 && errno != ENOENT)
		return -errno;
	fd = openat(dir_fd, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	if (renameat(dir_fd, fresh, dir_fd, text) != 0) {
		rc = -errno;
		unlinkat(dir_fd, fresh, 0);
		close(fd);
		return rc;
	}
	*ret_fd = fd;
	return 0;
}

int ol_ckpt_owner_take(int dir_fd, const struct ol_ckpt_name *kind, struct ol_ckpt_owner *ret_owner)
{
	struct ol_ckpt_owner owner = { .fd = -1 };
	int other_fd = -1, rc;

	snprintf(owner.text, sizeof(owner.text), ".lock-%s-%016" PRIx64 "-s%" PRIu32,
		 kind->running ? "run" : "ckpt", kind->job_id, kind->shard);
	rc = others_lock(dir_fd, owner.text, &other_fd);
	if (rc == 0)
		rc = own_place(dir_fd, owner.text, &owner.fd);
	if (other_fd >= 0)
		close(other_fd);
	if (rc == 0)
		*ret_owner = owner;
	return rc;
}

void ol_ckpt_owner_drop(struct ol_ckpt_owner *owner)
{
	if (owner->fd >= 0)
		close(owner->fd);
	owner->fd = -1;
}

int ol_ckpt_owner_enter(const struct ol_ckpt_owner *owner, int dir_fd)
{
	int rc;

	if (owner == NULL)
		return 0;
	rc = lock(owner->fd, LOCK_EX);
	if (rc != 0)
		return rc;
	rc = in_place(dir_fd, owner->text, owner->fd);
	if (rc == 1)
		return 0;
	ol_ckpt_owner_leave(owner);
	return rc == 0 ? OL_E_FENCED : rc;
}

void ol_ckpt_owner_leave(const struct ol_ckpt_owner *owner)
{
	if (owner != NULL)
		(void)lock(owner->fd, LOCK_UN);
}
