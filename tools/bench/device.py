#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a job costs a model on a CUDA device: an outer step of DiLoCo, and a step of Optimizer.

The server is a process of this machine, over shm. Beside each figure is a plain copy of as many
bytes between page-locked memory of torch's own and the device, taken in turns with it.
"""
import argparse
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "src" / "python"))

import numpy
import torch

import outlast

WARM_UP = 2


def make_model(width: int) -> torch.nn.Module:
    """Six layers of width * width parameters."""
    torch.manual_seed(1)
    layers: list[torch.nn.Module] = []
    for _ in range(6):
        layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers).to("cuda")


def timed(call: Callable[[], object]) -> float:
    torch.cuda.synchronize()
    began = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - began


class Plain:
    """Copies of as many bytes as the model has."""

    def __init__(self, count: int) -> None:
        self.host = torch.empty(count).pin_memory()
        self.near = torch.zeros(count, device="cuda")

    def to_device(self) -> float:
        return timed(lambda: self.near.copy_(self.host, non_blocking=True))

    def to_host(self) -> float:
        return timed(lambda: self.host.copy_(self.near, non_blocking=True))


def backward(model: torch.nn.Module, batch: int) -> None:
    model(torch.randn(batch, model[0].in_features, device="cuda")).square().mean().backward()


def diloco(width: int, batch: int, rounds: int, own: bool) -> dict[str, list[float]]:
    """An outer step, its two parts that copy, plain copies beside them, and an inner step."""
    model = make_model(width)
    took: dict[str, list[float]] = {}
    with outlast.launch(init=model, rule="nesterov", lr=0.7, momentum=0.9,
                        consistency="sync") as servers, \
            outlast.connect(servers, own_buffers=own) as job:
        inner = torch.optim.AdamW(model.parameters(), lr=1e-4)
        sync = outlast.torch.DiLoCo(model, inner, 10**6, job)
        plain = Plain(job.param_count)
        for number in range(WARM_UP + rounds):
            def step() -> None:
                sync.zero_grad()
                backward(model, batch)
                sync.step()

            one = {"inner step": timed(step), "plain copy to the device": plain.to_device(),
                   "plain copy to the host": plain.to_host(),
                   "weights into the model": timed(
                       lambda: sync._lane.bring(plain.near, sync._places.mirror().flat)),
                   "pseudo-gradient": timed(sync._changed), "outer step": timed(sync.sync)}
            for name, value in one.items() if number >= WARM_UP else ():
                took.setdefault(name, []).append(value)
    return took


def steps(width: int, batch: int, rounds: int, overlap: bool) -> dict[str, list[float]]:
    """A step of Optimizer; of it, the wait for gradients after backward(); and torch's own step."""
    alone, model = make_model(width), make_model(width)
    sgd = torch.optim.SGD(alone.parameters(), lr=1e-3)
    took: dict[str, list[float]] = {"torch.optim.SGD alone": [], "a server": [],
                                    "wait for gradients": []}
    with outlast.launch(init=model, lr=1e-3) as servers, \
            outlast.connect(servers, mirror_state=False, own_buffers=True) as job:
        optimizer = outlast.torch.Optimizer(model, job, overlap=overlap)
        land = optimizer._places.land

        def land_timed() -> None:
            torch.cuda.current_stream().synchronize()  # backward() itself is no copy
            began = time.perf_counter()
            (optimizer._places.lane.finish if overlap else land)()
            took["wait for gradients"].append(time.perf_counter() - began)
            if overlap:
                land()

        optimizer._places.land = land_timed
        for number in range(WARM_UP + rounds):
            for name, arm, made in (("torch.optim.SGD alone", alone, sgd),
                                    ("a server", model, optimizer)):
                def step() -> None:
                    made.zero_grad()
                    backward(arm, batch)
                    made.step()

                took[name].append(timed(step))
    return {name: values[WARM_UP:] for name, values in took.items()}


def show(name: str, times: list[float]) -> None:
    figures = numpy.quantile(times, [0, 0.5, 0.99, 0.999, 1]) * 1e3
    print(f"{name:40} {len(times):7} " + " ".join(f"{value:10.3f}" for value in figures), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     epilog="example: device.py --width 4096 --rounds 20")
    parser.add_argument("--width", type=int, default=4096,
                        help="of six layers; default 4096: 100,687,872 parameters")
    parser.add_argument("--batch", type=int, default=4096, help="default 4096")
    parser.add_argument("--rounds", type=int, default=20, help="default 20")
    parser.add_argument("--json", help="file for all times, in seconds")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("no CUDA device: torch.cuda.is_available() says so")
    words = options.width, options.batch, options.rounds
    print(f"# {torch.cuda.get_device_name()}; load {os.getloadavg()[0]:.1f}")
    print(f"{'':40} {'count':>7} " + " ".join(f"{word:>10}" for word in (
        "min[ms]", "median", "99%", "99.9%", "max")), flush=True)
    made: dict[str, dict[str, list[float]]] = {}
    for own in (True, False):
        name = f"DiLoCo{', own_buffers' if own else ''}"
        made[name] = diloco(*words, own)
    for overlap in (False, True):
        made[f"Optimizer{', overlap' if overlap else ''}"] = steps(*words, overlap)
    for name, took in made.items():
        for part, times in took.items():
            show(f"{name}: {part}", times)
    for name, took in made.items():
        middle = {part: float(numpy.median(times)) for part, times in took.items()}
        if "outer step" in middle:
            copy = middle["plain copy to the device"], middle["plain copy to the host"]
            print(f"{name}: weights by a plain copy {middle['weights into the model'] / copy[0]:.2f}; "
                  "pseudo-gradient by two plain copies, one each way, one behind the other "
                  f"{middle['pseudo-gradient'] / sum(copy):.2f}; "
                  f"an outer step by an inner one {middle['outer step'] / middle['inner step']:.1f}")
        else:
            print(f"{name}: step by torch's own "
                  f"{middle['a server'] / middle['torch.optim.SGD alone']:.2f}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(made))


if __name__ == "__main__":
    main()
