# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of every number of kills and workers: five kinds, a line a case.

The first kind, `outage`, tells the whole in one panel: asynchronous cases only, what each lost, and
the result as its title. The run without kills is in every picture, for comparison.

A line has its name at its end and no legend. Thin vertical lines show each kill, and in the colour
of each case when its first gradient is applied again.
"""
import functools
import math
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..out import Draw
from ..pictures import COLOURS, LABEL_GAP, Axes, End, Figure, name_ends, save
from ..runs import last_by
from ..stats import moments
from .data import Case, Drill, Run
from .tables import case_figure

POINTS = 401


@dataclass(frozen=True)
class Kind:
    name: str
    panels: tuple[tuple[str, str], ...]  # column, label of the y axis
    is_story: bool = False  # asynchronous cases only, with the result in words
    top: float = 0.0  # of y; 0: as the lines need it


KINDS = (
    Kind("outage", (("accuracy", "test accuracy"),), is_story=True, top=1.0),
    Kind("accuracy", (("accuracy", "test accuracy"),), top=1.0),
    Kind("loss", (("loss", "test loss"),)),
    Kind("gradients", (("computed", "gradients computed"), ("queued", "queued"),
                       ("applied", "applied"), ("lost", "lost"))),
    Kind("utilisation", (("worker_cpu", "cores of the workers"),
                         ("server_cpu", "cores of the server"))),
)


@dataclass
class Sheet:
    """What the pictures of one number of kills and workers show."""
    drill: Drill
    kills: int
    workers: int

    @property
    def name(self) -> str:
        return f"k{self.kills}-w{self.workers}"

    def cases(self, kind: Kind) -> list[Case]:
        return [case for case in self.drill.cases
                if case.workers == self.workers and self.drill.of(case) and
                (case.kills == self.kills or case.strategy.kills_max == 0) and
                not (kind.is_story and case.sync)]

    def figure(self, case: Case, key: str) -> float:
        return case_figure(self.drill, case, key).mean


@dataclass
class Curve:
    """The mean over the seeds of a case, as far as all of them go."""
    case: Case
    t: np.ndarray
    y: np.ndarray

    @property
    def last(self) -> float:
        return float(self.y[-1])


def run_at(run: Run, column: str, times: np.ndarray) -> np.ndarray:
    """Accuracy and loss are those of the evaluations, at the time that their weights are of: the
    time line has them only once they have been computed."""
    if column in ("accuracy", "loss"):
        return last_by(run.evals.t, getattr(run.evals, column), times)
    return run.line.at(column, times)


def curve(drill: Drill, case: Case, column: str) -> Curve:
    runs = [run for run in drill.of(case) if run.line.t.size > 0]
    end = min((float(run.line.t[-1]) for run in runs), default=0.0)
    times = np.linspace(0.0, end, POINTS)
    rows = np.ma.masked_invalid([run_at(run, column, times) for run in runs] or [times * math.nan])
    return Curve(case, times, rows.mean(axis=0).filled(math.nan))


def colour_of(case: Case) -> str:
    """By the order of the strategies."""
    return COLOURS[case.strategy.index % len(COLOURS)]


def label(sheet: Sheet, kind: Kind, case: Case) -> str:
    name = case.strategy.name
    if not kind.is_story:
        return f"{name} {case.consistency}" + (", no kill" if case.kills < sheet.kills else "")
    if case.kills == 0:
        return f"{name}: no kill"
    return (f"{name}: {sheet.figure(case, 'downtime_s'):.2f} s down, "
            f"{sheet.figure(case, 'gradients_lost'):.0f} lost")


def many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def loses(lost: float) -> str:
    return f"loses {many(round(lost), 'gradient')}" if lost > 0 else "loses nothing"


def title(sheet: Sheet, kind: Kind) -> str:
    """What came of it: the strategy that was back first, and the one that ends least accurate."""
    text = f"{many(sheet.kills, 'kill')}, {many(sheet.workers, 'worker')}"
    down = {case.name: sheet.figure(case, "downtime_s") for case in sheet.cases(kind)}
    methods = [case for case in sheet.cases(kind)
               if not case.strategy.fault and not math.isnan(down[case.name])]
    if not kind.is_story or not methods:
        return text
    first = min(methods, key=lambda case: down[case.name])
    last = min(methods, key=lambda case: sheet.figure(case, "test_accuracy"))
    said = [f"{case.strategy.name} {'goes on ' if case is first else ''}after "
            f"{down[case.name]:.2f} s and {loses(sheet.figure(case, 'gradients_lost'))}"
            for case in ([first] if last is first else [first, last])]
    return f"{text}: {', '.join(said)}"


@dataclass(frozen=True)
class Mark:
    """An outage of a case, on average over its runs that came so far."""
    case: Case
    k: int
    killed_s: float
    back_s: float


def marks(sheet: Sheet, kind: Kind) -> Iterator[Mark]:
    for case in sheet.cases(kind):
        for k in range(case.kills):
            ends = [run.outages[k] for run in sheet.drill.of(case)
                    if k < len(run.outages) and not math.isnan(run.outages[k].down_s)]
            if ends:
                yield Mark(case, k, moments(one.killed_s for one in ends).mean,
                           moments(one.first_applied_s for one in ends).mean)


def draw_marks(axes: Axes, sheet: Sheet, kind: Kind) -> None:
    """In the story they have their words."""
    first = []
    for mark in marks(sheet, kind):
        axes.axvline(mark.killed_s, color="black", linewidth=0.8, linestyle=":")
        axes.axvline(mark.back_s, color=colour_of(mark.case), linewidth=0.8)
        if kind.is_story and mark.k == 0:
            axes.annotate(f"{mark.case.strategy.name} back",
                          (mark.back_s, 0.02 + LABEL_GAP * len(first)),
                          xycoords=("data", "axes fraction"), xytext=(4, 0),
                          textcoords="offset points", color=colour_of(mark.case), fontsize=10,
                          bbox={"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.5})
            first.append(mark.killed_s)
    if first:
        axes.annotate("killed", (min(first), 0.96), xycoords=("data", "axes fraction"),
                      xytext=(-4, 0), textcoords="offset points", ha="right", fontsize=10)


def draw_panel(axes: Axes, sheet: Sheet, kind: Kind, column: str) -> None:
    curves = [curve(sheet.drill, case, column) for case in sheet.cases(kind)]
    known = [one.y[~np.isnan(one.y)] for one in curves]
    top = kind.top or 1.05 * max((float(y.max()) for y in known if y.size > 0), default=0.0) or 1.0
    axes.set_ylim(0, top)
    axes.set_xlim(0, max((one.t[-1] for one in curves), default=0.0) or 1.0)
    axes.set_xlabel("seconds")
    for one in curves:
        axes.plot(one.t, one.y, color=colour_of(one.case),
                  linestyle="--" if one.case.sync else "-",
                  linewidth=2.4 if one.case.strategy.replicas > 0 else 1.6)
    draw_marks(axes, sheet, kind)
    name_ends(axes, [End(one.last, label(sheet, kind, one.case), colour_of(one.case))
                     for one in curves])


def draw(sheet: Sheet, kind: Kind, path: pathlib.Path) -> None:
    rows, columns = (len(kind.panels) + 1) // 2, min(len(kind.panels), 2)
    figure = Figure(figsize=(8.5 * columns, 5.0 * rows))
    figure.suptitle(title(sheet, kind), fontsize=12)
    for i, (column, name) in enumerate(kind.panels):
        axes = figure.add_subplot(rows, columns, i + 1)
        axes.set_ylabel(name)
        draw_panel(axes, sheet, kind, column)
    figure.subplots_adjust(top=0.93, wspace=0.55, hspace=0.25)
    save(figure, path)


def sheets(drill: Drill) -> list[Sheet]:
    """The run without kills alone is worth a sheet only where there is no other to be in."""
    found: dict[tuple[int, int], Sheet] = {}
    shown = [case for case in drill.cases if drill.of(case)]
    for case in shown:
        others = [one for one in shown if one.workers == case.workers]
        worth = (any(one.kills == case.kills and one.strategy.kills_max != 0 for one in others) or
                 all(one.kills == case.kills for one in others))
        if worth:
            found.setdefault((case.kills, case.workers), Sheet(drill, case.kills, case.workers))
    return list(found.values())


def pictures(drill: Drill) -> dict[str, Draw]:
    """By the name of the file."""
    return {f"{kind.name}-{sheet.name}": functools.partial(draw, sheet, kind)
            for sheet in sheets(drill) for kind in KINDS}
