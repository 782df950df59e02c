# SPDX-License-Identifier: BSD-3-Clause
"""The published claims, judged by fixed criteria.

"Dynamic Backup Workers for Parallel Machine Learning" (arXiv 2004.14696), claims numbered as the
project's study of it does. The thresholds below were fixed beforehand.
"""
import math
from collections.abc import Callable

from ..claims import TRIALS_MIN, Claim, judge_all
from ..stats import Interval, moments, ratio, student
from . import late
from .data import ADASYNC, BLIND, DBW, GRID_DEPTH, Cell, Setting, Study

TIME_STEPS_MIN = 36000
PSI_TOLERANCE, PSW_TOLERANCE = 0.01, 0.02
ALL_SHARE_MIN, ALL_TIME_MAX = 0.9, 1.05
STATIC_N_MIN = 2.0  # D5: "far better than static n"
TUNED_MAX = 1.2  # D7
HEADLINE_MIN = 2.0  # D9, D11
EVERYWHERE_MIN = 0.95  # D12
SLOW_STEPS_MAX, SLOW_STEP_MAX, SLOW_ALL_MIN = 50.0, 1.5, 4.0


def enough(study: Study, claim: Claim) -> bool:
    if study.seeds >= TRIALS_MIN and not study.quick:
        return True
    claim.cannot("fewer than 5 seeds, or not all settings: --preset quick is a trial")
    return False


def shown(f: Interval) -> str:
    return f"{f.mean:.2f} ({f.low:.2f} to {f.high:.2f})"


def mean(values: list[float]) -> float:
    return moments(values).mean


def judge_times(study: Study, claim: Claim) -> None:
    psi = max(abs(one.psi / one.psi_exact - 1) for one in study.times)
    psw = max((abs(one.psw / one.psw_known - 1) for one in study.times
               if one.psw_known is not None), default=0.0)
    claim.add(f"largest deviation of {len(study.times)} means of {study.time_steps} steps: push "
              f"and interrupt {100 * psi:.2f} % from the closed form, push and wait "
              f"{100 * psw:.2f} % from the known table")
    if study.time_steps < TIME_STEPS_MIN:
        claim.cannot("means of so few steps are not known to 1 %")
    else:
        claim.decide(psi <= PSI_TOLERANCE and psw <= PSW_TOLERANCE)


def judge_estimators(_: Study, claim: Claim) -> None:
    claim.cannot("it is a property of the estimators by themselves: unit-policy-gain, "
                 "unit-policy-times")


def judge_even(study: Study, claim: Claim) -> None:
    held = True
    for setting in (one for one in study.grid if one.alpha <= 0):
        dbw = setting.cell(DBW)
        share = student(dbw.all_share)
        time = ratio(dbw.time[GRID_DEPTH], setting.all.time[GRID_DEPTH])
        claim.add(f"B={setting.batch} lr={setting.lr:g}: k = n in {100 * share.mean:.0f} % of "
                  f"steps, time {shown(time)} of k = n; ")
        held = held and share.mean >= ALL_SHARE_MIN and time.mean <= ALL_TIME_MAX
    if enough(study, claim):
        claim.decide(held)


def judge_uneven(study: Study, claim: Claim) -> None:
    held = True
    for setting in (one for one in study.grid if one.alpha >= 1):
        best, of_all = setting.speed(), setting.faster(setting.all)
        claim.add(f"B={setting.batch} lr={setting.lr:g}: as fast as the best static {shown(best)}, "
                  f"as k = n {shown(of_all)}; ")
        held = held and best.high >= 1 and of_all.low >= STATIC_N_MIN
    if enough(study, claim):
        claim.decide(held)


def smaller(study: Study, large: Setting) -> Setting | None:
    """The same setting with the small batch; None: there is none."""
    return next((one for one in study.grid if one.batch < large.batch and
                 (one.alpha, one.lr) == (large.alpha, large.lr)), None)


