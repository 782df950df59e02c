#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# train_stall.sh -- a stalled job says once what it waits for, and one signal ends it with its summary
#
# not under asan, tsan: it is about what the launcher says, which has one thread
. "$(dirname "$0")/train_lib.bash"

# children PID SUBCOMMAND -- process ids, in the order they were started
children() {
	local child

	for child in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
		tr '\0' ' ' <"/proc/$child/cmdline" 2>/dev/null | grep -q "^outlast $2 " && echo "$child"
	done
}

# job WORD... -- train in the background until a step was made; its id in $job, children in $servers, $workers
job() {
	rm -f "$tmp/r.json"
	background t train "${tiny[@]}" --eval-every 0 --seconds 100000 --json "$tmp/r.json" "$@"
	job=$pid
	until_true grep -q "^step [1-9]" "$tmp/t.err" || fail "train $*: no progress line: $(cat "$tmp/t.err")"
	# shellcheck disable=SC2207  # numbers
	servers=($(children "$job" serve)) workers=($(children "$job" work))
}

stall_said() { # WHAT PATTERN
	until_true grep -q "nothing has moved for .* at version .*: waiting for $2" "$tmp/t.err" ||
		fail "$1: did not say for whom it waits: $(cat "$tmp/t.err")"
}

# job_over WHAT -- by one SIGTERM, with all that there is to report
job_over() {
	local child

	ended "$job" 143 "$1"
	gone "$job" || { kill -9 "$job"; return; }
	for child in "${servers[@]}" "${workers[@]}"; do
		until_true gone "$child" || fail "$1: process $child is still running"
	done
	grep -q '^ended *interrupted$' "$tmp/t.out" || fail "$1: no summary: $(cat "$tmp/t.out")"
	[ "$(grep -c ': waiting for' "$tmp/t.err")" -le 1 ] || fail "$1: said twice: $(cat "$tmp/t.err")"
	[ "$(json "$tmp/r.json" 'r["ended"]')" = interrupted ] || fail "$1: the report"
}

final() { # WHAT
	grep -q "weights sha256" "$tmp/t.out" || fail "$1: no final weights: $(cat "$tmp/t.err" "$tmp/t.out")"
}

exact() { # WHAT
	[ "$(json "$tmp/r.json" 'r["accounting"]["agree"] and r["gradients_computed"] == r["gradients_applied"]')" = True ] ||
		fail "$1: gradients are left over: $(cat "$tmp/t.out")"
}

what="a worker is stopped"
for index in 0 1; do
	job --workers 2 --consistency sync
	kill -STOP "${workers[index]}"
	[ $index = 0 ] || stall_said "$what" "worker 1 (stopped)$"
	kill -TERM "$job"
	job_over "$what ($index)"
	final "$what ($index)"
	exact "$what ($index)"
done
grep -q "worker 1 was stopped: woken up, so that it can end" "$tmp/t.err" || fail "$what: woken up in silence"

# the launcher, stopped itself, finds the signal and the death at once: in this order
what="a worker dies in the end"
job --workers 2 --consistency sync
kill -STOP "$job"
kill -9 "${workers[1]}"
kill -TERM "$job"
kill -CONT "$job"
job_over "$what"
final "$what"

what="a worker is stopped by the schedule"
job --workers 2 --consistency sync --kill worker1@100steps:down=36000s:signal=STOP
kill -TERM "$job"
job_over "$what"
final "$what"
exact "$what"

what="a worker is away by the schedule"
job --workers 2 --consistency sync --kill worker1@100steps:down=36000s
kill -TERM "$job"
job_over "$what"
final "$what"

what="a server is stopped"
job --workers 2 --consistency sync
kill -STOP "${servers[0]}"
kill -TERM "$job"
job_over "$what"
final "$what"

what="a server is away by the schedule"
job --workers 2 --consistency sync --outage wait --outage-timeout 0 --kill server0@100steps:down=36000s
stall_said "$what" "server 0 (to be started again in 3[0-9]* s)$"
kill -TERM "$job"
job_over "$what"
final "$what"

# what nobody can cure: the folder of views was taken away, and the only server is gone
what="a chain without a folder"
mkdir "$tmp/views"
address=dir:$tmp/views
job --workers 2 --consistency sync --durability chain --replicas 2 --restarts 0 --coordinator "$address"
rm -rf "$tmp/views"
kill -9 "${servers[0]}"
stall_said "$what" "the chain of shard 0 to go on without server 0.0 (coordinator $address)$"
kill -TERM "$job"
job_over "$what"
grep -q "the job ends without waiting for the chain of shard 0 .* any longer" "$tmp/t.err" ||
	fail "$what: ends in silence: $(cat "$tmp/t.err")"
verdict
