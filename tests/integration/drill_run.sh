#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# drill_run.sh -- a drill writes every file that it names, its figures agree with each other and with their
# runs, and a failed run is shown
#
# not under asan, tsan: its subject is files and figures, made in Python; drill_small runs the same code under asan
. "$(dirname "$0")/train_lib.bash"

tiny_runs=(--model mlp:16 --dataset synthetic:train=500,test=200 --workers 2 --seconds 2 --kill-at 0.6
	--down 0.3 --again 0.3 --pace 60 --checkpoint-every 10)
folder=$tmp/report

outlast drill "${tiny_runs[@]}" --preset quick --kills 1 --seeds 2 --out "$folder" --json "$tmp/drill.json"
expect "a small drill" 0
[[ $out == *"report in $folder"* ]] || fail "it does not say where the report is: $out"
[[ $err == *"about "*" in all"* ]] || fail "it does not say beforehand how long it takes: $err"
[ -e "$folder/checkpoints" ] && fail "checkpoints are left"
for file in README.md summary.txt summary.md summary.csv claims.md cost.md settings; do
	[ -s "$folder/$file" ] || fail "no $file"
	[ "$file" = README.md ] || grep -qF "\`$file\`" "$folder/README.md" || fail "README.md does not name $file"
done
[ "$(cat "$folder/summary.txt")" = "$(printf '%s\n' "$out" | sed '/^report in /,$d')" ] ||
	fail "the table on stdout is another one than in summary.txt"

# every figure again, from the runs' own files, by another program
"$python" - "$folder" "$tmp/drill.json" >"$tmp/python.out" 2>&1 <<'PYTHON' || fail "figures: $(cat "$tmp/python.out")"
import csv, json, os, statistics, sys

folder, drill = sys.argv[1], json.load(open(sys.argv[2]))
rows = list(csv.DictReader(open(f"{folder}/summary.csv")))
assert len(rows) == 12 == len(drill["runs"]), len(rows)
assert {(r["strategy"], r["consistency"]) for r in rows} == {
    ("none", "async"), ("checkpoint", "async"), ("stateless", "async"), ("chain", "async"), ("checkpoint", "sync"),
    ("stateless", "sync")}
assert {r["seed"] for r in rows} == {"1", "2"}

def near(what, a, b, within=1e-6):
    assert abs(float(a) - float(b)) <= within * max(1.0, abs(float(b))), (what, a, b)

for row in rows:
    name = row["run"]
    assert row["status"] == "done", row
    report = json.load(open(f"{folder}/runs/{name}.json"))
    line = list(csv.DictReader(open(f"{folder}/runs/{name}.csv")))
    for key in ("gradients_computed", "gradients_applied", "gradients_dropped", "gradients_lost", "test_accuracy"):
        near((name, key), row[key], report[key])
    count = {k: int(report["gradients_" + k]) for k in ("computed", "applied", "dropped", "lost")}
    assert count["computed"] == count["applied"] + count["dropped"] + count["lost"], (name, count)
    times = [float(r["t_s"]) for r in line]
    assert len(line) > 3 and times == sorted(times), (name, times)
    for key in ("computed", "queued", "lost"):
        values = [int(r[key]) for r in line]
        assert values == sorted(values), (name, key, values)
    assert int(line[-1]["computed"]) == count["computed"], (name, line[-1], count)
    for peak, column in (("server_peak_mb", "server_rss_mb"), ("worker_peak_mb", "worker_rss_mb")):
        near((name, peak), row[peak], max(float(r[column]) for r in line if r[column]))
    near((name, "moved"), row["moved_mb"], float(line[-1]["bytes_in"]) / 2**20)
    chain = row["strategy"] == "chain"
    near((name, "cost"), row["cost"], report["wall_s"] / 3600 * ((3 if chain else 1) * 0.095 + 2 * 0.095))
    assert report["seed"] == int(row["seed"]) and report["consistency"] == row["consistency"]
    killed = row["strategy"] != "none"
    assert len(report["outages"]) == report["kills"] == killed, (name, report["outages"])
    if killed:
        o = report["outages"][0]
        near((name, "loss"), row["loss_difference"], o["loss_after"] - o["loss_before"], 1e-5)
        near((name, "down"), row["downtime_s"], o["first_applied_s"] - o["killed_s"], 1e-5)
        assert chain or float(row["downtime_s"]) >= 0.3, row["downtime_s"]
        assert chain or any(int(r["down"]) for r in line), name
    if chain:
        assert count["lost"] == 0 and report["replicas"] == 3 and o["target"] == "head0", (name, o)
    if row["strategy"] == "stateless":
        assert count["lost"] == 0 and int(row["gradients_queued"]) > 0, (name, row)
    if row["strategy"] == "none":
        assert count["lost"] == 0 and float(row["gradients_queued"] or 0) == 0, (name, row)

