/* SPDX-License-Identifier: BSD-3-Clause */

/* base.c -- what every part of the verbs transport needs: log lines, the clock, the event fd */

#include "rdma/verbs/internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <time.h>

void ol_verbs_log(const struct ol_xport *xport, enum ol_xport_log_level level, const char *fmt, ...)
{
	char text[256];
	va_list args;

	if (xport->opts.log == NULL)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	xport->opts.log(xport->opts.log_arg, level, text);
}

uint64_t ol_verbs_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int ol_verbs_watch(const struct ol_xport *xport, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(xport->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}
