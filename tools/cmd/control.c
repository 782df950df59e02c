/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * control.c -- signals, time and the parent's orders
 */
#include "cmd/control.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/cmd.h"

static int parent_check(int report_fd)
{
	int type;
	socklen_t len = sizeof(type);

	if (getsockopt(report_fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0 || type != SOCK_STREAM)
		return -EINVAL;
	/* if the parent is gone already, the first poll of the socket tells */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
		return -errno;
	return 0;
}

int ol_control_init(struct ol_control *control, int report_fd)
{
	sigset_t set;
	int rc;

	*control = (struct ol_control){
		.signal_fd = -1, .parent_fd = report_fd, .life_fd = -1, .stop_at = UINT64_MAX
	};
	if (report_fd >= 0) {
		rc = parent_check(report_fd);
		if (rc != 0)
			return rc;
	}
	ol_cmd_signals_asking(&set);
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
		return -errno;
	if (report_fd >= 0) /* Ctrl-C is for the parent: it stops the job in order */
		sigdelset(&set, SIGINT);
	control->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return control->signal_fd >= 0 ? 0 : -errno;
}

void ol_control_fini(struct ol_control *control)
{
	if (control->signal_fd >= 0)
		close(control->signal_fd);
	control->signal_fd = -1;
}

/* End, for this signal */
static void signal_note(struct ol_control *control, int signal)
{
	control->signal = signal;
	control->signal_ns = ol_clock_ns();
	control->stop_at = 0;
}

static void signal_take(struct ol_control *control)
{
	struct signalfd_siginfo info;

	if (read(control->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	if (control->signal != 0)
		control->quit = true;
	signal_note(control, (int)info.ssi_signo);
}

static void order_take(struct ol_control *control, const char *order)
{
	uint64_t count = 0, barren = 0;
	char addr[OL_CONTROL_LINE_MAX];
	uint32_t shard;

	if (sscanf(order, "go %" SCNu64 " %" SCNu64, &count, &barren) == 2) {
		control->go = true;
		control->barren = barren;
		if (count < control->stop_at)
			control->stop_at = count;
	} else if (sscanf(order, "stop %" SCNu64, &count) == 1) {
		control->hold = false;
		if (count < control->stop_at)
			control->stop_at = count;
	} else if (strcmp(order, "more") == 0) {
		control->more = true;
	} else if (strcmp(order, "hold") == 0) {
		control->hold = true;
	} else if (sscanf(order, "server %" SCNu32 " %511s", &shard, addr) == 2) {
		if (control->moved != NULL)
			control->moved(control->moved_arg, shard, addr);
	} else if (strcmp(order, "end") == 0) {
		control->end = true;
	} else if (strcmp(order, "stat") == 0) {
		control->stat = true;
	} else if (strcmp(order, "quit") == 0) {
		control->quit = true;
	}
}

static void parent_read(struct ol_control *control)
{
	size_t room = sizeof(control->line) - 1 - control->line_len;
	ssize_t got =
		recv(control->parent_fd, control->line + control->line_len, room, MSG_DONTWAIT);
	char *end;

	if (got <= 0) {
		if (got == 0 || (errno != EAGAIN && errno != EINTR))
			control->quit = true;
		return;
	}
	control->line_len += (size_t)got;
	control->line[control->line_len] = '\0';
	while ((end = strchr(control->line, '\n')) != NULL) {
		*end++ = '\0';
		order_take(control, control->line);
		control->line_len -= (size_t)(end - control->line);
		memmove(control->line, end, control->line_len + 1);
	}
	if (control->line_len == sizeof(control->line) - 1) /* no order is that long */
		control->quit = true;
}

void ol_control_poll(struct ol_control *control, int timeout_ms)
{
	struct pollfd fds[3] = {
		{ .fd = control->signal_fd, .events = POLLIN },
		{ .fd = control->parent_fd, .events = POLLIN }, /* -1 is left out */
		{ .fd = control->life_fd }, /* the same; its end is told in any case */
	};

	if (control->deadline_ns != 0 && ol_clock_ns() >= control->deadline_ns)
		control->stop_at = 0;
	if (poll(fds, 3, timeout_ms) <= 0)
		return;
	if (fds[0].revents != 0)
		signal_take(control);
	if (fds[1].revents != 0)
		parent_read(control);
	if (fds[2].revents == 0)
		return;
	control->life_fd = -1;
	if (control->signal == 0)
		signal_note(control, SIGTERM);
}

int ol_control_cancelled(struct ol_control *control)
{
	ol_control_poll(control, 0);
	return OL_EXIT_SIGNAL + control->signal;
}

void ol_control_say(struct ol_control *control, const char *event, json_t *object)
{
	char *text = NULL;
	char *line = NULL;
	int len = -1;

	if (control->parent_fd >= 0 &&
	    json_object_set_new(object, "event", json_string(event)) == 0)
		text = json_dumps(object, JSON_COMPACT);
	if (text != NULL)
		len = asprintf(&line, "%s\n", text);
	for (int at = 0; at < len;) {
		ssize_t put = send(control->parent_fd, line + at, (size_t)(len - at), MSG_NOSIGNAL);

		if (put < 0 && errno != EINTR)
			break; /* the parent is gone, and the next poll tells */
		at += put > 0 ? (int)put : 0;
	}
	if (len >= 0)
		free(line);
	free(text);
	json_decref(object);
}
