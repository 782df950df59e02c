# SPDX-License-Identifier: BSD-3-Clause
"""The published claims, judged by fixed criteria.

"Training Through Failure" (arXiv 2406.05546), claims numbered as the project's study of it does.
The thresholds below were fixed beforehand, and follow from what was published; a row that they
refuse is a result.
"""
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ..claims import NEARLY_EVERY, TRIALS_MIN, Claim, judge_all
from ..runs import NAN
from ..stats import Moments, moments, quantile
from .data import Case, Drill, Outage, Run
from .figures import AVERAGE_OVER
from .tables import case_figure

EARLY_LOSS = 1.5  # test loss before the kill: above it is early
START_MAX_S = 8.0  # published: 3 to 8 s behind the time down
RATE_KEPT = 0.9  # of the rate before, in an outage
RATE_IDLE = 0.1
SURPLUS_TOLERANCE = 0.2  # of outage x rate
FOLDED_MAX = 2.0  # gradients' memory a worker: O(1)
QUEUE_TOLERANCE = 0.1  # of m gradients' memory a worker
QUEUE_TELLING = 10  # gradients a worker in an outage, from which m and O(1) differ
FIRST_ACCURACY = (0.05, 0.22)  # of untrained weights: 0.056 to 0.22 published
LEAP = (0.05, 0.15)  # mean rise of accuracy at an early recovery
BYTES_A_FLOAT, BYTES_A_MB = 4.0, 2.0**20


@dataclass
class Trials:
    """One value each, and how many of them did what is claimed."""
    values: list[float] = field(default_factory=list)
    good: int = 0

    def add(self, value: float, good: bool = True) -> None:
        if not math.isnan(value):
            self.values.append(value)
            self.good += good

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def moments(self) -> Moments:
        return moments(self.values)

    @property
    def mostly(self) -> bool:
        return self.good >= NEARLY_EVERY * self.count


def done(drill: Drill, strategy: str | None = None) -> Iterator[Run]:
    return (run for run in drill.runs
            if run.done and strategy in (None, run.case.strategy.name))


def outages(drill: Drill, strategy: str | None = None) -> Iterator[tuple[Run, Outage]]:
    return ((run, one) for run in done(drill, strategy) for one in run.outages)


def lost_in(run: Run, k: int) -> float:
    """Gradients lost in the k-th outage; from the time line where the report does not say."""
    if not math.isnan(run.outages[k].lost):
        return run.outages[k].lost
    end = run.outages[k + 1].killed_s if k + 1 < len(run.outages) else math.inf
    return run.line.at("lost", end) - run.line.at("lost", run.outages[k].killed_s)


def repeated(drill: Drill, run: Run) -> int:
    """How many of its kills a run with fewer kills has had, too: until its last one that is the same trial."""
    def what(one: Run) -> tuple:
        return one.seed, one.case.consistency, one.case.workers
    return max((other.case.kills for other in done(drill, run.case.strategy.name)
                if other.case.kills < run.case.kills and what(other) == what(run)), default=0)


def rollback(drill: Drill, claim: Claim, strategy: str, of: str) -> tuple[bool, int]:
    """Whether the loss goes up by the steps since the last copy, and of how many recoveries."""
    every = drill.settings["checkpoint_every"]
    loss, lost = Trials(), Trials()
    for run in done(drill, strategy):
        a_step = run.case.workers if run.case.sync else 1
        for k in range(repeated(drill, run), len(run.outages) if run.case.kills > 0 else 0):
            steps = lost_in(run, k) / a_step
            loss.add(run.outages[k].loss_step, run.outages[k].loss_step > 0)
            lost.add(steps, 0 <= steps <= every - 1)
    count = min(loss.count, lost.count)
    if count == 0:
        return False, 0
    m = lost.moments
    # of steps that are equally likely to be any of them
    bound = 2 * math.sqrt((every**2 - 1) / 12) / math.sqrt(lost.count)
    claim.add(f"{of}loss higher in {loss.good} of {loss.count} recoveries (mean "
              f"{loss.moments.mean:+.4f}); steps lost a kill: mean {m.mean:.1f}, {m.low:.0f} to "
              f"{m.high:.0f}, {lost.good} of {lost.count} in range; two standard errors "
              f"{bound:.1f}", between="; ")
    return loss.mostly and lost.mostly and abs(m.mean - (every - 1) / 2) <= bound, count


def judge_rollback(drill: Drill, claim: Claim) -> None:
    """From a checkpoint; and from the copy that a chain had last, where enough of these are."""
    good, count = rollback(drill, claim, "checkpoint", "")
    copied, chains = rollback(drill, claim, "chain-periodic", "periodic chain: ")
    if claim.enough(count, "recoveries from a checkpoint"):
        claim.decide(good and (copied or chains < TRIALS_MIN))


