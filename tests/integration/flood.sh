#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# flood.sh -- a stranger that knocks as often as it can, in any way, neither fills the log nor stops a worker; each of
# its attempts is in a line or in the number of those that had none
. "$(dirname "$0")/train_lib.bash"

# flood KIND SECONDS -- from a process of its own; how often it was dropped
flood() {
	"$python" - "$1" "$2" "${at#@}" <<'PYTHON'
import socket, sys, time
kind, end, name, count = sys.argv[1], time.monotonic() + float(sys.argv[2]), "\0" + sys.argv[3], 0
while time.monotonic() < end:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        try:
            s.connect(name)
            if kind == "garbage":
                s.send(b"whoever you are")
            if kind != "leaves":
                while s.recv(65536):
                    pass
        except OSError:
            pass
        count += 1
print(count)
PYTHON
}

lines() {
	grep -c "$1" "$tmp/s.err"
}

at=$(address)
serve s "$at" --consistency sync --workers 1 --exit-version 200
server=$pid
before=$(wc -l <"$tmp/s.err")
background w work "${tiny[@]}" --connect "$at" --steps 200 --pace 25
worker=$pid
sent=$(flood garbage 5)
flood leaves 1 >"$tmp/left"
ended "$worker" 0 "a worker beside the stranger"
ended "$server" 0 "the server"
[ "$sent" -gt 500 ] || fail "that is no flood: $sent"
[ "$(cat "$tmp/left")" -gt 500 ] || fail "that is no flood: $(cat "$tmp/left")"
told=$(($(lines "dropped: it does not speak") - $(lines "more of these")))
more=$(sed -n 's/.* \([0-9]*\) more of these in .*it does not speak.*/\1/p' "$tmp/s.err" | paste -sd+)
[ $((told + ${more:-0})) = "$sent" ] || fail "$told lines and ${more:-none} more of $sent: $(cat "$tmp/s.err")"
said=$(($(wc -l <"$tmp/s.err") - before))
[ "$said" -le 36 ] || fail "$said lines: $(tail -n 50 "$tmp/s.err")"
verdict
