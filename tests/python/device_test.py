# SPDX-License-Identifier: BSD-3-Clause
"""A model that lies on a device learns as one on the CPU does, and only what must be is copied.

Apart tests the copies' order on any machine: a model on the CPU is dealt with as if its memory were
a device's. OnCuda repeats that on a GPU, with streams and page-locked memory, where there is one.
"""
import contextlib
import unittest
import unittest.mock

import numpy
import torch

import outlast

RATE = 0.25
STEPS = 12


def make(device: str) -> torch.nn.Module:
    torch.manual_seed(2)
    return torch.nn.Sequential(torch.nn.Linear(8, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256),
                               torch.nn.ReLU(), torch.nn.Linear(256, 4)).to(device)


def count(model: torch.nn.Module) -> int:
    return sum(one.numel() for one in model.parameters())


class Apart(unittest.TestCase):
    device = "cpu"

    def setUp(self):
        torch.set_num_threads(1)
        for module in ("_lane", "_place"):
            self.patch(f"outlast.torch.{module}.is_apart", lambda device: True)
        self.patch("outlast.torch._lane.PIECE", 1000)  # several pieces, the last one shorter
        random = torch.Generator().manual_seed(3)
        inputs = torch.randn(64, 8, generator=random)
        self.inputs, self.labels = inputs.to(self.device), (inputs.argmax(1) % 4).to(self.device)
        self.model = make(self.device)

    def patch(self, name: str, value: object) -> None:
        patch = unittest.mock.patch(name, value)
        patch.start()
        self.addCleanup(patch.stop)

    def backward(self, model: torch.nn.Module) -> None:
        torch.nn.functional.cross_entropy(model(self.inputs), self.labels).backward()

    @contextlib.contextmanager
    def job(self, words: dict, **options: object):
        with outlast.launch(init=self.model, **words) as servers, \
                outlast.connect(servers, timeout=20, **options) as job:
            self.servers = servers
            yield job

    def trained(self, overlap: bool, **options: object) -> numpy.ndarray:
        """By a job whose only server is killed on the way."""
        self.model = make(self.device)
        with self.job({"lr": RATE}, **options) as job:
            optimizer = outlast.torch.Optimizer(self.model, job, overlap=overlap)
            starts = {one.data_ptr() for one in self.model.parameters()}
            for step in range(STEPS):
                optimizer.zero_grad()
                if step == 5:
                    self.servers.servers[0].kill()
                    self.servers.servers[0].restart(restore="mirror")
                if step == 8:  # a gradient that is thrown away
                    self.backward(self.model)
                    optimizer.zero_grad()
                self.backward(self.model)
                optimizer.step()
            self.assertEqual(starts, {one.data_ptr() for one in self.model.parameters()})
            self.assertEqual(optimizer.bytes_copied, STEPS * 2 * 4 * count(self.model))
            self.assertEqual(overlap, job.stat()[0].early_bytes > 0)
            numpy.testing.assert_array_equal(outlast.torch.vector(self.model), job.weights().array)
        return outlast.torch.vector(self.model)

    def test_bits_are_those_of_torch(self):
        twin = make(self.device)
        sgd = torch.optim.SGD(twin.parameters(), lr=RATE)
        for _ in range(STEPS):
            sgd.zero_grad()
            self.backward(twin)
            sgd.step()
        for words in ({"overlap": False}, {"overlap": True},
                      {"overlap": False, "own_buffers": True},
                      {"overlap": True, "own_buffers": True}):
            with self.subTest(words=words):
                numpy.testing.assert_array_equal(self.trained(**words), outlast.torch.vector(twin))

    def test_gradients_that_lie_elsewhere_are_brought(self):
        twin = make(self.device)
        sgd = torch.optim.SGD(twin.parameters(), lr=RATE)
        with self.job({"lr": RATE}) as job:
            optimizer = outlast.torch.Optimizer(self.model, job, overlap=True)
            self.model.zero_grad(set_to_none=True)
            for model in (self.model, twin):
                self.backward(model)
                model[2].bias.grad = None
            optimizer.step()
            sgd.step()
            self.assertEqual(optimizer.bytes_copied, 4 * (3 * count(twin) - 256))
            numpy.testing.assert_array_equal(outlast.torch.vector(self.model),
                                             outlast.torch.vector(twin))

    def test_after_a_push_that_was_refused_the_next_is_of_its_own_gradient(self):
        twin = make(self.device)
        sgd = torch.optim.SGD(twin.parameters(), lr=RATE)
        with self.job({"lr": RATE}) as job:
            optimizer = outlast.torch.Optimizer(self.model, job)
            self.backward(self.model)
            with unittest.mock.patch.object(job, "_push_start", side_effect=outlast.Error("no")), \
                    self.assertRaisesRegex(outlast.Error, "no"):
                optimizer.step()
            for model, one in ((self.model, optimizer), (twin, sgd)):
                one.zero_grad()
                self.backward(model)
                self.backward(model)
                one.step()
            numpy.testing.assert_array_equal(outlast.torch.vector(self.model),
                                             outlast.torch.vector(twin))

    def test_a_write_into_the_weights_is_found_and_undone(self):
        with self.job({"lr": RATE}) as job:
            optimizer = outlast.torch.Optimizer(self.model, job)
            want = outlast.torch.vector(self.model)
            with torch.no_grad():
                self.model[0].bias.add_(1.0)
            with self.assertRaisesRegex(outlast.Error, "parameter 1 was written"):
                optimizer.step()
            numpy.testing.assert_array_equal(outlast.torch.vector(self.model), want)

    def test_the_model_goes_on_after_its_job(self):
        with self.job({"lr": RATE}) as job:
            optimizer = outlast.torch.Optimizer(self.model, job)
            self.backward(self.model)
            optimizer.step()
            want = job.pull().copy()
        numpy.testing.assert_array_equal(outlast.torch.vector(self.model), want)
        self.backward(self.model)
        torch.optim.SGD(self.model.parameters(), lr=RATE).step()
        self.assertFalse(numpy.array_equal(outlast.torch.vector(self.model), want))

    def outer(self) -> dict:
        return {"rule": "nesterov", "lr": 0.5, "momentum": 0.5, "consistency": "sync"}

    def test_diloco_walks_as_beside_the_job(self):
        twin = make(self.device)
        theta = torch.nn.Parameter(torch.from_numpy(outlast.torch.vector(twin)))
        outer = torch.optim.SGD([theta], lr=0.5, momentum=0.5, nesterov=True)
        inner = torch.optim.SGD(twin.parameters(), lr=0.125)
        with self.job(self.outer()) as job:
            sync = outlast.torch.DiLoCo(
                self.model, torch.optim.SGD(self.model.parameters(), lr=0.125), 4, job)
            for step in range(20):
                sync.zero_grad()
                self.backward(self.model)
                sync.step()
                inner.zero_grad()
                self.backward(twin)
                inner.step()
                if step % 4 == 3:
                    theta.grad = theta.detach() - torch.from_numpy(outlast.torch.vector(twin))
                    outer.step()
                    outlast.torch.load(twin, theta.detach())
                if step == 9:
                    self.servers.servers[0].kill()
                    self.servers.servers[0].restart(restore="mirror")
            self.assertEqual(sync.outer_steps, 5)
            # the first weights; an outer step: the base and the difference, then the new weights
            self.assertEqual(sync.bytes_copied, 4 * count(twin) * (1 + 5 * 3))
            numpy.testing.assert_allclose(outlast.torch.vector(self.model),
                                          outlast.torch.vector(twin), rtol=1e-5, atol=1e-6)

    def test_fragments_are_mixed_as_on_the_cpu(self):
        near = torch.linspace(-1, 1, 2500, device=self.device)
        want = 0.25 * near + 0.75 * 3.0
        outlast.torch._lane.lane_of(near.device).mix(near, torch.full((2500,), 3.0), 0.25)
        torch.testing.assert_close(near, want)

    def test_a_learner_that_follows_keeps_what_it_has_changed(self):
        words = self.outer() | {"consistency": "sync:quorum,k=1,late=next", "workers": 2,
                                "lr": 1.0, "momentum": 0.0}
        with self.job(words, worker=0) as job, \
                outlast.connect(self.servers, worker=1, timeout=20) as other:
            sync = outlast.torch.DiLoCo(
                self.model, torch.optim.SGD(self.model.parameters(), lr=1.0), 100, job, follow=True)
            before = outlast.torch.vector(self.model)
            other.pull()
            grad = other.grad()
            grad[:] = 4.0
            step = other.push(grad)
            while job.newest() < step:
                job.poll()
            for parameter in self.model.parameters():
                parameter.grad = torch.ones_like(parameter)
            sync.step()
            self.assertEqual(job.version, 1)
            numpy.testing.assert_array_equal(outlast.torch.vector(self.model),
                                             (before - numpy.float32(4)) - (before - (before - 1)))

    def test_models_that_lie_elsewhere_are_refused(self):
        with self.job({"lr": RATE}) as job:
            with self.assertRaisesRegex(ValueError, "on meta: .* lie on cpu or cuda"):
                outlast.torch.Optimizer(make("meta"), job)


