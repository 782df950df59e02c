# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# suites.sh -- programs and jobs over verbs, as cells of a table of profile and suite (sourced by adapter.sh and siw.sh)
#
# The caller gives $root, $build, $bin, a folder $tmp, a file $log, and
#	under PROFILE COMMAND...	runs a command, its output in $log, for OL_ADAPTER_LIMIT seconds at most
# It may set left_out, programs that are not run, and job_words, for every job.
# OL_ADAPTER_SUITES: other suites than "conformance litmus train kill chain"; there is nth, too.
# OL_ADAPTER_PROGRAMS: only such programs of a suite. OL_ADAPTER_LIMIT: seconds that a program may take (120).
# shellcheck disable=SC2154

left_out=
job_words=()

# program PROFILE NAME -- one program over verbs
program() {
	[[ " $left_out " != *" $2 "* ]] || return 0
	under "$1" "$build/tests/$2" verbs
	case $? in
	0 | 77) passed=$((passed + 1)) ;;
	124) failed+=" ${2#*-}(hangs)" && hung=$((hung + 1)) && why "$1" "$2" ;;
	*) failed+=" ${2#*-}" && why "$1" "$2" ;;
	esac
}

why() {
	{
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
		--workers 2 --consistency sync --steps 40 --json "$tmp/r.json" --transport verbs "${job_words[@]}" "$@"
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
		[[ $name == "$2"-* && -x $build/tests/$name ]] || continue
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

	under rxe "$bin" train --model mlp:16 --dataset synthetic:train=500,test=100 --eval-every 0 --seed 7 \
		--workers 2 --consistency sync --steps 40 --json "$tmp/r.json" --transport shm
	whole=$(value weights_sha256)
	[ ${#whole} = 64 ] || { echo "no fingerprint: $(cat "$log")" && return 1; }
	for profile in "$@"; do
		for suite in ${OL_ADAPTER_SUITES:-conformance litmus train kill chain}; do
			cell "$profile" "$suite" || bad=1
		done
	done
	return $bad
}
