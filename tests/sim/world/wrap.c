/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * wrap.c -- the product's system calls, answered by the simulated world
 *
 * The linker sends these calls here (--wrap in tests/CMakeLists.txt). Outside of a run they go on
 * to the system.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "sim/world/disk.h"
#include "sim/world/sim.h"
#include "sim/world/wrap.h"

WRAP(void *, reallocarray, void *at, size_t count, size_t bytes);
WRAP(void *, aligned_alloc, size_t align, size_t bytes);
WRAP(int, fcntl, int fd, int command, ...);
WRAP(int, getrlimit, __rlimit_resource_t resource, struct rlimit *ret_limit);
WRAP(char *, strndup, const char *text, size_t most);
WRAP(pid_t, getpid, void);

enum {
	LOOK_MIN_NS = 40, /* what a look at the clock takes */
	LOOK_MAX_NS = 400
};

struct sim_nature sim_nature;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	uint64_t now_ns;

	if (sim_process_self() == NULL && !sim_active())
		return __real_clock_gettime(clock, ret_time);
	if (sim_process_self() != NULL) {
		sim_clock_move(sim_between(LOOK_MIN_NS, LOOK_MAX_NS));
		sim_preempt(sim_nature.preempt_ppm);
	}
	now_ns = sim_now();
	if (sim_process_self() != NULL)
		now_ns = sim_clock_of(sim_process_place(sim_process_self()), now_ns);
	if (clock == CLOCK_REALTIME) /* somebody sets it all the time */
		now_ns = sim_between(0, UINT64_C(1) << 62);
	ret_time->tv_sec = (time_t)(now_ns / SIM_S);
	ret_time->tv_nsec = (long)(now_ns % SIM_S);
	return 0;
}

uint64_t __wrap_ol_clock_measure_ns(void)
{
	if (sim_process_self() == NULL)
		return __real_ol_clock_measure_ns();
	return sim_clock_of(sim_process_place(sim_process_self()), sim_now());
}

uint64_t __wrap_ol_clock_wall_ns(void)
{
	return sim_process_self() == NULL ? __real_ol_clock_wall_ns() : sim_now();
}

ssize_t __wrap_getrandom(void *bytes, size_t count, unsigned flags)
{
	uint8_t *at = bytes;

	if (!sim_active())
		return __real_getrandom(bytes, count, flags);
	for (size_t i = 0; i < count; i++)
		at[i] = (uint8_t)(sim_random() >> 32);
	return (ssize_t)count;
}

/* It is in names of files: a real one would make a run more than a function of its seed */
pid_t __wrap_getpid(void)
{
	struct sim_process *self = sim_process_self();

	return self != NULL ? sim_process_id(self) : __real_getpid();
}

static int wait_fds(struct pollfd *fds, nfds_t count, uint64_t timeout_ns)
{
	int own[4] = { 0 }, ready = 0;
	unsigned used = 0;

	for (nfds_t i = 0; i < count && used < 4; i++) {
		if (fds[i].fd >= 0)
			own[used++] = fds[i].fd;
	}
	sim_wait(own, used, timeout_ns);
	for (nfds_t i = 0; i < count; i++) {
		fds[i].revents = 0;
		if (fds[i].fd >= 0 && *sim_fd_count(fds[i].fd) != 0)
			fds[i].revents = POLLIN;
		ready += fds[i].revents != 0;
	}
	return ready;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	if (sim_process_self() == NULL)
		return __real_poll(fds, count, timeout_ms);
	return wait_fds(fds, count, timeout_ms < 0 ? 3600 * SIM_S : (uint64_t)timeout_ms * SIM_MS);
}

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		 const sigset_t *mask)
{
	if (sim_process_self() == NULL)
		return __real_ppoll(fds, count, timeout, mask);
	return wait_fds(fds, count,
			timeout == NULL
				? 3600 * SIM_S
				: (uint64_t)timeout->tv_sec * SIM_S + (uint64_t)timeout->tv_nsec);
}

int __wrap_eventfd(unsigned count, int flags)
{
	int fd;

	if (sim_process_self() == NULL)
		return __real_eventfd(count, flags);
	fd = sim_fd_open();
	*sim_fd_count(fd) = count;
	return fd;
}

