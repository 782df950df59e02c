# SPDX-License-Identifier: BSD-3-Clause
"""What failures cost: trajectories, what is saved when, what is lost.

The unperturbed run is stored whole, x_0 .. x_K, K being the first iteration whose loss is at the
target. A failure after iteration T is x_T with the blocks that are lost taken from whatever x they
were last saved at; from there on it is run until its loss is at the target too. Its cost is how many
iterations later than K that is, and may be negative.

Each failure draws its own target between the loss at K and the lowest one before, for which K is the
first iteration, too. With the loss at K itself the least perturbation would cost an iteration, and full
recovery, which comes to the same losses again, would never be rounded up.
"""
import math
from typing import Any

import numpy

from ..drill import signed
from ..errors import FAILED, Failure
from .draw import Draw
from .lab import FULL, PRIORITY, RANDOM, ROUND_ROBIN, SELECTIONS, Lab, total

LATE = 4  # a run that is not at the target after LATE * K counts as being there
LOSSES = (0.25, 0.5, 0.75)  # fractions lost
PARTS = (2, 4, 8)  # 1 / r
NOTHING = len(SELECTIONS)  # nothing is saved: what is lost begins as it was at first
EXTRAPOLATED = NOTHING + 1  # priority, and what is lost is extrapolated to the last turn
INT8, INT8_EXTRAPOLATED = EXTRAPOLATED + 1, EXTRAPOLATED + 2  # the same of int8 deltas, in as many bytes
MOVED = (EXTRAPOLATED, INT8, INT8_EXTRAPOLATED)  # what a name, which has no distance, cannot have
NAMES = (*SELECTIONS, "nothing", "extrapolated", "int8", "int8-extrapolated")
SCHEMES = ((FULL, 1), *((selection, part) for selection in (PRIORITY, ROUND_ROBIN, RANDOM)
                        for part in PARTS), (NOTHING, 1), *((selection, 8) for selection in MOVED))
SCALED = 256  # floats of one scale (src/wire/format.h)
CODED_BYTES = (64 + 4096) / 4096  # of a float that is coded; of any other 4
RENEWED = 3  # one in so many bytes is of blocks as they are (src/checkpoint/deltas.c)
NORM_PERIOD = 8  # C of the theorems on norms
# iteration of a failure; blocks that are lost; target
STREAM_STEP, STREAM_ORDER, STREAM_TARGET = 1, 2, 3


class Run:
    def __init__(self, lab: Lab, run: int, stored: int) -> None:
        self.lab = lab
        self.run = run
        self.first = lab.rows_take(stored + 2)
        lab.rows[self.first] = lab.rows[1 + run]
        self.losses = lab.walk(run, self.first, 0, stored + 1, keep=True)
        if not all(map(math.isfinite, self.losses)):
            raise Failure(FAILED, "training diverged", lab.name)
        self.aim(self.losses[-1])

    def aim(self, target: float) -> bool:
        """K is the first iteration at the target; false: it is not reached."""
        self.target = target
        self.steps = next((k for k, loss in enumerate(self.losses) if loss <= target), 0)
        return self.losses[self.steps] <= target

    def target_of(self, trial: int) -> float:
        """One for which K is the first iteration"""
        above, at = min(self.losses[:self.steps]), self.losses[self.steps]
        return at + Draw(self.lab.seed, trial, STREAM_TARGET).uniform() * (above - at)

    def states(self):
        return self.lab.rows[self.first:self.first + len(self.losses)]

    def arrive(self, step: int, row: int, target: float) -> tuple[int, bool]:
        """When a run that has the state in `row` after iteration `step` is at the target, and whether
        it comes late; it is overwritten."""
        losses = self.lab.walk(self.run, row, step, max(LATE * self.steps - step, 0), target=target)
        there = bool(losses) and losses[-1] <= target
        return step + len(losses) - there, not there


def runs_make(lab: Lab, steps: int) -> list[Run]:
    """K of each is when it is at the loss that they have on average after so many steps."""
    stored = steps + steps // 2 if lab.runs > 1 else steps
    runs = [Run(lab, run, stored) for run in range(lab.runs)]
    target = 0.0
    for run in runs:
        target += run.losses[steps] / lab.runs
    for run in runs:
        if not run.aim(target) or run.steps < 2:
            raise lab.unreachable("a run is too far off the others")
    return runs


def distances(lab: Lab, x, y) -> list[float]:
    """How far each block is apart"""
    return numpy.sqrt(numpy.bincount(lab.block_of, lab.apart2(x, y), lab.blocks)).tolist()


def gone_on(lab: Lab, turn: int, last, before, z, older):
    """Each block moved on to the turn at the pace of its last two saves, but by no more than it had moved
    between them"""
    share = numpy.minimum((turn - last) / numpy.maximum(last - before, 1), 1.0)
    return z + share.astype(numpy.float32)[lab.block_of] * (z - older)


