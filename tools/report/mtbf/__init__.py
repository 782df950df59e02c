# SPDX-License-Identifier: BSD-3-Clause
"""`outlast drill --experiment mtbf`: how much of the time is useful."""
import pathlib
from typing import Any

from ..out import Report
from ..study import report_of
from . import judge, plots, tables
from .data import study_read

SOURCE = "this project, for its own figures"


def report(_: pathlib.Path, record: dict[str, Any]) -> Report:
    return report_of(study_read(record), SOURCE, judge, tables, plots)
