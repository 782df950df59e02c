#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# sandbox.sh -- `outlast serve --sandbox` serves, writes and restores its checkpoints, and joins a chain; and has given up
# the rest for good
#
# not under asan, tsan: their runtimes start programs and trace
. "$(dirname "$0")/train_lib.bash"

# field NAME -- of the process's status
field() {
	sed -n "s/^$1:[[:space:]]*//p" "/proc/$pid/status"
}

at=$(address)
durable=(--durability checkpoint --checkpoint "every=5steps,dir=$tmp/made/checkpoints")
mkdir -m 700 "$tmp/made"
serve s "$at" --sandbox --consistency sync --workers 1 "${durable[@]}"
server=$pid
[ "$(field NoNewPrivs)$(field Seccomp)" = 12 ] || fail "NoNewPrivs $(field NoNewPrivs), Seccomp $(field Seccomp)"
outlast work --connect "$at" "${tiny[@]}" --steps 20
expect "a worker" 0
kill "$server"
ended "$server" 0 "serve in the sandbox"
ls "$tmp"/made/checkpoints/* >/dev/null 2>&1 || fail "no checkpoint"

serve s "$at" --sandbox --consistency sync --workers 1 "${durable[@]}" --restore checkpoint --epoch 2
server=$pid
outlast work --connect "$at" "${tiny[@]}" --steps 5
expect "a worker of the restored server" 0
kill "$server"
ended "$server" 0 "serve that restored in the sandbox"

# its counters go to a file, its socket lies in a folder
mkdir -m 700 "$tmp/run"
serve s "$tmp/run/socket" --sandbox --json "$tmp/counters.json"
server=$pid
outlast work --connect "$tmp/run/socket" "${tiny[@]}" --steps 5
expect "a worker at a path" 0
kill "$server"
ended "$server" 0 "serve at a path"
[ -s "$tmp/counters.json" ] || fail "no counters"
verdict
