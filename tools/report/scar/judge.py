# SPDX-License-Identifier: BSD-3-Clause
"""The published claims, judged by fixed criteria.

"Fault Tolerance in Iterative-Convergent Machine Learning" (arXiv 1810.07354), claims numbered as
the project's study of it does. The thresholds below were fixed beforehand.
"""
import math
from collections.abc import Callable

from scipy.special import ndtri

from ..claims import Claim, judge_all
from ..stats import normal
from .data import CLAIMED, HALF, Part, Study, Table

TRIALS_MIN = 100  # fewer decide nothing
PUSHES_MIN = 1000
TIGHT = (0.8, 1.2)  # cost / bound of adversarial perturbations
BYTES_TOLERANCE = 0.01
VERY_SURE = 0.999  # where many are judged, one by one
# published reductions by partial recovery, of 1/4, 1/2 and 3/4 lost
PUBLISHED = ((0.59, 0.89), (0.31, 0.62), (0.12, 0.42))


def enough(study: Study, claim: Claim) -> bool:
    if study.trials >= TRIALS_MIN:
        return True
    claim.cannot(f"{study.trials} trials, and a verdict takes {TRIALS_MIN}")
    return False


def silent(study: Study, claim: Claim) -> None:
    """Problems that are not judged by"""
    names = [part.problem for part in study.parts if not part.tells]
    if names:
        claim.add(f". Not judged by: {', '.join(names)}, which would do as well with nothing "
                  "saved: lost blocks that begin as at first may cost as much less as is claimed")


def tightness(value: float | None) -> float:
    return math.nan if value is None else value


def judge_bound(study: Study, claim: Claim) -> None:
    b, other = study.bounds
    count, above = (sum(getattr(push, key) for push in b.pushes) for key in ("count", "above"))
    far, far_above, far_measured = (sum(getattr(push, key) for push in other.pushes)
                                    for key in ("count", "above", "above_measured"))
    tight = {push.name: tightness(push.tight) for push in b.pushes}
    claim.add(f"c = {b.rate:.4f} ({b.rate_min:.4f} at least), {count} perturbations, {above} above "
              f"bound + 1, worst {max(push.worst for push in b.pushes):+.2f}; cost / bound: "
              f"adversarial {tight['adversarial']:.2f}, random {tight['random']:.2f}, reset "
              f"{tight['reset']:.2f}. A run that is faster at first (c = {other.rate:.4f}, "
              f"{other.rate_min:.4f} at least): {far_above} of {far} above, {far_measured} by "
              "distances as measured")
    if count < PUSHES_MIN:
        claim.cannot("fewer than 1,000 perturbations")
    else:
        claim.decide(above == 0 and TIGHT[0] <= tight["adversarial"] <= TIGHT[1])


def judge_norm(study: Study, claim: Claim) -> None:
    sure, within, longer, failures = float(ndtri((1 + VERY_SURE) / 2)), True, 0, 0
    for part in study.parts:
        for i, norm in enumerate(part.norms):
            claim.add(f"{part.problem if i == 0 else 'p ='} {norm.lost:.3f}: {norm.ratio:.3f}",
                      between=", ")
            half = sure * norm.sd / math.sqrt(norm.failures)
            within = within and abs(norm.ratio - norm.lost) <= half
            longer, failures = longer + norm.longer, failures + norm.failures
    claim.add(f"; {longer} of {failures} further")
    claim.decide(longer == 0 and within)


def judge_partial(study: Study, claim: Claim) -> None:
    reached, count, grows = 0, 0, True
    for part in study.telling:
        for table in part.tables:
            less = [table.less("full", 1, loss) for loss in range(len(PUBLISHED))]
            claim.add(f"{part.problem} C={table.period}: " +
                      ", ".join(f"{100 * one.mean:.0f}" for one in less) + " %", between="; ")
            grows = grows and all(a.mean > b.mean for a, b in zip(less, less[1:]))
            reached += sum(one.high >= low for one, (low, _) in zip(less, PUBLISHED))
            count += len(less)
    claim.add(f": {reached} of {count} reach the range or pass it")
    silent(study, claim)
    if enough(study, claim):
        claim.decide(grows and 0 < count == reached)


