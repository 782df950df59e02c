#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""An hour of faults under a real Prometheus: does each alert of alerts.yml fire for its fault, and for none else?

Four jobs run on this machine over shm: a chain of three with a spare at a ZooKeeper, six workers; another one
of few parameters, whose servers are killed; a server alone with full checkpoints on a small disk, two workers;
a synchronous one with a running checkpoint, two workers. Each has an exporter with an observer's credential. Every alert's fault is injected for real, and
mended; what is left of the time are kills of servers, from a seed. Prometheus has alerts.yml with its
times divided by --factor; thresholds for what the system itself takes (a turn, a push, a scrape) stay.

FAULTS below is the table of what is expected. A run passes if each alert fires within its time after its
fault and resolves after the mending, if no alert fires that the fault at hand does not allow, and if
`promtool check metrics` has nothing to say about any exporter's page, each minute.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import scene

HERE = pathlib.Path(__file__).resolve().parent
SKIP = 77
SLACK_S = 25.0  # beyond an alert's own times: scrapes, evaluations, a busy machine
CALM_S = 6.0  # after a fault, until the next
DISK_BYTES = 48 << 20
RACK = 9  # servers that are gone: together longer than the 4 s of ScrapeSlow
LONG_S = 50.0  # a kill that ChainShort is to see, whose scaled time is 30 s with the factor 10
LONG_EVERY = 6


class Scene:
    """Everything that runs, and what is known of when it went how."""

    def __init__(self, folder: pathlib.Path, rules: str, ends: contextlib.ExitStack) -> None:
        self.folder, self.ends = folder, ends
        self.disk = folder / "disk"
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "tmpfs", self.disk], check=True)
        ends.callback(subprocess.run, ["umount", "--lazy", self.disk], check=True)
        self.zookeeper = self.have(scene.ZooKeeper(folder / "zookeeper"), "kill")
        self.zookeeper.start()
        self.coordinator = f"zk:127.0.0.1:{self.zookeeper.port}"
        self.chain = self.have(scene.Job(
            "chain", folder, workers=6, pause=0.5, coordinator=self.coordinator, params=scene.PARAMS,
            replicas=3, workers_max=8, lease_ms=scene.LEASE_MS, restore="none"))
        self.chain.add_spare()
        # whose servers are killed: as many pushes in a window of the scaled rules as a job has in one as it is
        self.small = self.have(scene.Job(
            "small", folder, workers=6, pause=0.05, coordinator=self.coordinator, params=1 << 12,
            replicas=3, workers_max=8, lease_ms=scene.LEASE_MS, restore="none"))
        self.small.add_spare()
        self.alone = self.have(scene.Job(
            "alone", folder, workers=2, pause=0.25, params=scene.PARAMS, workers_max=8, lease_ms=60000,
            durability="checkpoint", checkpoint=f"every=50steps,dir={self.disk},keep=2"))
        self.steps = self.have(scene.Job(
            "steps", folder, workers=2, pause=0.25, params=scene.PARAMS, workers_max=8, lease_ms=60000,
            consistency="sync", durability="checkpoint",
            checkpoint=f"every=100steps,dir={folder / 'running'},round-robin,r=1/4"))
        self.jobs = [self.chain, self.small, self.alone, self.steps]
        gone = ",".join(f"@outlast-gone-{os.getpid()}-{at}" for at in range(RACK))
        self.rack = self.have(scene.Exporter("rack", ["--servers", gone], folder,
                                             self.alone.keys["observer"]), "kill")
        self.hogs: list[scene.Program] = []
        self.pair_port = scene.free_port()
        targets = {job.name: (job.exporter.port, scene.SCRAPE_S) for job in self.jobs}
        self.prometheus = self.have(scene.Prometheus(
            folder / "prometheus", rules, {
                **targets, "pair": (self.pair_port, scene.SCRAPE_S),
                "rack": (self.rack.port, scene.RACK_SCRAPE_S)}), "kill")
        self.prometheus.start()
        self.kills: list[tuple[float, str, float]] = []  # when, what, for how long

    def have(self, what, end: str = "close"):
        self.ends.callback(getattr(what, end))
        return what

    def kill(self, job: scene.Job, server: scene.Server, seconds: float = 0.0) -> None:
        self.kills.append((time.time(), f"{job.name} {short(server.address)}", seconds))
        job.kill(server)


