/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * local_ask.c -- what a directory keeps, told; a job of it removed; the directory made
 *
 * A job is removed by one rename, to a name that no job has, and emptied there. Before that its folder is
 * locked, which every open handle shares (local_folder.c): so a server that comes meanwhile is seen, or finds
 * the folder taken and makes another. If the removal is cut off, what is left under the other name is nobody's.
 */

#include "replication/coord/local/local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	NAMES_MAX = 4096, /* jobs that are told */
	DEPTH = 3, /* of folders in a job's: shards, members */
};

/* Told in order */

/* A folder's entries */
struct names {
	int count;
	char of[NAMES_MAX][NAME_MAX + 1];
};

/* Those that `fits`; free() it. NULL with errno */
static struct names *names_read(int folder_fd, bool (*fits)(const char *name))
{
	struct names *names = malloc(sizeof(*names));
	int fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *entry;

	if (folder == NULL || names == NULL) {
		if (folder != NULL)
			closedir(folder);
		else if (fd >= 0)
			close(fd);
		free(names);
		return NULL;
	}
	names->count = 0;
	while (names->count < NAMES_MAX && (entry = readdir(folder)) != NULL)
		if (fits(entry->d_name))
			snprintf(names->of[names->count++], sizeof(names->of[0]), "%s",
				 entry->d_name);
	closedir(folder);
	return names;
}

static bool fits_job(const char *name)
{
	return ol_coord_job_fault(name) == NULL;
}

static int name_compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* When a file or folder was made, if the file system knows; 0: not */
static int64_t born_ms(int fd)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &stx) != 0 ||
	    (stx.stx_mask & STATX_BTIME) == 0)
		return 0;
	return stx.stx_btime.tv_sec * 1000 + stx.stx_btime.tv_nsec / 1000000;
}

static void shard_tell(struct ol_local *local, uint32_t shard, struct ol_kept *kept,
		       ol_kept_fn *tell, void *arg)
{
	int live, rc;

	kept->shard = shard;
	rc = ol_local_view_newest(local, shard, &kept->version, &kept->view, &kept->changed_ms);
	kept->damaged = rc != 0;
	if (rc != 0 || kept->version == 0)
		memset(&kept->view, 0, sizeof(kept->view));
	live = ol_local_members_peek(local, shard, kept->members, &kept->member_count);
	kept->live = live > 0 ? (uint32_t)live : 0;
	if (kept->changed_ms == 0)
		kept->changed_ms = kept->begun_ms;
	tell(arg, kept);
}

