#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# progress.sh -- while a server is gone the progress line shows for how long, and what happens to the gradients
# not under asan, tsan: it is about what a person sees
. "$(dirname "$0")/train_lib.bash"

# on_terminal FILE WORD... -- outlast with a terminal of 160 columns as its standard error; what it wrote there in FILE,
# a line for each time the progress line was written
on_terminal() {
	"$python" - "$@" <<'PYTHON' || fail "${*:2}: exit status $?: $(tail -n 3 "$1")"
import fcntl, os, pty, struct, subprocess, sys, termios
master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 160, 0, 0))
job = subprocess.Popen([os.environ["OUTLAST_BIN"]] + sys.argv[2:], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=slave)
os.close(slave)
with open(sys.argv[1], "wb") as out:
    while True:
        try:
            said = os.read(master, 65536)
        except OSError:  # the last one that had it open is gone
            break
        if not said:
            break
        out.write(said.replace(b"\r", b"\n").replace(b"\x1b[K", b""))
sys.exit(job.wait())
PYTHON
}

job=(--workers 2 --seconds 5 --pace 200 --eval-every 0 --kill server0@1s:down=2s)
on_terminal "$tmp/continue" train "${tiny[@]}" "${job[@]}" --outage continue
sed -n 's/^step [0-9]* .* server 0 away for \([0-9.]*\) s, \([0-9]*\) gradients queued .*/\1 \2/p' "$tmp/continue" >"$tmp/seen"
"$python" - "$tmp/seen" <<'PYTHON' || fail "the queue is not seen to grow: $(cat "$tmp/continue")"
import sys
seen = [tuple(map(float, line.split())) for line in open(sys.argv[1])]
assert len(seen) >= 3, seen
# at the last line the server may be back, and the queues empty, before the launcher has seen it
most = max(queued for _, queued in seen)
grown = seen if seen[-1][1] else seen[:-1]
assert grown == sorted(grown) and grown[0][0] < grown[-1][0] and grown[0][1] < most and most > 20, seen
PYTHON
tail -n 3 "$tmp/continue" | grep -q away && fail "the server is said to be away at the end: $(cat "$tmp/continue")"

on_terminal "$tmp/wait" train "${tiny[@]}" "${job[@]}" --outage wait
grep -q "^step .* server 0 away for [0-9.]* s, workers wait" "$tmp/wait" || fail "who waits is not said: $(cat "$tmp/wait")"
verdict
