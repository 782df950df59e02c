#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# adapter.sh -- what works on adapters that are not rdma_rxe: profiles of support/adapter, in one virtual machine
#
#	adapter.sh [all | PROFILE...]
#
# Without a word: each quirk does what it says, all suites pass under the worst of the profiles, and under the others what
# shows their quirks. With words: the whole table of these profiles, and exit 1 if a cell has a failure. A profile is one by
# name, or a list of quirks.
# OL_ADAPTER_SUITES: other suites than "conformance litmus train kill chain"; there is nth, too.
# OL_ADAPTER_PROGRAMS: only such programs of a suite. OL_ADAPTER_LIMIT: seconds that a program may take (120).
#
# not under asan, tsan: a library of theirs must be the first that is loaded
set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${OUTLAST_BUILD:-$root/build/dev}
bin=${OUTLAST_BIN:-$build/outlast}
library=$build/tests/libol-adapter.so
profiles="mlx5 mlx4 irdma-gen2 bnxt_re hns siw-like worst"

# under PROFILE COMMAND... -- its output in $log
under() {
	local profile=$1

	shift
	OL_ADAPTER=$profile LD_PRELOAD=$library timeout ${OL_ADAPTER_LIMIT:-120} "$@" >"$log" 2>&1 </dev/null
}

# program PROFILE NAME -- one program over verbs
program() {
	under "$1" "$build/tests/$2" verbs
	case $? in
	0 | 77) passed=$((passed + 1)) ;;
	124) failed+=" ${2#*-}(hangs)" && hung=$((hung + 1)) && why "$1" "$2" ;;
	*) failed+=" ${2#*-}" && why "$1" "$2" ;;
	esac
}

why() {
	[ -z "${OL_TEST_VERBOSE:-}" ] || {
		echo "$*:"
		grep -v '^ *log [0-9]' "$log" | tail -20 | sed 's/^/    /'
	} >&2
}

value() {
	sed -n "s/^  \"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$tmp/r.json"
}

# job PROFILE NAME WORD... -- a synchronous run with the weights of one over shm
job() {
	local profile=$1 name=$2 status

	shift 2
	under "$profile" "$bin" train --model mlp:16 --dataset synthetic:train=500,test=100 --eval-every 0 --seed 7 \
		--workers 2 --consistency sync --steps 40 --json "$tmp/r.json" --transport verbs "$@"
	status=$?
	if [ $status = 0 ] && [ "$(value weights_sha256)" = "$whole" ]; then
		passed=$((passed + 1))
	else
		failed+=" $name" && why "$profile" "$name"
	fi
}

# programs PROFILE RUNG -- all of a rung; the rest of them is left out when two have hung
programs() {
	local name

	hung=0
	for name in ${OL_ADAPTER_PROGRAMS:-$(cd "$build/tests" && echo "$2"-*)}; do
		[[ $name == "$2"-* ]] && [ -x "$build/tests/$name" ] || continue
		[ $hung -lt 2 ] || {
			failed+=" ..."
			return
		}
		program "$1" "$name"
	done
}

conformance() {
	programs "$1" conformance
}

litmus() {
	programs "$1" litmus
}

train() {
	job "$1" one-server
	job "$1" two-servers --servers 2
}

chain() {
	local three="--durability chain --replicas 3 --lease-ms 1000"

	# shellcheck disable=SC2086  # words
	job "$1" chain $three
	# shellcheck disable=SC2086
	job "$1" chain-head $three --pace 20 --kill head@15steps
	# shellcheck disable=SC2086
	job "$1" chain-tail $three --pace 20 --kill tail@15steps
}

# Each call of the control path fails in turn.
nth() {
	OL_ADAPTER_LIMIT=600 OL_TRANSPORT=verbs under "$1" "$build/tests/nth" xport || {
		failed+=" xport"
		why "$1" nth
		return
	}
	passed=1
}

kill_suite() {
	job "$1" server --pace 20 --kill server0@15steps:down=500ms
	job "$1" worker --pace 20 --kill worker1@20steps
}

# cell PROFILE SUITE -- its line of the table
cell() {
	local began=$SECONDS suite=$2

	[ "$suite" != kill ] || suite=kill_suite
	passed=0
	failed=
	"$suite" "$1"
	printf '%-12s %-12s %3d passed%s (%d s)\n' "$1" "$2" $passed "${failed:+, failed:$failed}" \
		$((SECONDS - began))
	[ -z "$failed" ]
}

table() {
	local bad=0 profile suite

	under rxe "$bin" train --model mlp:16 --dataset synthetic:train=500,test=100 --eval-every 0 --seed 7 --workers 2 \
		--consistency sync --steps 40 --json "$tmp/r.json" --transport shm
	whole=$(value weights_sha256)
	[ ${#whole} = 64 ] || { echo "no fingerprint: $(cat "$log")" && return 1; }
	for profile in "$@"; do
		for suite in ${OL_ADAPTER_SUITES:-conformance litmus train kill chain}; do
			cell "$profile" "$suite" || bad=1
		done
	done
	return $bad
}

# What the test runs: all of the worst profile, with fewer rounds, and of the others what shows their quirks
rung() {
	local bad=0 shows="conformance-p2_doorbell_after_payload conformance-p8_rights conformance-conn_private_data \
		conformance-credits_return conformance-write_shapes conformance-read_shapes \
		conformance-foreign_memory litmus-doorbell_payload"

	"$build/tests/rxe-guest-adapter_quirks" "$library" >"$log" 2>&1 || {
		cat "$log"
		return 1
	}
	echo "quirks: $(grep -c ^ok "$log") ok"
	under mlx5 "$build/tests/rxe-guest-ece_agreed" verbs || {
		cat "$log"
		bad=1
	}
	OL_TEST_SCALE=0.02 table worst || bad=1
	OL_TEST_SCALE=0.03 OL_ADAPTER_PROGRAMS=$shows OL_ADAPTER_SUITES="conformance litmus train" \
		table mlx5 mlx4 irdma-gen2 bnxt_re hns siw-like || bad=1
	return $bad
}

if [ "${OL_ADAPTER_GUEST:-}" != 1 ]; then
	[ "${1-}" != all ] || read -ra profile_list <<<"$profiles"
	[ "${1-}" = all ] || profile_list=("$@")
	OL_ADAPTER_GUEST=1 exec "$root/tools/lab/run" --deadline "${OL_ADAPTER_DEADLINE:-1800}" -- \
		bash "$0" "${profile_list[@]}"
fi
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
log=$tmp/log
if [ $# = 0 ]; then
	rung
else
	table "$@"
fi
