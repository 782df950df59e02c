#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# train_modes.sh -- train works with each optimizer, consistency and run length, and its accounts and report are right
. "$(dirname "$0")/train_lib.bash"

report=$tmp/r.json

train() {
	rm -f "$report"
	outlast train --eval-every 0 --json "$report" "$@"
	expect "train $*" 0
}

truth() {
	[ "$(json "$report" "$2")" = True ] || fail "$1: not so: $2: $(json "$report" '{k: v for k, v in r.items() if k != "settings"}')"
}

small=(--model softmax --dataset synthetic:train=1000,test=500,noise=1)
for optimizer in sgd momentum nesterov adam adamw; do
	train "${small[@]}" --optimizer "$optimizer" --steps 300 --lr 0.02
	truth "$optimizer learns" 'r["test_accuracy"] > 0.9 and r["test_loss"] < 1.0'
done

for workers in 1 3; do
	for servers in 1 2; do
		train "${small[@]}" --model mlp:32 --workers $workers --servers $servers --steps 301
		truth "async accounts" \
			'r["gradients_computed"] == 301 == r["gradients_applied"] + r["gradients_dropped"]'
		truth "async version" 'r["version"] == r["steps"] == 301'
		truth "async shares" 'sum(w["computed"] for w in r["per_worker"]) == 301 and
			max(w["computed"] for w in r["per_worker"]) - min(w["computed"] for w in r["per_worker"]) <= 1'
	done
done
train "${small[@]}" --steps 100
truth "one async worker is never stale" 'r["staleness_mean"] == 0'

train "${small[@]}" --consistency sync --workers 3 --steps 50
truth "sync accounts" 'r["gradients_computed"] == 150 == r["gradients_applied"]'
truth "sync version" 'r["version"] == 50'
mean=$(json "$report" 'r["weights_sha256"]')
train "${small[@]}" --consistency sync --workers 3 --steps 50 --reduce sum
[ "$(json "$report" 'r["weights_sha256"]')" != "$mean" ] || fail "--reduce sum is the mean"

train "${small[@]}" --epochs 2 --batch 50
truth "epochs" 'r["steps"] == 40'
train "${small[@]}" --epochs 2 --batch 50 --consistency sync --workers 3
truth "epochs, sync" 'r["steps"] == 14'
for consistency in async sync; do
	train "${small[@]}" --seconds 0.3 --workers 3 --consistency $consistency
	truth "seconds, $consistency" '0.2 < r["wall_s"] < 20 and r["steps"] > 0'
	truth "seconds, $consistency: nothing is left over" \
		'r["gradients_computed"] == r["gradients_applied"] + r["gradients_dropped"]'
done
truth "sync workers stop at one version" \
	'all(w["computed"] == r["version"] for w in r["per_worker"])'

outlast train "${small[@]}" --seconds 0.5 --eval-every 10 --json "$report"
expect "evaluations" 0
truth "time line" 'len(r["evals"]) > 1 and r["evals"][-1]["step"] == r["steps"] and
	all(set(e) == {"step", "t_s", "accuracy", "loss"} for e in r["evals"])'
truth "keys" 'set("""test_accuracy test_loss steps gradients_computed gradients_applied gradients_dropped
	gradients_per_s weights_sha256 version wall_s transport consistency durability outage workers
	servers seed model dataset optimizer lr batch param_count staleness_mean""".split()) <= set(r)'
truth "durability and outage" '(r["durability"], r["outage"]) == ("none", "wait")'
[[ $out == *"test accuracy"*"weights sha256"* ]] || fail "the summary is not on stdout: $out"

# gradients that are really not finite: hidden units overflow at values of 3e38. The learning rate is
# so small that those which are finite do no harm.
huge=$(seq -s ' ' -f '%.0f:3e38' 8)
for i in $(seq 40); do
	echo "$((i % 2)) 1:$((i % 5)) 8:1"
	[ $((i % 10)) != 0 ] || echo "1 $huge"
done >"$tmp/bad.svm"
grep -v 3e38 "$tmp/bad.svm" >"$tmp/test.svm"
bad=(--model mlp:64 --dataset "libsvm:$tmp/bad.svm,$tmp/test.svm" --steps 60 --batch 4 --lr 1e-37)
for consistency in async sync; do
	train "${bad[@]}" --workers 2 --consistency $consistency
	truth "not finite, $consistency: dropped and counted" 'r["gradients_dropped"] > 0 and
		r["gradients_nonfinite"] == r["gradients_dropped"] and
		r["gradients_computed"] == r["gradients_applied"] + r["gradients_dropped"]'
	truth "not finite, $consistency: the weights are" 'r["test_loss"] is not None'
done
train "${bad[@]}" --nonfinite apply
truth "not finite, applied" 'r["gradients_dropped"] == 0 and r["test_loss"] is None'

for command in train serve work; do
	outlast $command --help
	expect "$command --help" 0
	[[ $out == *"examples:"*"outlast $command"* ]] || fail "$command --help shows no example"
	[[ $out == *"exit status:"* ]] || fail "$command --help does not say what exit codes mean"
	[ -z "$err" ] || fail "$command --help writes to stderr: $err"
done
outlast --help
expect "--help" 0
verdict
