# SPDX-License-Identifier: BSD-3-Clause
"""`outlast drill --experiment scar`: what a lost part of the parameters costs."""
import pathlib
from typing import Any

from .. import claims
from ..out import Report
from . import judge, plots, tables
from .data import study_read

SOURCE = '"Fault Tolerance in Iterative-Convergent Machine Learning" (arXiv 1810.07354)'


def report(_: pathlib.Path, record: dict[str, Any]) -> Report:
    study = study_read(record)
    judged = judge.all_claims(study)
    text = tables.summary(study)
    return Report(summary=text,
                  files={"summary.md": text, "summary.csv": tables.summary_csv(study),
                         "claims.md": claims.markdown(judged, SOURCE, study.command),
                         "README.md": tables.readme(study)},
                  pictures=plots.pictures(study), tables=tables.as_json(study, judged))
