# SPDX-License-Identifier: BSD-3-Clause
"""Tables for people, CSV, JSON, costs."""
import math
from typing import Any

from ..claims import Claim
from ..out import Table
from ..stats import Moments, moments
from .data import Case, Drill
from .figures import FIGURES, TABLES

COST_TEXT = """# Costs

| role | price an hour |
| --- | ---: |
| server | %g |
| worker | %g |

Assumptions:

- Prices are settings (`--price-server`, `--price-worker`), in whatever currency they are given. \
The default, 0.095, is about the list price in dollars of the two-processor cloud machine \
(n1-standard-2) of the published configuration.
- Every role has a machine of its own, reserved for the whole run: it costs the same while it \
waits, and while it is down.
- A strategy with replicas pays for each of them. Storage of checkpoints, traffic and the launcher \
cost nothing.
- The time is that of training, without starting up.

"""

README_TEXT = """# A drill

Made by

```
%s
```

| file | what |
| --- | --- |
| `summary.txt`, `summary.md` | the comparison: means and spread over the seeds; the second also \
says what each column is |
| `summary.csv` | one row a run |
| `claims.md` | the published claims, judged by fixed criteria |
| `cost.md` | prices and assumptions |
| `published.md`, `plots/published-kKILLS` | of the published protocol: the published runs beside these |
| `settings` | the settings in force, after preset and scale; `outlast drill --config settings` \
reads it |
| `drill.json` | what was run, and how each run ended |
| `runs/NAME.json` | the report of a run, as `outlast train --json` writes it |
| `runs/NAME.csv` | its time line |
| `runs/NAME.log` | what it said, its summary last |
| `plots/outage-kKILLS-wWORKERS.svg`, `.png` | what an outage costs each asynchronous strategy, \
in one picture |
| `plots/KIND-kKILLS-wWORKERS.svg`, `.png` | accuracy, loss, gradients, utilisation against time |

NAME is strategy, consistency, kills, workers, seed. Every figure is computed from a run's `.json` \
and `.csv`; `outlast drill --report FOLDER` computes all of them anew.

Lines in plots are means over the seeds, dashed where training is synchronous. A dotted vertical \
line is a kill; a vertical line in the colour of a strategy is its first gradient applied after \
the kill.
"""


def case_figure(drill: Drill, case: Case, key: str) -> Moments:
    return moments(run.figure(key) for run in drill.of(case))


def cell(m: Moments, digits: int) -> str:
    if m.count == 0:
        return "-"
    return f"{m.mean:.{digits}f}" + (f" ±{m.sd:.{digits}f}" if m.count > 1 else "")


def case_row(drill: Drill, case: Case, which: int) -> list[str]:
    failed, runs = drill.failed(case), str(len(drill.of(case)))
    if failed > 0:
        runs += f", {failed} FAILED"
    return [case.strategy.name, case.consistency, str(case.kills), str(case.workers), runs,
            *(cell(case_figure(drill, case, f.key), f.digits) for f in FIGURES if f.table == which)]


def table(drill: Drill, which: int) -> Table:
    return Table(["strategy", "consistency", "kills", "workers", "runs",
                  *(f.head for f in FIGURES if f.table == which)],
                 [case_row(drill, case, which) for case in drill.cases])


def beginning(drill: Drill) -> str:
    text, left = "", sum(run.status == "not made" for run in drill.runs)
    if left > 0:
        text = f"{left} of {len(drill.runs)} runs were not made: the drill was ended early.\n\n"
    return text + "Means over the seeds of what is done, ± the standard deviation.\n"


def summary_text(drill: Drill) -> str:
    text = beginning(drill)
    for which, name in enumerate(TABLES):
        text += f"\n{name}\n{table(drill, which).text()}"
    failed = [run for run in drill.runs if run.status == "failed"]
    if failed:
        text += "\nFailed\n" + "".join(f"{run.name}: {run.error}\n" for run in failed)
    return text


def summary_markdown(drill: Drill) -> str:
    text = "# Summary\n\n" + beginning(drill)
    for which, name in enumerate(TABLES):
        text += f"\n## {name}\n\n{table(drill, which).markdown()}"
    failed = [run for run in drill.runs if run.status == "failed"]
    if failed:
        text += "\n## Failed\n\n" + "".join(f"- `{run.name}`: {run.error}\n" for run in failed)
    text += "\n## Strategies\n\n"
    text += "".join(f"- **{one.name}**: {one.what}\n" for one in drill.strategies)
    text += "\n## Columns\n\n"
    return text + "".join(f"- **{f.head}**: {f.what}\n" for f in FIGURES)


def summary_csv(drill: Drill) -> str:
    lines = ["run,strategy,consistency,kills,workers,seed,status,error," +
             ",".join(f.key for f in FIGURES)]
    for run in drill.runs:
        error = run.error.replace('"', '""')
        values = (run.figure(f.key) for f in FIGURES)
        lines.append(f"{run.name},{run.case.strategy.name},{run.case.consistency},"
                     f"{run.case.kills},{run.case.workers},{run.seed},{run.status},\"{error}\"," +
                     ",".join(f"{v:.10g}" if math.isfinite(v) else "" for v in values))
    return "\n".join(lines) + "\n"


def each_cost(drill: Drill, case: Case) -> str:
    """Of 1,000 gradients that are in the weights at the end."""
    applied = case_figure(drill, case, "gradients_applied").mean
    if not applied > 0:
        return "-"
    return f"{1000.0 * case_figure(drill, case, 'cost').mean / applied:.6f}"


def cost_markdown(drill: Drill) -> str:
    costs = Table(["strategy", "consistency", "kills", "workers", "cost of a run",
                   "cost to accuracy 0.70", "cost of 1,000 gradients in the final weights"],
                  [[case.strategy.name, case.consistency, str(case.kills), str(case.workers),
                    cell(case_figure(drill, case, "cost"), 6),
                    cell(case_figure(drill, case, "cost_to_070"), 6), each_cost(drill, case)]
                   for case in drill.cases])
    prices = drill.settings["price_server"], drill.settings["price_worker"]
    return COST_TEXT % prices + costs.markdown()


def readme(drill: Drill) -> str:
    return README_TEXT % drill.command


def case_json(drill: Drill, case: Case) -> dict[str, Any]:
    all_of = {f.key: case_figure(drill, case, f.key) for f in FIGURES}
    return {"strategy": case.strategy.name, "consistency": case.consistency, "kills": case.kills,
            "workers": case.workers, "done": len(drill.of(case)), "failed": drill.failed(case),
            "figures": {key: {"mean": m.mean, "sd": m.sd, "count": m.count}
                        for key, m in all_of.items() if m.count > 0}}


def as_json(drill: Drill, folder: str, claims: list[Claim]) -> dict[str, Any]:
    runs = [{"run": run.name, "status": run.status, "strategy": run.case.strategy.name,
             "consistency": run.case.consistency, "kills": run.case.kills,
             "workers": run.case.workers, "seed": run.seed, "error": run.error,
             "figures": {f.key: run.figure(f.key) for f in FIGURES
                         if math.isfinite(run.figure(f.key))}} for run in drill.runs]
    return {"command": drill.command, "folder": folder,
            "cases": [case_json(drill, case) for case in drill.cases], "runs": runs,
            "claims": [claim.json() for claim in claims]}
