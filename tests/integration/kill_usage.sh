#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# kill_usage.sh -- invalid kill schedules and failure settings get one line that names the fault, before any process
# is started
#
# not under asan, tsan: a command line is refused before there is a second thread, by code of which there are unit tests
. "$(dirname "$0")/kill_lib.bash"

bad() { # WHAT PATTERN WORD...
	local what=$1 pattern=$2

	shift 2
	outlast "$@"
	expect_error "$what" 2 "$pattern"
	[ -z "$out" ] || fail "$what: says something on stdout: $out"
}

refused() { # PATTERN SCHEDULE WORD...
	local pattern=$1 schedule=$2

	shift 2
	bad "$schedule" "outlast train: --kill: *$pattern*" train "${tiny[@]}" --kill "$schedule" "$@"
}

refused 'serverN' client0@3s
refused 'serverN' server@3s
refused 'moment' server0
refused 'moment' server0@soon
refused 'loss<' 'server0@loss<x'
refused 'needs --durability chain' head@30s
refused 'needs --durability chain' middle@200steps
refused 'needs --durability chain' tail@30s:down=20s
refused 'no middle' middle@50steps --durability chain --replicas 2
refused 'no middle' head@5steps,middle@50steps --durability chain --replicas 1
[[ $err == *'"middle@50steps" needs'* ]] || fail "which one: $err"
refused '"head1@50steps" is not below --servers 1' head1@50steps --durability chain
[[ $err != *head1*head1* ]] || fail "the value twice: $err"
refused 'down=' server0@3s:down=fast
refused 'one of KILL, STOP' server0@3s:signal=TERM
refused '"server1@3s" is not below --servers 1' server1@3s
refused '"worker2@3s" is not below --workers 2' server0@1s,worker2@3s --workers 2
refused 'longer than --outage-timeout' server0@3s:down=20s --outage-timeout 10
refused 'longer than --outage-timeout' server0@3s:down=60s
refused 'comma' server0@3s,

bad "durability" "outlast train: --durability*none, checkpoint*" train "${tiny[@]}" --durability raid
bad "checkpoint alone" "outlast train: --checkpoint: *needs --durability checkpoint*" \
	train "${tiny[@]}" --checkpoint every=5s
for words in every=often keep=0 often=5s every=5s,,keep=1 dir=; do
	bad "--checkpoint $words" "outlast train: --checkpoint: *$words*" \
		train "${tiny[@]}" --durability checkpoint --checkpoint "$words"
done
bad "no folder" "outlast serve: --checkpoint*names no folder*" serve "${tiny[@]}" --durability checkpoint
bad "restore" "outlast train: --restore: *needs --durability checkpoint*" \
	train "${tiny[@]}" --restore checkpoint
bad "restore, serve" "outlast serve: --restore: *needs --durability checkpoint*" \
	serve "${tiny[@]}" --restore checkpoint
bad "outage" "outlast train: --outage*wait, continue*" train "${tiny[@]}" --outage pray
bad "queue" "outlast work: --queue*fold, drop-oldest, wait*" work "${tiny[@]}" --queue stack
bad "replay" "outlast train: --replay*each, mean, sum, clip, staleness*" train "${tiny[@]}" --replay never
bad "lease" "outlast serve: --lease-ms*200*" serve "${tiny[@]}" --lease-ms 10
bad "epoch" "outlast serve: --epoch*" serve "${tiny[@]}" --epoch 0
bad "resume without a folder" "outlast train: --resume: needs *dir=DIR*" \
	train "${tiny[@]}" --durability checkpoint --resume
bad "nothing to resume" "outlast train: --resume: *finds no checkpoint*" \
	train "${tiny[@]}" --durability checkpoint --checkpoint "dir=$tmp/none" --resume
bad "time line" "outlast train: cannot write --timeline: /nowhere/t.csv*" train "${tiny[@]}" --timeline /nowhere/t.csv
bad "pace" "outlast train: --pace*" train "${tiny[@]}" --pace=-1
verdict
