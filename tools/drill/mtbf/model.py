# SPDX-License-Identifier: BSD-3-Clause
"""A job that loses servers, workers, hosts and checkpoints, in virtual time.

Progress is counted in useful seconds: those that the same job would have taken for it undisturbed, and
without any means against losses. The useful-time ratio is progress over time.

What the model leaves out: a replacement is always found, after `down` or `host_down`; failures do not
come together but where a host dies; the network and the storage are never full of anything else; a worker
that dies takes nothing along; a storage that is lost takes all checkpoints. The only worker is lost with
what it has only if it is away when a server is lost.
"""
import heapq
import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

KINDS = ("server", "worker", "host", "storage", "everything")  # that is lost; the last: but storage
SHARES = (0.40, 0.40, 0.15, 0.05)  # of the failures of a job without replicas
FLOAT_BYTES = 4


@dataclass(frozen=True)
class Job:
    """What is trained, and on what. A host has one server and one worker, or of one kind none"""
    servers: int = 64  # shards
    workers: int = 64
    params: float = 16e6  # of a server
    state: float = 3.0  # numbers a parameter that a server comes back with: weights, two moments
    step: float = 2.0  # seconds
    network: float = 12.5e9  # bytes a second, of a server
    storage: float = 5e9  # bytes a second, of all together
    down: float = 10.0  # seconds until a process is there again
    host_down: float = 120.0  # seconds until another host is there
    hours: float = 8.0  # useful, of the whole training
    everything: float = 0.0  # share of failures that take all processes: power, an allocation that ends

    @property
    def transfer_s(self) -> float:
        """A shard's state by network"""
        return FLOAT_BYTES * self.state * self.params / self.network

    @property
    def hop_s(self) -> float:
        """A shard's gradient to the next replica"""
        return FLOAT_BYTES * self.params / self.network

    @property
    def save_s(self) -> float:
        """All state to storage, or back; not less than what a clock of years can tell"""
        return 1e-6 + FLOAT_BYTES * self.state * self.params * self.servers / self.storage


@dataclass(frozen=True)
class Method:
    """A way to meet the loss of a server"""
    name: str
    what: str
    replicas: int = 1
    goes_on: bool = False  # workers, while a part of the weights is away
    mirror: bool = True  # a server that is back has a worker's weights, not those of storage
    saved: str = ""  # "full", "priority": checkpoints
    stops: bool = False  # all wait while a checkpoint is written


METHODS = (
    Method("none", "what is lost begins anew, and all with it", mirror=False),
    Method("checkpoint-stop", "full checkpoints while all wait; all go back to the last one", mirror=False,
           saved="full", stops=True),
    Method("checkpoint", "full checkpoints while training goes on; all go back to the last one", mirror=False,
           saved="full"),
    Method("priority", "running checkpoints (r = 1/8, as many bytes); the lost shard alone goes back",
           mirror=False, saved="priority"),
    Method("mirror", "workers wait; the server comes back with a worker's weights"),
    Method("stateless", "workers go on and queue; the server comes back with a worker's weights", goes_on=True),
    Method("chain-2", "two replicas; workers wait for the next one", replicas=2),
    Method("chain-3", "three replicas; workers wait for the next one", replicas=3),
    Method("chain-2-continue", "two replicas, and workers go on meanwhile", replicas=2, goes_on=True),
)

# What a job of Outlast has all of: replicas, mirrors and checkpoints, and the first that is there is taken. How many
# replicas pay depends on the job.
LADDER = tuple(Method(f"ladder-{replicas}", "a replica, else a worker's weights, else a full checkpoint",
                      replicas=replicas, goes_on=True, saved="full") for replicas in (1, 2, 3))


@dataclass(frozen=True)
class Constants:
    """What was measured: tools/README.md has where"""
    failover_s: float  # a replica's process dies, until pushes are committed again
    lease_s: float  # the same of a host, whose connections say nothing
    found_s: float  # no replica of a chain is left: its first process is there again, until it founds another one
    restore_s: float  # a process is there again, until it serves; without the transfer of its state
    stall: float  # share of the rate that a checkpoint takes while it is written
    efficiency: tuple[tuple[float, float], ...]  # of workers that go on: (part of the weights that is away, share)
    rework: tuple[tuple[float, float], ...]  # priority's over full's: (part lost, share)


def between(points: tuple[tuple[float, float], ...], x: float) -> float:
    """Points in rising order, the first at 0; behind the last it is flat"""
    for (a, low), (b, high) in zip(points, points[1:]):
        if x <= b:
            return low + (high - low) * (x - a) / (b - a)
    return points[-1][1]


@dataclass(frozen=True)
class Failure:
    at: float
    kind: str
    index: int  # of server (shard), worker or host
    replica: int = 0  # of a shard


def rates(job: Job, method: Method, mtbf: float) -> list[float]:
    """Failures a second of each kind. Replicas can be lost, too, and take hosts where there are too few"""
    each = [(1.0 - job.everything) * share / mtbf for share in SHARES] + [job.everything / mtbf]
    each[0] *= method.replicas
    each[2] *= hosts(job, method) / max(job.servers, job.workers)
    return each


