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

# a chain, whose views a server in the sandbox writes: the head dies, and the other goes on alone
mkdir -m 700 "$tmp/views"
coord=(--coordinator "dir:$tmp/views" --job boxed)
for rank in 0 1; do
	serve "c$rank" "$(address)" --sandbox "${coord[@]}" --replicas 2 --rank "$rank" --lease-ms 4000
	[ "$rank" = 0 ] && head=$pid
done
tail=$pid
background w work "${coord[@]}" "${tiny[@]}" --steps 60 --pace 20 --json "$tmp/w.json"
worker=$pid
until_true grep -q "epoch [0-9]*: head of 2" "$tmp/c0.err" || fail "no chain: $(cat "$tmp/c0.err")"
kill -9 "$head"
ended "$worker" 0 "a worker of the chain"
grep -q "epoch [0-9]*: only of 1" "$tmp/c1.err" || fail "the other did not go on alone: $(cat "$tmp/c1.err")"
grep -q "cannot be written" "$tmp"/c?.err && fail "a view was not written: $(cat "$tmp/c1.err")"
kill "$tail"
ended "$tail" 0 "what is left of the chain"

# it says when it begins anew where there are checkpoints
serve s "$(address)" --consistency sync --workers 1 "${durable[@]}"
grep -q "begins at version 0, and there is a checkpoint of its version 2[0-9] in" "$tmp/s.err" ||
	fail "begun anew without a word: $(cat "$tmp/s.err")"
kill "$pid"
ended "$pid" 0 "serve anew"
verdict
