/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * post.c -- writes and reads: the data path's sending half
 *
 * A request takes one entry of the connection's ring, and a post is one request, or a few
 * (pieces.c). The entry is free again once a completion of that request, or of a later one, was
 * polled: completions of one queue pair come in order. Of the posts that the caller leaves
 * unsignaled, enough are signaled here that the ring cannot stay full.
 *
 * HELD BACK. Every request is made in the connection's held array and handed to the adapter from
 * there: at once, or, if the caller set OL_XPORT_MORE, in one list with later ones. Inline requests
 * are never held, as their buffers belong to the caller again. A held request has a ring entry.
 *
 * The local half of a request is checked here; the peer's adapter checks the peer's half.
 */
#include "rdma/verbs/internal.h"

#include <arpa/inet.h>
#include <errno.h>

#include "rdma/verbs/verbs_rc.h"

static const struct ibv_mr *region_mr(const struct ol_xport_region *region,
				      const struct ol_verbs_conn *conn)
{
	if (region->common)
		return region->mrs[conn->domain];
	return region->conn == conn ? region->mr : NULL;
}

/* One scatter element of a segment; bounds are the region's. */
static int seg_sge(const struct ol_verbs_conn *conn, const struct ol_xport_seg *seg, bool is_inline,
		   struct ibv_sge *sge)
{
	const struct ol_xport_region *region = seg->region;
	const struct ibv_mr *mr;
	size_t reach;

	sge->length = seg->bytes;
	if (region == NULL) {
		if (!is_inline)
			return -EINVAL;
		sge->addr = seg->off;
		sge->lkey = 0;
		return 0;
	}
	mr = region_mr(region, conn);
	reach = is_inline ? region->inline_bytes : region->span.bytes;
	if (mr == NULL || seg->off > reach || seg->bytes > reach - seg->off)
		return -EINVAL;
	sge->addr = region->span.iova + seg->off;
	sge->lkey = mr->lkey;
	return 0;
}

/* Fills sges; empty segments take none. Returns how many, or -EINVAL. */
static int segs_sges(const struct ol_verbs_conn *conn, const struct ol_xport_seg *segs,
		     unsigned count, unsigned flags, struct ibv_sge sges[OL_XPORT_SEGS_MAX],
		     uint64_t *ret_total)
{
	const struct ol_xport_caps *caps = &conn->base.xport->caps;
	const bool is_inline = (flags & OL_XPORT_INLINE) != 0;
	uint64_t total = 0;
	int used = 0;

	if (count > OL_XPORT_SEGS_MAX)
		return -EINVAL;
	for (unsigned i = 0; i < count; i++) {
		if (segs[i].bytes == 0)
			continue;
		if (seg_sge(conn, &segs[i], is_inline, &sges[used]) != 0)
			return -EINVAL;
		total += segs[i].bytes;
		used++;
	}
	if (total > (is_inline ? caps->inline_max : caps->write_max))
		return -EINVAL;
	*ret_total = total;
	return used;
}

/* Where the next request is made; its segments' elements lie beside it. */
static struct ol_verbs_held *held_next(struct ol_verbs_conn *conn)
{
	struct ol_verbs_held *held = &conn->held[conn->held_count];

	held->wr = (struct ibv_send_wr){ .sg_list = held->sges };
	return held;
}

/*
 * The adapter has not taken the last `count` requests, which are one post, so it was not posted;
 * perhaps nor those before it. If it took the first of them, poll() hands over the rest.
 */
static int post_undo(struct ol_verbs_conn *conn, uint32_t count, uint32_t unsignaled,
		     uint32_t bounce_head, int rc)
{
	if (conn->held_count < count) {
		ol_verbs_holders_add(conn);
		return 0;
	}
	conn->held_count -= count;
	conn->head -= count;
	conn->unsignaled = unsignaled;
	conn->bounce_head = bounce_head;
	if (conn->held_count > 0 ||
	    rc == ENOMEM) /* the queue is full; or poll() finds the reason */
		return -EAGAIN;
	return rc == EINVAL ? -EINVAL : -ENOTCONN;
}

/* True if the next post must complete visibly, so that ring and bounces cannot stay full. */
static bool signal_is_due(const struct ol_verbs_conn *conn, uint32_t count)
{
	return conn->unsignaled + count >= conn->base.xport->signal_every ||
	       conn->bounce_head - conn->bounce_seen >= OL_VERBS_BOUNCES / 4;
}

/*
 * Posts the `count` requests behind held, or holds them back; identity and signal are set here.
 * bounce_head: that of the connection before them
 */
