# SPDX-License-Identifier: BSD-3-Clause
"""One training job a mode, whose processes are killed again and again: what was pushed is in the weights once, and
memory and descriptors stay as they are.

    soak.py OUTLAST [--kills N] [--mode NAME] [--seed N] [--apart SECONDS] [--lease-ms MS] [--json FILE]

Servers and workers die by SIGKILL at random moments, or are stopped for longer than their lease; the launcher starts
each again. A worker counts its gradients through its deaths (its position), and each shard's weights say how many of them
they have: as many, but for one for each time that this worker died, which takes along what it was about to push, to all
shards or to those that it had not pushed to yet; and its queue, where it goes on in an outage. A synchronous job has the
weights of one that loses nobody, bit for bit: there a worker's next process completes the step.
"""
import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

LEASE_MS = 3000  # a machine that is busy for a second loses nobody
STOP_SHARE, STOP_LEASES = 0.15, 1.6  # of the kills: a process that stands still for so many leases
PACE, WORKERS = 40, 3
QUEUE_MOST = 5 * PACE  # of gradients, when a worker dies that goes on in an outage
START_S, END_S = 60.0, 60.0  # at most
GROWTH_MB, GROWTH_FILES = 4.0, 4  # of the launcher; of a process, by the time line, in megabytes
TRAINED = ("train", "--model=mlp:64", "--dataset=synthetic:train=2000,test=500,noise=2", f"--workers={WORKERS}", "--lr=0.01",
           "--eval-every=0")
JOB = (*TRAINED, f"--pace={PACE}", "--restarts=1000", "--seconds=100000", "--timeline-ms=1000")
CHAIN = ("--durability=chain", "--replicas=3", "--coordinator=dir:{dir}")
WHOLE = re.compile(r"^\S+ +\d+ +(\d+) +3 of 3 +3 ", re.MULTILINE)  # epoch of a chain, as stat --views has it


@dataclasses.dataclass(frozen=True)
class Mode:
    name: str
    words: tuple[str, ...]
    # a server comes back with what a checkpoint has: gradients are lost, by shard, and counted, as its worker or its
    # worker's next process goes on from the shard that has most
    goes_back: bool = False


MODES = (
    Mode("chain", (*CHAIN, "--servers=2", "--consistency=async", "--outage=continue")),
    Mode("chain-sync", (*CHAIN, "--servers=2", "--consistency=sync")),
    Mode("stateless", ("--servers=2", "--consistency=async", "--outage=continue", "--restore=mirror")),
    Mode("mirror-sync", ("--servers=1", "--consistency=sync", "--restore=mirror")),
    Mode("checkpoint", ("--servers=2", "--consistency=async", "--durability=checkpoint", "--restore=checkpoint",
                        "--checkpoint=every=20steps,dir={dir},keep=3"), goes_back=True),
    Mode("priority", ("--servers=2", "--consistency=async", "--durability=checkpoint", "--restore=freshest",
                      "--checkpoint=every=20steps,dir={dir},priority,r=1/4")),
)


def children(pid: int) -> dict[int, str]:
    """Servers and workers: "serve", or "work" and its id"""
    found = {}
    try:
        all_of = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return {}
    for child in all_of:
        try:
            words = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if words[1:2] == ["serve"]:
            found[int(child)] = "serve"
        elif words[1:2] == ["work"]:
            found[int(child)] = next(word for word in words if word.startswith("--id="))
    return found


def footprint(pid: int) -> tuple[float, int]:
    """Megabytes that are its own, open descriptors"""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    rss = next(line for line in status.splitlines() if line.startswith("RssAnon"))
    return int(rss.split()[1]) / 1024, len(os.listdir(f"/proc/{pid}/fd"))