class Saved:
    """Which iteration each block was last saved at, after each iteration, and which one before that:
    everything every `period` iterations, or a part every period / part."""

    def __init__(self, run: Run, selection: int, part: int, period: int) -> None:
        lab, states = run.lab, run.states()
        self.period = period
        self.at = numpy.zeros((run.steps + 1, lab.blocks), numpy.intp)
        self.before = self.at.copy()
        self.every = every = period // part
        self.share = floats = turns = 0
        kept = states[0].copy()
        if selection == NOTHING:
            return
        if selection != FULL:
            lab.ask({"select": selection, "fraction": 1 / part, "seed": signed(lab.seed), "at": 0})
        for step in range(1, run.steps + 1):
            self.at[step], self.before[step] = self.at[step - 1], self.before[step - 1]
            if step % every != 0:
                continue
            turns += 1
            if selection == FULL:
                self.at[step] = step
                floats += lab.floats
                continue
            distance = None
            if selection == PRIORITY:
                distance = distances(lab, states[step], kept)
            chosen = lab.ask({"turn": distance, "at": 0})["chosen"]
            self.before[step, chosen] = self.at[step, chosen]
            self.at[step, chosen] = step
            floats += int(lab.lengths[chosen].sum())
            if selection == PRIORITY:
                fresh = (self.at[step] == step)[lab.block_of]
                kept[fresh] = states[step][fresh]
        # of what full checkpoints every C write in as many iterations
        self.share = floats * part / (turns * lab.floats)

    def state(self, run: Run, step: int):
        """As a failure after `step` finds it on the disk."""
        last = self.at[step]
        if (last == last[0]).all():
            return run.states()[last[0]]
        return run.states()[last[run.lab.block_of], numpy.arange(run.lab.floats)]

    def extrapolated(self, run: Run, step: int):
        """The same, gone on to the last turn"""
        last, before = self.at[step], self.before[step]
        block_of, floats = run.lab.block_of, numpy.arange(run.lab.floats)
        z, older = run.states()[last[block_of], floats], run.states()[before[block_of], floats]
        return gone_on(run.lab, step // self.every * self.every, last, before, z, older)


def decoded(delta):
    """What int8 says of these floats: of each SCALED the largest through 127, and as often as it fits"""
    padded = numpy.zeros(-(-len(delta) // SCALED) * SCALED, numpy.float32)
    padded[:len(delta)] = delta
    rows = padded.reshape(-1, SCALED)
    largest = numpy.abs(rows).max(axis=1, keepdims=True)
    scale = largest / numpy.float32(127)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        times = numpy.rint(rows * (numpy.float32(127) / largest))
    return numpy.where(scale < 2.0**-120, numpy.float32(0), scale * times).ravel()[:len(delta)]


class Coded:
    """What a running checkpoint of int8 deltas has after each turn, by priority, in as many bytes as the
    part of the floats: blocks as they are, each in its turn, and of others what their deltas add up to"""

    def __init__(self, run: Run, part: int, period: int) -> None:
        lab, states = run.lab, run.states()
        self.every = every = period // part
        order = numpy.argsort(lab.block_of, kind="stable")
        kept = states[0].copy()
        self.kept, self.floats = [kept.copy()], 0.0
        self.at = [numpy.zeros(lab.blocks, numpy.intp)]  # turn that saved each block, after each turn …
        self.before = [self.at[0].copy()]  # … and the one that saved it before
        coded = (1 - 1 / RENEWED) / part * 4 / CODED_BYTES
        for at, selection, fraction in ((0, PRIORITY, min(coded, 1.0)), (1, ROUND_ROBIN, 1 / (RENEWED * part))):
            lab.ask({"select": selection, "fraction": fraction, "seed": signed(lab.seed), "at": at})
        for step in range(every, run.steps + 1, every):
            distance = distances(lab, states[step], kept)
            of_delta, whole = numpy.zeros(lab.blocks, bool), numpy.zeros(lab.blocks, bool)
            of_delta[lab.ask({"turn": distance, "at": 0})["chosen"]] = True
            whole[lab.ask({"turn": None, "at": 1})["chosen"]] = True
            of_delta &= ~whole
            floats = order[of_delta[lab.block_of[order]]]
            kept[floats] += decoded(states[step][floats] - kept[floats])
            kept[whole[lab.block_of]] = states[step][whole[lab.block_of]]
            self.floats += int(lab.lengths[of_delta].sum()) * CODED_BYTES / 4 + int(lab.lengths[whole].sum())
            saved = of_delta | whole
            self.before.append(numpy.where(saved, self.at[-1], self.before[-1]))
            self.at.append(numpy.where(saved, len(self.kept), self.at[-1]))
            self.kept.append(kept.copy())
        turns = len(self.kept) - 1
        # of what full checkpoints every C write in as many iterations
        self.share = self.floats * part / (turns * lab.floats) if turns > 0 else 1.0

    def state(self, _: Run, step: int):
        """As a failure after `step` finds it on the disk."""
        return self.kept[step // self.every]

    def extrapolated(self, run: Run, step: int):
        """As Saved has it"""
        turn = step // self.every
        last, before = self.at[turn], self.before[turn]
        z, older = self.kept[turn], self.kept[turn].copy()
        for then in numpy.unique(before):
            floats = (before == then)[run.lab.block_of]
            older[floats] = self.kept[then][floats]
        return gone_on(run.lab, turn, last, before, z, older)


def saved_make(run: Run, schemes, period: int):
    """Of each scheme; what only differs in how it is read back is made once"""
    made: dict[tuple[int, int], Saved | Coded] = {}
    for selection, part in schemes:
        by = {EXTRAPOLATED: PRIORITY, INT8_EXTRAPOLATED: INT8}.get(selection, selection)
        if (by, part) not in made:
            made[by, part] = Coded(run, part, period) if by == INT8 else Saved(run, by, part, period)
        yield made[by, part]


def failure_step(run: Run, trial: int, seed: int) -> int:
    return Draw(seed, trial, STREAM_STEP).geometric(run.steps / 2.0, run.steps - 1)


def failure_order(lab: Lab, trial: int, seed: int):
    """Whose turn it is to be lost"""
    return Draw(seed, trial, STREAM_ORDER).shuffle(lab.blocks)


def lost_count(lab: Lab, fraction: float) -> int:
    return max(int(fraction * lab.blocks + 0.5), 1)


def is_tried(selection: int, part: int, loss: float, few: bool) -> bool:
    """Every fraction lost for what the headlines are about, one half for the rest."""
    small = part == 8 or selection in (FULL, NOTHING)
    if few and not small:
        return False
    return loss == 0.5 or selection == FULL or (small and selection in (PRIORITY, *MOVED))


def table_make(runs: list[Run], period: int, trials: int, few: bool) -> dict[str, Any]:
    """The same failures for every scheme, steps geometric with mean K / 2.

    They are shared out among the runs, which have one target: where chance decides how long a run
    takes, one alone would be compared with better or worse luck than it had itself. few: of the schemes
    that save parts only those with the smallest r.
    """
    lab = runs[0].lab
    row = lab.rows_take(2)
    full, late = [0.0] * trials, 0
    # a name has no pace
    schemes = [scheme for scheme in SCHEMES if not (lab.labels and scheme[0] in MOVED)]
    share = [0.0] * len(schemes)
    cost = [[[0.0] * trials if is_tried(*scheme, loss, few) else None for loss in LOSSES]
            for scheme in schemes]
    for first, run in enumerate(runs):
        saved = list(saved_make(run, schemes, period))
        share = [sum_ + one.share / len(runs) for sum_, one in zip(share, saved)]
        for trial in range(first, trials, len(runs)):
            step, target = failure_step(run, trial, lab.seed), run.target_of(trial)
            order = failure_order(lab, trial, lab.seed)[lab.block_of]
            full[trial] = float(step % period)
            for (selection, _), one, costs in zip(schemes, saved, cost):
                ahead = selection in (EXTRAPOLATED, INT8_EXTRAPOLATED)
                kept = one.extrapolated(run, step) if ahead else one.state(run, step)
                for loss, own in zip(LOSSES, costs):
                    if own is None:
                        continue
                    lost = order < lost_count(lab, loss)
                    lab.rows[row] = numpy.where(lost, kept, run.states()[step])
                    at, is_late = run.arrive(step, row, target)
                    own[trial] = float(at - run.steps)
                    late += is_late
    lab.free = row
    return {"period": period, "trials": trials, "late": late, "full": full,
            "schemes": [{"selection": NAMES[selection], "part": part, "bytes": of, "cost": costs}
                        for (selection, part), of, costs in zip(schemes, share, cost)]}


def ratios_make(run: Run, saved: Saved, lost: int, failures: int, seed: int) -> tuple[Any, int]:
    """Squared norms of what partial recovery does, by those of full recovery; how many are longer"""
    lab, steps, trial = run.lab, [], 0
    while len(steps) < failures:
        step = failure_step(run, trial, seed)
        if step % saved.period != 0:  # else nothing has moved since it was saved
            steps.append((step, len(steps), trial))
        trial += 1
    ratios, longer, before = numpy.empty(failures), 0, 0
    moved2 = numpy.empty(0)
    for step, at, trial in sorted(steps):
        if step != before:
            before, moved2 = step, lab.apart2(saved.state(run, step), run.states()[step])
            whole = total(moved2)
        part = total(moved2[(failure_order(lab, trial, seed) < lost)[lab.block_of]])
        ratios[at] = part / whole
        longer += part > whole
    return ratios, longer


def norms_make(run: Run, failures: int, period: int = NORM_PERIOD) -> list[dict[str, Any]]:
    """How far a failure throws the parameters, for a fraction lost: the theorems on norms."""
    lab, norms = run.lab, []
    saved = Saved(run, FULL, 1, period)
    for at, loss in enumerate(LOSSES, 1):
        lost = lost_count(lab, loss)
        ratios, longer = ratios_make(run, saved, lost, failures, lab.seed + at)
        mean = total(ratios) / failures
        sd = math.sqrt(total(numpy.square(ratios - mean)) / (failures - 1.0))
        norms.append({"lost": lost / lab.blocks, "ratio": mean, "sd": sd, "failures": failures,
                      "longer": longer})
    return norms
