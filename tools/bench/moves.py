#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a worker sees of `outlast chain move`: how many pushes end meanwhile, and the longest wait for one.

A chain of three over shm, and a server that waits. One worker pushes, each time until it is applied,
and never stops. Head, middle and tail are moved in turns; the server that left is started again and
waits. Beside each move is as long a time just before it, in which nothing is moved.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "src" / "python"))

import numpy

import outlast
from outlast._launch import program

REPLICAS = 3
SETTLE_S = 1.0


class Worker(threading.Thread):
    """Pushes until it is told to stop; `ends` are the times at which a push was applied."""

    def __init__(self, servers: outlast.Launch) -> None:
        super().__init__()
        self.servers, self.ends, self.going = servers, [], True
        self.failure, self.link = None, {}

    def run(self) -> None:
        try:
            with outlast.connect(self.servers) as job:
                job.pull()
                while self.going:
                    grad = job.grad()
                    grad[:] = 0.0
                    job.push(grad)
                    self.ends.append(time.monotonic())
                    del grad
                self.link = job.stat_links()[0]
        except outlast.Error as error:
            self.failure = error

    def seen(self, first: float, last: float) -> tuple[float, float]:
        """Pushes a second, and the longest wait, between two times."""
        ends = numpy.array(self.ends)
        inside = ends[(ends >= first) & (ends <= last)]
        waits = numpy.diff(numpy.concatenate([[first], inside, [last]]))
        return len(inside) / (last - first), float(waits.max())


class Operator:
    def __init__(self, run: outlast.Launch) -> None:
        self.run = run
        self.words = ["--coordinator", run.address]

    def say(self, *words: str) -> str:
        return subprocess.run([program(), *words, *self.words], check=True, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL).stdout

    def replicas(self) -> list[str]:
        shard = json.loads(self.say("stat", "--once", "--json", "-"))["shards"][0]
        return [one["address"] for one in shard["replicas"]]

    def leave(self, order: str, address: str) -> None:
        self.say("chain", order, address)

    def start_again(self, address: str) -> None:
        server = next(one for one in self.run.servers if one.address == address)
        while server.alive:
            time.sleep(0.01)
        server.restart(restore="none")


def measure(count: int, rounds: int) -> list[dict]:
    moves = []
    with outlast.launch(params=count, replicas=REPLICAS + 1) as run:
        operator, worker = Operator(run), Worker(run)
        while len(operator.replicas()) < REPLICAS + 1:
            time.sleep(0.1)
        left = operator.replicas()[-1]
        operator.leave("remove", left)
        operator.start_again(left)
        worker.start()
        for number in range(rounds * REPLICAS):
            time.sleep(SETTLE_S)
            place = number % REPLICAS
            address = operator.replicas()[place]
            began = time.monotonic()
            operator.leave("move", address)
            ended = time.monotonic()
            rate, wait = worker.seen(began, ended)
            calm_rate, calm_wait = worker.seen(began - (ended - began), began)
            moves.append({"role": ("head", "middle", "tail")[place], "seconds": ended - began,
                          "rate": rate, "wait": wait, "calm_rate": calm_rate,
                          "calm_wait": calm_wait})
            operator.start_again(address)
        worker.going = False
        worker.join()
        if worker.failure is not None:
            raise worker.failure
        print(f"# {len(worker.ends)} pushes, lost {worker.link['lost']}, "
              f"late {worker.link['late']}")
    return moves


def row(name: str, values: list[float], unit: float) -> str:
    return f"{name:28}" + "".join(f"{value * unit:10.3g}" for value in numpy.quantile(
        values, [0, 0.5, 0.99, 0.999, 1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     epilog="example: moves.py --size 1048576 --rounds 10")
    parser.add_argument("--size", type=int, default=1 << 20,
                        help="bytes of the weights; default 1 MiB")
    parser.add_argument("--rounds", type=int, default=10,
                        help="each moves head, middle and tail; default 10")
    parser.add_argument("--json", help="file for all figures")
    options = parser.parse_args()
    print(f"# {options.size} bytes; load {os.getloadavg()[0]:.1f}")
    moves = measure(options.size // 4, options.rounds)
    print(f"{'':28}" + "".join(f"{word:>10}" for word in ("min", "median", "99%", "99.9%", "max")))
    for role in ("head", "middle", "tail"):
        mine = [one for one in moves if one["role"] == role]
        print(row(f"{role}: the order, ms", [one["seconds"] for one in mine], 1e3))
        print(row(f"{role}: longest wait, ms", [one["wait"] for one in mine], 1e3))
        print(row(f"{role}: before it, ms", [one["calm_wait"] for one in mine], 1e3))
        print(row(f"{role}: pushes, of before", [one["rate"] / one["calm_rate"] for one in mine], 1))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(moves))


if __name__ == "__main__":
    main()