def judge_nothing_lost(drill: Drill, claim: Claim) -> None:
    """An exact claim, so one run against it is enough. Synchronous runs are shown."""
    runs = [run for run in done(drill) if run.case.strategy.stateless and run.case.kills > 0 and
            not math.isnan(run.figure("gradients_queued") + run.figure("gradients_replayed"))]
    of = {mode: [run for run in runs if run.case.consistency == mode] for mode in ("async", "sync")}
    good = {mode: sum(run.figure("gradients_lost") == 0 and
                      run.figure("gradients_queued") == run.figure("gradients_replayed")
                      for run in of[mode]) for mode in of}
    for mode in (mode for mode in of if of[mode]):
        sums = {key: sum(run.figure(f"gradients_{key}") for run in of[mode])
                for key in ("lost", "queued", "replayed", "dropped")}
        claim.add(f"{mode}: lost {sums['lost']:.0f}, queued {sums['queued']:.0f}, replayed "
                  f"{sums['replayed']:.0f}, dropped and counted {sums['dropped']:.0f}; as claimed "
                  f"{good[mode]} of {len(of[mode])} runs", between="; ")
    if good["async"] < len(of["async"]):
        claim.decide(False)
    elif claim.enough(len(of["async"]), "asynchronous stateless runs with kills"):
        if sum(run.figure("gradients_queued") for run in of["async"]) == 0:
            claim.cannot("no gradient was queued")
        else:
            claim.decide(True)


def leap(drill: Drill, strategy: str, early: bool) -> tuple[Trials, Trials]:
    """Steps of loss and accuracy at asynchronous recoveries, early or late ones."""
    loss, accuracy = Trials(), Trials()
    for run, one in outages(drill, strategy):
        if run.case.sync or math.isnan(one.loss_before) or (one.loss_before > EARLY_LOSS) != early:
            continue
        loss.add(one.loss_step, (one.loss_step < 0) == early and one.loss_step != 0)
        accuracy.add(one.accuracy_step, (one.accuracy_step > 0) == early and one.accuracy_step != 0)
    return loss, accuracy


def judge_leap(drill: Drill, claim: Claim, early: bool) -> None:
    """By the published rule; the default rule is shown beside it."""
    falls, rises = ("lower", "higher") if early else ("higher", "lower")
    published = leap(drill, "stateless-published", early)
    for of, (loss, accuracy) in (("published rule", published),
                                 ("default rule", leap(drill, "stateless", early))):
        if loss.count > 0 and accuracy.count > 0:
            m = accuracy.moments
            claim.add(f"{of}: loss {falls} in {loss.good} of {loss.count} (mean "
                      f"{loss.moments.mean:+.4f}), accuracy {rises} in {accuracy.good} of "
                      f"{accuracy.count} (mean {m.mean:+.4f}, {m.low:+.4f} to {m.high:+.4f})",
                      between="; ")
    loss, accuracy = published
    above = "above 1.5" if early else "of at most 1.5"
    if not claim.enough(accuracy.count, f"recoveries by the published rule from a loss {above}"):
        return
    if early:
        claim.decide(loss.mostly and LEAP[0] <= accuracy.moments.mean <= LEAP[1])
    else:
        claim.decide(accuracy.mostly)


def judge_downtime(drill: Drill, claim: Claim) -> None:
    """The time down and a start-up. A chain waits for neither: how long it takes is shown."""
    down, start, chain = drill.settings["down"], Trials(), Trials()
    for run, one in outages(drill):
        if run.case.strategy.replicas > 0:
            chain.add(one.down_s)
        else:
            start.add(one.down_s - down, 0 <= one.down_s - down <= START_MAX_S)
    if start.count > 0:
        claim.add(f"down {down:g} s; behind it until the first gradient applied: median "
                  f"{quantile(start.values, 0.5):.3f} s, most {start.moments.high:.3f} s, "
                  f"{start.count} outages")
    if chain.count > 0:
        claim.add(f"chains, not judged: median {quantile(chain.values, 0.5):.3f} s, most "
                  f"{chain.moments.high:.3f} s in all, {chain.count} outages", between="; ")
    if claim.enough(start.count, "outages"):
        claim.decide(start.mostly)


def judge_utilisation(drill: Drill, claim: Claim) -> None:
    """Workers compute through an outage, or stand still."""
    go, wait = Trials(), Trials()
    for run in done(drill):
        used = run.figure("utilisation")
        # a chain is back before anything that takes a while can be said of its outage
        if run.case.kills == 0 or run.case.strategy.replicas > 0:
            continue
        if run.case.strategy.stateless:
            go.add(used, used >= RATE_KEPT)
        else:
            wait.add(used, used <= RATE_IDLE)
    for of, used_of in (("stateless", go), ("waiting", wait)):
        m = used_of.moments
        if m.count > 0:
            claim.add(f"{of}: mean {m.mean:.3f}, {m.low:.3f} to {m.high:.3f}, {used_of.good} of "
                      f"{used_of.count} as claimed", between="; ")
    if (claim.enough(go.count, "stateless runs with kills") and
            claim.enough(wait.count, "waiting runs with kills")):
        claim.decide(go.mostly and wait.mostly)


