# SPDX-License-Identifier: BSD-3-Clause
"""Real processes: what one loss costs, from which the model's constants are; then jobs that lose servers and workers at
random moments, beside what the model says of the same moments.

Useful seconds are told by the test loss: those after which a job of the same seed that loses nothing has the same.
Workers push at a pace that leaves the machine idle, so what else runs on it hardly matters.
"""
import json
import random
import statistics
from dataclasses import dataclass
from typing import Any

from ..drill import Drill
from ..errors import CHILD, SIGNAL, Failure as Failed
from .model import METHODS, Constants, Course, Failure, Job, Method

SEEDS = (1, 2, 5)  # by preset, of the constants and of the check
CHECK_S = (30.0, 60.0, 60.0)
SAVE_STEPS = 160  # between full checkpoints
PACE, WORKERS = 20, 2
KILL_S, DOWN_S, ONE_S = 10.0, 3.0, 20.0  # of a job that has one loss
MTBF_S, GAP_S = 8.0, 1.0  # GAP_S: what has just come back is left alone
KILLS_MAX = 16  # of train
SERVER_SHARE = 0.6  # of the losses
SEEDS_APART, CHECK_SEED = 100, 50  # the check's seeds are others than those of the constants
LONGER = 1.4  # a job that loses nothing is trained for so much longer: gone on alone may be faster
COMMON = ("--model=mlp:64", "--dataset=synthetic:train=2000,test=500,noise=2", f"--workers={WORKERS}", "--consistency=async",
          "--lr=0.01", f"--pace={PACE}", "--eval-seconds=0.25", "--lease-ms=2000")
CHECKED = ("checkpoint", "priority", "mirror", "stateless", "chain-2", "chain-3", "chain-2-continue")
PLACES = {2: ("head", "tail"), 3: ("head", "middle", "tail")}  # by replicas
PARTS = (1, 2, 4)  # servers, of which one is lost


def words(method: Method, folder: str) -> list[str]:
    """As train is told of it"""
    of = ["--restore=checkpoint" if method.saved else "--restore=mirror"]
    if method.goes_on:
        of += ["--outage=continue", "--local-progress"]
    if method.replicas > 1:
        of += ["--durability=chain", f"--replicas={method.replicas}"]
    if method.saved:
        way = "keep=3" if method.saved == "full" else "priority,r=1/8"
        of += ["--durability=checkpoint", f"--checkpoint=every={SAVE_STEPS}steps,dir={folder},{way}"]
    if method.saved == "full":
        of += ["--recovery=full"]
    return of


def target(method: Method, failure: Failure, rng: random.Random) -> str:
    if failure.kind == "worker":
        return f"worker{failure.index}"
    if method.replicas == 1:
        return f"server{failure.index}"
    return f"{rng.choice(PLACES[method.replicas])}{failure.index}"


def schedule(servers: int, seconds: float, rng: random.Random) -> list[Failure]:
    """Losses of processes that are there: none of one that is away"""
    at, losses, back = 0.0, [], {}
    while len(losses) < KILLS_MAX:
        at += rng.expovariate(1 / MTBF_S)
        kind, many = ("server", servers) if rng.random() < SERVER_SHARE else ("worker", WORKERS)
        index = rng.randrange(many)
        if at > seconds - DOWN_S - GAP_S:
            break
        if at < max(1.0, back.get((kind, index), 0.0)):
            continue
        back[kind, index] = at + DOWN_S + GAP_S
        losses.append(Failure(round(at, 2), kind, index))
    return losses


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

    def run(self, name: str, seconds: float, seed: int, own: list[str]) -> dict[str, Any]:
        drill, self.index = self.drill, self.index + 1
        path = f"{drill.out}/runs/{name}.json"
        why = drill.run(self.index - 1, name, [*COMMON, f"--seconds={seconds:g}", f"--seed={seed}", f"--json={path}", *own])
        if drill.signal != 0:
            raise Failed(SIGNAL + drill.signal)
        if why:
            raise Failed(CHILD, name, why)
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def curve(self, seed: int, seconds: float) -> Curve:
        if seed not in self.curves:
            evals = self.run(f"undisturbed-s{seed}", seconds * LONGER, seed, ["--servers=2"])["evals"]
            self.curves[seed] = Curve([one["t_s"] for one in evals], [one["loss"] for one in evals])
        return self.curves[seed]

    def useful(self, name: str, method: Method, servers: int, seconds: float, seed: int, kills: list[str]) -> float:
        """Seconds"""
        curve = self.curve(seed, seconds)
        report = self.run(name, seconds, seed, [
            f"--servers={servers}", *words(method, f"{self.drill.out}/runs/{name}.saved"), f"--kill={','.join(kills)}"])
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
        failover_s=max(0.0, cost("chain-2")), lease_s=2.0, restore_s=max(0.0, away - DOWN_S), stall=0.0,
        efficiency=((0.0, 1.0), *((1 / parts, max(0.0, min(1.0, 1 - cost("stateless", parts) / away))) for parts in PARTS[::-1])),
        rework=((0.0, 0.0), *((1 / parts, max(0.0, (cost("priority", parts) - away) / thrown)) for parts in PARTS[::-1])))


def predict(method: Method, constants: Constants, servers: int, seconds: float, losses: list[Failure]) -> float:
    """Useful seconds by the model"""
    job = Job(servers=servers, workers=WORKERS, params=1.0, network=1e12, storage=1e12, down=DOWN_S)
    one = Course(job, method, constants, SAVE_STEPS / (PACE * WORKERS))
    for loss in losses:
        one.advance(loss.at, seconds)
        one.fail(loss)
    one.advance(seconds, seconds)
    return one.of.useful_s


def check(lab: Lab, constants: Constants, seeds: range, seconds: float) -> list[dict[str, Any]]:
    rows = []
    for seed in seeds:
        for name in CHECKED:
            method = next(one for one in METHODS if one.name == name)
            rng = random.Random(f"{seed} {name}")
            losses = schedule(2, seconds, random.Random(seed))  # the same for all
            kills = [f"{target(method, loss, rng)}@{loss.at:g}s:down={DOWN_S:g}s" for loss in losses]
            useful = lab.useful(f"{name}-s{seed}", method, 2, seconds, seed, kills)
            rows.append({"method": name, "seed": seed, "kills": len(losses), "live": useful / seconds,
                         "model": predict(method, constants, 2, seconds, losses) / seconds})
    return rows
