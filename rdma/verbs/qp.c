/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * qp.c -- a queue pair's states, with the transport's timers and rights
 *
 * The connection's manager gives path and numbers. Both sides replace acknowledge timeout, retries,
 * receiver-not-ready timer and access flags.
 */
#include "rdma/verbs/internal.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "rdma/verbs/verbs_rc.h"

/* Moves the queue pair to state with the manager's attributes, changed by change if not NULL. */
static int qp_move(struct ol_verbs_conn *conn, enum ibv_qp_state state,
		   void (*change)(const struct ol_verbs_conn *conn, struct ibv_qp_attr *attr))
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask = 0;
	int rc;

	rc = conn->manager->attr(conn, state, &attr, &mask);
	if (rc != 0)
		return rc;
	if (change != NULL)
		change(conn, &attr);
	return ol_rc_positive(ibv_modify_qp(conn->qp, &attr, mask));
}

static void change_init(const struct ol_verbs_conn *conn, struct ibv_qp_attr *attr)
{
	(void)conn;
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
}

static void change_rtr(const struct ol_verbs_conn *conn, struct ibv_qp_attr *attr)
{
	const struct ol_xport_wire *wire = &conn->base.xport->opts.wire;
	const unsigned mtu = ol_verbs_mtu_code(wire->path_mtu);
	const uint8_t traffic_class = (uint8_t)wire->traffic_class;

	attr->min_rnr_timer = conn->base.xport->timing.rnr_timer;
	if (mtu != 0 && mtu < (unsigned)attr->path_mtu)
		attr->path_mtu = (enum ibv_mtu)mtu;
	if (traffic_class != 0 && attr->ah_attr.is_global)
		attr->ah_attr.grh.traffic_class = traffic_class;
	if (conn->passive)
		attr->max_dest_rd_atomic = conn->responder_resources;
}

static void change_rts(const struct ol_verbs_conn *conn, struct ibv_qp_attr *attr)
{
	const struct ol_verbs_timing *timing = &conn->base.xport->timing;

	attr->timeout = timing->ack_timeout;
	attr->retry_cnt = timing->retry_count;
	attr->rnr_retry = timing->rnr_retry_count;
	if (conn->passive)
		attr->max_rd_atomic = conn->initiator_depth;
}

static struct ibv_qp_init_attr qp_attr(struct ol_verbs_conn *conn)
{
	const struct ol_xport *xport = conn->base.xport;
	const struct ol_verbs_lacks *lacks = &xport->lacks;

	return (struct ibv_qp_init_attr){
		.qp_context = conn,
		.send_cq = conn->queue->cq,
		.recv_cq = conn->queue->cq,
		.srq = conn->queue->srq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = xport->ring + OL_VERBS_MARKERS,
			.max_recv_wr = lacks->srq ? xport->recv_depth : 0,
			.max_send_sge = lacks->gather ? 1 : OL_XPORT_SEGS_MAX,
			.max_recv_sge = lacks->srq ? 1 : 0,
			.max_inline_data = lacks->inline_granted,
		},
	};
}

/* Providers grant less without a word. */
static bool qp_granted(struct ol_verbs_conn *conn, const struct ibv_qp_cap *got)
{
	const struct ibv_qp_cap want = qp_attr(conn).cap;

	if (got->max_send_wr >= want.max_send_wr && got->max_send_sge >= want.max_send_sge &&
	    got->max_inline_data >= want.max_inline_data &&
	    (conn->queue->srq != NULL || got->max_recv_wr >= want.max_recv_wr))
		return true;
	ol_xport_log(
		&conn->base.xport->opts, OL_XPORT_LOG_ERROR,
		"conn %u to %s: the device grants a queue pair of %u requests, %u segments, %u "
		"bytes inline, %u receives, and not of %u, %u, %u, %u: try a smaller "
		"inflight_max",
		conn->slot, conn->peer, got->max_send_wr, got->max_send_sge, got->max_inline_data,
		got->max_recv_wr, want.max_send_wr, want.max_send_sge, want.max_inline_data,
		want.max_recv_wr);
	return false;
}

