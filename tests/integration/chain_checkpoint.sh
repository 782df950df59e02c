#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# chain_checkpoint.sh -- checkpoints beside a chain: its tail writes them, whoever that is, and a job goes on from them when
# all its replicas and workers are gone, and when its coordinator is; from a worker's mirror where that is fresher. The
# weights at the end are those of an undisturbed run
# not under tsan: the connections are the same as those of integration-chain_hand
. "$(dirname "$0")/kill_lib.bash"

mkdir -m 700 "$tmp/views" "$tmp/other"
sync=(--consistency sync --workers 2)
every=60
saves=(--checkpoint "every=${every}steps,dir=$tmp/ckpt,keep=3" --refound)

# job FOLDER -- where its views are
job() {
	job=(--coordinator "dir:$1" --job saved)
}

# chain TAG WORD... -- three servers @a-TAG to @c-TAG; process ids in $a, $b, $c
chain() {
	local rank=0 tag=$1 name

	shift
	for name in a b c; do
		serve "$name" "@$name-$$-$tag" "${job[@]}" --replicas 3 --rank $((rank++)) --lease-ms 4000 "${sync[@]}" "$@"
		printf -v "$name" '%s' "$pid"
	done
}

# workers WORD... -- two, process ids in $w and $x
workers() {
	background w work "${job[@]}" "${tiny[@]}" --id 0 --pace 150 --json "$tmp/w.json" "$@"
	w=$pid
	background x work "${job[@]}" "${tiny[@]}" --id 1 --pace 150 --json "$tmp/x.json" "$@"
	x=$pid
}

# look EXPRESSION -- of the object r of a look at shard 0
look() {
	outlast stat "${job[@]}" --once --json -
	[ "$rc" = 0 ] && printf '%s\n' "$out" >"$tmp/look.json" &&
		[ "$(json "$tmp/look.json" "(lambda s: $1)(r['shards'][0])")" = True ]
}

# newest -- "EPOCH VERSION" of the newest file
newest() {
	local name

	name=$(cd "$tmp/ckpt" 2>/dev/null && printf '%s\n' ckpt-*-s0-e*-v*.olc | sort | tail -n 1)
	[[ $name =~ -e0*([0-9]+)-v0*([0-9]+)\.olc$ ]] && echo "${BASH_REMATCH[1]} ${BASH_REMATCH[2]}"
}

newer_than() { # VERSION
	local epoch version

	read -r epoch version <<<"$(newest)"
	[ -n "$epoch" ] && [ "$version" -gt "$1" ]
}

restored() { # NAME PATTERN WHAT
	grep -qE "$2" "$tmp/$1.err" || fail "$3: $(cat "$tmp/$1.err")"
}

# What does not go together is refused before anything is
outlast serve --listen "@no-$$" --params 10 --coordinator "dir:$tmp/views" --checkpoint "dir=$tmp/ckpt,priority"
expect_error "a running one beside a chain" 2 "outlast serve: --checkpoint: *asks for a running one: beside a chain there are full ones only*"
outlast serve --listen "@no-$$" --params 10 --coordinator "dir:$tmp/views" --durability checkpoint --checkpoint "dir=$tmp/ckpt"
expect_error "a checkpoint's durability" 2 "outlast serve: --durability: *does not go with --coordinator*with --checkpoint a chain has checkpoints, too*"
outlast serve --listen "@no-$$" --params 10 --durability checkpoint --checkpoint "dir=$tmp/ckpt,by=each"
expect_error "by= without a chain" 2 "outlast serve: --checkpoint: *says which replicas write*"
outlast serve --listen "@no-$$" --params 10 --coordinator "dir:$tmp/views" --checkpoint "dir=$tmp/ckpt,by=head"
expect_error "by= a head" 2 "outlast serve: --checkpoint: *needs tail or each behind by=*"
[ ! -e "$tmp/ckpt" ] || fail "what was refused has made a folder"

# The tail writes
job "$tmp/views"
chain 1 "${saves[@]}" --restore freshest
workers --steps 0
until_true newer_than $((2 * every - 1)) || fail "no checkpoints: $(ls -a "$tmp/ckpt"; cat "$tmp/c.err")"
until_true look "s['joining'] == 0 and [x['address'] for x in s['replicas']] == ['@%s-$$-1' % n for n in 'abc'] and
	s['replicas'][2]['checkpoints'] > 0" || fail "the tail writes none: $(cat "$tmp/look.json")"
