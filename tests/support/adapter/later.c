/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * later.c -- events of our own beside those that come out of a descriptor
 *
 * The kernel's descriptor stays as it is. A timer's descriptor is made beside it: when the program
 * gives the kernel's to an epoll, the timer's joins with the same data, so the program wakes and
 * asks the function that it would ask anyway.
 */
#include "support/adapter/adapter.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static struct ad_later *laters;

uint64_t ad_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int ad_later_open(struct ad_later *later, int fd)
{
	later->first = NULL;
	later->fd = fd;
	later->epoll_fd = -1;
	later->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (later->timer_fd < 0)
		return -1;
	later->next = laters;
	laters = later;
	return 0;
}

void ad_later_close(struct ad_later *later)
{
	struct ad_later **at = &laters;

	ad_later_drop(later, NULL, NULL);
	while (*at != NULL && *at != later)
		at = &(*at)->next;
	if (*at == NULL)
		return;
	*at = later->next;
	if (later->epoll_fd >= 0)
		ad_real.epoll_ctl(later->epoll_fd, EPOLL_CTL_DEL, later->timer_fd, NULL);
	close(later->timer_fd);
}

void ad_later_wake(struct ad_later *later, uint64_t due_ns)
{
	struct itimerspec when = { .it_value = { .tv_sec = (time_t)(due_ns / 1000000000),
						 .tv_nsec = (long)(due_ns % 1000000000) } };

	timerfd_settime(later->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void wake_first(struct ad_later *later)
{
	ad_later_wake(later, later->first != NULL ? later->first->due_ns : 0);
}

void ad_later_add(struct ad_later *later, const struct ad_event *event, uint64_t after_ms)
{
	struct ad_event *copy = malloc(sizeof(*copy));
	struct ad_event **at = &later->first;

	if (copy == NULL)
		abort();
	*copy = *event;
	copy->due_ns = ad_now_ns() + after_ms * 1000000;
	while (*at != NULL && (*at)->due_ns <= copy->due_ns)
		at = &(*at)->next;
	copy->next = *at;
	*at = copy;
	wake_first(later);
}

struct ad_event *ad_later_take(struct ad_later *later)
{
	struct ad_event *event = later->first;

	if (event == NULL || event->due_ns > ad_now_ns())
		return NULL;
	later->first = event->next;
	wake_first(later);
	return event;
}

void ad_later_drop(struct ad_later *later, bool (*match)(const struct ad_event *, const void *),
		   const void *object)
{
	struct ad_event **at = &later->first;

	while (*at != NULL) {
		struct ad_event *event = *at;

		if (match != NULL && !match(event, object)) {
			at = &event->next;
			continue;
		}
		*at = event->next;
		free(event);
	}
	if (match != NULL)
		wake_first(later);
}

int ad_later_wait(const struct ad_later *later)
{
	struct pollfd fds[2] = { { .fd = later->fd, .events = POLLIN },
				 { .fd = later->timer_fd, .events = POLLIN } };
	const int flags = fcntl(later->fd, F_GETFL);
	const int wait_ms = flags >= 0 && (flags & O_NONBLOCK) != 0 ? 0 : -1;

	while (poll(fds, 2, wait_ms) < 0 && errno == EINTR) {
	}
	if (fds[0].revents != 0)
		return 1;
	return fds[1].revents != 0 ? 0 : -1;
}

/* Watching a descriptor watches the timer beside it. The interface has no other way to a program. */
AD_EXPORT int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	int rc = ad_real.epoll_ctl(epfd, op, fd, event);

	if (rc != 0)
		return rc;
	ad_lock();
	for (struct ad_later *later = laters; later != NULL; later = later->next) {
		if (later->fd != fd)
			continue;
		(void)ad_real.epoll_ctl(epfd, op, later->timer_fd, event);
		later->epoll_fd = op == EPOLL_CTL_DEL ? -1 : epfd;
	}
	ad_unlock();
	return 0;
}
