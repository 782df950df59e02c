# SPDX-License-Identifier: BSD-3-Clause
"""What failures cost, trial by trial, as drill.json has it."""
from dataclasses import dataclass
from typing import Any

from ..stats import Interval, normal, reduction

LOSSES = ("1/4", "1/2", "3/4")  # fractions lost, as they are named
HALF = 1  # of LOSSES
CLAIMED = 0.78  # less cost, half lost
SELECTIONS = ("priority", "round-robin", "random")


@dataclass
class Scheme:
    """What is saved: everything every C iterations ("full", part 1), or a part every C / part."""
    selection: str  # or "nothing": lost blocks begin as at first; "extrapolated": priority, lost blocks
    #                 extrapolated; "int8" and "int8-extrapolated": the same of int8 deltas
    part: int
    bytes: float  # of those of full checkpoints
    cost: list[list[float] | None]  # by fraction lost, trial by trial; None: not tried

    @property
    def name(self) -> str:
        return self.selection if self.part == 1 else f"{self.selection} 1/{self.part}"


@dataclass
class Table:
    period: int  # C
    trials: int
    late: int  # runs that did not arrive
    full: list[float]  # cost of full recovery from full checkpoints
    schemes: list[Scheme]

    def has(self, selection: str) -> bool:
        return any(one.selection == selection for one in self.schemes)

    def scheme(self, selection: str, part: int) -> Scheme:
        return next(one for one in self.schemes if (one.selection, one.part) == (selection, part))

    def costs(self, selection: str, part: int, loss: int) -> list[float]:
        """Of a scheme that every table has."""
        values = self.scheme(selection, part).cost[loss]
        assert values is not None
        return values

    def less(self, selection: str, part: int, loss: int) -> Interval:
        """How much less partial recovery costs than full recovery from full checkpoints."""
        return reduction(self.costs(selection, part, loss), self.full)


@dataclass
class Norm:
    """How far a failure throws the parameters: squares, partial recovery by full."""
    lost: float  # fraction of the blocks, as it is with so many
    ratio: float  # mean
    sd: float
    failures: int
    longer: int  # of them: partial recovery threw further


@dataclass
class Part:
    """A problem."""
    problem: str
    what: str
    blocks: int
    steps: int
    target: float
    tables: list[Table]
    norms: list[Norm]

    @property
    def tells(self) -> bool:
        """With nothing saved at all, half lost is surely short of what is claimed for what is saved."""
        return self.tables[-1].less("nothing", 1, HALF).high < CLAIMED


@dataclass
class Push:
    """Perturbations of one kind."""
    name: str
    count: int
    above: int  # cost > bound + 1
    above_measured: int  # the same, by distances as measured
    worst: float  # largest cost - bound
    tight: float | None  # sum of costs / sum of bounds


@dataclass
class Bounds:
    what: str
    steps: int
    rate: float  # c: the largest ratio of successive distances in the unperturbed run
    rate_min: float
    pushes: list[Push]

    def push(self, name: str) -> Push:
        return next(one for one in self.pushes if one.name == name)


@dataclass
class Live:
    """Kills of one of four servers."""
    problem: str
    recovery: str  # "partial", "extrapolated", "full"
    kills: int
    unlike: int  # before the kill other weights than those of the study
    changed: int  # survivors whose weights changed, in a bit
    strange: int  # servers that came back with something that was never theirs
    late: int
    cost: list[float]

    @property
    def mean(self) -> Interval:
        return normal(self.cost)


@dataclass
class Study:
    command: str
    folder: str
    trials: int
    losses: list[float]
    parts: list[Part]
    bounds: list[Bounds]
    live: list[Live]
    left_out: list[str]  # problems that could not be looked at with this seed, and why

    @property
    def tables(self) -> list[tuple[Part, Table]]:
        return [(part, table) for part in self.parts for table in part.tables]

    @property
    def telling(self) -> list[Part]:
        """Problems in which what is saved matters."""
        return [part for part in self.parts if part.tells]


def table_read(one: dict[str, Any]) -> Table:
    return Table(**{**one, "schemes": [Scheme(**scheme) for scheme in one["schemes"]]})


def part_read(one: dict[str, Any]) -> Part:
    return Part(**{**one, "tables": [table_read(table) for table in one["tables"]],
                   "norms": [Norm(**norm) for norm in one["norms"]]})


def study_read(record: dict[str, Any]) -> Study:
    bounds = [Bounds(**{**one, "pushes": [Push(**push) for push in one["pushes"]]})
              for one in record["bounds"]]
    return Study(record["command"], record["folder"], record["trials"], record["losses"],
                 [part_read(one) for one in record["parts"]], bounds,
                 [Live(**one) for one in record["live"]], record.get("left_out", []))
