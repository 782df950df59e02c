# SPDX-License-Identifier: BSD-3-Clause
# not under asan, tsan: it is Python
"""Every *_test.py here, in one process: libraries take longer to load than most tests take to run."""
import pathlib
import sys
import unittest
import warnings

sys.dont_write_bytecode = True
here = pathlib.Path(__file__).resolve().parent
sys.path[0:1] = [str(here), str(here.parents[2] / "tools")]
warnings.simplefilter("error", RuntimeWarning)  # numpy's, of figures that make no sense

if __name__ == "__main__":
    names = sorted(path.stem for path in here.glob("*_test.py"))
    done = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromNames(names))
    sys.exit(not done.wasSuccessful() or done.testsRun == 0)
