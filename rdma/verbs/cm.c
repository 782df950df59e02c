/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * cm.c -- listening, connecting, and every event of the connection manager
 *
 * Nothing here waits: the event channel is nonblocking, and poll() calls this code. The manager's
 * own timers are too long (up to 101 s for a silent host), so a connection that is being made has
 * one of the transport's.
 */
#include "rdma/verbs/internal.h"

#include <errno.h>
#include <string.h>

#include "rdma/verbs/verbs_rc.h"

enum {
	REJECT_BY_CONSUMER = 28, /* IB_CM_REJ_CONSUMER_DEFINED: the peer's program rejects */
};

/* A copy of an event. The event is acknowledged at once, as its id cannot be destroyed before. */
struct cm_note {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint32_t qp_num; /* the peer's, of a request */
	uint32_t priv_len;
	uint8_t priv[OL_VERBS_PRIV_MAX];
};

static int listen_failed(struct ol_xport *xport, const char *text, const union ol_verbs_addr *addr,
			 int rc)
{
	if (rc == -ENODEV && !ol_verbs_local_has(addr))
		rc = -EADDRNOTAVAIL;
	if (rc == -ENODEV)
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
			     "cannot listen on %s: no RDMA device has this address; see outlast "
			     "doctor",
			     text);
	else
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR, "cannot listen on %s: %s", text,
			     rc == -EADDRINUSE      ? "the port is in use"
			     : rc == -EADDRNOTAVAIL ? "not an address of the device"
						    : strerror(-rc));
	return rc;
}

int ol_verbs_cm_listen(struct ol_xport *xport, const char *text, char ret_addr[OL_XPORT_ADDR_MAX])
{
	union ol_verbs_addr addr;
	union ol_verbs_addr bound;
	struct rdma_cm_id *id;
	int rc;

	rc = ol_verbs_addr_parse(text, &addr);
	if (rc != 0)
		return rc == -EINVAL ? rc : -EADDRNOTAVAIL;
	bound = addr;
	if (ol_verbs_addr_is_any(&addr) && xport->opts.device != NULL) {
		rc = ol_verbs_local_find(xport, &addr, &bound);
		if (rc != 0)
			return rc;
		bound.in.sin_port = addr.in.sin_port; /* same place in both families */
	}
	errno = 0;
	rc = ol_rc_minus_one(rdma_create_id(xport->channel, &id, NULL, RDMA_PS_TCP));
	if (rc != 0)
		return rc;
	errno = 0;
	rc = ol_rc_minus_one(rdma_bind_addr(id, &bound.sa));
	if (rc == 0 && id->verbs == NULL && !ol_verbs_addr_is_any(&bound))
		rc = -ENODEV;
	if (rc == 0)
		rc = ol_verbs_device_match(xport, id);
	if (rc == 0)
		rc = ol_rc_minus_one(rdma_listen(id, OL_VERBS_BACKLOG));
	if (rc != 0) {
		rdma_destroy_id(id);
		return listen_failed(xport, text, &bound, rc);
	}
	if (ol_verbs_addr_is_any(&bound))
		(void)ol_verbs_local_find(xport, &addr, &bound);
	bound.in.sin_port = rdma_get_src_port(id);
	ol_verbs_addr_text(&bound.sa, ret_addr);
	xport->listener = id;
	xport->pinned = true;
	return 0;
}

/* From the named device; without one the route decides. */
static int addr_resolve(struct ol_verbs_conn *conn, union ol_verbs_addr *to)
{
	struct ol_xport *xport = conn->base.xport;
	union ol_verbs_addr from;
	int rc = 0;

	if (xport->opts.device != NULL)
		rc = ol_verbs_local_find(xport, to, &from);
	if (rc != 0)
		return rc;
	return rdma_resolve_addr(conn->id, xport->opts.device != NULL ? &from.sa : NULL, &to->sa,
				 (int)xport->opts.connect_timeout_ms);
}

/* The manager derives the path's service level from it; the peer that accepts sets its own side */
static void class_set(const struct ol_verbs_conn *conn)
{
	uint8_t tos = (uint8_t)conn->base.xport->opts.wire.traffic_class;

	if (tos != 0)
		(void)rdma_set_option(conn->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos,
				      sizeof(tos));
}

static int cm_connect(struct ol_verbs_conn *conn, union ol_verbs_addr *to)
{
	int rc;

	errno = 0;
	rc = ol_rc_minus_one(
		rdma_create_id(conn->base.xport->channel, &conn->id, conn, RDMA_PS_TCP));
	if (rc != 0) {
		conn->id = NULL;
		return rc;
	}
	class_set(conn);
	return addr_resolve(conn, to) == 0 ? 0 : -EHOSTUNREACH;
}

