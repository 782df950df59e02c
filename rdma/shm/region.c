/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * region.c -- our regions, announced to peers
 *
 * A peer gets the slab's memfd: writable if it may write, else opened anew for reading only. It could
 * open that one anew, too, for writing: so the kernel refuses every later writable mapping and every
 * write() of memory that peers only read (ol_slab_seal()). Only the check in the peer's own code keeps
 * the peer within the region: memory of different trust lies in different slabs (slab.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rdma/fds.h"
#include "rdma/shm/shm.h"

/* region_announce -- announce region to the peer of conn, if that may reach it */
static int region_announce(struct ol_shm_conn *conn, const struct ol_shm_region *region)
{
	struct ol_shm_msg msg = { .type = OL_SHM_MSG_REGION,
				  .rkey = region->rkey,
				  .access = region->access,
				  .addr = (uintptr_t)region->addr,
				  .bytes = region->bytes,
				  .fd_off = region->fd_off };

	if (region->share_fd < 0 || (region->conn_id != 0 && region->conn_id != conn->id))
		return 0;
	return ol_shm_send(conn, &msg, &region->share_fd, 1);
}

int ol_shm_announce_all(struct ol_shm_conn *conn)
{
	const struct ol_shm_region *region;
	int rc;

	conn->announcing = true;
	for (region = conn->xport->regions; region != NULL; region = region->next) {
		rc = region_announce(conn, region);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* share_open -- the descriptor that peers get */
static int share_open(struct ol_shm_region *region, const struct ol_slab *slab)
{
	const bool writes = (region->access & OL_XPORT_ACCESS_PEER_WRITE) != 0;
	char path[32];
	int rc;

	if (!writes && (region->access & OL_XPORT_ACCESS_PEER_READ) == 0)
		return 0;
	rc = ol_slab_seal(slab, writes);
	if (rc != 0)
		return rc;
	if (writes) {
		region->share_fd = slab->fd;
		return 0;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", slab->fd);
	region->share_fd = ol_fds_add(open(path, O_RDONLY | O_CLOEXEC));
	if (region->share_fd < 0)
		return -errno;
	region->share_owned = true;
	return 0;
}

/* rkey_next -- a number never given before, and not 0, which marks empty table entries */
static uint32_t rkey_next(struct ol_shm_xport *xport)
{
	uint32_t rkey;

	if (xport->rkey_next == 0)
		xport->rkey_next = 1;
	rkey = xport->rkey_next;
	xport->rkey_next = rkey + 1;
	return rkey;
}

static void announce_new(struct ol_shm_xport *xport, const struct ol_shm_region *region)
{
	struct ol_shm_conn *conn;
	uint32_t i;

	for (i = 0; i < xport->conn_count; i++) {
		conn = xport->conns[i];
		if (!conn->announcing || conn->state == OL_SHM_DOWN)
			continue;
		if (region_announce(conn, region) == 0)
			continue;
		ol_shm_log_rare(xport, OL_SHM_RARE_DEAF, "%s dropped: it does not read its socket",
				conn->name);
		ol_shm_conn_down(conn, -ETIMEDOUT);
	}
}

int ol_shm_reg(struct ol_xport *base, struct ol_xport_conn *conn, struct ol_slab *slab, size_t off,
	       size_t bytes, unsigned access, struct ol_xport_region **ret_region)
{
	struct ol_shm_xport *xport = ol_shm_xport(base);
	struct ol_shm_region *region;
	int rc;

	if (!ol_xport_reg_valid(slab, off, bytes, access))
		return -EINVAL;
	if (ol_slab_is_foreign(slab)) {
		ol_xport_log(
			&xport->opts, OL_XPORT_LOG_ERROR,
			"cannot register %zu bytes of a dma-buf: shm copies with the processor, "
			"which cannot reach them: copy them to memory of the host first, or use "
			"verbs",
			bytes);
		return -EOPNOTSUPP;
	}
	if (xport->rkey_next + 1 == xport->rkey_first)
		return -ENOSPC;
	region = calloc(1, sizeof(*region));
	if (region == NULL)
		return -ENOMEM;
	region->xport = xport;
	region->addr = (uint8_t *)slab->addr + off;
	region->bytes = bytes;
	region->conn_id = conn != NULL ? ol_shm_conn(conn)->id : 0;
	region->access = access & ~(unsigned)OL_XPORT_ACCESS_RELAXED;
	region->fd_off = off;
	region->share_fd = -1;
	rc = share_open(region, slab);
	if (rc != 0) {
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
			     "region: cannot share its memory: %s", strerror(-rc));
		free(region);
		return rc;
	}
	region->rkey = rkey_next(xport);
	region->next = xport->regions;
	region->prev_next = &xport->regions;
	if (region->next != NULL)
		region->next->prev_next = &region->next;
	xport->regions = region;
	xport->counts.regions++;
	xport->counts.region_bytes += bytes;
	announce_new(xport, region);
	*ret_region = (void *)region;
	return 0;
}

static void region_unlink(struct ol_shm_region *region)
{
	region->xport->counts.regions--;
	region->xport->counts.region_bytes -= region->bytes;
	*region->prev_next = region->next;
	if (region->next != NULL)
		region->next->prev_next = region->prev_next;
}

void ol_shm_dereg(struct ol_xport_region *base)
{
	struct ol_shm_region *region = (void *)base;
	struct ol_shm_msg msg = { .type = OL_SHM_MSG_UNREGION };
	struct ol_shm_xport *xport;
	struct ol_shm_conn *conn;
	uint32_t i;

	if (region == NULL)
		return;
	xport = region->xport;
	msg.rkey = region->rkey;
	for (i = 0; xport != NULL && i < xport->conn_count; i++) {
		conn = xport->conns[i];
		if (region->share_fd >= 0 && conn->announcing && conn->state != OL_SHM_DOWN &&
		    (region->conn_id == 0 || region->conn_id == conn->id) &&
		    ol_shm_send(conn, &msg, NULL, 0) != 0)
			ol_shm_conn_down(conn, -ETIMEDOUT);
	}
	if (xport != NULL)
		region_unlink(region);
	if (region->share_owned)
		ol_fds_close(region->share_fd);
	free(region);
}

void ol_shm_regions_orphan(struct ol_shm_xport *xport)
{
	struct ol_shm_region *region;

	while (xport->regions != NULL) {
		region = xport->regions;
		xport->regions = region->next;
		region->xport = NULL;
	}
}

struct ol_xport_rkey ol_shm_rkey(const struct ol_xport_region *base,
				 const struct ol_xport_conn *conn)
{
	const struct ol_shm_region *region = ol_shm_region(base);

	(void)conn; /* one key for all: a peer knows only the keys announced to it */
	return (struct ol_xport_rkey){ .addr = (uintptr_t)region->addr,
				       .bytes = region->bytes,
				       .rkey = region->rkey };
}
