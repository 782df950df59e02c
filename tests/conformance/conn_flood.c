/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * conn_flood.c -- of connections that are made all at once a poll handles a few, so that those that
 * are up wait for no more than these; the rest is handled by the next polls, also of an end that
 * sleeps in between
 */
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/check.h"
#include "support/wrap.h"
#include "support/xport_pair.h"

enum {
	CONNS = 48,
	A_POLL_MAX = 16, /* news of peers that one poll may handle */
	LOST_MS = 8000,
	QUIET_MS = 300,
};

static unsigned taken; /* since the last poll */

WRAP(int, rdma_get_cm_event, struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	const int rc = __real_rdma_get_cm_event(channel, event);

	taken += rc == 0;
	return rc;
}

WRAP(int, accept4, int fd, struct sockaddr *addr, socklen_t *bytes, int flags)
{
	const int rc = __real_accept4(fd, addr, bytes, flags);

	taken += rc >= 0;
	return rc;
}

static unsigned most;

static bool poll_once(struct xp_end *end)
{
	bool any;

	taken = 0;
	any = xp_progress_end(end);
	if (taken > most)
		most = taken;
	return any;
}

/* One poll of the end, asleep before it if it may. */
static void sleep_poll(struct xp_end *end)
{
	struct pollfd pfd = { .fd = end->ops->event_fd(end->xport), .events = POLLIN };

	if (poll_once(end) || end->ops->arm(end->xport) != 0)
		return;
	check_msg(poll(&pfd, 1, LOST_MS) == 1, "asleep for %d ms: a wake-up is lost", LOST_MS);
}

/* All connect while the listener does not look; then it takes them in. */
/* All have connected while the listener did not look; then it takes them in. */
static void listen_a(struct xp_side *side)
{
	struct xp_end *end = &side->end;
	struct xp_event event;
	unsigned up = 0;
	char ready;

	xp_end_open(end, NULL);
	xp_end_listen(end);
	xp_send(side, end->addr, sizeof(end->addr));
	check_eq(read(side->fd, &ready, 1), 1);
	while (up < CONNS) {
		sleep_poll(end);
		while (xp_take(end, OL_XPORT_CONN_REQUEST, NULL, &event))
			check_ok(end->ops->accept(event.ev.conn, NULL, 0));
		while (xp_take(end, OL_XPORT_CONN_UP, NULL, &event))
			up++;
	}
	xp_note("at most %u at one poll", most);
	check(most >= A_POLL_MAX / 2 && most <= A_POLL_MAX);
	xp_side_close(side);
}

/* The steps that need no answer of the listener, until nothing moves any more. */
static void steps_first(struct xp_end *end)
{
	uint64_t moved_ms = xp_now_ms();

	while (xp_now_ms() - moved_ms < QUIET_MS) {
		poll_once(end);
		if (taken > 0)
			moved_ms = xp_now_ms();
		xp_pause();
	}
}

static void connect_b(struct xp_side *side)
{
	struct ol_xport_opts opts = xp_opts();
	struct ol_xport_conn *conn;
	struct xp_end *end = &side->end;
	unsigned up = 0;
	struct xp_event event;

	opts.connect_timeout_ms = XP_WAIT_MS;
	xp_end_open(end, &opts);
	xp_recv(side, end->addr, sizeof(end->addr));
	for (unsigned i = 0; i < CONNS; i++)
		check_ok(end->ops->connect(end->xport, end->addr, NULL, 0, NULL, &conn));
	steps_first(end);
	check_eq(write(side->fd, "!", 1), 1);
	while (up < CONNS) {
		sleep_poll(end);
		while (xp_take(end, OL_XPORT_CONN_UP, NULL, &event))
			up++;
	}
	xp_note("at most %u at one poll", most);
	check(most <= A_POLL_MAX);
	xp_side_close(side);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run2("of many connections a poll takes in a few, and a sleeper gets them all", listen_a,
		connect_b, false);
	return xp_result();
}
