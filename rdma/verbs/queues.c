/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * queues.c -- the device: finding it, and the queues that connections share
 *
 * A device bounds the depth of a queue, so one queue has room for so many connections, and the
 * transport opens another when these are there. With inflight_max 256 and doorbells_max 64 a queue
 * of rdma_rxe (32,767 completions) takes about 90 connections.
 *
 * With several devices and none named, the transport takes the first. The first listen() or
 * connect() may still change that, as long as nothing depends on the device.
 */
#include "rdma/verbs/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "rdma/fds.h"
#include "rdma/slab.h"
#include "rdma/verbs/verbs_rc.h"

static bool port_active(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *ret_attr)
{
	return ibv_query_port(ctx, port, ret_attr) == 0 && ret_attr->state == IBV_PORT_ACTIVE;
}

/* The first active port; 0: none. */
static uint8_t port_find(struct ibv_context *ctx)
{
	struct ibv_device_attr attr;
	struct ibv_port_attr port_attr;

	if (ibv_query_device(ctx, &attr) != 0)
		return 0;
	for (uint8_t port = 1; port != 0 && port <= attr.phys_port_cnt; port++) {
		if (port_active(ctx, port, &port_attr))
			return port;
	}
	return 0;
}

int ol_verbs_device_find(const char *device, struct ibv_context **ret_ctx, uint8_t *ret_port,
			 char *why, size_t why_bytes)
{
	struct ibv_device **list;
	struct ibv_context *ctx;
	int count = 0;
	uint8_t port;

	list = ibv_get_device_list(&count);
	if (list == NULL || count == 0) {
		snprintf(why, why_bytes, "no RDMA device; outlast doctor says what is missing");
		if (list != NULL)
			ibv_free_device_list(list);
		return -ENODEV;
	}
	snprintf(why, why_bytes, device != NULL ? "no RDMA device %s" : "no RDMA device opens%.0s",
		 device != NULL ? device : "");
	for (int i = 0; i < count; i++) {
		const char *name = ibv_get_device_name(list[i]);

		if (device != NULL && strcmp(name, device) != 0)
			continue;
		ctx = ibv_open_device(list[i]);
		if (ctx == NULL) {
			snprintf(why, why_bytes, "RDMA device %s cannot be opened", name);
			continue;
		}
		port = port_find(ctx);
		if (port != 0) {
			snprintf(why, why_bytes, "RDMA device %s, port %u", name, port);
			ibv_free_device_list(list);
			*ret_ctx = ctx;
			*ret_port = port;
			return 0;
		}
		snprintf(why, why_bytes, "RDMA device %s has no active port", name);
		ibv_close_device(ctx);
	}
	ibv_free_device_list(list);
	return -ENODEV;
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* The deepest queue that a limit of the device allows; some say 0 of what they do not have. */
static uint32_t depth_left(int limit, uint32_t spare)
{
	return limit > 0 && (uint32_t)limit > spare ? (uint32_t)limit - spare : 0;
}

static int depths_refused(const struct ol_xport *xport, const struct ibv_device_attr *attr)
{
	ol_xport_log(
		&xport->opts, OL_XPORT_LOG_ERROR,
		"inflight_max %u and doorbells_max %u are more than the device's queue pairs "
		"(%d), completion queues (%d) or shared receive queues (%d) hold: smaller ones "
		"fit",
		xport->opts.inflight_max, xport->opts.doorbells_max, attr->max_qp_wr, attr->max_cqe,
		attr->max_srq_wr);
	return -EINVAL;
}

/* The connections that all the device's objects suffice for. */
static void conns_limit(struct ol_xport *xport, const struct ibv_device_attr *attr)
{
	struct ol_xport_opts *opts = &xport->opts;
	const uint32_t asked = opts->conns_max;
	uint64_t most = asked;

	if (attr->max_qp > 0 && (uint32_t)attr->max_qp < most)
		most = (uint32_t)attr->max_qp;
	if (attr->max_cq > 0 && (uint64_t)(uint32_t)attr->max_cq * xport->conns_each < most)
		most = (uint64_t)(uint32_t)attr->max_cq * xport->conns_each;
	if (!xport->lacks.srq && attr->max_srq > 0 &&
	    (uint64_t)(uint32_t)attr->max_srq * xport->conns_each < most)
		most = (uint64_t)(uint32_t)attr->max_srq * xport->conns_each;
	if (most == asked)
		return;
	opts->conns_max = (uint32_t)most;
	ol_xport_log(
		opts, OL_XPORT_LOG_WARN,
		"the device has room for %u connections, not %u (%d queue pairs, %d completion "
		"queues); smaller inflight_max or doorbells_max may allow more",
		opts->conns_max, asked, attr->max_qp, attr->max_cq);
}

/* Computes depths, how many connections one queue has room for, and so how many queues there are. */
static int depths_set(struct ol_xport *xport, const struct ibv_device_attr *attr)
{
	struct ol_xport_opts *opts = &xport->opts;
	const uint32_t bells = opts->doorbells_max;
	const uint32_t batch = min_u32(OL_VERBS_RECV_BATCH, (bells + 3) / 4);
	const uint32_t spare = 2 * batch; /* receives not posted back yet; those lent */
	const uint32_t own = xport->lacks.srq ? bells + batch : 0; /* receives of a queue pair */
	uint64_t per_conn;
	uint32_t each;

	opts->conns_max = xport->conns_asked; /* another device may have held fewer */
	xport->ring = xport->pieces_max * opts->inflight_max + xport->signal_every - 1;
	per_conn = (uint64_t)xport->ring + OL_VERBS_MARKERS + (own != 0 ? own : bells);
	each = (uint32_t)(depth_left(attr->max_cqe, spare) / per_conn);
	if (own == 0)
		each = min_u32(each, depth_left(attr->max_srq_wr, spare) / bells);
	if (each == 0 || xport->ring + OL_VERBS_MARKERS > (uint32_t)attr->max_qp_wr ||
	    own > (uint32_t)attr->max_qp_wr)
		return depths_refused(xport, attr);
	xport->conns_each = min_u32(each, opts->conns_max);
	conns_limit(xport, attr);
	xport->caps.conns_max = opts->conns_max;
	xport->queues_max = (opts->conns_max + xport->conns_each - 1) / xport->conns_each;
	xport->recv_batch = batch;
	xport->recv_depth = own != 0 ? own : xport->conns_each * bells + batch;
	xport->cq_depth = (uint32_t)(xport->conns_each * per_conn) + spare;
	return 0;
}

static int fd_nonblocking(int fd)
{
	const int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
		return -errno;
	return 0;
}

static void queue_close(struct ol_verbs_queue *queue)
{
	if (queue->srq != NULL)
		ibv_destroy_srq(queue->srq);
	if (queue->cq != NULL) {
		if (queue->acks != 0)
			ibv_ack_cq_events(queue->cq, queue->acks);
		ibv_destroy_cq(queue->cq);
	}
	free(queue->wcs);
	*queue = (struct ol_verbs_queue){ .cq = NULL };
}

/*
 * Which of the device's interrupts wakes a sleeper of the queue. All processes of a machine would
 * share the first one, and the processor that handles it; so each begins at another.
 */
static int comp_vector(const struct ol_xport *xport, const struct ol_verbs_queue *queue)
{
	const int vectors = xport->ctx->num_comp_vectors;

	return vectors > 1 ? (int)(((long)getpid() + (queue - xport->queues)) % vectors) : 0;
}

static int queue_create(struct ol_xport *xport, struct ol_verbs_queue *queue)
{
	struct ibv_srq_init_attr srq_attr = {
		.attr = { .max_wr = xport->recv_depth + xport->recv_batch, /* see recv_lent */
			  .max_sge = 1 },
	};
	int rc;

	errno = 0;
	queue->cq = ibv_create_cq(xport->ctx, (int)xport->cq_depth, queue, xport->comp,
				  comp_vector(xport, queue));
	rc = ol_rc_null(queue->cq);
	if (rc != 0)
		return rc;
	queue->wcs = calloc(xport->cq_depth + OL_VERBS_POLL_BATCH, sizeof(*queue->wcs));
	if (queue->wcs == NULL)
		return -ENOMEM;
	if (xport->lacks.srq)
		return 0;
	queue->srq = ibv_create_srq(xport->pd, &srq_attr);
	rc = ol_rc_null(queue->srq);
	return rc == 0 ? ol_verbs_recvs_create(xport, queue) : rc;
}

/* Opens the next queue; those that are open stay as they are. */
static int queue_open(struct ol_xport *xport)
{
	struct ol_verbs_queue *queue = &xport->queues[xport->queue_count];
	const int rc = queue_create(xport, queue);

	if (rc == 0) {
		xport->queue_count++;
		return 0;
	}
	queue_close(queue);
	ol_verbs_log_rated(xport, OL_VERBS_RATE_ROOM, OL_XPORT_LOG_ERROR,
			   "device %s: cannot create queues for %u more connections: error %d",
			   ibv_get_device_name(xport->ctx->device), xport->conns_each, -rc);
	return rc;
}

int ol_verbs_queue_join(struct ol_verbs_conn *conn)
{
	struct ol_xport *xport = conn->base.xport;
	uint32_t at = 0;
	int rc;

	while (at < xport->queue_count && xport->queues[at].conns == xport->conns_each)
		at++;
	if (at == xport->queue_count) { /* conns_max bounds how often */
		rc = queue_open(xport);
		if (rc != 0)
			return rc;
	}
	conn->queue = &xport->queues[at];
	conn->queue->conns++;
	return 0;
}

void ol_verbs_queue_leave(struct ol_verbs_conn *conn)
{
	if (conn->queue != NULL)
		conn->queue->conns--;
	conn->queue = NULL;
}

static int shared_create(struct ol_xport *xport)
{
	int rc;

	xport->queues = calloc(xport->queues_max, sizeof(*xport->queues));
	if (xport->queues == NULL)
		return -ENOMEM;
	rc = ol_verbs_recv_wrs_create(xport);
	if (rc != 0)
		return rc;
	errno = 0;
	xport->comp = ibv_create_comp_channel(xport->ctx);
	rc = ol_rc_null(xport->comp);
	if (rc != 0) {
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
			     "device %s: no completion channel: error %d",
			     ibv_get_device_name(xport->ctx->device), -rc);
		return rc;
	}
	ol_fds_add(xport->comp->fd);
	return queue_open(xport);
}