static void on_addr_resolved(struct ol_verbs_conn *conn)
{
	struct ol_xport *xport = conn->base.xport;

	if (ol_verbs_device_match(xport, conn->id) != 0 ||
	    rdma_resolve_route(conn->id, (int)xport->opts.connect_timeout_ms) != 0)
		ol_verbs_conn_fail(conn, -EHOSTUNREACH);
}

/* iWARP has no GIDs, and its messages name no queue pair */
static void ident_of_addr(struct ol_verbs_conn *conn, const struct sockaddr *addr)
{
	const struct sockaddr_in *in = (const void *)addr;
	const struct sockaddr_in6 *in6 = (const void *)addr;
	uint8_t host[16] = { 0 };

	if (addr->sa_family == AF_INET6)
		memcpy(host, &in6->sin6_addr, sizeof(in6->sin6_addr));
	else
		memcpy(host, &in->sin_addr, sizeof(in->sin_addr));
	ol_verbs_conn_ident(conn, host, in->sin_port, 0); /* same place in both families */
}

static void caller_ident(struct ol_verbs_conn *conn)
{
	if (ol_verbs_is_iwarp(conn))
		ident_of_addr(conn, rdma_get_local_addr(conn->id));
	else
		ol_verbs_conn_ident(conn, conn->id->route.addr.addr.ibaddr.sgid.raw,
				    conn->qp->qp_num, 0);
}

/*
 * Where this end's packets will go, whatever address the request says that it comes from. Within a
 * subnet of InfiniBand packets go by LID, and the GID is what the request says.
 */
static void request_ident(struct ol_verbs_conn *conn, uint32_t qp_num)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	int mask = 0;

	if (ol_verbs_is_iwarp(conn))
		ident_of_addr(conn, rdma_get_peer_addr(conn->id));
	else if (rdma_init_qp_attr(conn->id, &attr, &mask) == 0 && attr.ah_attr.is_global)
		ol_verbs_conn_ident(conn, attr.ah_attr.grh.dgid.raw, attr.dest_qp_num, 0);
	else
		ol_verbs_conn_ident(conn, conn->id->route.addr.addr.ibaddr.dgid.raw, qp_num, 0);
}

static void on_route_resolved(struct ol_verbs_conn *conn)
{
	struct rdma_conn_param param;
	int rc;

	/* another connection may have changed the device since the address was resolved */
	if (ol_verbs_device_match(conn->base.xport, conn->id) != 0) {
		ol_verbs_conn_fail(conn, -EHOSTUNREACH);
		return;
	}
	rc = ol_verbs_qp_open(conn);
	if (rc == 0) {
		caller_ident(conn);
		memset(conn->priv + conn->send_len, 0, sizeof(conn->priv) - conn->send_len);
		conn->priv[OL_VERBS_PRIV_CONNECT_AT] = ol_verbs_way_of(conn->base.xport);
		param = ol_verbs_qp_param(conn, conn->priv, OL_VERBS_PRIV_CONNECT_AT + 1);
		errno = 0;
		rc = ol_rc_minus_one(rdma_connect(conn->id, &param));
	}
	/* iWARP connects by TCP, and may know at once that nobody listens */
	if (rc != 0)
		ol_verbs_conn_fail(conn, rc == -EHOSTUNREACH || rc == -ECONNREFUSED ? rc : -EIO);
}

static void on_response(struct ol_verbs_conn *conn, const struct cm_note *note)
{
	int rc;

	rc = ol_verbs_qp_ready(conn);
	if (rc == 0) {
		errno = 0;
		rc = ol_rc_minus_one(rdma_establish(conn->id));
	}
	if (rc != 0) {
		rdma_reject(conn->id, NULL, 0);
		ol_verbs_conn_fail(conn, -EIO);
		return;
	}
	ol_verbs_conn_priv(conn, note->priv, note->priv_len);
	ol_verbs_conn_up(conn);
}

/* iWARP: the kernel has moved the queue pair itself, and tells it afterwards. */
static void on_established(struct ol_verbs_conn *conn, const struct cm_note *note)
{
	conn->receives = conn->queue->srq != NULL;
	ol_verbs_conn_priv(conn, note->priv, note->priv_len);
	ol_verbs_conn_up(conn);
}