def judge_adaptive(study: Study, claim: Claim) -> None:
    uneven = [one for one in study.grid if one.alpha > 0]  # at 0 k is n from beginning to end
    early, late = ([mean(getattr(one.cell(DBW), key)) for one in uneven]
                   for key in ("k_early", "k_late"))
    rises = sum(b > a for a, b in zip(early, late))
    pairs = [(one, small) for one in uneven if (small := smaller(study, one)) is not None]
    smaller_k = sum(mean(one.cell(DBW).k_mean) < mean(small.cell(DBW).k_mean)
                    for one, small in pairs)
    claim.add(f"median k in the first quarter of steps {mean(early):.1f}, in the last "
              f"{mean(late):.1f}, mean of {len(uneven)} settings with alpha > 0; it rises in "
              f"{rises} of them; k is smaller with the larger batch in {smaller_k} of {len(pairs)}")
    if enough(study, claim):
        claim.decide(4 * rises >= 3 * len(uneven) and 4 * smaller_k >= 3 * len(pairs))


def worst_of(study: Study, index: int) -> tuple[float, Setting]:
    """The largest factor by which a method is slower than the best static, over the grid."""
    def slower(setting: Setting) -> float:
        return ratio(setting.cells[index].time[GRID_DEPTH], setting.best().time[GRID_DEPTH]).mean

    where = max(study.grid, key=slower)
    return slower(where), where


def judge_tuned(study: Study, claim: Claim) -> None:
    cells = study.grid[0].cells
    dbw, where = worst_of(study, [cell.method for cell in cells].index(DBW))
    least, best = min((worst_of(study, i)[0], i) for i, cell in enumerate(cells) if cell.k > 0)
    within = sum(1 / setting.speed().mean <= TUNED_MAX for setting in study.grid)
    claim.add(f"DBW is within 20 % of the best static k in {within} of {len(study.grid)} settings, "
              f"at worst {dbw:.2f} times as slow ({where.name}); of static k the one whose worst "
              f"is least, k = {cells[best].k}, is up to {least:.2f} times as slow")
    if enough(study, claim):
        claim.decide(dbw <= TUNED_MAX < least)


def judge_slow(study: Study, claim: Claim) -> None:
    held = True
    for slow in study.slows:
        before, after, steps = (mean(getattr(slow, key))
                                for key in ("k_before", "k_after", "steps_to_half"))
        dbw = ratio(slow.step_after, slow.step_before)
        of_all = ratio(slow.all_after, slow.all_before)
        claim.add(f"alpha={slow.alpha:g}: k {before:.1f} before, {after:.1f} after, {steps:.0f} "
                  f"steps until k <= 9; a step takes {shown(dbw)} times as long after as before, "
                  f"that of k = n {shown(of_all)}; ")
        # with equal times k is n before; with uneven ones the loss has a say in it
        if slow.alpha <= 0:
            half = study.workers // 2
            held = held and before >= study.workers - 1 and abs(after - half) <= 1
        held = (held and steps <= SLOW_STEPS_MAX and dbw.mean <= SLOW_STEP_MAX and
                of_all.mean >= SLOW_ALL_MIN)
    if enough(study, claim):
        claim.decide(held)


def judge_most(study: Study, claim: Claim, scaled: bool) -> None:
    everywhere = [(setting, depth) for setting in study.settings for depth in range(setting.depths)
                  if (setting.group == "scaled") == scaled]
    if not everywhere:
        claim.cannot("not all settings: --preset quick is a trial")
        return
    where, depth = max(everywhere, key=lambda at: at[0].speed(at[1]).mean)
    most = where.speed(depth)
    claim.add(f"at most {shown(most)} times as fast as the best static k "
              f"({where.best(depth).method}), at {where.name}, target {study.depths[depth]:g}")
    if enough(study, claim):
        claim.decide(most.mean >= HEADLINE_MIN and most.low > 1)


def judge_headline(study: Study, claim: Claim) -> None:
    judge_most(study, claim, False)


def judge_scaled(study: Study, claim: Claim) -> None:
    judge_most(study, claim, True)


