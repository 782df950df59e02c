# SPDX-License-Identifier: BSD-3-Clause
"""Strategies; which runs there are to be, and the command line of each."""
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

STRATEGIES_MAX = 16
RUNS_MAX = 4096
OUTAGES_MAX = 16  # a run
WORKERS_MAX = 64  # of train
LIST_MAX = 64
SEED_MAX = 2**64 - 1
CHAIN_REPLICAS = 3
MODES = ("async", "sync")


class Wrong(Exception):
    """A setting that cannot be: its name, and why"""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name, why)
        self.name, self.why = name, why


@dataclass(frozen=True)
class Strategy:
    """A way to meet the loss of a server, as words of train's command line"""
    name: str
    what: str  # a sentence, for people
    durability: str
    outage: str
    restore: str
    replay: str = ""  # "": train's default
    local: str = ""  # progress; "": train's default
    replicas: int = 0  # of a chain; 0: there is none
    periodic: bool = False  # replicated every checkpoint_every steps, without waiting
    kills_min: int = 0  # with fewer it is the same as another strategy, and left out
    kills_max: int = OUTAGES_MAX  # of more there is one run with so many
    stateless: bool = False  # workers go on during an outage
    fault: bool = False  # re-creates a fault on purpose: no part of the comparison of methods


# A strategy more is a row more.
STRATEGIES = (
    Strategy("none", "no server is killed: what the others are measured by",
             "none", "wait", "none", kills_max=0),
    Strategy("checkpoint", "workers wait; the server comes back with the last checkpoint",
             "checkpoint", "wait", "checkpoint"),
    Strategy("checkpoint-norestore",
             "as checkpoint, but the server comes back with first weights: the fault in the "
             "published two-kill runs",
             "checkpoint", "wait", "none", kills_min=1, fault=True),
    Strategy("stateless",
             "workers go on, each on its own way, and queue gradients; the server comes back with "
             "a worker's weights, and applies the mean of their ways",
             "none", "continue", "mirror", replay="mean", local="true", stateless=True),
    Strategy("stateless-published",
             "as stateless, with the published rule: the queue's sum as one step, at learning rate "
             "1e-3 above 50 gradients",
             "none", "continue", "mirror", replay="sum", local="false", kills_min=1,
             stateless=True),
    Strategy("stateless-mean",
             "as stateless, with weights that stand still in the outage, and the queue's mean as "
             "one step",
             "none", "continue", "mirror", replay="mean", local="false", kills_min=1,
             stateless=True),
    Strategy("mirror", "workers wait; the server comes back with a worker's weights",
             "none", "wait", "mirror", kills_min=1),
    Strategy("chain",
             "three servers hold the weights, each step is on all of them; when the first is lost "
             "the second goes on, and the lost one joins behind the others",
             "chain", "wait", "freshest", replicas=CHAIN_REPLICAS),
    Strategy("chain-periodic",
             "as chain, the published way: the weights go down the chain every so many steps, and "
             "nothing waits for it",
             "chain", "wait", "freshest", replicas=CHAIN_REPLICAS, periodic=True, kills_min=1),
    Strategy("chain-continue", "as chain, and workers do not wait for the next server either",
             "chain", "continue", "freshest", replicas=CHAIN_REPLICAS, kills_min=1),
)


@dataclass(frozen=True)
class Set:
    """The settings of runs; times are divided by --scale already"""
    strategies: str
    consistency: str
    kills: str
    workers: str
    seeds: str
    seconds: float
    kill_at: float
    down: float
    again: float
    pace: float
    eval_seconds: float
    checkpoint_every: int
    model: str
    final_relu: bool
    dataset: str
    lr: float
    batch: int
    transport: str | None
    address: str | None
    device: str | None


@dataclass(frozen=True)
class Case:
    """Runs that differ in their seed only"""
    strategy: Strategy
    mode: str
    kills: int
    workers: int

    @property
    def name(self) -> str:
        """stateless-async-k1-w4"""
        return f"{self.strategy.name}-{self.mode}-k{self.kills}-w{self.workers}"


@dataclass
class Run:
    case: Case
    seed: int
    status: str = "not made"  # "done", "failed"
    error: str = ""  # failed: why
    accuracy: float = math.nan  # done: on the test set, at the end; nan: not known

    @property
    def name(self) -> str:
        """Of its files"""
        return f"{self.case.name}-s{self.seed}"


@dataclass(frozen=True)
class Plan:
    cases: list[Case]
    runs: list[Run]  # in the order in which they are made: seed by seed


def numbers(text: str, most: int) -> list[int] | None:
    """1,2,4 and 3..7, each number once and at most `most`; None: no such list"""
    values: list[int] = []
    for item in text.split(","):
        match = re.fullmatch(r"([0-9]+)(?:\.\.([0-9]+))?", item, re.ASCII)
        if match is None:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if last > most or not 0 <= last - first < LIST_MAX:
            return None
        values += range(first, last + 1)
    return values if len(set(values)) == len(values) <= LIST_MAX else None


def items(text: str) -> list[str]:
    """Words of a list with commas; behind the last comma may be nothing"""
    return text.removesuffix(",").split(",") if text else []


