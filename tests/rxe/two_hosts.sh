#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# two_hosts.sh -- with serve on one machine and work on another the weights are those of a run on one machine
#
# alone: two machines
set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=${OUTLAST_BIN:-${OUTLAST_BUILD:-$root/build/dev}/outlast}
job=(--model mlp:16 --dataset synthetic:train=500,test=100 --seed 7)

if [ "${1-}" != guest ]; then
	if [ "$(id -u)" != 0 ]; then
		echo "two_hosts: needs root, for a bridge and taps" >&2
		exit 77
	fi
	exec "$root/tools/lab/run" --hosts 2 --deadline 600 -- env OUTLAST_BIN="$bin" bash "$0" guest
fi

export OUTLAST_JOB_KEY=the-key-of-the-two-hosts
if [ "$OL_HOST" = 0 ]; then
	"$bin" serve "${job[@]}" --consistency sync --workers 1 --listen "$OL_ADDR_0:7471" --exit-version 30
	exit
fi
"$bin" work "${job[@]}" --connect "$OL_ADDR_0:7471" --steps 30 --connect-timeout-ms 60000 --eval \
	--json /tmp/work.json || exit
"$bin" train "${job[@]}" --consistency sync --steps 30 --eval-every 0 --json /tmp/train.json >/dev/null || exit
there=$(grep -o '"weights_sha256": "[0-9a-f]*"' /tmp/work.json)
here=$(grep -o '"weights_sha256": "[0-9a-f]*"' /tmp/train.json)
echo "two hosts: $there, one host: $here"
[ -n "$there" ] && [ "$there" = "$here" ]
