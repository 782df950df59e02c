# SPDX-License-Identifier: BSD-3-Clause
"""Trainings in virtual time take as long as can be told by hand."""
import itertools
import math
import pathlib
import random
import tempfile
import unittest
from dataclasses import replace

from drill.mtbf import live, model
from drill.mtbf.course import CONSTANTS, row
from drill.mtbf.model import LADDER, METHODS, Constants, Failure, Job

GOAL = 1000.0
JOB = Job(servers=4, workers=4, params=1e9, state=3.0, step=2.0, network=4e9, storage=16e9, down=10.0, host_down=100.0)
# a shard is sent in 3 s, all of them are saved or read in 3 s, a gradient takes 1 s to the next replica
KNOWN = Constants(failover_s=0.5, lease_s=5.0, found_s=4.0, restore_s=1.0, stall=0.5, efficiency=((0.0, 1.0), (0.25, 0.8), (0.5, 0.6), (1.0, 0.0)),
                  rework=((0.0, 0.0), (0.25, 0.1), (1.0, 0.4)))
NONE, STOP, FULL, PRIORITY, MIRROR, STATELESS, CHAIN, CHAIN_3, CHAIN_GO = METHODS


def outcome(method: model.Method, *losses: tuple[object, ...], job: Job = JOB, every: float = math.inf,
            limit: float = 1e6) -> model.Outcome:
    return model.course(job, method, KNOWN, every, [Failure(*one) for one in losses], GOAL, limit)


