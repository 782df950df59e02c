# SPDX-License-Identifier: BSD-3-Clause
"""Runs that do what was published confirm it; each deviation is seen by the claim that it is about,
and too few seeds decide nothing. Tables and pictures show the same figures."""
import copy
import json
import pathlib
import tempfile
import unittest
import xml.dom.minidom

from report import dbw, out
from report.claims import Verdict
from report.dbw import judge, plots, tables
from report.dbw.data import study_read

SEEDS = 5
KS = (1, 2, 4, 8, 12, 14, 16)
ADASYNCS = (1, 2, 4, 8, 16)
JUDGED = {"D1", "D4", "D5", "D6", "D7", "D8", "D9", "D10", "D11", "D12"}
LATE = {"L1", "L2", "L3", "L4"}


def cell(method, time, k=0, k_mean=8.0):
    seeds = [1.0 + seed / 100 for seed in range(SEEDS)]
    return {"method": method, "k": k,
            "time": [[part * time * one for one in seeds] for part in (0.1, 0.5, 1.0)],
            "missed": [0, 0, 0], "k_mean": [k_mean] * SEEDS, "k_early": [k_mean - 2] * SEEDS,
            "k_late": [k_mean + 2] * SEEDS, "all_share": [0.95 if k_mean > 15 else 0.2] * SEEDS}


def setting(alpha, batch, group="grid"):
    """Equal times: whoever waits for all is fast. Uneven ones: k = 8 is the best that is fixed."""
    best, others, of_all = (16, 15.0, 10.0) if alpha == 0 else (8, 20.0, 40.0)
    times = {k: 10.0 if k == best else of_all if k == 16 else others for k in KS}
    k_mean = 15.5 if alpha == 0 else 6.0 if batch > 16 else 9.0
    label = f"n=16 alpha={alpha:g} B={batch} lr=0.8" + ("" if group == "grid" else f" {group}")
    return {"group": group, "workers": 16, "alpha": alpha, "batch": batch, "lr": 0.8,
            "time_max": 200.0, "label": label, "cells": [
                *(cell(f"k={k}", time, k, k) for k, time in times.items()),
                cell("dbw", 10.0 if alpha == 0 else 5.0, k_mean=k_mean),
                cell("dbw-blind", 12.0), *(cell(f"adasync:{k}", 13.0) for k in ADASYNCS)]}


def slow(alpha):
    of_seeds = {"k_before": 16.0, "k_after": 8.0, "step_before": 1.0, "step_after": 1.4,
                "all_before": 1.0, "all_after": 5.0, "steps_to_half": 20.0}
    return {"alpha": alpha, **{key: [value] * SEEDS for key, value in of_seeds.items()}}


def late(name, group="grid"):
    """A setting: carrying is four times as fast, ageing twice."""
    times = {"dbw": 40.0, "dbw,late=next": 10.0, "dbw,late=aged": 20.0, "k=1,late=next": 12.0}
    return {"group": group, "name": name, "time_max": 200.0, "cells": [
        {"method": method, "time": [time * (1.0 + seed / 100) for seed in range(SEEDS)], "missed": 0,
         "k_mean": [2.0] * SEEDS, "wasted": [0.75 if method == "dbw" else 0.0] * SEEDS}
        for method, time in times.items()]}


RECORD = {
    "experiment": "dbw", "command": "outlast drill", "folder": "here", "quick": False,
    "workers": 16, "seeds": SEEDS, "time_steps": 36000, "first_loss": 2.3, "least_loss": 0.7,
    "depths": [0.5, 0.1, 0.01],
    "settings": [*(setting(alpha, batch) for alpha in (1.0, 0.0) for batch in (512, 16)),
                 setting(1.0, 512, "scaled"), setting(1.0, 512, "other")],
    "times": [{"alpha": 1.0, "k": 8, "psi": 1.005, "psi_exact": 1.0, "psw": 1.01,
               "psw_known": 1.0, "pull": 1.1},
              {"alpha": 1.0, "k": 9, "psi": 1.0, "psi_exact": 1.0, "psw": 9.0,
               "psw_known": None, "pull": 1.1}],
    "slows": [slow(0.0), slow(1.0)],
    "lates": [late("one"), late("two"), late("three", "large"), late("four", "large")],
    "curve": [[0.0, 1, 2.3], [1.0, 4, 1.5], [2.0, 12, 0.8]]}


