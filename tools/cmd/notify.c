/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * notify.c -- datagrams to NOTIFY_SOCKET
 *
 * A datagram that cannot be sent is left out: a service goes on without its manager, and the manager, if it
 * is there, acts on what does not come.
 */
#include "cmd/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	TEXT_MAX = OL_NOTIFY_STATUS_MAX + 64,
	SEND_S = 1 /* for what is said once */
};

/* A path, or a name that begins with @ */
static bool address_parse(const char *text, struct ol_notify *notify)
{
	size_t len = strlen(text);

	if ((text[0] != '/' && text[0] != '@') || len < 2 || len >= sizeof(notify->to.sun_path))
		return false;
	notify->to = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(notify->to.sun_path, text, len);
	if (text[0] == '@')
		notify->to.sun_path[0] = '\0';
	/* the end of a path counts, that of a name does not */
	notify->to_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len +
				     (text[0] == '/' ? 1 : 0));
	return true;
}

static bool number_parse(const char *text, uint64_t *ret_number)
{
	char *end;

	if (text == NULL || text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	*ret_number = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0';
}

/* How long the manager waits for a sign of life of this process; 0: for ever */
static uint64_t watchdog_ns(void)
{
	uint64_t us, pid;

	if (!number_parse(getenv("WATCHDOG_USEC"), &us) || us == 0 ||
	    us > UINT64_MAX / OL_NS_PER_US)
		return 0;
	if (getenv("WATCHDOG_PID") != NULL &&
	    (!number_parse(getenv("WATCHDOG_PID"), &pid) || pid != (uint64_t)getpid()))
		return 0;
	return us * OL_NS_PER_US;
}

bool ol_notify_init(struct ol_notify *notify)
{
	const struct timeval patience = { .tv_sec = SEND_S };
	const char *address = getenv("NOTIFY_SOCKET");
	bool known = true;

	*notify = (struct ol_notify){ .fd = -1 };
	if (address != NULL && address[0] != '\0') {
		known = address_parse(address, notify);
		if (known)
			notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		known = notify->fd >= 0;
	}
	if (notify->fd >= 0)
		(void)setsockopt(notify->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (notify->fd >= 0)
		notify->watchdog_ns = watchdog_ns();
	(void)unsetenv("NOTIFY_SOCKET");
	(void)unsetenv("WATCHDOG_USEC");
	(void)unsetenv("WATCHDOG_PID");
	return known;
}

void ol_notify_fini(struct ol_notify *notify)
{
	if (notify->fd >= 0)
		close(notify->fd);
	notify->fd = -1;
}

bool ol_notify_wanted(const struct ol_notify *notify)
{
	return notify->fd >= 0;
}

/* flags: MSG_DONTWAIT for what is said again later. A manager that reads nothing must not hold the service up */
static bool text_send(const struct ol_notify *notify, const char *text, int flags)
{
	return notify->fd >= 0 && sendto(notify->fd, text, strlen(text), MSG_NOSIGNAL | flags,
					 (const struct sockaddr *)&notify->to, notify->to_len) >= 0;
}

/* `before` with the status line behind it, which is one line */
static void status_send(struct ol_notify *notify, const char *before, const char *status, int flags)
{
	char text[TEXT_MAX];

	snprintf(notify->said, sizeof(notify->said), "%s", status);
	for (char *at = notify->said; *at != '\0'; at++) {
		if (*at == '\n')
			*at = ' ';
	}
	snprintf(text, sizeof(text), "%sSTATUS=%s", before, notify->said);
	(void)text_send(notify, text, flags);
}

void ol_notify_ready(struct ol_notify *notify, uint64_t now_ns, const char *status)
{
	status_send(notify, "READY=1\n", status, 0);
	notify->said_ns = now_ns;
}

void ol_notify_status(struct ol_notify *notify, uint64_t now_ns, const char *status)
{
	if (notify->fd < 0 || strcmp(status, notify->said) == 0 ||
	    (notify->said_ns != 0 && now_ns - notify->said_ns < OL_NOTIFY_STATUS_MS * OL_NS_PER_MS))
		return;
	status_send(notify, "", status, MSG_DONTWAIT);
	notify->said_ns = now_ns;
}

void ol_notify_stopping(struct ol_notify *notify, const char *status)
{
	status_send(notify, "STOPPING=1\n", status, 0);
}

void ol_notify_patience(struct ol_notify *notify, uint64_t still_ns)
{
	char text[TEXT_MAX];

	if (notify->watchdog_ns == 0 || notify->watchdog_ns / 2 >= still_ns)
		return;
	notify->watchdog_ns = 2 * still_ns;
	snprintf(text, sizeof(text), "WATCHDOG_USEC=%" PRIu64, notify->watchdog_ns / OL_NS_PER_US);
	(void)text_send(notify, text, 0);
}

int ol_notify_beat(struct ol_notify *notify, uint64_t now_ns, uint64_t heartbeat)
{
	uint64_t step_ns = notify->watchdog_ns / OL_NOTIFY_BEATS;

	if (notify->watchdog_ns == 0)
		return -1;
	if (heartbeat != notify->beat &&
	    (notify->fed_ns == 0 || now_ns - notify->fed_ns >= step_ns) &&
	    text_send(notify, "WATCHDOG=1", MSG_DONTWAIT)) {
		notify->fed_ns = now_ns;
		notify->beat = heartbeat;
	}
	return step_ns / OL_NS_PER_MS > 0 ? (int)(step_ns / OL_NS_PER_MS) : 1;
}
