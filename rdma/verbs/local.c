/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * local.c -- this machine's addresses: which of them are the device's, and which reach a peer
 *
 * rdma_cm finds the device by the address that an identifier is bound to, or else by the route. So a
 * named device is used only by an identifier that is bound to one of the device's addresses. Whether
 * an address is the device's is asked of the kernel by binding to it: that covers GIDs of RoCE, VLANs
 * and IPoIB alike.
 */
#include "rdma/verbs/internal.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rdma/fds.h"

static bool addr_same(const union ol_verbs_addr *a, const union ol_verbs_addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	return IN6_ARE_ADDR_EQUAL(&a->in6.sin6_addr, &b->in6.sin6_addr);
}

static bool addr_link_local(const union ol_verbs_addr *addr)
{
	return addr->sa.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&addr->in6.sin6_addr);
}

/* The address of an interface, with port 0; false: neither IPv4 nor IPv6. */
static bool addr_take(const struct sockaddr *sa, union ol_verbs_addr *ret_addr)
{
	if (sa == NULL || (sa->sa_family != AF_INET && sa->sa_family != AF_INET6))
		return false;
	*ret_addr = (union ol_verbs_addr){ .storage = { 0 } };
	memcpy(ret_addr, sa,
	       sa->sa_family == AF_INET ? sizeof(ret_addr->in) : sizeof(ret_addr->in6));
	ret_addr->in.sin_port = 0; /* same place in both families */
	return true;
}

bool ol_verbs_local_has(const union ol_verbs_addr *addr)
{
	union ol_verbs_addr have;
	struct ifaddrs *list;
	bool found = false;

	if (getifaddrs(&list) != 0)
		return false;
	for (const struct ifaddrs *at = list; at != NULL && !found; at = at->ifa_next)
		found = addr_take(at->ifa_addr, &have) && addr_same(&have, addr);
	freeifaddrs(list);
	return found;
}

/* True if the transport's device has the address. */
static bool addr_is_device(struct ol_xport *xport, union ol_verbs_addr *addr)
{
	struct rdma_cm_id *id;
	bool same;

	if (rdma_create_id(xport->channel, &id, NULL, RDMA_PS_TCP) != 0)
		return false;
	same = rdma_bind_addr(id, &addr->sa) == 0 && id->verbs != NULL &&
	       strcmp(ibv_get_device_name(id->verbs->device),
		      ibv_get_device_name(xport->ctx->device)) == 0;
	rdma_destroy_id(id);
	return same;
}

/*
 * The address from which the kernel's route leads to `to`; interface NULL: whichever the route
 * takes. No packet is sent. Without the right to bind to an interface (kernels before 5.7) any route
 * counts.
 */
static bool route_from(const char *interface, const union ol_verbs_addr *to,
		       union ol_verbs_addr *ret_from)
{
	socklen_t bytes = sizeof(*ret_from);
	union ol_verbs_addr aim = *to;
	bool leads;
	int sock;

