#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# readers_program.sh -- `outlast relay` takes one reader's place at a server and serves many, also when the server is
# gone; the server's limit of readers is an option that its refusal names
# not under asan, tsan: integration-readers and -readers_relay have the code, and this the command line
. "$(dirname "$0")/train_lib.bash"

printf '%s\n' "$OUTLAST_JOB_KEY" >"$tmp/job.key"
chmod 600 "$tmp/job.key"
outlast keygen --from "$tmp/job.key" --observer --out "$tmp/look.key"
expect "an observer's credential" 0
unset OUTLAST_JOB_KEY
server=$(address)
relay=$(address)
key=(--job-key-file "$tmp/job.key")
look=(--job-key-file "$tmp/look.key")

# says FILE TEXT -- the text is in the file
says() {
	grep -qF -e "$2" "$1"
}

background server serve --listen "$server" --params 5000 --observers-max 1 "${key[@]}"
server_pid=$pid
until_true says "$tmp/server.err" "server at" || fail "the server does not listen: $(cat "$tmp/server.err")"
background relay relay --connect "$server" --listen "$relay" "${look[@]}"
relay_pid=$pid
until_true says "$tmp/relay.err" "relay at $relay: serves version 0 of 1 shards to up to 256 readers" ||
	fail "the relay does not listen: $(cat "$tmp/relay.err")"

outlast export --connect "$server" --out "$tmp/no.npy" --timeout-ms 500 "${look[@]}"
expect_error "one reader too many" 5 "outlast export:*observers_max of 1 observers*--observers-max*"
for reader in 1 2 3; do
	outlast export --connect "$relay" --out "$tmp/$reader.npy" "${look[@]}"
	expect "reader $reader of the relay" 0
done

kill -9 "$server_pid"
until_true says "$tmp/relay.err" "goes on serving version 0" || fail "the relay does not say that its server is gone"
outlast export --connect "$relay" --out "$tmp/gone.npy" "${look[@]}"
expect "a reader while the server is gone" 0
cmp -s "$tmp/1.npy" "$tmp/gone.npy" || fail "the weights are others now"

kill "$relay_pid"
ended "$relay_pid" 0 "the relay"
says "$tmp/relay.out" "version 0, 1 reads of the job, 1 times a server of it was lost" ||
	fail "the relay's last words are: $(cat "$tmp/relay.out")"

outlast relay
expect_error "no job" 2 "outlast relay: give one of --connect and --coordinator*"
outlast relay --connect "$server" --timeout-ms 300 "${look[@]}"
expect_error "no server" 4 "outlast relay:*no answer within 300 ms*"
verdict
