/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * region.c -- protection domains, regions and keys
 *
 * A region of one connection is registered in that connection's protection domain. A region of
 * every connection is registered in each domain, also in later ones: a key is valid in its domain
 * only. Each registration pins its pages, and counts against the locked-memory limit.
 */
#include "rdma/verbs/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "rdma/verbs/verbs_rc.h"

static bool no_dmabuf(int rc)
{
	return rc == -EOPNOTSUPP || rc == -EPROTONOSUPPORT || rc == -ENOSYS;
}

/* Returns what reg() says. */
static int reg_failed(const struct ol_xport *xport, const struct ol_verbs_span *span, int rc)
{
	const bool foreign = span->dmabuf >= 0;
	struct rlimit limit;

	if (foreign && no_dmabuf(rc)) {
		ol_xport_log(
			&xport->opts, OL_XPORT_LOG_ERROR,
			"cannot register %zu bytes of a dma-buf: the driver of device %s takes none: "
			"copy them to memory of the host first, or use an adapter whose driver does "
			"(mlx5; irdma with an rdma-core later than 44)",
			span->bytes, ibv_get_device_name(xport->ctx->device));
		return -EOPNOTSUPP;
	}
	if (rc != -ENOMEM || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
	    limit.rlim_cur == RLIM_INFINITY) {
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
			     "cannot register %zu bytes%s: error %d", span->bytes,
			     foreign ? " of a dma-buf" : "", -rc);
		return rc;
	}
	ol_xport_log(
		&xport->opts, OL_XPORT_LOG_ERROR,
		"cannot register %zu bytes: the locked-memory limit is %llu KiB; raise it with "
		"ulimit -l unlimited (systemd: LimitMEMLOCK=infinity)",
		span->bytes, (unsigned long long)limit.rlim_cur / 1024);
	return rc;
}

struct ol_verbs_span ol_verbs_span_own(const void *addr, size_t bytes)
{
	return (struct ol_verbs_span){ .iova = (uintptr_t)addr, .bytes = bytes, .dmabuf = -1 };
}

/* A dma-buf's offset is its iova, too: ibv_reg_dmabuf_mr(3) wants both at one place of a page. */
struct ol_verbs_span ol_verbs_span_of(const struct ol_slab *slab, size_t off, size_t bytes)
{
	if (!ol_slab_is_foreign(slab))
		return ol_verbs_span_own((const char *)slab->addr + off, bytes);
	return (struct ol_verbs_span){ .iova = slab->fd_off + off,
				       .bytes = bytes,
				       .dmabuf = slab->fd };
}

static struct ibv_mr *span_reg(struct ibv_pd *pd, const struct ol_verbs_span *span, unsigned access)
{
	errno = 0;
	if (span->dmabuf >= 0)
		return ibv_reg_dmabuf_mr(pd, span->iova, span->bytes, span->iova, span->dmabuf,
					 (int)access);
	return ibv_reg_mr(pd, (void *)(uintptr_t)span->iova, span->bytes, access);
}

int ol_verbs_mr_create(const struct ol_xport *xport, struct ibv_pd *pd,
		       const struct ol_verbs_span *span, unsigned access, struct ibv_mr **ret_mr)
{
	struct ibv_mr *mr;
	int rc;

	if (ol_verbs_dead(xport))
		return -ENODEV;
	mr = span_reg(pd, span, access);
	rc = ol_rc_null(mr);
	if (rc != 0)
		return reg_failed(xport, span, rc);
	*ret_mr = mr;
	return 0;
}

static int mr_create(const struct ol_xport_region *region, struct ibv_pd *pd,
		     struct ibv_mr **ret_mr)
{
	return ol_verbs_mr_create(region->xport, pd, &region->span, region->access, ret_mr);
}

