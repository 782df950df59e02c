/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * post.c -- writes and reads: copies by this CPU, checked against the peer's regions and rights
 *
 * A copy is done when the post returns, so nothing is ever in flight. DONE waits in a queue of the
 * connection until poll() returns it, and inflight_max bounds that queue.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "rdma/fds.h"
#include "rdma/shm/shm.h"

enum {
	LINE_BYTES = 64 /* of cache; most small writes are one */
};

/* copy_small -- up to OL_SHM_INLINE_MAX bytes, without a call. Whole words stay whole. */
static inline void copy_small(uint8_t *dst, const uint8_t *src, size_t bytes)
{
	uint64_t head64, tail64;
	uint32_t head32, tail32;

	for (; bytes > LINE_BYTES; bytes -= LINE_BYTES) {
		memcpy(dst, src, LINE_BYTES);
		dst += LINE_BYTES;
		src += LINE_BYTES;
	}
	if (bytes == LINE_BYTES) {
		memcpy(dst, src, LINE_BYTES);
		return;
	}
	if (bytes >= 16) {
		while (bytes > 16) {
			memcpy(dst, src, 16);
			dst += 16;
			src += 16;
			bytes -= 16;
		}
		if (bytes == 16) {
			memcpy(dst, src, 16);
			return;
		}
	}
	if (bytes >= 8) {
		memcpy(&head64, src, 8);
		memcpy(&tail64, src + bytes - 8, 8);
		memcpy(dst, &head64, 8);
		memcpy(dst + bytes - 8, &tail64, 8);
		return;
	}
	if (bytes >= 4) {
		memcpy(&head32, src, 4);
		memcpy(&tail32, src + bytes - 4, 4);
		memcpy(dst, &head32, 4);
		memcpy(dst + bytes - 4, &tail32, 4);
		return;
	}
	while (bytes > 0) {
		*dst++ = *src++;
		bytes--;
	}
}

static inline void payload_copy(uint8_t *dst, const uint8_t *src, size_t bytes)
{
	if (bytes <= OL_SHM_INLINE_MAX)
		copy_small(dst, src, bytes);
	else
		memcpy(dst, src, bytes);
}

/* seg_addr -- where seg begins here; NULL if it is not a piece of a region usable on conn */
static inline uint8_t *seg_addr(const struct ol_shm_conn *conn, const struct ol_xport_seg *seg,
				unsigned flags)
{
	const struct ol_shm_region *region = ol_shm_region(seg->region);

	if (region == NULL)
		return (flags & OL_XPORT_INLINE) != 0 ? (uint8_t *)(uintptr_t)seg->off : NULL;
	if (region->xport != conn->xport || seg->off > region->bytes ||
	    seg->bytes > region->bytes - seg->off ||
	    (region->conn_id != 0 && region->conn_id != conn->id))
		return NULL;
	return region->addr + seg->off;
}

/* segs_check -- find addresses and total length of all segments; -EINVAL if one is not usable */
static inline int segs_check(const struct ol_shm_conn *conn, const struct ol_xport_seg *segs,
			     unsigned count, unsigned flags, uint8_t **addrs, uint64_t *ret_bytes)
{
	uint64_t bytes = 0;
	unsigned i;

	if (count > OL_XPORT_SEGS_MAX)
		return -EINVAL;
	for (i = 0; i < count; i++) {
		addrs[i] = seg_addr(conn, &segs[i], flags);
		if (addrs[i] == NULL && segs[i].bytes > 0)
			return -EINVAL;
		bytes += segs[i].bytes;
	}
	if (bytes > ((flags & OL_XPORT_INLINE) != 0 ? (uint64_t)OL_SHM_INLINE_MAX
						    : (uint64_t)OL_SHM_WRITE_MAX))
		return -EINVAL;
	*ret_bytes = bytes;
	return 0;
}

