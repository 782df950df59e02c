#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# kill_unasked.sh -- processes that die without --kill are restarted, --restarts times; jobs go on from checkpoints
# not under asan, tsan: its subject is the launcher, which has one thread; kill_async runs the same code there
. "$(dirname "$0")/kill_lib.bash"

children() {
	local child

	for child in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
		tr '\0' ' ' <"/proc/$child/cmdline" 2>/dev/null | grep -q "^outlast $2 " && echo "$child"
	done
}

job() {
	rm -f "$report"
	background t train "${mlp[@]}" --json "$report" "$@"
	job=$pid
	ran="train $*"
	until_true grep -q "^step [1-9]" "$tmp/t.err" || fail "$ran: no progress line: $(cat "$tmp/t.err")"
}

said() {
	until_true grep -q "$1" "$tmp/t.err" || fail "$ran: did not say \"$1\": $(cat "$tmp/t.err")"
}

# a server, then a worker, then again: the third is one too many
job --consistency sync --workers 2 --seconds 1000 --restarts 2
kill -9 "$(children "$job" serve)"
said "server 0 was killed by signal 9: it is started again (1 of 2)"
said "server 0 is back"
kill -9 "$(children "$job" work | head -n 1)"
said "is started again (2 of 2)"
said "worker [01] is back"
kill -9 "$(children "$job" serve)"
said "it has been started again often enough (--restarts 2): the job ends here"
ended "$job" 8 "one death too many"
truth "both came back" 'r["recoveries"] == 2 and r["restarts"] == 2 and r["kills"] == 0 and r["ended"] == "failed"'

# the same weights as if nothing had happened
train --consistency sync --workers 2 --steps 1000
whole=$(sha)
train --consistency sync --workers 2 --steps 2000
longer=$(sha)
job --consistency sync --workers 2 --steps 2000 --pace 200
kill -9 "$(children "$job" serve)"
said "server 0 is back"
kill -9 "$(children "$job" work | head -n 1)"
said "worker [01] is back"
ended "$job" 0 "two deaths"
[ "$(sha)" = "$longer" ] || fail "$ran: other weights: $(sha), not $longer"
truth "accounts agree" 'r["accounting"]["agree"] and r["gradients_lost"] == 0'

# a signal while a server is gone: the job ends in order once it is back
job --consistency sync --workers 2 --seconds 1000 --kill server0@3500ms:down=1s
said "server 0 is killed"
kill -INT "$job"
ended "$job" 130 "interrupted during an outage"
truth "in order" 'r["ended"] == "interrupted" and r["gradients_lost"] == 0 and r["accounting"]["agree"]'

# checkpoints: interrupted, and resumed from there; a folder of another run is not taken by accident
ckpt=(--durability checkpoint --checkpoint "every=50steps,keep=2,dir=$tmp/ckpt")
for consistency in sync async; do
	rm -rf "$tmp/ckpt"
	long=(--consistency "$consistency" --workers 2 "${ckpt[@]}")
	train "${long[@]}" --steps 330
	[ "$(find "$tmp/ckpt" -name '*.olc' | wc -l)" = 2 ] || fail "$ran: kept $(ls "$tmp/ckpt")"
	outlast train "${mlp[@]}" "${long[@]}" --steps 500
	expect_error "a folder in use" 2 "outlast train: --checkpoint: *give --resume*"
	train "${long[@]}" --steps 1000 --resume
	truth "the rest only" 'r["version"] == 1000 and r["accounting"]["agree"] and
		r["gradients_computed"] == r["gradients_applied"] == 670 * (2 if r["consistency"] == "sync" else 1)'
	[ $consistency = async ] || [ "$(sha)" = "$whole" ] || fail "$ran: other weights: $(sha), not $whole"
	outlast train "${mlp[@]}" "${long[@]}" --seed 5 --steps 1200 --resume
	expect_error "of another seed" 2 "outlast train: --resume: *no checkpoint of this job*"
done
# a folder of the run's own does not stay
TMPDIR=$tmp train --durability checkpoint --steps 250
[ -z "$(find "$tmp" -name 'outlast-ckpt-*')" ] || fail "$ran: a folder is left: $(ls "$tmp")"
verdict
