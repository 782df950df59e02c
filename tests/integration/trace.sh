#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# trace.sh -- the program has the probes of a gradient's way; where bpftrace may attach, tools/trace/path.bt sees each entry of a
# chain that is committed once, and failover.bt each view
# not under asan, tsan: its subject is notes in a program
. "$(dirname "$0")/chain_lib.bash"

root=${OUTLAST_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
printf '#include <sys/sdt.h>\n' | cc -E - >/dev/null 2>&1 || { echo 'skip: sys/sdt.h is missing'; exit 77; }

# probe NAME ARGUMENTS -- it is there, with so many
probe() {
	readelf -n "$OUTLAST_BIN" 2>/dev/null | awk -v name="$1" -v want="$2" '
		/Provider: outlast$/ { ours = 1 }
		ours && /Name: / { found = $2 == name }
		ours && /Arguments: / { if (found && NF - 1 == want) good = 1; ours = found = 0 }
		END { exit !good }' || fail "$1: no such probe with $2 arguments"
}
probe push_posted 3
probe push_known 4
probe push_landed 3
probe push_applied 4
probe push_dropped 4
probe entry_forwarded 2
probe entry_applied 2
probe entry_committed 2
probe view_adopted 4

traced='and bpftrace is missing'
if command -v bpftrace >/dev/null; then
	traced='and bpftrace may not attach here'
	timeout 60 bpftrace -e "usdt:$OUTLAST_BIN:outlast:push_landed { exit(); } BEGIN { exit(); }" >/dev/null 2>&1 && traced=''
fi
if [ -n "$traced" ]; then
	echo "the probes are there, $traced"
	verdict
fi

# tracer NAME WORD... -- it sees what comes from now on
tracer() {
	local name=$1

	shift
	bpftrace "$@" >"$tmp/$name.out" 2>"$tmp/$name.err" </dev/null &
	eval "$name=$!"
	background_pids+=("$!")
	until_true grep -q 'process\|committed us' "$tmp/$name.out" || fail "$name does not begin: $(cat "$tmp/$name.err")"
}
tracer path "$root/tools/trace/path.bt" "$OUTLAST_BIN" 1
tracer failover "$root/tools/trace/failover.bt" "$OUTLAST_BIN"
train --workers 2 --steps 200 --consistency sync --pace 100 "${chain[@]}" --kill head@100steps:down=300ms
kill "$path" "$failover"
wait "$path" "$failover"
# A version is in a line once, or twice where the next tail commits it again; those of the last milliseconds may be lost.
"$python" - "$tmp/path.out" "$(json "$report" 'r["version"]')" <<'END' || fail "path.bt: $(head -n 30 "$tmp/path.out"; cat "$tmp/path.err")"
import collections, re, sys
version = int(sys.argv[2])
rows = [line.split() for line in open(sys.argv[1]) if re.fullmatch(r"( +\d+){7}\n", line)]
seen = collections.Counter(int(row[1]) for row in rows)
assert version == 200, version
assert len(seen) >= 0.95 * version and max(seen) <= version and max(seen.values()) <= 2, seen
assert sum(int(row[2]) == 2 for row in rows) >= 0.9 * len(rows), rows
END
grep -q '@us_5_landed_to_committed' "$tmp/path.out" || fail "path.bt: no histogram: $(tail -n 20 "$tmp/path.out")"
[ "$(grep -cE ' (head|tail|middle) ' "$tmp/failover.out")" -ge 5 ] && grep -q 'again: version' "$tmp/failover.out" ||
	fail "failover.bt: $(cat "$tmp/failover.out" "$tmp/failover.err")"
verdict
