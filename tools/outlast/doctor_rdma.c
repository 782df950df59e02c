/* SPDX-License-Identifier: BSD-3-Clause */

/* doctor_rdma.c -- checks of `outlast doctor` for RDMA devices */

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/rails.h"
#include "bench/host.h"
#include "cmd/device.h"
#include "outlast/doctor.h"

enum {
	GIDS_MAX = 64,
	PATH_BYTES = 256
};

static const char *state_str(enum ibv_port_state state)
{
	switch (state) {
	case IBV_PORT_ACTIVE:
		return "active";
	case IBV_PORT_DOWN:
		return "down";
	case IBV_PORT_INIT:
		return "initializing";
	case IBV_PORT_ARMED:
		return "armed";
	case IBV_PORT_ACTIVE_DEFER:
		return "active, deferred";
	case IBV_PORT_NOP:
		break;
	}
	return "unknown";
}

static const char *layer_str(uint8_t link_layer)
{
	return link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand";
}

static const char *gid_type_str(uint32_t type)
{
	switch ((enum ibv_gid_type)type) {
	case IBV_GID_TYPE_IB:
		return "IB";
	case IBV_GID_TYPE_ROCE_V1:
		return "RoCE v1";
	case IBV_GID_TYPE_ROCE_V2:
		return "RoCE v2";
	}
	return "unknown";
}

static int device_node(const char *name)
{
	char path[PATH_BYTES], text[32];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/numa_node", name);
	bench_file_line(path, text, sizeof(text));
	return text[0] != '\0' ? (int)strtol(text, NULL, 10) : -1;
}

/* The network interface if GIDs name none: IPoIB interfaces are children of the device */
static void device_netdev(const char *name, char *netdev, size_t bytes)
{
	struct if_nameindex *all = if_nameindex();
	char path[PATH_BYTES];

	netdev[0] = '\0';
	for (const struct if_nameindex *at = all; at != NULL && at->if_index != 0; at++) {
		snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/net/%s", name,
			 at->if_name);
		if (access(path, F_OK) == 0)
			snprintf(netdev, bytes, "%s", at->if_name);
	}
	if (all != NULL)
		if_freenameindex(all);
}

/* Is it the entry that connections from an IPv4 address of the port use? */
static bool gid_is_used(const struct ibv_gid_entry *entry)
{
	if (entry->gid_type == IBV_GID_TYPE_ROCE_V2)
		return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)entry->gid.raw);
	return entry->gid_type == IBV_GID_TYPE_IB && entry->gid_index == 0;
}

/* GIDs of one port; the name of the interface behind them */
static json_t *gids_list(struct ibv_context *context, uint32_t port, char *netdev, size_t bytes,
			 int *ret_used)
{
	struct ibv_gid_entry entries[GIDS_MAX];
	ssize_t count = ibv_query_gid_table(context, entries, GIDS_MAX, 0);
	json_t *gids = json_array();

	for (ssize_t i = 0; i < count; i++) {
		char gid[INET6_ADDRSTRLEN] = "", name[IF_NAMESIZE] = "";

		if (entries[i].port_num != port)
			continue;
		if (*ret_used < 0 && gid_is_used(&entries[i]))
			*ret_used = (int)entries[i].gid_index;
		inet_ntop(AF_INET6, entries[i].gid.raw, gid, sizeof(gid));
		if (if_indextoname(entries[i].ndev_ifindex, name) != NULL)
			snprintf(netdev, bytes, "%s", name);
		printf("           gid %u: %s, %s%s%s\n", entries[i].gid_index, gid,
		       gid_type_str(entries[i].gid_type), name[0] != '\0' ? ", " : "", name);
		json_array_append_new(gids,
				      json_pack("{s:i, s:s, s:s, s:s}", "index",
						(int)entries[i].gid_index, "gid", gid, "type",
						gid_type_str(entries[i].gid_type), "netdev", name));
	}
	return gids;
}

