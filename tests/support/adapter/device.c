/* SPDX-License-Identifier: BSD-3-Clause */

/* device.c -- devices: their limits, their asynchronous events, their registrations, their death */
#include "support/adapter/adapter.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The library's own are macros in front of functions. */
#undef ibv_reg_mr
#undef ibv_query_port

enum {
	ARGUMENTS_MAX = 4096 /* bytes of a command line that are looked at */
};

static int64_t posts_count;
static int64_t mrs_count;

static void ops_replace(struct ad_ctx *ctx)
{
	struct verbs_context *verbs = verbs_get_ctx(ctx->ctx);

	ctx->ops = ctx->ctx->ops;
	ctx->ctx->ops.poll_cq = ad_poll_cq;
	ctx->ctx->ops.req_notify_cq = ad_req_notify_cq;
	ctx->ctx->ops.post_send = ad_post_send;
	ctx->ctx->ops.post_recv = ad_post_recv;
	ctx->ctx->ops.post_srq_recv = ad_post_srq_recv;
	if (verbs == NULL)
		return;
	ctx->query_port = verbs->query_port;
	verbs->query_port = ad_query_port;
}

static void device_event(struct ad_ctx *ctx, enum ibv_event_type type, uint64_t after_ms)
{
	const struct ad_event event = { .async = { .element.port_num = 1, .event_type = type } };

	ad_later_add(&ctx->async, &event, after_ms);
}

AD_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *ibv_ctx = ad_real.open_device(device);
	struct ad_ctx *ctx;

	if (ibv_ctx == NULL)
		return NULL;
	ctx = calloc(1, sizeof(*ctx));
	if (ctx == NULL)
		abort();
	ctx->ctx = ibv_ctx;
	ad_lock();
	if (ad_later_open(&ctx->async, ibv_ctx->async_fd) != 0)
		abort();
	ctx->next = ad_ctxs;
	ad_ctxs = ctx;
	ops_replace(ctx);
	if (ad_set.port_ms > 0)
		device_event(ctx, IBV_EVENT_PORT_ERR, (uint64_t)ad_set.port_ms);
	ad_unlock();
	return ibv_ctx;
}

AD_EXPORT int ibv_close_device(struct ibv_context *context)
{
	struct ad_ctx **at = &ad_ctxs;

	ad_lock();
	while (*at != NULL && (*at)->ctx != context)
		at = &(*at)->next;
	if (*at != NULL) {
		struct ad_ctx *ctx = *at;

		*at = ctx->next;
		ad_later_close(&ctx->async);
		free(ctx);
	}
	ad_unlock();
	return ad_real.close_device(context);
}

static void limit(int *value, int64_t max)
{
	if (max != AD_NONE && *value > max)
		*value = (int)max;
}

AD_EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	int rc = ad_real.query_device(context, attr);

	if (rc != 0)
		return rc;
	limit(&attr->max_sge, ad_set.sge_max);
	limit(&attr->max_srq_sge, ad_set.sge_max);
	limit(&attr->max_sge_rd, ad_set.sge_max);
	limit(&attr->max_sge_rd, ad_set.sge_read_max);
	limit(&attr->max_srq_wr, ad_set.no_srq ? 0 : ad_set.srq_max);
	limit(&attr->max_srq, ad_set.no_srq ? 0 : AD_NONE);
	limit(&attr->max_qp_rd_atom, ad_set.rd_atomic);
	limit(&attr->max_qp_init_rd_atom, ad_set.rd_atomic);
	limit(&attr->max_mr, ad_set.mr_max);
	if (ad_set.reg_max != AD_NONE)
		attr->max_mr_size = (uint64_t)ad_set.reg_max;
	return 0;
}

int ad_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		  size_t attr_bytes)
{
	const struct ad_ctx *ctx;
	int rc;

	ad_lock();
	ctx = ad_ctx_find(context);
	rc = ctx->query_port(context, port, attr, attr_bytes);
	if (rc == 0 && ctx->port_down) {
		attr->state = IBV_PORT_DOWN;
		attr->phys_state = 3; /* disabled */
	}
	ad_unlock();
	return rc;
}

