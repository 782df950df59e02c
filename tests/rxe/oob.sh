#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# oob.sh -- connections made over TCP keep every promise, and serve a device that has no IP address
#
# What conformance and litmus ask of connections, at an "oob:" address; strangers and liars at its door; then jobs that
# lose servers and have the weights of shm, at last on a device whose interface has lost its addresses, as a port of
# InfiniBand without IPoIB. OL_OOB=all: every program of conformance and litmus.
set -u

root=$(cd "$(dirname "$0")/../.." && pwd)
build=${OUTLAST_BUILD:-$root/build/dev}
bin=${OUTLAST_BIN:-$build/outlast}

# job NAME WORD... -- $sha256 is of its weights; empty if it failed
job() {
	local name=$1

	shift
	rm -f "$tmp/r.json"
	timeout 120 "$bin" train --model mlp:16 --dataset synthetic:train=500,test=100 --eval-every 0 --seed 7 \
		--workers 2 --consistency sync --steps 60 --pace 10 --json "$tmp/r.json" "$@" >"$tmp/log" 2>&1 </dev/null
	sha256=$(sed -n 's/^  "weights_sha256": "\(.*\)",*$/\1/p' "$tmp/r.json")
	[ "$(sed -n 's/^  "gradients_lost": \([0-9]*\),*$/\1/p' "$tmp/r.json")" = 0 ] || sha256=
	if [ -n "$sha256" ] && [ "${whole:-$sha256}" = "$sha256" ]; then
		echo "$name: ok"
		return
	fi
	echo "$name: weights ${sha256:-none}, not ${whole:-any}"
	sed 's/^/    /' "$tmp/log" | cut -c1-200
	failed=1
}

jobs_all() {
	local at=oob:$OL_ADDR
	local chain=(--durability chain --replicas 2)

	job shm --transport shm
	whole=$sha256
	job "server killed" --transport verbs --address "$at" --kill server0@20steps
	job "head and tail killed" --transport verbs --address "$at" "${chain[@]}" --kill head@20steps,tail@40steps
	ip addr flush dev d0 scope global
	timeout 60 "$bin" train --transport verbs --address "$OL_ADDR" --device "$OL_DEVICE" --workers 1 --steps 1 \
		>"$tmp/log" 2>&1 </dev/null && {
		echo "rdma_cm connects without an address: this shows nothing"
		failed=1
	}
	job "device without an address" --transport verbs --address oob:127.0.0.1 --device "$OL_DEVICE" "${chain[@]}" \
		--kill head@20steps
}

if [ "${OL_OOB_GUEST:-}" != 1 ]; then
	OL_OOB_GUEST=1 exec "$root/tools/lab/run" --deadline 900 -- bash "$0"
fi
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
failed=0
"$build/tests/rxe-guest-oob_door" || failed=1
programs=()
[ "${OL_OOB:-}" = all ] || programs=("$build"/tests/conformance-{bad_said,conn_*,ident,p5_*,p8_*,queues_spread,sleep} \
	"$build"/tests/litmus-old_key)
OL_ADDR=oob:$OL_ADDR OL_CONFORMANCE_GUEST=1 OL_BUILD=$build/tests bash "$root/tests/rxe/conformance.sh" \
	"${programs[@]}" >"$tmp/log" || failed=1
grep -v '^ok' "$tmp/log"
jobs_all
exit $failed
