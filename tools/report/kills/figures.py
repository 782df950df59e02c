# SPDX-License-Identifier: BSD-3-Clause
"""What a run comes to: the columns of the tables, and how each is computed."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..runs import NAN, number
from ..stats import moments

if TYPE_CHECKING:
    from .data import Evals, Run

BYTES_A_MB = 2.0**20
ACCURACY_WANTED = 0.70
AVERAGE_OVER = 5  # evaluations: as the published times to an accuracy
DUE_MIN = 10  # gradients due in the outages of a run; fewer make no rate

TABLES = ("Training", "Around a kill", "Gradients", "Resources")


@dataclass(frozen=True)
class Figure:
    key: str  # in CSV and JSON, unit last
    head: str  # of a column for people
    what: str
    digits: int  # behind the point
    table: int  # which of TABLES


FIGURES = (
    Figure("test_accuracy", "accuracy", "test accuracy at the end", 4, 0),
    Figure("test_loss", "loss", "test loss at the end", 4, 0),
    Figure("time_to_070_s", "s to 0.70",
           "seconds until the mean of five evaluations is at accuracy 0.70", 1, 0),
    Figure("gradients_per_s", "gradients/s",
           "gradients a second of all workers, over the whole run", 1, 0),
    Figure("loss_before", "loss before", "test loss of the last weights before the kill", 4, 1),
    Figure("loss_after", "after", "test loss of the first weights after the recovery", 4, 1),
    Figure("loss_difference", "difference", "loss after less loss before", 4, 1),
    Figure("accuracy_difference", "accuracy diff.", "accuracy after less accuracy before", 4, 1),
    Figure("downtime_s", "downtime s", "from the kill to the first gradient applied after it", 2,
           1),
    Figure("detect_ms", "detect ms", "from the kill until the first worker noticed", 2, 1),
    Figure("recover_ms", "recover ms",
           "from the server being up again to the first gradient applied", 1, 1),
    Figure("gradients_computed", "computed", "gradients computed", 0, 2),
    Figure("gradients_applied", "applied", "gradients in the weights at the end", 0, 2),
    Figure("gradients_queued", "queued", "gradients that waited in a queue", 0, 2),
    Figure("gradients_replayed", "replayed", "of those applied: came out of a queue", 0, 2),
    Figure("gradients_dropped", "dropped",
           "dropped by a rule, and counted: late, not finite, queue full", 0, 2),
    Figure("gradients_lost", "lost",
           "were applied or on their way when the server came back without them", 0, 2),
    Figure("workers_rate_before", "rate before",
           "gradients a second of all workers before the kill", 1, 2),
    Figure("workers_rate_outage", "in outage",
           "gradients a second of all workers during the outage; not known where fewer than 10 "
           "were due", 1, 2),
    Figure("utilisation", "utilisation", "rate in the outage / rate before", 3, 2),
    Figure("server_cores", "server cores",
           "processor cores that the servers use, mean over the run", 3, 3),
    Figure("worker_cores", "worker cores",
           "processor cores that the workers use, mean over the run", 3, 3),
    Figure("server_peak_mb", "server MB", "memory of the servers, at most; MB is 2^20 bytes", 1, 3),
    Figure("worker_peak_mb", "worker MB", "memory of the workers, at most", 1, 3),
    Figure("queue_peak_mb", "queue MB", "memory of the queues of gradients, at most", 2, 3),
    Figure("moved_mb", "moved MB", "bytes that the servers took in", 1, 3),
    Figure("cost", "cost", "price of all roles for the time of the run", 6, 3),
    Figure("cost_to_070", "cost to 0.70", "price until accuracy 0.70", 6, 3),
)

AS_REPORTED = ("test_accuracy", "test_loss", "gradients_per_s", "gradients_computed",
               "gradients_applied", "gradients_queued", "gradients_dropped", "gradients_replayed",
               "gradients_lost", "workers_rate_before")


def accuracy_time(evals: Evals, wanted: float = ACCURACY_WANTED) -> float:
    """The time of the first five evaluations whose mean is there; nan: never."""
    if evals.t.size < AVERAGE_OVER:
        return NAN
    means = np.convolve(evals.accuracy, np.ones(AVERAGE_OVER), "valid") / AVERAGE_OVER
    there = np.flatnonzero(means >= wanted)
    return float(evals.t[AVERAGE_OVER - 1 + there[0]]) if there.size > 0 else NAN


def listed(report: dict[str, Any], key: str) -> float:
    """Mean of a list in which a null is not known."""
    values = report.get(key) or []
    return moments(number({"value": value}, "value") for value in values).mean


def outage_figures(run: Run) -> dict[str, float]:
    means = {"loss_before": "loss_before", "loss_after": "loss_after",
             "loss_difference": "loss_step", "accuracy_difference": "accuracy_step",
             "downtime_s": "down_s"}
    return {key: moments(getattr(one, what) for one in run.outages).mean
            for key, what in means.items()}


def rate_figures(run: Run, report: dict[str, Any]) -> dict[str, float]:
    """Outages that are over before DUE_MIN gradients were due say nothing of a rate in them."""
    before, outage = number(report, "workers_rate_before"), number(report, "workers_rate_outage")
    down_s = sum(one.down_s for one in run.outages if not math.isnan(one.down_s))
    if not down_s * before >= DUE_MIN:
        outage = NAN
    return {"workers_rate_outage": outage, "utilisation": outage / before if before else NAN}


def line_figures(run: Run, report: dict[str, Any]) -> dict[str, float]:
    queue = (number(report, "queue_bytes_max") / BYTES_A_MB, run.line.highest("queue_mb"))
    return {
        "server_cores": run.line.mean("server_cpu"),
        "worker_cores": run.line.mean("worker_cpu"),
        "server_peak_mb": run.line.highest("server_rss_mb"),
        "worker_peak_mb": run.line.highest("worker_rss_mb"),
        "queue_peak_mb": moments(queue).high,
        "moved_mb": run.line.at("bytes_in", math.inf) / BYTES_A_MB,
    }


def cost_figures(run: Run, report: dict[str, Any], settings: dict[str, Any]) -> dict[str, float]:
    replicas = number(report, "replicas")
    servers = number(report, "servers") * (1.0 if math.isnan(replicas) else replicas)
    a_second = (servers * settings["price_server"] +
                run.case.workers * settings["price_worker"]) / 3600.0
    to_accuracy = accuracy_time(run.evals)
    return {"time_to_070_s": to_accuracy, "cost": a_second * number(report, "wall_s"),
            "cost_to_070": a_second * to_accuracy}


def run_figures(run: Run, report: dict[str, Any], settings: dict[str, Any]) -> dict[str, float]:
    return {
        **{key: number(report, key) for key in AS_REPORTED},
        "detect_ms": listed(report, "detect_ms"),
        "recover_ms": listed(report, "recover_ms"),
        **outage_figures(run),
        **rate_figures(run, report),
        **line_figures(run, report),
        **cost_figures(run, report, settings),
    }
