#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# drill_scar.sh -- in the scar experiment the same seed gives the same report, another seed another one, every named
# file exists, and settings of other experiments are refused
#
# not under dev, asan, tsan: its subject is figures, it is a line of long.list; drill_small runs a smaller one
. "$(dirname "$0")/train_lib.bash"

for name in one two; do
	outlast drill --experiment scar --trials 4 --out "$tmp/$name" --json "$tmp/$name.json"
	expect "the experiment" 0
done
outlast drill --experiment scar --trials 4 --seed 2 --out "$tmp/three"
expect "another seed" 0
for file in summary.md summary.csv plots/uneven.svg; do
	cmp -s "$tmp/one/$file" "$tmp/two/$file" || fail "$file is another one with the same seed"
	cmp -s "$tmp/one/$file" "$tmp/three/$file" && fail "$file is the same with another seed"
done
for file in README.md summary.md summary.csv claims.md settings; do
	[ -s "$tmp/one/$file" ] || fail "no $file"
	[ "$file" = README.md ] || grep -qF "\`$file\`" "$tmp/one/README.md" || fail "README.md does not name $file"
done
"$python" -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$tmp/one/plots/uneven.svg" ||
	fail "uneven.svg is no SVG"
outlast drill --report "$tmp/one" --json "$tmp/anew.json"
expect "a report made anew" 0
cmp -s "$tmp/one.json" "$tmp/anew.json" || fail "a report made anew is another one"

"$python" - "$tmp" >"$tmp/python.out" 2>&1 <<'PYTHON' || fail "figures: $(cat "$tmp/python.out")"
import csv, json, sys

tmp = sys.argv[1]
rows = list(csv.DictReader(open(f"{tmp}/one/summary.csv")))
report = json.load(open(f"{tmp}/one.json"))
assert len(rows) == 3 * (3 + 3 + 8 + 4 + 6) == sum(len(t["cells"]) for t in report["tables"]), len(rows)
for row in rows:
    cost, full = float(row["cost"]), float(row["full_cost"])
    assert abs(1 - cost / full - float(row["reduction"])) < 1e-4, row
    assert float(row["cost_low"]) <= cost <= float(row["cost_high"]), row
    off = 0.05 if row["selection"].startswith("int8") else 0.01
    assert abs(float(row["bytes"]) - (row["selection"] != "nothing")) < off, row
    assert 0 <= full < int(row["period"]), row
claims = {c["id"]: c["verdict"] for c in report["claims"]}
assert set(claims) == {f"S{i}" for i in range(1, 13)}, claims
assert claims["S2"] == claims["S6"] == "confirmed", claims
assert claims["S3"] == "cannot be judged here", claims # of four trials
PYTHON

outlast drill --config "$tmp/one/settings" --out "$tmp/again"
expect "settings of a report" 0
cmp -s "$tmp/one/summary.csv" "$tmp/again/summary.csv" || fail "its settings give another report"

bad() { # WHAT PATTERN WORD...
	local what=$1 pattern=$2
	shift 2
	outlast drill --experiment scar --out "$tmp/none" "$@"
	expect "$what" 2
	[[ $err == $pattern && $err != *$'\n'*$'\n'* ]] || fail "$what: $err"
	[ -e "$tmp/none" ] && fail "$what: it made a folder"
	return 0
}

bad "kills" "*kills*is of --experiment kills only*" --kills 2
bad "options of train" "*no run of train*--lr*" -- --lr 0.1
bad "trials" "*trials*" --trials 100000
bad "an unknown experiment" "*experiment*" --experiment sca
verdict
