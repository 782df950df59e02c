# SPDX-License-Identifier: BSD-3-Clause
"""The lists of a drill become the runs that they say, each once, with the command line that its strategy is."""
import dataclasses
import random
import unittest

from drill import plan

USUAL = plan.Set(
    strategies="none,checkpoint,stateless", consistency="async,sync", kills="0,1,2", workers="1",
    seeds="2", seconds=240.0, kill_at=30.0, down=20.0, again=30.0, pace=0.0, eval_seconds=1.0,
    checkpoint_every=100, model="cnn", final_relu=False, dataset="fashion-mnist", lr=0.01, batch=32,
    transport="shm", address=None, device=None)
ONE = plan.Strategy("one", "", "none", "wait", "none")


def like(**values: object) -> plan.Set:
    return dataclasses.replace(USUAL, **values)


def find(made: plan.Plan, name: str) -> plan.Run:
    run, = [one for one in made.runs if one.name == name]
    return run


class PlanTest(unittest.TestCase):
    def test_every_case_is_run_once_a_seed(self) -> None:
        made = plan.make(USUAL)
        names = [run.name for run in made.runs]
        self.assertEqual(len(made.cases), 2 * (1 + 3 + 3))
        self.assertEqual(len(set(names)), 2 * len(made.cases))
        self.assertIn("none-async-k0-w1-s1", names)
        self.assertNotIn("none-async-k1-w1-s1", names)
        for kills in range(3):
            for seed in (1, 2):
                run = find(made, f"stateless-sync-k{kills}-w1-s{seed}")
                self.assertEqual((run.seed, run.case.kills, run.case.mode), (seed, kills, "sync"))
        # seed by seed, so that a drill that is ended early has compared something
        self.assertEqual([run.seed for run in made.runs],
                         [1] * len(made.cases) + [2] * len(made.cases))

    def test_cases_are_in_the_order_of_the_tables(self) -> None:
        made = plan.make(like(strategies="stateless,none/sync", kills="1,0", workers="2,1"))
        self.assertEqual([case.name for case in made.cases], [
            f"{name}-w{workers}" for workers in (2, 1)
            for name in ("stateless-async-k1", "stateless-sync-k1", "none-sync-k0",
                         "stateless-async-k0", "stateless-sync-k0")])

    def test_a_strategy_without_enough_kills_is_left_out(self) -> None:
        made = plan.make(like(strategies="none/sync,mirror/async,checkpoint-norestore", kills="0,2",
                              seeds="7,11", workers="1,4"))
        names = [run.name for run in made.runs]
        self.assertEqual(len(made.cases), 2 * (1 + 1 + 2))
        self.assertIn("none-sync-k0-w4-s11", names)
        self.assertIn("mirror-async-k2-w1-s7", names)
        self.assertNotIn("mirror-sync-k2-w1-s7", names)
        self.assertNotIn("mirror-async-k0-w1-s7", names)

    def test_without_kills_in_the_list_there_is_still_the_run_without(self) -> None:
        self.assertEqual(len(plan.make(like(kills="1,2")).cases), 2 * (1 + 2 + 2))

    def test_wrong_lists_are_named(self) -> None:
        for name, value, wrong in (
                ("strategies", "", "strategies"), ("strategies", "none,chains", "strategies"),
                ("strategies", "none,none", "strategies"),
                ("strategies", "none/async,none", "strategies"),
                ("strategies", "none/both", "strategies"), ("strategies", "none/", "strategies"),
                ("strategies", "none,,checkpoint", "strategies"),
                ("strategies", "mirrors", "strategies"), ("strategies", "mirro", "strategies"),
                ("strategies", "mirror", "strategies"),  # and no kill: there is no run
                ("consistency", "", "consistency"), ("consistency", "sync,sync", "consistency"),
                ("consistency", "ssp", "consistency"), ("kills", "1,x", "kills"),
                ("kills", "17", "kills"), ("kills", "5", "seconds"), ("workers", "0", "workers"),
                ("workers", "65", "workers"), ("seeds", "0", "seeds"), ("seeds", "65", "seeds"),
                ("seeds", "1,1", "seeds"), ("seeds", "", "seeds")):
            with self.subTest(name=name, value=value), self.assertRaises(plan.Wrong) as raised:
                plan.make(like(**({"kills": "0"} if value == "mirror" else {}), **{name: value}))
            self.assertEqual(raised.exception.name, wrong)
            self.assertTrue(raised.exception.why)

    def test_the_last_kill_is_over_before_the_run(self) -> None:
        plan.make(like(kills="2", seconds=100.5))
        with self.assertRaises(plan.Wrong) as raised:
            plan.make(like(kills="2", seconds=100.0))
        self.assertEqual(raised.exception.why, "is too short: the server is back from the last of "
                                               "2 kills after 100 s")

    def test_the_schedule_is_kill_down_again(self) -> None:
        chain = dataclasses.replace(ONE, replicas=3)
        self.assertEqual(plan.schedule(USUAL, ONE, 0), "")
        self.assertEqual(plan.schedule(USUAL, ONE, 2),
                         "server0@30s:down=20s,server0@80s:down=20s")
        self.assertEqual(plan.schedule(USUAL, chain, 2), "head@30s:down=20s,head@80s:down=20s")
        self.assertEqual(plan.schedule(like(kill_at=0.5, down=0.25, again=1.0), ONE, 3),
                         "server0@0.5s:down=0.25s,server0@1.75s:down=0.25s,server0@3s:down=0.25s")

    def options(self, of: plan.Set, name: str) -> dict[str, str]:
        words = plan.arguments(of, find(plan.make(of), name), "out")
        self.assertTrue(all(word.startswith("--") for word in words))
        found = dict(word[2:].split("=", 1) for word in words)
        self.assertEqual(len(found), len(words))
        return found

    def has(self, options: dict[str, str], **wanted: str) -> None:
        for name, value in wanted.items():
            self.assertEqual(options[name.replace("_", "-")], value)

    def test_a_strategy_is_its_options(self) -> None:
        of = like(strategies="none,checkpoint,stateless-published", pace=5.0)
        one = self.options(of, "checkpoint-sync-k1-w1-s2")
        self.has(one, consistency="sync", durability="checkpoint", outage="wait",
                 checkpoint="every=100steps,dir=out/checkpoints,keep=3", restore="checkpoint",
                 kill="server0@30s:down=20s", seed="2", pace="5", seconds="240", workers="1",
                 servers="1", lr="0.01", batch="32", final_relu="false", eval_seconds="1",
                 model="cnn", dataset="fashion-mnist", transport="shm",
                 json="out/runs/checkpoint-sync-k1-w1-s2.json",
                 timeline="out/runs/checkpoint-sync-k1-w1-s2.csv")
        self.assertFalse({"replay", "device", "address", "local-progress"} & set(one))
        one = self.options(of, "stateless-published-async-k1-w1-s1")
        self.has(one, durability="none", outage="continue", restore="mirror", replay="sum",
                 local_progress="false")
        self.assertNotIn("checkpoint", one)
        one = self.options(dataclasses.replace(of, pace=0.0), "none-async-k0-w1-s1")
        self.assertFalse({"kill", "pace"} & set(one))

    def test_a_chain_is_its_options(self) -> None:
        of = like(strategies="chain,chain-periodic,chain-continue,checkpoint")
        one = self.options(of, "chain-sync-k1-w1-s1")
        self.has(one, durability="chain", replicas="3", outage="wait", kill="head@30s:down=20s")
        self.assertFalse({"replicate-every", "checkpoint"} & set(one))
        self.has(self.options(of, "chain-periodic-async-k2-w1-s1"), replicate_every="100",
                 replicas="3")
        self.has(self.options(of, "chain-continue-async-k1-w1-s1"), outage="continue", replicas="3")
        self.assertNotIn("kill", self.options(of, "chain-async-k0-w1-s1"))
        self.assertNotIn("chain-continue-async-k0-w1-s1",
                         [run.name for run in plan.make(of).runs])
        self.assertNotIn("replicas", self.options(of, "checkpoint-async-k1-w1-s1"))


