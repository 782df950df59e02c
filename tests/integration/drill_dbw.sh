#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# drill_dbw.sh -- in the dbw experiment the same seed gives the same report, another seed another one, mean times are
# the expected ones, and few seeds give no verdict
#
# not under dev, asan, tsan: its subject is figures, it is a line of long.list; drill_small runs a smaller one
. "$(dirname "$0")/train_lib.bash"

outlast drill --experiment dbw --trials 1 --out "$tmp/one" --json "$tmp/one.json"
expect "the experiment" 0
outlast drill --report "$tmp/one" --json "$tmp/anew.json"
expect "a report made anew" 0
cmp -s "$tmp/one.json" "$tmp/anew.json" || fail "a report made anew is another one"
outlast drill --config "$tmp/one/settings" --out "$tmp/two"
expect "settings of a report" 0
outlast drill --experiment dbw --trials 1 --seed 2 --out "$tmp/three"
expect "another seed" 0
for file in summary.md summary.csv claims.md plots/grid.svg plots/course.svg; do
	[ -s "$tmp/one/$file" ] || fail "no $file"
	cmp -s <(sed '/^Made by/d' "$tmp/one/$file") <(sed '/^Made by/d' "$tmp/two/$file") ||
		fail "$file is another one with the same seed"
	# few seeds judge no claim, whatever they are
	[ "$file" != claims.md ] || continue
	cmp -s <(sed '/^Made by/d' "$tmp/one/$file") <(sed '/^Made by/d' "$tmp/three/$file") &&
		fail "$file is the same with another seed"
done
for file in README.md settings; do
	[ -s "$tmp/one/$file" ] || fail "no $file"
done
for plot in grid course; do
	"$python" -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$tmp/one/plots/$plot.svg" ||
		fail "$plot.svg is no SVG"
done

"$python" - "$tmp" >"$tmp/python.out" 2>&1 <<'PYTHON' || fail "figures: $(cat "$tmp/python.out")"
import csv, json, sys

tmp = sys.argv[1]
report = json.load(open(f"{tmp}/one.json"))
rows = list(csv.DictReader(open(f"{tmp}/one/summary.csv")))
assert len(rows) == sum(len(s["cells"]) for s in report["settings"]) == 2 * 3 * 15, len(rows)
for row in rows:
    k, n = float(row["k_mean"]), int(row["workers"])
    assert 1 <= k <= n and float(row["time"]) > 0, row
    if row["method"].startswith("k="):
        assert k == float(row["method"][2:]), row # a static k is what every step waited for
even = {r["method"]: r for r in rows if r["alpha"] == "0" and r["target"] == "0.01"}
assert float(even["dbw"]["k_mean"]) > 15, even["dbw"] # equal times: for all
claims = {c["id"]: c for c in report["claims"]}
assert sorted(claims) == sorted([*(f"D{i}" for i in range(1, 13)), *(f"L{i}" for i in range(1, 5))]), claims
late = {c["method"]: c for c in report["lates"][0]["cells"]}
assert late["dbw"]["wasted"] > 0.3 and late["dbw,late=next"]["wasted"] == late["dbw,late=aged"]["wasted"] == 0, late
assert late["dbw,late=next"]["time"][0] < late["dbw"]["time"][0], late
assert {c["verdict"] for c in claims.values()} == {"cannot be judged here"}, claims
deviations = [float(w) for w in claims["D1"]["numbers"].split() if w.replace(".", "").isdigit() and "." in w]
assert len(deviations) == 2 and all(d < 3 for d in deviations), claims["D1"]
PYTHON

outlast drill --experiment dbw --kills 2 --out "$tmp/none"
expect "kills" 2
[[ $err == *kills*"is of --experiment kills only"* ]] || fail "kills: $err"
[ -e "$tmp/none" ] && fail "it made a folder"
outlast drill --live --out "$tmp/none"
expect "live kills" 2

# real processes: figures of every run, and who does not wait for the slow one is not slowed down as much as who does
outlast drill --experiment dbw --live --out "$tmp/live" --json "$tmp/live.json"
expect "live" 0
"$python" - "$tmp" >"$tmp/python.out" 2>&1 <<'PYTHON' || fail "live: $(cat "$tmp/python.out")"
import json, sys

runs = {r["consistency"]: r for r in json.load(open(f"{sys.argv[1]}/live.json"))["runs"]}
assert len(runs) == 7, runs
for name, run in runs.items():
    assert run["applied_per_s_before"][0] > 0 and run["applied_per_s_after"][0] > 0, (name, run)
assert runs["sync"]["k_mean"] == [4] and runs["sync:k=2"]["k_mean"] == [2], runs
assert runs["sync"]["late"] == [0] and runs["sync:k=2"]["late"][0] > 0, runs
slowed = {name: run["applied_per_s_after"][0] / run["applied_per_s_before"][0] for name, run in runs.items()}
assert slowed["sync"] < 0.6 * slowed["sync:k=2"] and slowed["sync"] < 0.6 * slowed["sync:dbw"], slowed
PYTHON
verdict