static bool ends_with(const char *name, const char *end)
{
	const size_t len = strlen(name), end_len = strlen(end);

	return len > end_len && strcmp(name + len - end_len, end) == 0;
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* What local.h does not name: in a job's folder, and in a shard's */
static bool no_part_of_job(const char *name)
{
	const char *number = name + strlen("shard");

	if (strncmp(name, "shard", strlen("shard")) == 0 &&
	    strspn(number, "0123456789") == strlen(number) && number[0] != '\0')
		return false;
	return !is_dots(name) && !ends_with(name, ".tmp");
}

static bool no_part_of_shard(const char *name)
{
	if (ends_with(name, ".view") &&
	    strspn(name, "0123456789") == strlen(name) - strlen(".view"))
		return false;
	return !is_dots(name) && strcmp(name, "members") != 0;
}

/* Has the folder what no job has? The name of the first is given. -errno: it cannot be read */
static int strange_find(int folder_fd, bool (*is_strange)(const char *name),
			char name[NAME_MAX + 1])
{
	struct names *names = names_read(folder_fd, is_strange);
	int found;

	if (names == NULL)
		return -errno;
	found = names->count > 0;
	if (found)
		snprintf(name, NAME_MAX + 1, "%s", names->of[0]);
	free(names);
	return found;
}

/* True of a folder of another purpose, with something in it */
static bool is_no_job(int job_fd)
{
	char name[NAME_MAX + 1];

	return strange_find(job_fd, no_part_of_job, name) > 0;
}

/* A folder that was named by mistake is somebody's data: -EEXIST with a line, unless all in it is a job's */
static int job_check(int job_fd, const char *job, char *err, size_t err_bytes)
{
	char name[NAME_MAX + 1], shard[OL_LOCAL_NAME_MAX] = "";
	int rc = strange_find(job_fd, no_part_of_job, name);

	for (uint32_t i = 0; rc == 0 && i < OL_COORD_SHARDS_MAX; i++) {
		int fd;

		snprintf(shard, sizeof(shard), "shard%" PRIu32 "/", i);
		fd = openat(job_fd, shard, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0)
			continue;
		rc = strange_find(fd, no_part_of_shard, name);
		close(fd);
	}
	if (rc > 0) {
		snprintf(err, err_bytes, "%s is no job: it has %s%s; nothing is removed", job,
			 shard, name);
		return -EEXIST;
	}
	if (rc < 0)
		snprintf(err, err_bytes, "job %s cannot be read: %s", job, strerror(-rc));
	return rc;
}

/* A folder that vanishes meanwhile is left out; 0 or -errno */
static int job_tell(int path_fd, const char *job, ol_kept_fn *tell, void *arg)
{
	struct ol_local local = {
		.job_fd = openat(path_fd, job, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
	};
	unsigned told = 0;
	int64_t begun_ms;

	if (local.job_fd < 0)
		return -errno;
	begun_ms = born_ms(local.job_fd);
	for (uint32_t shard = 0; shard < OL_COORD_SHARDS_MAX; shard++) {
		struct ol_kept kept = { .job = job,
					.access = OL_KEPT_GUARDED,
					.begun_ms = begun_ms };
		char name[OL_LOCAL_NAME_MAX];

		snprintf(name, sizeof(name), "shard%" PRIu32, shard);
		if (faccessat(local.job_fd, name, F_OK, 0) != 0)
			continue;
		shard_tell(&local, shard, &kept, tell, arg);
		told++;
	}
	if (told == 0 && is_no_job(local.job_fd)) {
		close(local.job_fd);
		return -ENOENT;
	}
	if (told == 0) {
		struct ol_kept none = { .job = job,
					.shard = OL_KEPT_NO_SHARD,
					.access = OL_KEPT_GUARDED,
					.begun_ms = begun_ms,
					.changed_ms = begun_ms };

		tell(arg, &none);
	}
	close(local.job_fd);
	return 0;
}

int ol_local_jobs(int path_fd, const char *job, ol_kept_fn *tell, void *arg, char *err,
		  size_t err_bytes)
{
	struct names *names;
	int rc;

	if (job != NULL) {
		rc = job_tell(path_fd, job, tell, arg);
		if (rc == -ENOENT)
			snprintf(err, err_bytes, "it keeps no job %s", job);
		else if (rc != 0)
			snprintf(err, err_bytes, "%s: %s", job, strerror(-rc));
		return rc;
	}
	names = names_read(path_fd, fits_job);
	if (names == NULL) {
		rc = -errno;
		snprintf(err, err_bytes, "%s", strerror(-rc));
		return rc;
	}
	qsort(names->of, (size_t)names->count, sizeof(names->of[0]), name_compare);
	for (int i = 0; i < names->count; i++)
		(void)job_tell(path_fd, names->of[i], tell, arg); /* a file, or it is gone */
	free(names);
	return 0;
}

int ol_local_list(const struct ol_coord_ask *ask, ol_kept_fn *tell, void *arg, char *err,
		  size_t err_bytes)
{
	int path_fd = -1;
	int rc = ol_local_folder_enter(AT_FDCWD, ask->addr + strlen("dir:"), 0, &path_fd, err,
				       err_bytes);

	if (rc != 0)
		return rc == -EACCES ? -EPERM : rc;
	rc = ol_local_jobs(path_fd, ask->job, tell, arg, err, err_bytes);
	close(path_fd);
	return rc;
}

/* Removed */

static bool fits_all(const char *name)
{
	return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static int folder_empty(int folder_fd, unsigned depth);

/* A file, or a folder with all in it; 0 or -errno */
static int entry_drop(int folder_fd, const char *name, unsigned depth)
{
	int fd, rc;

	if (unlinkat(folder_fd, name, 0) == 0)
		return 0;
	if ((errno != EISDIR && errno != EPERM) || depth == 0)
		return -errno;
	fd = openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	rc = folder_empty(fd, depth - 1);
	close(fd);
	if (rc == 0 && unlinkat(folder_fd, name, AT_REMOVEDIR) != 0)
		rc = -errno;
	return rc;
}

/* Everything in it, also more than is read at once; 0 or -errno */
static int folder_empty(int folder_fd, unsigned depth)
{
	int count = 1, rc = 0;

	while (count > 0 && rc == 0) {
		struct names *names = names_read(folder_fd, fits_all);

		if (names == NULL)
			return -errno;
		count = names->count;
		for (int i = 0; i < count && rc == 0; i++)
			rc = entry_drop(folder_fd, names->of[i], depth);
		free(names);
	}
	return rc;
}

static int busy(const char *job, const char *how, char *err, size_t err_bytes)
{
	snprintf(err, err_bytes, "job %s is in use: %s; nothing is removed", job, how);
	return -EBUSY;
}

static void live_count(void *arg, const struct ol_kept *kept)
{
	uint32_t *live = arg;

	*live += kept->live;
}

/* In the folder of the coordinator, with the job's open: 0 or -errno with a line */
static int job_take(int path_fd, const char *job, int job_fd, char away[64], char *err,
		    size_t err_bytes)
{
	uint32_t live = 0;
	uint64_t tag = 0;
	int rc;

	if (flock(job_fd, LOCK_EX | LOCK_NB) != 0)
		return busy(job, "a process has it open", err, err_bytes);
	if (!ol_local_still_there(path_fd, job, job_fd)) {
		snprintf(err, err_bytes, "job %s was removed and begun again meanwhile", job);
		return -EAGAIN;
	}
	rc = job_check(job_fd, job, err, err_bytes);
	if (rc != 0)
		return rc;
	(void)job_tell(path_fd, job, live_count,
		       &live); /* of a version that does not lock the folder */
	if (live > 0)
		return busy(job, "a server is registered", err, err_bytes);
	if (getrandom(&tag, sizeof(tag), 0) != (ssize_t)sizeof(tag))
		tag = (uint64_t)getpid(); /* it is only to be no name that is there */
	snprintf(away, 64, ".removed-%016" PRIx64, tag);
	if (renameat(path_fd, job, path_fd, away) == 0)
		return 0;
	snprintf(err, err_bytes, "job %s cannot be renamed: %s", job, strerror(errno));
	return errno == ENOENT ? -EAGAIN : -errno;
}

int ol_local_remove(const struct ol_coord_ask *ask, char *err, size_t err_bytes)
{
	int path_fd = -1, job_fd, rc;
	char away[64];

	rc = ol_local_folder_enter(AT_FDCWD, ask->addr + strlen("dir:"), 0, &path_fd, err,
				   err_bytes);
	if (rc != 0)
		return rc == -EACCES ? -EPERM : rc;
	job_fd = openat(path_fd, ask->job, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (job_fd < 0) {
		rc = -errno;
		if (rc == -ENOENT)
			snprintf(err, err_bytes, "it keeps no job %s", ask->job);
		else
			snprintf(err, err_bytes, "%s: %s", ask->job, strerror(-rc));
		close(path_fd);
		return rc;
	}
	rc = job_take(path_fd, ask->job, job_fd, away, err, err_bytes);
	if (rc == 0) {
		rc = folder_empty(job_fd, DEPTH);
		if (rc == 0 && unlinkat(path_fd, away, AT_REMOVEDIR) != 0)
			rc = -errno;
		if (rc != 0)
			snprintf(err, err_bytes,
				 "the job is removed, but its files are left in %s: %s", away,
				 strerror(-rc));
	}
	close(job_fd);
	close(path_fd);
	return rc;
}

int ol_local_make_root(const struct ol_coord_ask *ask, char *err, size_t err_bytes)
{
	const char *path = ask->addr + strlen("dir:");
	int fd = -1, rc;

	if (mkdir(path, 0700) != 0 && errno != EEXIST) {
		rc = -errno;
		snprintf(err, err_bytes, "it cannot be made: %s", strerror(-rc));
		return rc == -EACCES ? -EPERM : rc;
	}
	rc = ol_local_folder_enter(AT_FDCWD, path, 0, &fd, err, err_bytes);
	if (rc == 0)
		close(fd);
	return rc == -EACCES ? -EPERM : rc;
}
