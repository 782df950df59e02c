/* SPDX-License-Identifier: BSD-3-Clause */

/* folder.c -- memfds, and links to them */

#include "fuzz/folder.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
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
	char path[PATH_BYTES], target[64];

	if (folder.count > 0)
		return folder.path;
	must(count >= 1 && count <= FOLDER_FILES_MAX);
	snprintf(folder.path, sizeof(folder.path), "/tmp/outlast-fuzz-XXXXXX");
	must(mkdtemp(folder.path) != NULL);
	folder.names = names;
	folder.count = count;
	atexit(folder_remove);
	for (unsigned i = 0; i < count; i++) {
		folder.fds[i] = memfd_create("outlast-fuzz", MFD_CLOEXEC);
		must(folder.fds[i] >= 0);
		entry_path(i, path);
		snprintf(target, sizeof(target), "/proc/%d/fd/%d", (int)getpid(), folder.fds[i]);
		must(symlink(target, path) == 0);
	}
	return folder.path;
}

void folder_write(unsigned which, const void *data, size_t bytes)
{
	must(which < folder.count && ftruncate(folder.fds[which], 0) == 0);
	must(bytes == 0 || pwrite(folder.fds[which], data, bytes, 0) == (ssize_t)bytes);
}
