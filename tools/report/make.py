# SPDX-License-Identifier: BSD-3-Clause
"""From a folder to its report: which experiment it is of, and what is written where."""
import contextlib
import pathlib
import sys
from typing import Any, Callable

from . import dbw, dbw_live, kills, mtbf, scar
from .out import Report
from .runs import read_report

EXPERIMENTS: dict[str, Callable[[pathlib.Path, dict[str, Any]], Report]] = {
    "kills": kills.report,
    "dbw": dbw.report,
    "dbw-live": dbw_live.report,
    "scar": scar.report,
    "mtbf": mtbf.report,
}


def fail(what: str, why: str) -> int:
    print(f"outlast drill: {what}: {why}", file=sys.stderr)
    return 1


def say(text: str) -> None:
    """On stdout, in UTF-8 wherever that leads."""
    try:
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
        print(text, flush=True)
    except OSError:
        with contextlib.suppress(OSError):
            sys.stdout.close()  # or Python tries once more at its end
        raise


def report(folder_name: str, json_name: str | None) -> int:
    """The exit status. A folder that is no drill's, or a file that cannot be written, is a line."""
    folder = pathlib.Path(folder_name)
    if not (folder / "drill.json").exists():
        return fail("no report", f"{folder}: it has no drill.json: give the folder of a drill")
    try:
        record = read_report(folder / "drill.json")
        made = EXPERIMENTS[record["experiment"]](folder, record)
        made.write(folder, json_name)
        say(f"{made.summary}\nreport in {folder}{made.begin}")
    except OSError as error:
        return fail("cannot write the report", str(error))
    except Exception as error:  # code that trusts a record fails at any place where that is damaged
        if sys.flags.dev_mode:  # python3 -X dev tools/report FOLDER says where
            raise
        return fail("no report", f"{folder}: drill.json, or a file of runs/, is damaged or of "
                    f"another version ({type(error).__name__}: {error})")
    return made.status
