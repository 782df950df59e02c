# SPDX-License-Identifier: BSD-3-Clause
"""Two pictures: `grid`, the time to the target by k in every setting of the grid, and that of the
methods that choose k; `course`, k and loss of DBW over time, in one run."""
import functools
import pathlib

from ..out import Draw
from ..pictures import COLOURS, Axes, End, Figure, name_ends, save
from ..stats import student
from .data import ADASYNC, BLIND, DBW, GRID_DEPTH, Cell, Setting, Study
from .judge import mean

CHOSEN = {DBW: COLOURS[7], BLIND: COLOURS[1], f"{ADASYNC}4": COLOURS[3]}
IN_A_ROW = 4


def draw_cells(axes: Axes, cells: list[Cell], **style) -> None:
    points = [student(cell.time[GRID_DEPTH]) for cell in cells]
    axes.errorbar([mean(cell.k_mean) for cell in cells], [point.mean for point in points],
                  [point.shown for point in points], elinewidth=0.8, capsize=3, marker="o",
                  markersize=4, **style)


def draw_setting(axes: Axes, setting: Setting) -> None:
    draw_cells(axes, setting.statics, color=COLOURS[0], linewidth=1.2)
    for method, colour in CHOSEN.items():
        cell = setting.cell(method)
        draw_cells(axes, [cell], color=colour, linestyle="none")
    axes.set_title(setting.name, fontsize=10)
    axes.set_xlim(0, setting.workers + 1)
    axes.set_ylim(0, axes.get_ylim()[1])
    times = {method: setting.cell(method).mean(GRID_DEPTH) for method in CHOSEN}
    name_ends(axes, [End(time, f"{method} {time:.0f}", CHOSEN[method])
                     for method, time in times.items()], gap=0.07)


def grid_title(study: Study) -> str:
    speeds = [setting.speed().mean for setting in study.grid]
    return (f"time to the target by k (grey: k fixed): DBW is {min(speeds):.2f} to "
            f"{max(speeds):.2f} times as fast as the best fixed k of a setting")


def draw_grid(study: Study, path: pathlib.Path) -> None:
    columns = min(len(study.grid), IN_A_ROW)
    rows = -(-len(study.grid) // IN_A_ROW)
    width, height = 5.0 * columns, 3.4 * rows  # inches, as the margins below
    figure = Figure(figsize=(width, height))
    figure.suptitle(grid_title(study), fontsize=12, y=1 - 0.2 / height)
    for i, setting in enumerate(study.grid):
        draw_setting(figure.add_subplot(rows, columns, i + 1), setting)
    figure.supxlabel("k, mean", fontsize=11, y=0.1 / height)
    figure.supylabel("time; a gradient takes 1", fontsize=11, x=0.1 / width)
    figure.subplots_adjust(left=0.8 / width, right=1 - 1.2 / width, bottom=0.6 / height,
                           top=1 - 0.8 / height, hspace=0.35, wspace=0.7)
    save(figure, path)


def draw_course(study: Study, path: pathlib.Path) -> None:
    t, k, loss = zip(*study.curve)
    figure = Figure(figsize=(11.0, 6.4))
    uneven = next(setting for setting in study.grid if setting.alpha >= 1)
    figure.suptitle(f"DBW in one run of {uneven.name}: k from {k[0]:g} to {k[-1]:g} as the loss "
                    f"falls from {loss[0]:.3g} to {loss[-1]:.3g}", fontsize=12)
    top, bottom = figure.subplots(2, 1, sharex=True)
    top.step(t, k, where="post", color=COLOURS[7], linewidth=1.2)
    top.set_ylabel("k")
    top.set_ylim(0, study.workers + 1)
    top.yaxis.get_major_locator().set_params(integer=True)
    bottom.plot(t, loss, color=COLOURS[1], linewidth=1.2)
    bottom.set_yscale("log")
    bottom.yaxis.set_major_formatter("{x:g}")
    bottom.yaxis.set_minor_formatter("{x:g}")
    bottom.set_ylabel("loss of a step")
    bottom.set_xlabel("time; a gradient takes 1")
    figure.subplots_adjust(top=0.94)
    save(figure, path)


def pictures(study: Study) -> dict[str, Draw]:
    found: dict[str, Draw] = {"grid": functools.partial(draw_grid, study)}
    if study.curve:
        found["course"] = functools.partial(draw_course, study)
    return found
