# SPDX-License-Identifier: BSD-3-Clause
"""The published runs beside runs of the same protocol.

"Training Through Failure" (arXiv 2406.05546) made each run once, on a laptop; the figures are from
its logs (figures 4 and 5: accuracy; 6: processors; 7: memory; 8: gradients). A published value and
ours agree if it is in the 95 % prediction interval of our seeds: that of one run more.
"""
import functools
import math
import pathlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..claims import NEARLY_EVERY, TRIALS_MIN, Claim, judge_all
from ..out import Draw, Table
from ..pictures import COLOURS, Figure, save
from ..runs import NAN, last_by
from ..stats import moments, prediction, ratio
from .data import Drill, Run
from .figures import accuracy_time
from .judge import Judge
from .plots import many

PROTOCOL = {"seconds": 240.0, "kill_at": 30.0, "down": 20.0, "again": 30.0, "model": "cnn",
            "dataset": "fashion-mnist", "final_relu": True, "lr": 0.01, "batch": 32,
            "checkpoint_every": 100, "eval_seconds": 2.0}
PACES = (5.0, 25.0)  # of a worker that makes its data set anew for each gradient, and of the stateless one
LAST = 10  # evaluations
AROUND_S = (190.0, 210.0)
COUNTED_S = 209.0  # from the first sample to the last of figure 8
SAME_COST = 0.05
SAME_COUNT = 0.1  # a paced worker has no spread of its own
POINTS = 241


def case_name(strategy: str, consistency: str, kills: int) -> str:
    """Of ours, that are the same method; the published runs had one worker"""
    return f"{strategy}-{consistency}-k{kills}-w1"


@dataclass(frozen=True)
class Row:
    """One published run; nan: not reached, or not known."""
    strategy: str  # of ours, that is the same method
    consistency: str
    kills: int
    to_060_s: float
    to_070_s: float
    to_075_s: float
    at_200: float  # mean accuracy of 190 to 210 s
    last: float  # mean accuracy of the last ten evaluations
    best: float
    steps: tuple[float, ...]  # of accuracy, at each kill
    same: bool = True  # until the end; else until the second kill

    @property
    def name(self) -> str:
        return case_name(self.strategy, self.consistency, self.kills)


# After the first of two kills the published checkpointing began with first weights, after the second with its checkpoint;
# ours without a restore begins with first weights twice.
ROWS = (
    Row("checkpoint", "sync", 1, 74, 122, 178, 0.760, 0.766, 0.779, (-0.056,)),
    Row("checkpoint", "async", 1, 97, 125, 209, 0.745, 0.749, 0.765, (-0.067,)),
    Row("chain-periodic", "sync", 1, 82, 105, 192, 0.753, 0.756, 0.771, (-0.090,)),
    Row("chain-periodic", "async", 1, 88, 179, NAN, 0.721, 0.721, 0.764, (0.014,)),
    Row("stateless-published", "async", 1, 107, NAN, NAN, 0.664, 0.665, 0.714, (0.145,)),
    Row("checkpoint-norestore", "sync", 2, 123, 155, NAN, 0.729, 0.735, 0.755, (-0.276, -0.037),
        False),
    Row("checkpoint-norestore", "async", 2, 119, 148, 208, 0.744, 0.744, 0.761, (-0.232, -0.001),
        False),
    Row("chain-periodic", "sync", 2, 94, 139, 208, 0.742, 0.746, 0.761, (-0.014, -0.052)),
    Row("chain-periodic", "async", 2, 58, 103, 176, 0.761, 0.762, 0.776, (-0.025, -0.063)),
    Row("stateless-published", "async", 2, 71, 113, 178, 0.743, 0.746, 0.769, (0.054, 0.060)),
)


@dataclass(frozen=True)
class Resources:
    """Of figures 6 and 7 (two kills) and 8 (one kill)."""
    strategy: str
    consistency: str
    cores: float  # mean over the run
    memory_mb: float  # at most
    gradients: float  # after 209 s


