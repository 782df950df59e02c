/* SPDX-License-Identifier: BSD-3-Clause */

/* tell.c -- inotify events of a folder, and locks of open files */

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim/folder/folder.h"
#include "sim/world/disk.h"
#include "sim/world/wrap.h"

WRAP(int, inotify_init1, int flags);
WRAP(int, inotify_add_watch, int fd, const char *path, uint32_t mask);
WRAP(long, syscall, long number, ...);
WRAP(int, close_range, unsigned first, unsigned last, int flags);
WRAP(int, flock, int fd, int how);

struct folder_watch {
	struct folder_watch *next; /* of a folder */
	struct folder_open *of;
	uint32_t mask;
	int wd;
};

struct folder_event {
	struct folder_event *next;
	struct folder_open *to;
	int wd;
	uint32_t mask;
};

/* ---- inotify ---- */

int __wrap_inotify_init1(int flags)
{
	if (sim_process_self() == NULL)
		return __real_inotify_init1(flags);
	if (folder_unlucky(folder_nature.deaf_ppm))
		return folder_fails(EMFILE);
	return folder_open_new(NULL, NULL, false)->fd;
}

/* As the product names folders: /proc/self/fd/N and what is below it */
static struct folder_node *watched(const char *path)
{
	static const char own[] = "/proc/self/fd/";
	struct folder_node *at;
	int fd, used = 0;

	if (strncmp(path, own, strlen(own)) != 0 ||
	    sscanf(path + strlen(own), "%d/%n", &fd, &used) != 1 || used == 0)
		return NULL;
	at = folder_of(fd)->node;
	for (path += strlen(own) + (size_t)used; at != NULL && *path != '\0';) {
		size_t bytes = strcspn(path, "/");
		char name[FOLDER_NAME_MAX];
		const struct folder_entry *entry;

		snprintf(name, sizeof(name), "%.*s", (int)bytes, path);
		entry = folder_find(at, name);
		at = entry != NULL ? entry->node : NULL;
		path += bytes + (path[bytes] == '/');
	}
	return at;
}

int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask)
{
	struct folder_watch *watch;
	struct folder_node *node;

	if (!sim_fd_is(fd))
		return __real_inotify_add_watch(fd, path, mask);
	folder_takes_time();
	node = watched(path);
	if (node == NULL)
		return folder_fails(ENOENT);
	watch = sim_alloc(sizeof(*watch));
	*watch = (struct folder_watch){ .next = node->watches,
					.of = folder_of(fd),
					.mask = mask,
					.wd = ++folder_of(fd)->watches };
	node->watches = watch;
	return watch->wd;
}

static void arrives(void *arg, uint64_t tag)
{
	struct folder_event *event = arg, **at;

	(void)tag;
	if (event->to->process == NULL)
		return;
	for (at = &event->to->events; *at != NULL;)
		at = &(*at)->next;
	*at = event;
	*sim_fd_count(event->to->fd) = 1;
	sim_fd_wake(event->to->fd);
}

void folder_tell(struct folder_node *folder, uint32_t mask)
{
	for (const struct folder_watch *watch = folder->watches; watch != NULL;
	     watch = watch->next) {
		struct folder_event *event;
		uint64_t at_ns = sim_now() + sim_between(0, folder_nature.tell_ns);

		if (watch->of->process == NULL || (watch->mask & mask) == 0)
			continue;
		if (at_ns < watch->of->told_ns)
			at_ns = watch->of->told_ns;
		watch->of->told_ns = at_ns;
		event = sim_alloc(sizeof(*event));
		event->to = watch->of;
		event->wd = watch->wd;
		event->mask = mask;
		if (sim_ppm(folder_nature.lose_ppm)) {
			event->wd = -1;
			event->mask = IN_Q_OVERFLOW;
		}
		sim_at(at_ns - sim_now(), arrives, event, 0);
	}
}

int64_t folder_events_read(struct folder_open *open, void *bytes, size_t count)
{
	size_t at = 0;

	while (open->events != NULL && at + sizeof(struct inotify_event) <= count) {
		struct inotify_event word = { .wd = open->events->wd, .mask = open->events->mask };

		memcpy((uint8_t *)bytes + at, &word, sizeof(word));
		at += sizeof(word);
		open->events = open->events->next;
	}
	*sim_fd_count(open->fd) = open->events != NULL;
	return at > 0 ? (int64_t)at : folder_fails(EAGAIN);
}

/* ---- closing, and locks ---- */

static void unlocks(void *arg, uint64_t tag)
{
	struct folder_open *open = arg;

	(void)tag;
	if (open->node->locker == open && folder_wrong != FOLDER_LOCK_STAYS)
		open->node->locker = NULL;
}

void folder_close(struct folder_open *open)
{
	open->process = NULL;
	if (open->node == NULL)
		return;
	if (open->writes)
		folder_tell(open->in, IN_CLOSE_WRITE);
	if (open->node->locker == open)
		sim_at(sim_between(0, folder_nature.unlock_ns), unlocks, open, 0);
}

void disk_close(int fd)
{
	folder_close(folder_of(fd));
}

void folder_process_gone(const struct sim_process *process)
{
	for (struct folder_open *open = folder_opens; open != NULL; open = open->next) {
		if (open->process == process)
			folder_close(open);
	}
	folder_sync_gone(process);
}

static void locks_late(void *arg, uint64_t tag)
{
	struct folder_open *open = arg;

	(void)tag;
	if (open->process != NULL)
		open->node->locker = open;
}

int disk_fcntl(int fd, int command, void *arg)
{
	struct folder_open *open = folder_of(fd);
	struct flock *lock = arg;
	bool other = open->node->locker != NULL && open->node->locker != open;

	folder_takes_time();
	if (command == F_OFD_GETLK) {
		if (folder_unlucky(sim_nature.disk_read_ppm))
			return folder_fails(ENOLCK);
		other = open->node->locker != NULL && open->node->locker != open;
		if (!other)
			lock->l_type = F_UNLCK;
		return 0;
	}
	if (command != F_OFD_SETLK || other)
		return folder_fails(other ? EAGAIN : EINVAL);
	if (folder_wrong == FOLDER_LATE_LOCK)
		sim_at(sim_between(0, 2 * SIM_MS), locks_late, open, 0);
	else if (folder_wrong != FOLDER_NO_LOCK)
		open->node->locker = open;
	return 0;
}

/* All share a job's folder, as nobody removes it here */
int __wrap_flock(int fd, int how)
{
	return sim_fd_is(fd) ? 0 : __real_flock(fd, how);
}

/* A thread with descriptors of its own keeps what it has open; nobody else has numbers like its */
int __wrap_close_range(unsigned first, unsigned last, int flags)
{
	return sim_process_self() != NULL ? 0 : __real_close_range(first, last, flags);
}

long __wrap_syscall(long number, ...)
{
	long words[6];
	va_list args;

	va_start(args, number);
	for (unsigned i = 0; i < 6; i++)
		words[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_close && sim_fd_is((int)words[0]))
		return close((int)words[0]);
	return __real_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
