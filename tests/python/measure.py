# SPDX-License-Identifier: BSD-3-Clause
"""What Python costs: a push of 64 bytes, and a step of a small CNN against torch's SGD alone.

    PYTHONPATH=src/python /usr/bin/python3 tests/python/measure.py

Both kinds of step take turns of 20, so that whatever else runs on the machine meets both. Printed
are the minimum, the median and the 99th percentile, in microseconds, of steps after the first turn.
Not a test: its times mean something only on a machine that does nothing else.
"""
import sys
import time
from collections.abc import Callable

import numpy
import torch

import outlast

TURN, TURNS = 20, 30
PUSHES = 5000
BATCH = 32
RATE = 2.0 ** -7  # torch fuses its multiplication with the addition: other rates round differently


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return 1e6 * (time.perf_counter() - start)


def say(name: str, times: list[float]) -> float:
    low, middle, high = numpy.percentile(times, (0, 50, 99))
    print(f"{name:40} {low:9.1f} {middle:9.1f} {high:9.1f}")
    return middle


def push_small() -> None:
    with outlast.launch(params=16, spin_us=1000) as servers, \
            outlast.connect(servers, outage="end", spin_us=1000) as job:
        job.pull()

        def push() -> None:
            job.push(job.grad())

        for _ in range(PUSHES // 10):
            push()
        say("push of 64 bytes, with grad()", [timed(push) for _ in range(PUSHES)])
        say("pull of 64 bytes", [timed(job.pull) for _ in range(PUSHES)])
        say("poll()", [timed(job.poll) for _ in range(PUSHES)])


def make_cnn() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(16, 32, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Linear(32 * 5 * 5, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


def steps(models: dict[str, tuple[torch.nn.Module, torch.optim.Optimizer]]) -> None:
    random = torch.Generator().manual_seed(2)
    images = torch.randn(BATCH, 1, 28, 28, generator=random)
    labels = torch.randint(10, (BATCH,), generator=random)
    times: dict[str, list[float]] = {name: [] for name in models}
    spans: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(TURNS):
        for name, (model, optimizer) in models.items():
            for _ in range(TURN):
                start = time.perf_counter()
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(images), labels).backward()
                span = timed(optimizer.step)
                if turn > 0:
                    times[name].append(1e6 * (time.perf_counter() - start))
                    spans[name].append(span)
    middles = [say(f"whole step, {name}", times[name]) for name in models]
    for name in models:
        say(f"of it in step(), {name}", spans[name])
    print(f"ratio of medians: {middles[1] / middles[0]:.3f}")


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'microseconds':40} {'min':>9} {'median':>9} {'99 %':>9}")
    push_small()
    model, twin = make_cnn(), make_cnn()
    with outlast.launch(init=outlast.torch.vector(model), lr=RATE) as servers, \
            outlast.connect(servers) as job:
        optimizer = outlast.torch.Optimizer(model, job)
        print(f"CNN of {job.param_count} parameters, batch {BATCH}")
        steps({"torch.optim.SGD": (twin, torch.optim.SGD(twin.parameters(), lr=RATE)),
               "Outlast": (model, optimizer)})
        print(f"bytes copied by outlast: {optimizer.bytes_copied} in {job.version} steps")
        same = numpy.array_equal(outlast.torch.vector(model), outlast.torch.vector(twin))
        print(f"weights {'are the same bits' if same else 'differ'}")
        sys.exit(not same)


if __name__ == "__main__":
    main()
