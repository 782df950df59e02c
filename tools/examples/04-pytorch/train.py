#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Two processes train a convolutional network together; the only server is killed on the way.

With OUTLAST_JOB set this is one worker (OUTLAST_WORKER: which). Without it, the script starts a
server and two workers, which are itself, and kills the server.
"""
import hashlib
import os
import subprocess
import sys

import torch

import outlast

WORKERS = 2
STEPS = 300
BATCH = 32


def make_model() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Linear(8 * 7 * 7, 10))


def batch(worker: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy images, one bright row in each: which one is the class."""
    random = torch.Generator().manual_seed(WORKERS * step + worker)
    labels = torch.randint(10, (BATCH,), generator=random)
    images = torch.randn(BATCH, 1, 16, 16, generator=random)
    images[torch.arange(BATCH), 0, labels + 3] += 1.0
    return images, labels


def work() -> None:
    torch.set_num_threads(1)
    model = make_model()
    with outlast.connect() as job:
        worker = int(os.environ["OUTLAST_WORKER"])
        optimizer = outlast.torch.Optimizer(model, job)
        while job.version < STEPS:
            images, labels = batch(worker, job.version)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step(loss=loss.item(), samples=BATCH)
            if worker == 0 and job.version % 50 == 0:
                print(f"version {job.version}: loss {loss.item():.3f}", flush=True)
        job.finish(STEPS)
        print("done", hashlib.sha256(outlast.torch.vector(model)).hexdigest()[:16], flush=True)
        job.stay(sys.stdin)  # a restored server may need this mirror


def start(servers: outlast.Launch, worker: int) -> subprocess.Popen:
    words = dict(os.environ, OUTLAST_JOB=str(servers), OUTLAST_WORKER=str(worker))
    return subprocess.Popen([sys.executable, __file__], env=words, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def main() -> None:
    with outlast.launch(init=outlast.torch.vector(make_model()), workers=WORKERS,
                        consistency="sync", rule="momentum", lr=0.02) as servers:
        workers = [start(servers, number) for number in range(WORKERS)]
        for line in workers[0].stdout:
            print(line, end="")
            if line.startswith("version 100:"):
                servers.servers[0].kill()
                print("the server is killed; an empty one takes its place")
                servers.servers[0].restart(restore="mirror")
            if line.startswith("done"):
                break
        print(workers[1].stdout.readline(), end="")
        for worker in workers:
            worker.stdin.close()
        if any([worker.wait() for worker in workers]):
            sys.exit("a worker failed")


if __name__ == "__main__":
    if "OUTLAST_JOB" in os.environ:
        work()
    else:
        main()
