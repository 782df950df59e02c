# SPDX-License-Identifier: BSD-3-Clause
"""A model and a job are one optimizer's or learner's; wrong words are refused by name; the end of a job
is told truly: with servers that are gone, and with learners who come too late for the last step."""
import contextlib
import os
import threading
import unittest
import unittest.mock
from collections.abc import Callable

import numpy
import torch

import outlast
from outlast._handle import Lent

OUTER = {"rule": "nesterov", "lr": 1.0, "momentum": 0.0}


def make() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Linear(7, 1)


def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=1.0)


def optimizer(model: torch.nn.Module, job: outlast.Job) -> object:
    return outlast.torch.Optimizer(model, job)


def diloco(model: torch.nn.Module, job: outlast.Job) -> object:
    return outlast.torch.DiLoCo(model, sgd(model), 2, job)


def streaming(model: torch.nn.Module, job: outlast.Job) -> object:
    return outlast.torch.StreamingDiLoCo(model, sgd(model), 2, job)


KINDS = {"Optimizer": optimizer, "DiLoCo": diloco, "StreamingDiLoCo": streaming}


def step(model: torch.nn.Module, trainer: object) -> None:
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.ones_like(parameter)
        else:
            parameter.grad.fill_(1.0)
    trainer.step()


def heard(job: outlast.Job, late: list[outlast.Job]) -> Callable[[], int]:
    """A newest() that knows nothing new before all who are late have pushed."""
    told = job.newest
    return lambda: told() if all(one.stat_links()[0]["pushed"] for one in late) else 0


class ClaimTest(unittest.TestCase):
    def setUp(self):
        self.open = self.enterContext(contextlib.ExitStack())
        self.one, self.other = (self.open.enter_context(outlast.launch(
            init=make(), consistency="sync", **OUTER)) for _ in range(2))
        self.job = self.open.enter_context(outlast.connect(self.one, timeout=20))
        self.second = self.open.enter_context(outlast.connect(self.other, timeout=20))

    def test_a_second_one_is_refused_and_the_first_trains_on(self):
        for name, first in KINDS.items():
            for later in KINDS.values():
                model = make()
                trainer = first(model, self.job)
                with self.assertRaisesRegex(outlast.Error, f"this job has a trainer .*{name}, ") as said:
                    later(make(), self.job)
                self.assertEqual(said.exception.status, "EBUSY")
                with self.assertRaisesRegex(outlast.Error, f"this model has a trainer .*{name}, "):
                    later(model, self.second)
                for _ in range(2):
                    step(model, trainer)
                trainer.detach()
                trainer.detach()  # once more does nothing
                with self.assertRaises(outlast.Closed):
                    trainer.step()
                step(model, later(model, self.second))  # both are free again: later() is gone, too

    def test_it_ends_with_its_job_and_with_the_trainer(self):
        model = make()
        for kind in KINDS.values():
            trainer = kind(model, self.job)
            trainer = None
            trainer = kind(model, self.job)
            self.job.close()
            trainer_elsewhere = kind(model, self.second)
            step(model, trainer_elsewhere)
            del trainer, trainer_elsewhere
            self.job = self.open.enter_context(outlast.connect(self.one, timeout=20))

    def test_one_that_could_not_be_made_leaves_no_claim(self):
        model, kept = make(), []
        other = torch.nn.Sequential(make())
        for kind in KINDS.values():
            with self.assertRaises(outlast.Error) as said:  # its names are others
                kind(other, self.job)
            kept.append(said.exception)
            grads = [self.job.grad(), self.job.grad()]
            if kind is not streaming:  # it borrows its buffer later
                with self.assertRaisesRegex(outlast.Error, "are lent"):
                    kind(model, self.job)
            for grad in grads:
                self.job.release(grad)
            del grads, grad
            trainer = kind(model, self.job)
            step(model, trainer)
            trainer.detach()

    def test_a_child_of_a_fork_trains_with_a_connection_of_its_own(self):
        model = make()
        trainer = diloco(model, self.job)
        child = os.fork()
        if child == 0:
            done = 1
            try:
                with outlast.launch(init=model, consistency="sync", **OUTER) as servers, \
                        outlast.connect(servers) as job:
                    step(model, diloco(model, job))
                done = 0
            finally:
                os._exit(done)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        step(model, trainer)