def order_of(table: Table, part: int) -> tuple[bool, bool, bool]:
    """Of one C and r, half lost: both orders hold by means; one is refuted; random costs more than
    full recovery."""
    first, second, third = (table.costs(name, part, HALF)
                            for name in ("priority", "round-robin", "random"))

    def more(a: list[float], b: list[float]):
        return normal(x - y for x, y in zip(a, b, strict=True))

    steps = more(second, first), more(third, second)
    return (all(step.mean >= 0 for step in steps), any(step.high < 0 for step in steps),
            more(third, table.full).mean > 0)


def judge_order(study: Study, claim: Claim) -> None:
    orders = [order_of(table, scheme.part) for part in study.telling for table in part.tables
              for scheme in table.schemes
              if scheme.selection == "priority" and scheme.cost[HALF] is not None]
    refuted = sum(no for _, no, _ in orders)
    hold = sum(yes and not no for yes, no, _ in orders)
    claim.add(f"in order {hold} of {len(orders)}, refuted {refuted}; random costs more than full "
              f"recovery from full checkpoints in {sum(worse for _, _, worse in orders)}")
    silent(study, claim)
    if enough(study, claim):
        claim.decide(refuted == 0 and 0 < 9 * len(orders) <= 10 * hold)


def reach(claim: Claim, parts: list[Part], selection: str, wanted: float = CLAIMED) -> bool:
    """Half lost and r = 1/8: every problem's mean is at the wanted one at least, at some C"""
    reached, best = 0, -math.inf
    for part in parts:
        less = [(table.period, table.less(selection, 8, HALF)) for table in part.tables]
        claim.add(f"{part.problem}:" + "".join(
            f" C={period} {100 * f.mean:.0f} % [{100 * f.low:.0f}, {100 * f.high:.0f}]"
            for period, f in less), between="; ")
        reached += any(f.mean >= wanted for _, f in less)
        best = max([best, *(f.mean for _, f in less)])
    claim.add(f". {reached} of {len(parts)} reach it; the best mean is {100 * best:.0f} %")
    return 0 < reached == len(parts)


def judge_headline(study: Study, claim: Claim) -> None:
    all_reach = reach(claim, study.telling, "priority")
    silent(study, claim)
    if enough(study, claim):
        claim.decide(all_reach)


def beside(claim: Claim, parts: list[Part], selection: str, other: str) -> tuple[int, int]:
    """Half lost and r = 1/8: problems in which this costs surely less at some C, and those in which it costs
    surely more at some"""
    worse = better = 0
    for part in parts:
        more = [normal(a - b for a, b in zip(table.costs(selection, 8, HALF),
                                             table.costs(other, 8, HALF), strict=True))
                for table in part.tables]
        worse += any(one.low > 0 for one in more)
        better += any(one.high < 0 for one in more)
    claim.add(f". Against {other}: {better} problems better at some C, {worse} worse")
    return better, worse


def judge_moved(selection: str, other: str, wanted: float) -> Callable[[Study, Claim], None]:
    """Every problem reaches what is wanted; beside the other scheme each is better at some C, and none worse"""
    def judge(study: Study, claim: Claim) -> None:
        parts = [part for part in study.telling if part.tables[-1].has(selection)]
        if not any(table.has(selection) for _, table in study.tables):
            claim.cannot("it was not tried")
            return
        all_reach = reach(claim, parts, selection, wanted)
        better, worse = beside(claim, parts, selection, other)
        silent(study, claim)
        if enough(study, claim):
            claim.decide(all_reach and worse == 0 and better == len(parts))
    return judge


def judge_frame(study: Study, claim: Claim) -> None:
    by_name = {part.problem: part for part in study.parts}
    if not {"pixels", "framed"} <= set(by_name):
        claim.cannot("the preset has not both problems")
        return
    higher = apart = 0
    tables = list(zip(by_name["pixels"].tables, by_name["framed"].tables, strict=True))
    for plain, framed in tables:
        a, b = (one.less("priority", 8, HALF) for one in (plain, framed))
        claim.add(f"C={plain.period}: {100 * a.mean:.0f} % [{100 * a.low:.0f}, {100 * a.high:.0f}], framed "
                  f"{100 * b.mean:.0f} % [{100 * b.low:.0f}, {100 * b.high:.0f}]", between="; ")
        higher += b.mean > a.mean
        apart += b.low > a.high
    if enough(study, claim):
        claim.decide(higher == len(tables) and apart > 0)


