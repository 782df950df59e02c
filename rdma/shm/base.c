/* SPDX-License-Identifier: BSD-3-Clause */

/* base.c -- helpers of the shared-memory transport: log lines with a rate limit, timers, the event fd */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "rdma/fds.h"
#include "rdma/shm/shm.h"

#define NS_PER_S 1000000000ULL
#define KICK_NS  1ULL /* a time long past: the timer fires at once */

void ol_shm_log_rare(struct ol_shm_xport *xport, enum ol_shm_rare_kind kind, const char *fmt, ...)
{
	struct ol_shm_rare *rare = &xport->rare[kind];
	uint64_t now_ns = ol_xport_now_ns();
	char text[256], more[64] = "";
	va_list args;

	if (rare->told_ns != 0 && now_ns - rare->told_ns < NS_PER_S) {
		rare->untold++;
		return;
	}
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (rare->untold != 0)
		snprintf(more, sizeof(more), "; %llu more like it since the last line",
			 (unsigned long long)rare->untold);
	ol_xport_log(&xport->opts, OL_XPORT_LOG_WARN, "%s%s", text, more);
	*rare = (struct ol_shm_rare){ .told_ns = now_ns };
}

static void timer_set(struct ol_shm_xport *xport, uint64_t at_ns)
{
	struct itimerspec spec = { .it_value = { .tv_sec = (time_t)(at_ns / NS_PER_S),
						 .tv_nsec = (long)(at_ns % NS_PER_S) } };

	timerfd_settime(xport->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
	xport->timer_ns = at_ns;
}

void ol_shm_timer_update(struct ol_shm_xport *xport)
{
	const struct ol_shm_conn *conn;
	uint64_t at_ns = 0;
	uint32_t i;

	if (xport->timer_ns == KICK_NS) /* the kick fires first, and then sets the timer again */
		return;
	for (i = 0; i < xport->conn_count; i++) {
		conn = xport->conns[i];
		if (conn->deadline_ns != 0 && (at_ns == 0 || conn->deadline_ns < at_ns))
			at_ns = conn->deadline_ns;
		if (conn->state == OL_SHM_DIALING && conn->retry_ns != 0 &&
		    (at_ns == 0 || conn->retry_ns < at_ns))
			at_ns = conn->retry_ns;
	}
	if (at_ns != xport->timer_ns)
		timer_set(xport, at_ns);
}

void ol_shm_kick(struct ol_shm_xport *xport)
{
	if (xport->armed && xport->timer_ns != KICK_NS)
		timer_set(xport, KICK_NS);
}

int ol_shm_watch(struct ol_shm_xport *xport, int fd, uint32_t epoll_events, void *owner)
{
	struct epoll_event event = { .events = epoll_events, .data = { .ptr = owner } };

	return epoll_ctl(xport->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

void ol_shm_close_fd(int *fd)
{
	if (*fd >= 0)
		ol_fds_close(*fd);
	*fd = -1;
}
