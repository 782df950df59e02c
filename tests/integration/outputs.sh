#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# outputs.sh -- a subcommand fails if its result cannot be printed; unusable addresses, and a missing device, are
# refused with the remedy
. "$(dirname "$0")/train_lib.bash"

# full WORD... -- with a standard output that takes nothing
full() {
	timeout -k 10 "$DEADLINE_S" "$OUTLAST_BIN" "$@" >/dev/full 2>"$tmp/err" </dev/null
	rc=$?
	err=$(cat "$tmp/err")
	[ "$rc" = 1 ] || fail "$1, standard output full: exit status $rc, not 1: $err"
	[[ $err == *outlast*"No space left on device"* ]] || fail "$1, standard output full: $err"
}

full --help
full --version
for command in train drill serve work stat export import bench keygen doctor; do
	full "$command" --help
done
full doctor
full keygen
full train "${tiny[@]}" --steps 3
at=$(address)
serve s "$at"
server=$pid
full work --connect "$at" "${tiny[@]}" --steps 3
full stat --servers "$at" --once
full stat --servers "$at" --once --json -
kill "$server"
ended "$server" 0 "serve"
at=$(address)
"$OUTLAST_BIN" serve "${tiny[@]}" --listen "$at" --exit-version 3 >/dev/full 2>"$tmp/s.err" </dev/null &
server=$!
background_pids+=("$server")
outlast work --connect "$at" "${tiny[@]}" --steps 3
expect "work" 0
ended "$server" 1 "serve, standard output full"
grep -q "No space left on device" "$tmp/s.err" || fail "serve, standard output full: $(cat "$tmp/s.err")"

# a stream that is closed is no place for a socket
timeout -k 10 "$DEADLINE_S" "$OUTLAST_BIN" train "${tiny[@]}" --steps 3 >&- 2>"$tmp/err" <&-
rc=$?
err=$(cat "$tmp/err")
expect "train, standard output closed" 1

# addresses
cd "$tmp" || exit 1
for address in 10.0.0.1:7471 demo; do
	outlast serve "${tiny[@]}" --transport shm --listen "$address"
	expect_error "serve --listen $address" 2 "*outlast serve:*$address*shm takes @NAME or a path*verbs takes HOST:PORT*"
	outlast work "${tiny[@]}" --transport shm --connect "$address"
	expect_error "work --connect $address" 2 "*outlast work:*$address*shm takes @NAME or a path*verbs takes HOST:PORT*"
	[ ! -e "$address" ] || fail "a file of the name $address was made"
done
outlast serve "${tiny[@]}" --listen "$tmp/nowhere/s"
expect_error "a folder that is not there" 6 "*outlast serve:*$tmp/nowhere/s*make its folder*"

# a device
outlast doctor --device nothing0
expect "doctor --device nothing0" 6
[[ $out == *"no device named nothing0"* ]] || fail "doctor --device nothing0: $out"
if [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
	outlast serve "${tiny[@]}" --listen 10.0.0.1:7471
	expect_error "no device" 6 "*outlast serve:*on one machine no device is needed: give @NAME in place of HOST:PORT*"
fi
verdict
