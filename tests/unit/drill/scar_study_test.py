# SPDX-License-Identifier: BSD-3-Clause
"""What a lost part of the parameters costs is counted right, on problems whose costs are known beforehand."""
import math
import statistics
import unittest
from typing import Any

import numpy

from drill.errors import Failure
from drill.scar import bound, study
from drill.scar.draw import Draw, philox
from drill.scar.lab import FULL, PRIORITY, ROUND_ROBIN, Lab, total

FLOATS, BLOCKS, ROWS = 64, 16, 600
RATE = 0.9


class Shrink:
    """Each float shrinks by a factor; the loss is the distance to 0. Blocks are every BLOCKS-th float.
    one: the first block alone moves."""

    def __init__(self, one: bool, rate: float = RATE) -> None:
        self.rows = numpy.zeros((ROWS, FLOATS), numpy.float32)
        index = numpy.arange(FLOATS)
        self.rows[0].view(numpy.uint32)[:] = index % BLOCKS
        self.rows[1] = 1.0 + index / FLOATS
        self.factor = numpy.where(one & (index % BLOCKS != 0), 1.0, rate).astype(numpy.float32)
        self.selectors: dict[int, dict[str, Any]] = {}
        self.lab = Lab(self.ask, {"name": "shrink", "what": "shrink"}, 1, 1, self.rows,
                       {"blocks": BLOCKS, "labels": False, "shape": ""})

    def ask(self, order: dict[str, Any]) -> Any:
        if "walk" in order:
            return {"losses": self.walk(**order)}
        if "select" in order:
            assert -2**63 <= order["seed"] < 2**63  # as JSON's readers in C take it
            self.selectors[order["at"]] = {**order, "turns": 0, "given": 0}
            return {}
        one = self.selectors[order["at"]]
        one["turns"] += 1
        first, one["given"] = one["given"], int(one["turns"] * one["fraction"] * BLOCKS + 0.5)
        count = one["given"] - first
        if one["select"] == PRIORITY:
            return {"chosen": numpy.argsort(order["turn"])[BLOCKS - count:].tolist()}
        if one["select"] == ROUND_ROBIN:
            return {"chosen": [(first + i) % BLOCKS for i in range(count)]}
        return {"chosen": Draw(7, one["turns"], 9).shuffle(BLOCKS)[:count].tolist()}

    def walk(self, walk: int, count: int, keep: bool, target: float | None, **_: int) -> list[float]:
        losses: list[float] = []
        while len(losses) < count and not (losses and target is not None and losses[-1] <= target):
            x = self.rows[walk]
            losses.append(float(numpy.sqrt(numpy.square(x.astype(float)).sum())))
            if not (target is not None and losses[-1] <= target):
                self.rows[walk + 1 if keep else walk] = x * self.factor
            walk += keep
        return losses


def steps_from(norm: float) -> int:
    """Iterations to below 1e-4 of a vector of norm 1 that shrinks by RATE"""
    k = 0
    while norm >= 1e-4:
        norm *= RATE
        k += 1
    return k


def random_costs(step: int, norm: float) -> tuple[float, float]:
    """Costs of perturbations of a norm in a random direction of 4, after `step` iterations: mean, sd"""
    costs = []
    for trial in range(2000):
        way = Draw(3, trial, 1).normals(4)
        moved = way * norm / math.sqrt(total(numpy.square(way)))
        moved[0] += math.pow(RATE, step)
        costs.append(step + steps_from(math.sqrt(total(numpy.square(moved)))) - steps_from(1.0))
    return statistics.fmean(costs), statistics.pstdev(costs)


def surely_more(a: list[float], share: float, b: list[float]) -> bool:
    """Trial by trial `a` is more than `share` of `b`, by more than two standard errors"""
    more = [x - share * y for x, y in zip(a, b, strict=True)]
    return statistics.fmean(more) > 2.0 * statistics.stdev(more) / math.sqrt(len(more))


