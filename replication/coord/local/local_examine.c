/* SPDX-License-Identifier: BSD-3-Clause */

/* local_examine.c -- can jobs use a directory: whose it is, its file system, locks, links, and how fast it syncs */

#include "replication/coord/local/local.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "replication/coord/ask_internal.h"

enum {
	NAME_MAX_BYTES = 64,
	VIEW_BYTES = 1024, /* about what a view of four replicas takes */
	SPACE_MIN = 1 << 20,
	SLOW_NS = 50 * 1000 * 1000, /* of a view's change */
};

struct exam {
	struct ol_asker *asker;
	int fd; /* of the directory */
	char tmp[NAME_MAX_BYTES],
		name[NAME_MAX_BYTES]; /* of ours in it; no name of a job begins with a dot */
};

static void folder_tell(struct exam *exam)
{
	struct statvfs space;
	struct statfs fs;
	struct stat st;

	if (fstatfs(exam->fd, &fs) != 0 || fstat(exam->fd, &st) != 0 ||
	    fstatvfs(exam->fd, &space) != 0)
		return;
	ol_ask_find(exam->asker, OL_COORD_FINE, "folder", NULL,
		    "on this machine's own file system (type %#lx), of this user, mode %03o",
		    (unsigned long)fs.f_type, (unsigned)(st.st_mode & 0777));
	if ((uint64_t)space.f_bavail * space.f_frsize < SPACE_MIN ||
	    (space.f_files > 0 && space.f_favail < 1024))
		ol_ask_find(exam->asker, OL_COORD_WARN, "space", "free some",
			    "%" PRIu64 " KB and %" PRIu64 " files are left for views",
			    (uint64_t)space.f_bavail * space.f_frsize / 1024,
			    (uint64_t)space.f_favail);
}

/* The lock that a server's registration is: it must be seen through another descriptor. 0 or -errno */
static int lock_try(struct exam *exam)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET }, seen = lock;
	int fd = openat(exam->fd, exam->tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int other = fd >= 0 ? openat(exam->fd, exam->tmp, O_RDONLY | O_CLOEXEC) : -1;
	int rc = 0;

	if (fd < 0 || other < 0 || fcntl(fd, F_OFD_SETLK, &lock) != 0 ||
	    fcntl(other, F_OFD_GETLK, &seen) != 0)
		rc = -errno;
	else if (seen.l_type == F_UNLCK)
		rc = -ENOLCK;
	if (other >= 0)
		close(other);
	if (fd >= 0)
		close(fd);
	(void)unlinkat(exam->fd, exam->tmp, 0);
	return rc;
}

/* A view's change: written, synced, linked to a name that must not be there, the folder synced. 0 or -errno */
static int change_try(struct exam *exam, uint64_t *ret_ns)
{
	static const char text[VIEW_BYTES];
	uint64_t begin_ns = ol_coord_now_ns();
	int fd = openat(exam->fd, exam->tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), rc;

	if (fd < 0)
		return -errno;
	rc = ol_local_file_write(fd, text, sizeof(text));
	if (rc == 0 && fsync(fd) != 0)
		rc = -errno;
	close(fd);
	if (rc == 0 && linkat(exam->fd, exam->tmp, exam->fd, exam->name, 0) != 0)
		rc = -errno;
	if (rc == 0 && fsync(exam->fd) != 0)
		rc = -errno;
	*ret_ns = ol_coord_now_ns() - begin_ns;
	if (rc == 0 && linkat(exam->fd, exam->tmp, exam->fd, exam->name, 0) == 0)
		rc = -ENOTSUP; /* the name was there */
	(void)unlinkat(exam->fd, exam->tmp, 0);
	(void)unlinkat(exam->fd, exam->name, 0);
	return rc;
}

