/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * region.c -- our regions, told to peers; theirs, mapped here
 *
 * A peer gets the slab's memfd: writable if it may write, else opened anew for reading only, so
 * that its kernel refuses it a writable mapping. What keeps a peer within the region, and off its
 * slab's other pieces, is the check before its own copy: memory of different trust lives in
 * different slabs (slab.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rdma/shm/shm.h"

enum {
	POPULATE_MAX = 4 << 20 /* bytes of a peer's region that is mapped with all its pages */
};

/* announce -- tell the peer of conn of region, if it may reach it */
static int announce(struct ol_shm_conn *conn, const struct ol_shm_region *region)
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
		rc = announce(conn, region);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* share_open -- the descriptor that peers get */
static int share_open(struct ol_shm_region *region, const struct ol_slab *slab)
{
	char path[32];

	if ((region->access & OL_XPORT_ACCESS_PEER_WRITE) != 0) {
		region->share_fd = slab->fd;
		return 0;
	}
	if ((region->access & OL_XPORT_ACCESS_PEER_READ) == 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", slab->fd);
	region->share_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (region->share_fd < 0)
		return -errno;
	region->share_owned = true;
	return 0;
}

/* rkey_next -- a number never given before; 0 is none: its table entries are empty */
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
		if (announce(conn, region) == 0)
			continue;
		ol_shm_log(xport, OL_XPORT_LOG_WARN, "%s dropped: it does not read its socket",
			   conn->name);
		ol_shm_conn_down(conn, -ETIMEDOUT);
	}
}

int ol_shm_reg(struct ol_xport *base, struct ol_xport_conn *conn, struct ol_slab *slab, size_t off,
	       size_t bytes, unsigned access, struct ol_xport_region **ret_region)
{
	const unsigned all = OL_XPORT_ACCESS_PEER_READ | OL_XPORT_ACCESS_PEER_WRITE;
	struct ol_shm_xport *xport = ol_shm_xport(base);
	struct ol_shm_region *region;
	int rc;

	if (bytes == 0 || off > slab->bytes || bytes > slab->bytes - off || (access & ~all) != 0)
		return -EINVAL;
	if (xport->rkey_next + 1 == xport->rkey_first)
		return -ENOSPC;
	region = calloc(1, sizeof(*region));
	if (region == NULL)
		return -ENOMEM;
	region->xport = xport;
	region->addr = (uint8_t *)slab->addr + off;
	region->bytes = bytes;
	region->conn_id = conn != NULL ? ol_shm_conn(conn)->id : 0;
	region->access = access;
	region->fd_off = off;
	region->share_fd = -1;
	rc = share_open(region, slab);
	if (rc != 0) {
		ol_shm_log(xport, OL_XPORT_LOG_ERROR, "region: cannot open its memory again: %s",
			   strerror(-rc));
		free(region);
		return rc;
	}
	region->rkey = rkey_next(xport);
	region->next = xport->regions;
	region->prev_next = &xport->regions;
	if (region->next != NULL)
		region->next->prev_next = &region->next;
	xport->regions = region;
	announce_new(xport, region);
	*ret_region = (void *)region;
	return 0;
}