/* Is this a word of the program's command line? */
static bool is_argument(const char *word)
{
	const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	char words[ARGUMENTS_MAX] = "";
	const ssize_t bytes = fd >= 0 ? read(fd, words, sizeof(words) - 1) : 0;

	if (fd >= 0)
		close(fd);
	for (ssize_t at = 0; at < bytes; at += (ssize_t)strlen(&words[at]) + 1) {
		if (strcmp(&words[at], word) == 0)
			return true;
	}
	return false;
}

/*
 * Of the processes of a job one dies, which OL_ADAPTER_VICTIM names by a word of its command line.
 * A supervisor's next program must not die as well: OL_ADAPTER_ONCE names a file that says so.
 */
static bool may_die(void)
{
	const char *path = getenv("OL_ADAPTER_ONCE");
	const char *victim = getenv("OL_ADAPTER_VICTIM");
	int fd;

	if (victim != NULL && !is_argument(victim))
		return false;
	if (path == NULL)
		return true;
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	close(fd);
	return true;
}

static void qp_die(struct ad_qp *qp, void *ctx)
{
	if (qp->ctx == ctx)
		ad_modify_qp(qp, IBV_QPS_ERR);
}

/*
 * The device dies: mlx5_enter_error_state() of drivers/net/ethernet/mellanox/mlx5/core/health.c.
 * The event comes, commands give EIO, and no completion comes again. With "removed" the connection
 * manager says of each identifier that its device goes: cma_remove_one() in the kernel's cma.c.
 */
static void device_die(struct ad_ctx *ctx)
{
	if (ctx->dead || !may_die())
		return;
	ad_qps_each(qp_die, ctx);
	ctx->dead = true;
	device_event(ctx, IBV_EVENT_DEVICE_FATAL, 0);
	if (ad_set.device_lost)
		ad_cm_removed();
}

static void qp_event(struct ad_qp *qp, enum ibv_event_type type, uint64_t after_ms)
{
	const struct ad_event event = { .async = { .element.qp = qp->qp, .event_type = type } };

	ad_later_add(&qp->ctx->async, &event, after_ms);
}

void ad_post_counted(struct ad_ctx *ctx, struct ad_qp *qp)
{
	posts_count++;
	if (posts_count == ad_set.fatal_posts)
		device_die(ctx);
	if (posts_count == ad_set.migrate_posts) /* ibv_get_async_event(3): IBV_EVENT_PATH_MIG */
		qp_event(qp, IBV_EVENT_PATH_MIG, 0);
}

/*
 * The last receive of a queue pair with a shared queue: IBTA volume 1, 11.6.3.4 and
 * ibv_get_async_event(3). Adapters say it from their firmware, some time after the state has
 * changed (mlx5_ib_qp_event(), hns_roce_ib_qp_event(), bnxt_re_handle_qp_async_event()); rdma_rxe
 * and siw never do.
 */
void ad_last_wqe_reached(struct ad_qp *qp)
{
	if (!qp->has_srq || qp->last_wqe_said || qp->ctx->dead)
		return;
	qp->last_wqe_said = true;
	if (ad_set.last_wqe == AD_LAST_WQE_NOW)
		qp_event(qp, IBV_EVENT_QP_LAST_WQE_REACHED, 0);
	else if (ad_set.last_wqe == AD_LAST_WQE_LATE)
		qp_event(qp, IBV_EVENT_QP_LAST_WQE_REACHED, AD_LATE_MS);
}

static bool event_is_of_qp(enum ibv_event_type type)
{
	return type == IBV_EVENT_QP_LAST_WQE_REACHED || type == IBV_EVENT_PATH_MIG;
}

static bool event_matches(const struct ad_event *event, const void *object)
{
	const struct ad_qp *qp = object;

	return event_is_of_qp(event->async.event_type) && event->async.element.qp == qp->qp;
}

