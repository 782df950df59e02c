/* SPDX-License-Identifier: BSD-3-Clause */

/* held.c -- posts that a connection holds back, to hand them to the adapter as one list: see post.c */

#include "rdma/verbs/internal.h"

int ol_verbs_held_post(struct ol_verbs_conn *conn)
{
	struct ol_verbs_held *held = conn->held;
	struct ibv_send_wr *bad = NULL;
	uint32_t taken = 0;
	int rc;

	for (uint32_t i = 0; i < conn->held_count; i++)
		held[i].wr.next = i + 1 < conn->held_count ? &held[i + 1].wr : NULL;
	rc = ibv_post_send(conn->qp, &held[0].wr, &bad);
	if (rc == 0) {
		conn->held_count = 0;
		return 0;
	}
	while (taken < conn->held_count && &held[taken].wr != bad)
		taken++;
	if (taken == conn->held_count)
		taken = 0;
	conn->held_count -= taken;
	for (uint32_t i = 0; i < conn->held_count; i++) {
		held[i] = held[i + taken];
		held[i].wr.sg_list = held[i].sges;
		if (held[i].wr.opcode == IBV_WR_SEND && (held[i].wr.send_flags & IBV_SEND_INLINE))
			held[i].sges[0].addr = (uintptr_t)&held[i].bell;
	}
	return rc;
}

void ol_verbs_holders_add(struct ol_verbs_conn *conn)
{
	if (conn->in_holders)
		return;
	conn->in_holders = true;
	conn->holders_next = conn->base.xport->holders;
	conn->base.xport->holders = conn;
}

void ol_verbs_holders_remove(struct ol_verbs_conn *conn)
{
	struct ol_verbs_conn **at = &conn->base.xport->holders;

	if (!conn->in_holders)
		return;
	while (*at != conn)
		at = &(*at)->holders_next;
	*at = conn->holders_next;
	conn->in_holders = false;
}
