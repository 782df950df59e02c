/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * probe.c -- what a device grants, and what it lacks
 *
 * Attributes tell little of it: a provider clamps inline data without a word, or refuses it, and
 * says nowhere that it has no write with immediate. So a queue pair is made, and asked.
 */
#include "rdma/verbs/internal.h"

#include <errno.h>
#include <stdio.h>

#include "rdma/slab.h"
#include "rdma/verbs/verbs_rc.h"

enum {
	PROBE_DEPTH = 8, /* of its queues */
	PROBE_BYTES = 4096, /* of a registration that fails */
};

static int numa_node(const struct ibv_device *device)
{
	char path[sizeof(device->ibdev_path) + 32];
	int node = OL_SLAB_NODE_ANY;
	FILE *file;

	snprintf(path, sizeof(path), "%s/device/numa_node", device->ibdev_path);
	file = fopen(path, "re");
	if (file == NULL)
		return OL_SLAB_NODE_ANY;
	if (fscanf(file, "%d", &node) != 1 || node < 0)
		node = OL_SLAB_NODE_ANY;
	fclose(file);
	return node;
}

/* True if a device refuses what it does not have, in place of an object; it may be short of memory. */
static bool is_refusal(int rc)
{
	return rc == -EINVAL || rc == -EOPNOTSUPP || rc == -ENOSYS;
}

static bool is_refused(struct ibv_qp *qp, enum ibv_wr_opcode opcode)
{
	struct ibv_send_wr wr = { .opcode = opcode, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad = NULL;

	return is_refusal(ol_rc_positive(ibv_post_send(qp, &wr, &bad)));
}

/*
 * A queue pair in the error state flushes what is posted, and refuses what it could never do. But
 * some providers refuse every post then (libbnxt_re of some versions): that says nothing of
 * immediates, which all adapters of InfiniBand and RoCE have.
 */
static void posts_ask(struct ol_verbs_lacks *lacks, struct ibv_qp *qp, uint8_t port)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = port };

	lacks->imm = false;
	lacks->late_posts = false;
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) !=
	    0)
		return;
	attr.qp_state = IBV_QPS_ERR;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE) != 0)
		return;
	lacks->late_posts = is_refused(qp, IBV_WR_RDMA_WRITE);
	lacks->imm = !lacks->late_posts && is_refused(qp, IBV_WR_RDMA_WRITE_WITH_IMM);
}

/* With as many bytes inline as it grants: OL_VERBS_INLINE_FLOOR, or less if that is refused. */
static struct ibv_qp *qp_create(struct ol_xport *xport, struct ibv_cq *cq, struct ibv_srq *srq,
				struct ibv_qp_init_attr *ret_attr)
{
	static const uint32_t wanted[] = { OL_VERBS_INLINE_FLOOR, 128, 96, 64, 48, 32, 16, 0 };
	struct ibv_qp *qp = NULL;

	errno = EINVAL;
	for (unsigned i = 0;
	     qp == NULL && is_refusal(-errno) && i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		*ret_attr = (struct ibv_qp_init_attr){
			.send_cq = cq,
			.recv_cq = cq,
			.srq = srq,
			.qp_type = IBV_QPT_RC,
			.cap = {
				.max_send_wr = PROBE_DEPTH,
				.max_recv_wr = srq == NULL ? PROBE_DEPTH : 0,
				.max_send_sge = xport->lacks.gather ? 1 : OL_XPORT_SEGS_MAX,
				.max_recv_sge = srq == NULL ? 1 : 0,
				.max_inline_data = wanted[i],
			},
		};
		errno = 0;
		qp = ibv_create_qp(xport->pd, ret_attr);
	}
	return qp;
}

static int qp_ask(struct ol_xport *xport, uint8_t port, struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr;
	struct ibv_qp *qp = qp_create(xport, cq, srq, &attr);
	const int rc = ol_rc_null(qp);

	if (rc != 0) {
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
			     "device %s: no queue pair can be made: error %d",
			     ibv_get_device_name(xport->ctx->device), -rc);
		return rc;
	}
	xport->lacks.inline_granted = attr.cap.max_inline_data;
	xport->caps.write_in_order =
		(ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0) & 1) != 0;
	posts_ask(&xport->lacks, qp, port);
	ibv_destroy_qp(qp);
	return 0;
}

static int objects_ask(struct ol_xport *xport, uint8_t port)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	int rc;

	errno = 0;
	cq = ibv_create_cq(xport->ctx, 2 * PROBE_DEPTH, NULL, NULL, 0);
	rc = ol_rc_null(cq);
	if (rc != 0) {
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
			     "device %s: no completion queue can be made: error %d",
			     ibv_get_device_name(xport->ctx->device), -rc);
		return rc;
	}
	errno = 0;
	srq = ibv_create_srq(xport->pd, &srq_attr);
	rc = ol_rc_null(srq);
	xport->lacks.srq = is_refusal(rc);
	if (rc == 0 || xport->lacks.srq)
		rc = qp_ask(xport, port, cq, srq);
	if (srq != NULL)
		ibv_destroy_srq(srq);
	ibv_destroy_cq(cq);
	return rc;
}

/* A driver that takes dma-bufs looks for the one behind a descriptor; so it says that -1 is none. */
static bool dmabuf_ask(struct ibv_pd *pd)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_dmabuf_mr(pd, 0, PROBE_BYTES, 0, -1, IBV_ACCESS_LOCAL_WRITE);
	if (mr != NULL)
		ibv_dereg_mr(mr);
	return mr == NULL && errno == EBADF;
}

int ol_verbs_probe(struct ol_xport *xport, uint8_t port)
{
	struct ol_verbs_lacks *lacks = &xport->lacks;
	struct ibv_device_attr attr;
	struct ibv_port_attr port_attr;
	int rc;

	rc = ol_rc_positive(ibv_query_device(xport->ctx, &attr));
	if (rc != 0)
		return rc;
	lacks->gather = attr.max_sge > 0 && attr.max_sge < OL_XPORT_SEGS_MAX;
	lacks->scatter =
		lacks->gather || (attr.max_sge_rd > 0 && attr.max_sge_rd < OL_XPORT_SEGS_MAX);
	rc = objects_ask(xport, port);
	if (rc != 0)
		return rc;
	/* A sent doorbell lands in memory of its connection's domain, a shared receive has another. */
	lacks->srq = lacks->srq || lacks->imm;
	xport->pieces_max = 1U + lacks->scatter + lacks->imm;
	xport->caps.inline_max = OL_VERBS_INLINE_FLOOR; /* bounces hold no more */
	if (!lacks->gather && lacks->inline_granted > OL_VERBS_INLINE_FLOOR)
		xport->caps.inline_max = lacks->inline_granted;
	xport->caps.inflight_max = xport->opts.inflight_max;
	xport->caps.fence_keeps = 1;
	xport->caps.foreign = dmabuf_ask(xport->pd);
	xport->caps.numa_node = numa_node(xport->ctx->device);
	rc = ol_rc_positive(ibv_query_port(xport->ctx, port, &port_attr));
	xport->caps.write_max = port_attr.max_msg_sz;
	return rc;
}