/* What a process does when it is woken: is there a next view, and the one in force read. 0 or -errno */
static int read_try(struct exam *exam, uint64_t *ret_ns)
{
	char text[OL_LOCAL_TEXT_MAX];
	uint64_t begin_ns;
	ssize_t bytes;
	int fd;

	fd = openat(exam->fd, exam->tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	memset(text, 0, VIEW_BYTES);
	bytes = ol_local_file_write(fd, text, VIEW_BYTES);
	close(fd);
	begin_ns = ol_coord_now_ns();
	if (faccessat(exam->fd, exam->name, F_OK, 0) != 0)
		errno = 0; /* its time counts, not its answer */
	fd = bytes == 0 ? openat(exam->fd, exam->tmp, O_RDONLY | O_CLOEXEC) : -1;
	if (fd >= 0) {
		bytes = ol_local_file_read(fd, text);
		close(fd);
	}
	*ret_ns = ol_coord_now_ns() - begin_ns;
	(void)unlinkat(exam->fd, exam->tmp, 0);
	return bytes < 0 ? (int)bytes : 0;
}

static int rounds_run(struct exam *exam, uint32_t rounds)
{
	uint64_t *times = calloc(2 * (size_t)rounds, sizeof(*times));
	int rc = times == NULL ? -ENOMEM : 0;

	for (uint32_t i = 0; i < rounds && rc == 0; i++) {
		rc = change_try(exam, &times[i]);
		if (rc == 0)
			rc = read_try(exam, &times[rounds + i]);
	}
	if (rc == 0) {
		ol_ask_latency(exam->asker, "write", "a view's change, synced to the disk", times,
			       rounds, SLOW_NS,
			       "a folder on a faster disk, or in memory (/run, /dev/shm), if "
			       "views need not outlive a power loss");
		ol_ask_latency(exam->asker, "read", "a read of a view", times + rounds, rounds, 0,
			       NULL);
	} else {
		ol_ask_find(exam->asker, OL_COORD_BAD, "write",
			    rc == -ENOSPC ? "free some space" : "another folder",
			    "a view cannot be changed in it: %s", strerror(-rc));
	}
	free(times);
	return rc;
}

static void watches_tell(struct exam *exam)
{
	int fd = inotify_init1(IN_CLOEXEC);

	if (fd >= 0)
		close(fd);
	else
		ol_ask_find(exam->asker, OL_COORD_WARN, "inotify",
			    "raise fs.inotify.max_user_instances",
			    "none is left: %s; each process then looks every 10 ms",
			    strerror(errno));
}

static void jobs_tell(struct exam *exam)
{
	struct ol_ask_jobs jobs = { 0 };
	char err[OL_COORD_LINE_MAX];

	if (ol_local_jobs(exam->fd, NULL, ol_ask_jobs_on_kept, &jobs, err, sizeof(err)) == 0)
		ol_ask_jobs_tell(exam->asker, &jobs, false);
}

static int folder_look(struct exam *exam, uint32_t rounds)
{
	uint64_t tag = 0;
	int rc;

	if (getrandom(&tag, sizeof(tag), 0) != (ssize_t)sizeof(tag))
		return -EIO;
	snprintf(exam->tmp, sizeof(exam->tmp), ".doctor-%016" PRIx64 ".tmp", tag);
	snprintf(exam->name, sizeof(exam->name), ".doctor-%016" PRIx64 ".view", tag);
	folder_tell(exam);
	rc = lock_try(exam);
	if (rc != 0)
		ol_ask_find(
			exam->asker, OL_COORD_BAD, "locks",
			"a folder that this user may write into, on a file system of this machine",
			"a server cannot register in it: %s", strerror(-rc));
	else
		ol_ask_find(
			exam->asker, OL_COORD_FINE, "locks", NULL,
			"a lock is seen by others: a server's registration ends with its process");
	if (rc == 0)
		rc = rounds_run(exam, rounds);
	if (rc == 0) {
		watches_tell(exam);
		jobs_tell(exam);
	}
	return rc;
}

/* A registration in a folder lasts as long as its process: no lease matters */
int ol_local_examine(const struct ol_coord_ask *ask, uint32_t lease_ms, uint32_t rounds,
		     struct ol_asker *asker, char *err, size_t err_bytes)
{
	struct exam exam = { .asker = asker, .fd = -1 };
	int rc = ol_local_folder_enter(AT_FDCWD, ask->addr + strlen("dir:"), 0, &exam.fd, err,
				       err_bytes);

	(void)lease_ms;
	if (rc != 0)
		return rc == -EACCES ? -EPERM : rc;
	rc = folder_look(&exam, rounds);
	close(exam.fd);
	if (rc != 0)
		snprintf(err, err_bytes, "jobs cannot use it");
	return rc;
}
