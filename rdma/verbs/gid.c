/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * gid.c -- which of the port's addresses on the fabric a queue pair has
 *
 * Only oob.c asks: rdma_cm chooses by the IP address of the connection. A port of RoCE has a GID for
 * each IP address of its interface and of the VLANs on it, each in both versions of RoCE; a port of
 * InfiniBand needs but its LID, and the first GID where packets leave the subnet.
 */
#include "rdma/verbs/internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

enum {
	GIDS_MAX = 256, /* of a device; rdma_rxe has 1,024 places, most of them empty */
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

int ol_verbs_gid_choose(const struct ol_xport *xport, const struct ibv_gid_entry *like,
			const union ol_verbs_addr *beside, struct ibv_gid_entry *ret_entry)
{
	struct ibv_gid_entry entries[GIDS_MAX];
	const ssize_t count = ibv_query_gid_table(xport->ctx, entries, GIDS_MAX, 0);
	unsigned best = 0;

	for (ssize_t i = 0; i < count; i++) {
		const unsigned well =
			entries[i].port_num == xport->port ? serves(&entries[i], like, beside) : 0;

		if (well > best)
			*ret_entry = entries[i];
		best = well > best ? well : best;
	}
	return best != 0 ? 0 : -EHOSTUNREACH;
}