static void region_unlink(struct ol_shm_region *region)
{
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
		close(region->share_fd);
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

static void peer_insert(struct ol_shm_peer_region *peers, uint32_t mask,
			const struct ol_shm_peer_region *peer)
{
	uint32_t i = peer->rkey & mask;

	while (peers[i].rkey != 0)
		i = (i + 1) & mask;
	peers[i] = *peer;
}

/* peers_rebuild -- the table anew with entries places, a power of two, without rkey except */
static int peers_rebuild(struct ol_shm_conn *conn, uint32_t entries, uint32_t except)
{
	struct ol_shm_peer_region *peers;
	uint32_t i;

	peers = calloc(entries, sizeof(*peers));
	if (peers == NULL)
		return -ENOMEM;
	for (i = 0; i <= conn->peer_mask; i++) {
		if (conn->peers[i].rkey != 0 && conn->peers[i].rkey != except)
			peer_insert(peers, entries - 1, &conn->peers[i]);
	}
	free(conn->peers);
	conn->peers = peers;
	conn->peer_mask = entries - 1;
	return 0;
}

/* peer_map -- the pages around the region, of msg's slab fd */
static int peer_map(struct ol_shm_peer_region *peer, const struct ol_shm_msg *msg, int fd)
{
	int prot = PROT_READ;
	uint64_t from;
	size_t page;
	void *map;
	int rc;

	if (msg->bytes == 0 || msg->fd_off > SIZE_MAX / 4 || msg->bytes > SIZE_MAX / 4)
		return -EPROTO;
	rc = ol_shm_fd_check(fd, msg->fd_off + msg->bytes, &page);
	if (rc != 0)
		return rc;
	if ((msg->access & OL_XPORT_ACCESS_PEER_WRITE) != 0)
		prot |= PROT_WRITE;
	from = msg->fd_off & ~(uint64_t)(page - 1);
	peer->map_bytes = (msg->fd_off + msg->bytes - from + page - 1) & ~(page - 1);
	/* what is large is not worth standing still for: its pages come as they are reached */
	map = mmap(NULL, peer->map_bytes, prot,
		   MAP_SHARED | (peer->map_bytes <= POPULATE_MAX ? MAP_POPULATE : 0), fd,
		   (off_t)from);
	if (map == MAP_FAILED)
		return -errno;
	peer->map = map;
	peer->base = (uint8_t *)map + (msg->fd_off - from);
	return 0;
}

int ol_shm_peer_add(struct ol_shm_conn *conn, const struct ol_shm_msg *msg, int fd)
{
	struct ol_shm_peer_region peer = { .rkey = msg->rkey,
					   .access = msg->access,
					   .addr = msg->addr,
					   .bytes = msg->bytes,
					   .fd_off = msg->fd_off,
					   .fd = fd };
	int rc = -EPROTO;

	if (msg->rkey == 0 || ol_shm_peer_find(conn, msg->rkey) != NULL ||
	    conn->peer_count >= OL_SHM_PEER_REGIONS_MAX)
		goto err_fd;
	rc = 0;
	if (2 * (conn->peer_count + 1) > conn->peer_mask)
		rc = peers_rebuild(conn, 2 * (conn->peer_mask + 1), 0);
	if (rc == 0)
		rc = peer_map(&peer, msg, fd);
	if (rc != 0)
		goto err_fd;
	peer_insert(conn->peers, conn->peer_mask, &peer);
	conn->peer_count++;
	return 0;

err_fd:
	close(fd);
	return rc;
}

static void peer_unmap(const struct ol_shm_peer_region *peer)
{
	ol_slab_unmap(peer->map, peer->map_bytes);
	close(peer->fd);
}

static void peers_free(struct ol_shm_peer_region *peers, uint32_t mask)
{
	for (uint32_t i = 0; peers != NULL && i <= mask; i++) {
		if (peers[i].rkey != 0)
			peer_unmap(&peers[i]);
	}
	free(peers);
}

void ol_shm_peer_remove(struct ol_shm_conn *conn, uint32_t rkey)
{
	const struct ol_shm_peer_region *found = ol_shm_peer_find(conn, rkey);
	struct ol_shm_peer_region peer;

	if (found == NULL)
		return;
	peer = *found;
	/* Without memory for a new table the region stays: its owner gave it up, nobody reads
	 * it. */
	if (peers_rebuild(conn, conn->peer_mask + 1, rkey) != 0)
		return;
	conn->peer_count--;
	peer_unmap(&peer);
}

void ol_shm_peers_free(struct ol_shm_conn *conn)
{
	peers_free(conn->peers, conn->peer_mask);
	conn->peers = NULL;
}

struct ol_xport_later *ol_shm_strip(struct ol_xport_conn *base, struct ol_xport_region *region,
				    int kept)
{
	struct ol_shm_conn *conn = ol_shm_conn(base);
	struct ol_xport_later *later = calloc(1, sizeof(*later));

	(void)region;
	(void)kept;
	if (later == NULL)
		return NULL;
	later->peers = conn->peers;
	later->peer_mask = conn->peer_mask;
	conn->peers = NULL;
	return later;
}

void ol_shm_drop(struct ol_xport_later *later)
{
	if (later == NULL)
		return;
	peers_free(later->peers, later->peer_mask);
	free(later);
}

int ol_shm_map(struct ol_xport_conn *base, struct ol_xport_rkey src, uint64_t off, size_t bytes,
	       void *at)
{
	struct ol_shm_conn *conn = ol_shm_conn(base);
	const struct ol_shm_peer_region *peer;
	int prot = 0;
	uint64_t from;

	peer = ol_shm_peer_find(conn, src.rkey);
	if (peer == NULL && conn->state == OL_SHM_UP) {
		ol_shm_conn_read(conn);
		peer = ol_shm_peer_find(conn, src.rkey);
	}
	if (peer == NULL)
		return -EACCES;
	from = src.addr + off - peer->addr;
	if (from > peer->bytes || bytes > peer->bytes - from)
		return -EACCES;
	if ((peer->access & OL_XPORT_ACCESS_PEER_READ) != 0)
		prot |= PROT_READ;
	if ((peer->access & OL_XPORT_ACCESS_PEER_WRITE) != 0)
		prot |= PROT_WRITE;
	if (mmap(at, bytes, prot, MAP_SHARED | MAP_FIXED | MAP_POPULATE, peer->fd,
		 (off_t)(peer->fd_off + from)) == MAP_FAILED)
		return -errno;
	return 0;
}
