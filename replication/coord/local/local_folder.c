/* SPDX-License-Identifier: BSD-3-Clause */

/* local_folder.c -- makes the folder of a job, or refuses it for its file system or owner */

#include "replication/coord/local/local.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
	FOLDER_MODE = 0700,
	REMOVAL_TRIES = 400,
	REMOVAL_MS = 10,
};

struct fs_kind {
	uint64_t magic;
	const char *name;
};

/* A lock there may be local to this machine, or may outlive its owner. File systems in user space
 * are refused too, as their behaviour is not known. */
static const struct fs_kind refused_kinds[] = {
	{ 0x6969, "NFS" },        { 0x517b, "SMB" },          { 0xfe534d42, "SMB2" },
	{ 0xff534d42, "CIFS" },   { 0x01021997, "9P" },       { 0x65735546, "FUSE" },
	{ 0x00c36400, "Ceph" },   { 0x0bd00bd0, "Lustre" },   { 0x5346414f, "AFS" },
	{ 0x6b414653, "AFS" },    { 0x73757245, "Coda" },     { 0x564c, "NCP" },
	{ 0x01161970, "GFS2" },   { 0x7461636f, "OCFS2" },    { 0x47504653, "GPFS" },
	{ 0x19830326, "BeeGFS" }, { 0x20030528, "OrangeFS" }, { 0x786f4256, "vboxsf" },
	{ 0xaad7aaea, "PanFS" },
};

const char *ol_local_folder_refused(uint64_t magic)
{
	for (size_t i = 0; i < sizeof(refused_kinds) / sizeof(refused_kinds[0]); i++)
		if (refused_kinds[i].magic == (magic & UINT32_MAX))
			return refused_kinds[i].name;
	return NULL;
}

static int folder_check(int fd, char *err, size_t err_bytes)
{
	const char *kind;
	struct statfs fs;
	struct stat st;

	if (fstatfs(fd, &fs) != 0 || fstat(fd, &st) != 0) {
		int rc = -errno;

		snprintf(err, err_bytes, "%s", strerror(-rc));
		return rc;
	}
	kind = ol_local_folder_refused((uint64_t)fs.f_type);
	if (kind != NULL) {
		snprintf(
			err, err_bytes,
			"it is on a network file system (%s), whose locks do not tell when a process "
			"ends: give a folder of this machine, or zk:HOST:PORT",
			kind);
		return -EINVAL;
	}
	if (st.st_uid != geteuid()) {
		snprintf(
			err, err_bytes,
			"it belongs to user %u, not to this one (%u): all processes of a job run as "
			"one user, in a folder of its own",
			(unsigned)st.st_uid, (unsigned)geteuid());
		return -EPERM;
	}
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
		snprintf(err, err_bytes,
			 "other users may write into it (mode %03o): chmod go-w, or give another",
			 (unsigned)(st.st_mode & 0777));
		return -EPERM;
	}
	return 0;
}

int ol_local_folder_enter(int at_fd, const char *name, int flags, int *ret_fd, char *err,
			  size_t err_bytes)
{
	int fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags), rc;

	if (fd < 0) {
		rc = -errno;
		snprintf(err, err_bytes, "%s",
			 rc == -ENOENT ? "there is no such folder: make it first" : strerror(-rc));
		return rc;
	}
	rc = folder_check(fd, err, err_bytes);
	if (rc != 0) {
		close(fd);
		return rc;
	}
	*ret_fd = fd;
	return 0;
}

/* folder_make -- 0 also if it exists */
static int folder_make(int at_fd, const char *name, char *err, size_t err_bytes)
{
	int rc;

	if (mkdirat(at_fd, name, FOLDER_MODE) == 0 || errno == EEXIST)
		return 0;
	rc = -errno;
	snprintf(err, err_bytes, "%s cannot be made in it: %s", name, strerror(-rc));
	return rc;
}

