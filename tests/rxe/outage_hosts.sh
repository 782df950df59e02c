#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# outage_hosts.sh -- when a server's host is cut off and healed, then loses power, workers go on and lose no gradient
#
# Three hosts: workers, servers, and one for new servers. Prints the detection time for each lease.
#
# alone: three machines
set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=${OUTLAST_BUILD:-$root/build/dev}/tests/rxe-guest-outage_hosts

if [ "${1-}" != guest ]; then
	if [ "$(id -u)" != 0 ]; then
		echo "outage_hosts: needs root, for a bridge and taps" >&2
		exit 77
	fi
	exec "$root/tools/lab/run" --hosts 3 --deadline 600 -- env OUTLAST_BUILD="${OUTLAST_BUILD:-$root/build/dev}" bash "$0" guest
fi

wait_for() {
	until [ -e "$OL_OUT/$1" ]; do
		sleep 0.1
	done
}

case $OL_HOST in
0)
	"$bin" worker "$OL_ADDR_1" "$OL_ADDR_2"
	status=$?
	: >"$OL_OUT/off" # whatever happened: the others must end
	: >"$OL_OUT/done"
	exit $status
	;;
1) # until its power is cut; or the worker has failed
	"$bin" servers "$OL_ADDR_1" none &
	;;
2)
	wait_for off
	"$bin" servers "$OL_ADDR_2" mirror &
	;;
esac
wait_for done
kill $!
wait $!
