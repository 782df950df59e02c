#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# strangers.sh -- 64 worker processes that start at once are all let in, while another user knocks a thousand times a
# second, and the weights are those of a job without a stranger
# not under asan, tsan: 66 processes at once, of a program that other tests run there
. "$(dirname "$0")/train_lib.bash"

# stranger FILE -- knocks at every abstract socket of a job that it finds, as another user where this one may become one;
# how often is in FILE
stranger() {
	exec "$python" - >"$1" <<'PYTHON'
import os, socket, sys, time
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
count, start = 0, time.monotonic()
def names():
    with open("/proc/net/unix") as table:
        return {f[7] for f in map(str.split, table) if len(f) == 8 and f[7].startswith("@outlast")}
found = names()
while True:
    for name in found:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.setblocking(False)
            try:
                s.connect("\0" + name[1:])
                s.send(b"whoever you are")
            except OSError:
                continue
            count += 1
    if count % 50 == 0 or not found:
        found = names()
        start = start if found else time.monotonic()
        os.pwrite(1, b"%d %.1f\n" % (count, time.monotonic() - start), 0)
    time.sleep(max(0.0, start + count / 1000 - time.monotonic()))
PYTHON
}

# job NAME -- its weights, gradients and seconds
job() {
	outlast train --transport shm --workers 64 --steps 30 --pace 20 --consistency sync "${tiny[@]}" --json "$tmp/$1.json"
	expect "$1" 0
	"$python" -c 'import json, sys; r = json.load(open(sys.argv[1])); print(r["weights_sha256"], r["gradients_applied"], r["total_s"])' "$tmp/$1.json"
}

read -r alone applied alone_s <<<"$(job alone)"
[ "$applied" = 1920 ] || fail "alone: $applied gradients"
stranger "$tmp/knocks" &
background_pids+=($!)
read -r beside applied beside_s <<<"$(job beside)"
[ "$applied" = 1920 ] || fail "beside a stranger: $applied gradients"
[ "$alone" = "$beside" ] || fail "weights $beside beside a stranger, $alone without"
read -r knocks knocked_s <"$tmp/knocks"
[ "${knocks:-0}" -gt 100 ] || fail "that is no stranger: ${knocks:-no} knocks"
echo "64 workers: $alone_s s, beside $knocks knocks in $knocked_s s: $beside_s s"
verdict