class ListTest(unittest.TestCase):
    def test_lists_and_ranges_give_each_number_once(self) -> None:
        last = 2**64 - 1
        self.assertEqual(plan.numbers("0,1,2", 16), [0, 1, 2])
        self.assertEqual(plan.numbers("3..6,1", 16), [3, 4, 5, 6, 1])
        self.assertEqual(plan.numbers(str(last), last), [last])
        self.assertEqual(plan.numbers(f"{last - 1}..{last}", last), [last - 1, last])

    def test_what_is_no_list_of_numbers_is_refused(self) -> None:
        for bad in ("", ",", "1,", ",1", "1,,2", "x", "1x", "-1", " 1", "1 ", "1,2,1", "17", "1..x",
                    "2..1", "1...2", "1..3,2", "1..99999", "0x2", "..3", "1.5", "+1", "1..2..3",
                    "99999999999999999999", "1\n", "\u0661"):
            with self.subTest(bad=bad):
                self.assertIsNone(plan.numbers(bad, 16))

    def test_a_list_is_never_longer_than_its_limit(self) -> None:
        self.assertEqual(len(plan.numbers("1..64", plan.SEED_MAX) or []), plan.LIST_MAX)
        self.assertIsNone(plan.numbers("1..65", plan.SEED_MAX))
        self.assertIsNone(plan.numbers("1..64,65", plan.SEED_MAX))

    def test_words_come_one_by_one(self) -> None:
        self.assertEqual(plan.items("a,bc,,d"), ["a", "bc", "", "d"])
        self.assertEqual(plan.items("a,"), ["a"])
        self.assertEqual(plan.items(""), [])

    def test_whatever_is_written_is_refused_or_within_the_limits(self) -> None:
        draw = random.Random(1)
        accepted = 0
        for _ in range(20000):
            text = "".join(draw.choices(["0", "1", "9", "23", ",", "..", ".", "x"],
                                        k=draw.randrange(8)))
            values = plan.numbers(text, 1000)
            if values is None:
                continue
            accepted += 1
            self.assertTrue(1 <= len(values) == len(set(values)) <= plan.LIST_MAX, text)
            self.assertTrue(all(0 <= value <= 1000 for value in values), text)
        self.assertGreater(accepted, 1000)
