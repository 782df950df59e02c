# SPDX-License-Identifier: BSD-3-Clause
"""dashboard.json as one picture: each panel's own queries, asked of a Prometheus, drawn by matplotlib."""
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import numpy

from report import pictures

COLUMNS, POINTS, SCRAPES = 3, 600, 4
ELSEWHERE = re.compile(r"outlast_(port|worker)_")  # of RDMA ports, and of files of `outlast work`
UNITS = {"Bps": "bytes/s", "bytes": "bytes", "s": "s", "ops": "1/s", "percentunit": "of 1"}
ROLES = {"head": 7, "middle": 1, "tail": 3, "only": 6, "joining": 5, "none": 0}  # colours


class Look:
    """A Prometheus and the time that is looked at, in seconds since 1970."""

    def __init__(self, prometheus: object, first: float, last: float, scrape_s: float) -> None:
        self.prometheus, self.first, self.last = prometheus, first, last
        self.step = max(1.0, round((last - first) / POINTS, 1))
        self.rate = f"{max(self.step + scrape_s, SCRAPES * scrape_s):.0f}s"

    def ask(self, query: str) -> list[dict]:
        """Series as {"name": labels, "x": minutes, "y": values}; $job is all, as Grafana has it."""
        query = query.replace("$job", ".+").replace("$__rate_interval", self.rate)
        found = self.prometheus.ask("query_range", query=query, start=f"{self.first:.3f}",
                                    end=f"{self.last:.3f}", step=self.step)["result"]
        made = []
        for one in found:
            times, values = numpy.array(one["values"], dtype=float).T
            made.append({"labels": one["metric"], "x": (times - self.first) / 60, "y": values})
        return made


def gaps(x: numpy.ndarray, y: numpy.ndarray, step_min: float) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Not a number wherever samples are missing, so that no line is drawn over it."""
    at = numpy.nonzero(numpy.diff(x) > 1.5 * step_min)[0] + 1
    return numpy.insert(x, at, numpy.nan), numpy.insert(y, at, numpy.nan)


def legend(text: str, labels: dict) -> str:
    said = re.sub(r"\{\{(\w+)\}\}", lambda m: labels.get(m[1], ""), text)
    return re.sub(r"@outlast-\d+-[0-9a-f]+-", "", f"{labels.get('job', '')} {said}".strip())


def draw_lines(axes: object, panel: dict, look: Look) -> int:
    count = 0
    for target in panel["targets"]:
        for one in look.ask(target["expr"]):
            x, y = gaps(one["x"], one["y"], look.step / 60)
            axes.plot(x, y, linewidth=0.8, color=pictures.COLOURS[count % len(pictures.COLOURS)],
                      label=legend(target["legendFormat"], one["labels"]))
            count += 1
    return count


def draw_roles(axes: object, panel: dict, look: Look) -> int:
    found = look.ask(panel["targets"][0]["expr"])
    names = sorted({(one["labels"]["job"], one["labels"]["address"]) for one in found})
    for one in found:
        row = names.index((one["labels"]["job"], one["labels"]["address"]))
        role = one["labels"]["role"]
        axes.plot(one["x"], numpy.full(len(one["x"]), row), ".", markersize=4,
                  color=pictures.COLOURS[ROLES.get(role, 9)])
    for role in sorted({one["labels"]["role"] for one in found}):
        axes.plot([], [], "s", color=pictures.COLOURS[ROLES.get(role, 9)], label=role)
    axes.set_yticks(range(len(names)), [legend(address, {"job": job}) for job, address in names],
                    fontsize=6)
    return len(found)


def draw_heat(axes: object, panel: dict, look: Look) -> int:
    found = sorted(look.ask(panel["targets"][0]["expr"]), key=lambda one: float(one["labels"]["le"]))
    found = [one for one in found if one["labels"]["le"] != "+Inf"]
    if not found:
        return 0
    times = numpy.arange(0, look.last - look.first + look.step, look.step) / 60
    table = numpy.zeros((len(found), len(times)))
    for row, one in enumerate(found):
        table[row, numpy.clip(numpy.rint(one["x"] * 60 / look.step).astype(int), 0,
                              len(times) - 1)] = one["y"]
    table = numpy.clip(numpy.diff(table, axis=0, prepend=0), 0, None)
    axes.pcolormesh(times, [float(one["labels"]["le"]) for one in found], numpy.log10(1 + table),
                    cmap="Blues", shading="nearest")
    axes.set_yscale("log")
    return len(found)


def draw_alerts(axes: object, look: Look, faults: list[tuple[str, float, float]]) -> None:
    """Not of the dashboard: when which alert fired, and when which fault was there."""
    found = look.ask('ALERTS{alertstate="firing"}')
    names = sorted({one["labels"]["alertname"] for one in found})
    for one in found:
        axes.plot(one["x"], numpy.full(len(one["x"]), names.index(one["labels"]["alertname"])), "s",
                  markersize=3, color=pictures.COLOURS[7])
    for name, first, last in faults:
        axes.axvspan((first - look.first) / 60, (last - look.first) / 60, color="#eeeeee")
        axes.text((first - look.first) / 60, len(names) - 0.3, name, rotation=60, fontsize=6)
    axes.set_yticks(range(len(names)), names, fontsize=6)
    axes.set_ylim(-0.7, max(len(names), 1) - 0.3)


def draw(file: pathlib.Path, dashboard: pathlib.Path, look: Look, kills: list[float],
         faults: list[tuple[str, float, float]]) -> list[str]:
    """Returns titles of panels that had no data and should."""
    panels = json.loads(dashboard.read_text())["panels"]
    rows = -(-len(panels) // COLUMNS)
    figure = pictures.Figure(figsize=(24, 3.6 * rows + 4), layout="constrained")
    grid = figure.add_gridspec(rows + 1, COLUMNS)
    top, empty = figure.add_subplot(grid[0, :]), []
    draw_alerts(top, look, faults)
    every = [top]
    for place, panel in enumerate(panels):
        axes = figure.add_subplot(grid[1 + place // COLUMNS, place % COLUMNS])
        how = {"state-timeline": draw_roles, "heatmap": draw_heat}.get(panel["type"], draw_lines)
        count = how(axes, panel, look)
        unit = UNITS.get(panel["fieldConfig"]["defaults"].get("unit"), "")
        axes.set_title(panel["title"] + (f", {unit}" if unit else ""), fontsize=10, loc="left")
        if count == 0 and not all(ELSEWHERE.search(one["expr"]) for one in panel["targets"]):
            empty.append(panel["title"])
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=5, ncols=2, loc="upper left")
        every.append(axes)
    for axes in every:
        axes.set_xlim(0, (look.last - look.first) / 60)
        axes.tick_params(labelsize=7)
        for at in kills:
            axes.axvline((at - look.first) / 60, color="#D55E00", linewidth=0.4, alpha=0.7, zorder=0)
    figure.supxlabel("minutes; orange: a server was killed; grey, above: a fault and its mending", fontsize=10)
    figure.savefig(file, dpi=100)
    return empty
