#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What weights as bf16 cost and save: a read of each format, and an update by servers with and without.

Two jobs of the same size over shm take turns: one whose server holds its weights as bf16, too, and
one whose server does not. Beside the reads is a plain copy of as many bytes as float32 has.
"""
import argparse
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "src" / "python"))

import numpy

import outlast

WARM_UP = 10


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def push(job: outlast.Job) -> None:
    job.push(job.grad())
    job.pull()


def measure(count: int, rounds: int) -> dict[str, list[float]]:
    took: dict[str, list[float]] = {}
    plain = numpy.ones(count, numpy.float32), numpy.empty(count, numpy.float32)
    with outlast.launch(params=count, weights_bf16=True) as with_them, \
            outlast.launch(params=count) as without, outlast.connect(with_them) as one, \
            outlast.connect(without) as other, one.reader() as exact, \
            one.reader(weights="bf16") as half:
        for job in (one, other):
            job.pull()
            for _ in range(WARM_UP):
                grad = job.grad()
                grad[:] = 0.0
                job.push(grad)
                job.pull()
        del grad
        for number in range(WARM_UP + rounds):
            for name, call in (("plain copy", lambda: numpy.copyto(plain[1], plain[0])),
                               ("read, fp32", exact.pull), ("read, bf16", half.pull),
                               ("push, without bf16", lambda: push(other)),
                               ("push, with bf16", lambda: push(one))):
                value = timed(call)
                if number >= WARM_UP:
                    took.setdefault(name, []).append(value)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     epilog="example: readers.py --size 16777216")
    parser.add_argument("--size", type=int, default=16 << 20,
                        help="bytes of the weights as float32; default 16 MiB")
    parser.add_argument("--rounds", type=int, default=300, help="default 300")
    parser.add_argument("--json", help="file for all times, in seconds")
    options = parser.parse_args()
    print(f"# {options.size} bytes; load {os.getloadavg()[0]:.1f}")
    took = measure(options.size // 4, options.rounds)
    print(f"{'':20} {'count':>6} " + " ".join(f"{word:>10}" for word in (
        "min[usec]", "median", "99%", "99.9%", "max")))
    for name, times in took.items():
        figures = numpy.quantile(times, [0, 0.5, 0.99, 0.999, 1]) * 1e6
        print(f"{name:20} {len(times):6} " + " ".join(f"{value:10.1f}" for value in figures))
    middle = {name: float(numpy.median(times)) for name, times in took.items()}
    print(f"a read by a plain copy: fp32 {middle['read, fp32'] / middle['plain copy']:.2f}, "
          f"bf16 {middle['read, bf16'] / middle['plain copy']:.2f}; a push with bf16 by one without: "
          f"{middle['push, with bf16'] / middle['push, without bf16']:.3f}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(took))


if __name__ == "__main__":
    main()
