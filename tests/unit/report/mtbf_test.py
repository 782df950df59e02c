# SPDX-License-Identifier: BSD-3-Clause
"""Ratios as hoped for confirm each claim; each deviation is seen by the claim that it is about, and too few trainings
decide nothing. Tables and pictures show the same figures."""
import copy
import pathlib
import tempfile
import unittest
import xml.dom.minidom

from report import mtbf
from report.claims import Verdict
from report.mtbf import judge, tables
from report.mtbf.data import LADDER, study_read

TRIALS = 20
MTBFS = (120, 1200, 604800)
RATIOS = {"none": 0.1, "checkpoint-stop": 0.9, "checkpoint": 0.95, "priority": 0.96, "mirror": 0.92, "stateless": 0.98,
          "chain-2": 0.991, "chain-3": 0.992, "chain-2-continue": 0.993, LADDER: 0.993}
LIVE = (*judge.RUNGS["ladder-3"], *judge.RUNGS)
LIVE_RATIOS = {**RATIOS, "ladder-1": 0.985, "ladder-2": 0.995, "ladder-3": 0.996}


def cell(method, mtbf_s):
    return {"method": method, "replicas": 1, "mtbf_s": mtbf_s, "every_s": 30.0 if "checkpoint" in method else None,
            "ratios": [RATIOS[method]] * TRIALS, "arrived": 0 if method == "none" else TRIALS, "failures": [4] * TRIALS,
            "lost_s": [1.0] * TRIALS, "waited_s": [2.0] * TRIALS, "machines": [1.0] * (TRIALS - 1) + [None]}


def table(servers, everything):
    return {"job": {"servers": servers, "workers": servers, "params": 16e6, "state": 3.0, "step": 2.0, "network": 1e10,
                    "storage": 5e9, "down": 10.0, "host_down": 120.0, "hours": 8.0, "everything": everything},
            "cells": [cell(method, mtbf_s) for mtbf_s in MTBFS for method in RATIOS]}


CONSTANTS = {"failover_s": 0.1, "lease_s": 5.0, "found_s": 5.0, "restore_s": 0.2, "stall": 0.1, "efficiency": [[0.0, 1.0], [0.25, 0.9], [1.0, 0.5]],
             "rework": [[0.0, 0.0], [0.25, 0.1], [1.0, 0.9]]}
RECORD = {
    "experiment": "mtbf", "command": "outlast drill", "folder": "here", "trials": TRIALS, "seed": 1, "limit": 4.0,
    "constants": CONSTANTS, "methods": {name: f"what {name} is" for name in RATIOS},
    "tables": [table(8, 0.0), table(64, 0.0), table(64, 0.01)],
    "intervals": [{"mtbf_s": mtbf_s, "factor": factor, "every_s": 30 * factor, "ratios": [ratio] * TRIALS}
                  for mtbf_s in MTBFS for factor, ratio in ((0.5, 0.9), (1.0, 0.92), (2.0, 0.915))],
    "live": {"constants": CONSTANTS, "seconds": 60.0,
             "rows": [{"method": name, "seed": seed, "kills": 5, "live": LIVE_RATIOS[name] + 0.01, "model": LIVE_RATIOS[name]}
                      for seed in (1, 2) for name in LIVE]}}


class Mtbf(unittest.TestCase):
    def setUp(self):
        self.record = copy.deepcopy(RECORD)

    def claims(self):
        return {claim.id: claim for claim in judge.all_claims(study_read(self.record))}

    def refused(self, *ids):
        self.assertEqual({one.id for one in self.claims().values() if one.verdict is Verdict.NOT_CONFIRMED}, set(ids))
        self.setUp()

    def ratio(self, at, method, mtbf_s, ratio):
        for one in self.record["tables"][at]["cells"]:
            if (one["method"], one["mtbf_s"]) == (method, mtbf_s):
                one["ratios"] = [ratio] * TRIALS

    def test_all_is_confirmed(self):
        self.assertEqual({one.verdict for one in self.claims().values()}, {Verdict.CONFIRMED})

    def test_few_trainings_decide_nothing(self):
        self.record.update(trials=9, live=None)
        self.assertEqual({one.verdict for one in self.claims().values()}, {Verdict.CANNOT_JUDGE})

    def test_one_live_seed_decides_nothing(self):
        self.record["live"]["rows"] = self.record["live"]["rows"][:len(LIVE)]
        self.assertEqual({one.id for one in self.claims().values() if one.verdict is Verdict.CANNOT_JUDGE}, {"M5", "M6", "M7"})

    def test_useful_part(self):
        self.ratio(1, "chain-3", 1200, 0.9899)
        self.refused("M1")
        self.ratio(1, "stateless", 1200, 0.9699)
        self.refused("M2")
        self.ratio(1, "mirror", 1200, 0.921)
        self.refused("M2")
        self.ratio(0, "stateless", 1200, 0.5)  # of another size
        self.refused()

    def test_ladder(self):
        for at, ratio, refused in ((2, 0.9911, ()), (2, 0.9909, ("M3",)), (0, 0.5, ())):
            self.ratio(at, LADDER, 604800, ratio)
            self.refused(*refused)

    def test_formula(self):
        self.record["intervals"][2]["ratios"] = [0.928] * TRIALS
        self.refused("M4")
        for one in self.record["intervals"][:3]:  # where all is in vain it may be wrong
            one["ratios"] = [0.4 + 0.05 * (one["factor"] == 2.0)] * TRIALS
        self.refused()

    def test_live(self):
        for off, refused in ((0.039, ()), (0.041, ("M5",)), (-0.041, ("M5",))):
            for one in self.record["live"]["rows"]:
                if one["method"] == "mirror":
                    one["model"] = one["live"] - off
            self.refused(*refused)
        for one in self.record["live"]["rows"]:
            if one["method"] == "checkpoint":
                one["live"] = one["model"] = 0.98
        self.refused("M6")
        for off, refused in ((0.019, ("M6",)), (0.021, ("M6", "M7"))):  # stateless is at 0.99
            for one in self.record["live"]["rows"]:
                if one["method"] == "ladder-1":
                    one["live"] = one["model"] = 0.99 - off
            self.refused(*refused)

    def test_tables(self):
        text = tables.summary(study_read(self.record))
        for words in ("| none | < 0.25 |", "## 64 servers, 1 in 100 failures take everything", "| stateless | 0.9800 |",
                      "0.90 (1/4), 0.50 (1/1)", "| mirror | 2 | 5 | 0.930 | 0.920 |",
                      "| none | 0.1000 ±0.0000 | 4 | 1 | 2 | - | - |"):
            self.assertIn(words, text)
        lines = tables.summary_csv(study_read(self.record)).splitlines()
        self.assertEqual(len(lines), 1 + 3 * len(MTBFS) * len(RATIOS))
        self.assertEqual({line.count(",") for line in lines}, {tables.CSV_HEAD.count(",")})

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            made = mtbf.report(pathlib.Path(folder), self.record)
            made.write(pathlib.Path(folder), f"{folder}/all.json")
            text = (pathlib.Path(folder) / "plots" / "useful.svg").read_text(encoding="utf-8")
            xml.dom.minidom.parseString(text)
            for name in ("stateless", "64 servers", "1 week"):
                self.assertIn(name, text)


if __name__ == "__main__":
    unittest.main()