	sock = ol_fds_add(socket(to->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	if (sock < 0)
		return false;
	if (interface != NULL)
		(void)setsockopt(sock, SOL_SOCKET, SO_BINDTODEVICE, interface,
				 (socklen_t)strlen(interface));
	if (aim.in.sin_port == 0)
		aim.in.sin_port = 1;
	leads = connect(sock, &aim.sa, ol_verbs_addr_bytes(&aim)) == 0 &&
		getsockname(sock, &ret_from->sa, &bytes) == 0;
	ret_from->in.sin_port = 0;
	ol_fds_close(sock);
	return leads;
}

static bool subnet_has(const struct ifaddrs *at, const union ol_verbs_addr *to)
{
	const union ol_verbs_addr *mask = (const void *)at->ifa_netmask;
	const union ol_verbs_addr *have = (const void *)at->ifa_addr;

	if (mask == NULL)
		return false;
	if (to->sa.sa_family == AF_INET)
		return ((have->in.sin_addr.s_addr ^ to->in.sin_addr.s_addr) &
			mask->in.sin_addr.s_addr) == 0;
	for (unsigned i = 0; i < sizeof(to->in6.sin6_addr); i++) {
		if (((have->in6.sin6_addr.s6_addr[i] ^ to->in6.sin6_addr.s6_addr[i]) &
		     mask->in6.sin6_addr.s6_addr[i]) != 0)
			return false;
	}
	return true;
}

/* How well an address of the device serves; 0: not at all. */
static unsigned serves(const struct ifaddrs *at, const union ol_verbs_addr *have,
		       const union ol_verbs_addr *to)
{
	union ol_verbs_addr from;

	if (!ol_verbs_addr_is_any(to)) { /* to reach a peer */
		if (have->sa.sa_family != to->sa.sa_family ||
		    addr_link_local(have) != addr_link_local(to) ||
		    !route_from(at->ifa_name, to, &from))
			return 0;
		return subnet_has(at, to) ? 2 : 1;
	}
	/* to be reached by peers */
	if (have->sa.sa_family == AF_INET6 && to->sa.sa_family == AF_INET)
		return 0;
	if (addr_link_local(have))
		return 1;
	return have->sa.sa_family == to->sa.sa_family ? 3 : 2;
}

/* The device's own, or (NULL) one of an interface that is up and leads to other hosts */
static bool is_eligible(struct ol_xport *xport, const struct ifaddrs *at, union ol_verbs_addr *have)
{
	return xport != NULL ? addr_is_device(xport, have)
			     : (at->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP;
}

/* Of those addresses the one that serves `to` best; ret_any: there was one of its family */
static int local_choose(struct ol_xport *xport, const union ol_verbs_addr *to,
			union ol_verbs_addr *ret_addr, bool *ret_any)
{
	union ol_verbs_addr have;
	struct ifaddrs *list;
	unsigned best = 0;

	*ret_any = false;
	if (getifaddrs(&list) != 0)
		return -errno;
	for (const struct ifaddrs *at = list; at != NULL; at = at->ifa_next) {
		unsigned well;

		if (!addr_take(at->ifa_addr, &have) || !is_eligible(xport, at, &have))
			continue;
		*ret_any = *ret_any || have.sa.sa_family == to->sa.sa_family;
		well = serves(at, &have, to);
		if (well > best)
			*ret_addr = have;
		best = well > best ? well : best;
	}
	freeifaddrs(list);
	return best != 0 ? 0 : -EADDRNOTAVAIL;
}

int ol_verbs_local_outward(const union ol_verbs_addr *any, union ol_verbs_addr *ret_addr)
{
	bool some;

	return local_choose(NULL, any, ret_addr, &some);
}

/* Writes what the device lacks, and the remedy. */
static void lack_log(const struct ol_xport *xport, const union ol_verbs_addr *to, bool any)
{
	const struct ibv_device *device = xport->ctx->device;
	char path[sizeof(device->ibdev_path) + 48];
	char interface[IF_NAMESIZE] = "NETDEV";
	char text[OL_XPORT_ADDR_MAX];
	struct ibv_port_attr attr;
	FILE *file;

	if (any) {
		ol_verbs_addr_text(&to->sa, text);
		ol_xport_log(
			&xport->opts, OL_XPORT_LOG_ERROR,
			"device %s has no route to %s: add one over its interface, or name the "
			"device that has it",
			device->name, text);
		return;
	}
	if (ibv_query_port(xport->ctx, 1, &attr) == 0 &&
	    attr.link_layer == IBV_LINK_LAYER_INFINIBAND) {
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
			     "device %s has no IP address, by which connections are made: use an "
			     "address of another network, oob:HOST:PORT, or IPoIB: modprobe "
			     "ib_ipoib, ip link set ib0 up, ip addr add A.B.C.D/24 dev ib0",
			     device->name);
		return;
	}
	snprintf(path, sizeof(path), "%s/ports/1/gid_attrs/ndevs/0", device->ibdev_path);
	file = fopen(path, "re");
	if (file != NULL) {
		(void)!fscanf(file, "%15s", interface);
		fclose(file);
	}
	ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
		     "device %s has no IP address of this kind, by which connections are made: ip "
		     "addr add A.B.C.D/24 dev %s",
		     device->name, interface);
}

int ol_verbs_local_find(struct ol_xport *xport, const union ol_verbs_addr *to,
			union ol_verbs_addr *ret_addr)
{
	union ol_verbs_addr have;
	bool any;
	int rc;

	/* the route's own choice, if it is the device's */
	if (!ol_verbs_addr_is_any(to) && route_from(NULL, to, &have) &&
	    addr_is_device(xport, &have)) {
		*ret_addr = have;
		return 0;
	}
	rc = local_choose(xport, to, ret_addr, &any);
	if (rc == -EADDRNOTAVAIL)
		lack_log(xport, to, any);
	return rc;
}