void ad_device_events_drop(struct ad_qp *qp)
{
	ad_later_drop(&qp->ctx->async, event_matches, qp);
}

/* What the program is told changes what it finds. */
static void event_told(struct ad_ctx *ctx, const struct ibv_async_event *event)
{
	struct ad_qp *qp;

	if (event->event_type == IBV_EVENT_PORT_ERR || event->event_type == IBV_EVENT_PORT_ACTIVE) {
		ctx->port_down = event->event_type == IBV_EVENT_PORT_ERR;
		device_event(ctx, ctx->port_down ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR,
			     (uint64_t)ad_set.port_ms);
	}
	if (!event_is_of_qp(event->event_type))
		return;
	qp = ad_qp_find(event->element.qp);
	if (qp != NULL)
		qp->injected++;
}

static bool own_take(struct ad_ctx *ctx, struct ibv_async_event *event)
{
	struct ad_event *own;

	ad_lock();
	own = ad_later_take(&ctx->async);
	if (own != NULL) {
		*event = own->async;
		event_told(ctx, event);
	}
	ad_unlock();
	free(own);
	return own != NULL;
}

AD_EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct ad_ctx *ctx;
	int ready;
	int rc;

	ad_lock();
	ctx = ad_ctx_find(context);
	ad_unlock();
	if (ctx == NULL)
		return ad_real.get_async_event(context, event);
	for (;;) {
		if (own_take(ctx, event))
			return 0;
		ready = ad_later_wait(&ctx->async);
		if (ready < 0) {
			errno = EAGAIN;
			return -1;
		}
		if (ready == 0)
			continue;
		rc = ad_real.get_async_event(context, event);
		if (rc != 0 || event->event_type != IBV_EVENT_QP_LAST_WQE_REACHED ||
		    ad_set.last_wqe == AD_LAST_WQE_REAL)
			return rc;
		ad_real.ack_async_event(event);
	}
}

AD_EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ad_qp *qp = NULL;

	ad_lock();
	if (event_is_of_qp(event->event_type))
		qp = ad_qp_find(event->element.qp);
	if (qp != NULL && qp->injected > 0)
		qp->injected--;
	else
		ad_real.ack_async_event(event);
	ad_unlock();
}

int ad_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	const struct ad_ctx *ctx;
	int rc = EIO;

	ad_lock();
	ctx = ad_ctx_find(qp->context);
	if (ctx->dead)
		*bad = wr;
	else
		rc = ctx->ops.post_recv(qp, wr, bad);
	ad_unlock();
	return rc;
}

int ad_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	const struct ad_ctx *ctx;
	int rc = EIO;

	ad_lock();
	ctx = ad_ctx_find(srq->context);
	if (ctx->dead)
		*bad = wr;
	else
		rc = ctx->ops.post_srq_recv(srq, wr, bad);
	ad_unlock();
	return rc;
}

/* max_mr_size and max_mr of ibv_query_device(3) are kept, and a dead device registers nothing. */
static bool reg_allowed(const struct ibv_pd *pd, size_t bytes)
{
	const struct ad_ctx *ctx = ad_ctx_find(pd->context);

	errno = ctx != NULL && ctx->dead ? EIO : ENOMEM;
	return errno != EIO && (ad_set.reg_max == AD_NONE || bytes <= (uint64_t)ad_set.reg_max) &&
	       (ad_set.mr_max == AD_NONE || mrs_count < ad_set.mr_max);
}

AD_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
					  uint64_t iova, unsigned int access)
{
	struct ibv_mr *mr = NULL;

	ad_lock();
	if (reg_allowed(pd, length))
		mr = ad_real.reg_mr_iova2(pd, addr, length, iova, access);
	mrs_count += mr != NULL;
	ad_unlock();
	return mr;
}

/* libibverbs does the same: the other one is called by it, or by the program. */
AD_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

AD_EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	int rc = ad_dereg_mr(mr);

	ad_lock();
	mrs_count -= rc == 0;
	ad_unlock();
	return rc;
}
