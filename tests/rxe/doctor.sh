#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# doctor.sh -- outlast doctor sees the soft-RoCE device of a virtual machine and what its port has counted, would choose it, and
# knows its limits; a server that is given no host listens at that device's address
set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=${OUTLAST_BIN:-${OUTLAST_BUILD:-$root/build/dev}/outlast}

wrong() {
	echo "not ok: $1"
	cat "$tmp/out"
	bad=1
}

says() {
	grep -qE -- "$1" "$tmp/out" || wrong "does not say '$1'"
}

guest() {
	tmp=$(mktemp -d)
	bad=0
	"$bin" doctor --transport verbs --json "$tmp/json" >"$tmp/out" 2>&1 || wrong "status $? with a device"
	says "^ok +$OL_DEVICE +"
	says "port active, Ethernet, MTU [0-9]+, [a-z0-9]+ $OL_ADDR"
	says "gid [0-9]+: .*, RoCE v2, "
	says "would use $OL_DEVICE: --transport verbs --address $OL_ADDR"
	says "$OL_DEVICE/1 +nothing was sent again, refused or lost"
	grep -q '"retry_exceeded_err": 0' "$tmp/json" || wrong "JSON without the port's counters"
	says "^ok +device +$OL_DEVICE +default"
	says "^ok +port +1 +of the address"
	says "^ok +gid index +[0-9]+ +of the address and the RoCE version"
	says "^ok +path-mtu +4096 +of the port"
	grep -q '"link_layer": "Ethernet"' "$tmp/json" || wrong "JSON without the port"
	"$(dirname "$bin")/tests/rxe-guest-not_ready" || wrong "a write that finds no receive: status $?"
	"$bin" doctor --transport verbs --device "$OL_DEVICE" >"$tmp/out" 2>&1
	says "^warn +$OL_DEVICE/1 +since its driver was loaded: .*retry_rnr_exceeded_err 1"
	"$bin" doctor --transport verbs --device mlx5_0 >"$tmp/out" 2>&1
	[ $? = 6 ] || wrong "a device that is not there: not status 6"
	says "no device named mlx5_0"
	"$bin" doctor --transport verbs --device "$OL_DEVICE,mlx5_0" >"$tmp/out" 2>&1
	[ $? = 6 ] || wrong "one of two devices is not there: not status 6"
	says "not every device can be used"
	"$bin" serve --listen :0 --params 8 --ready-fd 3 3>"$tmp/ready" >"$tmp/out" 2>&1 &
	server=$!
	until [ -s "$tmp/ready" ] || ! kill -0 "$server" 2>/dev/null; do
		read -r -t 0.05 <> <(:) || :
	done
	kill "$server"
	wait "$server" || wrong "serve --listen :0: status $?"
	grep -qx "$OL_ADDR:[1-9][0-9]*" "$tmp/ready" || wrong "listens at $(cat "$tmp/ready"), not at $OL_ADDR"
	# a user whose memory is limited to less than the job needs
	(ulimit -l 64 && setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock "$bin" doctor) >"$tmp/out" 2>&1
	says "enough for 0 of 4 workers"
	says "ulimit -l unlimited"
	ip link set "$(rdma link show | sed -n 's/.*netdev \([a-z0-9]*\).*/\1/p' | head -n 1)" down
	"$bin" doctor --transport verbs >"$tmp/out" 2>&1
	[ $? = 6 ] || wrong "a port that is down: not status 6"
	says "port is down"
	rm -rf "$tmp"
	[ "$bad" = 0 ] && echo "ok"
	return "$bad"
}

if [ "${1:-}" = --guest ]; then
	guest
	exit
fi
exec "$root/tools/lab/run" --deadline 200 -- "$here/doctor.sh" --guest
