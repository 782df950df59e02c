/* SPDX-License-Identifier: BSD-3-Clause */

/* folder.c -- files in /dev/shm, or in /tmp where there is none: the product follows no links */

#include "fuzz/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	PATH_BYTES = 256
};

static struct {
	char path[64];
	const char *const *names;
	unsigned count;
	int fds[FOLDER_FILES_MAX];
} folder;

static void must(bool held)
{
	if (held)
		return;
	perror("a folder for fuzzing");
	abort();
}

static void entry_path(unsigned which, char path[PATH_BYTES])
{
	snprintf(path, PATH_BYTES, "%s/%s", folder.path, folder.names[which]);
}

static void folder_remove(void)
{
	char path[PATH_BYTES];

	for (unsigned i = 0; i < folder.count; i++) {
		entry_path(i, path);
		unlink(path);
	}
	rmdir(folder.path);
}

const char *folder_make(const char *const names[], unsigned count)
{
	char path[PATH_BYTES];

	if (folder.count > 0)
		return folder.path;
	must(count >= 1 && count <= FOLDER_FILES_MAX);
	snprintf(folder.path, sizeof(folder.path), "/dev/shm/outlast-fuzz-XXXXXX");
	if (mkdtemp(folder.path) == NULL) {
		snprintf(folder.path, sizeof(folder.path), "/tmp/outlast-fuzz-XXXXXX");
		must(mkdtemp(folder.path) != NULL);
	}
	folder.names = names;
	folder.count = count;
	atexit(folder_remove);
	for (unsigned i = 0; i < count; i++) {
		entry_path(i, path);
		folder.fds[i] = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		must(folder.fds[i] >= 0);
	}
	return folder.path;
}

void folder_write(unsigned which, const void *data, size_t bytes)
{
	must(which < folder.count && ftruncate(folder.fds[which], 0) == 0);
	must(bytes == 0 || pwrite(folder.fds[which], data, bytes, 0) == (ssize_t)bytes);
}
