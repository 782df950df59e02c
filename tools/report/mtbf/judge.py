# SPDX-License-Identifier: BSD-3-Clause
"""Claims of this project, judged by fixed criteria. They were fixed before the seeds that judge were run. M1 to M4 are
about what the model says, M5 to M7 about what real processes do."""
from ..claims import TRIALS_MIN, Claim, judge_all
from ..stats import moments, student
from .data import HALF, LADDER, LONG_S, Study

SERVERS = 64  # that M1 and M2 are about
CHAIN_MIN, STATELESS_MIN, STATELESS_PART = 0.99, 0.97, 0.25  # M1, M2
WITHIN = 0.002  # M3: noise
FORMULA_MOST = 1.1  # M4
LIVE_WITHIN, LIVE_SEEDS_MIN = 0.04, 2  # M5
RUNGS = {"ladder-1": ("checkpoint", "priority", "mirror", "stateless")}  # M7: and what each is to be at or above
RUNGS["ladder-2"] = (*RUNGS["ladder-1"], "chain-2", "chain-2-continue")
RUNGS["ladder-3"] = (*RUNGS["ladder-2"], "chain-3")
RUNG_WITHIN = 0.02  # noise of one live run
ORDER = (("checkpoint", "priority"), ("mirror", "stateless"), ("stateless", "ladder-1"), ("chain-2-continue", "ladder-2"),
         ("chain-3", "ladder-3"))  # M6
SINGLE = ("none", "checkpoint-stop", "checkpoint", "priority", "mirror", "stateless", "chain-2", "chain-3",
          "chain-2-continue")
CHAINS = ("chain-2", "chain-3", "chain-2-continue")


def enough(study: Study, claim: Claim) -> bool:
    return claim.enough(study.trials, "trainings of a cell", 2 * TRIALS_MIN)


def judge_chains(study: Study, claim: Claim) -> None:
    table = study.table(SERVERS)
    if table is None:
        claim.cannot(f"no job of {SERVERS} servers was asked for")
        return
    ratios = {name: table.cell(name, LONG_S).ratio for name in CHAINS}
    claim.add("; ".join(f"{name} {f.mean:.4f} ({f.low:.4f} to {f.high:.4f})" for name, f in ratios.items()))
    if enough(study, claim):
        claim.decide(all(f.mean >= CHAIN_MIN for f in ratios.values()))


def judge_stateless(study: Study, claim: Claim) -> None:
    table = study.table(SERVERS)
    if table is None:
        claim.cannot(f"no job of {SERVERS} servers was asked for")
        return
    goes_on, waits = (table.cell(name, LONG_S).ratio for name in ("stateless", "mirror"))
    claim.add(f"stateless {goes_on.mean:.4f} ({goes_on.low:.4f} to {goes_on.high:.4f}), mirror {waits.mean:.4f}: it loses "
              f"{(1 - goes_on.mean) / (1 - waits.mean):.2f} of what waiting does")
    if enough(study, claim):
        claim.decide(goes_on.mean >= STATELESS_MIN and 1 - goes_on.mean <= STATELESS_PART * (1 - waits.mean))


def judge_ladder(study: Study, claim: Claim) -> None:
    worst, where = 1.0, ""
    for table in (one for one in study.tables if one.job["everything"]):
        for mtbf in table.mtbfs:
            ladder = table.cell(LADDER, mtbf).ratio.mean
            for name in SINGLE:
                more = ladder - table.cell(name, mtbf).ratio.mean
                if more < worst:
                    worst, where = more, f"{name}, {table.name}, M = {mtbf:g} s"
    if not where:
        claim.cannot("no failure takes everything in these tables")
        return
    claim.add(f"ladder less the best other: at worst {worst:+.4f} ({where})")
    if enough(study, claim):
        claim.decide(worst >= -WITHIN)