/* Where its posts are noted. Only now it is known which device that is for. */
static int ops_create(struct ol_verbs_conn *conn)
{
	const struct ol_xport *xport = conn->base.xport;
	uint32_t size = 1;

	while (size < xport->ring)
		size *= 2;
	conn->ops = calloc(size, sizeof(*conn->ops));
	if (conn->ops == NULL)
		return -ENOMEM;
	conn->ops_mask = size - 1;
	if (conn->responder_resources > xport->reads_in_max)
		conn->responder_resources = xport->reads_in_max;
	if (conn->initiator_depth > xport->reads_out_max)
		conn->initiator_depth = xport->reads_out_max;
	return 0;
}

static int qp_create(struct ol_verbs_conn *conn)
{
	struct ol_xport *xport = conn->base.xport;
	struct ibv_qp_init_attr attr = qp_attr(conn);
	int rc;

	errno = 0;
	conn->qp = ibv_create_qp(ol_verbs_conn_pd(conn), &attr);
	rc = ol_rc_null(conn->qp);
	if (rc != 0) {
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
			     "conn %u to %s: no queue pair: error %d", conn->slot, conn->peer, -rc);
		return rc;
	}
	xport->pinned = true;
	ol_verbs_qpmap_add(&xport->qpmap, conn->qp->qp_num, conn);
	return qp_granted(conn, &attr.cap) ? 0 : -EOPNOTSUPP;
}

/* ol_verbs_qp_open -- make it, as far as that needs no answer of the peer */
int ol_verbs_qp_open(struct ol_verbs_conn *conn)
{
	struct ol_xport *xport = conn->base.xport;
	int rc;

	rc = ol_verbs_queue_join(conn);
	if (rc == 0)
		rc = ops_create(conn);
	if (rc == 0)
		rc = ol_verbs_own_open(conn);
	if (rc == 0)
		rc = qp_create(conn);
	if (rc != 0)
		return rc;
	rc = qp_move(conn, IBV_QPS_INIT, change_init);
	if (rc == 0 && conn->queue->srq == NULL) { /* before the peer can ring */
		conn->recv_missing = xport->recv_depth;
		ol_verbs_recv_own(conn);
		rc = conn->recv_missing < xport->recv_batch ? 0 : -EIO;
	}
	if (rc != 0)
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
			     "conn %u to %s: cannot initialise the queue pair: error %d",
			     conn->slot, conn->peer, -rc);
	else if (!conn->passive)
		ol_verbs_ece_offer(conn);
	return rc;
}

/* ol_verbs_qp_ready -- the peer's numbers are known: receive, then send */
int ol_verbs_qp_ready(struct ol_verbs_conn *conn)
{
	uint64_t began_ns;
	int rc;

	rc = ol_verbs_ece_take(conn);
	began_ns = ol_xport_now_ns();
	if (rc == 0)
		rc = qp_move(conn, IBV_QPS_RTR, change_rtr);
	if (conn->manager->tried != NULL)
		rc = conn->manager->tried(conn, rc, ol_xport_now_ns() - began_ns);
	conn->receives = rc == 0 && conn->queue->srq != NULL;
	if (rc == 0)
		rc = qp_move(conn, IBV_QPS_RTS, change_rts);
	if (rc != 0 && (rc != -EHOSTUNREACH || ol_verbs_may_tell(conn->base.xport)))
		ol_xport_log(&conn->base.xport->opts, OL_XPORT_LOG_ERROR,
			     "conn %u to %s: cannot start the queue pair: error %d", conn->slot,
			     conn->peer, -rc);
	else if (rc == 0 && conn->passive)
		ol_verbs_ece_answer(conn);
	return rc;
}

/* ol_verbs_qp_broken -- true if the adapter itself has put it into the error state */
bool ol_verbs_qp_broken(struct ol_verbs_conn *conn)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(conn->qp, &attr, IBV_QP_STATE, &init) == 0 &&
	       attr.qp_state == IBV_QPS_ERR;
}

