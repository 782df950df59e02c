#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""An evaluator reads each hundredth version beside training; the only server is killed on the way.

With OUTLAST_ROLE set this is the worker or the evaluator. Without it, the script starts a server
and both, which are itself, and kills the server.
"""
import hashlib
import os
import subprocess
import sys

import torch

import outlast

STEPS = 300
EVERY = 100
BATCH = 32
TESTS = 1000


def make_model() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Linear(8 * 7 * 7, 10))


def batch(seed: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy images, one bright row in each: which one is the class."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=random)
    images = torch.randn(count, 1, 16, 16, generator=random)
    images[torch.arange(count), 0, labels + 3] += 1.0
    return images, labels


def name(array: object) -> str:
    return hashlib.sha256(array).hexdigest()[:16]


def train() -> None:
    model = make_model()
    with outlast.connect() as job:
        optimizer = outlast.torch.Optimizer(model, job)
        while job.version < STEPS:
            images, labels = batch(job.version, BATCH)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step(samples=BATCH)
        job.finish(STEPS)
        print("done", name(outlast.torch.vector(model)), flush=True)
        job.stay(sys.stdin)  # a restored server may need this mirror


def evaluate() -> None:
    model = make_model()
    images, labels = batch(-1, TESTS)
    with outlast.reader() as reader:  # no worker: training does not wait for it
        for version in range(EVERY, STEPS + 1, EVERY):
            reader.wait_for(version)
            weights = reader.pull()
            outlast.torch.load(model, weights)
            with torch.no_grad():
                right = (model(images).argmax(dim=1) == labels).float().mean().item()
            print(f"version {weights.version // EVERY * EVERY} or later: accuracy {right:.3f}",
                  flush=True)
        print("done", name(weights.array), flush=True)
        del weights


def start(servers: outlast.Launch, role: str) -> subprocess.Popen:
    words = dict(os.environ, OUTLAST_JOB=str(servers), OUTLAST_ROLE=role, OMP_NUM_THREADS="1")
    return subprocess.Popen([sys.executable, __file__], env=words, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def main() -> None:
    with outlast.launch(init=outlast.torch.vector(make_model()), workers=1, consistency="sync",
                        rule="momentum", lr=0.02, observers_max=64) as servers:
        evaluator = start(servers, "evaluate")
        worker = start(servers, "train")
        killed = False
        for line in evaluator.stdout:
            print(line, end="")
            if not killed:
                servers.servers[0].kill()
                print("the server is killed; an empty one takes its place")
                servers.servers[0].restart(restore="mirror")
                killed = True
        print(worker.stdout.readline(), end="")
        worker.stdin.close()
        evaluator.stdin.close()
        if any([process.wait() for process in (worker, evaluator)]):
            sys.exit("a process failed")


if __name__ == "__main__":
    {"train": train, "evaluate": evaluate}.get(os.environ.get("OUTLAST_ROLE", ""), main)()