static int depths_query(struct ol_xport *xport)
{
	struct ibv_device_attr attr;
	bool soft;
	int rc;

	rc = ol_rc_positive(ibv_query_device(xport->ctx, &attr));
	if (rc != 0)
		return rc;
	xport->reads_in_max = (uint8_t)min_u32((uint32_t)attr.max_qp_rd_atom, OL_VERBS_READS_MAX);
	xport->reads_out_max =
		(uint8_t)min_u32((uint32_t)attr.max_qp_init_rd_atom, OL_VERBS_READS_MAX);
	soft = attr.vendor_id == OL_VERBS_VENDOR_RXE || attr.vendor_id == OL_VERBS_VENDOR_SIW;
	xport->relaxed = xport->opts.relaxed_ordering == OL_XPORT_ON ||
			 (xport->opts.relaxed_ordering == OL_XPORT_AUTO && !soft);
	/*
	 * The soft adapters serve the reads of a connection one after the other anyway. rdma_rxe
	 * hangs for ever, without an error, if a fenced read must be resent: the fence waits for
	 * that read. siw breaks the connection of a read with a fence.
	 */
	xport->fence_flags = soft ? 0 : IBV_SEND_FENCE;
	return depths_set(xport, &attr);
}

/* Forget the queues, without closing them. */
static void queues_none(struct ol_xport *xport)
{
	xport->queues = NULL;
	xport->queue_count = 0;
	xport->queue_at = 0;
	xport->comp = NULL;
	xport->pd = NULL;
	xport->ctx = NULL;
	xport->recv_wrs = NULL;
	xport->recv_sges = NULL;
}

