#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# late_policies.sh -- jobs that do not wait for every worker learn, end at their step, and account for every gradient
#
# not under asan, tsan: what jobs learn in some time; integration-quorum and the policies' unit tests come in there
. "$(dirname "$0")/train_lib.bash"

report=$tmp/r.json
small=(--model softmax --dataset synthetic:train=1000,test=500,noise=1,features=256 --lr 0.02 --eval-every 0)

# late WHAT WORD... -- a job of four workers that ends well, and its accounts
late() {
	local what=$1

	shift
	job "$what" "$@"
	judge "$what"
}

job() {
	local what=$1

	shift
	rm -f "$report"
	outlast train "${small[@]}" --workers 4 --json "$report" "$@"
	expect "$what" 0
}

judge() {
	local what=$1 rates

	truth "$what: learns" 'r["test_accuracy"] > 0.9'
	truth "$what: every gradient has a fate" 'r["accounting"]["agree"] and r["gradients_lost"] == 0 and
		all(l["pushed"] == l["applied"] + l["dropped_late"] + l["dropped_nonfinite"] and l["pending"] == 0
			for w in r["accounting"]["workers"] for l in w["links"])'
	truth "$what: rates" 'abs(r["gradients_per_s"] * r["wall_s"] - r["gradients_computed"]) < 0.001 and
		abs(r["gradients_applied_per_s"] * r["wall_s"] - r["gradients_applied"]) < 0.001'
	rates=$(json "$report" '"%.1f computed, %.1f applied" % (r["gradients_per_s"], r["gradients_applied_per_s"])')
	[[ $out == *"gradients/s       $rates"* ]] || fail "$what: the summary does not say $rates: $out"
	truth "$what: k" '1 <= r["k_mean"] <= 4 and 1 <= r["k_now"] <= 4'
}

truth() {
	[ "$(json "$report" "$2")" = True ] || fail "$1: not so: $2: $(json "$report" '{k: v for k, v in r.items() if k not in ("settings", "evals")}')"
}

delays=(--delay exp:mean=4ms,alpha=1)
for on_late in wait pull interrupt; do
	late "k=2, $on_late" --consistency sync:k=2 "${delays[@]}" --steps 150 --on-late $on_late
	truth "$on_late: steps" 'r["version"] >= 150 and r["k_mean"] == 2 and r["k_now"] <= 2' # who has left is not waited for
	truth "$on_late: some are late" 'r["gradients_late"] + r["gradients_interrupted"] > 20'
	truth "$on_late: thrown away" "(r['gradients_interrupted'] > 0) == ('$on_late' == 'interrupt')"
	truth "$on_late: nothing else is dropped" 'r["gradients_computed"] == r["gradients_applied"] + r["gradients_late"]'
done
[[ $out == *"k, mean"*"2.00 gradients a step"* ]] || fail "the summary has no k: $out"
late "a chain" --consistency sync:k=3 --durability chain --replicas 2 "${delays[@]}" --steps 100
for policy in dbw dbw-blind adasync,k=2; do
	late "$policy" --consistency sync:$policy "${delays[@]}" --steps 200
	truth "$policy: steps" 'r["version"] >= 200'
done
for late in next aged; do
	late "dbw, late is $late" --consistency sync:dbw,late=$late "${delays[@]}" --steps 200
	truth "dbw, $late: none is dropped before the end, which is at its step" 'r["version"] == 200 and r["gradients_late"] <= 4 and r["gradients_carried"] > 0'
done
# a step lasts as long as three gradients and the grace: the fourth is too slow
late "a grace" --consistency sync:quorum,k=3,grace=30 --delay exp:mean=1ms,alpha=0+slow:workers=1,factor=400 --steps 40
truth "a grace: three a step" '2.9 < r["k_mean"] < 3.2 and 30 * 40 < r["wall_s"] * 1000'
late "a quorum's chain" --consistency sync:quorum,k=2,grace=3 --durability chain --replicas 2 "${delays[@]}" --steps 100 \
	--kill head0@50steps
late "late is next" --consistency sync:quorum,k=2,grace=1,late=next --delay exp:mean=4ms,alpha=0+slow:workers=1,factor=8 --steps 60
truth "late is next: none is dropped before the end, which is at its step" 'r["version"] == 60 and r["gradients_late"] <= 4 and r["gradients_carried"] > 3'
late "late counts less" --consistency sync:quorum,k=2,grace=1,late=aged --delay exp:mean=4ms,alpha=0+slow:workers=1,factor=8 --steps 60
truth "late counts less: none is dropped before the end, which is at its step" 'r["version"] == 60 and r["gradients_late"] <= 4 and r["gradients_carried"] > 3'
# the mean is of every gradient once, also where a server began again with what the last one had
late "a server's death" --consistency sync:k=2 "${delays[@]}" --steps 200 --kill server0@80steps:down=100ms
truth "a server's death: k" 'r["recoveries"] == 1 and r["k_mean"] == 2'
# of several servers one decides, and each gradient is in all shards or in none: then all count the same
late "two servers" --servers 2 --consistency sync:k=2 "${delays[@]}" --steps 150 --kill server1@60steps:down=100ms,server0@90steps:down=100ms
truth "two servers: k" 'r["recoveries"] == 2 and r["k_mean"] == 2 and r["gradients_late"] > 20'
truth "two servers: alike" 'all(len({l["applied"] for l in w["links"]}) == 1 for w in r["accounting"]["workers"])'
late "two servers, late counts less" --servers 2 --consistency sync:quorum,k=2,grace=1,late=aged --delay exp:mean=4ms,alpha=0+slow:workers=1,factor=8 --steps 150 \
	--kill worker1@30steps:down=100ms,server0@60steps:down=100ms,worker0@90steps:down=100ms,server1@120steps:down=100ms