class WordsTest(unittest.TestCase):
    def refused(self, call: object, said: str, **words: object) -> None:
        with self.subTest(**words), self.assertRaisesRegex((ValueError, TypeError), said):
            call(**words)

    def test_of_connect(self):
        for words, said in (({"queue": "folds"}, "queue 'folds': of fold, drop-oldest, wait"),
                            ({"queue": []}, r"queue \[\]: of fold, drop-oldest, wait"),
                            ({"window": 2.5}, "window 2.5: a whole number from 0 to 4294967295"),
                            ({"window": -1}, "window -1: a whole number"),
                            ({"transport": 3}, "transport 3: a text"),
                            ({"bogus": 1}, "bogus: there is none.* window, worker"),
                            ({"op_timeout_ms": 1}, "op_timeout_ms: give timeout="),
                            ({"connect_timeout": "x"}, "connect_timeout 'x': seconds"),
                            ({"outage_timeout": -1}, "outage_timeout -1: seconds"),
                            ({"outage": "on"}, "outage 'on': of end, wait, continue"),
                            ({"gradients": 1}, "gradients 1: of fp32"),
                            ({"init": torch.nn.Linear}, "init .*Linear.*: a model of PyTorch")):
            self.refused(outlast.connect, said, address="@nobody", **words)
        with unittest.mock.patch.dict(os.environ, OUTLAST_WORKER="one"):
            self.refused(outlast.connect, r"OUTLAST_WORKER 'one': a worker's id", address="@nobody")

    def test_a_queue_by_its_word(self):
        with outlast.launch(params=100, workers=2) as servers:
            for worker, queue in enumerate(("fold", "drop-oldest")):
                outlast.connect(servers, worker=worker, outage="continue", queue=queue).close()

    def test_of_launch(self):
        for words, said in (({"init": list}, "init .*list.*: a model of PyTorch"),
                            ({"init": torch.nn.Linear}, "init .*Linear.*: a model of PyTorch"),
                            ({"params": 9, "servers": 1.5}, "servers 1.5: a whole number"),
                            ({"params": 9, "workers": "2"}, "workers '2': a whole number"),
                            ({"params": 9, "replicas": 0}, "replicas 0: a whole number"),
                            ({"params": 9, "lr": "x"}, "lr 'x': a number")):
            self.refused(outlast.launch, said, **words)

    def test_of_learners(self):
        model = make()
        with outlast.launch(init=model, **OUTER) as servers, outlast.connect(servers) as job:
            for kind in (outlast.torch.DiLoCo, outlast.torch.StreamingDiLoCo):
                for every in (2.5, 0, "2", None):
                    self.refused(kind, f"every {every!r}: a whole number of steps, at least 1",
                                 model=model, inner=sgd(model), job=job, every=every)
            self.refused(outlast.torch.DiLoCo, "until 1.5: a whole number", model=model,
                         inner=sgd(model), job=job, every=1, until=1.5)
            self.refused(outlast.torch.StreamingDiLoCo, "delay 0.5: a whole number", model=model,
                         inner=sgd(model), job=job, every=4, delay=0.5)
            step(model, outlast.torch.DiLoCo(model, sgd(model), numpy.int64(1), job))


class FinishTest(unittest.TestCase):
    def test_a_server_that_died_unseen_is_waited_for(self):
        for outage in ("wait", "continue"):
            with self.subTest(outage=outage), outlast.launch(params=100, lr=1.0) as servers, \
                    outlast.connect(servers, outage=outage, timeout=20) as job:
                grad = job.grad()
                grad[:] = 1.0
                job.push(grad)
                del grad
                job.pull()
                servers.servers[0].kill()
                with self.assertRaises(outlast.Timeout):
                    job.finish(1, timeout=0.2)
                restart = threading.Thread(target=servers.servers[0].restart)
                restart.start()
                self.assertTrue(job.finish(1))
                restart.join()
                self.assertEqual(job.stat()[0].version, 1)  # a server has it

    def test_with_outage_end_it_says_so(self):
        with outlast.launch(params=100) as servers, \
                outlast.connect(servers, outage="end", timeout=20) as job:
            job.pull()
            servers.servers[0].kill()
            with self.assertRaises(outlast.NoServer):
                job.finish()

    def test_older_weights_are_more_to_compute(self):
        with outlast.launch(params=100, lr=1.0) as servers, \
                outlast.connect(servers, timeout=20) as job:
            job.pull()
            for _ in range(3):
                grad = job.grad()
                grad[:] = 1.0
                job.push(grad)
            del grad
            servers.servers[0].kill()
            servers.servers[0].restart(restore="none")
            self.assertFalse(job.finish(3))


class UntilTest(unittest.TestCase):
    """Two of four make the last step; the other two push before they hear of it."""

    def test_a_quorum_that_is_too_late_makes_no_step(self):
        for follow in (False, True):
            with self.subTest(follow=follow), contextlib.ExitStack() as open_:
                servers = open_.enter_context(outlast.launch(
                    params=8, workers=4, consistency="sync:quorum,k=2,grace=0,late=next", **OUTER))
                jobs = [open_.enter_context(outlast.connect(servers, worker=number, timeout=20))
                        for number in range(4)]
                models = [make() for _ in jobs]
                with torch.no_grad():
                    for model in models:
                        for parameter in model.parameters():
                            parameter.zero_()
                syncs = [outlast.torch.DiLoCo(model, sgd(model), 1, job, timeout=20, follow=follow,
                                              until=1) for model, job in zip(models, jobs)]
                for job in jobs[2:]:
                    open_.enter_context(unittest.mock.patch.object(job, "newest",
                                                                   heard(job, jobs[2:])))
                for number in (0, 1):
                    self.start(jobs[number], 4.0)
                for number in (0, 1):
                    self.assertEqual(jobs[number]._push_end(20), 1)
                syncs[2].timeout = 0.5
                with contextlib.suppress(outlast.Timeout):  # it would wait for the other
                    step(models[2], syncs[2])
                syncs[2].timeout = 20
                step(models[3], syncs[3])
                syncs[2].sync()
                for number in (0, 1):
                    syncs[number].sync()
                for model, job, sync in zip(models, jobs, syncs):
                    self.assertTrue(job.finish(1))
                    self.assertEqual((sync.outer_steps, job.version), (1, 1))
                    for weights in (job.weights().array, outlast.torch.vector(model)):
                        numpy.testing.assert_array_equal(weights, numpy.full(8, -4.0))
                self.assertEqual(jobs[0].stat()[0].version, 1)
                self.assertEqual([sync.late for sync in syncs[2:]], [1, 1])

    def start(self, job: outlast.Job, value: float) -> None:
        lent = Lent()
        job._grad_borrow(lent, 20)
        numpy.frombuffer(job._buffer(lent.pointer), numpy.float32)[:] = value
        job._push_start(lent, 0.0, 1, None, until=1)


if __name__ == "__main__":
    unittest.main()