for case in drill["cases"]:
    mine = [r for r in rows if (r["strategy"], r["consistency"]) == (case["strategy"], case["consistency"])]
    assert len(mine) == 2 == case["done"] and case["failed"] == 0, case
    for key, figure in case["figures"].items():
        values = [float(r[key]) for r in mine if r[key]]
        assert len(values) == figure["count"], (case, key)
        near(key, statistics.mean(values), figure["mean"])
        if len(values) > 1:
            near(key, statistics.stdev(values), figure["sd"])

claims = open(f"{folder}/claims.md").read()
assert len(drill["claims"]) == 10
for claim in drill["claims"]:
    judged = claim["verdict"] != "cannot be judged here"
    assert (f"\n| {claim['id']} |" in claims) == judged, claim
    assert judged or claim["id"] in claims.split("Not judged from these runs: ")[1], claim
    assert claim["verdict"] in ("confirmed", "not confirmed", "cannot be judged here"), claim
    assert bool(claim["because"]) == (claim["verdict"] == "cannot be judged here"), claim
PYTHON

for kind in outage accuracy loss gradients utilisation; do
	plot=$folder/plots/$kind-k1-w2
	"$python" -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$plot.svg" ||
		fail "$plot.svg is no SVG"
	[ "$(head -c 4 "$plot.png" | tail -c 3)" = PNG ] || fail "$plot.png is no PNG"
done
grep -q "1 kill, 2 workers: .* goes on after " "$folder/plots/outage-k1-w2.svg" || fail "the picture has no result"

# a report is a function of what the runs left: made anew by itself it is the same, picture by picture
cp -r "$folder" "$tmp/kept"
rm -r "$folder/plots" "$folder/summary.txt"
mkdir "$tmp/home"
HOME=$tmp/home MPLBACKEND=none DISPLAY='' outlast drill --report "$folder" --json "$tmp/anew.json"
expect "a report made anew" 0
[ -z "$(ls -A "$tmp/home")" ] || fail "a report leaves files at home: $(ls -A "$tmp/home")"
diff -r "$folder" "$tmp/kept" >"$tmp/diff" || fail "a report made anew is another one: $(head -c 2000 "$tmp/diff")"
cmp -s "$tmp/drill.json" "$tmp/anew.json" || fail "its JSON is another one"
outlast drill --report "$tmp"
expect_error "a folder that is no drill's" 1 "*drill.json*"

# a drill that was cut short goes on where it was; what is done stays as it is
again=(drill "${tiny_runs[@]}" --preset quick --kills 1 --seeds 2 --out "$folder" --resume)
cp "$folder/summary.csv" "$tmp/before.csv"
mkdir "$tmp/bare"
printf '#!/bin/sh\nexec /usr/bin/python3 -S "$@"\n' >"$tmp/bare/python3" # which is without its libraries
chmod +x "$tmp/bare/python3"
PATH=$tmp/bare:$PATH outlast "${again[@]}"
expect "a report without the libraries" 1
[[ $err == *"outlast drill: no report: "*"has no numpy, scipy, matplotlib"*"apt-get install python3-numpy"*"--report"* ]] ||
	fail "it does not say what to install: $err"
