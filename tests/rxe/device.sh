#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# device.sh -- a named device is the one that is used: four soft-RoCE devices in one virtual machine
#
# rxe0 and rxe1 are the two ends of a cable, in one network: whatever goes between them would go by rxe0 if the route
# decided. bare0 has no address, vlan0 one on a VLAN.
set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${OUTLAST_BUILD:-$root/build/dev}

# gid_wait DEVICE PATTERN -- until a GID of the device matches
gid_wait() {
	local i

	for ((i = 0; i < 100; i++)); do
		! grep -qs "$2" /sys/class/infiniband/"$1"/ports/1/gids/* || return 0
		sleep 0.1
	done
	echo "no GID of $1 matches $2"
	return 1
}

devices_make() {
	# packets from our own addresses are no martians here
	sysctl -qw net.ipv4.conf.all.accept_local=1 net.ipv4.conf.d0.accept_local=1 net.ipv4.conf.d1.accept_local=1 \
		net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.d0.rp_filter=0 net.ipv4.conf.d1.rp_filter=0
	ip addr add "$OL_ADDR_RXE1/24" dev d1
	ip addr add "$OL_ADDR6/64" dev d0 nodad
	ip addr add "$OL_ADDR6_RXE1/64" dev d1 nodad
	ip link add b0 type veth peer name b1
	ip link add v0 mtu 9000 type veth peer name v1
	ip link add link v0 name v0.5 type vlan id 5
	ip addr add "$OL_ADDR_VLAN/24" dev v0.5
	for link in b0 b1 v0 v1 v0.5; do
		ip link set "$link" up
	done
	rdma link add rxe1 type rxe netdev d1
	rdma link add bare0 type rxe netdev b0
	rdma link add vlan0 type rxe netdev v0
	# the tables of GIDs follow the addresses a little later
	gid_wait rxe1 "0a4d:0009" && gid_wait rxe0 "fd77:" && gid_wait rxe1 "fd77:" && gid_wait vlan0 "0a4f:0001"
}

if [ "${1:-}" != --guest ]; then
	exec "$root/tools/lab/run" --deadline 300 -- bash "$here/device.sh" --guest
fi
export OL_ADDR_RXE1=10.77.0.9 OL_ADDR6=[fd77::1] OL_ADDR6_RXE1=[fd77::9] OL_ADDR_VLAN=10.79.0.1
OL_ADDR6=${OL_ADDR6//[][]/} OL_ADDR6_RXE1=${OL_ADDR6_RXE1//[][]/} devices_make || exit 1
"$build/tests/rxe-guest-device_bound" verbs
