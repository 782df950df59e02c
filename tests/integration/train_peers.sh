#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# train_peers.sh -- a serve or work process that does not fit or lies is refused, and when one dies the others go on
. "$(dirname "$0")/train_lib.bash"

work() {
	outlast work --connect "$at" "${tiny[@]}" "$@"
}

# counters NAME -- what a server said at its end
counter() {
	json "$tmp/$1.json" "r[\"$2\"]"
}

# a pair, and its fingerprint against that of train
at=$(address)
serve s "$at" --seed 7 --json "$tmp/s.json" --exit-version 40
server=$pid
work --seed 7 --steps 40 --eval --json "$tmp/w.json"
expect "work" 0
[[ $out == *"worker 0: 40 gradients"*"sha256 "* ]] || fail "work's summary: $out"
sha=$(json "$tmp/w.json" 'r["weights_sha256"]')
ended "$server" 0 "serve --exit-version"
[[ $(cat "$tmp/s.out") == "version 40, 40 gradients applied"* ]] || fail "serve's summary: $(cat "$tmp/s.out")"
[ "$(counter s version) $(counter s applied)" = "40 40" ] || fail "serve's JSON: $(cat "$tmp/s.json")"
outlast train "${tiny[@]}" --seed 7 --steps 40 --eval-every 0 --json "$tmp/t.json"
expect "train" 0
[ "$(json "$tmp/t.json" 'r["weights_sha256"]')" = "$sha" ] || fail "train gives other weights than serve and work"

# who is refused; the server goes on
at=$(address)
serve s "$at" --workers-max 2 --json "$tmp/s.json"
server=$pid
outlast work --connect "$at" --model mlp:8 --dataset synthetic:train=500,test=200
expect_error "another geometry" 5 "outlast work:*$at*parameters*"
outlast work --connect "$at,$at" "${tiny[@]}"
expect_error "another number of shards" 5 "outlast work:*$at*shard*"
work --id 2
expect_error "id out of range" 5 "outlast work:*id 2*"
key=$OUTLAST_JOB_KEY
# whoever says so has not proved to be its server: the worker tries again until its time is over
OUTLAST_JOB_KEY=f${key#?} work --connect-timeout-ms 500
expect_error "wrong job key" 5 "*outlast work:*not let in within 500 ms: the peer does not know this job key*"
echo "e${key#?}" >"$tmp/key"
chmod 600 "$tmp/key"
work --job-key-file "$tmp/key" --connect-timeout-ms 500
expect_error "wrong job key from a file" 5 "*outlast work:*not let in within 500 ms: the peer does not know this job key*"
echo "$key" >"$tmp/key"
work --job-key-file "$tmp/key" --steps 5
expect "the key from a file" 0
chmod 644 "$tmp/key"
work --job-key-file "$tmp/key" --job-key-file-shared --steps 5
expect "the key from a file that others may read" 0
! tr '\0' '\n' <"/proc/$server/environ" | grep -q "$key" || fail "serve's environment still shows the key"
outlast serve --listen "$at" "${tiny[@]}"
expect_error "second server on one address" 7 "*outlast serve:*$at*"
outlast work --connect "$(address)" "${tiny[@]}" --connect-timeout-ms 200
expect_error "no server" 4 "outlast work:*no answer*"
outlast work --connect "$(address)" "${tiny[@]}" --connect-timeout-ms 3000
expect_error "no server for long" 4 "outlast work:*no answer*"
[[ $err == "worker 0 waits for its servers at @"* ]] || fail "it waits without a word: $err"

# a worker that is in is not pushed out by another of the same id
background w work --connect "$at" "${tiny[@]}" --id 1 --steps 0
worker=$pid
until_true grep -q "^worker 1 at" "$tmp/w.err" || fail "worker 1 does not come in: $(cat "$tmp/w.err")"
work --id 1
expect_error "duplicate worker id" 5 "outlast work:*id 1*"

# it dies in mid-work; others go on, the slot is free again
kill -9 "$worker"
work --id 0 --steps 30
expect "after another was killed" 0
again() {
	work --id 1 --steps 30
	[ "$rc" = 0 ]
}
until_true again || fail "the id of a killed worker cannot join again: $err"

# garbage in place of a handshake, and connections that say nothing
cat >"$tmp/garbage.py" <<'PYTHON'
import os, socket, sys
name = "\0" + sys.argv[1][1:]
held = []
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    for junk in (b"", b"x", b"GET / HTTP/1.0\r\n\r\n", os.urandom(200), os.urandom(70000)):
        s = socket.socket(socket.AF_UNIX, kind)
        try:
            s.connect(name)
            s.send(junk)
            held.append(s)
        except OSError:
            s.close()
assert held, "could not connect at all"
PYTHON
"$python" "$tmp/garbage.py" "$at" || fail "the garbage was not delivered"
work --id 0 --steps 30
expect "after garbage" 0
kill -TERM "$server"
ended "$server" 0 "serve, SIGTERM"
[ "$(counter s refused)" -ge 2 ] || fail "refusals are not counted: $(counter s refused)"

# a server that goes away in mid-training and does not come back
at=$(address)
serve s "$at"
server=$pid
background w work --connect "$at" "${tiny[@]}" --steps 0 --json "$tmp/w.json" --outage-timeout 0.5
worker=$pid
stepping() {
	work --id 1 --steps 1
	[ "$rc" = 0 ] && [[ $out =~ version\ ([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -gt 20 ]
}
until_true stepping || fail "the worker does not train"
kill -9 "$server"
ended "$worker" 4 "work whose server was killed"
[[ $(cat "$tmp/w.err") == *"outlast work: "*"not reachable"* ]] || fail "it said: $(cat "$tmp/w.err")"

# a worker is stopped by a signal: its figures are reported
at=$(address)
serve s "$at" --consistency sync --workers 2
server=$pid
background w work --connect "$at" "${tiny[@]}" --steps 0
worker=$pid
background v work --connect "$at" "${tiny[@]}" --id 1 --steps 10
ended "$pid" 0 "one of two synchronous workers"
kill -INT "$worker"
ended "$worker" 130 "work, SIGINT while it waits for another"
[[ $(cat "$tmp/w.out") == "worker 0: 1"[01]" gradients"* ]] || fail "it reported: $(cat "$tmp/w.out")"
kill -INT "$server"
ended "$server" 0 "serve, SIGINT"

unset OUTLAST_JOB_KEY
at=$(address)
serve s "$at"
[[ $(cat "$tmp/s.err") == *"no job key"* ]] || fail "no warning without a job key: $(cat "$tmp/s.err")"
verdict
