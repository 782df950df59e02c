/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * conn.c -- a connection's life from its first step to its fence
 */
#include "rdma/verbs/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdma/verbs/verbs_rc.h"

bool ol_verbs_may_tell(struct ol_xport *xport)
{
	const uint64_t now_ns = ol_xport_now_ns();

	if (xport->told_ns != 0 && now_ns - xport->told_ns < 1000000000)
		return false;
	xport->told_ns = now_ns;
	return true;
}

int ol_verbs_conn_create(struct ol_xport *xport, struct ol_verbs_conn **ret_conn)
{
	struct ol_verbs_conn *conn;
	uint32_t slot = 0;

	while (slot < xport->opts.conns_max && xport->slots[slot] != NULL)
		slot++;
	if (slot == xport->opts.conns_max) {
		if (ol_verbs_may_tell(xport))
			ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
				     "all %u connections are in use", xport->opts.conns_max);
		return -EMFILE;
	}
	conn = calloc(1, sizeof(*conn));
	if (conn == NULL)
		return -ENOMEM;
	conn->base.xport = xport;
	conn->slot = slot;
	conn->responder_resources =
		UINT8_MAX; /* as many as the device has, and the peer asks for */
	conn->initiator_depth = UINT8_MAX;
	xport->slots[slot] = conn;
	xport->counts.conns++;
	*ret_conn = conn;
	return 0;
}

int ol_verbs_listen(struct ol_xport *xport, const char *text, char ret_addr[OL_XPORT_ADDR_MAX])
{
	const char *rest;

	if (ol_verbs_dead(xport))
		return -ENODEV;
	if (xport->listener != NULL || ol_verbs_oob_listens(xport))
		return -EALREADY;
	return ol_verbs_addr_is_oob(text, &rest) ? ol_verbs_oob_listen(xport, rest, ret_addr)
						 : ol_verbs_cm_listen(xport, text, ret_addr);
}

void ol_verbs_ident(const struct ol_xport_conn *base, struct ol_xport_ident *ret_ident)
{
	*ret_ident = ol_verbs_container_of_const(base, struct ol_verbs_conn, base)->ident;
}

void ol_verbs_ident_make(struct ol_xport_ident *ident, const uint8_t gid[16], uint32_t number,
			 uint32_t lid)
{
	const uint32_t wire[2] = { htonl(number), htonl(lid) };

	memcpy(ident->bytes, gid, 16);
	memcpy(ident->bytes + 16, wire, sizeof(wire));
}

void ol_verbs_conn_ident(struct ol_verbs_conn *conn, const uint8_t gid[16], uint32_t number,
			 uint32_t lid)
{
	ol_verbs_ident_make(&conn->ident, gid, number, lid);
	if (conn->seal.make != NULL)
		conn->seal.make(conn->seal.arg, &conn->ident, conn->priv, conn->send_len);
}

/* Why it cannot begin: the list of OL_XPORT_CONN_DOWN */
static int connect_status(int rc)
{
	switch (rc) {
	case -EMFILE:
	case -ENFILE:
		return -EMFILE;
	case -ECONNREFUSED:
	case -EHOSTUNREACH:
	case -ETIMEDOUT:
		return rc;
	default:
		return -EIO;
	}
}

int ol_verbs_connect(struct ol_xport *xport, const char *text, const void *priv, uint32_t priv_len,
		     const struct ol_xport_seal *seal, struct ol_xport_conn **ret_conn)
{
	union ol_verbs_addr addr;
	struct ol_verbs_conn *conn;
	const char *rest;
	bool is_oob;
	int found;
	int rc;

	if (priv_len > OL_XPORT_PRIV_CONNECT_MAX)
		return -EINVAL;
	if (ol_verbs_dead(xport))
		return -ENODEV;
	ol_verbs_let_go();
	is_oob = ol_verbs_addr_is_oob(text, &rest);
	found = ol_verbs_addr_parse(rest, &addr);
	if (found == -EINVAL) {
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
			     "cannot connect to \"%s\": it is not host:port or " OL_VERBS_OOB_PREFIX
			     "host:port",
			     text);
		return -EINVAL;
	}
	rc = ol_verbs_conn_create(xport, &conn);
	if (rc != 0)
		return rc;
	conn->manager = is_oob ? &ol_verbs_oob : &ol_verbs_cm;
	conn->state = OL_VERBS_CONNECTING;
	strncpy(conn->peer, text, sizeof(conn->peer) - 1);
	if (priv_len != 0)
		memcpy(conn->priv, priv, priv_len);
	conn->send_len = priv_len;
	if (seal != NULL)
		conn->seal = *seal;
	ol_verbs_conn_timer(conn, xport->opts.connect_timeout_ms);
	rc = found == 0 ? conn->manager->connect(conn, &addr) : -EHOSTUNREACH;
	if (rc != 0)
		ol_verbs_conn_fail(conn, connect_status(rc));
	*ret_conn = &conn->base;
	return 0;
}

