#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# sessions.sh [FILE.csv [FILE.png]] -- instructions of a step and of a heartbeat, and a server's memory, by the
# number of connected workers. Counted by valgrind, so the machine's load is no matter.
set -euo pipefail
build=${OUTLAST_BUILD:-build/dev}
csv=${1:-sessions.csv}
rounds=100

count() { # WHAT CONNECTED
	local out
	out=$(mktemp)
	valgrind --tool=callgrind --callgrind-out-file="$out" --collect-atstart=no \
		--toggle-collect="bench_$1" "$build/tests/bench-sessions" "$2" "$1" > /dev/null 2>&1
	awk -v rounds=$rounds '/^(summary|totals):/ { total = $2 } END { print int(total / rounds) }' "$out"
	rm "$out"
}

resident() { # CONNECTED: kB of its process
	"$build/tests/bench-sessions" "$1" | sed 's/.*connected; \([0-9]*\) kB.*/\1/'
}

echo connected,step_instructions,tick_instructions,resident_kb > "$csv"
for n in 1 4 16 64 256 1024; do
	echo "$n,$(count step $n),$(count tick $n),$(resident $n)" | tee -a "$csv"
done
if [ $# -ge 2 ]; then
	python3 "$(dirname "$0")/sessions.py" "$csv" "$2"
fi
