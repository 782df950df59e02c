/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * poll.c -- the data path's receiving half, and sleeping
 *
 * ORDER. All pending connection events go first, then completions one by one. So CONN_UP precedes a
 * connection's doorbells (a doorbell that comes before the handshake's last message makes it up).
 * CONN_DOWN follows the last completion: it is pending only once the marker was handled or given
 * up.
 *
 * The spin path makes no system call. poll() looks at file descriptors first after arm(), and then
 * every so many polls: see pace_adapt().
 */
#include "rdma/verbs/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "rdma/order.h"
#include "rdma/verbs/verbs_rc.h"

enum {
	QUICK_NS = 250 * 1000, /* looks closer than this: look less often */
	SLOW_NS = 1000 * 1000, /* looks further apart than this: look more often */
};

static void comp_events_take(struct ol_xport *xport)
{
	struct ibv_cq *cq;
	void *queue;

	while (ibv_get_cq_event(xport->comp, &cq, &queue) == 0) {
		((struct ol_verbs_queue *)queue)->acks++;
		((struct ol_verbs_queue *)queue)->notify_on = false;
	}
}

static void timers_expire(struct ol_xport *xport)
{
	const uint64_t now_ns = ol_xport_now_ns();

	for (uint32_t i = 0; i < xport->opts.conns_max; i++) {
		struct ol_verbs_conn *conn = xport->slots[i];

		if (conn != NULL && conn->timer_ns != 0 && conn->timer_ns <= now_ns)
			ol_verbs_conn_expired(conn);
	}
}

/* Keeps looks between QUICK_NS and SLOW_NS apart, however slow the caller is. */
static void pace_adapt(struct ol_xport *xport)
{
	const uint64_t now_ns = ol_xport_now_ns();
	const uint64_t apart_ns = now_ns - xport->look_ns;

	xport->look_ns = now_ns;
	xport->polls_left = 1U << xport->look_shift;
	if (xport->look) /* it slept */
		return;
	if (apart_ns > SLOW_NS)
		xport->look_shift = xport->look_shift > 3 ? xport->look_shift - 3 : 0;
	else if (apart_ns < QUICK_NS && xport->look_shift < OL_VERBS_LOOK_SHIFT_MAX)
		xport->look_shift++;
}

/* tick_ns -- the time of the kernel's last tick: some ms old, for a fifth of a clock's price */
static uint64_t tick_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/*
 * look_is_late -- true if a look at the descriptors is overdue, whatever the count of polls
 *
 * Polls are counted, as to read a clock costs more than an empty poll. After a poll that gave
 * events the caller handles them, which may take long: a thousand such polls may take minutes.
 */
static bool look_is_late(const struct ol_xport *xport)
{
	return xport->gave && tick_ns() > xport->look_ns + SLOW_NS;
}

static void descriptors_look(struct ol_xport *xport)
{
	struct epoll_event events[5];
	uint64_t expirations;
	int count;

	if (ol_verbs_dead(xport)) /* every poll looks, as it is not to miss that */
		return;
	pace_adapt(xport);
	xport->look = false;
	count = epoll_wait(xport->epoll_fd, events, 5, 0);
	for (int i = 0; i < count; i++) {
		const int fd = events[i].data.fd;

		if (fd == xport->comp->fd)
			comp_events_take(xport);
		else if (fd == xport->ctx->async_fd)
			ol_verbs_async_progress(xport);
		else if (fd == xport->timer_fd)
			(void)!read(fd, &expirations, sizeof(expirations));
		else if (fd == ol_verbs_oob_fd(xport))
			ol_verbs_oob_progress(xport);
		else
			ol_verbs_cm_progress(xport);
	}
	if (xport->timer_count != 0)
		timers_expire(xport);
	ol_verbs_rates_tick(xport);
	ol_verbs_there_look(xport, xport->look_ns);
}

static struct ol_xport_event *event_put(struct ol_xport_event *event, struct ol_verbs_conn *conn,
					enum ol_xport_event_type type, int status)
{
	*event = (struct ol_xport_event){ .type = type, .status = status, .conn = &conn->base };
	return event;
}

static void event_priv(struct ol_xport_event *event, struct ol_xport *xport, unsigned *privs)
{
	struct ol_verbs_conn *conn = ol_verbs_conn(event->conn);
	uint8_t *copy = xport->privs[(*privs)++];

	memcpy(copy, conn->priv, conn->priv_len);
	event->priv = copy;
	event->priv_len = conn->priv_len;
	conn->priv_len = 0;
}

