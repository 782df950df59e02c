# SPDX-License-Identifier: BSD-3-Clause
"""Real processes: one of four workers becomes slow half-way.

Runs of train over shared memory that differ in --consistency only.
"""
import re
from typing import Any

from ..drill import Drill, signed
from ..errors import CHILD, SIGNAL, Failure

METHODS = ("sync", "sync:k=3", "sync:k=2", "async", "ssp:4", "sync:dbw", "sync:dbw-blind")
HALF_S = (2.0, 8.0, 15.0)  # until one is slow, by preset
SEEDS = (1, 3, 5)
SEEDS_MAX = 20
TARGET = 0.97  # test loss


def run(drill: Drill, index: int, method: str, trial: int, half: float) -> dict[str, Any]:
    seed = drill.settings.integer("seed") + trial
    name = re.sub("[:=]", "-", f"{method}-s{trial}")
    why = drill.run(index, name, [
        "--model=softmax", "--dataset=synthetic:noise=4", "--workers=4", "--batch=128", "--lr=0.05",
        "--eval-seconds=0.25", "--timeline-ms=100", f"--seconds={2.0 * half:g}",
        f"--seed={seed % 2**64}", f"--consistency={method}",
        f"--delay=exp:mean=20ms,alpha=0.2+slow:workers=1,factor=5,from={1e3 * half:g}ms",
        f"--json={drill.out}/runs/{name}.json", f"--timeline={drill.out}/runs/{name}.csv"])
    if drill.signal != 0:
        raise Failure(SIGNAL + drill.signal)
    if why:
        raise Failure(CHILD, name, why)
    drill.say(f"{drill.of(index, name)}: done")
    return {"name": name, "consistency": method, "seed": signed(seed)}


def go(drill: Drill) -> int:
    preset = drill.settings.preset()
    half = HALF_S[preset]
    seeds = min(drill.settings.integer("trials") or SEEDS[preset], SEEDS_MAX)
    drill.run_count, drill.run_s = seeds * len(METHODS), 2.0 * half
    runs = [run(drill, trial * len(METHODS) + at, method, trial, half)
            for trial in range(seeds) for at, method in enumerate(METHODS)]
    drill.record("dbw-live", {"slow_from_s": half, "target": TARGET, "runs": runs})
    return drill.report()