def short(address: str) -> str:
    return re.sub(r"^@outlast-\d+-[0-9a-f]+-", "", address)


# Faults: what comes before the yield is the fault, what comes behind it mends it.

@contextlib.contextmanager
def server_down(s: Scene) -> Iterator[None]:
    s.kill(s.alone, s.alone.servers[0])
    yield
    s.alone.start(s.alone.servers[0])


@contextlib.contextmanager
def stands_still(s: Scene) -> Iterator[None]:
    server = s.alone.servers[0]
    os.kill(server.pid, signal.SIGSTOP)
    yield
    s.kill(s.alone, server)
    s.alone.start(server)


@contextlib.contextmanager
def push_slow(s: Scene) -> Iterator[None]:
    s.steps.crew.say(pause1=2.5)
    yield
    s.steps.crew.say(pause1=0)


@contextlib.contextmanager
def checkpoint_old(s: Scene) -> Iterator[None]:
    """Workers so slow that a quarter of 100 steps takes ten minutes, from a checkpoint on."""
    scene.until("a checkpoint", lambda: 0 < s.steps.exporter.value("outlast_checkpoint_age_seconds") < 1, 60)
    s.steps.crew.say(pause=24)
    yield
    s.steps.crew.say(pause=0.25)


@contextlib.contextmanager
def chain_short(s: Scene) -> Iterator[None]:
    down = [s.chain.replicas()[-1], *waiting(s.chain)]
    for server in down:
        s.kill(s.chain, server)
    yield
    for server in down:
        s.chain.start(server)


@contextlib.contextmanager
def coordinator_down(s: Scene) -> Iterator[None]:
    s.zookeeper.kill()
    yield
    s.zookeeper.start()


@contextlib.contextmanager
def braked(server: scene.Server) -> Iterator[None]:
    """It runs for 20 ms in one and a half seconds, as on a host that gives its processor to others."""
    done = threading.Event()

    def brake() -> None:
        while not done.is_set():
            os.kill(server.pid, signal.SIGSTOP)
            done.wait(1.5)
            os.kill(server.pid, signal.SIGCONT)
            time.sleep(0.02)

    thread = threading.Thread(target=brake)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextlib.contextmanager
def ring_full(s: Scene) -> Iterator[None]:
    tail = s.chain.replicas()[-1]
    s.chain.crew.say(pause=0.02)
    with braked(tail):
        yield
    s.chain.crew.say(pause=0.5)
    s.kill(s.chain, tail)  # the operator replaces it; its longest turn goes with it
    s.chain.start(tail)


@contextlib.contextmanager
def training_stopped(s: Scene) -> Iterator[None]:
    s.alone.crew.say(hold=True)
    yield
    s.alone.crew.say(hold=False)


@contextlib.contextmanager
def not_finite(s: Scene) -> Iterator[None]:
    s.alone.crew.say(nan=True)
    yield


@contextlib.contextmanager
def gradients_lost(s: Scene) -> Iterator[None]:
    server, look = s.alone.servers[0], s.alone.exporter
    scene.until("ten steps behind a checkpoint", lambda: 10 <= look.value("outlast_weights_version")
                - look.value("outlast_checkpoint_version") <= 40)
    s.kill(s.alone, server)
    s.alone.start(server, "checkpoint")
    yield
    s.kill(s.alone, server)
    s.alone.start(server)


