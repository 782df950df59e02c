#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# plan.sh -- outlast doctor --plan says what a job takes: sizes are those that real servers and a real worker map
. "$(dirname "$0")/train_lib.bash"

plan() { # NAME: of the report that was written last
	json "$tmp/plan.json" "r['$1']"
}

# mapped PID BYTES -- how many shared mappings of that size it has
mapped() {
	"$python" - "$1" "$2" <<'END'
import sys
ends = [line.split()[0].split("-") for line in open(f"/proc/{sys.argv[1]}/maps") if "memfd:outlast-slab" in line]
print(sum(int(end, 16) - int(begin, 16) == int(sys.argv[2]) for begin, end in ends))
END
}
maps() { # PID BYTES LEAST
	[ "$(mapped "$1" "$2")" -ge "$3" ]
}

mkdir "$tmp/views"
chain=(--coordinator "dir:$tmp/views" --job planned --workers-max 3 --window 4 --optimizer adam)
for rank in 0 1; do
	serve "r$rank" "$(address)" "${chain[@]}" --replicas 2 --rank "$rank"
	servers[rank]=$pid
done
background w work "${tiny[@]}" --coordinator "dir:$tmp/views" --job planned --steps 0
worker=$pid
params=$(grep -o '[0-9]* parameters in all' "$tmp/r0.out" "$tmp/r0.err" | grep -o '[0-9]* p' | cut -d ' ' -f 1)
outlast doctor --plan "params=$params,workers=3,window=4,optimizer=adam,replicas=2,gradients=bf16" --json "$tmp/plan.json"
expect "a plan" 0
[[ $out == *"a server: board and snapshots"*"a step: on the wire"* ]] || fail "it says: $out"
until_true maps "${servers[0]}" "$(plan slots_bytes_a_worker)" 1 || fail "no slots of that size: $out"
maps "${servers[0]}" "$(plan snapshots_bytes)" 1 || fail "no snapshots of that size: $out"
maps "${servers[0]}" "$(plan ring_bytes)" 1 || fail "no ring of that size: $out"
[ "$(plan server_bytes)" = $(($(plan snapshots_bytes) + 3 * $(plan slots_bytes_a_worker) + $(plan ring_bytes))) ] ||
	fail "parts do not add up: $out"
[ "$(plan queue_pairs)" = 4 ] && [ "$(plan step_in_bytes)" = $((3 * ((2 * params + 63) / 64 * 64))) ] ||
	fail "of a step: $(cat "$tmp/plan.json")"
kill "$worker"
until_true gone "$worker"

# nothing is opened, so it can be asked for any job; a job that cannot be is said to be none
outlast doctor --plan params=7e9,workers=256,replicas=3,servers=16
expect "a large plan" 0
[[ $out == "# 7000000000 parameters, 16 shards of 3 replicas, 256 workers"* ]] || fail "it says: $out"
outlast doctor --plan params=1024,servers=2
expect_error "more servers than parameters" 2 "outlast doctor: --plan: params=1024,servers=2: *"
outlast doctor --plan workers=3
expect_error "of no model" 2 "outlast doctor: --plan: workers=3: *params*"
outlast doctor --plan params=1e6,wrokers=3
expect_error "a wrong word" 2 "outlast doctor: --plan: *wrokers*"
outlast doctor --plan params=1e6,optimizer=lion
expect_error "an unknown rule" 2 "outlast doctor: --plan: *optimizer*"
outlast doctor --plan params=1e6 --json "$tmp/none/x.json"
expect_error "nowhere to write" 1 "outlast doctor: cannot write: $tmp/none/x.json: *"
verdict