/* Reports the unfinished posts of a connection that is down. Returns the new count of events. */
static int ops_abort(struct ol_verbs_conn *conn, struct ol_xport_event *events, int count, int max)
{
	for (; conn->tail != conn->head && count < max; conn->tail++) {
		const struct ol_verbs_op *op = &conn->ops[conn->tail & conn->ops_mask];

		if (op->signaled)
			event_put(&events[count++], conn, OL_XPORT_DONE, -ECONNABORTED)->cookie =
				op->cookie;
	}
	return count;
}

/* The pending events of one connection; false if there is no room for all of them now. */
static bool conn_report(struct ol_verbs_conn *conn, struct ol_xport_event *events, int *count,
			int max, unsigned *privs)
{
	static const struct {
		enum ol_verbs_pending pending;
		enum ol_xport_event_type type;
	} kinds[] = {
		{ OL_VERBS_PENDING_REQUEST, OL_XPORT_CONN_REQUEST },
		{ OL_VERBS_PENDING_UP, OL_XPORT_CONN_UP },
		{ OL_VERBS_PENDING_DOWN, OL_XPORT_CONN_DOWN },
	};

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const bool down = kinds[i].pending == OL_VERBS_PENDING_DOWN;

		if ((conn->pending & kinds[i].pending) == 0)
			continue;
		if (down)
			*count = ops_abort(conn, events, *count, max);
		if (*count == max || *privs == OL_VERBS_PRIV_EVENTS)
			return false;
		event_put(&events[*count], conn, kinds[i].type, down ? conn->status : 0);
		event_priv(&events[*count], conn->base.xport, privs);
		(*count)++;
		conn->pending &= ~(unsigned)kinds[i].pending;
	}
	return true;
}

static int ready_report(struct ol_xport *xport, struct ol_xport_event *events, int max)
{
	unsigned privs = 0;
	int count = 0;

	while (xport->ready != NULL) {
		struct ol_verbs_conn *conn = xport->ready;

		if (!conn_report(conn, events, &count, max, &privs))
			break;
		xport->ready = conn->ready_next;
		if (xport->ready == NULL)
			xport->ready_tail = &xport->ready;
		conn->in_ready = false;
	}
	return count;
}

/* The value of a doorbell, which may lie in memory that the next doorbell overwrites. */
static uint32_t recv_imm(const struct ol_verbs_conn *conn, const struct ibv_wc *wc)
{
	if (conn == NULL || conn->own.bells == NULL || wc->opcode != IBV_WC_RECV)
		return ntohl(wc->imm_data);
	return ntohl(
		conn->own.bells[(wc->wr_id & OL_VERBS_WR_SEQ_MASK) % conn->base.xport->recv_depth]);
}

static bool recv_is_bell(const struct ol_verbs_conn *conn, const struct ibv_wc *wc)
{
	if (wc->opcode == IBV_WC_RECV)
		return conn->own.bells != NULL && wc->byte_len == OL_VERBS_BELL_BYTES;
	return wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
}

/* A receive is used up; those of an ended queue pair are not needed any more. */
static void recv_used(const struct ol_xport *xport, struct ol_verbs_queue *queue,
		      struct ol_verbs_conn *conn)
{
	if (queue->srq != NULL) {
		queue->recv_missing++;
		return;
	}
	if (conn == NULL)
		return;
	conn->recv_missing++;
	if ((conn->state == OL_VERBS_UP || conn->leaving) &&
	    conn->recv_missing >= xport->recv_batch)
		ol_verbs_recv_own(conn);
}

/*
 * The queue pair has failed, and none of its posts has. If its receives are its own the adapter has
 * refused the peer's access. On iWARP a peer's mere end does this, too, before it is told of.
 */
static void recv_flushed(struct ol_verbs_conn *conn)
{
	if (conn->queue->srq == NULL && !ol_verbs_is_iwarp(conn))
		ol_verbs_conn_break(conn, -EACCES, OL_VERBS_CAUSE_VICTIM);
	else
		ol_verbs_conn_break(conn, -EIO, OL_VERBS_CAUSE_REFUSED);
}

/*
 * A doorbell. Returns how many events it put: 0 or 1; or -1: it put CONN_UP, call it again with the
 * same completion.
 */
