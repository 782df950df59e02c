# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C that is raised as a call of the library returns: what was pushed is pushed once, what was
lent is not lost, and training goes on."""
import signal
import unittest
import unittest.mock

import torch

import outlast
import outlast._job

CALLS = ("ol_push_span_sized", "ol_grad_acquire")
SIZE = 40_000


class Interrupting:
    """The library, with a real SIGINT while one of its functions runs: Python sees it afterwards."""

    def __init__(self, where: str) -> None:
        self.library, self.where, self.count = outlast._job.lib, where, 0

    def __getattr__(self, name: str) -> object:
        found = getattr(self.library, name)
        if name != self.where:
            return found

        def call(*words: object) -> object:
            result = found(*words)
            self.count += 1
            signal.raise_signal(signal.SIGINT)
            return result
        return call


class InterruptTest(unittest.TestCase):
    def interrupted(self, where: str, call: object) -> None:
        library = Interrupting(where)
        with unittest.mock.patch.object(outlast._job, "lib", library):
            with self.assertRaises(KeyboardInterrupt):
                call()
        self.assertEqual(library.count, 1)

    def test_an_optimizer_goes_on(self):
        for where in CALLS:
            for gradients in ("fp32", "int8"):
                with self.subTest(where=where, gradients=gradients):
                    self.optimizer(where, gradients)

    def optimizer(self, where: str, gradients: str) -> None:
        model = torch.nn.Linear(SIZE, 1, bias=False)
        with torch.no_grad():
            model.weight.zero_()
        with outlast.launch(init=model, lr=1.0) as servers, \
                outlast.connect(servers, gradients=gradients) as job:
            optimizer = outlast.torch.Optimizer(model, job)

            def step() -> None:  # every gradient is -1: each adds 1
                optimizer.zero_grad()
                (-model.weight.sum()).backward()
                optimizer.step()
            step()
            for _ in range(3):
                self.interrupted(where, step)
                step()
            found = job.pull(newest=True).array
            applied = job.stat_links()[0]["applied"]
            self.assertEqual(applied, 7)
            self.assertEqual((found.min(), found.max()), (applied, applied))

    def test_learners_go_on(self):
        for where in CALLS:
            with self.subTest(where=where):
                self.learner(where, 1, lambda *words: outlast.torch.DiLoCo(*words[:2], 2, words[2]))
                self.learner(where, 2, lambda *words: outlast.torch.StreamingDiLoCo(
                    *words[:2], 2, words[2], delay=0))

    def learner(self, where: str, servers: int, make: object) -> None:
        torch.manual_seed(1)
        model = torch.nn.Linear(SIZE, 1, bias=False)
        with outlast.launch(init=model, servers=servers, consistency="sync", lr=1.0) as begun, \
                outlast.connect(begun) as job:
            learner = make(model, torch.optim.SGD(model.parameters(), lr=0.5), job)
            for _ in range(4):
                self.round(learner, model, where)
            self.round(learner, model, None)
            learner.sync()
            links = job.stat_links()
            self.assertEqual(len({link["pushed"] for link in links}), 1)
            self.assertEqual([link["applied"] for link in links], [link["pushed"] for link in links])
            self.assertGreaterEqual(links[0]["pushed"], 3)

    def round(self, learner: object, model: torch.nn.Module, where: str | None) -> None:
        """Two inner steps, of which the last exchanges and may be interrupted."""
        for step in range(2):
            learner.zero_grad()
            model(torch.ones(1, SIZE)).sum().backward()
            if where is None or step == 0:
                learner.step()
                continue
            library = Interrupting(where)
            with unittest.mock.patch.object(outlast._job, "lib", library):
                try:
                    learner.step()
                except KeyboardInterrupt:
                    pass

    def test_arrays_go_on(self):
        with outlast.launch(params=SIZE, lr=1.0) as servers, outlast.connect(servers) as job:
            job.pull()
            for _ in range(4):  # the window is 2
                self.interrupted("ol_grad_acquire", job.grad)
                grad = job.grad()
                grad.fill(-1.0)
                self.interrupted("ol_push_span_sized", lambda: job.push(grad))
                self.assertFalse(grad.flags.writeable)
                with self.assertRaises(ValueError):
                    job.push(grad)
            grad = job.grad()
            grad.fill(-1.0)
            job.push(grad)
            found = job.pull(newest=True).array
            self.assertEqual((found.min(), found.max()), (5.0, 5.0))