class Arithmetic(unittest.TestCase):
    def takes(self, seconds: float, *args: object, **named: object) -> model.Outcome:
        of = outcome(*args, **named)  # type: ignore[arg-type]
        self.assertAlmostEqual(of.time_s, seconds, places=4)
        self.assertTrue(of.arrived)
        return of

    def test_without_failures(self) -> None:
        for method in (NONE, MIRROR, STATELESS):
            self.takes(GOAL, method)
        self.takes(1.5 * GOAL, CHAIN)  # 1 s more each step of 2 s
        self.takes(2.0 * GOAL, CHAIN_3)

    def test_nothing_kept(self) -> None:
        of = self.takes(GOAL + 100 + 11, NONE, (100, "server", 2))
        self.assertAlmostEqual(of.lost_s, 100, places=4)

    def test_mirror(self) -> None:
        of = self.takes(GOAL + 14, MIRROR, (100, "server", 2))
        self.assertEqual((of.lost_s, of.failures), (0, 1))
        self.assertAlmostEqual(of.waited_s, 14)
        self.takes(GOAL + 19, MIRROR, (100, "server", 2), (105, "server", 1))  # the waits overlap
        self.takes(GOAL + 28, MIRROR, (100, "server", 2), (200, "server", 2))

    def test_going_on(self) -> None:
        self.takes(GOAL + 14 * 0.2, STATELESS, (100, "server", 2))
        # 5 s with one away, 9 s with two, 5 s with one
        self.takes(GOAL + 5 * 0.2 + 9 * 0.4 + 5 * 0.2, STATELESS, (100, "server", 2), (105, "server", 1))
        alone = replace(JOB, servers=1)
        self.takes(GOAL + 14, STATELESS, (100, "server", 0), job=alone)

    def test_worker(self) -> None:
        self.takes(GOAL + 10 / 4, MIRROR, (100, "worker", 3))
        self.takes(GOAL + 10 / 4 + 10 / 4, MIRROR, (100, "worker", 3), (102, "worker", 1))

    def test_full_checkpoints(self) -> None:
        # one begins after 50 s, at half the rate: 3 s of it are 1.5 s of progress
        self.takes(GOAL + 1.5, FULL, every=600)
        self.takes(GOAL + 3, STOP, every=600)
        # saved at 600 and whole at 603; at 700 progress is 698.5: back to 600, with 11 s + 3 s until it serves
        of = self.takes(700 + 14 + 400, FULL, (700, "server", 0), every=600)
        self.assertAlmostEqual(of.lost_s, 98.5, places=4)
        # lost while it was being written: all is lost, and it is begun again at 600
        self.takes(601 + 14 + GOAL + 1.5, FULL, (601, "server", 0), every=600)

    def test_priority_checkpoints(self) -> None:
        # a tenth of 98.5 s is thrown away; one shard of four is read
        of = self.takes(700 + 11 + 0.75 + GOAL - 698.5 + 9.85, PRIORITY, (700, "server", 0), every=600)
        self.assertAlmostEqual(of.lost_s, 9.85, places=4)

    def test_storage(self) -> None:
        # what was saved is gone, and the next one comes when it is due: begun at 451.5, whole at 454.5
        of = outcome(FULL, (350, "storage", 0), (460, "server", 0), every=150)
        self.assertAlmostEqual(of.lost_s, 5.5, places=4)
        of = outcome(FULL, (350, "storage", 0), (440, "server", 0), every=150)
        self.assertAlmostEqual(of.lost_s, 437, places=4)

    def test_storage_while_it_is_read(self) -> None:
        of = outcome(LADDER[0], (700, "everything", 0), (790, "storage", 0), every=600)
        self.assertAlmostEqual(of.lost_s, 698.5, places=4)
        of = outcome(LADDER[0], (700, "everything", 0), (810, "storage", 0), every=600)
        self.assertAlmostEqual(of.lost_s, 98.5, places=4)

    def test_chain(self) -> None:
        self.takes(1.5 * GOAL + 0.5, CHAIN, (100, "server", 2))
        self.takes(1.5 * GOAL + 1.0, CHAIN, (100, "server", 2), (105, "server", 1))
        # the second replica before the first is back: a worker's weights, once the first is there
        self.takes(1.5 * GOAL + 0.5 + 13, CHAIN, (100, "server", 2), (105, "server", 2, 1))
        self.takes(1.5 * GOAL + 0.5 + 13 + 5, CHAIN, (100, "server", 2), (105, "server", 2, 1), (116.5, "server", 2, 0))
        self.takes(1.5 * GOAL + 0.5, CHAIN, (100, "server", 2), (105, "server", 2))  # it was away already
        self.takes(2.0 * GOAL + 1.0, CHAIN_3, (100, "server", 2), (105, "server", 2, 2))
        self.takes(1.5 * GOAL + 0.5 * 0.2, CHAIN_GO, (100, "server", 2))

    def test_host(self) -> None:
        """Its worker, and replicas of two shards"""
        self.takes(1.5 * GOAL + 5 + 95 / 4, CHAIN, (100, "host", 3))
        self.takes(GOAL + 104, MIRROR, (100, "host", 3))
        self.takes(1.5 * GOAL + 5 + 145 / 4, CHAIN, (100, "host", 3), (150, "host", 3))  # away twice is lost once

    def test_a_shard_that_nobody_has(self) -> None:
        """The only worker and one of four shards: a quarter begins anew, and costs a quarter of what all would"""
        of = outcome(MIRROR, (100, "host", 0), job=replace(JOB, workers=1))
        self.assertAlmostEqual(of.lost_s, 25, places=4)
        of = outcome(NONE, (100, "host", 0), job=replace(JOB, workers=1))  # all begin anew with it
        self.assertAlmostEqual(of.lost_s, 100, places=4)

    def test_last_mirror(self) -> None:
        """A host with the only worker and the only server has all there is"""
        single = replace(JOB, servers=1, workers=1)
        of = outcome(MIRROR, (100, "host", 0), job=single)
        self.assertAlmostEqual(of.lost_s, 100, places=4)
        of = outcome(LADDER[0], (700, "host", 0), job=single, every=600)
        self.assertAlmostEqual(of.lost_s, 99.625, places=4)  # a checkpoint of one server is written for 0.75 s

    def test_saved_is_not_ahead(self) -> None:
        """Storage, then a shard, lost while a checkpoint is being written: it is of progress that is thrown away"""
        of = outcome(PRIORITY, (900, "storage", 0), (901, "server", 0), (1000, "server", 0), every=300)
        self.assertGreater(of.lost_s, 89.9)  # a tenth of what there was at 901
        one = model.Course(JOB, PRIORITY, KNOWN, 300)
        for at, kind in ((900, "storage"), (901, "server"), (1000, "server"), (1400, "server")):
            one.advance(at, 1e6)
            one.fail(Failure(at, kind, 0))
            self.assertLessEqual(one.saved, one.of.useful_s)

    def test_a_clock_of_years(self) -> None:
        job = replace(JOB, storage=1e18, hours=1e5)
        of = model.course(job, STOP, KNOWN, 1e6, [], 3.6e8, 1e10)
        self.assertTrue(of.arrived)

    def test_everything(self) -> None:
        of = self.takes(100 + 105 + 1.5 * GOAL, CHAIN, (100, "everything", 0))
        self.assertAlmostEqual(of.lost_s, 100 / 1.5)
        of = self.takes(700 + 101 + 3 + 400, LADDER[0], (700, "everything", 0), every=600)
        self.assertAlmostEqual(of.lost_s, 98.5, places=4)
        of = outcome(PRIORITY, (700, "everything", 0), every=600)  # two fifths of what came since is not in its blocks
        self.assertAlmostEqual(of.lost_s, 0.4 * 98.5, places=4)
        self.assertAlmostEqual(live.predict(CHAIN, KNOWN, 2, 30.0, [Failure(20.0, "everything", 0)]), 30 - 20 - live.DOWN_S - 5)

    def test_limit(self) -> None:
        of = outcome(MIRROR, (100, "server", 0), limit=500)
        self.assertFalse(of.arrived)
        self.assertAlmostEqual(of.useful_s, 486)


