#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# checkpoint_folder.sh -- failing checkpoints are logged when they begin to fail, every 10 s, and when they work again,
# not once each; and training goes on
. "$(dirname "$0")/train_lib.bash"

# counter NAME -- of the server at $at, now
counter() {
	outlast stat --servers "$at" --once --json "$tmp/stat.json"
	json "$tmp/stat.json" "r['shards'][0]['replicas'][0].get('$1', 0)" 2>/dev/null || echo 0
}

failed_often() {
	[ "$(counter checkpoints_failed)" -ge $((failed + 30)) ]
}

lines() {
	grep -c "$1" "$tmp/s.err"
}

written() {
	[ "$(ls "$tmp/c")" != '' ]
}

over() {
	[ "$(lines "checkpoints are written again")" = "$round" ]
}

at=$(address)
mkdir "$tmp/c"
serve s "$at" --durability checkpoint --checkpoint "every=2steps,dir=$tmp/c"
server=$pid
background w work --connect "$at" "${tiny[@]}" --steps 0
worker=$pid
until_true written || fail "no checkpoint is written"
failed=0
for round in 1 2; do
	began=$SECONDS
	mv "$tmp/c" "$tmp/elsewhere"
	until_true failed_often || fail "they do not fail: $(cat "$tmp/s.err")"
	failed=$(counter checkpoints_failed)
	[ "$(lines "no checkpoint of version")" = "$round" ] || fail "begins so often: $(cat "$tmp/s.err")"
	mv "$tmp/elsewhere" "$tmp/c"
	until_true over || fail "no end is said: $(cat "$tmp/s.err")"
	[ "$(lines "checkpoints failed in")" -le $((round * ((SECONDS - began) / 10 + 1))) ] ||
		fail "says too often in $((SECONDS - began)) s: $(cat "$tmp/s.err")"
done
kill "$worker" "$server"
ended "$worker" 143 "the worker"
ended "$server" 0 "the server"

# a server whose last checkpoint cannot be written says so at its end
ends_without() { # PATTERN
	mv "$tmp/c" "$tmp/elsewhere"
	kill "$server"
	ended "$server" 1 "$1"
	grep -q "^outlast serve: $1" "$tmp/s.err" || fail "$1: not said: $(cat "$tmp/s.err")"
	mv "$tmp/elsewhere" "$tmp/c"
}
trains() { # EVERY
	rm -r "$tmp/c"
	mkdir "$tmp/c"
	at=$(address)
	serve s "$at" --durability checkpoint --checkpoint "every=$1,dir=$tmp/c"
	server=$pid
	outlast work --connect "$at" "${tiny[@]}" --steps 5
	expect "the worker" 0
}
trains 1000steps
ends_without "none of 1 checkpoints could be written"
trains 3steps
saved() {
	[ "$(counter checkpoints)" = 1 ]
}
until_true saved || fail "no checkpoint is written"
ends_without "the last checkpoint could not be written: the newest is of version 3, the server ended at 5"
verdict
