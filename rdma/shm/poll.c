/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * poll.c -- events: rings at every poll, sockets now and then, sleep
 */
#include <errno.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "rdma/shm/shm.h"

enum {
	SOCKETS_MAX = 64, /* descriptors looked at in one pass */
	QUICK_NS = 50 * 1000, /* passes closer than this: look less often */
	SLOW_NS = 1000 * 1000, /* passes further apart than this: look more often */
};

/* pace_adapt -- keep looks at the sockets QUICK_NS to SLOW_NS apart, however slow the caller */
static void pace_adapt(struct ol_shm_xport *xport, uint64_t now_ns)
{
	uint64_t since_ns = now_ns - xport->progress_ns;

	xport->progress_ns = now_ns;
	if (since_ns > SLOW_NS)
		xport->polls_between = xport->polls_between > 8 ? xport->polls_between / 8 : 1;
	else if (since_ns < QUICK_NS && xport->polls_between < OL_SHM_POLLS_MAX)
		xport->polls_between *= 2;
	xport->polls_left = xport->polls_between;
}

/* deadlines_check -- end connections that took too long; dial again if the backlog was full */
static void deadlines_check(struct ol_shm_xport *xport, uint64_t now_ns)
{
	struct ol_shm_conn *conn;
	uint32_t i;

	/* From the end: a destroyed connection is replaced by one that was already checked. */
	for (i = xport->conn_count; i > 0; i--) {
		conn = xport->conns[i - 1];
		if (conn->deadline_ns != 0 && now_ns >= conn->deadline_ns) {
			if (conn->state == OL_SHM_GREETING)
				ol_shm_log_rare(xport, OL_SHM_RARE_SILENT,
						"%s dropped: it connected and sent nothing",
						conn->name);
			conn->priv_len = 0;
			ol_shm_conn_down(conn, -ETIMEDOUT);
		} else if (conn->state == OL_SHM_DIALING && now_ns >= conn->retry_ns) {
			ol_shm_dial(conn);
		}
	}
	ol_shm_rare_tick(xport, now_ns);
	ol_shm_timer_update(xport);
}

/* tick_ns -- the time of the kernel's last tick: some ms old, for a fifth of a clock's price */
static uint64_t tick_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/*
 * look_is_late -- true if a look at the sockets is overdue, whatever the count of polls
 *
 * Polls are counted, as to read a clock costs more than an empty poll. After a poll that gave
 * events the caller handles them, which may take long: 256 such polls may take minutes.
 */
static bool look_is_late(const struct ol_shm_xport *xport)
{
	return xport->gave && tick_ns() > xport->progress_ns + SLOW_NS;
}

/* sockets_look -- handle events of sockets and the clock */
static void sockets_look(struct ol_shm_xport *xport)
{
	struct epoll_event ready[SOCKETS_MAX];
	uint64_t now_ns = ol_xport_now_ns();
	struct ol_shm_conn *conn;
	uint64_t expirations;
	int count;
	int i;

	pace_adapt(xport, now_ns);
	count = epoll_wait(xport->epoll_fd, ready, SOCKETS_MAX, 0);
	for (i = 0; i < count; i++) {
		if (ready[i].data.ptr == &xport->listen_fd) {
			ol_shm_listen_ready(xport);
		} else if (ready[i].data.ptr == &xport->timer_fd) {
			if (read(xport->timer_fd, &expirations, sizeof(expirations)) > 0)
				xport->timer_ns = 0;
		} else {
			/* A conn destroyed in this pass has no socket; see dead. */
			conn = ready[i].data.ptr;
			if (conn->sock >= 0 && (ready[i].events & EPOLLOUT) != 0)
				ol_shm_flush(conn);
			if (conn->sock >= 0)
				ol_shm_conn_read(conn);
		}
	}
	if (xport->timer_ns != 0 || count > 0)
		deadlines_check(xport, now_ns);
}

static void rings_disarm(struct ol_shm_xport *xport)
{
	const struct ol_shm_conn *conn;
	uint32_t i;

	xport->armed = false;
	for (i = 0; i < xport->conn_count; i++) {
		conn = xport->conns[i];
		if (conn->rx.ring != NULL)
			ol_word32_store(&conn->rx.ring->asleep, 0);
	}
}

static inline bool conn_quiet(const struct ol_shm_conn *conn)
{
	return ol_shm_ring_quiet(&conn->rx) && conn->done_head == conn->done_tail && conn->due == 0;
}

/* rings_poll -- put conn's doorbells into events */
static int rings_poll(struct ol_shm_conn *conn, struct ol_xport_event *events, int max)
{
	uint32_t imm;
	int n = 0;

	while (n < max) {
		if (conn->state == OL_SHM_DOWN && conn->drain == 0)
			return n;
		switch (ol_shm_ring_peek(&conn->rx, &imm)) {
		case OL_SHM_PEEK_NONE:
			return n;
		case OL_SHM_PEEK_BROKEN:
			conn->down_why = "the peer wrote an impossible doorbell";
			ol_shm_conn_down(conn, -EACCES);
			ol_shm_rx_quiet(conn);
			return n;
		case OL_SHM_PEEK_RUNG:
			break;
		}
		ol_shm_ring_take(&conn->rx);
		conn->drain -= conn->state == OL_SHM_DOWN;
		conn->xport->counts.rung++;
		events[n++] = (struct ol_xport_event){ .type = OL_XPORT_DOORBELL_RUNG,
						       .conn = &conn->base,
						       .imm = imm };
	}
	return n;
}

