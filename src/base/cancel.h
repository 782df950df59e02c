/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * cancel.h -- a caller's wish to end a call that waits: a descriptor that has become readable
 */
#ifndef OL_BASE_CANCEL_H
#define OL_BASE_CANCEL_H

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>

/* ol_cancelled -- true if fd is readable; no byte is read from it. -1: never cancelled */
static inline bool ol_cancelled(int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return fd >= 0 && poll(&poll_fd, 1, 0) == 1;
}

/* ol_cancel_fd_is_good -- -1, or an open descriptor */
static inline bool ol_cancel_fd_is_good(int fd)
{
	return fd == -1 || fcntl(fd, F_GETFD) >= 0;
}

#endif /* OL_BASE_CANCEL_H */
