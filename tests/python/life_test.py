# SPDX-License-Identifier: BSD-3-Clause
"""How long things live: servers as long as their process, a model's place in a job as long as its
optimizer, gradient buffers too; and what a child of a fork may do."""
import concurrent.futures
import contextlib
import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import numpy
import torch

import outlast
from outlast._handle import Lent

LAUNCH = """
import os, signal, sys, outlast
servers = outlast.launch(params=1000, replicas=int(sys.argv[1]))
print(*(server.pid for server in servers.servers), flush=True)
exec(sys.argv[2])
"""
ENDS = ("os.kill(os.getpid(), signal.SIGKILL)", "os.kill(os.getpid(), signal.SIGTERM)",
        "os._exit(0)", "os.abort()", "sys.exit(0)")


def make(seed: int = 1) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Linear(20, 3)


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int = 3) -> None:
    for step in range(steps):
        torch.manual_seed(step)
        optimizer.zero_grad()
        model(torch.randn(7, 20)).pow(2).mean().backward()
        optimizer.step()


def flat(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([one.detach().reshape(-1) for one in model.parameters()])


class ServersTest(unittest.TestCase):
    def test_they_end_with_their_process_however_it_ends(self):
        for end in ENDS:
            for replicas in ("1", "3") if end == ENDS[0] else ("1",):
                with self.subTest(end=end, replicas=replicas):
                    env = dict(os.environ, PYTHONPATH=sys.path[1])
                    done = subprocess.run([sys.executable, "-c", LAUNCH, replicas, end], env=env,
                                          capture_output=True, text=True, timeout=120, check=False)
                    pids = [int(pid) for pid in done.stdout.split()]
                    self.assertEqual(len(pids), int(replicas), done.stderr)
                    while any(os.path.exists(f"/proc/{pid}/cmdline") and
                              open(f"/proc/{pid}/cmdline", "rb").read() for pid in pids):
                        time.sleep(0.05)

    def test_what_launch_refuses(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        patch = unittest.mock.patch.object(tempfile, "tempdir", folder.name)
        patch.start()
        self.addCleanup(patch.stop)
        for words in ({"lr": "x"}, {"servers": 0}, {"outage": "bogus"}):
            with self.subTest(words=words), self.assertRaises(ValueError):
                outlast.launch(params=1000, **words)
        with self.assertRaisesRegex(ValueError, '"weight" is torch.float64'):
            outlast.launch(init=make().double())
        self.assertEqual(os.listdir(folder.name), [])

    def test_a_server_runs_once(self):
        with outlast.launch(params=1000) as run:
            with self.assertRaises(outlast.Error):
                run.servers[0].start()
            run.servers[0].kill()
            with self.assertRaises(outlast.NoServer):
                run.head()
            with self.assertRaises(ValueError):
                run.head(1)
        with self.assertRaises(outlast.Closed):
            run.servers[0].restart()


class OptimizerTest(unittest.TestCase):
    def setUp(self):
        self.model = make()
        self.run = outlast.launch(init=self.model, lr=0.25)
        self.addCleanup(self.run.close)
        self.job = outlast.connect(self.run, timeout=60)
        self.addCleanup(self.job.close)

    def test_a_dropped_one_leaves_its_model_and_its_buffer(self):
        for overlap in (False, True):
            for _ in range(4):
                optimizer = outlast.torch.Optimizer(self.model, self.job, overlap=overlap)
                train(self.model, optimizer)
                optimizer.detach()
            with self.assertRaises(outlast.Closed):
                optimizer.step()
            for _ in range(4):
                optimizer = None
                optimizer = outlast.torch.Optimizer(self.model, self.job, overlap=overlap)
            train(self.model, optimizer)
            optimizer = None
        gc.collect()
        kept = flat(self.model)
        buffer = self.job.grad(timeout=10)
        buffer[:] = 1
        self.job.push(buffer)
        del buffer
        self.job.pull()
        self.assertTrue(torch.equal(flat(self.model), kept))
        self.job.close()
        with outlast.connect(self.run, connect_timeout=20) as again:
            self.assertGreater(again.pull().version, 0)
        with torch.no_grad():
            self.model.weight.add_(1)

    def test_a_later_one_waits_for_its_end(self):
        optimizer = outlast.torch.Optimizer(self.model, self.job)
        train(self.model, optimizer)
        for _ in range(4):
            with self.assertRaisesRegex(outlast.Error, "this job has a trainer already, outlast.torch.Optimizer, .*detach"):
                outlast.torch.Optimizer(self.model, self.job)
            train(self.model, optimizer)  # it is as it was
            self.assertEqual(optimizer.bytes_copied, 0)
            optimizer.detach()
            optimizer = outlast.torch.Optimizer(self.model, self.job)
            train(self.model, optimizer)
        self.assertEqual(optimizer.bytes_copied, 0)

    def test_diloco_gives_its_buffer_back(self):
        self.job.close()
        with outlast.launch(init=self.model, consistency="sync") as run, \
                outlast.connect(run, timeout=60) as job:
            for _ in range(4):
                inner = torch.optim.SGD(self.model.parameters(), lr=0.1)
                sync = outlast.torch.DiLoCo(self.model, inner, 2, job)
                train(self.model, sync, 4)
                sync = None
            before = flat(self.model)
            with self.assertRaises(ValueError):
                outlast.torch.DiLoCo(self.model, torch.optim.SGD(make().parameters(), lr=0.1), 2,
                                     job)
            other = torch.nn.Sequential(torch.nn.Linear(20, 3))
            kept = flat(other)
            with self.assertRaisesRegex(outlast.Error, "another model"):
                outlast.torch.DiLoCo(other, torch.optim.SGD(other.parameters(), lr=0.1), 2, job)
            self.assertTrue(torch.equal(flat(other), kept))
            self.assertTrue(torch.equal(flat(self.model), before))
            sync = outlast.torch.DiLoCo(self.model, inner, 2, job)
            for tokens in (float("nan"), -1.0, 1e30):
                with self.assertRaises(ValueError):
                    sync.step(tokens=tokens)
            train(self.model, sync, 4)

    def test_a_loaded_state_changes_rates(self):
        optimizer = outlast.torch.Optimizer(self.model, self.job)
        twin = make()
        other = torch.optim.SGD(twin.parameters(), lr=0.25)
        for model, one in ((self.model, optimizer), (twin, other)):
            rates = torch.optim.lr_scheduler.StepLR(one, 1, gamma=0.5)
            one.load_state_dict(one.state_dict())
            for _ in range(4):
                train(model, one, 1)
                rates.step()
        self.assertEqual(self.job.rule().groups[0].lr, 0.25 / 8)
        self.assertTrue(torch.equal(flat(self.model), flat(twin)))

    def test_zero_grad_of_the_model_with_overlap(self):
        optimizer = outlast.torch.Optimizer(self.model, self.job, overlap=True)
        twin = make()
        other = torch.optim.SGD(twin.parameters(), lr=0.25)
        for step in range(4):
            for model, one in ((self.model, optimizer), (twin, other)):
                torch.manual_seed(step)
                model.zero_grad(set_to_none=False)
                model(torch.randn(7, 20)).pow(2).mean().backward()
                one.step()
        self.assertTrue(torch.equal(flat(self.model), flat(twin)))

    def test_a_skipped_layer_with_overlap(self):
        self.job.close()
        model = torch.nn.ModuleList([torch.nn.Linear(20, 3), torch.nn.Linear(20, 3)])
        with outlast.launch(init=model) as run, outlast.connect(run, timeout=60) as job:
            optimizer = outlast.torch.Optimizer(model, job, overlap=True)
            for part in (0, None, 0, 1, 0):  # nothing of the last layer: no part is sent
                for layer in model if part is None else (model[part],):
                    optimizer.zero_grad()
                    layer(torch.ones(2, 20)).sum().backward()
                if part == 1:
                    optimizer.step()

    def test_copies(self):
        optimizer = outlast.torch.Optimizer(self.model, self.job)
        with self.assertRaisesRegex(TypeError, "cannot be copied"):
            copy.deepcopy(optimizer)
        for twin in (copy.deepcopy(self.model), pickle.loads(pickle.dumps(self.model))):
            self.assertTrue(torch.equal(flat(self.model), flat(twin)))
        train(self.model, optimizer)

    def test_a_child_of_a_fork_leaves(self):
        optimizer = outlast.torch.Optimizer(self.model, self.job)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            try:
                with self.job:
                    optimizer.detach()
            except outlast.WrongThread:
                del optimizer
                gc.collect()
                os._exit(0)
            os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        train(self.model, optimizer)


class NamesTest(unittest.TestCase):
    def test_shapes_without_extent(self):
        model = torch.nn.ParameterDict({
            "scale": torch.nn.Parameter(torch.tensor(3.0)), "z": torch.nn.Parameter(torch.empty(0)),
            "a": torch.nn.Parameter(torch.empty(2, 0)), "w": torch.nn.Parameter(torch.ones(5))})
        with outlast.launch(init=model) as run, outlast.connect(run, timeout=60) as job:
            outlast.torch.Optimizer(model, job).step()
            self.assertEqual([(one.name, one.shape) for one in job.tensors()],
                             [(name, tuple(one.shape)) for name, one in model.named_parameters()])

    def test_weights_of_another_model_are_not_loaded(self):
        model, other = make(), torch.nn.Linear(3, 20)
        other.bias = torch.nn.Parameter(torch.zeros(3))
        with outlast.launch(init=model) as run, outlast.connect(run, timeout=60) as job, \
                job.reader() as reader:
            weights = reader.pull()
            self.assertEqual(weights[7], numpy.asarray(weights)[7])
            outlast.torch.load(make(2), weights)
            with self.assertRaisesRegex(outlast.Error, "another model"):
                outlast.torch.load(other, weights)


class QuorumTest(unittest.TestCase):
    """Steps of two of three, and a server that dies before anybody has pulled one."""

    def test_a_gradient_that_was_applied_is_not_late_when_its_step_is_made_anew(self):
        with outlast.launch(params=1024, lr=1.0, workers=3, reduce="sum",
                            consistency="sync:k=2") as servers, contextlib.ExitStack() as open_:
            jobs = [open_.enter_context(outlast.connect(servers, worker=number, timeout=20))
                    for number in range(3)]

            def start(number: int) -> None:
                job, lent = jobs[number], Lent()
                job._grad_borrow(lent, 20)
                numpy.frombuffer(job._buffer(lent.pointer), numpy.float32)[:] = 10.0 ** number
                job._push_start(lent, 0.0, 1, None)

            for job in jobs:
                job.pull()
            for number in (1, 2):
                start(number)
            for number in (1, 2):
                self.assertEqual(jobs[number]._push_end(20), 1)
            servers.servers[0].kill()
            servers.servers[0].restart(restore="mirror")
            start(0)  # it is in first, or not: then step 1 is made without one of the others
            done = time.monotonic() + 20
            while time.monotonic() < done:
                links = [job.stat_links()[0] for job in jobs if job.poll() is None]
                if not any(link["down"] for link in links) and links[1]["resent"] \
                        and links[2]["resent"] and sum(link["pending"] for link in links) <= 1:
                    break
            left = [number for number, link in enumerate(links) if link["pending"]]
            version, want = 1, -111.0
            if left == [0] or links[0]["late"]:  # it has never been applied: it is late
                want = -110.0
            elif left:  # it was, and waits for another one's
                one = 3 - left[0]
                jobs[one].pull(newest=True)
                start(one)
                while time.monotonic() < done and not jobs[one]._push_op.c.done:
                    for job in jobs:
                        job.poll()
                version, want = jobs[one]._push_end(0), want - 10.0 ** one
                self.assertEqual(version, 2)
            for job in jobs[1:]:
                weights = job.pull(newest=True)
                self.assertEqual((weights[0], weights.version), (want, version))
                self.assertEqual([job.stat_links()[0][word] for word in ("late", "lost")], [0, 0])
                del weights


class DecidedTest(unittest.TestCase):
    """Steps of the first of two, of several servers: a gradient is in all shards or in none."""

    def test_shards_make_steps_of_the_same_gradients(self):
        for consistency in "sync:k=1", "sync:k=1,late=aged":
            with self.subTest(consistency), \
                 outlast.launch(params=4096, lr=0.5, servers=3, workers=2, consistency=consistency) as servers:
                self.train_two(servers)

    def train_two(self, servers: outlast.Launch) -> None:
        def train(number: int) -> None:
            with outlast.connect(servers, worker=number, timeout=20) as job:
                for _ in range(60):
                    weights = job.pull()
                    self.assertEqual(weights.array.min(), weights.array.max())
                    grad = job.grad()
                    grad[:] = number + weights.version / 7.0
                    try:
                        job.push(grad)
                    except outlast.Late:
                        late.append(number)
                    del weights, grad
                while any(link["pending"] for link in job.stat_links()):  # what shard 0 has dropped others answer later
                    job.poll()
                self.assertEqual(len({link["late"] for link in job.stat_links()}), 1)

        late: list[int] = []
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(train, range(2)))

    def test_what_it_cannot_do_is_said(self):
        with outlast.launch(params=4096, servers=2, workers=2,
                            consistency="sync:k=1") as servers:
            with outlast.connect(servers, timeout=20) as job:
                job.pull()
                with self.assertRaisesRegex(outlast.Error, "whole gradients"):
                    job.push(job.grad(), span=job.shards[1])


class ReadersTest(unittest.TestCase):
    """Shards of a synchronous job make their steps one after the other; readers see none half-made."""

    def test_a_reader_gets_one_version_of_all_shards(self):
        count, stop = 60000, threading.Event()
        with outlast.launch(params=count, lr=1.0, servers=3, consistency="sync") as servers:
            def train() -> None:
                with outlast.connect(servers, timeout=20) as job:
                    job.pull()
                    while not stop.is_set():
                        grad = job.grad()
                        grad[:] = 1.0  # the weights of version v are all -v
                        job.push(grad)
                        job.pull()
                    del grad

            thread = threading.Thread(target=train)
            thread.start()
            try:
                with outlast.reader(servers, timeout=20) as reader:
                    for turn in range(600):
                        if turn == 300:
                            servers.servers[1].kill()
                            servers.servers[1].restart(restore="mirror")
                        weights = reader.pull()
                        self.assertEqual([weights.array.min(), weights.array.max()],
                                         [-weights.version, -weights.version])
                    while weights.version <= 2:  # it goes on meanwhile
                        weights = reader.pull()
                    del weights
            finally:
                stop.set()
                thread.join()


if __name__ == "__main__":
    unittest.main()
