#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# chain_hosts.sh -- hosts of a chain are cut off from each other for longer than the lease, and healed: one history
#
# Five hosts: one with a ZooKeeper server, three servers, one worker. Every push that was reported done is in the
# weights once; a server that was removed ends by itself and has changed nothing. A cut names the roles on either side:
# H, M, T head, middle and tail, C coordinator, W worker, at that time; roles not named reach all. "+": pushes are
# committed during the cut, as the worker reaches a head that reaches the others, or may remove them; without it nothing
# is committed until it heals. OL_CUTS="H|MT+ ..." are the cuts to make; OL_CUTS=all: every one of the list below.
#
# alone: five machines
set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=${OUTLAST_BUILD:-$root/build/dev}/tests/rxe-guest-chain_hosts

# from everybody; from the rest of the chain; from the coordinator; from both; with others on its side
usual="H|MTCW+ H|C+ T|HMCW+ HW|MTC HCW|MT+ C|HMTW+"
others="H|MT+ H|MTC+ M|HTCW+ M|HT+ M|C+ M|HTC+ T|HM+ T|C+ T|HMC+ H|M+ T|M+ H|W T|W TW|HMC HC|MTW CW|HMT HM|TCW+ MT|HCW+ H>MT+ H>C+ H>MTC+ T>HM+"

if [ "${1-}" != guest ]; then
	if [ "$(id -u)" != 0 ]; then
		echo "chain_hosts: needs root, for a bridge and taps" >&2
		exit 77
	fi
	[ -r /usr/share/java/zookeeper.jar ] && command -v java >/dev/null || {
		echo "chain_hosts: needs java and /usr/share/java/zookeeper.jar: install zookeeper" >&2
		exit 77
	}
	cuts=${OL_CUTS:-$usual}
	[ "$cuts" != all ] || cuts="$usual $others"
	exec "$root/tools/lab/run" --hosts 5 --mem 512 ${OL_KEEP:+--out "$OL_KEEP"} --deadline "${OL_DEADLINE_S:-1100}" -- \
		env OUTLAST_BUILD="${OUTLAST_BUILD:-$root/build/dev}" OL_CUTS="$cuts" \
		OL_LEASES="${OL_LEASES:-}" bash "$0" guest
fi

ulimit -c 0
case $OL_HOST in
0) exec "$bin" agent coordinator ;;
4)
	"$bin" agent none &
	# shellcheck disable=SC2086  # words
	case ${OL_DEATHS:-} in
	'') "$bin" split $OL_CUTS ;;
	*) "$bin" death "$OL_DEATHS" ;;
	esac
	status=$?
	: >"$OL_OUT/done" # whatever happened: the others must end
	wait $!
	agent=$?
	[ $status != 0 ] || status=$agent
	exit $status
	;;
*) exec "$bin" agent server ;;
esac
