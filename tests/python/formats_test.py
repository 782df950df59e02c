# SPDX-License-Identifier: BSD-3-Clause
"""Gradients of every format, against numpy's own arithmetic: the weights are to the bit what a server
makes of gradients that are rounded so, also through a killed server; bytes are what was promised."""
import unittest

import numpy
import torch

import outlast

LEN = 3 * 4096 + 2 * 256 + 77
LR = 0.1
STEPS = 12


def bf16(grad: numpy.ndarray) -> numpy.ndarray:
    bits = grad.view(numpy.uint32).astype(numpy.uint64)
    near = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16 << 16
    return near.astype(numpy.uint32).view(numpy.float32)


def fp16(grad: numpy.ndarray) -> numpy.ndarray:
    return grad.astype(numpy.float16).astype(numpy.float32)


class Int8:
    """A scale for each 256, and what is rounded off goes into the next gradient."""

    def __init__(self) -> None:
        self.residual = numpy.zeros(LEN, numpy.float32)

    def __call__(self, grad: numpy.ndarray) -> numpy.ndarray:
        sums, found = grad + self.residual, numpy.zeros(LEN, numpy.float32)
        for at in range(0, LEN, 256):
            block = sums[at:at + 256]
            largest = numpy.abs(block).max()
            scale = largest / numpy.float32(127)
            near = numpy.rint(block * (numpy.float32(127) / largest))
            found[at:at + 256] = scale * near
        self.residual = sums - found
        return found