def twin(drill: Drill, run: Run, strategy: str) -> Run | None:
    """The same run but for its strategy; None: there is none that is done."""
    def what(one: Run) -> tuple:
        return one.seed, one.case.consistency, one.case.kills, one.case.workers
    return next((other for other in done(drill, strategy) if what(other) == what(run)), None)


def judge_surplus(drill: Drill, claim: Claim) -> None:
    """The surplus is what is computed in the outage, no more."""
    surplus, expected, error = Trials(), Trials(), Trials()
    for run in done(drill, "stateless"):
        other = twin(drill, run, "checkpoint")
        if run.case.kills == 0 or other is None:
            continue
        more = run.figure("gradients_computed") - other.figure("gradients_computed")
        want = run.figure("workers_rate_before") * sum(one.down_s for one in other.outages)
        if not math.isnan(more + want):
            surplus.add(more, more > 0)
            expected.add(want)
            error.add(more - want)
    e, x = error.moments, expected.moments
    if surplus.count > 0:
        claim.add(f"surplus positive in {surplus.good} of {surplus.count} pairs, mean "
                  f"{surplus.moments.mean:.0f}; outage x rate {x.mean:.0f}; mean error "
                  f"{e.mean:+.0f}, two standard errors {2 * e.se:.0f}")
    if claim.enough(surplus.count, "pairs of a stateless and a checkpoint run"):
        claim.decide(surplus.mostly and (abs(e.mean) <= 2 * e.se or
                                         abs(e.mean) <= SURPLUS_TOLERANCE * x.mean))


def judge_memory(drill: Drill, claim: Claim) -> None:
    """As many gradients as are queued, or no more than a constant."""
    folded, each = Trials(), Trials()
    for run in done(drill):
        if not run.case.strategy.stateless or run.case.kills == 0:
            continue
        gradient_mb = run.param_count * BYTES_A_FLOAT / BYTES_A_MB
        held = run.figure("queue_peak_mb") / gradient_mb / run.case.workers
        m = run.figure("gradients_queued") / run.case.workers / run.case.kills
        if not math.isnan(held) and m >= QUEUE_TELLING:
            folded.add(held, held <= FOLDED_MAX)
            each.add(m, abs(held - m) <= QUEUE_TOLERANCE * m)
    if folded.count > 0:
        claim.add(f"queue a worker: most {folded.moments.high:.2f} gradients' memory, with a mean "
                  f"of {each.moments.mean:.0f} gradients queued in an outage; constant in "
                  f"{folded.good}, in proportion in {each.good} of {folded.count} runs")
    if claim.enough(folded.count, "stateless runs that queued ten gradients a worker"):
        claim.decide(folded.mostly or each.mostly)


def two_kills(drill: Drill, strategy: str) -> Moments:
    return moments(run.figure("test_accuracy") for run in done(drill, strategy)
                   if run.case.kills == 2)


def judge_two_kills(drill: Drill, claim: Claim) -> None:
    """What a restore that does not restore does, and whether one that does still lags."""
    fault = Trials()
    for _, one in outages(drill, "checkpoint-norestore"):
        fault.add(one.accuracy_after, FIRST_ACCURACY[0] <= one.accuracy_after <= FIRST_ACCURACY[1])
    if fault.count > 0:
        a, b, c = (two_kills(drill, name)
                   for name in ("checkpoint", "checkpoint-norestore", "stateless"))
        ends = "".join(f", {name} {one.mean:.4f}" for name, one in
                       (("checkpoint", a), ("without restore", b), ("stateless", c)) if one.count)
        claim.add(f"without restore accuracy after the kill is {fault.moments.mean:.3f} on "
                  f"average, {fault.good} of {fault.count} in range" +
                  (f"; at the end of two kills: {ends[2:]}" if ends else ""))
        if a.count > 1 and c.count > 1:
            noise = 2 * math.hypot(a.se, c.se)
            lags = ("still lags" if c.mean - a.mean > noise else
                    "does not lag beyond seed noise")
            claim.add(f"; with a correct restore checkpointing {lags} (difference "
                      f"{a.mean - c.mean:+.4f}, two standard errors {noise:.4f})")
    if claim.enough(fault.count, "recoveries without a restore"):
        claim.decide(fault.mostly)


