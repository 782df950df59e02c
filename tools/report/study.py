# SPDX-License-Identifier: BSD-3-Clause
"""The report of an experiment without runs: all that it measured is in drill.json."""
from types import ModuleType
from typing import Any

from . import claims
from .out import Report


def report_of(study: Any, source: str, judge: ModuleType, tables: ModuleType,
              plots: ModuleType) -> Report:
    judged = judge.all_claims(study)
    text = tables.summary(study)
    return Report(summary=text,
                  files={"summary.md": text, "summary.csv": tables.summary_csv(study),
                         "claims.md": claims.markdown(judged, source, study.command),
                         "README.md": tables.readme(study)},
                  pictures=plots.pictures(study), tables=tables.as_json(study, judged))
