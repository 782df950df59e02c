# SPDX-License-Identifier: BSD-3-Clause
"""Real processes: what one loss costs, from which the model's constants are; then jobs that lose servers, workers and
hosts, their storage or everything at random moments, beside what the model says of the same moments. A host is what would be on it: a worker,
and a replica of each shard that has one there. Its processes die together; as their kernel lives, connections end at once. A storage
that is lost is a folder whose files are removed.

Useful seconds are told by the test loss: those after which a job of the same seed that loses nothing has the same.
Workers push at a pace that leaves the machine idle, so what else runs on it hardly matters.
"""
import contextlib
import dataclasses
import json
import math
import os
import random
import statistics
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..drill import Drill
from ..errors import CHILD, SIGNAL, Failure as Failed
from .model import LADDER, METHODS, Constants, Course, Failure, Job, Method, hosts

SEEDS = (1, 2, 5)  # by preset, of the constants and of the check
CHECK_S = (30.0, 60.0, 60.0)
SAVE_STEPS = 160  # between full checkpoints
PACE, WORKERS = 20, 2
KILL_S, DOWN_S, ONE_S = 10.0, 3.0, 20.0  # of a job that has one loss
LEASE_S = 2.0
MTBF_S, GAP_S = 8.0, 1.0  # GAP_S: what has just come back is left alone
KILLS_MAX = 16  # of a schedule
LOST = ("server", "worker", "host", "storage", "everything")  # each five losses are these, in some order
SEEDS_APART, CHECK_SEED = 100, 50  # the check's seeds are others than those of the constants
LONGER = 1.4  # a job that loses nothing is trained for so much longer: gone on alone may be faster
COMMON = ("--model=mlp:64", "--dataset=synthetic:train=2000,test=500,noise=2", f"--workers={WORKERS}", "--consistency=async",
          "--lr=0.01", f"--pace={PACE}", "--eval-seconds=0.25", f"--lease-ms={LEASE_S * 1000:.0f}")
CHECKED = (*(one for one in METHODS if one.name in (
    "checkpoint", "priority", "mirror", "stateless", "chain-2", "chain-3", "chain-2-continue")), *LADDER)
PLACES = {2: ("head", "tail"), 3: ("head", "middle", "tail")}  # by replicas
PARTS = (1, 2, 4)  # servers, of which one is lost


def words(method: Method, folder: str) -> list[str]:
    """As train is told of it"""
    of = [f"--restore={('freshest' if method.mirror else 'checkpoint') if method.saved else 'mirror'}"]
    if method.goes_on:
        of += ["--outage=continue", "--local-progress"]
    if method.replicas > 1:
        of += ["--durability=chain", f"--replicas={method.replicas}"]
    if method.saved:
        way = "keep=3" if method.saved == "full" else "priority,r=1/8"
        of += [f"--checkpoint=every={SAVE_STEPS}steps,dir={folder},{way}"]
        if method.replicas == 1:
            of += ["--durability=checkpoint"]
    if method.saved == "full" and not method.mirror:
        of += ["--recovery=full"]
    return of


def job_of(servers: int) -> Job:
    return Job(servers=servers, workers=WORKERS, params=1.0, network=1e12, storage=1e12, down=DOWN_S, host_down=DOWN_S)


def targets(method: Method, failure: Failure, servers: int, rng: random.Random) -> list[str]:
    """The processes that are killed"""
    places = PLACES.get(method.replicas, ("server",))
    if failure.kind == "storage":
        return []
    if failure.kind == "everything":
        return [*(f"worker{one}" for one in range(WORKERS)), *(f"{place}{one}" for one in range(servers) for place in places)]
    if failure.kind == "worker":
        return [f"worker{failure.index}"]
    if failure.kind == "server":
        return [f"{rng.choice(places)}{failure.index}"]
    job, found = job_of(servers), [f"worker{failure.index}"] if failure.index < WORKERS else []
    for replica in range(method.replicas):  # as Course.host_lost() has it
        shard = (failure.index - replica) % hosts(job, method)
        if shard < servers:
            found.append(f"{places[replica]}{shard}")
    return found


def touched(failure: Failure, servers: int) -> list[tuple[str, int]]:
    """What is to be there. With a host's replicas one more of a shard would be all that it has"""
    if failure.kind == "storage":
        return []
    if failure.kind in ("server", "worker"):
        return [(failure.kind, failure.index)]
    workers = range(WORKERS) if failure.kind == "everything" else (failure.index,)
    return [*(("worker", one) for one in workers), *(("server", one) for one in range(servers))]


def schedule(servers: int, seconds: float, rng: random.Random) -> list[Failure]:
    """Losses of processes that are there: none of one that is away"""
    at, losses, bag = 0.0, [], []
    back: dict[tuple[str, int], float] = {}
    many = {"server": servers, "worker": WORKERS, "host": max(servers, WORKERS), "storage": 1, "everything": 1}
    while len(losses) < KILLS_MAX:
        at += rng.expovariate(1 / MTBF_S)
        if at > seconds - DOWN_S - GAP_S:
            break
        if not bag:
            bag = rng.sample(LOST, len(LOST))
        loss = Failure(round(at, 2), bag[-1], rng.randrange(many[bag[-1]]))
        of = touched(loss, servers)
        if at < 1.0 or any(at < back.get(one, 0.0) for one in of):
            continue
        back.update({one: at + DOWN_S + GAP_S for one in of})
        losses.append(loss)
        bag.pop()
    return losses


def wipe(folder: str) -> None:
    """The storage is lost: a server goes on, and its next checkpoint is the first that there is"""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):  # it was a new one's, which has its name now, or an old one's
                os.unlink(f"{folder}/{name}")


