#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What gradients of fewer bytes cost in training: loss after some thousand steps beside fp32, over seeds.

Two synchronous workers train the same model from the same weights on the same batches; only the
format of their gradients differs. Of each seed the loss on the test set is compared with that of
fp32 of the same seed.

Criteria, written before the first run: at 5,000 steps and seeds 11 to 15 the 95 % interval of the mean
relative difference of the test loss (Student's t, 4 degrees of freedom) lies below +1 % for bf16 and
fp16, and below +2 % for int8; a push has at most 0.51 (bf16, fp16) and 0.26 (int8) of the bytes of fp32,
its header included. Seeds 1 to 5 are for trying the script.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
T95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
FORMATS = ("fp32", "bf16", "fp16", "int8")
BOUNDS = {"bf16": (0.01, 0.51), "fp16": (0.01, 0.51), "int8": (0.02, 0.26)}
HEADER = 64


def payload(kind: str, floats: int) -> int:
    """Bytes of a gradient on the wire, as src/wire/format.h has them."""
    if kind == "int8":
        whole, rest = divmod(floats, 4096)
        return 4160 * whole + (64 + -(-rest // 64) * 64 if rest else 0)
    return -(-floats * (4 if kind == "fp32" else 2) // 64) * 64


def train(options: argparse.Namespace, kind: str, seed: int, folder: str) -> dict:
    report = pathlib.Path(folder) / "report.json"
    words = [options.program, "train", "--model", options.model, "--dataset", options.dataset,
             "--seed", str(seed), "--consistency", "sync", "--workers", "2", "--batch", "32",
             "--lr", str(options.lr), "--optimizer", options.optimizer,
             "--steps", str(options.steps), "--eval-every", "0", "--gradient-format", kind,
             "--json", str(report)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"formats.py: {' '.join(words)}: {done.stderr.strip()}")
    return json.loads(report.read_text())


def interval(values: list[float]) -> tuple[float, float]:
    """Mean, and half of the 95 % interval."""
    half = T95[len(values) - 1] * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.mean(values), half


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: tools/bench/formats.py --steps 500 --seeds 1,2,3")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--seeds", default="11,12,13,14,15")
    parser.add_argument("--model", default="mlp:128")
    parser.add_argument("--dataset", default="synthetic:shape=28x28,train=8000,test=2000,noise=4")
    parser.add_argument("--optimizer", default="momentum")
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--program", default=os.environ.get(
        "OUTLAST_BIN", str(ROOT / "build" / "release" / "outlast")))
    parser.add_argument("--json", help="write all figures to this file")
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    if not 2 <= len(seeds) <= 10:
        parser.error("--seeds: two to ten of them")

    runs: dict[str, list[dict]] = {kind: [] for kind in FORMATS}
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            for kind in FORMATS:
                print(f"seed {seed}, {kind} ...", file=sys.stderr)
                runs[kind].append(train(options, kind, seed, folder))
    floats = runs["fp32"][0]["param_count"]
    whole = HEADER + payload("fp32", floats)
    losses = {kind: [run["test_loss"] for run in runs[kind]] for kind in FORMATS}
    print(f"{options.model}, {floats} parameters, {options.steps} steps, {len(seeds)} seeds")
    print(f"{'format':8} {'bytes a push':>12} {'of fp32':>8} {'test loss':>18} "
          f"{'accuracy':>9} {'loss beside fp32':>22}")
    good, figures = True, {}
    for kind in FORMATS:
        mean, half = interval(losses[kind])
        change, about = interval([loss / base - 1 for loss, base in
                                  zip(losses[kind], losses["fp32"])])
        share = (HEADER + payload(kind, floats)) / whole
        accuracy = statistics.mean(run["test_accuracy"] for run in runs[kind])
        beside = "" if kind == "fp32" else f"{100 * change:+.2f} % +- {100 * about:.2f} %"
        print(f"{kind:8} {HEADER + payload(kind, floats):12} {share:8.3f} "
              f"{mean:9.4f} +- {half:.4f} {accuracy:9.4f} {beside:>22}")
        figures[kind] = {"losses": losses[kind], "share": share, "change": change, "about": about}
        if kind in BOUNDS:
            good = good and change + about < BOUNDS[kind][0] and share <= BOUNDS[kind][1]
    print("criteria: " + ("met" if good else "NOT met"))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
