# SPDX-License-Identifier: BSD-3-Clause
"""Runs that do what was published, made up; a test changes what it is about."""
import numpy as np

from report.kills.data import Case, Drill, Evals, Outage, Run, Strategy
from report.runs import Line

NAN = float("nan")

STRATEGIES = [
    Strategy(name, f"what {name} does", index, replicas=3 if name == "chain" else 0,
             kills_max=0 if name == "none" else 16, stateless=name.startswith("stateless"),
             fault=name == "checkpoint-norestore")
    for index, name in enumerate(("none", "checkpoint", "checkpoint-norestore", "stateless",
                                  "stateless-published", "mirror", "chain"))]


def case(name: str, consistency: str = "async", kills: int = 2, workers: int = 1) -> Case:
    strategy = next(one for one in STRATEGIES if one.name == name)
    kills = min(kills, strategy.kills_max)
    return Case(f"{name}-{consistency}-k{kills}-w{workers}", strategy, consistency, kills, workers)


def outage(of: Case, seed: int, k: int) -> Outage:
    """The first kill is an early one, the second a late one."""
    early, published = k == 0, of.strategy.name == "stateless-published"
    before, accuracy = (2.0, 0.5) if early else (1.0, 0.7)
    return Outage(
        killed_s=20.0 + 20.0 * k, first_applied_s=30.5 + 20.0 * k + 0.1 * seed,
        loss_before=before, loss_after=before + (-0.1 if of.strategy.stateless else 0.1),
        accuracy_before=accuracy,
        accuracy_after=0.1 if of.strategy.fault else
        accuracy + (0.1 if early else -0.1) * published)


def run(of: Case, seed: int) -> Run:
    # 7 to 91 each time: on average 49, as if any step were as likely as another
    first = 7.0 + 12.0 * seed
    checkpoint, goes = of.strategy.name == "checkpoint", of.strategy.stateless or of.kills == 0
    lost = [0.0, first, 98.0, 98.0] if checkpoint else [0.0] * 4
    queued = 200.0 if of.strategy.stateless else 0.0
    accuracy = 0.75 + 0.001 * seed
    return Run(
        of, f"{of.name}-s{seed + 1}", seed + 1, "done",
        figures={
            "test_accuracy": accuracy, "gradients_applied": 1000.0,
            "gradients_lost": 98.0 if checkpoint else 0.0, "workers_rate_before": 10.0,
            "utilisation": 0.98 if goes else 0.02, "gradients_dropped": 0.0,
            "gradients_computed": 1000.0 if goes else 1000.0 - 20.0 * (10.5 + 0.1 * seed),
            "gradients_queued": queued, "gradients_replayed": queued, "queue_peak_mb": 1.0,
            "downtime_s": NAN if of.kills == 0 else 10.5 + 0.1 * seed},
        outages=[outage(of, seed, k) for k in range(of.kills)],
        evals=Evals(40.0 + 10.0 * np.arange(6), np.full(6, accuracy), np.ones(6)),
        line=Line(np.array([0.0, 25.0, 45.0, 100.0]),
                  {"applied": np.array([0.0, 250.0, 350.0, 1000.0]), "lost": np.array(lost)}),
        param_count=262144.0)  # one MB


def drill(cases: list[Case], seeds: int = 8) -> Drill:
    settings = {"down": 10.0, "checkpoint_every": 100, "price_server": 3.6, "price_worker": 1.8}
    return Drill("outlast drill", settings, STRATEGIES, cases,
                 [run(one, seed) for seed in range(seeds) for one in cases])
