/* SPDX-License-Identifier: BSD-3-Clause */

/* held.c -- reads /proc/self */

#include "nth/frame/held.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define HELD_LSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HELD_LSAN 1
#endif
#endif
#ifdef HELD_LSAN
#include <sanitizer/lsan_interface.h>
#endif

#include "base/clock.h"
#include "nth/frame/run.h"
#include "support/check.h"

enum {
	THREADS_WAIT_MS = 5000 /* one that was joined may be listed for a moment more */
};

static unsigned threads_count(void)
{
	DIR *stream = opendir("/proc/self/task");
	unsigned count = 0;

	check(stream != NULL);
	for (struct dirent *entry; (entry = readdir(stream)) != NULL;)
		count += entry->d_name[0] != '.';
	closedir(stream);
	return count;
}

static unsigned maps_count(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned count = 0;
	char line[512];

	check(file != NULL);
	while (fgets(line, sizeof(line), file) != NULL)
		count += strstr(line, "/memfd:outlast") != NULL ||
			 strstr(line, "/dev/infiniband") != NULL;
	fclose(file);
	return count;
}

void held_take(struct held *ret_held)
{
	for (int fd = 0; fd < HELD_FDS_MAX; fd++)
		ret_held->fds[fd] = fcntl(fd, F_GETFD) >= 0;
	ret_held->maps = maps_count();
	ret_held->threads = threads_count();
}

static void fd_wrong(int fd, bool open_now, const char *when)
{
	char path[64], target[128] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (open_now && readlink(path, target, sizeof(target) - 1) < 0)
		target[0] = '\0';
	run_wrong("%s: descriptor %d (%s) is %s", when, fd, target,
		  open_now ? "still open" : "closed, and was not ours to close");
}

void held_check(const struct held *held, const char *when)
{
	uint64_t until_ns = ol_clock_ns() + THREADS_WAIT_MS * OL_NS_PER_MS;
	unsigned maps;

	for (int fd = 0; fd < HELD_FDS_MAX; fd++) {
		bool open_now = fcntl(fd, F_GETFD) >= 0;

		if (open_now != held->fds[fd])
			fd_wrong(fd, open_now, when);
	}
	maps = maps_count();
	if (maps != held->maps)
		run_wrong("%s: %u shared mappings, %u before", when, maps, held->maps);
	while (threads_count() != held->threads && ol_clock_ns() < until_ns)
		poll(NULL, 0, 1);
	if (threads_count() != held->threads)
		run_wrong("%s: %u threads, %u before", when, threads_count(), held->threads);
}

void held_check_leaks(void)
{
#ifdef HELD_LSAN
	if (__lsan_do_recoverable_leak_check() != 0)
		run_wrong("memory leaked");
#endif
}
