# SPDX-License-Identifier: BSD-3-Clause
"""`outlast drill --experiment scar`: what a lost part of the parameters costs."""
import pathlib
from typing import Any

from ..out import Report
from ..study import report_of
from . import judge, plots, tables
from .data import study_read

SOURCE = '"Fault Tolerance in Iterative-Convergent Machine Learning" (arXiv 1810.07354)'


def report(_: pathlib.Path, record: dict[str, Any]) -> Report:
    return report_of(study_read(record), SOURCE, judge, tables, plots)
