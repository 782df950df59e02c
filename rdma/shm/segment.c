/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * segment.c -- a connection's control segment: two doorbell rings in one sealed memfd
 *
 *	offset                          ring
 *	0                               the acceptor consumes
 *	ol_shm_ring_bytes(acceptor's)   the connector consumes
 *
 * The acceptor makes and seals it, so that neither end can shrink it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "rdma/fds.h"
#include "rdma/shm/shm.h"
#include "rdma/slab.h"

/* The word that rx reads while there is no ring: it never changes. */
static _Atomic uint64_t quiet_word;

void ol_shm_rx_quiet(struct ol_shm_conn *conn)
{
	conn->rx = (struct ol_shm_rx){ .words = &quiet_word, .capacity = 1 };
}

int ol_shm_fd_check(int fd, uint64_t bytes, size_t *ret_page)
{
	struct statfs fs;
	struct stat st;
	int seals;

	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
		return -EPROTO;
	if (fstat(fd, &st) != 0 || st.st_size < 0 || (uint64_t)st.st_size < bytes ||
	    st.st_blksize < 4096 || (st.st_blksize & (st.st_blksize - 1)) != 0)
		return -EPROTO;
	/* of reserved huge pages there may be none left when a hole in it is touched: a signal */
	if (fstatfs(fd, &fs) != 0 || fs.f_type == HUGETLBFS_MAGIC)
		return -EPROTO;
	*ret_page = (size_t)st.st_blksize;
	return 0;
}

/* segment_map -- map fd as the control segment of conn */
static int segment_map(struct ol_shm_conn *conn, int fd, size_t bytes)
{
	void *ctrl;

	ctrl = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (ctrl == MAP_FAILED)
		return -errno;
	ol_fds_unshare(ctrl, bytes);
	conn->ctrl = ctrl;
	conn->ctrl_bytes = bytes;
	return 0;
}

static struct ol_shm_ring *ring_at(const struct ol_shm_conn *conn, size_t off)
{
	return (void *)((char *)conn->ctrl + off);
}

int ol_shm_segment_create(struct ol_shm_conn *conn, uint32_t own_capacity, uint32_t peer_capacity,
			  int *ret_fd)
{
	size_t own_bytes = ol_shm_ring_bytes(own_capacity);
	size_t bytes = own_bytes + ol_shm_ring_bytes(peer_capacity);
	int fd;
	int rc;

	fd = memfd_create("outlast-doorbells", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	rc = ol_memfd_grow(fd, bytes);
	if (rc != 0)
		goto err_fd;
	if (fallocate(fd, 0, 0, (off_t)bytes) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
		rc = -errno;
		goto err_fd;
	}
	rc = segment_map(conn, fd, bytes);
	if (rc != 0)
		goto err_fd;
	ol_shm_ring_init(ring_at(conn, 0), own_capacity);
	ol_shm_ring_init(ring_at(conn, own_bytes), peer_capacity);
	conn->tx =
		(struct ol_shm_tx){ .ring = ring_at(conn, own_bytes), .capacity = peer_capacity };
	*ret_fd = fd;
	return 0;

err_fd:
	close(fd);
	return rc;
}

int ol_shm_segment_attach(struct ol_shm_conn *conn, int fd, uint32_t own_capacity,
			  uint32_t peer_capacity)
{
	size_t bytes = ol_shm_ring_bytes(peer_capacity) + ol_shm_ring_bytes(own_capacity);
	size_t page;
	int rc;

	rc = ol_shm_fd_check(fd, bytes, &page);
	if (rc != 0)
		return rc;
	rc = segment_map(conn, fd, bytes);
	if (rc != 0)
		return rc;
	conn->tx = (struct ol_shm_tx){ .ring = ring_at(conn, 0), .capacity = peer_capacity };
	return 0;
}

void ol_shm_rx_attach(struct ol_shm_conn *conn)
{
	uint32_t own_capacity = conn->xport->capacity;
	size_t off = 0;

	/* The acceptor's own ring comes first, then the connector's. */
	if (conn->tx.ring == ring_at(conn, 0))
		off = ol_shm_ring_bytes(conn->tx.capacity);
	conn->rx = (struct ol_shm_rx){ .ring = ring_at(conn, off), .capacity = own_capacity };
	conn->rx.words = conn->rx.ring->words;
	if (conn->xport->armed)
		ol_word32_store(&conn->rx.ring->asleep, conn->xport->sleep);
}

void ol_shm_segment_detach(struct ol_shm_conn *conn)
{
	ol_shm_rx_quiet(conn);
	conn->tx = (struct ol_shm_tx){ .ring = NULL };
	if (conn->ctrl != NULL)
		munmap(conn->ctrl, conn->ctrl_bytes);
	conn->ctrl = NULL;
}
