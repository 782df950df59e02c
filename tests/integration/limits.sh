#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# limits.sh -- a process that its limits leave too little ends with status 7 and names the limit: no signal ends it, and
# it does not hang
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

# a server that has too few: for itself, or for a worker, who is told that the server lacks something
answers=''
for count in {5..24}; do
	at=$(address)
	rm -f "$tmp/s.ready"
	mkfifo "$tmp/ready"
	prlimit "--nofile=$count:$count" "$OUTLAST_BIN" serve "${tiny[@]}" --listen "$at" --ready-fd 3 \
		>"$tmp/s.out" 2>"$tmp/s.err" 3>"$tmp/ready" </dev/null &
	server=$!
	background_pids+=("$server")
	if ! read -r _ <"$tmp/ready"; then
		wait "$server"
		rc=$?
		err=$(cat "$tmp/s.err")
		[ "$rc" = 127 ] || ends "serve, $count descriptors" "*outlast serve: *$count: ulimit -n*"
	else
		outlast work "${tiny[@]}" --connect "$at" --steps 5 --connect-timeout-ms 1000
		answers+=" $rc"
		case $rc in
		0) ;;
		4) [[ $(cat "$tmp/s.err") == *"ulimit -n"* ]] || fail "serve, $count: does not name its limit: $(cat "$tmp/s.err")" ;;
		7) [[ $(cat "$tmp/s.err") == *"$count: ulimit -n"* && $err == *"server lacks"* ]] ||
			fail "serve, $count: $(cat "$tmp/s.err") $err" ;;
		*) fail "serve, $count: a worker's exit status is $rc: $err" ;;
		esac
		kill "$server"
		ended "$server" 0 "serve, $count descriptors"
	fi
	rm "$tmp/ready"
	[ "$rc" = 0 ] && break
done
[[ $answers == *" 7"*" 0" ]] || fail "serve: workers ended with$answers"

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