/* ol_verbs_conn_pend -- let poll() report it; connections in the order of their first call */
void ol_verbs_conn_pend(struct ol_verbs_conn *conn, unsigned pending)
{
	struct ol_xport *xport = conn->base.xport;

	conn->pending |= pending;
	if (conn->in_ready)
		return;
	conn->in_ready = true;
	conn->ready_next = NULL;
	*xport->ready_tail = conn;
	xport->ready_tail = &conn->ready_next;
}

static void ready_remove(struct ol_verbs_conn *conn)
{
	struct ol_xport *xport = conn->base.xport;
	struct ol_verbs_conn **at = &xport->ready;

	if (!conn->in_ready)
		return;
	while (*at != conn)
		at = &(*at)->ready_next;
	*at = conn->ready_next;
	if (xport->ready_tail == &conn->ready_next)
		xport->ready_tail = at;
	conn->in_ready = false;
}

void ol_verbs_conn_timer(struct ol_verbs_conn *conn, uint32_t after_ms)
{
	struct ol_xport *xport = conn->base.xport;

	if (conn->timer_ns != 0)
		xport->timer_count--;
	conn->timer_ns = 0;
	if (after_ms == 0)
		return;
	conn->timer_ns = ol_xport_now_ns() + (uint64_t)after_ms * 1000000;
	xport->timer_count++;
}

static void conn_finish(struct ol_verbs_conn *conn)
{
	ol_verbs_conn_timer(conn, 0);
	conn->state = OL_VERBS_DOWN;
	ol_verbs_conn_pend(conn, OL_VERBS_PENDING_DOWN);
}

static void finish_if_drained(struct ol_verbs_conn *conn)
{
	if (conn->state == OL_VERBS_DRAINING && conn->marker_done && conn->cm_done)
		conn_finish(conn);
}

static void disconnect_send(struct ol_verbs_conn *conn)
{
	if (conn->disconnect_sent)
		return;
	conn->disconnect_sent = true;
	conn->manager->disconnect(conn);
}

/* The peer has what was posted before the disconnect, or will not have it: the connection ends. */
static void leave_end(struct ol_verbs_conn *conn, uint32_t after_ms)
{
	conn->leaving = false;
	disconnect_send(conn);
	ol_verbs_conn_timer(conn, after_ms);
	ol_verbs_qp_stop(conn);
}

void ol_verbs_conn_priv(struct ol_verbs_conn *conn, const void *priv, uint32_t priv_len)
{
	if (priv_len != 0)
		memcpy(conn->priv, priv, priv_len);
	conn->priv_len = priv_len;
}

void ol_verbs_conn_up(struct ol_verbs_conn *conn)
{
	conn->state = OL_VERBS_UP;
	ol_verbs_conn_timer(conn, 0);
	ol_verbs_conn_pend(conn, OL_VERBS_PENDING_UP);
}

int ol_verbs_conn_refused(enum ol_verbs_refusal refusal)
{
	switch (refusal) {
	case OL_VERBS_REFUSAL_NONE:
		return -ECONNREFUSED;
	case OL_VERBS_REFUSAL_WAY:
		return -EOPNOTSUPP;
	case OL_VERBS_REFUSAL_PATH:
		return -EHOSTUNREACH;
	case OL_VERBS_REFUSAL_FULL:
		break;
	}
	return -EUSERS;
}

uint8_t ol_verbs_way_of(const struct ol_xport *xport)
{
	return xport->lacks.imm ? OL_VERBS_WAY_SEND : OL_VERBS_WAY_IMM;
}

