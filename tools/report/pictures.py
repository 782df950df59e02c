# SPDX-License-Identifier: BSD-3-Clause
"""What all pictures have in common: how they are drawn without a screen, and saved.

No other module imports matplotlib before this one.
"""
import logging
import math
import os
import pathlib
import tempfile
from dataclasses import dataclass

logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it says when a list of fonts takes long

# When matplotlib is imported it reads settings and writes a list of fonts. Both happen in a folder of
# its own: settings of a user would change pictures, and a home may be missing or read-only.
with tempfile.TemporaryDirectory(prefix="outlast-report-") as place:
    os.environ.update(MPLCONFIGDIR=place, MPLBACKEND="agg")
    import matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

matplotlib.rcdefaults()
matplotlib.rcParams.update({
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "outlast",  # the same data is the same file
    "font.size": 11.0,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
})

LABEL_GAP = 0.05  # of a panel's height, from one label to the next
# Told apart by people who see colours in another way too (Okabe and Ito, Tol). Grey is for what the
# others are measured by.
COLOURS = ("#777777", "#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#E69F00", "#332288", "#D55E00",
           "#882255", "#000000")


def save(figure: Figure, path: pathlib.Path) -> None:
    """As .svg and .png; what stands outside of the axes makes the picture larger."""
    figure.savefig(f"{path}.svg", bbox_inches="tight", metadata={"Date": None})
    figure.savefig(f"{path}.png", bbox_inches="tight", dpi=110)


def spread(places: list[float], gap: float, top: float = 1.0) -> list[float]:
    """Places from 0 to `top`, in the same order and near where they were, at least a gap apart."""
    order = sorted(range(len(places)), key=places.__getitem__)
    up, down = list(places), list(places)

    def push_up(of: list[float], at: list[int]) -> None:
        for below, above in zip(at, at[1:]):
            of[above] = max(of[above], of[below] + gap)

    def push_down(of: list[float], at: list[int]) -> None:
        for below, above in reversed(list(zip(at, at[1:]))):
            of[below] = min(of[below], of[above] - gap)

    push_up(up, order)
    push_down(down, order)
    middle = [(a + b) / 2 for a, b in zip(up, down)]
    if order:
        middle[order[0]] = max(middle[order[0]], 0.0)
        push_up(middle, order)
        middle[order[-1]] = min(middle[order[-1]], top)
        push_down(middle, order)
    return middle


@dataclass(frozen=True)
class End:
    """The end of a line, and its name there."""
    y: float
    name: str
    colour: str


def name_ends(axes: Axes, ends: list[End], gap: float = LABEL_GAP) -> None:
    """Names of lines to the right of the panel, whose limits are set. Ends at nan have none."""
    low, high = axes.get_ylim()
    there = [end for end in ends if not math.isnan(end.y)]
    for end, place in zip(there, spread([(end.y - low) / (high - low) for end in there], gap)):
        axes.annotate(end.name, (1.0, place), xycoords="axes fraction", xytext=(6, 0),
                      textcoords="offset points", va="center", fontsize=10, color=end.colour)