# a slow machine makes steps before the chain has its tail; since then the tail alone writes
above=$(json "$tmp/look.json" "[x['checkpoints'] for x in r['shards'][0]['replicas']]")
until_true look "s['replicas'][2]['checkpoints'] > $above[2] + 1" && look "[x['checkpoints'] for x in s['replicas']][:2] == $above[:2]" ||
	fail "not the tail alone: $above, then $(cat "$tmp/look.json")"
for name in "$tmp"/ckpt/ckpt-*; do
	[[ $name =~ -v0*([0-9]+)\.olc$ ]] && [ $((BASH_REMATCH[1] % every)) = 0 ] || fail "not of the interval: $name"
done
three() { # the oldest goes once the newest is there
	[ "$(find "$tmp/ckpt" -name 'ckpt-*' | wc -l)" -le 3 ]
}
until_true three || fail "more than keep=3: $(ls "$tmp/ckpt")"

# … also the next one
kill -9 "$c"
read -r _ at <<<"$(newest)"
until_true newer_than $((at + every)) || fail "no checkpoints after the tail's death: $(cat "$tmp/b.err")"
until_true look "[x['checkpoints'] > n for x, n in zip(s['replicas'], $above)] == [False, True]" ||
	fail "not the new tail: $(cat "$tmp/look.json")"
read -r epoch _ <<<"$(newest)"
until_true look "s['epoch'] == $epoch" || fail "named by epoch $epoch: $(cat "$tmp/look.json")"

# All replicas die and the workers live: theirs are the freshest weights
until_true look "s['replicas'][-1]['version'] % $every in range(10, 40)" || fail "no version between two checkpoints"
kill -9 "$a" "$b"
read -r epoch at <<<"$(newest)"
chain 2 "${saves[@]}" --restore freshest
until_true newer_than $((at + every)) || fail "it does not go on from a mirror: $(cat "$tmp"/[abc].err)"
restored a 'restored version [0-9]+ from the mirror of worker' "not from a mirror"
restored a "begins with a mirror, which lacks 0 applied pushes; chosen from a checkpoint of version $at, [0-9]+ behind" "does not say why"

# All die, workers too
kill -9 "$a" "$b" "$c" "$w" "$x"
read -r epoch at <<<"$(newest)"
chain 3 "${saves[@]}" --restore freshest
workers --steps 0
until_true newer_than $((at + every)) || fail "it does not go on from its checkpoint: $(cat "$tmp"/[abc].err)"
restored a "restored version $at from $tmp/ckpt" "not from the checkpoint"
read -r next _ <<<"$(newest)"
[ "$next" -gt "$epoch" ] || fail "a history of epoch $next follows one of epoch $epoch"

# The coordinator has lost everything, too: epochs go on from those of the folder
kill -9 "$a" "$b" "$c" "$w" "$x"
read -r epoch at <<<"$(newest)"
job "$tmp/other"
chain 4 "${saves[@]}" --restore checkpoint
steps=$((at + 3 * every))
workers --until "$steps" --eval
ended "$w" 0 "worker 0"
ended "$x" 0 "worker 1"
until_true newer_than "$at" || fail "no newer checkpoint: $(cat "$tmp/c.err")"
restored a "goes on from version $at of a checkpoint" "not from the checkpoint, at the other coordinator"
read -r next _ <<<"$(newest)"
[ "$next" -gt "$epoch" ] || fail "at another coordinator epoch $next follows $epoch"
for name in w x; do
	[ "$(json "$tmp/$name.json" 'r["lost"] == r["dropped_late"] == r["unresolved"] == 0 and r["applied"] == r["pushed"]')" = True ] ||
		fail "accounts of $name: $(cat "$tmp/$name.json")"
done

# A tail that is told to end saves its last version
kill "$c" "$b" "$a"
ended "$c" 0 "the last tail"
ended "$b" 0 "the last middle"
ended "$a" 0 "the last head"
read -r _ at <<<"$(newest)"
[ "$at" = "$steps" ] || fail "the newest checkpoint is of version $at, not $steps"

