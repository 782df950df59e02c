# SPDX-License-Identifier: BSD-3-Clause
"""`outlast drill --experiment dbw`: how many gradients a synchronous step should wait for."""
import pathlib
from typing import Any

from ..out import Report
from ..study import report_of
from . import judge, plots, tables
from .data import study_read

SOURCE = '"Dynamic Backup Workers for Parallel Machine Learning" (arXiv 2004.14696)'


def report(_: pathlib.Path, record: dict[str, Any]) -> Report:
    return report_of(study_read(record), SOURCE, judge, tables, plots)