void ol_verbs_mr_destroy(const struct ol_xport *xport, struct ibv_mr **mr)
{
	int rc;

	if (*mr == NULL)
		return;
	rc = ol_rc_positive(ibv_dereg_mr(*mr));
	if (rc != 0)
		ol_xport_log(&xport->opts, ol_verbs_undo_level(xport),
			     "cannot deregister a region: error %d", -rc);
	*mr = NULL;
}

static int common_mrs_create(struct ol_xport_region *region)
{
	struct ol_xport *xport = region->xport;
	int rc;

	region->mrs = calloc(xport->opts.conns_max + 1, sizeof(struct ibv_mr *));
	if (region->mrs == NULL)
		return -ENOMEM;
	rc = mr_create(region, xport->pd, &region->mrs[0]);
	for (uint32_t i = 0; rc == 0 && i < xport->opts.conns_max; i++) {
		const struct ol_verbs_conn *conn = xport->slots[i];

		if (conn != NULL && conn->pd != NULL)
			rc = mr_create(region, conn->pd, &region->mrs[conn->domain]);
	}
	return rc;
}

static void mrs_destroy(struct ol_xport_region *region)
{
	ol_verbs_mr_destroy(region->xport, &region->mr);
	if (region->mrs == NULL)
		return;
	for (uint32_t i = 0; i <= region->xport->opts.conns_max; i++)
		ol_verbs_mr_destroy(region->xport, &region->mrs[i]);
	free(region->mrs);
	region->mrs = NULL;
}

/* Targets of reads need the local right to write, and so does the peer's right to write. */
unsigned ol_verbs_access_flags(const struct ol_xport *xport, unsigned access)
{
	unsigned flags = IBV_ACCESS_LOCAL_WRITE;

	if ((access & OL_XPORT_ACCESS_PEER_READ) != 0)
		flags |= IBV_ACCESS_REMOTE_READ;
	if ((access & OL_XPORT_ACCESS_PEER_WRITE) != 0)
		flags |= IBV_ACCESS_REMOTE_WRITE;
	/* an optional flag: libibverbs leaves it out where kernel or device does not know it */
	if ((access & OL_XPORT_ACCESS_RELAXED) != 0 && xport->relaxed)
		flags |= IBV_ACCESS_RELAXED_ORDERING;
	return flags;
}

struct ol_xport_region *ol_verbs_region_make(struct ol_xport *xport, struct ol_verbs_conn *conn,
					     const struct ol_verbs_span *span, unsigned access)
{
	struct ol_xport_region *region = calloc(1, sizeof(*region));

	if (region == NULL)
		return NULL;
	region->xport = xport;
	region->conn = conn;
	region->common = conn == NULL;
	region->access = access;
	region->span = *span;
	region->inline_bytes = span->dmabuf >= 0 ? 0 : span->bytes;
	region->next = xport->regions;
	region->prev_next = &xport->regions;
	if (region->next != NULL)
		region->next->prev_next = &region->next;
	xport->regions = region;
	xport->counts.regions++;
	xport->counts.region_bytes += span->bytes;
	return region;
}

void ol_verbs_regions_leave(struct ol_verbs_conn *conn)
{
	for (struct ol_xport_region *region = conn->base.xport->regions; region != NULL;
	     region = region->next) {
		if (region->common && conn->domain != 0)
			ol_verbs_mr_destroy(region->xport, &region->mrs[conn->domain]);
		if (region->conn == conn) {
			ol_verbs_mr_destroy(region->xport, &region->mr);
			region->conn = NULL;
		}
	}
}

/* A domain was made: register the regions of every connection in it. */
static int regions_enter(struct ol_verbs_conn *conn)
{
	int rc = 0;

	for (struct ol_xport_region *region = conn->base.xport->regions; rc == 0 && region != NULL;
	     region = region->next) {
		if (region->common)
			rc = mr_create(region, conn->pd, &region->mrs[conn->domain]);
	}
	if (rc != 0)
		ol_verbs_regions_leave(conn);
	return rc;
}

