# SPDX-License-Identifier: BSD-3-Clause
"""Failures that cost what was published confirm it; each deviation is seen by the claim that it is
about, and too few trials decide nothing. Tables and pictures show the same figures."""
import copy
import json
import pathlib
import tempfile
import unittest
import xml.dom.minidom

from report import out, scar
from report.claims import Verdict
from report.scar import judge, tables
from report.scar.data import study_read

TRIALS = 100
LOST = (0.25, 0.5, 0.75)
FULL_COST = 10.0
JUDGED = {"S1", "S2", "S3", "S4", "S5", "S6", "S8", "S9", "S11", "S12"}


def costs(mean):
    """Every second one is a tenth higher, every other one a tenth lower."""
    return [mean * (1.1 if trial % 2 else 0.9) for trial in range(TRIALS)]


def scheme(selection, part, *means):
    of_losses = [None, *means, None] if len(means) == 1 else means
    return {"selection": selection, "part": part, "bytes": 1.005,
            "cost": [None if mean is None else costs(mean) for mean in of_losses]}


def table(period):
    return {"period": period, "trials": TRIALS, "late": 0, "full": costs(FULL_COST), "schemes": [
        scheme("full", 1, 3.0, 5.5, 7.0),
        *(scheme("priority", part, 3.0) for part in (2, 4)), scheme("priority", 8, 1.0, 2.0, 3.0),
        *(scheme("round-robin", part, 4.0) for part in (2, 4, 8)),
        *(scheme("random", part, 12.0) for part in (2, 4, 8)),
        {**scheme("nothing", 1, 15.0), "bytes": 0.0}, scheme("extrapolated", 8, 0.8, 1.5, 2.5),
        scheme("int8", 8, 0.7, 1.2, 2.0), scheme("int8-extrapolated", 8, 0.2, 0.4, 0.8)]}


def bounds(rate):
    return {"what": "softmax", "steps": 89, "rate": rate, "rate_min": rate - 0.01, "pushes": [
        {"name": name, "count": 400, "above": 0, "above_measured": 0, "worst": 0.5, "tight": 1.0}
        for name in ("random", "adversarial", "reset")]}


def live(problem, recovery, cost):
    return {"problem": problem, "recovery": recovery, "kills": 20, "unlike": 0, "changed": 0,
            "strange": 0, "late": 0, "cost": costs(cost)[:20]}


RECORD = {
    "experiment": "scar", "command": "outlast drill", "folder": "here", "trials": TRIALS,
    "losses": list(LOST),
    "parts": [{"problem": "uneven", "what": "softmax", "blocks": 65, "steps": 64, "target": 0.9,
               "tables": [table(8), table(32)],
               "norms": [{"lost": lost, "ratio": lost + 0.005, "sd": 0.1, "failures": 1000,
                          "longer": 0} for lost in LOST]}],
    "bounds": [bounds(0.95), bounds(0.97)],
    "live": [live("uneven", "partial", 2.0), live("uneven", "full", 9.0)]}