/* A peer whose adapter rings in another way than this one's can be neither heard nor rung. */
bool ol_verbs_way_is_ours(struct ol_xport *xport, uint8_t way, const struct sockaddr *peer)
{
	char text[OL_XPORT_ADDR_MAX];

	if (way == ol_verbs_way_of(xport))
		return true;
	if (!ol_verbs_may_tell(xport))
		return false;
	ol_verbs_addr_text(peer, text);
	ol_xport_log(&xport->opts, OL_XPORT_LOG_WARN,
		     "%s is refused: of its adapter and this one, one has no write with immediate",
		     text);
	return false;
}

void ol_verbs_conn_fail(struct ol_verbs_conn *conn, int status)
{
	if (conn->state == OL_VERBS_DOWN)
		return;
	conn->status = status;
	conn_finish(conn);
}

static uint32_t goodbye_ms(const struct ol_verbs_conn *conn)
{
	const uint32_t silence_ms = conn->base.xport->opts.retry_timeout_ms;

	return silence_ms < OL_VERBS_GOODBYE_MS ? silence_ms : OL_VERBS_GOODBYE_MS;
}

void ol_verbs_conn_break(struct ol_verbs_conn *conn, int status, enum ol_verbs_cause cause)
{
	switch (conn->state) {
	case OL_VERBS_UP:
		break;
	case OL_VERBS_CONNECTING:
	case OL_VERBS_REQUESTED:
	case OL_VERBS_ACCEPTED:
		ol_verbs_conn_fail(conn, status);
		return;
	case OL_VERBS_DRAINING:
	case OL_VERBS_DOWN:
		return;
	}
	conn->state = OL_VERBS_DRAINING;
	conn->status = status;
	conn->cause = cause;
	switch (cause) {
	case OL_VERBS_CAUSE_LOCAL:
		ol_verbs_conn_timer(conn, goodbye_ms(conn));
		conn->leaving = ol_verbs_qp_leave(conn);
		if (conn->leaving)
			return;
		disconnect_send(conn);
		break;
	case OL_VERBS_CAUSE_PEER:
	case OL_VERBS_CAUSE_FAILED:
		disconnect_send(conn);
		conn->cm_done = true;
		ol_verbs_conn_timer(conn, OL_VERBS_DRAIN_MS);
		break;
	case OL_VERBS_CAUSE_REFUSED:
		conn->holding = true;
		ol_verbs_conn_timer(conn, OL_VERBS_HOLD_MS);
		break;
	case OL_VERBS_CAUSE_VICTIM:
		conn->holding = true;
		ol_verbs_conn_timer(conn, OL_VERBS_VICTIM_MS);
		break;
	}
	ol_verbs_qp_stop(conn);
}

static const char *op_name(const struct ol_verbs_op *op)
{
	if (op == NULL)
		return "a doorbell received";
	switch (op->opcode) {
	case IBV_WR_RDMA_WRITE:
		return "a write";
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return "a write with immediate";
	case IBV_WR_RDMA_READ:
		return "a read";
	default:
		return "a request";
	}
}

/*
 * The vendor's code says what the status sums up, and only the adapter's maker can read it. It is
 * told nowhere else, and later completions have only flushes.
 */
void ol_verbs_conn_bad(struct ol_verbs_conn *conn, const struct ibv_wc *wc,
		       const struct ol_verbs_op *op)
{
	if (wc->status == IBV_WC_SUCCESS || wc->status == IBV_WC_WR_FLUSH_ERR || conn->bad_said)
		return;
	conn->bad_said = true;
	ol_xport_log(&conn->base.xport->opts, OL_XPORT_LOG_WARN,
		     "conn %u to %s: %s failed: %s (status %d, vendor_err 0x%x); the connection "
		     "ends",
		     conn->slot, conn->peer, op_name(op), ibv_wc_status_str(wc->status),
		     (int)wc->status, wc->vendor_err);
}

void ol_verbs_conn_die(struct ol_verbs_conn *conn)
{
	switch (conn->state) {
	case OL_VERBS_ACCEPTED:
	case OL_VERBS_UP:
		disconnect_send(conn); /* the peer may still hear it; else it notices a silence */
		break;
	case OL_VERBS_DRAINING: /* what a dying device said before says nothing of the peer */
		if (conn->leaving)
			disconnect_send(conn);
		conn->leaving = false;
		break;
	case OL_VERBS_CONNECTING:
	case OL_VERBS_REQUESTED:
		break;
	case OL_VERBS_DOWN:
		return;
	}
	conn->status = -ENODEV;
	conn_finish(conn);
}

