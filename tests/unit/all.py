# SPDX-License-Identifier: BSD-3-Clause
# not under asan, tsan: it is Python
"""Every *_test.py of a folder here, in one process: libraries take longer to load than most tests take to run."""
import pathlib
import sys
import unittest
import warnings

sys.dont_write_bytecode = True
here = pathlib.Path(__file__).resolve().parent
folder = here / sys.argv[1]
sys.path[0:1] = [str(folder), str(here.parents[1] / "tools")]
warnings.simplefilter("error", RuntimeWarning)  # numpy's, of figures that make no sense

if __name__ == "__main__":
    names = sorted(path.stem for path in folder.glob("*_test.py"))
    done = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromNames(names))
    sys.exit(not done.wasSuccessful() or done.testsRun == 0)