class Soak:
    def __init__(self, opts: argparse.Namespace, mode: Mode, folder: str) -> None:
        rng = random.Random(f"{opts.seed} {mode.name}")
        self.mode, self.kills, self.apart_s, self.rng = mode, opts.kills, opts.apart, rng
        self.stop_s = STOP_LEASES * opts.lease_ms / 1000
        self.folder = folder
        self.chains = mode.words[0] == CHAIN[0]
        self.shards = 2 if "--servers=2" in mode.words else 1
        self.done = {"serve": 0, "work": 0, "stopped": 0}
        self.deaths = dict.fromkeys(range(WORKERS), 0)  # by worker
        self.wrong: list[str] = []
        self.outlast, self.seed = opts.outlast, f"--seed={rng.randrange(1000)}"
        self.saved = pathlib.Path(folder) / "saved"  # checkpoints, or views
        self.saved.mkdir(mode=0o700)
        self.log = open(f"{folder}/log", "wb")
        self.job = subprocess.Popen(
            [opts.outlast, *JOB, f"--lease-ms={opts.lease_ms}", *(word.format(dir=f"{folder}/saved") for word in mode.words), self.seed,
             f"--json={folder}/r.json", f"--timeline={folder}/r.csv"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)

    def said(self, words: str) -> int:
        return pathlib.Path(f"{self.folder}/log").read_text(errors="replace").count(words)

    def until(self, true: Any, seconds: float, what: str) -> bool:
        end = time.monotonic() + seconds
        while not true():
            if self.job.poll() is not None or time.monotonic() > end:
                self.wrong.append(f"{what}: {'the job is over' if self.job.poll() is not None else 'not in time'}")
                return False
            time.sleep(0.02)
        return True

    def epochs(self) -> int:
        """Of all chains together; 0: one lacks a replica"""
        job = next(self.saved.glob("train-*")).name
        of = subprocess.run([self.outlast, "stat", "--once", "--views", f"--coordinator=dir:{self.saved}", f"--job={job}"],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
                            timeout=END_S)
        whole = [int(epoch) for epoch in WHOLE.findall(of.stdout.decode())]
        return sum(whole) if len(whole) == self.shards else 0

    def one(self, what: str) -> bool:
        """Kills a server or a worker, and waits until it is in its place again: of a chain no second replica is lost
        before that"""
        before, epochs = children(self.job.pid), self.epochs() if self.chains else 0
        pid = self.rng.choice(sorted(child for child, role in before.items() if (role == "serve") == (what == "serve")))
        stops = what == "serve" and self.chains and self.rng.random() < STOP_SHARE
        os.kill(pid, signal.SIGSTOP if stops else signal.SIGKILL)
        if stops:  # its neighbours go on without it; it ends by itself when it wakes up
            time.sleep(self.stop_s)
            os.kill(pid, signal.SIGCONT)
        self.done["stopped" if stops else what] += 1
        if what == "work":
            self.deaths[int(before[pid].removeprefix("--id="))] += 1
        there = self.until(lambda: pid not in children(self.job.pid) and len(children(self.job.pid)) == len(before), START_S,
                           f"{what} {pid} is not started again")
        if there and what == "serve" and self.chains:  # a view without it, and one with its successor
            there = self.until(lambda: self.epochs() >= epochs + 2, START_S, "the chain is not whole again")
        time.sleep(self.rng.expovariate(1 / self.apart_s))
        return there

    def run(self) -> None:
        count = (3 if self.chains else 1) * self.shards
        if not self.until(lambda: len(children(self.job.pid)) == count + WORKERS and self.said("gradients/s") > 0, START_S,
                          "the job does not begin"):
            return
        if self.chains and not self.until(lambda: self.epochs() > 0, START_S, "the chain is not whole"):
            return
        first = None
        for kill in range(self.kills):
            if not self.one(("serve", "work")[kill] if kill < 2 else self.rng.choice(("serve", "work"))):
                return
            if kill + 1 == self.kills // 10 > 1:
                first = footprint(self.job.pid)
            if sys.stderr.isatty():
                print(f"\r{self.mode.name}: {kill + 1} of {self.kills}", end="", file=sys.stderr, flush=True)
        last = footprint(self.job.pid)
        if first is not None and (last[0] > first[0] + GROWTH_MB or last[1] > first[1] + GROWTH_FILES):
            self.wrong.append(f"the launcher grows: {first} to {last} (MB, descriptors)")
        self.until(lambda: len(children(self.job.pid)) == count + WORKERS, START_S, "not all are back")

    def end(self) -> dict[str, Any]:
        if self.job.poll() is None:
            self.job.send_signal(signal.SIGINT)
        try:
            status = self.job.wait(END_S)
        except subprocess.TimeoutExpired:
            self.job.kill()
            status = self.job.wait()
            self.wrong.append("does not end")
        self.log.close()
        if status != 128 + signal.SIGINT:
            self.wrong.append(f"exit status {status}")
        try:
            with open(f"{self.folder}/r.json", encoding="utf-8") as file:
                report = json.load(file)
        except (OSError, ValueError) as error:
            self.wrong.append(f"no report: {error}")
            return {}
        self.judge(report)
        return report

    def judge(self, report: dict[str, Any]) -> None:
        if not report["accounting"]["agree"]:
            self.wrong.append("the accounts of workers and servers differ")
        if not self.mode.goes_back and report["gradients_lost"]:
            self.wrong.append(f"{report['gradients_lost']} lost")
        positions = {worker["id"]: worker["position"] for worker in report["per_worker"]}
        for worker in report["accounting"]["workers"]:
            position, shards, number = positions[worker["worker"]], worker["in_final_weights"], worker["worker"]
            deaths = self.deaths[number]
            takes = deaths * (1 + QUEUE_MOST * ("--outage=continue" in self.mode.words))
            least = 0 if self.mode.goes_back else position - takes
            if len(shards) != self.shards or min(shards) < least or max(shards) > position:
                self.wrong.append(f"worker {number}, which died {deaths} times: {shards} in the shards' weights, of {position}")
        if "--consistency=sync" in self.mode.words:
            self.compare(report)
        self.sizes_judge()

    def sizes_judge(self) -> None:
        """Of all servers, and of all workers, as the time line has them"""
        sizes: dict[str, list[float]] = {"server_rss_mb": [], "worker_rss_mb": []}
        lines = pathlib.Path(f"{self.folder}/r.csv").read_text().splitlines()
        names = lines[0].split(",")
        for line in lines[1:]:
            cells = dict(zip(names, line.split(",")))
            for name, of in sizes.items():
                of.append(float(cells[name] or 0))
        for name, of in sizes.items():
            part = len(of) // 4
            if part > 0 and max(of[-part:]) > max(of[:part]) + GROWTH_MB * (1 + WORKERS):
                self.wrong.append(f"{name} grows: at most {max(of[:part])} in the first quarter, {max(of[-part:])} in the last")

    def compare(self, report: dict[str, Any]) -> None:
        """With a job of as many steps that loses nobody"""
        path = f"{self.folder}/undisturbed.json"
        subprocess.run([self.outlast, *TRAINED, "--consistency=sync", self.seed, f"--steps={report['version']}",
                        f"--json={path}"], check=False, stdin=subprocess.DEVNULL, capture_output=True)
        with open(path, encoding="utf-8") as file:
            whole = json.load(file)
        if whole["weights_sha256"] != report["weights_sha256"]:
            self.wrong.append(f"after {report['version']} steps the weights are not those of a job that loses nobody")


def soak(opts: argparse.Namespace, mode: Mode) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="outlast-soak-") as folder:
        began = time.monotonic()
        one = Soak(opts, mode, folder)
        try:
            one.run()
            report = one.end()
        finally:
            with contextlib.suppress(ProcessLookupError):  # what is left of the job, whoever died
                os.killpg(one.job.pid, signal.SIGKILL)
        if one.wrong:
            log = pathlib.Path(f"{folder}/log").read_text(errors="replace")
            said = [line for line in log.splitlines() if "outlast train: " in line]  # what differs, among others
            print("\n".join(said[-20:]), log[-4000:], sep="\n", file=sys.stderr)
    row = {"mode": mode.name, "kills": one.done, "seconds": round(time.monotonic() - began, 1), "wrong": one.wrong,
           **{name: report.get(f"gradients_{name}") for name in ("computed", "applied", "dropped", "lost", "replayed", "resent")}}
    print(f"{'not ok' if one.wrong else 'ok'} {mode.name}: {sum(one.done.values())} kills {one.done} in {row['seconds']} s; "
          f"gradients: {row['computed']} computed, {row['applied']} applied, {row['dropped']} dropped, {row['lost']} lost"
          + "".join(f"\n  {why}" for why in one.wrong), flush=True)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("outlast")
    parser.add_argument("--kills", type=int, default=20, help="of each mode")
    parser.add_argument("--mode", choices=[mode.name for mode in MODES])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--apart", type=float, default=0.3, help="seconds between two kills, in the mean")
    parser.add_argument("--lease-ms", type=int, default=LEASE_MS)
    parser.add_argument("--json", help="file for the rows")
    opts = parser.parse_args()
    rows = [soak(opts, mode) for mode in MODES if opts.mode in (None, mode.name)]
    if opts.json:
        pathlib.Path(opts.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return any(row["wrong"] for row in rows)


if __name__ == "__main__":
    sys.exit(main())
