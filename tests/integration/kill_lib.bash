# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# kill_lib.bash -- sourced by the tests of training through failure: a run with its report, what is true of it
#
# Runs go at a fixed pace, so that a kill at a step falls into the middle of them on any machine.
. "$(dirname "$0")/train_lib.bash"

report=$tmp/r.json

mlp=(--model mlp:16 --dataset synthetic:train=1000,test=200 --eval-every 0)

# train WORD... -- to its good end; report in $report. Each gradient has one fate
train() {
	rm -f "$report"
	outlast train "${mlp[@]}" --json "$report" "$@"
	expect "train $*" 0
	ran="train $*"
	truth "one fate each" 'r["gradients_computed"] == sum(r["gradients_" + fate] for fate in
		("applied", "dropped", "lost", "given_up")) >= sum(w["computed"] for w in r["per_worker"])'
}

# truth WHAT EXPRESSION -- of the report r of the last run
truth() {
	[ "$(json "$report" "$2")" = True ] ||
		fail "$ran: $1: not so: $2: $(json "$report" '{k: v for k, v in r.items() if k != "settings"}')"
}

sha() {
	json "$report" 'r["weights_sha256"], r["version"]'
}

# killed N -- so many signals, all of them survived; nothing lost, both ends agree
killed() {
	truth "$1 kills" "r['kills'] == $1 and r['kills_not_fired'] == [] and len(r['outages']) == $1"
	truth "recoveries" "r['recoveries'] == $1 and all(o['recovered'] for o in r['outages'])"
	truth "accounts agree" 'r["accounting"]["agree"]'
	truth "nothing pending" 'all(w["pending"] == 0 for w in r["accounting"]["workers"])'
	truth "order of things" 'all(o["killed_s"] <= o["detected_s"] <= o["first_applied_s"] and
		o["killed_s"] < o["ready_s"] <= o["first_applied_s"]
		for o in r["outages"] if o["target"].startswith("server") and not o["survived"])'
}
