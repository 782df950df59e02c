#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""sessions.py FILE.csv FILE.png -- draws what sessions.sh counted."""

import csv
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    connected = [int(row["connected"]) for row in rows]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
    for column, label in (("step_instructions", "a step"), ("tick_instructions", "a heartbeat")):
        left.plot(connected, [int(row[column]) for row in rows], marker="o", label=label)
    left.set(xscale="log", yscale="log", xlabel="connected workers", ylabel="instructions")
    left.legend()
    right.plot(connected, [int(row["resident_kb"]) / 1024 for row in rows], marker="o")
    right.set(xscale="log", xlabel="connected workers", ylabel="resident MiB", ylim=(0, None))
    figure.tight_layout()
    figure.savefig(sys.argv[2], dpi=150)


if __name__ == "__main__":
    main()