def accuracy_at(run: Run, applied: float) -> float:
    """Mean of the last five evaluations until so many gradients are in the weights."""
    by_then = run.line.at("applied", run.evals.t) <= applied
    return moments(run.evals.accuracy[by_then][-AVERAGE_OVER:]).mean


def comparable(a: Case, b: Case) -> bool:
    return (not a.strategy.fault and not b.strategy.fault and
            (a.consistency, a.workers) == (b.consistency, b.workers) and
            (a.kills == b.kills or 0 in (a.strategy.kills_max, b.strategy.kills_max)))


def apart(drill: Drill, a: Case, b: Case) -> tuple[float, float]:
    """How much more accurate a is than b, at as many gradients as the shortest run of either has;
    and the noise. nan: too few runs."""
    least = moments(case_figure(drill, one, "gradients_applied").low for one in (a, b)).low
    x, y = (moments(accuracy_at(run, least) for run in drill.of(one)) for one in (a, b))
    if min(x.count, y.count) < TRIALS_MIN:
        return NAN, NAN
    return x.mean - y.mean, 2 * math.hypot(x.se, y.se)


def judge_final(drill: Drill, claim: Claim) -> None:
    """All pairs of methods."""
    pairs, beyond, better, most = 0, 0, 0, 0.0
    for i, a in enumerate(drill.cases):
        for b in drill.cases[:i]:
            more, noise = apart(drill, a, b) if comparable(a, b) else (NAN, NAN)
            if math.isnan(more):
                continue
            pairs += 1
            beyond += abs(more) > noise
            better += abs(more) > noise and (a if more > 0 else b).strategy.stateless
            most = max(most, abs(more))
    if pairs == 0:
        claim.cannot(f"no two methods have {TRIALS_MIN} seeds each")
        return
    claim.add(f"{pairs} pairs of methods, {beyond} apart by more than two standard errors, in "
              f"{better} of them a stateless one is ahead; the widest is {most:.4f} apart")
    claim.decide(pairs - beyond >= NEARLY_EVERY * pairs)


Judge = Callable[[Drill, Claim], None]

CLAIMS: tuple[tuple[str, str, str, Judge], ...] = (
    ("R2", "recovery from a checkpoint, or from a chain's last copy, costs the steps since it",
     "loss after > loss before in at least 90 % of recoveries; steps lost a kill within 0 and the "
     "interval - 1 in at least 90 %, and their mean within two standard errors of half of that; a "
     "kill that runs of one seed have in common counts once",
     judge_rollback),
    ("R3", "the stateless mode loses nothing",
     "in every asynchronous stateless run with kills (no other was published; synchronous ones are "
     "shown): lost = 0, and queued = replayed. That the weights are the same bits is for the tests "
     "to show", judge_nothing_lost),
    ("R4, early", "at an early kill the queue's sum, applied by the published rule, is a leap",
     "asynchronous kills at a loss above 1.5: loss after < loss before in at least 90 % of "
     "recoveries, and accuracy rises by 0.05 to 0.15 on average",
     lambda drill, claim: judge_leap(drill, claim, True)),
    ("R4, late", "at a late kill the published rule is an over-step",
     "asynchronous kills at a loss of at most 1.5: accuracy after < accuracy before in at least "
     "90 % of recoveries", lambda drill, claim: judge_leap(drill, claim, False)),
    ("R5", "an outage lasts for the time down and a start-up",
     "first gradient applied 0 to 8 s (published: 3 to 8 s) behind the time down in at least 90 % "
     "of outages", judge_downtime),
    ("R6", "stateless workers compute through an outage, others stand still",
     "rate in the outage / rate before at least 0.9 in 90 % of the stateless runs, and at most 0.1 "
     "in 90 % of the waiting ones", judge_utilisation),
    ("R7", "the stateless mode computes more gradients, by outage x rate and not by five times",
     "against checkpoint, same seed: more in at least 90 % of pairs; surplus less outage x rate, "
     "on average, within two standard errors of 0 or within 20 %", judge_surplus),
    ("R8", "the queue's memory is m gradients, or constant if they are summed",
     "peak a worker at most 2 gradients' memory (constant), or within 10 % of the m queued in an "
     "outage, in at least 90 % of the stateless runs", judge_memory),
    ("R9", "the published gap after two kills comes from a restore that was left out",
     "without restore accuracy after the kill is that of untrained weights, 0.05 to 0.22 with ten "
     "classes, in at least 90 % of recoveries; whether a correct restore lags is shown",
     judge_two_kills),
    ("R10", "no method is better at equal gradients applied",
     "mean accuracy of any two methods (same consistency, kills and workers; none against all) "
     "within two standard errors, in at least 90 % of pairs; five seeds each", judge_final),
)


def all_claims(drill: Drill) -> list[Claim]:
    return judge_all(CLAIMS, drill)
