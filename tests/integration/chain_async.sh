#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# chain_async.sh -- in an asynchronous run with chains and failures every gradient is in the weights once, by the counts
# of both ends; with periodic replication lost gradients are counted
. "$(dirname "$0")/chain_lib.bash"

async=(--workers 2 --steps 500 --pace 200 "${chain[@]}")

schedules=(head@100steps middle@100steps tail@100steps head@100steps,head@105steps
	tail@100steps,head@200steps,middle@300steps head@100steps:down=200ms,tail@250steps:down=100ms)
[ -z "${OUTLAST_TEST_SANITIZER-}" ] || schedules=("${schedules[@]:4}")
# survives COUNT WORD... -- that many kills, all made up for before the end. A busy machine may have made all steps before a
# replica that is to be killed is back: then they come more slowly
survives() {
	local count=$1 pace

	shift
	for pace in 200 50 20; do
		train "${async[@]}" --pace $pace "$@"
		all_applied 500
		[ "$(json "$report" "r['kills_not_fired'] == [] and r['recoveries'] == $count")" = True ] && break
	done
	failed_over "$count"
}

for kills in "${schedules[@]}"; do
	survives "$(($(tr -cd , <<<$kills | wc -c) + 1))" --kill $kills
	truth "a step each" 'r["version"] == 500'
done
survives 2 --outage continue --kill head@100steps,tail@250steps
train "${async[@]}" --servers 2 --kill head0@100steps,head1@200steps
failed_over 2
all_applied 500
train "${async[@]}" --lease-ms 1500 --kill head@100steps:signal=STOP,tail@300steps:signal=STOP
failed_over 2
truth "fenced" 'all(o["fenced"] for o in r["outages"])'
all_applied 500

# all of them, before one is back: founded anew from a worker's mirror
train "${async[@]}" --kill head@100steps:down=2s,head@100steps:down=2s,head@100steps:down=2s
killed 3
truth "founded anew" 'r["views"][0]["founded"] > 1 and r["gradients_lost"] == 0'
truth "accounts" 'r["gradients_applied"] == 500'

# periodic: nothing waits, and a head that dies takes along what was not copied
train "${async[@]}" --replicate-every 50 --kill head@120steps
killed 1
truth "counted" '0 < r["gradients_lost"] <= 150 and r["gradients_applied"] + r["gradients_lost"] == 500'
train "${async[@]}" --replicate-every 50 --kill tail@120steps
killed 1
all_applied 500

# a server that dies unasked is started again; one too many, and the chain goes on without it
rm -f "$report"
background t train "${mlp[@]}" --json "$report" --workers 2 --seconds 1000 "${chain[@]}" --restarts 1
job=$pid
ran="train, servers killed from outside"
until_true grep -q "^step [1-9]" "$tmp/t.err" || fail "$ran: no progress line: $(cat "$tmp/t.err")"
victim() {
	local child

	for child in $(cat "/proc/$job/task/$job/children"); do
		tr '\0' ' ' <"/proc/$child/cmdline" 2>/dev/null | grep -q "^outlast serve .*--rank=$1 " && echo "$child"
	done
}
kill -9 "$(victim 0)"
until_true grep -q "is started again (1 of 1)" "$tmp/t.err" || fail "$ran: $(cat "$tmp/t.err")"
until_true grep -q "goes on without its head" "$tmp/t.err" || fail "$ran: $(cat "$tmp/t.err")"
kill -9 "$(victim 1)"
until_true grep -q "its chain goes on without it" "$tmp/t.err" || fail "$ran: $(cat "$tmp/t.err")"
kill -INT "$job"
ended "$job" 130 "$ran"
truth "nothing lost" 'r["gradients_lost"] == 0 and r["accounting"]["agree"] and r["restarts"] == 1 and
	r["failovers"][0]["target"] == "head0"'

# all replicas at once, and views at a coordinator: the chain waits, and those that were started again are left to wait
mkdir -m 700 "$tmp/views"
background t train "${mlp[@]}" --workers 2 --seconds 1000 --durability chain --replicas 2 --lease-ms 1000 \
	--coordinator "dir:$tmp/views" --kill head0@20steps,tail0@20steps
job=$pid
ran="train, all replicas killed"
until_true grep -q "nothing has moved for" "$tmp/t.err" || fail "$ran: $(cat "$tmp/t.err")"
grep -q "^shard 0 has lost all its replicas, and waits: at a --coordinator no chain begins anew by itself" "$tmp/t.err" ||
	fail "$ran: the wait is not said: $(cat "$tmp/t.err")"
! grep "is in its chain no more" "$tmp/t.err" || fail "$ran: $(cat "$tmp/t.err")"
kill -INT "$job"
until_true grep -q "once more to stop at once" "$tmp/t.err"
kill -INT "$job"
ended "$job" 130 "$ran"
verdict
