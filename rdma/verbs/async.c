/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * async.c -- a device's asynchronous events, and its death
 *
 * DEATH. A device may be reset (IBV_EVENT_DEVICE_FATAL) or taken away (the connection manager's
 * DEVICE_REMOVAL; a kernel that takes the device from under this process ends the descriptor of
 * asynchronous events with EIO). The removal is told to what is bound to the device. A transport
 * that has nothing bound, or was opened when the manager had already let the device go, looks for
 * itself whether the device is still there. The same death is that of the completion queue or of
 * the shared receive queue, without which no connection works. The context of a dead device never
 * works again, even if the device comes back under the same name. So the transport is dead for
 * good. From then on no completion is awaited, and no descriptor is looked at: all connections are
 * down at once, and what poll() gives are their ends, then -ENODEV. Objects are still destroyed one
 * by one, as the kernel lets a device go only when its last user has closed it.
 */
#include "rdma/verbs/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	THERE_MS = 500, /* between two looks whether the device is there */
};

void ol_verbs_die(struct ol_xport *xport, const char *why)
{
	if (ol_verbs_dead(xport))
		return;
	atomic_store_explicit(&xport->dead, true, memory_order_relaxed);
	xport->look = true; /* poll() sees it there, off its fast path */
	ol_xport_log(
		&xport->opts, OL_XPORT_LOG_ERROR,
		"device %s: %s: all its connections end here, and nobody can connect before it is "
		"opened anew",
		ibv_get_device_name(xport->ctx->device), why);
	for (uint32_t i = 0; i < xport->opts.conns_max; i++) {
		if (xport->slots[i] != NULL)
			ol_verbs_conn_die(xport->slots[i]);
	}
}

/* The adapter refused the peer's access: an access error, whichever end noticed it first. */
static void refused_peer(struct ol_verbs_conn *conn)
{
	if (conn->state == OL_VERBS_DRAINING && conn->holding && conn->status == -EIO) {
		conn->status = -EACCES;
		conn->cause = OL_VERBS_CAUSE_VICTIM;
		ol_verbs_conn_timer(conn, OL_VERBS_VICTIM_MS);
		return;
	}
	ol_verbs_conn_break(conn, -EACCES, OL_VERBS_CAUSE_VICTIM);
}

/*
 * Few receives are left in the shared queue of one of the transport's queues. poll() looks at it
 * once: a device that tells it again at once must not keep this loop from ending.
 */
static void srq_limit(struct ol_xport *xport, const struct ibv_srq *srq)
{
	for (uint32_t i = 0; i < xport->queue_count; i++) {
		if (xport->queues[i].srq == srq)
			xport->queues[i].limit_due = true;
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
		conn->manager->data_came(conn);
		break;
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_DEVICE_FATAL:
		ol_verbs_die(xport, ibv_event_type_str(event->event_type));
		return;
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

	errno = 0;
	while (!ol_verbs_dead(xport) && ibv_get_async_event(xport->ctx, &event) == 0) {
		async_handle(xport, &event);
		ibv_ack_async_event(&event);
		errno = 0;
	}
	if (errno == EIO || errno == ENODEV)
		ol_verbs_die(xport, "the kernel has taken it away");
}

void ol_verbs_there_begin(struct ol_xport *xport)
{
	struct stat place;

	xport->there_ino = stat(xport->ctx->device->dev_path, &place) == 0 ? place.st_ino : 0;
	xport->there_ns = 0;
}

/* True if the kernel's list has the device no more: its place is empty, or is another device's */
static bool is_gone(const struct ol_xport *xport)
{
	char path[sizeof(xport->ctx->device->dev_path)];
	struct stat place;
	char *name;

	snprintf(path, sizeof(path), "%s", xport->ctx->device->dev_path);
	if (stat(path, &place) == 0)
		return xport->there_ino != 0 && place.st_ino != xport->there_ino;
	if (errno != ENOENT)
		return false;
	name = strrchr(path, '/');
	if (name == NULL)
		return false;
	*name = '\0';
	return access(path, F_OK) == 0; /* the list itself can be seen */
}

void ol_verbs_there_look(struct ol_xport *xport, uint64_t now_ns)
{
	if (now_ns < xport->there_ns || ol_verbs_dead(xport))
		return;
	xport->there_ns = now_ns + (uint64_t)THERE_MS * 1000000;
	if (is_gone(xport))
		ol_verbs_die(xport, "it is gone");
}
