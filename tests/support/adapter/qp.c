/* SPDX-License-Identifier: BSD-3-Clause */

/* qp.c -- queue pairs and shared receive queues: what is granted, what their end takes along */
#include "support/adapter/adapter.h"

#include <errno.h>

enum {
	ECE_VENDOR = 0x15b3,
	ECE_OPTIONS = 0x30000003
};

static bool over(int64_t limit, uint64_t value)
{
	return limit != AD_NONE && value > (uint64_t)limit;
}

/*
 * Inline data. bnxt_re has BNXT_RE_MAX_INLINE_SIZE 96, irdma 101 and refuses more in
 * irdma_ucreate_qp(), siw SIW_MAX_INLINE 80; get_max_inline_data() of hns grants what there is
 * without a word.
 */
static bool inline_grant(struct ibv_qp_cap *cap)
{
	if (!over(ad_set.inline_max, cap->max_inline_data))
		return true;
	cap->max_inline_data = (uint32_t)ad_set.inline_max;
	return !ad_set.inline_refuse;
}

static void depth_grow(struct ibv_qp_cap *cap)
{
	if (ad_set.pieces)
		cap->max_send_wr *= AD_PIECES_MAX;
}

static struct ibv_qp *qp_make(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	const struct ad_ctx *ctx = ad_ctx_find(pd->context);
	struct ibv_qp_init_attr below = *attr;
	struct ibv_qp *ibv_qp;
	struct ad_qp *qp;

	errno = ctx != NULL && ctx->dead ? EIO : EINVAL;
	if (errno == EIO || over(ad_set.sge_max, attr->cap.max_send_sge) ||
	    !inline_grant(&below.cap))
		return NULL;
	depth_grow(&below.cap);
	ibv_qp = ad_real.create_qp(pd, &below);
	if (ibv_qp == NULL)
		return NULL;
	if (over(ad_set.inline_max, below.cap.max_inline_data))
		below.cap.max_inline_data = (uint32_t)ad_set.inline_max;
	if (over(ad_set.sge_max, below.cap.max_send_sge))
		below.cap.max_send_sge = (uint32_t)ad_set.sge_max;
	if (ad_set.pieces)
		below.cap.max_send_wr = attr->cap.max_send_wr;
	attr->cap = below.cap;
	qp = ad_qp_add(ibv_qp);
	qp->has_srq = attr->srq != NULL;
	qp->ece = ECE_OPTIONS;
	qp->inline_max = attr->cap.max_inline_data;
	qp->sge_max = attr->cap.max_send_sge;
	return ibv_qp;
}

AD_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp;

	ad_lock();
	qp = qp_make(pd, attr);
	ad_unlock();
	return qp;
}

static void cqs_end(struct ibv_cq *send_cq, struct ibv_cq *recv_cq, uint32_t qp_num)
{
	struct ad_cq *cqs[] = { ad_cq_find(send_cq), ad_cq_find(recv_cq) };

	for (unsigned i = 0; i < 2; i++) {
		if (ad_set.clean || ad_send_translates())
			ad_cq_fill(cqs[i]);
		if (ad_set.clean)
			ad_cq_clean(cqs[i], qp_num);
	}
}

AD_EXPORT int ibv_destroy_qp(struct ibv_qp *ibv_qp)
{
	struct ibv_cq *send_cq = ibv_qp->send_cq;
	struct ibv_cq *recv_cq = ibv_qp->recv_cq;
	const uint32_t qp_num = ibv_qp->qp_num;
	struct ad_qp *qp;
	int rc;

	ad_lock();
	qp = ad_qp_find(ibv_qp);
	if (qp != NULL)
		ad_device_events_drop(qp);
	rc = ad_real.destroy_qp(ibv_qp);
	if (rc == 0 && qp != NULL) {
		if (qp->connected)
			ad_cm_qp_gone();
		cqs_end(send_cq, recv_cq, qp_num);
		ad_qp_forget(qp);
	}
	ad_unlock();
	return rc;
}

