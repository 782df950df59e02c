/* SPDX-License-Identifier: BSD-3-Clause */

/* folder.c -- private folders: made, locked, removed with their content */

#include "base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	FDS_MAX = 8, /* open at once during a removal */
	YOUNG_S = 60, /* younger folders are kept: they may not be locked yet */
};

static int entry_drop(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	(void)remove(path);
	return 0;
}

static void tree_drop(const char *path)
{
	(void)nftw(path, entry_drop, FDS_MAX, FTW_DEPTH | FTW_PHYS);
}

/* is_left -- an ended process has left it: this user's, old enough, and not locked */
static bool is_left(int at_fd, const char *name)
{
	int fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	bool left;

	if (fd < 0)
		return false;
	left = fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
	       st.st_ctime + YOUNG_S < time(NULL) && flock(fd, LOCK_EX | LOCK_NB) == 0;
	close(fd);
	return left;
}

static void left_drop(const char *base, const char *prefix)
{
	const struct dirent *entry;
	DIR *dir = opendir(base);

	if (dir == NULL)
		return;
	while ((entry = readdir(dir)) != NULL) {
		char path[OL_FOLDER_MAX];
		int bytes;

		if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 ||
		    !is_left(dirfd(dir), entry->d_name))
			continue;
		bytes = snprintf(path, sizeof(path), "%.64s/%.28s", base, entry->d_name);
		if (bytes > 0 && (size_t)bytes < sizeof(path))
			tree_drop(path);
	}
	closedir(dir);
}

static int make_in(struct ol_folder *folder, const char *base, const char *prefix)
{
	int bytes;

	if (base == NULL || base[0] != '/')
		return -ENOENT;
	bytes = snprintf(folder->path, sizeof(folder->path), "%s/%sXXXXXX", base, prefix);
	if (bytes < 0 || (size_t)bytes >= sizeof(folder->path))
		return -ENAMETOOLONG;
	if (mkdtemp(folder->path) == NULL)
		return -errno;
	folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder->fd < 0 || flock(folder->fd, LOCK_EX | LOCK_NB) != 0) {
		int rc = -errno;

		ol_folder_drop(folder);
		return rc;
	}
	left_drop(base, prefix);
	return 0;
}

int ol_folder_make(struct ol_folder *folder, const char *prefix)
{
	const char *const bases[] = { getenv("XDG_RUNTIME_DIR"), "/dev/shm", getenv("TMPDIR"),
				      "/tmp" };
	int rc = -ENOENT;

	folder->path[0] = '\0';
	folder->fd = -1;
	for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
		rc = make_in(folder, bases[i], prefix);
		if (rc == 0)
			return 0;
	}
	folder->path[0] = '\0';
	return rc;
}

void ol_folder_drop(struct ol_folder *folder)
{
	if (folder->path[0] != '\0')
		tree_drop(folder->path);
	if (folder->fd >= 0)
		close(folder->fd);
	folder->path[0] = '\0';
	folder->fd = -1;
}
