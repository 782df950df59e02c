#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# chain_ordered.sh -- an operator has replicas added, removed and moved, and a host drained, while two workers train: no
# worker sees a failure, every gradient is applied once, the weights are those of an undisturbed run
# not under tsan: the connections are the same as those of integration-chain_hand
. "$(dirname "$0")/kill_lib.bash"

coord=dir:$tmp/views
mkdir -m 700 "$tmp/views"
job=(--coordinator "$coord" --job ordered)
sync=(--consistency sync --workers 2)

# member NAME RANK -- a server of the chain at @NAME-$$; process id in $NAME
member() {
	serve "$1" "@$1-$$" "${job[@]}" --replicas 3 --rank "$2" --lease-ms 4000 "${sync[@]}"
	printf -v "$1" '%s' "$pid"
}

# worker NAME ID WORD... -- process id in $NAME
worker() {
	background "$1" work "${job[@]}" "${tiny[@]}" --id "$2" --pace 100 --json "$tmp/$1.json" "${@:3}"
	printf -v "$1" '%s' "$pid"
}

# look EXPRESSION -- of the object r of a look at shard 0
look() {
	outlast stat "${job[@]}" --once --json -
	[ "$rc" = 0 ] && printf '%s\n' "$out" >"$tmp/look.json" && [ "$(json "$tmp/look.json" "$1")" = True ]
}

# are NAME... -- the replicas, from the head on; all of them are there and full, and nobody joins
are() {
	local want

	want=$(printf "'@%s-$$'," "$@")
	look "[x['address'] for x in r['shards'][0]['replicas']] == [$want] and r['shards'][0]['joining'] == 0 and
		r['shards'][0]['wanted'] == $#"
}

steps_go_on() { # WHEN
	local at

	look True || fail "$1: no look"
	at=$(json "$tmp/look.json" 'max(x["version"] for x in r["shards"][0]["replicas"])')
	until_true look "max(x['version'] for x in r['shards'][0]['replicas']) > $at + 20" || fail "$1: no steps"
}

order() { # WORD...
	outlast chain "$@" "${job[@]}"
	expect "chain $*" 0
	told=$out
	steps_go_on "after chain $*"
}

refused() { # STATUS PATTERN WORD...
	local status=$1 pattern=$2

	shift 2
	outlast chain "$@"
	expect_error "chain $*" "$status" "$pattern"
}

# what is refused before a coordinator is asked, and by it
refused 2 "outlast chain: say add, remove, move or drain: outlast chain --help"
refused 2 "outlast chain: say add, remove, move or drain: promote: *" promote "${job[@]}"
refused 2 "outlast chain: *" move @a to @b "${job[@]}"
refused 2 "outlast chain: give --coordinator" add
refused 2 "outlast chain: give a server: remove:*" remove "${job[@]}"
refused 2 "outlast chain: give a host: drain:*" drain "${job[@]}"
refused 4 "outlast chain: *ordered*" add "${job[@]}"

member a 0
member b 1
member c 2
worker w 0 --steps 0
worker x 1 --steps 0
until_true are a b c || fail "not whole: $(cat "$tmp/look.json")"
steps_go_on "at the beginning"

refused 4 "outlast chain: no server waits: shard 0: start one*" add "${job[@]}"
refused 4 "outlast chain: no replica of the job has this address: @nobody:*" remove @nobody "${job[@]}"
refused 4 "outlast chain: no server of the job is on that host: @nobody:*" drain @nobody "${job[@]}"
refused 4 "outlast chain: no server waits elsewhere: shard 0: *" move "@a-$$" "${job[@]}"
refused 4 "outlast chain: no server waits elsewhere: shard 0: *" drain "@a-$$" "${job[@]}"
are a b c || fail "what was refused has changed the chain: $(cat "$tmp/look.json")"

# one more, the middle leaves, another takes the head's place, the tail's host is drained
member d 3
refused 4 "outlast chain: no such server waits for that shard: @d-$$: *" add "@d-$$" --shard 1 "${job[@]}"
order add
[[ $told == "shard 0: @d-$$ is a full replica after "*" s; the chain wants 4" ]] || fail "add says: $told"
are a b c d || fail "add: $(cat "$tmp/look.json")"
order remove "@b-$$" --json
[ "$(json <(printf '%s' "$told") 'r["order"], r["shard"], r["server"], r["wanted"]')" = "('remove', 0, '@b-$$', 3)" ] ||
	fail "remove says: $told"