/* peer_addr -- bytes at off of the peer's key, mapped here; NULL if the peer did not allow it */
static inline uint8_t *peer_addr(const struct ol_shm_conn *conn, const struct ol_xport_rkey *key,
				 uint64_t off, uint64_t bytes, uint32_t right)
{
	const struct ol_shm_peer_region *peer = ol_shm_peer_find(conn, key->rkey);
	uint64_t from;

	if (peer == NULL || (peer->access & right) == 0)
		return NULL;
	from = key->addr + off - peer->addr;
	if (from > peer->bytes || bytes > peer->bytes - from)
		return NULL;
	return peer->base + from;
}

static inline bool done_full(const struct ol_shm_conn *conn)
{
	return conn->done_head - conn->done_tail >= conn->xport->inflight_max;
}

static inline void done_push(struct ol_shm_conn *conn, uint64_t cookie, int status)
{
	conn->dones[conn->done_head & conn->xport->done_mask] =
		(struct ol_shm_done){ .cookie = cookie, .status = status };
	conn->done_head++;
	if (conn->xport->armed)
		ol_shm_kick(conn->xport);
}

/*
 * reach_late -- peer_addr() once more after a look for announcements
 *
 * Returns 0 and the address; 1 if this op breaks promise 8: the connection ends, and the op counts
 * as posted; or -ENOTCONN if the peer is gone.
 */
static int reach_late(struct ol_shm_conn *conn, const struct ol_xport_rkey *key, uint64_t off,
		      uint64_t bytes, uint32_t right, uint8_t **ret_addr)
{
	uint8_t *addr;

	if (ol_shm_peer_find(conn, key->rkey) == NULL)
		ol_shm_conn_read(conn);
	if (conn->state != OL_SHM_UP)
		return -ENOTCONN;
	addr = peer_addr(conn, key, off, bytes, right);
	if (addr != NULL) {
		*ret_addr = addr;
		return 0;
	}
	conn->down_why = "a post of this side was outside of what the peer allows";
	ol_shm_conn_down(conn, -EACCES);
	return 1;
}

/* ring_room -- 0, -EAGAIN, or -ENOTCONN: the peer's tail is impossible, so the connection ends */
static inline int ring_room(struct ol_shm_conn *conn)
{
	int room = ol_shm_ring_room(&conn->tx);

	if (room > 0)
		return 0;
	if (room == 0)
		return -EAGAIN;
	conn->down_why = "the peer wrote an impossible count of doorbells taken";
	ol_shm_conn_down(conn, -EACCES);
	return -ENOTCONN;
}

static inline int post_check(const struct ol_shm_conn *conn, unsigned flags)
{
	if (conn->state != OL_SHM_UP)
		return -ENOTCONN;
	if ((flags & OL_XPORT_SIGNALED) != 0 && done_full(conn))
		return -EAGAIN;
	return 0;
}

/* post_finish -- report the end of a post; late: 0, or the result of reach_late() */
static inline int post_finish(struct ol_shm_conn *conn, unsigned flags, uint64_t cookie, int late)
{
	if (late < 0)
		return late;
	if ((flags & OL_XPORT_SIGNALED) != 0)
		done_push(conn, cookie, late == 0 ? 0 : -EACCES);
	return 0;
}

/*
 * post_quickly -- one short segment, not signaled, with room for its doorbell, to memory that the
 * peer allows: most posts of a step. False: nothing was done, and post_any() finds out why
 */
static inline bool post_quickly(struct ol_shm_conn *conn, const struct ol_xport_write *write)
{
	const uint64_t bytes = write->segs[0].bytes;
	const uint8_t *src;
	uint8_t *dst;

	if (write->seg_count != 1 || (write->flags & OL_XPORT_SIGNALED) != 0 ||
	    bytes > OL_SHM_INLINE_MAX || conn->state != OL_SHM_UP ||
	    ((write->flags & OL_XPORT_DOORBELL) != 0 &&
	     conn->tx.next - conn->tx.tail_seen >= conn->tx.capacity))
		return false;
	src = seg_addr(conn, &write->segs[0], write->flags);
	dst = peer_addr(conn, &write->dst, write->dst_off, bytes, OL_XPORT_ACCESS_PEER_WRITE);
	if (src == NULL || dst == NULL)
		return false;
	ol_to_peer(); /* promise 1: earlier writes are visible first */
	payload_copy(dst, src, bytes);
	if ((write->flags & OL_XPORT_DOORBELL) != 0 && ol_shm_ring_push(&conn->tx, write->imm))
		ol_shm_wake(conn);
	return true;
}

