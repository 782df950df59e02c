# SPDX-License-Identifier: BSD-3-Clause
"""A published value agrees with runs that scatter around it, and with no others; runs of another
protocol are not compared with it."""
import dataclasses
import pathlib
import tempfile
import unittest

import numpy as np
import world

from report.claims import Verdict
from report.kills import published
from report.kills.data import Evals, Outage
from report.runs import Line

NAN = float("nan")
SEEDS = 5
T = np.arange(0.0, 240.0, 2.0)


def like(run, row):
    """A run that does what the published one did, with a scatter by its seed."""
    scatter = 0.01 * (run.seed - 3)
    knots = [(0.0, 0.1), (row.to_060_s, 0.61), (row.to_070_s, 0.71), (row.to_075_s, 0.76)]
    knots = [(t, a) for t, a in knots if not np.isnan(t)] + [(190.0, row.at_200)]
    knots.sort()
    accuracy = np.interp(T, *zip(*knots)) + scatter
    run.evals = Evals(T, accuracy, np.ones_like(T))
    run.outages = [Outage(accuracy_before=0.5, accuracy_after=0.5 + (step if step == step else 0.0)
                          + scatter) for step in row.steps]
    run.line = Line(np.array([0.0, 209.0]), {"applied": np.array([0.0, 1200.0 + 4 * run.seed]),
                                           "lost": np.zeros(2)})
    run.figures["cost"] = 1.0


class Published(unittest.TestCase):
    def setUp(self):
        cases = [dataclasses.replace(world.case("checkpoint"), name=row.name,
                                     strategy=self.strategy(row.strategy), kills=row.kills,
                                     consistency=row.consistency) for row in published.ROWS]
        self.drill = world.drill(cases, SEEDS)
        self.drill.settings.update(published.PROTOCOL, pace=5.0)
        for row in published.ROWS:
            for run in self.of(row.name):
                like(run, row)

    @staticmethod
    def strategy(name):
        named = {one.name: one for one in world.STRATEGIES}
        return named.get(name, named["chain"])

    def of(self, name):
        return [run for run in self.drill.runs if run.case.name == name]

    def claim(self, name):
        return next(one for one in published.all_claims(self.drill) if one.id == name)

    def beside(self, name, head):
        return next(one for row, values in published.rows(self.drill) if row.name == name
                    for one in values if one.value.head == head)

    def test_another_protocol_is_not_compared(self):
        self.drill.settings["pace"] = 0.0
        self.assertEqual(published.all_claims(self.drill), [])
        self.assertEqual(published.files(self.drill), {})
        self.assertEqual(published.pictures(self.drill), {})

    def test_runs_that_scatter_around_a_value_agree(self):
        one = self.beside("checkpoint-sync-k1-w1", "at 200 s")
        self.assertTrue(one.agrees)
        self.assertIn("0.760 (", one.text())

    def test_a_value_far_away_does_not(self):
        for run in self.of("checkpoint-sync-k1-w1"):
            run.evals.accuracy[:] = 0.5 + 0.001 * run.seed
        one = self.beside("checkpoint-sync-k1-w1", "at 200 s")
        self.assertFalse(one.agrees)
        self.assertTrue(one.text().endswith("!"))
        self.assertIn("checkpoint-sync-k1", self.claim("Figures 4, 5").numbers)

    def test_what_was_not_reached_agrees_if_one_of_ours_was_not(self):
        name = "stateless-published-async-k1-w1"
        self.assertTrue(self.beside(name, "s to 0.75").agrees)
        for run in self.of(name):
            run.evals.accuracy[20:] = 0.9
        self.assertFalse(self.beside(name, "s to 0.75").agrees)

    def test_what_is_behind_another_restore_is_not_judged(self):
        name = "checkpoint-norestore-async-k2-w1"
        for run in self.of(name):
            run.evals.accuracy[:] = 0.1
        one = self.beside(name, "last ten")
        self.assertFalse(one.judged or one.agrees or "!" in one.text())
        self.assertTrue(self.beside(name, "step at kill 1").judged)

    def test_two_runs_judge_nothing(self):
        self.drill.runs = [run for run in self.drill.runs if run.seed <= 2]
        self.assertIs(self.claim("Figures 4, 5").verdict, Verdict.CANNOT_JUDGE)

    def test_ours_that_came_late_count(self):
        name = "chain-periodic-sync-k1-w1"
        for run in self.of(name)[:3]:
            run.evals.accuracy[:] = 0.5
        one = self.beside(name, "s to 0.60")
        self.assertIn("3 never", one.text())
        self.assertTrue(one.agrees)  # from the 82 s of two to the 240 s of three
        for run in self.of(name):
            run.evals.accuracy[:] = 0.5
        self.assertFalse(self.beside(name, "s to 0.60").agrees)

    def test_gradients_are_judged_by_runs_with_one_kill(self):
        self.assertIs(self.claim("Figure 8").verdict, Verdict.NOT_CONFIRMED)
        for one in published.RESOURCES:
            for run in self.of(f"{one.strategy}-{one.consistency}-k1-w1"):
                run.line.columns["applied"][1] = one.gradients + run.seed - 3
        self.assertIs(self.claim("Figure 8").verdict, Verdict.CONFIRMED)

    def test_longer_is_judged_with_the_restore(self):
        self.assertIs(self.claim("C3").verdict, Verdict.CANNOT_JUDGE)  # no checkpoint, two kills
        case = dataclasses.replace(world.case("checkpoint"), name="checkpoint-async-k2-w1")
        self.drill.cases.append(case)
        for seed in range(SEEDS):
            self.drill.runs.append(world.run(case, seed))
        for run in self.drill.runs:
            run.figures["time_to_070_s"] = 100.0 + run.seed
        self.assertIs(self.claim("C3").verdict, Verdict.NOT_CONFIRMED)
        for run in self.of("checkpoint-async-k2-w1"):
            run.figures["time_to_070_s"] = NAN  # the whole run
        self.assertIs(self.claim("C3").verdict, Verdict.CONFIRMED)

    def test_a_method_that_costs_more_is_named(self):
        self.assertIs(self.claim("C7").verdict, Verdict.CONFIRMED)
        for run in self.of("chain-periodic-sync-k1-w1"):
            run.figures["cost"] = 2.0
        claim = self.claim("C7")
        self.assertIs(claim.verdict, Verdict.NOT_CONFIRMED)
        self.assertIn("chain-periodic-sync-k1 2.00 times", claim.numbers)
        for run in self.drill.runs:
            if run.case.name.startswith("stateless-published-"):
                run.status = "failed"
        self.assertIs(self.claim("C7").verdict, Verdict.CANNOT_JUDGE)

    def test_a_table_and_a_picture_of_each_number_of_kills(self):
        self.assertIn("figures 4 and 5", published.files(self.drill)["published.md"])
        with tempfile.TemporaryDirectory() as folder:
            for name, draw in published.pictures(self.drill).items():
                draw(pathlib.Path(folder) / name)
            self.assertEqual(sorted(path.name for path in pathlib.Path(folder).glob("*.png")),
                             ["published-k1.png", "published-k2.png"])


if __name__ == "__main__":
    unittest.main()
