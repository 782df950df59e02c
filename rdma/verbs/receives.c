/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * receives.c -- a shared queue's receives: none is lost, whatever the adapter does at an end
 *
 * WITHOUT A SHARED QUEUE (struct ol_verbs_lacks) each queue pair has receives of its own, which end
 * with it, and nothing of what follows is needed. If doorbells are sent, each receive has a bell of
 * four bytes to land in. A queue pair takes its receives in the order posted, so the bells are used
 * in turn; one is posted again only after it was read.
 *
 * Every doorbell of every peer uses up one receive of the shared queue. poll() counts it as missing
 * when it handles the completion, and posts the missing ones back in batches. A receive that is
 * never counted is never posted back: if that happens recv_depth times, no doorbell arrives any more.
 *
 * THE END OF A QUEUE PAIR is where a count may go wrong. There are two kinds of adapters:
 *
 * - Completions stay in the completion queue when their queue pair is destroyed (rdma_rxe, siw).
 *   ol_verbs_wcs_forget() finds them after the destroy, by the queue pair's number, and counts them.
 * - They are scrubbed from it by the destroy (mlx5, mlx4, hns, bnxt_re, irdma: the functions are
 *   called ..._cq_clean). The provider frees their places in the shared queue and tells nobody.
 *
 * So before the destroy ol_verbs_qp_close() moves the queue pair to the error state, where it takes
 * no further receive. The device says with LAST_WQE_REACHED that the completions of all those it
 * took are in the queue; only then they are counted, by the same ol_verbs_wcs_forget(), which finds
 * nothing to scrub after that. What the first call counted is out of the queue, so on no adapter the
 * second call can count it again. The wait is bounded, and some devices send the event late or
 * never: then it ends with the marker's completion, and a receive may be lost after all.
 *
 * THE NET under this: the device says when fewer than a batch of receives are left in the shared
 * queue (the SRQ's limit), which well-behaved peers cannot bring about. At that moment
 *
 *     posted = left + in progress + completed and not handled + missing no more + LOST
 *
 * where left < limit, and at most one receive of a queue pair is in progress. What was posted before
 * the limit was set is known, and so is what was handled, or is in the completion queue, after the
 * event. The difference is surely lost; it is counted as missing, so it is posted back. Too much is
 * never posted in this way: neither shared queue nor completion queue overruns. Receives that came
 * back long after the limit was set blur that knowledge. Therefore the first event after a quiet
 * time sets the limit anew and lends the queue one batch (recv_lent, for which both queues have
 * room), so that something can arrive; if that is used up, too, the next event tells precisely.
 */
#include "rdma/verbs/internal.h"

#include <errno.h>
#include <stdlib.h>

#include "rdma/verbs/verbs_rc.h"

/* Asks for an event when fewer than a batch is left. Not every device has it: then it is missed. */
static void limit_set(struct ol_xport *xport, struct ol_verbs_queue *queue)
{
	struct ibv_srq_attr attr = { .srq_limit = xport->recv_batch };
	const int rc = ol_rc_positive(ibv_modify_srq(queue->srq, &attr, IBV_SRQ_LIMIT));

	queue->recv_since = 0;
	if (rc != 0)
		ol_xport_log(&xport->opts, OL_XPORT_LOG_DEBUG,
			     "the shared receive queue has no limit event: error %d", -rc);
}

int ol_verbs_recv_wrs_create(struct ol_xport *xport)
{
	const uint32_t count = xport->recv_batch;

	xport->recv_wrs = calloc(count, sizeof(*xport->recv_wrs));
	if (xport->recv_wrs == NULL)
		return -ENOMEM;
	if (xport->lacks.imm) {
		xport->recv_sges = calloc(count, sizeof(*xport->recv_sges));
		if (xport->recv_sges == NULL)
			return -ENOMEM;
	}
	for (uint32_t i = 0; i < count; i++) {
		xport->recv_wrs[i].wr_id = OL_VERBS_WR_RECV;
		if (i + 1 < count)
			xport->recv_wrs[i].next = &xport->recv_wrs[i + 1];
		if (!xport->lacks.imm)
			continue;
		xport->recv_sges[i].length = OL_VERBS_BELL_BYTES;
		xport->recv_wrs[i].sg_list = &xport->recv_sges[i];
		xport->recv_wrs[i].num_sge = 1;
	}
	return 0;
}

int ol_verbs_recvs_create(struct ol_xport *xport, struct ol_verbs_queue *queue)
{
	queue->recv_missing = xport->recv_depth;
	queue->recv_lent = 0;
	ol_verbs_recv_refill(xport, queue);
	if (queue->recv_missing >= xport->recv_batch)
		return -EIO;
	limit_set(xport, queue);
	return 0;
}

/* Of a batch, those before bad are posted; the rest stays missing until the next poll. */
static uint32_t batch_posted(const struct ol_xport *xport, const struct ibv_recv_wr *bad, int rc)
{
	if (rc == 0)
		return xport->recv_batch;
	return bad != NULL ? (uint32_t)(bad - xport->recv_wrs) : 0;
}

/* ol_verbs_recv_refill -- post receives in place of used ones, in whole batches */
void ol_verbs_recv_refill(struct ol_xport *xport, struct ol_verbs_queue *queue)
{
	struct ibv_recv_wr *bad = NULL;

	while (queue->recv_missing >= xport->recv_batch) {
		const int rc = ibv_post_srq_recv(queue->srq, xport->recv_wrs, &bad);
		const uint32_t posted = batch_posted(xport, bad, rc);

		queue->recv_missing -= posted;
		queue->recv_since += posted;
		if (rc != 0)
			return;
	}
}

/* The receives of a batch land in the queue pair's next bells. */
static void bells_aim(const struct ol_verbs_conn *conn)
{
	const struct ol_xport *xport = conn->base.xport;

	for (uint32_t i = 0; i < xport->recv_batch; i++) {
		const uint32_t bell = (conn->recv_next + i) % xport->recv_depth;

		xport->recv_wrs[i].wr_id = OL_VERBS_WR_RECV | bell;
		xport->recv_sges[i].addr = (uintptr_t)&conn->own.bells[bell];
		xport->recv_sges[i].lkey = conn->own.mr->lkey;
	}
}

/* ol_verbs_recv_own -- a queue pair without a shared queue: post its used receives, in batches */
void ol_verbs_recv_own(struct ol_verbs_conn *conn)
{
	struct ol_xport *xport = conn->base.xport;
	struct ibv_recv_wr *bad = NULL;

	while (conn->recv_missing >= xport->recv_batch) {
		uint32_t posted;
		int rc;

		if (conn->own.bells != NULL)
			bells_aim(conn);
		rc = ibv_post_recv(conn->qp, xport->recv_wrs, &bad);
		posted = batch_posted(xport, bad, rc);
		conn->recv_missing -= posted;
		conn->recv_next = (conn->recv_next + posted) % xport->recv_depth;
		if (rc != 0)
			return;
	}
}

/* True if the completion is of conn's queue pair; conn NULL: never. */
static bool wc_is_of(const struct ibv_wc *wc, const struct ol_verbs_conn *conn, uint32_t qp_num)
{
	if (conn == NULL)
		return false;
	if (ol_verbs_wr_is_recv(wc->wr_id))
		return wc->qp_num == qp_num;
	return wc->wr_id >> OL_VERBS_WR_SLOT_SHIFT == conn->slot;
}

/*
 * ol_verbs_wcs_forget -- move the completion queue into wcs, without what is of conn's queue pair
 *
 * wcs has room for all: it is as long as the queue, and a receive is reposted, or a ring entry
 * freed, only after its completion has left wcs.
 */
void ol_verbs_wcs_forget(struct ol_verbs_queue *queue, struct ol_verbs_conn *conn, uint32_t qp_num)
{
	uint32_t kept = 0;
	uint32_t at = queue->wc_head;
	int more;

	do {
		for (; at < queue->wc_count; at++) {
			const struct ibv_wc *wc = &queue->wcs[at];

			if (!wc_is_of(wc, conn, qp_num))
				queue->wcs[kept++] = *wc;
			else if (ol_verbs_wr_is_recv(wc->wr_id))
				queue->recv_missing++;
			else if ((wc->wr_id & OL_VERBS_WR_SEQ_MASK) == OL_VERBS_WR_SEQ_MARKER)
				conn->marker_done = true;
		}
		more = ibv_poll_cq(queue->cq, OL_VERBS_POLL_BATCH, &queue->wcs[kept]);
		at = kept;
		queue->wc_count = kept + (more > 0 ? (uint32_t)more : 0);
	} while (more > 0);
	queue->wc_head = 0;
	queue->wc_count = kept;
}

void ol_verbs_recv_limit(struct ol_xport *xport, struct ol_verbs_queue *queue)
{
	uint64_t known; /* of what was posted when the limit was set: where it is, or may be */
	uint64_t posted;
	uint32_t lost = 0;
	uint32_t back;

	queue->limit_due = false;
	ol_verbs_wcs_forget(queue, NULL, 0);
	known = (uint64_t)queue->recv_missing + queue->recv_since + xport->recv_batch - 1 +
		queue->conns; /* one may be in progress at each queue pair */
	for (uint32_t i = 0; i < queue->wc_count; i++)
		known += ol_verbs_wr_is_recv(queue->wcs[i].wr_id);
	posted = (uint64_t)xport->recv_depth + queue->recv_lent;
	if (known < posted) {
		lost = (uint32_t)(posted - known);
		back = lost < queue->recv_lent ? lost : queue->recv_lent;
		queue->recv_lent -= back;
		queue->recv_missing += lost - back;
	} else if (queue->recv_lent == 0) {
		queue->recv_lent = xport->recv_batch;
		queue->recv_missing += xport->recv_batch;
	}
	ol_verbs_recv_refill(xport, queue);
	limit_set(xport, queue);
	ol_verbs_log_rated(
		xport, OL_VERBS_RATE_RECEIVES, lost != 0 ? OL_XPORT_LOG_WARN : OL_XPORT_LOG_DEBUG,
		"the shared receive queue ran low: %u receives of ended connections were lost, "
		"and are posted again",
		lost);
}
