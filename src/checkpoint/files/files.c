/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * files.c -- checkpoints in a folder of a file system: numbers are descriptors
 *
 * A child of a fork keeps none of them (rdma/fds.h): it would keep a lock that its parent held when
 * it died, and the room of files that were removed.
 */

#include "checkpoint/files/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "checkpoint/backend.h"
#include "rdma/fds.h"

static int folder_open(const char *dir)
{
	int fd = ol_fds_add(open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC));

	return fd >= 0 ? fd : -errno;
}

static int file_sync(int fd)
{
	int rc;

	do {
		rc = fsync(fd) == 0 ? 0 : -errno;
	} while (rc == -EINTR);
	return rc;
}

static int file_sync_data(int fd)
{
	int rc;

	do {
		rc = fdatasync(fd) == 0 ? 0 : -errno;
	} while (rc == -EINTR);
	return rc;
}

/* Sync the parent, as a power loss could take a new folder with all its content. Also for an old
 * folder: the start that made it may have failed before this */
static int folder_settle(int fd)
{
	int parent_fd = ol_fds_add(openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), rc;

	if (parent_fd < 0 && errno != EACCES)
		return -errno;
	if (parent_fd < 0)
		return 0; /* no right to read the parent, so this user did not make the folder */
	rc = file_sync(parent_fd);
	ol_fds_close(parent_fd);
	return rc == -EINVAL ? 0 : rc; /* this file system needs no sync of folders */
}

static int folder_make(const char *dir)
{
	int fd = folder_open(dir), rc;

	if (fd == -ENOENT) {
		/* the mode again, as the umask may have taken rights that the user needs */
		if (mkdir(dir, 0700) == 0 ? chmod(dir, 0700) != 0 : errno != EEXIST)
			return -errno;
		fd = folder_open(dir);
	}
	if (fd < 0)
		return fd;
	rc = folder_settle(fd);
	if (rc == 0 && faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) != 0)
		rc = -errno;
	if (rc == 0)
		return fd;
	ol_fds_close(fd);
	return rc;
}

static int folder_list(int dir_fd, ol_ckpt_each_fn *each, void *arg)
{
	/* a new descriptor: closedir() closes it, and it begins at the folder's start */
	int fd = ol_fds_add(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;
	int rc = 0;

	if (stream == NULL) {
		rc = -errno;
		if (fd >= 0)
			ol_fds_close(fd);
		return rc;
	}
	while (rc == 0) {
		errno = 0;
		entry = readdir(stream);
		if (entry == NULL) {
			rc = -errno;
			break;
		}
		rc = each(arg, entry->d_name);
	}
	ol_fds_forget(fd);
	closedir(stream);
	return rc;
}

static int file_rename(int dir_fd, const char *from, const char *to)
{
	return renameat(dir_fd, from, dir_fd, to) == 0 ? 0 : -errno;
}

static int file_remove(int dir_fd, const char *name)
{
	return unlinkat(dir_fd, name, 0) == 0 ? 0 : -errno;
}

/* O_EXCL: a new file, and not through a link that another process has placed */
static int file_create(int dir_fd, const char *name)
{
	int fd = ol_fds_add(openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
	int rc;

	if (fd < 0)
		return -errno;
	if (fchmod(fd, 0600) == 0) /* the umask may have taken rights that the next server needs */
		return fd;
	rc = -errno;
	(void)unlinkat(dir_fd, name, 0);
	ol_fds_close(fd);
	return rc;
}

/* O_NONBLOCK: a pipe of that name must not block */
static int file_open(int dir_fd, const char *name)
{
	int fd = ol_fds_add(
		openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));

	return fd >= 0 ? fd : -errno;
}

static int file_size(int fd, uint64_t *ret_bytes)
{
	struct stat stat;

	if (fstat(fd, &stat) != 0)
		return -errno;
	if (!S_ISREG(stat.st_mode))
		return -ENODEV;
	*ret_bytes = (uint64_t)stat.st_size;
	return 0;
}

static int file_read_at(int fd, void *bytes, size_t count, uint64_t off)
{
	uint8_t *at = bytes;

	while (count > 0) {
		ssize_t got = pread(fd, at, count, (off_t)off);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -ENODATA;
		at += got;
		off += (uint64_t)got;
		count -= (size_t)got;
	}
	return 0;
}

static int file_write_at(int fd, const void *bytes, size_t count, uint64_t off)
{
	const uint8_t *at = bytes;

	while (count > 0) {
		ssize_t put = pwrite(fd, at, count, (off_t)off);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return put < 0 ? -errno : -EIO;
		at += put;
		off += (uint64_t)put;
		count -= (size_t)put;
	}
	return 0;
}

static int file_reserve(int fd, uint64_t bytes)
{
	int rc;

	do {
		rc = posix_fallocate(fd, 0, (off_t)bytes);
	} while (rc == EINTR);
	return -rc;
}

static bool file_is_there(int fd, uint64_t bytes)
{
	struct stat stat;

	return fstat(fd, &stat) == 0 && stat.st_nlink > 0 && (uint64_t)stat.st_size == bytes;
}

static int trust(int fd, char *why, size_t why_bytes)
{
	struct stat stat;
	int rc;

	if (fstat(fd, &stat) != 0) {
		rc = -errno;
		snprintf(why, why_bytes, "it cannot be examined: %s", ol_status_str(rc));
		return rc;
	}
	if (stat.st_uid != geteuid() && stat.st_uid != 0)
		snprintf(
			why, why_bytes,
			"it belongs to user %u, who is neither this process's, %u, nor root: chown "
			"it",
			(unsigned)stat.st_uid, (unsigned)geteuid());
	else if ((stat.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		snprintf(why, why_bytes, "other users can write it (mode %03o): chmod go-w it",
			 (unsigned)stat.st_mode & 0777);
	else
		return 0;
	return -EPERM;
}

static int file_close(int fd)
{
	ol_fds_forget(fd);
	return close(fd) == 0 ? 0 : -errno;
}

const struct ol_ckpt_backend ol_ckpt_files = {
	.scheme = "",
	.folder_open = folder_open,
	.folder_make = folder_make,
	.list = folder_list,
	.rename = file_rename,
	.remove = file_remove,
	.create = file_create,
	.open = file_open,
	.size = file_size,
	.read_at = file_read_at,
	.write_at = file_write_at,
	.reserve = file_reserve,
	.is_there = file_is_there,
	.sync_data = file_sync_data,
	.trust = trust,
	.sync = file_sync,
	.close = file_close,
	.take = ol_ckpt_files_take,
	.enter = ol_ckpt_files_enter,
	.leave = ol_ckpt_files_leave,
};
