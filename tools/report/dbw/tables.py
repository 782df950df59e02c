# SPDX-License-Identifier: BSD-3-Clause
"""Tables for people, CSV, JSON."""
import math
from typing import Any

from ..claims import Claim
from ..out import Table
from ..stats import Interval, student
from . import late
from .data import BLIND, DBW, GRID_DEPTH, Cell, Setting, Study
from .judge import mean, shown

GROUPS = (("grid", "The grid"), ("scaled", "A static k has k / n of the learning rate"),
          ("deep", "Deep in the loss"), ("other", "Other data and models"), ("many", "Few and many workers"))
CSV_HEAD = ("workers,alpha,batch,lr,target,method,seeds,missed,time,time_low,time_high,k_mean,"
            "k_early,k_late\n")

README_TEXT = """# Not waiting for the slowest

Made by

```
%s
```

| file | what |
| --- | --- |
| `summary.md` | times to targets by how many gradients a step waits for; what slow workers do; \
how long steps take |
| `summary.csv` | one row a setting, target and method |
| `claims.md` | the published claims, judged by fixed criteria |
| `settings` | the settings in force |
| `drill.json` | what each run came to; `outlast drill --report FOLDER` makes all of this from it |
| `plots/grid.svg`, `.png` | time to the target by k, and what the others make of it |
| `plots/course.svg`, `.png` | DBW's k and loss over time, in one run |
"""


def time_cell(cell: Cell, depth: int) -> str:
    f = student(cell.time[depth])
    sure = f" ±{f.half:.1f}" if math.isfinite(f.half) else ""
    return f"{'>' if cell.missed[depth] > 0 else ''}{f.mean:.1f}{sure}"


def setting_row(study: Study, setting: Setting, depth: int) -> list[str]:
    dbw = setting.cell(DBW)
    return [setting.name, f"{study.depths[depth]:g}",
            *(time_cell(cell, depth) for cell in setting.cells), shown(setting.speed(depth)),
            setting.best(depth).method,
            f"{mean(dbw.k_mean):.1f}, {mean(dbw.k_early):.1f} to {mean(dbw.k_late):.1f}"]


def group_text(study: Study, group: str, head: str) -> str:
    """The grid is judged at one target, the others are shown on their way too."""
    rows = [setting_row(study, setting, depth) for setting in study.group(group)
            for depth in range(GRID_DEPTH if group == "grid" else 0, setting.depths)]
    if not rows:
        return ""
    methods = [f"{cell.k}" if cell.k else cell.method for cell in study.group(group)[0].cells]
    lines = Table(["setting", "target", f"k = {methods[0]}", *methods[1:], "dbw by best", "best", "dbw: k"], rows,
                  words=1).markdown()
    return f"\n## {head}\n\n{lines}"


def faster_row(setting: Setting) -> list[str]:
    depth = setting.depths - 1
    than = (setting.all, setting.cell(BLIND), *setting.adasyncs)
    return [setting.name, f"{shown(setting.speed(depth))}, {setting.best(depth).method}",
            *(shown(setting.faster(cell, depth)) for cell in than)]


def faster_text(study: Study) -> str:
    others = study.group("other")
    if not others:
        return ""
    lines = Table(["setting", "best static k", "k = n", BLIND, *(cell.method for cell in others[0].adasyncs)],
                  [faster_row(setting) for setting in others], words=1).markdown()
    return ("\n## Other data and models: how many times as fast DBW is\n\nTo the last target of each; seeds are pairs. "
            f"A run that was not there in time counts as if it was there then.\n\n{lines}")


def slow_text(study: Study) -> str:
    columns = ("k_before", "k_after", "steps_to_half", "step_before", "step_after", "all_before",
               "all_after")
    shown_as = Table(["alpha", "k before", "k after", "steps", "step before", "after",
                      "k = n: before", "after"],
                     [[f"{slow.alpha:g}", *(f"{mean(getattr(slow, key)):.2f}" for key in columns)]
                      for slow in study.slows], words=0)
    return ("\n## Half of the workers become 5 times slower\n\nMedian k and mean duration of a "
            f"step before and after; steps until k is at most 9.\n\n{shown_as.markdown()}")


def times_text(study: Study) -> str:
    shown_as = Table(["alpha", "k", "PsI", "closed form", "PsW", "known", "Pl"],
                     [[f"{one.alpha:g}", str(one.k), f"{one.psi:.4f}", f"{one.psi_exact:.4f}",
                       f"{one.psw:.3f}", "-" if one.psw_known is None else f"{one.psw_known:.3f}",
                       f"{one.pull:.3f}"] for one in study.times], words=0)
    return (f"\n## Duration of a step\n\nn = {study.workers}, means of {study.time_steps} steps; a "
            "gradient takes 1 on average. PsI: push and interrupt; PsW: push and wait; Pl: pull, "
            f"which asks for 5 % of that.\n\n{shown_as.markdown()}")


def summary(study: Study) -> str:
    text = ("Softmax regression on `synthetic:noise=4,train=2000`, a clock in which a gradient "
            f"takes 1 on average (1 - alpha + alpha Exp(1)), push and wait, {study.seeds} seeds. "
            "Times to the target: mean ± 95 % interval; > : some runs were not there in time. A "
            f"target is so much of the way from the first loss, {study.first_loss:.4f}, above the "
            f"least that there is, {study.least_loss:.4f}. \"dbw by best\": how many times as fast "
            "as the best static k DBW is, with a 95 % interval; its k: mean, median of the first "
            "quarter of steps, of the last. Other data and models have losses of their own; the "
            "least of a CNN is 0.\n")
    text += "".join(group_text(study, group, head) for group, head in GROUPS)
    return text + faster_text(study) + slow_text(study) + times_text(study) + late.text(study.lates)


def summary_csv(study: Study) -> str:
    text = CSV_HEAD
    for s in study.settings:
        for depth in range(s.depths):
            for cell in s.cells:
                f = student(cell.time[depth])
                values = (f.mean, f.low, f.high, mean(cell.k_mean), mean(cell.k_early),
                          mean(cell.k_late))
                text += (f"{s.workers},{s.alpha:g},{s.batch},{s.lr:g},{study.depths[depth]:g},"
                         f"{cell.method},{study.seeds},{cell.missed[depth]},"
                         f"{','.join(f'{value:.6g}' for value in values)}\n")
    return text


def readme(study: Study) -> str:
    return README_TEXT % study.command


def bounds_of(f: Interval) -> list[float]:
    return [f.mean, f.low, f.high]


def setting_json(study: Study, s: Setting) -> dict[str, Any]:
    cells = [{"method": cell.method, "target": study.depths[depth],
              "time": bounds_of(student(cell.time[depth])), "missed": cell.missed[depth],
              "k_mean": mean(cell.k_mean)} for depth in range(s.depths) for cell in s.cells]
    return {"workers": s.workers, "alpha": s.alpha, "batch": s.batch, "lr": s.lr,
            "time_max": s.time_max, "dbw_by_best": bounds_of(s.speed(s.depths - 1)),
            "cells": cells}


def as_json(study: Study, claims: list[Claim]) -> dict[str, Any]:
    return {"command": study.command, "folder": study.folder, "seeds": study.seeds,
            "settings": [setting_json(study, setting) for setting in study.settings],
            "lates": late.as_json(study.lates), "claims": [claim.json() for claim in claims]}