static int recv_handle(struct ol_xport *xport, struct ol_verbs_queue *queue,
		       const struct ibv_wc *wc, struct ol_xport_event *event)
{
	struct ol_verbs_conn *conn = ol_verbs_qpmap_find(&xport->qpmap, wc->qp_num);
	uint32_t imm;

	if (conn != NULL && conn->state == OL_VERBS_ACCEPTED && wc->status == IBV_WC_SUCCESS) {
		conn->state = OL_VERBS_UP;
		ol_verbs_conn_timer(conn, 0);
		event_put(event, conn, OL_XPORT_CONN_UP, 0);
		return -1;
	}
	imm = recv_imm(conn, wc);
	recv_used(xport, queue, conn);
	if (conn == NULL || (conn->state != OL_VERBS_UP && conn->state != OL_VERBS_DRAINING))
		return 0;
	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		recv_flushed(conn);
		return 0;
	}
	if (wc->status != IBV_WC_SUCCESS) { /* an empty receive fails only by the peer's fault */
		ol_verbs_conn_bad(conn, wc, NULL);
		ol_verbs_conn_break(conn, -EACCES, OL_VERBS_CAUSE_VICTIM);
		return 0;
	}
	if (!recv_is_bell(conn, wc)) { /* this transport never sends others */
		ol_verbs_conn_break(conn, -EACCES, OL_VERBS_CAUSE_FAILED);
		return 0;
	}
	conn->base.xport->counts.rung++;
	event_put(event, conn, OL_XPORT_DOORBELL_RUNG, 0)->imm = imm;
	return 1;
}

/* The first bad completion gives the reason; all later ones are flushes, whatever their status. */
static int send_status(struct ol_verbs_conn *conn, const struct ibv_wc *wc,
		       const struct ol_verbs_op *op)
{
	int status;

	if (conn->guessed && wc->status != IBV_WC_WR_FLUSH_ERR) { /* a post had failed first */
		conn->guessed = false;
		conn->status = ol_rc_wc(wc->status);
	}
	if (conn->state != OL_VERBS_UP)
		return -ECONNABORTED;
	ol_verbs_conn_bad(conn, wc, op);
	status = ol_rc_wc(wc->status);
	if (status == -EACCES)
		ol_verbs_conn_break(conn, status, OL_VERBS_CAUSE_REFUSED);
	else if (status == -ECONNABORTED)
		ol_verbs_conn_break(conn, -EIO, OL_VERBS_CAUSE_REFUSED);
	else
		ol_verbs_conn_break(conn, status, OL_VERBS_CAUSE_FAILED);
	return status;
}

static int send_handle(struct ol_xport *xport, const struct ibv_wc *wc,
		       struct ol_xport_event *event)
{
	struct ol_verbs_conn *conn = xport->slots[wc->wr_id >> OL_VERBS_WR_SLOT_SHIFT];
	const uint64_t seq = wc->wr_id & OL_VERBS_WR_SEQ_MASK;
	struct ol_verbs_op *op;
	int status = 0;

	if (conn == NULL || conn->state == OL_VERBS_DOWN)
		return 0;
	if (seq == OL_VERBS_WR_SEQ_MARKER) {
		ol_verbs_conn_marker(conn);
		return 0;
	}
	if (seq == OL_VERBS_WR_SEQ_LEFT) {
		ol_verbs_conn_left(conn);
		return 0;
	}
	op = &conn->ops[seq & conn->ops_mask];
	if (wc->status != IBV_WC_SUCCESS)
		status = send_status(conn, wc, op);
	conn->tail = seq + 1;
	conn->bounce_tail = op->bounce_head;
	if (status != 0 && op->rest != 0) /* its post has failed: the rest is only flushed */
		op = &conn->ops[(seq + op->rest) & conn->ops_mask];
	if (!op->signaled)
		return 0;
	op->signaled = false;
	event_put(event, conn, OL_XPORT_DONE, status)->cookie = op->cookie;
	return 1;
}

/* Returns how many completions are in wcs. */
static uint32_t wcs_take(struct ol_verbs_queue *queue)
{
	int count;

	if (queue->wc_head != queue->wc_count)
		return queue->wc_count - queue->wc_head;
	count = ibv_poll_cq(queue->cq, OL_VERBS_POLL_BATCH, queue->wcs);
	queue->wc_head = 0;
	queue->wc_count = count > 0 ? (uint32_t)count : 0;
	return queue->wc_count;
}

/* A queue with completions, in turn after each batch; NULL: none has any. */
static struct ol_verbs_queue *queue_next(struct ol_xport *xport)
{
	for (uint32_t i = 0; i < xport->queue_count; i++) {
		struct ol_verbs_queue *queue = &xport->queues[xport->queue_at];

		if (wcs_take(queue) != 0)
			return queue;
		if (++xport->queue_at == xport->queue_count)
			xport->queue_at = 0;
	}
	return NULL;
}

