#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# kill.sh -- jobs survive processes that are killed and stopped, over verbs in one virtual machine
#
# A synchronous run ends at the weights of an undisturbed one, also over shm; an asynchronous one loses no gradient. A
# replacement takes the port of a killed server, but not of a stopped one.
#
# alone: leases are counted by the clock, in a machine that is emulated
set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=${OUTLAST_BIN:-${OUTLAST_BUILD:-$root/build/dev}/outlast}
failures=0
sync=(--consistency sync --steps 60 --schedule cosine:steps=50,warmup=10,floor=0.1 --clip-value 0.01)

fail() {
	echo "FAIL: $*" >&2
	failures=$((failures + 1))
}

value() {
	sed -n "s/^  \"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$tmp/r.json"
}

# train WORD... -- fields of the report in $report
train() {
	"$bin" train --model mlp:16 --dataset synthetic:train=500,test=100 --eval-every 0 --seed 7 --workers 2 \
		--json "$tmp/r.json" "$@" >"$tmp/out" 2>"$tmp/err" || {
		fail "train $*: exit status $?: $(cat "$tmp/err")"
		return 1
	}
	echo "train $*: $(value kills) kills, $(value recoveries) recoveries, $(value gradients_lost) lost;" \
		"detect $(tr -d ' \n' <"$tmp/r.json" | grep -o '"detect_ms":\[[^]]*\]')" \
		"recover $(tr -d ' \n' <"$tmp/r.json" | grep -o '"recover_ms":\[[^]]*\]')"
}

# same KILLS WORD... -- with so many kills the same weights
same() {
	local kills=$1

	shift
	train "${sync[@]}" --transport verbs "$@" || return
	[ "$(value weights_sha256)" = "$whole" ] || fail "$*: $(value weights_sha256), not $whole"
	[ "$(value kills) $(value recoveries) $(value gradients_lost)" = "$kills $kills 0" ] ||
		fail "$*: $(value kills) kills, $(value recoveries) recoveries, $(value gradients_lost) lost"
}

jobs_lost() {
	train "${sync[@]}" --transport shm
	whole=$(value weights_sha256)
	[ ${#whole} = 64 ] || fail "no fingerprint: $(cat "$tmp/r.json")"
	same 2 --pace 20 --kill server0@15steps,server0@35steps:down=500ms
	same 2 --pace 20 --servers 2 --kill server1@15steps,server0@35steps
	same 1 --pace 20 --kill worker1@20steps
	same 1 --pace 20 --lease-ms 3000 --kill server0@20steps:signal=STOP
	grep -q 'fenced itself off' "$tmp/out" || fail "the stopped server was not fenced: $(cat "$tmp/out")"

	# the rounding that int8 owes outlasts its servers
	train "${sync[@]}" --transport shm --gradient-format int8
	whole=$(value weights_sha256)
	same 2 --gradient-format int8 --pace 20 --kill server0@15steps,server0@35steps:down=500ms

	train --transport verbs --steps 120 --pace 20 --outage continue --kill server0@30steps:down=1s || return
	[ "$(value gradients_lost) $(value gradients_applied) $(value recoveries)" = "0 120 1" ] ||
		fail "async: $(value gradients_lost) lost, $(value gradients_applied) applied"
}

if [ "${1-}" != guest ]; then
	exec "$root/tools/lab/run" --deadline 900 -- env OUTLAST_BIN="$bin" bash "$0" guest
fi
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
jobs_lost
[ $failures = 0 ]
