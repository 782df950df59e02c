# SPDX-License-Identifier: BSD-3-Clause
"""A torch model's parameters and gradients lie in the library's memory, and learn as torch's do."""
import errno
import threading
import unittest
import unittest.mock

import numpy
import torch

import outlast
from outlast._library import ffi

RATE = 0.25


def make() -> torch.nn.Module:
    torch.manual_seed(2)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def data() -> torch.utils.data.TensorDataset:
    random = torch.Generator().manual_seed(3)
    inputs = torch.randn(64, 8, generator=random)
    return torch.utils.data.TensorDataset(inputs, inputs.argmax(dim=1) % 4)


def backward(model: torch.nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> float:
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    return loss.item()


class OptimizerTest(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        self.model, self.twin = make(), make()
        self.servers = outlast.launch(init=outlast.torch.vector(self.model), lr=RATE)
        self.addCleanup(self.servers.close)
        self.job = outlast.connect(self.servers, timeout=20)
        self.addCleanup(self.job.close)
        self.optimizer = outlast.torch.Optimizer(self.model, self.job)
        self.sgd = torch.optim.SGD(self.twin.parameters(), lr=RATE)
        self.inputs, self.labels = data()[:]

    def assert_in_place(self):
        """Each parameter and gradient is where the library has it."""
        mirror = int(ffi.cast("uintptr_t", self.job._weights()[0]))
        grads = int(ffi.cast("uintptr_t", self.optimizer._held.pointer))
        offset = 0
        for parameter in self.model.parameters():
            self.assertEqual(parameter.data_ptr(), mirror + offset)
            self.assertEqual(parameter.grad.data_ptr(), grads + offset)
            offset += 4 * parameter.numel()
        self.assertEqual(offset, 4 * self.job.param_count)

    def assert_same(self):
        numpy.testing.assert_array_equal(outlast.torch.vector(self.model),
                                         outlast.torch.vector(self.twin))

    def test_nothing_is_copied_and_bits_are_those_of_torch(self):
        places = set()
        for _ in range(10):
            self.assert_in_place()
            for model, optimizer in ((self.model, self.optimizer), (self.twin, self.sgd)):
                optimizer.zero_grad()
                loss = backward(model, self.inputs, self.labels)
                optimizer.step()
            self.assert_in_place()
            self.assert_same()
            places.add(next(self.model.parameters()).data_ptr())
        self.assertEqual(len(places), 2)  # the mirror is double-buffered
        self.assertEqual(self.optimizer.bytes_copied, 0)
        self.assertLess(loss, 1.4)

    def test_gradients_that_lie_elsewhere_are_copied_and_counted(self):
        for model in (self.model, self.twin):
            model.zero_grad(set_to_none=True)
            backward(model, self.inputs, self.labels)
        self.model[2].bias.grad = self.twin[2].bias.grad = None
        self.optimizer.step()
        self.sgd.step()
        self.assert_same()
        self.assertEqual(self.optimizer.bytes_copied, 4 * (self.job.param_count - 4))
        self.assert_in_place()

    def test_a_gradient_that_the_program_gives_other_memory_is_brought(self):
        def halve(grad: torch.Tensor) -> None:
            grad.data = grad.data * 0.5

        for change in (halve, lambda grad: grad.set_(grad * 0.5)):
            for step in range(4):
                for model, optimizer in ((self.model, self.optimizer), (self.twin, self.sgd)):
                    optimizer.zero_grad()
                    backward(model, self.inputs, self.labels)
                    if step == 1:
                        change(model[0].weight.grad)
                    optimizer.step()
                self.assert_same()
                self.assert_in_place()
        self.assertEqual(self.optimizer.bytes_copied, 2 * 4 * 8 * 16)

    def test_gradients_add_up_until_zero_grad(self):
        for model, optimizer in ((self.model, self.optimizer), (self.twin, self.sgd)):
            backward(model, self.inputs[:32], self.labels[:32])
            optimizer.zero_grad()
            backward(model, self.inputs[:32], self.labels[:32])
            backward(model, self.inputs[32:], self.labels[32:])
            optimizer.step()
        self.assert_same()

    def test_a_frozen_parameter_stays(self):
        self.model[0].weight.requires_grad = self.twin[0].weight.requires_grad = False
        self.optimizer.zero_grad()
        for model, optimizer in ((self.model, self.optimizer), (self.twin, self.sgd)):
            backward(model, self.inputs, self.labels)
            optimizer.step()
        self.assert_same()

    def test_a_closure_gives_the_loss(self):
        loss = self.optimizer.step(lambda: backward(self.model, self.inputs, self.labels))
        self.assertGreater(loss, 0)
        self.assertAlmostEqual(self.job.stat()[0].loss, loss, places=4)

    def test_a_write_into_the_mirror_is_found(self):
        backward(self.model, self.inputs, self.labels)
        with torch.no_grad():
            self.model[0].bias.add_(1.0)
        with self.assertRaisesRegex(outlast.Error, "parameter 1 was written"):
            self.optimizer.step()

    def test_a_parameter_that_was_moved_is_found_and_put_back(self):
        self.model[2].weight.data = self.model[2].weight.data.clone()
        with self.assertRaisesRegex(outlast.Error, "parameter 2 was moved"):
            self.optimizer.step()
        self.optimizer.zero_grad()
        self.optimizer.step()
        self.assert_same()

    def test_a_graph_of_an_older_step_is_refused(self):
        loss = torch.nn.functional.cross_entropy(self.model(self.inputs), self.labels)
        loss.backward(retain_graph=True)
        self.optimizer.step()
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            loss.backward()

    def test_another_model_is_refused(self):
        with self.assertRaisesRegex(outlast.Error, "the model has 9 parameters, the job 212"):
            outlast.torch.Optimizer(torch.nn.Linear(8, 1), self.job)
        with self.assertRaisesRegex(ValueError, "float64"):
            outlast.torch.Optimizer(make().double(), self.job)

    def test_close_leaves_the_model_its_weights(self):
        backward(self.model, self.inputs, self.labels)
        self.optimizer.step()
        want = outlast.torch.vector(self.model)
        self.job.close()
        self.servers.close()
        numpy.testing.assert_array_equal(outlast.torch.vector(self.model), want)
        backward(self.model, self.inputs, self.labels)
        self.assertEqual(self.optimizer.bytes_copied, 4 * want.size)

    def test_processes_of_a_data_loader_are_forks(self):
        loader = torch.utils.data.DataLoader(data(), batch_size=16, num_workers=2,
                                             multiprocessing_context="fork")
        for _ in range(2):
            for inputs, labels in loader:
                for model, optimizer in ((self.model, self.optimizer), (self.twin, self.sgd)):
                    optimizer.zero_grad()
                    backward(model, inputs, labels)
                    optimizer.step()
        self.assert_same()
        self.assertEqual(self.job.stat_links()[0]["outages"], 0)

    def test_a_reader_loads_another_model(self):
        with self.job.reader() as reader:
            backward(self.model, self.inputs, self.labels)
            self.optimizer.step()
            other = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(),
                                        torch.nn.Linear(16, 4))
            outlast.torch.load(other, reader.pull())
            numpy.testing.assert_array_equal(outlast.torch.vector(other),
                                             outlast.torch.vector(self.model))

    def test_an_interrupted_step_can_be_followed_by_another(self):
        self.servers.servers[0].kill()
        backward(self.model, self.inputs, self.labels)
        self.optimizer.timeout = 0.2
        with self.assertRaises(outlast.Timeout):
            self.optimizer.step()
        self.assertTrue(all(one.grad is None for one in self.model.parameters()))
        self.optimizer.timeout = 20
        timer = threading.Timer(0.1, self.servers.servers[0].restart)
        timer.start()
        backward(self.model, self.inputs, self.labels)
        self.optimizer.step()
        timer.join()
        self.assertEqual(self.job.version, 2)
        self.assert_in_place()


class Continuing(unittest.TestCase):
    def test_training_goes_on_without_a_server(self):
        model = make()
        inputs, labels = data()[:]
        with outlast.launch(init=outlast.torch.vector(model), lr=RATE,
                            outage="continue") as servers, \
                outlast.connect(servers, timeout=20, local_progress=1) as job:
            optimizer = outlast.torch.Optimizer(model, job)
            losses = []
            for step in range(30):
                if step == 10:
                    servers.servers[0].kill()
                optimizer.zero_grad()
                losses.append(backward(model, inputs, labels))
                optimizer.step()
            self.assertLess(losses[-1], losses[10])  # it learned meanwhile
            servers.servers[0].restart()
            self.assertTrue(job.finish())
            link = job.stat_links()[0]
            self.assertEqual((link["pushed"], link["applied"], link["lost"]), (30, 30, 0))
            self.assertLessEqual(len(optimizer._places.known), 8)


class OverlapTest(unittest.TestCase):
    """overlap=True: gradients are read while backward() runs, and make the same bits."""

    def make(self) -> torch.nn.Module:
        torch.manual_seed(2)
        return torch.nn.Sequential(torch.nn.Linear(8, 256), torch.nn.ReLU(),
                                   torch.nn.Linear(256, 256), torch.nn.ReLU(),
                                   torch.nn.Linear(256, 4))

    def trained(self, overlap: bool, **words: object) -> tuple[numpy.ndarray, int]:
        model = self.make()
        inputs, labels = data()[:]
        with outlast.launch(init=model, rule="momentum", lr=RATE, **words) as servers, \
                outlast.connect(servers, timeout=20) as job:
            optimizer = outlast.torch.Optimizer(model, job, overlap=overlap)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5, gamma=0.5)
            for step in range(20):
                optimizer.zero_grad()
                if step == 8:
                    servers.servers[0].kill()
                    servers.servers[0].restart()
                if step == 12:  # a gradient that is thrown away
                    backward(model, inputs, -labels + 3)
                    optimizer.zero_grad()
                backward(model, inputs, labels)
                optimizer.step()
                scheduler.step()
            self.assertEqual(optimizer.bytes_copied, 0)
            return outlast.torch.vector(model), sum(one.early_bytes for one in job.stat())

    def test_the_bits_are_those_without_it(self):
        for words in ({}, {"servers": 2, "consistency": "sync"}):
            with self.subTest(words=words):
                alone, none = self.trained(False, **words)
                overlapped, early = self.trained(True, **words)
                numpy.testing.assert_array_equal(alone, overlapped)
                self.assertEqual(none, 0)
                self.assertGreater(early, 0)
        # of one worker the first gradient is all: one shard decides it for both, and the bits stay
        decided, _ = self.trained(True, servers=2, consistency="sync:k=1")
        numpy.testing.assert_array_equal(decided, overlapped)

    def test_layers_are_frozen_and_thawed_between_steps(self):
        trained = []
        inputs, labels = data()[:]
        for overlap in (False, True):
            model = self.make()
            model[4].requires_grad_(False)
            with outlast.launch(init=model, rule="momentum", lr=RATE) as servers, \
                    outlast.connect(servers, timeout=20) as job:
                optimizer = outlast.torch.Optimizer(model, job, overlap=overlap)
                for step in range(9):
                    if step == 3:
                        model[4].requires_grad_(True)
                    elif step == 6:
                        model[0].requires_grad_(False)
                    backward(model, inputs, labels)
                    optimizer.step()
                trained.append(outlast.torch.vector(model))
                self.assertEqual(job.stat()[0].early_bytes > 0, overlap)
        numpy.testing.assert_array_equal(*trained)

    def test_a_gradient_that_changes_after_it_was_sent_is_found(self):
        model = self.make()
        inputs, labels = data()[:]
        with outlast.launch(init=model, lr=RATE) as servers, \
                outlast.connect(servers, timeout=20) as job:
            optimizer = outlast.torch.Optimizer(model, job, overlap=True)
            backward(model, inputs, labels)
            with self.assertRaisesRegex(outlast.Error, "parameter 5 .* one backward"):
                backward(model, inputs, labels)
            optimizer.zero_grad()
            backward(model, inputs, labels)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
            with self.assertRaisesRegex(outlast.Error, "changed after backward"):
                optimizer.step()
            optimizer.zero_grad()
            backward(model, inputs, labels)
            model.zero_grad()
            with self.assertRaisesRegex(outlast.Error, "changed after backward"):
                optimizer.step()
            optimizer.zero_grad()
            self.assertEqual(job.version, 0)
            backward(model, inputs, labels)
            optimizer.step()
            twin = self.make()
            sgd = torch.optim.SGD(twin.parameters(), lr=RATE)
            backward(twin, inputs, labels)
            sgd.step()
            numpy.testing.assert_array_equal(outlast.torch.vector(model), outlast.torch.vector(twin))


