# SPDX-License-Identifier: BSD-3-Clause
"""A job whose servers are given no weights begins with those of worker 0, names and all, and ends at the
bits of a job that began with a file of them, through killed servers and chains."""
import json
import pathlib
import subprocess
import tempfile
import threading
import unittest

import numpy
import torch

import outlast
from outlast._launch import variables

STEPS = 4
RULE = {"rule": "momentum", "lr": 0.1, "consistency": "sync"}


def make(seed: int = 1) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(50, 40), torch.nn.ReLU(), torch.nn.Linear(40, 10))


PARAMS = sum(one.numel() for one in make().parameters())


def train(job: outlast.Job) -> None:
    for step in range(STEPS):
        weights = job.pull()
        grad = job.grad()
        numpy.multiply(weights.array, 0.25, out=grad)
        grad += step
        job.push(grad)


def vector(model: torch.nn.Module) -> numpy.ndarray:
    return outlast.torch.vector(model)


class InitTest(unittest.TestCase):
    def begun(self, weights: outlast.Weights, model: torch.nn.Module) -> None:
        self.assertEqual(weights.version, 0)
        numpy.testing.assert_array_equal(weights.array, vector(model))
        self.assertEqual([one.name for one in weights.tensors],
                         [name for name, _ in model.named_parameters()])
        numpy.testing.assert_array_equal(weights["2.bias"], model[2].bias.detach().numpy())

    def test_the_bits_are_those_of_a_file(self):
        with outlast.launch(init=make(), servers=2, **RULE) as servers, \
                outlast.connect(servers, timeout=60) as job:
            train(job)
            want = job.pull().copy()
        for shards, replicas in ((1, 1), (2, 1), (2, 2)):
            with self.subTest(shards=shards, replicas=replicas), \
                    outlast.launch(params=PARAMS, init="worker", servers=shards,
                                   replicas=replicas, **RULE) as servers, \
                    outlast.connect(servers, init=make(), timeout=60) as job:
                self.kill(servers, shards - 1, replicas)  # before anything was pulled
                self.begun(job.pull(), make())
                self.kill(servers, 0, replicas)
                train(job)
                self.kill(servers, shards - 1, replicas)
                weights = job.pull(newest=True)
                self.assertEqual((weights.version, weights.tensors[0].name), (STEPS, "0.weight"))
                numpy.testing.assert_array_equal(weights.array, want)
                self.assertEqual([link["lost"] for link in job.stat_links()], [0] * shards)

    def kill(self, servers: outlast.Launch, shard: int, replicas: int) -> None:
        """A server, and start it again; of a chain its head, once there is another replica."""
        if replicas > 1:
            while not self.is_whole(servers, shard):
                pass
        victim = servers.head(shard)
        victim.kill()
        victim.restart("none")

    def is_whole(self, servers: outlast.Launch, shard: int) -> bool:
        said = subprocess.run(servers._stat, env=variables(), capture_output=True, check=False)
        shards = json.loads(said.stdout)["shards"] if said.stdout else []
        return len(shards) > shard and (shards[shard]["count"], shards[shard]["joining"]) == (2, 0)

    def test_who_comes_before_worker_0_waits(self):
        found = {}
        own, other = make(), make(2)  # here, as threads share the seed

        def read() -> None:
            with outlast.reader(servers, timeout=60) as reader:
                found["reader"] = reader.pull().copy()

        def work() -> None:
            with outlast.connect(servers, worker=1, init=other, timeout=60) as job:
                found["worker"] = job.pull().copy()

        with outlast.launch(params=PARAMS, init="worker", workers=2) as servers:
            threads = [threading.Thread(target=call) for call in (read, work)]
            for thread in threads:
                thread.start()
            with outlast.connect(servers, worker=0, init=own, timeout=60) as job:
                self.begun(job.pull(), own)
            for thread in threads:
                thread.join()
        for array in found.values():
            numpy.testing.assert_array_equal(array, vector(own))
        self.assertEqual(len(found), 2)

    def test_a_vector_has_no_names(self):
        first = numpy.arange(2000, dtype=numpy.float64)
        with outlast.launch(params=2000, init="worker") as servers, \
                outlast.connect(servers, init=first, timeout=60) as job:
            weights = job.pull()
            self.assertEqual(weights.tensors, ())
            numpy.testing.assert_array_equal(weights.array, first)

    def test_a_checkpoint_goes_before_them(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        durable = {"durability": "checkpoint", "checkpoint": f"every=1steps,dir={folder}/kept"}
        with outlast.launch(params=PARAMS, init="worker", **RULE, **durable) as servers, \
                outlast.connect(servers, init=make(), timeout=60) as job:
            train(job)
            want = job.pull().copy()
        self.assertTrue(any(pathlib.Path(folder, "kept").iterdir()))
        with outlast.launch(params=PARAMS, init="worker", restore="checkpoint", **RULE,
                            **durable) as servers, \
                outlast.connect(servers, init=make(2), timeout=60) as job:
            weights = job.pull()
            self.assertEqual((weights.version, weights.tensors[3].name), (STEPS, "2.bias"))
            numpy.testing.assert_array_equal(weights.array, want)

    def test_what_cannot_be_first_weights_is_refused(self):
        with self.assertRaisesRegex(ValueError, "needs params"):
            outlast.launch(init="worker")
        with outlast.launch(params=PARAMS, init="worker") as servers:
            with self.assertRaisesRegex(outlast.Error, "this worker's model 7;"):
                outlast.connect(servers, init=numpy.zeros(7), connect_timeout=5)
            with self.assertRaisesRegex(outlast.Error, "parameter 3 is a NaN or an infinity"):
                outlast.connect(servers, init=[0, 0, 0, numpy.inf])
            with self.assertRaisesRegex(ValueError, '"0.weight" is torch.float64'):
                outlast.connect(servers, init=make().double())
            with self.assertRaisesRegex(TypeError, "init 'first.npy': a model of PyTorch"):
                outlast.connect(servers, init="first.npy")
            named = torch.nn.ParameterDict({"n" * 200 + str(at): torch.zeros(0)
                                            for at in range(400)})
            named["all"] = torch.zeros(PARAMS)
            with self.assertRaisesRegex(outlast.Error, "and it has room for 65536"):
                outlast.connect(servers, init=named, connect_timeout=5)
            with self.assertRaisesRegex(outlast.NoServer, "waits for the first ones of worker 0"):
                outlast.connect(servers, worker=1, connect_timeout=0.2)
