#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# recovery_end.sh -- a job whose servers go back at its very end still ends, and says what was lost
. "$(dirname "$0")/kill_lib.bash"

mlp=(--model mlp:64 --dataset synthetic:train=1000,test=200 --eval-every 0)
full=(--workers 2 --servers 4 --pace 150 --recovery full --durability checkpoint)

# asynchronous: steps that were lost are not made anew, also if all workers had finished; both ends agree
train "${full[@]}" --steps 200 --checkpoint every=50steps --kill server1@200steps
truth "the end" 'r["kills"] == 1 and r["restarts"] == 0 and r["accounting"]["agree"]'
# two shards may have had other gradients among their first 150: a gradient counts where all have it
truth "counted" 'r["gradients_applied"] + r["gradients_lost"] == r["gradients_computed"] == 200 and
	all(sum(w["links"][s]["applied"] for w in r["per_worker"]) == r["version"] for s in range(4))'
truth "all at one" 'r["version"] == r["outages"][0]["restored_version"]'

# synchronous: the last step is made anew
sync=("${full[@]}" --consistency sync --steps 75)
train "${sync[@]}" --checkpoint every=50steps
whole=$(sha)
train "${sync[@]}" --checkpoint every=50steps --kill server1@75steps
[ "$(sha)" = "$whole" ] || fail "$ran: other weights: $(sha), not $whole"

child() { # SUBCOMMAND WORD
	local child

	for child in $(cat "/proc/$pid/task/$pid/children" 2>/dev/null); do
		tr '\0' ' ' <"/proc/$child/cmdline" 2>/dev/null | grep -q "^outlast $1 .*$2 " && echo "$child"
	done
}

looked() { # WORKER COUNT -- so often it has found nothing to do
	[ "$(awk '/^voluntary/ { print $2 }' "/proc/$1/status")" -gt "$2" ]
}

made() { # VERSION
	compgen -G "$tmp/ckpt/ckpt-*-s0-*-v*$1.olc" >/dev/null
}

went_back() {
	grep -q "all servers go back" "$tmp/t.err"
}

# A worker has left, another is about to, and a server is lost: the steps cannot be made anew. Who is stopped in
# time to be left behind is a matter of luck: tried a few times.
torn=no
for try in 1 2 3 4 5; do
	rm -rf "$tmp/ckpt"
	background t train "${mlp[@]}" "${sync[@]}" --checkpoint "every=25steps,dir=$tmp/ckpt"
	until_true made 25 || fail "no checkpoint"
	kill -STOP "$pid" # nobody is told to leave
	stays=$(child work --id=1)
	leaves=$(child work --id=0)
	server=$(child serve --shard=1)
	[ -n "$stays" ] && [ -n "$leaves" ] && [ -n "$server" ] || { kill -9 "$pid"; continue; }
	until_true made 75 || fail "no last version"
	looks=$(awk '/^voluntary/ { print $2 }' "/proc/$stays/status")
	until_true looked "$stays" $((looks + 50)) || fail "worker 1 does not wait to be told to leave"
	kill -STOP "$stays"
	rm "$tmp"/ckpt/*75.olc
	kill -CONT "$pid"
	if DEADLINE_S=2 until_true gone "$leaves"; then
		torn=yes
		kill -9 "$server"
		until_true went_back || fail "try $try: did not go back"
	fi
	kill -CONT "$stays"
	[ "$torn" = yes ] && break
	ended "$pid" 0 "try $try"
done
[ "$torn" = yes ] || fail "worker 1 was never left behind"
ended "$pid" 8 "thrown back with a worker gone"
# it depends on whether worker 1 hears of the server first, or that it is to leave
grep -q "a server was lost .*left" "$tmp/t.err" || fail "did not say why: $(cat "$tmp/t.err")"
verdict