/* A duplicate that nobody reads: whoever asks wants to know whether there is one more */
int __wrap_fcntl(int fd, int command, ...)
{
	va_list args;
	void *arg;

	if (sim_fd_is(fd) && command == F_DUPFD_CLOEXEC)
		return sim_fd_open();
	va_start(args, command);
	arg = va_arg(args, void *);
	va_end(args);
	if (sim_fd_is(fd) && *sim_fd_file(fd) != NULL)
		return disk_fcntl(fd, command, arg);
	return __real_fcntl(fd, command, arg);
}

/* Descriptors are not what is short here, and they have large numbers */
int __wrap_getrlimit(__rlimit_resource_t resource, struct rlimit *ret_limit)
{
	if (sim_process_self() == NULL)
		return __real_getrlimit(resource, ret_limit);
	*ret_limit = (struct rlimit){ .rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY };
	return 0;
}

ssize_t __wrap_read(int fd, void *bytes, size_t count)
{
	uint64_t *value;

	if (!sim_fd_is(fd))
		return __real_read(fd, bytes, count);
	if (*sim_fd_file(fd) != NULL)
		return disk_read(fd, bytes, count);
	value = sim_fd_count(fd);
	if (*value == 0) {
		errno = EAGAIN;
		return -1;
	}
	memcpy(bytes, value, sizeof(*value));
	*value = 0;
	return sizeof(*value);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t count)
{
	uint64_t more;

	if (!sim_fd_is(fd))
		return __real_write(fd, bytes, count);
	if (*sim_fd_file(fd) != NULL)
		return disk_write(fd, bytes, count);
	memcpy(&more, bytes, sizeof(more));
	*sim_fd_count(fd) += more;
	sim_fd_wake(fd);
	return sizeof(more);
}

int __wrap_close(int fd)
{
	if (!sim_fd_is(fd))
		return __real_close(fd);
	if (*sim_fd_file(fd) != NULL)
		disk_close(fd);
	sim_fd_close(fd);
	return 0;
}

/* ---- memory ---- */

static uint64_t fails;

uint64_t sim_memory_fails(void)
{
	return fails;
}

bool sim_no_memory(void)
{
	if (sim_process_has_plenty() || !sim_ppm(sim_nature.memory_ppm))
		return false;
	fails++;
	sim_say("there is no memory");
	errno = ENOMEM;
	return true;
}

static void *block(size_t bytes)
{
	return sim_no_memory() ? NULL : sim_block_get(bytes);
}

void *__wrap_malloc(size_t bytes)
{
	uint8_t *at;

	if (sim_process_self() == NULL)
		return __real_malloc(bytes);
	at = block(bytes);
	/* what was never written is different in every run */
	for (size_t i = 0; at != NULL && i < bytes; i++)
		at[i] = (uint8_t)(0xa5 + i);
	return at;
}

/* Nothing here asks for more than malloc()'s alignment but for speed */
void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
	return sim_process_self() == NULL ? __real_aligned_alloc(align, bytes)
					  : __wrap_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	if (sim_process_self() == NULL)
		return __real_calloc(count, bytes);
	return block(count * bytes);
}

void *__wrap_realloc(void *at, size_t bytes)
{
	void *more;
	size_t had;

	if (sim_process_self() == NULL)
		return __real_realloc(at, bytes);
	more = block(bytes);
	if (more == NULL || at == NULL)
		return more;
	had = sim_block_bytes(at);
	memcpy(more, at, had < bytes ? had : bytes);
	sim_block_put(at);
	return more;
}

void *__wrap_reallocarray(void *at, size_t count, size_t bytes)
{
	if (sim_process_self() == NULL)
		return __real_reallocarray(at, count, bytes);
	return __wrap_realloc(at, count * bytes);
}

static char *copy_of(const char *text, size_t bytes)
{
	char *copy = block(bytes + 1);

	if (copy != NULL)
		memcpy(copy, text, bytes); /* the end is there: blocks are zeroed */
	return copy;
}

char *__wrap_strdup(const char *text)
{
	return sim_process_self() == NULL ? __real_strdup(text) : copy_of(text, strlen(text));
}

char *__wrap_strndup(const char *text, size_t most)
{
	return sim_process_self() == NULL ? __real_strndup(text, most)
					  : copy_of(text, strnlen(text, most));
}

void __wrap_free(void *at)
{
	if (at == NULL)
		return;
	if (sim_process_self() == NULL)
		__real_free(at);
	else
		sim_block_put(at);
}