def hosts(job: Job, method: Method) -> int:
    return max(job.servers, job.workers, method.replicas)


def stream(kind: str, rate: float, many: int, replica: int, rng: random.Random) -> Iterator[Failure]:
    at = 0.0
    while rate > 0:
        at += rng.expovariate(rate)
        yield Failure(at, kind, rng.randrange(many), replica)


def failures(job: Job, method: Method, mtbf: float, seed: str) -> Iterator[Failure]:
    """What strikes one method strikes every other at the same moment: each kind has draws of its own, and so
    have further replicas"""
    each = rates(job, method, mtbf)
    many = (job.servers, job.workers, hosts(job, method), 1, 1)
    parts = [(kind, each[kind], 0) for kind in range(1, len(KINDS))]
    parts += [(0, each[0] / method.replicas, replica) for replica in range(method.replicas)]
    return heapq.merge(*(stream(KINDS[kind], rate, many[kind], replica,
                                random.Random(f"{seed} {KINDS[kind]} {replica} {many[kind]}"))
                         for kind, rate, replica in parts), key=lambda one: one.at)


def interval(job: Job, method: Method, constants: Constants, mtbf: float) -> float:
    """Useful seconds between two checkpoints: Young's sqrt(2 C M) with Daly's - C, C the time that one costs,
    M that between two losses which go back to one; at least a step, and as long as one takes to be
    written"""
    lost = rates(job, method, mtbf)
    mirrored = method.mirror and job.workers > 1  # else few failures may take all there is
    back = lost[4] + (0.0 if mirrored else lost[0] + lost[2])
    if not method.saved or back == 0:
        return math.inf
    cost, apart = job.save_s * (1.0 if method.stops else constants.stall), 1.0 / back
    best = apart if cost >= apart / 2 else math.sqrt(2 * cost * apart) - cost
    return max(best, job.save_s, job.step)


@dataclass
class Outcome:
    useful_s: float = 0.0
    time_s: float = 0.0
    lost_s: float = 0.0  # progress that was thrown away
    waited_s: float = 0.0
    failures: int = 0
    arrived: bool = False

    @property
    def ratio(self) -> float:
        return self.useful_s / self.time_s if self.time_s > 0 else 1.0


