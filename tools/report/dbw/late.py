# SPDX-License-Identifier: BSD-3-Clause
"""Late gradients that are of the next step, against dropping them: what was measured, claims with criteria that were
fixed beforehand, and a table."""
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..claims import TRIALS_MIN, Claim
from ..out import Table
from ..stats import Interval, moments, ratio, student

DROP, NEXT, AGED = "dbw", "dbw,late=next", "dbw,late=aged"
LEAST = 0.95  # of the speed with dropping, in every setting


@dataclass
class Cell:
    """What the runs of a setting by one method came to, seed by seed."""
    method: str
    time: list[float]  # to the target; the setting's time_max if not there by then
    missed: int  # runs of which that is so
    k_mean: list[float]
    wasted: list[float]  # of the gradients computed: dropped as late


@dataclass
class Late:
    """A setting."""
    group: str  # "grid"; "large": the learning rate is
    name: str
    time_max: float
    cells: list[Cell]

    def cell(self, method: str) -> Cell:
        return next(cell for cell in self.cells if cell.method == method)

    def faster(self, method: str) -> Interval:
        """How many times as fast as DBW that drops late ones a method is; seeds are pairs."""
        return ratio(self.cell(DROP).time, self.cell(method).time)


def late_read(one: dict[str, Any]) -> Late:
    return Late(**{**one, "cells": [Cell(**cell) for cell in one["cells"]]})


def shown(f: Interval) -> str:
    return f"{f.mean:.2f} ({f.low:.2f} to {f.high:.2f})"


def over(lates: list[Late], method: str) -> Interval:
    """The geometric mean over settings; a seed is one value."""
    seeds = range(len(lates[0].cells[0].time))
    f = student([moments(math.log(late.cell(DROP).time[seed] / late.cell(method).time[seed]) for late in lates).mean
                 for seed in seeds])
    return Interval(math.exp(f.mean), math.exp(f.low), math.exp(f.high))


def wasted(lates: list[Late], method: str) -> str:
    return f"{100 * moments(share for late in lates for share in late.cell(method).wasted).mean:.0f} %"


def judge(lates: list[Late], claim: Claim, method: str, everywhere: bool) -> None:
    if not lates:
        claim.cannot("not all settings: --preset quick is a trial")
        return
    of_all = over(lates, method)
    speeds = {late.name: late.faster(method) for late in lates}
    least = min(speeds, key=lambda name: speeds[name].mean)
    enough = sum(speed.mean >= LEAST for speed in speeds.values())
    claim.add(f"{shown(of_all)} times as fast over {len(lates)} settings; at least {LEAST} times in {enough} of them, "
              f"least {shown(speeds[least])}, at {least}; gradients wasted: {wasted(lates, method)}, where late ones "
              f"are dropped {wasted(lates, DROP)}")
    if claim.enough(len(lates[0].cells[0].time), "seeds", TRIALS_MIN) and claim.enough(len(lates), "settings", 2):
        claim.decide(of_all.low > 1 and (not everywhere or enough == len(lates)))


def of(lates: list[Late], group: str) -> list[Late]:
    return [late for late in lates if late.group == group]


CLAIMS: tuple[tuple[str, str, str, Callable[[list[Late], Claim], None]], ...] = (
    ("L1", "not published: DBW is faster where late gradients are of the next step (late=next)",
     "over the grid with alpha > 0 faster than dropping beyond doubt, and at least 0.95 times as fast in every setting",
     lambda lates, claim: judge(of(lates, "grid"), claim, NEXT, True)),
    ("L2", "not published: DBW is faster where they are, and count less (late=aged)", "the same",
     lambda lates, claim: judge(of(lates, "grid"), claim, AGED, True)),
    ("L3", "not published: late=next, where the learning rate is four times as large",
     "over these settings faster than dropping beyond doubt",
     lambda lates, claim: judge(of(lates, "large"), claim, NEXT, False)),
    ("L4", "not published: late=aged, where the learning rate is four times as large", "the same",
     lambda lates, claim: judge(of(lates, "large"), claim, AGED, False)))


def time_text(cell: Cell) -> str:
    f = student(cell.time)
    sure = f" ±{f.half:.1f}" if math.isfinite(f.half) else ""
    return f"{'>' if cell.missed > 0 else ''}{f.mean:.1f}{sure}"


def text(lates: list[Late]) -> str:
    if not lates:
        return ""
    rows = [[late.name, *(time_text(cell) for cell in late.cells), shown(late.faster(NEXT)), shown(late.faster(AGED)),
             ", ".join(f"{moments(late.cell(method).k_mean).mean:.1f}" for method in (DROP, NEXT, AGED)),
             wasted([late], DROP)] for late in lates]
    table = Table(["setting", *(cell.method for cell in lates[0].cells), "next by drop", "aged by drop",
                   "k: drop, next, aged", "wasted: drop"], rows, words=1)
    return ("\n## Late gradients\n\nTimes to 1 % of the way. dbw: late ones are dropped; late=next: they are of the "
            "next step; late=aged: they count less there. \"by drop\": how many times as fast as dbw. Wasted: of the "
            f"gradients computed, those dropped; with late=next and late=aged none is.\n\n{table.markdown()}")


def as_json(lates: list[Late]) -> list[dict[str, Any]]:
    return [{"group": late.group, "name": late.name, "cells": [
        {"method": cell.method, "time": [f.mean, f.low, f.high], "missed": cell.missed,
         "k_mean": moments(cell.k_mean).mean, "wasted": moments(cell.wasted).mean}
        for cell, f in ((cell, student(cell.time)) for cell in late.cells)]} for late in lates]