def judge_bytes(study: Study, claim: Claim) -> None:
    most = max(abs(scheme.bytes - 1) for _, table in study.tables for scheme in table.schemes
               if scheme.selection != "nothing" and not scheme.selection.startswith("int8"))
    claim.add(f"floats saved an iteration: {100 * most:.2f} % off at most")
    claim.decide(most <= BYTES_TOLERANCE)


def judge_cheap(_: Study, claim: Claim) -> None:
    claim.cannot("it is a matter of rates: src/checkpoint/README.md has them")


def judge_live(study: Study, claim: Claim) -> None:
    if not study.live:
        claim.cannot("no server was killed; --live with --preset short or seed-paper does")
        return
    for one in study.live:
        f = one.mean
        claim.add(f"{one.problem}, {one.recovery}: {one.kills} kills, cost {f.mean:.2f} "
                  f"[{f.low:.2f}, {f.high:.2f}], {one.unlike} unlike the study, {one.changed} "
                  f"survivors changed, {one.strange} strange, {one.late} late", between="; ")
    good = all(one.unlike + one.changed + one.strange + one.late == 0 for one in study.live)
    cost = {(one.problem, one.recovery): one.mean.mean for one in study.live}
    less = all(cost[problem, "partial"] < cost[problem, "full"] for problem, _ in cost)
    claim.decide(good and less)


CLAIMS: tuple[tuple[str, str, str, Callable[[Study, Claim], None]], ...] = (
    ("S1", "the cost of a perturbation is bounded",
     "linear convergence: cost at most bound + 1 in each of 1,000 perturbations; adversarial ones "
     "within 20 % of it", judge_bound),
    ("S2", "partial recovery throws less far: by the fraction p lost, in squares",
     "never further than full recovery; mean ratio of squares is p within sampling error (99.9 %)",
     judge_norm),
    ("S3", "partial recovery costs less, the less is lost: by 59-89, 31-62 and 12-42 % for 1/4, "
     "1/2 and 3/4",
     "in every problem that tells: reduction grows as less is lost, and every interval reaches the "
     "published range or is above it",
     judge_partial),
    ("S4", "at equal bytes priority costs at most what round-robin does, and that at most what "
     "random does",
     "half lost, problems that tell: by means nearly always (9 of 10), and no interval of a difference "
     "says otherwise",
     judge_order),
    ("S5", "partial recovery from priority checkpoints, r = 1/8, half lost: 78-95 % less cost than "
     "full recovery from full checkpoints",
     "the mean of every problem that tells is at 78 % at least, at some C", judge_headline),
    ("S6", "a prioritized checkpoint writes as much as full ones every C", "within 1 %",
     judge_bytes),
    ("S7", "selecting and copying is cheap and never stalls training",
     "training rate at least 0.97 of without", judge_cheap),
    ("S8", "live: survivors keep their values, the lost shard comes back from the running "
     "checkpoint, the target is reached with few iterations more",
     "1 of 4 servers killed, 20 times and both ways for each model: weights are the study's "
     "before, survivors' the same bits after, the lost ones of states that were, the target "
     "reached; partial costs less than full", judge_live),
    ("S9", "ours: the same with lost blocks extrapolated to the last turn: 78 % less at "
     "least",
     "the mean of every problem that tells and whose floats move is at 78 % at least, at some C; beside "
     "priority alone each is better at some C, by the whole interval of the difference, and none worse at "
     "any", judge_moved("extrapolated", "priority", CLAIMED)),
    ("S10", "an empty border, as MNIST's images have, makes part of the effect",
     "half lost, r = 1/8: with a border of 4 black pixels the mean is higher at each C, and intervals are "
     "apart at one", judge_frame),
    ("S11", "ours: the same from int8 deltas, in as many bytes: 83 % less at least",
     "the mean of every problem that tells and whose floats move is at 83 % at least, at some C; beside "
     "priority each is better at some C, by the whole interval of the difference, and none worse at any",
     judge_moved("int8", "priority", 0.83)),
    ("S12", "ours: int8 deltas, and lost blocks extrapolated to the last turn: 95 % less at least",
     "the same at 95 %, beside extrapolated", judge_moved("int8-extrapolated", "extrapolated", 0.95)),
)


def all_claims(study: Study) -> list[Claim]:
    return judge_all(CLAIMS, study)