def gradients(seed: int) -> list[numpy.ndarray]:
    rng = numpy.random.default_rng(seed)
    sizes = 10.0 ** rng.integers(-3, 2, LEN // 256 + 1).repeat(256)[:LEN]
    return [(rng.standard_normal(LEN) * sizes).astype(numpy.float32) for _ in range(STEPS)]


def expected(kind: str, seed: int) -> numpy.ndarray:
    through = {"fp32": lambda grad: grad, "bf16": bf16, "fp16": fp16, "int8": Int8()}[kind]
    weights = numpy.linspace(-1, 1, LEN, dtype=numpy.float32)
    for grad in gradients(seed):
        weights = weights - numpy.float32(LR) * through(grad)
    return weights


def bytes_of(kind: str, floats: int) -> int:
    if kind == "int8":
        whole, rest = divmod(floats, 4096)
        return 4160 * whole + (64 + -(-rest // 64) * 64 if rest else 0)
    return -(-floats * (4 if kind == "fp32" else 2) // 64) * 64


def spans(servers: int) -> list[int]:
    """Floats of each shard: whole pages, as even as they go."""
    cuts = [min(LEN, -(-LEN // 1024) * i // servers * 1024) for i in range(servers + 1)]
    return [after - before for before, after in zip(cuts, cuts[1:])]


def push(job: outlast.Job, grad: numpy.ndarray) -> None:
    buffer = job.grad()
    buffer[:] = grad
    job.push(buffer)
    job.pull()


class FormatsTest(unittest.TestCase):
    def trained(self, kind: str, servers: int, kill_at: int | None) -> numpy.ndarray:
        first = numpy.linspace(-1, 1, LEN, dtype=numpy.float32)
        with outlast.launch(init=first, servers=servers, lr=LR) as run, \
                outlast.connect(run, gradients=kind, timeout=60) as job:
            before = sum(shard.bytes_in for shard in job.stat())
            for step, grad in enumerate(gradients(servers)):
                push(job, grad)
                if step == kill_at:
                    run.servers[0].kill()
                    run.servers[0].restart()
            if kill_at is None:
                after = sum(shard.bytes_in for shard in job.stat())
                self.assertEqual(after - before, STEPS * sum(64 + bytes_of(kind, floats)
                                                             for floats in spans(servers)))
            return job.pull().copy()

    def test_weights_are_what_numpy_says(self):
        for kind in ("fp32", "bf16", "fp16", "int8"):
            for servers, kill_at in ((1, None), (1, 5), (2, None)):
                with self.subTest(kind=kind, servers=servers, kill_at=kill_at):
                    numpy.testing.assert_array_equal(self.trained(kind, servers, kill_at),
                                                     expected(kind, servers))

    def test_a_gradient_that_does_not_fit_is_no_number(self):
        first = numpy.zeros(1000, numpy.float32)
        grad = numpy.ones(1000, numpy.float32)
        with outlast.launch(init=first, lr=1.0) as run, \
                outlast.connect(run, gradients="fp16", timeout=60) as job:
            grad[7] = 65520.0
            with self.assertRaises(outlast.NonFinite):
                push(job, grad)
            grad[7] = 65504.0
            push(job, grad)
            self.assertEqual(numpy.asarray(job.pull())[7], -65504.0)

    def test_gradients_whose_sum_does_not_fit_are_all_applied(self):
        """Two shards, one of which is gone: what its queue folds is 150,000, which fp16 has not."""
        # the first may have left before the death was noticed
        for replay, want in (("each", [-150000.0]), ("mean", [-30000.0, -60000.0])):
            with outlast.launch(params=4096, servers=2, lr=1.0, replay=replay,
                                outage="continue") as run, \
                    outlast.connect(run, gradients="fp16", timeout=60) as job:
                job.pull()
                run.servers[1].kill()
                for _ in range(5):
                    grad = job.grad()
                    grad[:] = 1.0
                    grad[-1] = 30000.0
                    job.push(grad)
                    job.pull()
                del grad
                run.servers[1].restart(restore="mirror")
                job.finish(timeout=30)
                self.assertEqual([link["applied"] for link in job.stat_links()], [5, 5])
                self.assertIn(job.pull(newest=True).array[-1], want)

    def test_a_model_learns_with_int8(self):
        torch.manual_seed(1)
        model = torch.nn.Linear(20, 3)
        x, y = torch.randn(256, 20), torch.randint(0, 3, (256,))
        with outlast.launch(init=model, lr=0.5) as run, \
                outlast.connect(run, gradients="int8", timeout=60) as job:
            opt = outlast.torch.Optimizer(model, job)
            losses = []
            for _ in range(60):
                opt.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(x), y)
                loss.backward()
                opt.step()
                losses.append(float(loss))
        self.assertLess(losses[-1], 0.9 * losses[0])

    def test_readers_that_want_half_the_bytes_get_the_weights_rounded(self):
        first = numpy.linspace(-3, 3, 5000, dtype=numpy.float32)
        for words in ({"servers": 1}, {"servers": 2}, {"replicas": 2}):
            with self.subTest(words=words), \
                    outlast.launch(init=first, lr=0.1, weights_bf16=True, **words) as run, \
                    outlast.connect(run, timeout=60) as job, \
                    job.reader(weights="bf16") as reader:
                numpy.testing.assert_array_equal(reader.pull(), bf16(first))
                job.pull()
                for step in range(8):
                    push(job, first)
                    if step == 4:  # what takes its place has the weights of a mirror, or of a replica
                        killed = run.servers[-1] if "servers" in words else run.head()
                        killed.kill()
                        killed.restart(restore="mirror" if "servers" in words else "none")
                    exact = job.pull(newest=True)
                    seen = reader.pull()
                    self.assertEqual(seen.version, exact.version)
                    numpy.testing.assert_array_equal(seen, bf16(exact.copy()))
                with outlast.reader(run, weights="bf16", timeout=60) as again:
                    numpy.testing.assert_array_equal(again.pull(), seen)
                del seen, exact

    def test_servers_without_them_are_refused_and_so_are_workers_that_ask(self):
        with outlast.launch(params=10) as run:
            with self.assertRaisesRegex(outlast.Error, "does not hold weights as bf16"):
                outlast.reader(run, weights="bf16", connect_timeout=5)
            with self.assertRaisesRegex(outlast.Error, "weights_format is FP32, or an observer's"):
                outlast.connect(run, weights_format=1)
        with self.assertRaisesRegex(ValueError, "weights 'int8': of fp32, bf16"):
            outlast.reader("@nowhere", weights="int8")

    def test_a_format_that_there_is_not(self):
        with self.assertRaisesRegex(ValueError, "gradients 'int4': of fp32, bf16, fp16, int8"):
            outlast.connect("@nowhere", gradients="int4")


if __name__ == "__main__":
    unittest.main()
