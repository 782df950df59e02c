/* SPDX-License-Identifier: BSD-3-Clause */

/* wrap_verbs.c -- as wrap.c, for calls of libibverbs and librdmacm */

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>

#include "nth/frame/fail.h"
#include "support/wrap.h"

/* What verbs.h calls through the context, no linker sees: it is put there when a device is
 * opened. */
static struct ibv_context_ops given;

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **ret_bad)
{
	if (!fail_now(FAIL_IBV_POST_SRQ_RECV))
		return given.post_srq_recv(srq, wr, ret_bad);
	*ret_bad = wr;
	return ENOMEM;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **ret_bad)
{
	if (!fail_now(FAIL_IBV_POST_SEND))
		return given.post_send(qp, wr, ret_bad);
	*ret_bad = wr;
	return ENOMEM;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return fail_now(FAIL_IBV_REQ_NOTIFY_CQ) ? EIO : given.req_notify_cq(cq, solicited_only);
}

WRAP(struct ibv_context *, ibv_open_device, struct ibv_device *device)
{
	struct ibv_context *ctx =
		fail_now(FAIL_IBV_OPEN_DEVICE) ? NULL : __real_ibv_open_device(device);

	if (ctx == NULL)
		return NULL;
	given = ctx->ops;
	ctx->ops.post_srq_recv = post_srq_recv;
	ctx->ops.post_send = post_send;
	ctx->ops.req_notify_cq = req_notify_cq;
	return ctx;
}

WRAP(struct ibv_device **, ibv_get_device_list, int *ret_count)
{
	if (fail_now(FAIL_IBV_GET_DEVICE_LIST))
		return NULL;
	return __real_ibv_get_device_list(ret_count);
}

WRAP(int, ibv_query_device, struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	if (fail_now(FAIL_IBV_QUERY_DEVICE))
		return EIO;
	return __real_ibv_query_device(ctx, attr);
}

#undef ibv_query_port
WRAP(int, ibv_query_port, struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	return fail_now(FAIL_IBV_QUERY_PORT) ? EIO : __real_ibv_query_port(ctx, port, attr);
}

WRAP(int, ibv_query_qp, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
     struct ibv_qp_init_attr *init_attr)
{
	if (fail_now(FAIL_IBV_QUERY_QP))
		return EIO;
	return __real_ibv_query_qp(qp, attr, mask, init_attr);
}

WRAP(struct ibv_pd *, ibv_alloc_pd, struct ibv_context *ctx)
{
	if (fail_now(FAIL_IBV_ALLOC_PD))
		return NULL;
	return __real_ibv_alloc_pd(ctx);
}

WRAP(struct ibv_mr *, ibv_reg_mr_iova2, struct ibv_pd *pd, void *at, size_t bytes, uint64_t iova,
     unsigned access)
{
	if (fail_now(FAIL_IBV_REG_MR))
		return NULL;
	return __real_ibv_reg_mr_iova2(pd, at, bytes, iova, access);
}

#undef ibv_reg_mr
WRAP(struct ibv_mr *, ibv_reg_mr, struct ibv_pd *pd, void *at, size_t bytes, int access)
{
	return fail_now(FAIL_IBV_REG_MR) ? NULL : __real_ibv_reg_mr(pd, at, bytes, access);
}

WRAP(struct ibv_comp_channel *, ibv_create_comp_channel, struct ibv_context *ctx)
{
	if (fail_now(FAIL_IBV_CREATE_COMP_CHANNEL))
		return NULL;
	return __real_ibv_create_comp_channel(ctx);
}

WRAP(struct ibv_cq *, ibv_create_cq, struct ibv_context *ctx, int entries, void *cq_context,
     struct ibv_comp_channel *channel, int vector)
{
	if (fail_now(FAIL_IBV_CREATE_CQ))
		return NULL;
	return __real_ibv_create_cq(ctx, entries, cq_context, channel, vector);
}

WRAP(struct ibv_srq *, ibv_create_srq, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	if (fail_now(FAIL_IBV_CREATE_SRQ))
		return NULL;
	return __real_ibv_create_srq(pd, attr);
}

WRAP(struct ibv_qp *, ibv_create_qp, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (fail_now(FAIL_IBV_CREATE_QP))
		return NULL;
	return __real_ibv_create_qp(pd, attr);
}

WRAP(int, ibv_modify_qp, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (fail_now(FAIL_IBV_MODIFY_QP))
		return EINVAL;
	return __real_ibv_modify_qp(qp, attr, mask);
}

WRAP(struct rdma_event_channel *, rdma_create_event_channel, void)
{
	if (fail_now(FAIL_RDMA_CREATE_EVENT_CHANNEL))
		return NULL;
	return __real_rdma_create_event_channel();
}

WRAP(int, rdma_create_id, struct rdma_event_channel *channel, struct rdma_cm_id **ret_id,
     void *context, enum rdma_port_space space)
{
	if (fail_now(FAIL_RDMA_CREATE_ID))
		return -1;
	return __real_rdma_create_id(channel, ret_id, context, space);
}

WRAP(int, rdma_bind_addr, struct rdma_cm_id *id, struct sockaddr *at)
{
	if (fail_now(FAIL_RDMA_BIND_ADDR))
		return -1;
	return __real_rdma_bind_addr(id, at);
}

WRAP(int, rdma_listen, struct rdma_cm_id *id, int backlog)
{
	if (fail_now(FAIL_RDMA_LISTEN))
		return -1;
	return __real_rdma_listen(id, backlog);
}

WRAP(int, rdma_resolve_addr, struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
     int timeout_ms)
{
	if (fail_now(FAIL_RDMA_RESOLVE_ADDR))
		return -1;
	return __real_rdma_resolve_addr(id, from, to, timeout_ms);
}

WRAP(int, rdma_resolve_route, struct rdma_cm_id *id, int timeout_ms)
{
	if (fail_now(FAIL_RDMA_RESOLVE_ROUTE))
		return -1;
	return __real_rdma_resolve_route(id, timeout_ms);
}

WRAP(int, rdma_init_qp_attr, struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *ret_mask)
{
	if (fail_now(FAIL_RDMA_INIT_QP_ATTR))
		return -1;
	return __real_rdma_init_qp_attr(id, attr, ret_mask);
}

WRAP(int, rdma_connect, struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	if (fail_now(FAIL_RDMA_CONNECT))
		return -1;
	return __real_rdma_connect(id, param);
}

WRAP(int, rdma_accept, struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	if (fail_now(FAIL_RDMA_ACCEPT))
		return -1;
	return __real_rdma_accept(id, param);
}

WRAP(int, rdma_establish, struct rdma_cm_id *id)
{
	if (fail_now(FAIL_RDMA_ESTABLISH))
		return -1;
	return __real_rdma_establish(id);
}

WRAP(int, rdma_reject, struct rdma_cm_id *id, const void *priv, uint8_t bytes)
{
	if (fail_now(FAIL_RDMA_REJECT))
		return -1;
	return __real_rdma_reject(id, priv, bytes);
}

WRAP(int, rdma_disconnect, struct rdma_cm_id *id)
{
	if (fail_now(FAIL_RDMA_DISCONNECT))
		return -1;
	return __real_rdma_disconnect(id);
}

WRAP(int, rdma_get_cm_event, struct rdma_event_channel *channel, struct rdma_cm_event **ret_event)
{
	if (fail_now(FAIL_RDMA_GET_CM_EVENT))
		return -1;
	return __real_rdma_get_cm_event(channel, ret_event);
}
