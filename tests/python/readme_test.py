# SPDX-License-Identifier: BSD-3-Clause
"""The Python of src/python/README.md works when it is pasted, from the first line to the last."""
import contextlib
import io
import pathlib
import re
import unittest
import warnings

README = pathlib.Path(__file__).resolve().parents[2] / "src" / "python" / "README.md"


class Readme(unittest.TestCase):
    def test_it_runs(self):
        page = README.read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
        self.assertGreater(len(blocks), 4)
        names: dict[str, object] = {}
        said = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(said):
            warnings.simplefilter("error", ResourceWarning)
            for block in blocks:
                exec(compile(block, str(README), "exec"), names)  # noqa: S102
        loss, version = said.getvalue().splitlines()[0].split()
        self.assertLess(float(loss), 1.3)
        self.assertEqual(version, "100")
        self.assertEqual(names["sync"].outer_steps, 5)


if __name__ == "__main__":
    unittest.main()