sha() {
	grep -oE '[0-9a-f]{64}' "$1" | head -n 1
}
outlast train "${tiny[@]}" "${sync[@]}" --steps "$steps" --eval-every 0 --json "$report"
expect "undisturbed" 0
[ "$(sha "$report")" = "$(sha "$tmp/w.out")" ] && [ "$(sha "$tmp/w.out")" = "$(sha "$tmp/x.out")" ] ||
	fail "other weights than undisturbed: $(sha "$report"), not $(sha "$tmp/w.out"), $(sha "$tmp/x.out")"

# Each replica writes into a folder of its own: the same files
mkdir -m 700 "$tmp/each"
job "$tmp/each"
own() { # TAG WORD... -- three servers with folders of their own
	local rank=0 tag=$1 name

	shift
	for name in a b c; do
		serve "$name" "@$name-$$-$tag" "${job[@]}" --replicas 3 --rank $((rank++)) --lease-ms 4000 "${sync[@]}" \
			--checkpoint "every=${every}steps,dir=$tmp/own-$name,by=each,keep=2" --refound "$@"
		printf -v "$name" '%s' "$pid"
	done
}
stranger() { # TAG -- another one, $d, whose folder is of a history with later versions and, at first, later epochs
	serve d "@d-$$-$1" "${job[@]}" --replicas 3 --rank 9 --lease-ms 4000 "${sync[@]}" \
		--checkpoint "every=${every}steps,dir=$tmp/ckpt,by=each" --refound --restore checkpoint
	d=$pid
}
own 5 --restore none
until_true look "len(s['replicas']) == 3 and s['joining'] == 0" || fail "by=each: not whole: $(cat "$tmp/look.json")"
read -r epoch _ <<<"$(newest)"
stranger 5
until_true look "s['epoch'] > $epoch and len(s['replicas']) == 3" ||
	fail "a chain is at an epoch below $epoch, which a server that waits has files of: $(cat "$tmp/look.json" "$tmp/d.err")"
restored d "has checkpoints of epoch $epoch, of another history" "does not say that its files are another history's"
workers --until 190
ended "$w" 0 "worker 0, by=each"
ended "$x" 0 "worker 1, by=each"
saved() { # by each of them, the version
	[ "$(find "$tmp"/own-? -name "ckpt-*-v*$1.olc" | wc -l)" = 3 ]
}
until_true saved 180 || fail "by=each: $(ls "$tmp"/own-?; cat "$tmp"/[abc].err)"
for version in 120 180; do
	for name in a b c; do
		cat "$tmp/own-$name"/ckpt-*-v*"$version.olc" >"$tmp/$name.olc" || fail "by=each: $name has no version $version"
	done
	"$python" - "$tmp"/[abc].olc <<'END' || fail "by=each: checkpoints of version $version have other weights"
import sys
files = [open(name, "rb").read() for name in sys.argv[1:]]
number = lambda at, count: int.from_bytes(files[0][at:at + count], "little")
end = 4096 + number(104, 4) + number(24, 8)  # of the content: the weights, as sgd has no state
weights = {file[end - 2624:end] for file in files}
sys.exit(len(weights) != 1 or not any(next(iter(weights))))
END
done

damage() { # FILE -- its last block
	"$python" - "$1" <<'END' || fail "no block to damage in $1"
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(-2000, 2)
    byte = file.read(1)
    file.seek(-1, 1)
    file.write(bytes([byte[0] ^ 1]))
END
}

# All die, and the highest rank alone has the newest file: it founds the chain anew
kill -9 "$a" "$b" "$c" "$d"
rm "$tmp"/own-[ab]/ckpt-*-v*180.olc
own 6 --restore freshest
workers --until 300 --eval
ended "$w" 0 "worker 0, by=each, again"
ended "$x" 0 "worker 1, by=each, again"
restored c "restored version 180 from $tmp/own-c" "not the newest of three folders"

# All die, and the coordinator has lost everything: the other history has later versions, but the chain's epoch is above it
kill -9 "$a" "$b" "$c"
mkdir -m 700 "$tmp/none"
job "$tmp/none"
stranger 7
own 7 --restore checkpoint
workers --until 360 --eval
ended "$w" 0 "worker 0, another coordinator"
ended "$x" 0 "worker 1, another coordinator"
! grep -qE "restored version|goes on from version" "$tmp/d.err" || fail "begins with another history: $(cat "$tmp/d.err")"
outlast train "${tiny[@]}" "${sync[@]}" --steps 360 --eval-every 0 --json "$report"
expect "undisturbed, 360 steps" 0
[ "$(sha "$report")" = "$(sha "$tmp/w.out")" ] || fail "by=each: other weights than undisturbed: $(cat "$tmp/w.out")"