/* The first completion of a queue was handled. */
static void wc_done(struct ol_xport *xport, struct ol_verbs_queue *queue)
{
	if (++queue->wc_head == queue->wc_count && ++xport->queue_at >= xport->queue_count)
		xport->queue_at = 0;
}

static void holders_flush(struct ol_xport *xport)
{
	struct ol_verbs_conn **at = &xport->holders;

	while (*at != NULL) {
		struct ol_verbs_conn *conn = *at;

		ol_verbs_held_flush(conn);
		if (conn->held_count > 0) {
			at = &conn->holders_next;
			continue;
		}
		*at = conn->holders_next;
		conn->in_holders = false;
	}
}

static void receives_refill(struct ol_xport *xport)
{
	for (uint32_t i = 0; i < xport->queue_count; i++) {
		struct ol_verbs_queue *queue = &xport->queues[i];

		if (queue->recv_missing >= xport->recv_batch && queue->srq != NULL)
			ol_verbs_recv_refill(xport, queue);
		if (queue->limit_due)
			ol_verbs_recv_limit(xport, queue);
	}
}

/* A dead transport: what is left to tell, then that it is dead */
static int dead_poll(struct ol_xport *xport, struct ol_xport_event *events, int max)
{
	return xport->ready != NULL ? ready_report(xport, events, max) : -ENODEV;
}

int ol_verbs_poll(struct ol_xport *xport, struct ol_xport_event *events, int max)
{
	struct ol_verbs_queue *queue;
	int count = 0;
	int put;

	if (xport->holders != NULL)
		holders_flush(xport);
	if (xport->look || xport->polls_left-- == 0 || look_is_late(xport)) {
		descriptors_look(xport);
		if (ol_verbs_dead(xport))
			return dead_poll(xport, events, max);
	}
	if (xport->ready != NULL)
		count = ready_report(xport, events, max);
	while (count < max && xport->ready == NULL && (queue = queue_next(xport)) != NULL) {
		const struct ibv_wc *wc = &queue->wcs[queue->wc_head];

		if (ol_verbs_wr_is_recv(wc->wr_id))
			put = recv_handle(xport, queue, wc, &events[count]);
		else
			put = send_handle(xport, wc, &events[count]);
		if (put < 0) {
			count++;
			continue;
		}
		count += put;
		wc_done(xport, queue);
	}
	receives_refill(xport);
	ol_from_peer();
	xport->gave = count > 0;
	return count;
}

int ol_verbs_event_fd(const struct ol_xport *xport)
{
	return xport->epoll_fd;
}

/* Wakes the sleeper when the nearest of our own timers is due. */
static void timer_set(struct ol_xport *xport)
{
	struct itimerspec when = { .it_value = { 0 } };
	uint64_t first_ns = UINT64_MAX;

	for (uint32_t i = 0; i < xport->opts.conns_max; i++) {
		const struct ol_verbs_conn *conn = xport->slots[i];

		if (conn != NULL && conn->timer_ns != 0 && conn->timer_ns < first_ns)
			first_ns = conn->timer_ns;
	}
	when.it_value.tv_sec = (time_t)(first_ns / 1000000000);
	when.it_value.tv_nsec = (long)(first_ns % 1000000000);
	timerfd_settime(xport->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* True if the completion channel may have an event to take. */
static bool is_notified(const struct ol_xport *xport)
{
	for (uint32_t i = 0; i < xport->queue_count; i++) {
		if (xport->queues[i].notify_on)
			return true;
	}
	return false;
}

/* False: it has completions, or cannot be armed. */
static bool queue_arm(struct ol_verbs_queue *queue)
{
	if (!queue->notify_on && ibv_req_notify_cq(queue->cq, 0) != 0)
		return false;
	queue->notify_on = true;
	return wcs_take(queue) == 0;
}

int ol_verbs_arm(struct ol_xport *xport)
{
	if (xport->ready != NULL || ol_verbs_dead(xport))
		return 1;
	if (xport->holders != NULL) /* poll() must flush held posts */
		return 1;
	for (uint32_t i = 0; i < xport->queue_count; i++) {
		if (xport->queues[i].limit_due)
			ol_verbs_recv_limit(xport, &xport->queues[i]);
		if (xport->queues[i].wc_head != xport->queues[i].wc_count)
			return 1;
	}
	if (is_notified(xport))
		comp_events_take(xport);
	xport->look = true;
	for (uint32_t i = 0; i < xport->queue_count; i++) {
		if (!queue_arm(&xport->queues[i]))
			return 1;
	}
	if (xport->timer_count != 0)
		timer_set(xport);
	return 0;
}
