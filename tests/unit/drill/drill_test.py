# SPDX-License-Identifier: BSD-3-Clause
"""A drill's folder, what it says of runs that ended badly, and what it takes over from one that was cut short."""
import json
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import plan_test

from drill import kills, plan
from drill.drill import Drill, duration, log_last, quoted, signed
from drill.errors import Failure
from drill.mtbf import course as mtbf
from drill.mtbf.model import Job

CASE = plan.Case(plan.STRATEGIES[1], "async", 1, 1)


def row(text: str | None, default: str | None = None, given: bool = False) -> dict[str, object]:
    return {"text": text, "default": default, "given": given, "error": f'outlast drill: --x: "{text}" '}


def drill(out: str, file: str = "", **values: str) -> Drill:
    texts = {"experiment": "kills", "out": out, "resume": "false", "live": "false", "job": None, **values}
    made = Drill({"settings": {name: row(text) for name, text in texts.items()}, "words": [],
                  "command": ["--out", out], "file": file, "outlast": "/bin/false"})
    made.out = out
    return made


class DrillTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = folder.name + "/out"

    def failure(self, of: Drill) -> str:
        with self.assertRaises(Failure) as raised:
            of.folder_make()
        return str(raised.exception)

    def test_a_folder_is_made_once(self) -> None:
        drill(self.out, "seconds = 3\n").folder_make()
        self.assertEqual((self.folder / "out/settings").read_text(), "seconds = 3\n")
        self.assertTrue((self.folder / "out/runs").is_dir())
        self.assertEqual(self.failure(drill(self.out)), f"the folder is there already: {self.out}: "
                                                        "give another one with --out, or --resume")
        self.assertIn("cannot make the folder", self.failure(drill(self.out + "/a/b")))

    def test_only_what_makes_runs_has_a_folder_for_them(self) -> None:
        drill(self.out, experiment="scar").folder_make()
        self.assertFalse((self.folder / "out/runs").exists())

    def test_a_drill_is_resumed_with_the_settings_of_its_runs(self) -> None:
        before = 'seconds = 3 # command line\nmodel = "cnn"\nlr = 0.01\nkills = "1"\n'
        self.assertIn("there is no drill to resume in", self.failure(drill(self.out, resume="true")))
        drill(self.out, before).folder_make()
        now = before.replace(" # command line", "").replace('"1"', '"2"')
        drill(self.out, now, resume="true").folder_make()
        self.assertEqual(self.failure(drill(self.out, now.replace("0.01", "0.02"), resume="true")),
                         "the runs in the folder were made with: lr = 0.01: give --resume the same")

    def outcome(self, report: object) -> plan.Run:
        run = plan.Run(CASE, 1)
        of = drill(str(self.folder))
        (self.folder / "runs").mkdir(exist_ok=True)
        (self.folder / f"runs/{run.name}.json").write_text(json.dumps(report))
        kills.outcome_note(of, run)
        return run

    def test_a_run_is_done_with_all_its_kills(self) -> None:
        good = {"ended": "done", "test_accuracy": 0.5, "outages": [{"target": "server0"}]}
        run = self.outcome(good)
        self.assertEqual((run.status, run.accuracy, run.error), ("done", 0.5, ""))
        for report, why in (({**good, "ended": "failed"}, "the run ended: failed"),
                            ({**good, "outages": [{"target": "worker0"}]},
                             "0 outages of a server, not 1: was it over too soon?"),
                            ([1], "list"), ({}, "the run ended: unknown")):
            run = self.outcome(report)
            self.assertEqual(run.status, "failed")
            self.assertIn(why, run.error)

    def test_what_is_done_is_not_made_again(self) -> None:
        of = drill(str(self.folder))
        run = self.outcome({"ended": "done", "outages": [{}]})
        run.status = "not made"
        self.assertFalse(kills.is_done(of, run))
        self.assertEqual(run.status, "not made")
        (self.folder / f"runs/{run.name}.csv").touch()
        self.assertTrue(kills.is_done(of, run))

    def test_a_run_that_cannot_be_started_ends_the_drill(self) -> None:
        of = drill(self.out)
        with self.assertRaises(Failure) as raised:
            of.run(0, "name", [])
        self.assertEqual((raised.exception.code, str(raised.exception)),
                         (7, "cannot start a run: name: No such file or directory"))

    def checks(self, words: list[str], strategies: str) -> tuple[tuple[int, str], list[str]]:
        """What comes of the check (0: runs can be made), and the command lines that train was asked about"""
        program, asked = self.folder / "outlast", self.folder / "asked"
        asked.write_text("")
        program.write_text(f"""#!/bin/bash
echo "$*" >>{asked}
case "$*" in *--nonsense*) echo hello >&2; echo 'outlast train: --nonsense: no such option' >&2; exit 2 ;;
*--durability=chain*) echo 'outlast train: --optimizer: not here' >&2; exit 3 ;; esac
""")
        program.chmod(0o755)
        of, runs = drill(self.out), plan_test.like(strategies=strategies, kills="1")
        of.outlast, of.words = str(program), words
        try:
            kills.words_check(of, runs, plan.make(runs))
            code = 0, ""
        except Failure as failure:
            code = failure.code, str(failure)
        self.assertFalse(os.path.exists(self.out))
        return code, asked.read_text().splitlines()

    def test_what_train_refuses_in_all_cases_is_refused_before_the_first(self) -> None:
        self.assertEqual(self.checks(["--nonsense"], "checkpoint,chain"),
                         ((2, "no run can be made: --nonsense: no such option"), mock.ANY))
        self.assertEqual(self.checks([], "chain/async"),
                         ((3, "no run can be made: --optimizer: not here"), mock.ANY))

    def test_one_case_that_can_be_run_is_enough(self) -> None:
        code, asked = self.checks(["--optimizer=adam"], "chain/async,checkpoint")
        self.assertEqual(code, (0, ""))
        self.assertEqual(len(asked), 2)
        for line in asked:
            self.assertTrue(line.startswith("train --optimizer=adam ") and line.endswith(" --check"), line)
            self.assertNotIn(self.out, line)
            self.assertNotIn("--json", line)
        self.assertEqual(len(self.checks([], "checkpoint,chain")[1]), 1)

    def test_words_that_the_drill_says_itself_are_refused(self) -> None:
        for word in ("--lr", "--lr=1", "--replicas", "--kill=server0@1s", "--eval_seconds=2", "--json"):
            code, asked = self.checks([word], "chain,checkpoint")
            self.assertEqual((code[0], asked), (2, []), word)
            self.assertRegex(code[1], f"^is the drill's to say: {word.partition('=')[0].replace('_', '-')}: ")

    def test_words_that_make_no_run_are_refused(self) -> None:
        for word in ("--help", "-h", "--check"):
            self.assertEqual(self.checks([word], "checkpoint"),
                             ((2, f"makes no run: {word}: see outlast train --help"), []))

    def test_why_a_run_failed_is_its_own_last_line(self) -> None:
        log = self.folder / "log"
        log.write_text("hello\nbye\n\n")
        self.assertEqual(log_last(str(log)), "bye")
        log.write_text("outlast train: one\noutlast train: two\r\nother\n")
        self.assertEqual(log_last(str(log)), "outlast train: two")
        self.assertEqual(log_last(str(self.folder / "none")), "")

    def test_people_read_durations_and_commands(self) -> None:
        self.assertEqual([duration(s) for s in (-1.0, 59.4, 59.5, 245.0, 4800.0)],
                         ["0 s", "59 s", "1 min 00 s", "4 min 05 s", "1 h 20 min"])
        self.assertEqual([quoted(word) for word in ("--a=b/c", "", "a b", "it's")],
                         ["--a=b/c", "''", "'a b'", "'it'\\''s'"])
        self.assertEqual((signed(5), signed(2**64 - 1), signed(-1)), (5, -1, -1))

    def test_what_is_left_is_guessed_from_what_was(self) -> None:
        of = drill(self.out)
        of.run_count, of.run_s = 3, 7.0
        self.assertEqual(of.left(0, 0.0), "30 s")
        of.busy_s, of.ran = 20.0, 1
        self.assertEqual(of.left(1, 5.0), "35 s")
        self.assertEqual(of.left(1, 50.0), "20 s")

    def trial_that(self, does: str) -> Drill:
        """Its trial gives a first answer, then runs these lines of shell. The first order comes behind the
        description, on one line."""
        program = self.folder / "outlast"
        program.write_text(f"#!/bin/bash\necho '{{}}'\n{does}\n")
        program.chmod(0o755)
        of = drill(self.out)
        of.outlast = str(program)
        return of

    def talk_fails(self, does: str, gone: bool = False, signal: int = 0) -> tuple[int, str]:
        """The second order's failure; with `gone`, the trial is dead before it is told"""
        of = self.trial_that(does)
        with (self.assertRaises(Failure) as raised,
              of.talk("scar", "name", (), spec="x") as (ask, answer)):
            self.assertEqual(answer, {})
            self.assertEqual(ask({"walk": 1}), {"n": 1})
            child, of.signal = of.child, signal
            if gone:
                child.wait()
            ask({"walk": [0] * 200_000})
        self.assertIsNotNone(child.returncode)
        self.assertIsNone(of.child)
        return raised.exception.code, str(raised.exception)

    def test_a_trial_that_dies_between_orders_ends_the_drill(self) -> None:
        one = "read -r _; echo '{\"n\": 1}'; "
        killed, silent = (8, "a trial was killed by signal: 9: name"), (8, "a trial ended too soon: name")
        for does, why in (("kill -9 $$", killed), ("exit 3", (3, "")), ("exit 0", silent)):
            self.assertEqual(self.talk_fails(one + does, gone=True), why)
            self.assertEqual(self.talk_fails(f"{one}read -r _; {does}"), why)
            self.assertEqual(self.talk_fails(f"{one}read -r _; echo -n '{{'; {does}"), why)
        self.assertEqual(self.talk_fails(one + "read -r _; exit 0", signal=15), (143, ""))

    def test_a_trial_is_told_when_there_are_no_more_orders(self) -> None:
        of = self.trial_that("while read -r _; do echo '{\"n\": 1}'; done")
        with of.talk("scar", "name", (), spec="x") as (ask, _):
            self.assertEqual([ask({}) for _ in range(3)], 3 * [{"n": 1}])
        self.assertIsNone(of.child)

    def test_experiments_take_no_setting_of_kills(self) -> None:
        of = drill(self.out, experiment="scar")
        of.settings.rows["batch"] = row("32", "32", given=True)
        of.experiment_check()
        of.settings.rows["batch"] = row("16", "32", given=True)
        with self.assertRaises(Failure) as raised:
            of.experiment_check()
        self.assertEqual((raised.exception.code, str(raised.exception)),
                         (2, '--x: "16" is of --experiment kills only'))

    def test_a_job_is_of_one_experiment(self) -> None:
        for experiment, refused in (("mtbf", False), ("scar", True), ("dbw", True)):
            of = drill(self.out, experiment=experiment, job="servers=3")
            if refused:
                self.assertRaises(Failure, of.experiment_check)
            else:
                of.experiment_check()

    def test_a_job_is_read(self) -> None:
        self.assertEqual(mtbf.job_read(drill(self.out, job="servers=3,step=0.5,")), Job(servers=3, workers=3, step=0.5))
        self.assertEqual(mtbf.job_read(drill(self.out)), Job())
        for job in ("servers", "servers=x", "servers=0", "step=0", "step=nan", "everything=2", "hours=1,hours=2", "cost=3",
                    "servers=1e3", "network=inf"):
            with self.assertRaises(Failure, msg=job):
                mtbf.job_read(drill(self.out, job=job))
