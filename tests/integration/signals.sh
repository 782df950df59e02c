#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# signals.sh -- a process that waits for a server or a coordinator ends at once on a signal, with status 128 + its
# number
. "$(dirname "$0")/train_lib.bash"

# The process holds signals back, and has a descriptor that tells of them. (The shell before exec and the C library while
# it makes a thread hold them back too, for a moment.)
watches() {
	grep -qs '^sigmask:' "/proc/$1/fdinfo/"*
}

# asked SIGNAL STATUS WORD... -- the process would go on for longer than any test waits
asked() {
	local signal=$1 status=$2

	shift 2
	background p "$@"
	until_true watches "$pid" || fail "$1: does not look at signals: $(cat "$tmp/p.err")"
	gone "$pid" && fail "$*: is over: $(cat "$tmp/p.err")"
	kill "-$signal" "$pid"
	ended "$pid" "$status" "$*, SIG$signal"
	grep -q '^outlast' "$tmp/p.err" && fail "$*, SIG$signal: $(cat "$tmp/p.err")"
}

at=$(address)
nobody=zk:127.0.0.1:1
wait_long=(--connect-timeout-ms 3600000)
for word in "INT 130" "TERM 143"; do
	# shellcheck disable=SC2206  # two words
	signal=($word)
	asked "${signal[@]}" work "${tiny[@]}" --connect "$at" "${wait_long[@]}"
	asked "${signal[@]}" work "${tiny[@]}" --coordinator $nobody "${wait_long[@]}"
	asked "${signal[@]}" serve "${tiny[@]}" --coordinator $nobody --listen "$at"
	asked "${signal[@]}" stat --servers "$at" --once --timeout-ms 60000
done

# nohup: what is ignored at the start asks for nothing
trap '' HUP
background p work "${tiny[@]}" --connect "$at" "${wait_long[@]}"
trap - HUP
until_true watches "$pid" || fail "nohup: does not look at signals: $(cat "$tmp/p.err")"
kill -HUP "$pid"
kill -INT "$pid"
ended "$pid" 130 "work, SIGHUP that it ignores, and SIGINT"

# Two at once: it trains no more, and evaluates nothing
serve s "$at"
server=$pid
background p work "${tiny[@]}" --connect "$at" --steps 0 --eval
worker=$pid
until_true grep -q 'worker 0 at' "$tmp/p.err" || fail "does not train: $(cat "$tmp/p.err")"
kill -STOP "$worker"
kill -TERM "$worker"
kill -INT "$worker"
kill -CONT "$worker"
ended "$worker" 143 "work --eval, two signals"
grep -q 'stopped by a second signal: the weights are not evaluated' "$tmp/p.err" || fail "two signals: $(cat "$tmp/p.err")"
kill -TERM "$server"
ended "$server" 0 "its server"

background p stat --coordinator $nobody
until_true grep -q outlast "/proc/$pid/cmdline" || fail "stat does not start"
kill -TERM "$pid"
ended "$pid" 143 "stat --coordinator"
verdict
