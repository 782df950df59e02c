# SPDX-License-Identifier: BSD-3-Clause
"""One picture: time that is not useful by mean time between failures, a panel a number of servers. Both axes are
logarithmic, as the best strategies differ by parts of a thousand."""
import functools
import pathlib

from ..out import Draw
from ..pictures import COLOURS, Axes, End, Figure, name_ends, save
from .data import LADDER, Study, Table
from .tables import duration

SHOWN = ("none", "checkpoint-stop", "checkpoint", "priority", "mirror", "stateless", "chain-2", "chain-2-continue", LADDER)
LEAST = 5e-5  # of time that is not useful: less is drawn there
MOST = 1.0


def draw_panel(axes: Axes, table: Table, named: bool) -> None:
    ends = []
    for name, colour in zip(SHOWN, COLOURS):
        lost = [min(MOST, max(LEAST, 1 - table.cell(name, mtbf).ratio.mean)) for mtbf in table.mtbfs]
        wide = name == LADDER
        axes.plot(table.mtbfs, lost, color="black" if wide else colour, linewidth=3.0 if wide else 1.5,
                  linestyle=":" if wide else "-", marker="o", markersize=3)
        ends.append((lost[0], name, "black" if wide else colour))
    axes.set_xscale("log")
    axes.set_xticks(table.mtbfs, [duration(mtbf) for mtbf in table.mtbfs], rotation=45)
    axes.set_xticks([], minor=True)
    axes.set_yscale("log")
    axes.set_ylim(LEAST, MOST)
    axes.set_yticks([1e-4, 1e-3, 1e-2, 1e-1, 1], ["99.99 %", "99.9 %", "99 %", "90 %", "0 %"])
    axes.invert_yaxis()
    axes.invert_xaxis()
    axes.set_title(table.name, fontsize=11)
    axes.set_xlabel("mean time between failures of the job")
    if named:
        names_at_ends(axes, ends)


def names_at_ends(axes: Axes, ends: list[tuple[float, str, str]]) -> None:
    """In the axes' own measure, as theirs is logarithmic"""
    place = axes.transData + axes.transAxes.inverted()
    low, high = axes.get_ylim()
    name_ends(axes, [End(low + (high - low) * float(place.transform((1.0, lost))[1]), name, colour)
                     for lost, name, colour in ends], gap=0.055)


def draw(tables: list[Table], path: pathlib.Path) -> None:
    figure = Figure(figsize=(5.2 * len(tables) + 1.0, 5.4))
    panels = figure.subplots(1, len(tables), sharey=True, squeeze=False)[0]
    for axes, table in zip(panels, tables):
        draw_panel(axes, table, named=table is tables[-1])
    panels[0].set_ylabel("useful part of the time")
    figure.subplots_adjust(wspace=0.08)
    save(figure, path)


def pictures(study: Study) -> dict[str, Draw]:
    plain = [one for one in study.tables if not one.job["everything"]] or study.tables
    return {"useful": functools.partial(draw, plain[-3:])}
