/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * receives.c -- the shared queue's receives: none is lost, whatever the adapter does at an end
 *
 * Every doorbell of every peer uses up one receive of the shared queue. poll() counts it as missing
 * when it handles the completion, and posts the missing ones back in batches. A receive that is
 * never counted is never posted back: if that happens srq_depth times, no doorbell arrives any more.
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
static void limit_set(struct ol_xport *xport)
{
	struct ibv_srq_attr attr = { .srq_limit = xport->recv_batch };
	const int rc = ol_rc_positive(ibv_modify_srq(xport->srq, &attr, IBV_SRQ_LIMIT));

	xport->recv_since = 0;
	if (rc != 0)
		ol_xport_log(&xport->opts, OL_XPORT_LOG_DEBUG,
			     "the shared receive queue has no limit event: error %d", -rc);
}

int ol_verbs_recvs_create(struct ol_xport *xport)
{
	xport->recv_wrs = calloc(xport->recv_batch, sizeof(*xport->recv_wrs));
	if (xport->recv_wrs == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < xport->recv_batch; i++) {
		xport->recv_wrs[i].wr_id = OL_VERBS_WR_RECV;
		if (i + 1 < xport->recv_batch)
			xport->recv_wrs[i].next = &xport->recv_wrs[i + 1];
	}
	xport->recv_missing = xport->srq_depth;
	xport->recv_lent = 0;
	ol_verbs_recv_refill(xport);
	if (xport->recv_missing >= xport->recv_batch)
		return -EIO;
	limit_set(xport);
	return 0;
}

/* ol_verbs_recv_refill -- post receives in place of used ones, in whole batches */
void ol_verbs_recv_refill(struct ol_xport *xport)
{
	struct ibv_recv_wr *bad = NULL;
	uint32_t posted;

	while (xport->recv_missing >= xport->recv_batch) {
		const int rc = ibv_post_srq_recv(xport->srq, xport->recv_wrs, &bad);

		/* Those before bad are posted; the rest stays missing until the next poll. */
		posted = rc == 0       ? xport->recv_batch
			 : bad != NULL ? (uint32_t)(bad - xport->recv_wrs)
				       : 0;
		xport->recv_missing -= posted;
		xport->recv_since += posted;
		if (rc != 0)
			return;
	}
}

/* True if the completion is of conn's queue pair; conn NULL: never. */
static bool wc_is_of(const struct ibv_wc *wc, const struct ol_verbs_conn *conn, uint32_t qp_num)
{
	if (conn == NULL)
		return false;
	if (wc->wr_id == OL_VERBS_WR_RECV)
		return wc->qp_num == qp_num;
	return wc->wr_id >> OL_VERBS_WR_SLOT_SHIFT == conn->slot;
}

/*
 * ol_verbs_wcs_forget -- move the completion queue into wcs, without what is of conn's queue pair
 *
 * wcs has room for all: it is as long as the queue, and a receive is reposted, or a ring entry
 * freed, only after its completion has left wcs.
 */
void ol_verbs_wcs_forget(struct ol_xport *xport, struct ol_verbs_conn *conn, uint32_t qp_num)
{
	uint32_t kept = 0;
	uint32_t at = xport->wc_head;
	int more;

	do {
		for (; at < xport->wc_count; at++) {
			const struct ibv_wc *wc = &xport->wcs[at];

			if (!wc_is_of(wc, conn, qp_num))
				xport->wcs[kept++] = *wc;
			else if (wc->wr_id == OL_VERBS_WR_RECV)
				xport->recv_missing++;
			else if ((wc->wr_id & OL_VERBS_WR_SEQ_MASK) == OL_VERBS_WR_SEQ_MARKER)
				conn->marker_done = true;
		}
		more = ibv_poll_cq(xport->cq, OL_VERBS_POLL_BATCH, &xport->wcs[kept]);
		at = kept;
		xport->wc_count = kept + (more > 0 ? (uint32_t)more : 0);
	} while (more > 0);
	xport->wc_head = 0;
	xport->wc_count = kept;
}

/* Receives that may be in progress: one a queue pair. */
static uint32_t qps_count(const struct ol_xport *xport)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < xport->opts.conns_max; i++)
		count += xport->slots[i] != NULL && xport->slots[i]->qp != NULL;
	return count;
}

void ol_verbs_recv_limit(struct ol_xport *xport)
{
	uint64_t known; /* of what was posted when the limit was set: where it is, or may be */
	uint64_t posted;
	uint32_t lost = 0;
	uint32_t back;

	ol_verbs_wcs_forget(xport, NULL, 0);
	known = (uint64_t)xport->recv_missing + xport->recv_since + xport->recv_batch - 1 +
		qps_count(xport);
	for (uint32_t i = 0; i < xport->wc_count; i++)
		known += xport->wcs[i].wr_id == OL_VERBS_WR_RECV;
	posted = (uint64_t)xport->srq_depth + xport->recv_lent;
	if (known < posted) {
		lost = (uint32_t)(posted - known);
		back = lost < xport->recv_lent ? lost : xport->recv_lent;
		xport->recv_lent -= back;
		xport->recv_missing += lost - back;
	} else if (xport->recv_lent == 0) {
		xport->recv_lent = xport->recv_batch;
		xport->recv_missing += xport->recv_batch;
	}
	ol_verbs_recv_refill(xport);
	limit_set(xport);
	ol_xport_log(
		&xport->opts, lost != 0 ? OL_XPORT_LOG_WARN : OL_XPORT_LOG_DEBUG,
		"the shared receive queue ran low: %u receives of ended connections were lost, "
		"and are posted again",
		lost);
}
