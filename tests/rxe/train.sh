#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# train.sh -- whole jobs work over verbs in one virtual machine
#
# A synchronous run gives the same weights, bit for bit, over shm and over verbs, with one server and with two; also
# with gradients of bf16 and int8. An asynchronous one accounts for every gradient. Too little lockable memory gives one
# line.
set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=${OUTLAST_BIN:-${OUTLAST_BUILD:-$root/build/dev}/outlast}
failures=0

fail() {
	echo "FAIL: $*" >&2
	failures=$((failures + 1))
}

# train WORD... -- fields of the report in $report
train() {
	"$bin" train --model mlp:16 --dataset synthetic:train=500,test=100 --eval-every 0 --seed 7 \
		--json "$tmp/r.json" "$@" >"$tmp/out" 2>"$tmp/err" || {
		fail "train $*: exit status $?: $(cat "$tmp/err")"
		return 1
	}
}

value() {
	sed -n "s/^  \"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$tmp/r.json"
}

exactness() {
	local first='' sha transport servers workers

	for workers in 1 2; do
		first=
		for transport in shm verbs; do
			for servers in 1 2; do
				train --consistency sync --steps 40 --workers $workers --servers $servers \
					--transport $transport || continue
				sha=$(value weights_sha256)
				echo "$workers workers, $servers servers, $transport: $sha"
				[ ${#sha} = 64 ] || fail "no fingerprint: $(cat "$tmp/r.json")"
				[ "${first:=$sha}" = "$sha" ] ||
					fail "$workers workers, $servers servers, $transport: not $first"
			done
		done
	done
}

# Of 600,000 parameters: payloads of several writes, and in parts
formats() {
	local format servers=1 whole

	for format in bf16 int8; do
		set -- --model mlp:8000 --consistency sync --steps 4 --workers 2 --gradient-format $format
		train "$@" --transport shm || return
		whole=$(value weights_sha256)
		train "$@" --transport verbs --servers $servers || return
		echo "$format, $servers servers, verbs: $(value weights_sha256)"
		[ "$(value weights_sha256)" = "$whole" ] || fail "$format, $servers servers: not $whole"
		servers=2
	done
}

accounts() {
	train --transport verbs --address "$OL_ADDR" --device "$OL_DEVICE" --workers 2 --steps 60 \
		--optimizer momentum --lr 0.001 || return
	echo "async: $(value gradients_computed) computed, $(value gradients_applied) applied," \
		"$(value gradients_dropped) dropped, version $(value version)"
	[ "$(value gradients_computed) $(value version)" = "60 60" ] ||
		fail "async: not 60 gradients and version 60"
	[ $(($(value gradients_applied) + $(value gradients_dropped))) = 60 ] || fail "async: the account"
	[ "$(value transport)" = verbs ] || fail "not over verbs"
}

# As another user: root's lockable memory is not limited.
locked_memory() {
	chmod 755 "$tmp"
	# shellcheck disable=SC2016  # expanded by the inner shell
	setpriv --reuid 65534 --regid 65534 --clear-groups bash -c 'ulimit -l 64 && exec "$0" serve --model mlp:2000 \
		--data-shape 28x28x10 --listen "$1:0"' "$bin" "$OL_ADDR" >"$tmp/out" 2>"$tmp/err" </dev/null
	local rc=$?

	echo "locked memory: $rc: $(cat "$tmp/err")"
	[ $rc = 7 ] || fail "too little lockable memory: exit status $rc, not 7"
	grep -q '^outlast serve: .*ulimit -l' "$tmp/err" || fail "too little lockable memory: said $(cat "$tmp/err")"
}

if [ "${1-}" != guest ]; then
	exec "$root/tools/lab/run" --deadline 600 -- env OUTLAST_BIN="$bin" bash "$0" guest
fi
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
exactness
formats
accounts
locked_memory
[ $failures = 0 ]
