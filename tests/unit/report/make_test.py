# SPDX-License-Identifier: BSD-3-Clause
"""A folder that is no drill's, damaged or of another version is one line and status 1. A report is
made anew byte by byte, whatever the environment is."""
import contextlib
import io
import json
import os
import pathlib
import tempfile
import unittest

import scar_test

from report import make


class Make(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)

    def make(self, text):
        """Status, and what it says to whom."""
        if text is not None:
            (self.folder / "drill.json").write_text(text)
        said, wrong = io.TextIOWrapper(io.BytesIO()), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(wrong):
            status = make.report(str(self.folder), str(self.folder / "all.json"))
        said.seek(0)
        return status, said.read(), wrong.getvalue()

    def refused(self, text):
        status, said, wrong = self.make(text)
        self.assertEqual((status, said, wrong.count("\n")), (1, "", 1), wrong)
        self.assertIn(f"outlast drill: no report: {self.folder}", wrong)
        self.assertIn("drill.json", wrong)

    def test_a_folder_that_is_no_drills_is_refused(self):
        for text in (None, "", "[]", "{}", "[" * 100000, json.dumps({"experiment": "other"}),
                     json.dumps({"experiment": ["scar"]}), "\0", '{"experiment": "dbw-live"}'):
            self.refused(text)
        (self.folder / "drill.json").write_bytes(b"\xff")
        self.refused(None)

    def test_a_record_that_is_cut_short_is_refused(self):
        text = json.dumps(scar_test.RECORD)
        for end in range(0, len(text), len(text) // 20):
            self.refused(text[:end])

    def test_a_record_of_another_version_is_refused(self):
        for key in scar_test.RECORD:
            self.refused(json.dumps({k: v for k, v in scar_test.RECORD.items() if k != key}))
            if key not in ("command", "folder"):
                self.refused(json.dumps({**scar_test.RECORD, key: None}))
        [part] = scar_test.RECORD["parts"]
        for news in ({"news": 1}, {"tables": [{}]}, {"norms": [{"lost": "much"}]}):
            self.refused(json.dumps({**scar_test.RECORD, "parts": [{**part, **news}]}))

    def test_the_same_record_is_the_same_report(self):
        text = json.dumps(scar_test.RECORD)
        made = []
        for _ in range(2):
            status, said, wrong = self.make(text)
            self.assertEqual((status, wrong), (0, ""))
            self.assertIn(f"\nreport in {self.folder}: begin with README.md there\n", said)
            made.append({path: path.read_bytes() for path in self.folder.rglob("*.*")})
        self.assertEqual(len(made[0]), 1 + 1 + 4 + 2)
        self.assertEqual(made[0], made[1])

    def test_a_folder_that_takes_no_file_is_a_line(self):
        (self.folder / "plots").write_text("in the way")
        status, said, wrong = self.make(json.dumps(scar_test.RECORD))
        self.assertEqual((status, said, wrong.count("\n")), (1, "", 1), wrong)
        self.assertIn("cannot write the report", wrong)

    def test_pictures_are_nobodys_settings(self):
        self.assertFalse(os.path.exists(os.environ["MPLCONFIGDIR"]))
        self.assertEqual(os.environ["MPLBACKEND"], "agg")
