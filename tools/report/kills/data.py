# SPDX-License-Identifier: BSD-3-Clause
"""Runs whose server was killed: what drill.json and the runs' files say."""
import math
import pathlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..runs import NAN, Line, Unreadable, number, read_line, read_report
from .figures import run_figures


@dataclass(frozen=True)
class Strategy:
    name: str
    what: str
    index: int  # in the program's table; it gives the colour
    replicas: int
    kills_max: int
    stateless: bool  # workers go on during an outage
    fault: bool  # makes a fault on purpose, and is no part of the comparison of methods


@dataclass(frozen=True)
class Case:
    """Runs that differ in their seed only."""
    name: str
    strategy: Strategy
    consistency: str
    kills: int
    workers: int

    @property
    def sync(self) -> bool:
        return self.consistency == "sync"


@dataclass
class Outage:
    """Times from the beginning of training; nan: it did not come to that."""
    killed_s: float = NAN
    first_applied_s: float = NAN
    loss_before: float = NAN
    loss_after: float = NAN
    accuracy_before: float = NAN
    accuracy_after: float = NAN
    lost: float = NAN  # gradients; nan: the report does not say

    @property
    def down_s(self) -> float:
        return self.first_applied_s - self.killed_s

    @property
    def loss_step(self) -> float:
        return self.loss_after - self.loss_before

    @property
    def accuracy_step(self) -> float:
        return self.accuracy_after - self.accuracy_before


@dataclass
class Evals:
    """Looks at the test set, at the time that their weights are of."""
    t: np.ndarray
    accuracy: np.ndarray
    loss: np.ndarray


def empty_evals() -> Evals:
    return Evals(np.empty(0), np.empty(0), np.empty(0))


@dataclass
class Run:
    case: Case
    name: str
    seed: int
    status: str  # "done", "failed", "not made"
    error: str = ""  # "failed": why
    figures: dict[str, float] = field(default_factory=dict)  # by FIGURES' keys; none: not known
    outages: list[Outage] = field(default_factory=list)
    evals: Evals = field(default_factory=empty_evals)
    line: Line = field(default_factory=lambda: Line(np.empty(0), {}))
    param_count: float = NAN

    @property
    def done(self) -> bool:
        return self.status == "done"

    def figure(self, key: str) -> float:
        return self.figures.get(key, NAN)


@dataclass
class Drill:
    command: str
    settings: dict[str, Any]
    strategies: list[Strategy]
    cases: list[Case]
    runs: list[Run]  # in the order in which they were made: seed by seed

    def of(self, case: Case) -> list[Run]:
        """Its runs that are done."""
        return [run for run in self.runs if run.case == case and run.done]

    def failed(self, case: Case) -> int:
        return sum(run.case == case and run.status == "failed" for run in self.runs)


def outages_read(report: dict[str, Any]) -> list[Outage]:
    """Those of servers: workers can be killed too, and a drill is about servers."""
    keys = Outage.__dataclass_fields__
    return [Outage(**{key: number(one, key) for key in keys}) for one in report.get("outages") or []
            if not str(one.get("target", "")).startswith("worker")]


def evals_read(report: dict[str, Any]) -> Evals:
    rows = [(number(one, "t_s"), number(one, "accuracy"), number(one, "loss"))
            for one in report.get("evals") or []]
    rows = [row for row in rows if not math.isnan(row[0]) and not math.isnan(row[1])]
    t, accuracy, loss = np.array(rows, dtype=float).reshape(-1, 3).T
    return Evals(t, accuracy, loss)


def report_check(path: pathlib.Path, run: Run, report: dict[str, Any]) -> None:
    """What a table without would be a lie."""
    for key in ("gradients_computed", "gradients_applied", "gradients_dropped", "gradients_lost",
                "wall_s"):
        if math.isnan(number(report, key)):
            raise Unreadable(f"{path}: has no {key}")
    if report.get("ended") != "done":
        raise Unreadable(f"{path}: the run ended: {report.get('ended', 'unknown')}")
    if len(run.outages) < run.case.kills:
        raise Unreadable(f"{path}: {len(run.outages)} outages of a server, not {run.case.kills}: "
                         "was it over too soon?")


def run_read(folder: pathlib.Path, run: Run, settings: dict[str, Any]) -> None:
    """Everything of a run from its two files. What cannot be read makes it a failed one."""
    path = folder / "runs" / f"{run.name}.json"
    try:
        report = read_report(path)
        run.outages = outages_read(report)
        run.evals = evals_read(report)
        report_check(path, run, report)
        run.line = read_line(path.with_suffix(".csv"))
    except Unreadable as error:
        run.status, run.error = "failed", str(error)
        return
    run.param_count = number(report, "param_count")
    run.figures = run_figures(run, report, settings)


def drill_read(folder: pathlib.Path, record: dict[str, Any]) -> Drill:
    strategies = [Strategy(index=i, **one) for i, one in enumerate(record["strategies"])]
    named = {one.name: one for one in strategies}
    cases = [Case(**{**one, "strategy": named[one["strategy"]]}) for one in record["cases"]]
    of = {case.name: case for case in cases}
    runs = [Run(**{**one, "case": of[one["case"]]}) for one in record["runs"]]
    for run in runs:
        if run.done:
            run_read(folder, run, record["settings"])
    return Drill(record["command"], record["settings"], strategies, cases, runs)
