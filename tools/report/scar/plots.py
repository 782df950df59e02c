# SPDX-License-Identifier: BSD-3-Clause
"""A picture a problem: how much less partial recovery costs, by C with half lost, and by the
fraction lost with the largest C. The result is the title."""
import functools
import pathlib
from collections.abc import Sequence

from ..out import Draw
from ..pictures import COLOURS, Axes, End, Figure, name_ends, save
from ..stats import Interval
from .data import HALF, LOSSES, Part, Study

SCHEMES = (("full", 1), ("priority", 8), ("round-robin", 8), ("random", 8), ("extrapolated", 8), ("int8", 8),
           ("int8-extrapolated", 8))

ALL_LOSSES = ("full", "priority", "extrapolated", "int8", "int8-extrapolated")


def colour_of(scheme: tuple[str, int]) -> str:
    return COLOURS[(0, 7, 1, 3, 2, 4, 5)[SCHEMES.index(scheme)]]


def name_of(scheme: tuple[str, int]) -> str:
    return "full checkpoints" if scheme[0] == "full" else f"{scheme[0]} 1/{scheme[1]}"


def draw_lines(axes: Axes, x: Sequence[float],
               lines: dict[tuple[str, int], list[Interval]]) -> None:
    for scheme, points in lines.items():
        axes.errorbar(x, [100 * p.mean for p in points], [100 * p.shown for p in points],
                      color=colour_of(scheme), linewidth=1.6, elinewidth=0.8, capsize=3, marker="o",
                      markersize=4)
    axes.set_ylabel("less cost, %")
    axes.set_ylim(*axes.get_ylim())
    name_ends(axes, [End(100 * points[-1].mean, name_of(scheme), colour_of(scheme))
                     for scheme, points in lines.items()], gap=0.06)


def title(part: Part) -> str:
    largest = part.tables[-1]
    less = largest.less("priority", 8, HALF)
    return (f"{part.problem}: with half lost and C = {largest.period}, partial recovery from "
            f"priority 1/8 costs {100 * less.mean:.0f} % less")


def draw(part: Part, losses: list[float], path: pathlib.Path) -> None:
    figure = Figure(figsize=(14.0, 4.8))
    figure.suptitle(title(part), fontsize=12)
    left, right = figure.subplots(1, 2)
    periods = [table.period for table in part.tables]
    schemes = [scheme for scheme in SCHEMES if part.tables[-1].has(scheme[0])]
    draw_lines(left, periods, {scheme: [table.less(*scheme, HALF) for table in part.tables]
                               for scheme in schemes})
    left.set_xscale("log", base=2)
    left.set_xticks(periods, [str(period) for period in periods])
    left.set_xlabel("C, half lost")
    draw_lines(right, losses, {scheme: [part.tables[-1].less(*scheme, loss)
                                        for loss in range(len(losses))]
                               for scheme in schemes if scheme[0] in ALL_LOSSES})
    right.set_xticks(losses, LOSSES)
    right.set_xlabel(f"lost, C = {periods[-1]}")
    figure.subplots_adjust(wspace=0.42)
    save(figure, path)


def pictures(study: Study) -> dict[str, Draw]:
    return {part.problem: functools.partial(draw, part, study.losses)
            for part in study.parts if part.tables}
