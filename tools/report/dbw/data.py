# SPDX-License-Identifier: BSD-3-Clause
"""What the virtual clock showed, seed by seed, as drill.json has it."""
from dataclasses import dataclass
from typing import Any

from ..stats import Interval, moments, ratio
from .late import Late, late_read

GRID_DEPTH = 2  # the target of the grid: index of Study.depths
DBW, BLIND, ADASYNC = "dbw", "dbw-blind", "adasync:"  # the last with its k at first, in sixteenths of the workers


@dataclass
class Cell:
    """What the runs of a setting by one method came to."""
    method: str
    k: int  # that a static method waits for; 0: the method chooses
    time: list[list[float]]  # by depth, seed by seed; the setting's time_max if not there by then
    missed: list[int]  # by depth: runs of which that is so
    k_mean: list[float]
    k_early: list[float]  # median of the first quarter of steps to the target
    k_late: list[float]  # and of the last
    all_share: list[float]  # of its steps that waited for all

    def mean(self, depth: int) -> float:
        return moments(self.time[depth]).mean


@dataclass
class Setting:
    group: str  # "grid": alpha x batch x lr; "scaled", "deep", "other", "many": tools/drill/dbw/course.py
    workers: int
    alpha: float
    batch: int
    lr: float
    time_max: float
    label: str
    cells: list[Cell]

    @property
    def name(self) -> str:
        return self.label

    @property
    def depths(self) -> int:
        """So many targets were waited for."""
        return len(self.cells[0].time)

    @property
    def statics(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.k > 0]

    @property
    def all(self) -> Cell:
        """Waits for all workers."""
        return self.statics[-1]

    def cell(self, method: str) -> Cell:
        return next(cell for cell in self.cells if cell.method == method)

    @property
    def adasyncs(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.method.startswith(ADASYNC)]

    def best(self, depth: int = GRID_DEPTH) -> Cell:
        """The static method of the smallest mean time to a depth."""
        return min(self.statics, key=lambda cell: cell.mean(depth))

    def faster(self, than: Cell, depth: int = GRID_DEPTH) -> Interval:
        """How many times as fast as a method DBW is; seeds are pairs."""
        return ratio(than.time[depth], self.cell(DBW).time[depth])

    def speed(self, depth: int = GRID_DEPTH) -> Interval:
        """How many times as fast as the best static one DBW is."""
        return self.faster(self.best(depth), depth)


@dataclass
class Time:
    """Means over many steps of a static k, and what they should be."""
    alpha: float
    k: int
    psi: float  # push and interrupt
    psi_exact: float
    psw: float  # push and wait
    psw_known: float | None
    pull: float  # and ask: a question takes 5 % of a gradient


@dataclass
class Slow:
    """Half of the workers become slower; seed by seed."""
    alpha: float
    k_before: list[float]
    k_after: list[float]
    step_before: list[float]
    step_after: list[float]
    all_before: list[float]  # the same of those who wait for all
    all_after: list[float]
    steps_to_half: list[float]


@dataclass
class Study:
    command: str
    folder: str
    quick: bool  # not all settings
    workers: int  # of the grid
    seeds: int
    time_steps: int  # that the means of Time are of
    first_loss: float
    least_loss: float
    depths: list[float]
    settings: list[Setting]
    times: list[Time]
    slows: list[Slow]
    lates: list[Late]  # late gradients that are of the next step
    curve: list[list[float]]  # time, k, loss of DBW: one seed of the first setting with alpha 1

    def group(self, name: str) -> list[Setting]:
        return [setting for setting in self.settings if setting.group == name]

    @property
    def grid(self) -> list[Setting]:
        return self.group("grid")


def setting_read(one: dict[str, Any]) -> Setting:
    return Setting(**{**one, "cells": [Cell(**cell) for cell in one["cells"]]})


def study_read(record: dict[str, Any]) -> Study:
    rest = {key: value for key, value in record.items() if key != "experiment"}
    return Study(**{**rest,
                    "settings": [setting_read(one) for one in record["settings"]],
                    "times": [Time(**one) for one in record["times"]],
                    "slows": [Slow(**one) for one in record["slows"]],
                    "lates": [late_read(one) for one in record["lates"]]})
