# SPDX-License-Identifier: BSD-3-Clause
"""`outlast drill`: strategies under one schedule of kills."""
import pathlib
from typing import Any

from .. import claims
from ..out import Report
from . import judge, plots, published, tables
from .data import drill_read

SOURCE = '"Training Through Failure" (arXiv 2406.05546)'
CHILD_FAILED = 8  # exit status of outlast


def report(folder: pathlib.Path, record: dict[str, Any]) -> Report:
    drill = drill_read(folder, record)
    judged = judge.all_claims(drill) + published.all_claims(drill)
    text = tables.summary_text(drill)
    return Report(
        summary=text,
        files={
            "summary.txt": text,
            "summary.md": tables.summary_markdown(drill),
            "summary.csv": tables.summary_csv(drill),
            "cost.md": tables.cost_markdown(drill),
            "claims.md": claims.markdown(judged, SOURCE, drill.command),
            "README.md": tables.readme(drill),
            **published.files(drill),
        },
        pictures={**plots.pictures(drill), **published.pictures(drill)},
        tables=tables.as_json(drill, record["folder"], judged),
        begin=": begin with plots/outage-* and README.md there",
        status=CHILD_FAILED if any(run.status == "failed" for run in drill.runs) else 0)
