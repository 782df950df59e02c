# SPDX-License-Identifier: BSD-3-Clause
"""Streaming DiLoCo: fragments walk as the formula says, each at its own time, through dead servers."""
import concurrent.futures
import unittest

import numpy
import torch
from learners import SameBits

import outlast

EVERY = 6
FRAGMENTS = 3
ROUNDS = 4
OUTER = {"rule": "nesterov", "lr": 0.5, "momentum": 0.5, "consistency": "sync"}


def make() -> torch.nn.Module:
    torch.manual_seed(2)
    return torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 48),
                               torch.nn.ReLU(), torch.nn.Linear(48, 4))


def backward(model: torch.nn.Module, number: int, step: int) -> float:
    random = torch.Generator().manual_seed(1000 * step + number)
    inputs = torch.randn(32, 8, generator=random)
    loss = torch.nn.functional.cross_entropy(model(inputs), inputs.argmax(dim=1) % 4)
    loss.backward()
    return loss.item()


class Twin:
    """The same in torch alone, of one learner."""

    def __init__(self, shards: list[tuple[int, int]], delay: int, mix: float) -> None:
        self.model, self.delay, self.mix = make(), delay, mix
        self.inner = torch.optim.SGD(self.model.parameters(), lr=0.125)
        self.parts = [slice(first, first + count) for first, count in shards]
        flat = torch.from_numpy(outlast.torch.vector(self.model))
        self.theta = [torch.nn.Parameter(flat[part].clone()) for part in self.parts]
        self.outer = [torch.optim.SGD([one], lr=0.5, momentum=0.5, nesterov=True)
                      for one in self.theta]
        self.loads: dict[int, int] = {}

    def step(self, number: int) -> None:
        self.inner.zero_grad()
        backward(self.model, 0, number - 1)
        self.inner.step()
        if number in self.loads:
            self.load(self.loads.pop(number), self.mix)
        for at in range(len(self.parts)):
            if number % EVERY == (at + 1) * EVERY // len(self.parts) % EVERY:
                flat = torch.from_numpy(outlast.torch.vector(self.model))
                self.theta[at].grad = self.theta[at].detach() - flat[self.parts[at]]
                self.outer[at].step()
                if self.delay == 0:
                    self.load(at, 0.0)
                else:
                    self.loads[number + self.delay] = at

    def load(self, at: int, mix: float) -> None:
        flat = torch.from_numpy(outlast.torch.vector(self.model))
        flat[self.parts[at]] = mix * flat[self.parts[at]] + (1 - mix) * self.theta[at].detach()
        outlast.torch.load(self.model, flat)


def learner(delay: int):
    def train(job, tell, number):
        model = make()
        sync = outlast.torch.StreamingDiLoCo(
            model, torch.optim.AdamW(model.parameters(), lr=1e-3), EVERY, job, delay=delay)
        for step in range(EVERY * ROUNDS):
            sync.zero_grad()
            loss = backward(model, number, step)
            if (step + 1) % 2 == 0:
                tell()
            sync.step(loss=loss, tokens=32 * (1 + 7 * number + step % 3))
        sync.sync()
    return train