static int wrs_post(struct ol_verbs_conn *conn, uint32_t count, unsigned flags, uint64_t cookie,
		    uint32_t bounce_head)
{
	struct ol_verbs_held *held = &conn->held[conn->held_count];
	const bool signaled = (flags & OL_XPORT_SIGNALED) != 0;
	const uint32_t unsignaled = conn->unsignaled;
	const bool visible = signaled || signal_is_due(conn, count);
	unsigned at_once = 0;
	int rc;

	for (uint32_t i = 0; i < count; i++, conn->head++) {
		struct ol_verbs_op *op = &conn->ops[conn->head & conn->ops_mask];

		held[i].wr.wr_id = (uint64_t)conn->slot << OL_VERBS_WR_SLOT_SHIFT |
				   (conn->head & OL_VERBS_WR_SEQ_MASK);
		op->cookie = cookie;
		op->signaled = signaled && i + 1 == count;
		op->rest = (uint8_t)(count - 1 - i);
		op->opcode = (uint8_t)held[i].wr.opcode;
		op->bounce_head = conn->bounce_head;
		at_once |= held[i].wr.send_flags & IBV_SEND_INLINE;
	}
	conn->held_count += count;
	conn->unsignaled = unsignaled + count;
	if (visible) {
		held[count - 1].wr.send_flags |= IBV_SEND_SIGNALED;
		conn->unsignaled = 0;
		conn->bounce_seen = conn->bounce_head;
	}
	if ((flags & OL_XPORT_MORE) != 0 && at_once == 0 && conn->held_count < OL_VERBS_HELD_MAX) {
		ol_verbs_holders_add(conn);
		return 0;
	}
	rc = ol_verbs_held_post(conn);
	return rc == 0 ? 0 : post_undo(conn, count, unsignaled, bounce_head, rc);
}

/* Posts the request in held_next(), as several if the device does not take it as it is. */
static int wr_post(struct ol_verbs_conn *conn, unsigned flags, uint64_t total, uint64_t cookie)
{
	const struct ol_verbs_lacks *lacks = &conn->base.xport->lacks;
	const uint32_t bounce_head = conn->bounce_head;
	int count = 1;

	if (conn->base.xport->pieces_max > 1 ||
	    ((flags & OL_XPORT_INLINE) != 0 && total > lacks->inline_granted))
		count = ol_verbs_pieces_make(conn, flags, (uint32_t)total);
	return count < 0 ? count : wrs_post(conn, (uint32_t)count, flags, cookie, bounce_head);
}

static int post_allowed(const struct ol_verbs_conn *conn)
{
	if (conn->state != OL_VERBS_UP)
		return -ENOTCONN;
	if (conn->head - conn->tail + conn->base.xport->pieces_max > conn->base.xport->ring)
		return -EAGAIN;
	return 0;
}

static int write_post(struct ol_verbs_conn *conn, const struct ol_xport_write *write)
{
	const bool bell = (write->flags & OL_XPORT_DOORBELL) != 0;
	struct ol_verbs_held *held;
	uint64_t total;
	int rc;

	rc = post_allowed(conn);
	if (rc != 0)
		return rc;
	held = held_next(conn);
	held->wr.opcode = bell ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
	held->wr.imm_data = htonl(write->imm);
	held->wr.num_sge =
		segs_sges(conn, write->segs, write->seg_count, write->flags, held->sges, &total);
	if (held->wr.num_sge < 0 || (total == 0 && !bell))
		return -EINVAL;
	if (total != 0) {
		held->wr.wr.rdma.remote_addr = write->dst.addr + write->dst_off;
		held->wr.wr.rdma.rkey = write->dst.rkey;
		if ((write->flags & OL_XPORT_INLINE) != 0)
			held->wr.send_flags = IBV_SEND_INLINE;
	}
	return wr_post(conn, write->flags, total, write->cookie);
}

int ol_verbs_post_write(struct ol_xport_conn *base, const struct ol_xport_write *write)
{
	return ol_xport_count_write(&base->xport->counts, write,
				    write_post(ol_verbs_conn(base), write));
}

static int read_post(struct ol_verbs_conn *conn, const struct ol_xport_read *read)
{
	struct ol_verbs_held *held;
	uint64_t total;
	int rc;

	rc = post_allowed(conn);
	if (rc != 0)
		return rc;
	if ((read->flags & (OL_XPORT_INLINE | OL_XPORT_DOORBELL)) != 0)
		return -EINVAL;
	held = held_next(conn);
	held->wr.opcode = IBV_WR_RDMA_READ;
	held->wr.num_sge =
		segs_sges(conn, read->segs, read->seg_count, read->flags, held->sges, &total);
	if (held->wr.num_sge <= 0)
		return -EINVAL;
	held->wr.wr.rdma.remote_addr = read->src.addr + read->src_off;
	held->wr.wr.rdma.rkey = read->src.rkey;
	if ((read->flags & OL_XPORT_AFTER_READS) != 0)
		held->wr.send_flags = conn->base.xport->fence_flags;
	return wr_post(conn, read->flags, total, read->cookie);
}

int ol_verbs_post_read(struct ol_xport_conn *base, const struct ol_xport_read *read)
{
	return ol_xport_count_read(&base->xport->counts, read,
				   read_post(ol_verbs_conn(base), read));
}
