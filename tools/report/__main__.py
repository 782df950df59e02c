# SPDX-License-Identifier: BSD-3-Clause
"""Makes the report of a drill's folder: python3 tools/report FOLDER [--json FILE]

`outlast drill` calls this at its end. The exit status is that of outlast: 0; 1 for no report;
8 where a run failed.
"""
import argparse
import importlib.util
import os
import signal
import sys

OLDEST = (3, 10)
LIBRARIES = ("numpy", "scipy", "matplotlib")
PACKAGES = "python3-numpy python3-scipy python3-matplotlib"  # Debian's
SYSTEM_PYTHON = "/usr/bin/python3"  # it sees Debian's packages; the first in PATH may not


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="report", description="Makes the report of a drill.")
    parser.add_argument("folder", help="of the drill: drill.json and runs/")
    parser.add_argument("--json", metavar="FILE", help="tables and claims as one object")
    return parser.parse_args()


def lacking() -> str:
    """What keeps this Python from making a report; empty: nothing."""
    if sys.version_info < OLDEST:
        return f"{sys.executable} is older than {'.'.join(map(str, OLDEST))}"
    missing = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
    return f"{sys.executable} has no {', '.join(missing)}" if missing else ""


def fail(why: str, folder: str) -> int:
    print(f"outlast drill: no report: {why} (apt-get install {PACKAGES}; the runs are kept, and "
          f"outlast drill --report {folder} makes the report)", file=sys.stderr)
    return 1


def main() -> int:
    opts = arguments()
    why = lacking()
    if why and sys.executable != SYSTEM_PYTHON and os.access(SYSTEM_PYTHON, os.X_OK):
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])
    if why:
        return fail(why, opts.folder)
    try:
        from report import make  # only now: it needs the libraries
    except (ImportError, OSError) as error:
        return fail(f"{sys.executable}: {error}", opts.folder)
    return make.report(opts.folder, opts.json)


if __name__ == "__main__":
    # Python ran a folder: the package is that folder, and nothing is written into it
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.dont_write_bytecode = True
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main())
