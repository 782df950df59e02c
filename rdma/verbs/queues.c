/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * queues.c -- the device: finding it, and the queues that all connections share
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

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Computes the number of connections that the shared queues have room for, and their depths. */
static int depths_set(struct ol_xport *xport, const struct ibv_device_attr *attr)
{
	struct ol_xport_opts *opts = &xport->opts;
	const uint32_t asked = opts->conns_max;
	const uint64_t per_conn = (uint64_t)xport->ring + 1 + opts->doorbells_max;
	const uint32_t batch = min_u32(OL_VERBS_RECV_BATCH, (opts->doorbells_max + 3) / 4);
	const uint32_t spare = 2 * batch; /* receives not posted back yet; those lent */
	uint64_t fit = ((uint32_t)attr->max_cqe - spare) / per_conn;

	if (xport->ring >= (uint32_t)attr->max_qp_wr) {
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
			     "inflight_max %u is more than the device's queues hold (%d)",
			     opts->inflight_max, attr->max_qp_wr);
		return -EINVAL;
	}
	if (((uint32_t)attr->max_srq_wr - spare) / opts->doorbells_max < fit)
		fit = ((uint32_t)attr->max_srq_wr - spare) / opts->doorbells_max;
	if (fit == 0) {
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
			     "inflight_max %u and doorbells_max %u are more than the device's "
			     "completion queue (%d) or shared receive queue (%d) holds",
			     opts->inflight_max, opts->doorbells_max, attr->max_cqe,
			     attr->max_srq_wr);
		return -EINVAL;
	}
	if (fit < asked) {
		opts->conns_max = (uint32_t)fit;
		ol_xport_log(&xport->opts, OL_XPORT_LOG_WARN,
			     "the device's queues have room for %u connections, not %u; smaller "
			     "inflight_max or doorbells_max allow more",
			     opts->conns_max, asked);
	}
	xport->recv_batch = batch;
	xport->srq_depth = opts->conns_max * opts->doorbells_max + batch;
	xport->cq_depth = (uint32_t)(opts->conns_max * per_conn) + spare;
	return 0;
}

struct ibv_qp_init_attr ol_verbs_qp_attr(const struct ol_xport *xport, uint32_t inline_bytes)
{
	return (struct ibv_qp_init_attr){
		.send_cq = xport->cq,
		.recv_cq = xport->cq,
		.srq = xport->srq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = xport->ring + 1, /* and the marker */
			.max_send_sge = OL_XPORT_SEGS_MAX,
			.max_inline_data = inline_bytes,
		},
	};
}

/* Make a queue pair and destroy it again: it shows what the device grants. */
static int caps_probe(struct ol_xport *xport, uint8_t port)
{
	static const uint32_t wanted[] = { OL_VERBS_INLINE_WANTED, OL_VERBS_INLINE_NEEDED };
	struct ibv_qp_init_attr attr;
	struct ibv_port_attr port_attr;
	struct ibv_qp *qp = NULL;
	int rc = -EIO;

	for (unsigned i = 0; qp == NULL && i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		attr = ol_verbs_qp_attr(xport, wanted[i]);
		errno = 0;
		qp = ibv_create_qp(xport->pd, &attr);
		rc = ol_rc_null(qp);
	}
	if (qp == NULL) {
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
			     "device %s: no queue pair with %d bytes inline: error %d",
			     ibv_get_device_name(xport->ctx->device), OL_VERBS_INLINE_NEEDED, -rc);
		return rc;
	}
	xport->caps.inline_max = attr.cap.max_inline_data;
	xport->caps.inflight_max = xport->opts.inflight_max;
	xport->caps.write_in_order =
		(ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0) & 1) != 0;
	xport->caps.fence_keeps = 1;
	xport->caps.numa_node = numa_node(xport->ctx->device);
	ibv_destroy_qp(qp);
	rc = ol_rc_positive(ibv_query_port(xport->ctx, port, &port_attr));
	xport->caps.write_max = port_attr.max_msg_sz;
	return rc;
}

static int fd_nonblocking(int fd)
{
	const int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
		return -errno;
	return 0;
}