static __attribute__((noinline)) int post_any(struct ol_shm_conn *conn,
					      const struct ol_xport_write *write)
{
	unsigned flags = write->flags;
	uint8_t *addrs[OL_XPORT_SEGS_MAX];
	uint8_t *dst;
	uint64_t bytes;
	unsigned i;
	int rc;

	rc = post_check(conn, flags);
	if (rc == 0 && (flags & OL_XPORT_DOORBELL) != 0)
		rc = ring_room(conn);
	if (rc == 0)
		rc = segs_check(conn, write->segs, write->seg_count, flags, addrs, &bytes);
	if (rc != 0)
		return rc;
	if (bytes > 0) {
		dst = peer_addr(conn, &write->dst, write->dst_off, bytes,
				OL_XPORT_ACCESS_PEER_WRITE);
		if (dst == NULL)
			rc = reach_late(conn, &write->dst, write->dst_off, bytes,
					OL_XPORT_ACCESS_PEER_WRITE, &dst);
		if (rc != 0)
			return post_finish(conn, flags, write->cookie, rc);
		ol_to_peer(); /* more than promise 1 asks: earlier writes are visible first */
		for (i = 0; i < write->seg_count; i++) {
			payload_copy(dst, addrs[i], write->segs[i].bytes);
			dst += write->segs[i].bytes;
		}
	}
	if ((flags & OL_XPORT_DOORBELL) != 0 && ol_shm_ring_push(&conn->tx, write->imm))
		ol_shm_wake(conn);
	return post_finish(conn, flags, write->cookie, 0);
}

int ol_shm_post_write(struct ol_xport_conn *base, const struct ol_xport_write *write)
{
	struct ol_shm_conn *conn = ol_shm_conn(base);

	return ol_xport_count_write(&conn->xport->counts, write,
				    post_quickly(conn, write) ? 0 : post_any(conn, write));
}

static int read_any(struct ol_shm_conn *conn, const struct ol_xport_read *read)
{
	uint8_t *addrs[OL_XPORT_SEGS_MAX];
	uint8_t *src = NULL;
	uint64_t bytes;
	unsigned i;
	int rc;

	if (read->seg_count == 0 || (read->flags & (OL_XPORT_INLINE | OL_XPORT_DOORBELL)) != 0)
		return -EINVAL;
	rc = post_check(conn, read->flags);
	if (rc == 0)
		rc = segs_check(conn, read->segs, read->seg_count, read->flags, addrs, &bytes);
	if (rc != 0)
		return rc;
	if (bytes > 0) {
		src = peer_addr(conn, &read->src, read->src_off, bytes, OL_XPORT_ACCESS_PEER_READ);
		if (src == NULL)
			rc = reach_late(conn, &read->src, read->src_off, bytes,
					OL_XPORT_ACCESS_PEER_READ, &src);
		if (rc != 0)
			return post_finish(conn, read->flags, read->cookie, rc);
	}
	for (i = 0; i < read->seg_count; i++) {
		payload_copy(addrs[i], src, read->segs[i].bytes);
		src += read->segs[i].bytes;
	}
	ol_from_peer(); /* later reads see the same or newer: AFTER_READS is always kept */
	if (ol_word32_load(&conn->tx.ring->over) != 0) {
		/* the peer has freed the connection, and this read came too late; CONN_DOWN is
		 * about to follow */
		if ((read->flags & OL_XPORT_SIGNALED) != 0)
			done_push(conn, read->cookie, -ECONNABORTED);
		return 0;
	}
	return post_finish(conn, read->flags, read->cookie, 0);
}

int ol_shm_post_read(struct ol_xport_conn *base, const struct ol_xport_read *read)
{
	struct ol_shm_conn *conn = ol_shm_conn(base);

	return ol_xport_count_read(&conn->xport->counts, read, read_any(conn, read));
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
	ol_fds_unshare(at, bytes);
	return 0;
}