def judge_formula(study: Study, claim: Claim) -> None:
    worst, where = 0.0, 0.0
    for mtbf in dict.fromkeys(one.mtbf_s for one in study.intervals):
        ratios = {one.factor: moments(one.ratios).mean for one in study.intervals if one.mtbf_s == mtbf}
        more = (1 - ratios[1.0]) / (1 - max(ratios.values())) if max(ratios.values()) < 1 else 1.0
        if max(ratios.values()) >= HALF and more >= worst:
            worst, where = more, mtbf
    claim.add(f"it loses at worst {worst:.2f} times what the best of five intervals does (M = {where:g} s)")
    if enough(study, claim):
        claim.decide(worst <= FORMULA_MOST)


def judge_live(study: Study, claim: Claim) -> None:
    if study.live is None:
        claim.cannot("no real process was started: --live")
        return
    off = {}
    for name in study.live.methods:
        rows = study.live.of(name)
        off[name] = student(abs(row.live - row.model) for row in rows).mean
    claim.add("; ".join(f"{name} {less:.3f}" for name, less in off.items()))
    if claim.enough(min(len(study.live.of(name)) for name in off), "live seeds", LIVE_SEEDS_MIN):
        claim.decide(all(less <= LIVE_WITHIN for less in off.values()))


def judge_order(study: Study, claim: Claim) -> None:
    if study.live is None:
        claim.cannot("no real process was started: --live")
        return
    mean = {name: moments(row.live for row in study.live.of(name)).mean for name in study.live.methods}
    claim.add("; ".join(f"{name} {ratio:.3f}" for name, ratio in mean.items()))
    if claim.enough(min(len(study.live.of(name)) for name in mean), "live seeds", LIVE_SEEDS_MIN):
        claim.decide(all(mean[less] < mean[more] for less, more in ORDER))


def judge_rungs(study: Study, claim: Claim) -> None:
    if study.live is None:
        claim.cannot("no real process was started: --live")
        return
    mean = {name: moments(row.live for row in study.live.of(name)).mean for name in study.live.methods}
    for rung, others in RUNGS.items():
        best = max(others, key=mean.__getitem__)
        claim.add(f"{rung} {mean[rung]:.3f}, {best} {mean[best]:.3f}")
    if claim.enough(min(len(study.live.of(rung)) for rung in RUNGS), "live seeds", LIVE_SEEDS_MIN):
        claim.decide(all(mean[rung] >= mean[name] - RUNG_WITHIN for rung, others in RUNGS.items() for name in others))


CLAIMS = (
    ("M1", f"with chains at least {CHAIN_MIN} of the time is useful, at a failure each 20 minutes and {SERVERS} servers",
     f"mean of each of {', '.join(CHAINS)} >= {CHAIN_MIN}", judge_chains),
    ("M2", f"stateless: at least {STATELESS_MIN}, and much of what waiting costs is saved",
     f"mean >= {STATELESS_MIN}, and 1 - mean at most {STATELESS_PART} of mirror's", judge_stateless),
    ("M3", "where failures can take everything, the ladder is at or above every single strategy",
     f"mean of the ladder >= that of each other - {WITHIN}, each mean time between failures and size", judge_ladder),
    ("M4", "Young's and Daly's interval is a good one for full checkpoints",
     f"1 - ratio at most {FORMULA_MOST} times that of the best of 1/4, 1/2, 1, 2 and 4 times it, where the ratio is >= {HALF}",
     judge_formula),
    ("M5", "real processes have the ratio that the model says for the same losses",
     f"mean distance of live and model <= {LIVE_WITHIN}, each method", judge_live),
    ("M6", "live: what is gained by blocks, by going on, and by checkpoints beside replicas and mirrors",
     f"means of the same schedules: {', '.join(f'{less} < {more}' for less, more in ORDER)}", judge_order),
    ("M7", "live: with a ladder at or above every single strategy of as many replicas",
     f"mean of each ladder >= that of each strategy with as many replicas or fewer - {RUNG_WITHIN}, the same schedules",
     judge_rungs),
)


def all_claims(study: Study) -> list[Claim]:
    return judge_all(CLAIMS, study)