def pulls_end_late(job: outlast.Job) -> object:
    """A patch: pulls are given up when they have come."""
    pull = job._pull_until

    def pull_late(*words: object) -> None:
        pull(*words)
        raise outlast.Timeout("given up", -errno.ETIMEDOUT)

    return unittest.mock.patch.object(job, "_pull_until", pull_late)


def push_fours(other: outlast.Job, job: outlast.Job) -> int:
    """A step by another worker, of which this one is told."""
    grad = other.grad()
    grad[:] = 4.0
    step = other.push(grad)
    while job.newest() < step:
        job.poll()
    return step


class DiLoCoTest(unittest.TestCase):
    def test_one_learner_walks_as_the_formula_says(self):
        """theta <- nesterov(theta, theta - local): checked against torch's own SGD."""
        model, twin = make(), make()
        inputs, labels = data()[:]
        outer = torch.optim.SGD([torch.nn.Parameter(torch.from_numpy(outlast.torch.vector(twin)))],
                                lr=0.5, momentum=0.5, nesterov=True)
        theta = outer.param_groups[0]["params"][0]
        inner = torch.optim.AdamW(twin.parameters(), lr=1e-2)
        with outlast.launch(init=theta.detach(), rule="nesterov", lr=0.5, momentum=0.5,
                            consistency="sync") as servers, \
                outlast.connect(servers, timeout=20) as job:
            sync = outlast.torch.DiLoCo(
                model, inner=torch.optim.AdamW(model.parameters(), lr=1e-2), every=3, job=job)
            for step in range(1, 13):
                sync.zero_grad()
                backward(model, inputs, labels)
                sync.step()
                inner.zero_grad()
                backward(twin, inputs, labels)
                inner.step()
                if step % 3 == 0:
                    theta.grad = theta.detach() - torch.from_numpy(outlast.torch.vector(twin))
                    outer.step()
                    outlast.torch.load(twin, theta.detach())
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            sync.sync()
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                loss.backward()
            theta.grad = torch.zeros_like(theta)
            outer.step()
            outlast.torch.load(twin, theta.detach())
            self.assertEqual(sync.outer_steps, 5)
            numpy.testing.assert_allclose(outlast.torch.vector(model),
                                          outlast.torch.vector(twin), rtol=1e-6, atol=1e-7)
            self.assertEqual(sync.bytes_copied, 6 * 4 * job.param_count)

    def test_parameters_that_the_program_moves_are_brought_back(self):
        trained = []
        inputs, labels = data()[:]
        for moves in (False, True):
            model = make()
            with outlast.launch(init=model, rule="nesterov", lr=0.5, momentum=0.5,
                                consistency="sync") as servers, \
                    outlast.connect(servers, timeout=20) as job:
                sync = outlast.torch.DiLoCo(model, torch.optim.SGD(model.parameters(), lr=0.25), 3,
                                            job)
                for step in range(9):
                    sync.zero_grad()
                    backward(model, inputs, labels)
                    if moves and step == 4:
                        model.double()
                        model.float()
                    sync.step()
                trained.append(outlast.torch.vector(model))
                numpy.testing.assert_array_equal(trained[-1], job.weights().array)
                if moves:
                    model.double()
                    with self.assertRaisesRegex(outlast.Error, "parameter 0 has become .*float64"):
                        sync.sync()
        numpy.testing.assert_array_equal(*trained)

    def test_an_interrupted_outer_step_is_made_once(self):
        model = make()
        with outlast.launch(init=outlast.torch.vector(model), rule="nesterov", lr=1.0,
                            momentum=0.0, consistency="sync", workers=2) as servers, \
                outlast.connect(servers, worker=0) as job, \
                outlast.connect(servers, worker=1, timeout=20) as other:
            sync = outlast.torch.DiLoCo(model, torch.optim.SGD(model.parameters(), lr=1.0), 1, job,
                                        timeout=20)
            other.pull()
            before = outlast.torch.vector(model)
            for parameter in model.parameters():
                parameter.grad = torch.ones_like(parameter)
            sync.timeout = 0.2
            for call in (sync.step, sync.sync):
                with self.assertRaises(outlast.Timeout):
                    call()
            grad = other.grad()
            grad[:] = 3.0
            self.assertEqual(other.push(grad), 1)
            sync.timeout = 20
            sync.sync()
            self.assertEqual(sync.outer_steps, 1)
            numpy.testing.assert_array_equal(outlast.torch.vector(model), before - 2.0)
            del grad

    def test_learners_count_by_their_tokens(self):
        """A step is the weighted mean of a quorum's two; in the second one comes a step late."""
        model = make()
        with outlast.launch(init=outlast.torch.vector(model), rule="nesterov", lr=1.0, momentum=0.0,
                            consistency="sync:quorum,k=2,grace=0,late=next", workers=3) as servers, \
                outlast.connect(servers, worker=0) as job, \
                outlast.connect(servers, worker=1, timeout=20) as other, \
                outlast.connect(servers, worker=2, timeout=20) as third:
            sync = outlast.torch.DiLoCo(model, torch.optim.SGD(model.parameters(), lr=1.0), 2, job,
                                        timeout=0.2)
            before = outlast.torch.vector(model)
            for outer in range(2):
                for tokens in (100, 200):
                    for parameter in model.parameters():
                        parameter.grad = torch.full_like(parameter, 0.5)
                    if tokens == 100:
                        sync.step(tokens=tokens)
                        self.assertEqual(sync.tokens, 100)
                        continue
                    with self.assertRaises(outlast.Timeout):
                        sync.step(tokens=tokens)
                    self.assertEqual(sync.tokens, 0)
                pusher = (other, third)[outer]  # computed at version 0, both of them
                grad = pusher.grad()
                grad[:] = 5.0
                self.assertEqual(pusher.push(grad, weight=100, base=0), outer + 1)
                sync.sync()
                del grad
            self.assertEqual((sync.outer_steps, sync.late), (2, 0))
            numpy.testing.assert_allclose(outlast.torch.vector(model), before - 2 * 2.0, rtol=1e-5)
            self.assertEqual(job.stat()[0].carried, 1)

    def test_a_learner_follows_steps_that_others_make(self):
        """It goes on from theirs with what it has, and pushes when its inner steps are made."""
        model = make()
        with outlast.launch(init=outlast.torch.vector(model), rule="nesterov", lr=1.0, momentum=0.0,
                            consistency="sync:quorum,k=2,grace=0,late=next", workers=3) as servers, \
                outlast.connect(servers, worker=0, timeout=20) as job, \
                outlast.connect(servers, worker=1, timeout=20) as other, \
                outlast.connect(servers, worker=2, timeout=20) as third, job.reader() as reader:
            sync = outlast.torch.DiLoCo(model, torch.optim.SGD(model.parameters(), lr=1.0), 1000,
                                        job, timeout=20, follow=True)
            before = outlast.torch.vector(model)
            made = 0

            def walk(steps: int) -> None:
                for _ in range(steps):
                    for parameter in model.parameters():
                        parameter.grad = torch.full_like(parameter, 0.5)
                    sync.step()

            def push(pusher: outlast.Job, value: float, weight: float, timeout: float) -> None:
                grad = pusher.grad()
                grad[:] = value
                pusher.push(grad, weight=weight, timeout=timeout)

            walk(3)
            self.assertEqual((sync.outer_steps, sync.since), (0, 3))
            with self.assertRaises(outlast.Timeout):  # the first of two
                push(other, 4.0, 1.0, 0.0)
            push(third, 4.0, 1.0, 20)
            made = 3
            while sync.outer_steps == 0:
                walk(1)
                made += 1
            self.assertEqual((sync.outer_steps, sync.since), (1, made))
            numpy.testing.assert_allclose(outlast.torch.vector(model), before - 4.0 - 0.5 * made,
                                          rtol=1e-5)
            other.pull(newest=True)
            with self.assertRaises(outlast.Timeout):
                push(other, 8.0, 3.0, 0.0)
            sync.sync()
            weights = reader.pull()
            self.assertEqual((weights.version, sync.outer_steps, sync.since), (2, 2, 0))
            numpy.testing.assert_allclose(weights.array, before - 4.0 - (24.0 + 0.5 * made) / 4,
                                          rtol=1e-5)
            link = job.stat_links()[0]
            self.assertEqual((link["applied"], link["late"], sync.late), (1, 0, 0))
            del weights

    def test_a_learner_whose_pulls_end_late_keeps_what_it_has(self):
        """A pull that was given up comes all the same, and the next writes where the base was."""
        with outlast.launch(params=8, rule="nesterov", lr=1.0, momentum=0.0, workers=2,
                            consistency="sync:quorum,k=1,grace=0,late=next") as servers, \
                outlast.connect(servers, worker=0, timeout=20) as job, \
                outlast.connect(servers, worker=1, timeout=20) as other:
            model = torch.nn.Linear(7, 1)
            sync = outlast.torch.DiLoCo(model, torch.optim.SGD(model.parameters(), lr=1.0), 10**6,
                                        job, timeout=20, follow=True)
            def walk() -> None:
                for parameter in model.parameters():
                    parameter.grad = torch.full_like(parameter, 0.5)
                sync.step()

            for step in range(1, 6):
                self.assertEqual(push_fours(other, job), step)
                if step < 5:
                    with pulls_end_late(job), self.assertRaises(outlast.Timeout):
                        walk()
            walk()
            self.assertEqual((sync.outer_steps, sync.since), (5, 5))
            numpy.testing.assert_array_equal(outlast.torch.vector(model),
                                             numpy.full(8, -20.0 - 2.5))

    def test_a_learner_whose_pulls_ended_late_pushes_of_the_newest_weights(self):
        """Those that it began at are in neither mirror any more."""
        with outlast.launch(params=8, rule="nesterov", lr=1.0, momentum=0.0, workers=2,
                            consistency="sync:quorum,k=1,grace=0,late=next") as servers, \
                outlast.connect(servers, worker=0, timeout=20) as job, \
                outlast.connect(servers, worker=1, timeout=20) as other:
            push_fours(other, job)
            model = torch.nn.Linear(7, 1)
            sync = outlast.torch.DiLoCo(model, torch.optim.SGD(model.parameters(), lr=1.0), 10**6,
                                        job, timeout=20, follow=True)
            for step in range(2, 5):
                self.assertEqual(push_fours(other, job), step)
                for parameter in model.parameters():
                    parameter.grad = torch.full_like(parameter, 0.5)
                with pulls_end_late(job), self.assertRaises(outlast.Timeout):
                    sync.step()
            sync.sync()
            self.assertEqual(sync.outer_steps, 5)
            numpy.testing.assert_array_equal(job.weights().array, numpy.full(8, -16.0 - 1.5))

    def test_a_learner_that_follows_ends_with_the_last_step(self):
        """What it has changed since is of no step."""
        with outlast.launch(params=8, rule="nesterov", lr=1.0, momentum=0.0, workers=2,
                            consistency="sync:quorum,k=1,grace=0,late=next") as servers, \
                outlast.connect(servers, worker=0, timeout=20) as job, \
                outlast.connect(servers, worker=1, timeout=20) as other:
            model = torch.nn.Linear(7, 1)
            sync = outlast.torch.DiLoCo(model, torch.optim.SGD(model.parameters(), lr=1.0), 10**6,
                                        job, timeout=20, follow=True, until=2)
            for step in (1, 2):
                grad = other.grad()
                grad[:] = 4.0
                self.assertEqual(other.push(grad), step)
                del grad
                while sync.outer_steps < step:
                    for parameter in model.parameters():
                        parameter.grad = torch.ones_like(parameter)
                    sync.step()
                self.assertEqual(sync.since == 0, step == 2)
            numpy.testing.assert_array_equal(outlast.torch.vector(model), numpy.full(8, -8.0))

    def test_who_comes_too_late_for_the_last_step_ends_too(self):
        for follow in (False, True):
            with self.subTest(follow=follow), \
                    outlast.launch(params=8, rule="nesterov", lr=1.0, momentum=0.0, workers=3,
                                   consistency="sync:quorum,k=2,grace=0,late=next") as servers, \
                    outlast.connect(servers, worker=0, timeout=20) as job, \
                    outlast.connect(servers, worker=1, timeout=20) as other, \
                    outlast.connect(servers, worker=2, timeout=20) as third:
                model = torch.nn.Linear(7, 1)
                sync = outlast.torch.DiLoCo(model, torch.optim.SGD(model.parameters(), lr=1.0), 2,
                                            job, timeout=20, follow=follow, until=1)
                for pusher, timeout in ((other, 0.0), (third, 20)):
                    grad = pusher.grad()
                    grad[:] = 4.0
                    try:
                        self.assertEqual(pusher.push(grad, timeout=timeout), 1)
                    except outlast.Timeout:
                        pass  # the first of two
                    del grad
                while sync.outer_steps < 1:
                    for parameter in model.parameters():
                        parameter.grad = torch.ones_like(parameter)
                    sync.step()
                self.assertTrue(job.finish(1))
                numpy.testing.assert_array_equal(job.weights().array, numpy.full(8, -4.0))
                numpy.testing.assert_array_equal(outlast.torch.vector(model), numpy.full(8, -4.0))
                link = job.stat_links()[0]
                ends = [(1, 0, 1), (0, 0, 0)]  # it may hear of the step before it pushes
                self.assertIn((link["pushed"], link["applied"], link["late"]), ends)
                if not follow:
                    self.assertEqual(sync.late, 1)

    def test_nobody_pushes_for_a_step_behind_the_last(self):
        """A quorum of learners that are too late would make it."""
        for follow in (False, True):
            with self.subTest(follow=follow), \
                    outlast.launch(params=8, rule="nesterov", lr=1.0, momentum=0.0, workers=2,
                                   consistency="sync:quorum,k=1,grace=0,late=next") as servers, \
                    outlast.connect(servers, worker=0, timeout=20) as job, \
                    outlast.connect(servers, worker=1, timeout=20) as other:
                model = torch.nn.Linear(7, 1)
                sync = outlast.torch.DiLoCo(model, torch.optim.SGD(model.parameters(), lr=1.0), 2,
                                            job, timeout=20, follow=follow, until=1)
                self.assertEqual(push_fours(other, job), 1)
                for _ in range(7):
                    for parameter in model.parameters():
                        parameter.grad = torch.ones_like(parameter)
                    sync.step()
                self.assertEqual((sync.outer_steps, job.stat()[0].version), (1, 1))
                self.assertEqual(job.stat_links()[0]["pushed"], 0)
                self.assertEqual(sync.late, 3)  # what its seven inner steps would have pushed

    def test_who_comes_too_late_with_a_single_buffer_ends_too(self):
        """Its push is under way, for a step that nobody makes, and holds the only buffer."""
        for follow in (False, True):
            with self.subTest(follow=follow), \
                    outlast.launch(params=8, rule="nesterov", lr=1.0, momentum=0.0, workers=3,
                                   consistency="sync:quorum,k=2,grace=0,late=next") as servers, \
                    outlast.connect(servers, worker=0, window=1, timeout=20) as job, \
                    outlast.connect(servers, worker=1, timeout=20) as other, \
                    outlast.connect(servers, worker=2, timeout=20) as third:
                model = torch.nn.Linear(7, 1)
                sync = outlast.torch.DiLoCo(model, torch.optim.SGD(model.parameters(), lr=1.0), 1,
                                            job, timeout=20, follow=follow, until=1)
                for pusher, timeout in ((other, 0.0), (third, 20)):
                    grad = pusher.grad()
                    grad[:] = 4.0
                    try:
                        pusher.push(grad, timeout=timeout)
                    except outlast.Timeout:
                        pass  # the first of two
                    del grad
                told = job.newest

                def newest(job: outlast.Job = job, told: object = told) -> int:
                    """The news come when it has pushed."""
                    return told() if job.stat_links()[0]["pushed"] else 0

                for parameter in model.parameters():
                    parameter.grad = torch.ones_like(parameter)
                with unittest.mock.patch.object(job, "newest", newest):
                    sync.step()
                link = job.stat_links()[0]
                self.assertEqual((sync.outer_steps, sync.late, link["pushed"], link["late"]),
                                 (1, 1, 1, 1))
                numpy.testing.assert_array_equal(outlast.torch.vector(model), numpy.full(8, -4.0))

    def test_a_weight_is_a_number_above_0(self):
        with outlast.launch(params=10) as servers, outlast.connect(servers, timeout=20) as job:
            grad = job.grad()
            grad[:] = 1.0
            for weight in (0.0, -1.0, float("nan"), float("inf"), 1e30):
                with self.assertRaises(outlast.Error):
                    job.push(grad, weight=weight)
            self.assertEqual(job.push(grad, weight=3), 1)  # it was lent all the while
            del grad

    def test_it_wants_outage_wait(self):
        model = make()
        with outlast.launch(init=outlast.torch.vector(model), outage="continue") as servers, \
                outlast.connect(servers) as job:
            with self.assertRaises(ValueError):
                outlast.torch.DiLoCo(model, torch.optim.SGD(model.parameters(), lr=1.0), 1, job)


if __name__ == "__main__":
    unittest.main()