class Dbw(unittest.TestCase):
    def setUp(self):
        self.record = copy.deepcopy(RECORD)

    def claims(self):
        return {claim.id: claim for claim in judge.all_claims(study_read(self.record))}

    def refused(self, *ids):
        self.assertEqual({one.id for one in self.claims().values()
                          if one.verdict is Verdict.NOT_CONFIRMED}, set(ids))

    def of(self, alpha, method):
        return [one for each in self.record["settings"] if each["alpha"] == alpha
                for one in each["cells"] if one["method"] == method]

    def slower(self, alpha, method, by):
        for one in self.of(alpha, method):
            one["time"] = [[by * time for time in times] for times in one["time"]]

    def test_what_was_published_is_confirmed(self):
        self.assertEqual({one.id for one in self.claims().values()
                          if one.verdict is Verdict.CONFIRMED}, JUDGED | LATE)
        self.refused()

    def test_too_few_seeds_or_settings_decide_nothing(self):
        for key, value in (("seeds", 4), ("quick", True), ("time_steps", 3600)):
            self.record = {**copy.deepcopy(RECORD), key: value}
            undecided = {one.id for one in self.claims().values()
                         if one.verdict is Verdict.CANNOT_JUDGE}
            self.assertEqual(undecided - {"D2", "D3"},
                             {"D1"} if key == "time_steps" else JUDGED - {"D1"})

    def test_times_are_known(self):
        self.record["times"][0]["psi"] = 0.98
        self.refused("D1")
        self.record["times"][0].update(psi=1.0, psw=1.03)
        self.refused("D1")

    def test_equal_times_are_waited_for(self):
        for one in self.of(0.0, "dbw"):
            one["all_share"] = [0.8] * SEEDS
        self.refused("D4")
        self.record = copy.deepcopy(RECORD)
        self.slower(0.0, "dbw", 1.1)
        self.refused("D4", "D12")

    def test_uneven_times_are_not(self):
        self.slower(1.0, "dbw", 2.2)  # 1.1 of the best fixed k
        self.refused("D5", "D9", "D11", "D12")

    def test_k_that_falls_is_seen(self):
        for one in self.of(1.0, "dbw"):
            one["k_early"], one["k_late"] = one["k_late"], one["k_early"]
        self.refused("D6")

    def test_a_fixed_k_that_fits_everywhere_is_seen(self):
        self.slower(0.0, "k=8", 0.7)
        self.refused("D7")

    def test_slow_workers_are_left_out_soon(self):
        for key, value in (("k_after", 10.0), ("steps_to_half", 51.0), ("step_after", 1.6),
                           ("all_after", 3.0)):
            self.record = copy.deepcopy(RECORD)
            self.record["slows"][0][key] = [value] * SEEDS
            self.refused("D8")

    def test_a_blind_one_as_fast_is_seen(self):
        self.slower(0.0, "dbw-blind", 0.5)
        self.slower(1.0, "dbw-blind", 0.5)
        self.refused("D10")

    def test_the_best_first_k_of_adasync_counts(self):
        for alpha in (0.0, 1.0):
            self.slower(alpha, "adasync:2", 0.5)
        self.refused("D10")

    def test_each_group_is_judged_by_its_claims(self):
        self.record["settings"][5]["cells"][7]["time"] = [[2.2 * time for time in times]
                                                          for times in self.record["settings"][5]["cells"][7]["time"]]
        self.refused("D12")
        self.record = copy.deepcopy(RECORD)
        self.record["settings"][4]["cells"][7]["time"] = [[1.5 * time for time in times]
                                                          for times in self.record["settings"][4]["cells"][7]["time"]]
        self.refused("D11")

    def lates_take(self, at, method, times_as_long, seeds=SEEDS):
        for one in self.record["lates"][at]["cells"]:
            if one["method"] == method:
                one["time"] = [time * (times_as_long if seed < seeds else 1.0) for seed, time in enumerate(one["time"])]

    def test_late_gradients_have_claims_of_their_own(self):
        self.lates_take(1, "dbw,late=next", 4.3)  # 0.93 times as fast as dropping, in one setting
        self.refused("L1")
        self.lates_take(2, "dbw,late=next", 30.0)  # where the rate is large, the mean over settings counts
        self.refused("L1", "L3")
        self.record = copy.deepcopy(RECORD)
        self.lates_take(3, "dbw,late=aged", 30.0, seeds=3)  # faster or not: by seed
        self.refused("L4")

    def test_too_few_seeds_or_settings_decide_nothing_of_late_gradients(self):
        del self.record["lates"][1:]
        self.assertEqual({self.claims()[name].verdict for name in LATE}, {Verdict.CANNOT_JUDGE})
        self.record = copy.deepcopy(RECORD)
        for each in self.record["lates"]:
            for one in each["cells"]:
                one["time"] = one["time"][:4]
        self.assertEqual({self.claims()[name].verdict for name in LATE}, {Verdict.CANNOT_JUDGE})

    def test_late_gradients_have_a_table(self):
        study = study_read(self.record)
        claims = self.claims()
        self.assertIn("| one | 40.8 ±0.8 | 10.2 ±0.2 | 20.4 ±0.4 | 12.2 ±0.2 | 4.00 (4.00 to 4.00) | 2.00 (2.00 to 2.00) |",
                      tables.summary(study))
        self.assertIn("gradients wasted: 0 %, where late ones are dropped 75 %", claims["L1"].numbers)
        whole = tables.as_json(study, judge.all_claims(study))
        self.assertEqual([len(one["cells"]) for one in whole["lates"]], [4] * 4)

    def test_tables_show_what_was_measured(self):
        study = study_read(self.record)
        rows = [row.split(",") for row in tables.summary_csv(study).splitlines()]
        self.assertEqual(len(rows), 1 + 6 * 3 * 14)
        self.assertIn("16,1,512,0.8,0.01,k=8,5,0,10.2".split(","), [row[:9] for row in rows])
        text = tables.summary(study)
        self.assertIn("| n=16 alpha=1 B=512 lr=0.8 | 0.01 | 20.4 ±0.4 |", text)
        self.assertIn("| 2.00 (2.00 to 2.00) | k=8 | 6.0, 4.0 to 8.0 |", text)
        whole = tables.as_json(study, judge.all_claims(study))
        json.dumps(out.known(whole), allow_nan=False)
        self.assertAlmostEqual(whole["settings"][0]["dbw_by_best"][0], 2.0)

    def test_dbw_is_shown_beside_each_method_where_nothing_was_chosen(self):
        study = study_read(self.record)
        text = tables.faster_text(study)
        self.assertIn("| n=16 alpha=1 B=512 lr=0.8 other | 2.00 (2.00 to 2.00), k=8 | 8.00 (8.00 to 8.00) | "
                      "2.40 (2.40 to 2.40) |" + " 2.60 (2.60 to 2.60) |" * len(ADASYNCS), text)
        self.assertEqual(text.count("n=16"), 1)
        self.assertIn(text, tables.summary(study))
        study.settings = study.grid
        self.assertNotIn("how many times as fast DBW is", tables.summary(study))

    def test_one_seed_has_no_interval(self):
        self.record["seeds"] = 1
        for each in self.record["settings"]:
            for one in each["cells"]:
                one["time"] = [times[:1] for times in one["time"]]
        self.assertIn("| 20.0 |", tables.summary(study_read(self.record)))

    def test_pictures_have_the_result_as_their_title(self):
        del self.record["settings"][1::2]
        made = dbw.report(pathlib.Path("."), self.record)
        self.assertEqual(set(made.pictures), {"grid", "course"})
        with tempfile.TemporaryDirectory() as place:
            for name, title in (("grid", "DBW is 1.00 to 2.00 times as fast as the best fixed k"),
                                ("course", "k from 1 to 12 as the loss falls from 2.3 to 0.8")):
                made.pictures[name](pathlib.Path(place) / name)
                text = (pathlib.Path(place) / f"{name}.svg").read_text()
                xml.dom.minidom.parseString(text)
                self.assertIn(title, text)

    def test_without_a_course_there_is_no_picture_of_it(self):
        self.record["curve"] = []
        self.assertEqual(set(plots.pictures(study_read(self.record))), {"grid"})

