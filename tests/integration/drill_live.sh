#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# drill_live.sh -- `--experiment scar --live`: servers are killed, weights are the study's before and of the checkpoint
# after, survivors' are the same bits, the target is reached; no server is left
#
# not under asan, tsan: servers and worker are those of every job, which other tests run there
. "$(dirname "$0")/train_lib.bash"

# The presets with live kills need Fashion-MNIST and an hour: a course of a small problem takes the place of theirs.
cat >"$tmp/live.py" <<'PYTHON'
import os, sys
sys.dont_write_bytecode = True
sys.path[:0] = [sys.argv[1]]
from drill.drill import Drill
from drill.scar import course

course.numpy_need()
out, outlast = sys.argv[2:]
values = {"experiment": "scar", "preset": "quick", "trials": "1", "seed": "1", "live": "true", "resume": "false",
          "out": out, "json": out + ".json"}
spec = {"name": "tiny", "what": "softmax, 512 features", "model": "softmax", "features": True, "samples": 100,
        "data": "synthetic:features=512,classes=8,train=200,test=10", "lr": 0.05}
course.COURSES = (course.Course(spec, 32, preset=0, few=True, live=True),)
course.KILLS, course.NORM_FAILURES, course.PUSHES = 3, 20, (6, 6, 6)
with open(out + ".pid", "w") as file:
    print(os.getpid(), file=file)
drill = Drill({"settings": {name: {"text": text, "default": None, "given": False, "error": ""}
                            for name, text in values.items()},
               "words": [], "command": [], "file": "", "outlast": outlast})
drill.signals_take()
drill.folder_make()
sys.exit(course.go(drill))
PYTHON
timeout -k 10 "$DEADLINE_S" "$python" "$tmp/live.py" "$OUTLAST_ROOT/tools" "$tmp/live" "$OUTLAST_BIN" >"$tmp/out" 2>"$tmp/err"
rc=$? out=$(cat "$tmp/out") err=$(cat "$tmp/err")
expect "live kills" 0
case $err in
*Sanitizer* | *"runtime error:"*) fail "sanitizer: $err" ;;
esac

"$python" - "$tmp" >"$tmp/python.out" 2>&1 <<'PYTHON' || fail "figures: $(cat "$tmp/python.out")"
import json, sys

record = json.load(open(f"{sys.argv[1]}/live/drill.json"))
assert [one["recovery"] for one in record["live"]] == ["partial", "extrapolated", "full"], record["live"]
for one in record["live"]:
    assert one["problem"] == "tiny" and one["kills"] == len(one["cost"]) == 3, one
    assert one["unlike"] == one["changed"] == one["strange"] == one["late"] == 0, one
claims = {c["id"]: c for c in json.load(open(f"{sys.argv[1]}/live.json"))["claims"]}
for recovery in ("partial", "extrapolated", "full"):
    assert f"tiny, {recovery}: 3 kills, cost " in claims["S8"]["numbers"], claims["S8"]
PYTHON
pgrep -f "^outlast serve --listen=@outlast-scar-$(cat "$tmp/live.pid")-" && fail "servers are left"
verdict