/* ol_verbs_domain_open -- an accepted connection's own protection domain, if it is to have one */
int ol_verbs_domain_open(struct ol_verbs_conn *conn)
{
	struct ol_xport *xport = conn->base.xport;
	int rc;

	if (conn->pd != NULL || !conn->passive || xport->opts.shared_domain)
		return 0;
	if (ol_verbs_dead(xport))
		return -ENODEV;
	errno = 0;
	conn->pd = ibv_alloc_pd(xport->ctx);
	rc = ol_rc_null(conn->pd);
	if (rc != 0) {
		ol_verbs_log_rated(xport, OL_VERBS_RATE_ROOM, OL_XPORT_LOG_ERROR,
				   "conn %u to %s: no protection domain: error %d", conn->slot,
				   conn->peer, -rc);
		return rc;
	}
	conn->domain = conn->slot + 1;
	rc = regions_enter(conn);
	if (rc != 0) {
		ibv_dealloc_pd(conn->pd);
		conn->pd = NULL;
		conn->domain = 0;
	}
	return rc;
}

int ol_verbs_reg(struct ol_xport *xport, struct ol_xport_conn *base, struct ol_slab *slab,
		 size_t off, size_t bytes, unsigned access, struct ol_xport_region **ret_region)
{
	struct ol_xport_region *region;
	struct ol_verbs_span span;
	int rc;

	if (!ol_xport_reg_valid(slab, off, bytes, access))
		return -EINVAL;
	if (base != NULL) { /* before the region is listed: a new domain registers all listed */
		rc = ol_verbs_domain_open(ol_verbs_conn(base));
		if (rc != 0)
			return rc;
	}
	span = ol_verbs_span_of(slab, off, bytes);
	region = ol_verbs_region_make(xport, base != NULL ? ol_verbs_conn(base) : NULL, &span,
				      ol_verbs_access_flags(xport, access));
	if (region == NULL)
		return -ENOMEM;
	if (base == NULL)
		rc = common_mrs_create(region);
	else
		rc = mr_create(region, ol_verbs_conn_pd(region->conn), &region->mr);
	if (rc != 0) {
		ol_verbs_dereg(region);
		return rc;
	}
	xport->pinned = true;
	*ret_region = region;
	return 0;
}

static void region_end(struct ol_xport_region *region)
{
	mrs_destroy(region);
	region->xport->counts.regions--;
	region->xport->counts.region_bytes -= region->span.bytes;
	*region->prev_next = region->next;
	if (region->next != NULL)
		region->next->prev_next = region->prev_next;
	region->xport = NULL;
}

void ol_verbs_dereg(struct ol_xport_region *region)
{
	if (region == NULL)
		return;
	if (region->xport != NULL)
		region_end(region);
	free(region);
}

/* The caller has left regions registered. A later dereg() then only frees the object. */
void ol_verbs_regions_end(struct ol_xport *xport)
{
	while (xport->regions != NULL)
		region_end(xport->regions);
}

/* The domain that conn's peer uses keys in; a request may not have its own yet. */
static int peer_domain(struct ol_xport *xport, const struct ol_xport_conn *base)
{
	const struct ol_verbs_conn *conn;

	if (base == NULL)
		return 0;
	conn = ol_verbs_container_of_const(base, struct ol_verbs_conn, base);
	if (ol_verbs_domain_open(xport->slots[conn->slot]) != 0)
		return -ENOMEM; /* and so will accept() */
	return (int)conn->domain;
}

struct ol_xport_rkey ol_verbs_rkey(const struct ol_xport_region *region,
				   const struct ol_xport_conn *base)
{
	const struct ibv_mr *mr = region->mr;
	int domain;

	if (region->common) {
		domain = peer_domain(region->xport, base);
		mr = domain >= 0 ? region->mrs[domain] : NULL;
	}
	if (mr == NULL)
		return (struct ol_xport_rkey){ 0 };
	return (struct ol_xport_rkey){
		.addr = region->span.iova,
		.bytes = region->span.bytes,
		.rkey = mr->rkey,
	};
}
