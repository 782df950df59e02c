#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""DiLoCo whose synchronizer and learners are killed and slowed: what is lost, and what it costs.

Four learners train a small character transformer on a text that Debian ships. Each row is one job of
real processes: undisturbed, with kills, with a slow learner, by other ways to go on after a loss, and
data parallel. An inner step takes PACE_S at least, as if a learner had a processor of its own.
"""
import argparse
import hashlib
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

import outlast

TEXT = "/usr/share/common-licenses/GPL-3"
LEARNERS = 4
EVERY = 50  # inner steps between two outer ones: H
PACE_S = 0.012
BATCH = 8
CONTEXT = 32
WIDTH = 32
BLOCK = 256  # characters; the text is dealt in blocks, as its parts are not alike
HELD_OUT = 8  # one block of so many is no learner's
SLOW = 5  # times
DEADLINE_S = 600.0


@dataclass
class Row:
    """One job. kills: what dies after which outer step and how many seconds: "server", or a
    learner's number."""

    name: str
    consistency: str = "sync"
    kills: list[tuple[int, float, str]] = field(default_factory=list)
    slow: int = -1  # learner
    follow: bool = False  # learners go on from outer steps that others have made
    parallel: bool = False  # synchronous data parallelism: AdamW at the server, no inner steps
    restore: str = "mirror"
    options: dict[str, object] = field(default_factory=dict)
    exact: bool = True  # bits are those of the undisturbed run


def drawn(seed: int, outer: int, kill_every: int) -> list[tuple[int, float]]:
    """One moment in each kill_every outer steps: after which step, and how many seconds."""
    random = torch.Generator().manual_seed(seed)
    moments = []
    for first in range(0, outer - 1, kill_every):
        last = min(first + kill_every, outer - 1)
        step = int(torch.randint(first + 1, last + 1, (1,), generator=random))
        moments.append((step, EVERY * PACE_S * float(torch.rand(1, generator=random))))
    return moments


def rows(seed: int, outer: int, kill_every: int) -> list[Row]:
    servers = [(step, after, "server") for step, after in drawn(seed, outer, kill_every)]
    learner = [(step, after, "3") for step, after in drawn(seed + 1000, outer, outer)]
    quorum = "sync:quorum,k=3,grace=50,late=next"
    return [
        Row("undisturbed"),
        Row("server killed", kills=servers),
        Row("server killed, save every 5 and restart", kills=servers, restore="checkpoint",
            options={"durability": "checkpoint", "checkpoint": "every=5steps"}, exact=False),
        Row("learner killed", kills=learner, exact=False),
        Row("server and learner killed", kills=sorted(servers + learner), exact=False),
        Row("server and learner killed, quorum", quorum, sorted(servers + learner), follow=True,
            exact=False),
        Row("one learner slow", slow=3),
        Row("one learner slow, quorum", quorum, slow=3, follow=True, exact=False),
        Row("one learner slow, server killed, quorum", quorum, servers, slow=3, follow=True,
            exact=False),
        Row("data parallel", parallel=True, exact=False),
        Row("data parallel, server killed", kills=servers, parallel=True, exact=False),
    ]


# ---- the model ----

class Transformer(torch.nn.Module):
    """One block: attention over what came before, then two layers."""

    def __init__(self, letters: int) -> None:
        super().__init__()
        self.letter = torch.nn.Embedding(letters, WIDTH)
        self.place = torch.nn.Embedding(CONTEXT, WIDTH)
        self.attention = torch.nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.before = torch.nn.LayerNorm(WIDTH)
        self.layers = torch.nn.Sequential(
            torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.ReLU(),
            torch.nn.Linear(2 * WIDTH, WIDTH))
        self.out = torch.nn.Linear(WIDTH, letters)
        mask = torch.triu(torch.ones(CONTEXT, CONTEXT, dtype=torch.bool), 1)
        self.register_buffer("mask", mask)

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        x = self.letter(letters) + self.place(torch.arange(CONTEXT))
        y = self.before(x)
        x = x + self.attention(y, y, y, attn_mask=self.mask, need_weights=False)[0]
        return self.out(x + self.layers(x))


