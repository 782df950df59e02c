# SPDX-License-Identifier: BSD-3-Clause
"""The two files that a run of `outlast train` leaves: its report (JSON) and its time line (CSV)."""
import json
import math
import pathlib
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

NAN = math.nan


class Unreadable(Exception):
    """A file is missing or malformed; the message names it."""


def number(of: dict[str, Any], key: str) -> float:
    """nan: not there, or no number."""
    value = of.get(key)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number else NAN


def read_report(path: pathlib.Path) -> dict[str, Any]:
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path}: {error}") from error
    if not isinstance(report, dict):
        raise Unreadable(f"{path}: is no report")
    return report


@dataclass
class Line:
    """A time line: columns by name, nan where a cell is empty; rows in order of time."""
    t: np.ndarray
    columns: dict[str, np.ndarray]

    def column(self, name: str) -> np.ndarray:
        return self.columns.get(name, np.full(self.t.shape, NAN))

    def at(self, name: str, times: Any) -> Any:
        """The column at a time, or at many: the last value known by then; nan: none."""
        return last_by(self.t, self.column(name), times)

    def highest(self, name: str) -> float:
        known = self.column(name)[~np.isnan(self.column(name))]
        return float(known.max()) if known.size > 0 else NAN

    def mean(self, name: str) -> float:
        """Weighted by time: a row's value is that of the time since the row before."""
        values, spans = self.column(name)[1:], np.diff(self.t)
        known = ~np.isnan(values)
        total = float(spans[known].sum())
        return float((values * spans)[known].sum()) / total if total > 0 else NAN


def last_by(t: np.ndarray, values: np.ndarray, times: Any) -> Any:
    """For each of the times: the last of the values that is known by then; nan: none."""
    known = ~np.isnan(values)
    index = np.searchsorted(t[known], times, side="right")
    found = np.concatenate(([NAN], values[known]))[index]
    return float(found) if np.ndim(times) == 0 else found


def read_line(path: pathlib.Path) -> Line:
    try:
        head, _, body = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path}: {error}") from error
    names = head.strip().split(",")
    if names[0] != "t_s":
        raise Unreadable(f"{path}: does not begin with the names of a time line")
    filled = re.sub(r"(?m)(?<=,)(?=,|\r?$)|^(?=,)", "nan", body)
    if not filled.strip():
        return Line(np.empty(0), {name: np.empty(0) for name in names})
    try:
        cells = np.loadtxt(filled.splitlines(), delimiter=",", comments=None, ndmin=2)
    except ValueError as error:
        raise Unreadable(f"{path}: {error}") from error
    if cells.shape[1] != len(names):
        raise Unreadable(f"{path}: rows are not as its first one says")
    if np.isnan(cells[:, 0]).any() or (np.diff(cells[:, 0]) < 0).any():
        raise Unreadable(f"{path}: a row has no time, or goes back in time")
    return Line(cells[:, 0], dict(zip(names, cells.T)))
