# SPDX-License-Identifier: BSD-3-Clause
"""Each strategy's outage is drawn where that strategy's was, names stand at the ends of lines and
apart from each other, and the title says what came of it."""
import pathlib
import re
import tempfile
import unittest
import xml.dom.minidom

import numpy as np
import world

from report.kills import plots
from report.kills.data import Evals, Outage
from report.pictures import spread
from report.runs import Line

CASES = [("none", "async"), ("checkpoint", "async"), ("stateless", "async"), ("chain", "async"),
         ("checkpoint", "sync"), ("stateless", "sync"), ("chain", "sync")]
DOWN_S = {"checkpoint": 4.5, "stateless": 4.125, "chain": 0.25}
STORY, ACCURACY, LOSS, GRADIENTS, _ = plots.KINDS


def story_run(run):
    """Two seeds, one eighth of a second apart."""
    lost, apart = run.case.strategy.name == "checkpoint", (run.seed - 1.5) / 8
    down = DOWN_S.get(run.case.strategy.name, 0.0) + apart
    run.outages = [Outage(killed_s=5.0, first_applied_s=5.0 + down)] * run.case.kills
    run.figures = {"downtime_s": down if run.case.kills > 0 else world.NAN,
                   "gradients_lost": 50.0 if lost else 0.0, "test_accuracy": 0.5 if lost else 0.99}
    run.evals = Evals(np.ones(1), np.array([0.5 if lost else 0.99]), np.ones(1))
    run.line = Line(np.array([0.0, 20.0]), {})


class Plots(unittest.TestCase):
    def setUp(self):
        self.drill = world.drill([world.case(*one, kills=1) for one in CASES], seeds=2)
        for run in self.drill.runs:
            story_run(run)
        [self.sheet] = plots.sheets(self.drill)

    def svg(self, kind):
        with tempfile.TemporaryDirectory() as place:
            path = pathlib.Path(place) / "picture"
            plots.draw(self.sheet, kind, path)
            self.assertEqual(path.with_suffix(".png").read_bytes()[1:4], b"PNG")
            text = path.with_suffix(".svg").read_text()
        xml.dom.minidom.parseString(text)
        return re.findall(r">([^<>]+)</text>", text)

    def test_an_outage_ends_where_that_of_its_strategy_did(self):
        marks = list(plots.marks(self.sheet, STORY))
        self.assertEqual({(mark.case.strategy.name, mark.killed_s, mark.back_s) for mark in marks},
                         {(name, 5.0, 5.0 + down) for name, down in DOWN_S.items()})
        self.assertEqual(len(marks), 3)
        self.assertEqual(len(list(plots.marks(self.sheet, LOSS))), 6)  # of sync, too

    def test_the_title_is_the_result(self):
        self.assertEqual(plots.title(self.sheet, STORY),
                         "1 kill, 1 worker: chain goes on after 0.25 s and loses nothing, "
                         "checkpoint after 4.50 s and loses 50 gradients")
        self.assertEqual(plots.title(self.sheet, LOSS), "1 kill, 1 worker")

    def test_a_fault_made_on_purpose_is_no_result(self):
        fault = world.case("checkpoint-norestore", kills=1)
        self.drill.cases.append(fault)
        self.drill.runs.append(world.run(fault, 0))
        story_run(self.drill.runs[-1])
        self.drill.runs[-1].figures["test_accuracy"] = 0.1
        self.assertNotIn("norestore", plots.title(self.sheet, STORY))

    def test_a_picture_says_what_each_strategy_lost(self):
        said = self.svg(STORY)
        for words in (plots.title(self.sheet, STORY), "checkpoint: 4.50 s down, 50 lost",
                      "none: no kill", "killed", "chain back", "stateless back", "checkpoint back"):
            self.assertEqual(said.count(words), 1, (words, said))

    def test_every_line_of_every_panel_has_its_name(self):
        said = self.svg(GRADIENTS)
        for name, mode in CASES:
            words = f"{name} {mode}" + (", no kill" if name == "none" else "")
            self.assertEqual(said.count(words), 0, (words, said))  # nothing is known of gradients
        said = self.svg(ACCURACY)
        for name, mode in CASES:
            words = f"{name} {mode}" + (", no kill" if name == "none" else "")
            self.assertEqual(said.count(words), 1, (words, said))

    def test_names_at_the_ends_of_lines_are_apart(self):
        for places in ([0.5, 0.5, 0.5], [0.0, 0.01, 0.99, 1.0], [0.9, 0.1, 0.11, 0.5], [1.0] * 7,
                       [0.0] * 7, []):
            now = spread(places, 0.05)
            for a, b in zip(sorted(now), sorted(now)[1:]):
                self.assertGreaterEqual(b, a + 0.0499, places)
            self.assertTrue(all(0 <= place <= 1 for place in now), (places, now))
            self.assertEqual(sorted(range(len(now)), key=now.__getitem__),
                             sorted(range(len(now)), key=places.__getitem__))

    def test_no_two_strategies_have_one_colour(self):
        colours = {plots.colour_of(case) for case in self.sheet.cases(STORY)}
        self.assertEqual(len(colours), 4)

    def test_a_line_goes_as_far_as_all_seeds_do(self):
        self.drill.runs[0].line.t[-1] = 16.0
        self.assertEqual(plots.curve(self.drill, self.drill.runs[0].case, "accuracy").t[-1], 16.0)

    def test_the_run_without_kills_has_a_sheet_only_where_it_is_alone(self):
        self.assertEqual(self.sheet.name, "k1-w1")
        alone = world.drill([world.case("none")], seeds=1)
        self.assertEqual([sheet.name for sheet in plots.sheets(alone)], ["k0-w1"])