ended "$b" 0 "the server that was removed"
grep -q 'was ordered to leave' "$tmp/b.err" || fail "b does not say why it ends: $(cat "$tmp/b.err")"
are a c d || fail "remove: $(cat "$tmp/look.json")"
member e 4
member f 5
order move "@a-$$" --to "@f-$$"
ended "$a" 0 "the head that was moved"
are c d f || fail "move: $(cat "$tmp/look.json")"
order drain "@f-$$"
ended "$f" 0 "the server of the host that was drained"
are c d e || fail "drain: $(cat "$tmp/look.json")"
order drain "@c-$$" --fewer
ended "$c" 0 "the head of the host that was drained"
are d e || fail "drain without a spare: $(cat "$tmp/look.json")"

# two operators at once: both orders hold; one that cannot know whether its own did says so, and is told it again
replica() { # NAME
	look "'@$1-$$' in [x['address'] for x in r['shards'][0]['replicas']]"
}
in_doubt() { # STATUS TEXT
	[ "$1" = 1 ] && [[ $2 == *"another operator changed the chain at the same time"* ]]
}
member g 6
"$OUTLAST_BIN" chain remove "@d-$$" "${job[@]}" >"$tmp/one.out" 2>&1 </dev/null &
one=$!
outlast chain add "@g-$$" "${job[@]}"
two=$rc said=$err
wait "$one"
one=$?
[ "$one" = 0 ] || in_doubt "$one" "$(cat "$tmp/one.out")" || fail "remove beside add: $one: $(cat "$tmp/one.out")"
[ "$two" = 0 ] || in_doubt "$two" "$said" || fail "add beside remove: $two: $said"
if [ "$one" != 0 ] && replica d; then order remove "@d-$$"; fi
if [ "$two" != 0 ] && ! replica g; then order add "@g-$$"; fi
until_true are e g || fail "two operators: $(cat "$tmp/look.json")"
ended "$d" 0 "the server that another operator removed"

# the last one stays
order remove "@g-$$"
ended "$g" 0 "the last but one"
refused 5 "outlast chain: it is the only replica of its shard: @e-$$: *" remove "@e-$$" "${job[@]}"
refused 5 "outlast chain: it is the only replica of its shard: @e-$$: *" drain "@e-$$" --fewer "${job[@]}"
are e || fail "the last one: $(cat "$tmp/look.json")"

# others take the workers' places, and end at a version that all of it was before
kill -TERM "$w" "$x"
ended "$w" 143 "worker 0"
ended "$x" 143 "worker 1"
look True || fail "no look at the end"
steps=$(($(json "$tmp/look.json" 'r["shards"][0]["replicas"][0]["version"]') + 50))
worker y 0 --until "$steps" --eval
worker z 1 --until "$steps" --eval
ended "$y" 0 "worker 0, again"
ended "$z" 0 "worker 1, again"
for name in w x; do # the last gradient of one may be for a step that the other has left
	[ "$(json "$tmp/$name.json" 'r["lost"] == r["unresolved"] == 0 and r["dropped_late"] <= 1')" = True ] || fail "accounts of $name: $(cat "$tmp/$name.json")"
done
for name in y z; do
	[ "$(json "$tmp/$name.json" 'r["lost"] == r["dropped_late"] == r["unresolved"] == 0 and r["applied"] == r["pushed"]')" = True ] ||
		fail "accounts of $name: $(cat "$tmp/$name.json")"
done
sha() {
	grep -oE '[0-9a-f]{64}' "$1" | head -n 1
}
outlast train "${tiny[@]}" "${sync[@]}" --steps "$steps" --eval-every 0 --json "$report"
expect "undisturbed" 0
[ "$(sha "$report")" = "$(sha "$tmp/y.out")" ] && [ "$(sha "$tmp/y.out")" = "$(sha "$tmp/z.out")" ] ||
	fail "other weights than undisturbed: $(sha "$report"), not $(sha "$tmp/y.out"), $(sha "$tmp/z.out")"
verdict
