# SPDX-License-Identifier: BSD-3-Clause
"""What all pictures have in common: how they are drawn without a screen, and saved."""
import logging
import pathlib

logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it says where it keeps fonts

import matplotlib  # noqa: E402  the level comes first

matplotlib.use("agg")
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

from matplotlib.figure import Figure  # noqa: E402  the settings come first


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
