# SPDX-License-Identifier: BSD-3-Clause
"""How many gradients a step should wait for: which settings, which runs, and what each run came to."""
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..drill import Drill, known, signed
from .late import lates_make

DATA = "synthetic:noise=4,train=2000"
DEPTHS = (0.1, 0.03, 0.01, 0.003, 0.001)  # of the loss, on the way down to the least
GRID_DEPTH = 2  # the target of the grid: index of DEPTHS
TRIALS = (2, 5, 5)  # by preset
TRIALS_MAX = 100
TIME_STEPS = (4000, 40000, 40000)
WORKERS = 16  # unless a setting says otherwise
STATIC = (1, 2, 3, 4, 8, 12, 14, 16)  # sixteenths of the workers
ADASYNC = (1, 2, 4, 8, 16)  # the same: AdaSync's k at first, which it has to be given
CHOSEN = ("dbw", "dbw-blind", *(f"adasync:{k}" for k in ADASYNC))
METHODS = len(STATIC) + len(CHOSEN)
DBW = len(STATIC)
ASK = 0.05  # a worker's question for weights, of a gradient
WAIT, PULL, INTERRUPT = range(3)  # enum ol_on_late
SLOW_AT, SLOW_SETTLE, SLOW_END = 160.0, 40.0, 320.0
SLOW_TRIALS = 2  # times as many runs as of a setting
TIME = {"softmax": 150.0, "mlp:16": 500.0, "cnn": 20.0}  # time_max times the learning rate, by model

# Batch, learning rate, depth, model and data. Nothing of DBW was chosen with these.
OTHER = ((128, 0.4, 1, "softmax", "synthetic:noise=3,train=2000,seed=17"),
         (128, 0.4, 0, "mlp:16", "synthetic:noise=4,train=2000,seed=18"),
         (8, 0.1, 1, "cnn", "synthetic:noise=4,shape=28x28,train=100,seed=19"))

# Published: push and wait, n = 16, static k; means of 40,000 updates by alpha
KNOWN_ALPHAS = (0.2, 0.5, 1.0)
KNOWN = {1: (0.901, 0.680, 0.295), 2: (0.943, 0.762, 0.447), 4: (0.987, 0.874, 0.678),
         6: (1.021, 0.970, 0.879), 8: (1.054, 1.068, 1.090), 10: (1.092, 1.180, 1.328),
         12: (1.144, 1.328, 1.635), 14: (1.230, 1.560, 2.114), 15: (1.308, 1.764, 2.529),
         16: (1.475, 2.188, 3.376)}

Step = tuple[float, float, float]  # when, gradients in it, mean of their losses


@dataclass(frozen=True)
class Problem:
    first: float  # loss where it begins
    least: float  # that there is

    def depth(self, share: float) -> float:
        """The loss that is so much of the way from first above least"""
        return self.least + share * (self.first - self.least)