truth "two servers, late counts less: none is dropped before the end" 'r["recoveries"] == 4 and r["gradients_late"] <= 4 and r["gradients_carried"] > 3'
truth "two servers, late counts less: alike" 'all(len({l["applied"] for l in w["links"]}) == 1 for w in r["accounting"]["workers"])'
late "three chains" --servers 3 --consistency sync:dbw --durability chain --replicas 2 "${delays[@]}" --steps 100 --kill head0@40steps
truth "three chains: alike" 'all(len({l["applied"] for l in w["links"]}) == 1 for w in r["accounting"]["workers"])'
# while one is away all parts of a gradient wait in queues, and leave as one
job "two servers, continue" --servers 2 --consistency sync:k=2 --outage continue "${delays[@]}" --steps 150 \
	--kill server1@40steps:down=300ms,server0@80steps:down=300ms
truth "two servers, continue" 'r["recoveries"] == 2 and r["gradients_replayed"] > 0 and r["accounting"]["agree"] and r["gradients_lost"] == 0'
truth "two servers, continue: alike" 'all(len({l["applied"] for l in w["links"]}) == 1 for w in r["accounting"]["workers"])'
late "ssp, two servers" --servers 2 --consistency ssp:2 "${delays[@]}" --steps 400
truth "ssp, two servers" 'r["gradients_late"] == 0 and r["version"] >= 400'
late "ssp" --consistency ssp:2 "${delays[@]}" --steps 400
truth "ssp: no gradient is late, none too far ahead" 'r["gradients_late"] == 0 and r["k_mean"] == 1 and r["version"] >= 400'

late "ssp, a death" --consistency ssp:2 "${delays[@]}" --steps 400 --kill worker1@100steps:down=500ms
truth "ssp: nobody waits for what the one that was killed has left" 'r["recoveries"] == 1 and 400 <= r["version"] <= 420'

# what a server that is gone had told of its last step keeps nobody from computing at the weights of the step before:
# a worker is overtaken once a step at most. A pull takes long here, so that a kill finds one under way; so does a turn
# of a server, with a sanitizer on a busy machine, and its lease must not end.
outlast train --model softmax --dataset synthetic:classes=100,features=20000,train=200,test=20 --batch 1 --eval-every 0 \
	--workers 3 --consistency sync:k=1 --on-late interrupt --outage continue --delay exp:mean=10ms,alpha=1 --steps 90 --lease-ms 20000 \
	--kill server0@20steps:down=300ms,server0@45steps:down=300ms,server0@70steps:down=300ms --json "$report"
expect "interrupt and continue" 0
truth "interrupt and continue: at work" '3 == r["recoveries"] and
	0 < r["gradients_interrupted"] + r["gradients_late"] and r["gradients_interrupted"] <= 3 * (r["version"] + 1)'
truth "interrupt and continue: nothing lost" 'r["gradients_lost"] == 0'

# what a slow one had queued while its server was gone is held for others, who are done: they help it out
outlast train "${small[@]}" --workers 3 --consistency sync:k=2 --outage continue --steps 100 --json "$report" \
	--delay exp:mean=5ms,alpha=0+slow:workers=1,factor=400 --kill server0@90steps:down=2500ms
expect "held for who is done" 0
truth "held for who is done" 'r["kills"] == r["recoveries"] == 1 and r["gradients_lost"] == 0 and r["version"] >= 100'

# the end of a job by time leaves nobody waiting for ever
for consistency in sync:k=2 sync:k=4 sync:quorum,k=3,grace=2 sync:dbw ssp:0 ssp:3; do
	for seconds in 1 5 25; do # it learns by steps: a busy machine makes fewer of them in a second
		job "seconds, $consistency" --consistency $consistency "${delays[@]}" --seconds $seconds
		[ "$(json "$report" 'r["version"] < 60')" = True ] || break
	done
	judge "seconds, $consistency"
done

# slow ones: with backup workers the others do not wait for them
late "slow" --consistency sync:k=2 --delay exp:mean=4ms,alpha=0+slow:workers=half,factor=30 --steps 100
truth "slow: the fast ones did it" 'sum(w["applied"] for w in r["per_worker"][:2]) > 0.8 * r["gradients_applied"]'

# a worker that dies is a straggler for ever, or comes back
late "a death" --consistency sync:k=3 "${delays[@]}" --steps 300 --kill worker1@20steps:down=200ms
truth "a death: it came back" 'r["kills"] == 1 and r["recoveries"] == 1'

# a quorum waits for one that comes back, and for nobody who does not
late "a quorum, a death" --consistency sync:quorum,k=4,grace=1 "${delays[@]}" --steps 150 --kill worker1@20steps:down=200ms
truth "a quorum, a death: it came back" 'r["kills"] == 1 and r["recoveries"] == 1 and r["k_mean"] == 4'
verdict
