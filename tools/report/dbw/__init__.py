# SPDX-License-Identifier: BSD-3-Clause
"""`outlast drill --experiment dbw`: how many gradients a synchronous step should wait for."""
import pathlib
from typing import Any

from .. import claims
from ..out import Report
from . import judge, plots, tables
from .data import study_read

SOURCE = '"Dynamic Backup Workers for Parallel Machine Learning" (arXiv 2004.14696)'


def report(_: pathlib.Path, record: dict[str, Any]) -> Report:
    study = study_read(record)
    judged = judge.all_claims(study)
    text = tables.summary(study)
    return Report(summary=text,
                  files={"summary.md": text, "summary.csv": tables.summary_csv(study),
                         "claims.md": claims.markdown(judged, SOURCE, study.command),
                         "README.md": tables.readme(study)},
                  pictures=plots.pictures(study), tables=tables.as_json(study, judged))
