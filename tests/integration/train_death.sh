#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# train_death.sh -- a job whose processes die and are not restarted, or that is interrupted, says so, ends with the
# right exit code, and leaves no process running
#
# not under asan, tsan: it is about processes and what the launcher says of them
. "$(dirname "$0")/train_lib.bash"

# children PID SUBCOMMAND -- process ids, in the order they were started
children() {
	local child

	for child in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
		tr '\0' ' ' <"/proc/$child/cmdline" 2>/dev/null | grep -q "^outlast $2 " && echo "$child"
	done
}

# job WORD... -- train in the background until its workers are at work; its id in $job, children in $all
job() {
	rm -f "$tmp/r.json"
	background t train "${tiny[@]}" --eval-every 0 --seconds 1000 --restarts 0 --json "$tmp/r.json" "$@"
	job=$pid
	until_true grep -q "^step [1-9]" "$tmp/t.err" || fail "train $*: no progress line: $(cat "$tmp/t.err")"
	# shellcheck disable=SC2207  # numbers
	all=($(children "$job" serve) $(children "$job" work))
}

job_over() { # WHAT STATUS
	local child

	ended "$job" "$2" "$1"
	for child in "${all[@]}"; do
		until_true gone "$child" || fail "$1: process $child is still running"
	done
	[ "$(grep -c 'weights sha256' "$tmp/t.out")" -le 1 ] || fail "$1: two summaries"
}

said() { # WHAT PATTERN
	grep -q "$2" "$tmp/t.err" || fail "$1: did not say \"$2\": $(cat "$tmp/t.err")"
}

for consistency in async sync; do
	job --workers 3 --consistency $consistency
	[ ${#all[@]} = 4 ] || fail "$consistency: ${#all[@]} processes, not 4"
	kill -INT "$job"
	job_over "$consistency, SIGINT" 130
	grep -q "test accuracy" "$tmp/t.out" || fail "$consistency, SIGINT: no summary"
	[ "$(json "$tmp/r.json" 'r["ended"]')" = interrupted ] || fail "$consistency, SIGINT: the report"
	[ "$(json "$tmp/r.json" 'r["gradients_computed"] == r["gradients_applied"]')" = True ] ||
		fail "$consistency, SIGINT: gradients are left over"

	job --workers 2 --consistency $consistency
	kill -9 "$job"
	job_over "$consistency, SIGKILL" 137

	job --workers 2 --consistency $consistency
	kill -9 "${all[0]}"
	job_over "$consistency, a server was killed" 8
	said "$consistency, a server was killed" "server 0 was killed by signal 9"
done

# with folders of its own: an interrupted job takes them along, and the death of the parent ends every process
mkdir "$tmp/folders"
export TMPDIR=$tmp/folders XDG_RUNTIME_DIR=$tmp/folders
for how in "INT 130 checkpoint --checkpoint every=50steps" "HUP 129 chain --replicas 2"; do
	read -r signal status durability <<<"$how"
	# shellcheck disable=SC2086  # words
	job --workers 2 --durability $durability
	kill "-$signal" "$job"
	job_over "$durability, SIG$signal" "$status"
	[ -z "$(ls "$tmp/folders")" ] || fail "$durability, SIG$signal: leaves $(ls "$tmp/folders")"
	[ "$(json "$tmp/r.json" 'r["ended"]')" = interrupted ] || fail "$durability, SIG$signal: the report"
	# shellcheck disable=SC2086
	job --workers 2 --durability $durability
	kill -9 "$job"
	job_over "$durability, SIGKILL" 137
	rm -rf "$tmp/folders"/*
done
unset TMPDIR XDG_RUNTIME_DIR
rmdir "$tmp/folders"

# two jobs of the same words at once: neither meets the other
same=(train "${tiny[@]}" --eval-every 0 --workers 2 --consistency sync --steps 300)
background one "${same[@]}" --json "$tmp/one.json"
one=$pid
background two "${same[@]}" --json "$tmp/two.json"
ended "$one" 0 "one of two jobs"
ended "$pid" 0 "the other of two jobs"
[ "$(json "$tmp/one.json" 'r["weights_sha256"]')" = "$(json "$tmp/two.json" 'r["weights_sha256"]')" ] ||
	fail "two jobs at once: other weights"
rm "$tmp"/one.* "$tmp"/two.*

job --workers 2 --consistency sync
kill -9 "${all[2]}"
job_over "sync, a worker was killed" 8
said "sync, a worker was killed" "worker 1 was killed by signal 9: a synchronous step needs all"
grep -q "weights sha256" "$tmp/t.out" || fail "sync, a worker was killed: no summary"

job --workers 2
kill -9 "${all[2]}"
until_true grep -q "worker 1 was killed by signal 9: the others go on" "$tmp/t.err" ||
	fail "async, a worker was killed: $(cat "$tmp/t.err")"
gone "$job" && fail "async, a worker was killed: the job is over"
kill -9 "${all[1]}"
job_over "async, all workers were killed" 8

# async with a number of steps: the rest is done, and said to be less than asked for
background t train "${tiny[@]}" --eval-every 0 --workers 2 --steps 40000 --pace 2000 --restarts 0 --json "$tmp/r.json"
job=$pid
until_true grep -q "^step [1-9]" "$tmp/t.err" || fail "async: no progress line"
# shellcheck disable=SC2207
all=($(children "$job" serve) $(children "$job" work))
kill -9 "${all[2]}"
job_over "async, a worker was killed, others finish" 8
[ "$(json "$tmp/r.json" 'r["workers_died"] == 1 and 20000 <= r["version"] < 40000')" = True ] ||
	fail "async, others finish: $(json "$tmp/r.json" 'r["workers_died"], r["version"]')"
[ "$(json "$tmp/r.json" 'r["gradients_computed"] >= r["gradients_applied"] + r["gradients_dropped"]')" = True ] ||
	fail "async, others finish: the account"

ls "$tmp" | grep -vE '^(never|out|err|r\.json|t\.(out|err|ready))$' && fail "files are left"
verdict
