# SPDX-License-Identifier: BSD-3-Clause
"""Tables for people, CSV, JSON."""
from typing import Any

from .. import out
from ..claims import Claim
from ..stats import Interval, normal, reduction
from .data import HALF, LOSSES, Bounds, Scheme, Study, Table

README_TEXT = """# Lost parts of the parameters

Made by

```
%s
```

| file | what |
| --- | --- |
| `summary.md` | costs by what was saved and how much was lost; the bound |
| `summary.csv` | one row a cell |
| `claims.md` | the published claims, judged by fixed criteria |
| `settings` | the settings in force |
| `drill.json` | what each failure cost; `outlast drill --report FOLDER` makes all of this from it |
| `plots/PROBLEM.svg`, `.png` | how much less partial recovery costs, by C and by fraction lost |
"""

CSV_HEAD = ("problem,period,selection,r,lost,trials,cost,cost_low,cost_high,reduction,"
            "reduction_low,reduction_high,full_cost,bytes\n")


def plus_minus(f: Interval, digits: int, by: float = 1.0) -> str:
    return f"{by * f.mean:.{digits}f} ±{by * f.half:.{digits}f}"


def cell(table: Table, costs: list[float] | None) -> str:
    if costs is None:
        return "-"
    less = reduction(costs, table.full)
    return f"{plus_minus(normal(costs), 2)} ({plus_minus(less, 0, by=100)} %)"


def table_text(table: Table) -> str:
    late = " (some runs did not arrive)" if table.late > 0 else ""
    shown = out.Table(["saved, partial recovery", "bytes", *(f"{loss} lost" for loss in LOSSES)],
                      [[scheme.name, f"{scheme.bytes:.3f}",
                        *(cell(table, costs) for costs in scheme.cost)]
                       for scheme in table.schemes if scheme.cost[HALF] is not None], words=1)
    return (f"\nC = {table.period}, {table.trials} failures: full recovery from full checkpoints "
            f"costs {plus_minus(normal(table.full), 2)} iterations{late}.\n\n{shown.markdown()}")


def bounds_text(b: Bounds) -> str:
    shown = out.Table(["perturbation", "count", "above bound + 1", "by distances as measured",
                       "largest cost - bound", "cost / bound"],
                      [[one.name, str(one.count), str(one.above), str(one.above_measured),
                        f"{one.worst:.2f}", "-" if one.tight is None else f"{one.tight:.3f}"]
                       for one in b.pushes], words=1)
    return (f"\n{b.what}. {b.steps} steps to the target, c = {b.rate:.5f} (smallest ratio "
            f"{b.rate_min:.5f}).\n\n{shown.markdown()}")


def live_text(study: Study) -> str:
    if not study.live:
        return ""
    shown = out.Table(["problem", "recovery", "kills", "cost", "unlike the study before",
                       "survivors changed", "strange", "late"],
                      [[one.problem, one.recovery, str(one.kills), plus_minus(one.mean, 2),
                        str(one.unlike), str(one.changed), str(one.strange), str(one.late)]
                       for one in study.live])
    return ("\n## Live\n\nOne of four servers killed, C = 8; partial: it alone comes back, with "
            "its running checkpoint (priority, r = 1/8), extrapolated: with extrapolate=1; full: all go back "
            f"to a full one. The same kills each way.\n\n{shown.markdown()}")


def summary(study: Study) -> str:
    text = ("Cost: iterations to the target more than without a failure; ± a 95 % interval. In "
            "brackets: how much less than full recovery from full checkpoints. Bytes: of those of "
            "full checkpoints.\n")
    for part in study.parts:
        text += (f"\n## {part.problem}\n\n{part.what}. Loss {part.target:.4f} after {part.steps} "
                 "iterations is the target.\n")
        text += "".join(table_text(table) for table in part.tables)
    text += "".join(f"\nLeft out: {why}.\n" for why in study.left_out)
    return text + live_text(study) + "\n## The bound\n" + "".join(map(bounds_text, study.bounds))


def cells(study: Study, table: Table) -> list[tuple[Scheme, float, Interval, Interval]]:
    """Scheme, fraction lost, cost, and how much less that is."""
    return [(scheme, lost, normal(costs), reduction(costs, table.full))
            for scheme in table.schemes for lost, costs in zip(study.losses, scheme.cost)
            if costs is not None]


def summary_csv(study: Study) -> str:
    text = CSV_HEAD
    for part, table in study.tables:
        for scheme, lost, cost, less in cells(study, table):
            values = (cost.mean, cost.low, cost.high, less.mean, less.low, less.high,
                      normal(table.full).mean, scheme.bytes)
            text += (f"{part.problem},{table.period},{scheme.selection},{1 / scheme.part:g},"
                     f"{lost:g},{table.trials},{','.join(f'{value:.6g}' for value in values)}\n")
    return text


def readme(study: Study) -> str:
    return README_TEXT % study.command


def bounds_of(f: Interval) -> list[float]:
    return [f.mean, f.low, f.high]


def as_json(study: Study, claims: list[Claim]) -> dict[str, Any]:
    tables = [{"problem": part.problem, "what": part.what, "steps": part.steps,
               "blocks": part.blocks, "period": table.period, "trials": table.trials,
               "late": table.late, "full_cost": bounds_of(normal(table.full)),
               "cells": [{"selection": scheme.selection, "r": 1 / scheme.part, "lost": lost,
                          "bytes": scheme.bytes, "cost": bounds_of(cost),
                          "reduction": bounds_of(less)}
                         for scheme, lost, cost, less in cells(study, table)]}
              for part, table in study.tables]
    return {"command": study.command, "folder": study.folder, "tables": tables,
            "claims": [claim.json() for claim in claims]}
