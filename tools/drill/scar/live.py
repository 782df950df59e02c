# SPDX-License-Identifier: BSD-3-Clause
"""The same with real servers: four processes of `outlast serve`, one is killed.

The lab is the only worker. Until the kill its weights are those of the stored run, bit for bit, because
the servers' kernel computes what a step of the problem does; so what a kill costs can be counted as in
the study. Partial recovery: one server comes back with its running checkpoint, as it was saved or
extrapolated. Full recovery: all four go back to the newest full checkpoint that all have.
"""
import os
import secrets
import socket
import subprocess
import tempfile
from typing import Any

import numpy

from ..drill import Drill
from ..errors import RESOURCES, Failure
from .draw import Draw
from .lab import Lab
from .study import LATE, Run

SERVERS = 4
PERIOD = 8  # C
RECOVERIES = ("partial", "extrapolated", "full")
STREAM_KILL = 48


class Server:
    """It dies with this process, as the other end of its socket closes."""

    def __init__(self, drill: Drill, key: str, words: list[str]) -> None:
        self.socket, other = socket.socketpair()
        env = {**os.environ, "OUTLAST_JOB_KEY": key, "OPENBLAS_NUM_THREADS": "1"}
        with other:
            try:
                self.process = subprocess.Popen(
                    ["outlast", "serve", *words, f"--report-fd={other.fileno()}"],
                    executable=drill.outlast, start_new_session=True, env=env,
                    stdin=subprocess.DEVNULL, stdout=2, pass_fds=(other.fileno(),))
            except OSError as error:
                raise Failure(RESOURCES, "cannot start a server", error.strerror) from error

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.socket.close()


class Scene:
    """Servers, and the lab as their worker; weights are in a row of it."""

    def __init__(self, drill: Drill, run: Run, recovery: str, folder: str) -> None:
        self.drill = drill
        self.run = run
        self.lab = run.lab
        self.recovery = recovery
        self.full = recovery == "full"
        self.folder = folder
        self.key = secrets.token_hex(16)
        self.servers: list[Server] = []
        self.row = self.lab.rows_take(1)
        self.addresses = [f"@outlast-scar-{os.getpid()}-{shard}" for shard in range(SERVERS)]

    def __enter__(self) -> "Scene":
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers:
            server.kill()
        self.lab.free = self.row

    def weights(self):
        return self.lab.rows[self.row].view(numpy.uint32)

    def ask(self, kind: str, **of: Any) -> Any:
        return self.lab.ask({"live": kind, "row": self.row, **of})

    def start(self, shard: int, epoch: int, restore: str, version: int = 0) -> Server:
        spec, save = self.lab.spec, "" if self.full else "priority,r=1/8,"
        save += "extrapolate=1," if self.recovery == "extrapolated" else ""
        words = [f"--listen={self.addresses[shard]}", f"--shard={shard}", f"--servers={SERVERS}",
                 "--workers-max=1", f"--epoch={epoch}", f"--model={spec['model']}",
                 f"--data-shape={self.lab.shape}", f"--seed={self.lab.seed % 2**64}",
                 f"--lr={spec['lr']:.9g}",
                 "--lease-ms=60000",  # a busy machine is no death
                 "--durability=checkpoint",
                 f"--checkpoint={save}every={PERIOD}steps,dir={self.folder}",
                 f"--restore={restore}"]
        return Server(self.drill, self.key,
                      [*words, f"--restore-version={version}"] if version > 0 else words)

    def open(self):
        """Spans of the shards"""
        for shard in range(SERVERS):
            self.servers.append(self.start(shard, 1, "none"))
        return self.ask("open", servers=",".join(self.addresses), key=self.key)["spans"]

    def train(self, step: int, count: int, target: float) -> tuple[int, bool]:
        found = self.ask("train", step=step, count=count, target=target)
        return found["made"], found["there"]

    def lose(self, victim: int) -> int:
        """What full recovery goes back to"""
        version = self.ask("saved", servers=SERVERS)["version"] if self.full else 0
        for shard in range(SERVERS) if self.full else [victim]:
            self.servers[shard].kill()
            self.ask("lost", server=shard)
            restore = "none" if self.full and version == 0 else "checkpoint"
            self.servers[shard] = self.start(shard, 2, restore, version)
        self.ask("again")
        return version


def kill_make(scene: Scene, step: int, victim: int, target: float, found: dict[str, Any]) -> None:
    run, states = scene.run, scene.run.states().view(numpy.uint32)
    spans = scene.open()
    scene.train(0, step, target)
    before = scene.weights().copy()
    found["unlike"] += not numpy.array_equal(before, states[step])
    version = scene.lose(victim)
    if scene.full:
        found["strange"] += not numpy.array_equal(scene.weights(), states[version])
    else:
        for shard, (first, count) in enumerate(spans):
            own = slice(first, first + count)
            if shard != victim:
                found["changed"] += not numpy.array_equal(scene.weights()[own], before[own])
            elif scene.recovery == "partial":  # each float is what it was in some state up to this step
                known = (states[:step + 1, own] == scene.weights()[own]).any(axis=0)
                found["strange"] += not known.all()
    made, there = scene.train(version if scene.full else step, LATE * run.steps, target)
    found["late"] += not there
    found["cost"].append(float(step + made - 1 - run.steps))
    found["kills"] += 1
    scene.ask("close")


def live_make(drill: Drill, run: Run, recovery: str, kills: int) -> dict[str, Any]:
    lab: Lab = run.lab
    found: dict[str, Any] = {"problem": lab.name, "recovery": recovery,
                             "kills": 0, "unlike": 0, "changed": 0, "strange": 0, "late": 0, "cost": []}
    for kill in range(kills):
        draw = Draw(lab.seed, kill, STREAM_KILL)
        step = draw.geometric(run.steps / 2.0, run.steps - 1)
        victim = draw.below(SERVERS)
        with (tempfile.TemporaryDirectory(prefix="outlast-scar-", dir="/tmp") as folder,
              Scene(drill, run, recovery, folder) as scene):
            kill_make(scene, step, victim, run.target_of(kill), found)
    return found