@contextlib.contextmanager
def checkpoint_failed(s: Scene) -> Iterator[None]:
    filler = s.disk / "somebody-elses"
    with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 20))
    yield
    filler.unlink()


@contextlib.contextmanager
def breaks_rules(s: Scene) -> Iterator[None]:
    scene.Program([sys.executable, str(HERE / "scene.py"), json.dumps(
        {"scribble": True, "address": s.alone.run.address, "worker": 7,
         "key": str(s.alone.keys[7])})], s.folder / "scribble.log").start()
    yield


@contextlib.contextmanager
def peers_refused(s: Scene) -> Iterator[None]:
    """A worker of another job in a loop, as a service manager starts it again and again."""
    for _ in range(25):
        with contextlib.suppress(scene.outlast.Error):
            scene.outlast.connect(s.alone.run.address, worker=6, connect_timeout=0.4, outage="end",
                                  job_key_file=str(s.chain.keys[6])).close()
    yield


@contextlib.contextmanager
def turn_long(s: Scene) -> Iterator[None]:
    """Braked while it has work; a pause in its sleep is no turn."""
    server = s.alone.servers[0]
    s.alone.crew.say(pause=0)
    with contextlib.suppress(TimeoutError), braked(server):
        scene.until("a turn is long", lambda: s.alone.exporter.value("outlast_turn_max_seconds") > 1)
    s.alone.crew.say(pause=0.25)
    yield
    s.kill(s.alone, server)  # it is a maximum since the start
    s.alone.start(server)


@contextlib.contextmanager
def scrape_slow(s: Scene) -> Iterator[None]:
    s.rack.start()
    yield
    s.rack.kill()


def pair_start(s: Scene) -> None:
    """A chain that a worker's mirror may found anew, which is to be said from the first start."""
    pair = s.have(scene.Job("pair", s.folder, workers=1, pause=0.25, coordinator=s.coordinator,
                            port=s.pair_port, restore="mirror", params=1 << 16, replicas=2,
                            refound=True, lease_ms=scene.LEASE_MS))
    s.jobs = [*s.jobs, pair]
    scene.until("the pair trains", lambda: pair.exporter.value("outlast_gradients_applied_total") > 20)


@contextlib.contextmanager
def chain_gone(s: Scene) -> Iterator[None]:
    pair = s.jobs[-1]
    for server in pair.servers:
        s.kill(pair, server)
    yield
    for server in pair.servers:
        pair.start(server)


@contextlib.contextmanager
def metrics_missing(s: Scene) -> Iterator[None]:
    for job in s.jobs:
        job.exporter.kill()
    yield
    for job in s.jobs:
        job.exporter.start()


def waiting(chain: scene.Job) -> list[scene.Server]:
    in_view = chain.replicas()
    return [server for server in chain.servers if server not in in_view and server.alive]


@dataclass(frozen=True)
class Fault:
    """alert: what is to fire, without "Outlast", for `job`. may: what may fire too, and why that is no error."""
    name: str
    alert: str
    job: str
    how: Callable
    what: str
    may: dict[tuple[str, str], str] = field(default_factory=dict)
    before: Callable | None = None  # what has to be there first
    beside: bool = False  # it takes minutes: those behind it, of other jobs, go on meanwhile