/* The peer's disconnect, or its answer to ours. */
void ol_verbs_conn_disconnected(struct ol_verbs_conn *conn)
{
	switch (conn->state) {
	case OL_VERBS_CONNECTING: /* it ends without an answer, which is not that nobody listens */
		ol_verbs_conn_fail(conn, -EIO);
		return;
	case OL_VERBS_REQUESTED:
	case OL_VERBS_ACCEPTED:
		ol_verbs_conn_fail(conn, 0);
		return;
	case OL_VERBS_UP:
		if (ol_verbs_qp_broken(
			    conn)) { /* this side refused the peer, which noticed first */
			conn->guessed = true; /* or a post has failed, and its completion waits */
			ol_verbs_conn_break(conn, -EACCES, OL_VERBS_CAUSE_PEER);
			return;
		}
		ol_verbs_conn_break(conn, 0, OL_VERBS_CAUSE_PEER);
		return;
	case OL_VERBS_DRAINING:
		if (conn->holding && conn->cause == OL_VERBS_CAUSE_REFUSED)
			conn->status = 0;
		if (conn->holding)
			ol_verbs_conn_timer(conn, OL_VERBS_DRAIN_MS);
		conn->holding = false;
		if (conn->leaving)
			leave_end(conn, OL_VERBS_DRAIN_MS);
		disconnect_send(conn);
		conn->cm_done = true;
		finish_if_drained(conn);
		return;
	case OL_VERBS_DOWN:
		disconnect_send(conn);
		return;
	}
}

void ol_verbs_conn_marker(struct ol_verbs_conn *conn)
{
	conn->marker_done = true;
	finish_if_drained(conn);
}

void ol_verbs_conn_left(struct ol_verbs_conn *conn)
{
	if (conn->leaving)
		leave_end(conn, goodbye_ms(conn));
}

void ol_verbs_conn_expired(struct ol_verbs_conn *conn)
{
	switch (conn->state) {
	case OL_VERBS_CONNECTING:
	case OL_VERBS_ACCEPTED:
		ol_verbs_conn_fail(conn, -ETIMEDOUT);
		return;
	case OL_VERBS_DRAINING:
		if (conn->leaving) { /* the peer is silent: it answers to no disconnect either */
			leave_end(conn, OL_VERBS_DRAIN_MS);
			conn->cm_done = true;
			return;
		}
		if (!conn->holding) {
			conn_finish(conn);
			return;
		}
		conn->holding = false;
		disconnect_send(conn);
		conn->cm_done = true;
		ol_verbs_conn_timer(conn, OL_VERBS_DRAIN_MS);
		finish_if_drained(conn);
		return;
	case OL_VERBS_REQUESTED:
	case OL_VERBS_UP:
	case OL_VERBS_DOWN:
		ol_verbs_conn_timer(conn, 0);
		return;
	}
}

void ol_verbs_held_flush(struct ol_verbs_conn *conn)
{
	int rc;

	if (conn->held_count == 0)
		return;
	if (conn->state == OL_VERBS_UP) {
		rc = ol_verbs_held_post(conn);
		if (rc == 0 || rc == ENOMEM) /* full: the next poll tries again */
			return;
		ol_verbs_conn_break(conn, -EIO, OL_VERBS_CAUSE_FAILED);
	}
	conn->held_count = 0; /* their ring entries stay: the connection's end reports them */
}

/* A request's own domain and queue pair, as far as they need nothing of its caller */
static int request_prepare(struct ol_verbs_conn *conn)
{
	int rc;

	if (conn->qp != NULL)
		return 0;
	rc = ol_verbs_domain_open(conn);
	if (rc != 0)
		return rc;
	rc = ol_verbs_qp_open(conn);
	if (rc != 0)
		ol_verbs_qp_close(conn);
	return rc;
}

int ol_verbs_acceptor(struct ol_xport_conn *base, struct ol_xport_ident *ret_ident)
{
	struct ol_verbs_conn *conn = ol_verbs_conn(base);
	int rc;

	if (ol_verbs_dead(base->xport))
		return -ENODEV;
	if (conn->state == OL_VERBS_DOWN)
		return -ECONNABORTED;
	rc = conn->state == OL_VERBS_REQUESTED ? request_prepare(conn) : 0;
	return rc != 0 ? rc : conn->manager->acceptor(conn, ret_ident);
}

