#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# recovery.sh -- when one of several servers is lost, either it alone comes back from its running checkpoint and
# training reaches the same result, or all go back to one version and end at exactly the same weights
#
# not under asan, tsan: it is about bits and versions; recovery_end, scar and kill_async run the same code there
. "$(dirname "$0")/kill_lib.bash"

# 4,810 parameters: five shards at most
mlp=(--model mlp:64 --dataset synthetic:train=1000,test=200 --eval-every 0)

refused() { # PATTERN WORD...
	local pattern=$1

	shift
	outlast train "${tiny[@]}" "$@"
	expect_error "$*" 2 "$pattern"
	[ -z "$out" ] || fail "$*: says something on stdout: $out"
}

with=(--durability checkpoint --checkpoint)
refused '*--checkpoint*needs a part above 0 and at most 1 behind r=*' "${with[@]}" priority,r=0
refused '*--checkpoint*needs a part above 0 and at most 1 behind r=*' "${with[@]}" priority,r=9/8
refused '*--checkpoint*needs a part above 0*' "${with[@]}" priority,r=half
refused '*--checkpoint*that needs priority, round-robin or random*' "${with[@]}" r=1/8
refused '*--checkpoint*less than a step*' "${with[@]}" priority,r=1/8,every=4steps
refused '*--checkpoint*a running checkpoint is one file*' "${with[@]}" priority,keep=3
refused '*--checkpoint*is not every=*' "${with[@]}" importance,r=1/8
refused '*--recovery*partial*full*' --recovery some
refused '*--recovery*needs --durability checkpoint*' --recovery full
refused '*--recovery*needs full checkpoints*' --recovery full "${with[@]}" priority,r=1/8
refused '*--restore*cannot be with --recovery full*' --recovery full "${with[@]}" every=9steps --restore mirror
outlast train "${mlp[@]}" --servers 2 --recovery full "${with[@]}" every=5s
expect_error "by time" 2 '*--recovery*checkpoints by time*give every=100steps*'
outlast serve "${tiny[@]}" "${with[@]}" "priority,r=1/8,every=4steps,dir=$tmp/no"
expect_error "serve" 2 '*--checkpoint*less than a step*'

# all go back: the same weights as if nothing had happened, whatever is lost
sync=(--consistency sync --workers 2 --servers 4 --steps 200)
slow=("${sync[@]}" --pace 150 --recovery full "${with[@]}" every=25steps)
train "${sync[@]}"
whole=$(sha)

counted() {
	truth "all are back" 'r["recoveries"] == r["kills"] == len(r["outages"]) and r["restarts"] == 0'
	truth "all is counted" 'r["gradients_applied"] == 400 and r["accounting"]["agree"]'
	# which one that is depends on the disk, and on what came between the look at the version and the signal
	truth "back to one that all have" 'all(o["restored_version"] <= r["version"] and
		o["restored_version"] % 25 == 0 for o in r["outages"] if o["target"] != "worker1")'
}

same() {
	counted
	[ "$(sha)" = "$whole" ] || fail "$ran: other weights: $(sha), not $whole"
}

train "${slow[@]}" --kill server1@90steps:down=200ms,server3@140steps
truth "what is lost is computed again" 'r["gradients_lost"] > 0 and r["gradients_computed"] == 400 + r["gradients_lost"]'
same
train "${slow[@]}" --kill server2@10steps
truth "before the first: first weights" 'r["outages"][0]["restored_version"] > 0 or r["gradients_lost"] >= 20'
same
train "${slow[@]}" --kill server0@60steps,server1@60steps,server2@60steps,server3@60steps
same
# the files go while the servers that are to begin with them are away: the first weights, and the same again
background wiped train "${mlp[@]}" --json "$report" "${sync[@]}" --pace 60 --recovery full "${with[@]}" "every=25steps,dir=$tmp/wiped" \
	--kill server2@90steps:down=3s
