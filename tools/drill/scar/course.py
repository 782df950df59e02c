# SPDX-License-Identifier: BSD-3-Clause
"""What a lost part of the parameters costs: which problems, how many trials."""
import importlib.util
import os
import sys
from dataclasses import dataclass
from typing import Any

from ..drill import PACKAGES, PYTHONS, Drill
from ..errors import FAILED, Failure

TRIALS = (10, 30, 100)  # by preset
PUSHES = (120, 1200, 1200)
NORM_FAILURES = 1000
KILLS = 20  # live, of each problem and way of recovery
PERIODS = (8, 16, 32)  # C


@dataclass(frozen=True)
class Course:
    """A problem, how long it is trained, and from which preset on it is looked at"""
    spec: dict[str, Any]  # struct scar_spec
    steps: int
    preset: int = 1
    few: bool = False  # costs much: only the largest C and the smallest r
    runs: int = 1  # more where chance decides how long one takes
    live: bool = False  # --live kills servers of it

    def periods(self) -> list[int]:
        fit = [period for period in PERIODS if 2 * period <= self.steps]
        return fit[-1:] if self.few else fit


COURSES = (
    Course({"name": "uneven",
            "what": "softmax, 64 features of scales exp(1.5 normal), the same 500 samples each step, "
                    "lr 0.02; blocks: features",
            "model": "softmax", "data": "synthetic:noise=2", "features": True, "samples": 500,
            "spread": 1.5, "lr": 0.02}, 64, preset=0),
    Course({"name": "pixels",
            "what": "softmax on Fashion-MNIST, pixels 0 to 1, the same 300 images each step, lr 0.1; "
                    "blocks: pixels (10 weights each)",
            "model": "softmax", "data": "fashion-mnist", "features": True, "samples": 300,
            "unit": True, "lr": 0.1}, 64),
    Course({"name": "framed",
            "what": "the same, the outer 4 pixels on each side black, as in MNIST",
            "model": "softmax", "data": "fashion-mnist", "features": True, "samples": 300,
            "unit": True, "frame": 4, "lr": 0.1}, 64),
    Course({"name": "rows",
            "what": "softmax on Fashion-MNIST, pixels -1 to 1, the same 300 images each step, lr "
                    "0.01; blocks: an image's row of a class (28 weights each)",
            "model": "softmax", "data": "fashion-mnist", "cut": 28, "samples": 300,
            "lr": 0.01}, 64, few=True, live=True),
    Course({"name": "cnn",
            "what": "CNN on Fashion-MNIST, 32 images drawn each step, lr 0.05, loss of 96 images; "
                    "blocks: outputs of each layer, biases of each layer",
            "model": "cnn", "data": "fashion-mnist", "samples": 32, "drawn": True,
            "judged": 96, "lr": 0.05}, 32, few=True, runs=4, live=True),
    Course({"name": "als",
            "what": "matrix factorization of rank 8 by alternating least squares, 300 users, 1000 "
                    "items; blocks: items' rows",
            "model": "als", "data": "ratings:users=300,items=1000,density=0.05,noise=0.2"}, 16,
           runs=10),
    Course({"name": "gibbs",
            "what": "LDA of 10 topics by collapsed Gibbs sampling, 400 documents of 100 tokens, 2000 "
                    "words; blocks: documents' topics",
            "model": "gibbs", "data": "topics:docs=400,length=100,words=2000"}, 16, few=True,
           runs=10),
)

# What is perturbed for the bound. The first converges linearly, as the theorem supposes.
BOUNDS = (
    {"name": "steady",
     "what": "softmax, 64 features, the same 200 samples each step, lr 0.005, decay 10",
     "model": "softmax", "data": "synthetic:noise=2,train=2000", "features": True, "samples": 200,
     "lr": 0.005, "decay": 10.0},
    {"name": "ordinary",
     "what": "softmax, 16 features, the same 200 samples each step, lr 0.4, decay 0.1",
     "model": "softmax", "data": "synthetic:noise=2,features=16,train=2000", "features": True,
     "samples": 200, "lr": 0.4, "decay": 0.1},
)


def numpy_need() -> None:
    """This process becomes another Python where that has numpy, and this one has not."""
    if importlib.util.find_spec("numpy") is not None:
        return
    system = PYTHONS[-1]
    if sys.executable != system and os.access(system, os.X_OK):
        os.execv(system, [system, "-B", "-X", "utf8", *sys.argv])
    raise Failure(FAILED, f"{sys.executable} has no numpy", f"apt-get install {PACKAGES}")


def bound_make(drill: Drill, spec: dict[str, Any], pushes: int) -> Any:
    from . import bound, lab

    drill.say(f"{spec['name']}: {pushes} perturbations")
    with lab.opened(drill, spec, bound.ROWS) as opened:
        return bound.bounds_make(opened, pushes)


def course_make(drill: Drill, course: Course, trials: int) -> tuple[Any, list[Any]]:
    """Its part of the study, and what live servers came to"""
    from . import lab, live, study

    name, lives = course.spec["name"], []
    with lab.opened(drill, course.spec, course.runs * (2 * course.steps + 2) + 2,
                    course.runs) as opened:
        runs = study.runs_make(opened, course.steps)
        tables, norms = [], []
        for period in course.periods():
            drill.say(f"{name}: C = {period}, {trials} failures")
            norms = norms or study.norms_make(runs[0], NORM_FAILURES)
            tables.append(study.table_make(runs, period, trials, course.few))
        for recovery in live.RECOVERIES if course.live and drill.settings.flag("live") else ():
            drill.say(f"{name}: {KILLS} kills of a server, {recovery} recovery")
            lives.append(live.live_make(drill, runs[0], recovery, KILLS))
        return {"problem": name, "what": opened.what, "blocks": opened.blocks,
                "steps": runs[0].steps, "target": runs[0].target, "tables": tables,
                "norms": norms}, lives


def go(drill: Drill) -> int:
    from .lab import Unreachable
    from .study import LOSSES

    preset = drill.settings.preset()
    trials = drill.settings.integer("trials") or TRIALS[preset]
    bounds = [bound_make(drill, spec, PUSHES[preset]) for spec in BOUNDS]
    parts, lives, left_out = [], [], []
    for course in COURSES:
        if course.preset > preset:
            continue
        try:
            part, live = course_make(drill, course, trials)
        except Unreachable as failure:  # with another seed it may be
            drill.say(f"left out: {failure}")
            left_out.append(str(failure))
            continue
        parts.append(part)
        lives += live
    drill.record("scar", {"trials": trials, "losses": list(LOSSES), "parts": parts, "left_out": left_out,
                          "bounds": bounds, "live": lives})
    return drill.report()
