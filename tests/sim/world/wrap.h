/* SPDX-License-Identifier: BSD-3-Clause */

/* wrap.h -- names that the linker makes: __wrap_x stands for x, __real_x is what x was */
#ifndef OL_TESTS_SIM_WORLD_WRAP_H
#define OL_TESTS_SIM_WORLD_WRAP_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "support/wrap.h"

WRAP(int, clock_gettime, clockid_t clock, struct timespec *ret_time);
WRAP(uint64_t, ol_clock_measure_ns, void);
WRAP(uint64_t, ol_clock_wall_ns, void);
WRAP(ssize_t, getrandom, void *bytes, size_t count, unsigned flags);
WRAP(int, poll, struct pollfd *fds, nfds_t count, int timeout_ms);
WRAP(int, ppoll, struct pollfd *fds, nfds_t count, const struct timespec *timeout,
     const sigset_t *mask);
WRAP(int, eventfd, unsigned count, int flags);
WRAP(ssize_t, read, int fd, void *bytes, size_t count);
WRAP(ssize_t, write, int fd, const void *bytes, size_t count);
WRAP(int, close, int fd);
WRAP(void *, malloc, size_t bytes);
WRAP(void *, calloc, size_t count, size_t bytes);
WRAP(void *, realloc, void *at, size_t bytes);
WRAP(char *, strdup, const char *text);
WRAP(void, free, void *at);

#endif /* OL_TESTS_SIM_WORLD_WRAP_H */