static void port_look(struct doctor *doctor, struct ibv_context *context, const char *name,
		      uint32_t port, json_t *ports)
{
	enum doctor_verdict lack = doctor->verbs_wanted ? DOCTOR_BAD : DOCTOR_WARN;
	char subject[96], netdev[IF_NAMESIZE], address[OL_HOST_MAX] = "";
	struct ibv_port_attr attr;
	json_t *gids, *counters = json_object();
	int mtu, used = -1;

	snprintf(subject, sizeof(subject), "%s/%u", name, port);
	if (ibv_query_port(context, (uint8_t)port, &attr) != 0) {
		doctor_find(doctor, lack, subject, "see the kernel log (dmesg)",
			    "the port cannot be queried");
		json_decref(counters);
		return;
	}
	device_netdev(name, netdev, sizeof(netdev));
	gids = gids_list(context, port, netdev, sizeof(netdev), &used);
	(void)ol_interface_host(netdev, address);
	mtu = attr.active_mtu >= IBV_MTU_256 ? 128 << attr.active_mtu : 0;
	if (attr.state != IBV_PORT_ACTIVE)
		doctor_find(doctor, lack, subject,
			    "bring the link up: ip link set NETDEV up; check the cable and, on "
			    "InfiniBand, the subnet manager",
			    "port is %s, %s", state_str(attr.state), layer_str(attr.link_layer));
	else if (address[0] == '\0')
		doctor_find(
			doctor, lack, subject,
			attr.link_layer == IBV_LINK_LAYER_INFINIBAND
				? "connect by another network, with addresses oob:HOST:PORT; or "
				  "by IPoIB: modprobe ib_ipoib; ip link set ib0 up; ip addr add "
				  "A.B.C.D/24 dev ib0"
				: "give its interface an IPv4 address: ip addr add A.B.C.D/24 "
				  "dev NETDEV",
			"port is active, %s, but its interface %s has no IPv4 address, which "
			"connections need",
			layer_str(attr.link_layer), netdev[0] != '\0' ? netdev : "(none)");
	else
		doctor_find(doctor, mtu >= 1024 ? DOCTOR_OK : DOCTOR_WARN, subject,
			    mtu >= 1024 ? NULL : "raise the interface's MTU to 4200 or 9000",
			    "port active, %s, MTU %d, %s %s", layer_str(attr.link_layer), mtu,
			    netdev, address);
	if (attr.state == IBV_PORT_ACTIVE && address[0] != '\0' &&
	    doctor->chosen_device[0] == '\0') {
		snprintf(doctor->chosen_device, sizeof(doctor->chosen_device), "%.60s", name);
		snprintf(doctor->chosen_address, sizeof(doctor->chosen_address), "%s", address);
		doctor->chosen_port = port;
		doctor->chosen_mtu = mtu;
		doctor->chosen_gid = used;
		doctor->node = device_node(name);
	}
	doctor_port_counters(doctor, name, port, counters);
	json_array_append_new(ports,
			      json_pack("{s:i, s:s, s:s, s:i, s:s, s:s, s:o, s:o}", "port",
					(int)port, "state", state_str(attr.state), "link_layer",
					layer_str(attr.link_layer), "mtu", mtu, "netdev", netdev,
					"address", address, "gids", gids, "counters", counters));
}

static void device_look(struct doctor *doctor, struct ibv_device *device, json_t *devices)
{
	enum doctor_verdict lack = doctor->verbs_wanted ? DOCTOR_BAD : DOCTOR_WARN;
	const char *name = ibv_get_device_name(device);
	struct ibv_context *context = ibv_open_device(device);
	struct ibv_device_attr attr;
	json_t *ports = json_array();

	if (context == NULL || ibv_query_device(context, &attr) != 0) {
		doctor_find(doctor, lack, name,
			    "let this user open /dev/infiniband/uverbs* (group, udev rule)",
			    "cannot be opened: %s", strerror(errno));
		json_decref(ports);
		if (context != NULL)
			ibv_close_device(context);
		return;
	}
	doctor_find(doctor, DOCTOR_OK, name, NULL, "firmware %s, up to %d queue pairs, node %d%s",
		    attr.fw_ver[0] != '\0' ? attr.fw_ver : "(none)", attr.max_qp, device_node(name),
		    strncmp(name, "rxe", 3) == 0
			    ? "; soft-RoCE: right for trying things, no word about a real adapter"
			    : "");
	for (uint32_t port = 1; port <= attr.phys_port_cnt; port++)
		port_look(doctor, context, name, port, ports);
	json_array_append_new(devices,
			      json_pack("{s:s, s:s, s:i, s:o}", "name", name, "firmware",
					attr.fw_ver, "node", device_node(name), "ports", ports));
	ibv_close_device(context);
}