class Chance(unittest.TestCase):
    def test_rates(self) -> None:
        """Of failures so many of each kind; replicas bring their own"""
        for method, share in ((MIRROR, 0.4), (CHAIN_3, 1.2)):
            some = list(itertools.takewhile(lambda one: one.at < 1e6, model.failures(JOB, method, 100, "3")))
            for kind, each in (("server", share), ("worker", 0.4), ("host", 0.15), ("storage", 0.05)):
                count = sum(one.kind == kind for one in some)
                self.assertLess(abs(count - 1e4 * each), 4 * math.sqrt(1e4 * each), kind)
            self.assertEqual({one.index for one in some if one.kind == "server"}, set(range(4)))
            self.assertEqual({one.replica for one in some if one.kind == "server"}, set(range(method.replicas)))

    def test_same_moments(self) -> None:
        """All methods are struck by the same, and replicas by more"""
        def some(method: model.Method) -> list[Failure]:
            return list(itertools.takewhile(lambda one: one.at < 1e5, model.failures(JOB, method, 100, "7")))

        self.assertEqual(some(MIRROR), some(FULL))
        self.assertEqual(some(MIRROR), [one for one in some(CHAIN_3) if one.replica == 0])

    def test_interval(self) -> None:
        # a checkpoint costs 1.5 s, and of 10,000 s between failures 55 % of them go back to one
        apart = 10000 / 0.55
        self.assertAlmostEqual(model.interval(JOB, FULL, KNOWN, 10000), math.sqrt(2 * 1.5 * apart) - 1.5, places=3)
        self.assertAlmostEqual(model.interval(JOB, FULL, KNOWN, 1), 3.0, places=3)
        self.assertEqual(model.interval(JOB, MIRROR, KNOWN, 10000), math.inf)
        self.assertEqual(model.interval(JOB, LADDER[0], KNOWN, 10000), math.inf)
        self.assertLess(model.interval(replace(JOB, everything=0.01), LADDER[0], KNOWN, 10000), math.inf)

    def test_ratio(self) -> None:
        """Waiting alone: 1 / (1 + what a failure costs, by how often it comes)"""
        job = replace(JOB, workers=10**6, hours=1000.0)
        of = model.course(job, MIRROR, KNOWN, math.inf, model.failures(job, MIRROR, 1000, "1"), 3.6e6, 1e9)
        self.assertAlmostEqual(of.ratio, 1 / (1 + (0.4 * 14 + 0.15 * (JOB.servers / 10**6) * 104) / 1000), places=3)

    def test_row(self) -> None:
        cells = row(replace(JOB, hours=1.0), 1200, CONSTANTS, 3, 1)
        self.assertEqual([one["method"] for one in cells], [one.name for one in METHODS] + ["ladder"])
        self.assertEqual(cells, row(replace(JOB, hours=1.0), 1200, CONSTANTS, 3, 1))


class Live(unittest.TestCase):
    def test_curve(self) -> None:
        curve = live.Curve([1.0, 2.0, 3.0, 4.0], [2.0, 1.5, 1.6, 1.0])
        for loss, seconds in ((2.0, 1.0), (1.75, 1.5), (1.5, 2.0), (1.25, 3.0), (0.5, 4.0)):
            self.assertAlmostEqual(curve.seconds(loss), seconds)

    def test_schedule(self) -> None:
        for seed in range(50):
            losses = live.schedule(2, 60.0, random.Random(seed))
            self.assertLessEqual(len(losses), live.KILLS_MAX)
            last: dict[tuple[str, int], float] = {}
            for one in losses:
                self.assertGreaterEqual(one.at, 1.0)
                for what in live.touched(one, 2):
                    self.assertGreaterEqual(one.at - last.get(what, -10.0), live.DOWN_S + live.GAP_S - 0.01)
                    last[what] = one.at
            for at in range(0, len(losses) - 4, 5):
                self.assertEqual(sorted(one.kind for one in losses[at:at + 5]), sorted(live.LOST))

    def test_words(self) -> None:
        self.assertEqual(live.targets(CHAIN, Failure(1, "worker", 1), 2, random.Random(1)), ["worker1"])
        self.assertEqual(live.targets(MIRROR, Failure(1, "server", 1), 2, random.Random(1)), ["server1"])
        self.assertEqual({*sum((live.targets(CHAIN, Failure(1, "server", 0), 2, random.Random(seed)) for seed in range(9)), [])},
                         {"head0", "tail0"})
        self.assertEqual(live.targets(MIRROR, Failure(1, "host", 1), 2, random.Random(1)), ["worker1", "server1"])
        self.assertEqual(live.targets(CHAIN, Failure(1, "host", 0), 2, random.Random(1)), ["worker0", "head0", "tail1"])
        self.assertEqual(live.targets(CHAIN, Failure(1, "host", 1), 2, random.Random(1)), ["worker1", "head1", "tail0"])
        self.assertEqual(live.targets(CHAIN, Failure(1, "storage", 0), 2, random.Random(1)), [])
        self.assertEqual(live.targets(CHAIN_3, Failure(1, "everything", 0), 1, random.Random(1)),
                         ["worker0", "worker1", "head0", "middle0", "tail0"])
        self.assertIn("--durability=checkpoint", live.words(FULL, "f"))
        self.assertNotIn("--durability=checkpoint", live.words(LADDER[1], "f"))
        self.assertTrue(any(one.startswith("--checkpoint=") for one in live.words(LADDER[1], "f")))

    def test_wipe(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "one.olc").touch()
            live.wipe(folder)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])
            live.wipe(f"{folder}/none")  # nothing was saved yet


if __name__ == "__main__":
    unittest.main()
