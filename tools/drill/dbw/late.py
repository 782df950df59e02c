# SPDX-License-Identifier: BSD-3-Clause
"""Late gradients that are of the next step, beside dropping them: which settings, which runs, what each came to."""
from dataclasses import dataclass
from typing import Any

from ..drill import Drill, signed

METHODS = ("dbw", "dbw,late=next", "dbw,late=aged", "k=1,late=next", "k=4,late=next", "k=1,late=aged", "k=4,late=aged")
LARGE = 3.2  # four times the largest learning rate of the grid


@dataclass(frozen=True)
class Setting:
    alpha: float
    batch: int
    lr: float

    @property
    def group(self) -> str:
        return "large" if self.lr >= LARGE else "grid"

    @property
    def time_max(self) -> float:
        """Long enough for DBW, late gradients dropped"""
        return 150.0 / min(self.lr, 1.0)

    @property
    def name(self) -> str:
        return f"alpha={self.alpha:g} B={self.batch} lr={self.lr:g}"


def settings_of(preset: int) -> list[Setting]:
    if preset == 0:
        return [Setting(1.0, 128, 0.8)]
    return [Setting(alpha, batch, lr) for lrs, alphas in (((0.8, 0.2), (1.0, 0.5, 0.2)), ((LARGE,), (1.0, 0.2)))
            for alpha in alphas for batch in (512, 128) for lr in lrs]


def cell_make(method: str, time_max: float, loss: float, found: list[dict[str, Any]]) -> dict[str, Any]:
    """What the runs of a setting by one method came to, seed by seed"""
    there = [next((t for t, seen in one["looks"] if seen is not None and seen <= loss), None) for one in found]
    return {"method": method, "time": [time_max if t is None else min(t, time_max) for t in there],
            "missed": sum(t is None or t > time_max for t in there), "k_mean": [one["k_mean"] for one in found],
            "wasted": [one["late_mean"] / (one["late_mean"] + one["k_mean"]) for one in found]}


def lates_make(drill: Drill, preset: int, workers: int, data: str, loss: float, trials: int) -> list[dict[str, Any]]:
    """The time to this loss on this data"""
    lates = []
    for setting in settings_of(preset):
        drill.say(f"late gradients, {setting.name}: {len(METHODS) * trials} runs")
        found = list(drill.trial("dbw", setting.name, data=data, runs=[
            {"consistency": f"sync:{method}", "workers": workers, "delay": f"exp:mean=1s,alpha={setting.alpha:g}",
             "batch": setting.batch, "lr": setting.lr, "seed": signed(drill.settings.integer("seed") + trial),
             "target": loss, "time_max": setting.time_max} for method in METHODS for trial in range(trials)]))
        cells = [cell_make(method, setting.time_max, loss, found[i * trials:(i + 1) * trials])
                 for i, method in enumerate(METHODS)]
        lates.append({"group": setting.group, "name": setting.name, "time_max": setting.time_max, "cells": cells})
    return lates
