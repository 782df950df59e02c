#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# kill_exact.sh -- a synchronous run whose processes are killed or stopped ends at the same weights, bit for bit, as
# an undisturbed one
#
# not under asan, tsan: it is about bits; kill_async and integration-outage run the same code there
. "$(dirname "$0")/kill_lib.bash"

sync=(--consistency sync --workers 2 --steps 300)
slow=("${sync[@]}" --pace 200)

train "${sync[@]}"
whole=$(sha)
[[ $whole == *" 300)" ]] || fail "not at version 300: $whole"

same() {
	[ "$(sha)" = "$whole" ] || fail "$ran: other weights: $(sha), not $whole"
}

# a server comes back with a worker's mirror: nothing is lost
two=server0@90steps,server0@190steps:down=150ms
train "${slow[@]}" --kill $two
killed 2
truth "nothing lost" 'r["gradients_lost"] == 0 and r["gradients_computed"] == 600 == r["gradients_applied"]'
truth "from a mirror" 'all(o["restored_from"] == "mirror" and o["expected_lost"] == 0 == o["expected_s"] for o in r["outages"])'
truth "figures" 'len(r["detect_ms"]) == len(r["recover_ms"]) == 2 and
	r["workers_rate_before"] > 0 and min(r["detect_ms"] + r["recover_ms"]) >= 0'
truth "looked at before and after" 'all(o["loss_after"] <= o["loss_before"] and
	o["accuracy_before"] is not None and o["accuracy_after"] is not None for o in r["outages"])'
same
train "${slow[@]}" --servers 2 --kill server0@90steps,server1@190steps
killed 2
truth "nothing lost" 'r["gradients_lost"] == 0'
same
train "${slow[@]}" --servers 2 --kill server0@150steps,server1@150steps
killed 2
same

# by time and by loss
train "${slow[@]}" --kill 'server0@400ms,server0@loss<1.9:down=100ms'
killed 2
truth "moments" '0.4 <= r["outages"][0]["killed_s"] < r["outages"][1]["killed_s"]'
same

# back to the last checkpoint: the steps since are made once more
# (slowly, so that a disk that takes its time has version 100 by then, and each of the six)
train "${slow[@]}" --pace 40 --durability checkpoint --checkpoint every=50steps --restore checkpoint --kill server0@130steps
killed 1
truth "rolled back" 'r["outages"][0]["restored_from"] == "checkpoint" and
	r["outages"][0]["restored_version"] == 100 and r["gradients_lost"] >= 60'
truth "as was expected" '60 <= r["outages"][0]["expected_lost"] <= r["gradients_lost"] and r["outages"][0]["expected_s"] > 0'
truth "and made again" 'r["gradients_computed"] == 600 + r["gradients_lost"] and r["gradients_applied"] == 600'
truth "checkpoints" 'r["checkpoints"]["written"] >= 6 and r["checkpoints"]["failed"] == 0 and
	r["checkpoints"]["bytes"] > 0'
same
train "${slow[@]}" --durability checkpoint --checkpoint every=50steps --kill server0@130steps
killed 1
truth "a mirror is fresher" 'r["outages"][0]["restored_from"] == "mirror" and r["gradients_lost"] == 0'
same

# the published fault: first weights. A synchronous run makes up for it.
train "${slow[@]}" --restore none --kill server0@90steps
killed 1
truth "from the beginning" 'r["outages"][0]["restored_version"] == 0 and r["gradients_lost"] >= 180'
for worker in 0 1; do
	[[ $err == *"worker $worker: server "*" (shard 0) is back, at version 0 when this worker reached it, and this worker had read version "*" gradients of this worker are lost; "* ]] ||
		fail "$ran: the loss of worker $worker is not said: $err"
done
same

# stopped for longer than its lease: another takes over, and the old one ends by itself
stop=("${slow[@]}" --lease-ms 1500)
for down in '' :down=3s; do
	train "${stop[@]}" --kill "server0@90steps:signal=STOP$down"
	killed 1
	truth "the old one is fenced" 'r["outages"][0]["fenced"] and r["gradients_lost"] == 0'
	[[ $err == *"outlast serve: "*"longer than its lease"* ]] || fail "$ran: the old one says nothing: $err"
	same
done
# ... for less than its lease: nobody minds
train "${slow[@]}" --kill server0@90steps:signal=STOP:down=100ms
truth "woken up in time" 'r["kills"] == 1 and r["recoveries"] == 0 and r["outages"][0]["survived"]'
same

# a worker: the step waits for it
train "${slow[@]}" --kill worker1@90steps:down=150ms,worker0@190steps
killed 2
truth "what it had computed is known" 'r["gradients_applied"] == 600 and r["workers_died"] == 0'
same
train "${slow[@]}" --kill worker1@90steps:signal=STOP:down=200ms
killed 1
same
train "${slow[@]}" --kill worker1@90steps:down=200ms,server0@150steps,worker0@200steps
killed 3
same

# an optimizer with a state: mirrored, it is kept; otherwise it starts anew, which is said
train "${sync[@]}" --optimizer momentum
whole=$(sha)
train "${slow[@]}" --optimizer momentum --mirror-state --kill $two
killed 2
truth "moments are kept" 'not r["moments_anew"]'
same
train "${slow[@]}" --optimizer momentum --kill $two
killed 2
truth "moments are lost" 'r["moments_anew"] and r["gradients_lost"] == 0'
[[ $out == *"moments started anew"* ]] || fail "$ran: does not say that moments started anew: $out"
[ "$(sha)" != "$whole" ] || fail "$ran: moments were not lost at all"
train "${slow[@]}" --optimizer momentum --durability checkpoint --checkpoint every=50steps --restore checkpoint \
	--kill server0@130steps
killed 1
same
verdict
