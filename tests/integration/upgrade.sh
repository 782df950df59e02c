#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# upgrade.sh -- a chain of three and its two workers are replaced one by one by a program of the next protocol while they
# train: no worker sees a failure, the weights are those of an undisturbed run; two versions ahead is refused with a line
# not under tsan: the connections are the same as those of integration-chain_hand
. "$(dirname "$0")/kill_lib.bash"

tests=${OUTLAST_BUILD:-$(dirname "$OUTLAST_BIN")}/tests
now=$OUTLAST_BIN looks=$OUTLAST_BIN next=$tests/outlast-next later=$tests/outlast-later
coord=dir:$tmp/views
mkdir -m 700 "$tmp/views"
job=(--coordinator "$coord" --job up)
sync=(--consistency sync --workers 2)

# member PROGRAM NAME RANK -- a server of the chain; process id in $pid
member() {
	OUTLAST_BIN=$1 serve "$2" "@$2-$$" "${job[@]}" --replicas 3 --rank "$3" --lease-ms 4000 "${sync[@]}" --log debug
}

# worker PROGRAM NAME ID WORD... -- process id in $pid
worker() {
	OUTLAST_BIN=$1 background "$2" work "${job[@]}" "${tiny[@]}" --id "$3" --pace 200 --json "$tmp/$2.json" "${@:4}"
}

# look EXPRESSION -- of the object r of a look at shard 0
look() {
	OUTLAST_BIN=$looks outlast stat "${job[@]}" --once --json -
	[ "$rc" = 0 ] && printf '%s\n' "$out" >"$tmp/look.json" && [ "$(json "$tmp/look.json" "$1")" = True ]
}

# whole MIN -- three replicas, and more than MIN steps
whole() {
	look "[x.get('role') for x in r['shards'][0]['replicas']] == ['head', 'middle', 'tail'] and
		all(x['version'] > $1 for x in r['shards'][0]['replicas'])"
}

version() {
	json "$tmp/look.json" 'max(x["version"] for x in r["shards"][0]["replicas"])'
}

# replaced PROGRAM NAME RANK OLD-PID -- by an orderly end, and a server of that program; training goes on meanwhile
replaced() {
	local at

	whole 0 || until_true whole 0 || fail "not whole before $2: $(cat "$tmp/look.json")"
	at=$(version)
	kill -TERM "$4"
	until_true gone "$4" || fail "the server before $2 does not end"
	member "$1" "$2" "$3"
	until_true whole "$((at + 20))" || fail "not whole with $2: $(cat "$tmp/look.json" "$tmp/$2.err")"
}

member "$now" a0 0
a=$pid
member "$now" b0 1
b=$pid
member "$now" c0 2
c=$pid
worker "$now" w0 0 --steps 0
w=$pid
worker "$now" x0 1 --steps 0
x=$pid
until_true whole 20 || fail "no steps: $(cat "$tmp/w0.err")"

# two versions ahead: its line names both
OUTLAST_BIN=$later outlast serve --listen "@z-$$" "${tiny[@]}" "${job[@]}" --replicas 3 --lease-ms 4000 "${sync[@]}"
expect_error "two versions ahead" 4 "outlast serve: *speaks protocols 15 to 15, this one 16 to 17; upgrade by one version after the other*"
OUTLAST_BIN=$later outlast work "${job[@]}" "${tiny[@]}" --id 2 --connect-timeout-ms 500
expect_error "a worker two versions ahead" 4 "outlast work: *it speaks protocol 15, this worker 16 to 17: their versions do not follow each other*"

replaced "$next" c1 2 "$c"
c=$pid
replaced "$next" b1 1 "$b"
b=$pid
replaced "$next" a1 0 "$a" # the head
a=$pid
whole 0 || fail "not whole: $(cat "$tmp/look.json")"
until_version=$(($(version) + 3000)) # at their pace 15 s: all that follows is before its end
kill -TERM "$w"
ended "$w" 143 "worker 0 of today"
worker "$next" w1 0 --until "$until_version" --eval
w=$pid
until_true whole "$((until_version - 2950))" || fail "no steps with the next worker 0: $(cat "$tmp/w1.err")"
kill -TERM "$x"
ended "$x" 143 "worker 1 of today"
worker "$next" x1 1 --until "$until_version" --eval
x=$pid
# and from here to the version after that
looks=$next
replaced "$later" c2 2 "$c"
ended "$w" 0 "worker 0 of the next version"
ended "$x" 0 "worker 1 of the next version"

said() { # NAME PATTERN -- a server's log
	grep -q "$2" "$tmp/$1.err" || fail "server $1 does not say \"$2\": $(grep protocol "$tmp/$1.err" | head -n 3)"
}
grep -q 'is of protocol' "$tmp/b0.err" && fail "two servers of today: $(grep protocol "$tmp/b0.err")"
said c1 'predecessor is of protocol 15: talked to in 15, features 0$'
said c1 'worker 0 is of protocol 15: talked to in 15, features 0$' # as the head, when a0 had left
said c1 'worker 0 is of protocol 16: talked to in 16, features 0x8000$'
said c2 'predecessor is of protocol 16: talked to in 16, features 0x8000$'
for name in w0 x0 w1 x1; do # who is ended withdraws a gradient whose step waits for the other worker
	most=0
	[[ $name = ?0 ]] && most=1
	[ "$(json "$tmp/$name.json" 'r["lost"] == r["unresolved"] == 0 and r["dropped_late"] <= '$most' and r["applied"] + r["dropped_late"] == r["pushed"]')" = True ] ||
		fail "accounts of $name: $(cat "$tmp/$name.json")"
done
sha() {
	grep -oE '[0-9a-f]{64}' "$1" | head -n 1
}
OUTLAST_BIN=$now outlast train "${tiny[@]}" "${sync[@]}" --steps "$until_version" --eval-every 0 --json "$report"
expect "undisturbed" 0
[ "$(sha "$report")" = "$(sha "$tmp/w1.out")" ] && [ "$(sha "$tmp/w1.out")" = "$(sha "$tmp/x1.out")" ] ||
	fail "other weights than undisturbed: $(sha "$report"), not $(sha "$tmp/w1.out"), $(sha "$tmp/x1.out")"
verdict