def judge_everywhere(study: Study, claim: Claim) -> None:
    judged = [one for one in study.settings if one.group in ("grid", "other")]
    speeds = {one.name: one.speed(one.depths - 1) for one in judged}
    least = min(speeds, key=lambda name: speeds[name].mean)
    enough_there = sum(speed.mean >= EVERYWHERE_MIN for speed in speeds.values())
    claim.add(f"in {enough_there} of {len(judged)} settings; least {shown(speeds[least])}, at {least}")
    for one in judged:
        if one.group == "other":
            claim.add(f"{one.name}: {shown(speeds[one.name])} (best {one.best(one.depths - 1).method})", "; ")
    if enough(study, claim):
        claim.decide(enough_there == len(judged))


def against(study: Study, of: Callable[[Setting], Cell]) -> Interval:
    """How many times as fast DBW is, over the grid; a seed is one value."""
    logs = [mean([math.log(of(setting).time[GRID_DEPTH][seed] /
                           setting.cell(DBW).time[GRID_DEPTH][seed]) for setting in study.grid])
            for seed in range(study.seeds)]
    f = student(logs)
    return Interval(math.exp(f.mean), math.exp(f.low), math.exp(f.high))


def judge_ablation(study: Study, claim: Claim) -> None:
    blind, of_all, best = (against(study, of) for of in (
        lambda one: one.cell(BLIND), lambda one: one.all, lambda one: one.best()))
    adas = {cell.method: against(study, lambda one, name=cell.method: one.cell(name))
            for cell in study.grid[0].adasyncs}
    claim.add(f"over the grid, geometric means, {study.seeds} seeds: DBW is {shown(blind)} times "
              f"as fast as blind DBW, {shown(of_all)} as k = n, "
              f"{shown(best)} as the best static k of each setting; as AdaSync by its k at first, in sixteenths of "
              "the workers: " + ", ".join(f"{name.removeprefix(ADASYNC)}: {shown(ada)}" for name, ada in adas.items()))
    if enough(study, claim):
        claim.decide(blind.low > 1 and all(ada.low > 1 for ada in adas.values()))


CLAIMS: tuple[tuple[str, str, Callable[[Study, Claim], None]], ...] = (
    ("the time model",
     "push and interrupt within 1 % of the closed form, push and wait within 2 % of the known "
     "means", judge_times),
    ("unbiased estimators of V, N and L", "within 2 %, 2 % and 10 % of the truth",
     judge_estimators),
    ("a constrained estimate of times", "both orders hold; plain means where these hold them",
     judge_estimators),
    ("equal times: DBW waits for all",
     "alpha 0: k = n in 90 % of steps, time to the target at most 1.05 of k = n", judge_even),
    ("very uneven times: DBW is as fast as the best static k",
     "alpha 1: not slower than the best static k by more than noise, at least twice as fast as "
     "k = n", judge_uneven),
    ("k grows as the loss falls, and is smaller for larger batches",
     "in at least 3 of 4 settings with alpha > 0 each", judge_adaptive),
    ("no tuning",
     "within 20 % of the best static k in every setting of the grid; no static k is", judge_tuned),
    ("half of the workers become 5 times slower",
     "equal times: k from n to n / 2; k <= 9 within 50 steps; steps at most 1.5 times as long as "
     "before, those of k = n at least 4 times", judge_slow),
    ("up to 3 times as fast as the best static k",
     "at least 2 times somewhere, and more than 1 beyond doubt", judge_headline),
    ("the gain matters",
     "over the grid faster than blind DBW and than AdaSync with each k at first, beyond doubt", judge_ablation),
    ("the same where a static k has k / n of the learning rate",
     "at least 2 times somewhere, and more than 1 beyond doubt", judge_scaled),
    ("nowhere much worse than the best static k, on data and models that nothing was chosen with too",
     "at least 0.95 times as fast in every setting of the grid and of the other problems", judge_everywhere),
)


def all_claims(study: Study) -> list[Claim]:
    return [*judge_all(((f"D{i + 1}", *one) for i, one in enumerate(CLAIMS)), study),
            *judge_all(late.CLAIMS, study.lates)]
