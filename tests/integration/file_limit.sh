#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# file_limit.sh -- a server that may write no file further (ulimit -f), or whose reader has left, lives: it says so,
# training goes on to the same bits, and checkpoints are written again once there is room
. "$(dirname "$0")/train_lib.bash"

sync=(--consistency sync --workers 1 --exit-version 500)
work=(work "${tiny[@]}" --steps 500 --eval)

# counter NAME -- of the server at $at, now
counter() {
	outlast stat --servers "$at" --once --json "$tmp/stat.json"
	json "$tmp/stat.json" "r['shards'][0]['replicas'][0].get('$1', 0)" 2>/dev/null || echo 0
}

at_least() { # COUNTER COUNT
	[ "$(counter "$1")" -ge "$2" ]
}

written() {
	[ "$(ls "$tmp/c")" != '' ]
}

sha() {
	grep -o 'sha256 [0-9a-f]*' "$1"
}

lines() {
	grep -c "$1" "$tmp/s.err"
}

at=$(address)
serve whole "$at" "${sync[@]}"
outlast "${work[@]}" --connect "$at"
expect "an undisturbed run" 0
whole=$(sha "$tmp/out")
[ -n "$whole" ] || fail "an undisturbed run has no sum: $out"
ended "$pid" 0 "its server"

# the limit is met by checkpoints; `outlast stat` fits below it
at=$(address)
mkdir "$tmp/c"
serve s "$at" "${sync[@]}" --durability checkpoint --checkpoint "every=2steps,dir=$tmp/c"
server=$pid
background w "${work[@]}" --connect "$at" --pace 50
worker=$pid
until_true written || fail "no checkpoint is written: $(cat "$tmp/s.err")"
prlimit --pid "$server" --fsize=4096:unlimited
until_true grep -q "no checkpoint of version" "$tmp/s.err" || fail "none fails: $(cat "$tmp/s.err")"
[ "$(lines "no checkpoint of version .*File too large.*; raise the limit.*training goes on")" = 1 ] ||
	fail "it does not say why: $(cat "$tmp/s.err")"
until_true at_least checkpoints_failed 5 || fail "it is gone: $(cat "$tmp/s.err")"
prlimit --pid "$server" --fsize=unlimited:unlimited
ended "$worker" 0 "the worker"
ended "$server" 0 "the server" # its last checkpoint is written, or this is 1
[ "$(lines "checkpoints are written again")" = 1 ] || fail "it does not say that they are: $(cat "$tmp/s.err")"
[ "$(sha "$tmp/w.out")" = "$whole" ] || fail "other weights: $(cat "$tmp/w.out"), not $whole"
at=$(address)
serve again "$at" --durability checkpoint --checkpoint "dir=$tmp/c" --restore checkpoint
kill "$pid"
ended "$pid" 0 "a server that begins at the last checkpoint"
grep -q "goes on from version 500" "$tmp/again.err" || fail "the last one is not whole: $(cat "$tmp/again.err")"

# what is said to a pipe that nobody reads ends no server; it ends at its signal, as it would otherwise
at=$(address)
mkfifo "$tmp/pipe" "$tmp/ready"
"$OUTLAST_BIN" serve "${tiny[@]}" --listen "$at" --ready-fd 3 2>"$tmp/pipe" >"$tmp/p.out" 3>"$tmp/ready" </dev/null &
server=$!
background_pids+=("$server")
exec 4<"$tmp/pipe"
read -r _ <"$tmp/ready" || fail "the server at a pipe did not come up"
exec 4<&-
outlast work "${tiny[@]}" --connect "$at" --steps 5
expect "work at a server whose log nobody reads" 0
kill "$server"
ended "$server" 0 "a server whose log nobody reads"
verdict