@dataclass(frozen=True)
class Curve:
    """Test loss by seconds, of a job that lost nothing"""
    times: list[float]
    losses: list[float]

    def seconds(self, loss: float) -> float:
        """After which it was there first"""
        before, high = self.times[0], self.losses[0]
        for at, low in zip(self.times, self.losses):
            if low <= loss:
                return at if high <= low else before + (at - before) * (high - loss) / (high - low)
            if low < high:
                before, high = at, low
        return self.times[-1]


class Lab:
    """Runs of train in the drill's folder, one after another"""

    def __init__(self, drill: Drill, count: int) -> None:
        self.drill, self.index = drill, 0
        drill.run_count, drill.run_s = count, ONE_S
        self.curves: dict[int, Curve] = {}

    def run(self, name: str, seconds: float, seed: int, own: list[str], wiped: Sequence[float] = ()) -> dict[str, Any]:
        """wiped: after how many seconds all files of `saved` are removed"""
        drill, self.index = self.drill, self.index + 1
        path = f"{drill.out}/runs/{name}.json"
        timers = [threading.Timer(at, wipe, (self.saved(name),)) for at in wiped]
        for timer in timers:
            timer.start()
        try:
            why = drill.run(self.index - 1, name,
                            [*COMMON, f"--seconds={seconds:g}", f"--seed={seed}", f"--json={path}", *own])
        finally:
            for timer in timers:
                timer.cancel()
        if drill.signal != 0:
            raise Failed(SIGNAL + drill.signal)
        if why:
            raise Failed(CHILD, name, why)
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def saved(self, name: str) -> str:
        return f"{self.drill.out}/runs/{name}.saved"

    def curve(self, seed: int, seconds: float) -> Curve:
        if seed not in self.curves:
            evals = self.run(f"undisturbed-s{seed}", seconds * LONGER, seed, ["--servers=2"])["evals"]
            self.curves[seed] = Curve([one["t_s"] for one in evals], [one["loss"] for one in evals])
        return self.curves[seed]

    def useful(self, name: str, method: Method, servers: int, seconds: float, seed: int, kills: list[str],
               wiped: Sequence[float] = ()) -> float:
        """Seconds"""
        curve = self.curve(seed, seconds)
        report = self.run(name, seconds, seed, [
            f"--servers={servers}", *words(method, self.saved(name)), f"--kill={','.join(kills)}"], wiped)
        if report["kills_not_fired"]:
            raise Failed(CHILD, name, "not every process was killed", str(report["kills_not_fired"]))
        useful = curve.seconds(report["test_loss"])
        self.drill.say(f"{self.drill.of(self.index - 1, name)}: {useful:.2f} of {seconds:g} s useful")
        return useful

    def one_loss(self, name: str, servers: int, seed: int) -> float:
        """Useful seconds that the loss of one server costs"""
        method = next(one for one in METHODS if one.name == name)
        lost = "head0" if method.replicas > 1 else "server0"
        return ONE_S - self.useful(f"one-{name}-of{servers}-s{seed}", method, servers, ONE_S, seed,
                                   [f"{lost}@{KILL_S:g}s:down={DOWN_S:g}s"])


def constants_measure(lab: Lab, seeds: range) -> Constants:
    def cost(name: str, servers: int = 2) -> float:
        return statistics.mean(lab.one_loss(name, servers, seed) for seed in seeds)

    away = cost("mirror")
    thrown = cost("checkpoint") - away
    if thrown <= 0.5 or away <= 0.5 * DOWN_S:
        raise Failed(CHILD, "one loss costs too little to be told", f"{away:.2f} s waited, {thrown:.2f} s thrown away")
    return Constants(
        failover_s=max(0.0, cost("chain-2")), lease_s=LEASE_S, found_s=LEASE_S, restore_s=max(0.0, away - DOWN_S), stall=0.0,
        efficiency=((0.0, 1.0), *((1 / parts, max(0.0, min(1.0, 1 - cost("stateless", parts) / away))) for parts in PARTS[::-1])),
        rework=((0.0, 0.0), *((1 / parts, max(0.0, (cost("priority", parts) - away) / thrown)) for parts in PARTS[::-1])))


def predict(method: Method, constants: Constants, servers: int, seconds: float, losses: list[Failure]) -> float:
    """Useful seconds by the model"""
    known = dataclasses.replace(constants, lease_s=constants.failover_s)  # the kernel of a host that is lost lives
    one = Course(job_of(servers), method, known, SAVE_STEPS / (PACE * WORKERS) if method.saved else math.inf)
    for loss in losses:
        one.advance(loss.at, seconds)
        one.fail(loss)
    one.advance(seconds, seconds)
    return one.of.useful_s


def check(lab: Lab, constants: Constants, seeds: range, seconds: float) -> list[dict[str, Any]]:
    rows = []
    for seed in seeds:
        for method in CHECKED:
            rng = random.Random(f"{seed} {method.name}")
            losses = schedule(2, seconds, random.Random(seed))  # the same for all
            kills = [f"{one}@{loss.at:g}s:down={DOWN_S:g}s" for loss in losses for one in targets(method, loss, 2, rng)]
            wiped = [loss.at for loss in losses if loss.kind == "storage" and method.saved]
            useful = lab.useful(f"{method.name}-s{seed}", method, 2, seconds, seed, kills, wiped)
            rows.append({"method": method.name, "seed": seed, "kills": len(losses), "live": useful / seconds,
                         "model": predict(method, constants, 2, seconds, losses) / seconds})
    return rows