class Scar(unittest.TestCase):
    def setUp(self):
        self.record = copy.deepcopy(RECORD)
        self.part = self.record["parts"][0]

    def claims(self):
        return {claim.id: claim for claim in judge.all_claims(study_read(self.record))}

    def refused(self, *ids):
        self.assertEqual({one.id for one in self.claims().values()
                          if one.verdict is Verdict.NOT_CONFIRMED}, set(ids))
        self.setUp()

    def cost(self, selection, part, loss, mean):
        for one in self.part["tables"]:
            for each in one["schemes"]:
                if (each["selection"], each["part"]) == (selection, part):
                    each["cost"][loss] = costs(mean)

    def test_what_was_published_is_confirmed(self):
        self.assertEqual({one.id for one in self.claims().values()
                          if one.verdict is Verdict.CONFIRMED}, JUDGED)
        self.refused()

    def test_too_few_trials_decide_nothing(self):
        self.record["trials"], self.record["live"] = 99, []
        self.assertEqual({one.id for one in self.claims().values()
                          if one.verdict is Verdict.CANNOT_JUDGE}, {"S3", "S4", "S5", "S7", "S8", "S9", "S10", "S11", "S12"})

    def test_a_cost_above_the_bound_refutes_it(self):
        self.record["bounds"][0]["pushes"][2]["above"] = 1
        self.refused("S1")
        self.record["bounds"][0]["pushes"][1]["tight"] = 0.7
        self.refused("S1")
        self.record["bounds"][1]["pushes"][1].update(above=9, tight=0.1)  # is shown only
        self.refused()

    def test_squares_are_as_the_fraction_lost(self):
        self.part["norms"][1]["longer"] = 1
        self.refused("S2")
        self.part["norms"][1]["ratio"] = 0.5 + 3.4 * 0.1 / 1000**0.5  # of 3.29 standard errors
        self.refused("S2")
        self.part["norms"][1]["ratio"] = 0.5 - 3.2 * 0.1 / 1000**0.5
        self.refused()

    def test_reductions_grow_and_reach_the_range(self):
        self.cost("full", 1, 2, 9.5)
        self.refused("S3")
        self.cost("full", 1, 1, 2.9)
        self.refused("S3")
        for loss, mean in enumerate((0.2, 0.4, 0.6)):  # above the range
            self.cost("full", 1, loss, mean)
        self.refused()

    def test_a_problem_where_nothing_need_be_saved_is_not_judged_by(self):
        self.cost("full", 1, 2, 9.5)
        self.cost("priority", 8, 1, 9.0)
        self.cost("extrapolated", 8, 1, 9.5)
        self.cost("int8", 8, 1, 9.5)
        self.cost("random", 4, 1, 3.5)
        self.cost("nothing", 1, 1, 2.0)
        self.record["parts"].append(copy.deepcopy(RECORD["parts"][0]))
        self.assertIn("Not judged by: uneven", self.claims()["S5"].numbers)
        self.refused()
        self.cost("nothing", 1, 1, 2.0)
        self.refused("S3", "S4", "S5", "S9", "S11", "S12")  # no other is left

    def test_carrying_on_is_better_everywhere_or_refuted(self):
        self.cost("extrapolated", 8, 1, 2.0)
        self.refused("S9")
        self.part["tables"][0]["schemes"][-3]["cost"][1] = costs(2.2)
        self.refused("S9")

    def test_int8_deltas_reach_more_and_are_no_worse(self):
        self.cost("int8", 8, 1, 1.8)
        self.refused("S11")
        self.cost("int8", 8, 1, 1.2)
        self.cost("int8-extrapolated", 8, 1, 0.6)
        self.refused("S12")

    def test_what_was_not_tried_is_not_judged(self):
        for one in self.part["tables"]:
            one["schemes"] = [scheme for scheme in one["schemes"] if not scheme["selection"].startswith("int8")]
        self.assertIn("it was not tried", self.claims()["S11"].because)

    def test_a_border_is_told_apart(self):
        framed = copy.deepcopy(self.part)
        self.part["problem"], framed["problem"] = "pixels", "framed"
        self.record["parts"].append(framed)
        self.assertEqual(self.claims()["S10"].verdict, Verdict.NOT_CONFIRMED)
        for one in framed["tables"]:
            next(each for each in one["schemes"]
                 if (each["selection"], each["part"]) == ("priority", 8))["cost"][1] = costs(1.0)
        self.assertEqual(self.claims()["S10"].verdict, Verdict.CONFIRMED)

    def test_orders_hold(self):
        self.cost("random", 4, 1, 3.5)
        self.refused("S4")

    def test_a_reduction_that_is_not_reached_is_seen(self):
        self.cost("priority", 8, 1, 2.3)
        self.refused("S5")

    def test_bytes_are_equal(self):
        self.part["tables"][0]["schemes"][4]["bytes"] = 1.02
        self.refused("S6")

    def test_live_servers_keep_what_they_have(self):
        for key in ("unlike", "changed", "strange", "late"):
            self.record["live"][1][key] = 1
            self.refused("S8")
        self.record["live"][0]["cost"] = costs(9.5)
        self.refused("S8")

    def test_tables_show_what_was_measured(self):
        study = study_read(self.record)
        rows = tables.summary_csv(study).splitlines()
        self.assertEqual(len(rows), 1 + 2 * (3 + 3 + 2 + 3 + 3 + 1 + 3 * 3))
        # 1.96 standard errors: of costs, and of a ratio that is the same in each trial
        self.assertIn("uneven,8,priority,0.125,0.5,100,2,1.9606,2.0394,0.8,0.8,0.8,10,1.005", rows)
        text = tables.summary(study)
        self.assertIn("| priority 1/8 | 1.005 | 1.00 ±0.02 (90 ±0 %) | 2.00 ±0.04 (80 ±0 %) |", text)
        self.assertIn("| priority 1/4 | 1.005 | - | 3.00 ±0.06 (70 ±0 %) | - |", text)
        self.assertIn("| uneven | full | 20 | 9.00 ", text)
        self.assertNotIn("Left out", text)
        study.left_out.append("gibbs: a run is too far off the others")
        self.assertIn("\nLeft out: gibbs: a run is too far off the others.\n", tables.summary(study))
        json.dumps(out.known(tables.as_json(study, judge.all_claims(study))), allow_nan=False)

    def test_one_trial_has_no_interval(self):
        self.record["trials"] = 1
        for one in self.part["tables"]:
            one["trials"], one["full"] = 1, one["full"][:1]
            for each in one["schemes"]:
                each["cost"] = [costs and costs[:1] for costs in each["cost"]]
        made = scar.report(pathlib.Path("."), self.record)
        self.assertIn(" 1.80 ±nan (80 ±nan %) ", made.summary)
        self.assertIsNone(out.known(made.tables)["tables"][0]["cells"][0]["cost"][1])
        with tempfile.TemporaryDirectory() as place:
            made.pictures["uneven"](pathlib.Path(place) / "uneven")

    def test_the_picture_has_the_result_as_its_title(self):
        made = scar.report(pathlib.Path("."), self.record)
        self.assertEqual(set(made.pictures), {"uneven"})
        with tempfile.TemporaryDirectory() as place:
            made.pictures["uneven"](pathlib.Path(place) / "uneven")
            text = (pathlib.Path(place) / "uneven.svg").read_text()
        xml.dom.minidom.parseString(text)
        self.assertIn("with half lost and C = 32, partial recovery from priority 1/8 costs 80 % "
                      "less", text)
