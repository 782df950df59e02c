# SPDX-License-Identifier: BSD-3-Clause
"""How much of the time is useful, by mean time between failures: which jobs, how many trainings of each."""
import dataclasses
from dataclasses import replace
from typing import Any

from ..drill import Drill, known
from . import live
from .model import LADDER, METHODS, Constants, Job, Method, Outcome, course, failures, interval

TRIALS = (5, 20, 100)  # by preset
MTBFS = (("2 min", 120), ("5 min", 300), ("20 min", 1200), ("1 h", 3600), ("4 h", 14400), ("1 day", 86400),
         ("1 week", 604800))
SERVERS = (1, 8, 64, 1000)
EVERYTHING = 0.01  # of the second half of the table …
RARE, RARE_FROM_S = 10, 1200  # … where few trainings meet such a failure: so many times as many, from this mean time on
LIMIT = 4.0  # times as long as undisturbed a training may take
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of Young's and Daly's interval, to see that it is a good one
LADDER_NAME = "ladder"

# What --preset short --live --seed 501 measured, but for `stall` (an assumption: so much of the rate a checkpoint takes
# while it is written) and `lease_s` (the product's default). The first and the third were too short to be told by a loss.
CONSTANTS = Constants(failover_s=0.0, lease_s=5.0, found_s=5.0, restore_s=0.0, stall=0.1,
                      efficiency=((0.0, 1.0), (0.25, 0.88), (0.5, 0.78), (1.0, 0.49)), rework=((0.0, 0.0), (0.25, 0.17), (0.5, 0.29), (1.0, 0.61)))


def job_read(drill: Drill) -> Job:
    """--job: name=value, with commas between"""
    fields = {field.name: field.type for field in dataclasses.fields(Job)}
    values: dict[str, Any] = {}
    for item in (drill.settings.text("job") or "").split(","):
        name, _, text = item.partition("=")
        if item == "":
            continue
        if name not in fields or name in values:
            drill.settings.fail("job", f"{name!r} is not one of {', '.join(fields)}, each at most once")
        try:
            values[name] = fields[name](text)
        except ValueError:
            drill.settings.fail("job", f"{name}: {text!r} is no number")
        low = 0.0 if name in ("down", "host_down", "everything") else 1 if name in ("servers", "workers") else 1e-9
        high = 1.0 if name == "everything" else 1e5 if name in ("servers", "workers", "hours") else 1e18
        if not low <= values[name] <= high:
            drill.settings.fail("job", f"{name}: should be from {low:g} to {high:g}")
    if "servers" in values:
        values.setdefault("workers", values["servers"])
    return Job(**values)


def trainings(job: Job, method: Method, mtbf: float, every_s: float, constants: Constants, trials: int,
              seed: str) -> list[Outcome]:
    goal = 3600 * job.hours
    return [course(job, method, constants, every_s,
                   failures(job, method, mtbf, f"{seed} {trial}"), goal, LIMIT * goal)
            for trial in range(trials)]


def cell(job: Job, method: Method, mtbf: float, every_s: float, of: list[Outcome]) -> dict[str, Any]:
    return {"method": method.name, "replicas": method.replicas, "mtbf_s": mtbf, "every_s": known(every_s),
            "ratios": [one.ratio for one in of], "arrived": sum(one.arrived for one in of),
            "failures": [one.failures for one in of], "lost_s": [one.lost_s for one in of],
            "waited_s": [one.waited_s for one in of],
            "machines": [(job.servers * method.replicas + job.workers) / (job.servers + job.workers) / one.ratio
                         if one.ratio > 0 else None for one in of]}


def row(job: Job, mtbf: float, constants: Constants, trials: int, seed: int) -> list[dict[str, Any]]:
    """Every method at one mean time between failures"""
    def make(method: Method, seed: str) -> tuple[float, list[Outcome]]:
        every_s = interval(job, method, constants, mtbf)
        return every_s, trainings(job, method, mtbf, every_s, constants, trials, seed)

    cells = [cell(job, method, mtbf, *make(method, f"{seed}")) for method in METHODS]
    # the ladder's replicas are chosen by other failures than those that judge it
    best = max(LADDER, key=lambda one: sum(of.ratio for of in make(one, f"{seed} choice")[1]))
    return [*cells, {**cell(job, best, mtbf, *make(best, f"{seed}")), "method": LADDER_NAME}]


def table(drill: Drill, job: Job, constants: Constants, trials: int, seed: int) -> dict[str, Any]:
    cells = []
    for name, mtbf in MTBFS:
        drill.say(f"{job.servers} servers, {name}{', everything at times' if job.everything else ''}: "
                  f"{trials} trainings a method", stays=False)
        cells += row(job, mtbf, constants, trials * (RARE if job.everything and mtbf >= RARE_FROM_S else 1), seed)
    return {"job": dataclasses.asdict(job), "cells": cells}


def intervals(drill: Drill, job: Job, constants: Constants, trials: int, seed: int) -> list[dict[str, Any]]:
    """Full checkpoints, more and less often than Young and Daly say"""
    method = next(one for one in METHODS if one.name == "checkpoint")
    rows = []
    for _, mtbf in MTBFS:
        every_s = interval(job, method, constants, mtbf)
        for factor in FACTORS:
            often = max(factor * every_s, job.save_s)
            drill.say(f"checkpoints every {often:.0f} s", stays=False)
            rows.append({"mtbf_s": mtbf, "factor": factor, "every_s": often, "ratios": [
                one.ratio for one in trainings(job, method, mtbf, often, constants, trials, f"{seed}")]})
    return rows


def lived(drill: Drill, preset: int, seed: int) -> dict[str, Any]:
    """What real processes say of constants, and of the model"""
    many, seconds = live.SEEDS[preset], live.CHECK_S[preset]
    lab = live.Lab(drill, many * (7 + 2 * len(live.PARTS) - 2 + 1 + len(live.CHECKED)))
    first = live.SEEDS_APART * seed  # no two seeds share a run
    measured = live.constants_measure(lab, range(first, first + many))
    again = first + live.CHECK_SEED
    return {"constants": dataclasses.asdict(measured), "seconds": seconds,
            "rows": live.check(lab, measured, range(again, again + many), seconds)}


def go(drill: Drill) -> int:
    preset, seed = drill.settings.preset(), drill.settings.integer("seed")
    trials = drill.settings.integer("trials") or TRIALS[preset]
    job = job_read(drill)
    drill.folder_make()
    sizes = [job] if drill.settings.text("job") else [replace(job, servers=many, workers=many) for many in SERVERS]
    tables = [table(drill, one, CONSTANTS, trials, seed) for one in sizes]
    if not job.everything:
        tables += [table(drill, replace(one, everything=EVERYTHING), CONSTANTS, trials, seed) for one in sizes]
    record = {"trials": trials, "seed": seed, "limit": LIMIT, "constants": dataclasses.asdict(CONSTANTS),
              "methods": {one.name: one.what for one in METHODS}
              | {LADDER_NAME: "a replica, else a worker's weights, else a full checkpoint; as many replicas as pay"},
              "tables": tables, "intervals": intervals(drill, sizes[-1 if len(sizes) == 1 else 2], CONSTANTS, trials, seed),
              "live": lived(drill, preset, seed) if drill.settings.flag("live") else None}
    drill.record("mtbf", record)
    return drill.report()