FAULTS = (
    Fault("server-down", "ServerDown", "alone", server_down, "the only server is killed, and not started"),
    Fault("stands-still", "ServerStandsStill", "alone", stands_still, "SIGSTOP; then killed and started again"),
    Fault("push-slow", "PushSlow", "steps", push_slow, "one of two workers of synchronous steps takes 2.5 s"),
    Fault("checkpoint-old", "CheckpointOld", "steps", checkpoint_old,
          "workers so slow that the next checkpoint is far away", beside=True),
    Fault("chain-short", "ChainShort", "chain", chain_short, "the tail and the spare are killed"),
    Fault("coordinator-down", "CoordinatorDown", "chain", coordinator_down, "ZooKeeper is killed", {
        ("CoordinatorDown", "small"): "it has the same one"}),
    Fault("ring-full", "RingFull", "chain", ring_full, "the tail runs for 20 ms in 1.5 s", {
        ("PushSlow", "chain"): "the head holds pushes until its ring has a place",
        ("TurnLong", "chain"): "the tail may be stopped within a turn of its loop"}),
    Fault("training-stopped", "TrainingStopped", "alone", training_stopped,
          "workers are connected, and push nothing"),
    Fault("not-finite", "GradientsNotFinite", "alone", not_finite, "one gradient of NaN"),
    Fault("gradients-lost", "GradientsLost", "alone", gradients_lost,
          "killed ten steps after a checkpoint, started from it; mended by one more start, from a worker"),
    Fault("checkpoint-failed", "CheckpointFailed", "alone", checkpoint_failed, "the disk is full"),
    Fault("breaks-rules", "PeerBreaksRules", "alone", breaks_rules,
          "a worker whose memory changes under its gradients' headers"),
    Fault("peers-refused", "PeersRefused", "alone", peers_refused, "25 attempts with another job's key"),
    Fault("turn-long", "TurnLong", "alone", turn_long,
          "the server runs for 20 ms in 1.5 s until it shows; mended by a start, as it is a maximum", {
              ("PushSlow", "alone"): "pushes that have landed wait for it"}),
    Fault("scrape-slow", "ScrapeSlow", "rack", scrape_slow, "an exporter of nine servers that are gone", {
        ("ServerDown", "rack"): "they are gone"}),
    Fault("chain-gone", "ChainGone", "pair", chain_gone,
          "both replicas of a chain with --refound are killed; founded anew from a worker", {
              ("ServerDown", "pair"): "servers of the last view are gone",
              ("ChainShort", "pair"): "the last view may be short, and the new chain begins with one"},
          before=pair_start),
    Fault("metrics-missing", "MetricsMissing", "", metrics_missing, "all exporters are killed"),
)
ELSEWHERE = {"PortErrors"}  # it is of RDMA ports, and here is shm: it must not fire
# Kills from the seed: one process at a time, for up to 4 s, which is less than any alert's time; nothing
# may fire. Every sixth is a replica of the chain with the spare, for LONG_S: ChainShort is to fire, alone.


@dataclass
class Result:
    fault: str
    alert: str
    job: str
    may: dict[tuple[str, str], str]
    began: float
    ended: float = 0.0
    fired: float | None = None  # after it began
    resolved: float | None = None  # after it was mended
    wrong: str = ""
    others: list[str] = field(default_factory=list)


