/* SPDX-License-Identifier: BSD-3-Clause */

/* peers.c -- the regions that a peer has announced: mapped here, found by key, unmapped */

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rdma/fds.h"
#include "rdma/shm/shm.h"
#include "rdma/slab.h"

static void peer_insert(struct ol_shm_peer_region *peers, uint32_t mask,
			const struct ol_shm_peer_region *peer)
{
	uint32_t i = peer->rkey & mask;

	while (peers[i].rkey != 0)
		i = (i + 1) & mask;
	peers[i] = *peer;
}

/* peers_rebuild -- make the table anew, of `entries` (a power of two), without rkey `except` */
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

/* peer_map -- map the pages of slab fd around msg's region */
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
	/* its pages come on first access: to make those of a peer's sparse memory takes long */
	map = mmap(NULL, peer->map_bytes, prot, MAP_SHARED, fd, (off_t)from);
	if (map == MAP_FAILED)
		return -errno;
	ol_fds_unshare(map, peer->map_bytes);
	peer->map = map;
	peer->base = (uint8_t *)map + (msg->fd_off - from);
	return 0;
}

/* Whoever connects is a stranger; whom this end connects to it has chosen. */
static uint32_t regions_max(const struct ol_shm_conn *conn)
{
	return conn->peer_bytes != 0 ? OL_SHM_PEER_REGIONS_MAX : OL_SHM_CALLER_REGIONS_MAX;
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
	    conn->peer_count >= regions_max(conn))
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
	ol_fds_close(fd);
	return rc;
}

static void peer_unmap(const struct ol_shm_peer_region *peer)
{
	ol_slab_unmap(peer->map, peer->map_bytes);
	ol_fds_close(peer->fd);
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
	/* If memory for a new table is short the region stays mapped. That is harmless, as its
	 * owner has given it up. */
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
