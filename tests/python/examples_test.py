# SPDX-License-Identifier: BSD-3-Clause
"""The examples run as a person runs them, and their last lines are equal."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Examples(unittest.TestCase):
    def run_example(self, folder: str) -> None:
        place = ROOT / "tools" / "examples" / folder
        line = re.search(r"^PYTHONPATH=src/python (\S+) (\S+)$",
                         (place / "README.md").read_text(encoding="utf-8"), re.M)
        self.assertEqual(line[1], "/usr/bin/python3")
        env = dict(os.environ, PYTHONPATH="src/python", PYTHONDONTWRITEBYTECODE="1")
        said = subprocess.run([sys.executable, line[2]], cwd=ROOT, env=env, capture_output=True,
                              text=True, timeout=200)
        self.assertEqual((said.returncode, said.stderr), (0, ""))
        lines = said.stdout.splitlines()
        self.assertRegex(lines[-1], "^done [0-9a-f]{16}$")
        self.assertEqual(lines[-1], lines[-2])
        self.assertIn("is killed", said.stdout)

    def test_pytorch(self):
        self.run_example("04-pytorch")

    def test_diloco(self):
        self.run_example("05-diloco")

    def test_reader(self):
        self.run_example("06-reader")

    def test_curves_of_three_programs(self):
        env = dict(os.environ, PYTHONPATH="src/python", PYTHONDONTWRITEBYTECODE="1")
        said = subprocess.run([sys.executable, "tools/examples/07-curves/curves.py", "--steps", "8",
                               "--every", "0", "--kills", "2"], cwd=ROOT, env=env,
                              capture_output=True, text=True, timeout=200)
        self.assertEqual((said.returncode, said.stderr), (0, ""))
        rows = said.stdout.splitlines()
        self.assertEqual(sum(row.endswith("the same") for row in rows), 3, said.stdout)
        far = [float(row.split()[-1]) for row in rows if row.startswith("largest difference")]
        self.assertEqual(len(far), 2, said.stdout)
        self.assertLess(max(far), 1e-5)

    def test_the_drill_of_diloco(self):
        env = dict(os.environ, PYTHONPATH="src/python", PYTHONDONTWRITEBYTECODE="1")
        drill = "tools/examples/05-diloco/drill.py"
        said = subprocess.run([sys.executable, drill, "--outer", "3", "--kill-every", "2",
                               "--row", "server killed"], cwd=ROOT, env=env, capture_output=True,
                              text=True, timeout=200)
        self.assertEqual(said.returncode, 0, said.stderr)
        rows, verdicts = said.stdout.splitlines()[1:3], said.stdout.splitlines()[3:]
        self.assertEqual([row.split("  ")[0] for row in rows], ["undisturbed", "server killed"])
        for row in rows:
            self.assertRegex(row, r"s +0 +0 +0 .* the same$")
        self.assertEqual([verdict.split(":")[0] for verdict in verdicts[1:]],
                         [f"not run  {number}" for number in range(2, 7)])


if __name__ == "__main__":
    unittest.main()
