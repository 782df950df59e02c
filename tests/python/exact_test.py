# SPDX-License-Identifier: BSD-3-Clause
"""Two learners of PyTorch end with the same bits, whenever the only server is killed."""
import unittest

import torch
from learners import SameBits

import outlast

STEPS = 40
BATCH = 16
INNER = 8
OUTER = 10


def make_cnn() -> torch.nn.Module:
    torch.manual_seed(5)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Linear(4 * 5 * 5, 10))


def make_mlp() -> torch.nn.Module:
    torch.manual_seed(6)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(144, 32), torch.nn.ReLU(),
                               torch.nn.Linear(32, 10))


def batch(number: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(1000 * step + number)
    images = torch.randn(BATCH, 1, 12, 12, generator=random)
    return images, (images.mean(dim=(1, 2, 3)) * 50).long().clamp(-4, 5) + 4


def backward(model: torch.nn.Module, number: int, step: int) -> float:
    images, labels = batch(number, step)
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    return loss.item()


def sync_of(make):
    def train(job, tell, number):
        model = make()
        optimizer = outlast.torch.Optimizer(model, job)
        while job.version < STEPS:
            loss = backward(model, number, job.version)
            tell()
            optimizer.step(loss=loss, samples=BATCH)
        assert optimizer.bytes_copied == 0
    return train


def diloco(job, tell, number):
    model = make_mlp()
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
    sync = outlast.torch.DiLoCo(model, inner, INNER, job)
    while sync.outer_steps < OUTER:
        sync.zero_grad()
        loss = backward(model, number, sync.steps)
        if (sync.steps + 1) % INNER == 0:
            tell()
        sync.step(loss=loss, samples=BATCH, tokens=BATCH * (1 + 7 * number + sync.steps % 3))
    assert sync.bytes_copied == 4 * job.param_count * (1 + OUTER)


class Exact(SameBits, unittest.TestCase):
    def test_a_cnn_with_momentum(self):
        self.ends_the_same(make_cnn, sync_of(make_cnn), STEPS,
                           {"rule": "momentum", "lr": 0.05, "momentum": 0.9},
                           [((1, None),), ((13, 0.0), (14, 0.0005), (30, None)), ((STEPS, None),)])

    def test_an_mlp_with_sgd(self):
        self.ends_the_same(make_mlp, sync_of(make_mlp), STEPS, {"rule": "sgd", "lr": 0.1},
                           [((7, 0.0003), (21, 0.001))])

    def test_diloco(self):
        self.ends_the_same(make_mlp, diloco, OUTER,
                           {"rule": "nesterov", "lr": 0.7, "momentum": 0.9},
                           [((1, None),), ((4, 0.0), (5, 0.0002)), ((OUTER, None),)])


if __name__ == "__main__":
    unittest.main()