static void queues_tell(const struct ol_xport *xport, const char *device)
{
	const struct ol_verbs_lacks *lacks = &xport->lacks;

	ol_xport_log(&xport->opts, OL_XPORT_LOG_INFO,
		     "%s: %u connections, %u a queue, completion queue %u, receives %u%s, inline "
		     "%u%s%s, acknowledge timeout %llu us, %u retries",
		     device, xport->opts.conns_max, xport->conns_each, xport->cq_depth,
		     xport->recv_depth, lacks->srq ? " a queue pair" : ", shared",
		     lacks->inline_granted, lacks->imm ? ", doorbells are sent" : "",
		     lacks->gather    ? ", one segment a request"
		     : lacks->scatter ? ", one segment a read"
				      : "",
		     (unsigned long long)ol_verbs_ack_us(xport->timing.ack_timeout),
		     xport->timing.retry_count);
}

static int queues_open(struct ol_xport *xport, const char *device)
{
	char why[128];
	int rc;

	queues_none(xport);
	rc = ol_verbs_device_find(device, &xport->ctx, &xport->port, why, sizeof(why));
	if (rc != 0) {
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR, "%s", why);
		return rc;
	}
	ol_verbs_there_begin(xport);
	/* a device is open as long as any of its descriptors is */
	ol_fds_add_device(xport->ctx->cmd_fd);
	ol_fds_add(xport->ctx->async_fd);
	errno = 0;
	xport->pd = ibv_alloc_pd(xport->ctx);
	rc = ol_rc_null(xport->pd);
	if (rc == 0)
		rc = ol_verbs_probe(xport, xport->port);
	if (rc == 0)
		rc = depths_query(xport);
	if (rc == 0)
		rc = shared_create(xport);
	if (rc == 0)
		rc = fd_nonblocking(xport->comp->fd);
	if (rc == 0)
		rc = fd_nonblocking(xport->ctx->async_fd);
	if (rc != 0)
		ol_verbs_queues_close(xport);
	else
		queues_tell(xport, why);
	return rc;
}

