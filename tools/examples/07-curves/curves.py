#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""One training by three programs: `outlast train`, numpy and PyTorch, with the same servers.

All have the same network, first weights, batches and dropout (net.py). Their curves lie beside each
other, as their sums are in another order; and each ends with the bits of its undisturbed run when
its only server is killed, or the heads of its chain.
"""
import argparse
import hashlib
import json
import os
import pathlib
import random
import secrets
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: a worker has one processor

import net
import numpy

import outlast

WORKERS = 2
BATCH = 32
RULE = {"rule": "momentum", "lr": 0.02, "momentum": 0.9}
DEADLINE_S = 600.0


@dataclass
class Row:
    """One job. kills: before which versions its server (of a chain: its head) is killed."""

    name: str
    arm: str
    kills: list[int] = field(default_factory=list)
    replicas: int = 1


# ---- one worker ----

class Worker:
    def __init__(self, plan: dict, job: outlast.Job) -> None:
        self.job, self.number = job, int(os.environ["OUTLAST_WORKER"])
        self.seed, self.steps, self.points = plan["seed"], plan["steps"], plan["points"]
        self.net, self.data = net.Net(), net.Data()

    def batch(self, step: int) -> tuple:
        """What is computed is a function of worker and step."""
        images, labels = self.data.batch(self.seed, step, self.number, BATCH)
        return images, labels, net.kept_units(self.seed, step, self.number, BATCH)

    def look(self) -> None:
        """Worker 0 tells where it is, and the loss on the test set where that is asked for."""
        if self.number != 0:
            return
        version, loss = self.job.version, None
        if version in self.points:
            loss = self.net.score(self.job.weights().array, *self.data.test)
        print(json.dumps({"version": version, "loss": loss}), flush=True)

    def numpy(self) -> None:
        self.job.pull()
        while self.job.version < self.steps:
            images, labels, kept = self.batch(self.job.version)
            grad = self.job.grad()
            loss = self.net.backward(self.job.weights().array, images, labels, kept, grad)
            self.job.push(grad, loss=loss, samples=BATCH)
            self.job.pull()
            self.look()

    def torch(self) -> None:
        import torch
        torch.set_num_threads(1)
        model = torch.nn.ParameterList(torch.empty(shape) for shape in net.SHAPES)
        optimizer = outlast.torch.Optimizer(model, self.job)
        call = torch.nn.functional
        while self.job.version < self.steps:
            images, labels, kept = map(torch.from_numpy, self.batch(self.job.version))
            optimizer.zero_grad()
            for at in (0, 2):
                images = call.conv2d(images, model[at], model[at + 1], padding=1)
                images = call.max_pool2d(call.relu(images), 2)
            hidden = call.relu(call.linear(images.flatten(1), model[4], model[5])) * kept
            loss = call.cross_entropy(call.linear(hidden, model[6], model[7]), labels)
            loss.backward()
            optimizer.step(loss=loss.item(), samples=BATCH)
            self.look()
        if optimizer.bytes_copied != 0:
            raise RuntimeError(f"{optimizer.bytes_copied} bytes were copied")


def work(plan: dict) -> None:
    with outlast.connect(worker=int(os.environ["OUTLAST_WORKER"]), timeout=DEADLINE_S) as job:
        worker = Worker(plan, job)
        getattr(worker, plan["arm"])()
        job.finish(plan["steps"])
        link = job.stat_links()[0]
        last = {word: link[word] for word in ("pushed", "applied", "lost", "outages")}
        if worker.number == 0 and plan["save"]:
            numpy.save(plan["save"], job.weights().array)
        last["sha256"] = hashlib.sha256(job.weights().array).hexdigest()
        print(json.dumps(last), flush=True)
        job.stay(sys.stdin)  # a restored server may need this mirror


# ---- one job ----

class Job:
    def __init__(self, row: Row, options: argparse.Namespace, folder: str) -> None:
        self.row, self.options, self.folder = row, options, folder
        self.random = random.Random(f"{options.seed} {row.name}")

    def run(self) -> dict:
        words: dict = {**RULE}
        if self.row.replicas > 1:
            words["replicas"] = self.row.replicas
        if self.options.listen:
            key = pathlib.Path(self.folder, "job.key")
            if not key.exists():
                key.touch(0o600)
                key.write_text(secrets.token_hex(16) + "\n")
            words["job_key_file"] = str(key)
            words["listen"] = [f"{self.options.listen}:0"] * self.row.replicas
            os.environ["OUTLAST_JOB_KEY"] = key.read_text().strip()
        with outlast.launch(init=net.first_weights(self.options.seed), workers=WORKERS,
                            consistency="sync", **words) as servers:
            workers = [self.start(servers, number) for number in range(WORKERS)]
            try:
                return self.follow(servers, workers)
            finally:
                for worker in workers:
                    worker.kill()

    def start(self, servers: outlast.Launch, number: int) -> subprocess.Popen:
        plan = {"arm": self.row.arm, "seed": self.options.seed, "steps": self.options.steps,
                "points": self.options.points, "save": self.file()}
        words = dict(os.environ, OUTLAST_JOB=str(servers), OUTLAST_WORKER=str(number),
                     OUTLAST_CURVES=json.dumps(plan), OUTLAST_LOG="error")
        return subprocess.Popen([sys.executable, __file__], env=words, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def file(self) -> str:
        return "" if self.row.kills else os.path.join(self.folder, self.row.arm + ".npy")

    def follow(self, servers: outlast.Launch, workers: list[subprocess.Popen]) -> dict:
        curve, due, ends = {}, list(self.row.kills), []
        for line in workers[0].stdout:
            said = json.loads(line)
            if "sha256" in said:
                ends.append(said)
                break
            curve[said["version"]] = said["loss"]
            while due and said["version"] >= due[0]:
                due.pop(0)
                time.sleep(self.random.uniform(0.0, 0.02))
                victim = servers.head()
                victim.kill()
                victim.restart()
        ends += [json.loads(worker.stdout.readline() or "{}") for worker in workers[1:]]
        for worker in workers:
            worker.stdin.close()
            if worker.wait(DEADLINE_S) != 0:
                raise RuntimeError(f"{self.row.name}: a worker ended with {worker.returncode}")
        if len({one["sha256"] for one in ends}) != 1:
            raise RuntimeError(f"{self.row.name}: workers end with different weights")
        return {"curve": [curve.get(point) for point in self.options.points], **ends[0]}


def program(options: argparse.Namespace, folder: str) -> dict:
    """The same job by `outlast train`: a run up to each point."""
    curve = []
    where = ["--transport", "verbs", "--address", options.listen] if options.listen else []
    for point in options.points or [options.steps]:
        report = os.path.join(folder, "train.json")
        done = subprocess.run(
            [outlast._launch.program(), "train", "--model", "cnn", "--seed", str(options.seed),
             "--batch", str(BATCH), "--workers", str(WORKERS), "--consistency", "sync",
             "--optimizer", RULE["rule"], "--lr", str(RULE["lr"]), "--momentum",
             str(RULE["momentum"]), "--steps", str(point), "--eval-every", "0", "--json", report,
             "--save", os.path.join(folder, "program.npy"), "--force", *where],
            env=outlast._launch.variables(), capture_output=True, text=True, timeout=DEADLINE_S)
        if done.returncode != 0:
            raise RuntimeError(f"outlast train: {done.stderr.strip()}")
        said = json.loads(pathlib.Path(report).read_text())
        curve.append(said["test_loss"])
    return {"curve": curve if options.points else [], "sha256": said["weights_sha256"], "lost": 0,
            "outages": 0}


# ---- the table ----

def rows(options: argparse.Namespace) -> list[Row]:
    """Each version before which a server is killed is drawn, once."""
    draws = random.Random(options.seed)
    versions = range(1, options.steps)
    single = sorted(draws.sample(versions, min(options.kills, len(versions))))
    heads = sorted(draws.sample(versions, min(2, len(versions))))
    return [Row("numpy", "numpy"), Row("numpy, server killed", "numpy", single),
            Row("PyTorch", "torch"), Row("PyTorch, server killed", "torch", single),
            Row("PyTorch, chain of 3, heads killed", "torch", heads, replicas=3)]


def show(row: Row, found: dict, bits: str) -> None:
    curve = " ".join(f"{loss:7.4f}" for loss in found["curve"])
    print(f"{row.name:34} {curve}  {len(row.kills):5} {found['outages']:7.0f} {found['lost']:4.0f}  "
          f"{found['sha256'][:16]} {bits}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     epilog="example: curves.py --steps 400 --kills 20")
    parser.add_argument("--steps", type=int, default=400, help="default 400")
    parser.add_argument("--every", type=int, default=100,
                        help="steps between two looks at the test loss; 0: none; default 100")
    parser.add_argument("--kills", type=int, default=20,
                        help="moments at which the only server is killed; default 20")
    parser.add_argument("--seed", type=int, default=1, help="default 1")
    parser.add_argument("--listen", help="an RDMA device's address here; without it over shm")
    parser.add_argument("--row", action="append", help="rows by name; default all")
    options = parser.parse_args()
    options.points = list(range(options.every, options.steps + 1, options.every)
                          if options.every else [])
    chosen = [Row("outlast train", "program"), *rows(options)]
    unknown = set(options.row or []) - {row.name for row in chosen}
    if unknown:
        parser.error(f"--row {unknown.pop()!r}: of {', '.join(row.name for row in chosen)}")
    heads = " ".join(f"{'@' + str(point):>7}" for point in options.points)
    print(f"{'test loss':34} {heads}  {'kills':>5} {'outages':>7} {'lost':>4}  sha256", flush=True)
    whole: dict[str, str] = {}
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for row in chosen:
            if options.row and row.name not in options.row:
                continue
            found = program(options, folder) if row.arm == "program" \
                else Job(row, options, folder).run()
            same = whole.setdefault(row.arm, found["sha256"]) == found["sha256"]
            failed = failed or not same or found["lost"] != 0
            show(row, found, "" if not row.kills else "the same" if same else "OTHERS")
        differences(folder)
    if failed:
        sys.exit("bits are not those of the undisturbed run")


def differences(folder: str) -> None:
    """Of the final weights, to those of the program."""
    mine = pathlib.Path(folder, "program.npy")
    for arm in ("numpy", "torch"):
        other = pathlib.Path(folder, arm + ".npy")
        if mine.exists() and other.exists():
            far = numpy.abs(numpy.load(mine) - numpy.load(other)).max()
            print(f"largest difference of a weight, {arm} to outlast train: {far:.1e}")


if __name__ == "__main__":
    if "OUTLAST_CURVES" in os.environ:
        work(json.loads(os.environ["OUTLAST_CURVES"]))
    else:
        main()
