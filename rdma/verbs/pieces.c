/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * pieces.c -- posts that a device does not take as they are
 *
 * A post is one request on most devices. Where a device lacks something (struct ol_verbs_lacks) it
 * becomes up to OL_VERBS_PIECES_MAX requests:
 *
 * - Bytes that the caller wants back at once, more than the device copies: they are copied here,
 *   into one of the connection's bounces, and are one segment then. A bounce is free again when its
 *   request, or a later one, has completed: op->bounce_head says how many were in use by then.
 * - Two segments, where a request has one: two requests, for places that follow each other.
 * - A doorbell without an immediate: a send of four bytes behind the write. The receive completion
 *   of a send gives the same guarantee, on InfiniBand and on iWARP: what was posted before it on
 *   this connection is there.
 *
 * The last request has the caller's cookie and signal. None of this happens on a device that lacks
 * nothing, but for posts of more bytes than it copies inline.
 */
#include "rdma/verbs/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	MEMORY_ALIGN = 4096,
};

int ol_verbs_own_open(struct ol_verbs_conn *conn)
{
	const struct ol_xport *xport = conn->base.xport;
	const size_t bounces = (size_t)OL_VERBS_BOUNCES * OL_VERBS_INLINE_FLOOR;
	const size_t bells = xport->lacks.imm ? xport->recv_depth * sizeof(uint32_t) : 0;
	struct ol_verbs_own *own = &conn->own;
	struct ol_verbs_span span;
	int rc;

	if (xport->lacks.inline_granted >= xport->caps.inline_max && xport->pieces_max == 1)
		return 0;
	own->bytes = (bounces + bells + MEMORY_ALIGN - 1) / MEMORY_ALIGN * MEMORY_ALIGN;
	own->memory =
		mmap(NULL, own->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (own->memory == MAP_FAILED) {
		own->memory = NULL;
		return -ENOMEM;
	}
	(void)madvise(own->memory, own->bytes, MADV_DONTFORK); /* else a fork may move its pages */
	span = ol_verbs_span_own(own->memory, own->bytes);
	rc = ol_verbs_mr_create(xport, ol_verbs_conn_pd(conn), &span, IBV_ACCESS_LOCAL_WRITE,
				&own->mr);
	if (rc != 0)
		return rc; /* the caller closes it */
	own->bounces = own->memory;
	if (bells != 0)
		own->bells = (uint32_t *)(void *)(own->memory + bounces);
	return 0;
}

void ol_verbs_own_close(struct ol_verbs_conn *conn)
{
	struct ol_verbs_own *own = &conn->own;

	if (own->memory == NULL)
		return;
	ol_verbs_mr_destroy(conn->base.xport, &own->mr);
	munmap(own->memory, own->bytes);
	*own = (struct ol_verbs_own){ .memory = NULL };
}

/* An element of so many bytes that are copied from what parts of a request name. */
static struct ibv_sge bounce_fill(struct ol_verbs_conn *conn, const struct ibv_sge *from, int count)
{
	uint8_t *to = conn->own.bounces +
		      (size_t)(conn->bounce_head % OL_VERBS_BOUNCES) * OL_VERBS_INLINE_FLOOR;
	struct ibv_sge sge = { .addr = (uintptr_t)to, .lkey = conn->own.mr->lkey };

	for (int i = 0; i < count; i++) {
		memcpy(to + sge.length, (const void *)(uintptr_t)from[i].addr, from[i].length);
		sge.length += from[i].length;
	}
	conn->bounce_head++;
	return sge;
}

/* A copy more than inline data and bell of one post take must be free. */
static bool bounces_are_free(const struct ol_verbs_conn *conn)
{
	return conn->bounce_head - conn->bounce_tail + 2 <= OL_VERBS_BOUNCES;
}

/* Makes a request of a request's second segment. */
static void second_split(struct ol_verbs_held *first, struct ol_verbs_held *second)
{
	second->wr = first->wr;
	second->sges[0] = first->sges[1];
	second->wr.sg_list = second->sges;
	second->wr.num_sge = 1;
	second->wr.wr.rdma.remote_addr += first->sges[0].length;
	first->wr.num_sge = 1;
	if (first->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		first->wr.opcode = IBV_WR_RDMA_WRITE;
	second->wr.send_flags &= ~(unsigned)IBV_SEND_FENCE; /* the first has waited */
}

/* Makes the doorbell that is sent, with what the write had for an immediate. */
static void bell_make(struct ol_verbs_conn *conn, struct ol_verbs_held *held, uint32_t imm)
{
	held->wr = (struct ibv_send_wr){ .opcode = IBV_WR_SEND, .num_sge = 1 };
	held->wr.sg_list = held->sges;
	held->bell = imm;
	held->sges[0] =
		(struct ibv_sge){ .addr = (uintptr_t)&held->bell, .length = OL_VERBS_BELL_BYTES };
	if (conn->base.xport->lacks.inline_granted >= OL_VERBS_BELL_BYTES)
		held->wr.send_flags = IBV_SEND_INLINE;
	else
		held->sges[0] = bounce_fill(conn, held->sges, 1);
}

int ol_verbs_pieces_make(struct ol_verbs_conn *conn, unsigned flags, uint32_t total)
{
	const struct ol_verbs_lacks *lacks = &conn->base.xport->lacks;
	struct ol_verbs_held *held = &conn->held[conn->held_count];
	const uint32_t imm = held->wr.imm_data;
	int count = 1;

	if (conn->own.memory != NULL && !bounces_are_free(conn))
		return -EAGAIN;
	if ((flags & OL_XPORT_INLINE) != 0 &&
	    (total > lacks->inline_granted || (lacks->gather && held->wr.num_sge > 1))) {
		held->sges[0] = bounce_fill(conn, held->sges, held->wr.num_sge);
		held->wr.num_sge = 1;
		held->wr.send_flags &= ~(unsigned)IBV_SEND_INLINE;
	}
	if (held->wr.num_sge > 1 &&
	    (held->wr.opcode == IBV_WR_RDMA_READ ? lacks->scatter : lacks->gather))
		second_split(held, held + count++);
	if (lacks->imm && (flags & OL_XPORT_DOORBELL) != 0) {
		if (total == 0)
			count = 0; /* the bell alone */
		else
			held[count - 1].wr.opcode = IBV_WR_RDMA_WRITE;
		bell_make(conn, held + count++, imm);
	}
	return count;
}
