# SPDX-License-Identifier: BSD-3-Clause
"""Claims of this project, judged by fixed criteria. They were fixed before the seeds that judge were run."""
from ..claims import TRIALS_MIN, Claim, judge_all
from ..stats import moments, student
from .data import HALF, LADDER, LONG_S, Study

SERVERS = 64  # that M1 to M3 are about
CHAIN_MIN, STATELESS_MIN = 0.99, 0.97  # M1, M2
WITHIN = 0.002  # M3: noise
FORMULA_WITHIN = 0.01  # M4
LIVE_WITHIN, LIVE_SEEDS_MIN = 0.04, 2  # M5
SINGLE = ("none", "checkpoint-stop", "checkpoint", "priority", "mirror", "stateless", "chain-2", "chain-3",
          "chain-2-continue")
CHAINS = ("chain-2", "chain-3", "chain-2-continue")


def enough(study: Study, claim: Claim) -> bool:
    return claim.enough(study.trials, "trainings of a cell", 2 * TRIALS_MIN)


def at_least(study: Study, claim: Claim, names: tuple[str, ...], least: float) -> None:
    table = study.table(SERVERS)
    if table is None:
        claim.cannot(f"no job of {SERVERS} servers was asked for")
        return
    ratios = {name: table.cell(name, LONG_S).ratio for name in names}
    claim.add("; ".join(f"{name} {f.mean:.4f} ({f.low:.4f} to {f.high:.4f})" for name, f in ratios.items()))
    if enough(study, claim):
        claim.decide(all(f.mean >= least for f in ratios.values()))


def judge_chains(study: Study, claim: Claim) -> None:
    at_least(study, claim, CHAINS, CHAIN_MIN)


def judge_stateless(study: Study, claim: Claim) -> None:
    at_least(study, claim, ("stateless",), STATELESS_MIN)


def judge_ladder(study: Study, claim: Claim) -> None:
    worst, where = 1.0, ""
    for table in study.tables:
        for mtbf in table.mtbfs:
            ladder = table.cell(LADDER, mtbf).ratio.mean
            for name in SINGLE:
                more = ladder - table.cell(name, mtbf).ratio.mean
                if more < worst:
                    worst, where = more, f"{name}, {table.name}, M = {mtbf:g} s"
    claim.add(f"ladder less the best other: at worst {worst:+.4f} ({where})")
    if enough(study, claim):
        claim.decide(worst >= -WITHIN)


def judge_formula(study: Study, claim: Claim) -> None:
    worst, where = 0.0, 0.0
    for mtbf in dict.fromkeys(one.mtbf_s for one in study.intervals):
        ratios = {one.factor: moments(one.ratios).mean for one in study.intervals if one.mtbf_s == mtbf}
        less = max(ratios.values()) - ratios[1.0]
        if max(ratios.values()) >= HALF and less >= worst:
            worst, where = less, mtbf
    claim.add(f"at worst {worst:.4f} below the best of five intervals (M = {where:g} s)")
    if enough(study, claim):
        claim.decide(worst <= FORMULA_WITHIN)


def judge_live(study: Study, claim: Claim) -> None:
    if study.live is None:
        claim.cannot("no real process was started: --live")
        return
    off = {}
    for name in study.live.methods:
        rows = study.live.of(name)
        off[name] = student(row.live - row.model for row in rows).mean
    claim.add("; ".join(f"{name} {less:+.3f}" for name, less in off.items()))
    if claim.enough(min(len(study.live.of(name)) for name in off), "live seeds", LIVE_SEEDS_MIN):
        claim.decide(all(abs(less) <= LIVE_WITHIN for less in off.values()))


def judge_order(study: Study, claim: Claim) -> None:
    if study.live is None:
        claim.cannot("no real process was started: --live")
        return
    mean = {name: moments(row.live for row in study.live.of(name)).mean for name in study.live.methods}
    claim.add("; ".join(f"{name} {ratio:.3f}" for name, ratio in mean.items()))
    best = min(mean["chain-2"], mean["chain-3"], mean["chain-2-continue"])
    if claim.enough(min(len(study.live.of(name)) for name in mean), "live seeds", LIVE_SEEDS_MIN):
        claim.decide(mean["checkpoint"] < mean["priority"] and mean["priority"] < best and
                     mean["mirror"] < mean["stateless"] < best)


CLAIMS = (
    ("M1", f"with chains at least {CHAIN_MIN} of the time is useful, at a failure each 20 minutes and {SERVERS} servers",
     f"mean of each of {', '.join(CHAINS)} >= {CHAIN_MIN}", judge_chains),
    ("M2", f"stateless: at least {STATELESS_MIN}", f"mean >= {STATELESS_MIN}", judge_stateless),
    ("M3", "the ladder is at or above every single strategy, at each mean time between failures and size",
     f"mean of the ladder >= that of each other - {WITHIN}", judge_ladder),
    ("M4", "Young's and Daly's interval is a good one for full checkpoints",
     f"ratio at most {FORMULA_WITHIN} below the best of 1/4, 1/2, 1, 2 and 4 times it, where that is >= {HALF}",
     judge_formula),
    ("M5", "real processes have the ratio that the model says for the same losses",
     f"mean of live - model within {LIVE_WITHIN}, each method", judge_live),
    ("M6", "live: checkpoint < priority < chains; mirror < stateless < chains", "means in that order", judge_order),
)


def all_claims(study: Study) -> list[Claim]:
    return judge_all(CLAIMS, study)