static int shared_create(struct ol_xport *xport)
{
	struct ibv_srq_init_attr srq_attr = {
		.attr = { .max_wr = xport->srq_depth + xport->recv_batch, /* see recv_lent */
			  .max_sge = 1 },
	};
	int rc;

	errno = 0;
	xport->pd = ibv_alloc_pd(xport->ctx);
	rc = ol_rc_null(xport->pd);
	if (rc != 0)
		return rc;
	xport->comp = ibv_create_comp_channel(xport->ctx);
	rc = ol_rc_null(xport->comp);
	if (rc != 0)
		return rc;
	ol_fds_add(xport->comp->fd);
	xport->cq = ibv_create_cq(xport->ctx, (int)xport->cq_depth, NULL, xport->comp, 0);
	rc = ol_rc_null(xport->cq);
	if (rc != 0)
		return rc;
	xport->srq = ibv_create_srq(xport->pd, &srq_attr);
	rc = ol_rc_null(xport->srq);
	if (rc != 0)
		return rc;
	xport->wcs = calloc(xport->cq_depth + OL_VERBS_POLL_BATCH, sizeof(*xport->wcs));
	if (xport->wcs == NULL)
		return -ENOMEM;
	return ol_verbs_recvs_create(xport);
}

static int depths_query(struct ol_xport *xport)
{
	struct ibv_device_attr attr;
	int rc;

	rc = ol_rc_positive(ibv_query_device(xport->ctx, &attr));
	if (rc != 0)
		return rc;
	xport->reads_in_max = (uint8_t)min_u32((uint32_t)attr.max_qp_rd_atom, OL_VERBS_READS_MAX);
	xport->reads_out_max =
		(uint8_t)min_u32((uint32_t)attr.max_qp_init_rd_atom, OL_VERBS_READS_MAX);
	/*
	 * rdma_rxe serves the reads of a connection one after the other anyway. And it hangs for
	 * ever, without an error, if a fenced read must be resent: the fence waits for that read.
	 */
	xport->fence_flags = attr.vendor_id == OL_VERBS_VENDOR_RXE ? 0 : IBV_SEND_FENCE;
	return depths_set(xport, &attr);
}

/* Forget the queues, without closing them. */
static void queues_none(struct ol_xport *xport)
{
	xport->srq = NULL;
	xport->cq = NULL;
	xport->comp = NULL;
	xport->pd = NULL;
	xport->ctx = NULL;
	xport->recv_wrs = NULL;
	xport->wcs = NULL;
	xport->wc_head = 0;
	xport->wc_count = 0;
	xport->acks = 0;
	xport->notify_on = false;
}

static int queues_open(struct ol_xport *xport, const char *device)
{
	char why[128];
	uint8_t port;
	int rc;

	queues_none(xport);
	rc = ol_verbs_device_find(device, &xport->ctx, &port, why, sizeof(why));
	if (rc != 0) {
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR, "%s", why);
		return rc;
	}
	/* a device is open as long as any of its descriptors is */
	ol_fds_add_device(xport->ctx->cmd_fd);
	ol_fds_add(xport->ctx->async_fd);
	rc = depths_query(xport);
	if (rc != 0)
		goto err_close;
	rc = shared_create(xport);
	if (rc != 0) {
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
			     "%s: cannot create queues for %u connections: error %d", why,
			     xport->opts.conns_max, -rc);
		goto err_close;
	}
	rc = caps_probe(xport, port);
	if (rc == 0)
		rc = fd_nonblocking(xport->comp->fd);
	if (rc == 0)
		rc = fd_nonblocking(xport->ctx->async_fd);
	if (rc != 0)
		goto err_close;
	ol_xport_log(&xport->opts, OL_XPORT_LOG_INFO,
		     "%s: %u connections, completion queue %u, shared receive queue %u, inline %u, "
		     "acknowledge timeout %llu us, %u retries",
		     why, xport->opts.conns_max, xport->cq_depth, xport->srq_depth,
		     xport->caps.inline_max,
		     (unsigned long long)ol_verbs_ack_us(xport->timing.ack_timeout),
		     xport->timing.retry_count);
	return 0;

err_close:
	ol_verbs_queues_close(xport);
	return rc;
}

void ol_verbs_queues_close(struct ol_xport *xport)
{
	if (xport->srq != NULL)
		ibv_destroy_srq(xport->srq);
	if (xport->cq != NULL) {
		if (xport->acks != 0)
			ibv_ack_cq_events(xport->cq, xport->acks);
		ibv_destroy_cq(xport->cq);
	}
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
	free(xport->wcs);
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
	ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
		     "the address belongs to device %s, but %s is in use: name the device", want,
		     have);
	return -EADDRNOTAVAIL;
}
