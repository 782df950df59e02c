#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# limits.sh -- a process whose resource limits are too low ends with status 7 and names the limit: no signal ends it,
# and it does not hang
. "$(dirname "$0")/train_lib.bash"

# limited NAME LIMIT WORD... -- outlast() with a limit of its own, as prlimit names it
limited() {
	local limit="--$1=$2:$2"

	shift 2
	timeout -k 10 "$DEADLINE_S" prlimit "$limit" "$OUTLAST_BIN" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
	rc=$?
	out=$(cat "$tmp/out")
	err=$(cat "$tmp/err")
}

# ends WHAT PATTERN -- the last run said what it lacks, in a line of its own
ends() {
	expect "$1" 7
	# shellcheck disable=SC2053  # a pattern is what is wanted
	[[ $err == $2 ]] || fail "$1: said \"$err\", not something like \"$2\""
}

ready_or_gone() {
	gone "$worker" || grep -q "^worker $id at" "$tmp/w.err"
}

# file sizes: a server's snapshots and a worker's gradients are files to the kernel
limited fsize 10000 serve "${tiny[@]}" --listen "$(address)"
ends "serve, file sizes" "outlast serve: *snapshots*0.010 MB*ulimit -f*"
limited fsize 10000 train "${tiny[@]}" --steps 5
ends "train, file sizes" "*server 0 ended with exit status 7 *"
at=$(address)
serve s "$at"
server=$pid
limited fsize 10000 work "${tiny[@]}" --connect "$at"
ends "work, file sizes" "outlast work: *0.010 MB*ulimit -f*"

# a worker that has too few descriptors, whichever step of connecting takes the last one
met=0
for count in {5..24}; do
	limited nofile "$count" work "${tiny[@]}" --connect "$at" --steps 5
	[ "$rc" = 0 ] && break
	[ "$rc" = 127 ] && continue # too few to be loaded
	met=$((met + 1))
	ends "work, $count descriptors" "*outlast work: *$count: ulimit -n*"
done
[ "$rc" = 0 ] || fail "work: $count descriptors are too few: $err"
[ "$met" -gt 3 ] || fail "work: $met runs met the limit"
kill "$server"
ended "$server" 0 "serve"

# a server that has too few for one worker does not start; one that has too few for the next tells that worker
for role in chain lone; do
	chain=()
	[ "$role" = chain ] && chain=(--coordinator zk:127.0.0.1:1)
	for count in {5..32}; do
		at=$(address)
		mkfifo "$tmp/ready"
		prlimit "--nofile=$count:$count" "$OUTLAST_BIN" serve "${tiny[@]}" --listen "$at" --ready-fd 3 \
			${chain+"${chain[@]}"} >"$tmp/s.out" 2>"$tmp/s.err" 3>"$tmp/ready" </dev/null &
		server=$!
		background_pids+=("$server")
		read -r _ <"$tmp/ready" && rc=0 || { wait "$server"; rc=$?; }
		err=$(cat "$tmp/s.err")
		rm "$tmp/ready"
		[ "$rc" = 0 ] && break
		[ "$rc" = 127 ] || ends "serve, $role, $count descriptors" "*outlast serve: *$count: ulimit -n*"
	done
	[ "$role" = lone ] || [ "$rc" = 7 ] || fail "serve, $role: $count descriptors are enough: $err"
done
[ "$rc" = 0 ] || fail "serve: $count descriptors are too few: $err"
for id in {0..7}; do
	background w work "${tiny[@]}" --connect "$at" --id "$id" --steps 0
	worker=$pid
	until_true ready_or_gone || fail "worker $id: neither in nor refused: $(cat "$tmp/w.err")"
	gone "$worker" && break
done
ended "$worker" 7 "a worker that finds a server without descriptors"
grep -q "server lacks" "$tmp/w.err" || fail "it is not told: $(cat "$tmp/w.err")"
grep -q "$count: ulimit -n" "$tmp/s.err" || fail "the server does not name its limit: $(cat "$tmp/s.err")"
kill "$server"
ended "$server" 0 "serve"

# addresses: OpenBLAS would ask for its memory for ever. A sanitizer takes more addresses than any limit here.
if ! ldd "$OUTLAST_BIN" | grep -qE 'lib(a|t)san'; then
	for command in train work; do
		limited as 150000000 "$command" "${tiny[@]}" --steps 5
		ends "$command, addresses" "outlast $command: *matrix products*ulimit -v*"
	done
	# a server makes no products
	limited as 150000000 serve "${tiny[@]}" --listen /nowhere/s
	[[ $err == *"/nowhere/s"* ]] || fail "serve, addresses: $err"
fi
verdict
