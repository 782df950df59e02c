/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * oob_path.c -- where a queue pair of oob.c sends its packets: this end's address on the fabric, and the
 * path to the peer's
 *
 * rdma_cm chooses by the IP address of the connection. Here a port of RoCE has a GID for
 * each IP address of its interface and of the VLANs on it, each in both versions of RoCE; a port of
 * InfiniBand needs but its LID, and the first GID where packets leave the subnet.
 */
#include "rdma/verbs/oob.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "rdma/verbs/verbs_rc.h"

enum {
	HOP_LIMIT = 64, /* of packets of RoCE version 2 that are routed */
	SLOW_MS = 300, /* a path that took longer, in vain */
	SLOW_APART_MS = 10000, /* see oob.c */
};

/* An IPv4 address is in the table as ::ffff:a.b.c.d. */
static bool gid_is_ipv4(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)gid->raw);
}

static bool gid_is_link_local(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)(const void *)gid->raw);
}

static bool gid_is(const union ibv_gid *gid, const union ol_verbs_addr *addr)
{
	if (addr->sa.sa_family == AF_INET6)
		return memcmp(gid->raw, &addr->in6.sin6_addr, sizeof(gid->raw)) == 0;
	return gid_is_ipv4(gid) && memcmp(gid->raw + 12, &addr->in.sin_addr, 4) == 0;
}

/* How well it serves; 0: not at all. */
static unsigned serves(const struct ibv_gid_entry *have, const struct ibv_gid_entry *like,
		       const union ol_verbs_addr *beside)
{
	unsigned well = 1;

	if (have->gid_type == IBV_GID_TYPE_IB)
		return have->gid_index == 0;
	if (like != NULL && (have->gid_type != like->gid_type ||
			     gid_is_ipv4(&have->gid) != gid_is_ipv4(&like->gid) ||
			     gid_is_link_local(&have->gid) != gid_is_link_local(&like->gid)))
		return 0;
	if (have->gid_type == IBV_GID_TYPE_ROCE_V2)
		well += 8;
	if (gid_is(&have->gid, beside))
		well += 4;
	if (gid_is_ipv4(&have->gid))
		well += 2;
	return gid_is_link_local(&have->gid) ? well : well + 1;
}

/*
 * The address by which the end's port is reached. like: see ol_verbs_oob_locate(); beside: this end's
 * address of the TCP connection, which is taken if it is one of the port's.
 */
static int gid_choose(struct ol_verbs_oob_end *end, const struct ibv_gid_entry *like,
		      const union ol_verbs_addr *beside)
{
	const struct ol_xport *xport = end->conn->base.xport;
	struct ibv_gid_entry entry;
	unsigned best = 0;

	/* a path names an entry by one byte; most places are empty */
	for (int i = 0; i < end->port.gid_tbl_len && i <= UINT8_MAX; i++) {
		unsigned well;

		if (ibv_query_gid_ex(xport->ctx, xport->port, (uint32_t)i, &entry, 0) != 0)
			continue;
		well = serves(&entry, like, beside);
		if (well > best)
			end->gid = entry;
		best = well > best ? well : best;
	}
	return best != 0 ? 0 : -EHOSTUNREACH;
}

int ol_verbs_oob_locate(struct ol_verbs_oob_end *end, const struct ibv_gid_entry *like)
{
	const struct ol_xport *xport = end->conn->base.xport;
	union ol_verbs_addr beside = { .sa.sa_family = AF_UNSPEC };
	socklen_t bytes = sizeof(beside);
	int rc;

	(void)getsockname(end->fd, &beside.sa, &bytes);
	rc = ol_rc_positive(ibv_query_port(xport->ctx, xport->port, &end->port));
	if (rc == 0)
		rc = gid_choose(end, like, &beside);
	if (rc == 0 && getrandom(&end->psn, sizeof(end->psn), 0) != sizeof(end->psn))
		rc = -EIO;
	end->psn &= OOB_PSN_MASK;
	return rc;
}