@dataclass(frozen=True)
class Setting:
    # grid: alpha x batch x lr; scaled: a static k has k / n of the learning rate; deep: targets deep in the loss;
    # other: other models and data; many: more workers
    group: str
    workers: int
    alpha: float
    batch: int
    lr: float
    depth: int  # the deepest that is waited for
    model: str = "softmax"
    data: str = DATA

    @property
    def time_max(self) -> float:
        """Long enough for whoever is not much worse than the best; others count as there then"""
        return (500.0 if self.group == "deep" else TIME[self.model]) / self.lr

    @property
    def name(self) -> str:
        name = f"n={self.workers} alpha={self.alpha:g} B={self.batch} lr={self.lr:g}"
        if self.group == "other":
            name += f" {self.model} {self.data}"
        return name + (" k/n" if self.group == "scaled" else "")

    def k(self, method: int) -> int:
        """What a static method waits for"""
        return max(1, STATIC[method] * self.workers // WORKERS)

    def method(self, method: int) -> str:
        return f"k={self.k(method)}" if method < DBW else CHOSEN[method - DBW]

    def consistency(self, method: int) -> str:
        word, _, first = self.method(method).partition(":")
        return f"sync:{word}" + (f",k={max(1, int(first) * self.workers // WORKERS)}" if first else "")

    def rate(self, method: int) -> float:
        return self.lr * self.k(method) / self.workers if self.group == "scaled" and method < DBW else self.lr


def exp(alpha: float) -> str:
    return f"exp:mean=1s,alpha={alpha:g}"


def runs_of(drill: Drill, name: str, runs: list[dict[str, Any]], data: str | None = DATA,
            model: str = "softmax") -> Iterator[dict[str, Any]]:
    return drill.trial("dbw", name, runs=runs, **({} if data is None else {"data": data, "model": model}))


def seed_of(drill: Drill, trial: int) -> int:
    return signed(drill.settings.integer("seed") + trial)


def k_median(steps: list[Step]) -> float:
    """Nearest rank"""
    ks = sorted(k for _, k, _ in steps)
    return ks[math.ceil(0.5 * len(ks)) - 1] if ks else math.nan


def harmonic(n: int) -> float:
    total = 0.0
    for i in range(1, n + 1):
        total += 1.0 / i
    return total


def times_make(drill: Drill, steps: int) -> list[dict[str, Any]]:
    """Means over many steps of a static k, and what they should be"""
    rows = [(alpha, k) for alpha in KNOWN_ALPHAS for k in KNOWN]
    drill.say(f"times: {3 * len(rows)} means of {steps} steps")
    means = runs_of(drill, "times", [
        {"consistency": f"sync:k={k}", "workers": WORKERS, "on_late": on_late, "ask": ASK,
         "delay": exp(alpha), "seed": seed_of(drill, 0), "steps_max": steps, "skip": steps // 10}
        for alpha, k in rows for on_late in (INTERRUPT, WAIT, PULL)], data=None)
    found = [one["step_mean"] for one in means]
    return [{"alpha": alpha, "k": k, "psi": psi,
             "psi_exact": 1.0 - alpha + alpha * (harmonic(WORKERS) - harmonic(WORKERS - k)),
             "psw": psw, "psw_known": KNOWN[k][KNOWN_ALPHAS.index(alpha)], "pull": pull}
            for (alpha, k), psi, psw, pull in zip(rows, found[0::3], found[1::3], found[2::3],
                                                  strict=True)]


def span(steps: list[Step], begin: float, end: float) -> tuple[float, float]:
    """Median of k, and mean duration, of the steps from one moment to another"""
    own = [step for step in steps if begin <= step[0] < end]
    mean = (own[-1][0] - own[0][0]) / (len(own) - 1) if len(own) > 1 else math.nan
    return k_median(own), mean


def slow_make(alpha: float, pairs: list[tuple[list[Step], list[Step]]]) -> dict[str, Any]:
    """Of each seed: steps of DBW, and of those who wait for all"""
    slow: dict[str, Any] = {"alpha": alpha}
    for when, begin, end in (("before", SLOW_AT - SLOW_SETTLE, SLOW_AT),
                             ("after", SLOW_AT + SLOW_SETTLE, SLOW_END)):
        own = [span(steps, begin, end) for steps, _ in pairs]
        slow[f"k_{when}"] = [known(k) for k, _ in own]
        slow[f"step_{when}"] = [known(mean) for _, mean in own]
        slow[f"all_{when}"] = [known(span(steps, begin, end)[1]) for _, steps in pairs]
    slow["steps_to_half"] = []  # from the moment until k is at most n / 2 + 1
    for steps, _ in pairs:
        later = [k for t, k, _ in steps if t > SLOW_AT]
        half = (i for i, k in enumerate(later, 1) if k <= WORKERS // 2 + 1)
        slow["steps_to_half"].append(float(next(half, len(later))))
    order = ("alpha", "k_before", "k_after", "step_before", "step_after", "all_before", "all_after",
             "steps_to_half")
    return {key: slow[key] for key in order}


def slows_make(drill: Drill, trials: int) -> list[dict[str, Any]]:
    """Half of the workers become slower."""
    alphas = (0.0, 0.2)
    drill.say(f"half of the workers become slow: {2 * len(alphas) * trials} runs")
    found = runs_of(drill, "slow workers", [
        {"consistency": consistency, "workers": WORKERS,
         "delay": f"{exp(alpha)}+slow:workers=half,factor=5,from={SLOW_AT:g}s", "batch": 128,
         "lr": 0.2, "seed": seed_of(drill, trial), "time_max": SLOW_END}
        for alpha in alphas for trial in range(trials)
        for consistency in ("sync:dbw", f"sync:k={WORKERS}")])
    steps = (one["steps"] for one in found)
    pairs = list(zip(steps, steps))
    return [slow_make(alpha, pairs[i * trials:(i + 1) * trials]) for i, alpha in enumerate(alphas)]


def settings_of(preset: int) -> list[Setting]:
    quick = preset == 0
    made = [Setting("grid", WORKERS, alpha, batch, lr, GRID_DEPTH)
            for alpha in (1.0, 0.0, 0.2, 0.5)[:2 if quick else 4]
            for batch in (512, 128)[:1 if quick else 2] for lr in (0.8, 0.2)[:1 if quick else 2]]
    if not quick:
        made += [Setting("scaled", WORKERS, 1.0, batch, 0.8, GRID_DEPTH) for batch in (512, 128)]
        made.append(Setting("deep", WORKERS, 1.0, 512, 0.8, len(DEPTHS) - 1))
        made += [Setting("other", WORKERS, alpha, *other) for alpha in (1.0, 0.5, 0.2) for other in OTHER]
        # what costs most is of the longest preset
        made += [Setting("many", workers, 1.0, 128, 0.8, GRID_DEPTH)
                 for workers in (4, 64, 256)[:2 if preset == 1 else 3]]
    return made


def cell_make(setting: Setting, problem: Problem, method: int,
              found: list[dict[str, Any]]) -> dict[str, Any]:
    """What the runs of a setting by one method came to, seed by seed"""
    times, missed = [], []
    for share in DEPTHS[:setting.depth + 1]:
        loss = problem.depth(share)
        there = [next((t for t, seen in one["looks"] if seen is not None and seen <= loss), math.inf)
                 for one in found]
        times.append([min(t, setting.time_max) for t in there])
        missed.append(sum(t > setting.time_max for t in there))
    lists = [one["steps"] for one in found]
    return {"method": setting.method(method), "k": setting.k(method) if method < DBW else 0,
            "time": times, "missed": missed, "k_mean": [one["k_mean"] for one in found],
            # medians of the first and of the last quarter of the steps
            "k_early": [known(k_median(steps[:len(steps) // 4])) for steps in lists],
            "k_late": [known(k_median(steps[len(steps) - len(steps) // 4:])) for steps in lists],
            # of its steps that waited for all
            "all_share": [sum(k == setting.workers for _, k, _ in steps) / len(steps)
                          if steps else None for steps in lists]}


def setting_make(drill: Drill, setting: Setting, problem: Problem, trials: int,
                 curve: list[list[Any]]) -> dict[str, Any]:
    drill.say(f"{setting.name}: {METHODS * trials} runs")
    found = runs_of(drill, setting.name, [
        {"consistency": setting.consistency(method), "workers": setting.workers,
         "delay": exp(setting.alpha), "batch": setting.batch, "lr": setting.rate(method),
         "seed": seed_of(drill, trial), "target": problem.depth(DEPTHS[setting.depth]),
         "time_max": setting.time_max}
        for method in range(METHODS) for trial in range(trials)], setting.data, setting.model)
    cells = []
    for method in range(METHODS):
        own = [one for _, one in zip(range(trials), found)]
        cells.append(cell_make(setting, problem, method, own))
        if method == DBW and not curve and setting.alpha >= 1.0:
            # for the picture: what DBW did in the first run of a setting
            steps = own[0]["steps"]
            curve += [[t, int(k), loss] for t, k, loss in steps[::len(steps) // 500 + 1]]
    return {"group": setting.group, "workers": setting.workers, "alpha": setting.alpha,
            "batch": setting.batch, "lr": setting.lr, "time_max": setting.time_max, "label": setting.name,
            "cells": cells}


def problems_of(drill: Drill, settings: list[Setting]) -> dict[tuple[str, str], Problem]:
    """By model and data. The CNN has thousands of parameters for each sample, and fits all samples: its least is 0."""
    made = {}
    for model, data in dict.fromkeys((one.model, one.data) for one in settings):
        losses, = drill.trial("dbw", f"{model} {data}", data=data, model=model, least=model != "cnn", runs=[])
        made[model, data] = Problem(losses["first"], losses["least"])
    return made


def go(drill: Drill) -> int:
    preset = drill.settings.preset()
    trials = min(drill.settings.integer("trials") or TRIALS[preset], TRIALS_MAX)
    steps = TIME_STEPS[preset]
    chosen = settings_of(preset)
    problems = problems_of(drill, chosen)
    problem = problems["softmax", DATA]
    times = times_make(drill, steps)
    slows = slows_make(drill, SLOW_TRIALS * trials)
    curve: list[list[Any]] = []
    settings = [setting_make(drill, setting, problems[setting.model, setting.data], trials, curve)
                for setting in chosen]
    lates = lates_make(drill, preset, WORKERS, DATA, problem.depth(DEPTHS[GRID_DEPTH]), trials)
    drill.record("dbw", {
        "quick": preset == 0, "workers": WORKERS, "seeds": trials, "time_steps": steps * 9 // 10,
        "first_loss": problem.first, "least_loss": problem.least, "depths": list(DEPTHS),
        "settings": settings, "times": times, "slows": slows, "lates": lates, "curve": curve})
    return drill.report()
