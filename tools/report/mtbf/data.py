# SPDX-License-Identifier: BSD-3-Clause
"""What trainings in virtual time came to, and real ones, as drill.json has it."""
from dataclasses import dataclass
from typing import Any

from ..stats import Interval, moments, student

LADDER = "ladder"
HALF, LONG_S = 0.5, 1200  # a ratio; mean times between failures that claims are about


@dataclass
class Cell:
    """Trainings of one job by one method at one mean time between failures"""
    method: str
    replicas: int
    mtbf_s: float
    every_s: float | None  # between two checkpoints; None: there are none
    ratios: list[float]  # useful time over all, by training
    arrived: int  # of them, within the limit
    failures: list[int]
    lost_s: list[float]  # progress thrown away
    waited_s: list[float]
    machines: list[float | None]  # machine hours a useful hour, over those of a job without replicas and failures

    @property
    def ratio(self) -> Interval:
        return student(self.ratios)

    @property
    def price(self) -> float:
        """Mean of machines"""
        return moments(value for value in self.machines if value is not None).mean


@dataclass
class Table:
    job: dict[str, Any]
    cells: list[Cell]

    @property
    def servers(self) -> int:
        return self.job["servers"]

    @property
    def mtbfs(self) -> list[float]:
        return list(dict.fromkeys(cell.mtbf_s for cell in self.cells))

    @property
    def name(self) -> str:
        return f"{self.servers} server{'s' * (self.servers > 1)}" + \
            (f", {100 * self.job['everything']:g} in 100 failures take everything" if self.job["everything"] else "")

    def cell(self, method: str, mtbf_s: float) -> Cell:
        return next(one for one in self.cells if (one.method, one.mtbf_s) == (method, mtbf_s))


@dataclass
class Every:
    """Full checkpoints, `factor` times as far apart as the formula says"""
    mtbf_s: float
    factor: float
    every_s: float
    ratios: list[float]


@dataclass
class Row:
    """A real training, and the model's word on the same losses"""
    method: str
    seed: int
    kills: int
    live: float
    model: float


@dataclass
class Live:
    constants: dict[str, Any]
    seconds: float
    rows: list[Row]

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(row.method for row in self.rows))

    def of(self, method: str) -> list[Row]:
        return [row for row in self.rows if row.method == method]


@dataclass
class Study:
    command: str
    folder: str
    trials: int
    seed: int
    limit: float  # times as long as undisturbed a training may take
    constants: dict[str, Any]
    methods: dict[str, str]
    tables: list[Table]
    intervals: list[Every]
    live: Live | None

    def table(self, servers: int) -> Table | None:
        """Without failures that take everything"""
        return next((one for one in self.tables if one.servers == servers and not one.job["everything"]), None)


def study_read(record: dict[str, Any]) -> Study:
    rest = {key: value for key, value in record.items() if key != "experiment"}
    live = rest["live"]
    return Study(**{
        **rest, "tables": [Table(one["job"], [Cell(**cell) for cell in one["cells"]]) for one in rest["tables"]],
        "intervals": [Every(**one) for one in rest["intervals"]],
        "live": live and Live(live["constants"], live["seconds"], [Row(**row) for row in live["rows"]])})
