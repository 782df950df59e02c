#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# chain_hand.sh -- servers and workers started by hand, with views in a folder: servers print their waits and roles,
# `outlast stat` sees them all, training outlives servers and the folder, and a removed server says so and ends
. "$(dirname "$0")/chain_lib.bash"

coord=dir:$tmp/views
mkdir "$tmp/views"
member() { # NAME RANK WORD...
	local name=$1 rank=$2

	shift 2
	serve "$name" "$(address)" --coordinator "$coord" --job hand --replicas 3 --rank "$rank" --lease-ms 4000 "$@"
}

# says NAME PATTERN -- on stderr, sooner or later
says() {
	until_true grep -qE "$2" "$tmp/$1.err" || fail "$1 does not say \"$2\": $(cat "$tmp/$1.err")"
}

# stat EXPRESSION -- of the object r of a look
stat() {
	outlast stat --coordinator "$coord" --job hand --once --json -
	[ "$rc" = 0 ] && printf '%s\n' "$out" >"$tmp/stat.json" && [ "$(json "$tmp/stat.json" "$1")" = True ]
}
roles='[x.get("role") for x in r["shards"][0]["replicas"]]'

outlast stat --coordinator "$coord" --job hand --once
expect_error "stat of a job that has no servers" 4 "outlast stat: no server could be read*"

member a 0
a=$pid
says a '^shard 0: 1 of 3 servers are here; waits for 2 more$'
member b 1
b=$pid
member d 2
d=$pid
until_true stat "$roles == ['head', 'middle', 'tail']" || fail "stat: $(cat "$tmp/stat.json")"
says a 'shard 0, epoch [0-9]+: head of 3'
says d 'shard 0, epoch [0-9]+: tail of 3; predecessor '

background w work --coordinator "$coord" --job hand "${tiny[@]}" --id 0 --steps 0 --pace 100 --json "$tmp/w.json"
w=$pid
until_true stat 'all(x["version"] > 20 for x in r["shards"][0]["replicas"])' || fail "no steps: $(cat "$tmp/w.err")"
stat 'all(x["error"] is None and x["heartbeat_age_s"] < 1 and x["ring_slots"] > 0 and x["lag"] >= 0
	for x in r["shards"][0]["replicas"])' || fail "stat: $(cat "$tmp/stat.json")"
stat 'r["shards"][0]["count"] == 3 == r["shards"][0]["wanted"] and
	r["shards"][0]["replicas"][0]["forwarded"] > 20 and r["shards"][0]["replicas"][1]["forwarded_bytes"] > 0 and
	r["shards"][0]["replicas"][2]["resync_bytes"] > 0' || fail "stat: $(cat "$tmp/stat.json")"
outlast stat --coordinator "$coord" --job hand --once
expect "the table" 0
[[ $out == *"shard 0: epoch "*"3 of 3 replicas"*head*middle*tail* ]] || fail "the table: $out"

# the head dies; one that is stopped is a row with a reason, then it is out, and ends by itself
kill -9 "$a"
until_true stat "$roles == ['head', 'tail']" || fail "without its head: $(cat "$tmp/stat.json")"
member e 0
e=$pid
until_true stat "$roles == ['head', 'middle', 'tail']" || fail "back to three: $(cat "$tmp/stat.json")"
kill -STOP "$b"
until_true stat "$roles == ['head', 'tail']" || fail "without the one that is stopped: $(cat "$tmp/stat.json")"
kill -CONT "$b"
ended "$b" 9 "a server that was left out"
says b '^outlast serve: @.*its chain went on without it'

# a single server is read by its address; one that is gone is a row with a reason
live=$(json "$tmp/stat.json" 'r["shards"][0]["replicas"][0]["address"]')
outlast stat --servers "$live,$(address)" --once --json - --timeout-ms 200
expect "one of two" 0
printf '%s\n' "$out" >"$tmp/two.json"
[ "$(json "$tmp/two.json" '[s["replicas"][0]["error"] is None for s in r["shards"]]')" = "[True, False]" ] ||
	fail "one of two: $out"

kill -9 "$e"
until_true stat "$roles == ['only']" || fail "down to one: $(cat "$tmp/stat.json")"
stat 'r["shards"][0]["founded"] == 1' || fail "another history: $(cat "$tmp/stat.json")"
kill -TERM "$w"
ended "$w" 143 "the worker"
[ "$(json "$tmp/w.json" 'r["lost"] == 0 and r["unresolved"] == 0 and r["applied"] == r["pushed"]')" = True ] ||
	fail "accounts: $(cat "$tmp/w.json")"

# who comes once all are gone waits for them, and says what can be done
kill -9 "$d"
member f 0
says f '^shard 0: the last replica of its chain is gone, .*--job.*--refound'
outlast stat --coordinator "$coord" --job hand --once
[[ $out == *"1 of 3 replicas, it does not answer, "*" waiting"* ]] || fail "stat of a chain that is gone: $out"

# without the folder nothing can change, and training goes on as it is
serve g "$(address)" --coordinator "$coord" --job gone --replicas 1
background v work --coordinator "$coord" --job gone "${tiny[@]}" --id 0 --steps 0 --pace 100 --json "$tmp/v.json"
v=$pid
trains() {
	outlast stat --coordinator "$coord" --job gone --once --json -
	[ "$rc" = 0 ] && printf '%s\n' "$out" >"$tmp/gone.json" &&
		[ "$(json "$tmp/gone.json" 'any(x.get("version", 0) > 0 for x in r["shards"][0]["replicas"])')" = True ]
}
until_true trains || fail "no training: $(cat "$tmp/v.err" "$tmp/g.err")"
live=$(json "$tmp/gone.json" 'r["shards"][0]["replicas"][0]["address"]')
rm -rf "$tmp/views"
says g 'taken away: .*running servers and workers go on'
version() {
	outlast stat --servers "$live" --once --json -
	printf '%s\n' "$out" >"$tmp/one.json"
	json "$tmp/one.json" 'r["shards"][0]["replicas"][0]["version"]'
}
before=$(version)
later() { [ "$(version)" -gt $((before + 100)) ]; }
until_true later || fail "training does not go on without the folder: $(cat "$tmp/one.json" "$tmp/v.err")"
outlast stat --coordinator "$coord" --job gone --once
expect_error "stat of a folder that is gone" 4 "outlast stat: *$tmp/views: there is no such folder*"
kill -TERM "$v"
ended "$v" 143 "the worker of a folder that is gone"
[ "$(json "$tmp/v.json" 'r["lost"] == 0 and r["unresolved"] == 0 and r["applied"] == r["pushed"]')" = True ] ||
	fail "accounts: $(cat "$tmp/v.json")"
verdict
