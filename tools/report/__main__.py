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

LIBRARIES = ("numpy", "scipy", "matplotlib")  # Debian: python3-NAME
SYSTEM_PYTHON = "/usr/bin/python3"  # it sees Debian's packages; the first in PATH may not


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="report", description="Makes the report of a drill.")
    parser.add_argument("folder", help="of the drill: drill.json and runs/")
    parser.add_argument("--json", metavar="FILE", help="tables and claims as one object")
    return parser.parse_args()


def main() -> int:
    opts = arguments()
    missing = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
    if missing and sys.executable != SYSTEM_PYTHON and os.access(SYSTEM_PYTHON, os.X_OK):
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, "-B", *sys.argv])
    if missing:
        packages = " ".join(f"python3-{name}" for name in missing)
        print(f"outlast drill: no report: Python has no {', '.join(missing)} (apt-get install "
              f"{packages}; the runs are kept, and outlast drill --report {opts.folder} makes the "
              "report)", file=sys.stderr)
        return 1
    from report import make  # only now: it needs the libraries
    return make.report(opts.folder, opts.json)


if __name__ == "__main__":
    # Python ran a folder: the package is that folder
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main())