/* Find out why there is no device, and the remedy */
static void none_look(struct doctor *doctor)
{
	enum doctor_verdict lack = doctor->verbs_wanted ? DOCTOR_BAD : DOCTOR_WARN;
	char path[PATH_BYTES];
	struct utsname uts;
	bool modules;

	if (uname(&uts) != 0)
		return;
	snprintf(path, sizeof(path), "/lib/modules/%s", uts.release);
	modules = access(path, F_OK) == 0;
	if (access("/sys/class/infiniband", F_OK) == 0 || modules)
		doctor_find(doctor, lack, "rdma",
			    "install rdma-core and ibverbs-providers; with no adapter: modprobe "
			    "rdma_rxe && rdma link add rxe0 type rxe netdev NETDEV (iproute2)",
			    "no RDMA device");
	else
		doctor_find(
			doctor, lack, "rdma",
			"tools/lab/run -- COMMAND gives a virtual machine with a soft-RoCE "
			"device (apt-get install qemu-system-x86 busybox-static kmod cpio iproute2 "
			"xz-utils)",
			"no RDMA device, and kernel %s has no modules to make one", uts.release);
}

static void choice_look(struct doctor *doctor)
{
	enum doctor_verdict lack = doctor->verbs_wanted ? DOCTOR_BAD : DOCTOR_WARN;

	if (doctor->chosen_device[0] == '\0')
		return;
	if (access("/dev/infiniband/rdma_cm", R_OK | W_OK) != 0) {
		doctor_find(doctor, lack, "rdma_cm", "modprobe rdma_ucm; let this user open it",
			    "/dev/infiniband/rdma_cm cannot be opened: %s", strerror(errno));
		return;
	}
	doctor->verbs_works = true;
	doctor_find(doctor, DOCTOR_OK, "verbs", NULL,
		    "would use %s: --transport verbs --address %s", doctor->chosen_device,
		    doctor->chosen_address);
}

/* Look at all devices of this name (NULL: any): is there one? */
static bool named_look(struct doctor *doctor, struct ibv_device **list, int count, const char *name,
		       json_t *devices)
{
	bool found = false;

	for (int i = 0; list != NULL && i < count; i++) {
		if (name != NULL && strcmp(name, ibv_get_device_name(list[i])) != 0)
			continue;
		found = true;
		device_look(doctor, list[i], devices);
	}
	return found;
}

void doctor_rdma(struct doctor *doctor, const char *wanted, json_t *devices)
{
	struct ibv_device **list;
	struct ol_rails rails;
	int count = 0;

	doctor->node = -1;
	list = ibv_get_device_list(&count);
	if (ol_rails_parse(wanted, &rails) != 0)
		doctor_find(doctor, DOCTOR_BAD, "rdma", OL_RAILS_HELP,
			    "device \"%.80s\" is no list of devices", wanted);
	else if (rails.count == 0)
		named_look(doctor, list, count, NULL, devices);
	for (uint32_t i = 0; i < rails.count; i++) {
		const uint32_t bad = doctor->bad;

		if (!named_look(doctor, list, count, rails.names[i], devices))
			doctor_find(doctor, DOCTOR_BAD, "rdma",
				    "outlast doctor lists those there are", "no device named %s",
				    rails.names[i]);
		doctor->named_lack |= doctor->bad != bad;
	}
	if (list != NULL)
		ibv_free_device_list(list);
	if (count == 0)
		none_look(doctor);
	choice_look(doctor);
}
