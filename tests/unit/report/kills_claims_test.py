# SPDX-License-Identifier: BSD-3-Clause
"""A claim is confirmed by runs that bear it out, refused by runs that do not, and not judged from
too few."""
import dataclasses
import unittest

import world

from report import claims
from report.claims import Verdict
from report.kills import judge

IDS = ["R2", "R3", "R4, early", "R4, late", "R5", "R6", "R7", "R8", "R9", "R10"]
NAMES = ("none", "checkpoint", "checkpoint-norestore", "stateless", "stateless-published", "mirror")


class Claims(unittest.TestCase):
    def setUp(self):
        self.drill = world.drill([world.case(name) for name in NAMES])

    def of(self, name):
        return [run for run in self.drill.runs if run.case.strategy.name == name]

    def judged(self, name, verdict):
        claim = next(one for one in judge.all_claims(self.drill) if one.id == name)
        self.assertIs(claim.verdict, verdict, claim)
        self.assertEqual(bool(claim.because), verdict is Verdict.CANNOT_JUDGE, claim)
        return claim

    def confirmed(self, name):
        return self.judged(name, Verdict.CONFIRMED)

    def refused(self, name):
        return self.judged(name, Verdict.NOT_CONFIRMED)

    def not_judged(self, name):
        return self.judged(name, Verdict.CANNOT_JUDGE)

    def numbers(self, name):
        return next(one for one in judge.all_claims(self.drill) if one.id == name).numbers

    def test_what_was_published_is_confirmed(self):
        self.assertEqual([claim.id for claim in judge.all_claims(self.drill)], IDS)
        for name in IDS:
            self.confirmed(name)

    def test_no_run_confirms_nothing(self):
        for i, run in enumerate(self.drill.runs):
            run.status = "failed" if i % 2 == 0 else "not made"
        for name in IDS:
            self.not_judged(name)

    def test_two_seeds_decide_nothing(self):
        for run in self.drill.runs:
            run.status = "done" if run.seed <= 2 else "not made"
        for name in IDS:
            if name not in ("R5", "R6"):  # of four recoveries a strategy, all strategies together
                self.not_judged(name)

    def test_a_rollback_without_cost_is_none(self):
        for run in self.of("checkpoint"):
            run.outages[0].loss_after = 1.9
        self.refused("R2")

    def test_more_steps_lost_than_an_interval_are_too_many(self):
        for run in self.of("checkpoint"):
            run.line.columns["lost"][1:] = 150.0
        self.refused("R2")

    def test_the_kill_that_runs_of_one_seed_have_in_common_counts_once(self):
        self.drill = world.drill([world.case("checkpoint", kills=kills) for kills in (1, 2)])
        self.assertIn("in 16 of 16 recoveries", self.numbers("R2"))
        for run in self.drill.runs:  # a run that failed has shown none
            if run.case.kills == 1 and run.seed <= 3:
                run.status = "failed"
        self.assertIn("in 16 of 16 recoveries", self.numbers("R2"))
        for run in self.drill.runs:
            if run.seed == 1:
                run.status = "failed"
        self.assertIn("in 14 of 14 recoveries", self.numbers("R2"))

    def test_other_workers_and_other_consistency_are_other_trials(self):
        self.drill = world.drill([world.case("checkpoint", kills=1), world.case("checkpoint", "sync"),
                                  world.case("checkpoint", workers=2)])
        self.assertIn("in 40 of 40 recoveries", self.numbers("R2"))

    def test_the_report_knows_better_than_the_time_line_what_was_lost(self):
        for run in self.of("checkpoint"):
            for one in run.outages:
                one.lost = 100.0
        self.refused("R2")

    def test_one_gradient_lost_refutes_that_none_is(self):
        run = self.of("stateless-published")[3]
        run.figures["gradients_lost"] = 1.0
        self.refused("R3")
        run.figures["gradients_lost"] = 0.0
        run.figures["gradients_replayed"] += 1.0
        self.refused("R3")
        for other in self.drill.runs:  # even alone
            other.status = "not made"
        run.status = "done"
        self.refused("R3")

    def test_what_synchronous_runs_do_is_shown_and_decides_nothing(self):
        run = self.of("stateless")[3]
        run.case = dataclasses.replace(run.case, consistency="sync")
        run.figures.update(gradients_replayed=0.0, gradients_dropped=200.0)
        self.assertIn("sync: lost 0, queued 200, replayed 0", self.confirmed("R3").numbers)

    def test_a_leap_is_no_fall(self):
        for run in self.of("stateless-published"):
            run.outages[0].loss_after = 2.1
            run.outages[1].accuracy_after = 0.8
        self.refused("R4, early")
        self.refused("R4, late")

    def test_a_step_of_nothing_is_neither(self):
        for run in self.of("stateless-published"):
            for one in run.outages:
                one.loss_after, one.accuracy_after = one.loss_before, one.accuracy_before
        self.refused("R4, early")
        self.refused("R4, late")

    def test_kills_are_early_or_late_by_their_loss(self):
        for run in self.of("stateless-published"):
            run.outages[1].loss_before = 1.6
        self.not_judged("R4, late")
        self.refused("R4, early")  # half of them fall now

    def test_an_outage_is_no_shorter_than_the_time_down(self):
        for run in self.drill.runs:
            for one in run.outages[:1]:
                one.first_applied_s = 29.0
        self.refused("R5")

    def test_workers_that_slow_down_or_do_not_wait_are_seen(self):
        for run in self.of("stateless"):
            run.figures["utilisation"] = 0.85
        self.refused("R6")
        for run in self.of("stateless"):
            run.figures["utilisation"] = 0.9
        self.confirmed("R6")
        for run in self.of("mirror"):
            run.figures["utilisation"] = 0.2
        self.refused("R6")

    def test_a_surplus_of_five_times_is_too_much(self):
        for run in self.of("stateless"):
            run.figures["gradients_computed"] = 5000.0
        self.refused("R7")

    def test_memory_is_constant_or_in_proportion(self):
        for run in self.drill.runs:
            run.figures["queue_peak_mb"] = 100.0  # m: 200 in two outages
        self.confirmed("R8")
        for run in self.drill.runs:
            run.figures["queue_peak_mb"] = 50.0
        self.refused("R8")

    def test_a_restore_that_restores_is_no_fault(self):
        for run in self.of("checkpoint-norestore"):
            run.outages[0].accuracy_after = 0.5
        self.refused("R9")

    def test_a_method_that_is_better_beyond_noise_is_seen(self):
        for run in self.of("mirror"):
            run.evals.accuracy += 0.01
        self.refused("R10")

    def test_accuracy_is_compared_at_equal_gradients(self):
        for run in self.of("stateless"):  # has applied more at its end, and is better there only
            run.figures["gradients_applied"] = 2000.0
            run.line.t[3], run.line.columns["applied"][3] = 85.0, 2000.0
            run.evals.accuracy[5] = 0.99
        self.confirmed("R10")

    def test_what_cannot_be_judged_is_one_line(self):
        for run in self.of("checkpoint-norestore"):
            run.status = "not made"
        text = claims.markdown(judge.all_claims(self.drill), "a paper", "a drill")
        self.assertEqual(text.count("\n| R"), len(IDS) - 1)
        self.assertNotIn("| R9 |", text)
        self.assertIn("\nNot judged from these runs: R9. ", text)
