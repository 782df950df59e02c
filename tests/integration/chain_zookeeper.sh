#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# chain_zookeeper.sh -- chains with views in ZooKeeper survive deaths of replicas and of ZooKeeper's servers
. "$(dirname "$0")/chain_lib.bash"
. "$(dirname "$0")/ensemble_lib.bash"

run=(--consistency sync --workers 2 --optimizer momentum)
ensemble_start 3
zk=("${run[@]}" --durability chain --replicas 3 --coordinator "$ensemble_addr" --pace 200)

train "${run[@]}" --steps 400
whole=$(sha)

same() {
	[ "$(sha)" = "$whole" ] || fail "$ran: other weights: $(sha), not $whole"
	truth "nothing lost" 'r["gradients_lost"] == 0 and r["accounting"]["agree"]'
}

train "${zk[@]}" --steps 400 --kill head@130steps,head@250steps
same

# steps_above N -- the job in the background has made more steps than that
steps_above() {
	tail -n 1 "$tmp/t.err" | grep -q '^step' || return 1
	[ "$(sed -n 's/^step \([0-9]*\).*/\1/p' "$tmp/t.err" | tail -n 1)" -gt "$1" ]
}

# one of its servers is enough to lose for nobody to notice; two stop every change, and no step
rm -f "$report"
background t train "${mlp[@]}" "${zk[@]}" --json "$report" --steps 2600
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
verdict
