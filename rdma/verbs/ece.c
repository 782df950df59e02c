/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * ece.c -- enhanced connection establishment: what both adapters can do beyond the standard
 *
 * An adapter offers options of its vendor (mlx5: selective repeat, congestion control). They travel in
 * the connection manager's messages, and a queue pair uses those that both ends have agreed on.
 * librdmacm negotiates only for queue pairs that it makes itself: this is what its ucma_* functions
 * do (init_ece(), set_local_ece(), ucma_process_conn_resp_ece()), for ours. See
 * rdma_set_local_ece(3).
 */
#include "rdma/verbs/internal.h"

#include <errno.h>

#include "rdma/verbs/verbs_rc.h"

/* The queue pair's options; vendor_id 0: its provider has none. */
static struct ibv_ece ece_of(const struct ol_verbs_conn *conn)
{
	struct ibv_ece ece = { .vendor_id = 0 };

	if (ibv_query_ece(conn->qp, &ece) != 0)
		return (struct ibv_ece){ .vendor_id = 0 };
	ece.comp_mask = 0;
	return ece;
}

void ol_verbs_ece_offer(struct ol_verbs_conn *conn)
{
	struct ibv_ece ece = ece_of(conn);

	if (ece.vendor_id != 0)
		conn->manager->ece_tell(conn, &ece);
}

int ol_verbs_ece_take(struct ol_verbs_conn *conn)
{
	struct ibv_ece ece = ece_of(conn);
	struct ibv_ece remote;
	int rc;

	if (ece.vendor_id == 0 || !conn->manager->ece_told(conn, &remote))
		return 0;
	/* a peer that knows nothing of it, or another vendor's */
	ece.options = remote.vendor_id == ece.vendor_id ? remote.options : 0;
	rc = ol_rc_positive(ibv_set_ece(conn->qp, &ece));
	return rc == -EOPNOTSUPP ? 0 : rc;
}

void ol_verbs_ece_answer(struct ol_verbs_conn *conn)
{
	struct ibv_ece ece = ece_of(conn);
	struct ibv_ece remote;

	if (ece.vendor_id != 0 && conn->manager->ece_told(conn, &remote) &&
	    remote.vendor_id == ece.vendor_id)
		conn->manager->ece_tell(conn, &ece);
}