class Watch(threading.Thread):
    """Once a second: which alerts fire, and which servers ended unasked; once a minute: promtool."""

    def __init__(self, s: Scene) -> None:
        super().__init__(daemon=True)
        self.s, self.going, self.now, self.spans = s, True, set(), []
        self.pages, self.complaints, self.unasked = 0, [], []
        self.next_page = time.monotonic() + 20

    def run(self) -> None:
        while self.going:
            try:
                self.look()
                self.supervise()
                if time.monotonic() >= self.next_page:
                    self.next_page += 60
                    self.check_pages()
            except (OSError, TimeoutError, scene.outlast.Error) as error:
                self.complaints.append(f"{time.strftime('%T')} {error!r}")
            time.sleep(1)

    def look(self) -> None:
        firing, at = self.s.prometheus.firing(), time.time()
        for alert in firing - self.now:
            self.spans.append({"alert": alert[0], "job": alert[1], "from": at, "to": None})
            say(f"  fires: {alert[0]} {alert[1]}")
        for span in self.spans:
            if span["to"] is None and (span["alert"], span["job"]) not in firing:
                span["to"] = at
                say(f"  resolved: {span['alert']} {span['job']}")
        self.now = firing

    def supervise(self) -> None:
        for job in self.s.jobs:
            for server in job.servers:
                if not server.alive and server not in job.down:
                    self.unasked.append(f"{time.strftime('%T')} {job.name} {short(server.address)}: "
                                        f"{server.last_line()}")
                    say(f"  ended unasked: {self.unasked[-1]}")
                    job.start(server)

    def check_pages(self) -> None:
        for job in self.s.jobs:
            if job.exporter.process is None:
                continue
            try:
                page = job.exporter.page()
            except OSError:
                if job.exporter.process is None:
                    continue  # a fault killed it in this moment
                raise
            said = subprocess.run(["promtool", "check", "metrics"], input=page, text=True,
                                  capture_output=True, check=False)
            self.pages += 1
            if said.returncode != 0 or said.stdout or said.stderr:
                self.complaints.append(f"{time.strftime('%T')} promtool check metrics, {job.name}: "
                                       f"{said.stdout}{said.stderr}".strip())

    def wait(self, alert: tuple[str, str], fires: bool, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while (alert in self.now) != fires:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
        return True


def say(text: str) -> None:
    print(f"{time.strftime('%T')} {text}", file=sys.stderr, flush=True)


def waits_of(rules: str) -> dict[str, tuple[float, float]]:
    """Of each alert, by the scaled rules: seconds until it fires at the latest, until it resolves."""
    found = {}
    for text in rules.split("- alert: Outlast")[1:]:
        windows = [int(ms) / 1000 for ms in re.findall(r"\[(\d+)ms\]", text)]
        first = re.search(r"for: (\d+)ms", text)
        window, hold = max(windows, default=0.0), int(first[1]) / 1000 if first else 0.0
        found[text.split()[0]] = (window + hold + SLACK_S, window + SLACK_S)
    return found


class Run:
    def __init__(self, s: Scene, watch: Watch, waits: dict[str, tuple[float, float]]) -> None:
        self.s, self.watch, self.waits, self.results = s, watch, waits, []

    def inject(self, fault: Fault) -> None:
        if fault.before:  # its failure ends the run: nothing was tried
            fault.before(self.s)
            time.sleep(CALM_S)
        alert, result = (fault.alert, fault.job), Result(fault.name, fault.alert, fault.job, fault.may, time.time())
        self.results.append(result)
        fires_s, resolves_s = self.waits[fault.alert]
        say(f"{fault.name}: {fault.what}")
        try:
            with fault.how(self.s):
                if self.watch.wait(alert, True, fires_s):
                    result.fired = time.time() - result.began
                else:
                    result.wrong = f"did not fire within {fires_s:.0f} s"
            mended = time.time()
            gone = self.watch.wait(alert, False, resolves_s)
            if result.fired is not None and gone:
                result.resolved = time.time() - mended
            elif not gone:
                result.wrong = f"did not resolve within {resolves_s:.0f} s"
            for other in fault.may:
                if not self.watch.wait(other, False, self.waits[other[0]][1]):
                    result.wrong = f"{other[0]} did not resolve"
        except (OSError, TimeoutError, scene.outlast.Error, IndexError) as error:
            result.wrong = repr(error)
        self.whole(self.s.chain)
        result.ended = time.time()
        say(f"{fault.name}: {result.wrong or 'done'}")

    def whole(self, chain: scene.Job) -> None:
        """A chain of three with a spare, again; then a pause."""
        with contextlib.suppress(TimeoutError):
            scene.until("the chain is whole", lambda: len(chain.replicas()) == 3, 40)
        time.sleep(CALM_S)

    def faults(self, chosen: list[Fault]) -> None:
        beside: list[threading.Thread] = []
        for fault in chosen:
            if fault.name == "metrics-missing" or any(f.beside and f.job == fault.job for f in chosen[:chosen.index(fault)]):
                for thread in beside:
                    thread.join()
            if not fault.beside:
                self.inject(fault)
                continue
            beside.append(threading.Thread(target=self.inject, args=(fault,)))
            beside[-1].start()
        for thread in beside:
            thread.join()

    def kills(self, until: float, seed: int) -> None:
        rng, count, s = random.Random(seed), 0, self.s
        say(f"kills until {time.strftime('%T', time.localtime(until))}")
        while time.time() < until:
            time.sleep(rng.uniform(5, 15))
            count += 1
            if count % LONG_EVERY == 0:
                if time.time() + 2 * LONG_S < until:
                    self.long_kill(rng)
                continue
            job = rng.choice((s.small, s.small, s.small, s.alone))
            server, down_s = rng.choice(job.servers), rng.uniform(0, 4 if job is s.small else 1)
            began = time.time()
            s.kill(job, server, down_s)
            time.sleep(down_s)
            job.start(server)
            say(f"killed {job.name} {short(server.address)} for {time.time() - began:.1f} s")
            self.whole(s.small)

    def long_kill(self, rng: random.Random) -> None:
        s, result = self.s, Result("long kill", "ChainShort", "small", {}, time.time())
        self.results.append(result)
        down = [rng.choice(s.small.replicas()), *waiting(s.small)]
        for server in down:
            s.kill(s.small, server, LONG_S)
        time.sleep(max(0.0, result.began + LONG_S - time.time()))
        for span in self.watch.spans:
            if (span["alert"], span["job"]) == ("ChainShort", "small") and span["from"] > result.began:
                result.fired = span["from"] - result.began
        result.wrong = "" if result.fired else "did not fire"
        mended = time.time()
        for server in down:
            s.small.start(server)
        if self.watch.wait(("ChainShort", "small"), False, self.waits["ChainShort"][1]):
            result.resolved = time.time() - mended
        else:
            result.wrong = "did not resolve"
        self.whole(s.small)
        result.ended = time.time()

    def judge(self) -> list[str]:
        """Alerts that no fault accounts for; those that may fire are noted at theirs."""
        stray = []
        for span in self.watch.spans:
            name, key = f"{span['alert']} {span['job']}".strip(), (span["alert"], span["job"])
            there = [r for r in self.results if r.began <= span["from"] <= (r.ended or time.time())]
            if any(key == (r.alert, r.job) for r in there):
                continue
            late = self.waits[span["alert"]][0]  # what follows may come behind the mending
            may = [r for r in self.results if key in r.may
                   and r.began <= span["from"] <= (r.ended or time.time()) + late]
            for result in may[:1]:
                result.others.append(name)
            if not may:
                stray.append(f"{name} at {time.strftime('%T', time.localtime(span['from']))}"
                             f" ({', '.join(r.fault for r in there) or 'no fault'})")
        return stray


def table(results: list[Result]) -> None:
    print(f"{'fault':18}{'alert':22}{'job':7}{'fired':>8}{'resolved':>10}  others that follow; verdict")
    for one in results:
        fired, resolved = ("-" if t is None else f"{t:.0f} s" for t in (one.fired, one.resolved))
        print(f"{one.fault:18}{one.alert:22}{one.job:7}{fired:>8}{resolved:>10}  "
              f"{', '.join(one.others)}{'; ' if one.others else ''}{one.wrong or 'as expected'}")


def report(run: Run, options: argparse.Namespace, first: float) -> int:
    s, watch, stray = run.s, run.watch, run.judge()
    table(run.results)
    missing = watch.complaints + [f"an alert that no fault accounts for: {one}" for one in stray]
    print(f"\n{len(s.kills)} kills; {watch.pages} pages through promtool check metrics; times of alerts.yml "
          f"divided by {options.factor:g}; {(time.time() - first) / 60:.1f} minutes; seed {options.seed}")
    for line in [*(f"ended unasked: {one}" for one in watch.unasked), *missing]:
        print(line)
    failed = bool(missing) or any(one.wrong for one in run.results)
    if options.picture:
        import panels
        look = panels.Look(s.prometheus, first, time.time(), scene.SCRAPE_S)
        empty = panels.draw(options.picture, HERE / "dashboard.json", look, [at for at, *_ in s.kills],
                            [(one.fault, one.began, one.ended or time.time()) for one in run.results])
        print(f"panels without data: {', '.join(empty) or 'none'}")
        failed = failed or bool(empty)
    print("FAILED" if failed else "passed")
    if options.json:
        results = [{**vars(one), "may": [" ".join(key) for key in one.may]} for one in run.results]
        options.json.write_text(json.dumps(
            {"passed": not failed, "factor": options.factor, "seed": options.seed, "results": results,
             "alerts": watch.spans, "kills": s.kills, "pages": watch.pages, "unasked": watch.unasked,
             "wrong": missing, "first": first, "last": time.time()}, indent=1))
    return 1 if failed else 0


def drill(options: argparse.Namespace) -> int:
    rules = scene.scale((HERE / "alerts.yml").read_text(), options.factor)
    alerts = set(re.findall(r"- alert: Outlast(\w+)", rules))
    known = {fault.alert for fault in FAULTS} | ELSEWHERE
    if alerts != known:
        raise SystemExit(f"alerts.yml and FAULTS differ: {', '.join(sorted(alerts ^ known))}")
    chosen = [fault for fault in FAULTS if not options.only or fault.name in options.only]
    with tempfile.TemporaryDirectory(prefix="outlast-faults-", dir=options.folder) as folder, \
            contextlib.ExitStack() as ends:
        first = time.time()
        s = Scene(pathlib.Path(folder), rules, ends)
        watch = Watch(s)
        watch.start()
        time.sleep(20)
        run = Run(s, watch, waits_of(rules))
        run.faults(chosen)
        if time.time() < first + options.minutes * 60:
            run.kills(first + options.minutes * 60, options.seed)
        time.sleep(10)
        status = report(run, options, first)
        watch.going = False
        watch.join()
        if options.keep:
            shutil.copytree(folder, options.keep, dirs_exist_ok=True,
                            ignore=shutil.ignore_patterns("*.key", "disk", "running", "chunks_head", "wal"))
        return status


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     epilog="example: faults.py --only chain-gone,turn-long --minutes 0")
    parser.add_argument("--minutes", type=float, default=60,
                        help="all of it; what the faults leave of it are kills; default 60")
    parser.add_argument("--only", help="names of faults, with commas between; none: kills alone",
                        type=lambda text: text.split(","))
    parser.add_argument("--factor", type=float, default=10, help="alerts' times are divided by it; default 10")
    parser.add_argument("--seed", type=int, default=1, help="of the kills; default 1")
    parser.add_argument("--json", type=pathlib.Path, help="file for all that is known of the run")
    parser.add_argument("--picture", type=pathlib.Path, help="file.png: the dashboard's panels over the run")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for logs")
    parser.add_argument("--folder", help="where temporary files are; default the system's")
    options = parser.parse_args()
    known = {fault.name for fault in FAULTS} | {"none"}
    if options.only and not known >= set(options.only):
        parser.error(f"--only: of {', '.join(sorted(known))}")
    for name, package in (("prometheus", "prometheus"), ("promtool", "prometheus"),
                          ("java", "default-jre-headless"), (str(scene.ZOOKEEPER), "zookeeper")):
        if shutil.which(name) is None and not os.path.exists(name):
            print(f"SKIP: no {name}: install {package}")
            sys.exit(SKIP)
    if "OUTLAST_FAULTS_APART" not in os.environ:  # the small disk is then of this run alone
        os.environ["OUTLAST_FAULTS_APART"] = "1"
        os.execvp("unshare", ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]),
                              sys.executable, *sys.argv])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(drill(options))


if __name__ == "__main__":
    main()