def picks_read(text: str) -> list[tuple[Strategy, tuple[str, ...]]]:
    """Strategies, each with the consistencies that it is run with"""
    by_name = {one.name: one for one in STRATEGIES}
    picks: list[tuple[Strategy, tuple[str, ...]]] = []
    for word in items(text):
        name, slash, mode = word.partition("/")
        modes = (mode,) if slash else MODES
        seen = {one for strategy, those in picks if strategy.name == name for one in those}
        if name not in by_name or not set(modes) <= set(MODES) or seen & set(modes) or \
                len(picks) == STRATEGIES_MAX:
            picks = []
            break
        picks.append((by_name[name], modes))
    if not picks:
        raise Wrong("strategies", f"is no list of strategies: {', '.join(by_name)}; each at most "
                                  "once, with /sync or /async for one of both")
    return picks


def modes_read(text: str) -> list[str]:
    modes = items(text)
    if not modes or not set(modes) <= set(MODES) or len(set(modes)) < len(modes):
        raise Wrong("consistency", "should be async, sync or both with a comma between")
    return modes


def list_read(name: str, text: str, most: int, why: str,
              good: Callable[[int], bool] = lambda value: True) -> list[int]:
    values = numbers(text, most)
    if values is None or not all(map(good, values)):
        raise Wrong(name, why)
    return values


def seeds_read(text: str) -> list[int]:
    """5 is 1..5; a list or a range is itself"""
    text = text if set(text) & set(",.") else f"1..{text}"
    return list_read("seeds", text, SEED_MAX,
                     f"should be how many seeds (at most {LIST_MAX}), a list of them, or a range: "
                     "5, 7,11 or 3..9")


def make(of: Set) -> Plan:
    """Every case that the lists come to, once, in the order of the tables; raises Wrong"""
    picks, modes = picks_read(of.strategies), modes_read(of.consistency)
    kills = list_read("kills", of.kills, OUTAGES_MAX,
                      f"should be numbers of kills, each once and at most {OUTAGES_MAX}: 0,1,2")
    workers = list_read("workers", of.workers, WORKERS_MAX,
                        f"should be numbers of workers, each once, from 1 to {WORKERS_MAX}: 1,2,4",
                        lambda value: value > 0)
    seeds = seeds_read(of.seeds)
    back = of.kill_at + of.down + (max(kills) - 1) * (of.again + of.down)
    if max(kills) > 0 and back >= of.seconds:
        raise Wrong("seconds", f"is too short: the server is back from the last of {max(kills)} "
                               f"kills after {back:g} s")
    cases = list(dict.fromkeys(
        Case(strategy, mode, min(count, strategy.kills_max), many)
        for many in workers for count in kills for mode in modes for strategy, own in picks
        if mode in own and min(count, strategy.kills_max) >= strategy.kills_min))
    runs = [Run(case, seed) for seed in seeds for case in cases]
    if not 1 <= len(runs) <= RUNS_MAX:
        raise Wrong("strategies", f"come to {len(runs)} runs with the other lists: 1 to {RUNS_MAX}")
    return Plan(cases, runs)


def schedule(of: Set, strategy: Strategy, kills: int) -> str:
    """The argument of train's --kill; "" without kills"""
    target = "head" if strategy.replicas > 0 else "server0"
    return ",".join(f"{target}@{of.kill_at + i * (of.down + of.again):g}s:down={of.down:g}s"
                    for i in range(kills))


def arguments(of: Set, run: Run, folder: str | None) -> list[str]:
    """The whole command line of a run; folder is that of the report, None: without files"""
    case, strategy = run.case, run.case.strategy
    where = f"dir={folder}/checkpoints," if folder is not None else ""
    checkpoint = f"every={of.checkpoint_every}steps,{where}keep=3"
    values = (
        ("consistency", case.mode),
        ("durability", strategy.durability),
        ("checkpoint", checkpoint if strategy.durability == "checkpoint" else None),
        ("outage", strategy.outage),
        ("restore", strategy.restore),
        ("replay", strategy.replay),
        ("local-progress", strategy.local),
        ("replicas", strategy.replicas or None),
        ("replicate-every", of.checkpoint_every if strategy.periodic else None),
        ("kill", schedule(of, strategy, case.kills)),
        ("workers", case.workers),
        ("servers", 1),
        ("seed", run.seed),
        ("seconds", f"{of.seconds:g}"),
        ("pace", f"{of.pace:g}" if of.pace > 0.0 else None),
        ("eval-seconds", f"{of.eval_seconds:g}"),
        ("model", of.model),
        ("dataset", of.dataset),
        ("final-relu", "true" if of.final_relu else "false"),
        ("lr", f"{of.lr:.17g}"),
        ("batch", of.batch),
        ("transport", of.transport),
        ("address", of.address),
        ("device", of.device),
        ("json", f"{folder}/runs/{run.name}.json" if folder is not None else None),
        ("timeline", f"{folder}/runs/{run.name}.csv" if folder is not None else None),
    )
    return [f"--{name}={value}" for name, value in values if value not in (None, "")]
