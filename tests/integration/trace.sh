#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# trace.sh -- library and program have the static probes that tools/trace/README.md promises, with as many arguments;
# path.bt counts as many pushes as the servers, in a chain of three
#
# not under asan, tsan: the probes of an ordinary build
. "$(dirname "$0")/train_lib.bash"
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${OUTLAST_BUILD:?is the build folder}
trace=$root/tools/trace

skip() {
	[ "$failures" = 0 ] || exit 1
	echo "SKIP: $*"
	exit 77
}

grep -q '^OUTLAST_PROBES:BOOL=ON' "$build/CMakeCache.txt" || skip "OUTLAST_PROBES is off"
grep -q '^OL_HAS_SDT:INTERNAL=1' "$build/CMakeCache.txt" || skip "built without <sys/sdt.h>: systemtap-sdt-dev is not there"

# Each row `| probe | where | 1: ..., 2: ... |` of the README promises a probe and its arguments, as "name count"
sed -n 's/^| `\([a-z_]*(.*)\)` |.*/\1/p' "$trace/README.md" | awk -F '[(,)]' '{ print $1, NF - 2 }' | sort >"$tmp/promised"
[ "$(wc -l <"$tmp/promised")" -ge 12 ] || fail "the table of probes in tools/trace/README.md is not understood"
for file in "$OUTLAST_BIN" "$build/liboutlast.so"; do
	# a probe may stand at several places: its arguments are as many at each
	LC_ALL=C readelf -n "$file" 2>"$tmp/readelf.err" | awk '$1 == "Provider:" { ours = $2 == "outlast" }
		$1 == "Name:" { name = $2 }
		$1 == "Arguments:" && ours { print name, NF - 1 }' | sort -u >"$tmp/built"
	diff "$tmp/promised" "$tmp/built" >"$tmp/diff" || fail "$file: promised (<) and built (>) differ: $(cat "$tmp/diff")"
done
for script in "$trace"/*.bt; do
	grep -o 'outlast:[a-z_]*' "$script" | cut -d : -f 2 | sort -u | while read -r name; do
		grep -q "^$name " "$tmp/promised" || echo "$name"
	done >"$tmp/unknown"
	[ ! -s "$tmp/unknown" ] || fail "$script attaches to probes that do not exist: $(cat "$tmp/unknown")"
done
[ "$failures" = 0 ] || verdict

command -v bpftrace >/dev/null || skip "bpftrace is not there; names and arguments of the probes are as promised"
[ "$(id -u)" = 0 ] || skip "bpftrace needs root; names and arguments of the probes are as promised"

# A copy: the kernel attaches to a file, and other tests run the same program
cp "$OUTLAST_BIN" "$tmp/outlast" || fail "the program cannot be copied"

# trace NAME WORD... -- start a script in the background, and wait until it is attached; process id in $pid
trace() {
	local name=$1

	shift
	bpftrace "$@" >"$tmp/$name.txt" 2>"$tmp/$name.err" </dev/null &
	pid=$!
	background_pids+=("$pid")
	until_true header_or_end "$name"
	grep -q '^ *ms ' "$tmp/$name.txt" || skip "bpftrace cannot attach here: $(tail -n 2 "$tmp/$name.err")"
}

header_or_end() {
	grep -q '^ *ms ' "$tmp/$1.txt" || gone "$pid"
}

# trace_end NAME -- what it counted is in $tmp/NAME.txt
trace_end() {
	kill -INT "$pid"
	until_true gone "$pid" || fail "$1 does not end"
	wait "$pid"
}

# counted NAME -- the pushes that path.bt saw reach a stage
counted() {
	sed -n "s/^@pushes\[$1\]: //p" "$tmp/path.txt"
}

trace path "$trace/path.bt" "$tmp/outlast" "$tmp/outlast"
OUTLAST_BIN=$tmp/outlast outlast train "${tiny[@]}" --workers 2 --consistency sync --steps 60 --durability chain \
	--replicas 3 --transport shm --json "$tmp/r.json"
expect "a job that is traced" 0
trace_end path
applied=$(json "$tmp/r.json" 'r["gradients_applied"]')
for stage in landed applied committed known; do
	[ "$(counted $stage)" = "$applied" ] || fail "servers applied $applied gradients, path.bt saw \"$(counted $stage)\" $stage"
done
# lines go through a buffer that can overflow, counts do not
lines=$(grep -c '^ *[0-9]* *0 *[01] .*|.*|' "$tmp/path.txt")
[ "$lines" -gt 0 ] && [ "$lines" -le "$applied" ] || fail "path.bt printed $lines lines for $applied gradients"

trace failover "$trace/failover.bt" "$tmp/outlast"
OUTLAST_BIN=$tmp/outlast outlast train "${tiny[@]}" --workers 1 --steps 200 --pace 200 --durability chain --replicas 2 \
	--kill head@100steps --transport shm
expect "a job that loses its head" 0
trace_end failover
grep -q 'is head of 2: ' "$tmp/failover.txt" || fail "failover.bt shows no head: $(cat "$tmp/failover.txt")"
grep -q 'first commit: version .* without a commit' "$tmp/failover.txt" ||
	fail "failover.bt shows no commit after the head is gone: $(cat "$tmp/failover.txt")"
verdict
