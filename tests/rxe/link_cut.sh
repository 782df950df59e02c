#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# link_cut.sh -- the network between two hosts of a chain is away for up to 3 s: nobody is evicted, training goes on
#
# Two hosts: a ZooKeeper server, a worker and the head; the tail. The second is cut off for each time of OL_CUTS (ms), with
# the default timers, which outlast it, and again with short ones (OL_RETRIES, ms), with which connections break and are
# made anew. OL_REPEAT: so often. Every pull is compared with the sum of the pushes before.
#
# alone: two machines
set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${OUTLAST_BUILD:-$root/build/dev}
bin=$build/tests/rxe-guest-link_cut

if [ "${1-}" != guest ]; then
	if [ "$(id -u)" != 0 ]; then
		echo "link_cut: needs root, for a bridge and taps" >&2
		exit 77
	fi
	[ -r /usr/share/java/zookeeper.jar ] && command -v java >/dev/null || {
		echo "link_cut: needs java and /usr/share/java/zookeeper.jar: install zookeeper" >&2
		exit 77
	}
	cuts=
	for ((i = 0; i < ${OL_REPEAT:-1}; i++)); do
		cuts+=" ${OL_CUTS:-500 3000}"
	done
	for retry in ${OL_RETRIES:-8000 500}; do
		echo "retry_timeout_ms $retry"
		"$root/tools/lab/run" --hosts 2 --mem 512 --deadline "${OL_DEADLINE_S:-500}" -- \
			env OUTLAST_BUILD="$build" OL_CUTS="$cuts" OL_RETRY_MS="$retry" bash "$0" guest || exit
	done
	exit
fi

ulimit -c 0
if [ "$OL_HOST" = 1 ]; then
	"$bin" server &
	until [ -e "$OL_OUT/done" ]; do
		sleep 0.2
	done
	kill $! # the head says whether it ended before
	wait $!
	exit
fi
mkdir /tmp/zk
printf '%s\n' tickTime=500 minSessionTimeout=1000 maxSessionTimeout=60000 maxClientCnxns=0 admin.enableServer=false \
	dataDir=/tmp/zk clientPort=7470 >/tmp/zk.cfg
java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Dzookeeper.root.logger=WARN,CONSOLE \
	-cp /etc/zookeeper/conf:/usr/share/java/zookeeper.jar \
	org.apache.zookeeper.server.quorum.QuorumPeerMain /tmp/zk.cfg &
zookeeper=$!
"$bin" server &
server=$!
# shellcheck disable=SC2086  # words
"$bin" worker $OL_CUTS
status=$?
: >"$OL_OUT/done" # whatever happened: the other host must end
kill $server
wait $server || status=$?
kill $zookeeper
exit $status
