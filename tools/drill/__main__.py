# SPDX-License-Identifier: BSD-3-Clause
"""What `outlast drill` becomes (drill.c); its only word is a JSON object. Experiment `scar` needs numpy."""
import json
import os
import signal
import sys


def main() -> int:
    from drill import kills
    from drill.dbw import course as dbw, live as dbw_live
    from drill.drill import Drill
    from drill.errors import RESOURCES, Failure
    from drill.mtbf import course as mtbf
    from drill.scar import course as scar

    try:
        drill = Drill(json.loads(sys.argv[1]))
        drill.signals_take()
        folder = drill.settings.text("report")
        if folder is not None:
            if len(folder) >= drill.PATH_MAX:
                drill.settings.fail("report", "is too long")
            drill.out = folder
            return drill.report()
        experiment = drill.settings.text("experiment")
        if experiment == "kills":
            return kills.go(drill)
        drill.experiment_check()
        if experiment == "scar":
            scar.numpy_need()
        if experiment == "mtbf":
            return mtbf.go(drill)
        drill.folder_make()
        if experiment == "scar":
            return scar.go(drill)
        return (dbw_live if drill.settings.flag("live") else dbw).go(drill)
    except Failure as failure:
        return failure.said()
    except OSError as error:
        return Failure(RESOURCES, str(error.filename or "drill"), error.strerror or str(error)).said()


if __name__ == "__main__":
    # Python ran a folder: the package is that folder
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.exit(main())
