# SPDX-License-Identifier: BSD-3-Clause
"""Perturbations against the bound on their cost.

Where a run converges linearly, |x_{k+1} - x*| <= c |x_k - x*|, a perturbation of norm d after iteration
T costs at most log(1 + c^-T d / |x_0 - x*|) / log(1/c) iterations more until |x - x*| is below a
target, whatever the target. The bound is on real numbers; a count of iterations may be above it by less
than 1.

That takes the unperturbed run to converge by exactly c an iteration. One that does not, being faster at
first, has a cost of at most T - K + log((|x_T - x*| + d) / target) / log(1/c): the same with the distance
as measured.
"""
import math
from typing import Any

import numpy

from .draw import Draw
from .lab import Lab, total
from .study import LATE

STEPS_MAX = 400
FAR = 10  # x* is where FAR * STEPS_MAX steps lead to
AHEAD = 8  # steps between two looks
ROWS = STEPS_MAX + 3 + AHEAD
TARGET = 1e-2  # of the first distance
NORM_MIN, NORM_MAX = 0.01, 1.0  # of the first distance: of random and adversarial ones
TELLING = 5  # bounds below say little of how tight they are
RANDOM, AGAINST, RESET = range(3)  # any direction; away from x*; some blocks as they were at first
PUSHES = ("random", "adversarial", "reset")
STREAM_PUSH = 32


def bound(rate: float, step: int, norm: float, first_distance: float) -> float:
    """Iterations that a perturbation of a norm after iteration `step` costs at most."""
    return math.log1p(math.pow(rate, -float(step)) * norm / first_distance) / -math.log(rate)


def distances(states, limit):
    """Of each, as a sum in the order of its floats."""
    return numpy.sqrt(numpy.cumsum(numpy.square(states.astype(float) - limit), axis=1)[:, -1])


class Descent:
    """The unperturbed run"""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        first = lab.rows_take(STEPS_MAX + 2)
        self.row = lab.rows_take(1 + AHEAD)
        self.states = lab.rows[first:first + STEPS_MAX + 1]
        self.states[0] = lab.rows[1]
        lab.rows[self.row] = lab.rows[1]
        lab.walk(0, self.row, 0, FAR * STEPS_MAX)
        self.limit = lab.rows[self.row].copy()
        lab.walk(0, first, 0, STEPS_MAX, keep=True)
        self.distance = distances(self.states, self.limit).tolist()
        self.target = TARGET * self.distance[0]
        self.steps = next((k for k, d in enumerate(self.distance) if d < self.target), 0)
        if self.steps == 0:
            raise lab.unreachable()
        rates = [b / a for a, b in zip(self.distance[:self.steps], self.distance[1:])]
        self.rate, self.rate_min = max(rates), min(rates)
        if self.rate >= 1.0:
            raise lab.unreachable()

    def pushed(self, kind: int, step: int, draw: Draw):
        """The state after `step`, thrown off"""
        x = self.states[step]
        size = self.distance[0] * NORM_MIN * math.pow(NORM_MAX / NORM_MIN, draw.uniform())
        fraction = draw.uniform()
        if kind == RESET:
            lost = draw.uniforms(self.lab.blocks) < fraction
            return numpy.where(lost[self.lab.block_of], self.states[0], x)
        way = draw.normals(self.lab.floats).astype(numpy.float32) if kind == RANDOM \
            else x - self.limit
        along = total(numpy.square(way.astype(float)))
        return x + (size / math.sqrt(along) * way.astype(float)).astype(numpy.float32)

    def arrive(self, step: int, y) -> int:
        """When a run that has y after iteration `step` is at the target"""
        rows, at = self.lab.rows[self.row:self.row + AHEAD + 1], step
        rows[0] = y
        while at < LATE * STEPS_MAX:
            self.lab.walk(0, self.row, at, AHEAD, keep=True)
            there = numpy.flatnonzero(distances(rows[:AHEAD], self.limit) < self.target)
            if len(there):
                return min(at + int(there[0]), LATE * STEPS_MAX)
            at += AHEAD
            rows[0] = rows[AHEAD]
        return LATE * STEPS_MAX


def bounds_make(lab: Lab, pushes: int) -> dict[str, Any]:
    run = Descent(lab)
    found = [{"name": name, "count": 0, "above": 0, "above_measured": 0, "worst": 0.0, "tight": None}
             for name in PUSHES]
    costs, limits = [0.0] * len(PUSHES), [0.0] * len(PUSHES)
    for trial in range(pushes):
        draw, kind = Draw(lab.seed, trial, STREAM_PUSH), trial % len(PUSHES)
        step = 1 + draw.below(run.steps - 1)
        y = run.pushed(kind, step, draw)
        norm = float(distances(y[None], run.states[step])[0])
        cost = float(run.arrive(step, y) - run.steps)
        limit = bound(run.rate, step, norm, run.distance[0])
        measured = step - run.steps + \
            math.log((run.distance[step] + norm) / run.target) / -math.log(run.rate)
        own = found[kind]
        own["worst"] = max(own["worst"], cost - limit) if own["count"] > 0 else cost - limit
        own["count"] += 1
        own["above"] += cost > limit + 1.0
        own["above_measured"] += cost > measured + 1.0
        if limit >= TELLING:
            costs[kind] += cost
            limits[kind] += limit
    for own, cost, limit in zip(found, costs, limits):
        own["tight"] = cost / limit if limit > 0.0 else None
    return {"what": lab.what, "steps": run.steps, "rate": run.rate, "rate_min": run.rate_min,
            "pushes": found}
