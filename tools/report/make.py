# SPDX-License-Identifier: BSD-3-Clause
"""From a folder to its report: which experiment it is of, and what is written where."""
import json
import pathlib
import sys
from typing import Callable

from . import dbw_live, kills
from .out import Report

EXPERIMENTS: dict[str, Callable[[pathlib.Path, dict], Report]] = {
    "kills": kills.report,
    "dbw-live": dbw_live.report,
}


def fail(what: str, why: str) -> int:
    print(f"outlast drill: {what}: {why}", file=sys.stderr)
    return 1


def report(folder_name: str, json_name: str | None) -> int:
    """The exit status. A folder that is no drill's, or a file that cannot be written, is a line."""
    folder = pathlib.Path(folder_name)
    try:
        record = json.loads((folder / "drill.json").read_text(encoding="utf-8"))
        make = EXPERIMENTS[record["experiment"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return fail("no report", f"{folder / 'drill.json'} is not the record of a drill ({error!r})")
    made = make(folder, record)
    try:
        made.write(folder, json_name)
        print(f"{made.summary}\nreport in {folder}{made.begin}", flush=True)
    except OSError as error:
        return fail("cannot write the report", str(error))
    return made.status
