#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# chain_exact.sh -- a synchronous run with chains of three ends at the same weights, bit for bit, as an undisturbed one
# with a single server, whichever replicas are killed or stopped
#
# not under asan, tsan: it is about bits; integration-chain runs the same code there
. "$(dirname "$0")/chain_lib.bash"

sync=(--consistency sync --workers 2 --steps 240)
slow=("${sync[@]}" "${chain[@]}" --pace 200)

train "${sync[@]}"
whole=$(sha)
[[ $whole == *" 240)" ]] || fail "not at version 240: $whole"

same() {
	[ "$(sha)" = "$whole" ] || fail "$ran: other weights: $(sha), not $whole"
}

train "${sync[@]}" --durability chain --replicas 1
same
train "${sync[@]}" "${chain[@]}"
same
truth "three of them" 'r["replicas"] == 3 and r["views"][0]["replicas"] == 3 and r["failovers"] == []'
truth "each step went to both successors" 'r["chain"]["forwarded"] >= 2 * 240 and r["chain"]["resyncs"] == 2'
all_applied 480

# one at a time
for target in head middle tail; do
	train "${slow[@]}" --kill $target@60steps
	failed_over 1
	truth "role" "r['outages'][0]['target'] == '${target}0'"
	all_applied 480
	same
done

# the head, then the one that was head after it; all but one at once; each in turn, with those that come back
for kills in head@60steps,head@62steps tail@60steps,tail@62steps head@60steps,tail@60steps; do
	train "${slow[@]}" --kill $kills
	failed_over 2
	all_applied 480
	same
done
# a busy machine has time to bring back the first before the third is killed
slower=("${slow[@]}" --pace 40)
train "${slower[@]}" --kill tail@40steps,middle@100steps,head@160steps
failed_over 3
truth "they came back" 'r["chain"]["resyncs"] >= 4'
same

# stopped for longer than its lease: the others go on, and it ends by itself once it wakes up
for target in head middle tail; do
	train "${slow[@]}" --pace 80 --lease-ms 1500 --kill $target@60steps:signal=STOP
	failed_over 1
	truth "it fenced itself" 'r["outages"][0]["fenced"]'
	same
done
train "${slow[@]}" --lease-ms 1500 --kill head@60steps:signal=STOP,head@90steps:signal=STOP:down=3s
failed_over 2
same
# ... for less: nobody minds
train "${slow[@]}" --kill middle@60steps:signal=STOP:down=50ms
truth "woken up in time" 'r["kills"] == 1 and r["recoveries"] == 0 and r["outages"][0]["survived"]'
same

# shards, a state, workers
train "${slow[@]}" --servers 2 --kill head0@60steps,tail1@60steps,head1@120steps
failed_over 3
same
train "${slow[@]}" --kill worker1@60steps:down=100ms,head@100steps
killed 2
same
train "${sync[@]}" --optimizer momentum
whole=$(sha)
train "${slower[@]}" --optimizer momentum --kill head@40steps,head@120steps,tail@170steps
failed_over 3
truth "moments are kept" 'not r["moments_anew"]'
same
verdict
