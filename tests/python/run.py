# SPDX-License-Identifier: BSD-3-Clause
# not under asan, tsan: a library that is instrumented cannot be loaded into Python
"""run.py NAME -- the tests of NAME_test.py here, against the library in $OUTLAST_BUILD"""
import importlib.util
import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
NEEDS = {"cffi": "python3-cffi", "numpy": "python3-numpy", "torch": "python3-torch"}
SKIP = 77

sys.dont_write_bytecode = True
sys.path[0:1] = [str(HERE), str(HERE.parents[1] / "src" / "python")]
if "OUTLAST_BUILD" in os.environ:
    build = os.environ["OUTLAST_BUILD"]
    os.environ.setdefault("OUTLAST_LIBRARY", f"{build}/liboutlast.so.1")
    os.environ.setdefault("OUTLAST_BIN", f"{build}/outlast")

if __name__ == "__main__":
    missing = [package for name, package in NEEDS.items() if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skip: {sys.executable} has no {', '.join(missing)}")
        sys.exit(SKIP)
    tests = unittest.defaultTestLoader.loadTestsFromName(f"{sys.argv[1]}_test")
    done = unittest.TextTestRunner(verbosity=2).run(tests)
    sys.exit(not done.wasSuccessful() or done.testsRun == 0)