RESOURCES = (
    Resources("checkpoint", "sync", 1.68, 78, 952),
    Resources("checkpoint", "async", 1.95, 85, 1070),
    Resources("chain-periodic", "sync", 1.66, 94, 1048),
    Resources("chain-periodic", "async", 1.67, 98, 1027),
    Resources("stateless-published", "async", 7.79, 745, 5260),
)


def applies(drill: Drill) -> bool:
    """These runs have the published protocol."""
    return (all(drill.settings.get(key) == value for key, value in PROTOCOL.items()) and
            drill.settings.get("pace") in PACES)


def around(run: Run) -> float:
    first, end = AROUND_S
    inside = (run.evals.t >= first) & (run.evals.t <= end)
    return moments(run.evals.accuracy[inside]).mean


def step(run: Run, k: int) -> float:
    return run.outages[k].accuracy_step if k < len(run.outages) else NAN


@dataclass(frozen=True)
class Value:
    """What is compared."""
    head: str
    digits: int
    published: Callable[[Row], float]
    ours: Callable[[Run], float]
    reached: bool = False  # nan: not within the run, and not unknown
    early: bool = False  # known before the second kill


VALUES = (
    Value("s to 0.60", 0, lambda row: row.to_060_s, lambda run: accuracy_time(run.evals, 0.60), True),
    Value("s to 0.70", 0, lambda row: row.to_070_s, lambda run: accuracy_time(run.evals, 0.70), True),
    Value("s to 0.75", 0, lambda row: row.to_075_s, lambda run: accuracy_time(run.evals, 0.75), True),
    Value("at 200 s", 3, lambda row: row.at_200, around),
    Value("last ten", 3, lambda row: row.last,
          lambda run: moments(run.evals.accuracy[-LAST:]).mean),
    Value("best", 3, lambda row: row.best, lambda run: moments(run.evals.accuracy).high),
    Value("step at kill 1", 3, lambda row: row.steps[0], lambda run: step(run, 0), early=True),
    Value("at kill 2", 3, lambda row: row.steps[1] if row.kills > 1 else NAN,
          lambda run: step(run, 1)),
)


def span(values: Iterable[float], digits: int, none: str = "-") -> str:
    m = moments(values)
    return none if m.count == 0 else f"{m.low:.{digits}f} to {m.high:.{digits}f}"


@dataclass(frozen=True)
class Beside:
    """A published value, and ours."""
    row: Row
    value: Value
    published: float
    ours: list[float]

    @property
    def known(self) -> bool:
        return self.value.reached or not math.isnan(self.published)

    @property
    def judged(self) -> bool:
        return (self.known and len(self.ours) >= TRIALS_MIN and
                (self.row.same or self.value.early))

    @property
    def agrees(self) -> bool:
        """A time that was not reached agrees if one of ours was not either; ours then count as the whole run."""
        if math.isnan(self.published):
            return any(map(math.isnan, self.ours))
        late = PROTOCOL["seconds"] if self.value.reached else NAN
        of = prediction(late if math.isnan(one) else one for one in self.ours)
        return of.low <= self.published <= of.high

    def text(self) -> str:
        if not self.known:
            return "-"
        digits, missing = self.value.digits, sum(map(math.isnan, self.ours))
        what = "-" if math.isnan(self.published) else f"{self.published:.{digits}f}"
        own = span(self.ours, digits, none="never" if self.value.reached else "-")
        if 0 < missing < len(self.ours):
            own += f", {missing} never"
        return f"{what} ({own}){' !' if self.judged and not self.agrees else ''}"


def runs_of(drill: Drill, name: str) -> list[Run]:
    return [run for case in drill.cases if case.name == name for run in drill.of(case)]


def resources(drill: Drill) -> Iterator[tuple[Resources, int, list[Run]]]:
    """Those of our runs, by their number of kills"""
    for one in RESOURCES:
        for kills in (1, 2):
            runs = runs_of(drill, case_name(one.strategy, one.consistency, kills))
            if runs:
                yield one, kills, runs


def rows(drill: Drill) -> Iterator[tuple[Row, list[Beside]]]:
    for row in ROWS:
        runs = runs_of(drill, row.name)
        if runs:
            yield row, [Beside(row, value, value.published(row), [value.ours(run) for run in runs])
                        for value in VALUES]


