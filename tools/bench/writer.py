#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a running checkpoint costs: the rate of one worker beside a server that writes one, in pairs.

The worker is on one processor and the server, with its writer, on another: a disk's interrupts are
handled by one processor, and take time of whoever is there (/proc/interrupts says which).
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NoReturn

WAIT_S = 30  # for a server to listen, or to end


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     epilog="example: writer.py build/release/outlast --dir /var/tmp --format int8")
    parser.add_argument("program", help="outlast")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where the checkpoint's folder is made")
    parser.add_argument("--format", choices=("fp32", "int8"), default="int8")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=1600, help="of a run")
    parser.add_argument("--worker-cpu", type=int, default=0)
    parser.add_argument("--server-cpu", type=int, default=1)
    parser.add_argument("--json", help="file for all figures")
    options = parser.parse_args()
    if options.pairs < 2 or options.steps < 1:
        parser.error("--pairs is 2 or more, and --steps 1 or more")
    return options


def run(options: argparse.Namespace, folder: pathlib.Path, saves: bool) -> dict:
    """Gradients a second of one run, and seconds of computing one."""
    address, report, log = f"@writer-{os.getpid()}", folder / "work.json", folder / "log"
    form = "format=int8," if options.format == "int8" else ""
    words = ["--durability", "checkpoint", "--checkpoint",
             f"priority,r=1/8,every=8steps,{form}dir={folder / 'checkpoint'}"] if saves else []
    with log.open("w") as errors:
        server = subprocess.Popen(["taskset", "-c", str(options.server_cpu), options.program, "serve", "--listen", address,
                                   "--model", "cnn", "--workers", "1", "--ready-fd", "1", *words],
                                  stdout=subprocess.PIPE, stderr=errors)
        try:
            if not server.stdout.readline():
                fail("server", log)
            worker = subprocess.run(["taskset", "-c", str(options.worker_cpu), options.program, "work",
                                     "--connect", address, "--id", "0", "--model", "cnn",
                                     "--dataset", "synthetic:shape=28x28", "--steps", str(options.steps),
                                     "--json", str(report)], stdout=subprocess.DEVNULL, stderr=errors)
            if worker.returncode != 0:
                fail("worker", log)
        finally:
            server.terminate()
            server.wait(WAIT_S)
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)
    work = json.loads(report.read_text())
    return {"rate": work["applied"] / work["wall_s"], "gradient_s": work["gradient_s"] / work["computed"]}


def fail(what: str, log: pathlib.Path) -> NoReturn:
    lines = log.read_text().splitlines()
    sys.exit(f"writer.py: the {what} failed: {lines[-1] if lines else 'it said nothing'}")


def say(name: str, ratios: list[float]) -> None:
    mean, half = statistics.mean(ratios), 1.96 * statistics.stdev(ratios) / math.sqrt(len(ratios))
    print(f"{name:44} {mean:.3f} +- {half:.3f}   median {statistics.median(ratios):.3f}, "
          f"{min(ratios):.3f} to {max(ratios):.3f}")


def main() -> None:
    options = parse()
    pairs = []
    with tempfile.TemporaryDirectory(prefix="writer-", dir=options.dir) as name:
        for number in range(options.pairs):
            began = time.monotonic()
            arms = [run(options, pathlib.Path(name), saves) for saves in ((False, True) if number % 2 else (True, False))]
            without, beside = arms if number % 2 else arms[::-1]
            pairs.append({"without": without, "with": beside})
            print(f"pair {number + 1} of {options.pairs}: {beside['rate'] / without['rate']:.3f}, "
                  f"{time.monotonic() - began:.0f} s", file=sys.stderr)
    print(f"# {options.pairs} pairs of {options.steps} steps; worker on cpu {options.worker_cpu}, server on "
          f"{options.server_cpu}; load {os.getloadavg()[0]:.1f}; with by without, mean and its 95 %")
    say("rate", [pair["with"]["rate"] / pair["without"]["rate"] for pair in pairs])
    say("time to compute a gradient", [pair["with"]["gradient_s"] / pair["without"]["gradient_s"] for pair in pairs])
    print(f"without: {statistics.median(pair['without']['rate'] for pair in pairs):.1f} gradients a second")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(pairs))


if __name__ == "__main__":
    main()
