/* SPDX-License-Identifier: BSD-3-Clause */

/* wrap.h -- names that the linker makes: __wrap_x stands for x, __real_x is what x was */
#ifndef OL_TESTS_SIM_WORLD_WRAP_H
#define OL_TESTS_SIM_WORLD_WRAP_H

#include <poll.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#define SIM_WRAP(type, name, ...) \
	type __wrap_##name(__VA_ARGS__); \
	type __real_##name(__VA_ARGS__)

SIM_WRAP(int, clock_gettime, clockid_t clock, struct timespec *ret_time);
SIM_WRAP(ssize_t, getrandom, void *bytes, size_t count, unsigned flags);
SIM_WRAP(int, poll, struct pollfd *fds, nfds_t count, int timeout_ms);
SIM_WRAP(int, ppoll, struct pollfd *fds, nfds_t count, const struct timespec *timeout,
	 const sigset_t *mask);
SIM_WRAP(int, eventfd, unsigned count, int flags);
SIM_WRAP(ssize_t, read, int fd, void *bytes, size_t count);
SIM_WRAP(ssize_t, write, int fd, const void *bytes, size_t count);
SIM_WRAP(int, close, int fd);
SIM_WRAP(void *, malloc, size_t bytes);
SIM_WRAP(void *, calloc, size_t count, size_t bytes);
SIM_WRAP(void *, realloc, void *at, size_t bytes);
SIM_WRAP(char *, strdup, const char *text);
SIM_WRAP(void, free, void *at);

#endif /* OL_TESTS_SIM_WORLD_WRAP_H */
