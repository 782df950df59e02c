#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# chain_zookeeper.sh -- chains with views in ZooKeeper survive deaths of replicas and of ZooKeeper's servers, also at once, and a storm of sessions
# not under asan, tsan: integration-zookeeper_lost, -zookeeper_shards and -zookeeper_storm run the same code there
. "$(dirname "$0")/chain_lib.bash"
. "$(dirname "$0")/ensemble_lib.bash"

run=(--consistency sync --workers 2 --optimizer momentum)
ensemble_start 3
zk=("${run[@]}" --durability chain --replicas 3 --coordinator "$ensemble_addr" --pace 200)

train "${run[@]}" --steps 900
whole=$(sha)

same() {
	[ "$(sha)" = "$whole" ] || fail "$ran: other weights: $(sha), not $whole"
	truth "nothing lost" 'r["gradients_lost"] == 0 and r["accounting"]["agree"]'
}

# 200 clients of another job come and go meanwhile, each with a session of its own
mkfifo "$tmp/until"
"${OUTLAST_BUILD:-$(dirname "$OUTLAST_BIN")}/tests/integration-zookeeper_storm" "$ensemble_addr" storm \
	<"$tmp/until" >"$tmp/storm.out" 2>&1 &
storm=$!
background_pids+=("$storm")
exec 4>"$tmp/until"
until_true grep -q clients "$tmp/storm.out" || fail "no storm: $(cat "$tmp/storm.out")"
train "${zk[@]}" --steps 900 --kill head@130steps,head@250steps
same
# a job that is over is removed, unless a server that was killed counted as registered for too long
left() {
	"$OUTLAST_BIN" stat --views --coordinator "$ensemble_addr" --json - |
		"$python" -c 'import json, sys; print(*(j["job"] for j in json.load(sys.stdin)["jobs"]))'
}
[ "$(left)" = storm ] || [[ $err == *"outlast train: job train-"*" stays there: "* ]] || fail "jobs are left: $(left): $err"
exec 4>&-
wait "$storm" || fail "the storm ended with $?: $(cat "$tmp/storm.out")"
grep -q 'all saw view' "$tmp/storm.out" || fail "the storm's clients: $(cat "$tmp/storm.out")"

# trains_above N -- the newest job has made more steps than that, as its servers say
trains_above() {
	local name

	name=$("$OUTLAST_BIN" stat --views --coordinator "$ensemble_addr" --json - 2>"$tmp/views.err" |
		"$python" -c 'import json, sys
print(max(json.load(sys.stdin)["jobs"], key=lambda j: j["begun_ms"])["job"])' 2>>"$tmp/views.err")
	"$OUTLAST_BIN" stat --coordinator "$ensemble_addr" --job "$name" --once --json - 2>"$tmp/views.err" |
		"$python" -c 'import json, sys
sys.exit(max(r.get("version", 0) for r in json.load(sys.stdin)["shards"][0]["replicas"]) <= int(sys.argv[1]))' "$1" \
			2>>"$tmp/views.err"
}

# heads_killed N -- of the job in the background
heads_killed() {
	[ "$(grep -c 'is killed (head@' "$tmp/t.err")" -ge "$1" ]
}

# a head dies while two of three servers are gone, and the next one while two die: the chain is repaired once there
# is a quorum again
rm -f "$report"
background t train "${mlp[@]}" "${zk[@]}" --json "$report" --steps 900 --pace 100 --kill head@300steps,head@500steps
job=$pid
ran='train, whose heads and ZooKeeper die at once'
until_true trains_above 20 || fail "$ran: no steps: $(cat "$tmp/views.err" "$tmp/t.err")"
ensemble_kill 0
ensemble_kill 1
until_true heads_killed 1 || fail "$ran: no head was killed: $(cat "$tmp/t.err")"
ensemble_run 0
ensemble_run 1
until_true heads_killed 2 || fail "$ran: no second head was killed: $(cat "$tmp/t.err")"
ensemble_kill 1
ensemble_kill 2
ensemble_run 1
ensemble_run 2
ended "$job" 0 "$ran"
failed_over 2
same

# steps_above N -- the job in the background has made more steps than that
steps_above() {
	tail -n 1 "$tmp/t.err" | grep -q '^step' || return 1
	[ "$(sed -n 's/^step \([0-9]*\).*/\1/p' "$tmp/t.err" | tail -n 1)" -gt "$1" ]
}

# one of its servers is enough to lose for nobody to notice; two stop every change, and no step
rm -f "$report"
background t train "${mlp[@]}" "${zk[@]}" --json "$report" --steps 1800
job=$pid
ran='train, and ZooKeeper without a quorum'
until_true steps_above 50 || fail "$ran: no steps: $(cat "$tmp/t.err")"
ensemble_kill 0
ensemble_kill 1
at=$(sed -n 's/^step \([0-9]*\).*/\1/p' "$tmp/t.err" | tail -n 1)
until_true steps_above $((at + 200)) || fail "$ran: no steps without a quorum: $(cat "$tmp/t.err")"
ensemble_run 0
ensemble_run 1
ended "$job" 0 "$ran"
truth "all its replicas stayed" 'r["recoveries"] == 0 and r["restarts"] == 0 and r["gradients_lost"] == 0'

# the storm's job, and of trains those that ended while ZooKeeper could not be reached, as they said
removed() {
	outlast coord --coordinator "$ensemble_addr" --remove "$1"
	[ "$rc" = 0 ]
}
names=$(left)
[[ " $names " == *" storm "* ]] || fail "the storm's job is not kept: $names"
for name in $names; do
	until_true removed "$name" || fail "coord --remove $name: $err"
done
outlast stat --views --coordinator "$ensemble_addr"
expect "stat --views" 0
[ "$out" = 'no job is kept' ] || fail "jobs are left: $out"
verdict
