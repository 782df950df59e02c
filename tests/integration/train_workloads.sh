#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# train_workloads.sh -- several servers and workers find factors and topics, even if a server is lost whose
# weights only the workers have; counts of topics stay exact
#
# not under tsan: a workload computes in one thread; train_modes and kill_async run the same jobs there
. "$(dirname "$0")/train_lib.bash"

report=$tmp/r.json

train() {
	rm -f "$report"
	outlast train --eval-every 0 --servers 2 --workers 3 --json "$report" "$@"
	expect "train $*" 0
}

truth() {
	[ "$(json "$report" "$2")" = True ] ||
		fail "$1: not so: $2: $(json "$report" '{k: v for k, v in r.items() if k in
			("test_score", "figures", "steps", "gradients_computed", "gradients_applied",
			"gradients_lost", "kills", "recoveries")}')"
}

# planted WHAT FIGURE THRESHOLD -- report and summary say whether it was found, by this threshold
planted() {
	local found

	truth "$1, in the report" "r['planted']['value'] == r['figures']['$2'] and r['planted']['figure'] == '$2' and
		r['planted']['threshold'] == $3 and r['planted']['found'] == (r['figures']['$2'] <= $3)"
	found=$([ "$(json "$report" 'r["planted"]["found"]')" = True ] && echo "found: $2 is at most $3" || echo "not found: $2 is above $3")
	[[ $out == *"planted structure $found"* ]] || fail "$1: does not say \"$found\": $out"
}

mf=(--model mf:rank=4 --dataset ratings:users=300,items=200,rank=4,density=0.4,noise=0.2 --batch 100)
lda=(--model lda --dataset topics --batch 20)
stateless=(--outage continue --durability none --kill 'server0@400steps:down=200ms')

# at a pace, so that what is computed without a server is a part of it on any machine
train "${mf[@]}" --steps 8000 --pace 1000 "${stateless[@]}"
truth "mf: a server was lost, no gradient was" 'r["kills"] == 1 == r["recoveries"] and
	r["gradients_lost"] == 0 and r["gradients_computed"] == 8000 and
	r["gradients_queued"] > 0'
truth "mf: its name" 'r["score_name"] == "RMSE" and r["test_accuracy"] is None'
truth "mf: the noise is what is left" \
	'r["figures"]["noise_floor"] == 0.2 and 0.19 < r["test_score"] < 0.26'
truth "mf: planted ratings are found" 'r["figures"]["planted_error"] < 0.2'
planted "mf: what was planted" planted_error 0.2
case $err in
*"model mf:rank=4: --lr 2, as none is given"*) ;;
*) fail "mf: the learning rate is not said: $err" ;;
esac

exact='r["figures"]["tokens"] == r["figures"]["tokens_counted"] > 90000 and
	r["figures"]["words_wrong"] == 0 == r["figures"]["topics_wrong"]'
train "${lda[@]}" --steps 4000 --pace 500 "${stateless[@]}"
truth "lda: a server was lost, no change was" 'r["kills"] == 1 == r["recoveries"] and
	r["gradients_lost"] == 0 and r["gradients_computed"] == 4000 and
	r["gradients_queued"] > 0'
truth "lda: its name" 'r["score_name"] == "perplexity" and r["test_accuracy"] is None'
truth "lda: counts are exact all the same" "$exact"
truth "lda: planted topics are found through it" 'r["figures"]["planted_distance"] < 0.35'
planted "lda: what was planted" planted_distance 0.1

# every token has been counted once all workers have seen their documents once
train "${lda[@]}" --steps 51
truth "lda: each worker has seen its documents once" "$exact"
planted "lda: what was planted, after one sweep" planted_distance 0.1
truth "lda: one sweep is too few" 'not r["planted"]["found"] and not r["planted"]["all_but_a_pair"]'

refuse() {
	outlast train "${lda[@]}" "$@"
	expect_error "lda $*" 2 "$refusal"
}
refusal='*--lr*"0.1"*is not what the model lda needs: give 1' refuse --lr 0.1
refusal='*--replay*"sum"*is not what the model lda needs: give each' refuse --replay sum
refusal='*--optimizer*"adam"*is not what the model lda needs: give sgd' refuse --optimizer adam
refusal='*--consistency*"sync"*give async' refuse --consistency sync
refusal='*--queue*"drop-oldest"*give fold or wait' refuse --outage continue --queue drop-oldest
refusal='*--on-late*"interrupt"*give wait' refuse --on-late interrupt
refusal='*--kill*"worker0@1s"*takes a worker*' refuse --kill worker0@1s
refusal='*--workers*"4"*more than the 3 documents*' refuse --workers 4 --dataset topics:docs=3
refusal='*model "lda" takes documents*for this data set choose mf' refuse --dataset ratings
refusal='*for this data set choose lda' refuse --model softmax
refusal='*is unknown; there are*lda*' refuse --model ldb
refusal='*--lr*"0.1"*is not what the model lda:topics=2 needs: give 1'
outlast serve --model lda:topics=2 --data-shape 500 --lr 0.1 --listen @nowhere
expect_error "a server by hand" 2 "$refusal"
verdict