# The coordinator is there, and the only replica is lost: a server that ranks before it, with later epochs and versions of
# another history, does not begin with those
mkdir -m 700 "$tmp/kept"
cp -a "$tmp/ckpt" "$tmp/kept-b"
job "$tmp/kept"
single() { # NAME TAG RANK
	serve "$1" "@$1-$$-$2" "${job[@]}" --replicas 1 --rank "$3" --lease-ms 1000 "${sync[@]}" \
		--checkpoint "every=${every}steps,dir=$tmp/kept-$1" --refound --restore checkpoint
}
single a 8 1
a=$pid
workers --until 70
ended "$w" 0 "worker 0, a chain of one"
ended "$x" 0 "worker 1, a chain of one"
kill -9 "$a"
single b 9 0
single a 9 1
workers --until 130 --eval
ended "$w" 0 "worker 0, a chain of one again"
ended "$x" 0 "worker 1, a chain of one again"
restored a "goes on from version 60 of a checkpoint" "the chain's own server does not go on"
! grep -qE "restored version|goes on from version" "$tmp/b.err" || fail "goes on with another history: $(cat "$tmp/b.err")"
outlast train "${tiny[@]}" "${sync[@]}" --steps 130 --eval-every 0 --json "$report"
expect "undisturbed, 130 steps" 0
[ "$(sha "$report")" = "$(sha "$tmp/w.out")" ] || fail "a chain of one: other weights than undisturbed: $(cat "$tmp/w.out")"

# Nothing is made any more, and what is saved is of an epoch below another history's: it is saved once more, above that
kill -9 "$a" "$b"
mkdir -m 700 "$tmp/idle"
cp -a "$tmp/ckpt" "$tmp/kept-d"
job "$tmp/idle"
single c 10 1
c=$pid
workers --until $every
ended "$w" 0 "worker 0, an idle chain"
ended "$x" 0 "worker 1, an idle chain"
single d 10 0
saved_again() {
	[ "$(find "$tmp/kept-c" -name "ckpt-*-v*$every.olc" | wc -l)" = 2 ]
}
until_true saved_again || fail "an idle chain: $(ls "$tmp/kept-c"; cat "$tmp/c.err")"

# The newest is damaged, and behind it in the same folder is one of another history: the chain's own before that is taken
kill -9 "$c" "$d"
cp -a "$tmp"/kept-d/ckpt-* "$tmp/kept-c"
damage "$(printf '%s\n' "$tmp"/kept-c/ckpt-* | sort | tail -n 1)"
single c 11 1
c=$pid
goes_on() { # NAME
	grep -qE "goes on from version [0-9]+ of a checkpoint" "$tmp/$1.err"
}
until_true goes_on c || fail "not from its own before a damaged one: $(cat "$tmp/c.err")"
restored c "goes on from version $every of a checkpoint" "from another history, and not from its own before a damaged one"
restored c "not used: block 0 of 1: its checksum" "does not say which block is damaged"
restored c "not used: header: it is of another history" "does not say that others are another history's"

# Those of another history are newer than the chain's own in the same folder
kill -9 "$c"
mkdir -m 700 "$tmp/above"
job "$tmp/above"
single e 12 1
e=$pid
workers --until 70
ended "$w" 0 "worker 0, a folder of two histories"
ended "$x" 0 "worker 1, a folder of two histories"
kill -9 "$e"
cp -a "$tmp"/kept-d/ckpt-* "$tmp/kept-e"
single e 13 1
until_true goes_on e || fail "a folder of two histories: $(cat "$tmp/e.err")"
restored e "goes on from version 60 of a checkpoint" "from another history, and not from its own below it"
# … also where the chain is founded anew again before it has made a step: what it began with is saved once more
above() {
	[[ $(printf '%s\n' "$tmp"/kept-e/ckpt-* | sort | tail -n 1) == *-v00000000000000000060.olc ]]
}
until_true above || fail "what it began with is not saved: $(ls "$tmp/kept-e")"
kill -9 "$pid"
single e 14 1
until_true goes_on e || fail "a folder of two histories, again: $(cat "$tmp/e.err")"
restored e "goes on from version 60 of a checkpoint" "from another history, at the second time"

verdict