class Course:
    """One training, from failure to failure. Between two moments in `ends` its rate stays as it is."""

    def __init__(self, job: Job, method: Method, constants: Constants, every_s: float) -> None:
        self.job, self.method, self.constants, self.every_s = job, method, constants, every_s
        self.of = Outcome()
        self.wait_until = 0.0
        self.away: dict[int, float] = {}  # shard: since workers go on without it, when it is back
        self.workers: dict[int, float] = {}  # when it is back
        self.lost: dict[tuple[int, int], float] = {}  # shard and replica: when it is whole again
        self.saved = 0.0  # progress that storage has
        self.read_until = 0.0  # what is lost has to come from storage, and is not there before
        self.writing: tuple[float, float] | None = None  # progress that is being saved, when it is
        self.save_at = every_s  # progress at which the next checkpoint begins
        self.overhead = 1.0 + (method.replicas - 1) * job.hop_s / job.step

    # the rate

    def ends(self) -> Iterator[float]:
        yield self.wait_until
        yield from self.away.values()
        yield from self.workers.values()
        if self.writing:
            yield self.writing[1]

    def rate(self) -> float:
        if self.of.time_s < self.wait_until:
            return 0.0
        away = sum(until > self.of.time_s for until in self.away.values())
        gone = sum(until > self.of.time_s for until in self.workers.values())
        rate = max(0, self.job.workers - gone) / self.job.workers / self.overhead
        if away:
            rate *= between(self.constants.efficiency, away / self.job.servers)
        if self.writing:
            rate *= 0.0 if self.method.stops else 1.0 - self.constants.stall
        return rate

    def settle(self) -> None:
        """What is due at this moment"""
        now = self.of.time_s
        for table in (self.away, self.workers):
            for index in [index for index, until in table.items() if until <= now]:
                del table[index]
        if self.writing and self.writing[1] <= now:
            self.saved, self.save_at, self.writing = self.writing[0], self.writing[0] + self.every_s, None
        if not self.writing and self.save_at <= self.of.useful_s and now >= self.wait_until and not self.away:
            self.writing = (self.of.useful_s, now + self.job.save_s)

    def advance(self, until: float, goal: float) -> None:
        """To a time, or to so much progress"""
        while self.of.time_s < until and self.of.useful_s < goal:
            self.settle()
            rate = self.rate()
            stop = min([end for end in self.ends() if end > self.of.time_s] + [until])
            to = goal if self.writing or self.away else min(goal, self.save_at)
            if rate > 0 and self.of.useful_s + rate * (stop - self.of.time_s) >= to:
                self.of.time_s += (to - self.of.useful_s) / rate
                self.of.useful_s = to
                continue
            span = stop - self.of.time_s
            self.of.useful_s += rate * span
            self.of.waited_s += span if rate == 0 else 0.0
            self.of.time_s = stop

    # failures

    def wait(self, seconds: float) -> None:
        self.wait_until = max(self.wait_until, self.of.time_s + seconds)

    def read(self, seconds: float) -> None:
        self.wait(seconds)
        self.read_until = self.wait_until

    def go_back(self, to: float) -> None:
        """What is being saved of progress that is thrown away is thrown away as well"""
        to = max(0.0, min(to, self.of.useful_s))
        self.of.lost_s += self.of.useful_s - to
        self.of.useful_s = to
        self.saved = min(self.saved, to)
        if self.writing and self.writing[0] > to:
            self.writing = None
        if not self.writing:
            self.save_at = min(self.save_at, to + self.every_s)

    def restore_s(self) -> float:
        """A chain's leases run out before it is founded anew"""
        return self.constants.restore_s + (self.constants.found_s if self.method.replicas > 1 else 0.0)

    def restored(self, share: float) -> float:
        """Progress, where this share of the weights is that of a running checkpoint"""
        return self.of.useful_s - between(self.constants.rework, share) * (self.of.useful_s - self.saved)

    def begun_anew(self, share: float) -> float:
        """Progress, where this share of the weights begins anew and the others stay. All of them lose all progress; a
        share loses the part of it that the same share of a running checkpoint loses of what all of that does"""
        of_all = between(self.constants.rework, 1.0)
        return self.of.useful_s * (1 - (between(self.constants.rework, share) / of_all if of_all > 0 else 1.0))

    def shard_lost(self, shard: int, back: float) -> None:
        """None of its replicas is left; the first process is there again after `back`"""
        method, job = self.method, self.job
        back += self.restore_s()
        if method.mirror and len(self.workers) < job.workers:
            back += job.transfer_s
            if method.goes_on:
                self.away[shard] = self.of.time_s + back
                self.writing = None  # it lacks that shard
            else:
                self.wait(back)
        elif method.saved == "priority":
            self.go_back(self.restored(1 / job.servers))
            self.read(back + job.save_s / job.servers)
        elif method.mirror and not method.saved:
            self.go_back(self.begun_anew(1 / job.servers))
            self.read(back)
        else:
            self.go_back(self.saved)
            self.read(back + (job.save_s if method.saved else 0.0))

    def all_lost(self) -> None:
        for table in (self.workers, self.away, self.lost):
            table.clear()
        self.writing = None
        self.go_back(self.restored(1.0) if self.method.saved == "priority" else self.saved)
        self.read(self.job.host_down + self.restore_s() + (self.job.save_s if self.method.saved else 0.0))

    def server_lost(self, shard: int, replica: int, host: bool) -> None:
        """A process that is away already cannot be lost again; the host that it is to be on can"""
        now, whole = self.of.time_s, self.constants.restore_s + self.job.transfer_s
        there = self.lost.get((shard, replica), 0.0) <= now
        if not there and not host:
            return
        back = now + whole + (self.job.host_down if host else self.job.down)
        self.lost[shard, replica] = max(self.lost.get((shard, replica), 0.0), back)
        ends = [self.lost.get((shard, one), 0.0) for one in range(self.method.replicas)]
        notice = self.constants.lease_s if host else self.constants.failover_s
        if min(ends) > now:
            self.shard_lost(shard, min(ends) - now - whole)
        elif there and self.method.goes_on:
            self.away[shard] = max(self.away.get(shard, 0.0), now + notice)
        elif there:
            self.wait(notice)

    def worker_lost(self, worker: int, down: float) -> None:
        self.workers[worker] = max(self.workers.get(worker, 0.0), self.of.time_s + down)

    def host_lost(self, host: int) -> None:
        """Its worker, and what it has of each shard: replica r of shard s is on host s + r"""
        job, many = self.job, hosts(self.job, self.method)
        if host < job.workers:
            self.worker_lost(host, job.host_down)
        for replica in range(self.method.replicas):
            shard = (host - replica) % many
            if shard < job.servers:
                self.server_lost(shard, replica, True)

    def fail(self, failure: Failure) -> None:
        self.of.failures += 1
        if failure.kind == "server":
            self.server_lost(failure.index, failure.replica, False)
        elif failure.kind == "worker":
            self.worker_lost(failure.index, self.job.down)
        elif failure.kind == "host":
            self.host_lost(failure.index)
        elif failure.kind == "everything":
            self.all_lost()
        elif self.every_s < math.inf:  # storage: what it had, and what it was being given; the next one when it is due
            self.save_at += self.every_s if self.writing else 0.0
            self.saved, self.writing = 0.0, None
            if self.of.time_s < self.read_until:
                self.go_back(0.0)


def course(job: Job, method: Method, constants: Constants, every_s: float, losses: Iterable[Failure],
           goal_s: float, limit_s: float) -> Outcome:
    """Until so much progress is made, or so much time is over"""
    one = Course(job, method, constants, every_s)
    for loss in losses:
        one.advance(min(loss.at, limit_s), goal_s)
        if one.of.useful_s >= goal_s or one.of.time_s >= limit_s:
            break
        one.fail(loss)
    else:
        one.advance(limit_s, goal_s)
    one.of.arrived = one.of.useful_s >= goal_s
    return one.of
