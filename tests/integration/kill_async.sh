#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# kill_async.sh -- in an asynchronous run with failures no gradient is lost or doubled, with every outage setting; the
# time line shows the outages
. "$(dirname "$0")/kill_lib.bash"

line=$tmp/t.csv
async=(--workers 2 --steps 600 --pace 200)
all_applied='r["gradients_lost"] == 0 and r["gradients_computed"] == 600 == r["gradients_applied"]'

# queued, then applied as few steps
replays=(mean sum each clip staleness)
[ -z "${OUTLAST_TEST_SANITIZER-}" ] || replays=(mean staleness)
for replay in "${replays[@]}"; do
	train "${async[@]}" --outage continue --replay $replay --kill server0@150steps:down=300ms
	killed 1
	truth "nothing lost" "$all_applied"
	truth "queued and replayed" '0 < r["gradients_queued"] <= r["gradients_replayed"] + 4'
	truth "fewer steps than gradients" 'r["version"] < 600'
done
truth "workers go on" 'r["workers_rate_outage"] > 0.5 * r["workers_rate_before"]'
train "${async[@]}" --outage continue --servers 2 --kill server1@150steps:down=300ms,server0@300steps:down=200ms
killed 2
truth "nothing lost" "$all_applied"
train "${async[@]}" --outage continue --local-progress --kill server0@150steps:down=300ms
killed 1
truth "nothing lost" "$all_applied"

# a queue with an end
train "${async[@]}" --outage continue --queue drop-oldest --queue-max 8 --kill server0@150steps:down=300ms
killed 1
truth "counted" 'r["gradients_queue_dropped"] > 0 and r["gradients_lost"] == 0 and not r["gradients_lost_or_more"] and
	r["gradients_applied"] + r["gradients_dropped"] == 600 == r["gradients_computed"]'
train "${async[@]}" --outage continue --queue wait --queue-max 8 --kill server0@150steps:down=300ms
killed 1
truth "nothing lost" "$all_applied"
truth "bounded" '0 < r["gradients_queued"] <= 20'

# wait
train "${async[@]}" --kill server0@150steps:down=100ms,server0@350steps
killed 2
truth "nothing lost" "$all_applied"
truth "nothing queued" 'r["gradients_queued"] == 0 and r["version"] == 600'

# rolled back: what is lost is counted, and both ends know
train "${async[@]}" --durability checkpoint --checkpoint every=50steps --restore checkpoint --kill server0@230steps
killed 1
truth "counted" 'r["gradients_lost"] > 0 and r["version"] == 600 - r["gradients_lost"] == r["gradients_applied"]'

# two at once: what a shard lost is of its own outage
train "${async[@]}" --servers 2 --durability checkpoint --checkpoint every=100steps --restore checkpoint \
	--kill server0@220steps:down=300ms,server1@220steps:down=300ms
killed 2
truth "as was expected of each" 'all(o["expected_lost"] <= o["lost"] for o in r["outages"])'
truth "both shards lost the same gradients, most of them" 'r["gradients_lost"] < sum(o["lost"] for o in r["outages"])'

# a worker: others go on, it comes back and does not repeat itself
train "${async[@]}" --kill worker1@150steps:down=300ms
killed 1
truth "no gradient is missing or twice" 'r["version"] == 600 == r["gradients_applied"] and r["workers_died"] == 0'
truth "the others went on" 'r["outages"][0]["version"] >= 150'
# what is queued is applied as few steps: where a busy machine has queued so much that step 400 never comes, or comes when
# worker 0 has finished, less is
for pace in 200 50 10; do
	train --workers 2 --steps 600 --pace $pace --outage continue \
		--kill worker1@100steps:down=200ms,server0@200steps:down=200ms,worker0@400steps
	[ "$(json "$report" 'r["recoveries"]')" = 3 ] && break
done
killed 3
truth "accounts" 'r["gradients_applied"] == 600'

# a kill that never comes is reported
train "${async[@]}" --steps 50 --kill server0@70000steps
truth "not fired" 'r["kills"] == 0 and r["kills_not_fired"] == ["server0@70000steps"]'
[[ $err == *"server0@70000steps: the job ended before it"* ]] || fail "$ran: no warning: $err"

# the time line
train --workers 2 --pace 200 --seconds 2 --outage continue --timeline "$line" --timeline-ms 100 --eval-seconds 0.3 \
	--kill server0@600ms:down=500ms
killed 1
truth "evaluated by the clock" 'len(r["evals"]) >= 4'
"$python" - "$line" "$report" <<'PYTHON' || fail "the time line: $(cat "$line")"
import csv, json, sys
r = json.load(open(sys.argv[2]))
rows = list(csv.DictReader(open(sys.argv[1])))
assert list(rows[0]) == """t_s version accuracy loss train_loss computed queued applied dropped lost down server_cpu
worker_cpu server_rss_mb worker_rss_mb queue_mb bytes_in""".split(), rows[0]
t = [float(row["t_s"]) for row in rows]
assert len(rows) >= 8 and t == sorted(t) and 1.5 < t[-1] < 30, t
for key in ("computed", "queued", "dropped", "lost", "bytes_in"):
    values = [int(row[key]) for row in rows]
    assert values == sorted(values), (key, values)
down = [int(row["down"]) for row in rows]
assert max(down) == 1 and down[0] == 0 and down[-1] == 0, down
kill = r["outages"][0]
inside = [row for row in rows if kill["killed_s"] + 0.15 < float(row["t_s"]) < kill["killed_s"] + 0.45]
assert inside and all(row["server_cpu"] == "0.000" for row in inside), inside
assert int(rows[-1]["queued"]) > 0 == int(rows[-1]["lost"])
assert rows[0]["accuracy"] == "" and float(rows[-1]["accuracy"]) > 0 and float(rows[-1]["train_loss"]) > 0
assert int(rows[-1]["computed"]) == r["gradients_computed"] == int(rows[-1]["applied"])
at_work = [row for row in rows if int(row["computed"]) < r["gradients_computed"]] # the end may take a line or two
assert len(at_work) >= 8 and all(float(row["worker_rss_mb"]) > 1 and float(row["worker_cpu"]) >= 0 for row in at_work)
PYTHON
verdict