static int dones_poll(struct ol_shm_conn *conn, struct ol_xport_event *events, int max)
{
	const struct ol_shm_done *done;
	int n = 0;

	for (; n < max && conn->done_tail != conn->done_head; conn->done_tail++) {
		done = &conn->dones[conn->done_tail & conn->xport->done_mask];
		events[n++] = (struct ol_xport_event){ .type = OL_XPORT_DONE,
						       .conn = &conn->base,
						       .status = done->status,
						       .cookie = done->cookie };
	}
	return n;
}

/* conn_event -- a due state event, with the peer's private data */
static struct ol_xport_event conn_event(struct ol_shm_conn *conn, enum ol_xport_event_type type,
					int status)
{
	return (struct ol_xport_event){ .type = type,
					.conn = &conn->base,
					.status = status,
					.priv = conn->priv,
					.priv_len = conn->priv_len };
}

/* conn_poll_all -- the events of conn, in order: request, up, done, doorbells, down */
static __attribute__((noinline)) int conn_poll_all(struct ol_shm_conn *conn,
						   struct ol_xport_event *events, int max)
{
	int n = 0;

	if ((conn->due & OL_SHM_DUE_REQUEST) != 0) {
		conn->due &= ~(uint32_t)OL_SHM_DUE_REQUEST;
		events[n++] = conn_event(conn, OL_XPORT_CONN_REQUEST, 0);
	}
	if (n < max && (conn->due & OL_SHM_DUE_UP) != 0) {
		conn->due &= ~(uint32_t)OL_SHM_DUE_UP;
		events[n++] = conn_event(conn, OL_XPORT_CONN_UP, 0);
	}
	n += dones_poll(conn, events + n, max - n);
	n += rings_poll(conn, events + n, max - n);
	if (n < max && conn->due == OL_SHM_DUE_DOWN) {
		conn->due = 0;
		ol_shm_rx_quiet(conn);
		if (conn->down_why != NULL)
			ol_shm_log_rare(conn->xport, OL_SHM_RARE_RULE, "%s ended: %s", conn->name,
					conn->down_why);
		events[n++] = conn_event(conn, OL_XPORT_CONN_DOWN, conn->down_status);
	}
	return n;
}

/* conn_poll -- the same; a connection that is up has doorbells alone most of the time */
static inline int conn_poll(struct ol_shm_conn *conn, struct ol_xport_event *events, int max)
{
	uint32_t imm;
	int n = 0;

	if (conn->due != 0 || conn->done_head != conn->done_tail || conn->state != OL_SHM_UP)
		return conn_poll_all(conn, events, max);
	while (n < max && ol_shm_ring_peek(&conn->rx, &imm) == OL_SHM_PEEK_RUNG) {
		ol_shm_ring_take(&conn->rx);
		conn->xport->counts.rung++;
		events[n++] = (struct ol_xport_event){ .type = OL_XPORT_DOORBELL_RUNG,
						       .conn = &conn->base,
						       .imm = imm };
	}
	return n == 0 ? conn_poll_all(conn, events, max)
		      : n; /* what the peer wrote is no doorbell */
}

int ol_shm_poll(struct ol_xport *base, struct ol_xport_event *events, int max)
{
	struct ol_shm_xport *xport = ol_shm_xport(base);
	struct ol_shm_conn *conn;
	uint32_t left;
	uint32_t i;
	int n = 0;

	if (xport->dead != NULL)
		ol_shm_dead_free(xport);
	if (--xport->polls_left == 0 || xport->armed || look_is_late(xport)) {
		if (xport->armed)
			rings_disarm(xport);
		sockets_look(xport);
	}
	i = xport->cursor;
	for (left = xport->conn_count; left > 0 && n < max; left--) {
		if (i >= xport->conn_count)
			i = 0;
		conn = xport->conns[i++];
		if (!conn_quiet(conn))
			n += conn_poll(conn, events + n, max - n);
	}
	xport->cursor = i;
	xport->gave = n > 0;
	return n;
}

int ol_shm_event_fd(const struct ol_xport *base)
{
	return ol_shm_xport_const(base)->epoll_fd;
}

int ol_shm_arm(struct ol_xport *base)
{
	struct ol_shm_xport *xport = ol_shm_xport(base);
	uint32_t i;

	xport->sleep += xport->sleep == UINT32_MAX ? 2 : 1; /* never 0, which means awake */
	xport->armed = true;
	for (i = 0; i < xport->conn_count; i++) {
		if (xport->conns[i]->rx.ring != NULL)
			ol_word32_store(&xport->conns[i]->rx.ring->asleep, xport->sleep);
	}
	ol_order_full();
	for (i = 0; i < xport->conn_count; i++) {
		if (!conn_quiet(xport->conns[i])) {
			rings_disarm(xport);
			return 1;
		}
	}
	return 0;
}
