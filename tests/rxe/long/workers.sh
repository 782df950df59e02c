#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# workers.sh -- many workers, a process each, train over verbs in one virtual machine, and the weights are those of shm
#
#	workers.sh [N]		64 workers
#
# Says how long it took until the first step could begin (and the end of the processes), and what the server has had in
# memory at most. Not in the rung rxe: under emulation 64 workers take minutes.
# OL_MEM: memory of the machine in MB (8192).
set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
bin=${OUTLAST_BIN:-${OUTLAST_BUILD:-$root/build/dev}/outlast}

# train TRANSPORT -- fields of the report in $tmp/r.json
train() {
	rm -f "$tmp/r.json"
	"$bin" train --model mlp:16 --dataset synthetic:train=500,test=100 --eval-every 0 --seed 7 \
		--workers "$workers" --consistency sync --steps 5 --json "$tmp/r.json" --transport "$1" \
		>"$tmp/out" 2>&1 && return
	tail -n 20 "$tmp/out"
	return 1
}

value() {
	sed -n "s/^  \"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$tmp/r.json"
}

# server_memory -- keeps the server's largest resident set in $tmp/memory
server_memory() {
	local pid

	until pid=$(pgrep -o -f ' serve '); do sleep 0.1; done
	while awk '/^VmHWM/ { print $2 }' "/proc/$pid/status" >"$tmp/new" 2>/dev/null && [ -s "$tmp/new" ]; do
		mv "$tmp/new" "$tmp/memory"
		sleep 0.2
	done
}

workers=${1:-64}
if [ "${OL_WORKERS_GUEST:-}" != 1 ]; then
	OL_WORKERS_GUEST=1 exec "$root/tools/lab/run" --mem "${OL_MEM:-8192}" --deadline 1200 -- bash "$0" "$workers"
fi
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
train shm || exit 1
whole=$(value weights_sha256)
[ ${#whole} = 64 ] || exit 1
server_memory &
train verbs
status=$?
kill $! 2>/dev/null
[ $status = 0 ] || exit 1
connected_s=$(awk "BEGIN { printf \"%.0f\", $(value total_s) - $(value wall_s) }")
echo "$workers workers: $connected_s s until all were connected," \
	"$(value wall_s | cut -d . -f 1) s for $(value steps) steps, server $(($(cat "$tmp/memory") / 1024)) MB"
[ "$(value weights_sha256)" = "$whole" ] || {
	echo "the weights are $(value weights_sha256), not $whole"
	exit 1
}
