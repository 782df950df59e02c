#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""replay_compare.py -- what a queue of gradients is worth when its server is back

Trains the CNN on Fashion-MNIST to an early, a middle and a late point, from there kills the only
server for as long as it takes to queue 240 gradients (the published backlog), and compares
the test loss just before the kill with the one just after the queue is applied, for each replay
policy, with the same seeds. Between the two looks lie also the push in flight and a few ordinary
steps; the first row, where workers wait and nothing is queued, shows what these do. Prints a
Markdown table; --csv has every run.

example: tools/replay_compare.py --outlast build/release/outlast --seeds 5
"""
import argparse
import concurrent.futures
import csv
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

POLICIES = {
    "nothing queued (wait)": ["--outage=wait"],  # what a few ordinary steps do by themselves
    "mean": ["--replay=mean"],
    "sum (published)": ["--replay=sum"],
    "each": ["--replay=each"],
    "clip": ["--replay=clip"],
    "staleness": ["--replay=staleness"],
    "mean, local progress": ["--replay=mean", "--local-progress=true"],
}
POINTS = {"early": 50, "middle": 1000, "late": 5000}  # steps; the kill is a second later
LIMIT = 5.0  # % that the loss may rise


def run(outlast, args):
    """One job; its report. A job that fails ends the comparison with what it said."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        done = subprocess.run([outlast, "train", *args, "--json", report.name],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"replay_compare: {' '.join(done.args)}: {done.stderr.strip()[-400:]}")
        return json.load(open(report.name, encoding="utf-8"))


def base_make(opts, folder, seed, steps):
    where = folder / f"base-{seed}-{steps}"
    run(opts.outlast, [f"--seed={seed}", f"--steps={steps}", f"--workers={opts.workers}",
                       "--eval-every=0", "--durability=checkpoint",
                       f"--checkpoint=every={steps}steps,dir={where}"])
    return where


def one(opts, folder, policy, point, seed, base):
    where = folder / f"run-{list(POLICIES).index(policy)}-{point}-{seed}"
    shutil.copytree(base, where)
    report = run(opts.outlast, [
        f"--seed={seed}", f"--workers={opts.workers}", "--resume", f"--seconds={opts.down + 3}",
        f"--pace={opts.pace / opts.workers}", "--eval-every=0", "--durability=checkpoint",
        f"--checkpoint=every=1000000steps,dir={where}", "--outage=continue", "--restore=mirror",
        f"--kill=server0@1s:down={opts.down}s", "--local-progress=false", *POLICIES[policy]])
    shutil.rmtree(where)
    outage = report["outages"][0]
    return {"policy": policy, "point": point, "seed": seed, "workers": opts.workers,
            "queued": report["gradients_queued"], "lost": report["gradients_lost"],
            "loss_before": outage["loss_before"], "loss_after": outage["loss_after"],
            "accuracy_before": outage["accuracy_before"],
            "accuracy_after": outage["accuracy_after"],
            "rate_before": report["workers_rate_before"],
            "rate_outage": report["workers_rate_outage"]}


def change(row):
    if row["loss_after"] is None:  # not finite
        return float("inf")
    return 100 * (row["loss_after"] / row["loss_before"] - 1)


def table(rows):
    print("| policy | kill | loss before | loss after | change, mean | change, worst | accuracy | "
          f"never over +{LIMIT:.0f} % |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for policy in dict.fromkeys(r["policy"] for r in rows):
        for point in POINTS:
            part = [r for r in rows if r["policy"] == policy and r["point"] == point]
            if not part:
                continue
            worst = max(change(r) for r in part)
            after = [r["loss_after"] for r in part]
            mean_after = (sum(after) / len(after)) if None not in after else float("inf")
            moved = sum(r["accuracy_after"] - r["accuracy_before"] for r in part) / len(part)
            print(f"| {policy} | {point} | "
                  f"{sum(r['loss_before'] for r in part) / len(part):.3f} | {mean_after:.3f} | "
                  f"{sum(change(r) for r in part) / len(part):+.1f} % | {worst:+.1f} % | "
                  f"{moved:+.3f} | {'yes' if worst <= LIMIT else 'no'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outlast", default="build/release/outlast", help="the program")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--pace", type=float, default=40,
                        help="gradients a second: the fewer, the fewer ordinary steps between the "
                             "two looks")
    parser.add_argument("--down", type=int, default=6, help="seconds without a server")
    parser.add_argument("--policies", default=";".join(POLICIES), help="with semicolons between")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--csv", help="file for every run")
    opts = parser.parse_args()
    policies = opts.policies.split(";")
    if not set(policies) <= set(POLICIES):
        parser.error(f"--policies: of {';'.join(POLICIES)}")
    if shutil.which(opts.outlast) is None:
        parser.error(f"no program {opts.outlast}: build it, or give --outlast")
    rows = []
    with tempfile.TemporaryDirectory() as name, \
            concurrent.futures.ThreadPoolExecutor(opts.jobs) as pool:
        folder = pathlib.Path(name)
        wanted = [(seed, point) for point in POINTS for seed in range(1, opts.seeds + 1)]
        bases = dict(zip(wanted, pool.map(
            lambda w: base_make(opts, folder, w[0], POINTS[w[1]]), wanted)))
        todo = [(p, point, seed) for p in policies for seed, point in wanted]
        for count, row in enumerate(pool.map(
                lambda t: one(opts, folder, t[0], t[1], t[2], bases[t[2], t[1]]), todo)):
            rows.append(row)
            print(f"replay_compare: {count + 1} of {len(todo)} runs", end="\r", file=sys.stderr)
    print(file=sys.stderr)
    if opts.csv:
        with open(opts.csv, "w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
    table(rows)


if __name__ == "__main__":
    main()
