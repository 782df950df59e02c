# SPDX-License-Identifier: BSD-3-Clause
"""A script that `outlast launch` starts needs no word about its job: chain or none, who it is, with what key."""
import os
import re
import subprocess
import sys
import unittest

SCRIPT = """
import os
import numpy, outlast
with outlast.connect(init=numpy.full(2048, 2.0, numpy.float32)) as job:
    grad = job.grad()
    grad[:] = 1 + int(os.environ["OUTLAST_WORKER"])
    job.push(grad)
    weights = job.pull()
    print("version", weights.version, "weights", *weights.array[::512], "job", os.environ.get("OUTLAST_JOB_NAME"))
    del grad, weights
"""


class Launched(unittest.TestCase):
    def run_with(self, *words: str) -> list[str]:
        script = [sys.executable, "-B", "-c", SCRIPT]
        done = subprocess.run([os.environ["OUTLAST_BIN"], "launch", "--workers", "2", "--consistency",
                               "sync", "--lr", "0.5", "--params", "2048", "--init", "worker", *words,
                               "--", *script], capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONPATH": sys.path[1]})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = sorted(done.stdout.splitlines())
        self.assertEqual(len(lines), 2, done.stdout)
        for worker, line in enumerate(lines):  # 2 - 0.5 * the mean of 1 and 2
            self.assertIn(f"[worker {worker}] version 1 weights " + " ".join(["1.25"] * 4), line)
        return lines

    def test_of_two_shards(self):
        for line in self.run_with("--servers", "2"):
            self.assertTrue(line.endswith(" job None"), line)

    def test_of_a_chain(self):
        for line in self.run_with("--replicas", "2"):
            self.assertTrue(re.search(r" job launch-[0-9a-f]{8}$", line), line)