int ol_verbs_accept(struct ol_xport_conn *base, const void *priv, uint32_t priv_len)
{
	struct ol_verbs_conn *conn = ol_verbs_conn(base);
	struct ol_xport *xport = base->xport;
	int rc;

	if (ol_verbs_dead(xport))
		return -ENODEV;
	if (conn->state != OL_VERBS_REQUESTED)
		return conn->state == OL_VERBS_DOWN ? -ECONNABORTED : -EINVAL;
	if (priv_len > OL_XPORT_PRIV_ACCEPT_MAX)
		return -EINVAL;
	rc = request_prepare(conn);
	if (rc != 0)
		return rc;
	rc = ol_verbs_qp_ready(conn);
	if (rc != 0)
		goto err_qp;
	rc = conn->manager->accept(conn, priv, priv_len);
	if (rc != 0) {
		ol_xport_log(&xport->opts, OL_XPORT_LOG_WARN,
			     "conn %u to %s: cannot accept: error %d", conn->slot, conn->peer, -rc);
		rc = -ECONNABORTED;
		goto err_qp;
	}
	conn->state = OL_VERBS_ACCEPTED;
	ol_verbs_conn_timer(conn, xport->opts.connect_timeout_ms);
	return 0;

err_qp:
	ol_verbs_qp_close(conn);
	return rc;
}

void ol_verbs_reject(struct ol_xport_conn *base, const void *priv, uint32_t priv_len)
{
	struct ol_verbs_conn *conn = ol_verbs_conn(base);

	if (priv_len > OL_XPORT_PRIV_REJECT_MAX)
		priv_len = OL_XPORT_PRIV_REJECT_MAX;
	if (conn->state == OL_VERBS_REQUESTED) {
		conn->manager->reject(conn, priv, priv_len);
		ol_verbs_qp_close(conn); /* that accept() was to use */
	}
	conn->state = OL_VERBS_DOWN;
	ol_verbs_conn_free(base);
}

void ol_verbs_disconnect(struct ol_xport_conn *base)
{
	struct ol_verbs_conn *conn = ol_verbs_conn(base);

	ol_verbs_held_flush(conn);
	switch (conn->state) {
	case OL_VERBS_REQUESTED:
		conn->manager->reject(conn, NULL, 0);
		break;
	case OL_VERBS_ACCEPTED:
		disconnect_send(conn);
		break;
	case OL_VERBS_CONNECTING:
	case OL_VERBS_UP:
	case OL_VERBS_DRAINING:
	case OL_VERBS_DOWN:
		break;
	}
	ol_verbs_conn_break(conn, 0, OL_VERBS_CAUSE_LOCAL);
}

/*
 * The order is the fence: disconnect, destroy the queue pair (no write lands after that), then its
 * keys, then their domain.
 */
void ol_verbs_conn_free(struct ol_xport_conn *base)
{
	struct ol_verbs_conn *conn;
	struct ol_xport *xport;
	int rc;

	if (base == NULL)
		return;
	conn = ol_verbs_conn(base);
	xport = base->xport;
	ol_verbs_conn_timer(conn, 0);
	ready_remove(conn);
	ol_verbs_holders_remove(conn);
	if (conn->state == OL_VERBS_REQUESTED)
		conn->manager->reject(conn, NULL, 0);
	else if (conn->qp != NULL)
		disconnect_send(conn);
	conn->state = OL_VERBS_DOWN; /* what the device tells meanwhile changes nothing here */
	ol_verbs_qp_close(conn);
	ol_verbs_regions_leave(conn);
	if (conn->pd != NULL) {
		rc = ol_rc_positive(ibv_dealloc_pd(conn->pd));
		if (rc != 0)
			ol_xport_log(&xport->opts, ol_verbs_undo_level(xport),
				     "conn %u to %s: cannot free its protection domain: error %d",
				     conn->slot, conn->peer, -rc);
	}
	if (conn->manager != NULL)
		conn->manager->free(conn);
	xport->slots[conn->slot] = NULL;
	xport->counts.conns--;
	free(conn->ops);
	free(conn);
}
