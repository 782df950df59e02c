#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the Python package costs: a step of PyTorch through a server beside one without, and a push.

This process is on one processor and the server on another. Two arms take turns, a step each, with
the same batches: torch.optim.SGD alone, and outlast.torch.Optimizer with a server that updates;
then the same with overlap=True. At the end their weights have the same bits.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "src" / "python"))

import numpy
import torch

import outlast

BATCH = 32
LR = 2.0**-7  # torch fuses its multiplication with the addition: other rates round differently
WARM_UP = 20
TINY = 16  # float32: 64 bytes


def make_model() -> torch.nn.Module:
    """The network of `outlast train --model cnn`: 813,258 parameters."""
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(1568, 512), torch.nn.ReLU(), torch.nn.Dropout(0.25),
        torch.nn.Linear(512, 10))


def pin(processors: list[int], servers: outlast.Launch) -> None:
    """This process on the first, the server on the second, if there are two."""
    if len(processors) > 1:
        os.sched_setaffinity(0, processors[:1])
        os.sched_setaffinity(servers.servers[0].pid, processors[1:2])


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, number: int) -> float:
    """Its time in seconds."""
    random = torch.Generator().manual_seed(number)
    images = torch.randn(BATCH, 1, 28, 28, generator=random)
    labels = torch.randint(10, (BATCH,), generator=random)
    torch.manual_seed(number)  # of the dropout
    began = time.perf_counter()
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    return time.perf_counter() - began


def steps(rounds: int, processors: list[int], overlap: bool) -> dict:
    """Times of both arms in seconds, and whether they end with the same bits."""
    torch.set_num_threads(1)
    alone, through = make_model(), make_model()
    times: tuple[list[float], list[float]] = ([], [])
    with outlast.launch(init=through, lr=LR) as servers, \
            outlast.connect(servers, mirror_state=False) as job:
        pin(processors, servers)
        optimizer = outlast.torch.Optimizer(through, job, overlap=overlap)
        arms = ((alone, torch.optim.SGD(alone.parameters(), lr=LR)), (through, optimizer))
        for number in range(WARM_UP + rounds):
            for at in (0, 1) if number % 2 == 0 else (1, 0):
                took = step(*arms[at], number)
                if number >= WARM_UP:
                    times[at].append(took)
        same = numpy.array_equal(outlast.torch.vector(alone), outlast.torch.vector(through))
        return {"alone": times[0], "through": times[1], "overlap": overlap, "same": same,
                "bytes_copied": optimizer.bytes_copied}


def pushes(count: int, processors: list[int]) -> dict:
    """A push of 64 bytes until it is applied: by Python, and by `outlast bench`, in turns."""
    took: list[float] = []
    program: list[float] = []
    with outlast.launch(params=TINY) as servers, \
            outlast.connect(servers, mirror_state=False) as job:
        pin(processors, servers)
        job.pull()
        for turn in range(5):
            for number in range(count // 5 + WARM_UP):
                began = time.perf_counter()
                grad = job.grad()
                job.push(grad)
                if number >= WARM_UP:
                    took.append(time.perf_counter() - began)
            program.append(bench())
        del grad
    return {"python": took, "program": program}


def bench() -> float:
    """Typical time of a push in C, in seconds."""
    done = subprocess.run([outlast._launch.program(), "bench", "push", "--size", "64", "--seconds",
                           "0.3", "--json", "/dev/stdout"], env=outlast._launch.variables(), check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, range(os.cpu_count() or 1)))
    text = done.stdout[done.stdout.index("{"):done.stdout.rindex("}") + 1]
    return typical(json.loads(text))


def typical(report: dict) -> float:
    return report["results"][0]["t_typical_us"] / 1e6


def show(name: str, times: list[float]) -> None:
    figures = numpy.quantile(times, [0, 0.5, 0.99, 0.999, 1]) * 1e6
    print(f"{name:28} {len(times):7} " + " ".join(f"{value:11.2f}" for value in figures))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     epilog="example: cost.py --rounds 500")
    parser.add_argument("--rounds", type=int, default=300, help="steps of each arm; default 300")
    parser.add_argument("--pushes", type=int, default=20000, help="default 20000")
    parser.add_argument("--json", help="file for all times, in seconds")
    options = parser.parse_args()
    processors = sorted(os.sched_getaffinity(0))[:2]
    print(f"# load {os.getloadavg()[0]:.1f}; processors {processors}")
    print(f"{'':28} {'count':>7} " + " ".join(f"{word:>11}" for word in (
        "min[usec]", "median", "99%", "99.9%", "max")), flush=True)
    made = [steps(options.rounds, processors, overlap) for overlap in (False, True)]
    for arms in made:
        show("torch.optim.SGD alone", arms["alone"])
        show("a server, overlap" if arms["overlap"] else "a server", arms["through"])
    tiny = pushes(options.pushes, processors)
    show("push of 64 B from Python", tiny["python"])
    for arms in made:
        print(f"median of a step with a server{', overlap' if arms['overlap'] else ''}, by that alone: "
              f"{numpy.median(arms['through']) / numpy.median(arms['alone']):.3f}; "
              f"{'the same' if arms['same'] else 'OTHER'} bits; "
              f"bytes copied: {arms['bytes_copied']}")
    push, program = numpy.median(tiny["python"]), numpy.median(tiny["program"])
    print(f"push of 64 B: {push * 1e6:.2f} us from Python, {program * 1e6:.2f} us by outlast bench: "
          f"Python's share {1 - program / push:.2f}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"steps": made, "pushes": tiny}))
    if not all(arms["same"] for arms in made):
        sys.exit("the weights are not those of torch.optim.SGD")


if __name__ == "__main__":
    main()
