#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# chain.sh -- chains over verbs in one virtual machine survive servers that are killed and stopped at random steps
#
# A synchronous run ends at the weights of an undisturbed single server over shared memory, bit for bit; an
# asynchronous one loses and doubles no gradient. OL_SEED picks the steps; the seed of a run is printed.
#
# alone: leases of a second are counted by the clock, in a machine that is emulated
set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=${OUTLAST_BIN:-${OUTLAST_BUILD:-$root/build/dev}/outlast}
steps=60
failures=0
runs=0

fail() {
	echo "FAIL: $*" >&2
	failures=$((failures + 1))
}

# train NAME WORD... -- its report goes to $tmp/NAME.json
train() {
	local name=$1

	shift
	runs=$((runs + 1))
	"$bin" train --dataset synthetic:train=500,test=100 --eval-every 0 --seed 7 --workers 2 \
		--json "$tmp/$name.json" "$@" >"$tmp/$name.out" 2>"$tmp/$name.err" ||
		fail "$name: train $*: exit status $?: $(cat "$tmp/$name.err")"
}

# step FROM -- one of the 20 from there on
step() {
	echo $(($1 + RANDOM % 20))
}

mlp=(--model mlp:16)
chain=(--transport verbs --durability chain --replicas 3 --lease-ms 1000)
sync=("${mlp[@]}" --consistency sync --steps $steps)
wide=(--model mlp:200 --batch 4 --consistency sync --steps 40) # entries that are under way when a neighbour dies

exactness() {
	local stop=:signal=STOP target

	train sync.whole "${sync[@]}"
	train sync.quiet "${sync[@]}" "${chain[@]}"
	sync+=("${chain[@]}" --pace 20)
	for target in head middle tail; do
		train sync.$target "${sync[@]}" --kill "$target@$(step 5)steps"
		train sync.$target-stop "${sync[@]}" --kill "$target@$(step 5)steps$stop"
	done
	train sync.heads "${sync[@]}" --kill "head@$(step 5)steps,head@$(step 25)steps"
	train sync.heads-stop "${sync[@]}" --kill "head@$(step 5)steps$stop,head@$(step 25)steps"
	train sync.ends "${sync[@]}" --kill "tail@$(step 5)steps,head@$(step 25)steps$stop"
	train sync.at-once "${sync[@]}" --kill "head@10steps,head@11steps"

	train wide.whole "${wide[@]}"
	wide+=("${chain[@]}" --pace 10)
	for target in head middle; do
		train wide.$target "${wide[@]}" --kill "$target@$(step 5)steps"
	done
}

accounts() {
	local async=("${mlp[@]}" --steps 160 --pace 20 "${chain[@]}")

	train async.heads "${async[@]}" --kill "head@$(step 10)steps,head@$(step 50)steps:signal=STOP"
	train async.tail "${async[@]}" --outage continue --kill "tail@$(step 10)steps,middle@$(step 50)steps"
}

# What must be true of every report, and what each of them says, in a line
judge() {
	python3 - "$tmp" <<'END'
import json, sys, glob, os
bad = 0
whole = {}
for path in sorted(glob.glob(sys.argv[1] + "/*.json"), key=os.path.getmtime):
    r, name = json.load(open(path)), os.path.basename(path)[:-5]
    kind, schedule = name.split(".")
    f = r.get("failovers") or []
    print("%-16s %-48s %s, %d lost, epoch %d; new view after %s, first commit %s ms" % (name,
        (r["settings"].get("kill") or "-"), r["weights_sha256"][:8], r["gradients_lost"], r["views"][0]["epoch"] if r["views"] else 0,
        [round(x["detect_ms"]) if x["detect_ms"] is not None else None for x in f],
        [round(x["recover_ms"]) if x["recover_ms"] is not None else None for x in f]))
    whole.setdefault(kind, r["weights_sha256"])
    kills = (r["settings"].get("kill") or "").count("@")
    for what, holds in {
        "the weights": kind == "async" or r["weights_sha256"] == whole[kind],
        "the version": r["settings"]["outage"] == "continue" or r["version"] == int(r["settings"]["steps"]),
        "kills": r["kills"] == kills and r["recoveries"] == kills and r["kills_not_fired"] == [],
        "nothing lost": r["gradients_lost"] == 0 == r["gradients_dropped"],
        "each once": r["gradients_computed"] == r["gradients_applied"],
        "accounts agree": r["accounting"]["agree"],
        "one history": all(v["founded"] == 1 for v in r["views"] or []),
        "over verbs": schedule == "whole" or (r["transport"] == "verbs" and r["replicas"] == 3),
    }.items():
        if not holds:
            bad = 1
            print("FAIL: %s: %s: %s" % (name, what, {k: v for k, v in r.items() if k != "settings"}), file=sys.stderr)
sys.exit(bad)
END
}

if [ "${1-}" != guest ]; then
	exec "$root/tools/lab/run" --deadline 900 -- env OUTLAST_BIN="$bin" OL_SEED="${OL_SEED:-$RANDOM}" bash "$0" guest
fi
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
RANDOM=$OL_SEED
echo "OL_SEED=$OL_SEED"
exactness
accounts
judge || failures=$((failures + 1))
echo "$runs runs in $SECONDS s"
[ $failures = 0 ]
