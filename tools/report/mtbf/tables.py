# SPDX-License-Identifier: BSD-3-Clause
"""Tables for people, CSV, JSON."""
from typing import Any

from .. import out
from ..claims import Claim
from ..stats import moments
from .data import LADDER, LONG_S, Cell, Study, Table

README_TEXT = """# Useful time

Made by

```
%s
```

| file | what |
| --- | --- |
| `summary.md` | useful time by strategy, servers and mean time between failures; what the model assumes |
| `summary.csv` | one row a cell |
| `claims.md` | claims, judged by fixed criteria |
| `settings` | the settings in force |
| `drill.json` | what each training came to; `outlast drill --report FOLDER` makes all of this from it |
| `plots/useful.svg`, `.png` | useful time by mean time between failures |
"""

CSV_HEAD = ("servers,everything,mtbf_s,method,replicas,every_s,trials,arrived,ratio,ratio_low,ratio_high,failures,"
            "lost_s,waited_s,machines\n")


def duration(seconds: float) -> str:
    for unit, name in ((604800, "week"), (86400, "day"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:g} {name}"
    return f"{seconds:g} s"


def shown(cell: Cell, limit: float) -> str:
    if cell.arrived == 0:
        return f"< {1 / limit:g}"
    late = len(cell.ratios) - cell.arrived
    return f"{cell.ratio.mean:.4f}" + (f" ({late} late)" if late else "")


def table_text(table: Table, study: Study) -> str:
    names = list(study.methods)
    rows = [[name, *(shown(table.cell(name, mtbf), study.limit) for mtbf in table.mtbfs)] for name in names]
    rows.append(["ladder: replicas", *(str(table.cell(LADDER, mtbf).replicas) for mtbf in table.mtbfs)])
    text = out.Table(["strategy", *map(duration, table.mtbfs)], rows, words=1).markdown()
    return f"\n## {table.name}\n\n{text}"


def details_text(table: Table, study: Study) -> str:
    """What it takes, at one mean time between failures"""
    mtbf = LONG_S if LONG_S in table.mtbfs else table.mtbfs[0]
    rows = []
    for name in study.methods:
        cell = table.cell(name, mtbf)
        rows.append([name, f"{cell.ratio.mean:.4f} ±{cell.ratio.shown:.4f}", f"{moments(cell.failures).mean:.0f}",
                     f"{moments(cell.lost_s).mean:.0f}", f"{moments(cell.waited_s).mean:.0f}",
                     "-" if cell.every_s is None else f"{cell.every_s:.0f}",
                     f"{cell.price:.2f}" if cell.arrived else "-"])
    text = out.Table(["strategy", "useful", "failures", "s thrown away", "s waited", "s between checkpoints",
                      "machine hours"], rows, words=1).markdown()
    return (f"\n### {table.name}, a failure each {duration(mtbf)}\n\nOf a training of {table.job['hours']:g} useful hours. "
            "Machine hours: over those of a job without replicas that loses nothing, a machine each server and "
            f"worker.\n\n{text}")


def constants_text(c: dict[str, Any]) -> str:
    def points(name: str) -> str:
        return ", ".join(f"{share:.2f} (1/{1 / part:.0f})" for part, share in c[name] if part > 0)

    return (f"A failover takes {c['failover_s']:.2f} s, of a host {c['lease_s']:g} s; a chain that has lost all replicas is founded {c['found_s']:g} s after one is there again; a server that is there again serves "
            f"after {c['restore_s']:.2f} s and what its state takes. Workers that go on without a part of the weights make "
            f"so much of their progress: {points('efficiency')}. Where that part is lost, priority checkpoints throw away "
            f"so much of what full ones do: {points('rework')}. A checkpoint that is written takes {100 * c['stall']:g} % "
            "of the rate.")


def assumed_text(study: Study) -> str:
    job = study.tables[0].job
    return (f"\n## What the model assumes\n\nA server holds {job['params']:g} parameters, and {job['state']:g} numbers of "
            f"each; a step takes {job['step']:g} s; {job['network']:g} bytes a second each, storage {job['storage']:g} "
            f"of all. A lost process is there again after {job['down']:g} s, a host after {job['host_down']:g} s. Of "
            "failures 40 % take a server, 40 % a worker, 15 % a host with one of each, 5 % all checkpoints; a replica "
            f"more can fail, too. A lost worker is not waited for. {constants_text(study.constants)}\n")


def live_text(study: Study) -> str:
    if study.live is None:
        return ""
    rows = [[row.method, str(row.seed), str(row.kills), f"{row.live:.3f}", f"{row.model:.3f}"]
            for name in study.live.methods for row in study.live.of(name)]
    text = out.Table(["strategy", "seed", "kills", "live", "model"], rows, words=1).markdown()
    return (f"\n## Live\n\nReal processes: two servers, two workers, {study.live.seconds:g} s, processes killed at random "
            f"moments, each there again after 3 s. Measured for the model, of one loss each: "
            f"{constants_text(study.live.constants)}\n\n{text}")


def summary(study: Study) -> str:
    counts = " or ".join(map(str, sorted({len(cell.ratios) for table in study.tables for cell in table.cells})))
    text = (f"Useful time over all time: mean of {counts} trainings in virtual time. Above the columns: mean time "
            f"between failures of the job. < {1 / study.limit:g}: none was done in {study.limit:g} times as long as "
            "undisturbed.\n\n")
    text += "".join(f"- {name}: {what}\n" for name, what in study.methods.items())
    text += "".join(table_text(table, study) for table in study.tables)
    middle = next((one for one in (study.table(64), *study.tables) if one is not None))
    rows = [[duration(mtbf), *(f"{moments(one.ratios).mean:.4f}" for one in study.intervals if one.mtbf_s == mtbf)]
            for mtbf in dict.fromkeys(one.mtbf_s for one in study.intervals)]
    factors = [f"{factor:g}" for factor in dict.fromkeys(one.factor for one in study.intervals)]
    text += details_text(middle, study)
    text += "\n### Full checkpoints, times the interval of Young and Daly\n\n" + \
        out.Table(["mean time between failures", *factors], rows, words=1).markdown()
    return text + assumed_text(study) + live_text(study)


def summary_csv(study: Study) -> str:
    text = CSV_HEAD
    for table in study.tables:
        for cell in table.cells:
            values = (cell.ratio.mean, cell.ratio.low, cell.ratio.high, moments(cell.failures).mean,
                      moments(cell.lost_s).mean, moments(cell.waited_s).mean, cell.price)
            every = "" if cell.every_s is None else f"{cell.every_s:.6g}"
            text += (f"{table.servers},{table.job['everything']:g},{cell.mtbf_s:g},{cell.method},{cell.replicas},{every},"
                     f"{len(cell.ratios)},{cell.arrived},{','.join(f'{value:.6g}' for value in values)}\n")
    return text


def readme(study: Study) -> str:
    return README_TEXT % study.command


def as_json(study: Study, claims: list[Claim]) -> dict[str, Any]:
    return {"command": study.command, "folder": study.folder,
            "tables": [{"job": table.job,
                        "cells": [{"method": cell.method, "replicas": cell.replicas, "mtbf_s": cell.mtbf_s,
                                   "ratio": [cell.ratio.mean, cell.ratio.low, cell.ratio.high],
                                   "arrived": cell.arrived, "trials": len(cell.ratios)} for cell in table.cells]}
                       for table in study.tables],
            "live": None if study.live is None else
            {"constants": study.live.constants, "rows": [vars(row) for row in study.live.rows]},
            "claims": [claim.json() for claim in claims]}