class Streaming(SameBits, unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        self.model = make()

    def sync(self, job: outlast.Job, **words: object) -> outlast.torch.StreamingDiLoCo:
        return outlast.torch.StreamingDiLoCo(
            self.model, torch.optim.SGD(self.model.parameters(), lr=0.125), EVERY, job, **words)

    def walk(self, sync: outlast.torch.StreamingDiLoCo, number: int) -> None:
        sync.zero_grad()
        sync.step(loss=backward(self.model, 0, number - 1))

    def test_one_learner_walks_as_the_formula_says(self):
        for delay, mix in ((0, 0.5), (1, 0.5), (1, 0.25)):
            self.model = make()
            with self.subTest(delay=delay, mix=mix), \
                    outlast.launch(init=self.model, servers=FRAGMENTS, **OUTER) as servers, \
                    outlast.connect(servers, timeout=20) as job:
                sync, twin = self.sync(job, delay=delay, mix=mix), Twin(job.shards, delay, mix)
                for number in range(1, 1 + EVERY * ROUNDS):
                    self.walk(sync, number)
                    twin.step(number)
                    # fragments begin and end at times of their own
                    done = [(number - delay + EVERY - due % EVERY) // EVERY if due else
                            (number - delay) // EVERY for due in sync._due]
                    self.assertEqual([job._shard(at).version for at in range(FRAGMENTS)],
                                     [max(0, one) for one in done])
                numpy.testing.assert_allclose(outlast.torch.vector(self.model),
                                              outlast.torch.vector(twin.model), rtol=1e-5, atol=1e-6)
                if delay == 0:
                    self.assertEqual(sync.bytes_copied, 4 * job.param_count * (1 + ROUNDS))

    def test_an_interrupted_exchange_is_made_once(self):
        with outlast.launch(init=self.model, servers=FRAGMENTS, **OUTER) as servers, \
                outlast.connect(servers, timeout=20) as job:
            sync = self.sync(job)
            for number in range(1, 4):
                self.walk(sync, number)
            servers.servers[1].kill()  # the next one's
            sync.timeout = 0.2
            for number in (4, 5, 6):  # and the one after it waits its turn
                with self.assertRaises(outlast.Timeout):
                    self.walk(sync, number)
            servers.servers[1].restart(restore="mirror")
            sync.timeout = 20
            self.walk(sync, 7)
            self.assertEqual([job._shard(at).version for at in range(FRAGMENTS)], [1, 1, 1])
            sync.sync()
            self.assertEqual([job._shard(at).version for at in range(FRAGMENTS)], [2, 2, 2])
            numpy.testing.assert_array_equal(outlast.torch.vector(self.model), job.weights().array)

    def test_one_that_is_started_again_goes_on_in_the_middle_of_a_round(self):
        def learn(servers: outlast.Launch, worker: int, steps: int) -> None:
            model = make()
            with outlast.connect(servers, worker=worker, timeout=60) as job:
                learner = outlast.torch.StreamingDiLoCo(
                    model, torch.optim.SGD(model.parameters(), lr=0.01), 4, job)
                for step in range(steps):
                    backward(model, worker, step)
                    learner.step()
                said.append(list(job.versions))

        said: list[list[int]] = []
        with outlast.launch(init=make(), servers=2, workers=2, consistency="sync",
                            lr=0.7) as servers, \
                concurrent.futures.ThreadPoolExecutor() as threads:
            other = threads.submit(learn, servers, 0, 12)
            threads.submit(learn, servers, 1, 6).result()
            threads.submit(learn, servers, 1, 6).result()
            other.result()
        self.assertEqual(said, [[2, 1], [3, 3], [3, 3]])

    def test_what_cannot_be_is_refused(self):
        with outlast.launch(init=self.model, servers=FRAGMENTS, **OUTER) as servers, \
                outlast.connect(servers, timeout=20) as job:
            for words, why in (({"delay": 2}, "delay 2: from 0 to 1, as 3 fragments in 6 steps"),
                               ({"mix": 1.5}, "mix 1.5")):
                with self.assertRaisesRegex(ValueError, why):
                    self.sync(job, **words)
            with self.assertRaisesRegex(ValueError, "every 2: the job has 3 fragments"):
                outlast.torch.StreamingDiLoCo(
                    self.model, torch.optim.SGD(self.model.parameters(), lr=0.1), 2, job)

    def test_bits_are_the_same_through_a_servers_death(self):
        for delay, kills in ((0, [((1, None),), ((4, 0.0), (7, 0.0002))]), (1, [((4, None),)])):
            self.ends_the_same(make, learner(delay), ROUNDS + 1,
                               {"rule": "nesterov", "lr": 0.7, "momentum": 0.9,
                                "servers": FRAGMENTS}, kills)


if __name__ == "__main__":
    unittest.main()
