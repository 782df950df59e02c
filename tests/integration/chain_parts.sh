#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# chain_parts.sh -- gradients that are summed up, forwarded and applied while they arrive give the bits of one server
# that waits for each, whichever replicas are killed meanwhile
#
# not under asan, tsan: it is about bits; sim-system and unit-server-early run the same code there
. "$(dirname "$0")/chain_lib.bash"

mlp=(--model cnn --dataset synthetic:shape=28x28,train=200,test=50 --batch 4 --eval-every 0)
sync=(--consistency sync --workers 2 --steps 50 --optimizer momentum)
slow=("${sync[@]}" "${chain[@]}" --pace 60)

same() {
	[ "$(sha)" = "$whole" ] || fail "$ran: other weights: $(sha), not $whole"
}

# early -- a good part of what the servers did was done before it was whole
early() {
	truth "early" 'r["early_bytes"] > 50 * r["param_count"]'
}

# one by one: a gradient that is its step's only one has no other to be summed up with
train "${sync[@]}" --workers 1
early
train "${sync[@]}"
whole=$(sha)
early
train "${sync[@]}" "${chain[@]}"
early
same
for kills in head@15steps middle@15steps,tail@30steps head@15steps,worker1@30steps:down=100ms; do
	train "${slow[@]}" --kill "$kills"
	early
	same
done

# asynchronous workers, of whom one overtakes another now and then: each gradient takes effect once
train --workers 3 --steps 60 "${chain[@]}" --kill head@20steps
all_applied 60
verdict