class Text:
    def __init__(self) -> None:
        text = pathlib.Path(TEXT).read_text(encoding="utf-8")
        self.letters = sorted(set(text))
        numbers = {letter: number for number, letter in enumerate(self.letters)}
        self.data = torch.tensor([numbers[letter] for letter in text])

    def part(self, starts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = torch.stack([self.data[at:at + CONTEXT + 1] for at in starts.tolist()])
        return found[:, :-1], found[:, 1:]

    def batch(self, seed: int, learner: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Of the blocks that are this learner's alone."""
        random = torch.Generator().manual_seed((seed * LEARNERS + learner) * 1000003 + step)
        blocks = self.blocks(held_out=False)[learner::LEARNERS]
        chosen = blocks[torch.randint(len(blocks), (BATCH,), generator=random)]
        return self.part(BLOCK * chosen + torch.randint(BLOCK - CONTEXT, (BATCH,),
                                                        generator=random))

    def held_out(self) -> tuple[torch.Tensor, torch.Tensor]:
        starts = torch.arange(0, BLOCK - CONTEXT, CONTEXT)
        return self.part((BLOCK * self.blocks(held_out=True)[:, None] + starts).flatten())

    def blocks(self, held_out: bool) -> torch.Tensor:
        numbers = torch.arange(len(self.data) // BLOCK)
        return numbers[(numbers % HELD_OUT == 0) == held_out]


def make_model(text: Text, seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return Transformer(len(text.letters))


def loss_of(model: torch.nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    logits = model(batch[0])
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[1].flatten())


# ---- one learner ----

class Pace:
    """An inner step takes so long at least."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.due = seconds, time.monotonic()

    def wait(self) -> None:
        self.due = max(self.due, time.monotonic() - 5 * self.seconds) + self.seconds
        time.sleep(max(0.0, self.due - time.monotonic()))


class Learner:
    def __init__(self, plan: dict, job: outlast.Job) -> None:
        self.number, self.seed, self.job = plan["learner"], plan["seed"], job
        self.text = Text()
        self.model = make_model(self.text, self.seed)
        self.check = self.text.held_out()
        self.pace = Pace(PACE_S * (SLOW if plan["slow"] == self.number else 1))
        self.follow = plan["follow"]
        self.pushed: list[int] = []  # inner steps that each push was made of

    def backward(self, step: int) -> None:
        """What is computed is a function of the step, not of the clock."""
        loss_of(self.model, self.text.batch(self.seed, self.number, step)).backward()
        self.pace.wait()

    def tell(self, outer: int) -> None:
        loss = None
        if self.number == 0:
            with torch.no_grad():
                loss = loss_of(self.model, self.check).item()
        tell(step=outer, loss=loss, **self.applied())

    def applied(self) -> dict:
        """This learner's pushes that are in the weights, and the inner steps that these are."""
        applied = int(self.job.stat_links()[0]["applied"])
        return {"applied": applied, "inner": sum(self.pushed[:applied])}

    def diloco(self, until: int) -> None:
        inner = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        sync = outlast.torch.DiLoCo(self.model, inner=inner, every=EVERY, job=self.job,
                                    follow=self.follow, until=until)
        while sync.outer_steps < until:
            first, made = sync.outer_steps * EVERY, sync.since
            sync.zero_grad()
            self.backward(first + made)
            try:
                sync.step(tokens=BATCH * CONTEXT)
            except outlast.Lost:
                sync.sync()  # the servers went back: only load their weights
            if sync.since == 0:  # an outer step
                self.pushed.append(made + 1)
                self.tell(sync.outer_steps)

    def parallel(self, until: int) -> None:
        optimizer = outlast.torch.Optimizer(self.model, self.job)
        while self.job.version < until * EVERY:
            optimizer.zero_grad()
            self.backward(self.job.version)
            optimizer.step()
            self.pushed.append(1)
            if self.job.version % EVERY == 0:
                self.tell(self.job.version // EVERY)


def learn(plan: dict) -> None:
    torch.set_num_threads(1)
    with outlast.connect(timeout=DEADLINE_S, mirror_state=True) as job:
        learner = Learner(plan, job)
        if plan["parallel"]:
            learner.parallel(plan["outer"])
        else:
            learner.diloco(plan["outer"])
        job.finish(plan["outer"] * (EVERY if plan["parallel"] else 1))
        link = job.stat_links()[0]
        tell(**learner.applied(), late=link["late"], lost=link["lost"],
             sha256=hashlib.sha256(outlast.torch.vector(learner.model)).hexdigest())
        job.stay(sys.stdin)  # a restored server may need this mirror


def tell(**words: object) -> None:
    print(json.dumps({**words, "at": time.monotonic()}), flush=True)


# ---- one job ----

class Job:
    def __init__(self, row: Row, seed: int, outer: int) -> None:
        self.row, self.seed, self.outer = row, seed, outer
        self.learners: dict[int, subprocess.Popen] = {}
        self.before = {"applied": 0, "inner": 0}  # of learners that were killed

    def start(self, servers: outlast.Launch, number: int) -> None:
        plan = {"learner": number, "seed": self.seed, "outer": self.outer, "slow": self.row.slow,
                "follow": self.row.follow, "parallel": self.row.parallel}
        words = dict(os.environ, OUTLAST_JOB=str(servers), OUTLAST_WORKER=str(number),
                     OUTLAST_DRILL=json.dumps(plan), OUTLAST_LOG="error")
        self.learners[number] = subprocess.Popen([sys.executable, __file__], env=words, text=True,
                                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def kill(self, servers: outlast.Launch, what: str) -> None:
        if what == "server":
            servers.servers[0].kill()
            servers.servers[0].restart(restore=self.row.restore)
            return
        number = int(what)
        self.learners[number].send_signal(signal.SIGKILL)
        lines = self.learners[number].stdout.read().splitlines()
        self.learners[number].wait()
        for word in self.before if lines else ():
            self.before[word] += json.loads(lines[-1])[word]
        self.start(servers, number)

    def run(self) -> dict:
        init = outlast.torch.vector(make_model(Text(), self.seed))
        with tempfile.TemporaryDirectory() as folder:
            options = dict(self.row.options)
            if "checkpoint" in options:
                options["checkpoint"] = f"{options['checkpoint']},dir={folder}"
            outer = {"rule": "nesterov", "lr": 0.7, "momentum": 0.9}
            if self.row.parallel:
                outer = {"rule": "adamw", "lr": 3e-3, "weight_decay": 0.01}  # as the inner one
            with outlast.launch(init=init, workers=LEARNERS, consistency=self.row.consistency,
                                **outer, **options) as servers:
                for number in range(LEARNERS):
                    self.start(servers, number)
                try:
                    return self.follow(servers)
                finally:
                    for learner in self.learners.values():
                        learner.kill()

    def follow(self, servers: outlast.Launch) -> dict:
        curve, due, began, end = [], list(self.row.kills), None, None
        for line in self.learners[0].stdout:
            said = json.loads(line)
            if "sha256" in said:
                end = said
                break
            began = began or said["at"] - EVERY * PACE_S  # when its first inner step began
            curve.append((said["at"] - began, said["step"], said["loss"]))
            while due and said["step"] >= due[0][0]:
                _, after, what = due.pop(0)
                time.sleep(max(0.0, said["at"] + after - time.monotonic()))
                self.kill(servers, what)
        if end is None:
            raise RuntimeError(f"{self.row.name}: learner 0 ended early")
        ends = [end]
        for number in range(1, LEARNERS):
            lines = self.learners[number].stdout
            ends.append(json.loads(next(line for line in lines if "sha256" in line)))
        for learner in self.learners.values():
            learner.stdin.close()
            learner.wait(DEADLINE_S)
        wall = max(one["at"] for one in ends) - began
        return {"wall": wall, "curve": curve, "ends": ends, "sha256": ends[0]["sha256"],
                "alike": len({one["sha256"] for one in ends}) == 1, "before": self.before,
                "steps_again": len(curve) - len({step for _, step, _ in curve})}


# ---- the table ----

def figures(row: Row, found: dict, whole: dict, floats: int, target: float) -> dict:
    """What a row of the table says. whole: the undisturbed job.

    goodput: time of inner steps that are in the weights, by all learners' time.
    """
    contributions, inner = (found["before"][word] + sum(one[word] for one in found["ends"])
                            for word in ("applied", "inner"))
    useful = inner * PACE_S
    if row.slow >= 0:
        useful += found["ends"][row.slow]["inner"] * PACE_S * (SLOW - 1)
    reached = [at for at, _, loss in found["curve"] if loss <= target]
    return {
        "name": row.name, "wall_s": found["wall"],
        "lost": sum(one["lost"] for one in found["ends"]),
        "steps_again": found["steps_again"], "late": sum(one["late"] for one in found["ends"]),
        "contributions": contributions, "loss": found["curve"][-1][2],
        "megabytes": 2 * 4e-6 * floats * contributions,
        "target_s": min(reached) if reached else None,
        "goodput": useful / (LEARNERS * found["wall"]),
        "bits": found["alike"] and (found["sha256"] == whole["sha256"] if row.exact else None),
        "server_kills": sum(what == "server" for _, _, what in row.kills),
        "curve": found["curve"],
    }


def show(table: list[dict], target: float) -> None:
    print(f"{'':40} {'wall':>6} {'lost':>5} {'again':>5} {'late':>5} {'MB':>6} {'loss':>6} "
          f"{'to ' + format(target, '.3f'):>9} {'goodput':>8}  bits")
    for one in table:
        reached = "never" if one["target_s"] is None else f"{one['target_s']:.1f} s"
        bits = {True: "the same", False: "OTHERS", None: "-"}[one["bits"]]
        print(f"{one['name']:40} {one['wall_s']:5.1f}s {one['lost']:5.0f} {one['steps_again']:5} "
              f"{one['late']:5.0f} {one['megabytes']:6.1f} {one['loss']:6.3f} {reached:>9} "
              f"{one['goodput']:8.2f}  {bits}")


def verdicts(table: list[dict]) -> list[tuple[str, bool | None]]:
    """The criteria of README.md by this table; None: a row that it needs was not run."""
    rows = {one["name"]: one for one in table}

    def judge(text: str, names: tuple[str, ...], holds: Callable[..., bool]) -> None:
        found = [rows.get(name) for name in names]
        said.append((text, None if None in found else holds(*found)))

    def sooner(one: dict, other: dict, times: float) -> bool:
        took, limit = (math.inf if row["target_s"] is None else row["target_s"]
                       for row in (one, other))
        return took < math.inf and took <= times * limit

    said: list[tuple[str, bool | None]] = []
    judge("1: a killed server loses nothing, and costs at most 0.15 of the time",
          ("server killed", "undisturbed"),
          lambda one, whole: one["lost"] == one["steps_again"] == 0 and one["bits"] is True
          and sooner(one, whole, 1.15))
    judge("2: save and restart makes an outer step again for each kill",
          ("server killed, save every 5 and restart",),
          lambda one: one["steps_again"] >= one["server_kills"])
    judge("3: a quorum with a slow learner takes at most half the time of waiting for all",
          ("one learner slow, quorum", "one learner slow"),
          lambda one, other: one["lost"] == 0 and sooner(one, other, 0.5))
    judge("4: with server and learner killed, a quorum loses nothing, and its goodput is no less",
          ("server and learner killed, quorum", "server and learner killed"),
          lambda one, other: one["lost"] == 0 and one["goodput"] >= other["goodput"])
    judge("5: a killed server costs a quorum with a slow learner at most 0.15 of the time",
          ("one learner slow, server killed, quorum", "one learner slow, quorum"),
          lambda one, other: one["lost"] == 0 and sooner(one, other, 1.15))
    judge("6: data parallel exchanges 50 times the bytes", ("data parallel", "undisturbed"),
          lambda one, whole: one["contributions"] == EVERY * whole["contributions"])
    return said


def plot(table: list[dict], target: float, path: str) -> None:
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(9, 5))
    for one in table:
        axes.plot([at for at, _, _ in one["curve"]], [loss for _, _, loss in one["curve"]],
                  label=one["name"])
    axes.axhline(target, color="grey", linewidth=0.5)
    axes.set_xlabel("seconds")
    axes.set_ylabel("loss on text that no learner has")
    axes.legend(fontsize="small")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     epilog="example: drill.py --outer 30 --plot diloco.svg")
    parser.add_argument("--outer", type=int, default=30, help="outer steps; default 30")
    parser.add_argument("--kill-every", type=int, default=10,
                        help="outer steps in each of which the synchronizer is killed once; "
                             "default 10")
    parser.add_argument("--seed", type=int, default=1, help="of weights, batches and moments; default 1")
    parser.add_argument("--row", action="append",
                        help="a row beside the undisturbed job, by its name; default all")
    parser.add_argument("--json", help="file for all figures and curves")
    parser.add_argument("--plot", help="file for the curves, .svg")
    options = parser.parse_args()
    chosen = rows(options.seed, options.outer, options.kill_every)
    unknown = set(options.row or []) - {row.name for row in chosen}
    if unknown:
        parser.error(f"--row {unknown.pop()!r}: of {', '.join(row.name for row in chosen)}")
    table: list[dict] = []
    floats = sum(one.numel() for one in make_model(Text(), 0).parameters())
    whole, target = None, 0.0
    for row in chosen:
        if whole is not None and options.row and row.name not in options.row:
            continue
        print(f"{row.name} …", file=sys.stderr, flush=True)
        found = Job(row, options.seed, options.outer).run()
        if whole is None:
            whole = found
            target = found["curve"][options.outer * 2 // 3 - 1][2]
        table.append(figures(row, found, whole, floats, target))
    show(table, target)
    for text, holds in verdicts(table):
        print(f"{ {True: 'holds', False: 'FAILS', None: 'not run'}[holds]:8} {text}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"target": target, "rows": table}))
    if options.plot:
        plot(table, target, options.plot)
    if any(one["bits"] is False for one in table):
        sys.exit("bits are not those of the undisturbed run")


if __name__ == "__main__":
    if "OUTLAST_DRILL" in os.environ:
        learn(json.loads(os.environ["OUTLAST_DRILL"]))
    else:
        main()