static struct ibv_ah_attr path_of(const struct ol_verbs_oob_end *end)
{
	const struct ol_xport *xport = end->conn->base.xport;
	const bool ethernet = end->port.link_layer == IBV_LINK_LAYER_ETHERNET;
	struct ibv_ah_attr path = {
		.dlid = le16toh(end->peer.lid),
		.port_num = xport->port,
		/* within a subnet of InfiniBand the LID suffices */
		.is_global = ethernet || memcmp(end->peer.gid, end->gid.gid.raw, 8) != 0 ||
			     (end->port.flags & IBV_QPF_GRH_REQUIRED) != 0 ||
			     (le32toh(end->peer.flags) & OOB_NEEDS_GRH) != 0,
		.sl = ethernet ? (uint8_t)(xport->opts.wire.traffic_class >> 5) : 0,
		.grh = { .sgid_index = (uint8_t)end->gid.gid_index, .hop_limit = HOP_LIMIT },
	};

	memcpy(path.grh.dgid.raw, end->peer.gid, sizeof(path.grh.dgid.raw));
	return path;
}

/* The mark of a peer that was reached; NULL: it was not, or is forgotten */
static uint8_t *reached_find(struct ol_verbs_oob *oob, const uint8_t gid[16])
{
	for (uint32_t i = 0; i < oob->reached_count && i < OOB_REACHED_MAX; i++) {
		if (memcmp(oob->reached[i], gid, sizeof(oob->reached[i])) == 0)
			return oob->reached[i];
	}
	return NULL;
}

/* False: to look for an unknown peer may cost a second again */
static bool may_try(const struct ol_verbs_oob_end *end)
{
	struct ol_verbs_oob *oob = end->conn->base.xport->oob;

	return oob->slow_ns == 0 || reached_find(oob, end->peer.gid) != NULL ||
	       ol_xport_now_ns() - oob->slow_ns > SLOW_APART_MS * UINT64_C(1000000);
}

int ol_verbs_oob_tried(struct ol_verbs_conn *conn, int rc, uint64_t took_ns)
{
	struct ol_verbs_oob *oob = conn->base.xport->oob;
	const uint8_t *gid = conn->oob->peer.gid;
	uint8_t *reached = reached_find(oob, gid);

	if (rc == 0 && reached == NULL)
		memcpy(oob->reached[oob->reached_count++ % OOB_REACHED_MAX], gid, 16);
	if (rc != 0 && took_ns > SLOW_MS * UINT64_C(1000000)) {
		oob->slow_ns = ol_xport_now_ns();
		if (reached != NULL)
			memset(reached, 0, 16);
	}
	return rc == -ETIMEDOUT || rc == -ENETUNREACH ? -EHOSTUNREACH : rc;
}

int ol_verbs_oob_attr(struct ol_verbs_conn *conn, enum ibv_qp_state state, struct ibv_qp_attr *attr,
		      int *mask)
{
	const struct ol_verbs_oob_end *end = conn->oob;

	*attr = (struct ibv_qp_attr){ .qp_state = state };
	*mask = IBV_QP_STATE;
	if (state == IBV_QPS_INIT) {
		*mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
		attr->port_num = conn->base.xport->port;
	} else if (state == IBV_QPS_RTR) {
		if (!may_try(end))
			return -EHOSTUNREACH;
		*mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		attr->ah_attr = path_of(end);
		attr->path_mtu = end->port.active_mtu;
		if (end->peer.mtu != 0 && end->peer.mtu < attr->path_mtu)
			attr->path_mtu = (enum ibv_mtu)end->peer.mtu;
		attr->dest_qp_num = le32toh(end->peer.qp_num);
		attr->rq_psn = le32toh(end->peer.psn);
		attr->max_dest_rd_atomic = conn->responder_resources;
	} else {
		*mask |= IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			 IBV_QP_MAX_QP_RD_ATOMIC;
		attr->sq_psn = end->psn;
		attr->max_rd_atomic = conn->initiator_depth;
	}
	return 0;
}