rm "$folder/runs/stateless-sync-k1-w2-s2.json"
outlast "${again[@]}"
expect "resume" 0
[ "$(printf '%s\n' "$err" | grep -c '^run ')" = 1 ] || fail "resume made other runs than the missing one: $err"
[ "$(grep -v stateless-sync-k1-w2-s2 "$folder/summary.csv")" = "$(grep -v stateless-sync-k1-w2-s2 "$tmp/before.csv")" ] ||
	fail "resume changed runs that were done"

# what fails is shown as failed, and the others are made; or none after it
some=(drill "${tiny_runs[@]}" --strategies checkpoint/async,none/async --consistency async --kills 1 --seeds 1)
outlast "${some[@]}" --seconds 1.5 --out "$tmp/failed" -- --outage-timeout=0.2
expect "a run that fails" 8
[ "$(grep -c '^checkpoint.*,failed,".*outage-timeout' "$tmp/failed/summary.csv")" = 1 ] ||
	fail "a failed run does not say why: $(cat "$tmp/failed/summary.csv")"
[ "$(grep -c '^none.*,done,' "$tmp/failed/summary.csv")" = 1 ] ||
	fail "the other was not made: $(cat "$tmp/failed/summary.csv")"
[[ $out == *FAILED*outage-timeout* ]] || fail "failures are not in the table: $out"
outlast "${some[@]}" --out "$tmp/failed2" --keep-going=false -- --outage-timeout=0.2
expect "the first failure" 8
[ "$(cut -d , -f 7 "$tmp/failed2/summary.csv" | tr '\n' ' ')" = "status failed not made " ] ||
	fail "it went on: $(cat "$tmp/failed2/summary.csv")"

# a signal ends the run at hand, and there is a report of what was done
background drill drill "${tiny_runs[@]}" --strategies none --consistency async --kills 1 --seeds 3 --seconds 200 \
	--out "$tmp/cut"
run_is_up() { grep -qs gradients/s "$tmp/cut/runs/none-async-k0-w2-s1.log"; }
until_true run_is_up || fail "no run in the drill: $(cat "$tmp/drill.err")"
child=$(pgrep -P "$pid") || fail "the drill has no process"
kill -INT "$pid"
ended "$pid" 130 "a drill that is interrupted"
until_true gone "$child" || fail "the run is still there"
grep -q "3 of 3 runs were not made" "$tmp/cut/summary.txt" || fail "the report of a drill cut short: $(cat "$tmp/drill.out")"

bad() { # WHAT PATTERN WORD...
	local what=$1 pattern=$2

	shift 2
	outlast drill --out "$tmp/refused" "${tiny_runs[@]}" "$@"
	expect_error "$what" 2 "$pattern"
	[ -e "$tmp/refused" ] && fail "$what: a folder all the same"
}

bad "strategy" "outlast drill:*--strategies*chain*checkpoint*" --strategies none,chains
bad "preset" "outlast drill:*preset*quick*" --preset slow
bad "kills" "outlast drill:*--kills*" --kills 1,many
bad "seeds" "outlast drill:*--seeds*" --seeds 0
bad "workers" "outlast drill:*--workers*" --workers 0
bad "too short" "outlast drill:*--seconds*2 kills*" --kills 2 --seconds 1.1
bad "down" "outlast drill:*--down*above 0*" --down 0
bad "a word of train" "outlast drill: no run can be made: --optimizer: \"perhaps\"*" -- --optimizer=perhaps
bad "a word that the drill says" "outlast drill: is the drill's to say: --lr: it goes in front of --*" -- --lr 5
bad "no word of train" "outlast drill: no run can be made: --nonsense: no such option*" -- --nonsense
bad "a model" "outlast drill: no run can be made: model \"banana\"*" --model banana
bad "a word" "outlast drill: unexpected argument: true*--*" --final-relu true
outlast drill "${tiny_runs[@]}" --out "$folder"
expect_error "a folder that is there" 2 "outlast drill:*$folder*"
outlast drill --out "a,b"
expect_error "a comma" 2 "outlast drill:*--out*comma*"
outlast drill --resume
expect_error "resume without a folder" 2 "outlast drill:*--resume*--out*"
outlast drill --help
expect "help" 0
[[ $out == *"seed-paper"*"examples:"* ]] || fail "drill --help: $out"
verdict
