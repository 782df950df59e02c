# SPDX-License-Identifier: BSD-3-Clause
"""`outlast drill --experiment dbw --live`: one of four workers becomes slow half-way.

Of each run are read: gradients applied a second before and after, from the time line; the gradients
a step; when the test loss was at the target first, counted from the beginning.
"""
import math
import pathlib
from typing import Any

from .out import Report, Table
from .runs import NAN, Line, number, read_line, read_report
from .stats import student

SETTLE_S = 0.5  # after a beginning, or after the change
FIGURES = (("applied_per_s_before", 1), ("applied_per_s_after", 1), ("k_mean", 2), ("late", 0),
           ("target_s", 2), ("test_loss", 4))  # and digits behind the point


def rate(line: Line, begin: float, end: float) -> float:
    """Gradients applied a second, from one moment to another."""
    return (line.at("applied", end) - line.at("applied", begin)) / (end - begin)


def arrival(report: dict[str, Any], target: float) -> float:
    for one in report.get("evals") or []:
        if number(one, "loss") <= target:
            return number(one, "t_s")
    return NAN


def figures(folder: pathlib.Path, name: str, record: dict[str, Any]) -> dict[str, float]:
    report = read_report(folder / "runs" / f"{name}.json")
    line = read_line(folder / "runs" / f"{name}.csv")
    half = record["slow_from_s"]
    return {"applied_per_s_before": rate(line, SETTLE_S, half),
            "applied_per_s_after": rate(line, half + SETTLE_S, 2 * half),
            "k_mean": number(report, "k_mean"), "late": number(report, "gradients_late"),
            "target_s": arrival(report, record["target"]),
            "test_loss": number(report, "test_loss")}


def cell(values: list[float], digits: int) -> str:
    mean = student(values)
    if not math.isfinite(mean.mean):
        return "-"
    sure = f" ±{mean.half:.{digits}f}" if math.isfinite(mean.half) else ""
    return f"{mean.mean:.{digits}f}{sure}"


def report(folder: pathlib.Path, record: dict[str, Any]) -> Report:
    methods: dict[str, list[dict[str, float]]] = {}
    for run in record["runs"]:
        methods.setdefault(run["consistency"], []).append(figures(folder, run["name"], record))
    half, target, seeds = record["slow_from_s"], record["target"], len(next(iter(methods.values())))
    table = Table(["consistency", "applied/s before", "after", "k, mean", "late",
                   f"s to test loss {target:g}", "test loss at the end"],
                  [[name, *(cell([run[key] for run in runs], digits) for key, digits in FIGURES)]
                   for name, runs in methods.items()], words=1)
    text = (f"Made by `{record['command']}`.\n\nSoftmax regression on `synthetic:noise=4`, B = 128,"
            f" lr 0.05, four workers over shared memory, 20 ms a gradient (alpha 0.2); from "
            f"{half:g} s on the last worker takes 5 times as long; {2 * half:g} s in all, {seeds} "
            f"seed(s), ± 95 % interval.\n\n{table.markdown()}")
    return Report(
        summary=text, files={"summary.md": text}, pictures={}, begin="",
        tables={"command": record["command"], "folder": record["folder"],
                "runs": [{"consistency": name,
                          **{key: [run[key] for run in runs] for key, _ in FIGURES}}
                         for name, runs in methods.items()]})