class StudyTest(unittest.TestCase):
    def near(self, value: float, wanted: float, within: float) -> None:
        self.assertLessEqual(abs(value - wanted), within, (value, wanted))

    def test_the_bound_is_the_published_one(self) -> None:
        """An independent computation: linear map of factor 0.9 in 4 dimensions, target 1e-4"""
        for step, norm, limit, against, any_way in (
                (10, 0.01, 0.27, 0, 0.00), (10, 0.1, 2.39, 2, 0.36), (10, 1, 12.84, 13, 10.22),
                (30, 0.01, 2.01, 2, 0.10), (30, 0.1, 11.50, 11, 8.20), (30, 1, 30.39, 30, 30.00),
                (50, 0.01, 10.24, 10, 6.80), (50, 0.1, 28.62, 29, 28.02), (50, 1, 50.05, 50, 50.00)):
            self.near(bound.bound(RATE, step, norm, 1.0), limit, 0.005001)
            pushed = step + steps_from(math.pow(RATE, step) + norm)
            self.assertEqual(pushed - steps_from(1.0), against)
            mean, sd = random_costs(step, norm)  # the table has the mean of 50 directions
            self.near(mean, any_way, 4.0 * sd / math.sqrt(50.0) + 0.005)

    def test_a_run_that_converges_linearly_keeps_the_bound(self) -> None:
        made = bound.bounds_make(Shrink(False).lab, 60)
        self.assertEqual(made["steps"], 44)  # 0.9^44 < 0.01
        self.near(made["rate"], RATE, 1e-6)
        self.assertEqual([push["name"] for push in made["pushes"]], ["random", "adversarial", "reset"])
        for push in made["pushes"]:
            self.assertEqual((push["count"], push["above"], push["above_measured"]), (20, 0, 0))
        self.near(made["pushes"][bound.AGAINST]["tight"], 1.0, 0.1)
        with self.assertRaises(Failure) as raised:
            bound.bounds_make(Shrink(False, rate=0.999).lab, 3)
        self.assertEqual((raised.exception.code, str(raised.exception)),
                         (3, "shrink: Numerical result out of range"))

    def test_full_recovery_costs_what_was_done_since_the_checkpoint(self) -> None:
        lab = Shrink(False).lab
        run, row = study.Run(lab, 0, 50), lab.rows_take(2)
        self.assertEqual(run.steps, 50)
        saved = study.Saved(run, FULL, 1, 8)
        self.near(saved.share, 1.0, 1e-12)
        for trial in range(50):
            step = study.failure_step(run, trial, 1)
            self.assertIn(step, range(1, 50))
            lab.rows[row] = saved.state(run, step)
            self.assertTrue((lab.rows[row] == run.states()[step // 8 * 8]).all())
            self.assertEqual(run.arrive(step, row, run.target_of(trial)), (run.steps + step % 8, False))

    def test_targets_are_where_k_is_the_first_there(self) -> None:
        run = study.Run(Shrink(False).lab, 0, 50)
        targets = [run.target_of(trial) for trial in range(200)]
        low, high = run.losses[50], run.losses[49]
        self.assertTrue(all(low < target < high for target in targets))
        self.near(statistics.fmean(targets), (low + high) / 2, 4.0 * (high - low) / math.sqrt(12.0 * 200))

    def test_lost_blocks_are_extrapolated_by_no_more_than_they_had_moved(self) -> None:
        run = study.Run(Shrink(False).lab, 0, 50)
        saved, states = study.Saved(run, ROUND_ROBIN, 8, 16), run.states()
        for step in range(1, 50):
            extrapolated, turn = saved.extrapolated(run, step), step // 2 * 2
            for float_ in range(FLOATS):
                last, older = (int(at[step, float_ % BLOCKS]) for at in (saved.at, saved.before))
                z, before = states[last, float_], states[older, float_]
                share = min((turn - last) / (last - older), 1.0) if last > older else 0.0
                self.near(extrapolated[float_], z + share * (z - before), 1e-6)
        self.assertTrue((saved.before[49] < saved.at[49]).all())

    def test_int8_says_each_float_to_half_a_step_of_the_largest_beside_it(self) -> None:
        delta = (numpy.arange(600, dtype=numpy.float32) - 250) ** 3
        said = study.decoded(delta)
        for first in (0, 256, 512):
            run = slice(first, first + 256)
            step = numpy.abs(delta[run]).max() / 127
            self.assertLessEqual(numpy.abs(said[run] - delta[run]).max(), step / 2 * 1.0001)
            self.assertGreater(len(numpy.unique(said[run])), 60)
        self.assertTrue((study.decoded(numpy.zeros(3, numpy.float32)) == 0).all())

    def test_deltas_add_up_to_what_is_saved_and_save_more_blocks(self) -> None:
        run = study.Run(Shrink(False).lab, 0, 50)
        coded, plain = study.Coded(run, 8, 16), study.Saved(run, PRIORITY, 8, 16)
        self.near(coded.share, 1.0, 0.03)
        self.assertEqual(len(coded.kept), 26)
        for step in (7, 20, 49):
            turn = step // 2
            ages = turn * 2 - 2 * coded.at[turn]
            self.assertLess(ages.mean(), (step - plain.at[step]).mean() * 0.6)
            for float_ in range(FLOATS):
                at = int(coded.at[turn][float_ % BLOCKS])
                exact, said = run.states()[2 * at, float_], coded.state(run, step)[float_]
                self.near(said, exact, 0.02)
                then = int(coded.before[turn][float_ % BLOCKS])
                share = min((turn - at) / (at - then), 1.0) if at > then else 0.0
                self.near(coded.extrapolated(run, step)[float_],
                          said + share * (said - coded.kept[then][float_]), 1e-6)

    def test_what_does_not_arrive_is_late(self) -> None:
        lab = Shrink(True).lab
        run, row = study.Run(lab, 0, 20), lab.rows_take(2)
        lab.rows[row] = 5.0
        self.assertEqual(run.arrive(3, row, run.target), (80, True))

    def test_partial_recovery_throws_less_far_by_the_fraction_lost(self) -> None:
        norms = study.norms_make(study.Run(Shrink(True).lab, 0, 50), 1000, 16)
        for norm, loss in zip(norms, study.LOSSES, strict=True):
            self.assertEqual((norm["longer"], norm["failures"], norm["lost"]), (0, 1000, loss))
            within = 3.29 * norm["sd"] / math.sqrt(1000.0)  # sure to 99.9 %
            self.near(norm["ratio"], loss, within)
            self.assertLess(2.0 * within, 0.15)

    def test_priority_saves_what_moves_and_costs_less(self) -> None:
        table = study.table_make([study.Run(Shrink(True).lab, 0, 60)], 16, 60, False)
        self.assertEqual((table["period"], table["trials"], table["late"]), (16, 60, 0))
        for scheme in table["schemes"]:
            self.near(scheme["bytes"], 0.0 if scheme["selection"] == "nothing" else 1.0, 0.04)
        cost = {(scheme["selection"], scheme["part"]): scheme["cost"][1] for scheme in table["schemes"]}
        self.assertTrue(surely_more(cost["round-robin", 8], 1.0, cost["priority", 8]))
        self.assertTrue(surely_more(cost["random", 8], 1.0, cost["priority", 8]))
        self.assertTrue(surely_more(table["full"], 2.0, cost["priority", 8]))
        self.assertLessEqual(set(table["full"]), set(map(float, range(16))))

    def test_few_leaves_out_the_larger_fractions(self) -> None:
        table = study.table_make([study.Run(Shrink(False).lab, 0, 40)], 8, 5, True)
        for scheme in table["schemes"]:
            full, small = scheme["selection"] == "full", scheme["part"] in (1, 8)
            self.assertEqual(scheme["cost"][1] is not None, small)
            self.assertEqual(scheme["cost"][0] is not None,
                             full or (small and scheme["selection"] in ("priority", "extrapolated", "int8",
                                                                        "int8-extrapolated")))

    def test_any_seed_is_one(self) -> None:
        lab = Shrink(False).lab
        lab.seed = 2**64 - 1
        table = study.table_make([study.Run(lab, 0, 20)], 8, 2, True)
        self.assertEqual(table["late"], 0)
        self.assertEqual(len(study.norms_make(study.Run(lab, 0, 20), 10)), len(study.LOSSES))

    def test_names_are_one_apart_or_the_same(self) -> None:
        lab = Shrink(False).lab
        x, y = numpy.float32([1, 2, 3]), numpy.float32([1, 5, 2])
        self.assertEqual(lab.apart2(x, y).tolist(), [0.0, 9.0, 1.0])
        lab.labels = True
        self.assertEqual(lab.apart2(x, y).tolist(), [0.0, 1.0, 1.0])


class DrawTest(unittest.TestCase):
    def test_philox_is_the_published_one(self) -> None:
        """Known answers of Random123"""
        ones = 2**32 - 1
        for counter, key, words in (
                ((0, 0, 0, 0), (0, 0), (0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8)),
                ((ones,) * 4, (ones,) * 2, (0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd)),
                ((0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344), (0xa4093822, 0x299f31d0),
                 (0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1))):
            self.assertEqual(tuple(map(int, philox(counter, key))), words)

    def test_random_numbers_are_those_of_the_problems(self) -> None:
        """Two uniforms, two normals, four numbers below limits; scar_test.c has the same table for model.c"""
        for of, uniforms, normals, belows in (
                ((1, 0, 3), ("0x1.71fcd8f9a8326p-2", "0x1.7a29e0c945872p-2"),
                 ("0x1.37646a0559cbap-1", "0x1.02c94774e5256p-2"), [7, 729, 2630740927, 0]),
                ((0x123456789abcdef0, 0x200000001, 7), ("0x1.962e3a15be6b3p-1", "0x1.307f932b1d1b7p-1"),
                 ("0x1.e33fdea2ea3d6p+0", "0x1.55bda59c052ecp-2"), [6, 250, 1194841229, 0])):
            draw = Draw(*of)
            self.assertEqual(draw.uniforms(2).tolist(), [*map(float.fromhex, uniforms)])
            self.assertEqual(draw.normals(2).tolist(), [*map(float.fromhex, normals)])
            self.assertEqual(draw.belows([10, 1000, 2**32 - 1, 1]).tolist(), belows)

    def test_failures_come_as_drawn(self) -> None:
        steps = [Draw(1, trial, 1).geometric(20.0, 1000) for trial in range(4000)]
        self.assertLess(abs(statistics.fmean(steps) - 20.0), 4.0 * 20.0 / math.sqrt(4000.0))
        for trial in range(100):
            self.assertEqual(sorted(Draw(1, trial, 2).shuffle(BLOCKS)), list(range(BLOCKS)))

    def test_several_draws_are_one_after_the_other(self) -> None:
        one, two = Draw(5, 2**33 + 1, 3), Draw(5, 2**33 + 1, 3)
        self.assertEqual([one.uniform() for _ in range(4)], two.uniforms(4).tolist())
        self.assertEqual([one.below(7) for _ in range(50)], two.belows([7] * 50).tolist())
        self.assertNotEqual(Draw(2**32 + 5, 1, 3).uniform(), Draw(5, 1, 3).uniform())
