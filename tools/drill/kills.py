# SPDX-License-Identifier: BSD-3-Clause
"""Strategies under one schedule of kills: runs of train, one after another."""
import dataclasses
import json
import math
import os
import shutil
from typing import Any

from . import plan
from .drill import Drill, signed
from .errors import RESOURCES, SIGNAL, USAGE, Failure
from .settings import Settings

EVAL_LEAST_S = 0.25  # an evaluation takes about so long
ERROR_MAX = 255
MAKE_NO_RUN = ("--help", "-h", "--check")  # words of train


def set_read(settings: Settings) -> plan.Set:
    values: dict[str, Any] = {}
    for field in dataclasses.fields(plan.Set):
        read = {float: settings.number, int: settings.integer, bool: settings.flag}
        values[field.name] = read.get(field.type, settings.text)(field.name)
    for name in ("seconds", "kill_at", "down", "again"):
        if values[name] <= 0.0:
            settings.fail(name, "should be above 0")
    out = settings.text("out")
    if out is not None and (out == "" or "," in out):
        settings.fail("out", "should be a path without a comma")
    if settings.flag("live"):
        settings.fail("live", "is of --experiment dbw, scar and mtbf only")
    if settings.text("job"):
        settings.fail("job", "is of --experiment mtbf only")
    if settings.flag("resume") and out is None:
        settings.fail("resume", "needs the folder: --out")
    if out is not None and len(out) > Drill.PATH_MAX // 2:
        settings.fail("out", "is too long")
    scale = settings.number("scale")
    for name in ("seconds", "kill_at", "down", "again", "eval_seconds"):
        values[name] /= scale
    values["pace"] *= scale
    values["eval_seconds"] = max(values["eval_seconds"], EVAL_LEAST_S)
    return plan.Set(**values)


def announce(drill: Drill, of: plan.Set, runs: plan.Plan) -> None:
    most = max(case.kills for case in runs.cases)
    kills = plan.schedule(of, runs.cases[0].strategy, most)
    drill.say(f"{len(runs.cases)} cases, {len(runs.runs)} runs of {of.seconds:g} s: about "
              f"{drill.left(0, 0.0)} in all")
    drill.say(f"{of.model} on {of.dataset}, kills: {kills or 'none'}")
    drill.say(f"report in {drill.out}")


def checkpoints_drop(drill: Drill) -> None:
    shutil.rmtree(f"{drill.out}/checkpoints", ignore_errors=True)


def outcome_note(drill: Drill, run: plan.Run) -> None:
    """Done, or failed with the reason: the report says that the run came to its end, with all kills"""
    path = f"{drill.out}/runs/{run.name}.json"
    run.status = "failed"
    try:
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        ended = report.get("ended")
        # workers can be killed too; a drill is about servers
        outages = sum(not str(one.get("target")).startswith("worker")
                      for one in report.get("outages") or [])
    except (OSError, ValueError, AttributeError) as error:
        run.error = f"{path:.150}: {error!s:.90}"
        return
    accuracy = report.get("test_accuracy")
    run.accuracy = accuracy if isinstance(accuracy, (int, float)) else math.nan
    if ended != "done":
        run.error = f"{path:.150}: the run ended: {ended or 'unknown'!s:.60}"
    elif outages < run.case.kills:
        run.error = (f"{path:.150}: {outages} outages of a server, not {run.case.kills}: was it over "
                     "too soon?")
    else:
        run.status, run.error = "done", ""


def is_done(drill: Drill, run: plan.Run) -> bool:
    """--resume: take a run from its files as they are; false: it is still to be made"""
    if not os.access(f"{drill.out}/runs/{run.name}.csv", os.R_OK):
        return False
    outcome_note(drill, run)
    if run.status == "done":
        return True
    run.status, run.error = "not made", ""
    return False


def run_make(drill: Drill, of: plan.Set, run: plan.Run, index: int) -> None:
    """An empty folder for its checkpoints: nothing of the run before may be restored"""
    checkpoints_drop(drill)
    try:
        os.mkdir(f"{drill.out}/checkpoints", 0o755)
    except OSError as error:
        raise Failure(RESOURCES, "cannot start a run", run.name, error.strerror) from error
    why = drill.run(index, run.name, [*drill.words, *plan.arguments(of, run, drill.out)])
    checkpoints_drop(drill)
    if drill.signal != 0:
        return  # cut short: no run at all
    if why:
        run.status, run.error = "failed", why[:ERROR_MAX]
    else:
        outcome_note(drill, run)
    where = drill.of(index, run.name)
    if run.status == "done":
        drill.say(f"{where}: accuracy {run.accuracy:.4f}; about {drill.left(index, math.inf)} left")
    else:
        drill.say(f"{where}: FAILED: {run.error}")


def record(drill: Drill, of: plan.Set, runs: plan.Plan) -> None:
    drill.record("kills", {
        "settings": {**{key: getattr(of, key) for key in
                        ("seconds", "kill_at", "down", "again", "pace", "model", "final_relu",
                         "dataset", "lr", "batch", "checkpoint_every", "eval_seconds")},
                     "price_server": drill.settings.number("price_server"),
                     "price_worker": drill.settings.number("price_worker")},
        "strategies": [{key: getattr(one, key) for key in
                        ("name", "what", "replicas", "kills_max", "stateless", "fault")}
                       for one in plan.STRATEGIES],
        "cases": [{"name": one.name, "strategy": one.strategy.name, "consistency": one.mode,
                   "kills": one.kills, "workers": one.workers} for one in runs.cases],
        "runs": [{"name": one.name, "case": one.case.name, "seed": signed(one.seed),
                  "status": one.status, "error": one.error} for one in runs.runs]})


def words_check(drill: Drill, of: plan.Set, runs: plan.Plan) -> None:
    """Before anything is made: train takes the words behind -- and the settings, in one case at least. What it refuses
    in some cases only is shown there, as a run that failed."""
    own = {word.partition("=")[0] for case in runs.cases for word in plan.arguments(of, plan.Run(case, 1), drill.out)}
    for word in drill.words:
        if word in MAKE_NO_RUN:
            raise Failure(USAGE, "makes no run", word, "see outlast train --help")
        name = word.partition("=")[0].replace("_", "-")
        if name in own:
            raise Failure(USAGE, "is the drill's to say", name,
                          "it goes in front of --, or the drill has a value of its own in each run (outlast drill --help)")
    first: Failure | None = None
    for case in runs.cases:
        failure = drill.refusal([*drill.words, *plan.arguments(of, plan.Run(case, 1), None)])
        if failure is None:
            return
        first = first or failure
    if first is not None:
        raise first


def go(drill: Drill) -> int:
    of = set_read(drill.settings)
    if drill.words and not drill.words[0].startswith("-"):
        raise Failure(USAGE, "unexpected argument", drill.words[0],
                      "--NAME=VALUE gives a value to what is true or false; options of train stand "
                      "behind --")
    try:
        runs = plan.make(of)
    except plan.Wrong as wrong:
        drill.settings.fail(wrong.name, wrong.why)
    words_check(drill, of, runs)
    drill.folder_make()
    drill.run_count, drill.run_s = len(runs.runs), of.seconds
    announce(drill, of, runs)
    for index, run in enumerate(runs.runs):
        if drill.signal != 0:
            break
        if drill.settings.flag("resume") and is_done(drill, run):
            continue
        run_make(drill, of, run, index)
        if run.status == "failed" and not drill.settings.flag("keep_going"):
            break
    record(drill, of, runs)
    try:
        code = drill.report()
    except Failure as failure:
        code = failure.said()
    return SIGNAL + drill.signal if drill.signal != 0 else code