/* A write of nothing, which completes behind all posts. */
static bool marker_post(struct ol_verbs_conn *conn, uint64_t seq)
{
	struct ibv_send_wr wr = {
		.wr_id = (uint64_t)conn->slot << OL_VERBS_WR_SLOT_SHIFT | seq,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad = NULL;

	return ibv_post_send(conn->qp, &wr, &bad) == 0;
}

/* ol_verbs_qp_leave -- let a marker tell that the peer has all posts; false: it has, or none can */
bool ol_verbs_qp_leave(struct ol_verbs_conn *conn)
{
	return conn->head != conn->tail && marker_post(conn, OL_VERBS_WR_SEQ_LEFT);
}

/* ol_verbs_qp_stop -- move it to the error state: all posts complete, the marker last */
void ol_verbs_qp_stop(struct ol_verbs_conn *conn)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	const bool early = conn->base.xport->lacks.late_posts;

	conn->stopped = (!early || marker_post(conn, OL_VERBS_WR_SEQ_MARKER)) &&
			ibv_modify_qp(conn->qp, &attr, IBV_QP_STATE) == 0 &&
			(early || marker_post(conn, OL_VERBS_WR_SEQ_MARKER));
	if (!conn->stopped)
		ol_xport_log(&conn->base.xport->opts, OL_XPORT_LOG_DEBUG,
			     "conn %u to %s: cannot be drained, its end is delayed", conn->slot,
			     conn->peer);
}

/* True once the queue pair's completions are in the queue; or if one cannot know it any better. */
static bool qp_told_all(const struct ol_verbs_conn *conn)
{
	return conn->marker_done &&
	       (conn->last_wqe || conn->base.xport->last_wqe_misses >= OL_VERBS_LAST_WQE_MISSES);
}

/*
 * Counts the receives that the queue pair has taken, before its completions can vanish with it: see
 * receives.c. It waits for OL_VERBS_CLOSE_MS at most.
 */
static void qp_drain(struct ol_verbs_conn *conn, uint32_t qp_num)
{
	static const struct timespec pause = { .tv_nsec = 50 * 1000 };
	struct ol_xport *xport = conn->base.xport;
	const uint64_t end_ns = ol_xport_now_ns() + (uint64_t)OL_VERBS_CLOSE_MS * 1000000;
	struct pollfd async = { .fd = xport->ctx->async_fd, .events = POLLIN };
	bool told;

	if (!conn->stopped)
		ol_verbs_qp_stop(conn);
	for (;;) {
		ol_verbs_async_progress(xport);
		told = qp_told_all(conn); /* so what it took is in the queue now */
		ol_verbs_wcs_forget(conn->queue, conn, qp_num);
		if (told || !conn->stopped || ol_verbs_dead(xport) || ol_xport_now_ns() >= end_ns)
			break;
		if (!qp_told_all(conn))
			ppoll(&async, 1, &pause, NULL);
	}
	if (conn->stopped && !conn->last_wqe)
		xport->last_wqe_misses++;
}

/* ol_verbs_qp_close -- destroy it; after this no write of the peer lands and no completion comes */
void ol_verbs_qp_close(struct ol_verbs_conn *conn)
{
	struct ol_xport *xport = conn->base.xport;
	uint32_t qp_num;
	int rc;

	if (conn->qp == NULL)
		goto out;
	qp_num = conn->qp->qp_num;
	if (conn->receives && !ol_verbs_dead(xport))
		qp_drain(conn, qp_num);
	rc = ol_rc_positive(ibv_destroy_qp(conn->qp));
	if (rc != 0)
		ol_xport_log(&xport->opts, ol_verbs_undo_level(xport),
			     "conn %u to %s: cannot destroy the queue pair: error %d", conn->slot,
			     conn->peer, -rc);
	conn->qp = NULL;
	if (!ol_verbs_dead(xport))
		ol_verbs_wcs_forget(conn->queue, conn, qp_num);
	ol_verbs_qpmap_remove(&xport->qpmap, qp_num);
out:
	ol_verbs_own_close(conn);
	ol_verbs_queue_leave(conn);
}

struct rdma_conn_param ol_verbs_qp_param(const struct ol_verbs_conn *conn, const void *priv,
					 uint32_t priv_len)
{
	const struct ol_verbs_timing *timing = &conn->base.xport->timing;

	return (struct rdma_conn_param){
		.private_data = priv_len != 0 ? priv : NULL,
		.private_data_len = (uint8_t)priv_len,
		.responder_resources = conn->responder_resources,
		.initiator_depth = conn->initiator_depth,
		.retry_count = timing->retry_count,
		.rnr_retry_count = timing->rnr_retry_count,
		.srq = conn->queue->srq != NULL,
		.qp_num = conn->qp->qp_num,
	};
}