static int shards_make(const struct ol_local *local, int job_fd, char *err, size_t err_bytes)
{
	static const char *const below[] = { "", "/members" };
	int rc = 0;

	for (uint32_t i = 0; i < local->coord->opts.shard_count; i++) {
		for (unsigned k = 0; k < 2 && rc == 0 && ol_local_watches(local, i); k++) {
			char name[OL_LOCAL_NAME_MAX];

			snprintf(name, sizeof(name), "shard%" PRIu32 "%s", i, below[k]);
			rc = folder_make(job_fd, name, err, err_bytes);
		}
	}
	return rc;
}

bool ol_local_still_there(int path_fd, const char *job, int job_fd)
{
	int fd = openat(path_fd, job, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct stat at_name, ours;
	bool same;

	if (fd < 0)
		return false;
	same = fstat(fd, &at_name) == 0 && fstat(job_fd, &ours) == 0 &&
	       at_name.st_ino == ours.st_ino;
	close(fd);
	return same;
}

/*
 * job_share -- hold the job's folder, so that it is not removed while this handle has it open
 *
 * A lock of the whole folder, shared by all handles, which ends with the process and its children. Whoever
 * removes the job has it alone. 0; -EAGAIN: the folder was removed, or is being; or -errno
 */
static int job_share(int path_fd, const char *job, int job_fd)
{
	int rc;

	do
		rc = flock(job_fd, LOCK_SH | LOCK_NB);
	while (rc != 0 && errno == EINTR);
	if (rc != 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	return ol_local_still_there(path_fd, job, job_fd) ? 0 : -EAGAIN;
}

/* job_open -- -EAGAIN as above, with no line */
static int job_open(int path_fd, const char *job, int *ret_fd, char *err, size_t err_bytes)
{
	int job_fd = -1, rc = folder_make(path_fd, job, err, err_bytes);

	if (rc == 0)
		rc = ol_local_folder_enter(path_fd, job, O_NOFOLLOW, &job_fd, err, err_bytes);
	if (rc == -ENOENT)
		return -EAGAIN; /* it was there */
	if (rc != 0)
		return rc;
	rc = job_share(path_fd, job, job_fd);
	if (rc == 0) {
		*ret_fd = job_fd;
		return 0;
	}
	close(job_fd);
	if (rc != -EAGAIN)
		snprintf(err, err_bytes, "%s cannot be locked: %s", job, strerror(-rc));
	return rc;
}

int ol_local_folder_open(struct ol_local *local, char *err, size_t err_bytes)
{
	const struct ol_coord_opts *opts = &local->coord->opts;
	int path_fd = -1, job_fd = -1, rc;

	rc = ol_local_folder_enter(AT_FDCWD, local->path, 0, &path_fd, err, err_bytes);
	if (rc != 0)
		return rc;
	rc = -EAGAIN;
	for (unsigned i = 0; i < REMOVAL_TRIES && rc == -EAGAIN; i++) {
		if (i > 0)
			(void)poll(NULL, 0, REMOVAL_MS); /* whoever removes it is about to end */
		rc = job_open(path_fd, opts->job, &job_fd, err, err_bytes);
	}
	close(path_fd);
	if (rc == -EAGAIN)
		snprintf(err, err_bytes, "job %s is being removed", opts->job);
	if (rc != 0)
		return rc;
	rc = shards_make(local, job_fd, err, err_bytes);
	if (rc != 0) {
		close(job_fd);
		return rc;
	}
	local->job_fd = job_fd;
	return 0;
}

ssize_t ol_local_file_read(int fd, char text[OL_LOCAL_TEXT_MAX])
{
	size_t at = 0;

	while (at < OL_LOCAL_TEXT_MAX) {
		ssize_t got = read(fd, text + at, OL_LOCAL_TEXT_MAX - at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		at += (size_t)got;
	}
	return (ssize_t)at;
}

int ol_local_file_write(int fd, const char *text, size_t bytes)
{
	size_t at = 0;

	while (at < bytes) {
		ssize_t put = write(fd, text + at, bytes - at);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -errno;
		at += (size_t)put;
	}
	return 0;
}