static uint8_t min_u8(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

static void request_refuse(struct rdma_cm_id *id, enum ol_verbs_refusal refusal)
{
	uint8_t priv[OL_VERBS_PRIV_REJECT_AT + 1] = { 0 };

	priv[OL_VERBS_PRIV_REJECT_AT] = (uint8_t)refusal;
	rdma_reject(id, priv, sizeof(priv));
	rdma_destroy_id(id);
}

static bool way_is_ours(struct ol_xport *xport, const struct cm_note *note)
{
	return note->priv_len <= OL_VERBS_PRIV_CONNECT_AT ||
	       ol_verbs_way_is_ours(xport, note->priv[OL_VERBS_PRIV_CONNECT_AT],
				    rdma_get_peer_addr(note->id));
}

static void on_request(struct ol_xport *xport, struct cm_note *note)
{
	struct ol_verbs_conn *conn;

	note->id->context = NULL;
	if (!way_is_ours(xport, note)) {
		request_refuse(note->id, OL_VERBS_REFUSAL_WAY);
		return;
	}
	if (ol_verbs_device_match(xport, note->id) != 0 ||
	    ol_verbs_conn_create(xport, &conn) != 0) {
		request_refuse(note->id, OL_VERBS_REFUSAL_FULL);
		return;
	}
	if (note->priv_len > OL_VERBS_PRIV_CONNECT_AT)
		note->priv_len = OL_VERBS_PRIV_CONNECT_AT;
	note->id->context = conn;
	conn->id = note->id;
	conn->manager = &ol_verbs_cm;
	conn->state = OL_VERBS_REQUESTED;
	conn->passive = true;
	conn->responder_resources = min_u8(conn->responder_resources, note->responder_resources);
	conn->initiator_depth = min_u8(conn->initiator_depth, note->initiator_depth);
	ol_verbs_addr_text(rdma_get_peer_addr(conn->id), conn->peer);
	request_ident(conn, note->qp_num);
	ol_verbs_conn_priv(conn, note->priv, note->priv_len);
	ol_verbs_conn_pend(conn, OL_VERBS_PENDING_REQUEST);
}

/* The peer's program refuses, with the private data of its caller; or its transport does. */
static int refusal_take(struct ol_verbs_conn *conn, struct cm_note *note)
{
	const bool own = note->priv_len > OL_VERBS_PRIV_REJECT_AT &&
			 note->priv[OL_VERBS_PRIV_REJECT_AT] != OL_VERBS_REFUSAL_NONE;

	if (own)
		return ol_verbs_conn_refused(
			(enum ol_verbs_refusal)note->priv[OL_VERBS_PRIV_REJECT_AT]);
	if (note->priv_len > OL_VERBS_PRIV_REJECT_AT)
		note->priv_len = OL_VERBS_PRIV_REJECT_AT;
	ol_verbs_conn_priv(conn, note->priv, note->priv_len);
	return -ECONNREFUSED;
}

static void on_failure(struct ol_verbs_conn *conn, struct cm_note *note)
{
	int status = ol_rc_cm(note->type, note->status);

	/* of an end that is called it says nothing: the request, with its data, may not be told yet */
	if (note->type == RDMA_CM_EVENT_REJECTED && conn->state == OL_VERBS_CONNECTING &&
	    (note->status == REJECT_BY_CONSUMER || ol_verbs_is_iwarp(conn)))
		status = refusal_take(conn, note);
	ol_xport_log(&conn->base.xport->opts, OL_XPORT_LOG_INFO, "conn %u to %s: %s, status %d",
		     conn->slot, conn->peer, rdma_event_str(note->type), note->status);
	ol_verbs_conn_break(conn, status, OL_VERBS_CAUSE_FAILED);
}

/*
 * The device of an id goes. If it is the transport's, its context must be closed soon: a kernel may
 * wait for that. It destroys its own side of the id itself.
 */
static void on_removal(struct ol_xport *xport, struct cm_note *note)
{
	const struct rdma_cm_id *id = note->id;
	struct ol_verbs_conn *conn = id->context;

	if (id->verbs == NULL || strcmp(ibv_get_device_name(id->verbs->device),
					ibv_get_device_name(xport->ctx->device)) == 0)
		ol_verbs_die(xport, "it is being removed");
	else if (conn != NULL)
		on_failure(conn, note);
}

/* Events of an id without a connection: the listener's, or a request's that was refused at once. */
static void on_stray(struct ol_xport *xport, struct cm_note *note)
{
	if (note->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		on_removal(xport, note);
	else
		ol_xport_log(&xport->opts, OL_XPORT_LOG_DEBUG, "listener: %s, status %d",
			     rdma_event_str(note->type), note->status);
}

static void on_conn_event(struct ol_verbs_conn *conn, struct cm_note *note)
{
	const bool connecting = conn->state == OL_VERBS_CONNECTING;

	switch (note->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (connecting)
			on_addr_resolved(conn);
		return;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (connecting)
			on_route_resolved(conn);
		return;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		if (connecting)
			on_response(conn, note);
		return;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (connecting)
			on_established(conn, note);
		if (conn->state == OL_VERBS_ACCEPTED)
			ol_verbs_conn_up(conn);
		return;
	case RDMA_CM_EVENT_DISCONNECTED:
		ol_verbs_conn_disconnected(conn);
		return;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		on_failure(conn, note);
		return;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		on_removal(conn->base.xport, note);
		return;
	case RDMA_CM_EVENT_ADDR_CHANGE: /* the path may still work; if not, retries time out */
	case RDMA_CM_EVENT_TIMEWAIT_EXIT: /* a destroyed queue pair's number may be used again */
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		ol_xport_log(&conn->base.xport->opts, OL_XPORT_LOG_DEBUG, "conn %u to %s: %s",
			     conn->slot, conn->peer, rdma_event_str(note->type));
		return;
	}
}

static void event_handle(struct ol_xport *xport, struct rdma_cm_event *event)
{
	const struct rdma_conn_param *param = &event->param.conn;
	struct cm_note note = {
		.type = event->event,
		.status = event->status,
		.id = event->id,
		.responder_resources = param->responder_resources,
		.initiator_depth = param->initiator_depth,
		.qp_num = param->qp_num,
	};

	if (param->private_data != NULL) {
		note.priv_len = param->private_data_len;
		memcpy(note.priv, param->private_data, note.priv_len);
	}
	rdma_ack_cm_event(event);
	if (note.type == RDMA_CM_EVENT_CONNECT_REQUEST)
		on_request(xport, &note);
	else if (note.id->context == NULL)
		on_stray(xport, &note);
	else
		on_conn_event(note.id->context, &note);
}

/*
 * A thousand peers may connect at once, and a request costs a hundred times a doorbell. So a poll
 * handles a few events, and the next one goes on. Of a transport that sleeps in between, the
 * channel's descriptor is still readable.
 */
void ol_verbs_cm_progress(struct ol_xport *xport)
{
	struct rdma_cm_event *event;

	for (unsigned i = 0; i < OL_VERBS_CM_EVENTS; i++) {
		if (ol_verbs_dead(xport) || rdma_get_cm_event(xport->channel, &event) != 0)
			return;
		event_handle(xport, event);
	}
	xport->look = true;
}

static int cm_accept(struct ol_verbs_conn *conn, const void *priv, uint32_t priv_len)
{
	struct rdma_conn_param param = ol_verbs_qp_param(conn, priv, priv_len);

	errno = 0;
	return ol_rc_minus_one(rdma_accept(conn->id, &param));
}

/* As request_ident(): where the connecting end's packets go, whatever address the answer names */
static int cm_acceptor(const struct ol_verbs_conn *conn, struct ol_xport_ident *ret_ident)
{
	const struct rdma_ib_addr *path = &conn->id->route.addr.addr.ibaddr;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	int mask = 0;
	int rc;

	*ret_ident = (struct ol_xport_ident){ 0 };
	if (ol_verbs_is_iwarp(conn))
		return 0;
	if (conn->passive) {
		ol_verbs_ident_make(ret_ident, path->sgid.raw, conn->qp->qp_num, 0);
		return 0;
	}
	errno = 0;
	rc = ol_rc_minus_one(rdma_init_qp_attr(conn->id, &attr, &mask));
	if (rc == 0)
		ol_verbs_ident_make(ret_ident,
				    attr.ah_attr.is_global ? attr.ah_attr.grh.dgid.raw
							   : path->dgid.raw,
				    attr.dest_qp_num, 0);
	return rc;
}

static void cm_reject(struct ol_verbs_conn *conn, const void *priv, uint32_t priv_len)
{
	rdma_reject(conn->id, priv_len != 0 ? priv : NULL, (uint8_t)priv_len);
}

static void cm_disconnect(struct ol_verbs_conn *conn)
{
	rdma_disconnect(conn->id);
}

static int cm_attr(struct ol_verbs_conn *conn, enum ibv_qp_state state, struct ibv_qp_attr *attr,
		   int *mask)
{
	attr->qp_state = state;
	errno = 0;
	return ol_rc_minus_one(rdma_init_qp_attr(conn->id, attr, mask));
}

static void cm_ece_tell(struct ol_verbs_conn *conn, const struct ibv_ece *ece)
{
	struct ibv_ece copy = *ece;

	(void)rdma_set_local_ece(conn->id, &copy); /* without it nothing is agreed on */
}

static bool cm_ece_told(struct ol_verbs_conn *conn, struct ibv_ece *ece)
{
	return rdma_get_remote_ece(conn->id, ece) == 0;
}

static void cm_data_came(struct ol_verbs_conn *conn)
{
	rdma_notify(conn->id, IBV_EVENT_COMM_EST);
}

static void cm_free(struct ol_verbs_conn *conn)
{
	if (conn->id != NULL)
		rdma_destroy_id(conn->id);
}

const struct ol_verbs_manager ol_verbs_cm = {
	.connect = cm_connect,
	.accept = cm_accept,
	.acceptor = cm_acceptor,
	.reject = cm_reject,
	.disconnect = cm_disconnect,
	.attr = cm_attr,
	.ece_tell = cm_ece_tell,
	.ece_told = cm_ece_told,
	.data_came = cm_data_came,
	.free = cm_free,
};