int ad_modify_qp(struct ad_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return ad_real.modify_qp(qp->qp, &attr, IBV_QP_STATE);
}

static int qp_change(struct ad_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	const bool moves = (mask & IBV_QP_STATE) != 0;
	const enum ibv_qp_state to = attr->qp_state;
	int rc;

	if (qp->ctx->dead)
		return EIO;
	/* more reads at once than the device takes: mlx5_ib_modify_qp() in the kernel's qp.c */
	if (((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0 &&
	     over(ad_set.rd_atomic, attr->max_dest_rd_atomic)) ||
	    ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0 && over(ad_set.rd_atomic, attr->max_rd_atomic)))
		return EINVAL;
	if (moves && qp->moved && (to == IBV_QPS_RTR || to == IBV_QPS_RTS))
		return 0;
	if (moves && (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && !ad_set.unsent)))
		ad_send_flush(qp);
	rc = ad_real.modify_qp(qp->qp, attr, mask);
	if (rc == 0 && moves && to == IBV_QPS_ERR)
		ad_send_flush(qp); /* what was not sent is flushed */
	if (rc != 0 || !moves)
		return rc;
	if (to == IBV_QPS_RTS)
		qp->connected = true;
	if (to == IBV_QPS_ERR)
		ad_last_wqe_reached(qp);
	if (to == IBV_QPS_RESET)
		cqs_end(qp->qp->send_cq, qp->qp->recv_cq, qp->qp_num);
	return 0;
}

AD_EXPORT int ibv_modify_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct ad_qp *qp;
	int rc;

	ad_lock();
	qp = ad_qp_find(ibv_qp);
	if (qp == NULL)
		rc = ad_real.modify_qp(ibv_qp, attr, attr_mask);
	else
		rc = qp_change(qp, attr, attr_mask);
	ad_unlock();
	return rc;
}

/*
 * No shared receive queue: irdma sets its functions only with IRDMA_FEATURE_SRQ, which the second
 * generation lacks (providers/irdma/umain.c); libibverbs then gives EOPNOTSUPP. Or a small one.
 */
AD_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	const struct ad_ctx *ctx;
	struct ibv_srq *srq = NULL;

	ad_lock();
	ctx = ad_ctx_find(pd->context);
	if (ad_set.no_srq)
		errno = EOPNOTSUPP;
	else if (over(ad_set.srq_max, attr->attr.max_wr))
		errno = EINVAL;
	else if (ctx != NULL && ctx->dead)
		errno = EIO;
	else
		srq = ad_real.create_srq(pd, attr);
	ad_unlock();
	return srq;
}

/*
 * Enhanced connection establishment: mlx5_query_ece() and mlx5_set_ece() in
 * providers/mlx5/verbs.c. A queue pair offers options of its vendor; only some of them can be
 * agreed upon, and another vendor's are refused. See ibv_query_ece(3) and rdma_set_local_ece(3).
 */
AD_EXPORT int ibv_query_ece(struct ibv_qp *ibv_qp, struct ibv_ece *ece)
{
	const struct ad_qp *qp;

	ad_lock();
	qp = ad_qp_find(ibv_qp);
	*ece = (struct ibv_ece){ .vendor_id = 0 };
	if (ad_set.ece && qp != NULL)
		*ece = (struct ibv_ece){ .vendor_id = ECE_VENDOR, .options = qp->ece };
	ad_unlock();
	return ad_set.ece ? 0 : ad_real.query_ece(ibv_qp, ece);
}

AD_EXPORT int ibv_set_ece(struct ibv_qp *ibv_qp, struct ibv_ece *ece)
{
	struct ad_qp *qp;
	int rc = 0;

	if (!ad_set.ece)
		return ad_real.set_ece(ibv_qp, ece);
	ad_lock();
	qp = ad_qp_find(ibv_qp);
	if (ece->vendor_id != 0 && ece->vendor_id != ECE_VENDOR)
		rc = EINVAL;
	else if (qp != NULL)
		qp->ece = ece->vendor_id != 0 ? ece->options & ECE_OPTIONS : 0;
	ad_unlock();
	return rc;
}
