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
	struct ol_xport_rate *rate = &xport->rare[kind];
	const bool was_due = ol_xport_rate_due_ns(rate) != 0;
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	ol_xport_log_rated(&xport->opts, rate, ol_xport_now_ns(), OL_XPORT_LOG_WARN, "%s", text);
	if (!was_due && ol_xport_rate_due_ns(rate) != 0)
		ol_shm_timer_update(xport);
}

void ol_shm_rare_tick(struct ol_shm_xport *xport, uint64_t now_ns)
{
	for (unsigned i = 0; i < OL_SHM_RARES; i++)
		ol_xport_rate_tick(&xport->opts, &xport->rare[i], now_ns);
}

static uint64_t sooner(uint64_t at_ns, uint64_t other_ns)
{
	return at_ns == 0 || (other_ns != 0 && other_ns < at_ns) ? other_ns : at_ns;
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
		at_ns = sooner(at_ns, conn->deadline_ns);
		if (conn->state == OL_SHM_DIALING)
			at_ns = sooner(at_ns, conn->retry_ns);
	}
	for (i = 0; i < OL_SHM_RARES; i++)
		at_ns = sooner(at_ns, ol_xport_rate_due_ns(&xport->rare[i]));
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