@unittest.skipUnless(torch.cuda.is_available(), "there is no CUDA device")
class OnCuda(Apart):
    device = "cuda"

    def places(self, **options: object) -> tuple[object, object]:
        with self.job({"lr": RATE}, **options) as job:
            optimizer = outlast.torch.Optimizer(self.model, job, overlap=True)
            mirror = optimizer._places.mirror().flat
            buffer = optimizer._places.buffer(optimizer._held.pointer).flat
            return mirror.is_pinned(), buffer.is_pinned()

    def test_memory_of_the_job_is_page_locked(self):
        for _ in range(3):  # the same addresses again, most likely
            self.assertEqual(self.places(own_buffers=True), (True, True))

    def test_memory_of_a_server_is_not(self):
        """It is other memory at the same address after the server's death."""
        self.assertEqual(self.places(), (True, False))

    def test_a_model_on_two_devices_is_refused(self):
        self.model[4].to("cpu")
        with self.job({"lr": RATE}) as job, \
                self.assertRaisesRegex(ValueError, "is on cpu, the first is on cuda:0"):
            outlast.torch.Optimizer(self.model, job)

    def test_a_child_of_a_fork_leaves_its_parents_memory_locked(self):
        with self.job({"lr": RATE}, own_buffers=True) as job:
            optimizer = outlast.torch.Optimizer(self.model, job)
            loader = torch.utils.data.DataLoader(
                torch.utils.data.TensorDataset(torch.zeros(8, 1)), num_workers=2)
            self.assertEqual(sum(1 for _ in loader), 8)
            self.backward(self.model)
            optimizer.step()
            self.assertTrue(optimizer._places.mirror().flat.is_pinned())


if __name__ == "__main__":
    unittest.main()
