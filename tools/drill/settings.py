# SPDX-License-Identifier: BSD-3-Clause
"""Settings as drill.c has read them."""
from typing import Any, NoReturn

from .errors import USAGE, Failure

# Settings that every experiment has; the others are those of kills.
COMMON = ("experiment", "preset", "trials", "seed", "live", "job", "out", "json")
PROGRAM = "outlast drill: "


class Settings:
    def __init__(self, rows: dict[str, dict[str, Any]]) -> None:
        self.rows = rows

    def text(self, name: str) -> str | None:
        return self.rows[name]["text"]

    def number(self, name: str) -> float:
        return float(self.rows[name]["text"])

    def integer(self, name: str) -> int:
        return int(self.rows[name]["text"])

    def flag(self, name: str) -> bool:
        return self.rows[name]["text"] == "true"

    def preset(self) -> int:
        return ("quick", "short", "seed-paper").index(self.rows["preset"]["text"])

    def fail(self, name: str, why: str) -> NoReturn:
        """A value that is wrong beside others."""
        raise Failure(USAGE, self.rows[name]["error"].removeprefix(PROGRAM) + why)

    def common_check(self) -> None:
        """None of those of kills alone is another than its default; the file `settings` has all."""
        for name, row in self.rows.items():
            if name not in COMMON and row["given"] and (row["text"] or "") != (row["default"] or ""):
                self.fail(name, "is of --experiment kills only")
        if self.text("job") and self.text("experiment") != "mtbf":
            self.fail("job", "is of --experiment mtbf only")