until_true grep -q 'all servers go back to version [1-9]' "$tmp/wiped.err" || fail "wiped: $(cat "$tmp/wiped.err")"
rm "$tmp"/wiped/*.olc
ended "$pid" 0 "checkpoints that are gone"
ran="checkpoints that are gone"
grep -q 'cannot begin with version [1-9]' "$tmp/wiped.err" || fail "$ran: nobody says so: $(cat "$tmp/wiped.err")"
truth "the first weights" 'r["outages"][0]["restored_version"] == 0'
same
# one after the other, as soon as the last is back: nobody is taken for one that hangs, or died unasked
train "${slow[@]}" --kill server0@20steps,server1@22steps,server2@24steps,server3@40steps,server0@42steps,server1@44steps,server2@46steps
same
train "${slow[@]}" --lease-ms 1500 --kill server1@90steps:signal=STOP
truth "stopped and replaced" 'r["outages"][0]["fenced"]'
same
# one that is stopped goes back with the others, before anyone has missed it: nobody is left to be woken up
train "${slow[@]}" --lease-ms 60000 --kill server0@90steps:signal=STOP,server1@90steps
truth "killed while it was stopped" 'not any(o["survived"] or o["fenced"] for o in r["outages"])'
same
# a worker that dies in the middle of a push has left it at some shards only (src/README.md, Limits)
train "${slow[@]}" --kill worker1@60steps,server0@90steps
counted
# servers that save at each step skip, each for itself: what all have is kept all the same
train "${sync[@]}" --steps 1500 --pace 1000 --recovery full "${with[@]}" every=3steps,keep=1 --kill server1@1000steps
truth "something that all have" 'r["recoveries"] == 1 and r["outages"][0]["restored_version"] > 0'

# asynchronous: nobody can say which weights, but all shards go on from one version
train --workers 2 --servers 4 --steps 400 --pace 150 --recovery full "${with[@]}" every=50steps --kill server1@130steps
killed 1
truth "lost is what came after" 'r["outages"][0]["restored_version"] % 50 == 0 and r["gradients_lost"] > 0'

children() {
	local child

	for child in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
		tr '\0' ' ' <"/proc/$child/cmdline" 2>/dev/null | grep -q "^outlast serve .*--shard=$2 " && echo "$child"
	done
}

# common N -- the N newest versions that all four shards have a checkpoint of, the newest first; false: not so many
common() {
	local file found

	found=$(for file in "$tmp"/ckpt/ckpt-*-s[0-3]-*.olc; do
		file=${file##*-v}
		echo "$((10#${file%.olc}))"
	done 2>/dev/null | sort -rn | uniq -c | awk '$1 == 4 { print $2 }' | head -n "$1")
	# shellcheck disable=SC2086  # numbers
	set -- "$1" $found
	[ $# -gt "$1" ] && shift && echo "$@"
}

two_common() {
	common 2 >/dev/null || gone "$pid"
}

stopped() {
	local child

	for child in "$@"; do
		[ "$(cut -d ' ' -f 3 "/proc/$child/stat" 2>/dev/null)" = T ] || return 1
	done
}

# One shard's newest is damaged: all take the one before. Nobody moves while it is damaged, its launcher first of all;
# a job that had come to its end before that is begun anew, with more to do.
for steps in 300 600 1200 2400; do
	rm -rf "$tmp/ckpt"
	background t train "${mlp[@]}" --json "$report" "${slow[@]}" --steps "$steps" "${with[@]}" "every=50steps,dir=$tmp/ckpt"
	ran="train with a damaged checkpoint, $steps steps"
	until_true two_common || fail "$ran: no two versions that all have: $(cat "$tmp/t.err")"
	kill -STOP "$pid"
	all=()
	for shard in 0 1 2 3; do
		# shellcheck disable=SC2207  # a number, or none
		all+=($(children "$pid" "$shard"))
	done
	[ ${#all[@]} = 4 ] && kill -STOP "${all[@]}" && until_true stopped "$pid" "${all[@]}" &&
		read -r newest before <<<"$(common 2)" && [ "$newest" -lt "$steps" ] && break
	kill -CONT "$pid" "${all[@]}"
	ended "$pid" 0 "$ran"
	newest=
done
[ -n "$newest" ] || fail "the job was always at its end"
for file in "$tmp"/ckpt/ckpt-*-s2-*-v*.olc; do
	at=${file##*-v}
	[ "$((10#${at%.olc}))" -lt "$newest" ] || printf x | dd of="$file" bs=1 seek=5000 conv=notrunc status=none
done
kill -9 "${all[1]}"
kill -CONT "$pid"
ended "$pid" 0 "$ran"
grep -q "all servers go back to version $newest\$" "$tmp/t.err" || fail "did not go back to $newest: $(cat "$tmp/t.err")"
grep -q "all servers go back to version $before\$" "$tmp/t.err" ||
	fail "did not go back further, to $before: $(cat "$tmp/t.err")"
damaged=$(sha)
train "${sync[@]}" --steps "$steps"
[ "$(sha)" = "$damaged" ] || fail "$ran: other weights: $damaged, not $(sha)"

# resumed: shards whose newest differ, and one is damaged: all begin at the newest that all can
rm -rf "$tmp/ckpt"
resume=("${sync[@]}" --recovery full "${with[@]}" "every=25steps,keep=20,dir=$tmp/ckpt")
train "${resume[@]}" --pace 150 --steps 110
read -r last newest before <<<"$(common 3)"
[ "$last" = 110 ] || fail "$ran: the last version has no checkpoint: $last"
rm "$tmp"/ckpt/ckpt-*-s3-*-v*110.olc
for file in "$tmp"/ckpt/ckpt-*-s1-*-v*"$newest".olc; do
	printf x | dd of="$file" bs=1 seek=5000 conv=notrunc status=none
done
train "${resume[@]}" --resume
for version in "$newest" "$before"; do
	[[ $err == *"all servers begin at version $version,"* ]] || fail "$ran: did not begin at version $version: $err"
done
[ "$(sha)" = "$whole" ] || fail "$ran: other weights: $(sha), not $whole"
# its last alone is left to one, all others to the rest
for file in "$tmp"/ckpt/*.olc; do
	case $file in
	*-s2-*200.olc) ;;
	*-s2-* | *200.olc) rm "$file" ;;
	esac
done
outlast train "${mlp[@]}" "${resume[@]}" --resume
expect_error "nothing that all have" 2 '*--resume*no version that every shard has*'

# only the one that is lost goes back, to blocks of different ages: training goes on from there. The ages are as the disk makes
# them: on a busy machine a turn takes as long as 50 steps
train --consistency sync --workers 2 --servers 4 --steps 400 --optimizer momentum
target=$(json "$report" 'r["test_loss"] * 1.15')
for selection in priority round-robin random; do
	train --consistency sync --workers 2 --servers 4 --steps 400 --pace 200 --optimizer momentum --restore checkpoint \
		"${with[@]}" $selection,r=1/8,every=8steps --kill server1@100steps,server3@200steps
	killed 2
	truth "$selection" 'all(o["restored_from"] == "checkpoint" and 0 < o["restored_version"] <= r["version"]
		for o in r["outages"])'
	truth "$selection: reaches its target" "r['test_loss'] <= $target"
	truth "$selection: checkpoints" 'r["checkpoints"]["failed"] == 0 and r["checkpoints"]["written"] >= 12 and
		r["checkpoints"]["written"] + r["checkpoints"]["skipped"] > 100'
done

# interrupted in order and resumed: a running checkpoint then has everything
train "${sync[@]}"
whole=$(sha)
rm -rf "$tmp/ckpt"
train "${sync[@]}" --steps 90 "${with[@]}" "priority,r=1/4,every=12steps,dir=$tmp/ckpt"
train "${sync[@]}" --steps 200 "${with[@]}" "priority,r=1/4,every=12steps,dir=$tmp/ckpt" --resume
[ "$(sha)" = "$whole" ] || fail "resumed: other weights: $(sha), not $whole"
outlast train "${mlp[@]}" "${sync[@]}" "${with[@]}" "every=12steps,dir=$tmp/ckpt"
expect_error "a folder of this job" 2 '*names a folder with checkpoints of this very job*'
# another number of servers: fewer or more, running or full
more=$(find "$tmp/ckpt" -name 'run-*-s*' | wc -l)
for selection in priority every=12steps; do
	for servers in 1 $((more + 1)); do
		outlast train "${mlp[@]}" "${sync[@]}" --servers "$servers" "${with[@]}" "$selection,dir=$tmp/ckpt" --resume
		expect_error "$servers servers, $selection" 2 "outlast train: --resume: *finds checkpoints of $more servers in $tmp/ckpt, and --servers is $servers: give --servers $more, *"
		[ "$(printf '%s\n' "$err" | wc -l)" = 1 ] || fail "$servers servers, $selection: more than a line: $err"
	done
done
find "$tmp/ckpt" -name 'run-*-s0-*' -delete
outlast train "${mlp[@]}" "${sync[@]}" "${with[@]}" "priority,dir=$tmp/ckpt" --resume
expect_error "a shard without a checkpoint" 2 "outlast train: --resume: *finds no checkpoint of server 0 in $tmp/ckpt: *"
verdict