def gradients(run: Run) -> float:
    """Processed: those that were lost later, too."""
    return run.line.at("applied", COUNTED_S) + run.line.at("lost", COUNTED_S)


def judge_accuracy(drill: Drill, claim: Claim) -> None:
    all_of = [one for _, values in rows(drill) for one in values if one.judged]
    agreed = sum(one.agrees for one in all_of)
    if claim.enough(len(all_of), "values of published methods"):
        claim.add(f"{agreed} of {len(all_of)} in it; outside: " +
                  ("; ".join(f"{one.row.name[:-3]} {one.value.head} {one.text()}"
                             for one in all_of if not one.agrees) or "none"))
        claim.decide(agreed >= NEARLY_EVERY * len(all_of))


def times(drill: Drill, strategy: str) -> dict[int, float]:
    """Seconds to 0.70 with two kills, asynchronous, by seed; the whole run where it is not reached."""
    of = {run.seed: run.figure("time_to_070_s")
          for run in runs_of(drill, case_name(strategy, "async", 2))}
    return {seed: PROTOCOL["seconds"] if math.isnan(s) else s for seed, s in of.items()}


def judge_longer(drill: Drill, claim: Claim) -> None:
    """With a restore that restores; the published fault is shown."""
    others = [times(drill, name) for name in ("chain-periodic", "stateless-published")]
    sure = False
    for name, of in (("checkpoint", "with its restore"), ("checkpoint-norestore", "without")):
        own = times(drill, name)
        seeds = sorted(set(own).intersection(*others))
        if not claim.enough(len(seeds), "seeds of checkpoint, chain-periodic and "
                                        "stateless-published with two kills"):
            return
        longer = ratio([own[seed] for seed in seeds],
                       [moments(one[seed] for one in others).mean for seed in seeds])
        claim.add(f"{of} {longer.mean:.2f} times as long ({longer.low:.2f} to {longer.high:.2f})",
                  between="; ")
        sure = sure or (name == "checkpoint" and longer.low > 1)
    claim.decide(sure)


def judge_gradients(drill: Drill, claim: Claim) -> None:
    """Figure 8 is of runs with one kill, whatever its caption says."""
    agreed, count = 0, 0
    for one, kills, runs in resources(drill):
        if len(runs) < TRIALS_MIN:
            continue
        m = moments(map(gradients, runs))
        claim.add(f"{one.strategy} {one.consistency}, {kills}: {one.gradients:.0f} "
                  f"({m.low:.0f} to {m.high:.0f})", between="; ")
        if kills == 1:
            count += 1
            agreed += abs(one.gradients - m.mean) <= SAME_COUNT * m.mean
    if claim.enough(count, "methods with one kill", least=1):
        claim.decide(agreed == count)


def judge_cost(drill: Drill, claim: Claim) -> None:
    costs = {case.name: moments(run.figure("cost") for run in drill.of(case)).mean
             for case in drill.cases if case.kills > 0 and drill.of(case)}
    base = [cost for name, cost in costs.items() if name.startswith("checkpoint-")]
    missing = {row.strategy for row in ROWS if row.same and not any(
        name.startswith(f"{row.strategy}-{row.consistency}-") for name in costs)}
    if missing or sum(base) <= 0:
        claim.cannot(f"no run of {', '.join(sorted(missing))}" if missing else "they have no price")
        return
    over = {name: cost / base[0] for name, cost in costs.items()}
    apart = {name: x for name, x in over.items() if abs(x - 1) > SAME_COST}
    claim.add(f"{len(over) - len(apart)} of {len(over)} cases cost the same" +
              "".join(f"; {name[:-3]} {x:.2f} times" for name, x in apart.items()))
    claim.decide(not apart)


