/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * async.c -- a device's asynchronous events
 */
#include "rdma/verbs/internal.h"

#include <errno.h>

static void all_break(struct ol_xport *xport)
{
	for (uint32_t i = 0; i < xport->opts.conns_max; i++) {
		struct ol_verbs_conn *conn = xport->slots[i];

		if (conn == NULL)
			continue;
		ol_verbs_conn_break(conn, -EIO, OL_VERBS_CAUSE_FAILED);
		ol_verbs_conn_marker(conn); /* it may never come */
	}
}

/* The adapter refused the peer's access: an access error, whichever end noticed it first. */
static void refused_peer(struct ol_verbs_conn *conn)
{
	if (conn->state == OL_VERBS_DRAINING && conn->holding && conn->status == -EIO) {
		conn->status = -EACCES;
		conn->cause = OL_VERBS_CAUSE_VICTIM;
		ol_verbs_conn_timer(conn, 4 * OL_VERBS_HOLD_MS);
		return;
	}
	ol_verbs_conn_break(conn, -EACCES, OL_VERBS_CAUSE_VICTIM);
}

/* Few receives are left in the shared queue of one of the transport's queues. */
static void srq_limit(struct ol_xport *xport, const struct ibv_srq *srq)
{
	for (uint32_t i = 0; i < xport->queue_count; i++) {
		if (xport->queues[i].srq == srq)
			ol_verbs_recv_limit(xport, &xport->queues[i]);
	}
}

static void async_handle(struct ol_xport *xport, const struct ibv_async_event *event)
{
	enum ol_xport_log_level level = OL_XPORT_LOG_INFO;
	struct ol_verbs_conn *conn;

	switch (event->event_type) {
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		refused_peer(event->element.qp->qp_context);
		break;
	case IBV_EVENT_QP_FATAL:
		ol_verbs_conn_break(event->element.qp->qp_context, -EIO, OL_VERBS_CAUSE_FAILED);
		break;
	case IBV_EVENT_COMM_EST: /* data came before the peer's last message of the handshake */
		conn = event->element.qp->qp_context;
		rdma_notify(conn->id, IBV_EVENT_COMM_EST);
		break;
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_DEVICE_FATAL:
		level = OL_XPORT_LOG_ERROR;
		all_break(xport);
		break;
	case IBV_EVENT_PORT_ERR: /* connections survive it, or end by their own timers */
		level = OL_XPORT_LOG_WARN;
		break;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		srq_limit(xport, event->element.srq);
		return;
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		conn = event->element.qp->qp_context;
		conn->last_wqe = true;
		xport->last_wqe_misses = 0;
		return;
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_WQ_FATAL: /* there are no work queues */
		break;
	}
	ol_xport_log(&xport->opts, level, "device %s: %s", ibv_get_device_name(xport->ctx->device),
		     ibv_event_type_str(event->event_type));
}

void ol_verbs_async_progress(struct ol_xport *xport)
{
	struct ibv_async_event event;

	while (ibv_get_async_event(xport->ctx, &event) == 0) {
		async_handle(xport, &event);
		ibv_ack_async_event(&event);
	}
}
