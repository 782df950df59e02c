#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# conformance.sh -- every conformance and litmus program over verbs on a soft-RoCE device, in one virtual machine
#
# Checks that the verbs transport keeps every promise of rdma/transport.h on a device that exists.
# One line a program: ok NAME, not ok NAME (with its output), skip NAME reason.
# Programs: $OL_BUILD, else $OUTLAST_BUILD/tests. Arguments: names of the programs to run, else all.
set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${OL_BUILD:-${OUTLAST_BUILD:-$root/build/dev}/tests}

run_one() {
	local program=$1 name log status began

	name=$(basename "$program")
	log=$(mktemp)
	began=$SECONDS
	"$program" verbs >"$log" 2>&1
	status=$?
	case $status in
	0) echo "ok $name ($((SECONDS - began)) s)" ;;
	77) echo "skip $name $(sed -n 's/^skip: //p' "$log" | head -1)" ;;
	*) echo "not ok $name (status $status, $((SECONDS - began)) s)" ;;
	esac
	if [ $status -ne 0 ] && [ $status -ne 77 ] || [ -n "${OL_TEST_VERBOSE:-}" ]; then
		sed 's/^/    /' "$log"
	fi
	rm -f "$log"
	[ $status -eq 0 ] || [ $status -eq 77 ]
}

guest() {
	local failed=0 count=0 program names=("$@")

	[ ${#names[@]} -gt 0 ] || names=("$build"/conformance-* "$build"/litmus-*)
	for program in "${names[@]}"; do
		program=$build/$(basename "$program")
		[ -f "$program" ] && [ -x "$program" ] || continue
		count=$((count + 1))
		run_one "$program" || failed=$((failed + 1))
	done
	echo "$count programs, $failed failed"
	[ $count -gt 0 ] || echo "no programs in $build: build them, or say where they are in OL_BUILD"
	[ $failed -eq 0 ] && [ $count -gt 0 ]
}

if [ "${OL_CONFORMANCE_GUEST:-}" = 1 ]; then
	guest "$@"
	exit
fi
ls "$build"/conformance-* >/dev/null 2>&1 || {
	echo "no programs in $build: build them, or say where they are in OL_BUILD"
	exit 1
}
OL_CONFORMANCE_GUEST=1 OL_BUILD=$build exec "$root/tools/lab/run" --deadline 900 -- bash "$here/conformance.sh" "$@"