void ol_verbs_queues_close(struct ol_xport *xport)
{
	while (xport->queue_count > 0)
		queue_close(&xport->queues[--xport->queue_count]);
	if (xport->comp != NULL) {
		ol_fds_forget(xport->comp->fd);
		ibv_destroy_comp_channel(xport->comp);
	}
	if (xport->pd != NULL)
		ibv_dealloc_pd(xport->pd);
	if (xport->ctx != NULL) {
		ol_fds_forget(xport->ctx->cmd_fd);
		ol_fds_forget(xport->ctx->async_fd);
		ibv_close_device(xport->ctx);
	}
	free(xport->recv_wrs);
	free(xport->recv_sges);
	free(xport->queues);
	queues_none(xport);
}

int ol_verbs_watch(const struct ol_xport *xport, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(xport->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

int ol_verbs_queues_watched(struct ol_xport *xport, const char *device)
{
	int rc;

	rc = queues_open(xport, device);
	if (rc != 0)
		return rc;
	rc = ol_verbs_watch(xport, xport->comp->fd);
	if (rc == 0)
		rc = ol_verbs_watch(xport, xport->ctx->async_fd);
	if (rc != 0)
		ol_verbs_queues_close(xport);
	return rc;
}

/* Replace the queues by another device's; the old ones stay if that fails. */
static int device_switch(struct ol_xport *xport, const char *want)
{
	struct ol_xport had = *xport;
	int rc = ol_verbs_queues_watched(xport, want);

	if (rc != 0)
		*xport = had;
	else
		ol_verbs_queues_close(&had); /* closing the descriptors takes them out of epoll */
	return rc;
}

int ol_verbs_device_match(struct ol_xport *xport, const struct rdma_cm_id *id)
{
	const char *have;
	const char *want;

	if (id->verbs == NULL) /* a listener on every address */
		return 0;
	want = ibv_get_device_name(id->verbs->device);
	have = ibv_get_device_name(xport->ctx->device);
	if (strcmp(have, want) == 0)
		return 0;
	if (!xport->pinned)
		return device_switch(xport, want);
	ol_verbs_log_rated(xport, OL_VERBS_RATE_DEVICE, OL_XPORT_LOG_ERROR,
			   "the address belongs to device %s, but %s is in use: name the device",
			   want, have);
	return -EADDRNOTAVAIL;
}
