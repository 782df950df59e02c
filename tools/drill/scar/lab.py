# SPDX-License-Identifier: BSD-3-Clause
"""A process that computes steps of a problem (trial.c), and the memory with states that both have."""
import contextlib
import math
import mmap
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy

from ..drill import Drill, signed
from ..errors import DATA, Failure

FULL, PRIORITY, ROUND_ROBIN, RANDOM = range(4)  # enum ol_selection
SELECTIONS = ("full", "priority", "round-robin", "random")


class Unreachable(Failure):
    """This problem cannot be looked at with this seed; others can."""


class Lab:
    """A state is a row of `rows`, and blocks are what is saved and lost of it as a whole."""

    def __init__(self, ask: Callable[[dict[str, Any]], Any], spec: dict[str, Any], seed: int,
                 runs: int, rows: Any, answer: dict[str, Any]) -> None:
        self.ask = ask
        self.name: str = spec["name"]
        self.spec = spec
        self.seed = seed
        self.runs = runs
        self.rows = rows
        self.blocks: int = answer["blocks"]
        self.labels: bool = answer["labels"]  # floats are names: two are 1 apart, or the same
        self.shape: str = answer["shape"]  # of the data, as servers are told
        self.floats: int = rows.shape[1]
        self.block_of = rows[0].view(numpy.uint32).astype(numpy.intp)
        self.lengths = numpy.bincount(self.block_of, minlength=self.blocks)
        self.free = 1 + runs  # the next row that nobody has

    @property
    def what(self) -> str:
        return f"{self.spec['what']}; {self.floats} floats in {self.blocks} blocks"

    def rows_take(self, count: int) -> int:
        self.free += count
        assert self.free <= len(self.rows)
        return self.free - count

    def walk(self, run: int, row: int, step: int, count: int, keep: bool = False,
             target: float | None = None) -> list[float]:
        """Losses of the state in a row, that after `step` iterations, and of those that follow; `count`
        of them, or as many as it takes to one at the target. NaN is one that is not finite."""
        losses = self.ask({"walk": row, "run": run, "step": step, "count": count, "keep": keep,
                           "target": target})["losses"]
        return [math.nan if loss is None else loss for loss in losses]

    def apart2(self, x, y):
        """Squares of how far floats are apart"""
        if self.labels:
            return (x != y).astype(float)
        return numpy.square(x.astype(float) - y)

    def unreachable(self, why: str = os.strerror(34)) -> Unreachable:  # ERANGE
        return Unreachable(DATA, self.name, why)


def total(values) -> float:
    """The sum in their order, which numpy's own is not."""
    return float(numpy.cumsum(values)[-1]) if len(values) else 0.0


@contextlib.contextmanager
def opened(drill: Drill, spec: dict[str, Any], rows: int, runs: int = 1) -> Iterator[Lab]:
    """Of so many rows, beside those that it begins with."""
    rows += 1 + runs
    seed = drill.settings.integer("seed")
    memory = os.memfd_create("scar")
    try:
        with drill.talk("scar", spec["name"], (memory,), spec=spec, seed=signed(seed), runs=runs,
                        memory=memory, rows=rows) as (ask, answer):
            shared = numpy.frombuffer(mmap.mmap(memory, 0), numpy.float32)
            yield Lab(ask, spec, seed, runs, shared.reshape(rows, answer["floats"]), answer)
    finally:
        os.close(memory)
