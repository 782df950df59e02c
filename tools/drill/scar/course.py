# SPDX-License-Identifier: BSD-3-Clause
"""What a lost part of the parameters costs: which problems, how many trials."""
from dataclasses import dataclass
from typing import Any

from ..drill import Drill, signed

TRIALS = (10, 30, 100)  # by preset
PUSHES = (120, 1200, 1200)
NORM_FAILURES = 1000
KILLS = 20  # live, of each problem and way of recovery
PERIODS = (8, 16, 32)  # C
LOSSES = (0.25, 0.5, 0.75)  # fractions lost
ROWS, FEATURES = range(2)  # enum scar_shape


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
            "model": "softmax", "data": "synthetic:noise=2", "shape": FEATURES, "samples": 500,
            "spread": 1.5, "lr": 0.02}, 64, preset=0),
    Course({"name": "pixels",
            "what": "softmax on Fashion-MNIST, pixels 0 to 1, the same 300 images each step, lr 0.1; "
                    "blocks: pixels (10 weights each)",
            "model": "softmax", "data": "fashion-mnist", "shape": FEATURES, "samples": 300,
            "unit": True, "lr": 0.1}, 64),
    Course({"name": "rows",
            "what": "softmax on Fashion-MNIST, pixels -1 to 1, the same 300 images each step, lr "
                    "0.01; blocks: an image's row of a class (28 weights each)",
            "model": "softmax", "data": "fashion-mnist", "shape": ROWS, "cut": 28, "samples": 300,
            "lr": 0.01}, 64, few=True, live=True),
    Course({"name": "cnn",
            "what": "CNN on Fashion-MNIST, 32 images drawn each step, lr 0.05, loss of 96 images; "
                    "blocks: outputs of each layer, biases of each layer",
            "model": "cnn", "data": "fashion-mnist", "shape": ROWS, "samples": 32, "drawn": True,
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
     "model": "softmax", "data": "synthetic:noise=2,train=2000", "shape": FEATURES, "samples": 200,
     "lr": 0.005, "decay": 10.0},
    {"name": "ordinary",
     "what": "softmax, 16 features, the same 200 samples each step, lr 0.4, decay 0.1",
     "model": "softmax", "data": "synthetic:noise=2,features=16,train=2000", "shape": FEATURES,
     "samples": 200, "lr": 0.4, "decay": 0.1},
)


def trial(drill: Drill, kind: str, spec: dict[str, Any], **of: Any) -> Any:
    record, = drill.trial("scar", spec["name"], kind=kind, spec=spec,
                          seed=signed(drill.settings.integer("seed")), **of)
    return record


def bound_make(drill: Drill, spec: dict[str, Any], pushes: int) -> Any:
    drill.say(f"{spec['name']}: {pushes} perturbations")
    return trial(drill, "bound", spec, pushes=pushes)


def part_make(drill: Drill, course: Course, trials: int) -> Any:
    part: Any = None
    for period in course.periods():
        drill.say(f"{course.spec['name']}: C = {period}, {trials} failures")
        one = trial(drill, "part", course.spec, steps=course.steps, runs=course.runs, period=period,
                    trials=trials, failures=NORM_FAILURES, few=course.few)
        if part is None:
            part = one
        else:
            part["tables"] += one["tables"]
    return part


def live_make(drill: Drill, course: Course) -> list[Any]:
    lives = []
    for full in (False, True):
        drill.say(f"{course.spec['name']}: {KILLS} kills of a server, "
                  f"{'full' if full else 'partial'} recovery")
        lives.append(trial(drill, "live", course.spec, steps=course.steps, runs=course.runs,
                           kills=KILLS, full=full))
    return lives


def go(drill: Drill) -> int:
    preset = drill.settings.preset()
    trials = drill.settings.integer("trials") or TRIALS[preset]
    bounds = [bound_make(drill, spec, PUSHES[preset]) for spec in BOUNDS]
    parts, lives = [], []
    for course in COURSES:
        if course.preset > preset:
            continue
        parts.append(part_make(drill, course, trials))
        if course.live and drill.settings.flag("live"):
            lives += live_make(drill, course)
    drill.record("scar", {"trials": trials, "losses": list(LOSSES), "parts": parts,
                          "bounds": bounds, "live": lives})
    return drill.report()