CLAIMS: tuple[tuple[str, str, str, Judge], ...] = (
    ("Figures 4, 5", "the published accuracy is that of one run more of ours",
     "times to 0.60, 0.70 and 0.75, accuracy at 200 s, at the end, at best, and its step at each "
     "kill: the published value is in the 95 % prediction interval of our seeds in at least 90 % of them; a "
     "time that was not reached agrees if one of ours was not", judge_accuracy),
    ("C3", "after two kills checkpointing takes longer to an accuracy of 0.70",
     "with its restore, against the mean of chain and stateless, same seeds: the 95 % interval of "
     "the ratio is above 1", judge_longer),
    ("Figure 8", "as many gradients in 209 s",
     "one kill: the published number is within 10 % of our mean, of each method; two kills are shown",
     judge_gradients),
    ("C7", "all methods cost the same", "the mean cost of a run is within 5 % of that of "
     "checkpointing, a machine for each role", judge_cost),
)


def all_claims(drill: Drill) -> list[Claim]:
    return judge_all(CLAIMS, drill) if applies(drill) else []


def markdown(drill: Drill) -> str:
    accuracy = Table(["method", "kills", *(value.head for value in VALUES)],
                     [[f"{row.strategy} {row.consistency}", str(row.kills),
                       *(one.text() for one in values)] for row, values in rows(drill)])
    used = Table(["method", "kills", "cores", "memory MB", "queue MB", "gradients in 209 s"])
    for one, kills, runs in resources(drill):
        cores = span((run.figure("server_cores") + run.figure("worker_cores") for run in runs), 2)
        memory = span((run.figure("server_peak_mb") + run.figure("worker_peak_mb")
                       for run in runs), 0)
        published = ((f"{one.cores:.2f}", f"{one.memory_mb:.0f}", "-") if kills == 2 else
                     ("-", "-", f"{one.gradients:.0f}"))
        used.rows.append([
            f"{one.strategy} {one.consistency}", str(kills), f"{published[0]} ({cores})",
            f"{published[1]} ({memory})", span((run.figure("queue_peak_mb") for run in runs), 1),
            f"{published[2]} ({span(map(gradients, runs), 0)})"])
    return ("# The published runs, and these\n\nEach published run was made once; in brackets are "
            "these, least to most of the seeds. A `!` stands where the published value is outside "
            "of the 95 % prediction interval of these, five at least. `-`: not reached, or not known. "
            "checkpoint-norestore with two kills: the published run did restore at the second, so "
            "nothing behind it is judged.\n\n"
            f"## Accuracy (figures 4 and 5)\n\n{accuracy.markdown()}\n"
            f"## Resources (figures 6, 7 and 8)\n\n{used.markdown()}\n"
            "Cores and memory cannot be compared: theirs are those of a laptop of ten cores "
            "and of an object store, ours those of the processes.\n")


def draw(drill: Drill, kills: int, path: pathlib.Path) -> None:
    shown = [(row, runs_of(drill, row.name)) for row, _ in rows(drill) if row.kills == kills]
    figure = Figure(figsize=(5.0 * len(shown), 4.4))
    t = np.linspace(0.0, PROTOCOL["seconds"], POINTS)
    for i, (row, runs) in enumerate(shown):
        axes = figure.add_subplot(1, len(shown), i + 1)
        for run in runs:
            axes.plot(t, last_by(run.evals.t, run.evals.accuracy, t), color=COLOURS[0],
                      linewidth=0.8)
        axes.plot([row.to_060_s, row.to_070_s, row.to_075_s, 200.0],
                  [0.60, 0.70, 0.75, row.at_200], "x", color="black", markersize=9)
        axes.set_ylim(0, 1)
        axes.set_xlim(0, PROTOCOL["seconds"])
        axes.set_xlabel("seconds")
        axes.set_title(f"{row.strategy} {row.consistency}", fontsize=11)
        if i == 0:
            axes.set_ylabel("test accuracy")
    figure.suptitle(f"{many(kills, 'kill')}: ours, a line a seed, and published values (crosses)",
                    fontsize=12)
    save(figure, path)


def pictures(drill: Drill) -> dict[str, Draw]:
    found = {row.kills for row, _ in rows(drill)} if applies(drill) else set()
    return {f"published-k{kills}": functools.partial(draw, drill, kills) for kills in sorted(found)}


def files(drill: Drill) -> dict[str, str]:
    return {"published.md": markdown(drill)} if applies(drill) else {}
